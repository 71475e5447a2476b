"""Computing: Lacus against those who compute with arrays.

Each contender of a task runs in a process of its own with two threads, and all of a task's wait side by side for their
turns: one run that is not counted, then those that are, in an order that changes. Inputs are in memory, shared by all,
unless the task is to compute out of storage. Peak memory is that of the process since before it opened its inputs,
which so count once. Each result is compared with a peer's.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from harness import remove, say

from compute.tasks import TASKS, THREADS, Task

#: Seconds between two looks at the memory of a contender that has processes of its own.
LOOK_SECS = 0.1
#: Seconds before a turn: threads of the one before may still be looking for work.
SETTLE_SECS = 0.3
#: Whose threads are those of a library below; others bring their own, each with a library that uses one.
THREADED = ("by_numpy", "by_torch", "by_scipy", "by_numexpr")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass
class Row:
    """What was found about one contender of a task."""

    name: str
    family: str
    version: str = ""
    note: str = ""
    #: Whether it does the work that the task counts.
    same_work: bool = True
    seconds: list[float] = field(default_factory=list)
    #: Memory beyond what the process had before it opened its inputs, and all of it.
    peak_bytes: int | None = None
    rss_bytes: int | None = None
    #: Of all bits of the result, the same in all runs; None where they differed.
    bits: str | None = None
    facts: dict[str, float] = field(default_factory=dict)
    #: How far its result was from the reference's, as a share of the largest element.
    off: float | None = None
    absent: str = ""
    failure: str = ""


class Failed(Exception):
    """A contender could not do it, or did something else."""


def measure(keys: Sequence[str], divide: int, repeat: int | None, timeout: float, directory: Path) -> list[dict[str, Any]]:
    """Runs tasks one after the other; what was found about each, as plain data."""
    return [_measure(TASKS[key], divide, repeat, timeout, directory / f"compute-{key}") for key in keys]


def _measure(task: Task, divide: int, repeat: int | None, timeout: float, directory: Path) -> dict[str, Any]:
    sizes = task.scaled(divide)
    repeat = repeat or task.repeat
    say(f"{task.title} {_sizes(sizes)}: {len(task.contenders)} contenders, {repeat} repetitions and one to warm up")
    remove(directory)
    directory.mkdir(parents=True)
    rows = {contender: _row(contender) for contender in task.contenders}
    running: dict[str, Worker] = {}
    held = 0
    try:
        task.make(directory, sizes)
        held = sum(path.stat().st_size for path in directory.glob("*.npy"))
        if task.stored:
            _store(task, directory)
    except Exception as error:  # A full disk, say: others may still be measured.
        say(f"  NOT RUN: {type(error).__name__}: {error}")
        for row in rows.values():
            row.failure = f"its inputs could not be made: {type(error).__name__}: {error}"[:300]
    try:
        for contender in (found for found in task.contenders if not rows[found].failure):
            _start(contender, task, divide, timeout, directory, rows[contender], running)
        reference: dict[str, np.ndarray] | None = None
        for repetition in range(-1, repeat):
            for contender in _order(task, running, repetition):
                reference = _turn(running, contender, rows[contender], task, repetition, reference)
            say(f"  repetition {repetition + 1} of {repeat}" if repetition >= 0 else "  warm")
    finally:
        for worker in running.values():
            worker.end()
        remove(directory)
    return {
        "key": task.key,
        "title": task.title,
        "sizes": sizes,
        "work": task.work(sizes),
        "unit": task.unit,
        "input_bytes": held,
        "tolerance": task.tolerance,
        "rows": [asdict(row) for row in rows.values()],
    }


def _row(contender: str) -> Row:
    module, _, name = contender.partition(":")
    return Row(name, module.removeprefix("by_"))


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {size:,}" for name, size in sizes.items())


def _store(task: Task, directory: Path) -> None:
    """Puts inputs into a dataset, for those who compute out of it."""
    import lacus

    ds = lacus.create(directory / "stored")
    for name in task.stored:
        ds.put(name, np.load(directory / f"{name}.npy", mmap_mode="r"))


def _start(
    contender: str, task: Task, divide: int, timeout: float, directory: Path, row: Row, running: dict[str, Worker]
) -> None:
    worker = Worker(task.key, contender, divide, timeout, directory)
    running[contender] = worker
    try:
        said = worker.listen()
    except Failed as error:
        said = {"failed": str(error)}
    row.absent, row.failure = said.get("absent", ""), said.get("failed", "")
    row.version, row.note = said.get("version", ""), said.get("note", "")
    row.same_work = said.get("same_work", True)
    worker.has_children = said.get("has_children", False)
    if row.absent or row.failure:
        say(f"  {row.name}: SKIPPED: {row.absent or row.failure}")
        running.pop(contender).end()


def _order(task: Task, running: dict[str, Worker], repetition: int) -> list[str]:
    """The reference first while there is none; then another begins each time."""
    found = [contender for contender in task.contenders if contender in running]
    if repetition < 0:
        return sorted(found, key=lambda contender: contender.startswith("by_lacus"))
    start = repetition % len(found) if found else 0
    rotated = found[start:] + found[:start]
    return rotated[::-1] if repetition % 2 else rotated


def _turn(
    running: dict[str, Worker], contender: str, row: Row, task: Task, repetition: int,
    reference: dict[str, np.ndarray] | None,
) -> dict[str, np.ndarray] | None:
    """One run of one contender, checked; the reference, which is the first result there is."""
    time.sleep(SETTLE_SECS)
    try:
        said = running[contender].run(watch=repetition < 0)
        if "failed" in said:
            raise Failed(said["failed"])
        with np.load(said["result"]) as found:
            result = {name: found[name] for name in found.files}
        # What has no result measures something, and is right.
        if result:
            reference = result if reference is None else reference
            row.off = max(row.off or 0, _difference(result, reference))
            if not row.off <= task.tolerance:
                raise Failed(f"off by {row.off:.1e} of the largest element, more than {task.tolerance}")
    except Failed as error:
        row.failure = str(error)
        say(f"  {row.name}: FAILED: {error}")
        running.pop(contender).end()
        return reference
    if repetition >= 0:
        row.seconds.append(said["seconds"])
    row.peak_bytes = max(row.peak_bytes or 0, said["peak_bytes"])
    row.rss_bytes = max(row.rss_bytes or 0, said["rss_bytes"])
    row.bits = said["bits"] if repetition < 0 or row.bits == said["bits"] else None
    row.facts = said["facts"]
    return reference


def _difference(found: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> float:
    if found.keys() != reference.keys():
        return float("inf")
    off = 0.0
    for name, expected in reference.items():
        value = found[name]
        if value.shape != expected.shape or not np.isfinite(value).all():
            return float("inf")
        off = max(off, float(np.abs(value - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-300)))
    return off


class Worker:
    """A contender's process, and the conversation with it."""

    def __init__(self, key: str, contender: str, divide: int, timeout: float, directory: Path) -> None:
        threads = THREADS if contender.partition(":")[0] in THREADED else 1
        environment = os.environ | {name: str(threads) for name in THREAD_VARIABLES}
        self.has_children = False
        self._timeout = timeout
        self._buffer = b""
        self._errors = tempfile.TemporaryFile()
        # A session of its own: it ends together with whatever it started.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "compute.worker", key, contender, str(directory.resolve()), str(divide)],
            cwd=Path(__file__).resolve().parent.parent, env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )

    def run(self, watch: bool) -> dict[str, Any]:
        """One run; what was found. Memory of its own processes is looked at when told, since that takes time."""
        try:
            self._process.stdin.write(b"run\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Failed(f"its process has ended: {self._last_words()}") from error
        if not (watch and self.has_children):
            return self.listen()
        before, most = family_bytes(self._process.pid), 0
        ends = time.monotonic() + self._timeout
        while (said := self._heard(LOOK_SECS)) is None:
            most = max(most, family_bytes(self._process.pid))
            if time.monotonic() > ends:
                raise Failed(f"not done after {self._timeout:.0f} s")
        # Not only what one process had, but all; what was there before are the inputs.
        return said | {"peak_bytes": max(most, before), "rss_bytes": max(most, before)}

    def listen(self) -> dict[str, Any]:
        """What it says next."""
        said = self._heard(self._timeout)
        if said is None:
            raise Failed(f"not done after {self._timeout:.0f} s")
        return said

    def _heard(self, seconds: float) -> dict[str, Any] | None:
        ends = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, ends - time.monotonic()))
            if not ready:
                return None
            part = os.read(self._process.stdout.fileno(), 2**16)
            if not part:
                raise Failed(f"its process has ended: {self._last_words()}")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        return f"code {code}" + (f", {lines[-1][:200]}" if lines else "")

    def end(self) -> None:
        """Asks it to end, and makes it end."""
        try:
            self._process.stdin.write(b"end\n")
            self._process.stdin.close()
            self._process.wait(timeout=20)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()


def family_bytes(pid: int) -> int:
    """The memory of a process and all it started, what they share counted once."""
    parents: dict[int, int] = {}
    for found in Path("/proc").glob("[0-9]*"):
        try:
            # The name, which may hold anything, ends with the last parenthesis.
            parents[int(found.name)] = int((found / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    total = 0
    for process in parents:
        ancestor = process
        while ancestor not in (0, pid):
            ancestor = parents.get(ancestor, 0)
        if ancestor == pid:
            try:
                text = Path(f"/proc/{process}/smaps_rollup").read_text()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024
    return total
