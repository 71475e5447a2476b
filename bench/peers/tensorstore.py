"""TensorStore, writing Zarr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorstore
from contender import DenseContender

from peers import PHOTO_CHUNK

DISTRIBUTION = "tensorstore"

ZSTD = {"codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 1}}]}


def dense() -> list[DenseContender]:
    return [
        TensorStoreArray("TensorStore, raw", "raw", "zarr3", {}, "zarr3, no compression"),
        TensorStoreArray("TensorStore, default", "compressed", "zarr", {}, "zarr 2, Blosc LZ4 as by default"),
        TensorStoreArray("TensorStore, zstd", "compressed", "zarr3", ZSTD, "zarr3, zstd level 1"),
    ]


class TensorStoreArray(DenseContender):
    family = "tensorstore"

    def __init__(self, name: str, kind: str, driver: str, metadata: dict[str, Any], about: str) -> None:
        self.name, self.kind = name, kind
        self._driver, self._metadata, self._about = driver, metadata, about

    def _spec(self, path: Path) -> dict[str, Any]:
        return {"driver": self._driver, "kvstore": {"driver": "file", "path": str(path)}}

    def write(self, path: Path, value: np.ndarray) -> None:
        chunks = (min(PHOTO_CHUNK, len(value)), *value.shape[1:])
        self.note = f"chunks {chunks}, {self._about}"
        array = tensorstore.open(
            {**self._spec(path), "metadata": self._metadata},
            create=True,
            dtype=value.dtype,
            shape=value.shape,
            chunk_layout=tensorstore.ChunkLayout(chunk_shape=chunks),
        ).result()
        array.write(value).result()

    def open(self, path: Path) -> tensorstore.TensorStore:
        return tensorstore.open(self._spec(path), open=True).result()

    def select(self, handle: tensorstore.TensorStore, selection: Any) -> np.ndarray:
        return handle[selection].read().result()
