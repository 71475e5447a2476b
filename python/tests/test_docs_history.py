"""What docs/history.md says runs, from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import lacus

DOCUMENT = Path(__file__).parents[2] / "docs" / "history.md"


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(blocks) > 8
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), names)
    ds = names["ds"]
    assert ds.branch == "shared" and names["diff"].rows_added
    assert lacus.open("photos", at="v1.0")["caption"][0] == "one"


def told(block: str) -> list[tuple[str, str]]:
    """Expressions, and what a comment says that they give."""
    found = (re.fullmatch(r"(\S.*?)\s{2,}# (\[.*|\(.*|'.*|\d+|True|False)", line) for line in block.splitlines())
    return [(match[1], match[2]) for match in found if match and " = " not in match[1]]


def test_what_comments_say_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    checked = 0
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        known = dict(told(block))
        for statement in _statements(block):
            exec(compile(statement, str(DOCUMENT), "exec"), names)
            expression = statement.splitlines()[0].partition("  #")[0].strip()
            if expression in known:
                assert repr(eval(expression, names)) == known[expression], expression
                checked += 1
    assert checked >= 7


def _statements(block: str) -> list[str]:
    lines = block.splitlines()
    return ["\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in ast.parse(block).body]
