"""Questions in SQL: ``ds.query(...)``, ``view.query(...)``, ``lacus.sql(...)``."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import _native
from ._arrays import bits
from ._guard import guarded
from ._moments import text_of
from ._native import Dataset as NativeDataset
from .errors import InvalidError
from .table import Table
from .udf import Functions, Udf, by_name, known
from .writer import parse_size

if TYPE_CHECKING:
    from .dataset import Dataset, StorageOptions
    from .view import View

__all__ = ["sql"]

#: What may be given for ``?`` and ``:name``.
Params: TypeAlias = "Sequence[Any] | Mapping[str, Any] | None"


@guarded
def sql(
    text: str,
    /,
    params: Params = None,
    *,
    memory: int | str | None = None,
    functions: Functions = None,
    storage_options: StorageOptions | None = None,
    **datasets: Dataset | View,
) -> View | Table:
    """Answers a question about several datasets, or about datasets that FROM names by their URL.

    Args:
        text: the query.
        params: values for ``?`` (a sequence) or ``:name`` (a mapping); see :meth:`Dataset.query`.
        memory: bytes that sorts, joins and groups may use before they go to disk, as in ``"2GiB"``.
        functions: functions of your own for this query; see :func:`lacus.udf`.
        storage_options: options of the stores of datasets that are named by their URL.
        **datasets: datasets and views by the names they have in FROM. One called ``dataset`` is read without FROM.

    >>> lacus.sql("SELECT a.id, b.score FROM a JOIN b ON a.id = b.id", a=photos, b=scores)
    >>> lacus.sql("SELECT * FROM 's3://bucket/photos' WHERE label = 'cat'")
    """
    from .dataset import _options
    from .view import View

    views: dict[str, View] = {}
    options: dict[str, str] = {}
    for name, given in datasets.items():
        if not isinstance(given, View) and not hasattr(given, "view"):
            raise InvalidError(f"sql: {name} is a dataset or a view, found {type(given).__name__} {given!r}"[:200])
        views[name] = given if isinstance(given, View) else given.view()
        options = options or views[name]._source._native.options
    chosen = options if storage_options is None else _options(storage_options)
    default = views.pop("dataset", None)
    states = datasets.get("dataset")
    return Asking(default, states if default is not states else None, views, chosen).ask(text, params, memory, functions)


class Asking:
    """What a question may read."""

    __slots__ = ("_default", "_states", "_others", "_options")

    def __init__(
        self, default: View | None, states: Any = None, others: Mapping[str, View] | None = None, options: dict[str, str] | None = None
    ) -> None:
        self._default = default
        #: The dataset whose other states a query may name.
        self._states: Dataset | None = states
        self._others = dict(others or {})
        if options is None:
            options = {} if default is None else default._source._native.options
        self._options = options

    def _sources(self) -> tuple[Any, Any, list[tuple[str, Any]], dict[str, str]]:
        default = None if self._default is None else self._default._native
        states = None if self._states is None else self._states._native
        return default, states, [(name, view._native) for name, view in self._others.items()], self._options

    def ask(self, text: str, params: Params, memory: int | str | None, functions: Functions = None) -> View | Table:
        """The answer."""
        own = self._functions(functions)
        native = _native.ask(_question(text, params, memory, own), self._sources())
        if isinstance(native, _native.Table):
            return Table._of(native)
        found = self._view(native, text)
        found._functions = own
        return found

    def explain(self, text: str, params: Params, analyze: bool, functions: Functions = None) -> str:
        """How it is found."""
        return _native.explain(_question(text, params, None, self._functions(functions)), self._sources(), bool(analyze))

    def _views(self) -> list[View]:
        return [view for view in (self._default, *self._others.values()) if view is not None]

    def _functions(self, given: Functions) -> dict[str, Udf]:
        """Functions of this query alone, and those that columns of the views need."""
        found: dict[str, Udf] = {}
        for view in self._views():
            found |= view._functions
        return found | by_name(given)

    def _view(self, native: _native.View, text: str) -> View:
        from .view import View

        for view in self._views():
            if view._native.state()[:3] == native.state()[:3]:
                return View._of(native, view._source_, view._is_read_only, text)
        # Another state of the dataset, or a dataset that the query names by its URL.
        states = self._states
        if states is not None and self._default is not None and native.state()[0] == self._default._native.state()[0]:
            return View._of(native, states._beside(NativeDataset.of_view(native)), states._refuses_changes(), text)
        return View._of(native, None, False, text)


def condition_text(condition: str) -> str:
    """The query for the rows that pass a condition."""
    if not condition.strip():
        raise InvalidError("filter: the condition is empty")
    # On a line of its own, so that a comment at its end does not swallow the bracket.
    return f"SELECT * WHERE ({condition}\n)" if "--" in condition else f"SELECT * WHERE ({condition})"


def _question(text: str, params: Params, memory: int | str | None, functions: Mapping[str, Udf]) -> _native._Question:
    if not isinstance(text, str):
        raise InvalidError(f"query: a text is expected, found {type(text).__name__} {text!r}"[:200])
    bytes_ = None if memory is None else parse_size(memory, "memory")
    return text, _parameters(params), bytes_, known(functions)


def _parameters(params: Params) -> list[Any] | dict[str, Any] | None:
    if params is None:
        return None
    if isinstance(params, Mapping):
        for name in params:
            if not isinstance(name, str):
                raise InvalidError(f"params: names are texts, found {name!r}")
        return {name: _parameter(value, f"params[{name!r}]") for name, value in params.items()}
    if isinstance(params, (str, bytes)) or not hasattr(params, "__iter__") or getattr(params, "ndim", 1) == 0:
        raise InvalidError(
            f"params: a sequence for `?` or a mapping for `:name` is expected, found {type(params).__name__}; "
            "for one value, write [value]"
        )
    return [_parameter(value, f"params[{place}]") for place, value in enumerate(params)]


def _parameter(value: Any, what: str) -> Any:
    """A value as the native module takes it: Python's own, a list of texts, or an array's bits with the name of its dtype."""
    if value is None or isinstance(value, (bool, int, str)) or type(value) is float:
        return str(value) if isinstance(value, str) else value
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            raise InvalidError(f"{what}: {value} is no number")
        return value
    if isinstance(value, (datetime.date, datetime.time, np.datetime64)):
        # SQL reads the text of a date where a date belongs.
        return text_of(value, False)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, str) for item in value):
        return [str(item) for item in value]
    if isinstance(value, (Mapping, set, frozenset)) or callable(value):
        raise InvalidError(f"{what}: a {type(value).__name__} cannot be a parameter")
    if isinstance(value, (list, tuple)) and not value:
        value = np.empty(0, np.float64)
    return bits(value, what)
