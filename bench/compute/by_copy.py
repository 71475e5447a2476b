"""What memory gives: copying, by as many threads as everyone has. Not a contender but a measure."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from compute.case import Case, Way
from compute.tasks import THREADS

DISTRIBUTION = "numpy"
#: Elements copied at a time: 64 MiB, more than caches hold.
BLOCK = 2**23


def ways(case: Case) -> dict[str, Callable[[], Way]]:
    return {"copy loop": lambda: copy_loop(case)}


def copy_loop(case: Case) -> Way:
    """As many bytes as the task is about, half read and half written."""
    source = case.inputs["X"].reshape(-1)
    # Half of what memory holds, and not a buffer that stays in cache.
    target = np.zeros(max(1, len(source) // 4))
    pool = ThreadPoolExecutor(THREADS)
    # `work` counts each element twice in each round; a copy touches two for each it copies.
    total = int(case.task.work(case.sizes) / 16)

    def work(thread: int) -> None:
        for k in range(thread * BLOCK, total, THREADS * BLOCK):
            length = min(BLOCK, total - k, len(target))
            at, to = k % max(1, len(source) - length + 1), k % max(1, len(target) - length + 1)
            np.copyto(target[to : to + length], source[at : at + length])

    def run() -> dict[str, Any]:
        list(pool.map(work, range(THREADS)))
        return {}

    return Way(run, note="a measure, not a contender: as many bytes as X twice a round, half of them written")
