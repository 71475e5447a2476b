"""A commit: a recorded state of a dataset, with its message, author and parents."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping
from typing import Any

from .diff import Diff

__all__ = ["Commit", "LineageStep", "Shown"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def when(time_millis: int) -> datetime.datetime:
    """A time in UTC from milliseconds since 1970."""
    return _EPOCH + datetime.timedelta(milliseconds=time_millis)


@dataclasses.dataclass(frozen=True)
class Commit:
    """A recorded state of a dataset. You can pass a commit wherever a revision is expected."""

    #: The SHA-256 of its stored bytes, 64 digits.
    id: str
    message: str
    author: str
    #: When it was made, in UTC.
    time: datetime.datetime
    #: The ids of its parents: none for the first commit, two for a merge, ours first.
    parents: list[str]
    #: The version of the branch's table with its content.
    version: int
    #: Its metadata.
    metadata: dict[str, Any]
    #: The names of the tensors it changed.
    changed: list[str]
    #: Where its tensors came from: the lineage given with the commit.
    lineage: list[dict[str, Any]]

    @classmethod
    def _of(cls, found: Mapping[str, Any] | str) -> Commit:
        facts: Mapping[str, Any] = json.loads(found) if isinstance(found, str) else found
        return cls(
            id=facts["id"],
            message=facts["message"],
            author=facts["author"],
            time=when(facts["time_millis"]),
            parents=list(facts["parents"]),
            version=facts["version"],
            metadata=facts.get("metadata") or {},
            changed=facts.get("changed") or [],
            lineage=facts.get("lineage") or [],
        )

    @property
    def short_id(self) -> str:
        """The first ten digits of its id."""
        return self.id[:10]

    @property
    def summary(self) -> str:
        """The first line of its message."""
        return self.message.strip().partition("\n")[0].rstrip()

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<lacus.Commit {self.short_id} {self.summary!r} by {self.author}, {self.time:%Y-%m-%d %H:%M:%S} UTC>"


@dataclasses.dataclass(frozen=True)
class Shown:
    """A commit, and its changes from its first parent: ``ds.show(ref)``."""

    commit: Commit
    diff: Diff

    def __repr__(self) -> str:
        commit = self.commit
        lines = [f"commit {commit.id}"]
        if len(commit.parents) > 1:
            lines.append(f"Merge:  {' '.join(parent[:10] for parent in commit.parents)}")
        lines += [f"Author: {commit.author}", f"Date:   {commit.time:%Y-%m-%d %H:%M:%S} UTC", ""]
        lines += [f"    {line}".rstrip() for line in commit.message.strip().splitlines()]
        return "\n".join([*lines, "", repr(self.diff)])


@dataclasses.dataclass(frozen=True)
class LineageStep:
    """A commit in the lineage of a tensor."""

    #: How many steps it is away from the tensor you asked for.
    depth: int
    tensor: str
    commit: Commit
    #: How the tensor was made, if the commit records it.
    lineage: dict[str, Any] | None

    def __repr__(self) -> str:
        made = ""
        if self.lineage is not None:
            by = " ".join(str(self.lineage[key]) for key in ("program", "function") if self.lineage.get(key))
            made = f", made by {by}" if by else ", made"
        return f"<lacus.LineageStep {'  ' * self.depth}{self.tensor!r} in {self.commit.short_id}{made}>"
