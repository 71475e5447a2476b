"""What a caller wants of a layout, on its way to the native module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ._arrays import sizes
from .errors import InvalidError


class Wish(TypedDict):
    """Options of a put; the native module expects all of them."""

    layout: str
    chunk_shape: Sequence[int] | None
    chunk_rank: int | None
    block_shape: Sequence[int] | None
    split: int | None
    axis_order: Sequence[int] | None
    compression: str | None
    optimize: str


def wish(
    layout: str,
    chunk_shape: Sequence[int] | None,
    block_shape: Sequence[int] | None,
    compression: str | None,
    optimize: str,
    chunk_rank: int | None,
    split: int | None,
    axis_order: Sequence[int] | None,
) -> Wish:
    """The options of a put, checked as far as they can be without the value."""
    for what, text in (("layout", layout), ("optimize", optimize), ("compression", compression or "none")):
        if not isinstance(text, str):
            raise InvalidError(f"{what}: expected text, found {text!r}")

    def number(value: int | None, what: str) -> int | None:
        return None if value is None else sizes((value,), what)[0]

    def numbers(value: Sequence[int] | None, what: str) -> tuple[int, ...] | None:
        return None if value is None else sizes(value, what)

    return {
        "layout": layout,
        "chunk_shape": numbers(chunk_shape, "chunk_shape"),
        "chunk_rank": number(chunk_rank, "chunk_rank"),
        "block_shape": numbers(block_shape, "block_shape"),
        "split": number(split, "split"),
        "axis_order": numbers(axis_order, "axis_order"),
        "compression": compression,
        "optimize": optimize,
    }
