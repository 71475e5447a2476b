"""The threads and the memory that all datasets of this process share."""

from __future__ import annotations

import operator
from typing import Any, TypedDict

from . import _native
from .errors import InvalidError
from .writer import parse_size

__all__ = ["Settings", "configure", "settings"]

#: More threads than any machine has cores is a mistake.
_MOST_THREADS = 1 << 16

#: More bytes than any machine has is a mistake too.
_MOST_BYTES = 1 << 62


class Settings(TypedDict):
    """What :func:`settings` returns."""

    #: How many threads one read or write may use, its own included.
    threads: int
    #: The budget in bytes: half for bytes on their way from object stores, half for caches.
    memory: int
    #: Bytes that are on their way now.
    in_flight: int
    #: Bytes that are cached now.
    cached: int


def configure(*, threads: int | None = None, memory: int | str | None = None) -> None:
    """Set how many threads and how much memory Lacus uses in this process. What you leave out stays as it is.

    Without this call, the environment variables ``LACUS_THREADS`` and ``LACUS_MEMORY`` decide, and without those the number
    of cores and an eighth of the machine's memory.

    Args:
        threads: how many threads one read or write may use, its own included.
        memory: a number of bytes, or text such as ``"2GiB"``. Half of it is for bytes on their way from object stores, half
            for caches; what you read is yours and not counted. If you lower it, caches shrink at once.

    Raises:
        InvalidError: ``threads`` is no whole number from 1 on, or ``memory`` is no positive size. Nothing is changed.

    >>> lacus.configure(threads=4, memory="2GiB")
    """
    count = None if threads is None else _threads(threads)
    size = None if memory is None else parse_size(memory, "memory")
    if size is not None and size > _MOST_BYTES:
        raise InvalidError(f"memory: {memory!r} is more than any machine has")
    _native.configure(count, size)


def settings() -> Settings:
    """The threads and memory that Lacus uses in this process, and how much of the memory is in use now.

    >>> lacus.settings()
    {'threads': 4, 'memory': 2147483648, 'in_flight': 0, 'cached': 0}
    """
    threads, memory, in_flight, cached = _native.settings()
    return {"threads": threads, "memory": memory, "in_flight": in_flight, "cached": cached}


def _threads(value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise InvalidError(f"threads: expected a whole number, found {value!r}") from error
    if isinstance(value, bool) or not 1 <= number <= _MOST_THREADS:
        raise InvalidError(f"threads: expected a number from 1 to {_MOST_THREADS}, found {value!r}")
    return number
