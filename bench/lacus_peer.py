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
    EmbeddingsContender,
    LoaderContender,
    PicturesContender,
    SamplesContender,
    SparseContender,
    TablesContender,
    Timed,
    consumed,
)
from data import Files, Sparse
from workloads.query import LIMIT, TABLES, Numbers, Pictures

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


def saves() -> list[CheckpointContender]:
    return [SavesLacus()]


def samples() -> list[SamplesContender]:
    return [SamplesLacus()]


def loader() -> list[LoaderContender]:
    return [LoaderLacus('Lacus, shuffle=True', True), LoaderLacus('Lacus, shuffle="full"', "full", "Lacus, shuffle=True")]


def embeddings() -> list[EmbeddingsContender]:
    return [EmbeddingsLacus()]


class LoaderLacus(LoaderContender):
    family = "lacus"

    def __init__(self, name: str, shuffle: bool | str, reads_files_of: str | None = None) -> None:
        self.name, self._shuffle, self.reads_files_of = name, shuffle, reads_files_of

    def write(self, path: Path, value: Files) -> None:
        lacus.from_folder(value.folder, path)

    def open(self, path: Path) -> lacus.Dataset:
        return lacus.open(path)

    def epoch(self, handle: lacus.Dataset, seed: int) -> tuple[np.ndarray, int]:
        loader = handle.loader(64, shuffle=self._shuffle, seed=seed, columns=["image", "label"])
        found = consumed((batch["image"], batch["label"]) for batch in loader)
        self.note = loader.stats()["verdict"]
        return found


class EmbeddingsLacus(EmbeddingsContender):
    name = "Lacus, shuffle=True"
    family = "lacus"

    def write(self, path: Path, value: np.ndarray) -> None:
        ds = lacus.create(path)
        ds.add_column("vector", "embedding", size=value.shape[1])
        for start in range(0, len(value), 100_000):
            ds.extend({"vector": value[start : start + 100_000]})

    def open(self, path: Path) -> lacus.Dataset:
        return lacus.open(path)

    def epoch(self, handle: lacus.Dataset, seed: int) -> tuple[int, float]:
        loader = handle.loader(1024, shuffle=True, seed=seed)
        count, total = 0, 0.0
        for batch in loader:
            count += len(batch["vector"])
            total += float(batch["vector"][:, 0].sum(dtype=np.float64))
        self.note = loader.stats()["verdict"]
        return count, total


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


def pictures() -> list[PicturesContender]:
    return [PicturesLacus()]


def tpch() -> list[TablesContender]:
    return [TpchLacus()]


def numbers() -> list[TablesContender]:
    return [NumbersLacus()]


class PicturesLacus(PicturesContender):
    name = "Lacus"
    family = "lacus"
    note = "columns image (JPEG), label and mean; the answer is a view"

    def prepare(self, value: Pictures) -> Pictures:
        self._text = f"SELECT * WHERE {value.condition} ORDER BY mean LIMIT {LIMIT}"
        return value

    def write(self, path: Path, value: Pictures) -> None:
        ds = lacus.from_folder(value.files.folder, path)
        ds.add_column("mean", dtype="float64", shape=())
        ds["mean"][:] = value.means
        ds.commit("brightness")

    def open(self, path: Path) -> lacus.Dataset:
        return lacus.open(path)

    def rows(self, handle: lacus.Dataset) -> Any:
        return handle.query(self._text).positions

    def pictures(self, handle: lacus.Dataset) -> list[bytes]:
        return handle["image"].bytes_of(handle.query(self._text).positions)

    def start(self) -> Timed:
        return self._elsewhere("import lacus", "")

    def first(self, path: Path) -> Timed:
        return self._elsewhere("import lacus", f"found = lacus.open({str(path)!r}).query({self._text!r}).positions")


class TpchLacus(TablesContender):
    name = "Lacus"
    family = "lacus"
    note = "a dataset per table"

    def write(self, path: Path, value: Path) -> None:
        for name in TABLES:
            lacus.from_parquet(value / f"{name}.parquet", path / name)

    def open(self, path: Path) -> dict[str, lacus.Dataset]:
        return {name: lacus.open(path / name) for name in TABLES}

    def ask(self, handle: dict[str, lacus.Dataset], text: str) -> Any:
        return lacus.sql(text, **handle).to_arrow()


class NumbersLacus(TablesContender):
    name = "Lacus"
    family = "lacus"

    def prepare(self, value: Numbers) -> Any:
        import pyarrow as pa

        return pa.table({"key": value.keys, "value": value.values})

    def write(self, path: Path, value: Any) -> None:
        lacus.from_table(value, path)

    def open(self, path: Path) -> lacus.Dataset:
        return lacus.open(path)

    def ask(self, handle: lacus.Dataset, text: str) -> Any:
        return lacus.sql(text, numbers=handle).to_arrow()


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


class SavesLacus(CheckpointContender):
    name = "lacus.save, lacus.load"
    family = "lacus"

    def write(self, path: Path, value: dict[str, np.ndarray]) -> None:
        lacus.save(value, path, step=1)

    def load(self, path: Path) -> dict[str, np.ndarray]:
        return lacus.load(path)

    def load_into(self, path: Path, model: dict[str, np.ndarray]) -> None:
        lacus.load(path, into=model)

    def load_one(self, path: Path, name: str) -> np.ndarray:
        return lacus.load(path, names=[name])[name]


def _cells(found: lacus.SparseTensor) -> Cells:
    return found.indices, found.values


def _torch_cells(found: Any) -> Cells:
    return found.indices().numpy().T, found.values().numpy()
