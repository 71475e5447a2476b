"""What loaders do when they are not told."""

from __future__ import annotations

__all__ = ["BLOCK", "PREFETCH", "TIMEOUT"]

#: Samples within so many stored bytes are mixed when you shuffle.
BLOCK = "64MiB"

#: Bytes that are read and decoded ahead.
PREFETCH = "256MiB"

#: Seconds without a batch after which a loader gives up.
TIMEOUT = 600.0
