"""Whatever a caller has as a dense value, as a numpy array over the same memory where that can be.

The native module knows arrays by their bits and the name of a dtype: it has no bfloat16, which goes as uint16.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from . import _dtypes
from .errors import InvalidError

NDArray = np.ndarray[Any, Any]

_LARGEST = int(np.iinfo(np.int64).max)


def bits(value: Any, what: str) -> tuple[NDArray, str]:
    """The elements of `value` in this machine's byte order, and the stored name of their dtype.

    Arrays of any strides, memory maps and whatever shares its memory by ``__array__`` or DLPack are not
    copied. `what` names the value in errors.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        try:
            tensor = value.detach().cpu().resolve_conj().resolve_neg()
        except (RuntimeError, NotImplementedError) as error:
            raise InvalidError(f"{what}: cannot take a torch tensor on the device {value.device}: {error}") from error
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.int16).numpy().view(np.uint16), "bfloat16"
        value = tensor
    array = _asarray(value, what)
    name = _dtypes.name_of(array.dtype, what)
    if name == "bfloat16":
        return array.view(np.uint16), name
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array, name


def _asarray(value: Any, what: str) -> NDArray:
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidError(f"{what}: a masked array cannot be stored; fill it first with .filled(value)")
    has_dlpack = hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
    try:
        return np.from_dlpack(value) if has_dlpack else np.asarray(value)
    except (TypeError, ValueError, BufferError, RuntimeError, NotImplementedError) as error:
        raise InvalidError(f"{what}: a {type(value).__name__} cannot be made an array: {error}") from error


def cast(value: Any, dtype: str, shape: tuple[int, ...], what: str) -> NDArray:
    """The bits of `value` as a tensor's dtype, broadcast to `shape`, for writing into a region of it.

    The rules are numpy's for assignment with ``casting="same_kind"``: float64 goes into float32, int64 into
    int8 and into floats, but floats not into integers and complex numbers not into floats. Python's own
    numbers, which have no dtype, take the tensor's if they fit it.
    """
    array, source = bits(value, what)
    if source != dtype:
        is_untyped = not any(hasattr(value, name) for name in ("dtype", "__array__", "__dlpack__"))
        if not _can_cast(array, source, dtype, is_untyped):
            raise InvalidError(
                f"{what}: cannot cast {source} to {dtype} by numpy's rule 'same_kind'; "
                f"use .astype({dtype!r}) if that is meant"
            )
        with np.errstate(over="ignore"):
            cast = _dtypes.dressed(array, source, what).astype(_dtypes.numpy_dtype(dtype, what))
        array = bits(cast, what)[0]
    # As numpy does, leading axes of size one that the selection lacks are dropped.
    while array.ndim > len(shape) and array.shape[0] == 1:
        array = array[0]
    try:
        return np.broadcast_to(array, shape)
    except ValueError as error:
        raise InvalidError(
            f"{what}: could not broadcast input array from shape {np.shape(array)} into shape {shape}"
        ) from error


def _can_cast(array: NDArray, source: str, target: str, is_untyped: bool) -> bool:
    if is_untyped and array.dtype.kind in "iu" and array.size > 0:
        low, high = int(array.min()), int(array.max())
        if target == "bool":
            return 0 <= low and high <= 1
        if target.startswith(("int", "uint")):
            limits = np.iinfo(target)
            return bool(limits.min <= low and high <= limits.max)
    # float32 has the kind of bfloat16 and is known to numpy without ml_dtypes.
    as_known = {"bfloat16": "float32"}
    return np.can_cast(as_known.get(source, source), as_known.get(target, target), "same_kind")


def sizes(shape: Any, what: str) -> tuple[int, ...]:
    """A shape as a tuple of sizes that are not negative; a single number is a shape of one axis."""
    try:
        dims = tuple(operator.index(size) for size in (shape if hasattr(shape, "__iter__") else (shape,)))
    except TypeError as error:
        raise InvalidError(f"{what}: expected integers, found {shape!r}") from error
    for size in dims:
        if not 0 <= size <= _LARGEST:
            raise InvalidError(f"{what}: {size} is no size of an axis (in {dims})")
    return dims
