"""Long runs of random calls: a dataset always equals a list of dicts that went through the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lacus

#: Types of columns, and how to make a sample of a number.
KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "int": ({"dtype": "int32", "shape": ()}, lambda n: np.int32(n)),
    "real": ({"dtype": "float64", "shape": ()}, lambda n: np.float64(n / 7)),
    "label": ({"htype": "class_label"}, lambda n: np.uint32(n % 1000)),
    "text": ({"htype": "text"}, lambda n: "x" * (n % 9) + str(n)),
    "json": ({"htype": "json"}, lambda n: {"n": n, "l": [None] * (n % 3)}),
    "fixed": ({"dtype": "int16", "shape": (3,)}, lambda n: np.full(3, n % 30_000, np.int16)),
    "ragged": ({"dtype": "int64"}, lambda n: np.full((n % 4, 2), n, np.int64)),
    "packed": ({"compression": "zstd", "dtype": "uint8"}, lambda n: np.full(600 + n % 50, n % 256, np.uint8)),
    "large": (
        {"compression": None, "dtype": "uint8"},
        lambda n: np.full((5 << 20) if n % 40 == 0 else 3, n % 256, np.uint8),
    ),
    "outline": ({"htype": "polygon"}, lambda n: [np.full((3, 2), n % 1000, np.float32)] * (n % 3)),
    "words": ({"htype": "sequence[text]"}, lambda n: [str(n)] * (n % 3)),
}


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, (np.ndarray, np.generic)):
        return type(found) is type(expected) and found.dtype == expected.dtype and np.array_equal(found, expected)
    return type(found) is type(expected) and bool(found == expected)


class Run:
    """A dataset and its model: names of columns with their kinds, and rows."""

    def __init__(self, ds: lacus.Dataset, seed: int) -> None:
        self.ds = ds
        self.rng = np.random.default_rng(seed)
        self.kinds: dict[str, str] = {}
        self.rows: list[dict[str, Any]] = []
        self.past: dict[int, tuple[dict[str, str], list[dict[str, Any]]]] = {}
        self.number = 0

    def sample(self, name: str) -> Any:
        self.number += 1
        return None if self.rng.random() < 0.15 else KINDS[self.kinds[name]][1](self.number)

    def some_columns(self) -> list[str]:
        return [name for name in self.kinds if self.rng.random() < 0.8] or list(self.kinds)[:1]

    def some_rows(self) -> list[int]:
        count = int(self.rng.integers(0, min(len(self.rows), 8) + 1))
        return [int(row) for row in self.rng.choice(len(self.rows), count, replace=False)] if count else []

    # What may happen.

    def add_column(self) -> None:
        name = f"{self.rng.choice(['a', 'b/c', 'd'])}{self.number}"
        kind = str(self.rng.choice(list(KINDS)))
        self.number += 1
        if len(self.kinds) > 7:
            return
        self.kinds[name] = kind
        default = self.sample(name) if kind != "large" and self.rng.random() < 0.5 else None
        self.ds.add_column(name, default=default, **KINDS[kind][0])
        for row in self.rows:
            row[name] = default

    def drop_column(self) -> None:
        if len(self.kinds) > 2:
            name = str(self.rng.choice(list(self.kinds)))
            self.ds.drop_column(name)
            del self.kinds[name]
            for row in self.rows:
                del row[name]

    def rename_column(self) -> None:
        old = str(self.rng.choice(list(self.kinds)))
        self.number += 1
        new = f"r{self.number}"
        self.ds.rename_column(old, new)
        # A renamed column keeps its place.
        self.kinds = {new if name == old else name: kind for name, kind in self.kinds.items()}
        for row in self.rows:
            row[new] = row.pop(old)

    def append(self) -> None:
        row = {name: self.sample(name) for name in self.some_columns()}
        self.ds.append(row)
        self.rows.append({name: row.get(name) for name in self.kinds})

    def extend(self) -> None:
        count = int(self.rng.integers(1, 30))
        columns = {name: [self.sample(name) for _ in range(count)] for name in self.some_columns()}
        self.ds.extend(columns)
        for i in range(count):
            self.rows.append({name: columns[name][i] if name in columns else None for name in self.kinds})

    def update(self) -> None:
        name = str(self.rng.choice(list(self.kinds)))
        rows = self.some_rows()
        samples = [self.sample(name) for _ in rows]
        self.ds[name][rows] = samples
        for row, sample in zip(rows, samples, strict=True):
            self.rows[row][name] = sample

    def update_slice(self) -> None:
        name = str(self.rng.choice(list(self.kinds)))
        start, step = int(self.rng.integers(0, 5)), int(self.rng.integers(1, 4))
        rows = range(len(self.rows))[start::step]
        samples = [self.sample(name) for _ in rows]
        self.ds[name][start::step] = samples
        for row, sample in zip(rows, samples, strict=True):
            self.rows[row][name] = sample

    def grow(self) -> None:
        name = str(self.rng.choice(list(self.kinds)))
        row, sample = len(self.rows) + int(self.rng.integers(0, 3)), self.sample(name)
        self.ds[name].write(row, sample, strict=False)
        while len(self.rows) <= row:
            self.rows.append(dict.fromkeys(self.kinds))
        self.rows[row][name] = sample

    def delete(self) -> None:
        rows = self.some_rows()
        self.ds.delete_rows(rows)
        self.rows = [row for i, row in enumerate(self.rows) if i not in rows]

    def compact(self) -> None:
        self.ds.compact()

    def reopen(self) -> None:
        self.ds = lacus.open(self.ds.url)

    # Whether all is well.

    def remember(self) -> None:
        self.past[self.ds.version] = (dict(self.kinds), [dict(row) for row in self.rows])

    def check(self, ds: lacus.Dataset, kinds: dict[str, str], rows: list[dict[str, Any]]) -> None:
        assert ds.columns == list(kinds) and len(ds) == len(rows)
        for name in kinds:
            expected = [row[name] for row in rows]
            assert same(list(ds[name]), expected), name
            shapes = ds[name].shapes
            assert [shape is None for shape in shapes] == [sample is None for sample in expected]
            some = [int(i) for i in self.rng.integers(0, len(rows), 5)] if rows else []
            assert same(list(ds[name][some]), [expected[i] for i in some])

    def go(self, steps: int) -> None:
        calls = [
            (self.add_column, 2), (self.drop_column, 1), (self.rename_column, 1), (self.append, 8), (self.extend, 5),
            (self.update, 8), (self.update_slice, 2), (self.grow, 2), (self.delete, 4), (self.compact, 1),
            (self.reopen, 1),
        ]  # fmt: skip
        weights = np.array([weight for _, weight in calls]) / sum(weight for _, weight in calls)
        for _ in range(3):
            self.add_column()
        for step in range(steps):
            call = calls[int(self.rng.choice(len(calls), p=weights))][0]
            call()
            self.remember()
            if step % 5 == 4:
                self.check(self.ds, self.kinds, self.rows)
        self.check(lacus.open(self.ds.url), self.kinds, self.rows)
        for version in sorted(self.past)[:: max(1, len(self.past) // 5)]:
            self.check(lacus.open(self.ds.url, at=version), *self.past[version])


@pytest.mark.parametrize("seed", range(6))
def test_sixty_random_calls(ds: lacus.Dataset, seed: int) -> None:
    Run(ds, seed).go(60)


def test_two_writers_take_turns(ds: lacus.Dataset) -> None:
    """Handles that refresh before they write follow each other."""
    one, two = Run(ds, 100), Run(lacus.open(ds.url), 101)
    one.add_column()
    one.extend()
    two.kinds, two.rows = one.kinds, one.rows
    for step in range(60):
        writer, other = (one, two) if step % 2 else (two, one)
        writer.ds.refresh()
        writer.number = max(one.number, two.number)
        call = [writer.append, writer.update, writer.delete, writer.extend, writer.compact][step % 5]
        call()
        other.kinds, other.rows = writer.kinds, writer.rows
    for run in (one, two):
        run.ds.refresh()
        run.check(run.ds, run.kinds, run.rows)
