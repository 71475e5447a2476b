"""What README.md shows runs: the Python from top to bottom, and the commands."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import png

import lacus

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def readme(place: Path) -> str:
    """The page, with its example in a directory of the test and a large array made small."""
    text = README.read_text()
    assert "(1000, 3, 256, 256)" in text and "/tmp/quickstart" in text
    return text.replace("(1000, 3, 256, 256)", "(30, 3, 64, 64)").replace("/tmp/quickstart", str(place / "quickstart"))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> Path:
    """What the page takes for granted: pictures in folders of classes, and files of tensors."""
    monkeypatch.chdir(tmp_path)
    for kind in ("daisy", "rose", "tulip"):
        (tmp_path / "flowers" / kind).mkdir(parents=True)
        for place in range(25):
            (tmp_path / "flowers" / kind / f"{place:02}.png").write_bytes(png(rng.integers(0, 256, (8, 9, 3), np.uint8)))
    (tmp_path / "rose.jpg").write_bytes((tmp_path / "flowers" / "rose" / "00.png").read_bytes())
    return tmp_path


def test_the_python_runs(files: Path) -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("polars")
    pytest.importorskip("deltalake")
    blocks = re.findall(r"```python\n(.*?)```", readme(files), re.DOTALL)
    assert len(blocks) >= 9
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    ds = names["ds"]
    assert "anomaly" in ds and "two steps" in ds and ds.tags["trained-on"]
    assert lacus.open("flowers-ds").branch == "main" and lacus.open("photos-ds", at=1)["photos"][5].any()


def test_the_commands_run(files: Path) -> None:
    command = os.environ.get("LACUS_TEST_CLI")
    if not command or not Path(command).is_file():
        pytest.skip("NO lacus COMMAND: LACUS_TEST_CLI names none")
    ds = lacus.create(files / "quickstart")
    ds.put_all({"volume": np.zeros((20, 4, 6)), "web/graph": np.eye(5)})
    lacus.open(files / "quickstart")
    made = lacus.create(files / "made")
    made["w"] = np.eye(3)
    made["counts"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    subprocess.run([command, "get", str(files / "made"), "w", "-o", "weights.safetensors"], check=True, timeout=60)
    subprocess.run([command, "get", str(files / "made"), "counts", "-o", "counts.tns.zst"], check=True, timeout=60)
    lines = re.findall(r"^lacus (.*)$", readme(files), re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        done = subprocess.run(f'"{command}" {line}', shell=True, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"lacus {line}: {done.stderr}"
    assert np.load("part.npy").shape == (10, 4, 3)


def test_what_make_is_asked_for_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (README, ROOT / "CONTRIBUTING.md"):
        asked = set(re.findall(r"(?:^|`)make ([a-z0-9-]+)", page.read_text(), re.MULTILINE))
        assert asked and asked <= targets, asked - targets


def test_files_that_contributors_are_sent_to_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = {path for path in re.findall(r"`((?:crates|python|docs|scripts|bench|examples|design)/[^`*]+)`", text) if "<" not in path}
    assert len(named) > 50
    missing = [path for path in sorted(named) if not (ROOT / path.partition("#")[0].split()[0]).exists()]
    assert not missing, missing


def test_links_lead_somewhere() -> None:
    for page in [README, ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {link}"
            if anchor and target.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
                assert anchor in map(anchor_of, headings), f"{page.name}: {link}"


def anchor_of(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
