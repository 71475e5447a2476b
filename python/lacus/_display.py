"""Datasets and tensors on one screen, as text. `_notebook.py` has the HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._native import TensorInfo

if TYPE_CHECKING:
    from .dataset import Summary

#: Tensors shown before the rest is only counted.
SHOWN = 20

_LONGEST_NAME = 48


def size_text(size_bytes: int) -> str:
    """Bytes for people: ``"999 B"``, ``"1.5 kB"``, ``"2.0 GB"``."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.95:
            break
    else:
        size, unit = size / 1000, "PB"
    return f"{size:.1f} {unit}"


def _name(info: TensorInfo) -> str:
    name = info.name
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _row(info: TensorInfo) -> tuple[str, ...]:
    return (_name(info), info.dtype, str(info.shape), info.layout, size_text(info.stored_bytes))


_HEADINGS = ("name", "dtype", "shape", "layout", "stored")


def dataset_text(title: str, infos: Sequence[TensorInfo], count: int) -> str:
    """A dataset as text: a title and a table of its tensors."""
    lines = [title]
    if infos:
        rows = [_HEADINGS, *map(_row, infos)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for *cells, last in rows:
            padded = [cell.ljust(width) for cell, width in zip(cells, widths[:-1], strict=True)]
            lines.append("  " + "  ".join([*padded, last.rjust(widths[-1])]))
    if count > len(infos):
        lines.append(f"  … and {count - len(infos):,} more")
    return "\n".join(lines)


def columns_text(summary: Summary) -> str:
    """A summary as a table of its columns."""
    headings = ("column", "type", "dtype", "samples", "shape", "kept as", "stored")
    rows = [headings]
    for column in summary.columns:
        rows.append(
            (
                column.name,
                column.htype,
                column.dtype or "open",
                f"{column.samples:,}",
                shape_text(column.shape_range),
                column.compression,
                size_text(column.stored_bytes),
            )
        )
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = [f"{summary.rows:,} rows in {summary.files:,} files, {size_text(summary.stored_bytes)}"]
    lines.extend("  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)
    lines.extend(f"  advice: {text}" for text in summary.advice)
    return "\n".join(lines)


def shape_text(shapes: tuple[tuple[int, ...], tuple[int, ...]] | None) -> str:
    """A range of shapes: ``"(32, 32:64, 3)"``."""
    if shapes is None:
        return "-"
    sizes = [str(low) if low == high else f"{low}:{high}" for low, high in zip(*shapes, strict=True)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
