"""A nested state as JSON and blocks of memory, and back. Nothing here runs code that was stored.

    {"model": {"w": tensor}, "step": 3}  ─pack→  {"d": [["model", {"d": [["w", {"t": 0}]]}], ["step", 3]]}  and block "model/w"

A node is a value of JSON, or an object with one of these keys and others that belong to it:

    d, o   dict, OrderedDict: pairs of key and node; `m` with the metadata that torch keeps on a state dict
    l, u   list, tuple       s, f   set, frozenset
    t      tensor, by its number; n  a scalar of numpy       i, x   a float that JSON lacks, a complex number
    b, B   bytes, in base64 or by the number of a tensor     p      something of torch: a dtype, a device, a size, a sparse tensor
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from . import _blocks
from ._blocks import Block, Seen
from .errors import InvalidError

#: The number of this form. A reader refuses higher ones.
FORM = 1

#: The array that holds the structure.
STRUCTURE = "_checkpoint"

#: Longer bytes become arrays.
_MOST_INLINE = 4096

#: Deeper nesting is refused, long before Python's own limit.
_DEEPEST = 200

#: The longest name of a tensor of the core, in bytes.
_LONGEST_NAME = 1024


@dataclasses.dataclass
class Packed:
    """A state, ready to be stored."""

    root: Any
    #: Facts about each tensor, by its number.
    tensors: list[dict[str, Any]]
    blocks: list[Block]
    #: The names of the blocks.
    names: list[str]
    #: What tells contents apart, by block; empty until it is known.
    digests: list[str] = dataclasses.field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Bytes of all blocks."""
        return sum(block.array.nbytes for block in self.blocks)

    def structure(self) -> dict[str, Any]:
        """All of it but the blocks, as values of JSON."""
        blocks = []
        for name, block, digest in zip(self.names, self.blocks, self.digests, strict=True):
            facts: dict[str, Any] = {"name": name, "dtype": block.dtype, "shape": list(block.array.shape), "digest": digest}
            if block.lies is not None:
                facts["strides"], facts["offset"], facts["span"] = list(block.lies[0]), block.lies[1], block.lies[2]
            blocks.append(facts)
        return {"form": FORM, "root": self.root, "tensors": self.tensors, "blocks": blocks}


def pack(state: Any) -> Packed:
    """A state as JSON and blocks. The blocks look at the memory of the state.

    Raises:
        InvalidError: something in it cannot be stored; the message says where it is.
    """
    packer = _Packer()
    root = packer.node(state, (), 0)
    found = _blocks.blocks(packer.seen)
    names = [packer.names[block.base] for block in found]
    for number, block in enumerate(found):
        for place, offset in block.offsets.items():
            facts = packer.tensors[place]
            facts["block"] = number
            if offset:
                facts["offset"] = offset
    return Packed(root, packer.tensors, found, names)


class _Packer:
    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.tensors: list[dict[str, Any]] = []
        self.names: list[str] = []
        self._naming = Naming()
        #: The containers that the one at hand is in.
        self._within: set[int] = set()

    def node(self, value: Any, path: tuple[Any, ...], depth: int) -> Any:
        if value is None or value is True or value is False or type(value) is str:
            return value
        if type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"i": value.hex() if math.isinf(value) else "nan"}
        if type(value) is complex:
            return {"x": [value.real.hex(), value.imag.hex()]}
        if isinstance(value, np.generic):
            return self._scalar(value, path)
        if type(value) in (bytes, bytearray):
            return self._bytes(bytes(value), path)
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            return self._container(value, path, depth)
        if (found := self._of_torch(value, path, depth)) is not None:
            return found
        tensor = _blocks.seen(value, shown(path))
        if tensor is None:
            # Enumerations and the like of the plain kinds would come back as something else.
            raise InvalidError(f"{shown(path)}: {_article(value)} cannot be stored; {_advice(value)}")
        return self._tensor(tensor, value, path)

    def _container(self, value: Any, path: tuple[Any, ...], depth: int) -> Any:
        if id(value) in self._within:
            raise InvalidError(f"{shown(path)}: a {type(value).__name__} that contains itself cannot be stored")
        if depth >= _DEEPEST:
            raise InvalidError(f"{shown(path[:3])}…: nested deeper than {_DEEPEST} levels")
        self._within.add(id(value))
        try:
            if isinstance(value, Mapping):
                return self._dict(value, path, depth + 1)
            if isinstance(value, tuple) and hasattr(value, "_fields"):
                raise InvalidError(
                    f"{shown(path)}: {_article(value)}, a named tuple, cannot be stored; store ._asdict() of it"
                )
            items = [self.node(item, (*path, place), depth + 1) for place, item in enumerate(value)]
        finally:
            self._within.discard(id(value))
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Size):
            return {"p": "size", "of": items}
        tag = "l" if isinstance(value, list) else "u" if isinstance(value, tuple) else "f"
        return {"s" if isinstance(value, set) else tag: items}

    def _dict(self, value: Mapping[Any, Any], path: tuple[Any, ...], depth: int) -> Any:
        pairs = []
        for key, item in value.items():
            if type(key) is not str and type(key) is not int:
                raise InvalidError(
                    f"{shown(path)}: the key {key!r} is {_article(key)}; keys are text or integers"
                )
            pairs.append([key, self.node(item, (*path, key), depth)])
        node: dict[str, Any] = {"o" if isinstance(value, collections.OrderedDict) else "d": pairs}
        # torch's state dicts carry the versions of their modules.
        if isinstance(value, collections.OrderedDict) and isinstance(getattr(value, "_metadata", None), Mapping):
            node["m"] = self.node(value._metadata, (*path, "_metadata"), depth)  # type: ignore[attr-defined]
        return node

    def _scalar(self, value: np.generic, path: tuple[Any, ...]) -> Any:
        tensor = _blocks.seen(np.asarray(value), shown(path))
        assert tensor is not None
        return {"n": tensor.dtype, "of": np.asarray(value).tobytes().hex()}

    def _bytes(self, value: bytes, path: tuple[Any, ...]) -> Any:
        if len(value) <= _MOST_INLINE:
            return {"b": base64.b64encode(value).decode()}
        array = np.frombuffer(value, np.uint8)
        tensor = _blocks.seen(array, shown(path))
        assert tensor is not None
        return {"B": self._tensor(tensor, array, path)["t"]}

    def _of_torch(self, value: Any, path: tuple[Any, ...], depth: int) -> Any:
        torch = sys.modules.get("torch")
        if torch is None:
            return None
        if isinstance(value, torch.dtype):
            return {"p": "dtype", "of": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"p": "device", "of": str(value)}
        if not isinstance(value, torch.Tensor) or value.layout == torch.strided:
            return None
        layout = str(value.layout).removeprefix("torch.")
        inner = value.detach()
        if layout == "sparse_coo":
            parts = {"indices": inner._indices(), "values": inner._values()}
        elif layout in ("sparse_csr", "sparse_bsr"):
            parts = {"compressed": inner.crow_indices(), "plain": inner.col_indices(), "values": inner.values()}
        elif layout in ("sparse_csc", "sparse_bsc"):
            parts = {"compressed": inner.ccol_indices(), "plain": inner.row_indices(), "values": inner.values()}
        else:
            raise InvalidError(f"{shown(path)}: a torch tensor of layout {value.layout} cannot be stored")
        nodes = {name: self.node(part, (*path, name), depth) for name, part in parts.items()}
        coalesced = layout == "sparse_coo" and value.is_coalesced()
        return {"p": layout, "of": nodes, "shape": list(value.shape), "coalesced": coalesced}

    def _tensor(self, tensor: Seen, value: Any, path: tuple[Any, ...]) -> dict[str, Any]:
        facts: dict[str, Any] = {"dtype": tensor.dtype, "shape": list(tensor.shape)}
        if not tensor.is_c_order:
            facts["strides"] = list(tensor.strides)
        if tensor.kind != "numpy":
            facts["kind"] = tensor.kind
        if tensor.kind == "torch":
            torch = sys.modules["torch"]
            facts.update({"parameter": True} if isinstance(value, torch.nn.Parameter) else {})
            if value.requires_grad and (value.is_leaf or isinstance(value, torch.nn.Parameter)):
                facts["grad"] = True
            facts.update({"device": tensor.device} if tensor.device != "cpu" else {})
        self.seen.append(tensor)
        self.tensors.append(facts)
        self.names.append(self._naming.name(path))
        return {"t": len(self.tensors) - 1}


class Naming:
    """Names of tensors by their path in the nesting: ``model/layers.0.weight``. The same paths in the same order give the same names."""

    def __init__(self) -> None:
        self._taken = {STRUCTURE}

    def name(self, path: tuple[Any, ...]) -> str:
        """The name of the tensor at a path."""
        plain = joined(path)
        name, number = plain, 1
        while name in self._taken:
            number += 1
            name = f"{plain}~{number}"
        self._taken.add(name)
        return name


def joined(path: tuple[Any, ...]) -> str:
    """A path as a name that the core takes."""
    name = "/".join(map(_escaped, path)) or "value"
    if len(name.encode()) > _LONGEST_NAME - 16:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        name = name.encode()[: _LONGEST_NAME - 64].decode(errors="ignore").rstrip("/") + "~" + digest
    return name


def _escaped(key: Any) -> str:
    text = str(key)
    if text in ("", ".", ".."):
        return {"": "%", ".": "%2E", "..": "%2E%2E"}[text]

    def safe(letter: str) -> str:
        is_plain = letter not in "%/" and letter.isprintable() and not 0xD800 <= ord(letter) <= 0xDFFF
        return letter if is_plain else "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))

    return "".join(map(safe, text))


def shown(path: tuple[Any, ...]) -> str:
    """A path as Python code."""
    return "state" + "".join(f"[{key!r}]" for key in path)


def _article(value: Any) -> str:
    kind = type(value)
    name = kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _advice(value: Any) -> str:
    if hasattr(value, "state_dict"):
        return "store its .state_dict()"
    if callable(value):
        return "store its name, or what it was made from"
    return "what can be are dicts, lists, tuples, sets, tensors, numbers, text, bytes and None"


# And back.


def walk(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All nodes with their paths, in the order in which they were packed."""
    yield path, node
    if not isinstance(node, dict):
        return
    for key, item in [*node.get("d", ()), *node.get("o", ())]:
        yield from walk(item, (*path, key))
    for tag in ("l", "u", "s", "f"):
        for place, item in enumerate(node.get(tag, ())):
            yield from walk(item, (*path, place))
    if isinstance(node.get("of"), dict):
        for key, item in node["of"].items():
            yield from walk(item, (*path, key))


def children(node: Any) -> dict[Any, Any] | None:
    """The nodes of a dict by key; None for anything else."""
    if not isinstance(node, dict):
        return None
    pairs = node.get("d", node.get("o"))
    return None if pairs is None else dict(pairs)


def unpack(node: Any, tensor: Callable[[int], Any]) -> Any:
    """The value of a node; `tensor` gives the tensor of a number."""
    if not isinstance(node, dict):
        return node
    if "d" in node:
        return {key: unpack(item, tensor) for key, item in node["d"]}
    if "o" in node:
        made = collections.OrderedDict((key, unpack(item, tensor)) for key, item in node["o"])
        if "m" in node:
            made._metadata = unpack(node["m"], tensor)  # type: ignore[attr-defined]
        return made
    for tag, make in (("l", list), ("u", tuple), ("s", set), ("f", frozenset)):
        if tag in node:
            return make(unpack(item, tensor) for item in node[tag])
    if "t" in node:
        return tensor(node["t"])
    if "B" in node:
        return np.asarray(tensor(node["B"])).tobytes()
    if "b" in node:
        return base64.b64decode(node["b"])
    if "i" in node:
        return float(node["i"]) if node["i"] == "nan" else float.fromhex(node["i"])
    if "x" in node:
        return complex(*map(float.fromhex, node["x"]))
    if "n" in node:
        dtype = _blocks.numpy_type(node["n"], "a number of the checkpoint")
        return np.frombuffer(bytes.fromhex(node["of"]), dtype)[0]
    if "p" in node:
        return _torch_value(node, tensor)
    raise InvalidError(f"the structure of the checkpoint has a value of an unknown kind: {sorted(node)}")


def _torch_value(node: dict[str, Any], tensor: Callable[[int], Any]) -> Any:
    kind = node["p"]
    if not _blocks.has_torch():
        if kind in ("dtype", "device"):
            return node["of"]
        if kind == "size":
            return tuple(node["of"])
        raise InvalidError(f"the checkpoint has a torch tensor of layout {kind}: install torch to load it")
    import torch

    if kind == "dtype":
        return getattr(torch, node["of"])
    if kind == "device":
        return torch.device(node["of"])
    if kind == "size":
        return torch.Size(node["of"])
    parts = {name: unpack(part, tensor) for name, part in node["of"].items()}
    shape = tuple(node["shape"])
    if kind == "sparse_coo":
        made = torch.sparse_coo_tensor(parts["indices"], parts["values"], shape, check_invariants=True)
        return made._coalesced_(node["coalesced"])
    layout = getattr(torch, kind)
    return torch.sparse_compressed_tensor(
        parts["compressed"], parts["plain"], parts["values"], shape, layout=layout, check_invariants=True
    )
