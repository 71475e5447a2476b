"""Small charts for notebooks, as inline SVG: a histogram of numbers, bars of counts.

Colours are ``currentColor`` and one blue, so that charts are readable in light and dark themes.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from ._arrays import NDArray

__all__ = ["bars", "bins", "histogram", "number_text"]

_BLUE = "#4e79a7"
#: More bins than this are narrower than a few pixels.
_BINS = 30
_WIDTH, _HEIGHT = 300, 80
_LINE = 20
#: Where bars begin and how long the longest is; counts stand behind them.
_BARS_AT, _LONGEST_BAR = 130, 180


def number_text(number: float) -> str:
    """A number for people: ``"1,234"``, ``"0.0123"``, ``"1.2e+09"``."""
    if number == int(number) and abs(number) < 1e9:
        return f"{int(number):,}"
    return f"{number:,.4g}"


def bins(numbers: NDArray) -> tuple[list[int], list[float]]:
    """Counts, and the edges between them. Integers of a small range get a bin each."""
    low, high = float(numbers.min()), float(numbers.max())
    if numbers.dtype.kind in "iu" and high - low < _BINS:
        edges = np.arange(low, high + 2) - 0.5
    elif high > low and np.isfinite(high - low):
        edges = np.linspace(low, high, _BINS + 1)
    else:
        return [int(numbers.size)], [low, high]
    counts, edges = np.histogram(numbers.astype(np.float64), edges)
    return counts.tolist(), edges.tolist()


def histogram(numbers: NDArray) -> str:
    """A histogram of numbers, all finite, at least one, with the smallest and the largest below it."""
    counts, edges = bins(numbers)
    top = max(counts)
    step = _WIDTH / len(counts)
    parts = [_begin(_WIDTH, _HEIGHT + _LINE, f"histogram of {numbers.size:,} numbers")]
    for place, count in enumerate(counts):
        # One number among millions is still a line that can be seen.
        height = max(1.0, _HEIGHT * count / top) if count else 0.0
        low, high = edges[place], edges[place + 1]
        told = f"{number_text(low)} to {number_text(high)}: {count:,}"
        parts.append(
            f'<rect x="{place * step:.1f}" y="{_HEIGHT - height:.1f}" width="{max(step - 1, 1):.1f}" height="{height:.1f}" '
            f'fill="{_BLUE}"><title>{html.escape(told)}</title></rect>'
        )
    parts.append(f'<line x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}" stroke="currentColor" stroke-opacity="0.4"/>')
    parts.append(_text(0, _HEIGHT + 14, number_text(float(numbers.min()))))
    parts.append(_text(_WIDTH, _HEIGHT + 14, number_text(float(numbers.max())), "end"))
    return "".join(parts) + "</svg>"


def bars(counts: Sequence[tuple[str, int]]) -> str:
    """A bar for each name, as long as its count, and the count behind it."""
    top = max((count for _, count in counts), default=0) or 1
    parts = [_begin(_BARS_AT + _LONGEST_BAR + 80, _LINE * len(counts), f"counts of {len(counts):,} classes")]
    for place, (name, count) in enumerate(counts):
        y = place * _LINE
        width = max(1.0, _LONGEST_BAR * count / top) if count else 0.0
        parts.append(_text(_BARS_AT - 8, y + 14, name if len(name) <= 18 else f"{name[:17]}…", "end", name))
        parts.append(f'<rect x="{_BARS_AT}" y="{y + 3}" width="{width:.1f}" height="{_LINE - 6}" fill="{_BLUE}"/>')
        parts.append(_text(_BARS_AT + width + 6, y + 14, f"{count:,}"))
    return "".join(parts) + "</svg>"


def _begin(width: int, height: int, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{html.escape(label)}" style="display:block;margin:4px 0">'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", title: str = "") -> str:
    more = f"<title>{html.escape(title)}</title>" if title else ""
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="11" font-family="sans-serif" fill="currentColor" '
        f'text-anchor="{anchor}">{html.escape(text)}{more}</text>'
    )
