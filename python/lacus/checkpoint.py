"""Checkpoints: a nested state of tensors saved as one commit of a dataset, and loaded whole, in part, or straight into a model.

>>> lacus.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, "run", step=2000)
>>> state = lacus.load("run")
>>> lacus.load("run", step=2000, into={"model": model, "optimizer": optimizer})
>>> lacus.load("run", names=["model/head.weight"])
>>> lacus.open("run", at="step-2000")["model/head.weight"][:10]
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np

from . import _background, _native, _state
from ._arrays import NDArray
from ._background import Saving
from ._display import size_text
from ._guard import guarded
from ._load import Incompatible, Loader
from ._state import FORM, STRUCTURE, Packed
from ._wish import wish
from .commit import Commit
from .dataset import Dataset, StorageOptions, Url, _absolute, create, exists
from .dataset import open as open_dataset
from .errors import ConflictError, InvalidError, NotFoundError
from .tensor import quoted

__all__ = ["Checkpoint", "Incompatible", "Saving", "checkpoints", "load", "save"]

#: The key of a commit's metadata that says what was saved.
_KEY = "lacus.checkpoint"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A saved state."""

    #: The number it was saved with; None if it was saved without one.
    step: int | None
    #: When it was saved, in UTC.
    time: datetime.datetime
    message: str
    #: The number of tensors, and the bytes of their elements; memory that tensors share counts once.
    tensors: int
    bytes: int
    #: Bytes that were written for it; the others were there already.
    written: int
    #: The id of the commit.
    id: str

    @property
    def tag(self) -> str | None:
        """The tag of its commit, for ``lacus.open(url, at=tag)``."""
        return None if self.step is None else _tag(self.step)

    @classmethod
    def _of(cls, commit: Commit) -> Checkpoint | None:
        facts = commit.metadata.get(_KEY)
        if not isinstance(facts, Mapping):
            return None
        step, counts = facts.get("step"), [int(facts.get(key, 0)) for key in ("tensors", "bytes", "written")]
        return cls(step, commit.time, commit.message, counts[0], counts[1], counts[2], commit.id)

    def __repr__(self) -> str:
        name = "latest" if self.step is None else f"step {self.step:,}"
        facts = f"{self.tensors:,} tensors, {size_text(self.bytes)}, {size_text(self.written)} written"
        return f"<lacus.Checkpoint {name} of {self.time:%Y-%m-%d %H:%M:%S} UTC: {facts}>"


@overload
def save(
    state: Any,
    url: Url,
    *,
    step: int | None = None,
    message: str | None = None,
    durable: bool = True,
    wait: Literal[True] = True,
    keep_last: int | None = None,
    keep_every: int | None = None,
    storage_options: StorageOptions | None = None,
) -> Checkpoint: ...
@overload
def save(
    state: Any,
    url: Url,
    *,
    step: int | None = None,
    message: str | None = None,
    durable: bool = True,
    wait: bool,
    keep_last: int | None = None,
    keep_every: int | None = None,
    storage_options: StorageOptions | None = None,
) -> Checkpoint | Saving[Checkpoint]: ...
@guarded
def save(
    state: Any,
    url: Url,
    *,
    step: int | None = None,
    message: str | None = None,
    durable: bool = True,
    wait: bool = True,
    keep_last: int | None = None,
    keep_every: int | None = None,
    storage_options: StorageOptions | None = None,
) -> Checkpoint | Saving[Checkpoint]:
    """Saves a state as one commit: all of it, or nothing. The state before stays in the history.

    Args:
        state: dicts (with text or integers as keys), lists, tuples, sets, tensors of torch, numpy or jax, anything with DLPack, numbers,
            text, bytes, None, nested as you like; such as the state dicts of modules and optimisers. Tensors that share memory are
            stored once, and share it again after loading.
        url: where to save it: the path or URL of a dataset, which is created if there is none. It must hold nothing but checkpoints.
        step: its number. The commit gets the tag ``step-<number>``; saving a step again replaces it.
        message: what the history says of it.
        durable: returns only when it is safe against power loss. A process that is killed loses nothing either way.
        wait: with False, returns as soon as the values are copied, and writes them in the background. Later changes to the tensors do not
            matter. One save is in flight: the next call waits for it and raises its error, if there was one.
        keep_last: keeps this many of the newest steps, and removes the data of older ones.
        keep_every: keeps all steps that are multiples of this number besides.
        storage_options: see :func:`lacus.create`.

    Tensors that did not change since the last step are not written again.

    Returns the :class:`Checkpoint`; with ``wait=False`` a :class:`Saving`, whose ``result()`` is it.

    Raises:
        InvalidError: something in the state cannot be stored, the message says where; or the dataset is one of other things.
        ConflictError: there is something else at the URL, or someone else saved at the same time.

    >>> lacus.save(model.state_dict(), "run", step=2000, keep_last=3, keep_every=10_000)
    >>> handle = lacus.save(model.state_dict(), "run", step=2001, wait=False)
    >>> handle.result()
    """
    order = Order(_absolute(url), number_of(step, "step"), message, durable, keep_last, keep_every, storage_options)
    order.check()
    _background.settle()
    packed = _state.pack(state)
    if wait:
        return _write(packed, order)
    for block, copy in zip(packed.blocks, _background.copies([block.array for block in packed.blocks]), strict=True):
        block.array = copy
    return _background.start(lambda: _write(packed, order), order.url)


@guarded
def load(
    url: Url,
    *,
    step: int | None = None,
    names: Sequence[str] | None = None,
    into: Any = None,
    map_location: Any = None,
    mmap: bool = False,
    strict: bool = True,
    storage_options: StorageOptions | None = None,
) -> Any:
    """Loads a state that :func:`save` saved. Never runs code that was stored.

    Args:
        url: the path or URL.
        step: its number; by default the newest.
        names: only these tensors or parts of the nesting, by their path, as in ``"model/head.weight"`` or ``"model"``; nothing else is
            read. Returns a dict by these names.
        into: a module, an optimiser, or a dict or list of these and of tensors: they get the saved values. Tensors are read straight into
            their memory. Returns the keys that were missing and unexpected.
        map_location: where torch's tensors go, as in ``torch.load``: a device, a dict of devices, or a function. By default where they
            were.
        mmap: there because ``torch.load`` has it. Tensors are stored in chunks with checksums, which cannot be mapped: they are read into
            memory either way. To read only some of them, give `names`, or slice them with ``lacus.open(url, at=tag)[name]``.
        strict: with ``into``: whether missing and unexpected keys are an error.
        storage_options: see :func:`lacus.create`.

    Raises:
        NotFoundError: there is no dataset at the URL, no such step, or no such name.
        InvalidError: the dataset has no checkpoint or one of a newer form; with ``into``, keys, shapes or types differ; the message lists
            them, and nothing was changed.

    >>> lacus.load("run")["model"]
    >>> lacus.load("run", into=model)
    """
    _background.settle(raising=False)
    number = number_of(step, "step")
    location = _absolute(url)
    dataset = opened(location, number, storage_options)
    found = structure(dataset, location)
    if "dcp" in found:
        raise InvalidError(
            f"the checkpoint at {location} is one of torch.distributed.checkpoint: load it by dcp.load with "
            "storage_reader=lacus.dcp.StorageReader(url), or its arrays by lacus.open(url)"
        )
    loader = Loader(dataset, found, map_location)
    if into is not None:
        if names is not None:
            raise InvalidError("load: give either names or into")
        return loader.into(into, strict)
    return loader.everything() if names is None else loader.named(names)


@guarded
def checkpoints(url: Url, *, storage_options: StorageOptions | None = None) -> list[Checkpoint]:
    """The saved steps, oldest first; and the newest save if it has no step.

    >>> for checkpoint in lacus.checkpoints("run"):
    ...     print(checkpoint.step, checkpoint.time, checkpoint.message, checkpoint.tensors, checkpoint.bytes)
    """
    _background.settle(raising=False)
    return _listed(open_dataset(_absolute(url), read_only=True, storage_options=storage_options))


@dataclasses.dataclass
class Order:
    """What whoever saves asked for."""

    url: str
    step: int | None
    message: str | None
    durable: bool
    keep_last: int | None
    keep_every: int | None
    storage_options: StorageOptions | None

    def check(self) -> None:
        for what, value in (("keep_last", self.keep_last), ("keep_every", self.keep_every)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1):
                raise InvalidError(f"{what}: a number of at least 1 is expected, found {value!r}")
        if self.message is not None and (not isinstance(self.message, str) or not self.message.strip()):
            raise InvalidError(f"message: text is expected, found {self.message!r}")


def number_of(step: Any, what: str) -> int | None:
    if step is None:
        return None
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or not 0 <= step < 1 << 63:
        raise InvalidError(f"{what}: a number of at least 0 is expected, found {step!r}")
    return int(step)


def _tag(step: int) -> str:
    return f"step-{step}"


def structure(dataset: Dataset, url: str) -> dict[str, Any]:
    """What a dataset says of the checkpoint that it holds."""
    if STRUCTURE not in dataset:
        raise InvalidError(f"no checkpoint in the dataset at {url}: lacus.save did not write it")
    text = dataset[STRUCTURE].read().tobytes()
    found: dict[str, Any] = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("form"), int):
        raise InvalidError(f"{quoted(STRUCTURE)} in the dataset at {url} is no structure of a checkpoint")
    if found["form"] > FORM:
        raise InvalidError(
            f"the checkpoint at {url} has form {found['form']}, this version of Lacus knows {FORM}: update Lacus to load it"
        )
    return found


# Writing.


def _write(packed: Packed, order: Order) -> Checkpoint:
    dataset = made_dataset(order)
    before, is_same = last_state(dataset)
    arrays = [np.asarray(block.array, order="C") for block in packed.blocks]
    known = {facts["name"]: facts for facts in (before or {}).get("blocks", ())} if is_same else {}
    # Where there is nothing to compare with, digests are for the next step, and made while this one is written.
    digests = _digests_of(arrays)
    if known:
        packed.digests = digests()
    written, items = 0, []
    for number, (name, block, array) in enumerate(zip(packed.names, packed.blocks, arrays, strict=True)):
        old = known.get(name)
        if old is not None and (old["digest"], old["shape"], old["dtype"]) == (
            packed.digests[number],
            list(array.shape),
            block.dtype,
        ):
            continue
        guise = None if block.dtype == block.stored else json.dumps({"dtype": block.dtype})
        items.append((name, array, block.stored, guise))
        written += array.nbytes
    about = {"tensors": len(packed.tensors), "bytes": packed.bytes, "written": written}

    def act() -> bytes:
        if items:
            dataset._native.put(items, PLAIN, False)
        packed.digests = packed.digests or digests()
        return _text(packed)

    return commit_state(dataset, order, about, set(packed.names), act)


def _digests_of(arrays: list[NDArray]) -> Callable[[], list[str]]:
    """Begins to make digests; the function that is returned waits for them."""
    found: list[str] = []
    failed: list[BaseException] = []

    def make() -> None:
        try:
            found.extend(digest.hex() for digest in _native.content_digests(arrays))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=make, name="lacus-digests")
    thread.start()

    def wait() -> list[str]:
        thread.join()
        if failed:
            raise failed[0]
        return found

    return wait


def commit_state(
    dataset: Dataset, order: Order, about: Mapping[str, int], names: set[str], act: Callable[[], bytes]
) -> Checkpoint:
    """Makes what `act` writes a commit, together with the structure that it returns. The dataset has these arrays then, and no
    others."""
    message = order.message or ("Checkpoint" if order.step is None else f"Step {order.step}")
    record = dataset._record(message, None, {_KEY: {"form": FORM, "step": order.step, **about}}, None)
    gone = sorted(set(dataset.keys()) - names - {STRUCTURE})
    dataset._history.begin()
    try:
        if gone:
            dataset._native.remove(gone, False)
        text = np.frombuffer(act(), np.uint8)
        dataset._native.put([(STRUCTURE, text, "uint8", None)], _SMALL, False)
    except BaseException:
        dataset._history.abandon()
        raise
    commit = dataset._history.finish(record, order.durable)
    assert commit is not None
    made = Checkpoint._of(dataset.log(commit, limit=1)[0])
    assert made is not None
    _name(dataset, made)
    if order.keep_last is not None or order.keep_every is not None:
        _retain(dataset, order)
    return made


#: Weights are noise, which does not shrink: compressing it costs more than writing it.
PLAIN = wish("FTSF", None, None, None, "slices", None, None, None)
_SMALL = wish("FTSF", None, None, "zstd", "slices", None, None, None)


def _text(packed: Packed) -> bytes:
    try:
        return json.dumps(packed.structure(), allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise InvalidError(f"the state has a number that cannot be stored: {error}") from error


def made_dataset(order: Order) -> Dataset:
    if exists(order.url, storage_options=order.storage_options):
        dataset = open_dataset(order.url, storage_options=order.storage_options)
        if STRUCTURE not in dataset and (dataset.keys() or len(dataset)):
            raise InvalidError(
                f"the dataset at {order.url} holds other things than checkpoints; save to another path"
            )
        # Who saved the last step may have died before it had its tag. It gets it before another step is the newest.
        for newest in dataset.log(limit=1):
            _name(dataset, Checkpoint._of(newest))
        return dataset
    try:
        return create(order.url, storage_options=order.storage_options)
    except ConflictError as error:
        # Several ranks may come here at once.
        if exists(order.url, storage_options=order.storage_options):
            return open_dataset(order.url, storage_options=order.storage_options)
        raise ConflictError(f"{error}; a checkpoint needs a path of its own") from error


def last_state(dataset: Dataset) -> tuple[dict[str, Any] | None, bool]:
    """The structure of the last step, and whether its arrays are still as that step wrote them."""
    if STRUCTURE not in dataset:
        return None, False
    newest = dataset.log(limit=1)
    last = Checkpoint._of(newest[0]) if newest else None
    return structure(dataset, dataset.url), last is not None and newest[0].version == dataset.version


def _name(dataset: Dataset, checkpoint: Checkpoint | None) -> None:
    """Gives the newest commit the tag of its step."""
    if checkpoint is None or checkpoint.tag is None:
        return
    tagged = dict(dataset.tags.items()).get(checkpoint.tag)
    if tagged == checkpoint.id:
        return
    if tagged is not None:
        dataset.tags.delete(checkpoint.tag)
    dataset.tag(checkpoint.tag, at=checkpoint.id)


def _listed(dataset: Dataset) -> list[Checkpoint]:
    tags = dict(dataset.tags.items())
    commits = dataset.log()
    found = []
    for place, commit in enumerate(commits):
        checkpoint = Checkpoint._of(commit)
        # Steps that were dropped have no tag; the newest may have none yet.
        if checkpoint is not None and (place == 0 or (checkpoint.tag is not None and tags.get(checkpoint.tag) == commit.id)):
            found.append(checkpoint)
    return found[::-1]


def _retain(dataset: Dataset, order: Order) -> None:
    steps = [checkpoint for checkpoint in _listed(dataset) if checkpoint.step is not None]
    last = order.keep_last or 1
    dropped = [
        checkpoint
        for checkpoint in steps[:-last]
        if order.keep_every is None or checkpoint.step is None or checkpoint.step % order.keep_every != 0
    ]
    for checkpoint in dropped:
        assert checkpoint.tag is not None
        dataset.tags.delete(checkpoint.tag)
    if dropped:
        # Steps that were dropped go at once; what others may be about to name has the usual day.
        dataset._history.gc(False, 86400.0, 0.0, 0.0)


# Finding.


def opened(url: str, step: int | None, storage_options: StorageOptions | None) -> Dataset:
    if step is None:
        return open_dataset(url, read_only=True, storage_options=storage_options)
    try:
        return open_dataset(url, at=_tag(step), storage_options=storage_options)
    except NotFoundError:
        dataset = open_dataset(url, read_only=True, storage_options=storage_options)
    # Who saved it may have died before it had its tag: then it is the newest.
    for found in map(Checkpoint._of, dataset.log(limit=1)):
        if found is not None and found.step == step:
            return open_dataset(url, at=found.id, storage_options=storage_options)
    steps = [checkpoint.step for checkpoint in _listed(dataset) if checkpoint.step is not None]
    near = sorted(sorted(steps, key=lambda other: abs(other - step))[:8])
    there = f"there are {', '.join(map(str, near))}{', …' if len(steps) > 8 else ''}" if steps else "there is none"
    raise NotFoundError(f"no step {step} at {url}; {there}")
