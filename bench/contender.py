"""A contender: one way to store the value of a workload and to get it, or parts of it, back.

Lacus, the peers and the physical limits are all contenders, so that one loop can time them side by side.
An adapter says how the thing is used well; it measures nothing and checks nothing itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


class Contender:
    """What all contenders have."""

    #: The row's name in the tables.
    name: str
    #: Whose it is: "limit", "lacus", or the peer's module.
    family: str
    #: "raw" or "compressed": ratios to Lacus are taken among the same kind.
    kind: str = "raw"
    #: Settings worth a line under the table.
    note: str = ""
    #: The name of the contender whose files this one reads; it then writes none.
    reads_files_of: str | None = None

    def prepare(self, value: Any) -> Any:
        """The workload's value as this contender likes to take it. Not timed."""
        return value

    def write(self, path: Path, value: Any) -> None:
        """Stores the value at a path where there is nothing."""
        raise NotImplementedError

    def open(self, path: Path) -> Any:
        """A handle to read from."""
        return path

    def close(self, handle: Any) -> None:
        """Ends a handle. Not timed."""


class DenseContender(Contender):
    """Stores one dense array."""

    def read(self, handle: Any) -> np.ndarray:
        """The whole array."""
        return self.select(handle, slice(None))

    def select(self, handle: Any, selection: Any) -> np.ndarray:
        """A selection of it, in memory of its own or in a reused buffer."""
        raise NotImplementedError


#: Coordinates, of shape (nnz, ndim) in any order of rows, and their values.
Cells = tuple[np.ndarray, np.ndarray]


class SparseContender(Contender):
    """Stores one sparse tensor; `value` is a `data.Sparse`."""

    def read(self, handle: Any) -> Cells:
        """All cells."""
        raise NotImplementedError

    def select(self, handle: Any, place: int) -> Cells:
        """The cells of `[place]`, with the coordinates of the axes that are left."""
        raise NotImplementedError


class CheckpointContender(Contender):
    """Stores a model's arrays by name."""

    def load(self, path: Path) -> dict[str, Any]:
        """All of them, opening included. Some peers map the file and read when the arrays are used."""
        raise NotImplementedError

    def load_into(self, path: Path, model: dict[str, np.ndarray]) -> None:
        """Fills the arrays of a model, opening included."""
        for name, array in self.load(path).items():
            np.copyto(model[name], np.asarray(array))

    def load_one(self, path: Path, name: str) -> np.ndarray:
        """One of them, opening included."""
        return np.array(self.load(path)[name])


class SamplesContender(Contender):
    """Stores files with labels as rows; `value` is a `data.Files`. Writing includes reading the files."""

    def batch(self, handle: Any, rows: list[int]) -> tuple[list[bytes], Any]:
        """The files and the labels of some rows, in their order."""
        raise NotImplementedError

    def one(self, handle: Any, row: int) -> bytes:
        """One file."""
        raise NotImplementedError


class SearchContender(Contender):
    """Stores vectors with a number each; `value` is a `workloads.search.Vectors`."""

    #: The share of the true neighbours that it must find.
    least_recall = 0.999

    def nearest(self, handle: Any, query: np.ndarray, k: int, share: float) -> Any:
        """The places of the rows that are nearest by cosine, among those whose number is below `share`."""
        raise NotImplementedError


def describe(path: Path) -> tuple[int, int]:
    """Bytes and number of all files at a path."""
    files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
    return sum(found.stat().st_size for found in files), len(files)
