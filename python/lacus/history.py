"""History: commits, branches, tags, differences, merges and clean-up of a dataset.

Every write makes a version. A **commit** records the newest one; versions after the newest commit are the **draft**.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._guard import guard
from ._native import Dataset as NativeDataset
from ._native import History as NativeHistory
from .branches import Branches, Tags, ref_name, revision
from .commit import Commit, LineageStep, Shown, when
from .conflict import Conflict
from .diff import Diff
from .errors import InvalidError, MergeConflictError, NotFoundError
from .tensor import metadata_text
from .transaction import Transaction
from .upkeep import CheckReport, ExpireReport, GcReport, Kept, Removable, seconds

if TYPE_CHECKING:
    from ._native import _At, _Compared, _Difference
    from .dataset import Dataset

__all__ = ["Historic", "HistoryEntry", "Merged", "Status"]

#: A commit: a branch (its newest), a tag, a commit's id or the beginning of it, ``branch~2``, a :class:`Commit`.
Ref: TypeAlias = "str | Commit"
#: A state: any of these, a version's number, or a time.
State: TypeAlias = "str | Commit | int | float | datetime.date | np.datetime64"

_CHOICES = ("ours", "theirs", "union")
_LINEAGE = {"outputs", "program", "function", "inputs", "parameters"}
_INPUT = {"commit", "url", "tensors"}


@dataclasses.dataclass(frozen=True)
class HistoryEntry:
    """One version of a dataset."""

    version: int
    #: When it was made, in UTC.
    time: datetime.datetime
    author: str
    #: What was done: ``"PUT"``, ``"WRITE REGION"``, …
    operation: str
    #: Facts about it, such as the names of the tensors.
    detail: dict[str, Any]
    #: Whether it was made safe against power loss.
    durable: bool


@dataclasses.dataclass(frozen=True)
class Status:
    """The status of a branch, or of a handle that is pinned to a state and has no draft."""

    #: None for a handle that is on no branch.
    branch: str | None
    #: Its newest commit; None before the first.
    head: Commit | None
    #: Its newest version.
    version: int
    #: Versions that are in no commit yet, newest first.
    draft: list[HistoryEntry]
    #: What they changed.
    diff: Diff

    @property
    def clean(self) -> bool:
        """Whether everything is in a commit."""
        return not self.draft

    def __repr__(self) -> str:
        head = "no commit yet" if self.head is None else f"at {self.head.short_id} {self.head.summary!r}"
        if self.branch is None:
            return f"<lacus.Status on no branch, {f'at version {self.version}' if self.head is None else head}>"
        lines = [f"<lacus.Status on branch {self.branch!r}, {head}>"]
        if self.clean:
            return "\n".join([*lines, "  nothing to commit"])
        count = len(self.draft)
        lines.append(f"  draft of {count:,} {'version' if count == 1 else 'versions'}: {self.diff._summary()}")
        lines += [f"    {line}" for line in self.diff._lines()]
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Merged:
    """The result of a merge."""

    #: ``"up to date"``, ``"fast-forward"`` or ``"committed"``.
    outcome: str
    #: The commit the branch is at now; None if there was nothing to do.
    id: str | None


def moment(at: Any) -> _At:
    """What `at` names: text, a version, a time in milliseconds since 1970. Text that may be a time comes with it."""
    if at is None:
        return None, None, None
    if isinstance(at, Commit):
        return at.id, None, None
    if isinstance(at, bool):
        raise InvalidError(f"at: {at} is neither a version nor a time")
    if isinstance(at, (int, np.integer)):
        if at < 0:
            raise NotFoundError(f"no version {at}")
        return None, int(at), None
    if isinstance(at, str):
        try:
            return str(at), None, _millis(datetime.datetime.fromisoformat(at.replace("Z", "+00:00")))
        except (ValueError, OverflowError):
            return str(at), None, None
    try:
        if isinstance(at, np.datetime64):
            # It has no zone, as a datetime without one.
            at = at.astype("datetime64[us]").item()
            if not isinstance(at, datetime.datetime):
                raise ValueError("it is no time, or one that is too far away")
        if isinstance(at, datetime.date) and not isinstance(at, datetime.datetime):
            at = datetime.datetime.combine(at, datetime.time())
        return None, None, _millis(at)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidError(f"at: expected a revision, a version number or a time, found {at!r}: {error}") from error


def _millis(time: Any) -> int:
    return int((time.timestamp() if isinstance(time, datetime.datetime) else float(time)) * 1000)


def entry(found: Mapping[str, Any]) -> HistoryEntry:
    """A version from what the native module tells of it."""
    facts = dict(found)
    return HistoryEntry(time=when(facts.pop("time_millis")), **{**facts, "detail": facts["detail"] or {}})


@guard
class Historic:
    """The part of :class:`Dataset` that is about history."""

    __slots__ = ()
    if TYPE_CHECKING:
        _native: NativeDataset
        _history: NativeHistory
        _transaction: Transaction | None

        @property
        def url(self) -> str: ...
        def _beside(self, found: NativeDataset) -> Dataset: ...

    # Where it stands.

    @property
    def branch(self) -> str | None:
        """The branch this handle is on; None if it is pinned to a commit, a version or a time."""
        name, is_pinned, _ = self._history.place()
        return None if is_pinned else name

    @property
    def branches(self) -> Branches:
        """The branches by name, with their status; also to create, delete and rename them."""
        return Branches(self)  # type: ignore[arg-type]

    @property
    def tags(self) -> Tags:
        """The tags by name, with the ids of their commits; also to delete them."""
        return Tags(self)  # type: ignore[arg-type]

    def status(self) -> Status:
        """The status of the branch: its newest commit, and changes that are not committed.

        >>> ds.status()
        <lacus.Status on branch 'main', at 1f0c5a2b9e 'First labels'>
          draft of 1 version: 1 tensor
            labels  column  3 samples updated
        """
        if self.branch is None:
            _, _, commit = self._history.place()
            at = None if commit is None else Commit._of(self._history.resolve(commit))
            return Status(None, at, self._native.version, [], Diff((False, [], [], []), lambda: self.diff()._both()))
        branch, head, version, draft, difference = self._history.status()
        return Status(
            branch=branch,
            head=None if head is None else Commit._of(head),
            version=version,
            draft=[entry(found) for found in json.loads(draft)],
            diff=self._diff(difference, lambda: self._history.diff(("HEAD", None, None), (branch, None, None))),
        )

    def log(self, ref: Ref | None = None, limit: int | None = None) -> list[Commit]:
        """The history of ``ref``, newest commit first; by default of the branch or commit this handle is at.

        >>> for commit in ds.log(limit=10):
        ...     print(commit.short_id, commit.time, commit.summary)
        """
        if limit is not None and limit < 0:
            raise InvalidError(f"limit: {limit} is negative")
        return [Commit._of(found) for found in self._history.log(revision(ref), limit)]

    def show(self, ref: Ref | None = None) -> Shown:
        """A commit, and its changes from its first parent.

        >>> shown = ds.show("main~1")
        >>> shown.commit.message, shown.diff.rows_added
        """
        commit, (before, after, difference) = self._history.show(revision(ref))
        return Shown(Commit._of(commit), self._diff(difference, lambda: (before, after, difference)))

    def diff(self, a: State | None = None, b: State | None = None) -> Diff:
        """What differs between two states.

        Args:
            a: the earlier state; by default the newest commit. A branch includes its draft.
            b: the later state; by default the current one, including the draft and the writes of an open transaction.

        Its cost depends on how much changed, not on the size of the dataset. Values are read when you access them.

        >>> diff = ds.diff("v1.0", "main")
        >>> diff.rows_added, diff.tensors["labels"].updated
        >>> [(change.row, change.old, change.new) for change in diff if change.tensor == "labels"]
        >>> [(change.slices, change.old, change.new) for change in diff if change.what == "region"]
        """
        before, after, difference = self._history.diff(
            None if a is None else moment(a), None if b is None else moment(b)
        )
        return self._diff(difference, lambda: (before, after, difference))

    def _diff(self, difference: _Difference, compare: Callable[[], _Compared]) -> Diff:
        def states() -> tuple[Dataset, Dataset]:
            before, after, _ = compare()
            return self._beside(before), self._beside(after)

        return Diff(difference, states)

    def lineage(self, name: str, ref: Ref | None = None) -> list[LineageStep]:
        """Where a tensor came from: the commits that changed it, newest first. If a commit records inputs, their commits follow, one
        level deeper."""
        found = json.loads(self._history.lineage(name, revision(ref)))
        return [
            LineageStep(step["depth"], step["tensor"], Commit._of(step["commit"]), step["lineage"]) for step in found
        ]

    # Commits.

    def commit(
        self,
        message: str,
        *,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        lineage: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        allow_empty: bool = False,
    ) -> str:
        """Commits the newest version of the branch and makes it safe against power loss. Returns the commit's id.

        Args:
            message: what was done; not empty.
            author: by default the user this process runs as.
            metadata: a dict to store with the commit as JSON.
            lineage: where tensors came from: a dict, or several, with ``outputs`` (names of tensors), ``program``, ``function``,
                ``inputs`` (names of tensors of this dataset, or dicts of ``commit``, ``tensors`` and, for another dataset,
                ``url``) and ``parameters``; :meth:`lineage` follows it.
            allow_empty: commits even if nothing changed.

        Raises:
            InvalidError: there is nothing to commit, the message is empty, or a transaction is open.

        >>> ds.commit("Labels of the second round", metadata={"ticket": 17})
        """
        return self._history.commit(self._record(message, author, metadata, lineage), allow_empty)

    def transaction(
        self,
        message: str,
        *,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        lineage: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> Transaction:
        """A block whose writes become one commit, or nothing. The arguments are those of :meth:`commit`.

        >>> with ds.transaction("New labels") as tx:
        ...     ds["labels"][:100] = labels
        ...     ds["weights"] = weights
        >>> tx.id

        Raises:
            InvalidError: this handle already has an open transaction, or it is read-only.
            ConflictError: at the end of the block, if someone else changed the same thing in the meantime. Nothing is written.
        """
        record = self._record(message, author, metadata, lineage)
        if not message.strip():
            raise InvalidError("transaction: the message is empty")
        return Transaction(self, record)  # type: ignore[arg-type]

    def discard(self, force: bool = False) -> int:
        """Undoes the draft: makes a version with the content of the newest commit. Returns how many versions the draft had.

        Raises:
            InvalidError: the draft has versions of other people, and ``force`` is not set.
        """
        return self._history.discard(force)

    def restore(self, ref: State) -> int:
        """Makes a new version with the content of another state, as a draft that you can commit or discard. Returns the version."""
        return self._history.restore(moment(_given(ref, "restore")))

    # Branches.

    def checkout(self, ref: State, create: bool = False, force: bool = False) -> None:
        """Moves this handle to a branch, where it can write; or to a tag, commit, version or time, where it is read-only.

        Args:
            ref: the branch or state.
            create: creates a branch of this name first, from the commit this handle is at.
            force: leaves a draft on the current branch, where it stays.

        Raises:
            InvalidError: the current branch has a draft, or a transaction is open.
            NotFoundError: there is no such branch or state.

        >>> ds.checkout("fix/labels", create=True)
        >>> ds["labels"][3] = "cat"
        >>> ds.commit("Fix a label")
        >>> ds.checkout("main")
        >>> ds.merge("fix/labels")
        """
        if create:
            self._history.checkout((None, None, None), ref_name(ref, "branch"), force)
        else:
            self._history.checkout(moment(_given(ref, "checkout")), None, force)

    def tag(self, name: str, at: Ref | None = None, message: str = "") -> str:
        """Tags a commit: the one of ``at``, or the newest one here. Returns its id.

        Raises:
            ConflictError: there is a tag or branch of this name.
        """
        if at is None:
            _, is_pinned, commit = self._history.place()
            if is_pinned and commit is None:
                raise InvalidError("tag: this handle is pinned to an uncommitted version; pass at=<commit>")
        return self._history.create_tag(ref_name(name, "tag"), revision(at), message)

    def publish(self, branch: str | None = None) -> str:
        """Copies the files that a branch shares with others, so that any Delta reader can open it. Returns the URL or path of its
        table."""
        directory = self._history.publish(branch)
        return f"{self.url.rstrip('/')}/{directory}" if directory else self.url

    def merge(
        self,
        ref: Ref,
        on_conflict: str | Callable[[Conflict], str] | None = None,
        message: str | None = None,
        fast_forward: bool | str = True,
        *,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Merged:
        """Merges a commit into the current branch: applies what changed there since the two split, by row, chunk and tensor.

        Args:
            ref: what to merge.
            on_conflict: how to resolve conflicts: ``"ours"``, ``"theirs"``; ``"union"``, where that is possible (see
                :attr:`Conflict.has_union`); a function that gets a :class:`Conflict` and returns one of these; or None to change
                nothing and raise.
            message: of the merge commit.
            fast_forward: whether a branch without commits of its own just moves forward; ``"only"`` allows nothing else.

        Raises:
            MergeConflictError: there are unresolved conflicts. Nothing was changed.
            InvalidError: the branch has a draft.

        >>> ds.merge("fix/labels", on_conflict=lambda conflict: "theirs" if conflict.tensor == "labels" else "ours")
        """
        forward = {True: "allowed", False: "never", "only": "only"}.get(fast_forward)
        if forward is None:
            raise InvalidError(f'fast_forward: {fast_forward!r} is neither True, False nor "only"')
        record = self._record(message, author, metadata, None)
        text = revision(_given(ref, "merge")) or ""
        return _settled(lambda decisions: self._history.merge(text, record, forward, decisions), on_conflict)

    def cherry_pick(
        self,
        ref: Ref,
        on_conflict: str | Callable[[Conflict], str] | None = None,
        message: str | None = None,
        *,
        author: str | None = None,
    ) -> str:
        """Applies the changes of one commit to this branch. Returns the new commit's id. Conflicts are resolved as in :meth:`merge`."""
        record = self._record(message, author, None, None)
        text = revision(_given(ref, "cherry_pick")) or ""
        return _settled(lambda decisions: self._history.cherry_pick(text, record, decisions), on_conflict).id or ""

    def revert(
        self,
        ref: Ref,
        on_conflict: str | Callable[[Conflict], str] | None = None,
        message: str | None = None,
        *,
        mainline: int | None = None,
        author: str | None = None,
    ) -> str:
        """Undoes the changes of one commit with a new commit. Returns its id. Conflicts are resolved as in :meth:`merge`: "ours" is the
        current state, "theirs" the state before the commit.

        Args:
            ref: the commit.
            on_conflict: see :meth:`merge`.
            message: of the new commit.
            mainline: for a merge, the parent to go back to: 1 is the branch it was made on, which undoes what was merged; 2 is what
                was merged.
            author: of the new commit.

        Raises:
            InvalidError: a merge without `mainline`, a parent that does not exist, or `mainline` for a commit that is not a merge.

        >>> ds.revert("main~1")
        >>> ds.revert("main", mainline=1)
        """
        if mainline is not None and (
            isinstance(mainline, bool) or not isinstance(mainline, (int, np.integer)) or not 0 <= mainline < 1 << 63
        ):
            raise InvalidError(f"revert: mainline is the number of a parent, 1 or 2, found {mainline!r}")
        record = self._record(message, author, None, None)
        text = revision(_given(ref, "revert")) or ""
        parent = None if mainline is None else int(mainline)
        return _settled(lambda decisions: self._history.revert(text, parent, record, decisions), on_conflict).id or ""

    # Upkeep.

    def gc(self, dry_run: bool = True, grace: Any = None, keep: Any = None) -> GcReport:
        """Finds, and with ``dry_run=False`` removes, files that no branch, tag, saved view, commit or draft needs.

        Args:
            dry_run: only reports.
            grace: younger files stay, because a writer may be about to use them: a ``timedelta``, seconds or text such as
                ``"12h"``; by default a day.
            keep: older commits lose their data, except those with a tag and the newest of each branch; None keeps all.

        >>> ds.gc()
        >>> ds.gc(dry_run=False, grace="7d", keep="365d")
        """
        found = json.loads(
            self._history.gc(
                dry_run,
                seconds("1d" if grace is None else grace, "grace"),
                None if keep is None else seconds(keep, "keep"),
                None,
            )
        )
        return GcReport(
            removed=found["removed"],
            removable=[Removable(*each) for each in found["removable"]],
            kept=[Kept(*each) for each in found["kept"]],
        )

    def expire(self, older_than: Any, *, dry_run: bool = False) -> ExpireReport:
        """Drops old drafts: versions older than this that are in no commit and are not the newest of a branch. You can no longer open
        them, and the next ``gc`` removes the files that only they needed."""
        return ExpireReport(dict(self._history.expire(seconds(older_than, "older_than"), dry_run)))

    def check(self, repair: bool = False) -> CheckReport:
        """Verifies everything that branches and tags need: refs, commits, logs, files, checksums, rows of columns.

        Args:
            repair: repairs what can be repaired without guessing.
        """
        found = json.loads(self._history.check(repair))
        for key in ("damage", "repairable", "repaired", "notes"):
            found[key] = [tuple(each) for each in found[key]]
        return CheckReport(**found)

    # Parts of the above.

    def _record(
        self, message: str | None, author: str | None, metadata: Any, lineage: Any
    ) -> tuple[str | None, str | None, str, str]:
        for what, value in (("message", message), ("author", author)):
            if value is not None and not isinstance(value, str):
                raise InvalidError(f"{what}: text is expected, found {value!r}")
        text = "{}" if metadata is None else metadata_text(metadata, "commit")
        return message, author, text, self._lineage_text(lineage)

    def _lineage_text(self, lineage: Any) -> str:
        if lineage is None:
            return "[]"
        found = []
        for each in [lineage] if isinstance(lineage, Mapping) else lineage:
            made = _known(each, _LINEAGE, "lineage")
            made["inputs"] = [self._input(one) for one in made.get("inputs", ())]
            made.setdefault("program", sys.argv[0] or None)
            found.append(made)
        try:
            return json.dumps(found, allow_nan=False, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidError(f"lineage cannot be made JSON: {error}") from error

    def _input(self, given: Any) -> dict[str, Any]:
        if isinstance(given, str):
            return {"tensors": [given]}
        found = _known(given, _INPUT, "lineage: inputs")
        ref = found.get("commit")
        if ref is not None and "url" not in found:
            found["commit"] = Commit._of(self._history.resolve(revision(ref))).id
        return found


def _known(given: Any, keys: set[str], what: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidError(f"{what}: a dict is expected, found {given!r}")
    if unknown := set(given) - keys:
        raise InvalidError(f"{what}: {sorted(map(str, unknown))} is not known; there are {sorted(keys)}")
    return dict(given)


def _given(ref: Any, what: str) -> Any:
    if ref is None:
        raise InvalidError(f"{what}: a revision is expected, found None")
    return ref


def _settled(
    attempt: Callable[[str | dict[str, str]], tuple[str, str | None]],
    on_conflict: str | Callable[[Conflict], str] | None,
) -> Merged:
    """Tries with what was decided, and asks about what was not."""
    if on_conflict is None or isinstance(on_conflict, str):
        if on_conflict is not None and on_conflict not in _CHOICES:
            raise InvalidError(f'on_conflict: {on_conflict!r} is neither "ours", "theirs" nor "union"')
        return Merged(*attempt(on_conflict or "stop"))
    if not callable(on_conflict):
        raise InvalidError(f"on_conflict: a choice or a function is expected, found {on_conflict!r}")
    # Nothing is held while the function runs: it may read the dataset.
    decided: dict[str, str] = {}
    while True:
        try:
            return Merged(*attempt(decided))
        except MergeConflictError as error:
            open_ = [conflict for conflict in error.conflicts if conflict.text not in decided]
            # A union that has no meaning stays a conflict.
            if not open_:
                raise
        for conflict in open_:
            chosen = on_conflict(conflict)
            if chosen not in _CHOICES:
                raise InvalidError(
                    f'on_conflict: for {conflict}, the function returned {chosen!r}, which is neither "ours", "theirs" nor '
                    '"union"'
                )
            decided[conflict.text] = chosen
