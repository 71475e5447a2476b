"""Transforms: a function mapped over rows, in parallel, in order."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import InvalidError
from .rows import read_rows

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["MapReport", "map_rows"]

#: Rows handed to a worker at a time: reading them is one planned read.
_AT_ONCE = 64

#: Rows of results written in one version when a transform changes the dataset it reads.
_WRITE_ROWS = 4096


@dataclasses.dataclass(frozen=True)
class MapReport:
    """What a transform did."""

    #: Rows it was given.
    rows: int
    #: Rows it made or changed.
    written: int
    #: Rows on which it failed: position and cause.
    failed: list[tuple[int, str]]
    #: The version it left.
    version: int


def _call(fn: Callable[[dict[str, Any]], Any], rows: list[dict[str, Any]]) -> list[tuple[bool, Any]]:
    """Results of some rows, or why there are none. At the top level, so that other processes can call it."""
    found: list[tuple[bool, Any]] = []
    for row in rows:
        try:
            result = fn(row)
            # What is made lazily is made here, in parallel.
            is_lazy = hasattr(result, "__next__") or isinstance(result, (filter, map, zip))
            found.append((True, list(result) if is_lazy else result))
        except Exception as error:
            found.append((False, error))
    return found


def map_rows(
    source: Dataset,
    fn: Callable[[dict[str, Any]], Any],
    columns: Mapping[str, Any] | Sequence[str] | None,
    into: Dataset | None,
    workers: int | None,
    processes: bool,
    on_error: str,
    inputs: Sequence[str] | None,
    progress: bool | None,
) -> MapReport:
    """See :meth:`Dataset.map`."""
    if on_error not in ("raise", "skip"):
        raise InvalidError(f'on_error: {on_error!r} is neither "raise" nor "skip"')
    if not callable(fn):
        raise InvalidError(f"map: expected a function, found {type(fn).__name__}")
    workers = workers if workers is not None else (os.cpu_count() or 1)
    if workers < 1:
        raise InvalidError(f"workers: {workers} is not positive")
    target = source if into is None else into
    _make_columns(target, columns)
    total = len(source)
    failed: list[tuple[int, str]] = []
    bar = _Progress(total, progress)
    sink = _InPlace(source) if into is None else _Into(into)
    try:
        for position, succeeded, result in _results(source, fn, workers, processes, inputs):
            if succeeded:
                try:
                    sink.take(position, result)
                except InvalidError as error:
                    if on_error == "raise":
                        raise InvalidError(f"row {position}: {error}") from error
                    failed.append((position, str(error)))
            elif on_error == "raise":
                result.add_note(f"in the function mapped over rows, at row {position}") if hasattr(
                    result, "add_note"
                ) else None
                raise result
            else:
                failed.append((position, f"{type(result).__name__}: {result}"))
            bar.step()
        sink.finish()
    finally:
        bar.close()
    return MapReport(rows=total, written=sink.written, failed=failed, version=target.version)


def _make_columns(target: Dataset, columns: Mapping[str, Any] | Sequence[str] | None) -> None:
    """Makes the columns that are described and not there."""
    if columns is None:
        return
    if isinstance(columns, str):
        columns = [columns]
    if not isinstance(columns, Mapping):
        columns = {name: None for name in columns}
    for name, spec in columns.items():
        if name in target:
            continue
        if spec is None:
            spec = {}
        elif isinstance(spec, str):
            spec = {"htype": spec}
        target.add_column(name, **dict(spec))


def _results(
    source: Dataset,
    fn: Callable[[dict[str, Any]], Any],
    workers: int,
    processes: bool,
    inputs: Sequence[str] | None,
) -> Iterator[tuple[int, bool, Any]]:
    """Results in the order of rows. At most two batches for each worker are under way, so memory is bounded."""
    # Rows are read from the version there is now, also while results are written.
    pinned = source._pinned()
    positions = list(range(len(pinned)))
    batches = (positions[at : at + _AT_ONCE] for at in range(0, len(positions), _AT_ONCE))

    def rows_of(some: list[int]) -> list[dict[str, Any]]:
        if inputs is None:
            return list(read_rows(pinned, some))
        columns = [pinned._column(name)[some] for name in inputs]
        return [dict(zip(inputs, values)) for values in zip(*columns)]

    if workers == 1 and not processes:
        for some in batches:
            for position, (succeeded, result) in zip(some, _call(fn, rows_of(some))):
                yield position, succeeded, result
        return
    pool: concurrent.futures.Executor
    if processes:
        import multiprocessing

        context = multiprocessing.get_context("spawn" if sys.platform != "linux" else "forkserver")
        pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)
    else:
        pool = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="lacus-map")
    waiting: collections.deque[tuple[list[int], concurrent.futures.Future[Any]]] = collections.deque()

    def read_and_call(some: list[int]) -> list[tuple[bool, Any]]:
        return _call(fn, rows_of(some))

    try:
        for some in batches:
            if processes:
                waiting.append((some, pool.submit(_call, fn, rows_of(some))))
            else:
                waiting.append((some, pool.submit(read_and_call, some)))
            if len(waiting) >= 2 * workers:
                done, future = waiting.popleft()
                for position, (succeeded, result) in zip(done, future.result()):
                    yield position, succeeded, result
        while waiting:
            done, future = waiting.popleft()
            for position, (succeeded, result) in zip(done, future.result()):
                yield position, succeeded, result
    finally:
        for _, future in waiting:
            future.cancel()
        pool.shutdown(wait=True, cancel_futures=True)


class _InPlace:
    """Writes results to columns of the rows they were made from."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._gathered: dict[str, tuple[list[int], list[Any]]] = {}
        self._rows = 0
        self.written = 0

    def take(self, position: int, result: Any) -> None:
        if result is None:
            return
        if not isinstance(result, Mapping):
            raise InvalidError(
                f"a transform in place returns a dict of columns for each row, not a {type(result).__name__}; "
                "to make several rows of one, give into="
            )
        for name, sample in result.items():
            if name not in self._dataset:
                raise InvalidError(f"no column {name!r}; name it in columns= to make it")
            positions, samples = self._gathered.setdefault(name, ([], []))
            positions.append(position)
            samples.append(sample)
        self._rows += 1
        self.written += 1
        if self._rows >= _WRITE_ROWS:
            self.finish()

    def finish(self) -> None:
        for name, (positions, samples) in self._gathered.items():
            self._dataset._rows.update(name, positions, samples, False, False)
        self._gathered, self._rows = {}, 0


class _Into:
    """Appends results to another dataset: one row, several, or none for each."""

    def __init__(self, dataset: Dataset) -> None:
        self._writer = dataset.writer()

    @property
    def written(self) -> int:
        return self._writer.rows

    def take(self, position: int, result: Any) -> None:
        if result is None:
            return
        for row in [result] if isinstance(result, Mapping) else result:
            if not isinstance(row, Mapping):
                raise InvalidError(f"a transform returns dicts of columns, not a {type(row).__name__}")
            self._writer.append(row)

    def finish(self) -> None:
        self._writer.flush()


class _Progress:
    """A line on the terminal: how far, how fast, how long still."""

    def __init__(self, total: int, shown: bool | None) -> None:
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._total = total
        self._done = 0
        self._start = self._told = time.monotonic()

    def step(self) -> None:
        self._done += 1
        now = time.monotonic()
        if self._shown and (now - self._told > 0.2):
            self._told = now
            rate = self._done / max(now - self._start, 1e-9)
            left = (self._total - self._done) / max(rate, 1e-9)
            sys.stderr.write(f"\r{self._done:,} of {self._total:,} rows, {rate:,.0f}/s, {left:.0f} s left \x1b[K")
            sys.stderr.flush()

    def close(self) -> None:
        if self._shown:
            spent = time.monotonic() - self._start
            sys.stderr.write(f"\r{self._done:,} of {self._total:,} rows in {spent:.1f} s\x1b[K\n")
            sys.stderr.flush()
