"""Parquet with pyarrow's defaults: one row per nonzero."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from contender import Cells, SparseContender
from data import Sparse

DISTRIBUTION = "pyarrow"


def sparse() -> list[SparseContender]:
    return [ParquetRows()]


class ParquetRows(SparseContender):
    name = "Parquet, default"
    family = "parquet"
    note = "a row of int64 coordinates and a float32 value per nonzero"

    def prepare(self, value: Sparse) -> pa.Table:
        return rows(value)

    def write(self, path: Path, value: pa.Table) -> None:
        pq.write_table(value, path)

    def read(self, handle: Path) -> Cells:
        return cells(pq.read_table(handle), 0)

    def select(self, handle: Path, place: int) -> Cells:
        return cells(pq.read_table(handle, filters=[("axis0", "=", place)]), 1)


def rows(value: Sparse) -> pa.Table:
    """A table with a column per axis and one of values."""
    columns = {f"axis{axis}": np.ascontiguousarray(column) for axis, column in enumerate(value.indices.T)}
    return pa.table({**columns, "value": value.values})


def cells(found: pa.Table, first_axis: int) -> Cells:
    """Coordinates from some axis on, and values."""
    axes = [found.column(f"axis{axis}").to_numpy() for axis in range(first_axis, found.num_columns - 1)]
    return np.stack(axes, axis=1), found.column("value").to_numpy()
