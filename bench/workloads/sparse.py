"""Counts as a sparse tensor of float32: its stored size, written, read whole, and one slice `[i]` after another."""

from __future__ import annotations

from typing import Any

import numpy as np
from contender import Cells
from data import SEED, Sparse, pickups
from harness import Operation, Step, Workload

SLICES = 10


def workload(quick: bool) -> Workload:
    made = pickups(days=12 if quick else None)
    value: Sparse = made.value
    places = np.random.default_rng(SEED).choice(value.shape[0], SLICES, replace=False)
    return Workload(
        key="sparse",
        title=f"sparse float32 {value.shape}",
        facts=f"{made.source}, {len(value.values):,} nonzeros",
        is_real=made.is_real,
        value=value,
        operations=[
            Operation("read", "whole read", [Step(lambda c, h: c.read(h), _equals(value, None))], _warm_up),
            Operation("slices", f"{SLICES} × [i]", [_select(int(i), value) for i in places], _warm_up),
        ],
    )


def _warm_up(contender: Any, handle: Any) -> None:
    contender.select(handle, 0)


def _select(place: int, value: Sparse) -> Step:
    return Step(lambda contender, handle: contender.select(handle, place), _equals(value, place))


def _equals(value: Sparse, place: int | None) -> Any:
    """Whether the cells are those of the tensor or of its slice, in whatever order."""
    chosen = slice(None) if place is None else value.indices[:, 0] == place
    indices = value.indices[chosen] if place is None else value.indices[chosen, 1:]
    shape = value.shape if place is None else value.shape[1:]
    expected = np.ravel_multi_index(tuple(indices.T), shape)

    def is_right(found: Cells) -> bool:
        if found[0].shape != indices.shape or found[1].dtype != value.values.dtype:
            return False
        cells = np.ravel_multi_index(tuple(found[0].T), shape)
        order = np.argsort(cells, kind="stable")
        return np.array_equal(cells[order], expected) and np.array_equal(found[1][order], value.values[chosen])

    return is_right
