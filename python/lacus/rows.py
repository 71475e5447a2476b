"""Rows: some rows of a dataset, in an order, all columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .column import ROWS_AT_ONCE, positions_of

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["Rows"]


class Rows:
    """Rows of a dataset, got by ``ds[a:b]``, ``ds[[3, 1, 4]]`` or ``ds[mask]``. Nothing is read until it is asked for.

    >>> rows = ds[100:200]
    >>> rows["labels"]              # what ds["labels"][100:200] gives
    >>> for row in rows: row["images"], row["labels"]
    """

    __slots__ = ("_dataset", "_positions")

    def __init__(self, dataset: Dataset, positions: list[int]) -> None:
        self._dataset = dataset
        self._positions = positions

    @property
    def positions(self) -> list[int]:
        """Where these rows are in the dataset."""
        return list(self._positions)

    @property
    def ids(self) -> list[int]:
        """Their ids, which never change."""
        return self._dataset._rows.row_ids(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, key: Any) -> Any:
        """A column of these rows by name, one row by number, or fewer rows."""
        if isinstance(key, str):
            return self._dataset._column(key)[self._positions]
        positions, is_one = positions_of(key, len(self._positions), False)
        chosen = [self._positions[place] for place in positions]
        return next(read_rows(self._dataset, chosen)) if is_one else Rows(self._dataset, chosen)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return read_rows(self._dataset, self._positions)

    def to_dict(self, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """All of it by column."""
        return {name: self[name] for name in (self._dataset.columns if columns is None else columns)}

    def __repr__(self) -> str:
        return f"<lacus.Rows {len(self):,} of {len(self._dataset):,} rows, columns {self._dataset.columns}>"


def read_rows(dataset: Dataset, positions: list[int]) -> Iterator[dict[str, Any]]:
    """Rows as dicts, read in batches: one planned read for each column."""
    names = dataset.columns
    for start in range(0, len(positions), ROWS_AT_ONCE):
        some = positions[start : start + ROWS_AT_ONCE]
        columns = [dataset._column(name)[some] for name in names]
        for values in zip(*columns) if columns else (() for _ in some):
            yield dict(zip(names, values))
