"""Runs that cannot be finished: they say why, and leave no version, no data files and no spilled tiles."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as scipy_sparse
from workers import ENVIRONMENT

import lacus
from lacus.writer import parse_size

N = 700

PRODUCTS = """
A = load("A")
B = A @ A
C = B @ A
D = B * 2 - transpose(C)
save(B, "B"); save(C, "C"); save(D @ B, "D")
"""

#: Below what all tiles take, so that results are streamed and tiles are spilled.
SMALL = "4MiB"


@pytest.fixture
def full(ds: lacus.Dataset, rng: np.random.Generator) -> lacus.Dataset:
    """A dataset with a matrix of some megabytes."""
    ds["A"] = rng.normal(size=(N, N)) / N
    return ds


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    """A directory for tiles."""
    path = tmp_path / "spill"
    path.mkdir()
    return path


def files(ds: lacus.Dataset) -> set[Path]:
    return {path for path in Path(ds.url).rglob("*") if path.is_file() and "_delta_log" not in path.parts}


def test_bits_do_not_depend_on_workers_or_memory(full: lacus.Dataset, spill: Path) -> None:
    # Tiles depend on the budget, and bits on the tiles: so the budgets here are those that are cut alike.
    expected: dict[str, Any] = {}
    for workers in (1, 2, 4):
        for where in ("dataset", "memory"):
            data = full if where == "dataset" else None
            inputs = None if data else {"A": full["A"][:]}
            memory = SMALL if data else "1GiB"
            found = lacus.run(PRODUCTS, data=data, inputs=inputs, memory=memory, workers=workers, spill=spill)
            for name, value in found.items():
                bits = np.asarray(value[:]).tobytes()
                assert expected.setdefault(f"{name} in {where}", bits) == bits
    assert not list(spill.iterdir())
    reference = np.linalg.multi_dot([full["A"][:]] * 3)
    np.testing.assert_allclose(full["C"][:], reference, rtol=1e-9, atol=1e-15)


def test_streamed_results_are_one_version(full: lacus.Dataset, spill: Path) -> None:
    before = full.version
    told: list[lacus.Progress] = []
    found = lacus.run(PRODUCTS, data=full, memory=SMALL, spill=spill, progress=told.append)
    assert full.version == before + 1 and full.keys() == ["A", "B", "C", "D"]
    assert told[-1].spilled_bytes > 0 and max(now.memory_bytes for now in told) <= 4 << 20
    a = full["A"][:]
    np.testing.assert_allclose(found["B"][:], a @ a, rtol=1e-9, atol=1e-15)


def test_a_budget_that_is_too_small_says_what_would_do(full: lacus.Dataset, spill: Path) -> None:
    before, there = full.version, files(full)
    with pytest.raises(lacus.InvalidError, match=r"a memory budget of 8.0 KiB is too small: .* takes ") as failed:
        lacus.run(PRODUCTS, data=full, memory="8KiB", spill=spill)
    assert full.version == before and files(full) == there
    # The arrays that go back to the caller are counted.
    with pytest.raises(lacus.InvalidError, match="to keep the results, which go back to the caller as arrays, takes ") as failed:
        lacus.run(PRODUCTS, inputs={"A": full["A"][:]}, memory="1MiB", spill=spill)
    # What is told is enough.
    told = re.search(r"takes ([\d.]+) (\wiB)", str(failed.value))
    assert told and told[2] == "MiB" and 11.2 < float(told[1]) < 12
    lacus.run(PRODUCTS, inputs={"A": full["A"][:]}, memory=f"{told[1]}MiB", spill=spill)


def told_memory(error: lacus.InvalidError) -> str:
    told = re.search(r"takes ([\d.]+) (\w*B)", str(error))
    assert told
    return told[1] + told[2]


@pytest.mark.parametrize(
    "expression",
    [
        lambda x: x[::2].sum(axis=0),
        lambda x: (x @ x)[1:].sum(axis=0),
        lambda x: (x[10:] * x[:-10]).sum(),
        lambda x: (x[:, ::2] @ x[::2]).sum(axis=0),
        lambda x: (x.T @ x)[::2, ::3].max(axis=0),
        lambda x: (x[::2, -80::-7] * 0.5).sum(),
    ],
)
def test_the_budget_that_is_told_does_whatever_is_sliced(tmp_path: Path, expression: Any) -> None:
    ds = lacus.create(tmp_path / "d")
    ds["A"] = np.arange(700.0 * 700).reshape(700, 700) % 101
    x = expression(ds["A"].lazy())
    expected = x.compute()
    with pytest.raises(lacus.InvalidError) as failed:
        x.compute(memory=7_000)
    told = parse_size(told_memory(failed.value), "memory")
    assert told < 100_000
    # What is told does, and so does everything above.
    for memory in (told, 2 * told, 3 * told, 5 * told, 9 * told, 30 * told):
        np.testing.assert_allclose(x.compute(memory=memory), expected)


def test_nan_that_comes_in_does_not_go_out(tmp_path: Path) -> None:
    ds = lacus.create(tmp_path / "d")
    values = np.array([[1, np.nan], [2, 3]])
    for value in (values, scipy_sparse.csr_array(np.eye(40) * np.nan)):
        with pytest.raises(lacus.InvalidError, match="NaN at"):
            lacus.array(value).compute(forbid_nan=True)
    ds["n"] = values
    with pytest.raises(lacus.InvalidError, match="NaN at"):
        lacus.run('save(load("n"), "m")', data=ds, forbid_nan=True)
    assert "m" not in ds


@pytest.mark.parametrize("name", ["file/below", "missing/below", "readonly"])
def test_a_spill_directory_that_cannot_be_written(full: lacus.Dataset, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "readonly").mkdir(mode=0o500)
    if name == "readonly" and os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    before, there = full.version, files(full)
    kind = lacus.UnavailableError if name == "readonly" else lacus.InvalidError
    with pytest.raises(kind, match=re.escape(str(tmp_path / name))):
        lacus.run(PRODUCTS, data=full, memory=SMALL, spill=tmp_path / name)
    assert full.version == before and files(full) == there and full.keys() == ["A"]
    assert not (tmp_path / "missing").exists()


def test_a_spill_directory_that_is_full(full: lacus.Dataset, spill: Path) -> None:
    # No file may be larger than a few blocks: the same error as of a full disk, except for its name.
    code = """
import resource, signal, sys
import lacus
url, program, spill = sys.argv[1:]
ds = lacus.open(url)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    lacus.run(program, data=ds, memory="4MiB", spill=spill)
except lacus.UnavailableError as error:
    print(error)
"""
    program = PRODUCTS.replace('save(B, "B"); save(C, "C"); save(D @ B, "D")', 'save(sum(D @ B), "s")')
    before, there = full.version, files(full)
    command = [sys.executable, "-c", code, full.url, program, str(spill)]
    told = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert str(spill) in told.stdout and "spilling to" in told.stdout, told
    assert lacus.open(full.url).version == before and files(full) == there
    assert not list(spill.iterdir())


def test_an_interrupt_leaves_nothing(full: lacus.Dataset, spill: Path) -> None:
    before, there = full.version, files(full)
    program = 'A = load("A"); B = A\nfor t in 0..100000 { B = B @ A }\nsave(B, "B")'
    # Processes that a shell starts in the background ignore it.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lacus.run(program, data=full, memory=SMALL, spill=spill)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert full.version == before and files(full) == there and not list(spill.iterdir())
    assert lacus.run('save(load("A")[0, 0], "first")', data=full)["first"][...] == full["A"][0, 0]


def test_what_is_told_to_be_enough_in_a_loop_is(tmp_path: Path) -> None:
    program = """
        y = load("v"); z = y
        for t in 0..3 { z[i in 0..10000] = where(i + t < 10000, z[i + t], y[i] * 2) - z[9999 - i] }
        save(sum(z), "z")"""
    inputs = {"v": np.arange(10_000.0)}
    with pytest.raises(lacus.InvalidError) as caught:
        lacus.run(program, inputs=inputs, memory="20KiB", spill=tmp_path)
    told = re.search(r"takes ([\d.]+ [KM]iB)", str(caught.value))
    assert told, caught.value
    assert lacus.run(program, inputs=inputs, memory=told[1], spill=tmp_path)["z"].shape == ()


def test_reads_beyond_an_array_take_no_room() -> None:
    a = np.arange(1600.0).reshape(40, 40)
    found = np.pad(np.diagonal(lacus.array(a)), (0, 100_000)).compute(memory="4MiB")
    np.testing.assert_array_equal(found, np.pad(np.diagonal(a), (0, 100_000)))
    far = "v = load(\"v\"); y[i in 0..10] = where(i < 1, v[4611686018427387904 * i], 5); save(y, \"y\")"
    assert lacus.run(far, inputs={"v": np.ones(5)})["y"].tolist() == [1.0] + [5.0] * 9


def test_remainders_by_zero_are_found_where_they_count() -> None:
    n = np.array([3, 0, 5])
    with pytest.raises(lacus.InvalidError, match=r"an integer is divided by zero at \[1\]"):
        lacus.run('save(7 % load("n"), "r")', inputs={"n": n})
    found = lacus.run('n = load("n"); save(where(n != 0, 7 % n, -1), "r")', inputs={"n": n})
    assert found["r"].tolist() == [1, -1, 2]


def test_nan_is_named(full: lacus.Dataset) -> None:
    values = np.ones((300, 200))
    values[217, 33] = -4
    with pytest.raises(lacus.InvalidError, match=r'"root": NaN at \[217, 33\]'):
        lacus.run('root = sqrt(load("x")); save(root, "root")', data=full, inputs={"x": values}, forbid_nan=True)
    assert "root" not in full


def test_a_dataset_that_is_overwritten_while_a_run_reads_it(full: lacus.Dataset, spill: Path) -> None:
    a = full["A"][:]
    program = 'A = load("A"); B = A\nfor t in 0..6 { B = B @ A }\nsave(B, "B"); save(A * 1, "copy")'
    done = threading.Event()

    def overwrite() -> None:
        other = lacus.open(full.url)
        for _ in range(10):
            if done.wait(0.02):
                break
            other["A"] = np.zeros((N, N))
            other["more"] = np.zeros(3)

    thread = threading.Thread(target=overwrite)
    thread.start()
    try:
        found = lacus.run(program, data=full, memory=SMALL, spill=spill)
    finally:
        done.set()
        thread.join()
    assert np.array_equal(found["copy"][:], a)
    np.testing.assert_allclose(found["B"][:], np.linalg.matrix_power(a, 7), rtol=1e-8, atol=1e-20)


def test_a_dataset_that_is_deleted_while_a_run_reads_it(full: lacus.Dataset, spill: Path) -> None:
    program = 'A = load("A"); B = A\nfor t in 0..60 { B = B @ A }\nsave(B, "B")'
    failures: list[BaseException] = []

    def work() -> None:
        try:
            lacus.run(program, data=full, memory=SMALL, spill=spill)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.3)
    lacus.delete(full.url)
    thread.join(timeout=120)
    assert not thread.is_alive()
    (failure,) = failures
    assert isinstance(failure, lacus.LacusError) and not isinstance(failure, lacus.InternalError), failure
    assert not lacus.exists(full.url) and not list(spill.iterdir())


def test_a_column_is_not_replaced(full: lacus.Dataset, spill: Path) -> None:
    full.add_column("pixels", dtype="float64")
    full.append({"pixels": [1.0, 2.0]})
    version = full.version
    for memory in (SMALL, None):
        with pytest.raises(lacus.InvalidError, match="pixels"):
            lacus.run('save(load("A") @ load("A"), "pixels")', data=full, memory=memory, spill=spill)
    assert (full.version, len(full)) == (version, 1)


def test_a_name_is_saved_once() -> None:
    with pytest.raises(lacus.InvalidError, match="saved by another statement"):
        lacus.run('a = ones([3])\nsave(a, "x")\nsave(a + 1, "x")')
    # A loop is one statement.
    found = lacus.run('a = ones([3])\nfor k in 0..3 { a = a + 1; save(a, "x") }')
    assert found["x"].tolist() == [4, 4, 4]


def test_results_that_cannot_be_there_are_not_begun() -> None:
    with pytest.raises(lacus.InvalidError, match="to keep the results"):
        lacus.ones((200_000, 200_000)).compute(memory="1GiB")


def test_progress_functions_cannot_use_datasets(full: lacus.Dataset) -> None:
    told = []

    def progress(now: lacus.Progress) -> None:
        told.append(now)
        full.keys()

    hooked: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda found: hooked.append(found.exc_value)
    try:
        lacus.run('save(load("A") @ load("A"), "B")', data=full, progress=progress)
    finally:
        sys.unraisablehook = before
    assert told
    assert "B" in full
    assert hooked and all("progress function" in str(error) for error in hooked)
