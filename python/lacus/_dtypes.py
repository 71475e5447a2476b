"""The element types of tensors: numpy's, and bfloat16, which numpy has only with ``ml_dtypes``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InvalidError

#: Names of all element types, as they are stored.
NAMES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def name_of(dtype: np.dtype[Any], what: str) -> str:
    """The stored name of a numpy type. By kind and size: ``intc`` and ``int32`` are the same bits."""
    if dtype.kind in "biufc" and dtype.itemsize <= 16:
        name = np.dtype(f"{dtype.kind}{dtype.itemsize}").name
        if name in NAMES:
            return name
    elif dtype.name == "bfloat16":
        return "bfloat16"
    raise InvalidError(f"{what}: dtype {dtype} cannot be stored; those that can are {', '.join(NAMES)}")


def parse(dtype: Any, what: str) -> str:
    """The stored name of whatever a caller names a type by: numpy's ways, ``"bfloat16"``, a torch dtype."""
    text = str(dtype).removeprefix("torch.")
    if text == "bfloat16" or (str(dtype) != text and text in NAMES):
        return text
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise InvalidError(f"{what}: {dtype!r} is no dtype; those that can be stored are {', '.join(NAMES)}") from error
    return name_of(found, what)


def numpy_dtype(name: str, what: str) -> np.dtype[Any]:
    """The numpy type of a stored name."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise InvalidError(
            f"{what} is bfloat16, which numpy does not have: install ml_dtypes, "
            "or read the bits as uint16 with t.read(raw=True)"
        ) from error
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def dressed(bits: np.ndarray[Any, Any], name: str, what: str) -> np.ndarray[Any, Any]:
    """An array as it came from the native module, which has bfloat16 as uint16, in its own type."""
    return bits.view(numpy_dtype(name, what)) if name == "bfloat16" else bits
