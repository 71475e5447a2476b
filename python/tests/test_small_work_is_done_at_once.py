"""What takes less time than starting a thread is computed on the thread that asks, with the same result and the same errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import lacus

CHILD = """
import os, numpy as np, lacus
a = np.arange(10)
before = len(os.listdir("/proc/self/task"))
for dtype in ("float64", "float32", "int32", "bool"):
    b = a.astype(dtype)
    assert (lacus.array(b) + lacus.array(b)).compute().tolist() == (b.astype(int) + b).tolist()
    assert lacus.run('x = load("x"); save(sum(x), "s")', inputs={"x": b})["s"].item() == b.sum()
print(len(os.listdir("/proc/self/task")) - before)
(lacus.array(np.ones((400, 400))) @ np.ones((400, 400))).compute()
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_small_work_starts_no_threads() -> None:
    found = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    small, large = map(int, found.stdout.split())
    assert small == 0
    assert large > 0  # The runtime, for work that has to be interrupted.


def test_small_and_large_work_give_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 300_000))
    large = (lacus.array(a) * b + np.exp(lacus.array(a))).compute()
    for start in (0, 777, 299_990):
        part = slice(start, start + 10)
        small = (lacus.array(a[part]) * b[part] + np.exp(lacus.array(a[part]))).compute()
        assert small.tobytes() == large[part].tobytes()
    np.testing.assert_allclose(large, a * b + np.exp(a))


def test_errors_of_small_work_are_the_same() -> None:
    with pytest.raises(lacus.InvalidError, match="NaN at"):
        (lacus.array([1.0, 0.0]) * np.inf).compute(forbid_nan=True)
    with pytest.raises(lacus.InvalidError, match=r"an integer is divided by zero at \[1\]"):
        lacus.run('save(7 // load("n"), "r")', inputs={"n": np.array([3, 0])})


def test_small_work_of_many_threads() -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        for n in range(100):
            if (lacus.array([k, n]) + 1).compute().tolist() != [k + 1, n + 1]:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forked_children_do_small_work() -> None:
    assert (lacus.array([1, 2]) + 1).compute().tolist() == [2, 3]
    child = os.fork()
    if child == 0:
        os._exit(0 if (lacus.array([1, 2]) * 2).compute().tolist() == [2, 4] else 1)
    assert os.waitpid(child, 0)[1] == 0
