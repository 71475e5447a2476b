"""A run that is killed in the middle of a loop is gone on with by the next one: the same bits, and nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from workers import ENVIRONMENT

import lacus

PROGRAM = """
A = load("A")
n = dim(A, 0)
x = full([n], 1.0)
k = 0
for t in 0..3000 {
    y = A @ x
    x = y / max(abs(y)) + 0.001
    k = k + t % 7
}
save(x, "x")
save(k, "k")
"""

# Prints what it took.
RUNNER = """
import importlib, json, sys
import lacus
compute = importlib.import_module("lacus.compute")
url, program, every = sys.argv[1:]
chosen = compute.options(None, 2, None, False, int(every), False)
_, _, report = compute.execute(program, {}, lacus.open(url), {}, chosen, None)
print(json.dumps(report))
"""


def start(url: str, program: str = PROGRAM, every: int = 10) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUNNER, url, program, str(every)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return dict(json.loads(told))


def kept(url: str) -> dict[str, int]:
    """The checkpoints of a dataset, with the rounds that were done."""
    ds = lacus.open(url)
    found = [name for name in ds.keys() if name.startswith("_run/")]
    return {name: ds[name].metadata["lacus.checkpoint"]["rounds"] for name in found}


def kill_within(process: subprocess.Popen[str], url: str, after: int = 0) -> int:
    """Kills a run once it has written rounds down; returns how many."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, "it was faster"
        if (found := set(kept(url).values())) and max(found) > after:
            process.kill()
            process.communicate()
            break
        time.sleep(0.01)
    (rounds,) = set(kept(url).values())
    return rounds


@pytest.fixture
def matrix(ds: lacus.Dataset, rng: np.random.Generator) -> str:
    """A dataset with something to multiply."""
    ds["A"] = rng.normal(size=(150, 150))
    return ds.url


def test_a_killed_run_goes_on(matrix: str, tmp_path: Any) -> None:
    whole = lacus.create(str(tmp_path / "whole"))
    whole["A"] = lacus.open(matrix)["A"][:]
    expected = lacus.run(PROGRAM, data=whole)

    done = 0
    for _ in range(3):
        done = kill_within(start(matrix), matrix, done)
        assert done % 10 == 0 and "x" not in lacus.open(matrix)
    report = finish(start(matrix))
    assert report["resumed_rounds"] == done and report["rounds"] == 3000
    ds = lacus.open(matrix)
    assert ds.keys() == ["A", "k", "x"]
    assert np.array_equal(ds["x"][:].view(np.int64), expected["x"][:].view(np.int64))
    assert ds["k"][...] == expected["k"][...] == sum(t % 7 for t in range(3000))


def test_what_has_changed_starts_over(matrix: str) -> None:
    kill_within(start(matrix), matrix)
    shorter = PROGRAM.replace("3000", "30")
    assert finish(start(matrix, shorter))["resumed_rounds"] == 0
    ds = lacus.open(matrix)
    ds["A"] = ds["A"][:] + 1
    assert finish(start(matrix, every=1000))["resumed_rounds"] == 0
    # What nobody goes on with any longer is a tensor like others.
    left = list(kept(matrix))
    assert left and all(name.startswith("_run/") for name in left)
    ds = lacus.open(matrix)
    for name in left:
        del ds[name]
    assert ds.keys() == ["A", "k", "x"]


def test_checkpoints_need_a_dataset() -> None:
    program = "x = 1\nfor t in 0..3 { x = x + 1 }\nsave(x, 'x')".replace("'", '"')
    with pytest.raises(lacus.InvalidError, match="kept in the dataset that results are stored in"):
        lacus.run(program, checkpoint_every=2)


def test_checkpoints_join_what_others_write(ds: lacus.Dataset) -> None:
    program = 'x = load("a")\nfor t in 0..20 { x = x * 2 }\nsave(x, "x")'
    ds["a"] = np.arange(4.0)
    before = ds.version
    lacus.run(program, data=ds, checkpoint_every=3)
    assert ds.version == before + 7, "six checkpoints, and the result"
    with ds.transaction("Together"):
        ds["b"] = np.ones(2)
        lacus.run(program, data=ds, checkpoint_every=10)
    assert ds.keys() == ["a", "b", "x"] and ds["x"][:].tolist() == [0, 2.0**20, 2.0**21, 3 * 2.0**20]
    branch = lacus.open(ds.url)
    branch.checkout("other", create=True)
    lacus.run(program.replace("20", "21"), data=branch, checkpoint_every=4)
    assert branch.keys() == ["a", "b", "x"] and branch["x"][1].item() == 2.0**21
    assert lacus.open(ds.url)["x"][1].item() == 2.0**20
