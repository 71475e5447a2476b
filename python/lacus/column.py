"""A column: samples of one type, one for each row of the dataset."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _dtypes, search
from ._arrays import NDArray
from ._display import size_text
from ._guard import guard
from ._native import ColumnInfo
from ._notebook import column_html, never_raises
from ._values import columnar
from .errors import InvalidError, OutOfBoundsError
from .sample import Link, Sample
from .tensor import quoted

if TYPE_CHECKING:
    from .dataset import Dataset
    from .search import IndexInfo
    from .view import View

__all__ = ["Column"]

#: Rows read at a time while iterating.
ROWS_AT_ONCE = 256


@guard
class Column:
    """A column of a dataset: ``ds[name]``. Nothing is read until you slice it.

    >>> ds["images"][5]                    # one sample
    >>> ds["images"][5, 10:60, 20:80]      # a part of one sample
    >>> ds["labels"][:100]                 # an array: labels have a fixed shape
    >>> ds["images"][[3, 1, 4]]            # a list: images do not
    >>> ds["labels"][ds["labels"][:] == 3] = 4
    """

    __slots__ = ("_dataset", "_name", "__weakref__")

    def __init__(self, dataset: Dataset, name: str) -> None:
        self._dataset = dataset
        self._name = name
        _ = self._info

    @property
    def _info(self) -> ColumnInfo:
        return self._dataset._rows.column_info(self._name)

    @property
    def _what(self) -> str:
        return f"column {quoted(self._name)}"

    # Facts.

    @property
    def name(self) -> str:
        """Its name in the dataset."""
        return self._name

    @property
    def htype(self) -> str:
        """The type of its samples: ``"image"``, ``"class_label"``, ``"sequence[text]"``, …"""
        return self._info.htype

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The type of the elements; None for texts, for DICOM files, and before the first sample of a column without a declared
        dtype.

        Each picture or DICOM file has the dtype of its file, unless the column declares one. For pictures, this is the dtype of
        those given as arrays.
        """
        name = self._info.dtype
        return None if name is None else _dtypes.numpy_dtype(name, self._what)

    @property
    def sample_shape(self) -> tuple[int | None, ...] | None:
        """The shape of its samples, with None for sizes that differ; None if samples may have any shape."""
        shape = self._info.shape
        return None if shape is None else tuple(shape)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The number of rows, then the shape of the samples, with None for sizes that differ."""
        return (len(self), *(self.sample_shape or ()))

    @property
    def shapes(self) -> list[tuple[int, ...] | None]:
        """The shape of every sample, None for missing ones. Reads only an index."""
        return self._dataset._rows.sample_shapes(self._name, list(range(len(self))))

    def shape_of(self, row: int) -> tuple[int, ...] | None:
        """The shape of one sample; None if it is missing."""
        return self._dataset._rows.sample_shapes(self._name, [self._dataset._position(row)])[0]

    @property
    def compression(self) -> str:
        """How samples are stored: ``"auto"``, ``"none"``, ``"zstd:1"``, ``"jpeg"``, …"""
        return self._info.compression

    @property
    def class_names(self) -> list[str]:
        """The names of classes, in the order of their numbers."""
        return self._info.class_names

    @property
    def options(self) -> dict[str, Any]:
        """The options of its type."""
        found: dict[str, Any] = json.loads(self._info.options)
        return found

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata."""
        text = self._info.metadata
        return {} if text is None else json.loads(text) or {}

    @property
    def stored_bytes(self) -> int:
        """Bytes that its samples take in the files of this version."""
        return self._info.stored_bytes

    def __len__(self) -> int:
        return len(self._dataset)

    def __bool__(self) -> bool:
        """A column is always true, also without rows."""
        return True

    # Reading.

    def __getitem__(self, key: Any) -> Any:
        """Samples: the first index selects rows by numpy's rules, the others a part of each sample.

        One row returns its sample. Several rows return an array if the column has a fixed shape and they have one dtype,
        otherwise a list. A missing sample is None.

        Raises:
            OutOfBoundsError: also an ``IndexError``; there is no such row, or the part does not fit the sample.
        """
        rows, part = _split(key)
        positions, is_one = self._dataset._positions(rows)
        found = self._dataset._rows.read_samples(self._name, positions, part)
        return self._one(found) if is_one else self._many(found, part)

    def _one(self, found: Any) -> Any:
        return self._dressed(found)[0] if isinstance(found, np.ndarray) else self._dressed(found[0])

    def _many(self, found: Any, part: Any) -> Any:
        if isinstance(found, np.ndarray):
            return self._dressed(found)
        values = [self._dressed(value) for value in found]
        # Whole samples come stacked; equal parts of samples of one shape are stacked here.
        if part is None or not self._info.is_fixed or any(value is None for value in values):
            return values
        if any(value.dtype != values[0].dtype for value in values):
            # Files with dtypes of their own: one array would change some of them.
            return values
        return np.stack(values) if values else self._nothing(part)

    def _nothing(self, part: Any) -> Any:
        """What a part of no samples of a fixed shape is: an array whose first axis is empty."""
        dtype, shape = self.dtype, self.sample_shape
        if dtype is None or shape is None:
            return []
        none = np.empty((0, *(size or 0 for size in shape)), dtype)
        try:
            return none[(slice(None), *part)]
        except IndexError as error:
            raise OutOfBoundsError(f"{self._what}: {error}") from error

    def _dressed(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._dressed(item) for item in value]
        if not isinstance(value, np.ndarray):
            return value
        if value.dtype == np.uint16 and self._info.dtype == "bfloat16":
            value = _dtypes.dressed(value, "bfloat16", self._what)
        # A number is a scalar, as in numpy.
        return value[()] if value.ndim == 0 else value

    def bytes(self, row: int) -> bytes | None:
        """The stored bytes of a sample: the original media file, or a text in UTF-8; None if it is missing. For a link, the bytes of
        the linked file."""
        return self._dataset._rows.sample_bytes(self._name, [self._dataset._position(row)])[0]

    def bytes_of(self, rows: Any) -> list[Any]:
        """The same for several rows, in one planned read."""
        positions, _ = self._dataset._positions(rows)
        return self._dataset._rows.sample_bytes(self._name, positions)

    def names(self, key: Any) -> Any:
        """The names of the classes of some rows, instead of their numbers."""
        known = self.class_names
        found = self[key]

        def named(value: Any) -> Any:
            if value is None:
                return None
            if np.ndim(value) == 0:
                return known[int(value)] if 0 <= int(value) < len(known) else None
            return [named(item) for item in value]

        return named(found)

    def __iter__(self) -> Iterator[Any]:
        """All samples of the current version, read in batches."""
        dataset = self._dataset._steady()
        return self._batches(dataset, dataset._state(), len(self))

    def _batches(self, dataset: Dataset, state: tuple[str, int, str, str | None], count: int) -> Iterator[Any]:
        for start in range(0, count, ROWS_AT_ONCE):
            # The loop may write, which moves the handle and may renumber rows.
            dataset = dataset._at(state)
            yield from dataset._column(self._name)[start : start + ROWS_AT_ONCE]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        found = self[:]
        if not isinstance(found, np.ndarray):
            raise ValueError(f"{self._what} has samples of different shapes or dtypes, or missing ones: it is no array")
        return found if dtype is None else found.astype(dtype, copy=False)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's PyCapsule interface: all samples as a table of this one column."""
        return self._dataset.view().select([self._name]).__arrow_c_stream__(requested_schema)

    # Writing.

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replaces samples as one version; other columns are not touched.

        For one row, give a sample, or None to make it missing. For several rows, give a list or an array with one sample for each,
        or a single number, text, dict, file, link or None for all.
        """
        self.write(key, value)

    def write(self, key: Any, value: Any, *, strict: bool = True, durable: bool = False) -> int:
        """The same as ``column[key] = value``. Returns the new version.

        Args:
            strict: rows past the end are an error. If False, rows are added up to them; all other samples in the new rows are
                missing.
            durable: returns only when it is safe against power loss.
        """
        rows, part = _split(key)
        if part is not None:
            raise InvalidError(f"{self._what}: a part of a sample cannot be written; write the sample")
        if isinstance(rows, slice) and rows == slice(None) and not strict:
            raise InvalidError("strict=False needs rows to be named")
        positions, is_one = self._dataset._positions(rows, grow=not strict)
        return self._dataset._rows.update(
            self._name, positions, [value] if is_one else self._spread(value, len(positions)), not strict, durable
        )

    def _spread(self, value: Any, count: int) -> Iterable[Any]:
        if value is None or isinstance(value, (str, bytes, int, float, np.generic, dict)):
            return [value] * count
        if isinstance(value, (bytearray, Sample, Link)) or getattr(value, "ndim", None) == 0:
            return [value] * count
        value = columnar(value)
        try:
            values = value if isinstance(value, (list, tuple, np.ndarray)) else list(value)
        except TypeError as error:
            raise InvalidError(
                f"{self._what}: {count} rows are selected, and a {type(value).__name__} is neither a list of samples "
                "nor a sample for all of them"
            ) from error
        if len(values) != count:
            raise InvalidError(f"{self._what}: {count} rows are selected, {len(values)} samples are given")
        return values

    def append(self, *_: Any, **__: Any) -> None:
        """Not supported: use ``ds.append``, which appends a row to all columns."""
        raise InvalidError(
            f"{self._what}: rows are appended to all columns together: ds.append({{{quoted(self._name)}: sample}})"
        )

    def add_class_names(self, names: Iterable[str], *, durable: bool = False) -> int:
        """Adds class names after the existing ones. Returns the new version."""
        if isinstance(names, str):
            raise InvalidError(f"{self._what}: class names are a list of texts, found one text")
        return self._dataset._rows.add_class_names(self._name, [str(name) for name in names], durable)

    # The rest.

    # Searching.

    def search(
        self, vector: Any, k: int = 10, *, where: str | None = None, params: Sequence[Any] | None = None, metric: str = "cosine"
    ) -> View:
        """The rows whose vectors are nearest to one, nearest first.

        Exact, unless the column has an index of the same metric: see :meth:`create_index`.

        Args:
            vector: the vector, as long as those of the column.
            k: how many rows; fewer come back only if fewer fulfil the condition.
            where: a condition of SQL that rows must fulfil. It comes first: the nearest of those rows are found.
            params: values for ``?`` in the condition.
            metric: ``"cosine"``, ``"dot"``, ``"l2"``, ``"l1"``, ``"linf"`` or ``"hamming"``.

        Returns:
            A view of the rows, with what they were compared by as a column: ``score`` (cosine, dot; more is nearer) or ``distance``.
            Rows without a vector come last.

        >>> ds["embedding"].search(vector, k=10, where="label = 'dog'")["score"]
        """
        return search.search(self, vector, k, where, params, metric)

    def create_index(
        self,
        kind: str = "ivf",
        *,
        metric: str = "cosine",
        lists: int | None = None,
        recall: float = 0.95,
        bits: int | None = None,
        seed: int = 0,
        durable: bool = False,
    ) -> IndexInfo:
        """Makes an index of the vectors of this column, in place of the one that it has. Searches use it from now on.

        It is stored with the dataset, so it is versioned, branched and merged with it. Rows that are added or changed later are
        searched exactly, until you make the index again.

        Args:
            kind: ``"ivf"``: vectors are sorted into lists of similar ones, and a search looks at the nearest lists.
            metric: by what vectors are compared: ``"cosine"``, ``"dot"`` or ``"l2"``. Searches by others do not use the index.
            lists: how many lists; twice the square root of the rows, unless you say.
            recall: the share of the true neighbours that a search is to find. How many lists that takes is measured on the data,
                and stored: see :class:`IndexInfo`.
            bits: 8 for an index of a quarter of the size; what it finds is compared again by the vectors themselves.
            seed: what random choices depend on.
            durable: wait until it is on disk.

        >>> ds["embedding"].create_index("ivf", metric="cosine", recall=0.95)
        """
        return search.create(self, kind, metric, lists, recall, bits, seed, durable)

    def drop_index(self, *, durable: bool = False) -> bool:
        """Drops the index of this column. Returns False if there is none."""
        return search.drop(self, durable)

    @property
    def indexes(self) -> list[IndexInfo]:
        """The indexes of this column."""
        return [found for found in self._dataset.indexes if found.column == self._name]

    def __repr__(self) -> str:
        info = self._info
        dtype = f" {info.dtype}" if info.dtype else ""
        shape = "" if info.shape is None else f" {tuple(info.shape)}"
        return (
            f"<lacus.Column {quoted(self._name)} {info.htype}{dtype}{shape}, {len(self):,} rows, "
            f"{size_text(info.stored_bytes)} stored>"
        )

    @never_raises
    def _repr_html_(self) -> str:
        return column_html(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Column, (self._dataset, self._name)


def _split(key: Any) -> tuple[Any, Any]:
    """What is said of rows, and what of each sample (None for all of it)."""
    if not isinstance(key, tuple):
        return key, None
    if not key:
        return slice(None), None
    if key[0] is Ellipsis:
        raise InvalidError("name the rows first: ds[column][:, ...]")
    return key[0], (tuple(key[1:]) or None)


def positions_of(rows: Any, count: int, grow: bool) -> tuple[list[int], bool]:
    """The positions that an index of rows means, and whether it means one. With ``grow``, they may be past the end."""
    if grow and isinstance(rows, slice):
        stop = None if rows.stop is None else operator.index(rows.stop)
        if stop is not None and stop > count:
            # Negative starts count from the end there is, not from the one there will be.
            start = 0 if rows.start is None else operator.index(rows.start)
            start = max(start + count, 0) if start < 0 else start
            return list(range(*slice(start, stop, rows.step).indices(stop))), False
    found = chosen(rows, count, grow)
    if isinstance(found, int):
        return [found], True
    return (list(found) if isinstance(found, range) else found.tolist()), False


def chosen(rows: Any, count: int, grow: bool = False) -> int | range | npt.NDArray[np.uint64]:
    """The places among ``count`` that an index of rows means: one, every so many, or any."""
    if isinstance(rows, slice):
        return range(*rows.indices(count))
    if rows is Ellipsis:
        return range(count)
    if isinstance(rows, (bool, np.bool_)):
        raise InvalidError(
            "rows are not selected by True or False: a mask has one for each row (samples some of which are missing "
            "are a list, which is compared as a whole; compare np.array(samples))"
        )
    if not isinstance(rows, (list, tuple, np.ndarray, range)) and hasattr(rows, "__index__"):
        return _checked(operator.index(rows), count, grow)
    try:
        array = np.asarray(rows)
    except ValueError as error:
        raise InvalidError(f"rows: {error}") from error
    if array.ndim == 0 and array.dtype.kind in "iu":
        return _checked(int(array), count, grow)
    if array.ndim != 1:
        raise InvalidError(f"rows are selected by integers, slices, lists of integers or masks, not by {rows!r}")
    if array.dtype == np.bool_:
        if len(array) != count:
            raise OutOfBoundsError(f"a mask of {len(array)} for {count} rows")
        return np.flatnonzero(array).astype(np.uint64)
    if array.size == 0:
        return np.empty(0, np.uint64)
    if array.dtype.kind not in "iu":
        raise InvalidError(f"rows are selected by integers, slices, lists of integers or masks, not by {array.dtype}")
    if array.dtype.kind == "i":
        # A small dtype could not hold the number of rows.
        array = array.astype(np.int64)
    is_outside = array >= count if array.dtype.kind == "u" else (array >= count) | (array < -count)
    if is_outside.any():
        first = int(array[is_outside][0])
        if not (grow and (array[is_outside] >= 0).all()):
            raise OutOfBoundsError(f"row {first} is out of bounds for {count} rows")
    if array.dtype.kind == "i":
        array = np.where(array < 0, array + count, array)
    return np.ascontiguousarray(array, np.uint64)


def _checked(row: int, count: int, grow: bool) -> int:
    if -count <= row < count:
        return row % count if row < 0 else row
    if grow and row >= 0:
        return row
    raise OutOfBoundsError(f"row {row} is out of bounds for {count} rows")
