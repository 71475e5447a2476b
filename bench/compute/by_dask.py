"""Dask arrays, with a pool of threads that each compute with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np

from compute.case import Case, Way
from compute.tasks import THREADS

DISTRIBUTION = "dask"
#: The extent of a block; quick runs have smaller ones.
BLOCK = 2000


def ways(case: Case) -> dict[str, Callable[[], Way]]:
    dask.config.set(scheduler="threads", num_workers=THREADS)
    return {
        "Dask": lambda: overhead(case) if case.task.key == "overhead" else in_memory(case),
        "Dask, from files": lambda: from_files(case),
    }


def _arrays(case: Case) -> list[Any]:
    block = max(8, BLOCK // case.divide)
    # Named, or it would read everything to find a name.
    return [da.from_array(case.inputs[name], chunks=block, name=name) for name in ("A", "B")]


def in_memory(case: Case) -> Way:
    a, b = _arrays(case)
    c = a
    for _ in range(case.sizes.get("rounds", 1)):
        c = c @ b
    return Way(c.persist, lambda found: {"C": found.compute()}, note=f"blocks of {a.chunksize[0]}, left in blocks")


def from_files(case: Case) -> Way:
    a, b = _arrays(case)
    if case.task.key == "diagonal":
        return Way(lambda: {"d": da.diag(a + b).compute()}, note=f".npy files in blocks of {a.chunksize[0]}")
    path = case.directory / "dask-product.out"
    c = a @ b

    def run() -> Any:
        out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=c.shape)
        da.store(c, out, lock=False)
        out.flush()
        return out

    return Way(
        run, lambda found: {"C": np.asarray(found)}, note="from .npy files into one, mapped, which counts as its memory",
        close=lambda: path.unlink(missing_ok=True),
    )


def overhead(case: Case) -> Way:
    def run() -> dict[str, Any]:
        x = dask.delayed(case.inputs["x"], pure=False)
        step = dask.delayed(lambda x: x * 0.5 + 1, pure=False)
        for _ in range(case.rounds):
            x = step(x)
        return {"x": dask.compute(x)[0]}

    return Way(run, note="delayed calls", facts=lambda: {"tasks": case.rounds})
