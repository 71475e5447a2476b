"""A diff: what differs between two states of a dataset, with old and new values that are read on demand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from .column import ROWS_AT_ONCE, Column

if TYPE_CHECKING:
    from ._native import _Difference
    from .dataset import Dataset

__all__ = ["Change", "Diff", "TensorDiff"]


class Change:
    """One change. Its values are read when you access them, together with those of neighbouring changes.

    ========= ============= ============================================================================
    ``what``  ``kind``      values
    ========= ============= ============================================================================
    dataset   metadata      dicts
    row       added,        dicts of the samples of all columns; None if the row does not exist
              deleted
    sample    added,        samples; None if missing
              updated,
              cleared
    region    changed       numpy arrays: the elements at ``slices``
    tensor    added,        all its content: an array, or a list of samples; None if it does not exist.
              dropped,      Of a tensor whose metadata changed and nothing else, the metadata; of one that
              retyped,      was renamed, its names
              changed,
              metadata,
              renamed
    ========= ============= ============================================================================
    """

    __slots__ = ("what", "kind", "tensor", "row", "slices", "_old", "_new")

    def __init__(
        self,
        what: str,
        kind: str,
        old: Callable[[], Any],
        new: Callable[[], Any],
        *,
        tensor: str | None = None,
        row: int | None = None,
        slices: tuple[slice, ...] | None = None,
    ) -> None:
        self.what = what
        self.kind = kind
        #: The name of the column or array.
        self.tensor = tensor
        #: The id of the row, which never changes.
        self.row = row
        #: Where in the array.
        self.slices = slices
        self._old = old
        self._new = new

    @property
    def old(self) -> Any:
        """The value before."""
        return self._old()

    @property
    def new(self) -> Any:
        """The value after."""
        return self._new()

    def __repr__(self) -> str:
        place = "" if self.tensor is None else f" {self.tensor!r}"
        if self.row is not None:
            place += f" row {self.row}"
        if self.slices is not None:
            place += f" [{', '.join(f'{s.start}:{s.stop}' for s in self.slices)}]"
        return f"<lacus.Change {self.what}{place} {self.kind}>"


@dataclasses.dataclass(frozen=True, eq=False)
class TensorDiff:
    """How one tensor differs."""

    name: str
    is_column: bool
    #: ``"added"``, ``"dropped"``, ``"retyped"`` (dtype, shape, layout, type or options differ) or ``"changed"``.
    change: str
    #: Whether its own metadata differs.
    metadata: bool
    #: Its previous name, if it was renamed.
    renamed_from: str | None
    #: Whether its content may differ anywhere.
    whole: bool
    #: Ids of rows whose sample is new, of those whose sample differs, and of those whose sample is now missing.
    added: list[int]
    updated: list[int]
    cleared: list[int]
    _chunks: list[list[int]]
    _diff: Diff = dataclasses.field(repr=False)

    @property
    def _before(self) -> str:
        return self.renamed_from or self.name

    @property
    def regions(self) -> list[tuple[slice, ...]]:
        """Where an array differs: the changed chunks, as slices."""
        if not self._chunks:
            return []
        shapes, sides = [], None
        for state, name in ((self._diff.before, self._before), (self._diff.after, self.name)):
            found = state[name]
            shapes.append(found.shape)
            sides = found.chunk_shape
        assert sides is not None
        sizes = [max(both) for both in zip(*shapes, strict=True)]
        boxes = []
        for coords in self._chunks:
            places = zip(coords, sides, sizes, strict=True)
            boxes.append(tuple(slice(c * side, min((c + 1) * side, size)) for c, side, size in places))
        # What was beyond the end of both is nowhere.
        return [box for box in boxes if all(axis.start < axis.stop for axis in box)]

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON values."""
        found: dict[str, Any] = {
            "kind": "column" if self.is_column else "array",
            "change": self.change,
            "metadata": self.metadata,
        }
        if self.renamed_from is not None:
            found["renamed_from"] = self.renamed_from
        if self.whole:
            found["whole"] = True
        if self._chunks:
            found["regions"] = [[[axis.start, axis.stop] for axis in box] for box in self.regions]
        for key in ("added", "updated", "cleared"):
            if ids := getattr(self, key):
                found[key] = list(ids)
        return found

    def _text(self) -> str:
        parts = [] if self.renamed_from is None else [f"renamed {self.renamed_from} -> {self.name}"]
        if self.change != "changed":
            parts.append(self.change)
        if self.whole:
            parts.append("content changed")
        if count := len(self._chunks):
            parts.append(f"{count:,} {'region' if count == 1 else 'regions'} changed")
        for key in ("added", "updated", "cleared"):
            if count := len(getattr(self, key)):
                parts.append(f"{count:,} {'sample' if count == 1 else 'samples'} {key}")
        if self.metadata:
            parts.append("metadata changed")
        return ", ".join(parts)


class Diff:
    """The differences between two states of a dataset: ``ds.diff()``.

    >>> diff = ds.diff("main~1", "main")
    >>> diff
    <lacus.Diff 1 tensor, 2 rows added>
      labels  column  2 samples added, 1 sample updated
    >>> for change in diff:
    ...     print(change.what, change.tensor, change.row, change.old, change.new)

    Iterating gives :class:`Change` objects: added and deleted rows as a whole, then changed samples of rows that both states have,
    and changed regions of arrays.
    """

    def __init__(self, found: _Difference, states: Callable[[], tuple[Dataset, Dataset]]) -> None:
        self._states = states
        self._opened: tuple[Dataset, Dataset] | None = None
        metadata, added, deleted, tensors = found
        #: Whether the dataset's own metadata differs.
        self.metadata: bool = metadata
        #: Ids of the rows that only the later state has, in its order.
        self.rows_added: list[int] = added
        #: Ids of the rows that only the earlier state has.
        self.rows_deleted: list[int] = deleted
        #: The tensors that differ, by their name in the later state. A dropped tensor whose name another tensor has now is
        #: listed as ``"name (dropped)"``.
        self.tensors: dict[str, TensorDiff] = {}
        for (name, old), is_column, change, meta, content, chunks, some_added, updated, cleared in tensors:
            key = f"{name} (dropped)" if name in self.tensors else name
            self.tensors[key] = TensorDiff(
                name, is_column, change, meta, old, content == "whole", some_added, updated, cleared, chunks, self
            )

    @property
    def before(self) -> Dataset:
        """The earlier state, read-only."""
        return self._both()[0]

    @property
    def after(self) -> Dataset:
        """The later state, read-only."""
        return self._both()[1]

    def _both(self) -> tuple[Dataset, Dataset]:
        if self._opened is None:
            self._opened = self._states()
        return self._opened

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.metadata or self.rows_added or self.rows_deleted or self.tensors)

    def to_dict(self) -> dict[str, Any]:
        """The differences as JSON values, without the contents."""
        return {
            "metadata": self.metadata,
            "rows_added": list(self.rows_added),
            "rows_deleted": list(self.rows_deleted),
            "tensors": {name: tensor.to_dict() for name, tensor in self.tensors.items()},
        }

    def __iter__(self) -> Iterator[Change]:
        if self.metadata:
            yield Change("dataset", "metadata", lambda: self.before.metadata, lambda: self.after.metadata)
        for kind, ids in (("deleted", self.rows_deleted), ("added", self.rows_added)):
            yield from self._rows(kind, ids)
        fresh = set(self.rows_added)
        for tensor in self.tensors.values():
            yield from self._tensor(tensor, fresh)

    def _rows(self, kind: str, ids: list[int]) -> Iterator[Change]:
        for some in _batches(ids):
            read = _Batch(partial(self._read_rows, kind, some))
            for place, row in enumerate(some):
                old, new = (_nothing, read.at(place)) if kind == "added" else (read.at(place), _nothing)
                yield Change("row", kind, old, new, row=row)

    def _tensor(self, tensor: TensorDiff, fresh: set[int]) -> Iterator[Change]:
        name, was = tensor.name, tensor._before
        if tensor.renamed_from is not None:
            yield Change("tensor", "renamed", lambda: was, lambda: name, tensor=name)
        if tensor.change != "changed" or tensor.whole:
            old = _nothing if tensor.change == "added" else lambda: _everything(self.before, was)
            new = _nothing if tensor.change == "dropped" else lambda: _everything(self.after, name)
            yield Change("tensor", tensor.change, old, new, tensor=name)
        elif tensor.metadata:
            yield Change(
                "tensor",
                "metadata",
                lambda: self.before[was].metadata,
                lambda: self.after[name].metadata,
                tensor=name,
            )
        for slices in tensor.regions:
            yield Change(
                "region",
                "changed",
                partial(self._read_region, False, was, slices),
                partial(self._read_region, True, name, slices),
                tensor=name,
                slices=slices,
            )
        # Added rows were told as a whole.
        added = [row for row in tensor.added if row not in fresh]
        for kind, ids in (("added", added), ("updated", tensor.updated), ("cleared", tensor.cleared)):
            for some in _batches(ids):
                before = _Batch(partial(self._read_samples, False, was, some))
                after = _Batch(partial(self._read_samples, True, name, some))
                for place, row in enumerate(some):
                    old = _nothing if kind == "added" else before.at(place)
                    new = _nothing if kind == "cleared" else after.at(place)
                    yield Change("sample", kind, old, new, tensor=name, row=row)

    def _read_rows(self, kind: str, ids: list[int]) -> list[dict[str, Any] | None]:
        return _rows_by_id(self.after if kind == "added" else self.before, ids)

    def _read_samples(self, is_later: bool, name: str, ids: list[int]) -> list[Any]:
        return _samples_by_id(self._both()[is_later], name, ids)

    def _read_region(self, is_later: bool, name: str, slices: tuple[slice, ...]) -> Any:
        return self._both()[is_later][name].read(slices)

    def _summary(self) -> str:
        parts = []
        if count := len(self.tensors):
            parts.append(f"{count:,} {'tensor' if count == 1 else 'tensors'}")
        for ids, what in ((self.rows_added, "added"), (self.rows_deleted, "deleted")):
            if count := len(ids):
                parts.append(f"{count:,} {'row' if count == 1 else 'rows'} {what}")
        if self.metadata:
            parts.append("metadata")
        return ", ".join(parts) or "no difference"

    def _lines(self) -> list[str]:
        rows = [(t.name, "column" if t.is_column else "array", t._text()) for t in self.tensors.values()]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)] if rows else []
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

    def __repr__(self) -> str:
        return "\n".join([f"<lacus.Diff {self._summary()}>", *(f"  {line}" for line in self._lines())])


class _Batch:
    """Values that are read together, when one of them is asked for."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self._values: Any = None

    def at(self, place: int) -> Callable[[], Any]:
        def value() -> Any:
            if self._values is None:
                self._values = self._read()
            return self._values[place]

        return value


def _batches(ids: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(ids), ROWS_AT_ONCE):
        yield ids[start : start + ROWS_AT_ONCE]


def _nothing() -> None:
    return None


def _everything(dataset: Dataset, name: str) -> Any:
    found = dataset[name]
    return found[:] if isinstance(found, Column) else found.read()


def _samples_by_id(dataset: Dataset, name: str, ids: list[int]) -> list[Any]:
    """Samples of a column by the ids of their rows; None where there is none."""
    places = dataset._rows.row_positions(ids)
    values = iter(dataset[name][[place for place in places if place is not None]])
    return [None if place is None else next(values) for place in places]


def _rows_by_id(dataset: Dataset, ids: list[int]) -> list[dict[str, Any] | None]:
    places = dataset._rows.row_positions(ids)
    rows = iter(dataset[[place for place in places if place is not None]])
    return [None if place is None else next(rows) for place in places]
