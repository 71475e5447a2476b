"""Ray, blocks cut by hand: a task for each block of the result, which adds up the products it is made of."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

# It would tell its makers.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import ray

from compute.case import Case, Way
from compute.tasks import THREADS

DISTRIBUTION = "ray"
BLOCK = 2000


def ways(case: Case) -> dict[str, Callable[[], Way]]:
    return {"Ray": lambda: overhead(case) if case.task.key == "overhead" else product(case)}


def _start(held_bytes: int) -> Callable[[], None]:
    """Starts Ray with room for what is held; what ends it."""
    # Paths of sockets must be short.
    home = tempfile.mkdtemp(prefix="lray-", dir="/tmp")
    ray.init(
        num_cpus=THREADS, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=home,
        object_store_memory=max(2**28, int(1.2 * held_bytes)),
    )

    def close() -> None:
        ray.shutdown()
        shutil.rmtree(home, ignore_errors=True)

    return close


@ray.remote
def _block(count: int, *blocks: np.ndarray) -> np.ndarray:
    out = blocks[0] @ blocks[count]
    for k in range(1, count):
        out += blocks[k] @ blocks[count + k]
    return out


@ray.remote
def _step(x: np.ndarray) -> np.ndarray:
    return x * 0.5 + 1


def product(case: Case) -> Way:
    a, b = case.inputs["A"], case.inputs["B"]
    size = max(8, BLOCK // case.divide)
    close = _start(a.nbytes + b.nbytes + 2 * a.shape[0] * b.shape[1] * 8)
    rows, inner, columns = (range(0, n, size) for n in (a.shape[0], a.shape[1], b.shape[1]))
    left = [[ray.put(a[i : i + size, k : k + size]) for k in inner] for i in rows]
    right = [[ray.put(b[k : k + size, j : j + size]) for k in inner] for j in columns]

    def run() -> list[list[Any]]:
        made = [[_block.remote(len(inner), *ks, *kj) for kj in right] for ks in left]
        flat = [block for row in made for block in row]
        ray.wait(flat, num_returns=len(flat), fetch_local=False)
        return made

    def gather(found: list[list[Any]]) -> dict[str, Any]:
        return {"C": np.block([ray.get(row) for row in found])}

    return Way(run, gather, f"blocks of {size} in its store, left there; memory of all its processes", close=close, has_children=True)


def overhead(case: Case) -> Way:
    close = _start(0)

    def run() -> dict[str, Any]:
        x = ray.put(case.inputs["x"])
        for _ in range(case.rounds):
            x = _step.remote(x)
        return {"x": ray.get(x)}

    return Way(run, note="remote calls; memory of all its processes", facts=lambda: {"tasks": case.rounds}, close=close, has_children=True)
