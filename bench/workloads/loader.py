"""Small JPEG files with labels, loaded for training: one epoch, shuffled, in batches of 64, decoded."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import Files, labelled_files
from harness import Operation, Step, Workload

BATCH = 64


def workload(quick: bool) -> Workload:
    made = labelled_files(2000 if quick else 50_000)
    value: Files = made.value
    count = len(value.paths)
    return Workload(
        key="loader",
        title=f"an epoch of {count:,} labelled JPEG files in batches of {BATCH}",
        facts=f"{made.source}, {sum(map(len, value.contents)):,} bytes",
        is_real=made.is_real,
        value=value,
        operations=[Operation("epoch", f"{count:,} pictures, shuffled and decoded", [_epoch(value)], _warm_up)],
    )


def _warm_up(contender: Any, handle: Any) -> None:
    contender.epoch(handle, 0)


def _epoch(value: Files) -> Step:
    """Every picture comes once, and is what it was: the sums of labels and of a pixel are compared."""
    labels = np.bincount(np.asarray(value.labels))

    def is_right(found: tuple[Any, int]) -> bool:
        seen, pixels = found
        return bool((np.bincount(np.asarray(seen), minlength=len(labels)) == labels).all()) and pixels > 0

    return Step(lambda contender, handle: contender.epoch(handle, 1), is_right)
