"""The line on the terminal that shows how far a long call has come."""

from __future__ import annotations

import sys
import time

__all__ = ["ProgressLine", "seconds_left"]

#: Seconds between two texts of a line that is fed for every row: more often costs time and cannot be read.
_EVERY = 0.2


class ProgressLine:
    """A line on stderr that is written over and over. With ``shown=None`` it appears on a terminal only."""

    def __init__(self, shown: bool | None) -> None:
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._start = self._told = time.monotonic()

    @property
    def seconds(self) -> float:
        """The time since the line was made."""
        return max(time.monotonic() - self._start, 1e-9)

    def is_due(self) -> bool:
        """Whether the last text has been there long enough."""
        now = time.monotonic()
        if not self.shown or now - self._told <= _EVERY:
            return False
        self._told = now
        return True

    def show(self, text: str) -> None:
        """Replaces the text of the line."""
        if self.shown:
            sys.stderr.write(f"\r{text} \x1b[K")
            sys.stderr.flush()

    def close(self, last: str | None = None) -> None:
        """Removes the line, or leaves a last text and goes to the next one."""
        if self.shown:
            sys.stderr.write("\r\x1b[K" if last is None else f"\r{last}\x1b[K\n")
            sys.stderr.flush()


def seconds_left(done: int, total: int, seconds: float) -> str:
    """How long the rest takes at the pace so far."""
    return f"{(total - done) * seconds / max(done, 1):.0f} s left"
