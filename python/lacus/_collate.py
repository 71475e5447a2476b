"""Samples that functions of Python made, put together to batches: the same rules as for samples that come from the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import InvalidError

__all__ = ["Nested", "collated"]


class Nested(NamedTuple):
    """Samples of different lengths, one after the other along their first axis."""

    #: The elements of all samples.
    values: npt.NDArray[Any]
    #: Where each sample begins, and the end: sample ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
    offsets: npt.NDArray[np.int64]


def collated(name: str, how: str, samples: Sequence[Any], rows: Sequence[int], pad_value: float) -> dict[str, Any]:
    """The samples of a column as one value of a batch, by its name; with the mask of what was padded."""
    if how == "list" or not samples:
        return {name: list(samples)}
    arrays = [np.asarray(sample) if _is_numeric(sample) else None for sample in samples]
    if any(array is None or array.dtype == object for array in arrays):
        if how == "auto":
            return {name: list(samples)}
        wrong = next(at for at, array in enumerate(arrays) if array is None or array.dtype == object)
        raise InvalidError(
            f"column {name!r}: row {rows[wrong]} of the view is a {type(samples[wrong]).__name__}, "
            f'which collate={how!r} cannot use; use "list"'
        )
    found: list[npt.NDArray[Any]] = [array for array in arrays if array is not None]
    first = found[0]
    for at, array in enumerate(found):
        if array.dtype != first.dtype and how != "auto":
            raise InvalidError(
                f"column {name!r}: the transform made {first.dtype} of row {rows[0]} of the view and {array.dtype} of row {rows[at]}; "
                "it must return one dtype for all samples"
            )
    if how == "nested":
        for at, array in enumerate(found):
            if array.ndim == 0 or array.shape[1:] != first.shape[1:]:
                raise _unequal(name, rows, first, array, at, "nested", "all axes but the first must be equal")
        offsets = np.cumsum([0, *(len(array) for array in found)], dtype=np.int64)
        return {name: Nested(np.concatenate(found), offsets)}
    if how == "pad":
        return _padded(name, found, rows, pad_value)
    for at, array in enumerate(found):
        if array.shape != first.shape or array.dtype != first.dtype:
            if how == "auto":
                if array.dtype != first.dtype:
                    raise InvalidError(
                        f"column {name!r}: the transform made {first.dtype} of row {rows[0]} of the view and {array.dtype} of row "
                        f"{rows[at]}; it must return one dtype for all samples"
                    )
                return {name: list(samples)}
            raise _unequal(name, rows, first, array, at, "stacked", 'use collate="pad", "nested" or "list"')
    return {name: np.stack(found)}


def _is_numeric(sample: Any) -> bool:
    return isinstance(sample, (np.ndarray, np.generic, int, float, complex)) or hasattr(sample, "__array__")


def _unequal(
    name: str, rows: Sequence[int], first: npt.NDArray[Any], other: npt.NDArray[Any], at: int, done: str, help: str
) -> InvalidError:
    return InvalidError(
        f"column {name!r}: row {rows[0]} of the view has shape {first.shape}, but row {rows[at]} has {other.shape}: "
        f"they cannot be {done}; {help}"
    )


def _padded(name: str, found: list[npt.NDArray[Any]], rows: Sequence[int], pad_value: float) -> dict[str, Any]:
    first = found[0]
    for at, array in enumerate(found):
        if array.ndim != first.ndim:
            raise _unequal(name, rows, first, array, at, "padded", "padding needs one number of axes")
    shape = tuple(max(array.shape[axis] for array in found) for axis in range(first.ndim))
    values = np.full((len(found), *shape), pad_value, first.dtype)
    mask = np.zeros((len(found), *shape), bool)
    for at, array in enumerate(found):
        part: tuple[Any, ...] = (at, *(slice(size) for size in array.shape))
        values[part] = array
        mask[part] = True
    return {name: values, f"{name}_mask": mask}
