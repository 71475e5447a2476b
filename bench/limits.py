"""The physical limits: the same bytes through bare system calls, into files made at full length and buffers
that were used before. Nothing that stores and returns the bytes can be much faster."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contender import Cells, CheckpointContender, DenseContender, EmbeddingsContender, LoaderContender, SamplesContender, SparseContender, consumed
from data import Files, Sparse


def dense() -> list[DenseContender]:
    return [DenseLimit()]


def sparse() -> list[SparseContender]:
    return [SparseLimit()]


def checkpoint() -> list[CheckpointContender]:
    return [CheckpointLimit()]


def samples() -> list[SamplesContender]:
    return [SamplesLimit()]


class SamplesLimit(SamplesContender):
    name = "limit: pwrite, pread"
    family = "limit"
    note = "files read one by one and written behind each other into one file; rows are read as the files themselves"

    def prepare(self, value: Files) -> Files:
        self._value = value
        return value

    def write(self, path: Path, value: Files) -> None:
        contents = []
        for file in value.paths:
            with open(file, "rb") as opened:
                contents.append(opened.read())
        write_preallocated(path, [np.frombuffer(b"".join(contents), np.uint8), np.array(value.labels)])

    def batch(self, handle: Path, rows: list[int]) -> tuple[list[bytes], Any]:
        return [self.one(handle, row) for row in rows], [self._value.labels[row] for row in rows]

    def one(self, handle: Path, row: int) -> bytes:
        with open(self._value.paths[row], "rb") as opened:
            return opened.read()


@dataclass
class Opened:
    fd: int
    buffer: np.ndarray


class DenseLimit(DenseContender):
    name = "limit: pwrite, pread"
    family = "limit"
    note = "one file, preallocated; one reused buffer; a window is read as one span of rows per item"

    def __init__(self) -> None:
        self._buffer: np.ndarray | None = None

    def prepare(self, value: np.ndarray) -> np.ndarray:
        self._like = value
        self._buffer = np.ones(value.shape, value.dtype)
        return value

    def write(self, path: Path, value: np.ndarray) -> None:
        write_preallocated(path, [value])

    def open(self, path: Path) -> Opened:
        return Opened(os.open(path, os.O_RDONLY), self._buffer)

    def close(self, handle: Opened) -> None:
        os.close(handle.fd)

    def read(self, handle: Opened) -> np.ndarray:
        read_exactly(handle.fd, handle.buffer, 0)
        return handle.buffer

    def select(self, handle: Opened, selection: Any) -> np.ndarray:
        if isinstance(selection, tuple):
            return self._window(handle, *selection)
        start, stop, _ = selection.indices(len(handle.buffer))
        out = handle.buffer[: stop - start]
        read_exactly(handle.fd, out, start * handle.buffer[0].nbytes)
        return out

    def _window(self, handle: Opened, items: slice, channel: int, rows: slice, columns: slice) -> np.ndarray:
        """Of each item the rows that the window touches, whole, and then the columns of all."""
        _, channels, height, width = self._like.shape
        count, span = rows.stop - rows.start, (rows.stop - rows.start) * width
        flat = handle.buffer.reshape(-1)[: len(self._like) * span]
        for item in range(len(self._like)):
            offset = ((item * channels + channel) * height + rows.start) * width
            os.preadv(handle.fd, [flat[item * span : (item + 1) * span]], offset)
        return flat.reshape(-1, count, width)[items, :, columns].copy()


class SparseLimit(SparseContender):
    name = "limit: pwrite, pread"
    family = "limit"
    note = "int64 coordinates, then float32 values, in one preallocated file; a slice is known to be one range of rows"

    def prepare(self, value: Sparse) -> Sparse:
        self._value = value
        self._starts = np.searchsorted(value.indices[:, 0], np.arange(value.shape[0] + 1))
        self._indices, self._values = np.ones_like(value.indices), np.ones_like(value.values)
        return value

    def write(self, path: Path, value: Sparse) -> None:
        write_preallocated(path, [value.indices, value.values])

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY)

    def close(self, handle: int) -> None:
        os.close(handle)

    def read(self, handle: int) -> Cells:
        return self._rows(handle, 0, len(self._values))

    def select(self, handle: int, place: int) -> Cells:
        indices, values = self._rows(handle, int(self._starts[place]), int(self._starts[place + 1]))
        return indices[:, 1:], values

    def _rows(self, fd: int, start: int, stop: int) -> Cells:
        indices, values = self._indices[: stop - start], self._values[: stop - start]
        read_exactly(fd, indices, start * self._indices.itemsize * self._indices.shape[1])
        read_exactly(fd, values, self._indices.nbytes + start * values.itemsize)
        return indices, values


class CheckpointLimit(CheckpointContender):
    name = "limit: pwrite, pread"
    family = "limit"
    note = "all arrays in one preallocated file, their places known"

    def prepare(self, value: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self._places, offset = {}, 0
        for name, array in value.items():
            self._places[name] = offset
            offset += array.nbytes
        self._buffers = {name: np.ones_like(array) for name, array in value.items()}
        return value

    def write(self, path: Path, value: dict[str, np.ndarray]) -> None:
        write_preallocated(path, list(value.values()))

    def load(self, path: Path) -> dict[str, np.ndarray]:
        self.load_into(path, self._buffers)
        return self._buffers

    def load_into(self, path: Path, model: dict[str, np.ndarray]) -> None:
        fd = os.open(path, os.O_RDONLY)
        for name, array in model.items():
            read_exactly(fd, array, self._places[name])
        os.close(fd)

    def load_one(self, path: Path, name: str) -> np.ndarray:
        fd = os.open(path, os.O_RDONLY)
        read_exactly(fd, self._buffers[name], self._places[name])
        os.close(fd)
        return self._buffers[name]


def write_preallocated(path: Path, arrays: list[np.ndarray]) -> None:
    """Arrays one behind the other in a new file that has its length from the start."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.posix_fallocate(fd, 0, sum(array.nbytes for array in arrays))
        offset = 0
        for array in arrays:
            view = memoryview(array).cast("B")
            while view:
                written = os.pwrite(fd, view, offset)
                offset, view = offset + written, view[written:]
    finally:
        os.close(fd)


def read_exactly(fd: int, out: np.ndarray, offset: int) -> None:
    """Fills an array from a place in a file."""
    view = memoryview(out).cast("B")
    while view:
        count = os.preadv(fd, [view], offset)
        if count == 0:
            raise EOFError(f"the file ends at byte {offset}")
        offset, view = offset + count, view[count:]


def loader() -> list[LoaderContender]:
    try:
        import simplejpeg  # noqa: F401
    except ImportError:
        return []
    return [TurboFromMemory()]


class TurboFromMemory(LoaderContender):
    """libjpeg-turbo on files that are in memory already, on all cores: nothing that decodes with it is faster."""

    name = "libjpeg-turbo from memory, all cores"
    family = "limit"
    note = "simplejpeg on threads, nothing is read or put together"

    def prepare(self, value: Files) -> Files:
        self._value = value
        return value

    def write(self, path: Path, value: Files) -> None:
        path.write_bytes(b"")

    def epoch(self, handle: Path, seed: int) -> tuple[np.ndarray, int]:
        import concurrent.futures

        import simplejpeg

        value, order = self._value, np.random.default_rng(seed).permutation(len(self._value.contents))
        parts = [order[start : start + 64] for start in range(0, len(order), 64)]

        def decode(rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
            pictures = np.stack([simplejpeg.decode_jpeg(value.contents[row], fastdct=True) for row in rows])
            return pictures, [value.labels[row] for row in rows]

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return consumed(pool.map(decode, parts))


def embeddings() -> list[EmbeddingsContender]:
    return [CopyLoop()]


class CopyLoop(EmbeddingsContender):
    """Copies of batches within memory: the bandwidth of a copy loop."""

    name = "copy loop in memory"
    family = "limit"
    note = "batches are contiguous, nothing is read"

    def prepare(self, value: np.ndarray) -> np.ndarray:
        self._value = value
        return value

    def write(self, path: Path, value: np.ndarray) -> None:
        path.write_bytes(b"")

    def epoch(self, handle: Path, seed: int) -> tuple[int, float]:
        value, count, total = self._value, 0, 0.0
        for start in range(0, len(value), 1024):
            batch = value[start : start + 1024].copy()
            count += len(batch)
            total += float(batch[:, 0].sum(dtype=np.float64))
        return count, total
