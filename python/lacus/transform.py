"""Transforms: a function mapped over rows, in parallel, in order."""

from __future__ import annotations

import array
import collections
import concurrent.futures
import concurrent.futures.process
import contextlib
import dataclasses
import os
import pickle
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._progress import ProgressLine, seconds_left
from .errors import InvalidError
from .rows import read_rows

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["MapReport", "check_map", "map_rows"]

#: Rows handed to a worker at a time: reading them is one planned read.
_AT_ONCE = 64

#: Rows of results written in one version when a transform changes the dataset it reads.
_WRITE_ROWS = 4096


@dataclasses.dataclass(frozen=True)
class MapReport:
    """What a transform did."""

    #: Rows it read.
    rows: int
    #: Rows it added or changed.
    written: int
    #: Rows that failed: position and reason.
    failed: list[tuple[int, str]]
    #: The version after it.
    version: int


def check_map(fn: Any, workers: int | None, processes: bool, on_error: str) -> None:
    """Fails if a map cannot even begin."""
    if on_error not in ("raise", "skip"):
        raise InvalidError(f'on_error: {on_error!r} is neither "raise" nor "skip"')
    if not callable(fn):
        raise InvalidError(f"map: expected a function, found {type(fn).__name__}")
    if workers is not None and workers < 1:
        raise InvalidError(f"workers: {workers} is not positive")
    if processes:
        try:
            pickle.dumps(fn)
        except Exception as error:
            raise InvalidError(
                f"map: with processes=True the function must pickle, as those at the top of a module do: {error}"
            ) from error


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
    # Rows are read from the version there is now, also while results are written.
    pinned = source._frozen()
    target = source if into is None else into
    _make_columns(target, columns, pinned)
    failed: list[tuple[int, str]] = []
    skips = on_error == "skip"
    sink = _InPlace(source, pinned, skips) if into is None else _Into(into, skips)
    line, done, total = ProgressLine(progress), 0, len(pinned)
    results = _results(pinned, fn, workers or os.cpu_count() or 1, processes, inputs)
    try:
        # Closed at once, so that no worker goes on after a failure.
        with contextlib.closing(results):
            for position, succeeded, result in results:
                if succeeded:
                    _take(sink, position, result, failed, skips)
                elif skips:
                    failed.append((position, f"{type(result).__name__}: {result}"))
                else:
                    if hasattr(result, "add_note"):
                        result.add_note(f"in the function mapped over rows, at row {position}")
                    raise result
                done += 1
                if line.is_due():
                    rate = f"{done / line.seconds:,.0f}/s"
                    line.show(f"{done:,} of {total:,} rows, {rate}, {seconds_left(done, total, line.seconds)}")
        sink.finish()
    finally:
        line.close(f"{done:,} of {total:,} rows in {line.seconds:.1f} s")
    failed.extend(sink.failed)
    failed.sort(key=lambda failure: failure[0])
    return MapReport(rows=len(pinned), written=sink.written, failed=failed, version=target.version)


def _take(
    sink: _InPlace | _Into, position: int, result: Any, failed: list[tuple[int, str]], skips: bool
) -> None:
    """Hands a result on, unless it is none."""
    try:
        rows = sink.rows_of(result)
    except InvalidError as error:
        if not skips:
            raise InvalidError(f"row {position}: {error}") from error
        failed.append((position, str(error)))
        return
    sink.take(position, rows)


def _make_columns(target: Dataset, columns: Mapping[str, Any] | Sequence[str] | None, source: Dataset) -> None:
    """Makes the columns that are described and not there."""
    if columns is None:
        return
    if isinstance(columns, str):
        columns = [columns]
    if not isinstance(columns, Mapping):
        columns = dict.fromkeys(columns)
    for name, spec in columns.items():
        if name in target:
            continue
        if spec is None:
            spec = _like(source, name)
        elif isinstance(spec, str):
            spec = {"htype": spec}
        elif not isinstance(spec, Mapping):
            raise InvalidError(f"columns: {name!r} is described by a type or a dict, not by a {type(spec).__name__}")
        target.add_column(name, **spec)


def _like(source: Dataset, name: str) -> dict[str, Any]:
    """How to create a column like an existing one. Reading follows links, so the type is that of the linked samples."""
    if name not in source.columns:
        return {}
    column = source._column(name)
    htype = re.sub(r"link\[(.*?)\]", r"\1", column.htype)
    like = {"htype": htype, "shape": column.sample_shape, "compression": column.compression, **column.options}
    # A dtype that is given is declared, and files with another one would be refused.
    is_open = column.dtype is None or column._info.files_keep_dtype
    return like if is_open else {**like, "dtype": column._info.dtype}


def _call(fn: Callable[[dict[str, Any]], Any], rows: list[dict[str, Any]]) -> list[tuple[bool, Any]]:
    """Results of some rows, or why there are none."""
    found: list[tuple[bool, Any]] = []
    for row in rows:
        try:
            result = fn(row)
            # What is made lazily is made here, in parallel.
            is_lazy = hasattr(result, "__next__")
            found.append((True, list(result) if is_lazy else result))
        except Exception as error:
            found.append((False, error))
    return found


def _call_elsewhere(fn: Callable[[dict[str, Any]], Any], rows: list[dict[str, Any]]) -> list[tuple[bool, Any]]:
    """The same in another process. At the top level, so that it can be called there."""
    found = _call(fn, rows)
    return [(succeeded, result if succeeded else _portable(result)) for succeeded, result in found]


def _portable(error: Exception) -> Exception:
    """An error that survives the way to another process: some do not pickle, some do not unpickle, which would end
    the pool."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception:
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")


def _results(
    source: Dataset,
    fn: Callable[[dict[str, Any]], Any],
    workers: int,
    processes: bool,
    inputs: Sequence[str] | None,
) -> Generator[tuple[int, bool, Any], None, None]:
    """Results in the order of rows. At most two batches for each worker are under way, so memory is bounded."""
    batches = (range(at, min(at + _AT_ONCE, len(source))) for at in range(0, len(source), _AT_ONCE))

    def rows_of(some: range) -> list[dict[str, Any]]:
        return list(read_rows(source, list(some), inputs))

    def read_and_call(some: range) -> list[tuple[bool, Any]]:
        return _call(fn, rows_of(some))

    def told(some: range, results: list[tuple[bool, Any]]) -> Iterator[tuple[int, bool, Any]]:
        for position, (succeeded, result) in zip(some, results, strict=True):
            yield position, succeeded, result

    if workers == 1 and not processes:
        for some in batches:
            yield from told(some, read_and_call(some))
        return
    pool: concurrent.futures.Executor
    if processes:
        import multiprocessing

        context = multiprocessing.get_context("spawn" if sys.platform != "linux" else "forkserver")
        pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)
    else:
        pool = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="lacus-map")
    waiting: collections.deque[tuple[range, concurrent.futures.Future[Any]]] = collections.deque()

    def first() -> Iterator[tuple[int, bool, Any]]:
        some, future = waiting.popleft()
        try:
            results = future.result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise _worker_died(some, error) from error
        return told(some, results)

    try:
        for some in batches:
            try:
                if processes:
                    waiting.append((some, pool.submit(_call_elsewhere, fn, rows_of(some))))
                else:
                    waiting.append((some, pool.submit(read_and_call, some)))
            except concurrent.futures.process.BrokenProcessPool as error:
                # Of those under way, the oldest is the first whose results are not there.
                raise _worker_died(waiting[0][0] if waiting else some, error) from error
            if len(waiting) >= 2 * workers:
                yield from first()
        while waiting:
            yield from first()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _worker_died(some: range, error: Exception) -> InvalidError:
    """A process of a map ended without a result. Which of the rows under way it was at is not known."""
    return InvalidError(
        f"map: a worker process died, at or after row {some.start}: it crashed, was killed (out of memory?), or called "
        "os._exit; or the script starts the map outside of `if __name__ == \"__main__\":`. Try workers=1, or "
        f"processes=False, to see where ({error})"
    )


class _InPlace:
    """Writes results to columns of the rows they were made from."""

    def __init__(self, dataset: Dataset, source: Dataset, skips: bool) -> None:
        self._dataset = dataset
        self._source = source
        self._skips = skips
        self._gathered: dict[str, tuple[list[int], list[Any]]] = {}
        self._rows: set[int] = set()
        self.written = 0
        self.failed: list[tuple[int, str]] = []

    def rows_of(self, result: Any) -> list[Mapping[str, Any]]:
        if result is None:
            return []
        if not isinstance(result, Mapping):
            raise InvalidError(
                f"a transform in place returns a dict of columns for each row, not a {type(result).__name__}; "
                "to make several rows of one, give into="
            )
        _check_names(self._dataset, result)
        return [result]

    def take(self, position: int, rows: list[Mapping[str, Any]]) -> None:
        for result in rows:
            for name, sample in result.items():
                positions, samples = self._gathered.setdefault(name, ([], []))
                positions.append(position)
                samples.append(sample)
            self._rows.add(position)
        if len(self._rows) >= _WRITE_ROWS:
            self.finish()

    def finish(self) -> None:
        for name, (positions, samples) in self._gathered.items():
            self._update(name, positions, samples)
        self.written += len(self._rows)
        self._gathered, self._rows = {}, set()

    def _update(self, name: str, positions: list[int], samples: list[Any]) -> None:
        # By where the row is now: position in the version that was read, and sample.
        left = {}
        for position, now, sample in zip(positions, self._now(positions), samples, strict=True):
            if now is None:
                self._rows.discard(position)
            else:
                left[now] = (position, sample)
        while left:
            try:
                self._dataset._rows.update(name, list(left), [sample for _, sample in left.values()], False, False)
                return
            except InvalidError as error:
                # Where a sample does not fit, the message says in which row.
                found = re.match(r'column ".*?", row (\d+): ', str(error), re.DOTALL)
                if not self._skips or found is None or int(found[1]) not in left:
                    raise
                position, _ = left.pop(int(found[1]))
                self.failed.append((position, str(error)))
                self._rows.discard(position)

    def _now(self, positions: list[int]) -> list[int | None]:
        """Where rows are in the dataset now: somebody may have deleted some since they were read."""
        ids, count = self._source._rows.row_ids(positions), len(self._dataset)
        if max(positions) < count and self._dataset._rows.row_ids(positions) == ids:
            return list(positions)
        places = {id: place for place, id in enumerate(self._dataset._rows.row_ids(range(count)))}
        return [places.get(id) for id in ids]


class _Into:
    """Appends results to another dataset: one row, several, or none for each."""

    def __init__(self, dataset: Dataset, skips: bool) -> None:
        self._dataset = dataset
        self._writer = dataset.writer(on_error="skip" if skips else "raise")
        #: The row that each appended row was made from.
        self._origins = array.array("q")

    @property
    def written(self) -> int:
        return self._writer.rows

    @property
    def failed(self) -> list[tuple[int, str]]:
        return [(self._origins[place], _without_place(why)) for place, why in self._writer.skipped]

    def rows_of(self, result: Any) -> list[Mapping[str, Any]]:
        if result is None:
            return []
        is_several = not isinstance(result, (Mapping, str, bytes)) and hasattr(result, "__iter__")
        rows = list(result) if is_several else [result]
        for row in rows:
            if not isinstance(row, Mapping):
                raise InvalidError(f"a transform returns dicts of columns, not a {type(row).__name__}")
            _check_names(self._dataset, row)
        return rows

    def take(self, position: int, rows: list[Mapping[str, Any]]) -> None:
        for row in rows:
            self._origins.append(position)
            with self._named():
                self._writer.append(row)

    def finish(self) -> None:
        with self._named():
            self._writer.flush()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Errors about a sample name the row that it was made from."""
        try:
            yield
        except InvalidError as error:
            found = re.match(r'column ".*?", row (\d+): ', str(error), re.DOTALL)
            if found is None:
                raise
            raise InvalidError(f"row {self._origins[int(found[1])]}: {_without_place(str(error))}") from error


def _check_names(dataset: Dataset, row: Mapping[str, Any]) -> None:
    if not row:
        raise InvalidError("a transform returns at least one column, or None")
    for name in row:
        if not (isinstance(name, str) and dataset._rows.is_column(name)):
            raise InvalidError(f"no column {name!r}; name it in columns= to make it")


def _without_place(message: str) -> str:
    """A message about a sample without the row, which is counted in another dataset."""
    return re.sub(r'^(column ".*?"), row \d+: ', r"\1: ", message, count=1, flags=re.DOTALL)
