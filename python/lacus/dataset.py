"""A dataset: named tensors at a URL, every write a version."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from . import _dtypes, _native
from ._arrays import sizes
from ._display import SHOWN, dataset_html, dataset_text, size_text
from ._native import Dataset as NativeDataset
from ._native import TensorInfo
from ._values import native
from ._wish import Wish, wish
from .errors import InvalidError, NotFoundError
from .tensor import Tensor, metadata_text, quoted

__all__ = ["CompactReport", "Dataset", "HistoryEntry", "create", "delete", "exists", "open"]

Url: TypeAlias = "str | os.PathLike[str]"
StorageOptions: TypeAlias = Mapping[str, Any]


def create(url: Url, *, storage_options: StorageOptions | None = None) -> Dataset:
    """Makes an empty dataset.

    Args:
        url: a local path, or a URL starting with ``file://``, ``memory://``, ``s3://``, ``gs://`` or ``az://``.
        storage_options: options of the object store, such as ``aws_endpoint_url`` or ``aws_region``; those
            that are not given come from the usual environment variables.

    Raises:
        ConflictError: there is a dataset, or something else, at the URL already.
    """
    return Dataset._of(NativeDataset.create(_absolute(url), _options(storage_options)), "main")


def open(
    url: Url,
    *,
    branch: str = "main",
    at: int | float | str | datetime.date | np.datetime64 | None = None,
    read_only: bool = False,
    storage_options: StorageOptions | None = None,
) -> Dataset:
    """Opens a dataset.

    Args:
        url: where it is; see :func:`create`.
        branch: the branch to open, which is writable and moves. There is only ``"main"``.
        at: a version to look at instead, pinned and read-only: its number, or a time, which means the newest
            version made at or before it. A time is a ``datetime``, an ISO 8601 string or seconds since 1970 as
            a ``float``; one without a time zone is local time.
        read_only: refuses writes.
        storage_options: see :func:`create`.

    Raises:
        NotFoundError: there is no dataset at the URL, or no such branch, version or time in it.
    """
    if branch != "main":
        raise NotFoundError(f'no branch {branch!r}; there is only "main"')
    version, time_millis = _moment(at)
    opened = NativeDataset.open(_absolute(url), _options(storage_options), version, time_millis, read_only)
    return Dataset._of(opened, branch)


def exists(url: Url, *, storage_options: StorageOptions | None = None) -> bool:
    """Whether there is a dataset at a URL."""
    return _native.exists(_absolute(url), _options(storage_options))


def delete(url: Url, *, storage_options: StorageOptions | None = None) -> None:
    """Removes a dataset with all its versions, for good.

    Raises:
        NotFoundError: there is no dataset at the URL.
    """
    _native.delete(_absolute(url), _options(storage_options))


@dataclasses.dataclass(frozen=True)
class HistoryEntry:
    """One version of a dataset."""

    version: int
    #: When it was made, in UTC.
    time: datetime.datetime
    author: str
    #: What was done: ``"PUT"``, ``"WRITE REGION"``, …
    operation: str
    #: Facts about it, such as the names of the tensors.
    detail: dict[str, Any]
    #: Whether it was made safe against power loss.
    durable: bool


@dataclasses.dataclass(frozen=True)
class CompactReport:
    """What a compaction did."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    #: The version it made; the one there was when there was nothing to do.
    version: int


class Dataset:
    """Named tensors at a URL, got by :func:`lacus.create` or :func:`lacus.open`.

    Every write is one commit: whole or not at all, visible at once to others, safe against a killed process,
    and with ``durable=True`` against power loss too. A handle stays at the version it read until its own
    next write or ``refresh()``. It can be used by several threads, and by a forked child.

    Handles pickle as where they look: an unpickled one is pinned to the version, and read-only. Storage
    options, and the credentials in them, are part of the pickle.

    Strings address tensors. Integers, slices, iteration and ``len`` mean rows; a dataset without columns has
    none, so its ``len`` is 0, and it is still true.

    >>> ds = lacus.create("measurements")
    >>> ds["a/b"] = np.arange(12).reshape(3, 4)
    >>> ds["a/b"][1, ::2]
    array([4, 6])
    """

    __slots__ = ("_native", "_branch", "__weakref__")
    _native: NativeDataset
    _branch: str

    def __init__(self) -> None:
        raise TypeError("datasets are made by lacus.create and lacus.open")

    @classmethod
    def _of(cls, found: NativeDataset, branch: str) -> Dataset:
        made = cls.__new__(cls)
        made._native = found
        made._branch = branch
        return made

    # What is there.

    @property
    def url(self) -> str:
        """Where it is."""
        return self._native.url

    @property
    def version(self) -> int:
        """The version this handle sees."""
        return self._native.version

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        return self._native.is_read_only

    @property
    def metadata(self) -> dict[str, Any]:
        """The dataset's own metadata."""
        found: dict[str, Any] = json.loads(self._native.metadata())
        return found

    def keys(self) -> list[str]:
        """The names of all tensors, sorted."""
        return self._native.names()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._native.contains(name)

    def __getitem__(self, name: str) -> Tensor:
        """The tensor of this name.

        Raises:
            NotFoundError: also a ``KeyError``; there is none.
        """
        return Tensor(self, _tensor_name(name))

    def __len__(self) -> int:
        """The number of rows: 0, for a dataset without columns."""
        return 0

    def __iter__(self) -> Iterator[Any]:
        """The rows, of which a dataset without columns has none; its tensors are in ``keys()``."""
        return iter(())

    def __bool__(self) -> bool:
        return True

    # Writing.

    def put(
        self,
        name: str,
        value: Any,
        *,
        layout: str = "auto",
        chunk_shape: Sequence[int] | None = None,
        block_shape: Sequence[int] | None = None,
        compression: str | None = "auto",
        optimize: str = "slices",
        metadata: Mapping[str, Any] | None = None,
        durable: bool = False,
        chunk_rank: int | None = None,
        split: int | None = None,
        axis_order: Sequence[int] | None = None,
    ) -> int:
        """Puts a tensor, new or in place of an old one, in one commit. Returns the new version.

        Args:
            name: its name. ``/`` groups names; empty ones and control characters are refused.
            value: a numpy array, anything with ``__array__`` or DLPack, a ``scipy.sparse`` array, a torch tensor
                (dense, COO, CSR), a :class:`SparseTensor`, a number or nested lists of numbers.
            layout: ``"FTSF"`` or ``"dense"``, ``"COO"``, ``"CSR"``, ``"CSC"``, ``"CSF"``, ``"BSGS"``, ``"sparse"`` (the
                best of the sparse ones), or ``"auto"``, which measures a sample; ``ds[name].reasons`` tells
                what it saw.
            chunk_shape: the shape of dense chunks (FTSF).
            block_shape: the shape of blocks (BSGS).
            compression: of dense chunks: ``None`` or ``"none"``, ``"zstd"``, ``"zstd:<level>"``, or ``"auto"``.
            optimize: ``"slices"`` for fast slices along the first axis, ``"size"`` for the fewest bytes.
            metadata: a dict that can be made JSON, kept with the tensor.
            durable: returns only when it is safe against power loss.
            chunk_rank: another way to give the chunk shape: so many last axes are whole, the others cut to 1.
            split: the first axis of the matrix columns (CSR, CSC).
            axis_order: the order of axes (CSF, BSGS).

        Raises:
            InvalidError: the value, the name or an option cannot be used.
            ConflictError: somebody else put a tensor of this name since this handle's version.
        """
        wanted = wish(layout, chunk_shape, block_shape, compression, optimize, chunk_rank, split, axis_order)
        return self._put({name: value}, wanted, None if metadata is None else {name: metadata}, durable)

    def put_all(
        self,
        values: Mapping[str, Any],
        *,
        layout: str = "auto",
        chunk_shape: Sequence[int] | None = None,
        block_shape: Sequence[int] | None = None,
        compression: str | None = "auto",
        optimize: str = "slices",
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
        durable: bool = False,
        chunk_rank: int | None = None,
        split: int | None = None,
        axis_order: Sequence[int] | None = None,
    ) -> int:
        """Puts several tensors by name in one commit: all of them, or none. Returns the new version.

        The options are those of :meth:`put` and hold for all of them; `metadata` is given by name.
        """
        wanted = wish(layout, chunk_shape, block_shape, compression, optimize, chunk_rank, split, axis_order)
        return self._put(values, wanted, metadata, durable)

    def _put(
        self,
        values: Mapping[str, Any],
        wanted: Wish,
        metadata: Mapping[str, Mapping[str, Any]] | None,
        durable: bool,
    ) -> int:
        texts = {name: metadata_text(found, _what(name)) for name, found in (metadata or {}).items()}
        if unknown := texts.keys() - values.keys():
            raise InvalidError(f"metadata is given for {sorted(unknown)}, which are not put")
        items = []
        for name, value in values.items():
            found, dtype = native(value, _what(_tensor_name(name)))
            items.append((name, found, dtype, texts.get(name)))
        return self._native.put(items, wanted, durable) if items else self.version

    def __setitem__(self, name: str, value: Any) -> None:
        self.put(name, value)

    def create_array(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        chunk_shape: Sequence[int] | None = None,
        *,
        compression: str | None = "auto",
        metadata: Mapping[str, Any] | None = None,
        durable: bool = False,
    ) -> Tensor:
        """Makes a dense tensor of zeros that takes no room until regions of it are written.

        Raises:
            ConflictError: there is a tensor of this name.
        """
        what = _what(_tensor_name(name))
        wanted = wish("FTSF", chunk_shape, None, compression, "slices", None, None, None)
        dims = sizes(shape, f"{what}: shape")
        text = None if metadata is None else metadata_text(metadata, what)
        self._native.create_array(name, dims, _dtypes.parse(dtype, what), wanted, text, durable)
        return self[name]

    def __delitem__(self, name: str) -> None:
        """Removes a tensor. Older versions keep it."""
        self._native.remove([_tensor_name(name)], False)

    def rename(self, old: str, new: str, *, durable: bool = False) -> int:
        """Renames a tensor. Returns the new version.

        Raises:
            ConflictError: there is a tensor of the new name.
        """
        return self._native.rename(_tensor_name(old), _tensor_name(new), durable)

    def set_metadata(self, metadata: Mapping[str, Any], *, durable: bool = False) -> int:
        """Replaces the dataset's own metadata. Returns the new version."""
        return self._native.set_metadata(metadata_text(metadata, "dataset"), durable)

    # Versions and upkeep.

    def refresh(self) -> int:
        """Moves to the newest version and returns it. A handle that was opened ``at`` a version stays."""
        return self._native.refresh()

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The versions up to this one, newest first: who, when, what."""
        if limit is not None and limit < 0:
            raise InvalidError(f"limit: {limit} is negative")
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return [
            HistoryEntry(
                version=version,
                time=epoch + datetime.timedelta(milliseconds=time_millis),
                author=author,
                operation=operation,
                detail=json.loads(detail) or {},
                durable=durable,
            )
            for version, time_millis, author, operation, detail, durable in self._native.history(limit)
        ]

    def compact(self, *, durable: bool = False) -> CompactReport:
        """Joins small files and drops replaced rows from them. Nothing that is stored changes."""
        return CompactReport(*self._native.compact(durable))

    # The rest.

    def _title(self, infos: Sequence[TensorInfo], count: int) -> str:
        tensors = "1 tensor" if count == 1 else f"{count:,} tensors"
        stored = f", {size_text(sum(info.stored_bytes for info in infos))}" if 0 < count == len(infos) else ""
        mode = ", read-only" if self.read_only else ""
        return f"<lacus.Dataset version {self.version}, {tensors}{stored}{mode} at {self.url}>"

    def __repr__(self) -> str:
        infos, count = self._native.infos(SHOWN)
        return dataset_text(self._title(infos, count), infos, count)

    def _repr_html_(self) -> str:
        infos, count = self._native.infos(SHOWN)
        return dataset_html(self._title(infos, count).strip("<>"), infos, count)

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.url, self._branch, self.version, self._native.options)


def _reopened(url: str, branch: str, version: int, options: dict[str, str]) -> Dataset:
    return Dataset._of(NativeDataset.open(url, options, version, None, True), branch)


def _absolute(url: Url) -> str:
    """The URL, local paths made absolute: a handle outlives a change of directory."""
    text = os.fspath(url)
    if not isinstance(text, str):
        raise InvalidError(f"url: expected text or a path, found {text!r}")
    if "://" in text or not text:
        return text
    return os.path.abspath(os.path.expanduser(text))


def _options(options: StorageOptions | None) -> dict[str, str]:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidError(f"storage_options: expected a dict, found {type(options).__name__}")
    found = {}
    for key, value in (options or {}).items():
        if not isinstance(key, str) or not isinstance(value, (str, bool, int)):
            raise InvalidError(f"storage_options: {key!r} must be text, a number, True or False")
        found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _moment(at: Any) -> tuple[int | None, int | None]:
    """The version, or else the time in milliseconds since 1970, that `at` names."""
    if at is None:
        return None, None
    if isinstance(at, bool):
        raise InvalidError(f"at: {at} is neither a version nor a time")
    if isinstance(at, (int, np.integer)):
        if at < 0:
            raise NotFoundError(f"no version {at}")
        return int(at), None
    try:
        if isinstance(at, np.datetime64):
            return None, int(at.astype("datetime64[ms]").astype(np.int64))
        if isinstance(at, str):
            at = datetime.datetime.fromisoformat(at.replace("Z", "+00:00"))
        elif isinstance(at, datetime.date) and not isinstance(at, datetime.datetime):
            at = datetime.datetime.combine(at, datetime.time())
        seconds = at.timestamp() if isinstance(at, datetime.datetime) else float(at)
        return None, int(seconds * 1000)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidError(f"at: expected a version number or a time, found {at!r}: {error}") from error


def _what(name: str) -> str:
    return f"tensor {quoted(name)}"


def _tensor_name(name: Any) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, (int, np.integer, slice, list, np.ndarray)):
        raise TypeError(
            "integers, slices and lists mean rows, which come with columns; this dataset has none. "
            'Tensors are addressed by name: ds["name"]'
        )
    raise TypeError(f'tensors are addressed by name, as in ds["name"], not by {type(name).__name__}')
