"""Zarr 3, the Python implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import zarr
from contender import DenseContender

from peers import PHOTO_CHUNK

DISTRIBUTION = "zarr"


def dense() -> list[DenseContender]:
    return [ZarrArray("Zarr, raw", "raw", None), ZarrArray("Zarr, default", "compressed", "auto")]


class ZarrArray(DenseContender):
    family = "zarr"

    def __init__(self, name: str, kind: str, compressors: Any) -> None:
        self.name, self.kind, self._compressors = name, kind, compressors

    def write(self, path: Path, value: np.ndarray) -> None:
        chunks = (min(PHOTO_CHUNK, len(value)), *value.shape[1:])
        array = zarr.create_array(
            path, shape=value.shape, chunks=chunks, dtype=value.dtype, compressors=self._compressors
        )
        array[:] = value

    def open(self, path: Path) -> zarr.Array:
        array = zarr.open_array(path, mode="r")
        codecs = ", ".join(str(codec) for codec in array.compressors) or "no compression"
        self.note = f"chunks {array.chunks}, {codecs}"
        return array

    def select(self, handle: zarr.Array, selection: Any) -> np.ndarray:
        return handle[selection]
