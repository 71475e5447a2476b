"""How far weights moved between two steps of a checkpoint: norms, the largest change and a histogram of each tensor, as text and as a plot.

>>> report = lacus.compare_checkpoints("run", 1000, 2000)
>>> print(report)
>>> report["model/head.weight"].relative
>>> report.plot("moved.svg")
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import _blocks, checkpoint
from ._arrays import NDArray
from ._guard import guarded
from .dataset import Dataset, StorageOptions, Url, _absolute
from .errors import InvalidError, NotFoundError

__all__ = ["Comparison", "TensorChange", "compare_checkpoints"]

#: Elements compared at a time: bounds the memory, whatever the size of a tensor.
_AT_ONCE = 1 << 22

#: The edges of the histogram, by powers of ten of the size of a change.
EDGES = tuple(10.0**power for power in range(-9, 2))

#: Rows that text and plots show.
_SHOWN = 40


@dataclasses.dataclass(frozen=True)
class TensorChange:
    """How far one tensor moved."""

    name: str
    #: ``"same"``, ``"changed"``, ``"added"``, ``"removed"``, or ``"reshaped"`` if shape or type differ, so that there is no difference.
    fate: str
    shape: tuple[int, ...]
    dtype: str
    #: The Euclidean norm before, and of the difference. None where there is no difference.
    norm: float | None = None
    moved: float | None = None
    #: The largest change of an element.
    largest: float | None = None
    #: How many elements changed.
    changed: int = 0
    #: How many of those changed by less than 1e-9, from there to 1e-8, and so on up to 10 and more; see ``EDGES``.
    histogram: tuple[int, ...] = ()
    #: Elements that are NaN or infinite in one of the two, which count nowhere above.
    not_finite: int = 0

    @property
    def relative(self) -> float | None:
        """The norm of the difference as a share of the norm before; None without one of them."""
        return None if self.moved is None or not self.norm else self.moved / self.norm


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What differs between two steps, tensor by tensor: those that moved furthest, relative to their norm, come first."""

    before: str
    after: str
    tensors: list[TensorChange]

    def __getitem__(self, name: str) -> TensorChange:
        for found in self.tensors:
            if found.name == name:
                return found
        raise NotFoundError(f"no tensor {name!r} in either step")

    def __iter__(self) -> Iterator[TensorChange]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __repr__(self) -> str:
        counts: dict[str, int] = {}
        for found in self.tensors:
            counts[found.fate] = counts.get(found.fate, 0) + 1
        head = ", ".join(f"{count:,} {fate}" for fate, count in sorted(counts.items()))
        lines = [f"<lacus.Comparison of {self.before} and {self.after}: {head or 'no tensors'}>"]
        told = [found for found in self.tensors if found.fate != "same"]
        width = max((len(found.name) for found in told[:_SHOWN]), default=0)
        for found in told[:_SHOWN]:
            if found.moved is None:
                lines.append(f"  {found.name:{width}}  {found.fate}: {found.dtype} {found.shape}")
                continue
            share = "" if found.relative is None else f"{found.relative:9.2%}  "
            lines.append(
                f"  {found.name:{width}}  {share:11}moved {found.moved:.4g}, norm {found.norm:.4g}, "
                f"largest {found.largest:.4g}, {found.changed:,} changed  {_bars(found.histogram)}"
            )
        if len(told) > _SHOWN:
            lines.append(f"  … and {len(told) - _SHOWN:,} more")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "before": self.before,
            "after": self.after,
            "edges": list(EDGES),
            "tensors": [{**dataclasses.asdict(found), "relative": found.relative} for found in self.tensors],
        }

    def svg(self) -> str:
        """A plot: of each tensor that changed, how far it moved, and the histogram of its changes."""
        told = [found for found in self.tensors if found.moved is not None and found.fate == "changed"][:_SHOWN]
        row, left, bar, cell = 18, 260, 240, 14
        top = max((found.relative or 0.0 for found in told), default=0.0) or 1.0
        width, height = left + bar + 40 + cell * (len(EDGES) + 1) + 20, 60 + row * max(len(told), 1)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<text x="10" y="20" font-size="13">{html.escape(f"{self.before} → {self.after}: change relative to the norm")}</text>',
            f'<text x="{left + bar + 40}" y="40">size of changes, 1e-9 … 10</text>',
        ]
        for place, found in enumerate(told):
            y = 50 + place * row
            share = found.relative or 0.0
            name = found.name if len(found.name) <= 40 else f"…{found.name[-39:]}"
            parts.append(f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{html.escape(name)}</text>')
            parts.append(f'<rect x="{left}" y="{y + 2}" width="{bar * share / top:.1f}" height="{row - 6}" fill="#4477aa"/>')
            parts.append(f'<text x="{left + bar * share / top + 4:.1f}" y="{y + 11}" fill="#555">{share:.2%}</text>')
            most = max(found.histogram, default=0) or 1
            for at, count in enumerate(found.histogram):
                parts.append(
                    f'<rect x="{left + bar + 40 + at * cell}" y="{y + 2}" width="{cell - 1}" height="{row - 6}" '
                    f'fill="#aa3377" fill-opacity="{count / most:.3f}" stroke="#ddd"/>'
                )
        if not told:
            parts.append('<text x="10" y="60">no tensor changed</text>')
        return "\n".join([*parts, "</svg>\n"])

    def plot(self, path: Url) -> None:
        """Writes :meth:`svg` to a file."""
        Path(path).write_text(self.svg(), encoding="utf-8")


@guarded
def compare_checkpoints(
    url: Url, before: int | str, after: int | str | None = None, *, storage_options: StorageOptions | None = None
) -> Comparison:
    """Compares the tensors of two steps.

    Args:
        url: the checkpoints.
        before: the number of the earlier step, or any state of the dataset, such as a tag or commit.
        after: the later one; by default the newest.
        storage_options: see :func:`lacus.create`.

    Tensors that both steps have in the same files are known to be the same without being read.
    """
    location = _absolute(url)
    old, new = (_state_of(location, ref, storage_options) for ref in (before, after))
    known = [{facts["name"]: facts for facts in checkpoint.structure(ds, location).get("blocks", ())} for ds in (old, new)]
    found = []
    for name in sorted(known[0].keys() | known[1].keys()):
        one, other = known[0].get(name), known[1].get(name)
        there = other or one
        assert there is not None
        shape, dtype = tuple(there["shape"]), there["dtype"]
        if one is None or other is None:
            found.append(TensorChange(name, "added" if one is None else "removed", shape, dtype))
        elif (one["shape"], one["dtype"]) != (other["shape"], other["dtype"]):
            found.append(TensorChange(name, "reshaped", shape, dtype))
        elif one["digest"] == other["digest"]:
            found.append(TensorChange(name, "same", shape, dtype))
        else:
            found.append(_changed(name, old, new, shape, dtype))
    found.sort(key=lambda change: (-(change.relative or 0.0), change.fate == "same", change.name))
    return Comparison(_told(before), "the newest" if after is None else _told(after), found)


def _told(ref: int | str) -> str:
    return f"step {ref}" if isinstance(ref, int) else str(ref)


def _state_of(url: str, ref: int | str | None, storage_options: StorageOptions | None) -> Dataset:
    if isinstance(ref, str):
        from .dataset import open as open_dataset

        return open_dataset(url, at=ref, storage_options=storage_options)
    return checkpoint.opened(url, checkpoint.number_of(ref, "step"), storage_options)


def _changed(name: str, old: Dataset, new: Dataset, shape: tuple[int, ...], dtype: str) -> TensorChange:
    norm = moved = largest = 0.0
    counts, not_finite, changed = np.zeros(len(EDGES) + 1, np.int64), 0, 0
    for part in _parts(shape):
        a, b = (_numbers(ds[name].read(part, raw=True), dtype, name) for ds in (old, new))
        with np.errstate(all="ignore"):
            size = np.abs(b - a)
            is_finite = np.isfinite(size)
            not_finite += int(size.size - is_finite.sum())
            size, base = size[is_finite], np.abs(a)[is_finite]
            norm += float(np.square(base).sum())
            moved += float(np.square(size).sum())
        nonzero = size[size > 0]
        changed += nonzero.size
        largest = max(largest, float(nonzero.max(initial=0.0)))
        counts += np.bincount(np.searchsorted(EDGES, nonzero, "right"), minlength=len(EDGES) + 1)
    histogram = tuple(map(int, counts))
    return TensorChange(
        name, "changed", shape, dtype, norm**0.5, moved**0.5, largest, changed, histogram, not_finite
    )


def _parts(shape: tuple[int, ...]) -> Iterator[Any]:
    """Slices of the first axis that are small enough."""
    rows = shape[0] if shape else 0
    per_row = max(1, int(np.prod(shape[1:], dtype=object)))
    if not rows:
        yield ...
        return
    step = max(1, _AT_ONCE // per_row)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def _numbers(bits: NDArray, dtype: str, name: str) -> NDArray:
    """Elements as numbers with which one can reckon."""
    if dtype == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    kind = _blocks.numpy_type(dtype, f"tensor {name!r}")
    if kind.kind in "mM":
        raise InvalidError(f"tensor {name!r} is {dtype}: times are not weights")
    array = bits.view(kind)
    return array.astype(np.complex128 if kind.kind == "c" else np.float64)


def _bars(histogram: tuple[int, ...]) -> str:
    """A histogram as a few letters."""
    most = max(histogram, default=0)
    if not most:
        return ""
    return "".join(" ▁▂▃▄▅▆▇█"[-(-8 * count // most)] for count in histogram)
