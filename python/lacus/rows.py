"""Rows of a dataset as dicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .column import ROWS_AT_ONCE
from .errors import InvalidError

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["read_rows"]


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
        found = [dataset._column(name) for name in names]
        columns = [column._singles(column[some]) for column in found]
        for values in zip(*columns, strict=True) if columns else (() for _ in some):
            yield dict(zip(names, values, strict=True))


def _names(dataset: Dataset, columns: Sequence[str] | None) -> list[str]:
    if isinstance(columns, str):
        raise InvalidError(f"columns are given as a list of names: [{columns!r}]")
    return dataset.columns if columns is None else list(columns)
