"""A contender: one way to store the value of a workload and to get it, or parts of it, back.

Lacus, the peers and the physical limits are all contenders, so that one loop can time them side by side.
An adapter says how the thing is used well; it measures nothing and checks nothing itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Timed:
    """What a call gave that held the clock itself, because it ran something else first."""

    seconds: float
    found: Any


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


def synced(path: Path) -> None:
    """Waits until the disk has a file."""
    opened = os.open(path, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)


class LoaderContender(Contender):
    """Loads files with labels for training; `value` is a `data.Files`. Writing includes reading the files."""

    def epoch(self, handle: Any, seed: int) -> tuple[np.ndarray, int]:
        """All pictures once, shuffled, in batches of 64 arrays of uint8: the labels as they came, and the sum of one pixel of each."""
        raise NotImplementedError


class EmbeddingsContender(Contender):
    """Loads vectors for training; `value` is an array of two axes."""

    def epoch(self, handle: Any, seed: int) -> tuple[int, float]:
        """All vectors once, shuffled, in batches of 1,024: how many there were, and the sum of their first elements."""
        raise NotImplementedError


def consumed(batches: Any) -> tuple[np.ndarray, int]:
    """What `LoaderContender.epoch` returns, of (pictures, labels) for each batch."""
    labels, pixels = [], 0
    for pictures, of in batches:
        labels.append(np.asarray(of))
        pixels += int(np.asarray(pictures)[:, 0, 0, 0].sum(dtype=np.int64))
    return np.concatenate(labels), pixels


class PicturesContender(Contender):
    """Stores files with their label and mean brightness as rows; `value` is a `workloads.query.Pictures`."""

    def rows(self, handle: Any) -> Any:
        """The rows of the question, in its order."""
        raise NotImplementedError

    def pictures(self, handle: Any) -> list[bytes]:
        """The files of these rows."""
        raise NotImplementedError

    def start(self) -> Timed:
        """Imports the package in a new process."""
        raise NotImplementedError

    def first(self, path: Path) -> Timed:
        """Opens what was stored and asks, in a new process that has imported the package."""
        raise NotImplementedError

    def _elsewhere(self, importing: str, asking: str) -> Timed:
        """Runs two pieces of a program in a new process; the seconds of the last one, and `found` if that sets it."""
        clock = "import time; start = time.perf_counter()"
        told = "import json, sys; took = time.perf_counter() - start; print(json.dumps([took, globals().get('found')]))"
        parts = [importing, clock, asking, told] if asking else [clock, importing, told]
        said = subprocess.run([sys.executable, "-c", "\n".join(parts)], check=True, capture_output=True, text=True)
        seconds, found = json.loads(said.stdout.splitlines()[-1])
        return Timed(seconds, found)


class TablesContender(Contender):
    """Stores tables and asks them in SQL; the answer is an Arrow table."""

    def ask(self, handle: Any, text: str) -> Any:
        raise NotImplementedError


def describe(path: Path) -> tuple[int, int]:
    """Bytes and number of all files at a path."""
    files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
    return sum(found.stat().st_size for found in files), len(files)
