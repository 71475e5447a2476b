"""Functions of lazy arrays, and arrays that are made of nothing."""

from __future__ import annotations

from typing import Any

from . import _expression as ex
from .array import LazyArray, node_of

__all__ = [
    "abs",
    "einsum",
    "exp",
    "full",
    "log",
    "maximum",
    "minimum",
    "ones",
    "random",
    "relu",
    "sigmoid",
    "sign",
    "sqrt",
    "tanh",
    "where",
    "zeros",
]


def _of_elements(name: str, x: Any) -> LazyArray:
    return LazyArray._of(ex.unary(name, node_of(x, name)))


def exp(x: Any) -> LazyArray:
    """e to the power of each element."""
    return _of_elements("exp", x)


def log(x: Any) -> LazyArray:
    """The natural logarithm of each element."""
    return _of_elements("log", x)


def sqrt(x: Any) -> LazyArray:
    """The square root of each element."""
    return _of_elements("sqrt", x)


def abs(x: Any) -> LazyArray:
    """Each element without its sign."""
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
    return LazyArray._of(ex.einsum(subscripts, [node_of(operand, "einsum") for operand in operands]))


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
    """float64 numbers from [0, 1): each follows from the seed and its place alone."""
    return LazyArray._of(ex.random(shape, seed))
