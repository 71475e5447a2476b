"""The peers, one adapter each. An adapter has `DISTRIBUTION`, the package it measures, and for the workloads it
takes part in a function `dense`, `sparse` or `checkpoint` that gives its contenders."""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass
from types import ModuleType

NAMES = (
    "numpy",
    "torch",
    "safetensors",
    "zarr",
    "tensorstore",
    "tiledb",
    "lance",
    "deeplake",
    "delta",
    "parquet",
    "faiss",
)

#: Chunks that chunked stores are given for the photos; left alone, some would cut them into tiny pieces and
#: some not at all. Whole items, as they are asked for, about 1 MiB of them: what Lacus takes by itself, too, and
#: where the peers read slices fastest.
PHOTO_CHUNK = 5


@dataclass(frozen=True)
class Absent:
    """A peer that does not take part, and why."""

    name: str
    reason: str


def load(name: str) -> ModuleType | Absent:
    """The adapter of a peer, if the peer is installed and can be imported."""
    try:
        return importlib.import_module(f"peers.{name}")
    except Exception as error:  # A broken install may raise anything; whatever it is, it is told.
        return Absent(name, f"cannot be imported: {type(error).__name__}: {error}")


def version(module: ModuleType) -> str:
    """The version of the package that an adapter measures."""
    try:
        return importlib.metadata.version(module.DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "from sources, not a release build"
