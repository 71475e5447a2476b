"""Photos as one dense array of uint8: written, read whole, in slices of items, and through a small window."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import SEED, photos
from harness import Operation, Step, Workload

SLICES = 10
ITEMS = 20


def workload(quick: bool) -> Workload:
    made = photos(60 if quick else 1000)
    value = made.value
    rng = np.random.default_rng(SEED)
    starts = rng.choice(len(value) - ITEMS, SLICES, replace=False)
    slices = [slice(int(start), int(start) + ITEMS) for start in starts]
    window = (slice(None), 0, slice(100, 140), slice(100, 140))
    return Workload(
        key="dense",
        title=f"dense uint8 {value.shape}",
        facts=f"{made.source}, {value.nbytes:,} bytes",
        is_real=made.is_real,
        value=value,
        operations=[
            Operation("open", "open, [0:1]", [Step(_open_and_select, _equals(value[:1]))]),
            Operation("read", "whole read", [Step(lambda c, h: c.read(h), _equals(value))], _warm_up),
            Operation("slices", f"{SLICES} slices of {ITEMS}", [_select(s, value[s]) for s in slices], _warm_up),
            Operation("window", "[:,0,100:140,100:140]", [_select(window, value[window])], _warm_up),
        ],
    )


def _open_and_select(contender: Any, path: Any) -> np.ndarray:
    handle = contender.open(path)
    found = contender.select(handle, slice(0, 1))
    contender.close(handle)
    return found


def _warm_up(contender: Any, handle: Any) -> None:
    """What a store keeps in memory about its files is there after one small read."""
    contender.select(handle, slice(0, 1))


def _select(selection: Any, expected: np.ndarray) -> Step:
    return Step(lambda contender, handle: contender.select(handle, selection), _equals(expected))


def _equals(expected: np.ndarray) -> Any:
    return lambda found: found.dtype == expected.dtype and np.array_equal(found, expected)
