"""Datasets, views, columns and arrays as a notebook shows them.

    Dataset, View   a table of the first rows, with thumbnails; a Dataset's arrays below it
    Column          a histogram of numbers, bars of class counts, or the first samples
    Array           its facts and a corner of its elements

Nothing here raises: what cannot be read is shown as text, with the first line of the error. All text is escaped.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ._cells import PICTURES, Budget, cells, class_name, clean, first_line, kind_of, muted
from ._chart import bars, histogram, number_text
from ._display import SHOWN, size_text
from ._native import ColumnInfo, TensorInfo

if TYPE_CHECKING:
    from .column import Column
    from .dataset import Dataset
    from .tensor import Array
    from .view import View

__all__ = ["array_html", "column_html", "dataset_html", "facts_html", "never_raises", "view_html"]

_T = TypeVar("_T")

#: Rows of a table.
ROWS = 6
#: Samples that a chart is made of. They are spread evenly over the rows, and the display says so.
SAMPLED = 10_000
#: Elements that a histogram is made of, for samples that are arrays.
_ELEMENTS = 1_000_000
#: Classes with a bar of their own.
_BARS = 12
#: Elements of an array along its last two axes, and bytes of a chunk, that are read to show its corner.
_CORNER, _LARGEST_CHUNK = 6, 64 << 20


def never_raises(make: Callable[[_T], str]) -> Callable[[_T], str]:
    """A ``_repr_html_`` that never raises: after an error, the text form and the first line of the error."""

    @functools.wraps(make)
    def call(self: _T) -> str:
        try:
            return make(self)
        except Exception as error:
            try:
                text = repr(self)
            except Exception:
                text = f"<{type(self).__module__.split('.')[0]}.{type(self).__name__}>"
            return f"<pre>{html.escape(text)}\n{html.escape(first_line(error))}</pre>"

    return call


# Tables of rows.


def dataset_html(dataset: Dataset, title: str, infos: Sequence[TensorInfo], count: int) -> str:
    """A dataset: the first rows of its columns, then its arrays."""
    parts = [_title(title)]
    if names := dataset.columns:
        parts.append(_rows_table(dataset, names, range(min(ROWS, len(dataset))), len(dataset)))
    if infos:
        rows = [[info.name, info.dtype, str(info.shape), info.layout, size_text(info.stored_bytes)] for info in infos]
        parts.append(_table(["name", "dtype", "shape", "layout", "stored"], [[_text(c) for c in row] for row in rows]))
    if count > len(infos):
        parts.append(_note(f"… and {count - len(infos):,} more"))
    return _block(parts)


def view_html(view: View) -> str:
    """A view: its first rows. The first column is the row's place in the view."""
    first = view._native.positions(np.arange(min(ROWS, len(view)), dtype=np.uint64))
    return _block([_title(view._title()), _rows_table(view._source, view.columns, first.tolist(), len(view))])


def _rows_table(dataset: Dataset, names: Sequence[str], positions: Sequence[int], count: int) -> str:
    budget = Budget()
    infos = [dataset._rows.column_info(name) for name in names[:SHOWN]]
    columns = [cells(dataset, info.name, positions, budget) for info in infos]
    headings = ["", *map(_heading, infos)]
    rows = [[muted(f"{place:,}"), *(column[place] for column in columns)] for place in range(len(positions))]
    notes = []
    if not count:
        notes.append("no rows")
    if count > len(positions):
        notes.append(f"… and {count - len(positions):,} more rows")
    if len(names) > SHOWN:
        notes.append(f"… and {len(names) - SHOWN:,} more columns")
    return _table(headings, rows) + _note(", ".join(notes))


def _heading(info: ColumnInfo) -> str:
    dtype = info.dtype if info.dtype and not info.is_text else ""
    shape = "" if info.shape is None or not any(info.shape) else _shape_text(info.shape)
    facts = [" ".join(filter(None, (dtype, shape))), size_text(info.stored_bytes)]
    about = f"{_text(info.htype)}<br>{_text(', '.join(filter(None, facts)))}"
    return f"{_text(info.name)}<br><span style='font-weight:normal;opacity:0.6;white-space:nowrap'>{about}</span>"


def _shape_text(shape: Sequence[int | None]) -> str:
    """A shape with a dash for sizes that differ: ``"(-, 4)"``."""
    sizes = ["-" if size is None else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


# Columns.


def column_html(column: Column) -> str:
    """A column: a chart if it holds numbers or classes, otherwise its first samples."""
    info = column._info
    parts = [_title(repr(column))]
    count = len(column)
    if not count:
        return _block([*parts, _note("no rows")])
    if _is_charted(info):
        parts.append(_chart(column, info))
    else:
        positions = range(min(ROWS, count))
        found = cells(column._dataset, info.name, positions, Budget())
        numbers = [muted(f"{place:,}") for place in positions]
        # Pictures stand side by side.
        rows = [numbers, found] if kind_of(info) in PICTURES else list(zip(numbers, found, strict=True))
        parts.append(_table([], rows))
        if count > len(positions):
            parts.append(_note(f"… and {count - len(positions):,} more rows"))
    return _block(parts)


def _is_charted(info: ColumnInfo) -> bool:
    if info.is_sequence or info.is_text or info.is_link or info.dtype is None or info.dtype.startswith("complex"):
        return False
    if info.dtype == "bfloat16":
        return False
    if kind_of(info) == "class_label":
        return True
    sizes = info.shape
    if kind_of(info) not in {"generic", "embedding"} or sizes is None or any(size is None for size in sizes):
        return False
    return 0 < int(np.prod([size or 0 for size in sizes])) <= _ELEMENTS // 100


def _chart(column: Column, info: ColumnInfo) -> str:
    places = _spread(len(column), info)
    found = column[places]
    # A list where some samples are missing, or where classes of a row differ in number.
    known = [value for value in found if value is not None] if isinstance(found, list) else found
    missing = len(places) - len(known)
    flat = np.concatenate([np.ravel(value) for value in known]) if len(known) else np.empty(0)
    notes = [f"{missing:,} missing"] if missing else []
    if len(places) < len(column):
        notes.append(f"from {len(places):,} of {len(column):,} rows, spread evenly")
    if not flat.size:
        return _note(", ".join(["no samples", *notes]))
    if kind_of(info) == "class_label" or flat.dtype == np.bool_:
        return _counts(info, flat, notes)
    finite = flat[np.isfinite(flat)]
    if finite.size < flat.size:
        notes.append(f"{flat.size - finite.size:,} NaN or infinite")
    if not finite.size:
        return _note(", ".join(notes))
    about = f"min {number_text(finite.min())}, mean {number_text(finite.mean(dtype=np.float64))}, max {number_text(finite.max())}"
    return histogram(finite) + _note(", ".join([about, *notes]))


def _counts(info: ColumnInfo, flat: Any, notes: list[str]) -> str:
    values, counts = np.unique(flat, return_counts=True)
    order = sorted(range(len(values)), key=lambda place: -int(counts[place]))
    named = [class_name(info, value) if kind_of(info) == "class_label" else str(value) for value in values]
    if rest := order[_BARS:]:
        notes = [f"… and {len(rest):,} more classes with {sum(int(counts[place]) for place in rest):,}", *notes]
    return bars([(clean(named[place]), int(counts[place])) for place in order[:_BARS]]) + _note(", ".join(notes))


def _spread(count: int, info: ColumnInfo) -> list[int]:
    """Rows spread evenly over a column, few enough for a chart."""
    elements = max(1, int(np.prod([size or 1 for size in info.shape or ()])))
    wanted = min(count, SAMPLED, max(1, _ELEMENTS // elements))
    return [place * count // wanted for place in range(wanted)]


# Arrays.


def array_html(array: Array, title: str, facts: Sequence[tuple[str, str]]) -> str:
    """A stored array: its facts, and a corner of it if it is dense and its chunks are not large."""
    return _block([_title(title), _facts(facts), _corner(array)])


def _corner(array: Array) -> str:
    info = array._info
    itemsize = 2 if info.dtype == "bfloat16" else np.dtype(info.dtype).itemsize
    chunk = int(np.prod(info.chunk_shape or (), dtype=np.float64)) * itemsize
    if info.is_sparse or info.dtype == "bfloat16" or chunk > _LARGEST_CHUNK or 0 in info.shape:
        return ""
    lead = len(info.shape) - 2
    selection = (*(0 for _ in range(lead)), *(slice(0, _CORNER) for _ in info.shape[max(lead, 0) :]))
    with np.printoptions(precision=4, linewidth=100):
        text = str(array.read(selection))
    where = f"[{', '.join(['0'] * max(lead, 0) + [f':{min(size, _CORNER)}' for size in info.shape[max(lead, 0) :]])}]"
    return f"{_note(f'elements {where}') if info.shape else ''}<pre style='margin:0'>{html.escape(text)}</pre>"


def facts_html(title: str, facts: Sequence[tuple[str, str]]) -> str:
    """A title and a table of facts."""
    return _block([_title(title), _facts(facts)])


# Parts.


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return _table([], [[muted(name), _text(value)] for name, value in facts])


def _text(text: str) -> str:
    return html.escape(clean(text, 200))


def _title(text: str) -> str:
    return f"<p style='margin:4px 0'><b>{html.escape(clean(text.removeprefix('<').removesuffix('>'), 400))}</b></p>"


def _note(text: str) -> str:
    return f"<p style='margin:4px 0;opacity:0.6'>{html.escape(text)}</p>" if text else ""


def _block(parts: Sequence[str]) -> str:
    return f"<div style='overflow-x:auto'>{''.join(parts)}</div>"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""

    def line(tag: str, parts: Sequence[str]) -> str:
        style = "text-align:left;vertical-align:middle;padding:3px 10px"
        return "<tr>" + "".join(f"<{tag} style='{style}'>{part}</{tag}>" for part in parts) + "</tr>"

    head = f"<thead>{line('th', headings)}</thead>" if headings else ""
    body = "".join(line("td", row) for row in rows)
    return f"<table style='margin:4px 0'>{head}<tbody>{body}</tbody></table>"
