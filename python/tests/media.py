"""Small media files, made on the spot."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from typing import Any

import numpy as np

import lacus

Array = np.ndarray[Any, Any]


def picture(rng: np.random.Generator, height: int = 20, width: int = 30, channels: int = 3) -> Array:
    """Smooth enough that JPEG keeps it well."""
    y, x = np.mgrid[:height, :width]
    base = rng.integers(0, 100, channels)
    return ((y * 3 + x * 2)[..., None] % 128 + base).astype(np.uint8)


def encoded(ds: lacus.Dataset, pictures: list[Array], format: str) -> list[bytes]:
    """Pictures as files of a format, made by a column that keeps them so."""
    made = lacus.create(f"{ds.url}-{format}-{len(pictures)}")
    made.add_column("image", "image", compression=format)
    made.extend({"image": pictures})
    found = made["image"].bytes_of(slice(None))
    lacus.delete(made.url)
    return found


def png(array: Array) -> bytes:
    """A PNG of 8 or 16 bits by the book, for one that nobody else made."""
    height, width = array.shape[:2]
    depth = array.dtype.itemsize * 8
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[1 if array.ndim == 2 else array.shape[2]]
    big = array.astype(array.dtype.newbyteorder(">"))
    lines = b"".join(b"\0" + big[y].tobytes() for y in range(height))

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def png_claiming(height: int, width: int) -> bytes:
    """A small file that says it is a large picture."""
    small = png(np.zeros((1, 1, 3), np.uint8))
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return small[:8] + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + small[33:]


def wav(sound: Array, rate: int = 8000) -> bytes:
    """16-bit PCM of shape (frames, channels)."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(sound.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(sound.astype("<i2").tobytes())
    return buffer.getvalue()


def dicom(pixels: Array) -> bytes:
    """An uncompressed DICOM file of 16-bit grays, explicit little endian."""

    def element(group: int, number: int, kind: bytes, value: bytes) -> bytes:
        value += (b"\0" if kind in (b"UI", b"OB") else b" ") if len(value) % 2 else b""
        head = struct.pack("<HH", group, number) + kind
        long = kind in (b"OB", b"OW")
        return head + (struct.pack("<HI", 0, len(value)) if long else struct.pack("<H", len(value))) + value

    def short(number: int) -> bytes:
        return struct.pack("<H", number)

    uid = b"1.2.3.4"
    meta = (
        element(2, 1, b"OB", b"\0\1")
        + element(2, 2, b"UI", b"1.2.840.10008.5.1.4.1.1.7")
        + element(2, 3, b"UI", uid)
        + element(2, 0x10, b"UI", b"1.2.840.10008.1.2.1")
        + element(2, 0x12, b"UI", uid)
    )
    rows, columns = pixels.shape
    body = (
        element(8, 0x16, b"UI", b"1.2.840.10008.5.1.4.1.1.7")
        + element(8, 0x18, b"UI", uid)
        + element(0x28, 2, b"US", short(1))
        + element(0x28, 4, b"CS", b"MONOCHROME2")
        + element(0x28, 0x10, b"US", short(rows))
        + element(0x28, 0x11, b"US", short(columns))
        + element(0x28, 0x100, b"US", short(16))
        + element(0x28, 0x101, b"US", short(16))
        + element(0x28, 0x102, b"US", short(15))
        + element(0x28, 0x103, b"US", short(0))
        + element(0x7FE0, 0x10, b"OW", pixels.astype("<u2").tobytes())
    )
    return b"\0" * 128 + b"DICM" + element(2, 0, b"UL", struct.pack("<I", len(meta))) + meta + body
