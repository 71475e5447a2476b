"""What docs/transforms.md says runs, and its table has every step with the arguments that it takes."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any

import lacus.transforms as T

DOCUMENT = Path(__file__).parents[2] / "docs" / "transforms.md"


def test_the_guide_runs_and_its_comments_are_true() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        exec(compile(block, str(DOCUMENT), "exec"), names)
    assert names["batch_row"].shape == (3, 224, 224)
    assert names["batch_row"].dtype == "float32"
    told = re.search(r"message = str\(error\)\s+# (.*)", DOCUMENT.read_text())
    assert told is not None and names["message"] == told[1]


def test_the_table_lists_every_step_with_its_arguments() -> None:
    table = "\n".join(line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `"))
    calls = [ast.parse(text, mode="eval").body for text in re.findall(r"`(\w+\(.*?\))`", table)]
    listed: dict[str, list[str]] = {}
    for call in calls:
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        given = [argument.id for argument in call.args if isinstance(argument, ast.Name)]
        listed[call.func.id] = given + [str(keyword.arg) for keyword in call.keywords]
    steps = set(T.__all__) - {"Compose", "Transform", "apply"}
    assert set(listed) == steps
    for name, arguments in listed.items():
        fields = [field.name for field in dataclasses.fields(getattr(T, name))]
        # What hardly anybody sets may be left out.
        assert [field for field in fields if field in arguments] == arguments, name
        assert set(fields) - set(arguments) <= {"antialias", "lowpass_filter_width", "rolloff"}, name
