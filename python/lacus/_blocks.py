"""Memory that tensors share: which bytes there are to store, and how each tensor looks at them.

Tensors whose addresses overlap share memory, whichever library made them. Each such group is one *block*:

    w, w.T, w[2:]  ─→  block "w": the elements of w          views: w, w.T, w[2:]
    x[:-1], x[1:]  ─→  block "x": the bytes as they lie      views: both

Types that the core has no name for are stored as unsigned integers of the same width.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from typing import Any

import numpy as np

from . import _dtypes
from ._arrays import NDArray
from .errors import InvalidError

#: Integers in whose guise types go that the core has no name for, by their width in bytes.
_GUISES = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


@dataclasses.dataclass(frozen=True)
class Seen:
    """A tensor: where its elements are. Addresses and strides are in bytes."""

    #: Who made it: ``"numpy"``, ``"torch"`` or ``"jax"``.
    kind: str
    #: numpy's or torch's name of the type.
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    #: Where the memory is; addresses mean something only there.
    device: str
    start: int
    #: The tensor itself, or an array over the same memory.
    value: Any

    @property
    def size(self) -> int:
        """The number of its elements."""
        return int(np.prod(self.shape, dtype=object)) if self.shape else 1

    @property
    def low(self) -> int:
        """The address of its lowest byte."""
        return self.start + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True) if stride < 0)

    @property
    def high(self) -> int:
        """The address behind its highest byte."""
        up = sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True) if stride > 0)
        return self.start + up + self.itemsize

    @property
    def is_c_order(self) -> bool:
        """Whether its elements lie one behind the other, the last axis running fastest."""
        return all(n == 1 or stride == packed for n, stride, packed in zip(self.shape, self.strides, self.packed(), strict=True))

    @property
    def overlaps_itself(self) -> bool:
        """Whether two of its elements may be the same memory."""
        reach = self.itemsize
        for stride, n in sorted((abs(stride), n) for n, stride in zip(self.shape, self.strides, strict=True) if n > 1):
            if stride < reach:
                return True
            reach += (n - 1) * stride
        return False

    def packed(self) -> tuple[int, ...]:
        """The strides that it would have in C order."""
        return packed_strides(self.shape, self.itemsize)


@dataclasses.dataclass
class Block:
    """Memory to store: an array in a type of the core, and the tensors that look at it."""

    #: The array to store.
    array: NDArray
    #: The core's name of its type.
    stored: str
    #: Its type: the same, or what it is in the guise of integers.
    dtype: str
    #: How it lies in memory if that is not C order: strides, offset of the first element, bytes in all.
    lies: tuple[tuple[int, ...], int, int] | None
    #: The places of its tensors in the state, and how many bytes behind the block's lowest each begins.
    offsets: dict[int, int]
    #: The tensor that it is, or the first of those that look at it.
    base: int


def packed_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of an array in C order."""
    strides, reach = [], itemsize
    for n in reversed(shape):
        strides.append(reach)
        reach *= max(n, 1)
    return tuple(reversed(strides))


def blocks(tensors: list[Seen]) -> list[Block]:
    """The memory of tensors, each byte once, in the order in which the state first mentions it."""
    found = [_alone(tensor, place) for place, tensor in enumerate(tensors) if tensor.size == 0]
    order = sorted((t.device, t.low, place) for place, t in enumerate(tensors) if t.size > 0)
    group: list[int] = []
    high = 0
    for device, low, place in order:
        if group and (tensors[group[0]].device != device or low >= high):
            found.append(_shared(tensors, group))
            group = []
        high = max(high, tensors[place].high) if group else tensors[place].high
        group.append(place)
    if group:
        found.append(_shared(tensors, group))
    return sorted(found, key=lambda block: min(block.offsets))


def _shared(tensors: list[Seen], group: list[int]) -> Block:
    members = {place: tensors[place] for place in sorted(group)}
    low, high = min(t.low for t in members.values()), max(t.high for t in members.values())
    offsets = {place: t.start - low for place, t in members.items()}

    def covers(tensor: Seen) -> bool:
        return tensor.size * tensor.itemsize == high - low and not tensor.overlaps_itself

    base = next((place for place, t in members.items() if covers(t)), None)
    if base is None and len(members) == 1:
        (only,) = members
        # A lone view with gaps: what is between its elements is nobody's.
        base = None if members[only].overlaps_itself else only
    if base is not None:
        chosen = members[base]
        lies = None if chosen.is_c_order else (chosen.strides, chosen.start - low, high - low)
        array, stored = bits(chosen)
        return Block(array, stored, chosen.dtype, lies, offsets, base)
    # torch counts offsets in elements from where a storage begins: whatever their size, they must come out even.
    first = next((t for t in members.values() if t.kind == "torch"), next(iter(members.values())))
    if first.kind == "torch":
        low -= (low - first.value.untyped_storage().data_ptr()) % 16
        offsets = {place: t.start - low for place, t in members.items()}
    is_even = all(t.dtype == first.dtype and (t.start - low) % t.itemsize == 0 for t in members.values())
    whole = _bytes_between(first, low, high)
    if not is_even or (high - low) % first.itemsize != 0:
        return Block(whole, "uint8", "uint8", None, offsets, min(members))
    stored = stored_name(first.dtype, first.itemsize)
    return Block(whole.view(_width(stored)), stored, first.dtype, None, offsets, min(members))


def _alone(tensor: Seen, place: int) -> Block:
    array, stored = bits(tensor)
    return Block(array, stored, tensor.dtype, None, {place: 0}, place)


def _bytes_between(tensor: Seen, low: int, high: int) -> NDArray:
    """The bytes of memory that a tensor looks at a part of."""
    if tensor.kind == "torch":
        torch = sys.modules["torch"]
        storage = tensor.value.untyped_storage()
        flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        begin = low - storage.data_ptr()
        found: NDArray = flat[begin : begin + high - low].cpu().numpy()
        return found
    holder = _Addressed(low, high - low, tensor.value)
    return np.asarray(holder)


class _Addressed:
    """Bytes at an address, for numpy; keeps whoever owns them."""

    def __init__(self, address: int, length: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (address, True), "shape": (length,), "typestr": "|u1", "version": 3}


def seen(value: Any, where: str) -> Seen | None:
    """What is known of a tensor; None for what is none. `where` names it in errors."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _seen_by_torch(torch, value, where)
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.Array):
        return _seen_by_numpy(np.asarray(value), "jax", where)
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise InvalidError(f"{where}: a masked array cannot be stored; fill it first with .filled(value)")
        return _seen_by_numpy(value, "numpy", where)
    if hasattr(value, "__dlpack__"):
        try:
            return _seen_by_numpy(np.from_dlpack(value), "numpy", where)
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            raise InvalidError(f"{where}: a {type(value).__name__} cannot be made an array: {error}") from error
    return None


def _seen_by_numpy(array: NDArray, kind: str, where: str) -> Seen:
    array = np.asarray(array)
    dtype = array.dtype
    if (dtype.itemsize in _GUISES and dtype.type.__module__.startswith("ml_dtypes")) or (dtype.kind in "biufc" and dtype.isnative and dtype.name in _dtypes.NAMES):
        name = dtype.name
    elif dtype.kind in "mM" or (dtype.kind in "iufc" and dtype.itemsize in _GUISES and not dtype.isnative):
        name = dtype.str
    else:
        raise InvalidError(f"{where}: an array of {dtype} cannot be stored")
    address = array.__array_interface__["data"][0]
    return Seen(kind, name, dtype.itemsize, array.shape, array.strides, "cpu", address, array)


def _seen_by_torch(torch: Any, value: Any, where: str) -> Seen:
    plain = (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter))
    if type(value) not in plain:
        hint = ""
        if type(value).__name__ in ("DTensor", "ShardedTensor"):
            hint = "; save it with torch.distributed.checkpoint and lacus.dcp, of which each rank writes its part"
        raise InvalidError(f"{where}: a tensor of type {type(value).__name__} cannot be stored{hint}")
    if value.device.type == "meta" or value.layout != torch.strided or value.is_quantized:
        what = "quantized" if value.is_quantized else f"{value.device.type}, {value.layout}"
        raise InvalidError(f"{where}: a torch tensor that is {what} cannot be stored")
    tensor = value.detach().resolve_conj().resolve_neg()
    itemsize = tensor.element_size()
    if itemsize not in _GUISES and tensor.dtype != torch.complex128:
        raise InvalidError(f"{where}: a torch tensor of {tensor.dtype} cannot be stored")
    strides = tuple(stride * itemsize for stride in tensor.stride())
    name = str(tensor.dtype).removeprefix("torch.")
    return Seen("torch", name, itemsize, tuple(tensor.shape), strides, str(tensor.device), tensor.data_ptr(), tensor)


def stored_name(dtype: str, itemsize: int) -> str:
    """The core's name of a type, or of the integers in whose guise it goes."""
    return dtype if dtype in _dtypes.NAMES else _GUISES[itemsize]


def _width(stored: str) -> np.dtype[Any]:
    """numpy's type with the bits of one of the core, which has bfloat16 as uint16."""
    return np.dtype("uint16" if stored == "bfloat16" else stored)


def bits(tensor: Seen) -> tuple[NDArray, str]:
    """The elements of a tensor as the native module takes them, over the same memory where that is this machine's."""
    stored = stored_name(tensor.dtype, tensor.itemsize)
    value = tensor.value
    if tensor.kind != "torch":
        return value.view(_width(stored)) if value.dtype != _width(stored) else value, stored
    return torch_bits(value.cpu(), stored), stored


def torch_bits(tensor: Any, stored: str) -> NDArray:
    """An array over the memory of a torch tensor on this machine, in a type of the core."""
    torch = sys.modules["torch"]
    if str(tensor.dtype).removeprefix("torch.") == stored and stored != "bfloat16":
        found: NDArray = tensor.numpy()
        return found
    signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    found = tensor.view(signed).numpy()
    return found.view(_width(stored))


def empty(length: int, for_torch: bool) -> tuple[Any, NDArray]:
    """New memory of so many bytes: torch's where a tensor of torch is to look at it, else numpy's; and an array over it."""
    torch = _torch() if for_torch else None
    if torch is None:
        made = np.empty(length, np.uint8)
        return made, made
    tensor = torch.empty(length, dtype=torch.uint8)
    return tensor, tensor.numpy()


def _torch() -> Any:
    """torch, or None where there is none."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def has_torch() -> bool:
    """Whether torch can be imported."""
    return _torch() is not None


def looking(
    memory: Any, kind: str, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int, what: str
) -> Any:
    """A tensor that looks at memory of :func:`empty`. Strides and offset are in bytes."""
    torch = _torch() if kind == "torch" else None
    if torch is not None and not isinstance(memory, np.ndarray):
        wanted = getattr(torch, dtype, None)
        if not isinstance(wanted, torch.dtype):
            raise InvalidError(f"{what} is {dtype}, which this version of torch does not have")
        size = wanted.itemsize
        lies = packed_strides(shape, size) if strides is None else strides
        storage = memory.untyped_storage()
        made = torch.empty(0, dtype=wanted, device=memory.device)
        return made.set_(storage, offset // size, shape, tuple(stride // size for stride in lies))
    found = numpy_type(dtype, what)
    if 0 in shape:
        return np.empty(shape, found)
    flat = memory if isinstance(memory, np.ndarray) else memory.numpy()
    array = np.ndarray(shape, found, buffer=flat, offset=offset, strides=strides)
    if kind == "jax" and (jax := _jax()) is not None:
        return jax.numpy.asarray(array)
    return array


def _jax() -> Any:
    try:
        return importlib.import_module("jax")
    except ImportError:
        return None


def numpy_type(dtype: str, what: str) -> np.dtype[Any]:
    """numpy's type of a name in a structure."""
    if dtype in _dtypes.NAMES and dtype != "bfloat16":
        return np.dtype(dtype)
    if dtype[:1] in "<>|=":
        return np.dtype(dtype)
    try:
        found: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), dtype))
        return found
    except (ImportError, AttributeError, TypeError) as error:
        raise InvalidError(f"{what} is {dtype}, which numpy does not have: install ml_dtypes, or torch") from error
