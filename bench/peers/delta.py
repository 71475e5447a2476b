"""A Delta table as `deltalake` writes it by default: one row per nonzero."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.dataset
from contender import Cells, SparseContender
from data import Sparse

from peers.parquet import cells, rows

DISTRIBUTION = "deltalake"


def sparse() -> list[SparseContender]:
    return [DeltaRows()]


class DeltaRows(SparseContender):
    name = "Delta, default"
    family = "delta"
    note = "a row of int64 coordinates and a float32 value per nonzero"

    def prepare(self, value: Sparse) -> pa.Table:
        return rows(value)

    def write(self, path: Path, value: pa.Table) -> None:
        deltalake.write_deltalake(str(path), value)

    def open(self, path: Path) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(str(path))

    def read(self, handle: deltalake.DeltaTable) -> Cells:
        return cells(handle.to_pyarrow_table(), 0)

    def select(self, handle: deltalake.DeltaTable, place: int) -> Cells:
        wanted = pyarrow.dataset.field("axis0") == place
        return cells(handle.to_pyarrow_dataset().to_table(filter=wanted), 1)
