"""Small JPEG files with labels: imported, read in batches of random rows, read one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import SEED, Files, labelled_files
from harness import Operation, Step, Workload

BATCHES = 10
ROWS = 256


def workload(quick: bool) -> Workload:
    made = labelled_files(2000 if quick else 50_000)
    value: Files = made.value
    rng = np.random.default_rng(SEED)
    batches = [rng.choice(len(value.paths), ROWS, replace=False).tolist() for _ in range(BATCHES)]
    singles = batches[0]
    return Workload(
        key="samples",
        title=f"{len(value.paths):,} labelled JPEG files",
        facts=f"{made.source}, {sum(map(len, value.contents)):,} bytes",
        is_real=made.is_real,
        value=value,
        operations=[
            Operation("batches", f"{BATCHES} × {ROWS} random rows", [_batch(value, rows) for rows in batches], _warm_up),
            Operation("singles", f"{ROWS} × one random file", [_singles(value, singles)], _warm_up),
        ],
    )


def _warm_up(contender: Any, handle: Any) -> None:
    contender.batch(handle, [0, 1])
    contender.one(handle, 0)


def _batch(value: Files, rows: list[int]) -> Step:
    def is_right(found: tuple[list[bytes], Any]) -> bool:
        files, labels = found
        return [bytes(file) for file in files] == [value.contents[row] for row in rows] and [
            int(label) for label in labels
        ] == [value.labels[row] for row in rows]

    return Step(lambda contender, handle: contender.batch(handle, rows), is_right)


def _singles(value: Files, rows: list[int]) -> Step:
    return Step(
        lambda contender, handle: [contender.one(handle, row) for row in rows],
        lambda found: [bytes(file) for file in found] == [value.contents[row] for row in rows],
    )
