"""Small pictures for notebooks: an array becomes a PNG inside a ``data:`` URI.

The encoder is written here, over zlib, so that a display needs no imaging library. It makes 8-bit files of one to four
channels, without filters: a thumbnail is a few kilobytes either way.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

from ._arrays import NDArray

__all__ = ["MAX_HEIGHT", "MAX_WIDTH", "data_uri", "is_picture", "png", "shrunk", "size_of", "thumbnail"]

#: A row of a table stays readable at this height.
MAX_HEIGHT = 64
#: Panoramas are shrunk further, so that they do not push other columns off the screen.
MAX_WIDTH = 192

#: PNG's colour types by the number of channels: gray, gray and alpha, RGB, RGB and alpha.
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}

#: Colours of the classes of a mask; class 0, usually the background, is black.
_CLASS_COLOURS = np.array(
    [
        (0, 0, 0), (78, 121, 167), (242, 142, 43), (225, 87, 89), (118, 183, 178), (89, 161, 79), (237, 201, 72),
        (176, 122, 161), (255, 157, 167), (156, 117, 95), (186, 176, 172),
    ],
    np.uint8,
)  # fmt: skip


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape can be shown: ``(height, width)`` or ``(height, width, 1 to 4)``, not empty."""
    return len(shape) in (2, 3) and min(shape) > 0 and (len(shape) == 2 or shape[2] in _COLOUR_TYPES)


def size_of(height: int, width: int) -> tuple[int, int]:
    """The height and width of the thumbnail of a picture. Small pictures are not enlarged."""
    scale = min(1.0, MAX_HEIGHT / height, MAX_WIDTH / width)
    return max(1, round(height * scale)), max(1, round(width * scale))


def thumbnail(array: NDArray, *, classes: bool = False) -> NDArray:
    """A picture as 8-bit pixels of at most ``MAX_HEIGHT`` by ``MAX_WIDTH``.

    Args:
        classes: the elements are numbers of classes, shown by colours; pixels are picked then, not averaged.
    """
    if classes:
        height, width = size_of(*array.shape[:2])
        rows = np.arange(height) * array.shape[0] // height
        columns = np.arange(width) * array.shape[1] // width
        picked = array[rows[:, None], columns].astype(np.int64)
        # Class 0 stays black, however many classes there are.
        places = np.where(picked == 0, 0, 1 + (picked - 1) % (len(_CLASS_COLOURS) - 1))
        coloured: NDArray = _CLASS_COLOURS[places]
        return coloured
    return _as_bytes(shrunk(array))


def shrunk(array: NDArray) -> NDArray:
    """The picture at the size of its thumbnail: each pixel is the mean of those it stands for."""
    height, width = size_of(*array.shape[:2])
    if (height, width) == array.shape[:2]:
        return array
    # Means over eight pixels a side look no worse than means over all of them, and cost the same for any size.
    step = max(1, min(array.shape[0] // (8 * height), array.shape[1] // (8 * width)))
    small = array[::step, ::step].astype(np.float64)
    for axis, size in ((0, height), (1, width)):
        edges = np.arange(size) * small.shape[axis] // size
        counts = np.diff([*edges, small.shape[axis]])
        sums = np.add.reduceat(small, edges, axis)
        small = sums / counts.reshape([-1 if place == axis else 1 for place in range(small.ndim)])
    return small.round().astype(array.dtype) if array.dtype.kind in "iu" else small


def _as_bytes(array: NDArray) -> NDArray:
    """Pixels from 0 to 255. Bytes stay; floats from 0 to 1 and bools are scaled; other ranges are stretched."""
    if array.dtype == np.uint8:
        return array
    numbers = array.astype(np.float64)
    known = numbers[np.isfinite(numbers)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    if array.dtype.kind in "fb" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    scaled = (numbers - low) * (255 / (high - low) if high > low else 0.0)
    return np.nan_to_num(scaled, nan=0.0, posinf=255.0, neginf=0.0).clip(0, 255).round().astype(np.uint8)


def png(pixels: NDArray) -> bytes:
    """A PNG file of 8-bit pixels, ``(height, width)`` or ``(height, width, channels)``."""
    height, width = pixels.shape[:2]
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    # The byte before each line says that no filter is used.
    lines[:, 1:] = pixels.reshape(height, width * channels)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def data_uri(file: bytes) -> str:
    """A PNG file as the address of an ``<img>``."""
    text: Any = base64.b64encode(file)
    return f"data:image/png;base64,{text.decode('ascii')}"
