"""Dates, times, durations and decimals between Python and the native module, which has integers and texts for them.

A column of dates is called ``"M8[D]"`` here, one of timestamps ``"M8[us]"`` and of durations ``"m8[us]"`` as in numpy; ``"time[us]"`` and
``"decimal"`` are what numpy lacks.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._arrays import NDArray
from .errors import InvalidError

__all__ = ["SCALARS", "counts", "dressed", "dtype_of", "singles", "text_of"]

#: Python's own.
SCALARS = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)
#: Counts of a second, for the units that are parts of it.
_PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: Seconds of the units that are longer.
_LONGER = {"m": 60, "h": 3600, "D": 86_400, "W": 604_800}


def dtype_of(htype: str, options: dict[str, Any]) -> np.dtype[Any] | None:
    """numpy's type for the samples of a column; None if its samples are none of these."""
    unit = options.get("unit")
    names = {"date": "M8[D]", "timestamp": f"M8[{unit}]", "duration": f"m8[{unit}]", "time": "O", "decimal": "O"}
    name = names.get(htype.removeprefix("sequence[").removesuffix("]"))
    return None if name is None else np.dtype(name)


# From the native module.


def dressed(values: Any, kind: str, timezone: str | None, scale: int) -> Any:
    """Samples of a column, integers so far: an array if they are one, else a list in which missing ones are None."""
    if isinstance(values, np.ndarray) and values.ndim > 0:
        if kind[0] in "mM":
            return values.astype(np.int64, copy=False).view(kind)
        made = np.empty(len(values), object)
        for place, value in enumerate(values.tolist()):
            made[place] = _single(value, kind, timezone, scale)
        return made
    return [_of(value, kind, timezone, scale) for value in values]


def _of(value: Any, kind: str, timezone: str | None, scale: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_of(item, kind, timezone, scale) for item in value]
    return _single(value if isinstance(value, str) else int(value), kind, timezone, scale)


def _single(value: int | str, kind: str, timezone: str | None, scale: int) -> Any:
    if isinstance(value, str):
        return decimal.Decimal(value)
    if kind == "decimal":
        return decimal.Decimal(value).scaleb(-scale)
    if kind[0] in "mM":
        return next(iter(singles(np.array([value], np.int64).view(kind), timezone)))
    unit = kind.removeprefix("time[").removesuffix("]")
    if unit == "ns":
        # Python's times end at microseconds.
        return np.timedelta64(value, "ns")
    micros = value * (10**6 // _PARTS[unit])
    seconds, part = divmod(micros, 10**6)
    return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, part)


def singles(values: NDArray, timezone: str | None) -> Iterable[Any]:
    """numpy's dates and times one by one as Python's own. Nanoseconds and years that Python does not have stay numpy's."""
    zone = None if timezone is None else _zone(timezone)
    for found, own in zip(values, values.astype(object).tolist(), strict=True):
        if not isinstance(own, (datetime.date, datetime.timedelta)):
            yield found
        elif zone is not None and isinstance(own, datetime.datetime):
            yield own.replace(tzinfo=datetime.timezone.utc).astimezone(zone)
        else:
            yield own


@functools.cache
def _zone(name: str) -> datetime.tzinfo:
    if name in ("UTC", "Z", "Etc/UTC"):
        return datetime.timezone.utc
    if found := re.fullmatch(r"([+-])(\d\d):?(\d\d)?", name):
        offset = datetime.timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return datetime.timezone(-offset if found[1] == "-" else offset)
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidError(
            f"the time zone {name!r} is not known here: install tzdata with `pip install tzdata`, or read several rows at once, "
            "which gives times in UTC"
        ) from error


# To the native module.


def counts(values: NDArray, kind: str) -> NDArray | None:
    """numpy's dates or times as integers of a column's kind; None if some are missing, or do not fit exactly."""
    if values.dtype.kind != kind[0] or np.isnat(values).any():
        return None
    made = values.astype(kind)
    # Both ways, since a cast to a finer unit wraps around.
    return made.view(np.int64) if np.array_equal(made.astype(values.dtype), values) and _same_sign(made, values) else None


def _same_sign(one: NDArray, other: NDArray) -> bool:
    return bool(np.array_equal(one.astype(np.int64) < 0, other.astype(np.int64) < 0))


def text_of(value: Any, zoned: bool) -> Any:
    """A date, time, duration or decimal as the text that the native module reads; None if it is missing, False if it is none of these.

    numpy's dates and times have no time zone: for a column that has one they are those of UTC.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return None
        unit = np.datetime_data(value.dtype)[0]
        fine = value.astype("M8[D]") if unit in ("Y", "M", "W") else value.astype("M8[s]") if unit in ("h", "m") else value
        return str(np.datetime_as_string(fine)) + ("Z" if zoned else "")
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else _span(value)
    if isinstance(value, datetime.timedelta):
        micros = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
        # pandas has nanoseconds as well.
        return _duration(micros * 1000 + getattr(value, "nanoseconds", 0), "ns")
    if isinstance(value, (datetime.date, datetime.time)):
        text = value.isoformat()
        return None if text == "NaT" else text
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    # pandas' NaT is no date, and its NA is nothing at all.
    return None if type(value).__name__ in ("NaTType", "NAType") else False


def _span(value: np.timedelta64) -> str:
    unit, step = np.datetime_data(value.dtype)
    count = int(value.astype(np.int64)) * step
    if unit in _LONGER:
        return _duration(count * _LONGER[unit], "s")
    if unit not in _PARTS:
        raise InvalidError(f"a duration in {unit!r} has no fixed length: give it in weeks or less")
    return _duration(count, unit)


def _duration(count: int, unit: str) -> str:
    seconds, part = divmod(abs(count), _PARTS[unit])
    digits = f".{part:0{len(str(_PARTS[unit])) - 1}}" if part else ""
    return f"{'-' if count < 0 else ''}PT{seconds}{digits}S"
