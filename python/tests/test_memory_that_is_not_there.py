"""Values that are larger than memory: an error that says how many bytes were wanted, never the end of the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from workers import ENVIRONMENT

import lacus


def test_a_read_of_16_tib(ds: lacus.Dataset) -> None:
    # Zeros that are stored nowhere.
    array = ds.create_array("zeros", (1 << 21, 1 << 20), "float64")
    with pytest.raises(MemoryError, match=str(1 << 44)) as told:
        array[:]
    assert isinstance(told.value, lacus.OutOfMemoryError) and '"zeros"' in str(told.value)
    assert array[5, 7] == 0 and array[-1, -3:].tolist() == [0, 0, 0]
    with pytest.raises(MemoryError, match=str(1 << 44)):
        lacus.compute(array.lazy() + 1, memory=1 << 50)
    assert (array.lazy()[3, :4] + 1).compute().tolist() == [1, 1, 1, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what is available")
def test_more_than_is_available_is_not_tried(ds: lacus.Dataset) -> None:
    # The system would promise it, and kill the process when it is used.
    with open("/proc/meminfo") as text:
        total = next(int(line.split()[1]) << 10 for line in text if line.startswith("MemTotal"))
    array = ds.create_array("zeros", (total - (64 << 20),), "uint8")
    with pytest.raises(MemoryError, match=f"takes {total - (64 << 20)} bytes of memory, and [0-9]+ are available"):
        array[:]


LIMITED = """
import resource, sys
import numpy as np, lacus
ds = lacus.open(sys.argv[1])
assert ds["x"][:500].sum() >= 0 and ds["s"][:200].nnz >= 0  # Threads, and all that is made once.
with open("/proc/self/statm") as statm:
    mapped = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + (100 << 20), resource.RLIM_INFINITY))
for read in (lambda: ds["x"][:], lambda: ds["s"][:], lambda: (ds["x"].lazy() * 2).compute(memory="1GiB")):
    try:
        read()
        print("read")
    except MemoryError as error:
        print(type(error).__name__, error)
assert ds["x"][:1000].shape == (1000, 4000)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs limits of address space")
def test_less_address_space_than_a_value_takes(ds: lacus.Dataset) -> None:
    rng = np.random.default_rng(0)
    ds["x"] = rng.random((5000, 4000), dtype=np.float32)[:, :].astype(np.float64)
    sparse = pytest.importorskip("scipy.sparse")
    ds["s"] = sparse.random_array((4000, 200_000), density=0.01, rng=rng, format="coo")
    command = [sys.executable, "-c", LIMITED, ds.url]
    # Every new thread reserves 64 MiB of address space for small allocations, which is not what is tested here.
    environment = {**ENVIRONMENT, "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stdout
    wanted = 5000 * 4000 * 8
    assert re.fullmatch(rf'OutOfMemoryError tensor "x": .* takes {wanted} bytes of memory, .*', lines[0])
    assert lines[1].startswith("OutOfMemoryError") and "8000000 nonzeros" in lines[1], lines[1]
    assert lines[2].startswith("OutOfMemoryError"), lines[2]
