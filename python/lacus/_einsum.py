"""Sums of products by the letters of their axes."""

from __future__ import annotations

import string
from collections.abc import Sequence

from ._expression import ATOM, Node, indexed, number, promoted, strong
from .errors import InvalidError


def einsum(spec: str, operands: Sequence[Node]) -> Node:
    """A sum of products by the letters of its axes."""
    if not isinstance(spec, str):
        raise InvalidError(f'einsum: the first argument is text as in "ik,kj->ij", found {spec!r}')
    compact = "".join(spec.split())
    left, arrow, right = compact.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands) or not operands:
        raise InvalidError(f"einsum {spec!r}: it has {len(terms)} terms for {len(operands)} operands")
    terms, right, others = _without_ellipses(spec, terms, operands, right if arrow else None)
    extents: dict[str, int] = {}
    for term, node in zip(terms, operands, strict=True):
        if len(term) != node.ndim:
            raise InvalidError(f"einsum {spec!r}: {term!r} does not fit an operand of shape {node.shape}")
        for letter, extent in zip(term, node.shape, strict=True):
            known = extents.setdefault(letter, extent)
            if extent != known and 1 not in (extent, known):
                raise InvalidError(f"einsum {spec!r}: {_named(letter, others)} has extent {known} and {extent}")
            extents[letter] = max(known, extent) if extent and known else 0
    for at, letter in enumerate(right):
        if letter not in extents:
            raise InvalidError(f"einsum {spec!r}: {letter!r} is in no operand")
        if letter in right[:at]:
            raise InvalidError(f"einsum {spec!r}: {letter!r} appears twice in the result")
    taken = [_repeated(spec, term, strong(node), extents) for term, node in zip(terms, operands, strict=True)]
    left, operands = ",".join(term for term, _ in taken), [node for _, node in taken]
    dtype = operands[0].dtype
    for node in operands[1:]:
        dtype = number(promoted((dtype, False), (node.dtype, False)))
    if set(right) != set(extents):
        dtype = number(dtype)
    places = "".join(f", {{{k}}}" for k in range(len(operands)))
    form = f'einsum("{left}->{right}"{places})'
    shape = tuple(extents[letter] for letter in right)
    return Node(form, ATOM, (0,) * len(operands), tuple(operands), dtype, shape)


def _without_ellipses(
    spec: str, terms: list[str], operands: Sequence[Node], right: str | None
) -> tuple[list[str], str, str]:
    """Terms and the result with letters for what ``...`` stands for, and these letters. Without an arrow, the result has them
    first, then all letters that appear once."""
    used = set("".join(terms) + (right or ""))
    for letter in sorted(used - {"."}):
        if not (letter.isascii() and letter.isalpha()):
            raise InvalidError(f"einsum {spec!r}: {letter!r} is no letter")
    for term in [*terms, right or ""]:
        if term.count(".") not in (0, 3) or term.count("...") != term.count(".") // 3:
            raise InvalidError(f"einsum {spec!r}: dots are only used as one '...' in a term")
    longest = 0
    for term, node in zip(terms, operands, strict=True):
        if "..." in term:
            covered = node.ndim - (len(term) - 3)
            if covered < 0:
                raise InvalidError(f"einsum {spec!r}: {term!r} does not fit an operand of shape {node.shape}")
            longest = max(longest, covered)
    free = [letter for letter in string.ascii_letters if letter not in used]
    if longest > len(free):
        raise InvalidError(f"einsum {spec!r}: it has too many axes")
    others = "".join(free[:longest])
    if right is not None and others and "..." not in right:
        raise InvalidError(f"einsum {spec!r}: axes of '...' are not in the result; sum them afterwards")
    found = []
    for term, node in zip(terms, operands, strict=True):
        covered = node.ndim - (len(term) - 3)
        found.append(term.replace("...", others[longest - covered :]))
    if right is None:
        once = sorted(letter for letter in used - {"."} if "".join(terms).count(letter) == 1)
        return found, others + "".join(once), others
    return found, right.replace("...", others), others


def _repeated(spec: str, term: str, node: Node, extents: dict[str, int]) -> tuple[str, Node]:
    """An operand without the axes of extent 1 that stand for longer ones."""
    single = [at for at, letter in enumerate(term) if node.shape[at] == 1 != extents[letter]]
    if any(term.count(term[at]) > 1 for at in single):
        raise InvalidError(f"einsum {spec!r}: {term!r} does not fit an operand of shape {node.shape}")
    if not single:
        return term, node
    kept = "".join(letter for at, letter in enumerate(term) if at not in single)
    return kept, indexed(node, tuple(0 if at in single else slice(None) for at in range(node.ndim)))


def _named(letter: str, others: str) -> str:
    return "'...'" if letter in others else repr(letter)
