"""A writer: gathers appended rows and writes them in large pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InvalidError

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["Writer"]

_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}

#: Rows gathered at most: their Python objects take more than their samples when these are small.
_MOST_ROWS = 100_000


def parse_size(text: str | int, what: str) -> int:
    """A number of bytes, such as ``"64MiB"``."""
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
        unit = _UNITS.get(found[2].lower()) if found else None
        if found is None or unit is None:
            raise InvalidError(f'{what}: {text!r} is no size; write "64MiB" or a number of bytes')
        size = int(float(found[1]) * unit)
    if size <= 0:
        raise InvalidError(f"{what}: {text!r} is not positive")
    return size


class Writer:
    """Gathers rows and writes them when they fill a buffer, and at the end. Got by ``ds.writer()``.

    Each piece is one version, whole or not at all. When the block is left by an exception, what was gathered since the
    last piece is not written.

    >>> with ds.writer() as writer:
    ...     for path, label in files:
    ...         writer.append({"images": lacus.read(path), "labels": label})
    """

    def __init__(self, dataset: Dataset, buffer: str | int, on_error: str, durable: bool) -> None:
        self._dataset = dataset
        self._limit = parse_size(buffer, "buffer")
        self._on_error = on_error
        self._durable = durable
        self._gathered: dict[str, list[Any]] = {}
        self._count = 0
        self._bytes = 0
        self._closed = False
        #: Rows written so far.
        self.rows = 0
        #: Rows that were not written, by their place among all that were appended, with the reason.
        self.skipped: list[tuple[int, str]] = []
        self._seen = 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Gathers one row."""
        self.extend({name: [sample] for name, sample in row.items()})

    def extend(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Gathers several rows."""
        if self._closed:
            raise InvalidError("the writer is closed")
        known = self._dataset._native_names()
        lengths = {name: len(samples) for name, samples in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidError(
                "columns have different numbers of samples: "
                + ", ".join(f'"{name}" has {length}' for name, length in lengths.items())
            )
        for name in columns:
            if name not in known:
                self._dataset._column(name)
        count = next(iter(lengths.values()), 0)
        for name in columns.keys() - self._gathered.keys():
            self._gathered[name] = [None] * self._count
        for name, gathered in self._gathered.items():
            samples = columns.get(name)
            if samples is None:
                gathered.extend([None] * count)
            else:
                # Files are read now, one after the other, not all at the end.
                kept = [sample._lacus_sample()[1] if type(sample).__name__ == "Sample" else sample for sample in samples]
                self._bytes += sum(map(_weight, kept))
                gathered.extend(kept)
        self._count += count
        if self._bytes >= self._limit or self._count >= _MOST_ROWS:
            self.flush()

    def flush(self) -> None:
        """Writes what was gathered."""
        if self._count == 0:
            return
        gathered, count = self._gathered, self._count
        self._gathered, self._count, self._bytes = {}, 0, 0
        first, self._seen = self._seen, self._seen + count
        report = self._dataset.extend(gathered, on_error=self._on_error, durable=self._durable)
        self.rows += report.rows
        self.skipped.extend((first + row, why) for row, why in report.skipped)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.flush()
        self._closed = True


def _weight(sample: Any) -> int:
    """About how many bytes a sample takes."""
    if isinstance(sample, (bytes, bytearray, str)):
        return len(sample) + 64
    if isinstance(sample, np.ndarray):
        return sample.nbytes + 128
    if isinstance(sample, (list, tuple)):
        return 64 + sum(map(_weight, sample))
    return int(getattr(sample, "nbytes", 64))
