"""Vectors: the ten nearest of each of some queries, exactly and by an index, with conditions that leave fewer and fewer rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from data import SEED
from harness import Operation, Step, Workload

K = 10
QUERIES = 50

#: The share of the rows that a condition leaves.
SHARES = {"all": 1.0, "half": 0.5, "tenth": 0.1, "hundredth": 0.01, "thousandth": 0.001}


@dataclass(frozen=True)
class Vectors:
    """Vectors, a number from 0 to 1 for each, and queries that are none of them."""

    rows: np.ndarray
    share: np.ndarray
    queries: np.ndarray


def workload(quick: bool) -> Workload:
    value = vectors(20_000 if quick else 340_000, 100)
    count, size = value.rows.shape
    operations = []
    for key, share in SHARES.items():
        expected = _nearest(value, share)
        title = f"{QUERIES} × top {K}" if share == 1 else f"{QUERIES} × top {K} of {share * 100:g} %"
        operations.append(Operation(key, title, [_step(value, share, expected)], _warm_up))
    return Workload(
        key="search",
        title=f"{count:,} vectors of {size} float32",
        facts="made up: heaps of 1,000 centres, by cosine",
        is_real=False,
        value=value,
        operations=operations,
    )


def vectors(count: int, size: int) -> Vectors:
    """Vectors in heaps of different width, as word vectors are."""
    rng = np.random.default_rng(SEED)
    centres = rng.normal(size=(1000, size))
    width = rng.uniform(0.4, 1.2, size=(1000, 1))

    def some(number: int) -> np.ndarray:
        heap = rng.integers(len(centres), size=number)
        return (centres[heap] + width[heap] * rng.normal(size=(number, size))).astype(np.float32)

    return Vectors(some(count), rng.random(count), some(QUERIES))


def _nearest(value: Vectors, share: float) -> list[set[int]]:
    allowed = np.flatnonzero(value.share < share) if share < 1 else np.arange(len(value.rows))
    rows = value.rows[allowed]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = []
    for query in value.queries:
        scores = rows @ (query / np.linalg.norm(query))
        found.append({int(row) for row in allowed[np.argsort(-scores)[:K]]})
    return found


def _warm_up(contender: Any, handle: Any) -> None:
    contender.nearest(handle, np.ones(100, np.float32), K, 1.0)


def _step(value: Vectors, share: float, expected: list[set[int]]) -> Step:
    def run(contender: Any, handle: Any) -> tuple[float, list[Any]]:
        return contender.least_recall, [contender.nearest(handle, query, K, share) for query in value.queries]

    def is_right(found: tuple[float, list[Any]]) -> bool:
        least, rows = found
        if any(len(set(map(int, one))) != len(wanted) for one, wanted in zip(rows, expected, strict=True)):
            return False
        hits = sum(len(set(map(int, one)) & wanted) for one, wanted in zip(rows, expected, strict=True))
        return hits >= least * sum(map(len, expected))

    return Step(run, is_right)
