"""Samples that are files, and links to samples elsewhere: ``lacus.read`` and ``lacus.link``."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from ._arrays import NDArray
from ._native import decode_media, probe_media
from .errors import InvalidError, NotFoundError

__all__ = ["Link", "Sample", "link", "read"]


class Sample:
    """A media file that is read when needed: :func:`lacus.read`.

    A column that stores such files keeps it unchanged, without decoding it.
    """

    __slots__ = ("_bytes", "_path")

    def __init__(self, path: str | None, data: bytes | None) -> None:
        self._path = path
        self._bytes = data

    @property
    def path(self) -> str | None:
        """The path of the file; None for a sample made from bytes."""
        return self._path

    @property
    def bytes(self) -> bytes:
        """The file's bytes."""
        if self._bytes is not None or self._path is None:
            return self._bytes or b""
        try:
            with open(self._path, "rb") as file:
                return file.read()
        except FileNotFoundError as error:
            raise NotFoundError(f"no file {self._path!r}") from error
        except OSError as error:
            raise InvalidError(f"cannot read {self._path!r}: {error}") from error

    @property
    def _facts(self) -> tuple[str, str, tuple[int, ...], str]:
        return probe_media(self.bytes)

    @property
    def format(self) -> str:
        """``"jpeg"``, ``"png"``, ``"wav"``, …, detected from the bytes."""
        return self._facts[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements, from the header."""
        return np.dtype(self._facts[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape it decodes to, from the header."""
        return self._facts[2]

    @property
    def details(self) -> dict[str, Any]:
        """Other facts from the header: sample rate, duration, frames, …"""
        found: dict[str, Any] = json.loads(self._facts[3])
        return found

    @property
    def array(self) -> NDArray:
        """The file, decoded."""
        return decode_media(self.bytes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        found = self.array
        return found if dtype is None else found.astype(dtype, copy=False)

    def _lacus_sample(self) -> tuple[str, Any]:
        return "bytes", self.bytes

    def __repr__(self) -> str:
        return f"<lacus.Sample {self._path or 'of bytes'}>"


class Link:
    """The URL of a sample that is stored elsewhere: :func:`lacus.link`."""

    __slots__ = ("url",)

    def __init__(self, url: str) -> None:
        self.url = url

    def _lacus_sample(self) -> tuple[str, Any]:
        return "link", self.url

    def __repr__(self) -> str:
        return f"<lacus.Link {self.url}>"


def read(path: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Sample:
    """A media file as a sample. It is read when you append it, and stored without decoding if the column keeps files of its
    format.

    Args:
        path: its path, or its bytes.
    """
    if isinstance(path, (bytes, bytearray, memoryview)):
        return Sample(None, bytes(path))
    text = os.path.abspath(os.path.expanduser(os.fspath(path)))
    if not os.path.isfile(text):
        raise NotFoundError(f"no file {text!r}")
    return Sample(text, None)


def link(url: str | os.PathLike[str]) -> Link:
    """A link to a sample elsewhere, for columns of type ``link[...]``: only the URL is stored.

    Lacus follows links only below roots that you allow; see :meth:`Dataset.allow_links`.
    """
    text = os.fspath(url)
    if not text:
        raise InvalidError("a link must not be empty")
    return Link(text if "://" in text else os.path.abspath(os.path.expanduser(text)))
