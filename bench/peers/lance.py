"""Lance: one row per item, as a list of fixed size, or as binary, which it compresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from contender import DenseContender, PicturesContender, SamplesContender, Timed
from data import Files
from workloads.query import LIMIT, Pictures

DISTRIBUTION = "pylance"


def dense() -> list[DenseContender]:
    return [LanceLists(), LanceBinary()]


def samples() -> list[SamplesContender]:
    return [LanceRows()]


def pictures() -> list[PicturesContender]:
    return [LancePictures()]


class LancePictures(PicturesContender):
    name = "Lance"
    family = "lance"
    note = "rows that match are sorted by pyarrow, files taken by row"

    def prepare(self, value: Pictures) -> pa.Table:
        self._filter = value.condition
        return pa.table(
            {
                "image": pa.array(value.files.contents, pa.binary()),
                "label": pa.array(value.files.labels, pa.int64()),
                "mean": pa.array(value.means),
            }
        )

    def write(self, path: Path, value: pa.Table) -> None:
        lance.write_dataset(value, str(path))

    def open(self, path: Path) -> lance.LanceDataset:
        return lance.dataset(str(path))

    def rows(self, handle: lance.LanceDataset) -> list[int]:
        found = handle.to_table(columns=["mean"], filter=self._filter, with_row_id=True)
        return found.sort_by("mean").slice(0, LIMIT).column("_rowid").to_pylist()

    def pictures(self, handle: lance.LanceDataset) -> list[bytes]:
        return handle.take(self.rows(handle), columns=["image"]).column("image").to_pylist()

    def start(self) -> Timed:
        return self._elsewhere("import lance", "")

    def first(self, path: Path) -> Timed:
        asking = (
            f"found = lance.dataset({str(path)!r}).to_table(columns=['mean'], filter={self._filter!r}, with_row_id=True)"
            f".sort_by('mean').slice(0, {LIMIT}).column('_rowid').to_pylist()"
        )
        return self._elsewhere("import lance", asking)


class LanceRows(SamplesContender):
    name = "Lance, binary column"
    family = "lance"

    def write(self, path: Path, value: Files) -> None:
        contents = []
        for file in value.paths:
            with open(file, "rb") as opened:
                contents.append(opened.read())
        lance.write_dataset(
            pa.table({"image": pa.array(contents, pa.binary()), "label": pa.array(value.labels, pa.int64())}), str(path)
        )

    def open(self, path: Path) -> lance.LanceDataset:
        return lance.dataset(str(path))

    def batch(self, handle: lance.LanceDataset, rows: list[int]) -> tuple[list[bytes], Any]:
        table = handle.take(rows)
        return table.column("image").to_pylist(), table.column("label").to_numpy()

    def one(self, handle: lance.LanceDataset, row: int) -> bytes:
        return handle.take([row], columns=["image"]).column("image")[0].as_py()


class LanceLists(DenseContender):
    name = "Lance, lists"
    family = "lance"

    def prepare(self, value: np.ndarray) -> pa.Table:
        self._item = value.shape[1:]
        return pa.table({"photos": self._column(value.reshape(len(value), -1))})

    def _column(self, rows: np.ndarray) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])

    def write(self, path: Path, value: pa.Table) -> None:
        lance.write_dataset(value, str(path))

    def open(self, path: Path) -> lance.LanceDataset:
        dataset = lance.dataset(str(path))
        self.note = f"a row of {dataset.schema.field('photos').type} per item, format {dataset.data_storage_version}"
        return dataset

    def select(self, handle: lance.LanceDataset, selection: Any) -> np.ndarray:
        if isinstance(selection, tuple):
            items, *inner = selection
            return self.select(handle, items)[:, *inner].copy()
        if selection == slice(None):
            return self._array(handle.to_table())
        start, stop, _ = selection.indices(handle.count_rows())
        # Faster than `take` for neighbours.
        return self._array(handle.to_table(offset=start, limit=stop - start))

    def _array(self, table: pa.Table) -> np.ndarray:
        rows = table.column("photos").combine_chunks()
        return rows.flatten().to_numpy(zero_copy_only=True).reshape(-1, *self._item)


class LanceBinary(LanceLists):
    name = "Lance, binary"
    kind = "compressed"

    def _column(self, rows: np.ndarray) -> pa.Array:
        offsets = np.arange(0, rows.nbytes + 1, rows.shape[1])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(rows.reshape(-1))]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows), buffers)

    def _array(self, table: pa.Table) -> np.ndarray:
        rows = table.column("photos").combine_chunks()
        offsets = np.frombuffer(rows.buffers()[1], np.int64)[rows.offset :]
        bytes_ = np.frombuffer(rows.buffers()[2], np.uint8)
        return bytes_[offsets[0] : offsets[len(rows)]].reshape(-1, *self._item)
