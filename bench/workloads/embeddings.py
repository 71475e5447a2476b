"""Embeddings, loaded for training: shuffled, in batches of 1,024."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import SEED
from harness import Operation, Step, Workload

BATCH = 1024
SIZE = 768


def workload(quick: bool) -> Workload:
    count = 20_000 if quick else 1_000_000
    value = np.random.default_rng(SEED).standard_normal((count, SIZE), np.float32)
    return Workload(
        key="embeddings",
        title=f"an epoch of {count:,} × {SIZE} float32 in batches of {BATCH:,}",
        facts=f"{value.nbytes:,} bytes, random",
        is_real=False,
        value=value,
        operations=[Operation("epoch", f"{count:,} vectors, shuffled", [_epoch(value)], _warm_up)],
    )


def _warm_up(contender: Any, handle: Any) -> None:
    contender.epoch(handle, 0)


def _epoch(value: np.ndarray) -> Step:
    expected = float(value[:, 0].sum(dtype=np.float64))
    return Step(
        lambda contender, handle: contender.epoch(handle, 1),
        lambda found: found[0] == len(value) and abs(found[1] - expected) < 1e-3 * len(value) ** 0.5,
    )
