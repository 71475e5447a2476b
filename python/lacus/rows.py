"""Rows: some rows of a dataset, in an order, all columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .column import ROWS_AT_ONCE, positions_of
from .errors import InvalidError

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["Rows"]


class Rows:
    """Rows of a dataset, got by ``ds[a:b]``, ``ds[[3, 1, 4]]`` or ``ds[mask]``. Nothing is read until it is asked for.
    They stay those of the version they were got from, whatever is written since.

    >>> rows = ds[100:200]
    >>> rows["labels"]              # what ds["labels"][100:200] gives
    >>> for row in rows: row["images"], row["labels"]
    """

    __slots__ = ("_dataset", "_positions", "_state")

    def __init__(self, dataset: Dataset, positions: list[int]) -> None:
        self._dataset = dataset._steady()
        self._positions = positions
        self._state = self._dataset._state()

    @property
    def _source(self) -> Dataset:
        """The dataset at the version these rows are of."""
        self._dataset = self._dataset._at(self._state)
        return self._dataset

    @property
    def positions(self) -> list[int]:
        """Where these rows are in the dataset."""
        return list(self._positions)

    @property
    def ids(self) -> list[int]:
        """Their ids, which never change."""
        return self._source._rows.row_ids(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, key: Any) -> Any:
        """A column of these rows by name, one row by number, or fewer rows."""
        if isinstance(key, str):
            return self._source._column(key)[self._positions]
        positions, is_one = positions_of(key, len(self._positions), False)
        chosen = [self._positions[place] for place in positions]
        return next(read_rows(self._source, chosen)) if is_one else Rows(self._source, chosen)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return read_rows(self._source, self._positions)

    def to_dict(self, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """All of it by column."""
        return {name: self[name] for name in _names(self._source, columns)}

    def __repr__(self) -> str:
        return f"<lacus.Rows {len(self):,} of {len(self._source):,} rows, columns {self._source.columns}>"


def read_rows(
    dataset: Dataset, positions: list[int], columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of the version there is now as dicts, read in batches: one planned read for each column."""
    return _read(dataset, dataset._state(), positions, _names(dataset, columns))


def _read(
    dataset: Dataset, state: tuple[str, int, str, str | None], positions: list[int], names: list[str]
) -> Iterator[dict[str, Any]]:
    for start in range(0, len(positions), ROWS_AT_ONCE):
        some = positions[start : start + ROWS_AT_ONCE]
        # Whoever takes the rows may write, which moves the handle and may renumber rows.
        dataset = dataset._at(state)
        columns = [dataset._column(name)[some] for name in names]
        for values in zip(*columns, strict=True) if columns else (() for _ in some):
            yield dict(zip(names, values, strict=True))


def _names(dataset: Dataset, columns: Sequence[str] | None) -> list[str]:
    if isinstance(columns, str):
        raise InvalidError(f"columns are given as a list of names: [{columns!r}]")
    return dataset.columns if columns is None else list(columns)
