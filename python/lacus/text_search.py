"""Search by words: what :meth:`Column.search` and :meth:`Column.create_index` do with texts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from .errors import InvalidError
from .query import condition_text

if TYPE_CHECKING:
    from .column import Column
    from .view import View

__all__ = ["TextIndex"]


@dataclass(frozen=True)
class TextIndex:
    """Facts about the text index of a column, at the version the dataset is at.

    Rows that it does not cover were written or changed since; searches read their texts. :meth:`Column.update_index` adds them.
    """

    #: How texts become words: ``"simple"``, ``"whitespace"``, ``"en_stem"``, …
    tokenizer: str
    #: How many parts it has: one for each time it was created or updated.
    segments: int
    #: How many rows have a text.
    rows: int
    #: How many of these it covers.
    covered: int
    #: Bytes it takes.
    stored_bytes: int
    #: What is wrong with it, if something is. Searches read texts instead.
    problem: str | None


def search(column: Column, words: str, k: int, where: str | None, params: Sequence[Any], memory: int | str | None) -> View:
    """The rows whose texts match best."""
    if not isinstance(words, str):
        raise InvalidError(f"{column._what}: search for a text, found {type(words).__name__} {words!r}"[:200])
    if isinstance(k, bool) or not hasattr(k, "__index__") or operator.index(k) < 1:
        raise InvalidError(f"{column._what}: k must be a whole number, 1 at least, found {k!r}")
    text = "SELECT * FROM text_search(?, ?, ?)"
    if where is not None:
        text += condition_text(where).removeprefix("SELECT *")
    return cast("View", column._dataset.query(text, [column._name, words, operator.index(k), *params], memory=memory))


def create(column: Column, durable: bool, options: dict[str, Any]) -> TextIndex:
    """Makes the text index of a column."""
    tokenizer = options.pop("tokenizer", None)
    if options:
        raise InvalidError(f"{column._what}: no option {next(iter(options))!r} of a text index; known: 'tokenizer'")
    if tokenizer is not None and not isinstance(tokenizer, str):
        raise InvalidError(f"{column._what}: tokenizer must be a name, found {tokenizer!r}")
    return TextIndex(*column._dataset._rows.create_text_index(column._name, tokenizer, durable))


def update(column: Column, durable: bool) -> TextIndex:
    """Adds the rows that the text index of a column does not cover."""
    return TextIndex(*column._dataset._rows.update_text_index(column._name, durable))


def drop(column: Column, durable: bool) -> bool:
    """Drops the text index of a column."""
    return column._dataset._rows.drop_text_index(column._name, durable)


def found(column: Column) -> TextIndex | None:
    """The text index of a column."""
    if column._info.htype != "text":
        return None
    index = TextIndex(*column._dataset._rows.text_index(column._name))
    return index if index.segments or index.problem else None
