"""What docs/compute.md says is true, from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "compute.md"


def test_the_guide_runs_and_its_comments_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    checked = 0
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        lines = block.splitlines()
        for node in ast.parse(block).body:
            end = node.end_lineno or node.lineno
            text = "\n".join(lines[node.lineno - 1 : end])
            if not isinstance(node, ast.Expr):
                exec(compile(text, str(DOCUMENT), "exec"), names)
                continue
            _, _, said = lines[end - 1].partition("  # ")
            found = repr(eval(ast.unparse(node), names))
            if said:
                assert found == said, text
                checked += 1
    assert checked >= 10
