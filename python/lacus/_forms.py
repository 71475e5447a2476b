"""The same elements in other places: joined, split, padded, along a diagonal; and arrays whose elements follow from their places.

What numpy does by moving memory is a statement with indices here, whose extents are told: ``C[i in 0..7] = where(i < 3, A[i],
B[i - 3])``.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._expression import (
    ATOM,
    FLOAT64,
    INT64,
    Node,
    Shape,
    axes,
    broadcast_shapes,
    checked_shape,
    common,
    converted,
    filled,
    indexed,
    literal_of,
    strong,
    transposed,
    with_axes,
)
from .errors import InvalidError

#: Arrays that are joined at once: a step of it has a tile of each.
_JOINED = 8

#: How far an axis goes, at most, that is joined with the next one.
_MERGED = 64


def reshaped(a: Node, shape: Any) -> Node:
    """The same elements in the same order, with other axes."""
    wanted = [whole(n, "reshape: an extent") for n in (shape if hasattr(shape, "__iter__") else (shape,))]
    told = tuple(wanted)
    if wanted.count(-1) > 1:
        raise InvalidError(f"reshape: {told} has more than one unknown extent")
    if -1 in wanted:
        rest = -math.prod(wanted)
        if not rest:
            raise InvalidError(f"reshape: what -1 stands for in {told} does not follow")
        wanted[wanted.index(-1)] = a.size // rest
    new = checked_shape(wanted, "reshape")
    if math.prod(new) != a.size:
        raise InvalidError(f"reshape: an array of shape {a.shape} has no shape {told}")
    if a.size == 0:
        return filled(new, literal_of(a.dtype, 0), "reshape")
    flat = squeezed(a, None)
    wide = tuple(n for n in new if n != 1)
    parts = _common_parts(flat.shape, wide)
    if parts is None:
        raise TypeError(
            f"reshape from {a.shape} to {told} is not supported on lazy arrays: their axes have no parts in common"
        )
    flat = _split(flat, parts, told)
    for at, extent in enumerate(wide):
        while flat.shape[at] != extent:
            flat = _merged(flat, at, told)
    return with_axes(flat, [k for k, n in enumerate(new) if n == 1])


def _common_parts(a: Shape, b: Shape) -> Shape | None:
    """The fewest extents that both shapes are products of, in order."""
    steps: set[int] = set()
    for shape in (a, b):
        steps.update(itertools.accumulate(reversed(shape), operator.mul))
    parts, before = [], 1
    for step in sorted(steps):
        if step % before:
            return None
        parts.append(step // before)
        before = step
    return tuple(reversed(parts))


def _split(a: Node, parts: Shape, told: Shape) -> Node:
    """With several axes for one, the last of them being the fastest."""
    if parts == a.shape:
        return a
    indices = [(f"i{k}", n) for k, n in enumerate(parts)]
    rest, positions = iter(indices), []
    for extent in a.shape:
        own: list[tuple[str, int]] = []
        while math.prod(n for _, n in own) < extent:
            own.append(next(rest))
        positions.append(_position(own))
    return _statement(indices, f"{{0}}[{', '.join(positions)}]", (a,), a.dtype, f"reshape({{0}}, {told})")


def _merged(a: Node, at: int, told: Shape) -> Node:
    """With one axis for two: places along it are no sums of places along both, so it is made of one part for each place
    along the first."""
    count = a.shape[at]
    if count > _MERGED:
        raise TypeError(
            f"reshape to {told} is not supported on lazy arrays: an axis of extent {count} would be joined with the next, "
            f"and only those of up to {_MERGED} can be"
        )
    before = (slice(None),) * at
    return joined([indexed(a, (*before, k)) for k in range(count)], at, "reshape")


def _position(parts: Sequence[tuple[str, int]]) -> str:
    """A place along an axis, by places along its parts."""
    terms, scale = [], 1
    for index, extent in reversed(parts):
        terms.append(index if scale == 1 else f"{scale}*{index}")
        scale *= extent
    return " + ".join(reversed(terms))


def squeezed(a: Node, axis: Any) -> Node:
    """Without axes of extent 1: these, or all."""
    over = axes(axis, a.ndim, "squeeze") if axis is not None else [k for k, n in enumerate(a.shape) if n == 1]
    for k in over:
        if a.shape[k] != 1:
            raise InvalidError(f"squeeze: axis {k} of shape {a.shape} has extent {a.shape[k]}")
    return indexed(a, tuple(0 if k in over else slice(None) for k in range(a.ndim)))


def expanded(a: Node, axis: Any) -> Node:
    """With new axes of extent 1 at these places of the result."""
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    return with_axes(a, axes(tuple(places), a.ndim + len(places), "expand_dims"))


def moved(a: Node, source: Any, destination: Any) -> Node:
    """Some axes at other places, the others in order."""
    listed = [tuple(k if isinstance(k, (tuple, list)) else (k,)) for k in (source, destination)]
    for places in listed:
        axes(places, a.ndim, "moveaxis")
    here, there = ([operator.index(k) % a.ndim for k in places] for places in listed)
    if len(here) != len(there):
        raise InvalidError(f"moveaxis: {len(here)} axes cannot go to {len(there)} places")
    rest = iter(k for k in range(a.ndim) if k not in here)
    return transposed(a, [here[there.index(k)] if k in there else next(rest) for k in range(a.ndim)])


def swapped(a: Node, first: Any, second: Any) -> Node:
    """Two axes in each other's place."""
    ((one,), (other,)) = (axes((axis,), a.ndim, "swapaxes") for axis in (first, second))
    order = list(range(a.ndim))
    order[one], order[other] = other, one
    return transposed(a, order)


def joined(arrays: Sequence[Node], axis: Any, what: str) -> Node:
    """Arrays one after another along an axis."""
    nodes = [strong(node) for node in arrays]
    if not nodes:
        raise InvalidError(f"{what}: there is nothing to join")
    first = nodes[0]
    if not first.ndim:
        raise InvalidError(f"{what}: arrays without axes cannot be joined")
    (along,) = axes((axis,), first.ndim, what)
    for node in nodes:
        if node.ndim != first.ndim or any(
            n != m for k, (n, m) in enumerate(zip(node.shape, first.shape, strict=True)) if k != along
        ):
            raise InvalidError(f"{what}: shapes {first.shape} and {node.shape} differ in more than axis {along}")
    dtype = common(*nodes)
    parts = [converted(node, dtype) for node in nodes if node.shape[along]] or [converted(first, dtype)]
    while len(parts) > 1:
        parts = [_joined(parts[k : k + _JOINED], along) for k in range(0, len(parts), _JOINED)]
    return parts[0]


def _joined(parts: Sequence[Node], along: int) -> Node:
    if len(parts) == 1:
        return parts[0]
    starts = [sum(node.shape[along] for node in parts[:k]) for k in range(len(parts) + 1)]
    extents = [(f"i{k}", n) for k, n in enumerate(parts[0].shape)]
    extents[along] = (f"i{along}", starts[-1])

    def chosen(low: int, high: int) -> str:
        if high - low == 1:
            places = [index for index, _ in extents]
            places[along] += f" - {starts[low]}" if starts[low] else ""
            return f"{{{low}}}[{', '.join(places)}]"
        middle = (low + high) // 2
        return f"where(i{along} < {starts[middle]}, {chosen(low, middle)}, {chosen(middle, high)})"

    label = f"concatenate({', '.join(f'{{{k}}}' for k in range(len(parts)))})"
    return _statement(extents, chosen(0, len(parts)), tuple(parts), parts[0].dtype, label)


def stacked(arrays: Sequence[Node], axis: Any) -> Node:
    """Arrays of one shape along a new axis."""
    for node in arrays:
        if node.shape != arrays[0].shape:
            raise InvalidError(f"stack: shapes {arrays[0].shape} and {node.shape} differ")
    place = axes((axis,), arrays[0].ndim + 1, "stack") if arrays else (0,)
    return joined([with_axes(strong(node), place) for node in arrays], place[0], "stack")


def padded(a: Node, widths: Any, value: Node) -> Node:
    """With so many elements more before and after, all of one number."""
    around = _widths(widths, a.ndim)
    if value.shape:
        raise InvalidError(f"pad: expected a single number to pad with, found shape {value.shape}")
    shape = checked_shape([n + sum(pair) for n, pair in zip(a.shape, around, strict=True)], "pad")
    a, value = strong(a), converted(value, a.dtype)
    if a.size == 0:
        return filled(shape, value, "pad")
    conditions, places = [], []
    for k, (before, after) in enumerate(around):
        conditions += [f"i{k} >= {before}"] * bool(before) + [f"i{k} < {before + a.shape[k]}"] * bool(after)
        places.append(f"i{k} - {before}" if before else f"i{k}")
    if not conditions:
        return a
    body = f"where({' and '.join(conditions)}, {{0}}[{', '.join(places)}], {{1}})"
    extents = [(f"i{k}", n) for k, n in enumerate(shape)]
    return _statement(extents, body, (a, value), a.dtype, "pad({0})")


def _widths(widths: Any, ndim: int) -> list[tuple[int, int]]:
    """``n``, ``(before, after)`` or one such pair for each axis, as numpy takes them."""
    try:
        found = np.broadcast_to(np.asarray(widths), (ndim, 2))
    except ValueError as error:
        raise InvalidError(f"pad: {widths!r} does not fit an array of {ndim} axes") from error
    if found.dtype.kind not in "iu" or (found < 0).any():
        raise InvalidError(f"pad: expected whole numbers from 0, found {widths!r}")
    return [(int(before), int(after)) for before, after in found]


def diagonal(a: Node, offset: int) -> Node:
    """Elements of the first two axes at equal places, as the last axis of the result."""
    if a.ndim < 2:
        raise InvalidError(f"diagonal: an array of shape {a.shape} has no two axes")
    offset = _offset(offset, "diagonal", a.shape[0], a.shape[1])
    down, right = max(-offset, 0), max(offset, 0)
    count = max(min(a.shape[0] - down, a.shape[1] - right), 0)
    rest = [(f"i{k}", n) for k, n in enumerate(a.shape) if k >= 2]
    places = [f"d + {down}" if down else "d", f"d + {right}" if right else "d", *(index for index, _ in rest)]
    return _statement([*rest, ("d", count)], f"{{0}}[{', '.join(places)}]", (strong(a),), a.dtype, "diagonal({0})")


def on_diagonal(a: Node, offset: int) -> Node:
    """A matrix with the elements of a vector along a diagonal, and zeros elsewhere."""
    offset = whole(offset, "diag: k")
    down, right = max(-offset, 0), max(offset, 0)
    (side,) = checked_shape((a.shape[0] + down + right,), "diag")
    row = f"i0 - {down}" if down else "i0"
    inside = f"i1 == i0 + {offset}" if offset >= 0 else f"i1 + {-offset} == i0"
    body = f"where({inside} and i0 >= {down} and i0 < {down + a.shape[0]}, {{0}}[{row}], {{1}})"
    args = (strong(a), literal_of(a.dtype, 0))
    return _statement([("i0", side), ("i1", side)], body, args, a.dtype, "diag({0})")


def triangle(a: Node, offset: int, is_lower: bool) -> Node:
    """Zeros above or below a diagonal of the last two axes."""
    name = "tril" if is_lower else "triu"
    if a.ndim < 2:
        raise InvalidError(f"{name}: an array of shape {a.shape} has no two axes")
    extents = [(f"i{k}", n) for k, n in enumerate(a.shape)]
    row, column = extents[-2][0], extents[-1][0]
    condition = f"{column} {'<=' if is_lower else '>='} {row} + {_offset(offset, name, *a.shape[-2:])}"
    body = f"where({condition}, {{0}}[{', '.join(index for index, _ in extents)}], {{1}})"
    return _statement(extents, body, (strong(a), literal_of(a.dtype, 0)), a.dtype, f"{name}({{0}})")


def broadcast_to(a: Node, shape: Any) -> Node:
    """Repeated along new axes, and along those of extent 1."""
    new = checked_shape(shape, "broadcast_to")
    if broadcast_shapes((a.shape, new), "broadcast_to") != new:
        raise InvalidError(f"broadcast_to: an array of shape {a.shape} has no shape {new}")
    if a.shape == new:
        return a
    if 0 in new:
        return filled(new, literal_of(a.dtype, 0), "broadcast_to")
    extents = [(f"i{k}", n) for k, n in enumerate(new)]
    own = extents[len(new) - a.ndim :]
    places = ["0" if n == 1 else index for (index, _), n in zip(own, a.shape, strict=True)]
    body = f"{{0}}[{', '.join(places)}]" if places else "{0}"
    return _statement(extents, body, (strong(a),), a.dtype, f"broadcast_to({{0}}, {new})")


def counted(start: Any, stop: Any, step: Any, dtype: str | None) -> Node:
    """Numbers from `start` up to `stop`, which is not among them, each `step` after the one before."""
    ends = (start, stop, step)
    are_whole = all(hasattr(n, "__index__") for n in ends)
    if not are_whole and not all(hasattr(n, "__float__") for n in ends):
        raise InvalidError(f"arange: expected numbers, found {start!r}, {stop!r}, {step!r}")
    first, end, each = (operator.index(n) if are_whole else float(n) for n in ends)
    if each == 0 or not (are_whole or all(map(math.isfinite, (first, end, each)))):
        raise InvalidError("arange: the numbers must be finite, and the step not zero")
    span = -((first - end) // each) if are_whole else (end - first) / each
    # A span may be infinite; so many are refused.
    (count,) = checked_shape((math.ceil(min(max(span, 0), 2**63)),), "arange")
    natural = INT64 if are_whole else FLOAT64
    values = (literal_of(natural, first), literal_of(natural, each))
    made = _statement([("i", count)], "{0} + i * {1}", values, natural, f"arange({start}, {stop}, {step})")
    return converted(made, dtype or natural)


def identity(rows: Any, columns: Any, offset: int, dtype: str) -> Node:
    """Ones along a diagonal."""
    shape = checked_shape((rows, rows if columns is None else columns), "eye")
    values = (literal_of(dtype, 1), literal_of(dtype, 0))
    body = f"where(i1 == i0 + {_offset(offset, 'eye', *shape)}, {{0}}, {{1}})"
    return _statement([("i0", shape[0]), ("i1", shape[1])], body, values, dtype, f"eye({shape[0]}, {shape[1]})")


def whole(value: Any, what: str) -> int:
    """A whole number of Python's or numpy's."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise InvalidError(f"{what} must be a whole number, found {value!r}") from error


def _offset(value: Any, what: str, rows: int, columns: int) -> int:
    """Which diagonal is meant; all that are outside of a matrix are the same."""
    return max(min(whole(value, f"{what}: k"), columns), -rows)


def _statement(
    extents: Sequence[tuple[str, int]], body: str, args: tuple[Node, ...], dtype: str, label: str
) -> Node:
    """A statement over indices and their extents."""
    shape: Shape = checked_shape([n for _, n in extents], "the result")
    left = ", ".join(f"{index} in 0..{n}" for index, n in extents)
    return Node(f"{{out}}[{left}] = {body}", ATOM, (ATOM,) * len(args), args, dtype, shape, statement=True, label=label)
