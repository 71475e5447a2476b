"""Tables: answers of queries whose rows are in no dataset."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _dtypes
from ._arrays import NDArray, sizes
from ._guard import guard
from ._native import Table as NativeTable
from ._notebook import never_raises
from ._table_display import table_html, table_text
from .column import ROWS_AT_ONCE, chosen
from .errors import InvalidError, NotFoundError, OutOfBoundsError, OutOfMemoryError
from .sparse import SparseTensor

__all__ = ["Table"]

#: Rows that are shown.
_SHOWN = 10

#: A tensor of more bytes than this is sparse unless the caller wants it dense.
_DENSE_BYTES = 256 << 20


@guard
class Table:
    """Rows in memory: what a query answers with if its rows are not rows of one dataset, as those of ``GROUP BY`` and ``JOIN``.

    Tensors are arrays of numpy, class labels are names, media are the bytes of their files, missing values are None.

    >>> table = ds.query("SELECT label, count(*) AS n FROM dataset GROUP BY label ORDER BY n DESC")
    >>> table["n"]                          # a column
    >>> table[0]                            # a row
    >>> for row in table: row["label"], row["n"]
    >>> table.to_pandas()
    """

    __slots__ = ("_native", "_columns", "_types", "__weakref__")
    _native: NativeTable
    _columns: list[str]
    _types: list[str]

    def __init__(self) -> None:
        raise TypeError("tables are got from queries: ds.query(...), lacus.sql(...)")

    @classmethod
    def _of(cls, native: NativeTable) -> Table:
        made = cls.__new__(cls)
        made._native = native
        made._columns = native.columns()
        made._types = native.types()
        return made

    @property
    def columns(self) -> list[str]:
        """The names of its columns, in order."""
        return list(self._columns)

    @property
    def types(self) -> dict[str, str]:
        """What each column holds: ``"float32 (?, 4)"``, ``"image"``, ``"text"``, ``"int64"``."""
        return dict(zip(self._columns, self._types, strict=True))

    @property
    def schema(self) -> Any:
        """The schema, as a ``pyarrow.Schema``."""
        return _library("pyarrow", "table.schema").Schema._import_from_c_capsule(self._native.schema())

    def __len__(self) -> int:
        return self._native.row_count()

    def __bool__(self) -> bool:
        """A table is true, however many rows it has."""
        return True

    def __getitem__(self, key: Any) -> Any:
        """By a string, the values of a column: an array where all are numbers or tensors of one shape, else a list. By an
        integer, a row as a dict; by a slice, a list of rows.

        Raises:
            NotFoundError: also a ``KeyError``; there is no column of this name.
            OutOfBoundsError: also an ``IndexError``; there is no such row.
        """
        if isinstance(key, str):
            if key not in self._columns:
                raise NotFoundError(f"there is no column {key!r}; there are {', '.join(map(repr, self._columns))}")
            return self._read(self._columns.index(key), 0, len(self))
        found = chosen(key, len(self))
        if isinstance(found, int):
            return next(self._rows(found, 1))
        return [next(self._rows(int(place), 1)) for place in found]

    def _read(self, place: int, start: int, count: int) -> Any:
        return dressed(self._native.read(place, start, count), self._types[place], self._columns[place])

    def _rows(self, start: int, count: int) -> Iterator[dict[str, Any]]:
        for at in range(start, start + count, ROWS_AT_ONCE):
            some = min(ROWS_AT_ONCE, start + count - at)
            columns = [self._read(place, at, some) for place in range(len(self._columns))]
            for values in zip(*columns, strict=True):
                yield dict(zip(self._columns, values, strict=True))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dicts."""
        return self._rows(0, len(self))

    def to_dict(self) -> dict[str, Any]:
        """All values by column."""
        return {name: self[name] for name in self._columns}

    def to_tensor(
        self, shape: Sequence[int] | int | None = None, *, value: str = "value", dense: bool | None = None
    ) -> NDArray | SparseTensor:
        """Coordinates and values as a tensor: the inverse of ``FROM cells('array')``.

        The columns ``c0``, ``c1``, … are the coordinates. Elements without a row are zero.

        Args:
            shape: the shape; by default the smallest that holds all coordinates.
            value: the column that has the values.
            dense: True for a numpy array, False for a :class:`SparseTensor`; by default an array of up to 256 MiB.

        Raises:
            NotFoundError: also a ``KeyError``; there is no column for the values.
            OutOfBoundsError: also an ``IndexError``; a coordinate lies outside of the shape.
            InvalidError: a coordinate is there twice, is missing or no integer, or a value is missing or no number.

        >>> ds.query("SELECT c1 AS c0, sum(value) AS value FROM cells('hits') GROUP BY c1").to_tensor()
        """
        values = self._numbers(value, "biufc", "a number")
        axes = [self._numbers(name, "iu", "an integer") for name in self._coordinates()]
        return _tensor(axes, values, None if shape is None else sizes(shape, "shape"), dense)

    def _coordinates(self) -> list[str]:
        names = [name for name in self._columns if name[:1] == "c" and name[1:].isdecimal()]
        for axis in range(len(names)):
            if f"c{axis}" not in names:
                raise InvalidError(f"to_tensor: there is a column {names[-1]!r} and no column 'c{axis}'")
        return [f"c{axis}" for axis in range(len(names))]

    def _numbers(self, name: str, kinds: str, what: str) -> NDArray:
        """The values of a column that has one number in each row."""
        found = self[name]
        if isinstance(found, list):
            for row, item in enumerate(found):
                if item is None:
                    raise InvalidError(f"to_tensor: column {name!r} has no value in row {row}")
        # An empty column has no numbers to tell its type by.
        array = np.asarray(found) if len(self) > 0 or isinstance(found, np.ndarray) else np.empty(0, np.int64)
        if array.ndim != 1 or array.dtype.kind not in kinds:
            raise InvalidError(f"to_tensor: {what} is expected in column {name!r}, which has {self.types[name]}")
        return array

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's PyCapsule interface: ``pa.table(table)``, ``pl.DataFrame(table)``, ``duckdb.sql("from table")``."""
        return self._native.stream()

    def to_arrow(self) -> Any:
        """The same as a ``pyarrow.Table``."""
        return _library("pyarrow", "table.to_arrow").table(self)

    def to_pandas(self) -> Any:
        """The same as a ``pandas.DataFrame``."""
        _library("pandas", "table.to_pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The same as a ``polars.DataFrame``. Tensors are lists there."""
        pl = _library("polars", "table.to_polars")
        return pl.from_arrow(plain(self.to_arrow()))

    def _title(self) -> str:
        rows, columns = len(self), len(self._columns)
        return f"<lacus.Table {rows:,} row{'' if rows == 1 else 's'}, {columns} column{'' if columns == 1 else 's'}>"

    def __repr__(self) -> str:
        shown = list(self._rows(0, min(_SHOWN, len(self))))
        return table_text(self._title(), self.types, shown, len(self) - len(shown))

    @never_raises
    def _repr_html_(self) -> str:
        shown = list(self._rows(0, min(_SHOWN, len(self))))
        return table_html(self._title(), self.types, shown, len(self) - len(shown))

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidError("tables do not pickle; table.to_arrow() does")


def _tensor(
    axes: list[NDArray], values: NDArray, shape: tuple[int, ...] | None, dense: bool | None
) -> NDArray | SparseTensor:
    """Coordinates, one array for each axis, and values as a tensor."""
    if shape is None:
        shape = tuple(max(int(axis.max()) + 1, 0) if axis.size else 0 for axis in axes)
    if len(shape) != len(axes):
        raise InvalidError(
            f"to_tensor: shape {shape} has {len(shape)} axes, and there are {len(axes)} columns of coordinates"
        )
    for number, (axis, size) in enumerate(zip(axes, shape, strict=True)):
        outside = np.flatnonzero((axis < 0) | (axis >= size))
        if outside.size:
            row = int(outside[0])
            why = f"outside of shape {shape}" if axis[row] >= 0 else "and coordinates are not negative"
            raise OutOfBoundsError(f"to_tensor: c{number} is {axis[row]} in row {row}, {why}")
    order = np.lexsort(axes[::-1]) if axes else np.arange(len(values))
    same = np.ones(max(len(values) - 1, 0), bool)
    for axis in axes:
        ordered = axis[order]
        same &= ordered[1:] == ordered[:-1]
    if same.any():
        first, second = sorted(int(row) for row in order[int(np.argmax(same)) :][:2])
        place = tuple(int(axis[first]) for axis in axes)
        raise InvalidError(
            f"to_tensor: rows {first} and {second} have the same coordinates {place}; group by the coordinates first"
        )
    if dense is None:
        dense = math.prod(shape) * values.itemsize <= _DENSE_BYTES
    if not dense:
        coords = np.stack(axes) if axes else np.empty((0, len(values)), np.int64)
        return SparseTensor._from_coords(coords, values, shape, False, "values")
    try:
        made = np.zeros(shape, values.dtype)
    except (MemoryError, ValueError) as error:
        raise OutOfMemoryError(
            f"to_tensor: {values.dtype} of shape {shape} does not fit; dense=False makes it sparse"
        ) from error
    made[tuple(axes)] = values if axes or not len(values) else values[0]
    return made


def dressed(found: Any, type_: str, name: str) -> Any:
    """Values as they came from the native module: bfloat16 in its own type, tensors without axes as numbers."""
    if isinstance(found, list):
        return [dressed(value, type_, name) for value in found]
    if isinstance(found, Mapping) or not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.uint16 and type_.startswith("bfloat16"):
        found = _dtypes.dressed(found, "bfloat16", f"column {name!r}")
    return found[()] if found.ndim == 0 else found


def plain(table: Any) -> Any:
    """A table of pyarrow without extension types, for libraries that do not know them: what they are stored as."""
    pa = _library("pyarrow", "this")
    for place, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            chunks = [chunk.storage for chunk in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(chunks, field.type.storage_type))
    return table


def _library(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InvalidError(f"{what} needs {name}: install it with `pip install {name}`") from error
