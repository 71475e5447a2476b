"""Deep Lake 4: one row per item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deeplake
import numpy as np
from contender import DenseContender, SamplesContender
from data import Files

DISTRIBUTION = "deeplake"


def dense() -> list[DenseContender]:
    return [DeepLakeColumn()]


def samples() -> list[SamplesContender]:
    return [DeepLakeRows()]


class DeepLakeRows(SamplesContender):
    name = "Deep Lake, image column"
    family = "deeplake"
    note = "sample_compression=jpeg; bytes are appended as they are, rows are read as bytes"

    def write(self, path: Path, value: Files) -> None:
        contents = []
        for file in value.paths:
            with open(file, "rb") as opened:
                contents.append(opened.read())
        dataset = deeplake.create(str(path))
        dataset.add_column("image", deeplake.types.Image(sample_compression="jpeg"))
        dataset.add_column("label", "int64")
        dataset.append({"image": contents, "label": value.labels})
        dataset.commit()

    def open(self, path: Path) -> deeplake.ReadOnlyDataset:
        return deeplake.open_read_only(str(path))

    def batch(self, handle: deeplake.ReadOnlyDataset, rows: list[int]) -> tuple[list[bytes], Any]:
        return handle["image"].get_bytes(rows), handle["label"][rows]

    def one(self, handle: deeplake.ReadOnlyDataset, row: int) -> bytes:
        return handle["image"].get_bytes(row)


class DeepLakeColumn(DenseContender):
    name = "Deep Lake, default"
    family = "deeplake"
    note = "a column of arrays of fixed shape"

    def write(self, path: Path, value: np.ndarray) -> None:
        dataset = deeplake.create(str(path))
        dataset.add_column("photos", deeplake.types.Array(deeplake.types.UInt8(), shape=list(value.shape[1:])))
        dataset.append({"photos": value})
        dataset.commit()

    def open(self, path: Path) -> deeplake.ReadOnlyDataset:
        return deeplake.open_read_only(str(path))

    def select(self, handle: deeplake.ReadOnlyDataset, selection: Any) -> np.ndarray:
        if isinstance(selection, tuple):
            items, *inner = selection
            return handle["photos"][items][:, *inner].copy()
        return handle["photos"][selection]
