"""Reports of clean-ups and checks of a dataset."""

from __future__ import annotations

import dataclasses
import datetime
import re
from typing import Any

from ._display import size_text
from .errors import InvalidError

__all__ = ["CheckReport", "ExpireReport", "GcReport", "Kept", "Removable"]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds(value: Any, what: str) -> float:
    """A length of time: a ``timedelta``, seconds, or text such as ``"12h"`` or ``"30d"``."""
    found = None
    if isinstance(value, datetime.timedelta):
        found = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found = float(value)
    elif isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", value)):
        found = float(match[1]) * _UNITS[match[2]]
    if found is None or not 0 <= found < float("inf"):
        raise InvalidError(f'{what}: {value!r} is no length of time; give a timedelta, seconds, or text such as "12h" or "30d"')
    return found


@dataclasses.dataclass(frozen=True)
class Removable:
    """Something that is no longer needed."""

    path: str
    bytes: int
    #: Why nothing needs it.
    why: str


@dataclasses.dataclass(frozen=True)
class Kept:
    """Files that are kept, and what needs them: each file counts for the first that needs it."""

    reason: str
    files: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class GcReport:
    """The result of a clean-up."""

    #: Whether it was removed; False for a dry run.
    removed: bool
    removable: list[Removable]
    kept: list[Kept]

    @property
    def removable_bytes(self) -> int:
        """Bytes that nothing needs."""
        return sum(found.bytes for found in self.removable)

    def __repr__(self) -> str:
        done = "removed" if self.removed else "would remove"
        count = len(self.removable)
        head = f"<lacus.GcReport {done} {count:,} {'object' if count == 1 else 'objects'}, {size_text(self.removable_bytes)}>"
        kept = [f"  kept for {k.reason}: {k.files:,} files, {size_text(k.bytes)}" for k in self.kept]
        return "\n".join([head, *kept])


@dataclasses.dataclass(frozen=True)
class ExpireReport:
    """The result of an expiry: versions that can no longer be opened, by branch."""

    expired: dict[str, int]


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """The result of a check."""

    branches: int
    tags: int
    commits: int
    #: Stored bytes whose checksums were verified.
    verified_bytes: int
    #: Remaining damage: what, and what is wrong with it. Empty for a healthy dataset.
    damage: list[tuple[str, str]]
    #: What ``repair=True`` would repair. Empty after a repair.
    repairable: list[tuple[str, str]]
    #: What was repaired. Empty without ``repair=True``.
    repaired: list[tuple[str, str]]
    #: Notes that are not damage: files in an older form, versions that other programs made.
    notes: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    @property
    def healthy(self) -> bool:
        """Whether there is no damage left to repair."""
        return not self.damage and not self.repairable

    def __repr__(self) -> str:
        problems = len(self.damage) + len(self.repairable)
        state = "healthy" if self.healthy else f"{problems:,} {'problem' if problems == 1 else 'problems'}"
        lines = [
            f"<lacus.CheckReport {state}: {self.branches} branches, {self.tags} tags, {self.commits:,} commits, "
            f"{size_text(self.verified_bytes)} verified>"
        ]
        lines += [f"  damaged: {what}: {problem}" for what, problem in self.damage]
        lines += [f"  repairable (repair=True): {what}: {problem}" for what, problem in self.repairable]
        lines += [f"  repaired: {what}: {problem}" for what, problem in self.repaired]
        lines += [f"  note: {what}: {problem}" for what, problem in self.notes]
        return "\n".join(lines)
