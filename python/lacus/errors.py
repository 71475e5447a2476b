"""Exceptions, grouped by what you can do about them.

Every exception is a :class:`LacusError`. Most are also a built-in exception, so that ``except KeyError`` and
``except ValueError`` work as usual.
"""

from __future__ import annotations

import json
from typing import Any

from .conflict import Conflict

__all__ = [
    "ConflictError",
    "CorruptError",
    "InternalError",
    "InvalidError",
    "LacusError",
    "MergeConflictError",
    "NotFoundError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "UnavailableError",
]


class LacusError(Exception):
    """Any error of Lacus."""

    #: What would help, as Python code or words; ``None`` if nothing is known to.
    hint: str | None = None


class NotFoundError(LacusError, KeyError):
    """There is no such dataset, tensor or version: check the name."""

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return Exception.__str__(self)


class InvalidError(LacusError, ValueError):
    """The input is wrong: fix it. Nothing was written."""


class OutOfBoundsError(InvalidError, IndexError):
    """A selection does not fit the tensor; numpy raises ``IndexError`` in this case."""


class ConflictError(LacusError, RuntimeError):
    """Someone else wrote the same thing first, or it already exists: refresh and try again."""


class MergeConflictError(ConflictError):
    """Both sides of a merge changed the same thing, and the conflict is not resolved. Nothing was changed."""

    #: What is in conflict.
    conflicts: list[Conflict]

    def __init__(self, message: str, conflicts: str = "[]") -> None:
        super().__init__(message)
        self._listed = conflicts
        self.conflicts = [Conflict._of(found) for found in json.loads(conflicts)]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self._listed), self.__dict__


class UnavailableError(LacusError, OSError):
    """The store cannot be reached, refuses access, or is full. Nothing was written: wait, or free some space."""


class CorruptError(LacusError, RuntimeError):
    """Stored data is damaged: stop, and keep the files for analysis."""


class OutOfMemoryError(LacusError, MemoryError):
    """A value does not fit into the free memory: read a part of it, or compute within a budget and store the result."""


class InternalError(LacusError, RuntimeError):
    """A bug in Lacus: please report it."""
