"""A conflict: what both sides of a merge changed differently."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

__all__ = ["Conflict"]


@dataclasses.dataclass(frozen=True)
class Conflict:
    """Something that both sides of a merge changed differently, and that is not resolved."""

    #: ``"metadata"``, ``"tensor"``, ``"name"``, ``"row"``, ``"sample"`` or ``"chunk"``.
    kind: str
    #: The name of the tensor on this side; None for a row, and for metadata of the dataset itself.
    tensor: str | None
    #: The id of the row, of a row or sample.
    row: int | None
    #: Where the chunk is in the array's grid of chunks.
    chunk: tuple[int, ...] | None
    #: Whether ``"union"`` can resolve it.
    has_union: bool
    #: A description for people.
    text: str
    #: The facts, such as which side dropped a tensor, as JSON values.
    detail: dict[str, Any] = dataclasses.field(compare=False, hash=False)

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> Conflict:
        detail = {key: value for key, value in found.items() if key not in ("text", "has_union")}
        coords = found.get("coords")
        return cls(
            kind=found["conflict"],
            tensor=next((found[key] for key in ("tensor", "name", "column", "array") if found.get(key)), None),
            row=found.get("id"),
            chunk=None if coords is None else tuple(coords),
            has_union=found["has_union"],
            text=found["text"],
            detail=detail,
        )

    def __str__(self) -> str:
        return self.text
