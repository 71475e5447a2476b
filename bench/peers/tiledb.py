"""TileDB: dense and sparse arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tiledb
from contender import Cells, DenseContender, SparseContender
from data import Sparse

from peers import PHOTO_CHUNK

DISTRIBUTION = "tiledb"


def dense() -> list[DenseContender]:
    return [
        TileDBDense("TileDB, raw", "raw", None),
        TileDBDense("TileDB, zstd", "compressed", tiledb.FilterList([tiledb.ZstdFilter()])),
    ]


def sparse() -> list[SparseContender]:
    return [TileDBSparse()]


class TileDBDense(DenseContender):
    family = "tiledb"

    def __init__(self, name: str, kind: str, filters: tiledb.FilterList | None) -> None:
        self.name, self.kind, self._filters = name, kind, filters

    def write(self, path: Path, value: np.ndarray) -> None:
        tiles = (min(PHOTO_CHUNK, len(value)), *value.shape[1:])
        self.note = f"tiles {tiles}"
        axes = [
            tiledb.Dim(f"axis{axis}", domain=(0, size - 1), tile=tile, dtype=np.int32)
            for axis, (size, tile) in enumerate(zip(value.shape, tiles))
        ]
        attribute = tiledb.Attr(dtype=value.dtype, filters=self._filters)
        tiledb.Array.create(str(path), tiledb.ArraySchema(domain=tiledb.Domain(*axes), attrs=[attribute]))
        with tiledb.open(str(path), "w") as array:
            array[:] = value

    def open(self, path: Path) -> tiledb.DenseArray:
        return tiledb.open(str(path))

    def close(self, handle: tiledb.DenseArray) -> None:
        handle.close()

    def select(self, handle: tiledb.DenseArray, selection: Any) -> np.ndarray:
        return handle[selection]


class TileDBSparse(SparseContender):
    name = "TileDB"
    family = "tiledb"
    note = "int32 axes, tiles of one [i] each; byte shuffle and zstd, which of its filters gave the fewest bytes"

    def prepare(self, value: Sparse) -> Sparse:
        return Sparse(value.indices.astype(np.int32), value.values, value.shape)

    def write(self, path: Path, value: Sparse) -> None:
        filters = tiledb.FilterList([tiledb.ByteShuffleFilter(), tiledb.ZstdFilter()])
        tiles = (1, *value.shape[1:])
        axes = [
            tiledb.Dim(f"axis{axis}", domain=(0, size - 1), tile=tile, dtype=np.int32, filters=filters)
            for axis, (size, tile) in enumerate(zip(value.shape, tiles))
        ]
        attribute = tiledb.Attr("value", dtype=np.float32, filters=filters)
        schema = tiledb.ArraySchema(domain=tiledb.Domain(*axes), attrs=[attribute], sparse=True)
        tiledb.Array.create(str(path), schema)
        with tiledb.open(str(path), "w") as array:
            array[tuple(value.indices.T)] = value.values

    def open(self, path: Path) -> tiledb.SparseArray:
        return tiledb.open(str(path))

    def close(self, handle: tiledb.SparseArray) -> None:
        handle.close()

    def read(self, handle: tiledb.SparseArray) -> Cells:
        return _cells(handle[:], range(handle.ndim))

    def select(self, handle: tiledb.SparseArray, place: int) -> Cells:
        return _cells(handle[place], range(1, handle.ndim))


def _cells(found: dict[str, np.ndarray], axes: range) -> Cells:
    return np.stack([found[f"axis{axis}"] for axis in axes], axis=1), found["value"]
