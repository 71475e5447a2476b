"""Checkpoints from and to safetensors files, sharded ones included, and from weights of torch.

>>> lacus.import_checkpoint("model.safetensors", "run", step=0)
>>> lacus.import_checkpoint("model.safetensors.index.json", "run")
>>> lacus.import_checkpoint("model.pt", "run")                       # weights only: no code of the file is run
>>> lacus.export_safetensors("run", "model.safetensors", step=2000, names="model")

The files are byte for byte those of the ``safetensors`` package.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import _blocks, checkpoint
from ._guard import guarded
from ._load import Loader
from ._state import Naming, walk
from .checkpoint import Checkpoint
from .dataset import StorageOptions, Url, _absolute
from .errors import CorruptError, InvalidError, NotFoundError

__all__ = ["export_safetensors", "import_checkpoint"]

#: safetensors' names of types, in the order in which its files have them: the widest come first. By torch's and ml_dtypes' names.
_TYPES: dict[str, tuple[str, ...]] = {
    "BOOL": ("bool",),
    "F4": ("float4_e2m1fn_x2",),
    "F6_E2M3": (),
    "F6_E3M2": (),
    "U8": ("uint8",),
    "I8": ("int8",),
    "F8_E5M2": ("float8_e5m2",),
    "F8_E4M3": ("float8_e4m3fn",),
    "F8_E8M0": ("float8_e8m0fnu",),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz",),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz",),
    "I16": ("int16",),
    "U16": ("uint16",),
    "F16": ("float16",),
    "BF16": ("bfloat16",),
    "I32": ("int32",),
    "U32": ("uint32",),
    "F32": ("float32",),
    "C64": ("complex64",),
    "F64": ("float64",),
    "I64": ("int64",),
    "U64": ("uint64",),
}
_NAMES = {name: kind for kind, names in _TYPES.items() for name in names}
_ORDER = {kind: place for place, kind in enumerate(_TYPES)}

#: The longest header that readers accept.
_LONGEST_HEADER = 100_000_000


@guarded
def import_checkpoint(
    source: Url,
    url: Url,
    *,
    step: int | None = None,
    message: str | None = None,
    storage_options: StorageOptions | None = None,
) -> Checkpoint:
    """Saves the tensors of a file as a checkpoint.

    Args:
        source: a ``.safetensors`` file; the ``.index.json`` of a sharded one; or a file of ``torch.save``, of which only weights are taken.
            Code in it is never run.
        url: where to save, as in :func:`lacus.save`. The other options are those of it.

    Raises:
        NotFoundError: there is no such file, or a shard of it is missing.
        CorruptError: it is not what its name says.
    """
    path = Path(os.fspath(source))
    if not path.is_file():
        raise NotFoundError(f"no file at {path}")
    if path.name.endswith(".json"):
        state = _sharded(path)
    elif path.suffix == ".safetensors":
        state = read_safetensors(path)
    else:
        state = _weights(path)
    about = message or f"Import {path.name}"
    return checkpoint.save(state, url, step=step, message=about, storage_options=storage_options)


@guarded
def export_safetensors(
    url: Url,
    path: Url,
    *,
    step: int | None = None,
    names: str | None = None,
    metadata: Mapping[str, str] | None = None,
    storage_options: StorageOptions | None = None,
) -> int:
    """Writes the tensors of a checkpoint to a safetensors file, byte for byte as the ``safetensors`` package does. Returns its size.

    Args:
        url: the checkpoint.
        path: the file. It is complete or not there at all.
        step: which one; by default the newest.
        names: only the tensors of this part of the nesting, as in ``"model"``; names in the file are without it.
        metadata: text by text, for the header. The ``safetensors`` package writes ``{"format": "pt"}`` for torch.
        storage_options: see :func:`lacus.create`.

    Raises:
        InvalidError: tensors share memory, as safetensors has no place for that, or are of a type that it does not have.
    """
    location = _absolute(url)
    dataset = checkpoint.opened(location, checkpoint.number_of(step, "step"), storage_options)
    found = checkpoint.structure(dataset, location)
    if "dcp" in found:
        raise InvalidError(f"the checkpoint at {location} is one of torch.distributed.checkpoint, whose tensors are in parts")
    loader = Loader(dataset, found, "cpu")
    naming, tensors = Naming(), {}
    inside = () if names is None else tuple(names.split("/"))
    for place, node in walk(found["root"]):
        if not isinstance(node, dict) or ("t" not in node and "B" not in node):
            continue
        naming.name(place)
        if "t" in node and tuple(map(str, place[: len(inside)])) == inside:
            tensors[".".join(map(str, place[len(inside) :]))] = node["t"]
    if not tensors:
        raise NotFoundError(f"no tensors {'in the checkpoint' if names is None else f'below {names!r}'}")
    _refuse_shared(found, tensors)
    return _write(_absolute(path), {name: loader.tensor(number) for name, number in tensors.items()}, metadata)


def _refuse_shared(found: Mapping[str, Any], tensors: Mapping[str, int]) -> None:
    owners: dict[int, list[str]] = {}
    for name, number in tensors.items():
        owners.setdefault(found["tensors"][number]["block"], []).append(name)
    for names in owners.values():
        if len(names) > 1:
            raise InvalidError(
                f"tensors {', '.join(map(repr, names))} share memory, for which safetensors has no place; save copies of them first"
            )


def _write(path: str, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> int:
    rows = []
    for name, tensor in tensors.items():
        seen = _blocks.seen(tensor, name)
        assert seen is not None
        if seen.dtype not in _NAMES:
            raise InvalidError(f"{name}: safetensors has no type for {seen.dtype}")
        kind = _NAMES[seen.dtype]
        shape = list(seen.shape)
        if kind == "F4" and shape:
            # Two of them are in a byte, and the file counts them.
            shape[-1] *= 2
        array, _ = _blocks.bits(seen)
        rows.append((-_ORDER[kind], name, kind, shape, np.asarray(array, order="C")))
    # Wide types first, so that all are aligned; then by name.
    rows.sort(key=lambda row: row[:2])
    header: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
            raise InvalidError("metadata: text by text is expected")
        header["__metadata__"] = dict(sorted(metadata.items()))
    at = 0
    for _, name, kind, shape, array in rows:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    handle, made = tempfile.mkstemp(prefix=f".{Path(path).name}.", dir=Path(path).parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for row in rows:
                if row[4].size:
                    file.write(row[4].reshape(-1).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
        # As a file that was opened for writing has it.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(made, 0o666 & ~mask)
        os.replace(made, path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    return 8 + len(text) + at


def read_safetensors(path: Path) -> dict[str, Any]:
    """The tensors of a file, over its mapped memory: of torch where it is installed, else of numpy."""

    def bad(why: str) -> CorruptError:
        return CorruptError(f"{path} is no safetensors file: {why}")

    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise bad("it is too short")
        (length,) = struct.unpack("<Q", file.read(8))
        if length > min(size - 8, _LONGEST_HEADER):
            raise bad(f"its header would have {length:,} bytes")
        try:
            header = json.loads(file.read(length))
            facts_of = {name: facts for name, facts in header.items() if name != "__metadata__"}
        except (ValueError, AttributeError, RecursionError) as error:
            raise bad(f"its header is no JSON: {error}") from error
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    made = {}
    for name, facts in facts_of.items():
        try:
            kind, shape, (begin, end) = facts["dtype"], tuple(map(int, facts["shape"])), facts["data_offsets"]
        except (KeyError, TypeError, ValueError) as error:
            raise bad(f"tensor {name!r}: {error}") from error
        if not _TYPES.get(kind):
            raise InvalidError(f"{path}: tensor {name!r} is {kind}, which cannot be stored")
        if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end <= size - 8 - length):
            raise bad(f"tensor {name!r} lies outside of the file")
        bytes_ = np.frombuffer(data, np.uint8, end - begin, 8 + length + begin)
        made[name] = _dressed(bytes_, kind, shape, f"{path}: tensor {name!r}", bad)
    return made


def _dressed(bytes_: Any, kind: str, shape: tuple[int, ...], what: str, bad: Any) -> Any:
    name = _TYPES[kind][0]
    if kind == "F4" and shape:
        shape = (*shape[:-1], shape[-1] // 2)
    if not _blocks.has_torch():
        dtype = _blocks.numpy_type(name, what)
        if int(np.prod(shape, dtype=object)) * dtype.itemsize != bytes_.size:
            raise bad(f"{what}: {bytes_.size} bytes are not of shape {shape}")
        return bytes_.view(dtype).reshape(shape)
    torch = importlib.import_module("torch")
    wanted = getattr(torch, name)
    if int(np.prod(shape, dtype=object)) * wanted.itemsize != bytes_.size:
        raise bad(f"{what}: {bytes_.size} bytes are not of shape {shape}")
    if not bytes_.size:
        return torch.empty(shape, dtype=wanted)
    # A copy: torch has no memory that must not be written to, and views by aligned addresses only.
    return torch.from_numpy(bytes_.copy()).view(wanted).reshape(shape)


def _sharded(index: Path) -> dict[str, Any]:
    try:
        parts = json.loads(index.read_text())["weight_map"]
        files = sorted(set(parts.values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{index} is no index of shards: {error}") from error
    made: dict[str, Any] = {}
    for file in files:
        path = index.parent / str(file)
        if path.parent != index.parent or not path.is_file():
            raise NotFoundError(f"{index} names the shard {file!r}, which is not beside it")
        made.update(read_safetensors(path) if path.suffix == ".safetensors" else _weights(path))
    if missing := sorted(set(parts) - set(made)):
        raise CorruptError(f"{index} names tensors that no shard has: {', '.join(missing[:5])}")
    return {name: made[name] for name in parts}


def _weights(path: Path) -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise InvalidError(f"{path}: install torch to import files of torch.save") from error
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CorruptError(f"{path} is no file of torch.save that holds only weights: {error}") from error
