"""Which rank is this process, and which worker of a torch DataLoader?"""

from __future__ import annotations

import operator
import os
import sys
from typing import Any

from .errors import InvalidError

__all__ = ["found_ranks", "worker"]


def found_ranks(rank: Any, world: Any) -> tuple[int, int]:
    """The rank and the number of ranks: as given, of ``torch.distributed`` if it is initialised, of the environment variables ``RANK`` and
    ``WORLD_SIZE``, or the only one."""
    if (rank is None) != (world is None):
        raise InvalidError(f"loader: give both rank and world, or neither; found rank={rank!r}, world={world!r}")
    if rank is not None:
        return _number("rank", rank), _number("world", world)
    # Whoever uses torch.distributed has imported it.
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    told = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if told[0] is None or told[1] is None:
        return 0, 1
    try:
        return int(told[0]), int(told[1])
    except ValueError as error:
        raise InvalidError(
            f"loader: the environment has RANK={told[0]!r} and WORLD_SIZE={told[1]!r}, which are no numbers"
        ) from error


def worker() -> tuple[int, int] | None:
    """The number of this worker of a torch DataLoader, and how many there are; None in any other process."""
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return None if info is None else (int(info.id), int(info.num_workers))


def _number(what: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidError(f"loader: {what}: a whole number is expected, found {value!r}")
    number = operator.index(value)
    if number < 0:
        raise InvalidError(f"loader: {what}: {number} is below 0")
    return number
