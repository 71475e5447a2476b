"""Search among the vectors of a column: exactly, or by an index."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from ._display import size_text
from .errors import InvalidError

if TYPE_CHECKING:
    from .column import Column
    from .dataset import Dataset
    from .view import View

__all__ = ["IndexInfo", "Probes"]

#: By what vectors are compared.
METRICS = ("cosine", "dot", "l2", "l1", "linf", "hamming")


@dataclasses.dataclass(frozen=True)
class Probes:
    """How many lists a search looks at."""

    #: For so many neighbours.
    neighbours: int
    #: Lists that are looked at.
    probes: int
    #: The share of the true neighbours that this found, for vectors of the column that were held out.
    recall: float


@dataclasses.dataclass(frozen=True)
class IndexInfo:
    """An index: what it is of, and how well it finds."""

    column: str
    #: ``"ivf"``.
    kind: str
    metric: str
    lists: int
    #: Rows that were there when it was made.
    rows: int
    #: Rows that it covers now. What was added or changed since is searched exactly.
    covered: int
    #: Bits of an element in the index; None for those of the column.
    bits: int | None
    #: The recall that was asked for.
    recall: float
    #: What it takes to get there, as measured when the index was made.
    probes: list[Probes]
    stored_bytes: int
    #: Why it is not used, if it is damaged. Make it again, or drop it.
    damage: str | None

    def __repr__(self) -> str:
        if self.damage is not None:
            return f"<lacus.IndexInfo {self.kind} of {self.column!r}, damaged: {self.damage}>"
        measured = "".join(
            f", recall@{found.neighbours} {found.recall:.3f} by {found.probes:,} lists"
            for found in self.probes
            if found.neighbours == 10
        )
        bits = "" if self.bits is None else f", {self.bits} bits"
        covered = f"{self.covered:,} of {self.rows:,} rows"
        return (
            f"<lacus.IndexInfo {self.kind} of {self.column!r}, {self.metric}, {self.lists:,} lists{bits}, {covered}{measured}, "
            f"{size_text(self.stored_bytes)}>"
        )


def _info(found: _native._Index) -> IndexInfo:
    column, kind, metric, lists, rows, covered, bits, recall, probes, stored_bytes, damage = found
    measured = [Probes(*one) for one in probes]
    return IndexInfo(column, kind, metric, lists, rows, covered, bits, recall, measured, stored_bytes, damage)


def create(
    column: Column, kind: str, metric: str, lists: int | None, recall: float, bits: int | None, seed: int, durable: bool
) -> IndexInfo:
    """See :meth:`Column.create_index`."""
    if kind != "ivf":
        raise InvalidError(f'create_index: no kind {kind!r} of index for vectors; there is "ivf"')
    for name, value in (("lists", lists), ("bits", bits), ("seed", seed)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise InvalidError(f"create_index: {name} is a whole number, found {value!r}")
    if isinstance(recall, bool) or not isinstance(recall, (int, float)):
        raise InvalidError(f"create_index: recall is a number above 0 and at most 1, found {recall!r}")
    if bits is not None and bits != 8:
        raise InvalidError(f"create_index: bits must be 8, or left out, found {bits}")
    rows = column._dataset._rows
    return _info(_native.create_vector_index(rows, column.name, metric, lists, float(recall), bits, seed, durable))


def drop(column: Column, durable: bool) -> bool:
    """See :meth:`Column.drop_index`."""
    return _native.drop_vector_index(column._dataset._rows, column.name, durable)


def indexes(dataset: Dataset) -> list[IndexInfo]:
    """See :attr:`Dataset.indexes`."""
    return [_info(found) for found in _native.vector_indexes(dataset._rows)]


def search(column: Column, vector: Any, k: int, where: str | None, params: Sequence[Any] | None, metric: str) -> View:
    """See :meth:`Column.search`."""
    from .view import View

    try:
        count = operator.index(k)
    except TypeError:
        raise InvalidError(f"search: k is a whole number, found {k!r}") from None
    if count < 1:
        raise InvalidError(f"search: k must be at least 1, found {count}")
    if metric not in METRICS:
        raise InvalidError(f"search: no metric {metric!r}; there are {', '.join(METRICS)}")
    shape, dtype = column.sample_shape, column.dtype
    if shape is None or len(shape) != 1 or shape[0] is None or dtype is None or dtype.kind not in "fiubV":
        raise InvalidError(
            f"search: column {column.name!r} holds {column.htype} of dtype {dtype} and shape {shape}; a search needs vectors that all"
            ' have the same length, for example ds.add_column(name, dtype="float32", shape=(384,))'
        )
    given = np.asarray(vector.detach().cpu() if hasattr(vector, "detach") else vector)
    if given.dtype.kind not in "fiub":
        raise InvalidError(f"search: the vector holds {given.dtype}, and a search needs numbers")
    if given.shape != (shape[0],):
        raise InvalidError(f"search: the vectors of column {column.name!r} have shape ({shape[0]},), and the one given has {given.shape}")
    # Compared in the precision of the column: a list of Python's floats is no reason for more.
    wanted = given.astype(np.float32) if dtype.itemsize <= 4 and dtype.kind in "fV" else given
    name = column.name.replace("'", "''")
    condition = "" if where is None else f" WHERE ({where}\n)"
    text = f"SELECT * FROM vector_search('{name}', ?, {count}, '{metric}'){condition}"
    found = column._dataset.query(text, [wanted, *(params or ())])
    if not isinstance(found, View):
        raise InvalidError("search: where is a condition on rows, as after WHERE")
    return found
