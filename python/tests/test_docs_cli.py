"""The reference of the command is what the command says of itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def command() -> str:
    found = os.environ.get("LACUS_TEST_CLI")
    if not found or not Path(found).is_file():
        pytest.skip("NO lacus COMMAND: LACUS_TEST_CLI names none")
    return found


def test_the_reference_is_not_behind() -> None:
    command()
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "cli-reference"), "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_every_command_is_in_the_reference() -> None:
    told = subprocess.run([command(), "help"], capture_output=True, text=True, check=True, timeout=60).stdout
    listed = re.findall(r"^  ([a-z][a-z-]*) ", told.partition("Commands:")[2].partition("\n\n")[0], re.MULTILINE)
    assert len(listed) > 30
    reference = (ROOT / "docs" / "cli-reference.md").read_text()
    for name in listed:
        assert name == "help" or f"\n## lacus {name}\n" in reference, f"{name}: run `make docs`"
