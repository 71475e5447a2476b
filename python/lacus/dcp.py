"""Lacus as the storage of ``torch.distributed.checkpoint``: each rank stages its part, the coordinator commits all as one version.

>>> import torch.distributed.checkpoint as dcp, lacus.dcp
>>> dcp.save(state, storage_writer=lacus.dcp.StorageWriter("run", step=2000))
>>> dcp.load(state, storage_reader=lacus.dcp.StorageReader("run", step=2000))

Shards are read by slices, so that any number of ranks, with any placement, loads what any other number saved. ``dcp.async_save`` works as
well. Nothing is seen of a save before the coordinator commits it; what a rank staged that died is removed by ``gc``.

torch's own planners pickle values that are no tensors. :class:`SavePlanner` and :class:`LoadPlanner` store them as :func:`lacus.save`
does, without pickle; :func:`save` and :func:`load` use these.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed.checkpoint as torch_dcp
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, SavePlan, WriteItem, WriteItemType
from torch.futures import Future

from . import _blocks, _native, _state
from .checkpoint import PLAIN, Order, commit_state, last_state, made_dataset, number_of, opened, structure
from .dataset import Dataset, StorageOptions, Url, _absolute
from .dataset import open as open_dataset
from .errors import ConflictError, InvalidError

__all__ = ["LoadPlanner", "SavePlanner", "StorageReader", "StorageWriter", "load", "save"]

#: What bytes begin with that hold a value as JSON.
_MARK = b"lacus.value:"


class StorageWriter(torch_dcp.StorageWriter):  # type: ignore[misc]
    """Writes a distributed checkpoint as one commit of a dataset.

    Args:
        url: the path or URL of the dataset; by default the ``checkpoint_id`` of the call.
        step, message, durable, keep_last, keep_every, storage_options: see :func:`lacus.save`.

    All ranks must be able to write to the URL.
    """

    def __init__(
        self,
        url: Url | None = None,
        *,
        step: int | None = None,
        message: str | None = None,
        durable: bool = True,
        keep_last: int | None = None,
        keep_every: int | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        super().__init__()
        where = "" if url is None else _absolute(url)
        self._order = Order(where, number_of(step, "step"), message, durable, keep_last, keep_every, storage_options)
        self._order.check()

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins a save, at another place if one is given."""
        if checkpoint_id:
            self._order.url = _absolute(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """The coordinator makes the dataset if there is none: others come to it after that."""
        if not kwargs.get("use_collectives", True):
            raise InvalidError("use_collectives=False: all ranks are one commit, for which they need to hear of each other")
        if not self._order.url:
            raise InvalidError("StorageWriter: no URL: give one, or a checkpoint_id")
        if is_coordinator:
            made_dataset(self._order)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Nothing to be planned."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Nothing to be planned."""
        return plans

    def write_data(self, plan: SavePlan, planner: torch_dcp.SavePlanner) -> Future[list[torch_dcp.storage.WriteResult]]:
        """Stages the part of this rank: nobody sees it yet."""
        dataset = open_dataset(self._order.url, storage_options=self._order.storage_options)
        before, is_same = last_state(dataset)
        known = {each["name"]: each for each in ((before or {}).get("dcp") or {}).get("storage", ())} if is_same else {}
        names: list[str] = []
        arrays: list[Any] = []
        facts: list[dict[str, Any]] = []
        for item in plan.items:
            array, stored = _array_of(planner.resolve_data(item), item)
            names.append(_name_of(item))
            arrays.append(np.asarray(array, order="C"))
            facts.append({"stored": stored, "shape": list(array.shape)})
        digests = _native.content_digests(arrays)
        items: list[tuple[str, Any, str, str | None]] = []
        results: list[Any] = []
        for item, name, array, found, digest in zip(plan.items, names, arrays, facts, digests, strict=True):
            found["digest"] = digest.hex()
            is_new = any(known.get(name, {}).get(key) != value for key, value in found.items())
            if is_new:
                items.append((name, array, found["stored"], None))
            told = {"name": name, **found, "bytes": array.nbytes, "new": is_new, "base": dataset.version}
            results.append(torch_dcp.storage.WriteResult(item.index, array.nbytes, told))
        if results:
            # The first result carries what the coordinator needs to know of the files.
            part = dataset._native.stage(items, PLAIN, self._order.durable) if items else None
            results[0].storage_data["part"] = part
        done: Future[list[torch_dcp.storage.WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[torch_dcp.storage.WriteResult]]) -> None:
        """Makes the parts of all ranks one commit."""
        dataset = open_dataset(self._order.url, storage_options=self._order.storage_options)
        parts, storage, written, held = [], [], 0, 0
        for result in (result for rank in results for result in rank):
            told = dict(result.storage_data)
            part, base = told.pop("part", None), told.pop("base")
            parts += [] if part is None else [part]
            is_new, count = told.pop("new"), told.pop("bytes")
            if not is_new and base != dataset.version:
                raise ConflictError(f"someone else saved to {self._order.url} at the same time; save again")
            held, written = held + count, written + (count if is_new else 0)
            offset = None if result.index.offset is None else list(result.index.offset)
            storage.append({"fqn": result.index.fqn, "offset": offset, **told})
        about = {"tensors": len(storage), "bytes": held, "written": written}
        text = json.dumps({"form": _state.FORM, "dcp": {**_described(metadata), "storage": storage}}).encode()

        def act() -> bytes:
            if parts:
                dataset._native.add_staged(parts, False)
            return text

        commit_state(dataset, self._order, about, {each["name"] for each in storage}, act)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Any path or URL."""
        return isinstance(checkpoint_id, (str, os.PathLike))

    def storage_meta(self) -> StorageMeta | None:
        """What torch tells others about where it is."""
        return StorageMeta(checkpoint_id=self._order.url)


class StorageReader(torch_dcp.StorageReader):  # type: ignore[misc]
    """Reads a distributed checkpoint that :class:`StorageWriter` wrote: of each shard, the slice that is asked for.

    Args:
        url: the path or URL of the dataset; by default the ``checkpoint_id`` of the call.
        step: the step; by default the newest.
        storage_options: see :func:`lacus.create`.
    """

    def __init__(
        self, url: Url | None = None, *, step: int | None = None, storage_options: StorageOptions | None = None
    ) -> None:
        super().__init__()
        self._url = "" if url is None else _absolute(url)
        self._step = number_of(step, "step")
        self._options = storage_options
        self._dataset: Dataset | None = None
        self._names: dict[MetadataIndex, str] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins a load, from another place if one is given."""
        if checkpoint_id:
            self._url = _absolute(checkpoint_id)
        self._dataset, self._names = None, {}

    def _opened(self) -> tuple[Dataset, Mapping[str, Any]]:
        if not self._url:
            raise InvalidError("StorageReader: no URL: give one, or a checkpoint_id")
        # All ranks are to see one state, however long they take.
        dataset = opened(self._url, self._step, self._options)._frozen()
        found = structure(dataset, self._url)
        if "dcp" not in found:
            raise InvalidError(
                f"the checkpoint at {self._url} is one of lacus.save; load it with lacus.load, into=… for a model"
            )
        return dataset, found["dcp"]

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What was saved."""
        _, found = self._opened()
        return _metadata(found)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Looks up where everything is."""
        self._dataset, found = self._opened()
        self._names = {MetadataIndex(each["fqn"], each["offset"]): each["name"] for each in found["storage"]}

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Nothing to be planned."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Nothing to be planned."""
        return plans

    def read_data(self, plan: LoadPlan, planner: torch_dcp.LoadPlanner) -> Future[None]:
        """Reads slices straight into the tensors that the planner names."""
        assert self._dataset is not None
        for item in plan.items:
            array = self._dataset[self._names[item.storage_index]]
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(array.read().tobytes()))
                continue
            target = planner.resolve_tensor(item).detach()
            where = tuple(slice(at, at + n) for at, n in zip(item.storage_offsets, item.lengths, strict=True))
            if tuple(target.shape) != tuple(item.lengths):
                raise InvalidError(
                    f"{item.storage_index.fqn}: the tensor to load into has shape {tuple(target.shape)}, "
                    f"the part of the checkpoint {tuple(item.lengths)}"
                )
            stored = array._info.dtype
            is_plain = target.device.type == "cpu" and target.is_contiguous() and not target.is_conj()
            name = str(target.dtype).removeprefix("torch.")
            if is_plain and _blocks.stored_name(name, target.element_size()) == stored:
                if target.numel():
                    array._native.read_into(_blocks.torch_bits(target, stored), where)
            else:
                target.copy_(self._tensor(item.storage_index.fqn, array.read(where, raw=True)))
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _tensor(self, fqn: str, found: Any) -> Any:
        """What was read as a tensor of the type it was saved with."""
        dtype = self._types()[fqn]
        bits = np.asarray(found, order="C")
        if not bits.size:
            return torch.empty(bits.shape, dtype=dtype)
        return torch.frombuffer(bytearray(bits.tobytes()), dtype=dtype).reshape(bits.shape)

    def _types(self) -> dict[str, Any]:
        _, found = self._opened()
        return {fqn: getattr(torch, facts["dtype"]) for fqn, facts in found["tensors"].items() if facts is not None}

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Any path or URL."""
        return isinstance(checkpoint_id, (str, os.PathLike))


class SavePlanner(torch_dcp.DefaultSavePlanner):  # type: ignore[misc]
    """torch's planner, but values that are no tensors become JSON instead of a pickle."""

    def resolve_data(self, write_item: WriteItem) -> Any:
        """A tensor, or the bytes of a value."""
        if write_item.type != WriteItemType.BYTE_IO:
            return super().resolve_data(write_item)
        value = self.lookup_object(write_item.index)
        packed = _state.pack(value)
        if packed.blocks:
            raise InvalidError(f"{write_item.index.fqn}: a {type(value).__name__} with tensors in it cannot be stored")
        return io.BytesIO(_MARK + json.dumps(packed.root).encode())


class LoadPlanner(torch_dcp.DefaultLoadPlanner):  # type: ignore[misc]
    """torch's planner, but never unpickles: values are those of :class:`SavePlanner`, or plain ones of torch's own."""

    def load_bytes(self, read_item: Any, value: io.BytesIO) -> None:
        """A value that is no tensor."""
        text = value.getvalue()
        if text.startswith(_MARK):
            found = _state.unpack(json.loads(text[len(_MARK) :]), lambda number: None)
        else:
            found = torch.load(value, weights_only=True)
        fqn = read_item.dest_index.fqn
        self.state_dict[fqn] = found
        if self.flatten_state_dict:
            torch_dcp.default_planner.set_element(self.original_state_dict, self.mappings[fqn], found)


def save(state_dict: dict[str, Any], url: Url, **options: Any) -> Metadata:
    """``dcp.save`` to a dataset, without pickle. The options are those of :class:`StorageWriter`."""
    return torch_dcp.save(state_dict, storage_writer=StorageWriter(url, **options), planner=SavePlanner())


def load(state_dict: dict[str, Any], url: Url, **options: Any) -> None:
    """``dcp.load`` from a dataset, without pickle. The options are those of :class:`StorageReader`."""
    torch_dcp.load(state_dict, storage_reader=StorageReader(url, **options), planner=LoadPlanner())


def _name_of(item: WriteItem) -> str:
    """The name of the array for an item: that of the tensor, with the offset if it is a shard of it."""
    name = _state.joined((item.index.fqn,))
    data = item.tensor_data
    if data is not None and tuple(data.chunk.sizes) != tuple(data.size):
        return f"{name}/@{','.join(map(str, data.chunk.offsets))}"
    return name


def _array_of(value: Any, item: WriteItem) -> tuple[Any, str]:
    if item.type == WriteItemType.BYTE_IO:
        return np.frombuffer(value.getbuffer(), np.uint8), "uint8"
    if not isinstance(value, torch.Tensor):
        raise InvalidError(f"{item.index.fqn}: expected a tensor, found a {type(value).__name__}")
    seen = _blocks.seen(value.detach(), item.index.fqn)
    assert seen is not None
    return _blocks.bits(seen)


def _described(metadata: Metadata) -> dict[str, Any]:
    """torch's metadata as values of JSON."""
    tensors: dict[str, Any] = {}
    for fqn, facts in metadata.state_dict_metadata.items():
        if isinstance(facts, BytesStorageMetadata):
            tensors[fqn] = None
            continue
        strides = facts.properties.strides
        tensors[fqn] = {
            "dtype": str(facts.properties.dtype).removeprefix("torch."),
            "requires_grad": bool(facts.properties.requires_grad),
            "strides": None if strides is None else list(strides),
            "size": list(facts.size),
            "chunks": [[list(chunk.offsets), list(chunk.sizes)] for chunk in facts.chunks],
        }
    planner = _state.pack(metadata.planner_data)
    if planner.blocks:
        raise InvalidError("the planner's own data has tensors in it, which cannot be stored")
    return {"tensors": tensors, "planner": planner.root, "version": metadata.version}


def _metadata(found: Mapping[str, Any]) -> Metadata:
    """torch's metadata from values of JSON."""
    facts_of: dict[str, Any] = {}
    for fqn, facts in found["tensors"].items():
        if facts is None:
            facts_of[fqn] = BytesStorageMetadata()
            continue
        strides = None if facts["strides"] is None else tuple(facts["strides"])
        properties = TensorProperties(dtype=getattr(torch, facts["dtype"]), requires_grad=facts["requires_grad"])
        if hasattr(properties, "strides"):
            properties.strides = strides
        chunks = [ChunkStorageMetadata(torch.Size(at), torch.Size(size)) for at, size in facts["chunks"]]
        facts_of[fqn] = TensorStorageMetadata(properties, torch.Size(facts["size"]), chunks)
    planner = _state.unpack(found["planner"], lambda number: None)
    return Metadata(state_dict_metadata=facts_of, planner_data=planner, storage_meta=StorageMeta(), version=found["version"])
