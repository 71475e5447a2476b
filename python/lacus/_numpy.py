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


def _rint(x: Any) -> Any:
    return (x.astype("float64") if x.dtype.kind in "bi" else x).round()


_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: _operator("+"),
    np.subtract: _operator("-"),
    np.multiply: _operator("*"),
    np.divide: _operator("/"),
    np.floor_divide: _operator("//"),
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
    np.minimum: _lazy("minimum"),
    np.maximum: _lazy("maximum"),
    np.rint: _rint,
    **{
        getattr(np, name): _lazy(name)
        for name in (
            "exp", "expm1", "log", "log1p", "sqrt", "square", "sin", "cos", "tanh", "floor", "ceil", "isnan", "isinf",
            "isfinite",
        )
    },
}


def _path(function: Any) -> str:
    """What people write to call a function of numpy's: ``np.linalg.solve``."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module.replace('numpy', 'np', 1)}.{function.__name__}"


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``np.add(a, b)`` and the like."""
    name = _path(ufunc) + ("" if method == "__call__" else f".{method}")
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


def _spread(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, *, ddof: Any = 0, keepdims: Any = False) -> Any:
        from .array import array

        return getattr(array(a), name)(axis=axis, ddof=ddof, keepdims=bool(keepdims))

    return call


def _form(name: str) -> Callable[..., Any]:
    """A function of ``_forms`` whose first argument is an array and whose others are not."""

    def call(a: Any, *options: Any) -> Any:
        from . import _forms
        from .array import LazyArray, node_of

        return LazyArray._of(getattr(_forms, name)(node_of(a, name), *options))

    return call


def _transpose(a: Any, axes: Any = None) -> Any:
    return a.transpose(axes)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    from .array import array

    return array(a).clip(a_min if min is None else min, a_max if max is None else max)


def _round(a: Any, decimals: int = 0) -> Any:
    return a.round(decimals)


def _reshape(a: Any, shape: Any) -> Any:
    return a.reshape(shape)


def _ravel(a: Any) -> Any:
    return a.reshape(-1)


def _squeeze(a: Any, axis: Any = None) -> Any:
    return a.squeeze(axis)


def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    return a.swapaxes(axis1, axis2)


def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    return _form("moved")(a, source, destination)


def _expand_dims(a: Any, axis: Any) -> Any:
    return _form("expanded")(a, axis)


def _outer(a: Any, b: Any) -> Any:
    return _lazy("einsum")("i,j->ij", a, b)


def _diagonal(a: Any, offset: int = 0) -> Any:
    return _form("diagonal")(a, offset)


def _trace(a: Any, offset: int = 0) -> Any:
    return _diagonal(a, offset).sum(axis=-1)


def _diag(v: Any, k: int = 0) -> Any:
    return _lazy("diag")(v, k)


def _tril(m: Any, k: int = 0) -> Any:
    return _lazy("tril")(m, k)


def _triu(m: Any, k: int = 0) -> Any:
    return _lazy("triu")(m, k)


def _broadcast_to(array: Any, shape: Any) -> Any:
    return _form("broadcast_to")(array, shape)


def _concatenate(arrays: Any, axis: int = 0) -> Any:
    return _lazy("concatenate")(arrays, axis)


def _stack(arrays: Any, axis: int = 0) -> Any:
    return _lazy("stack")(arrays, axis)


def _pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    if mode != "constant":
        raise TypeError(f"mode={mode!r} is not supported; 'constant' is")
    return _lazy("pad")(array, pad_width, constant_values)


def _count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return (a != 0).sum(axis=axis, keepdims=bool(keepdims))


def _norm(x: Any, ord: None = None, axis: Any = None, keepdims: Any = False) -> Any:
    if ord is not None:
        raise TypeError("ord is not supported; without it, the root of the sum of squares is given")
    absolute = x.astype("float64") if x.dtype.kind in "bi" else x
    return _lazy("sqrt")((absolute * absolute).sum(axis=axis, keepdims=bool(keepdims)))


def _like(value: Any) -> Callable[..., Any]:
    def call(a: Any, dtype: Any = None) -> Any:
        return _full_like(a, value, dtype)

    return call


def _full_like(a: Any, fill_value: Any, dtype: Any = None) -> Any:
    return _lazy("full")(a.shape, fill_value, a.dtype if dtype is None else dtype)


def dot(a: Any, b: Any) -> Any:
    """``np.dot`` of what has two axes at most."""
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
    np.dot: dot,
    np.var: _spread("var"),
    np.std: _spread("std"),
    np.clip: _clip,
    np.round: _round,
    np.reshape: _reshape,
    np.ravel: _ravel,
    np.squeeze: _squeeze,
    np.swapaxes: _swapaxes,
    np.moveaxis: _moveaxis,
    np.expand_dims: _expand_dims,
    np.outer: _outer,
    np.trace: _trace,
    np.diagonal: _diagonal,
    np.diag: _diag,
    np.tril: _tril,
    np.triu: _triu,
    np.broadcast_to: _broadcast_to,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.pad: _pad,
    np.count_nonzero: _count_nonzero,
    np.linalg.norm: _norm,
    np.zeros_like: _like(0),
    np.ones_like: _like(1),
    np.full_like: _full_like,
    np.einsum: _einsum,
    np.where: _where,
    np.shape: _shape,
    np.ndim: _ndim,
}


def call_function(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``np.sum(a)`` and the like."""
    name = _path(function)
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
