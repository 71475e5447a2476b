"""numpy: `np.save` and `np.load`, mapped files, and compressed archives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from contender import Cells, CheckpointContender, DenseContender, SearchContender, SparseContender
from data import Sparse

DISTRIBUTION = "numpy"


def dense() -> list[DenseContender]:
    return [NumpyFile(), NumpyMapped()]


def sparse() -> list[SparseContender]:
    return [NumpyArchive()]


def checkpoint() -> list[CheckpointContender]:
    return [NumpyCheckpoint()]


def search() -> list[SearchContender]:
    return [NumpyProducts()]


class NumpyProducts(SearchContender):
    name = "numpy, a product and argpartition"
    family = "numpy"

    def write(self, path: Path, value: Any) -> None:
        path.mkdir()
        np.save(path / "rows", value.rows / np.linalg.norm(value.rows, axis=1, keepdims=True))
        np.save(path / "share", value.share)

    def open(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        return np.load(path / "rows.npy"), np.load(path / "share.npy")

    def nearest(self, handle: tuple[np.ndarray, np.ndarray], query: np.ndarray, k: int, share: float) -> Any:
        rows, shares = handle
        allowed = None if share >= 1 else np.flatnonzero(shares < share)
        scores = (rows if allowed is None else rows[allowed]) @ query
        first = np.argpartition(-scores, min(k, len(scores) - 1))[:k]
        return first if allowed is None else allowed[first]


class NumpyFile(DenseContender):
    name = "np.save, np.load"
    family = "numpy"
    note = "every slice loads the file"

    def write(self, path: Path, value: np.ndarray) -> None:
        with path.open("wb") as file:
            np.save(file, value)

    def read(self, handle: Path) -> np.ndarray:
        return np.load(handle)

    def select(self, handle: Path, selection: Any) -> np.ndarray:
        return np.load(handle)[selection].copy()


class NumpyMapped(DenseContender):
    name = "np.load, mapped"
    family = "numpy"
    note = "mmap_mode='r', slices copied into arrays"
    reads_files_of = NumpyFile.name

    def open(self, path: Path) -> np.ndarray:
        return np.load(path, mmap_mode="r")

    def select(self, handle: np.ndarray, selection: Any) -> np.ndarray:
        return np.array(handle[selection])


class NumpyArchive(SparseContender):
    name = "np.savez_compressed"
    family = "numpy"
    note = "int64 coordinates; every slice loads the file"

    def write(self, path: Path, value: Sparse) -> None:
        with path.open("wb") as file:
            np.savez_compressed(file, indices=value.indices, values=value.values, shape=value.shape)

    def read(self, handle: Path) -> Cells:
        with np.load(handle) as found:
            return found["indices"], found["values"]

    def select(self, handle: Path, place: int) -> Cells:
        indices, values = self.read(handle)
        kept = indices[:, 0] == place
        return indices[kept, 1:], values[kept]


class NumpyCheckpoint(CheckpointContender):
    name = "np.savez, np.load"
    family = "numpy"

    def write(self, path: Path, value: dict[str, np.ndarray]) -> None:
        with path.open("wb") as file:
            np.savez(file, **value)

    def load(self, path: Path) -> dict[str, np.ndarray]:
        with np.load(path) as found:
            return dict(found)

    def load_one(self, path: Path, name: str) -> np.ndarray:
        with np.load(path) as found:
            return found[name]
