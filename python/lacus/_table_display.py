"""Tables on one screen, as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._display import size_text
from ._native import probe_media
from .errors import LacusError

#: Characters of a cell of a table that are shown.
_WIDEST_CELL = 40


def table_text(title: str, types: Mapping[str, str], rows: Sequence[Mapping[str, Any]], more: int) -> str:
    """A table as text: names, types, the first rows, and how many there are besides."""
    lines = [title]
    if types:
        shown = [list(types), list(types.values()), *([_cell(row[name]) for name in types] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        sides = [all(_is_number(row[name]) for row in rows) and bool(rows) for name in types]
        for number, cells in enumerate(shown):
            padded = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(cells, widths, sides, strict=True)
            ]
            lines.append(("  " + "  ".join(padded)).rstrip())
            if number == 1:
                lines.append("  " + "  ".join("-" * width for width in widths))
    if more > 0:
        lines.append(f"  … {more:,} more row{'' if more == 1 else 's'}")
    return "\n".join(lines)


def table_html(title: str, types: Mapping[str, str], rows: Sequence[Mapping[str, Any]], more: int) -> str:
    """The same as HTML."""

    def line(tag: str, cells: Sequence[str]) -> str:
        style = "text-align:left;padding:3px 10px"
        return "<tr>" + "".join(f"<{tag} style='{style}'>{cell}</{tag}>" for cell in cells) + "</tr>"

    about = "<span style='font-weight:normal;opacity:0.6'>"
    head = line("th", [f"{html.escape(name)}<br>{about}{html.escape(type_)}</span>" for name, type_ in types.items()])
    body = "".join(line("td", [html.escape(_cell(row[name])) for name in types]) for row in rows)
    rest = f"<p style='opacity:0.6'>… {more:,} more row{'' if more == 1 else 's'}</p>" if more > 0 else ""
    shown = html.escape(title.removeprefix("<").removesuffix(">"))
    return f"<div style='overflow-x:auto'><p><b>{shown}</b></p><table><thead>{head}</thead><tbody>{body}</tbody></table>{rest}</div>"


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, (int, float, np.number, np.bool_))


def _cell(value: Any) -> str:
    """A value in a few characters."""
    if value is None:
        return "-"
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    if isinstance(value, np.ndarray) and value.dtype.kind not in "Mm":
        return f"{value.dtype} {value.shape}"
    if isinstance(value, bytes):
        try:
            kind = probe_media(value)[0]
        except LacusError:
            kind = "bytes"
        return f"{kind} {size_text(len(value))}"
    text = "".join(char if char.isprintable() else " " for char in str(value))
    return text if len(text) <= _WIDEST_CELL else f"{text[: _WIDEST_CELL - 1]}…"
