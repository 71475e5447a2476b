"""What numpy's functions do to lazy arrays: what we have under its names, and errors for the rest."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np


def _lazy(name: str) -> Callable[..., Any]:
    """A function of ours, found when it is called: the modules need each other."""

    def call(*args: Any) -> Any:
        from . import functions

        return getattr(functions, name)(*args)

    return call


def _method(name: str) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        from .array import array

        return getattr(array(args[0]), name)(*args[1:])

    return call


def _operator(name: str) -> Callable[..., Any]:
    def call(a: Any, b: Any) -> Any:
        from . import _expression as ex
        from .array import LazyArray, node_of

        left, right = node_of(a, "the operand"), node_of(b, "the operand")
        return LazyArray._of(ex.matmul(left, right) if name == "@" else ex.binary(name, left, right))

    return call


_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: _operator("+"),
    np.subtract: _operator("-"),
    np.multiply: _operator("*"),
    np.divide: _operator("/"),
    np.remainder: _operator("%"),
    np.power: _operator("**"),
    np.matmul: _operator("@"),
    np.equal: _operator("=="),
    np.not_equal: _operator("!="),
    np.less: _operator("<"),
    np.less_equal: _operator("<="),
    np.greater: _operator(">"),
    np.greater_equal: _operator(">="),
    np.logical_and: _operator("and"),
    np.logical_or: _operator("or"),
    np.bitwise_and: _operator("and"),
    np.bitwise_or: _operator("or"),
    np.logical_not: _method("__invert__"),
    np.invert: _method("__invert__"),
    np.negative: _method("__neg__"),
    np.positive: _method("__pos__"),
    np.absolute: _lazy("abs"),
    np.fabs: _lazy("abs"),
    np.sign: _lazy("sign"),
    np.exp: _lazy("exp"),
    np.log: _lazy("log"),
    np.sqrt: _lazy("sqrt"),
    np.tanh: _lazy("tanh"),
    np.minimum: _lazy("minimum"),
    np.maximum: _lazy("maximum"),
}


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``np.add(a, b)`` and the like."""
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    found = _UFUNCS.get(ufunc) if method == "__call__" else None
    if found is None:
        raise TypeError(f"{name} is not supported on lazy arrays; call their .compute() first")
    if options:
        raise TypeError(f"{name} takes no {', '.join(f'{option}=' for option in options)} with lazy arrays")
    return found(*inputs)


def _reduction(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
        from .array import array

        return getattr(array(a), name)(axis=axis, keepdims=bool(keepdims))

    return call


def _transpose(a: Any, axes: Any = None) -> Any:
    return a.transpose(axes)


def _dot(a: Any, b: Any) -> Any:
    left, right = np.ndim(a) if not hasattr(a, "ndim") else a.ndim, np.ndim(b) if not hasattr(b, "ndim") else b.ndim
    if left > 2 or right > 2:
        raise TypeError("np.dot is not supported on lazy arrays of more than two axes; use @ or lacus.einsum")
    return _operator("*" if 0 in (left, right) else "@")(a, b)


def _einsum(subscripts: Any, *operands: Any) -> Any:
    return _lazy("einsum")(subscripts, *operands)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return _lazy("where")(condition, x, y)


def _shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape)


def _ndim(a: Any) -> int:
    return len(a.shape)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{
        getattr(np, name): _reduction(name)
        for name in ("sum", "prod", "mean", "min", "max", "any", "all", "argmin", "argmax")
    },
    np.transpose: _transpose,
    np.dot: _dot,
    np.einsum: _einsum,
    np.where: _where,
    np.shape: _shape,
    np.ndim: _ndim,
}


def call_function(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``np.sum(a)`` and the like."""
    name = f"np.{function.__name__}"
    found = _FUNCTIONS.get(function)
    if found is None:
        raise TypeError(f"{name} is not supported on lazy arrays; call their .compute() first")
    try:
        bound = _bound(found, args, options)
    except TypeError as error:
        raise TypeError(f"{name} on lazy arrays: {error}") from error
    return bound()


def _bound(found: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Callable[[], Any]:
    bound = inspect.signature(found).bind(*args, **options)
    return lambda: found(*bound.args, **bound.kwargs)
