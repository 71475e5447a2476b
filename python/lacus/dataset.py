"""A dataset: columns of samples and named arrays at a URL, every write a version."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from . import _dtypes, _native, search
from ._arrays import sizes
from ._display import SHOWN, columns_text, dataset_text, size_text
from ._guard import guard, guarded
from ._native import Dataset as NativeDataset
from ._native import History as NativeHistory
from ._native import Rows as NativeRows
from ._native import TensorInfo
from ._notebook import dataset_html, never_raises
from ._values import by_name, listed, native
from ._wish import Wish, wish
from .column import Column, positions_of
from .commit import when
from .errors import InvalidError
from .exchange import ExchangeReport, export_from, import_into
from .group import Group
from .history import Historic, HistoryEntry, State, moment
from .query import Asking, Params, condition_text
from .rows import read_rows
from .search import IndexInfo
from .table import Table
from .tensor import Array, metadata_text, quoted
from .transaction import Transaction
from .transform import MapReport, check_map, map_rows
from .udf import Functions
from .view import View, Views
from .writer import Writer

__all__ = [
    "CompactReport",
    "Dataset",
    "ExtendReport",
    "HistoryEntry",
    "Summary",
    "create",
    "delete",
    "exists",
    "open",
]

Url: TypeAlias = "str | os.PathLike[str]"
StorageOptions: TypeAlias = Mapping[str, Any]


@guarded
def create(url: Url, *, storage_options: StorageOptions | None = None) -> Dataset:
    """Creates an empty dataset.

    Args:
        url: a local path, or a URL starting with ``file://``, ``memory://``, ``s3://``, ``gs://`` or ``az://``.
        storage_options: options of the object store, such as ``aws_endpoint_url`` or ``aws_region``; others come from
            the usual environment variables.

    Raises:
        ConflictError: the URL already has a dataset, or something else.
    """
    return Dataset._of(NativeDataset.create(_absolute(url), _options(storage_options)))


@guarded
def open(
    url: Url,
    *,
    branch: str = "main",
    at: State | None = None,
    read_only: bool = False,
    storage_options: StorageOptions | None = None,
) -> Dataset:
    """Opens a dataset.

    Args:
        url: its location; see :func:`create`.
        branch: the branch to open. You can write to it, and ``refresh`` moves the handle to newer versions.
        at: open this state instead, pinned and read-only. As text: a branch, a tag, a commit's id or the beginning of it,
            steps back from these (``"main~2"``), or a version (``"@17"``, ``"version:17"``); as a number, a version of the
            branch; or a time, which means the newest version of the branch made at or before it. A time is a
            ``datetime``, an ISO 8601 string or seconds since 1970 as a ``float``; one without a time zone is local
            time, as on the command line.
        read_only: refuses writes.
        storage_options: see :func:`create`.

    Raises:
        NotFoundError: there is no dataset at the URL, or no such branch, commit, version or time in it.

    >>> lacus.open("photos")                        # the tip of main
    >>> lacus.open("photos", branch="fix/labels")   # the tip of a branch
    >>> lacus.open("photos", at="v1.0")             # a tag
    >>> lacus.open("photos", at="main~2"), lacus.open("photos", at=17), lacus.open("photos", at="2026-01-31")
    """
    if not isinstance(branch, str):
        raise InvalidError(f"branch: a name is expected, found {branch!r}")
    return Dataset._of(NativeDataset.open(_absolute(url), _options(storage_options), branch, moment(at), read_only))


@guarded
def exists(url: Url, *, storage_options: StorageOptions | None = None) -> bool:
    """Whether a URL has a dataset."""
    return _native.exists(_absolute(url), _options(storage_options))


@guarded
def delete(url: Url, *, storage_options: StorageOptions | None = None) -> None:
    """Deletes a dataset with all its versions, permanently.

    Raises:
        NotFoundError: there is no dataset at the URL.
    """
    _native.delete(_absolute(url), _options(storage_options))


@dataclasses.dataclass(frozen=True)
class CompactReport:
    """What a compaction did."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    #: The new version; the current one if there was nothing to do.
    version: int
    #: Files left unchanged because they have rows of other writers that belong to no tensor; ``check`` lists these.
    files_kept: int = 0


@dataclasses.dataclass(frozen=True)
class ExtendReport:
    """What was appended."""

    version: int
    rows: int
    #: Rows that were left out: their position in the input, and why.
    skipped: list[tuple[int, str]]


@dataclasses.dataclass(frozen=True)
class ColumnSummary:
    """What a column holds."""

    name: str
    htype: str
    #: numpy's name; empty before the first sample decides it, ``"string"`` for texts.
    dtype: str
    #: Rows that have a sample.
    samples: int
    #: The smallest and largest size of each axis; None without samples, or if the number of axes differs.
    shape_range: tuple[tuple[int, ...], tuple[int, ...]] | None
    compression: str
    stored_bytes: int


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a dataset holds, column by column."""

    rows: int
    columns: list[ColumnSummary]
    files: int
    stored_bytes: int
    #: Advice that would make reading faster.
    advice: list[str]

    def __repr__(self) -> str:
        return columns_text(self)


@guard
class Dataset(Historic):
    """Columns of samples that share rows, and named arrays, at a URL. Use :func:`lacus.create` or :func:`lacus.open`
    to get one.

    Every write makes one version: all of it or nothing. Others see it at once. It survives a killed process, and with
    ``durable=True`` also power loss. A handle keeps reading its version until its own next write or ``refresh()``. Several
    threads, and forked children, can use it. ``ds.commit(message)`` commits the newest version; see :meth:`checkout`, :meth:`merge`, :meth:`diff` and :meth:`transaction` for working with
    history.

    A pickled handle stores the URL and the version: the unpickled one is pinned to that version and read-only. Storage options,
    including credentials, are part of the pickle.

    A string selects a tensor: a :class:`Column` or an :class:`Array`. Integers, slices, lists, masks, iteration and ``len``
    refer to rows. A dataset without columns has no rows, so its ``len`` is 0; it is still true.

    >>> ds = lacus.create("photos")
    >>> ds.add_column("image", "image"); ds.add_column("label", "class_label", class_names=["cat", "dog"])
    >>> ds.append({"image": lacus.read("a.jpg"), "label": "dog"})
    >>> ds["label"][0], ds[0]["image"].shape

    >>> ds = lacus.create("measurements")
    >>> ds["a/b"] = np.arange(12).reshape(3, 4)
    >>> ds["a/b"][1, ::2]
    array([4, 6])
    """

    __slots__ = ("_native", "_rows", "_history", "_transaction", "_is_private", "_links", "__weakref__")
    _native: NativeDataset
    _rows: NativeRows
    _history: NativeHistory
    #: The one that is open.
    _transaction: Transaction | None
    #: Whether this is what a transaction saw, which nobody else can open.
    _is_private: bool
    #: Where links may lead besides: roots, and the options of their stores.
    _links: list[tuple[str, dict[str, str]]]

    def __init__(self) -> None:
        raise TypeError("datasets are made by lacus.create and lacus.open")

    @classmethod
    def _of(cls, found: NativeDataset, links: Sequence[tuple[str, dict[str, str]]] = ()) -> Dataset:
        made = cls.__new__(cls)
        made._native = found
        made._rows = found.rows()
        made._history = found.timeline()
        made._transaction = None
        made._is_private = False
        made._links = []
        for root, of_store in links:
            made._rows.allow_links(root, of_store)
            made._links.append((root, of_store))
        return made

    def _beside(self, found: NativeDataset) -> Dataset:
        """A handle on another state of this dataset, which follows the same links."""
        return Dataset._of(found, self._links)

    # Contents.

    @property
    def url(self) -> str:
        """Its location."""
        return self._native.url

    @property
    def version(self) -> int:
        """The version this handle sees."""
        return self._native.version

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        return self._native.is_read_only

    @property
    def metadata(self) -> dict[str, Any]:
        """The dataset's own metadata."""
        found: dict[str, Any] = json.loads(self._native.metadata())
        return found

    def keys(self) -> list[str]:
        """The names of all tensors, sorted."""
        return self._native.names()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._native.contains(name)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order in which they were added. A renamed column keeps its place."""
        return self._rows.column_names()

    def __getitem__(self, key: Any) -> Any:
        """With a string, the column or array of this name; with an integer, a row as a dict; with a slice, a list of integers
        or a mask, a :class:`View` of these rows.

        Raises:
            NotFoundError: also a ``KeyError``; there is no tensor of this name.
            OutOfBoundsError: also an ``IndexError``; there is no such row.
        """
        if isinstance(key, str):
            return Column(self, key) if self._rows.is_column(key) else Array(self, key)
        if isinstance(key, tuple) or key is None:
            raise TypeError('rows are selected by one index, as in ds[3]; for a part of a sample, ds["name"][3, 10:20]')
        if not isinstance(key, (int, np.integer, slice, list, np.ndarray, range)) and not hasattr(key, "__index__"):
            raise TypeError(f'a dataset is indexed by names and rows, as in ds["name"] and ds[3], not by {type(key).__name__}')
        if not isinstance(key, (slice, list, np.ndarray, range)):
            positions, is_one = self._positions(key)
            if is_one:
                return next(read_rows(self, positions))
        return self.view()[key]

    def view(self, at: State | None = None) -> View:
        """All rows and columns as a :class:`View`, at this handle's version or at another state (see :func:`open`).

        >>> ds.view().shuffle(7)[:1000]
        >>> ds.view(at="v1.0")["label"]
        """
        if at is not None:
            return self._beside(self._native.look(moment(at))).view()
        native = self._native.view()
        source = self._beside(NativeDataset.of_view(native))
        source._is_private = self._is_private or self._transaction is not None
        return View._of(native, source, self._refuses_changes())

    # Questions.

    def query(
        self, text: str, params: Params = None, *, memory: int | str | None = None, functions: Functions = None
    ) -> View | Table:
        """Answers a question in SQL about the rows of this dataset.

        The rows are called ``dataset`` in FROM, which may be left out. ``dataset@"v1.0"`` is another state, and FROM may name
        other datasets by their URL. Tensors have numpy's subscripts and functions: see ``docs/query.md`` and
        ``docs/functions.md``.

        Args:
            text: the query.
            params: values for ``?`` (a sequence) or ``:name`` (a mapping): None, bools, numbers, texts, bytes, arrays, lists of
                numbers, tensors of torch.
            memory: bytes that sorts, joins and groups may use before they go to disk, as in ``"2GiB"``.
            functions: functions of your own for this query, beside those that all queries know; see :func:`lacus.udf`.

        Returns:
            A :class:`View` if the rows of the answer are rows of the dataset, in the order that was asked for; columns that are not
            stored are computed when you read them. A :class:`Table` for everything else, such as ``GROUP BY``.

        Raises:
            InvalidError: also a ``ValueError``; the text is wrong, and the message shows where.

        >>> ds.query("SELECT * WHERE label = 'dog' AND width(image) > 300 ORDER BY score DESC LIMIT 10")
        >>> ds.query("SELECT label, mean(image[:, :, 0]) AS red WHERE score > ?", [0.5])["red"]
        >>> ds.query("SELECT label, count(*) AS n GROUP BY label")
        """
        return Asking(self.view(), self).ask(text, params, memory, functions)

    def explain(self, text: str, params: Params = None, *, analyze: bool = False, functions: Functions = None) -> str:
        """How a question would be answered: the steps, and what each of them reads.

        Args:
            text: the query.
            params: see :meth:`query`.
            analyze: answers it, and says how many rows and bytes came out of each step, and how long it took.
            functions: see :meth:`query`.
        """
        return Asking(self.view(), self).explain(text, params, analyze, functions)

    def filter(
        self,
        condition: str | Callable[[dict[str, Any]], Any],
        params: Params = None,
        *,
        columns: Sequence[str] | None = None,
        memory: int | str | None = None,
    ) -> View:
        """The rows for which a condition holds.

        Args:
            condition: a condition of SQL, as after WHERE; or a function that takes a row as a dict and says whether to keep it. A
                condition reads only what it needs; a function is called for every row.
            params: values for ``?`` or ``:name`` in a condition; see :meth:`query`.
            columns: the columns that a function looks at; all, unless you say.
            memory: see :meth:`query`.

        >>> ds.filter("label = 'dog' AND width(image) > 300")
        >>> ds.filter("score > ?", [0.5])
        >>> ds.filter(lambda row: row["caption"].startswith("a"), columns=["caption"])
        """
        if not isinstance(condition, str):
            return self.view().filter(condition, params, columns=columns, memory=memory)
        if columns is not None:
            raise InvalidError("filter: columns are for a function, which reads them; a condition names its own")
        found = self.query(condition_text(condition), params, memory=memory)
        if not isinstance(found, View):
            raise InvalidError("filter: a condition says of each row whether to keep it, without GROUP BY and the like")
        return found

    def _refuses_changes(self) -> bool:
        """Whether it was opened to be read only; a handle that stays at a state may still tag it and save views of it."""
        return self.read_only and not self._history.place()[1]

    @property
    def views(self) -> Views:
        """The saved views: ``ds.views["train"]``, ``del ds.views["train"]``, ``list(ds.views)``."""
        return Views(self)

    def _column(self, name: str) -> Column:
        return Column(self, name)

    def _positions(self, rows: Any, grow: bool = False) -> tuple[list[int], bool]:
        return positions_of(rows, len(self), grow)

    def _position(self, row: Any) -> int:
        positions, is_one = self._positions(row)
        if not is_one:
            raise InvalidError(f"one row is expected, found {row!r}")
        return positions[0]

    def _state(self) -> tuple[str, int, str, str | None]:
        """What this handle sees: the directory of a table and its version; and the branch and commit it is known as."""
        branch, _, commit = self._history.place()
        return self._native.directory(), self.version, branch, commit

    def _at(self, state: tuple[str, int, str, str | None]) -> Dataset:
        """This handle while it sees a state, afterwards one that stays there."""
        return self if self._state()[:2] == state[:2] else _reopened(self.url, state, self._native.options, self._links)

    def _steady(self) -> Dataset:
        """A handle whose states can be opened again: inside a transaction, one that stays at what there is now."""
        return self if self._transaction is None else self._frozen()

    def _frozen(self) -> Dataset:
        """A handle that stays at what there is now."""
        made = self._beside(self._native.frozen())
        made._is_private = self._is_private or self._transaction is not None
        return made

    def __len__(self) -> int:
        """The number of rows."""
        return self._rows.row_count()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows of the current version as dicts, read in batches. Arrays have no rows; ``keys()`` lists them."""
        steady = self._steady()
        return read_rows(steady, list(range(len(steady))))

    def group(self, name: str) -> Group:
        """The tensors whose names start with ``name/``."""
        return Group(self, name)

    @property
    def indexes(self) -> list[IndexInfo]:
        """The indexes that searches of this dataset use; see :meth:`Column.create_index`."""
        return search.indexes(self)

    def summary(self) -> Summary:
        """A summary of each column: type, count, range of shapes, size; and advice. Reads no samples."""
        rows, columns, files, stored, advice = self._rows.summary()
        return Summary(
            rows=rows,
            columns=[
                ColumnSummary(name, htype, dtype, samples, None if r is None else (tuple(r[0]), tuple(r[1])), kept, size)
                for name, htype, dtype, samples, r, kept, size in columns
            ],
            files=files,
            stored_bytes=stored,
            advice=advice,
        )

    def __bool__(self) -> bool:
        return True

    # Rows.

    def add_column(
        self,
        name: str,
        htype: str = "generic",
        *,
        dtype: Any = None,
        shape: Sequence[int | None] | None = None,
        compression: str | None = "auto",
        default: Any = None,
        metadata: Mapping[str, Any] | None = None,
        durable: bool = False,
        **type_options: Any,
    ) -> Column:
        """Adds a column. Only the column is written: in existing rows its sample is missing, or the default.

        Args:
            name: its name. ``/`` groups names.
            htype: what its samples are: ``"generic"``, ``"image"``, ``"image.gray"``, ``"video"``, ``"audio"``,
                ``"class_label"``, ``"text"``, ``"json"``, ``"list"``, ``"tag"``, ``"bbox"``, ``"bbox.3d"``, ``"binary_mask"``,
                ``"segment_mask"``, ``"instance_label"``, ``"keypoints"``, ``"polygon"``, ``"point"``, ``"embedding"``,
                ``"dicom"``, and ``"sequence[...]"`` and ``"link[...]"`` of these.
            dtype: the type of the elements. By default that of the column type, or of the first sample.
            shape: the shape of all samples, with None for sizes that differ: ``()`` for numbers, ``(768,)``, ``(None, 4)``.
            compression: ``"auto"``, ``None``, ``"zstd"``, ``"zstd:<level>"``, or a media format such as ``"jpeg"``.
            default: the sample for existing rows.
            metadata: a dict to store with the column as JSON.
            durable: returns only when it is safe against power loss.
            type_options: options of the type, such as ``class_names=["cat", "dog"]``.

        Raises:
            ConflictError: there is a tensor of this name.
            InvalidError: there is no such type, or it does not have these options.
        """
        what = f"column {quoted(name)}"
        spec = (
            htype,
            None if dtype is None else _dtypes.parse(dtype, what),
            None if shape is None else _sample_shape(shape, what),
            "none" if compression is None else compression,
            _type_options(type_options, what),
        )
        for option, value in (("htype", spec[0]), ("compression", spec[3])):
            if not isinstance(value, str):
                raise InvalidError(f"{what}: {option}: expected text, found {value!r}")
        text = None if metadata is None else metadata_text(metadata, what)
        self._rows.add_column(name, spec, default, text, durable)
        return Column(self, name)

    def append(self, row: Mapping[str, Any], *, durable: bool = False) -> int:
        """Appends one row, given as samples by column; samples of other columns are missing. Returns the new version.

        For many rows, use :meth:`extend` or :meth:`writer`.
        """
        columns = [(name, [sample]) for name, sample in by_name(row).items()]
        if not columns:
            raise InvalidError("a row names at least one column; one without samples is {name: None}")
        return self._rows.extend(columns, "raise", durable)[0]

    def extend(
        self, columns: Mapping[str, Iterable[Any]], *, on_error: str = "raise", durable: bool = False
    ) -> ExtendReport:
        """Appends rows in one version, given as a sequence of samples for each column.

        Args:
            columns: samples by column, the same number for each. None is a missing sample. A numpy array is fastest: its first
                axis is the rows.
            on_error: ``"raise"`` to write nothing if a sample does not fit its column, ``"skip"`` to leave such rows out
                and report them.
            durable: returns only when it is safe against power loss.

        Raises:
            InvalidError: the numbers of samples differ, or a sample does not fit; the message names its row.
            NotFoundError: there is no such column.
        """
        version, rows, skipped = self._rows.extend(list(listed(columns).items()), on_error, durable)
        return ExtendReport(version=version, rows=rows, skipped=skipped)

    def writer(self, buffer: str | int = "64MiB", *, on_error: str = "raise", durable: bool = False) -> Writer:
        """A context manager that buffers appended rows and writes them in batches of about ``buffer`` bytes."""
        return Writer(self, buffer, on_error, durable)

    def delete_rows(self, indices: Any, *, durable: bool = False) -> int:
        """Deletes rows from every column: one, a slice, a list or a mask. Returns the new version."""
        positions, _ = self._positions(indices)
        return self._rows.delete_rows(positions, durable)

    def drop_column(self, name: str, *, durable: bool = False) -> int:
        """Drops a column. Older versions keep it. Returns the new version."""
        return self._rows.drop_column(_column_name(name), durable)

    def rename_column(self, old: str, new: str, *, durable: bool = False) -> int:
        """Renames a column; its stored bytes are copied. Returns the new version."""
        return self._rows.rename_column(_column_name(old), _column_name(new), durable)

    def map(
        self,
        fn: Callable[[dict[str, Any]], Any],
        columns: Mapping[str, Any] | Sequence[str] | None = None,
        into: Dataset | Url | None = None,
        workers: int | None = None,
        processes: bool = False,
        *,
        on_error: str = "raise",
        inputs: Sequence[str] | None = None,
        progress: bool | None = None,
    ) -> MapReport:
        """Calls a function for all rows, in parallel, and writes its results in the order of the rows.

        Args:
            fn: gets a row as a dict. Without ``into``, it returns a dict of samples to write to this row. With ``into``, it
                returns a dict (one row), several of them (a list or a generator), or None (no row).
            columns: the columns it writes: names and types, such as ``{"embedding": "embedding"}`` or
                ``{"mask": dict(htype="binary_mask", compression="zstd")}``. Columns that do not exist are created; if you give only
                a name, it gets the type that it has in this dataset, otherwise ``"generic"``.
            into: another dataset, or the URL of a new one, for the results.
            workers: the number of threads or processes; by default the number of cores.
            processes: runs the function in other processes. It, the rows and the results must pickle.
            on_error: ``"raise"`` stops at the first row that fails, ``"skip"`` continues and reports it.
            inputs: the columns it needs; by default all.
            progress: shows a progress line; by default only on a terminal.

        Results are written in batches, each as a version: of 4096 rows, column by column, without ``into``; of 64 MiB with
        ``into``. Batches before a failure stay. Without ``into``, rows that someone deletes in the meantime are skipped.
        """
        check_map(fn, workers, processes, on_error)
        target = into if into is None or isinstance(into, Dataset) else create(into)
        return map_rows(self, fn, columns, target, workers, processes, on_error, inputs, progress)

    def materialize(
        self, url: Url, *, storage_options: StorageOptions | None = None, durable: bool = False
    ) -> Dataset:
        """Copies this version to a new dataset in the best layout for streaming: rows in order, linked files included, without
        replaced data."""
        options = _options(storage_options)
        self._rows.materialize(_absolute(url), options, durable)
        return Dataset._of(NativeDataset.open(_absolute(url), options, "main", moment(None), False))

    def import_from(self, source: Url, kind: str | None = None, **options: Any) -> ExchangeReport:
        """Imports samples: a folder of class subfolders, COCO, CSV, Parquet, WebDataset tars; or arrays of safetensors.

        Args:
            source: the file or folder.
            kind: ``"folder"``, ``"coco"``, ``"csv"``, ``"parquet"``, ``"webdataset"`` or ``"safetensors"``; by default detected from the source.
            options: ``on_error="raise"|"skip"``; ``append=True`` to append to existing columns; ``prefix``, a group for
                the new columns; ``split_column`` for folders whose first level is splits; ``images``, where COCO's pictures
                are; ``delimiter`` of CSV; ``durable``; ``progress``, a line on the terminal.

        Returns a report: rows, bytes, columns, and what was left out and why. If the import fails, nothing of it is kept.
        """
        return import_into(self, source, kind, **options)

    def export_to(self, dest: Url, kind: str | None = None, **options: Any) -> ExchangeReport:
        """Exports samples to the formats of :meth:`import_from`, and to ``"delta"``. ``"delta"`` writes one wide table of plain
        columns, ``"parquet"`` one wide file.

        Args:
            dest: a path that does not exist yet.
            kind: by default detected from the name.
            options: ``columns``, which ones; ``on_error="raise"|"skip"``; ``delimiter`` of CSV; ``progress``.
        """
        return export_from(self, dest, kind, **options)

    def allow_links(self, *roots: Url, storage_options: StorageOptions | None = None) -> None:
        """Allows this handle to follow links below these directories or URLs. Links inside the dataset are always allowed, and so
        are the roots in the environment variable ``LACUS_LINK_ROOTS``, separated by commas. Permissions are not saved."""
        options = _options(storage_options)
        for root in map(_absolute, roots):
            self._rows.allow_links(root, options)
            # Handles made from this one are to follow the same links.
            self._links.append((root, options))

    # Writing.

    def put(
        self,
        name: str,
        value: Any,
        *,
        layout: str = "auto",
        chunk_shape: Sequence[int] | None = None,
        block_shape: Sequence[int] | None = None,
        compression: str | None = "auto",
        optimize: str = "slices",
        metadata: Mapping[str, Any] | None = None,
        durable: bool = False,
        chunk_rank: int | None = None,
        split: int | None = None,
        axis_order: Sequence[int] | None = None,
    ) -> int:
        """Stores a tensor, replacing an existing one, as one version. Returns the new version.

        Args:
            name: its name. ``/`` groups names; empty names and control characters are refused.
            value: a numpy array, anything with ``__array__`` or DLPack, a ``scipy.sparse`` array, a torch tensor
                (dense, COO, CSR), a :class:`SparseTensor`, a number or nested lists of numbers.
            layout: ``"FTSF"`` or ``"dense"``, ``"COO"``, ``"CSR"``, ``"CSC"``, ``"CSF"``, ``"BSGS"``, ``"sparse"`` (the
                best of the sparse ones), or ``"auto"``, which measures a sample; ``ds[name].reasons``
                explains the choice.
            chunk_shape: the shape of dense chunks (FTSF).
            block_shape: the shape of blocks (BSGS).
            compression: of dense chunks: ``None`` or ``"none"``, ``"lz4"`` (quickest), ``"zstd"``, ``"zstd:<level>"``, or ``"auto"``.
            optimize: ``"slices"`` for fast slices along the first axis, ``"size"`` for the fewest bytes.
            metadata: a dict to store with the tensor as JSON.
            durable: returns only when it is safe against power loss.
            chunk_rank: another way to give the chunk shape: this many last axes are whole, the others have size 1.
            split: the first axis of the matrix columns (CSR, CSC).
            axis_order: the order of axes (CSF, BSGS).

        Raises:
            InvalidError: the value, the name or an option is not valid.
            ConflictError: someone else stored a tensor of this name since this handle's version.
        """
        wanted = wish(layout, chunk_shape, block_shape, compression, optimize, chunk_rank, split, axis_order)
        return self._put({name: value}, wanted, None if metadata is None else {name: metadata}, durable)

    def put_all(
        self,
        values: Mapping[str, Any],
        *,
        layout: str = "auto",
        chunk_shape: Sequence[int] | None = None,
        block_shape: Sequence[int] | None = None,
        compression: str | None = "auto",
        optimize: str = "slices",
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
        durable: bool = False,
        chunk_rank: int | None = None,
        split: int | None = None,
        axis_order: Sequence[int] | None = None,
    ) -> int:
        """Stores several tensors by name as one version: all of them, or none. Returns the new version.

        The options are those of :meth:`put` and apply to all of them; `metadata` is given by name.
        """
        wanted = wish(layout, chunk_shape, block_shape, compression, optimize, chunk_rank, split, axis_order)
        return self._put(values, wanted, metadata, durable)

    def _put(
        self,
        values: Mapping[str, Any],
        wanted: Wish,
        metadata: Mapping[str, Mapping[str, Any]] | None,
        durable: bool,
    ) -> int:
        texts = {name: metadata_text(found, _what(name)) for name, found in (metadata or {}).items()}
        if unknown := texts.keys() - values.keys():
            raise InvalidError(f"metadata is given for {sorted(unknown)}, which are not put")
        items = []
        for name, value in values.items():
            found, dtype = native(value, _what(_tensor_name(name)))
            items.append((name, found, dtype, texts.get(name)))
        return self._native.put(items, wanted, durable) if items else self.version

    def __setitem__(self, name: str, value: Any) -> None:
        if self._rows.is_column(_tensor_name(name)):
            raise InvalidError(
                f"{quoted(name)} is a column: write its samples with ds[{quoted(name)}][rows] = samples, "
                "or append rows with ds.append and ds.extend"
            )
        self.put(name, value)

    def create_array(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        chunk_shape: Sequence[int] | None = None,
        *,
        compression: str | None = "auto",
        metadata: Mapping[str, Any] | None = None,
        durable: bool = False,
    ) -> Array:
        """Creates a dense tensor of zeros that takes no space until you write to it.

        Raises:
            ConflictError: there is a tensor of this name.
        """
        what = _what(_tensor_name(name))
        wanted = wish("FTSF", chunk_shape, None, compression, "slices", None, None, None)
        dims = sizes(shape, f"{what}: shape")
        text = None if metadata is None else metadata_text(metadata, what)
        self._native.create_array(name, dims, _dtypes.parse(dtype, what), wanted, text, durable)
        return Array(self, name)

    def __delitem__(self, name: str) -> None:
        """Removes an array or a column. Older versions keep it."""
        self._native.remove([_tensor_name(name)], False)

    def rename(self, old: str, new: str, *, durable: bool = False) -> int:
        """Renames a tensor. Returns the new version.

        Raises:
            ConflictError: there is a tensor of the new name.
        """
        return self._native.rename(_tensor_name(old), _tensor_name(new), durable)

    def set_metadata(self, metadata: Mapping[str, Any], *, durable: bool = False) -> int:
        """Replaces the dataset's own metadata. Returns the new version."""
        return self._native.set_metadata(metadata_text(metadata, "dataset"), durable)

    # Versions and upkeep.

    def refresh(self) -> int:
        """Moves to the newest version and returns it. A handle that was opened with ``at`` does not move."""
        return self._native.refresh()

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The versions up to this one, newest first: who, when, what."""
        if limit is not None and limit < 0:
            raise InvalidError(f"limit: {limit} is negative")
        return [
            HistoryEntry(version, when(time_millis), author, operation, json.loads(detail) or {}, durable)
            for version, time_millis, author, operation, detail, durable in self._native.history(limit)
        ]

    def compact(self, *, durable: bool = False) -> CompactReport:
        """Merges small files, drops replaced rows, and rewrites files of older versions of Lacus in today's form. The content does
        not change."""
        return CompactReport(*self._native.compact(durable))

    # The rest.

    def _title(self, infos: Sequence[TensorInfo], count: int) -> str:
        tensors = "1 tensor" if count == 1 else f"{count:,} tensors"
        if names := self.columns:
            columns = "1 column" if len(names) == 1 else f"{len(names):,} columns"
            rows = "1 row" if len(self) == 1 else f"{len(self):,} rows"
            # Tensors that are no columns are named only where there are some.
            tensors = f"{rows}, {columns}{f', {tensors}' if count else ''}"
        stored = f", {size_text(self._native.stored_bytes)}" if names or count else ""
        mode = ", read-only" if self.read_only else ""
        branch = "" if self.branch in (None, "main") else f" of branch {self.branch!r}"
        return f"<lacus.Dataset version {self.version}{branch}, {tensors}{stored}{mode} at {self.url}>"

    def __repr__(self) -> str:
        infos, count = self._native.infos(SHOWN)
        lines = [dataset_text(self._title(infos, count), infos, count)]
        names = self.columns
        lines.extend(f"  {Column(self, name)!r}" for name in names[:SHOWN])
        if len(names) > SHOWN:
            lines.append(f"  … and {len(names) - SHOWN:,} more columns")
        return "\n".join(lines)

    @never_raises
    def _repr_html_(self) -> str:
        infos, count = self._native.infos(SHOWN)
        return dataset_html(self, self._title(infos, count), infos, count)

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._is_private or self._transaction is not None:
            raise InvalidError("a dataset inside a transaction cannot be pickled: only this process sees what that wrote")
        return _reopened, (self.url, self._state(), self._native.options, self._links)


def _reopened(
    url: str,
    state: tuple[str, int, str, str | None],
    options: dict[str, str],
    links: Sequence[tuple[str, dict[str, str]]] = (),
) -> Dataset:
    directory, version, branch, commit = state
    return Dataset._of(NativeDataset.reopen(url, options, directory, version, branch, commit), links)


def _sample_shape(shape: Any, what: str) -> list[int | None]:
    """The shape that a column declares: sizes, None where they differ; a number is one axis."""
    if isinstance(shape, str):
        raise InvalidError(f"{what}: shape: expected sizes, found {shape!r}")
    given = list(shape) if hasattr(shape, "__iter__") else [shape]
    return [None if size is None else sizes((size,), f"{what}: shape")[0] for size in given]


def _type_options(options: Mapping[str, Any], what: str) -> str:
    """Options of a type as JSON text; arrays of names and numbers of numpy's are lists and numbers."""
    try:
        return json.dumps(options, allow_nan=False, ensure_ascii=False, default=lambda value: value.tolist())
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidError(f"{what}: options of the type cannot be made JSON: {error}") from error


def _absolute(url: Url) -> str:
    """The URL, local paths made absolute: a handle outlives a change of directory."""
    text = os.fspath(url)
    if not isinstance(text, str):
        raise InvalidError(f"url: expected text or a path, found {text!r}")
    if "://" in text or not text:
        return text
    return os.path.abspath(os.path.expanduser(text))


def _options(options: StorageOptions | None) -> dict[str, str]:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidError(f"storage_options: expected a dict, found {type(options).__name__}")
    found = {}
    for key, value in (options or {}).items():
        if not isinstance(key, str) or not isinstance(value, (str, bool, int)):
            raise InvalidError(f"storage_options: {key!r} must be text, a number, True or False")
        found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _column_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"columns are addressed by name, not by {type(name).__name__}")
    return name


def _what(name: str) -> str:
    return f"tensor {quoted(name)}"


def _tensor_name(name: Any) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, (int, np.integer, slice, list, np.ndarray)):
        raise TypeError('integers, slices and lists mean rows; tensors are addressed by name: ds["name"]')
    raise TypeError(f'tensors are addressed by name, as in ds["name"], not by {type(name).__name__}')
