"""A transaction: several writes that become one commit, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import InvalidError

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["Transaction"]


class Transaction:
    """Makes all writes through a handle one commit, or nothing: ``ds.transaction(message)``.

    Inside the block, only this handle sees its writes, and ``refresh`` does not move it. At the end of the block, they become one
    version and one commit, which includes an existing draft. If the block ends with an exception, or if someone else changed the same
    thing in the meantime (:class:`ConflictError`), nothing is written.

    >>> with ds.transaction("New labels") as tx:
    ...     ds["labels"][:100] = labels
    ...     ds["weights"] = weights
    >>> tx.id
    """

    def __init__(self, dataset: Dataset, record: tuple[str | None, str | None, str, str]) -> None:
        self._dataset = dataset
        self._record = record
        self._entered = False
        #: The id of the commit, once the block has ended; None if nothing was written.
        self.id: str | None = None

    def __enter__(self) -> Transaction:
        if self._entered:
            raise InvalidError("transaction: it was used already; make another by ds.transaction(message)")
        self._dataset._history.begin()
        self._entered = True
        self._dataset._transaction = self
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._dataset._transaction = None
        if kind is not None:
            self._dataset._history.abandon()
            return
        self.id = self._dataset._history.finish(self._record, True)

    def __repr__(self) -> str:
        state = "open" if self._dataset._transaction is self else (self.id or "without a commit")[:17]
        return f"<lacus.Transaction {self._record[0]!r}, {state}>"
