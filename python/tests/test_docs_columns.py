"""What docs/columns.md says runs, from top to bottom, and gives what its comments say; docs/how-to.md runs too."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import picture, png

import lacus

DOCS = Path(__file__).parents[2] / "docs"
TOLD = re.compile(r"\s{2,}# (\[.*|\(.*|'.*|\d+|True|False|array\(.*)$")


def statements(block: str) -> list[tuple[str, str]]:
    """Statements, each with its first line."""
    lines = block.splitlines()
    found = [lines[node.lineno - 1 : node.end_lineno] for node in ast.parse(block).body]
    return [("\n".join(part), part[0]) for part in found]


def run(page: str, names: dict[str, Any]) -> int:
    """Runs a page, and returns how many comments were compared."""
    checked = 0
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
        for statement, line in statements(block):
            told = TOLD.search(line)
            try:
                value = eval(compile(statement, page, "eval"), names)
            except SyntaxError:
                exec(compile(statement, page, "exec"), names)
                continue
            if told:
                assert repr(value) == told[1], line
                checked += 1
    return checked


def test_the_guide_to_columns_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "album").mkdir()
    for name in ("a.jpg", "b.jpg", "c.jpg", "album/d.jpg"):
        (tmp_path / name).write_bytes(png(picture(rng, 24, 32)))
    names: dict[str, Any] = {"labels": np.array([0, 1]), "vectors": np.zeros((2, 768), np.float32)}
    assert run("columns.md", names) >= 8
    assert 'column "image", row 1: no known media format' in capsys.readouterr().out


def test_the_recipes_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("daisy", "rose", "tulip"):
        (tmp_path / "flowers" / kind).mkdir(parents=True)
        for place in range(20):
            (tmp_path / "flowers" / kind / f"{place}.png").write_bytes(png(picture(rng, 8, 9)))
    recipes = re.findall(r"```python\n(.*?)```", (DOCS / "how-to.md").read_text(), re.DOTALL)
    assert len(recipes) >= 6
    names: dict[str, Any] = {}
    for recipe in recipes:
        if "s3://" in recipe:
            continue
        if ".lazy()" in recipe:
            names["ds"]["volume"] = np.arange(24.0).reshape(4, 6)
        exec(compile(recipe, "how-to.md", "exec"), names)
        if "from_folder" in recipe:
            names["ds"].commit("all flowers")
    assert list(lacus.open("flowers-ds").views) == ["test", "train"] and "anomaly" in names["ds"]
