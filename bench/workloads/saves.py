"""A model of a gigabyte in 64 tensors: saved so that a power cut does not matter, loaded cold and warm into a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from harness import Operation, Step, Workload

#: A tensor from the middle.
ONE = "layers.31.weight"


def workload(quick: bool) -> Workload:
    side = 256 if quick else 2048
    rng = np.random.default_rng(7)
    value = {f"layers.{i}.weight": rng.standard_normal((side, side), np.float32) for i in range(64)}
    model = {name: np.ones_like(array) for name, array in value.items()}

    def fill(contender: Any, path: Any) -> dict[str, np.ndarray]:
        contender.load_into(path, model)
        return model

    def is_filled(found: dict[str, np.ndarray]) -> bool:
        right = all(np.array_equal(found[name], array) for name, array in value.items())
        for array in model.values():
            array.fill(0)
        return right

    return Workload(
        key="saves",
        title="durable checkpoint of 64 float32 tensors",
        facts=f"normally distributed numbers, {sum(array.nbytes for array in value.values()):,} bytes; every save is synced",
        is_real=False,
        value=value,
        operations=[
            Operation("cold", "load into model, cold", [Step(fill, is_filled)], warm_up=lambda _, path: forget(path)),
            Operation("warm", "load into model, warm", [Step(fill, is_filled)]),
            Operation(
                "one",
                "load one",
                [Step(lambda c, path: c.load_one(path, ONE), lambda found: np.array_equal(found, value[ONE]))],
            ),
        ],
    )


def forget(path: Path) -> None:
    """Drops the files from the page cache. They were synced: nothing is lost that was not on the disk."""
    files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
    for file in files:
        opened = os.open(file, os.O_RDONLY)
        os.fsync(opened)
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(opened)
