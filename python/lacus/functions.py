"""Functions of lazy arrays, and functions that create arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _einsum
from . import _expression as ex
from . import _forms as forms
from .array import LazyArray, array, node_of
from .errors import InvalidError

__all__ = [
    "abs",
    "arange",
    "ceil",
    "clip",
    "concatenate",
    "cos",
    "diag",
    "einsum",
    "exp",
    "expm1",
    "eye",
    "floor",
    "full",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "ones",
    "pad",
    "random",
    "relu",
    "round",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "stack",
    "tanh",
    "tril",
    "triu",
    "where",
    "zeros",
]


def _of_elements(name: str, x: Any) -> LazyArray:
    return LazyArray._of(ex.unary(name, node_of(x, name)))


def exp(x: Any) -> LazyArray:
    """e to the power of each element."""
    return _of_elements("exp", x)


def expm1(x: Any) -> LazyArray:
    """``exp(x) - 1`` for each element, accurate for small x."""
    return _of_elements("expm1", x)


def log(x: Any) -> LazyArray:
    """The natural logarithm of each element."""
    return _of_elements("log", x)


def log1p(x: Any) -> LazyArray:
    """``log(1 + x)`` for each element, accurate for small x."""
    return _of_elements("log1p", x)


def sqrt(x: Any) -> LazyArray:
    """The square root of each element."""
    return _of_elements("sqrt", x)


def square(x: Any) -> LazyArray:
    """Each element times itself."""
    node = node_of(x, "square")
    return LazyArray._of(ex.binary("*", node, node))


def sin(x: Any) -> LazyArray:
    """The sine of each element."""
    return _of_elements("sin", x)


def cos(x: Any) -> LazyArray:
    """The cosine of each element."""
    return _of_elements("cos", x)


def floor(x: Any) -> LazyArray:
    """Each element rounded down; integers are unchanged."""
    return _of_elements("floor", x)


def ceil(x: Any) -> LazyArray:
    """Each element rounded up; integers are unchanged."""
    return _of_elements("ceil", x)


def round(x: Any, decimals: int = 0) -> LazyArray:
    """Each element rounded to so many decimals; ties go to the even number."""
    return array(x).round(decimals)


def isnan(x: Any) -> LazyArray:
    """Where elements are NaN."""
    node = ex.strong(node_of(x, "isnan"))
    return LazyArray._of(ex.binary("!=", node, node))


def isinf(x: Any) -> LazyArray:
    """Where elements are infinite."""
    return abs(x) == math.inf


def isfinite(x: Any) -> LazyArray:
    """Where elements are neither infinite nor NaN."""
    return abs(x) < math.inf


def clip(x: Any, min: Any = None, max: Any = None) -> LazyArray:
    """Each element limited to the range from `min` to `max`."""
    return array(x).clip(min, max)


def abs(x: Any) -> LazyArray:
    """The absolute value of each element."""
    return _of_elements("abs", x)


def sign(x: Any) -> LazyArray:
    """-1, 0 or 1 for each element."""
    return _of_elements("sign", x)


def tanh(x: Any) -> LazyArray:
    """The hyperbolic tangent of each element."""
    return _of_elements("tanh", x)


def sigmoid(x: Any) -> LazyArray:
    """``1 / (1 + exp(-x))`` for each element."""
    return _of_elements("sigmoid", x)


def relu(x: Any) -> LazyArray:
    """Each element, or 0 where it is negative."""
    return _of_elements("relu", x)


def minimum(a: Any, b: Any) -> LazyArray:
    """The smaller of two, element by element; NaN where one of them is."""
    return LazyArray._of(ex.least_of("min", node_of(a, "minimum"), node_of(b, "minimum")))


def maximum(a: Any, b: Any) -> LazyArray:
    """The larger of two, element by element; NaN where one of them is."""
    return LazyArray._of(ex.least_of("max", node_of(a, "maximum"), node_of(b, "maximum")))


def where(condition: Any, a: Any, b: Any) -> LazyArray:
    """Elements of `a` where the condition is true, else of `b`."""
    return LazyArray._of(ex.where(node_of(condition, "where"), node_of(a, "where"), node_of(b, "where")))


def einsum(subscripts: str, *operands: Any) -> LazyArray:
    """A sum of products, by the letters of their axes.

    >>> lacus.einsum("ik,kj->ij", a, b)     # the same as a @ b
    """
    return LazyArray._of(_einsum.einsum(subscripts, [node_of(operand, "einsum") for operand in operands]))


def concatenate(arrays: Sequence[Any], axis: int = 0) -> LazyArray:
    """Arrays joined along an axis."""
    return LazyArray._of(forms.joined([node_of(each, "concatenate") for each in arrays], axis, "concatenate"))


def stack(arrays: Sequence[Any], axis: int = 0) -> LazyArray:
    """Arrays of the same shape joined along a new axis."""
    return LazyArray._of(forms.stacked([node_of(each, "stack") for each in arrays], axis))


def pad(x: Any, widths: Any, value: Any = 0) -> LazyArray:
    """An array padded with `widths` elements: a number, ``(before, after)``, or such a pair for each axis.

    >>> lacus.pad(a, ((1, 1), (0, 2)))
    """
    return LazyArray._of(forms.padded(node_of(x, "pad"), widths, node_of(value, "pad")))


def tril(x: Any, k: int = 0) -> LazyArray:
    """An array with zeros above a diagonal of its last two axes."""
    return LazyArray._of(forms.triangle(node_of(x, "tril"), k, True))


def triu(x: Any, k: int = 0) -> LazyArray:
    """An array with zeros below a diagonal of its last two axes."""
    return LazyArray._of(forms.triangle(node_of(x, "triu"), k, False))


def diag(x: Any, k: int = 0) -> LazyArray:
    """A diagonal of a matrix; for a vector, a matrix with it on a diagonal."""
    node = node_of(x, "diag")
    if node.ndim not in (1, 2):
        raise InvalidError(f"diag: expected one axis or two, found shape {node.shape}")
    return LazyArray._of(forms.on_diagonal(node, k) if node.ndim == 1 else forms.diagonal(node, k))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> LazyArray:
    """Numbers from `start` (0 if only `stop` is given) to `stop`, which is excluded."""
    first, end = (0, start) if stop is None else (start, stop)
    return LazyArray._of(forms.counted(first, end, step, None if dtype is None else ex.parse_dtype(dtype, "arange")))


def eye(rows: int, columns: int | None = None, k: int = 0, dtype: Any = "float64") -> LazyArray:
    """A matrix with ones along a diagonal."""
    return LazyArray._of(forms.identity(rows, columns, k, ex.parse_dtype(dtype, "eye")))


def zeros(shape: Any, dtype: Any = "float64") -> LazyArray:
    """An array of zeros."""
    return LazyArray._of(ex.filled(shape, ex.literal_of(ex.parse_dtype(dtype, "zeros"), 0.0), "zeros"))


def ones(shape: Any, dtype: Any = "float64") -> LazyArray:
    """An array of ones."""
    return LazyArray._of(ex.filled(shape, ex.literal_of(ex.parse_dtype(dtype, "ones"), 1.0), "ones"))


def full(shape: Any, value: Any, dtype: Any = None) -> LazyArray:
    """An array of one number, which may be a lazy array without axes."""
    node = ex.strong(node_of(value, "full"))
    if dtype is not None:
        node = ex.converted(node, ex.parse_dtype(dtype, "full"))
    return LazyArray._of(ex.filled(shape, node, "full"))


def random(shape: Any, seed: int) -> LazyArray:
    """Random float64 numbers from [0, 1). Each depends only on the seed and its position."""
    return LazyArray._of(ex.random(shape, seed))
