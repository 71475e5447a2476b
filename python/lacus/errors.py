"""What can go wrong, by what the caller should do about it.

Every exception is a :class:`LacusError`, and also one of the built-in exceptions where one fits, so that
``except KeyError`` or ``except ValueError`` work as they do elsewhere.
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


class NotFoundError(LacusError, KeyError):
    """There is no such dataset, tensor or version: check the name."""

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return Exception.__str__(self)


class InvalidError(LacusError, ValueError):
    """The input is wrong: fix it. Nothing was written."""


class OutOfBoundsError(InvalidError, IndexError):
    """A selection does not fit the tensor; numpy raises ``IndexError`` for the same."""


class ConflictError(LacusError, RuntimeError):
    """Somebody else wrote the same thing first, or something is there already: refresh and try again."""


class MergeConflictError(ConflictError):
    """Both sides of a merge changed the same, and nobody said which counts. Nothing was changed."""

    #: What is in conflict.
    conflicts: list[Conflict]

    def __init__(self, message: str, conflicts: str = "[]") -> None:
        super().__init__(message)
        self._listed = conflicts
        self.conflicts = [Conflict._of(found) for found in json.loads(conflicts)]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self._listed)


class UnavailableError(LacusError, OSError):
    """The store could not be reached, refused, or is full: nothing was written; wait or make room."""


class CorruptError(LacusError, RuntimeError):
    """Stored data is damaged: stop, and keep the evidence."""


class OutOfMemoryError(LacusError, MemoryError):
    """A value does not fit the memory that is left: read a part of it, or compute within a budget and store the result."""


class InternalError(LacusError, RuntimeError):
    """A fault in Lacus itself: please report it."""
