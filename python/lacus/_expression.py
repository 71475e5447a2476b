"""What is to be computed, as a graph: shapes and types are known when a node is made, elements are not.

A node holds a piece of text of the language of ``docs/algebra.md`` with places for its arguments; ``_program.py`` puts the
pieces together. The rules of types are the language's: bool, int64, float32, float64, and numbers written in Python take the
type of what they meet.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final

from . import _dtypes
from ._arrays import sizes
from .errors import InvalidError, OutOfBoundsError

Shape = tuple[int, ...]

BOOL: Final = "bool"
INT64: Final = "int64"
FLOAT32: Final = "float32"
FLOAT64: Final = "float64"

# How tightly pieces of text bind, as in the language.
OR, AND, NOT, COMPARE, ADD, MULTIPLY, NEGATE, POWER, ATOM = range(1, 10)

#: The stored types that are computed with, and as what.
COMPUTED: Final = {
    BOOL: BOOL,
    FLOAT32: FLOAT32,
    FLOAT64: FLOAT64,
    **{f"int{bits}": INT64 for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": INT64 for bits in (8, 16, 32)},
}

_LARGEST = 2**63 - 1
_MOST_AXES = 16

_BINARY: Final = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), COMPARE),
    **dict.fromkeys(("+", "-"), ADD),
    **dict.fromkeys(("*", "/", "//", "%"), MULTIPLY),
    "**": POWER,
}

_FLOATING: Final = ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "sigmoid")


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """An array that is not computed yet."""

    #: The text, with ``{0}``, ``{1}`` for the arguments. Of a source, how it is shown; of a statement, ``{out}`` is its name.
    form: str
    #: How tightly the text binds, and how tightly arguments must bind to stand there without parentheses.
    strength: int
    least: tuple[int, ...]
    args: tuple[Node, ...]
    dtype: str
    shape: Shape
    #: A number written by the caller, which takes the type of what it meets.
    weak: bool = False
    #: Whether it is a statement of its own, whose arguments are names.
    statement: bool = False
    #: How a statement is shown.
    label: str = ""
    #: Of what is loaded: where from.
    source: Any = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


# Leaves.


def loaded(source: Any, shown: str, stored_dtype: str, shape: Shape, what: str) -> Node:
    """What the caller has, or what is stored."""
    if stored_dtype not in COMPUTED:
        raise InvalidError(
            f"{what} is {stored_dtype}, which cannot be computed with; bool, int8 to int64, uint8 to uint32, "
            "float32 and float64 can: convert it to one of these first"
        )
    return Node(shown, ATOM, (), (), COMPUTED[stored_dtype], shape, source=source)


def literal(value: bool | int | float) -> Node:
    """A number of Python's own, which has no type of its own except that it is whole or not."""
    if isinstance(value, bool):
        return Node("true" if value else "false", ATOM, (), (), BOOL, ())
    if isinstance(value, int):
        if not -_LARGEST - 1 <= value <= _LARGEST:
            raise InvalidError(f"{value} does not fit int64")
        text = f"({-_LARGEST} - 1)" if value == -_LARGEST - 1 else str(value)
        text = f"({text})" if value < 0 and not text.startswith("(") else text
        return Node(text, ATOM, (), (), INT64, (), weak=True)
    if math.isnan(value):
        text = "(inf - inf)"
    else:
        text = "inf" if math.isinf(value) else repr(abs(value))
        text = f"(-{text})" if math.copysign(1, value) < 0 else text
    return Node(text, ATOM, (), (), FLOAT64, (), weak=True)


def strong(node: Node) -> Node:
    """The same, with its type for good."""
    return _call(node.dtype, (node,), node.dtype, node.shape) if node.weak else node


def filled(shape: Any, value: Node, what: str) -> Node:
    """An array of one number."""
    dims = checked_shape(shape, what)
    if value.shape:
        raise InvalidError(f"{what}: expected a single number, found shape {value.shape}")
    return Node(f"full([{_listed(dims)}], {{0}})", ATOM, (0,), (value,), value.dtype, dims)


def random(shape: Any, seed: Any) -> Node:
    """Numbers from [0, 1)."""
    dims = checked_shape(shape, "random")
    try:
        number = operator.index(seed)
    except TypeError as error:
        raise InvalidError(f"random: the seed must be a whole number, found {seed!r}") from error
    if not 0 <= number <= _LARGEST:
        raise InvalidError(f"random: the seed must be from 0 to 2**63 - 1, found {number}")
    return Node(f"random([{_listed(dims)}], {number})", ATOM, (), (), FLOAT64, dims)


# Elements.


def unary(name: str, a: Node) -> Node:
    """``-``, ``not`` or a function of one element."""
    if name == "not":
        if a.dtype != BOOL:
            raise TypeError(f"~ is for bools, found {described(a)}")
        return Node("not {0}", NOT, (NOT,), (a,), BOOL, a.shape)
    dtype = _float(a.dtype) if name in _FLOATING else number(a.dtype)
    if name == "-":
        return Node("-{0}", NEGATE, (ATOM,), (a,), dtype, a.shape)
    return _call(name, (strong(a),), dtype, a.shape)


def binary(name: str, a: Node, b: Node) -> Node:
    """An operator on two elements."""
    if a.weak and b.weak:
        a = strong(a)
    if name in ("and", "or"):
        for side in (a, b):
            if side.dtype != BOOL:
                raise TypeError(f"{'&' if name == 'and' else '|'} is for bools, found {described(side)}")
    shape = broadcast((a, b), f"`{name}`")
    dtype = common(a, b)
    own = _BINARY[name]
    if own == COMPARE:
        dtype, least = BOOL, (own + 1, own + 1)
    elif name == "**":
        dtype, least = _float(dtype), (ATOM, ATOM)
    else:
        least = (own, own + 1)
        dtype = _float(dtype) if name == "/" else dtype if name in ("and", "or") else number(dtype)
    return Node(f"{{0}} {name} {{1}}", own, least, (a, b), dtype, shape)


def least_of(name: str, a: Node, b: Node) -> Node:
    """The smaller (``min``) or larger (``max``) of two elements."""
    if a.weak and b.weak:
        a = strong(a)
    return _call(name, (a, b), common(a, b), broadcast((a, b), f"{name}imum"))


def where(c: Node, a: Node, b: Node) -> Node:
    """One or the other."""
    if a.weak and b.weak:
        a = strong(a)
    return _call("where", (truth(c), a, b), common(a, b), broadcast((c, a, b), "where"))


def truth(a: Node) -> Node:
    """Whether elements are other than zero."""
    return a if a.dtype == BOOL else binary("!=", a, literal(0))


def clipped(a: Node, low: Node | None, high: Node | None) -> Node:
    """What is below one number or above another becomes that."""
    if low is not None:
        a = least_of("max", a, low)
    return a if high is None else least_of("min", a, high)


def rounded(a: Node, decimals: int) -> Node:
    """The nearest number with so many digits after the point; of two the one that ends evenly."""
    if a.dtype in (BOOL, INT64):
        if decimals < 0:
            raise InvalidError(f"round: decimals={decimals} of integers is not supported; convert them to float64 first")
        return converted(a, INT64)
    if decimals == 0:
        return unary("round", a)
    scale = literal(10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf)
    there, back = ("*", "/") if decimals > 0 else ("/", "*")
    return binary(back, unary("round", binary(there, a, scale)), scale)


def converted(a: Node, dtype: str) -> Node:
    """The same elements in another type."""
    return a if a.dtype == dtype and not a.weak else _call(dtype, (a,), dtype, a.shape)


# Whole arrays.


def matmul(a: Node, b: Node) -> Node:
    """numpy's ``matmul``."""
    if not a.shape or not b.shape:
        raise InvalidError("`@`: both sides need at least one axis; use * for a single number")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise InvalidError(f"`@`: lhs {a.shape} and rhs {b.shape} disagree on the inner axis")
    batch = broadcast_shapes((a.shape[:-2], b.shape[:-2]), "`@`")
    shape = batch + (a.shape[-2:-1] if a.ndim > 1 else ()) + (b.shape[-1:] if b.ndim > 1 else ())
    return Node("{0} @ {1}", MULTIPLY, (MULTIPLY, MULTIPLY + 1), (a, b), number(common(a, b)), shape)


def reduced(name: str, a: Node, axis: Any, keepdims: bool) -> Node:
    """``sum``, ``prod``, ``min``, ``max``, ``any``, ``all`` over one axis, several, or all."""
    over = axes(axis, a.ndim, name)
    if name in ("any", "all"):
        a = truth(a)
    if name in ("min", "max") and 0 in (a.shape[k] for k in over):
        raise InvalidError(f"{name}: an array of shape {a.shape} has no elements to choose from")
    dtype = INT64 if name in ("sum", "prod") and a.dtype == BOOL else a.dtype
    if not over and a.ndim:
        return converted(a, dtype)
    kept = tuple(n for k, n in enumerate(a.shape) if k not in over)
    by = "" if not kept and len(over) == a.ndim else f", axis=[{_listed(over)}]"
    made = Node(f"{name}({{0}}{by})", ATOM, (0,), (a,), dtype, kept)
    return with_axes(made, over) if keepdims else made


def mean(a: Node, axis: Any, keepdims: bool) -> Node:
    """The mean."""
    count = math.prod(a.shape[k] for k in axes(axis, a.ndim, "mean"))
    # As numpy does: sums of integers could be too large for one.
    a = converted(a, FLOAT64) if a.dtype in (INT64, BOOL) else a
    return binary("/", reduced("sum", a, axis, keepdims), literal(count))


def variance(a: Node, axis: Any, ddof: float, keepdims: bool) -> Node:
    """The mean of squared distances from the mean."""
    count = math.prod(a.shape[k] for k in axes(axis, a.ndim, "var"))
    try:
        fewer = max(count - float(ddof), 0.0)
    except (TypeError, ValueError) as error:
        raise InvalidError(f"var: ddof must be a number, found {ddof!r}") from error
    away = binary("-", a, mean(a, axis, True))
    total = reduced("sum", binary("*", away, away), axis, keepdims)
    return binary("/", total, literal(fewer))


def extreme_place(name: str, a: Node, axis: Any, keepdims: bool) -> Node:
    """The place of the first smallest (``argmin``) or largest (``argmax``) element; without an axis, in C order."""
    if not (axis is None or isinstance(axis, int) or hasattr(axis, "__index__")):
        raise InvalidError(f"{name}: axis must be one number or None, found {axis!r}")
    over = axes(axis, a.ndim, name)
    if 0 in (a.shape[k] for k in over):
        raise InvalidError(f"{name}: an array of shape {a.shape} has no elements to choose from")
    a = strong(a)
    if not a.shape:
        return literal_of(INT64, 0)
    best = reduced(name[3:], a, axis, False)
    indices = [f"i{k}" for k in range(a.ndim)]
    kept = [k for k in range(a.ndim) if k not in over]
    place, scale = [], 1
    for k in reversed(over):
        place.append(indices[k] if scale == 1 else f"{scale}*{indices[k]}")
        scale *= a.shape[k]
    element = f"{{0}}[{', '.join(indices)}]"
    found = f"{element} == {{1}}" + (f"[{', '.join(indices[k] for k in kept)}]" if kept else "")
    if a.dtype in (FLOAT32, FLOAT64):
        # The extreme of what has a NaN is NaN, which equals nothing: its place is that of the first.
        found += f" or {element} != {element}"
    form = f"{{out}}[{', '.join(indices[k] for k in kept)}] min= where({found}, {' + '.join(reversed(place))}, {scale})"
    shape = tuple(a.shape[k] for k in kept)
    made = Node(form, ATOM, (ATOM, ATOM), (a, best), INT64, shape, statement=True, label=f"{name}({{0}})")
    return with_axes(made, over) if keepdims else made


def literal_of(dtype: str, value: bool | int | float) -> Node:
    """A number of a type."""
    node = literal(value)
    return node if node.dtype == dtype and not node.weak else _call(dtype, (node,), dtype, ())


def transposed(a: Node, order: Sequence[int] | None) -> Node:
    """Axes in another order; by default reversed."""
    if order is None:
        if a.ndim < 2:
            return a
        return Node("transpose({0})", ATOM, (0,), (a,), a.dtype, a.shape[::-1])
    new = axes(tuple(order), a.ndim, "transpose")
    if len(new) != a.ndim:
        raise InvalidError(f"transpose: {a.ndim} axes are expected for shape {a.shape}, found {len(new)}")
    wanted = tuple(operator.index(k) % a.ndim for k in order)
    if wanted == tuple(range(a.ndim)):
        return a
    shape = tuple(a.shape[k] for k in wanted)
    return Node(f"transpose({{0}}, [{_listed(wanted)}])", ATOM, (0,), (a,), a.dtype, shape)


def indexed(a: Node, key: Any) -> Node:
    """numpy's basic indexing: integers, slices, ``...`` and ``None``."""
    items = list(key) if isinstance(key, tuple) else [key]
    for item in items:
        if isinstance(item, bool) or not (item is None or item is ... or isinstance(item, slice) or _is_whole(item)):
            raise InvalidError(
                f"a lazy array is indexed by integers, slices, ... and None, not by {type(item).__name__}; "
                "where(mask, a, b) chooses by a mask, and a stored tensor can be indexed by lists before it is lazy"
            )
    if sum(item is ... for item in items) > 1:
        raise OutOfBoundsError("an index can only have a single ellipsis ('...')")
    used = sum(item is not None and item is not ... for item in items)
    if used > a.ndim:
        raise OutOfBoundsError(f"too many indices: an array of shape {a.shape} has {a.ndim} axes, found {used}")
    if ... not in items:
        items.append(...)
    at = next(k for k, item in enumerate(items) if item is ...)
    items[at : at + 1] = [slice(None)] * (a.ndim - used)
    texts, shape, axis = [], [], 0
    for item in items:
        if item is None:
            texts.append("None")
            shape.append(1)
            continue
        extent = a.shape[axis]
        if isinstance(item, slice):
            text, count = _range(item, extent)
            texts.append(text)
            shape.append(count)
        else:
            place = operator.index(item)
            if not -extent <= place < extent:
                raise OutOfBoundsError(f"index {place} is out of bounds for axis {axis} with size {extent}")
            texts.append(str(place % extent))
        axis += 1
    while texts and texts[-1] == ":":
        texts.pop()
    if not texts:
        return a
    return _sliced(a, texts, tuple(shape))


def axes(axis: Any, ndim: int, what: str) -> Shape:
    """Axes from zero up, in order; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    found: set[int] = set()
    for item in axis if isinstance(axis, (tuple, list)) else (axis,):
        try:
            place = operator.index(item)
        except TypeError as error:
            raise InvalidError(f"{what}: an axis is a whole number, found {item!r}") from error
        if not -ndim <= place < ndim:
            raise OutOfBoundsError(f"{what}: axis {place} is out of bounds for an array of {ndim} axes")
        if place % ndim in found:
            raise InvalidError(f"{what}: axis {place} is given twice")
        found.add(place % ndim)
    return tuple(sorted(found))


def checked_shape(shape: Any, what: str) -> Shape:
    """A shape that an array can have."""
    dims = sizes(shape, f"{what}: shape")
    if len(dims) > _MOST_AXES:
        raise InvalidError(f"{what}: shape {dims} has more than {_MOST_AXES} axes")
    if math.prod(max(size, 1) for size in dims) > _LARGEST:
        raise InvalidError(f"{what}: shape {dims} has too many elements")
    return dims


def broadcast(nodes: Iterable[Node], what: str) -> Shape:
    """The shape that several have together."""
    return broadcast_shapes([node.shape for node in nodes], what)


def broadcast_shapes(shapes: Sequence[Shape], what: str) -> Shape:
    """The same of shapes."""
    ndim = max(map(len, shapes))
    found = []
    for place in range(-ndim, 0):
        extents = {shape[place] for shape in shapes if len(shape) >= -place} - {1}
        if len(extents) > 1:
            told = " and ".join(str(shape) for shape in dict.fromkeys(shapes))
            raise InvalidError(f"{what}: shapes {told} do not broadcast")
        found.append(extents.pop() if extents else 1)
    return tuple(found)


def common(*nodes: Node) -> str:
    """The type that several promote to."""
    found = (nodes[0].dtype, nodes[0].weak)
    for node in nodes[1:]:
        found = promoted(found, (node.dtype, node.weak)), found[1] and node.weak
    return found[0]


def described(node: Node) -> str:
    """A type and shape for messages."""
    return f"{node.dtype} of shape {node.shape}" if node.shape else f"a single {node.dtype}"


def parse_dtype(dtype: Any, what: str) -> str:
    """One of the four types that are computed with."""
    name = _dtypes.parse(dtype, what)
    if name not in (BOOL, INT64, FLOAT32, FLOAT64):
        raise InvalidError(f"{what}: {name} is not computed with; bool, int64, float32 and float64 are")
    return name


_KINDS: Final = {BOOL: 0, INT64: 1, FLOAT32: 2, FLOAT64: 2}


def promoted(a: tuple[str, bool], b: tuple[str, bool]) -> str:
    if a[0] == b[0]:
        return a[0]
    if a[1] and not b[1] and _KINDS[a[0]] <= _KINDS[b[0]]:
        return b[0]
    if b[1] and not a[1] and _KINDS[b[0]] <= _KINDS[a[0]]:
        return a[0]
    if BOOL in (a[0], b[0]):
        return b[0] if a[0] == BOOL else a[0]
    return FLOAT64


def _float(dtype: str) -> str:
    return FLOAT32 if dtype == FLOAT32 else FLOAT64


def number(dtype: str) -> str:
    return INT64 if dtype == BOOL else dtype


def _call(name: str, args: tuple[Node, ...], dtype: str, shape: Shape) -> Node:
    places = ", ".join(f"{{{k}}}" for k in range(len(args)))
    return Node(f"{name}({places})", ATOM, (0,) * len(args), args, dtype, shape)


def _sliced(a: Node, texts: Sequence[str], shape: Shape) -> Node:
    if len(shape) > _MOST_AXES:
        raise InvalidError(f"a shape of {len(shape)} axes has more than {_MOST_AXES}")
    return Node(f"{{0}}[{', '.join(texts)}]", ATOM, (ATOM,), (a,), a.dtype, shape)


def with_axes(a: Node, places: Sequence[int]) -> Node:
    """With new axes of extent 1 at these places of the result."""
    rest = iter(a.shape)
    shape = tuple(1 if k in places else next(rest) for k in range(a.ndim + len(places)))
    return _sliced(a, ["None" if k in places else ":" for k in range(len(shape))], shape) if places else a


def _range(item: slice, extent: int) -> tuple[str, int]:
    """A slice as text, and how many it takes."""
    try:
        start, stop, step = item.indices(extent)
    except TypeError as error:
        raise InvalidError(f"slice indices must be integers or None, found {item}") from error
    except ValueError as error:
        raise InvalidError("slice step cannot be zero") from error
    count = len(range(start, stop, step))
    if count == 0:
        return "0:0", 0
    if step == 1:
        return (":" if count == extent else f"{start}:{stop}"), count
    # Before the first place there is no number that means it: what is negative counts from the end.
    return f"{start}:{stop if stop >= 0 else ''}:{step}", count


def _is_whole(item: Any) -> bool:
    return isinstance(item, int) or (hasattr(item, "__index__") and getattr(item, "ndim", 0) == 0)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
