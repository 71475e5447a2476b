"""Datasets and tensors on one screen, as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from ._native import TensorInfo

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


def dataset_html(title: str, infos: Sequence[TensorInfo], count: int) -> str:
    """The same as HTML."""
    parts = [f"<div><p><b>{html.escape(title)}</b></p>"]
    if infos:
        parts.append(_table(_HEADINGS, [_row(info) for info in infos]))
    if count > len(infos):
        parts.append(f"<p>… and {count - len(infos):,} more</p>")
    return "".join(parts) + "</div>"


def tensor_html(title: str, facts: Sequence[tuple[str, str]]) -> str:
    """A tensor's facts as HTML."""
    return f"<div><p><b>{html.escape(title)}</b></p>{_table((), facts)}</div>"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag} style='text-align:left'>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    head = f"<thead>{line('th', headings)}</thead>" if headings else ""
    return f"<table>{head}<tbody>{''.join(line('td', row) for row in rows)}</tbody></table>"
