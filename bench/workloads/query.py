"""Questions: rows by their metadata with and without the pictures, TPC-H, and ten million rows of numbers."""

from __future__ import annotations

import io
import math
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from data import ROOT, SEED, Files, labelled_files
from harness import Operation, Step, Workload

#: How many classes are asked for; a small part of the files may have fewer.
CLASSES = 3
LIMIT = 100
#: Groups of the numbers.
KEYS = 1000
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


@dataclass(frozen=True)
class Pictures:
    """Files with their class and mean brightness, no two of which are the same, and what is asked for: some classes, and what is
    brighter than most."""

    files: Files
    means: np.ndarray
    labels: tuple[int, ...]
    bright: float

    @property
    def condition(self) -> str:
        return f"label IN ({', '.join(map(str, self.labels))}) AND mean > {self.bright!r}"


@dataclass(frozen=True)
class Numbers:
    """Columns of as many rows: whole numbers below `KEYS`, and reals from 0 to 1."""

    keys: np.ndarray
    values: np.ndarray


def workloads(quick: bool) -> list[Workload]:
    return [_pictures(quick), _tpch(0.01 if quick else 0.1), _numbers(200_000 if quick else 10_000_000)]


# ---------------------------------------------------------------- pictures


def _pictures(quick: bool) -> Workload:
    made = labelled_files(2000 if quick else 50_000)
    files: Files = made.value
    means = np.array([_mean(content) for content in files.contents]) + np.arange(len(files.contents)) * 1e-9
    there = np.unique(files.labels).tolist()
    value = Pictures(files, means, tuple(there[-CLASSES:]), float(np.quantile(means, 0.7)))
    wanted = np.isin(files.labels, value.labels) & (means > value.bright)
    assert wanted.sum() >= LIMIT, "a query that finds little proves little"
    rows = np.flatnonzero(wanted)
    rows = rows[np.argsort(means[rows])][:LIMIT].tolist()
    contents = [files.contents[row] for row in rows]
    ids = Step(lambda contender, handle: contender.rows(handle), lambda found: [int(row) for row in found] == rows)
    pictures = Step(
        lambda contender, handle: contender.pictures(handle), lambda found: [bytes(file) for file in found] == contents
    )
    # Measured inside of a new process, so that starting Python is not counted.
    first = Step(lambda contender, path: contender.first(path), lambda found: [int(row) for row in found] == rows)
    start = Step(lambda contender, path: contender.start(), lambda found: True)
    return Workload(
        key="pictures",
        title=f"{LIMIT} of {len(files.paths):,} labelled pictures by class and brightness",
        facts=f"{made.source}; {value.condition} order by mean limit {LIMIT}, {int(wanted.sum()):,} rows match",
        is_real=made.is_real,
        value=value,
        operations=[
            Operation("rows", "which rows", [ids], _warm_up),
            Operation("pictures", "with their files", [pictures], _warm_up),
            Operation("first", "first query of a process", [first]),
            Operation("import", "import", [start]),
        ],
    )


def _warm_up(contender: Any, handle: Any) -> None:
    contender.rows(handle)
    contender.pictures(handle)


def _mean(content: bytes) -> float:
    from PIL import Image

    return float(np.asarray(Image.open(io.BytesIO(content))).mean())


# ---------------------------------------------------------------- TPC-H


def _tpch(scale: float) -> Workload:
    sys.path.insert(0, str(ROOT / "python" / "tests"))
    from tpch_queries import queries

    folder = ROOT / ".cache" / "bench-data" / f"tpch-{scale}"
    if not (folder / ".made").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([_generator(), "parquet", "-s", str(scale), "--output-dir", str(folder)], check=True)
        (folder / ".made").touch()
    texts = {number: query.text for number, query in queries(scale).items()}
    expected = _answers(folder, texts)
    steps = [_question(texts[number], expected[number]) for number in texts]
    # Those whose ranges of dates and numbers let files and pages be left out.
    pruned = [_question(texts[number], expected[number]) for number in (6, 14, 15)]
    return Workload(
        key="tpch",
        title=f"TPC-H, scale factor {scale}",
        facts=f"{sum(path.stat().st_size for path in folder.glob('*.parquet')) / 1e6:.0f} MB of Parquet of tpchgen-cli",
        is_real=True,
        value=folder,
        operations=[
            Operation("all", "22 queries", steps, _asked_once(texts[6])),
            Operation("dates", "queries 6, 14, 15", pruned, _asked_once(texts[6])),
        ],
    )


def _asked_once(text: str) -> Any:
    return lambda contender, handle: contender.ask(handle, text)


def _question(text: str, expected: list[tuple[Any, ...]]) -> Step:
    return Step(lambda contender, handle: contender.ask(handle, text), lambda found: _same(rows_of(found), expected))


def _generator() -> str:
    found = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    assert found is not None, "no tpchgen-cli here; bench/requirements.txt has it"
    return found


def _answers(folder: Path, texts: dict[int, str]) -> dict[int, list[tuple[Any, ...]]]:
    """What DuckDB says, from the Parquet files themselves."""
    import duckdb

    with duckdb.connect() as connection:
        for name in TABLES:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / f'{name}.parquet'}'")
        return {number: sorted(map(_plain, connection.execute(text).fetchall()), key=_sortable) for number, text in texts.items()}


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table, sorted; decimals are floats, as engines give them different scales."""
    columns = [column.to_pylist() for column in table.columns]
    return sorted((_plain(row) for row in zip(*columns)), key=_sortable)


def _plain(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(float(value) if isinstance(value, Decimal) else str(value) if hasattr(value, "year") else value for value in row)


def _sortable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    # Sums differ in their last digits, by the order in which they are made.
    return tuple((value is None, f"{value:.4g}" if isinstance(value, float) else str(value)) for value in row)


def _same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    def alike(one: Any, other: Any) -> bool:
        if isinstance(one, (int, float)) and isinstance(other, (int, float)):
            return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
        return one == other

    return len(found) == len(expected) and all(all(map(alike, ours, theirs)) for ours, theirs in zip(found, expected))


# ---------------------------------------------------------------- numbers


FILTER = "SELECT count(*) AS n, sum(value) AS total FROM numbers WHERE value > 0.9 AND key < 100"
GROUPS = "SELECT key, count(*) AS n, sum(value) AS total, max(value) AS most FROM numbers GROUP BY key"


def _numbers(count: int) -> Workload:
    rng = np.random.default_rng(SEED)
    value = Numbers(rng.integers(0, KEYS, count, np.int64), rng.random(count))
    kept = (value.values > 0.9) & (value.keys < 100)
    filtered = [(int(kept.sum()), float(value.values[kept].sum()))]
    most = np.zeros(KEYS)
    np.maximum.at(most, value.keys, value.values)
    counts, totals = np.bincount(value.keys, minlength=KEYS), np.bincount(value.keys, value.values, KEYS)
    groups = [(key, int(counts[key]), float(totals[key]), float(most[key])) for key in range(KEYS)]
    return Workload(
        key="numbers",
        title=f"{count:,} rows of two numbers",
        facts=f"made up: {KEYS} whole numbers and reals from 0 to 1",
        is_real=False,
        value=value,
        operations=[
            Operation("filter", "count and sum where", [_numbered(FILTER, filtered)], _asked_once(FILTER)),
            Operation("groups", f"{KEYS} groups", [_numbered(GROUPS, groups)], _asked_once(FILTER)),
        ],
    )


def _numbered(text: str, expected: list[tuple[Any, ...]]) -> Step:
    wanted = sorted(expected)
    return Step(
        lambda contender, handle: contender.ask(handle, text),
        lambda found: _same(sorted(zip(*(column.to_pylist() for column in found.columns))), wanted),
    )
