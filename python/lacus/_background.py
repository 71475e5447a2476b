"""A save that goes on while its caller does: one at a time in a process.

    save(wait=False) ─copy into kept memory→ returns ┄┄┄ thread: write, commit, tag
    the next call    ─waits for it, raises its error
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from ._arrays import NDArray

_T = TypeVar("_T")


class Saving(Generic[_T]):
    """A save under way: what ``lacus.save(..., wait=False)`` returns."""

    def __init__(self, work: Callable[[], _T], url: str) -> None:
        self.url = url
        self._work: Callable[[], _T] | None = work
        self._value: _T | None = None
        self._error: BaseException | None = None
        #: Whether the error was raised to somebody.
        self._told = False
        # Not a daemon: Python waits for it before it exits.
        self._thread = threading.Thread(target=self._run, name="lacus-save", daemon=False)

    def _run(self) -> None:
        try:
            assert self._work is not None
            self._value = self._work()
        except BaseException as error:
            self._error = error
        finally:
            # The state's memory is the caller's again.
            self._work = None

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Waits for its end."""
        self._thread.join()

    def result(self) -> _T:
        """Waits for its end and returns the checkpoint, or raises what went wrong."""
        self.wait()
        if self._error is not None:
            self._told = True
            raise self._error
        return self._value  # type: ignore[return-value]

    def __repr__(self) -> str:
        state = "under way" if not self.done() else "failed" if self._error is not None else "done"
        return f"<lacus.Saving {state} to {self.url}>"


_lock = threading.RLock()
_current: Saving[Any] | None = None
#: Memory of the last copy, by size.
_kept: dict[int, list[NDArray]] = {}


def _forget() -> None:
    """In a forked child: its parent's thread goes on in the parent alone."""
    global _lock, _current, _kept
    _lock, _current, _kept = threading.RLock(), None, {}


os.register_at_fork(after_in_child=_forget)


def settle(*, raising: bool = True) -> None:
    """Waits for the save under way. Its error is raised here, unless somebody has seen it."""
    with _lock:
        if _current is None:
            return
        _current.wait()
        if raising and _current._error is not None and not _current._told:
            _current.result()


def start(work: Callable[[], _T], url: str) -> Saving[_T]:
    """Starts a save; the one before has ended."""
    global _current
    with _lock:
        settle()
        made = Saving(work, url)
        made._thread.start()
        _current = made
        return made


def copies(arrays: list[NDArray]) -> list[NDArray]:
    """Copies in C order, in memory that the copies before had where it fits. The save under way must have ended."""
    with _lock:
        found: list[NDArray] = []
        used: dict[int, list[NDArray]] = {}
        for array in arrays:
            free = _kept.get(array.nbytes)
            memory = free.pop() if free else np.empty(array.nbytes, np.uint8)
            used.setdefault(array.nbytes, []).append(memory)
            copy = memory.view(array.dtype).reshape(array.shape) if array.nbytes else np.empty(array.shape, array.dtype)
            np.copyto(copy, array)
            found.append(copy)
        # What this state has no use for goes.
        _kept.clear()
        _kept.update(used)
        return found
