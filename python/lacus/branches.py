"""Branches and tags of a dataset, by name."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._guard import guard
from .commit import Commit, when
from .errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["BranchInfo", "Branches", "Tags"]


@dataclasses.dataclass(frozen=True)
class BranchInfo:
    """The status of a branch."""

    name: str
    #: The id of its newest commit; None before the first.
    head: str | None
    #: The first line of that commit's message.
    summary: str
    #: When that commit was made, in UTC.
    time: datetime.datetime | None
    #: Versions that are in no commit yet.
    draft: int
    #: Commits that only this branch has, and that only the branch of the handle has; None without commits.
    ahead: int | None
    behind: int | None
    #: Whether the handle is on it.
    is_current: bool
    #: Files of other branches that it uses; none if any Delta reader can open it.
    borrowed_files: int
    #: The directory of its table in the dataset; empty for main.
    directory: str

    def __repr__(self) -> str:
        star = "* " if self.is_current else ""
        head = "no commit yet" if self.head is None else f"{self.head[:10]} {self.summary!r}"
        against = ""
        if not self.is_current and self.ahead is not None:
            against = f", {self.ahead} ahead, {self.behind} behind"
        draft = f", draft of {self.draft}" if self.draft else ""
        return f"<lacus.BranchInfo {star}{self.name!r} {head}{against}{draft}>"


@guard
class Branches(Mapping[str, BranchInfo]):
    """The branches of a dataset by name, with their status: ``ds.branches``. Each access looks them up again.

    >>> ds.branches.create("fix/labels")
    >>> list(ds.branches), ds.branches["fix/labels"].ahead
    >>> ds.branches.delete("fix/labels")
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def _found(self) -> dict[str, BranchInfo]:
        current = self._dataset.branch
        found = {}
        for facts in json.loads(self._dataset._history.branches()):
            time_millis = facts.pop("time_millis")
            is_current = facts["name"] == current
            time = None if facts["head"] is None else when(time_millis)
            found[facts["name"]] = BranchInfo(time=time, is_current=is_current, **facts)
        return found

    def __getitem__(self, name: str) -> BranchInfo:
        found = self._found()
        if name not in found:
            raise NotFoundError(f"no branch {name!r}; there are {', '.join(map(repr, found))}")
        return found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._dataset._history.branch_names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._dataset._history.branch_names())

    def __len__(self) -> int:
        return len(self._dataset._history.branch_names())

    # Each would look everything up once for every name.

    def items(self) -> Any:
        return self._found().items()

    def values(self) -> Any:
        return self._found().values()

    def create(self, name: str, at: str | Commit | None = None) -> None:
        """Creates a branch from a commit: the one of ``at``, or the newest one here. Copies no data.

        Raises:
            ConflictError: there is a branch or tag of this name.
            NotFoundError: there is no such commit, or no commit yet.
            InvalidError: the name is not allowed.
        """
        self._dataset._history.create_branch(ref_name(name, "branch"), revision(at))

    def delete(self, name: str, force: bool = False) -> None:
        """Deletes a branch. A later ``gc`` removes its files.

        Raises:
            InvalidError: it is main or the current branch; or, without ``force``, it has a draft or commits that no other
                branch or tag contains.
        """
        self._dataset._history.delete_branch(ref_name(name, "branch"), force)

    def rename(self, old: str, new: str) -> None:
        """Renames a branch."""
        self._dataset._history.rename_branch(ref_name(old, "branch"), ref_name(new, "branch"))

    def __repr__(self) -> str:
        return "\n".join(["<lacus.Branches>", *(f"  {info!r}" for info in self._found().values())])


@guard
class Tags(Mapping[str, str]):
    """The tags of a dataset by name, with the ids of their commits: ``ds.tags``. ``ds.tag(name)`` creates one."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def _found(self) -> dict[str, str]:
        return {name: commit for name, commit, *_ in self._dataset._history.tags()}

    def __getitem__(self, name: str) -> str:
        found = self._found()
        if name not in found:
            raise NotFoundError(f"no tag {name!r}" + (f"; there are {', '.join(map(repr, found))}" if found else ""))
        return found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def items(self) -> Any:
        return self._found().items()

    def values(self) -> Any:
        return self._found().values()

    def message(self, name: str) -> str:
        """The message of a tag."""
        for found, _, _, _, message in self._dataset._history.tags():
            if found == name:
                return message
        raise NotFoundError(f"no tag {name!r}")

    def delete(self, name: str) -> None:
        """Deletes a tag. Its commit stays as long as another branch or tag needs it."""
        self._dataset._history.delete_tag(ref_name(name, "tag"))

    def __repr__(self) -> str:
        return f"<lacus.Tags {({name: commit[:10] for name, commit in self._found().items()})}>"


def ref_name(name: Any, what: str) -> str:
    """A name of a branch or tag, checked to be text."""
    if not isinstance(name, str):
        raise InvalidError(f"{what}: a name is expected, found {name!r}")
    return name


def revision(ref: Any) -> str | None:
    """Text for what means a commit."""
    if ref is None:
        return None
    if isinstance(ref, Commit):
        return ref.id
    if not isinstance(ref, str):
        raise InvalidError(f"a branch, tag or commit is expected as text, found {ref!r}")
    return str(ref)
