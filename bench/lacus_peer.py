"""Lacus, through its Python package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lacus
import numpy as np
from contender import (
    Cells,
    CheckpointContender,
    DenseContender,
    SamplesContender,
    SearchContender,
    SparseContender,
)
from data import Files, Sparse

DISTRIBUTION = "lacus"


def dense() -> list[DenseContender]:
    raw = DenseLacus("Lacus, compression=None", None)
    return [
        raw,
        DenseLacusInto("Lacus, compression=None, read_into", None, reads_files_of=raw.name),
        DenseLacus("Lacus, default", "auto"),
        DenseLacus('Lacus, compression="lz4"', "lz4"),
        DenseLacus('Lacus, compression="zstd"', "zstd"),
    ]


def sparse() -> list[SparseContender]:
    found: list[SparseContender] = [
        SparseLacus("Lacus, default"),
        SparseLacus('Lacus, optimize="size"', optimize="size"),
    ]
    found += [SparseLacus(f"Lacus, {layout}", layout=layout) for layout in ("COO", "CSR", "CSC", "CSF", "BSGS")]
    return [*found, SparseLacusTorch("Lacus, default, from and to torch")]


def checkpoint() -> list[CheckpointContender]:
    return [CheckpointLacus("Lacus, compression=None", None), CheckpointLacus("Lacus, default", "auto")]


def samples() -> list[SamplesContender]:
    return [SamplesLacus()]


def search() -> list[SearchContender]:
    return [SearchLacus(), SearchLacusLists(), SearchLacusCodes()]


class SearchLacus(SearchContender):
    name = "Lacus, exact"
    family = "lacus"

    def write(self, path: Path, value: Any) -> None:
        ds = lacus.create(path)
        ds.add_column("vector", dtype="float32", shape=value.rows.shape[1:])
        ds.add_column("share", dtype="float64", shape=[])
        ds.add_column("place", dtype="int64", shape=[])
        ds.extend({"vector": value.rows, "share": value.share, "place": np.arange(len(value.rows))})
        self._index(ds)

    def _index(self, ds: lacus.Dataset) -> None:
        pass

    def open(self, path: Path) -> lacus.Dataset:
        return lacus.open(path)

    def nearest(self, handle: lacus.Dataset, query: np.ndarray, k: int, share: float) -> Any:
        where, params = (None, []) if share >= 1 else ("share < ?", [share])
        return handle["vector"].search(query, k=k, where=where, params=params)["place"][:]


class SearchLacusLists(SearchLacus):
    name = "Lacus, IVF"
    least_recall = 0.95

    def _index(self, ds: lacus.Dataset) -> None:
        info = ds["vector"].create_index("ivf", metric="cosine", recall=0.96)
        # How much of the vectors a search looks at.
        self.note = "; ".join(f"{100 * found.probes / info.lists:.1f} % of the lists for {found.neighbours}" for found in info.probes)


class SearchLacusCodes(SearchLacusLists):
    name = "Lacus, IVF, 8 bits"

    def _index(self, ds: lacus.Dataset) -> None:
        ds["vector"].create_index("ivf", metric="cosine", recall=0.96, bits=8)


class SamplesLacus(SamplesContender):
    name = "Lacus, from_folder"
    family = "lacus"
    note = "columns image (kept as JPEG) and label"

    def write(self, path: Path, value: Files) -> None:
        lacus.from_folder(value.folder, path)

    def open(self, path: Path) -> lacus.Dataset:
        return lacus.open(path)

    def batch(self, handle: lacus.Dataset, rows: list[int]) -> tuple[list[bytes], Any]:
        return handle["image"].bytes_of(rows), handle["label"][rows]

    def one(self, handle: lacus.Dataset, row: int) -> bytes:
        return handle["image"].bytes(row)


class DenseLacus(DenseContender):
    family = "lacus"

    def __init__(self, name: str, compression: str | None, reads_files_of: str | None = None) -> None:
        self.name, self.reads_files_of, self._compression = name, reads_files_of, compression

    def write(self, path: Path, value: np.ndarray) -> None:
        lacus.create(path).put("photos", value, compression=self._compression)

    def open(self, path: Path) -> lacus.Tensor:
        tensor = lacus.open(path)["photos"]
        self.kind = "raw" if tensor.compression == "none" else "compressed"
        self.note = f"{tensor.layout}, chunks {tensor.chunk_shape}, {tensor.compression}"
        return tensor

    def select(self, handle: lacus.Tensor, selection: Any) -> np.ndarray:
        return handle[selection]


class DenseLacusInto(DenseLacus):
    """Reads into buffers that were used before, as a training loop would."""

    def open(self, path: Path) -> lacus.Tensor:
        self._buffers: dict[str, np.ndarray] = getattr(self, "_buffers", {})
        return super().open(path)

    def select(self, handle: lacus.Tensor, selection: Any) -> np.ndarray:
        # A buffer for each shape: which one a selection needs, the caller knows.
        key = str(selection) if isinstance(selection, tuple) else str(len(range(*selection.indices(len(handle)))))
        if key not in self._buffers:
            self._buffers[key] = handle[selection]
        handle.read_into(self._buffers[key], selection)
        return self._buffers[key]


class SparseLacus(SparseContender):
    family = "lacus"

    def __init__(self, name: str, **options: Any) -> None:
        self.name, self._options = name, options

    def prepare(self, value: Sparse) -> Any:
        return lacus.SparseTensor(value.indices, value.values, value.shape)

    def write(self, path: Path, value: Any) -> None:
        lacus.create(path).put("pickups", value, **self._options)

    def open(self, path: Path) -> lacus.Tensor:
        tensor = lacus.open(path)["pickups"]
        # Why a layout was chosen, where it was.
        self.note = "" if "layout" in self._options else "; ".join([tensor.layout, *tensor.reasons])
        return tensor

    def read(self, handle: lacus.Tensor) -> Cells:
        return _cells(handle[...])

    def select(self, handle: lacus.Tensor, place: int) -> Cells:
        return _cells(handle[place])


class SparseLacusTorch(SparseLacus):
    """With torch tensors on both ends, so that conversions count too."""

    def prepare(self, value: Sparse) -> Any:
        from peers.torch import coo_tensor

        return coo_tensor(value)

    def read(self, handle: lacus.Tensor) -> Cells:
        return _torch_cells(handle[...].to_torch())

    def select(self, handle: lacus.Tensor, place: int) -> Cells:
        return _torch_cells(handle[place].to_torch())


class CheckpointLacus(CheckpointContender):
    family = "lacus"

    def __init__(self, name: str, compression: str | None) -> None:
        self.name, self._compression = name, compression

    def write(self, path: Path, value: dict[str, np.ndarray]) -> None:
        lacus.create(path).put_all(value, compression=self._compression)

    def load(self, path: Path) -> dict[str, np.ndarray]:
        ds = lacus.open(path)
        return {name: ds[name][...] for name in ds.keys()}

    def load_into(self, path: Path, model: dict[str, np.ndarray]) -> None:
        ds = lacus.open(path)
        for name, array in model.items():
            ds[name].read_into(array)

    def load_one(self, path: Path, name: str) -> np.ndarray:
        return lacus.open(path)[name][...]


def _cells(found: lacus.SparseTensor) -> Cells:
    return found.indices, found.values


def _torch_cells(found: Any) -> Cells:
    return found.indices().numpy().T, found.values().numpy()
