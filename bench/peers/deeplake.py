"""Deep Lake 4: one row per item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deeplake
import numpy as np
from contender import DenseContender

DISTRIBUTION = "deeplake"


def dense() -> list[DenseContender]:
    return [DeepLakeColumn()]


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
