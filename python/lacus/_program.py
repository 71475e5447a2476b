"""Graphs as programs: each node once, what is used once within what uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ._expression import Node
from ._native import Sparse
from .sparse import SparseTensor

#: Levels of parentheses in one statement. The language takes some hundred.
_DEEPEST = 30

#: Characters of an expression that are shown.
_SHOWN = 72


class Given:
    """A value of the caller's, as the native module takes it."""

    __slots__ = ("value", "dtype")

    def __init__(self, value: Any, dtype: str) -> None:
        self.value = value
        self.dtype = dtype

    def __reduce__(self) -> tuple[Any, ...]:
        # The native form of a sparse tensor does not pickle, the one around it does.
        value = SparseTensor._of(self.value) if isinstance(self.value, Sparse) else self.value
        return _given, (value, self.dtype)


def _given(value: Any, dtype: str) -> Given:
    return Given(value._native if isinstance(value, SparseTensor) else value, dtype)


class Stored:
    """A tensor of a dataset that stays at one version."""

    __slots__ = ("dataset", "name")

    def __init__(self, dataset: Any, name: str) -> None:
        self.dataset = dataset
        self.name = name

    def key(self) -> tuple[Any, ...]:
        """The same for all handles on one state of one dataset."""
        if self.dataset._is_private:
            return (id(self.dataset), self.name)
        return (self.dataset.url, *self.dataset._state()[:2], self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Stored, (self.dataset, self.name)


def ordered(roots: Iterable[Node]) -> list[Node]:
    """All nodes, arguments before what uses them. A graph may be deeper than Python's stack."""
    found: list[Node] = []
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, done = stack.pop()
        if done:
            found.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))
    return found


def written(roots: Mapping[str, Node]) -> tuple[str, dict[str, Any]]:
    """The text of a program that saves each root under its name, and what it loads by name."""
    nodes = ordered(roots.values())
    uses: dict[int, int] = {}
    named: set[int] = set()
    for node in nodes:
        for arg in node.args:
            uses[id(arg)] = uses.get(id(arg), 0) + 1
            if node.statement:
                named.add(id(arg))
    lines: list[str] = []
    sources: dict[str, Any] = {}
    names: dict[Any, str] = {}
    # Of each node: its text, how tightly that binds, and how deep it is.
    texts: dict[int, tuple[str, int, int]] = {}
    for node in nodes:
        if node.source is not None:
            key = node.source.key() if isinstance(node.source, Stored) else id(node.source)
            if key not in names:
                names[key] = f"t{len(names)}"
                sources[names[key]] = node.source
                lines.append(f'{names[key]} = load("{names[key]}")')
            texts[id(node)] = names[key], 9, 0
            continue
        found = [texts[id(arg)] for arg in node.args]
        deep = 1 + max((depth for _, _, depth in found), default=0)
        args = [
            f"({text})" if strength < least else text
            for (text, strength, _), least in zip(found, node.least, strict=True)
        ]
        if node.statement:
            name = f"x{len(lines)}"
            lines.append(node.form.format(*args, out=name))
            texts[id(node)] = name, 9, 0
            continue
        text, strength = node.form.format(*args), node.strength
        is_shared = uses.get(id(node), 0) > 1 and bool(node.args)
        if is_shared or deep >= _DEEPEST or id(node) in named:
            name = f"x{len(lines)}"
            lines.append(f"{name} = {text}")
            text, strength, deep = name, 9, 0
        texts[id(node)] = text, strength, deep
    lines.extend(f'save({texts[id(root)][0]}, "{name}")' for name, root in roots.items())
    return "\n".join(lines), sources


def shown(root: Node) -> str:
    """The expression on one line, as far as it fits there."""

    def text(node: Node, levels: int) -> tuple[str, int]:
        if node.source is not None or not (node.args or node.statement):
            return node.form, node.strength
        if levels == 0:
            return "…", 9
        found = [text(arg, levels - 1) for arg in node.args]
        if node.statement:
            return node.label.format(*(text for text, _ in found)), 9
        args = [f"({t})" if strength < least else t for (t, strength), least in zip(found, node.least, strict=True)]
        return node.form.format(*args), node.strength

    for levels in (8, 6, 4, 3, 2):
        found = text(root, levels)[0]
        if len(found) <= _SHOWN:
            return found
    return f"{found[: _SHOWN - 1]}…"
