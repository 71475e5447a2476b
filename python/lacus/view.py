"""Views: selections of rows and columns of one state, and views saved under a name."""

from __future__ import annotations

import datetime
import importlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._guard import guard
from ._loader_defaults import BLOCK, PREFETCH, TIMEOUT
from ._native import Dataset as NativeDataset
from ._native import View as NativeView
from ._notebook import ROWS, never_raises, view_html
from ._table_display import table_html
from .column import ROWS_AT_ONCE, Column, chosen
from .commit import when
from .errors import InvalidError, OutOfBoundsError
from .exchange import ExchangeReport, export_from
from .query import Asking, Params, condition_text
from .table import Table, dressed, plain
from .udf import Functions, Udf, known

if TYPE_CHECKING:
    import os

    from .dataset import Dataset, StorageOptions
    from .loader import Batch, Loader

__all__ = ["SavedView", "View", "ViewState", "Views"]

_Places = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class ViewState:
    """The state that a view reads. It never changes."""

    #: The id of the dataset; a copy at another place has the same.
    dataset: str
    #: The directory of the table; empty for main's.
    directory: str
    #: The version of the table.
    version: int
    #: The commit with this content, if known.
    commit: str | None


@dataclass(frozen=True)
class SavedView:
    """Facts about a saved view."""

    name: str
    #: The commit whose rows these are.
    commit: str
    author: str
    time: datetime.datetime
    message: str
    #: The query it came from, if any.
    query: str | None
    #: How many rows it has.
    rows: int


@guard
class View:
    """A selection of rows and columns of one state of a dataset: ``ds[a:b]``, ``ds[[3, 1, 4]]``, ``ds[mask]`` or ``ds.view()``.

    Making a view reads nothing, and later writes to the dataset do not change it. Each method returns a new view. A row may occur
    more than once. A pickled view takes a few hundred bytes if its rows are consecutive; unpickling it opens the same state
    again.

    >>> train, test = ds.view().shuffle(7).split([0.8, 0.2])
    >>> train["label"]                      # the labels of these rows
    >>> for row in test: row["image"], row["label"]
    >>> train.save("train-v1")
    """

    __slots__ = ("_native", "_source_", "_is_read_only", "_query", "_functions", "__weakref__")
    _native: NativeView
    _source_: Dataset | None
    #: Whether the handle it came from was opened with ``read_only=True``.
    _is_read_only: bool
    #: The text of the query that it answers.
    _query: str | None
    #: Functions that its computed columns may need, beside those that all queries know.
    _functions: dict[str, Udf]

    def __init__(self) -> None:
        raise TypeError("views are got from datasets: ds[10:20], ds[mask], ds.view()")

    @classmethod
    def _of(
        cls, native: NativeView, source: Dataset | None = None, is_read_only: bool = False, query: str | None = None
    ) -> View:
        made = cls.__new__(cls)
        made._query = query
        made._native = native
        made._source_ = source
        made._is_read_only = is_read_only
        made._functions = {}
        return made

    def _with(self, native: NativeView) -> View:
        made = View._of(native, self._source_, self._is_read_only)
        made._functions = self._functions
        return made

    @property
    def _source(self) -> Dataset:
        """The dataset at the state of this view."""
        if self._source_ is None:
            from .dataset import Dataset

            self._source_ = Dataset._of(NativeDataset.of_view(self._native))
        return self._source_

    # Facts.

    @property
    def columns(self) -> list[str]:
        """The names of its columns, in order."""
        return self._native.columns()

    @property
    def computed(self) -> dict[str, str]:
        """The columns that are computed when they are read: the expression of each, in SQL."""
        return self._native.computed()

    @property
    def query_text(self) -> str | None:
        """The query that this view answers; None if it was made in another way. Views made from it answer another question."""
        return self._query

    @property
    def ids(self) -> list[int]:
        """The ids of its rows, which never change."""
        ids: list[int] = self._native.ids().tolist()
        return ids

    @property
    def positions(self) -> list[int]:
        """Where its rows are in the dataset."""
        return [int(place) for place in self._native.positions(self._places())]

    @property
    def state(self) -> ViewState:
        """The state it reads."""
        return ViewState(*self._native.state())

    def __len__(self) -> int:
        return self._native.row_count()

    def __bool__(self) -> bool:
        """A view is always true, also without rows."""
        return True

    def _title(self) -> str:
        return f"lacus.View {len(self):,} of {len(self._source):,} rows of version {self.state.version}"

    def __repr__(self) -> str:
        return f"<{self._title()}, columns {self.columns}>"

    @never_raises
    def _repr_html_(self) -> str:
        computed = self._native.computed()
        if not computed:
            return view_html(self)
        shown = list(self._rows(self._places()[:ROWS], self.columns))
        types = {name: computed.get(name) or self._source._rows.column_info(name).htype for name in self.columns}
        return table_html(self._title(), types, shown, len(self) - len(shown))

    def __eq__(self, other: object) -> bool:
        """Whether both are the same rows, in the same order, and columns of the same state."""
        return self._native.is_same_as(other._native) if isinstance(other, View) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._native.state()[:3], len(self), *self.columns))

    # Reading.

    def __getitem__(self, key: Any) -> Any:
        """With a string, the samples of a column; with an integer, a row as a dict; with a slice, a list of integers or a mask, a
        view of these rows.

        Raises:
            NotFoundError: also a ``KeyError``; there is no column of this name.
            OutOfBoundsError: also an ``IndexError``; there is no such row.
        """
        if isinstance(key, str):
            return self._read(key, self._places())
        found = chosen(key, len(self))
        if isinstance(found, int):
            return next(self._rows(np.array([found], np.uint64), self.columns))
        return self._with(self._chosen(found))

    def _chosen(self, found: range | _Places) -> NativeView:
        if isinstance(found, range):
            return self._native.every(found.start if len(found) else 0, found.step, len(found))
        return self._native.take(found)

    def _places(self) -> _Places:
        return np.arange(len(self), dtype=np.uint64)

    def _read(self, name: str, places: _Places) -> Any:
        if name in self._native.computed():
            return self._compute([name], places)[name]
        found = self._native.read_samples(name, places, None)
        return Column(self._source, name)._many(found, None)

    def _each(self, name: str, places: _Places) -> Any:
        """Samples of a stored column one by one."""
        return Column(self._source, name)._singles(self._read(name, places))

    def _compute(self, names: Sequence[str], places: _Places) -> dict[str, Any]:
        """Columns that are computed, by name."""
        if not names:
            return {}
        table = self._native.compute(list(names), places, known(self._functions))
        found = [table.read(place, 0, len(places)) for place in range(len(names))]
        return {name: dressed(*of, name) for name, of in zip(names, zip(found, table.types(), strict=True), strict=True)}

    def _rows(self, places: _Places, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        for start in range(0, len(places), ROWS_AT_ONCE):
            some = places[start : start + ROWS_AT_ONCE]
            is_computed = self._native.computed()
            computed = self._compute([name for name in names if name in is_computed], some)
            columns = [computed[name] if name in computed else self._each(name, some) for name in names]
            for values in zip(*columns, strict=True) if columns else (() for _ in some):
                yield dict(zip(names, values, strict=True))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dicts, read in batches."""
        return self._rows(self._places(), self.columns)

    def to_dict(self, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """All samples by column."""
        return {name: self[name] for name in (self.columns if columns is None else _names(columns))}

    # Questions.

    def query(
        self, text: str, params: Params = None, *, memory: int | str | None = None, functions: Functions = None
    ) -> View | Table:
        """Answers a question in SQL about these rows, which are called ``dataset``; see :meth:`Dataset.query`.

        >>> view.query("SELECT * WHERE width(image) > 300 ORDER BY label LIMIT 10")
        """
        return Asking(self).ask(text, params, memory, functions)

    def explain(self, text: str, params: Params = None, *, analyze: bool = False, functions: Functions = None) -> str:
        """How a question would be answered; see :meth:`Dataset.explain`."""
        return Asking(self).explain(text, params, analyze, functions)

    def filter(
        self,
        condition: str | Callable[[dict[str, Any]], Any],
        params: Params = None,
        *,
        columns: Sequence[str] | None = None,
        memory: int | str | None = None,
    ) -> View:
        """The rows for which a condition holds; see :meth:`Dataset.filter`."""
        if not isinstance(condition, str):
            if params is not None or memory is not None:
                raise InvalidError("filter: params and memory are for a condition in SQL")
            return self.where(condition, columns=columns)
        if columns is not None:
            raise InvalidError("filter: columns are for a function, which reads them; a condition names its own")
        found = self.query(condition_text(condition), params, memory=memory)
        if not isinstance(found, View):
            raise InvalidError("filter: a condition says of each row whether to keep it, without GROUP BY and the like")
        return found

    # Other rows, other columns.

    def select(self, columns: Sequence[str]) -> View:
        """Only these columns, in this order.

        >>> view.select(["label", "image"])
        """
        return self._with(self._native.select(_names(columns)))

    def where(self, condition: Any, *, columns: Sequence[str] | None = None) -> View:
        """The rows that match a condition.

        Args:
            condition: a mask, one bool for each row of the view; or a function that gets a row as a dict and returns whether to
                keep it.
            columns: the columns that the function needs; by default all. Only these are read.

        >>> view.where(np.asarray(view["label"]) == 3)
        >>> view.where(lambda row: row["caption"].startswith("a"), columns=["caption"])
        """
        if callable(condition):
            names = self.columns if columns is None else _names(columns)
            rows = self._rows(self._places(), names)
            mask = np.fromiter((bool(condition(row)) for row in rows), np.bool_, len(self))
        else:
            if columns is not None:
                raise InvalidError("columns are for a function, which reads them; a mask reads nothing")
            mask = np.asarray(condition)
            if mask.ndim != 1 or mask.dtype != np.bool_:
                raise InvalidError(f"where: a mask of {len(self):,} bools or a function is expected, found {_told(condition)}")
            if len(mask) != len(self):
                raise OutOfBoundsError(f"where: a mask of {len(mask):,} for {len(self):,} rows")
        return self._with(self._native.masked(np.ascontiguousarray(mask)))

    def concat(self, *others: View) -> View:
        """These rows, then those of other views of the same state."""
        native = self._native
        for other in others:
            if not isinstance(other, View):
                raise InvalidError(f"concat: a view is expected, found {_told(other)}")
            if self._source._is_private != other._source._is_private:
                raise InvalidError("concat: one of the views contains uncommitted writes of a transaction")
            native = native.concat(other._native)
        return self._with(native)

    def shuffle(self, seed: int) -> View:
        """The rows in random order. The same seed gives the same order on every machine and in every version of Lacus."""
        return self._with(self._native.shuffled(_seed(seed)))

    def split(self, shares: Sequence[float], seed: int | None = None) -> list[View]:
        """Several views that together have each row of this view once, or fewer rows if the shares add up to less than one.

        Args:
            shares: the share of rows for each view, above zero and together at most one: ``[0.8, 0.2]``.
            seed: distributes the rows randomly; without it, the first view has the first rows.
        """
        if isinstance(shares, (str, Mapping)) or not hasattr(shares, "__iter__"):
            raise InvalidError(f"split: a list of shares is expected, found {_told(shares)}")
        try:
            numbers = [float(share) for share in shares]
        except (TypeError, ValueError) as error:
            raise InvalidError(f"split: {error}") from error
        parts = self._native.split(numbers, None if seed is None else _seed(seed))
        return [self._with(part) for part in parts]

    def sample(self, n: int, seed: int, *, weights: Any = None, replace: bool = False) -> View:
        """Random rows.

        Args:
            n: how many.
            seed: the same seed gives the same rows.
            weights: the relative probability of each row: one number for each, zero or above.
            replace: whether a row may be drawn more than once.
        """
        if isinstance(n, bool) or not hasattr(n, "__index__") or operator.index(n) < 0:
            raise InvalidError(f"sample: a number of rows is expected, found {n!r}")
        numbers = None
        if weights is not None:
            try:
                numbers = np.ascontiguousarray(weights, np.float64)
            except (TypeError, ValueError) as error:
                raise InvalidError(f"sample: weights: {error}") from error
            if numbers.ndim != 1:
                raise InvalidError(f"sample: weights have one axis, found {numbers.ndim}")
        return self._with(self._native.sampled(operator.index(n), _seed(seed), numbers, bool(replace)))

    def sort_by(self, column: str, *, descending: bool = False) -> View:
        """The rows sorted by a column of numbers or texts. Rows with equal values keep their order; missing samples and NaN come last."""
        if not isinstance(column, str):
            raise InvalidError(f"sort_by: the name of a column is expected, found {column!r}")
        if column in self._native.computed():
            return self._with(self._native.take(_order(self[column], column, bool(descending))))
        return self._with(self._native.sorted_by(column, bool(descending)))

    # As tables.

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Sequence[Any] | None = None,
        batch_bytes: int | None = None,
    ) -> Iterator[Any]:
        """The rows as ``pyarrow.RecordBatch``es, one after the other, each of about ``batch_bytes`` (16 MiB by default).

        Tensors are Arrow's ``fixed_shape_tensor`` and ``variable_shape_tensor``, classes are dictionaries of their names, media
        are files; missing samples are null.

        Args:
            columns: the columns, in order; by default all of the view's.
            filter: comparisons that rows must match, in the form of ``pyarrow.parquet``: ``[("label", "==", "cat"), ("score", ">", 0.5)]``
                for all of these, a list of such lists for one of them. Operators are ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in``,
                ``not in``; a comparison with None finds missing samples. Files and pages that cannot match are skipped.
            batch_bytes: the approximate size of a batch, which has at least one row.
        """
        pa = _library("pyarrow", "view.scan")
        names = None if columns is None else _names(columns)
        size = _positive("batch_bytes", batch_bytes)
        scan = self._native.scan(names, _alternatives(filter), size, known(self._functions))
        while (found := scan.next()) is not None:
            yield pa.RecordBatch._import_from_c_capsule(*found)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's PyCapsule interface: ``pa.table(view)``, ``pl.DataFrame(view)``, ``duckdb.sql("from view")``."""
        return self._native.stream(None, None, known(self._functions))

    def to_arrow(self, columns: Sequence[str] | None = None, filter: Sequence[Any] | None = None) -> Any:
        """All rows as a ``pyarrow.Table``; see :meth:`scan`."""
        pa = _library("pyarrow", "view.to_arrow")
        names = None if columns is None else _names(columns)
        schema = pa.Schema._import_from_c_capsule(self._native.scan(names, [], None, known(self._functions)).schema())
        return pa.Table.from_batches(self.scan(columns, filter), schema)

    def to_pandas(self, columns: Sequence[str] | None = None, filter: Sequence[Any] | None = None) -> Any:
        """All rows as a ``pandas.DataFrame``; see :meth:`scan`."""
        _library("pandas", "view.to_pandas")
        return self.to_arrow(columns, filter).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, filter: Sequence[Any] | None = None) -> Any:
        """All rows as a ``polars.DataFrame``; see :meth:`scan`. Tensors are lists there."""
        pl = _library("polars", "view.to_polars")
        return pl.from_arrow(plain(self.to_arrow(columns, filter)))

    # Training.

    def loader(
        self,
        batch_size: int,
        *,
        columns: Sequence[str] | None = None,
        shuffle: bool | str = False,
        seed: int = 0,
        transform: Any = None,
        batch_transform: Callable[[Batch], Any] | None = None,
        collate: Any = "auto",
        rank: int | None = None,
        world: int | None = None,
        drop_last: bool = False,
        even: str = "split",
        prefetch: int | str = PREFETCH,
        on_error: str = "raise",
        missing: Any = "keep",
        pad_value: Any = 0,
        weights: Any = None,
        balance: str | None = None,
        samples: int | None = None,
        replace: bool = True,
        order: Any = None,
        bucket_by: str | None = None,
        block: int | str = BLOCK,
        timeout: float = TIMEOUT,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> Loader:
        """Batches for training, read and decoded ahead of time on threads; see ``docs/training.md``.

        >>> for batch in view.loader(64, shuffle=True, seed=1):
        ...     step(batch["image"], batch["label"])

        Options that take one value for all columns also take a dict by the name of the column.

        Args:
            batch_size: samples of a batch on one rank.
            columns: the columns to load; by default all of the view's.
            shuffle: True mixes rows within blocks of ``block`` bytes, so that reads stay long; ``"full"`` mixes all rows.
            seed: the same seed gives the same order, on every machine.
            transform: a function of a sample (a dict) that returns a dict; or, by column, functions of one value and transforms of
                ``lacus.transforms``. A function with a parameter ``rng`` gets a generator that depends on the seed, the epoch and the row.
            batch_transform: a function of a whole batch.
            collate: ``"auto"`` makes one array of samples of one shape, else a list; ``"stack"`` insists on one array; ``"pad"`` makes
                one array of the largest sizes and a mask called ``<column>_mask``; ``"nested"`` puts samples one after the other;
                ``"list"`` makes a list; a function gets the list of samples.
            rank: the rank to load for; by default that of ``torch.distributed``, else of the environment variables ``RANK`` and
                ``WORLD_SIZE``.
            world: how many ranks there are.
            drop_last: leaves out samples that do not fill a batch on every rank.
            even: how these are shared out otherwise: ``"split"`` makes the last batches shorter, ``"pad"`` repeats samples so that all are
                equally long. Ranks always have the same number of batches.
            prefetch: bytes that are read and decoded ahead.
            on_error: what to do with samples that cannot be decoded or transformed: ``"raise"``, ``"skip"`` or ``"zeros"``.
            missing: ``"keep"`` hands over None, ``"skip"`` leaves out rows that lack the sample, anything else is put in its place.
            pad_value: the value of elements that ``collate="pad"`` adds.
            weights: the relative probability of each row, or the name of a column that holds it.
            balance: the name of a column all of whose values should come equally often.
            samples: how many samples make an epoch, for weights, balance and mixes.
            replace: whether ``weights`` and ``balance`` may draw a row more than once in an epoch.
            order: the name of a column to sort by, or places of rows in the order in which they should come.
            bucket_by: the name of a column; samples of about the same length come together, so that little is padded.
            block: the stored bytes of the samples that ``shuffle=True`` mixes.
            timeout: seconds without a batch after which the loop fails and says what it was waiting for.
            threads: threads for functions of Python; 0 runs them in the loop itself.
            progress: whether to show a progress line.
        """
        from .loader import Loader

        given = {name: value for name, value in locals().items() if name not in ("self", "batch_size", "Loader")}
        return Loader._of([self], None, batch_size, given)

    # Saving and copying.

    def save(self, name: str, message: str | None = None) -> SavedView:
        """Saves the view under a new name; ``ds.views[name]`` returns it.

        A saved view belongs to a commit, and ``gc`` keeps the data it needs. To save a view of a draft, commit first.

        Raises:
            ConflictError: there is already a view of this name.
        """
        if not isinstance(name, str):
            raise InvalidError(f"the name of a view is expected, found {name!r}")
        if self._source._is_private:
            raise InvalidError("this view contains uncommitted writes of a transaction; save one after the transaction")
        if self._is_read_only:
            raise InvalidError("the dataset was opened with read_only=True; open it without to save views")
        return _saved(self._native.save(name, message or "", self._query))

    def export(self, dest: str | os.PathLike[str], kind: str | None = None, **options: Any) -> ExchangeReport:
        """Exports the rows and columns; see :meth:`Dataset.export_to`."""
        self._refuse_computed("export", options.get("columns"))
        return export_from(self._source, dest, kind, view=self._native, **options)

    def materialize(
        self,
        url: str | os.PathLike[str],
        *,
        storage_options: StorageOptions | None = None,
        durable: bool = False,
    ) -> Dataset:
        """Copies the rows and columns to a new dataset, in the order of the view and in the best layout for streaming. Computed
        columns are stored with their values. Its first commit records the source (``ds.lineage``)."""
        from .dataset import _absolute, _options, open

        place, options = _absolute(url), _options(storage_options)
        self._native.materialize(place, options, durable, known(self._functions))
        return open(place, storage_options=storage_options)

    def _refuse_computed(self, what: str, columns: Sequence[str] | None) -> None:
        computed = [name for name in self._native.computed() if columns is None or name in columns]
        if computed:
            raise InvalidError(
                f"{what}: {', '.join(map(repr, computed))} are computed, and only stored columns are copied; "
                "store them with view.materialize(url), choose columns with view.select, or take view.to_arrow()"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        source = self._source
        if source._is_private:
            raise InvalidError("this view contains uncommitted writes of a transaction and cannot be pickled")
        return _unpickled, (source.url, self._native.data(), source._native.options, list(source._links), self._query)


def _unpickled(
    url: str,
    data: str,
    options: dict[str, str],
    links: list[tuple[str, dict[str, str]]],
    query: str | None = None,
) -> View:
    from .dataset import Dataset

    native = NativeDataset.view_at(url, options, data, links)
    return View._of(native, Dataset._of(NativeDataset.of_view(native), links), query=query)


@guard
class Views(Mapping[str, View]):
    """The saved views of a dataset by name: ``ds.views``."""

    __slots__ = ("_dataset",)

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __getitem__(self, name: str) -> View:
        """The view of this name.

        Raises:
            NotFoundError: also a ``KeyError``; there is no view of this name, or its commit is gone.
        """
        saved, native = self._dataset._native.saved_view(_name(name))
        source = self._dataset._beside(NativeDataset.of_view(native))
        return View._of(native, source, self._dataset._refuses_changes(), saved[5])

    def info(self, name: str) -> SavedView:
        """Facts about a saved view: its commit, author, time, message, number of rows."""
        known = {row[0]: row for row in self._dataset._native.views()}
        if name not in known:
            self._dataset._native.saved_view(_name(name))
        return _saved(known[name])

    def __delitem__(self, name: str) -> None:
        """Deletes a saved view. Its commit stays."""
        self._dataset._native.delete_view(_name(name))

    def __iter__(self) -> Iterator[str]:
        return iter([row[0] for row in self._dataset._native.views()])

    def __len__(self) -> int:
        return len(self._dataset._native.views())

    def __contains__(self, name: object) -> bool:
        return any(row[0] == name for row in self._dataset._native.views())

    def __repr__(self) -> str:
        rows = [f"  {row[0]}: {row[6]:,} rows of {row[1][:10]}{': ' + row[4] if row[4] else ''}" for row in self._dataset._native.views()]
        return "\n".join(["<lacus.Views", *rows, ">"]) if rows else "<lacus.Views: none>"


def _saved(row: tuple[str, str, str, int, str, str | None, int]) -> SavedView:
    name, commit, author, millis, message, query, rows = row
    return SavedView(name, commit, author, when(millis), message, query, rows)


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidError(f"the name of a view is expected, found {name!r}")
    return name


def _names(columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        raise InvalidError(f"columns are given as a list of names: [{columns!r}]")
    names = list(columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidError(f"columns are given as a list of names, found {name!r}")
    return names


def _seed(seed: object) -> int:
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise InvalidError(f"seed: a whole number is expected, found {seed!r}")
    number = operator.index(seed)
    if not 0 <= number < 1 << 64:
        raise InvalidError(f"seed: a number from 0 to 2**64 - 1 is expected, found {number}")
    return number


def _library(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InvalidError(f"{what} needs {name}: install it with `pip install {name}`") from error


def _order(values: Any, column: str, descending: bool) -> _Places:
    """The places of values in their order; equal ones keep theirs, missing ones and NaN come last."""
    keys = values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
    if not isinstance(keys, list) or not all(key is None or isinstance(key, (str, int, float, np.generic)) for key in keys):
        raise InvalidError(f"sort_by: {column!r} holds neither numbers nor texts, and so has no order")
    is_last = [key is None or key != key for key in keys]
    first = [place for place in range(len(keys)) if not is_last[place]]
    first.sort(key=keys.__getitem__, reverse=descending)
    return np.array(first + [place for place in range(len(keys)) if is_last[place]], np.uint64)


def _alternatives(filter: Sequence[Any] | None) -> list[list[tuple[str, str, Any]]]:
    """Comparisons as alternatives, each of them comparisons that must all hold."""
    if filter is None:
        return []
    if isinstance(filter, (str, bytes, Mapping)) or not isinstance(filter, Sequence):
        raise InvalidError(f"filter: a list of comparisons such as (\"label\", \"==\", 3) is expected, found {_told(filter)}")
    given: list[Any] = list(filter)
    groups: list[Any] = given if given and all(isinstance(part, list) for part in given) else [given] if given else []
    found: list[list[tuple[str, str, Any]]] = []
    for group in groups:
        for part in group:
            if not (isinstance(part, tuple) and len(part) == 3 and isinstance(part[0], str) and isinstance(part[1], str)):
                raise InvalidError(f"filter: a comparison is (column, operator, constant), found {_told(part)}")
        found.append([(column, operator_, _item(value)) for column, operator_, value in group])
    return found


def _item(value: Any) -> Any:
    """A constant of Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_item(part) for part in value] if isinstance(value, (list, tuple, set, frozenset, range)) else value


def _positive(what: str, value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < 1:
        raise InvalidError(f"{what}: a number of bytes above zero is expected, found {value!r}")
    return operator.index(value)


def _told(value: object) -> str:
    return f"{type(value).__name__} {value!r}"[:80]

