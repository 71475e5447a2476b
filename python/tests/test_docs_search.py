"""What docs/search.md says runs, from top to bottom, and gives what its comments say."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "search.md"
TOLD = re.compile(r"(\S.*?)\s{2,}# (\[.*|\(.*|'.*|\d+|True|False)")


def test_the_guide_runs_and_its_comments_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    checked = 0
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in block.splitlines():
            told = TOLD.fullmatch(line)
            if told:
                assert eval(told[1], names) == ast.literal_eval(told[2]), line
                checked += 1
            else:
                exec(compile(line, "search.md", "exec"), names)
    assert checked >= 8
