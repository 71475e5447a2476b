"""Your own functions in queries: ``@lacus.udf(returns="float32")``."""

from __future__ import annotations

import ctypes
import functools
import importlib
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np

from . import _dtypes, _native
from ._arrays import NDArray, _can_cast, bits
from .errors import InvalidError
from .table import dressed

__all__ = ["Udf", "udf"]

#: What a function returns: a dtype or ``"text"``, or a dtype with a shape in which None is any size and ``...`` any shape.
Returns: TypeAlias = "str | Any | tuple[Any, Sequence[int | None] | EllipsisType]"

#: Functions for one query: a list of them, or a dict with the names that they have there.
Functions: TypeAlias = "Sequence[Udf] | Mapping[str, Udf] | None"

#: What the native module is told: ``("stacked", array, present)``, ``("tensors", list)``, ``("texts", list)`` or
#: ``("failed", row, why, exception)``.
_Told: TypeAlias = tuple[Any, ...]

#: The functions that every query knows, by name in lower case.
_registry: dict[str, Udf] = {}


class Udf:
    """A function that queries can call; :func:`udf` makes them. Call it as you would call the function."""

    __wrapped__: Callable[..., Any]
    __name__: str
    __qualname__: str

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        returns: Returns,
        *,
        per_row: bool,
        nulls: bool,
        torch: bool,
        deterministic: bool,
    ) -> None:
        functools.update_wrapper(self, function)
        #: What it is called in queries.
        self.name = name
        self._declared = _Declared(returns, name)
        self._per_row = per_row
        self._nulls = nulls
        self._torch = torch
        self._deterministic = deterministic
        self._least, self._most = _arity(function, name, per_row)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<lacus.Udf {self.name}, returns {self._declared}>"

    def __reduce__(self) -> str:
        # As functions do: by where it is found.
        return self.__qualname__

    def _spec(self, name: str) -> _native._Function:
        return {
            "name": name,
            "dtype": self._declared.dtype,
            "shape": self._declared.shape,
            "least": self._least,
            "most": self._most,
            "deterministic": self._deterministic,
            "nulls": self._nulls,
            "call": self._answer,
        }

    def _answer(self, columns: list[tuple[Any, str]], rows: int) -> _Told:
        """Calls the function with columns, each of which comes with the name of its type."""
        try:
            arguments = [dressed(values, type_, self.name) for values, type_ in columns]
            if self._torch:
                arguments = [_as_torch(column) for column in arguments]
            if self._per_row:
                return self._declared.told(self._each(arguments, rows), rows)
            try:
                found = self.__wrapped__(*arguments)
            except Exception as error:
                raise self._blamed(arguments, rows, error) from error
            return self._declared.told(found, rows)
        except _Wrong as wrong:
            return "failed", wrong.row, wrong.why, wrong.__cause__
        except BaseException as error:
            return "failed", None, _shown(error), error

    def _each(self, arguments: list[Any], rows: int) -> list[Any]:
        found = []
        for row in range(rows):
            try:
                found.append(self.__wrapped__(*(column[row] for column in arguments)))
            except Exception as error:
                raise _Wrong(row, _shown(error)) from error
        return found

    def _blamed(self, arguments: list[Any], rows: int, error: Exception) -> _Wrong:
        """The row that makes the function raise, found by calling it with half of the rows again and again."""
        first, last = 0, rows
        while last - first > 1:
            middle = (first + last) // 2
            for part in ((first, middle), (middle, last)):
                try:
                    self.__wrapped__(*(column[slice(*part)] for column in arguments))
                except Exception as found:
                    (first, last), error = part, found
                    break
            else:
                # It takes several rows to make it fail.
                break
        wrong = _Wrong(first if last - first == 1 else None, _shown(error))
        wrong.__cause__ = error
        return wrong


def udf(
    function: None = None,
    /,
    *,
    returns: Returns = None,
    name: str | None = None,
    per_row: bool = False,
    nulls: bool = False,
    torch: bool = False,
    deterministic: bool = False,
    register: bool = True,
) -> Callable[[Callable[..., Any]], Udf]:
    """Makes a Python function known to queries, by its name.

    The function gets a batch of rows: an array per argument whose first axis is the rows, or a list where rows differ in shape or
    are texts. It returns one result per row: an array, a list, or a torch tensor. Pictures and other files come decoded.

    Args:
        returns: the dtype of the results, as in ``"float32"``, ``"int64"`` or ``"bool"``; ``"text"``; or, for tensors, a dtype with a
            shape, as in ``("float32", (3, None))``, where None is any size. ``("float32", ...)`` is any shape.
        name: what queries call it; the name of the function, unless you say. Upper and lower case make no difference.
        per_row: calls the function with the values of one row at a time.
        nulls: also calls it for rows with missing arguments, which are None (in a list, if the function takes batches). Otherwise
            the result of such a row is missing, and the function does not see it.
        torch: gives it torch tensors instead of numpy's arrays.
        deterministic: says that equal arguments always give equal results. A query may then call it once for what it asks for
            twice, and before it reads any row if all arguments are constant.
        register: whether all queries of this process know it. If not, hand it to a query with ``functions=[...]``.

    Raises:
        InvalidError: there is a built-in function of this name, or the function has no name.

    >>> @lacus.udf(returns="float32")
    ... def brightness(images):
    ...     return [image.mean() for image in images]
    >>> ds.query("SELECT * WHERE label = 'dog' ORDER BY brightness(image) DESC LIMIT 10")
    """
    if function is not None or returns is None:
        raise InvalidError('udf: say what the function returns, as in @lacus.udf(returns="float32")')

    def made(function: Callable[..., Any]) -> Udf:
        if not callable(function):
            raise InvalidError(f"udf: a function is expected, found {type(function).__name__} {function!r}"[:200])
        called = _name(function, name)
        of = function.__wrapped__ if isinstance(function, Udf) else function
        options = {"per_row": per_row, "nulls": nulls, "torch": torch, "deterministic": deterministic}
        found = Udf(of, called, returns, **{key: bool(value) for key, value in options.items()})
        if register:
            _registry[called.lower()] = found
        return found

    return made


def known(given: Mapping[str, Udf]) -> list[_native._Function]:
    """The functions that a query knows: those of the process, and those given to it, which go first."""
    found = {called: function._spec(function.name) for called, function in list(_registry.items())}
    return list((found | {name.lower(): function._spec(name) for name, function in given.items()}).values())


def by_name(functions: Functions) -> dict[str, Udf]:
    """Functions for one query by their names in it."""
    if functions is None:
        return {}
    if isinstance(functions, Udf) or not isinstance(functions, (Mapping, Sequence)):
        raise InvalidError(f"functions: a list or a dict of functions is expected, found {type(functions).__name__}")
    named = list(functions.items()) if isinstance(functions, Mapping) else [(None, function) for function in functions]
    found = {}
    for name, function in named:
        if not isinstance(function, Udf):
            raise InvalidError(f"functions: decorate {function!r} with @lacus.udf(returns=..., register=False)"[:200])
        found[_name(function, name or function.name)] = function
    return found


@functools.cache
def _builtin() -> frozenset[str]:
    return frozenset(_native.function_names())


def _name(function: Any, name: str | None) -> str:
    if name is None:
        name = getattr(function, "__name__", "")
        if name == "<lambda>" or not name:
            kind = "a lambda" if name else f"a {type(function).__name__}"
            raise InvalidError(f'udf: {kind} has no name; give it one: lacus.udf(returns=..., name="brightness")')
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidError(f"udf: a name of letters, digits and _ is expected, found {name!r}")
    if name.lower() in _builtin():
        raise InvalidError(f'udf {name}: there is a built-in function of this name; give yours another: name="my_{name}"')
    return name


def _arity(function: Callable[..., Any], name: str, per_row: bool) -> tuple[int, int | None]:
    """How many arguments a function takes, at least and at most."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # Some built-in functions do not say.
        return 0 if per_row else 1, None
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    for one in parameters:
        if one.kind == one.KEYWORD_ONLY and one.default is one.empty:
            raise InvalidError(f"udf {name}: queries give arguments by place, and {one.name!r} is given by name; give it a default")
    least = sum(one.default is one.empty for one in plain)
    most = None if any(one.kind == one.VAR_POSITIONAL for one in parameters) else len(plain)
    if most == 0 and not per_row:
        raise InvalidError(f"udf {name}: without arguments it cannot know how many rows there are; use per_row=True")
    return least if per_row else max(least, 1), most


class _Wrong(Exception):
    """A function that failed, or returned something else than was declared."""

    def __init__(self, row: int | None, why: str) -> None:
        super().__init__(why)
        self.row = row
        self.why = why


class _Declared:
    """What a function says that it returns."""

    def __init__(self, returns: Returns, name: str) -> None:
        shape: Any = ()
        what = f"udf {name}: returns"
        if isinstance(returns, (tuple, list)):
            if len(returns) != 2:
                raise InvalidError(f'{what}: a dtype and a shape are expected, as in ("float32", (3, None)), found {returns!r}')
            returns, shape = returns
        self.dtype = None if returns in ("text", "str", str) else _dtypes.parse(returns, what)
        if self.dtype is None and shape != ():
            raise InvalidError(f"{what}: texts have no shape")
        self.shape: list[int | None] | None = None if shape is ... else _sizes(shape, what)

    def __str__(self) -> str:
        if self.dtype is None:
            return "text"
        return self.dtype if self.shape == [] else f"{self.dtype} of shape {_shape_text(self.shape)}"

    def told(self, found: Any, rows: int) -> _Told:
        """The results of all rows, checked."""
        if isinstance(found, (str, bytes, Mapping, set, frozenset)) or found is None or not hasattr(found, "__len__"):
            raise _Wrong(None, f"returned {_kind(found)}, expected one result for each of the {rows} rows")
        if getattr(found, "shape", None) == () or len(found) != rows:
            count = "one result" if getattr(found, "shape", None) == () else f"{len(found)} results"
            raise _Wrong(None, f"returned {count} for {rows} rows")
        if self.dtype is None:
            return "texts", [self._text(value, row) for row, value in enumerate(found)]
        if isinstance(found, np.ma.MaskedArray) and self.shape == []:
            array, present = self._cast(found.filled(0), 0, False), ~np.ma.getmaskarray(found)
            return "stacked", np.ascontiguousarray(array), present.tolist()
        if isinstance(found, (list, tuple)) or getattr(getattr(found, "dtype", None), "kind", "") == "O":
            return self._of_rows(list(found))
        array = self._cast(found, 0, False)
        self._check_shape(array.shape[1:], 0)
        return "stacked", np.ascontiguousarray(array), None

    def _text(self, value: Any, row: int) -> str | None:
        if value is not None and not isinstance(value, str):
            raise _Wrong(row, f"returned {_kind(value)}, declared text")
        return None if value is None else str(value)

    def _of_rows(self, found: list[Any]) -> _Told:
        """Results that are given one by one."""
        if self.shape == [] and all(type(value) is float for value in found):
            # By far the most frequent, and one object less for each.
            return "stacked", np.ascontiguousarray(self._cast(np.array(found, np.float64), 0, False)), None
        arrays: list[NDArray | None] = []
        for row, value in enumerate(found):
            if value is None or value is np.ma.masked:
                arrays.append(None)
                continue
            array = self._cast(value, row, True)
            self._check_shape(array.shape, row)
            arrays.append(np.ascontiguousarray(array).reshape(array.shape))
        if self.shape is None or None in self.shape or not arrays:
            return "tensors", arrays
        present = [array is not None for array in arrays]
        assert self.dtype is not None
        gap = np.zeros(tuple(size or 0 for size in self.shape), "uint16" if self.dtype == "bfloat16" else self.dtype)
        stacked = np.stack([gap if array is None else array for array in arrays])
        return "stacked", stacked, None if all(present) else present

    def _cast(self, value: Any, row: int, is_one: bool) -> NDArray:
        """The bits of results as what was declared. `row` is that of the first of them."""
        assert self.dtype is not None
        try:
            array, source = bits(value, "it")
        except InvalidError as error:
            raise _Wrong(row, f"returned {_kind(value)}, declared {self}") from error
        if source == self.dtype:
            return array
        is_untyped = is_one and not any(hasattr(value, name) for name in ("dtype", "__array__", "__dlpack__"))
        if not _can_cast(array, source, self.dtype, is_untyped):
            shown = f" {value!r}" if array.ndim == 0 else ""
            raise _Wrong(row, f"returned {source}{shown[:80]}, declared {self}; convert the result, or declare {source}")
        with np.errstate(over="ignore"):
            cast = _dtypes.dressed(array, source, "it").astype(_dtypes.numpy_dtype(self.dtype, "the result"))
        if array.dtype.kind in "iu" and cast.dtype.kind in "iu" and not np.array_equal(cast, array):
            places = np.argwhere(np.atleast_1d(cast != array))[0]
            number = np.atleast_1d(array)[tuple(places)]
            raise _Wrong(row if is_one else row + int(places[0]), f"returned {number}, which does not fit into {self.dtype}")
        return bits(cast, "it")[0]

    def _check_shape(self, shape: tuple[int, ...], row: int) -> None:
        if self.shape is None:
            return
        if len(shape) != len(self.shape) or any(size not in (None, found) for size, found in zip(self.shape, shape, strict=True)):
            raise _Wrong(row, f"returned {self.dtype} of shape {shape}, declared {self.dtype} of shape {_shape_text(self.shape)}")


def _sizes(shape: Any, what: str) -> list[int | None]:
    try:
        found = [None if size is None else operator.index(size) for size in shape]
    except TypeError as error:
        raise InvalidError(f"{what}: a shape such as (3, None) is expected, found {shape!r}") from error
    if any(size is not None and size < 0 for size in found):
        raise InvalidError(f"{what}: sizes are not negative, found {shape!r}")
    return found


def _shape_text(shape: list[int | None] | None) -> str:
    if shape is None:
        return "(...)"
    sizes = ["?" if size is None else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def _kind(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r}"[:80]


def _shown(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _as_torch(column: Any) -> Any:
    """Arrays as torch tensors over the same memory; texts and times, which torch does not have, as they are."""
    if isinstance(column, list):
        return [_as_torch(value) for value in column]
    if not isinstance(column, (np.ndarray, np.generic)) or column.dtype.kind not in "biufcV":
        return column
    torch = importlib.import_module("torch")
    array = np.asarray(column)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _interrupt(threads: list[int]) -> None:
    """Raises KeyboardInterrupt in threads that are in a function."""
    for thread in threads:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))
