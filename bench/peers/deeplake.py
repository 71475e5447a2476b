"""Deep Lake 4: one row per item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deeplake
import numpy as np
from contender import DenseContender, PicturesContender, SamplesContender
from data import Files
from workloads.query import LIMIT, Pictures

DISTRIBUTION = "deeplake"


def dense() -> list[DenseContender]:
    return [DeepLakeColumn()]


def samples() -> list[SamplesContender]:
    return [DeepLakeRows()]


def pictures() -> list[PicturesContender]:
    return [DeepLakePictures()]


class DeepLakePictures(PicturesContender):
    name = "Deep Lake"
    family = "deeplake"
    note = "a column has the number of each row"

    def prepare(self, value: Pictures) -> Pictures:
        classes = " OR ".join(f"label == {label}" for label in value.labels)
        self._text = f"SELECT * WHERE ({classes}) AND mean > {value.bright!r} ORDER BY mean LIMIT {LIMIT}"
        return value

    def write(self, path: Path, value: Pictures) -> None:
        dataset = deeplake.create(str(path))
        dataset.add_column("image", deeplake.types.Image(sample_compression="jpeg"))
        dataset.add_column("label", "int64")
        dataset.add_column("mean", "float64")
        dataset.add_column("row", "int64")
        files = value.files
        rows = {"image": files.contents, "label": files.labels, "mean": value.means, "row": np.arange(len(value.means))}
        dataset.append(rows)
        dataset.commit()

    def open(self, path: Path) -> deeplake.ReadOnlyDataset:
        return deeplake.open_read_only(str(path))

    def rows(self, handle: deeplake.ReadOnlyDataset) -> Any:
        return handle.query(self._text)["row"][:]

    def pictures(self, handle: deeplake.ReadOnlyDataset) -> list[bytes]:
        found = handle.query(self._text)
        return found["image"].get_bytes(list(range(len(found))))


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
