"""PyTorch: `torch.save` and `torch.load`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from contender import Cells, CheckpointContender, DenseContender, LoaderContender, SparseContender, consumed
from data import Files, Sparse

DISTRIBUTION = "torch"


def dense() -> list[DenseContender]:
    return [TorchFile(), TorchMapped()]


def sparse() -> list[SparseContender]:
    return [TorchSparse(), TorchSparseUnchecked(), TorchSparseOnce()]


def checkpoint() -> list[CheckpointContender]:
    return [TorchCheckpoint(), TorchCheckpointMapped()]


def loader() -> list[LoaderContender]:
    return [TorchDataLoader(0), TorchDataLoader(2)]


class TorchDataLoader(LoaderContender):
    """`torch.utils.data.DataLoader` over the files themselves, decoded by Pillow."""

    family = "torch"

    def __init__(self, workers: int) -> None:
        self.name = f"torch DataLoader, {workers} workers"
        self._workers = workers

    def prepare(self, value: Files) -> Files:
        self._value = value
        return value

    def write(self, path: Path, value: Files) -> None:
        path.write_bytes(b"")

    def epoch(self, handle: Path, seed: int) -> tuple[np.ndarray, int]:
        generator = torch.Generator().manual_seed(seed)
        pictures = _Pictures([str(path) for path in self._value.paths], list(self._value.labels))
        loader = torch.utils.data.DataLoader(
            pictures, 64, shuffle=True, generator=generator, num_workers=self._workers
        )
        return consumed((images.numpy(), labels.numpy()) for images, labels in loader)


class _Pictures(torch.utils.data.Dataset):
    def __init__(self, paths: list[str], labels: list[int]) -> None:
        self._paths, self._labels = paths, labels

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        return torch.from_numpy(np.array(Image.open(self._paths[row]))), self._labels[row]


class TorchFile(DenseContender):
    name = "torch.save, torch.load"
    family = "torch"
    note = "every slice loads the file"

    def prepare(self, value: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(value)

    def write(self, path: Path, value: torch.Tensor) -> None:
        torch.save(value, path)

    def read(self, handle: Path) -> np.ndarray:
        return torch.load(handle).numpy()

    def select(self, handle: Path, selection: Any) -> np.ndarray:
        return torch.load(handle)[selection].clone().numpy()


class TorchMapped(TorchFile):
    name = "torch.load, mapped"
    note = "mmap=True, slices cloned"
    reads_files_of = TorchFile.name

    def open(self, path: Path) -> torch.Tensor:
        return torch.load(path, mmap=True)

    def read(self, handle: torch.Tensor) -> np.ndarray:
        return handle.clone().numpy()

    def select(self, handle: torch.Tensor, selection: Any) -> np.ndarray:
        return handle[selection].clone().numpy()


class TorchSparse(SparseContender):
    name = "torch.save, torch.load"
    family = "torch"
    note = "COO tensor of int64 indices and float32 values; every slice loads the file and selects"

    def prepare(self, value: Sparse) -> torch.Tensor:
        return coo_tensor(value)

    def write(self, path: Path, value: torch.Tensor) -> None:
        torch.save(value, path)

    def read(self, handle: Path) -> Cells:
        return _cells(torch.load(handle))

    def select(self, handle: Path, place: int) -> Cells:
        return _cells(torch.load(handle)[place].coalesce())


class TorchSparseUnchecked(TorchSparse):
    name = "torch.load, unchecked"
    note = "weights_only=False, which trusts the file and leaves out a check of all coordinates"
    reads_files_of = TorchSparse.name

    def read(self, handle: Path) -> Cells:
        return _cells(torch.load(handle, weights_only=False))

    def select(self, handle: Path, place: int) -> Cells:
        return _cells(torch.load(handle, weights_only=False)[place].coalesce())


class TorchSparseOnce(TorchSparse):
    name = "torch.load once, select"
    note = "the whole tensor stays in memory, loaded before the clock starts"
    reads_files_of = TorchSparse.name

    def open(self, path: Path) -> torch.Tensor:
        return torch.load(path)

    def read(self, handle: torch.Tensor) -> Cells:
        raise NotImplementedError

    def select(self, handle: torch.Tensor, place: int) -> Cells:
        return _cells(handle[place].coalesce())


class TorchCheckpoint(CheckpointContender):
    name = "torch.save, torch.load"
    family = "torch"

    def prepare(self, value: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(array) for name, array in value.items()}

    def write(self, path: Path, value: dict[str, torch.Tensor]) -> None:
        torch.save(value, path)

    def load(self, path: Path) -> dict[str, torch.Tensor]:
        return torch.load(path)


class TorchCheckpointMapped(TorchCheckpoint):
    name = "torch.load, mapped"
    note = "mmap=True: bytes are read when the arrays are used"
    reads_files_of = TorchCheckpoint.name

    def load(self, path: Path) -> dict[str, torch.Tensor]:
        return torch.load(path, mmap=True)


def coo_tensor(value: Sparse) -> torch.Tensor:
    """The tensor that others are measured against."""
    indices = torch.from_numpy(np.ascontiguousarray(value.indices.T))
    return torch.sparse_coo_tensor(indices, torch.from_numpy(value.values), value.shape, is_coalesced=True)


def _cells(found: torch.Tensor) -> Cells:
    return found.indices().numpy().T, found.values().numpy()
