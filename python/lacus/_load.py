"""Values of a checkpoint: all of them, some by name, or straight into the memory of a model."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _blocks, _state
from ._arrays import NDArray
from ._state import Naming, children, joined, shown, walk
from .errors import CorruptError, InvalidError, NotFoundError

if TYPE_CHECKING:
    from .dataset import Dataset

#: Differences that a message lists.
_LISTED = 20


class Incompatible(NamedTuple):
    """Keys in which a checkpoint and what it was loaded into differ, as torch's ``load_state_dict`` returns them."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Loader:
    """Reads the tensors of one checkpoint, each block of memory once."""

    def __init__(self, dataset: Dataset, structure: Mapping[str, Any], map_location: Any) -> None:
        self._dataset = dataset
        self._root = structure["root"]
        self._tensors: list[dict[str, Any]] = structure["tensors"]
        self._blocks: list[dict[str, Any]] = structure["blocks"]
        self._map_location = map_location
        self._memory: dict[int, Any] = {}
        self._elsewhere: dict[tuple[int, str], Any] = {}
        #: Blocks that a tensor of torch looks at.
        self._of_torch = {facts["block"] for facts in self._tensors if facts.get("kind") == "torch"}

    def everything(self) -> Any:
        """The state."""
        return _state.unpack(self._root, self.tensor)

    def named(self, names: Sequence[str]) -> dict[str, Any]:
        """Parts of the state by the names of tensors, or by paths in the nesting."""
        if isinstance(names, str):
            raise InvalidError(f"names: expected a list of names, found {names!r}; write names=[{names!r}]")
        naming = Naming()
        found: dict[str, Any] = {}
        for path, node in walk(self._root):
            is_tensor = isinstance(node, dict) and ("t" in node or "B" in node)
            found.setdefault(naming.name(path) if is_tensor else joined(path), node)
        made = {}
        for name in names:
            if name not in found:
                near = difflib.get_close_matches(str(name), found, 3)
                hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
                raise NotFoundError(f"no tensor or part {name!r} in the checkpoint{hint}")
            made[name] = _state.unpack(found[name], self.tensor)
        return made

    def tensor(self, number: int) -> Any:
        """A tensor by its number."""
        facts = self._tensors[number]
        kind, shape = facts.get("kind", "numpy"), tuple(facts["shape"])
        strides = tuple(facts["strides"]) if "strides" in facts else None
        memory = self._block(facts["block"])
        is_torch = kind == "torch" and not isinstance(memory, np.ndarray)
        if is_torch:
            memory = self._moved(facts["block"], memory, facts.get("device", "cpu"))
        what = self._what(facts["block"])
        made = _blocks.looking(memory, kind, facts["dtype"], shape, strides, facts.get("offset", 0), what)
        if not is_torch:
            return made
        if facts.get("parameter"):
            return sys.modules["torch"].nn.Parameter(made, requires_grad=facts.get("grad", False))
        return made.requires_grad_() if facts.get("grad") else made

    def _moved(self, block: int, memory: Any, device: str) -> Any:
        """The memory of a block where it belongs: all tensors that look at it share it there."""
        key = (block, device)
        if key not in self._elsewhere:
            self._elsewhere[key] = _moved(memory, device, self._map_location)
        return self._elsewhere[key]

    def _what(self, block: int) -> str:
        return f"tensor {self._blocks[block]['name']!r}"

    def _block(self, number: int) -> Any:
        """The memory of a block, with what is stored in it."""
        if number in self._memory:
            return self._memory[number]
        facts = self._blocks[number]
        array = self._dataset[facts["name"]]
        info = array._info
        shape = tuple(facts["shape"])
        if info.shape != shape:
            raise CorruptError(f"{self._what(number)} has shape {info.shape}, its checkpoint says {shape}")
        length = int(np.prod(shape, dtype=object)) * _width(info.dtype).itemsize
        # What torch looks at is torch's memory; numpy sees it as well.
        memory, flat = _blocks.empty(facts.get("span", length), number in self._of_torch)
        if "strides" in facts:
            flat[:] = 0
            strides = tuple(facts["strides"])
            lying = np.ndarray(shape, _width(info.dtype), buffer=flat, offset=facts["offset"], strides=strides)
            lying[...] = array.read(raw=True).view(lying.dtype)
        elif length:
            array._native.read_into(flat.view(_width(info.dtype)).reshape(shape), ...)
        self._memory[number] = memory
        return memory

    # Into a model.

    def into(self, target: Any, strict: bool) -> Incompatible:
        """Gives modules, optimisers and tensors the values of the state; nothing, if something does not fit."""
        plan = _Plan(self)
        plan.add(target, self._root, ())
        problems = list(plan.problems)
        if strict:
            problems += [f"missing in the checkpoint: {key}" for key in plan.missing]
            problems += [f"unexpected in the checkpoint: {key}" for key in plan.unexpected]
        if problems:
            more = f"\n  … and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
            hint = "\nstrict=False ignores keys that are missing or unexpected" if not plan.problems else ""
            listed = "".join(f"\n  {problem}" for problem in problems[:_LISTED])
            raise InvalidError(f"the checkpoint does not fit what it is loaded into:{listed}{more}{hint}")
        for act in plan.acts:
            act()
        return Incompatible(plan.missing, plan.unexpected)

    def fill(self, target: Any, number: int) -> None:
        """Reads a tensor into the memory of another of the same shape and type."""
        facts = self._tensors[number]
        block = self._blocks[facts["block"]]
        bits = _memory_of(target)
        is_whole = "strides" not in block and "strides" not in facts and block["shape"] == facts["shape"]
        if bits is not None and is_whole and block["dtype"] == facts["dtype"]:
            if bits.size:
                self._dataset[block["name"]]._native.read_into(bits, ...)
            return
        found = self.tensor(number)
        if isinstance(target, np.ndarray):
            target[...] = np.asarray(found)
        else:
            with sys.modules["torch"].no_grad():
                target.copy_(found)


class _Plan:
    """What is to be done to load a state into something, and what is against it."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.acts: list[Callable[[], Any]] = []
        self.problems: list[str] = []
        self.missing: list[str] = []
        self.unexpected: list[str] = []

    def add(self, target: Any, node: Any, path: tuple[Any, ...]) -> None:
        """Plans to load a node into a target that is no plain value."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(target, torch.nn.Module):
            self._module(target, node, path)
        elif hasattr(target, "load_state_dict"):
            self.acts.append(lambda: target.load_state_dict(self._value(node)))
        elif isinstance(target, Mapping):
            self._dict(target, node, path)
        elif isinstance(target, list):
            items = node.get("l") if isinstance(node, dict) else None
            if items is None or len(items) != len(target):
                self.problems.append(f"{shown(path)}: a list of {len(target)} is expected")
                return
            for place, item in enumerate(items):
                self._item(target, place, item, (*path, place))
        elif _is_tensor(target):
            self._tensor(target, node, path)
        else:
            raise InvalidError(
                f"into: a module, an optimiser, a dict, a list or a tensor is expected, found a {type(target).__name__}"
            )

    def _value(self, node: Any) -> Any:
        return _state.unpack(node, self.loader.tensor)

    def _module(self, module: Any, node: Any, path: tuple[Any, ...]) -> None:
        state = module.state_dict()
        if all(_is_tensor(value) for value in state.values()):
            self._dict(state, node, path)
            return
        # Modules with state of their own kind load it themselves.
        found = children(node) or {}
        self.missing += [_key(path, key) for key in state if key not in found]
        self.unexpected += [_key(path, key) for key in found if key not in state]
        self.acts.append(lambda: module.load_state_dict(self._value(node), strict=False))

    def _dict(self, target: Mapping[Any, Any], node: Any, path: tuple[Any, ...]) -> None:
        found = children(node)
        if found is None:
            self.problems.append(f"{shown(path)}: a dict is expected, the checkpoint has something else")
            return
        self.missing += [_key(path, key) for key in target if key not in found]
        self.unexpected += [_key(path, key) for key in found if key not in target]
        for key in target:
            if key in found:
                self._item(target, key, found[key], (*path, key))

    def _item(self, holder: Any, key: Any, node: Any, path: tuple[Any, ...]) -> None:
        value = holder[key]
        if _is_tensor(value) or isinstance(value, (Mapping, list)) or hasattr(value, "load_state_dict"):
            self.add(value, node, path)
        elif isinstance(holder, (MutableMapping, list)):
            self.acts.append(lambda: holder.__setitem__(key, self._value(node)))

    def _tensor(self, target: Any, node: Any, path: tuple[Any, ...]) -> None:
        if not isinstance(node, dict) or "t" not in node:
            self.problems.append(f"{shown(path)}: a tensor is expected, the checkpoint has something else")
            return
        facts = self.loader._tensors[node["t"]]
        seen = _blocks.seen(target, shown(path))
        assert seen is not None
        if seen.shape != tuple(facts["shape"]):
            stored = tuple(facts["shape"])
            self.problems.append(f"{shown(path)}: shape {seen.shape} is expected, the checkpoint has {stored}")
        elif seen.dtype != facts["dtype"]:
            self.problems.append(f"{shown(path)}: {seen.dtype} is expected, the checkpoint has {facts['dtype']}")
        elif isinstance(target, np.ndarray) and not target.flags.writeable:
            self.problems.append(f"{shown(path)}: the array cannot be written to")
        else:
            self.acts.append(lambda: self.loader.fill(target, node["t"]))


def _key(path: tuple[Any, ...], key: Any) -> str:
    return ".".join(map(str, (*path, key)))


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return isinstance(value, np.ndarray) or (torch is not None and isinstance(value, torch.Tensor))


def _width(stored: str) -> np.dtype[Any]:
    return np.dtype("uint16" if stored == "bfloat16" else stored)


def _memory_of(target: Any) -> NDArray | None:
    """An array over the memory of a tensor, if that is one piece in C order on this machine."""
    if isinstance(target, np.ndarray):
        seen = _blocks.seen(target, "into")
        assert seen is not None
        stored = _blocks.stored_name(seen.dtype, seen.itemsize)
        return target.view(_width(stored)) if target.flags.c_contiguous and target.flags.writeable else None
    if target.device.type != "cpu" or not target.is_contiguous() or target.is_conj() or target.is_neg():
        return None
    tensor = target.detach()
    name = str(tensor.dtype).removeprefix("torch.")
    return _blocks.torch_bits(tensor, _blocks.stored_name(name, tensor.element_size()))


def _moved(memory: Any, device: str, map_location: Any) -> Any:
    """Memory where ``torch.load`` would put it."""
    torch = sys.modules["torch"]
    wanted: Any = device
    if callable(map_location):
        storage = map_location(memory.untyped_storage(), device)
        if storage is not None:
            return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    elif isinstance(map_location, Mapping):
        wanted = map_location.get(device, device)
    elif map_location is not None:
        wanted = map_location
    try:
        return memory.to(torch.device(wanted))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InvalidError(
            f"a tensor was saved on {device!r}, and cannot go to {str(wanted)!r}: {error}; "
            'map_location="cpu" loads it into memory'
        ) from error
