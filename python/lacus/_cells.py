"""The samples of a few rows as cells of an HTML table: thumbnails, class names, short texts, shapes.

What a display reads is bounded. Shapes are in an index, so a sample that is too large to show is known before it is read.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._native import ColumnInfo
from ._thumbnail import MAX_HEIGHT, MAX_WIDTH, data_uri, is_picture, png, thumbnail
from .errors import UnavailableError

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["PICTURES", "Budget", "cells", "class_name", "clean", "first_line", "kind_of", "muted"]

#: Characters of a text in a cell.
_LONGEST_TEXT = 80
#: Elements of an array that are shown themselves, and not by dtype and shape.
_MOST_ELEMENTS = 6
#: Elements of one picture that are decoded for its thumbnail: 16 megapixels in colour.
_LARGEST_PICTURE = 48_000_000

#: Types whose samples are shown as thumbnails.
PICTURES = {"image", "image.rgb", "image.gray", "dicom", "binary_mask", "segment_mask"}


class Budget:
    """How much one display may still decode and hold. Cells that find it used up show shapes instead of pictures."""

    def __init__(self, elements: int = 200_000_000, html_bytes: int = 400_000) -> None:
        self.elements = elements
        self.html_bytes = html_bytes


def cells(dataset: Dataset, name: str, positions: Sequence[int], budget: Budget) -> list[str]:
    """The HTML of a column's cells at some rows. A sample that cannot be read is shown as its error."""
    places = list(positions)
    try:
        return _read(dataset, name, places, budget)
    except UnavailableError as error:
        # Asking row by row would wait for the same store again and again.
        return [_failed(error)] * len(places)
    except Exception as error:
        if len(places) < 2:
            return [_failed(error)] * len(places)
        return [cells(dataset, name, [place], budget)[0] for place in places]


def _read(dataset: Dataset, name: str, places: list[int], budget: Budget) -> list[str]:
    column = dataset._column(name)
    info = column._info
    shapes = dataset._rows.sample_shapes(name, places)
    wanted = [
        place
        for place, shape in zip(places, shapes, strict=True)
        if shape is not None and (info.is_text or _is_small(info, shape) or _takes(info, shape, budget))
    ]
    found = dataset._rows.read_samples(name, wanted, None) if wanted else []
    values = dict(zip(wanted, (column._dressed(value) for value in found), strict=True))
    made = []
    for place, shape in zip(places, shapes, strict=True):
        if shape is None:
            made.append(muted("missing"))
        elif place in values:
            made.append(_cell(info, values[place], shape, budget))
        else:
            made.append(_shape(info, shape))
    return made


def kind_of(info: ColumnInfo) -> str:
    """The type of a column's samples without ``link[...]`` around it."""
    return info.htype.removeprefix("link[").removesuffix("]") if info.is_link and not info.is_sequence else info.htype


def _is_small(info: ColumnInfo, shape: tuple[int, ...]) -> bool:
    # The shape of a sequence or a polygon is its length, which says nothing about the size of its parts.
    plain = not info.is_sequence and kind_of(info) not in {"polygon", "video", "audio", *PICTURES}
    return plain and int(np.prod(shape)) <= _MOST_ELEMENTS


def _takes(info: ColumnInfo, shape: tuple[int, ...], budget: Budget) -> bool:
    """Whether this is a picture to decode; its elements are taken from the budget."""
    size = int(np.prod(shape))
    if not _is_picture(info, shape):
        return False
    if size > min(_LARGEST_PICTURE, budget.elements):
        return False
    budget.elements -= size
    return True


def _is_picture(info: ColumnInfo, shape: tuple[int, ...]) -> bool:
    kind = kind_of(info)
    # The third axis of a mask counts objects, which are not colours.
    return kind in PICTURES and is_picture(shape) and (len(shape) == 2 or not kind.endswith("_mask"))


def _cell(info: ColumnInfo, value: Any, shape: tuple[int, ...], budget: Budget) -> str:
    kind = kind_of(info)
    if isinstance(value, np.ndarray) and _is_picture(info, value.shape):
        return _picture(info, value, budget)
    if kind == "class_label":
        return _short(", ".join(class_name(info, number) for number in np.ravel(value)))
    if isinstance(value, (str, bytes)):
        return _short(value if isinstance(value, str) else repr(value)) if value else muted("empty")
    if isinstance(value, (dict, list, tuple)):
        return _short(json.dumps(value, ensure_ascii=False, default=str))
    if isinstance(value, np.floating):
        return _short(f"{value:.6g}")
    with np.printoptions(precision=4, suppress=True):
        return _short(str(value))


def _short(text: str) -> str:
    cut = clean(text)
    # Short ones stay on one line; longer ones may take two or three.
    style = "white-space:nowrap" if len(cut) <= 40 else "display:inline-block;max-width:280px;overflow-wrap:anywhere"
    return f'<span style="{style}">{html.escape(cut)}</span>'


def class_name(info: ColumnInfo, number: Any) -> str:
    """The name of a class, or its number if it has none."""
    names = info.class_names
    return names[int(number)] if 0 <= int(number) < len(names) else str(number)


def _picture(info: ColumnInfo, value: Any, budget: Budget) -> str:
    shape = str(tuple(value.shape))
    pixels = thumbnail(value, classes=kind_of(info) == "segment_mask" and value.ndim == 2)
    uri = data_uri(png(pixels))
    if len(uri) > budget.html_bytes:
        return _shape(info, tuple(value.shape))
    budget.html_bytes -= len(uri)
    height, width = pixels.shape[:2]
    # Small pictures are enlarged by the browser, by whole factors, so that their pixels stay square.
    factor = max(1, min(MAX_HEIGHT // height, MAX_WIDTH // width))
    return (
        f'<img src="{uri}" width="{width * factor}" height="{height * factor}" alt="{html.escape(shape)}" '
        f'title="{html.escape(f"{value.dtype} {shape}")}" style="image-rendering:{"pixelated" if factor > 1 else "auto"};'
        'display:block;margin:0;max-width:none">'
    )


def _shape(info: ColumnInfo, shape: tuple[int, ...]) -> str:
    """What is known of a sample that is not shown itself."""
    if info.is_sequence:
        return muted(f"sequence of {shape[0]:,}" if shape else "sequence")
    if kind_of(info) == "polygon" and len(shape) == 1:
        return muted("1 polygon" if shape[0] == 1 else f"{shape[0]:,} polygons")
    return muted(f"{info.dtype or kind_of(info)} {shape}")


def _failed(error: Exception) -> str:
    return f'<span style="color:#b00020">{html.escape(first_line(error))}</span>'


def first_line(error: Exception) -> str:
    """The first line of an error, cut to what fits a cell, with its type."""
    lines = str(error).splitlines() or [""]
    return clean(f"{type(error).__name__}: {lines[0]}", 160)


def muted(text: str) -> str:
    """Text that is about the data, not data: shown paler."""
    return f'<span style="opacity:0.6;white-space:nowrap">{html.escape(text)}</span>'


def clean(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Text on one line, cut, without control characters and those that turn the direction of what follows."""
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(c if c.isprintable() or c == "\u200d" else " " for c in cut)
