"""Times contenders side by side: one process, each repetition through all of them, every result checked.

    for each repetition (the first, not counted, warms up)
      for each operation
        for each contender, another first each time
          time it, then compare what it gave with what was stored

So whatever disturbs the machine for a while disturbs all of them alike, and medians ignore it.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from contender import Contender, Timed, describe

WRITE = "write"


@dataclass(frozen=True)
class Step:
    """One timed call, and whether what it gave is right."""

    run: Callable[[Any, Any], Any]
    is_right: Callable[[Any], bool]


@dataclass(frozen=True)
class Operation:
    """What is timed in one go: the sum of its steps. Checks between them are not counted."""

    key: str
    title: str
    steps: Sequence[Step]
    #: Called before the clock starts, with an open handle; an operation without it is given the path.
    warm_up: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class Workload:
    """A value and what is done with it."""

    key: str
    title: str
    facts: str
    is_real: bool
    value: Any
    operations: Sequence[Operation]


@dataclass
class Row:
    """What was found about one contender."""

    name: str
    family: str
    kind: str
    note: str = ""
    stored_bytes: int | None = None
    files: int | None = None
    seconds: dict[str, list[float]] = field(default_factory=dict)
    #: What went wrong, by operation. A result that differs from what was stored is here, too.
    failures: dict[str, str] = field(default_factory=dict)

    def time(self, operation: str) -> float | None:
        """The median of an operation, if all of its results were right."""
        found = self.seconds.get(operation)
        return median(found) if found and operation not in self.failures else None


def measure(workload: Workload, contenders: Sequence[Contender], repeat: int, directory: Path) -> list[dict[str, Any]]:
    """One row per contender, as plain data."""
    rows = {contender.name: Row(contender.name, contender.family, contender.kind) for contender in contenders}
    values = {contender.name: contender.prepare(workload.value) for contender in contenders}
    say(f"{workload.title}: {len(contenders)} contenders, {repeat} repetitions and one to warm up")
    # Python's collector runs between timed calls only, and looks at nothing that was there before.
    gc.freeze()
    gc.disable()
    for repetition in range(-1, repeat):
        counts = repetition >= 0
        order = _order(contenders, repetition + 1)
        paths = {contender.name: directory / f"{place}-{repetition}" for place, contender in enumerate(contenders)}
        for contender in order:
            if contender.reads_files_of is None:
                _write(contender, rows[contender.name], paths[contender.name], values[contender.name], counts)
        for contender in order:
            if contender.reads_files_of is not None:
                _share(rows[contender.name], rows[contender.reads_files_of])
                paths[contender.name] = paths[contender.reads_files_of]
        for operation in workload.operations:
            for contender in order:
                _operate(contender, rows[contender.name], operation, paths[contender.name], counts)
        for path in set(paths.values()):
            remove(path)
        say(f"  repetition {repetition + 1} of {repeat}" if counts else "  warm")
    gc.enable()
    for contender in contenders:
        rows[contender.name].note, rows[contender.name].kind = contender.note, contender.kind
    return [asdict(row) for row in rows.values()]


def _order(contenders: Sequence[Contender], turn: int) -> list[Contender]:
    """Another one begins each time, and every other time they go backwards, so that neighbours change too."""
    start = (turn * 5) % len(contenders)
    rotated = [*contenders[start:], *contenders[:start]]
    return rotated[::-1] if turn % 2 else rotated


def _write(contender: Contender, row: Row, path: Path, value: Any, counts: bool) -> None:
    if WRITE in row.failures:
        return
    try:
        gc.collect()
        start = time.perf_counter()
        contender.write(path, value)
        seconds = time.perf_counter() - start
        _flush(path)
        row.stored_bytes, row.files = describe(path)
    except Exception as error:  # A peer may raise anything; it is told in the tables.
        _fail(row, WRITE, error)
        return
    if counts:
        row.seconds.setdefault(WRITE, []).append(seconds)


def _share(row: Row, owner: Row) -> None:
    """Notes that a contender reads files that another one wrote."""
    if WRITE in owner.failures:
        row.failures[WRITE] = owner.failures[WRITE]


def _operate(contender: Contender, row: Row, operation: Operation, path: Path, counts: bool) -> None:
    if operation.key in row.failures or WRITE in row.failures:
        return
    try:
        seconds = _timed(contender, operation, path)
    except NotImplementedError:
        return
    except Exception as error:
        _fail(row, operation.key, error)
        return
    if counts:
        row.seconds.setdefault(operation.key, []).append(seconds)


def _timed(contender: Contender, operation: Operation, path: Path) -> float:
    target: Any = path
    if operation.warm_up is not None:
        target = contender.open(path)
        operation.warm_up(contender, target)
    total = 0.0
    gc.collect()
    try:
        for number, step in enumerate(operation.steps):
            start = time.perf_counter()
            found = step.run(contender, target)
            took = time.perf_counter() - start
            if isinstance(found, Timed):
                took, found = found.seconds, found.found
            total += took
            if not step.is_right(found):
                raise AssertionError(f"step {number + 1} gave something else than what was stored")
            del found
    finally:
        if operation.warm_up is not None:
            contender.close(target)
    return total


def _fail(row: Row, operation: str, error: Exception) -> None:
    row.failures[operation] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
    say(f"  {row.name}: {operation} failed: {row.failures[operation]}")


def _flush(path: Path) -> None:
    """Waits until a contender's files are on disk, so that the next one does not pay for them."""
    for found in [path, *path.rglob("*")] if path.is_dir() else [path]:
        if found.is_file():
            fd = os.open(found, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)


def remove(path: Path) -> None:
    """Removes a file or directory, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
