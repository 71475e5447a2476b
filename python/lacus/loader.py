"""Loaders: batches of views for training, in an order that can be repeated, resumed and shared between ranks."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import copy
import inspect
import json
import operator
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from . import _native
from ._collate import Nested, collated
from ._dtypes import numpy_dtype
from ._guard import guard
from ._loader_defaults import BLOCK, PREFETCH, TIMEOUT
from ._native import Loader as NativeLoader
from ._native import LoaderBatches as NativeBatches
from ._progress import ProgressLine, seconds_left
from ._ranks import found_ranks, worker
from .errors import InvalidError, LacusError
from .writer import parse_size

if TYPE_CHECKING:
    from .view import View

__all__ = ["Batch", "Loader", "LoaderStats", "Mix", "Nested", "mix"]

#: Threads for functions of Python: most of them hold the GIL most of the time.
_MOST_THREADS = 4

_COLLATES = ("auto", "stack", "pad", "list", "nested")

_Raw = tuple[dict[str, Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], int, list[Any]]


class Batch(dict[str, Any]):
    """A batch: values by the name of their column. It is a dict, with a few facts about its rows."""

    #: The ids of its rows, which never change.
    ids: npt.NDArray[np.uint64]
    #: The places of its rows in the view.
    places: npt.NDArray[np.uint64]
    #: The position of each row in the order of the epoch.
    positions: npt.NDArray[np.uint64]
    #: Samples that could not be loaded: column, place in the view, and the reason.
    failures: list[tuple[str, int, str]]


class LoaderStats(TypedDict):
    """What :meth:`Loader.stats` returns, counted from the first batch on."""

    #: Seconds since the first batch was asked for.
    seconds: float
    #: Samples and batches handed over.
    samples: int
    batches: int
    samples_per_second: float
    #: Bytes read from the store, and bytes handed over.
    stored_bytes: int
    stored_bytes_per_second: float
    decoded_bytes: int
    decoded_bytes_per_second: float
    #: The share of the time in which something was being read, decoded (native transforms included), transformed by functions of Python.
    fetch: float
    decode: float
    transform: float
    #: The share of the time in which the loop waited for a batch.
    wait: float
    #: Samples that could not be loaded, samples that came twice so that ranks had equal numbers of batches, reads that were tried again.
    failures: int
    repeated: int
    retries: int
    #: The last samples that could not be loaded, and why.
    failed: list[str]
    #: What limits the speed, in words.
    verdict: str


@guard
class Loader:
    """Batches of a view for training: ``view.loader(64, shuffle=True, seed=1)``.

    Each ``for`` loop is one epoch. The order of an epoch depends on the rows of the view, the seed and the number of the epoch, and on
    nothing else: not on ranks, threads, prefetch or machines. ``state_dict`` says where the loader is; ``load_state_dict`` goes on
    with the very next sample, on any number of ranks.

    >>> loader = ds.query("SELECT * WHERE label < 5").loader(64, shuffle=True, seed=1)
    >>> for batch in loader:
    ...     step(batch["image"], batch["label"])
    >>> loader.stats()["verdict"]
    'decoding is the limit; fetching idles 71 %'
    """

    _native: NativeLoader
    _views: list[View]
    _shares: list[float] | None
    _batch_size: Any
    _given: dict[str, Any]
    _convert: Callable[[dict[str, Any]], dict[str, Any]] | None

    def __init__(self) -> None:
        raise TypeError("loaders are made by views: view.loader(64), ds.loader(64)")

    @classmethod
    def _of(cls, views: list[View], shares: list[float] | None, batch_size: Any, given: dict[str, Any]) -> Loader:
        made = cls.__new__(cls)
        made._views = views
        made._shares = shares
        made._batch_size = batch_size
        made._given = given
        made._convert = None
        made._start(views, shares, batch_size, **given)
        return made

    def _start(
        self,
        views: list[View],
        shares: list[float] | None,
        batch_size: Any,
        *,
        columns: Sequence[str] | None,
        shuffle: bool | str,
        seed: int,
        transform: Any,
        batch_transform: Callable[[Batch], Any] | None,
        collate: Any,
        rank: int | None,
        world: int | None,
        drop_last: bool,
        even: str,
        prefetch: int | str,
        on_error: str,
        missing: Any,
        pad_value: Any,
        weights: Any,
        balance: str | None,
        samples: int | None,
        replace: bool,
        order: Any,
        bucket_by: str | None,
        block: int | str,
        timeout: float,
        threads: int | None,
        progress: bool | None,
    ) -> None:
        views = [_ordered(view, order, shuffle) for view in views]
        names = _names(views[0], columns)
        self._computed = [name for name in names if name in views[0]._native.computed()]
        stored = [name for name in names if name not in self._computed]
        self._collate_fn = collate if callable(collate) else None
        collates = _per_column("collate", {} if callable(collate) else collate, names, "auto")
        if bad := next((how for how in collates.values() if not callable(how) and how not in _COLLATES), None):
            raise InvalidError(f"collate: {bad!r} is unknown; there are {', '.join(_COLLATES)}, and functions")
        pads = _per_column("pad_value", pad_value, names, 0)
        native, self._sample_fns, self._row_fn = _transforms(transform, names, views[0])
        self._batch_fn = _function("batch_transform", batch_transform)
        missings = _per_column("missing", missing, names, "keep")
        #: Columns that Python puts together.
        self._by_hand = {
            name: collates[name]
            for name in names
            if self._row_fn is not None
            or self._collate_fn is not None
            or name in self._sample_fns
            or callable(collates[name])
        }
        self._pads = {name: float(pads[name]) for name in names}
        if on_error not in ("raise", "skip", "zeros"):
            raise InvalidError(f'on_error: {on_error!r} is none of "raise", "skip", "zeros"')
        if even not in ("split", "pad"):
            raise InvalidError(f'even: {even!r} is neither "split" nor "pad"')
        self._on_error = on_error
        self._rank, self._world = found_ranks(rank, world)
        self._size = _whole("batch_size", batch_size)
        self._seed = _seed(seed)
        self._epoch = 0
        self._consumed = 0
        #: Whether the next loop goes on from here, and does not begin an epoch.
        self._is_set = True
        #: The loop that says where the loader is. Whoever leaves a loop drops it, with all that was made ahead.
        self._current: weakref.ref[LoaderIterator] | None = None
        self._threads = _python_threads(threads)
        self._progress = progress
        self._python_nanos = 0
        drawn, is_replaced = _weights(views, weights, balance, replace)
        required = [name for name in stored if missings[name] == "skip"]
        for name in self._computed:
            if missings[name] != "keep" or (
                callable(collates[name]) is False and collates[name] not in ("auto", "list", "stack")
            ):
                raise InvalidError(
                    f'column {name!r} is computed: missing= and collate="pad" or "nested" are for stored columns'
                )
        self._native = NativeLoader.make(
            [view._native for view in views],
            [
                {
                    "name": name,
                    "collate": "list" if name in self._by_hand else collates[name],
                    "missing_number": _fill(name, missings[name], (int, float)),
                    "missing_text": _fill(name, missings[name], (str,)),
                    "pad_value": self._pads[name],
                    "transform": native.get(name),
                }
                for name in stored
            ],
            drawn,
            {
                "required": required,
                "shuffle": _shuffle(shuffle),
                "block_bytes": parse_size(block, "block"),
                "samples": None if samples is None else _whole("samples", samples),
                "replace": is_replaced,
                "shares": shares,
                "bucket_by": bucket_by,
                "batch_size": self._size,
                "rank": self._rank,
                "world": self._world,
                "tail": "drop" if drop_last else even,
                "prefetch": parse_size(prefetch, "prefetch"),
                "on_error": on_error,
                "timeout": _seconds(timeout),
            },
        )
        self._names = names
        self._stored = stored
        self._sources = [_with_native(view, native) for view, native in zip(views, self._native.views(), strict=True)]
        self._brains = {name: _bfloat(views[0], name) for name in stored if name not in native}

    # Facts.

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to."""
        return self._epoch

    @property
    def rank(self) -> int:
        """The rank it loads for."""
        return self._rank

    @property
    def world(self) -> int:
        """How many ranks there are."""
        return self._world

    def __len__(self) -> int:
        """How many batches an epoch has: the same on every rank."""
        return self._native.batch_count(0)

    @property
    def samples(self) -> int:
        """How many samples an epoch has, over all ranks."""
        return self._native.samples()

    def order(self, epoch: int = 0, start: int = 0, end: int | None = None) -> npt.NDArray[np.uint64]:
        """The places in the view of the samples of an epoch, in order, over all ranks. Nothing is read."""
        stop = self.samples if end is None else end
        return self._native.order(self._seed, epoch, start, stop)[1]

    def describe(self) -> dict[str, Any]:
        """How the loader is set up: ranks, batches, order, and how well it shuffles compared with a full shuffle (from 0 to 1)."""
        state = json.loads(self._native.state(self._seed, self._epoch, 0))
        return {
            "samples": self.samples,
            "batches": len(self),
            "batch_size": self._size,
            "rank": self._rank,
            "world": self._world,
            "columns": list(self._names),
            "seed": self._seed,
            "shuffle": state["shuffle"],
            "shuffle_quality": round(self._native.quality(self._seed), 4),
        }

    def __repr__(self) -> str:
        ranks = f", rank {self._rank} of {self._world}" if self._world > 1 else ""
        return f"<lacus.Loader {self.samples:,} samples in {len(self):,} batches of {self._size}{ranks}, columns {self._names}>"

    def stats(self) -> LoaderStats:
        """Where the time went, from the first batch on."""
        found = self._native.stats()
        seconds, verdict = max(found["seconds"], 1e-9), found["verdict"]
        transform = min(1.0, self._python_nanos / 1e9 / seconds / max(self._threads, 1))
        if transform > max(found["fetch"], found["decode"]) and found["wait"] > 0.1:
            verdict = f"your Python functions are the limit; decoding idles {100 * (1 - found['decode']):.0f} %"
        made: Any = {**found, "transform": transform, "verdict": verdict}
        return made  # type: ignore[no-any-return]

    # Where it is.

    def set_epoch(self, epoch: int) -> None:
        """Makes the next loop begin at this epoch."""
        self._epoch, self._consumed, self._is_set = _count("epoch", epoch), 0, True
        self._current = None

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: a few numbers, less than 1 KB as JSON. The same on every rank after the same number of batches."""
        state: dict[str, Any] = json.loads(self._native.state(self._seed, self._epoch, self._consumed))
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where :meth:`state_dict` was called: the next loop begins with the very next sample, on any number of ranks.

        Raises:
            InvalidError: the state is of another view, or of other weights.
        """
        if not isinstance(state, Mapping):
            raise InvalidError(f"load_state_dict: the dict of state_dict() is expected, found {type(state).__name__}")
        try:
            text = json.dumps(dict(state))
        except TypeError as error:
            raise InvalidError(f"load_state_dict: {error}") from error
        self._native, self._seed, self._epoch, self._consumed = self._native.resumed(text)
        self._is_set = True
        self._current = None

    # Loops.

    def __iter__(self) -> LoaderIterator:
        if worker() is not None:
            raise InvalidError(
                "a loader makes batches on threads of its own and cannot run inside a worker of a torch DataLoader; "
                "iterate over it directly, or give DataLoader(loader.dataset(), batch_size=None)"
            )
        return self._iterate(0, 1)

    def _iterate(self, skipped: int, stride: int) -> LoaderIterator:
        """Every ``stride``-th batch, without the first ``skipped`` ones."""
        if not self._is_set:
            self._epoch, self._consumed = self._epoch + (self._consumed > 0), 0
        self._is_set = False
        made = LoaderIterator(self, skipped, stride)
        self._current = weakref.ref(made)
        return made

    def _moved(self, iterator: LoaderIterator, consumed: int) -> None:
        """A batch was handed over."""
        if self._current is None or iterator is not self._current():
            return
        self._consumed = consumed
        if consumed >= self.samples:
            self._epoch, self._consumed, self._is_set = self._epoch + 1, 0, True

    # From what the native part hands over to what the loop gets.

    def _finished(self, raw: _Raw, epoch: int) -> Batch:
        columns, sources, places, ids, positions, _, failures = raw
        batch = Batch()
        failed = [(column, int(place), why) for column, place, _, why in failures]
        for name in self._names:
            if name not in columns:
                continue
            value = columns[name]
            if isinstance(value, tuple):
                kind, first, second = value
                first = _dressed(first, self._brains[name])
                if kind == "padded":
                    batch[name], batch[f"{name}_mask"] = first, second
                else:
                    batch[name] = Nested(first, second)
            else:
                batch[name] = _dressed(value, self._brains.get(name))
        if self._computed:
            batch.update(self._compute(sources, places))
        kept = np.ones(len(ids), bool)
        if self._by_hand:
            began = time.perf_counter_ns()
            kept = self._work(batch, places, ids, epoch, failed)
            self._python_nanos += time.perf_counter_ns() - began
        batch.ids, batch.places, batch.positions = ids[kept], places[kept], positions[kept]
        batch.failures = failed
        made: Any = batch
        if self._batch_fn is not None:
            began = time.perf_counter_ns()
            made = self._batch_fn(batch)
            self._python_nanos += time.perf_counter_ns() - began
        if self._convert is not None and isinstance(made, dict):
            converted = Batch(self._convert(made))
            converted.ids, converted.places, converted.positions = batch.ids, batch.places, batch.positions
            converted.failures = failed
            return converted
        return made  # type: ignore[no-any-return]

    def _compute(self, sources: npt.NDArray[Any], places: npt.NDArray[Any]) -> dict[str, Any]:
        """Columns that are computed: each view is asked for its rows."""
        parts: dict[str, list[Any]] = {name: [None] * len(places) for name in self._computed}
        for number, view in enumerate(self._sources):
            of = np.flatnonzero(sources == number)
            if not len(of):
                continue
            found = view._compute(self._computed, np.ascontiguousarray(places[of]))
            if len(of) == len(places):
                return found
            for name, values in found.items():
                for at, value in zip(of, values, strict=True):
                    parts[name][at] = value
        rows = [int(place) for place in places]
        made: dict[str, Any] = {}
        for name, values in parts.items():
            made.update(collated(name, "auto", values, rows, 0))
        return made

    def _work(
        self,
        batch: Batch,
        places: npt.NDArray[Any],
        ids: npt.NDArray[Any],
        epoch: int,
        failed: list[tuple[str, int, str]],
    ) -> npt.NDArray[np.bool_]:
        """Runs functions of Python on samples and puts them together; says which rows are left."""
        rows: list[dict[str, Any] | None] = []
        for at in range(len(ids)):
            rows.append(self._sample(batch, at, int(places[at]), int(ids[at]), epoch, failed))
        kept = np.array([row is not None for row in rows], bool)
        if self._on_error == "zeros" and not kept.all():
            like = next((row for row in rows if row is not None), None)
            if like is None:
                raise InvalidError(
                    f"every sample of a batch failed, so nothing says what zeros should look like; the first: {failed[0][2]}"
                )
            blank = {name: np.zeros_like(value) if _is_array(value) else None for name, value in like.items()}
            rows = [blank if row is None else row for row in rows]
            kept[:] = True
        good = [row for row in rows if row is not None]
        if not good:
            raise InvalidError(f"every sample of a batch failed; the first: {failed[0][2]}")
        names = list(good[0])
        numbers = [int(place) for place in places[kept]]
        for row, number in zip(good, numbers, strict=True):
            if list(row) != names:
                raise InvalidError(
                    f"the transform made the columns {names} of row {numbers[0]} and {list(row)} of row {number} of the view"
                )
        if not kept.all():
            for name, value in list(batch.items()):
                if name not in self._by_hand and not isinstance(value, Nested):
                    batch[name] = (
                        value[kept]
                        if isinstance(value, np.ndarray)
                        else [v for v, keep in zip(value, kept, strict=True) if keep]
                    )
        if self._collate_fn is not None:
            made = self._collate_fn(good)
            for name in list(batch):
                del batch[name]
            batch.update(made if isinstance(made, Mapping) else {"batch": made})
            return kept
        for name in self._by_hand:
            batch.pop(name, None)
        for name in names:
            how = self._by_hand.get(name, "auto")
            values = [row[name] for row in good]
            if callable(how):
                batch[name] = how(values)
            else:
                batch.update(collated(name, how, values, numbers, self._pads.get(name, 0.0)))
        return kept

    def _sample(
        self, batch: Batch, at: int, place: int, id: int, epoch: int, failed: list[tuple[str, int, str]]
    ) -> dict[str, Any] | None:
        """What functions of Python make of one row; None if it is left out."""
        sample = {name: batch[name][at] for name in self._by_hand if name in batch}
        column = ""
        try:
            for name, function in self._sample_fns.items():
                column = name
                sample[name] = function(sample[name], self._seed, epoch, id)
            column = ""
            if self._row_fn is not None:
                made = self._row_fn(sample, self._seed, epoch, id)
                if not isinstance(made, Mapping):
                    raise InvalidError(f"the transform returned a {type(made).__name__}; a dict of columns is expected")
                sample = dict(made)
        except Exception as error:
            where = f"column {column!r}, " if column else ""
            why = f"transform: {where}row {place} of the view (id {id}): {type(error).__name__}: {error}"
            if self._on_error == "raise":
                raise InvalidError(why) from error
            failed.append((column, place, why))
            return None
        return sample

    # For frameworks.

    def _converting(self, convert: Callable[[dict[str, Any]], dict[str, Any]]) -> Loader:
        made = copy.copy(self)
        made._convert = convert
        made._current = None
        return made

    def pytorch(self, *, device: Any = None, pin_memory: bool | None = None) -> Loader:
        """The same loader with torch tensors, which share the memory of the arrays.

        Args:
            device: where batches go; by default they stay in memory.
            pin_memory: copies batches to pinned memory, from which a GPU copies faster; by default if ``device`` is a CUDA device.
        """
        from ._frameworks import to_torch

        return self._converting(to_torch(device, pin_memory))

    def tensorflow(self) -> Loader:
        """The same loader with TensorFlow tensors."""
        from ._frameworks import to_tensorflow

        return self._converting(to_tensorflow())

    def jax(self, *, device: Any = None) -> Loader:
        """The same loader with JAX arrays."""
        from ._frameworks import to_jax

        return self._converting(to_jax(device))

    def dataset(self) -> Any:
        """The same batches as a ``torch.utils.data.IterableDataset``, for code that insists on torch's DataLoader:
        ``DataLoader(loader.dataset(), batch_size=None)``. Workers of the DataLoader share the batches out; none is faster."""
        from ._torch_dataset import LoaderDataset

        return LoaderDataset(self if self._convert is not None else self.pytorch())

    def __reduce__(self) -> tuple[Any, ...]:
        given = {**self._given, "rank": self._rank, "world": self._world}
        state = (self.state_dict(), self._convert)
        return _unpickled, (self._views, self._shares, self._batch_size, given, state)


def _unpickled(
    views: list[View], shares: list[float] | None, batch_size: Any, given: dict[str, Any], state: Any
) -> Loader:
    made = Loader._of(views, shares, batch_size, given)
    made.load_state_dict(state[0])
    made._convert = state[1]
    return made


class LoaderIterator(Iterator[Batch]):
    """The batches of one epoch. What was made ahead goes when it is closed, dropped or used up."""

    def __init__(self, loader: Loader, skipped: int, stride: int) -> None:
        self._loader = loader
        self._stride = stride
        self._seed, self._epoch = loader._seed, loader._epoch
        self._consumed = min(loader._consumed + skipped * loader._size * loader._world, loader.samples)
        self._pid = os.getpid()
        self._batches: NativeBatches | None = None
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._ahead: collections.deque[concurrent.futures.Future[Batch]] = collections.deque()
        self._is_closed = False
        self._is_over = False
        self._line = ProgressLine(bool(loader._progress) if loader._progress is not None else False)
        self._handed = 0
        if not loader._native.stats()["batches"]:
            loader._native = loader._native.with_new_stats()

    def __iter__(self) -> LoaderIterator:
        return self

    def __length_hint__(self) -> int:
        return 0 if self._batches is None else self._batches.left()

    def __next__(self) -> Batch:
        if self._is_closed:
            raise StopIteration
        if self._pid != os.getpid():
            # After a fork there are no threads: it goes on with its own.
            self._pid, self._pool, self._batches = os.getpid(), None, None
            self._ahead.clear()
        try:
            batch, consumed = self._python() if self._works else self._plain()
        except StopIteration:
            if not self._is_over:
                # Nothing was left of the epoch, or its last batch failed.
                self._is_over = True
                self._loader._moved(self, self._loader.samples)
            self.close()
            raise
        self._consumed = consumed
        self._handed += 1
        self._is_over = consumed >= self._loader.samples
        self._loader._moved(self, consumed)
        if self._line.is_due():
            self._show()
        return batch

    @property
    def _works(self) -> bool:
        loader = self._loader
        return bool(loader._by_hand or loader._computed or loader._batch_fn)

    def _native_next(self) -> _Raw:
        if self._batches is None:
            self._batches = self._loader._native.batches(self._seed, self._epoch, self._consumed, self._stride)
        found = self._batches.next()
        if found is None:
            raise StopIteration
        return found

    def _plain(self) -> tuple[Batch, int]:
        raw = self._native_next()
        return self._loader._finished(raw, self._epoch), raw[5]

    def _python(self) -> tuple[Batch, int]:
        """Functions of Python run on threads, a few batches ahead."""
        threads = self._loader._threads
        if threads == 0:
            return self._plain()
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="lacus-python")
        while len(self._ahead) < threads + 1:
            try:
                raw = self._native_next()
            except StopIteration:
                break
            future = self._pool.submit(self._loader._finished, raw, self._epoch)
            future.consumed = raw[5]  # type: ignore[attr-defined]
            self._ahead.append(future)
        if not self._ahead:
            raise StopIteration
        future = self._ahead.popleft()
        return future.result(), future.consumed  # type: ignore[attr-defined]

    def _show(self) -> None:
        stats, all_ = self._loader.stats(), max(len(self._loader), 1)
        left = seconds_left(self._handed, all_, self._line.seconds)
        self._line.show(
            f"epoch {self._epoch}: {self._handed:,}/{all_:,} batches, {stats['samples_per_second']:,.0f} samples/s, {left}; {stats['verdict']}"
        )

    # The protocol of torch's stateful data loaders.

    def state_dict(self) -> dict[str, Any]:
        """Where this loop is; see :meth:`Loader.state_dict`."""
        state: dict[str, Any] = json.loads(self._loader._native.state(self._seed, self._epoch, self._consumed))
        return state

    def close(self) -> None:
        """Ends the loop and gives back what was made ahead. A dropped iterator is closed."""
        self._is_closed = True
        self._line.close()
        self._ahead.clear()
        if self._batches is not None:
            with contextlib.suppress(LacusError):
                self._batches.close()
            self._batches = None
        if self._pool is not None and self._pid == os.getpid():
            self._pool.shutdown(wait=threading.current_thread() not in self._pool._threads, cancel_futures=True)
        self._pool = None

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None and self._pid == os.getpid():
            # Whoever collects garbage does not wait for anybody.
            pool.shutdown(wait=False, cancel_futures=True)


class Mix:
    """Several views that are loaded together by proportion: :func:`mix`."""

    def __init__(self, views: list[View], shares: list[float]) -> None:
        self._views = views
        self._shares = shares

    def loader(self, batch_size: int, **options: Any) -> Loader:
        """Batches in which samples of each view come as often as its proportion says, exact over every 1,024 samples. A view that is used
        up begins again with another order.

        ``samples`` is the length of an epoch, by default that of all views together. Other options are those of :meth:`View.loader`,
        without ``weights``, ``balance`` and ``order``.
        """
        for name in ("weights", "balance", "order"):
            if options.get(name) is not None:
                raise InvalidError(f"{name}: not for a mix of views; apply it to the views")
        return Loader._of(self._views, self._shares, batch_size, {**DEFAULTS, **_known(options)})

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{share:g} of {len(view):,} rows" for view, share in zip(self._views, self._shares, strict=True)
        )
        return f"<lacus.Mix {parts}>"


def mix(views: Sequence[View], proportions: Sequence[float]) -> Mix:
    """Several views that are loaded together, such as ``lacus.mix([photos, drawings], [0.8, 0.2]).loader(64, shuffle=True)``.

    The views may be of different datasets. They need the columns that are loaded, with the same types.
    """
    from .view import View

    parts, shares = list(views), [float(share) for share in proportions]
    if not parts or not all(isinstance(view, View) for view in parts):
        raise InvalidError("mix: a list of views is expected")
    if len(parts) != len(shares):
        raise InvalidError(f"mix: {len(shares)} proportions for {len(parts)} views")
    return Mix(parts, shares)


#: What a loader does when it is not told.
DEFAULTS: dict[str, Any] = {
    "columns": None,
    "shuffle": False,
    "seed": 0,
    "transform": None,
    "batch_transform": None,
    "collate": "auto",
    "rank": None,
    "world": None,
    "drop_last": False,
    "even": "split",
    "prefetch": PREFETCH,
    "on_error": "raise",
    "missing": "keep",
    "pad_value": 0,
    "weights": None,
    "balance": None,
    "samples": None,
    "replace": True,
    "order": None,
    "bucket_by": None,
    "block": BLOCK,
    "timeout": TIMEOUT,
    "threads": None,
    "progress": None,
}


def _known(options: dict[str, Any]) -> dict[str, Any]:
    if unknown := next((name for name in options if name not in DEFAULTS), None):
        raise TypeError(f"loader() got an unexpected keyword argument {unknown!r}")
    return options


def _names(view: View, columns: Sequence[str] | None) -> list[str]:
    from .view import _names as checked

    names = view.columns if columns is None else checked(columns)
    if len(set(names)) != len(names):
        raise InvalidError("loader: a column is named twice")
    known = set(view.columns)
    for name in names:
        if name not in known:
            view.select([name])
    return list(names)


def _ordered(view: View, order: Any, shuffle: Any) -> View:
    """The view in the order of a column or of a list of places."""
    if order is None:
        return view
    if shuffle:
        raise InvalidError("loader: order= is an order of its own; leave out shuffle=")
    if isinstance(order, str):
        return view.sort_by(order)
    places: Any = view[np.asarray(order)]
    return places  # type: ignore[no-any-return]


def _with_native(view: View, native: Any) -> View:
    return view._with(native)


def _per_column(what: str, given: Any, names: list[str], default: Any) -> dict[str, Any]:
    """One value for each column: the same, or by name."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(names, given)
    if unknown := next((name for name in given if name not in names), None):
        raise InvalidError(f"{what}: {unknown!r} is not one of the columns that are loaded: {', '.join(names)}")
    return {name: given.get(name, default) for name in names}


def _transforms(
    transform: Any, names: list[str], view: View
) -> tuple[dict[str, Any], dict[str, Callable[..., Any]], Callable[..., Any] | None]:
    """Native transforms by column, functions of Python by column, and a function for whole samples."""
    if transform is None:
        return {}, {}, None
    if hasattr(transform, "_native_transform"):
        media = [name for name in names if name not in view._native.computed() and _is_media(view, name)]
        if len(media) != 1:
            raise InvalidError(
                f"transform: say which column it is for: {{column: transform}}; columns of media are {media or 'none'}"
            )
        return {media[0]: transform._native_transform()}, {}, None
    if isinstance(transform, Mapping):
        native: dict[str, Any] = {}
        functions: dict[str, Callable[..., Any]] = {}
        for name, one in transform.items():
            if name not in names:
                raise InvalidError(f"transform: {name!r} is not one of the columns that are loaded: {', '.join(names)}")
            if hasattr(one, "_native_transform"):
                native[name] = one._native_transform()
            else:
                functions[name] = _seeded(_function(f"transform of {name!r}", one))
        return native, functions, None
    return {}, {}, _seeded(_function("transform", transform))


def _is_media(view: View, name: str) -> bool:
    return view._source._column(name).htype.split(".")[0] in ("image", "audio", "video", "dicom")


def _function(what: str, function: Any) -> Any:
    if function is not None and not callable(function):
        raise InvalidError(f"{what}: a function is expected, found {type(function).__name__}")
    return function


def _seeded(function: Any) -> Callable[..., Any]:
    """The function, with a generator of random numbers of its own for each sample if it takes ``rng``."""
    try:
        takes = "rng" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        takes = False
    if not takes:
        return lambda sample, seed, epoch, id: function(sample)
    return lambda sample, seed, epoch, id: function(sample, rng=np.random.default_rng([seed, epoch, id]))


def _weights(
    views: list[View], weights: Any, balance: str | None, replace: bool
) -> tuple[npt.NDArray[np.float64] | None, bool]:
    """A weight for each row, and whether rows may come more than once."""
    if weights is None and balance is None:
        return None, bool(replace)
    if weights is not None and balance is not None:
        raise InvalidError("loader: weights= and balance= cannot be used together")
    view = views[0]
    if balance is not None:
        labels = view[balance]
        keys = [
            None if label is None else str(label)
            for label in (labels.tolist() if isinstance(labels, np.ndarray) else labels)
        ]
        counts = collections.Counter(keys)
        counts.pop(None, None)
        return np.array([0.0 if key is None else 1.0 / counts[key] for key in keys], np.float64), bool(replace)
    given = view[weights] if isinstance(weights, str) else weights
    try:
        numbers = np.ascontiguousarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidError(f"weights: {error}") from error
    if numbers.ndim != 1:
        raise InvalidError(f"weights: one axis is expected, found {numbers.ndim}")
    return numbers, bool(replace)


def _fill(name: str, missing: Any, kinds: tuple[type, ...]) -> Any:
    """The value that stands for missing samples, if it is of one of some kinds."""
    if isinstance(missing, str) and missing in ("keep", "skip"):
        return None
    if isinstance(missing, np.generic):
        missing = missing.item()
    if isinstance(missing, bool):
        missing = int(missing)
    if not isinstance(missing, (int, float, str)):
        raise InvalidError(
            f'missing: column {name!r}: "keep", "skip", a number or a text is expected, found {missing!r}'
        )
    if not isinstance(missing, kinds):
        return None
    return float(missing) if kinds != (str,) else missing


def _shuffle(shuffle: Any) -> str:
    if isinstance(shuffle, (bool, np.bool_)):
        return "blocks" if shuffle else "none"
    if shuffle in ("blocks", "full"):
        return str(shuffle)
    raise InvalidError(f'shuffle: True, False, "blocks" or "full" is expected, found {shuffle!r}')


def _whole(what: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < 1:
        raise InvalidError(f"{what}: a whole number above 0 is expected, found {value!r}")
    return operator.index(value)


def _count(what: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < 0:
        raise InvalidError(f"{what}: a whole number of 0 or more is expected, found {value!r}")
    return operator.index(value)


def _seed(value: Any) -> int:
    from .view import _seed as checked

    return checked(value)


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidError(f"timeout: a number of seconds is expected, found {value!r}") from error
    if not 0 < seconds < 1e9:
        raise InvalidError(f"timeout: a number of seconds above 0 is expected, found {value!r}")
    return seconds


def _python_threads(threads: int | None) -> int:
    if threads is not None:
        return _count("threads", threads)
    return min(_MOST_THREADS, _native.settings()[0])


def _bfloat(view: View, name: str) -> bool:
    """Whether numpy gets the bits of a column as another type."""
    return view._source._column(name)._info.dtype == "bfloat16"


def _dressed(value: Any, is_bfloat: bool | None) -> Any:
    if not is_bfloat:
        return value
    if isinstance(value, list):
        return [_dressed(one, True) for one in value]
    return value.view(numpy_dtype("bfloat16", "loader")) if isinstance(value, np.ndarray) else value


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic, int, float))
