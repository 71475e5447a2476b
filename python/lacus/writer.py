"""A writer: buffers appended rows and writes them in large batches."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._guard import guard
from ._values import by_name, listed
from .errors import InvalidError, LacusError
from .sample import Sample

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["Writer"]

_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}

#: Rows gathered at most: their Python objects take more than their samples when these are small.
_MOST_ROWS = 100_000

#: How messages about samples begin: the column and the row, which is counted in the piece that was written.
_PLACE = re.compile(r'(column ".*?", row )(\d+)(: .*)', re.DOTALL)


def parse_size(text: str | int, what: str) -> int:
    """A number of bytes, such as ``"64MiB"``."""
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
        unit = _UNITS.get(found[2].lower()) if found else None
        if found is None or unit is None or (unit == 1 and not float(found[1]).is_integer()):
            raise InvalidError(f'{what}: {text!r} is no size; write "64MiB" or a number of bytes')
        size = int(float(found[1]) * unit)
    if size <= 0:
        raise InvalidError(f"{what}: {text!r} is not positive")
    return size


@guard
class Writer:
    """Buffers rows, and writes them when the buffer is full and at the end of the block: ``ds.writer()``.

    Each batch is one version: all of it or nothing. If the block ends with an exception, the rows still in the buffer are dropped.
    Samples are copied when you append them, so you can reuse an array for the next row.

    >>> with ds.writer() as writer:
    ...     for path, label in files:
    ...         writer.append({"images": lacus.read(path), "labels": label})
    """

    def __init__(self, dataset: Dataset, buffer: str | int, on_error: str, durable: bool) -> None:
        if on_error not in ("raise", "skip"):
            raise InvalidError(f'on_error: {on_error!r} is neither "raise" nor "skip"')
        self._dataset = dataset
        self._limit = parse_size(buffer, "buffer")
        self._on_error = on_error
        self._durable = durable
        self._gathered: dict[str, list[Any]] = {}
        self._count = 0
        self._bytes = 0
        self._closed = False
        #: Rows written so far.
        self.rows = 0
        #: Rows that were not written, by their place among all that were appended, with the reason.
        self.skipped: list[tuple[int, str]] = []
        self._seen = 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row to the buffer."""
        columns = {name: [sample] for name, sample in by_name(row).items()}
        if not columns:
            raise InvalidError("a row names at least one column; one without samples is {name: None}")
        self.extend(columns)

    def extend(self, columns: Mapping[str, Iterable[Any]]) -> None:
        """Adds several rows to the buffer."""
        if self._closed:
            raise InvalidError("the writer is closed")
        columns = listed(columns)
        lengths = {name: len(samples) for name, samples in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidError(
                "columns have different numbers of samples: "
                + ", ".join(f'"{name}" has {length}' for name, length in lengths.items())
            )
        for name in columns:
            if name not in self._gathered:
                # Fails if there is no such column.
                self._dataset._column(name)
        kept = {name: [self._kept(sample) for sample in samples] for name, samples in columns.items()}
        count = next(iter(lengths.values()), 0)
        for name in kept:
            self._gathered.setdefault(name, [None] * self._count)
        for name, gathered in self._gathered.items():
            gathered.extend(kept.get(name) or [None] * count)
        self._count += count
        self._bytes += sum(_weight(sample) for samples in kept.values() for sample in samples)
        if self._bytes >= self._limit or self._count >= _MOST_ROWS:
            self.flush()

    def _kept(self, sample: Any) -> Any:
        """A sample that does not change until it is written."""
        if isinstance(sample, Sample):
            try:
                # Files are read now, one after the other, not all at the end.
                return Sample(sample.path, sample.bytes)
            except LacusError:
                if self._on_error == "raise":
                    raise
                # It fails once more when the piece is written, where it is reported by its place.
                return sample
        return _copied(sample)

    def flush(self) -> None:
        """Writes the buffer. If that fails, the rows stay in the buffer."""
        if self._count == 0:
            return
        try:
            report = self._dataset.extend(self._gathered, on_error=self._on_error, durable=self._durable)
        except InvalidError as error:
            raise type(error)(self._placed(str(error))) from error
        self.rows += report.rows
        self.skipped.extend((self._seen + row, self._placed(why)) for row, why in report.skipped)
        self._seen += self._count
        self._gathered, self._count, self._bytes = {}, 0, 0

    def _placed(self, message: str) -> str:
        """A message with the row counted among all that were appended."""
        found = _PLACE.fullmatch(message)
        return message if found is None else f"{found[1]}{self._seen + int(found[2])}{found[3]}"

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._closed = True
        if kind is None:
            self.flush()


def _copied(sample: Any) -> Any:
    """A sample that its giver may change without changing this one."""
    if isinstance(sample, np.ndarray):
        return sample.copy()
    if isinstance(sample, bytearray):
        return bytes(sample)
    if isinstance(sample, (list, tuple)):
        return [_copied(item) for item in sample]
    if isinstance(sample, dict):
        return copy.deepcopy(sample)
    # A torch tensor. Other kinds of arrays do not change.
    return sample.detach().clone() if hasattr(sample, "detach") and hasattr(sample, "clone") else sample


def _weight(sample: Any) -> int:
    """About how many bytes a sample takes."""
    if isinstance(sample, (bytes, str)):
        return len(sample) + 64
    if isinstance(sample, Sample):
        return len(sample._bytes or b"") + 128
    if isinstance(sample, np.ndarray):
        return sample.nbytes + 128
    if isinstance(sample, list):
        return 64 + sum(map(_weight, sample))
    if isinstance(sample, dict):
        return 64 + sum(_weight(key) + _weight(value) for key, value in sample.items())
    return int(getattr(sample, "nbytes", 64))
