"""Whatever calls at once, and through however many handles: the process has the threads of its pool and its runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from workers import ENVIRONMENT

import lacus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")

#: Threads of the pool, the one that calls included.
THREADS = 3

#: Threads of the pool that waits for disks, the one that calls included. Only runs of programs use it here, to read ahead.
WAITING = 16

#: Reads or computes with eight threads, through one handle or eight, and prints how many threads of which name there were at
#: most.
PROGRAM = """
import collections, os, sys, threading
import numpy as np, lacus

url, handles, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
opened = [lacus.open(url) for _ in range(handles)]
most, done = collections.Counter(), threading.Event()

def count():
    while not done.is_set():
        names = collections.Counter()
        for task in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{task}/comm") as file:
                    names[file.read().strip()] += 1
            except OSError:
                pass  # It ended meanwhile.
        for name, number in names.items():
            most[name] = max(most[name], number)

def work(number):
    ds = opened[number % handles]
    for _ in range(5):
        if what == "read":
            assert ds["t"][:][7] == "text 7" and int(ds["v"][:].sum()) == 1200000
        else:
            a = ds["a"].lazy()
            assert float((a @ a).sum().compute()) == 256.0 ** 3

counting = threading.Thread(target=count)
counting.start()
working = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in working: thread.start()
for thread in working: thread.join()
done.set()
counting.join()
for name, number in most.items(): print(number, name)
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of texts and vectors in several files, and an array."""
    path = tmp_path_factory.mktemp("threads") / "ds"
    ds = lacus.create(path)
    ds.add_column("t", "text")
    ds.add_column("v", dtype="float32", shape=(300,))
    for part in range(4):
        texts = [f"text {number}" for number in range(1000 * part, 1000 * part + 1000)]
        ds.extend({"t": texts, "v": np.ones((1000, 300), np.float32)})
    ds.put("a", np.ones((256, 256)), chunk_shape=(32, 256))
    return path


@pytest.mark.parametrize("what", ["read", "compute"])
@pytest.mark.parametrize("handles", [1, 8])
def test_eight_callers(url: Path, handles: int, what: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(url), str(handles), what]
    # numpy's own threads are not what is counted.
    environment = {**ENVIRONMENT, "LACUS_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=300).stdout
    most = {name: int(number) for number, name in (line.split(maxsplit=1) for line in printed.splitlines())}
    workers, runtime, calls = (most.pop(name, 0) for name in ("lacus-worker", "lacus", "lacus-call"))
    assert workers <= THREADS - 1 + (WAITING - 1 if what == "compute" else 0)
    assert runtime > 0, "whatever ran, ran in the runtime of the process"
    # A thread for each call that can be interrupted, and for each caller the one of its last call, which may still be ending:
    # a scope waits for what a thread does, not for the thread itself to be gone.
    assert calls <= 16, most
    # Those of the program itself: the main one, eight that call, one that counts; and for each that calls one that has just begun
    # and has no name of its own yet.
    assert sum(most.values()) <= 18, most
