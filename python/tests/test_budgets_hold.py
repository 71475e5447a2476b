"""Budgets of runs: what a process takes while results are stored or handed back, measured by the system."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from workers import ENVIRONMENT

import lacus

scipy_sparse = pytest.importorskip("scipy.sparse")

#: Graphs with real degrees, where they are at hand.
GRAPHS = Path(__file__).resolve().parents[3] / "shared" / "data" / "graphs"

#: What a run may take beside its budget: threads, workspaces of kernels, what the allocator keeps.
BESIDE = 64 << 20

CHILD = """
import json, sys
import numpy as np
import lacus

def taken(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(key))

url, memory, what, graph = sys.argv[1:]
ds, memory = lacus.open(url), int(memory)
x = None
if graph != "-":
    from scipy import sparse
    found = np.load(graph)
    ones = np.ones(len(found["indices"]))
    x = lacus.array(sparse.csr_array((ones, found["indices"], found["indptr"]), shape=tuple(found["shape"])))
# Threads, and all that is made once.
lacus.random((500, 500), 1).store(ds, "warm", memory="1MiB")
small = np.eye(40)
lacus.array(sparse.csr_array(small) if graph != "-" else small).__matmul__(small).compute()
before = taken("VmRSS")
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
told = ""
try:
    made = eval(what)
except lacus.InvalidError as error:
    told = str(error)
print(json.dumps([taken("VmHWM") - before, told]))
"""


def run(ds: lacus.Dataset, budget: int, what: str, graph: Path | None = None) -> str:
    """Runs it in a process of its own, which must stay within its budget. Returns why it was refused, if it was."""
    command = [sys.executable, "-c", CHILD, ds.url, str(budget), what, str(graph or "-")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    peak, told = json.loads(done.stdout.splitlines()[-1])
    assert peak <= budget + BESIDE, f"{peak >> 20} MiB within {budget >> 20} MiB: {told}"
    ds.refresh()
    return told


@pytest.mark.parametrize(("mib", "rows"), [(4, 2500), (8, 7000), (16, 5000), (64, 7000)])
def test_arrays_that_are_stored_stream(ds: lacus.Dataset, mib: int, rows: int) -> None:
    told = run(ds, mib << 20, f"lacus.random(({rows}, {rows}), 7).store(ds, 'y', memory=memory)")
    assert not told
    assert np.array_equal(ds["y"][-3:], lacus.random((rows, rows), 7)[-3:].compute())
    # Tiles are chunks of few files.
    assert len(list(Path(ds.url).glob("data/*.parquet"))) < 12


def test_chunks_that_are_no_tiles_stream(ds: lacus.Dataset) -> None:
    told = run(ds, 8 << 20, "lacus.random((3000, 3000), 7).store(ds, 'y', memory=memory, chunk_shape=(777, 1001))")
    assert not told
    assert ds["y"].chunk_shape == (777, 1001)
    assert np.array_equal(ds["y"][:], lacus.random((3000, 3000), 7).compute())


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up graph whose links gather at few nodes: of 64 tiles of its square the fullest has ten times the mean."""
    rng = np.random.default_rng(3)
    n, links = 30_000, 90_000
    ends = (n * rng.random((2, links)) ** 3).astype(np.int64)
    graph = scipy_sparse.csr_array((np.ones(links), (ends[0], ends[1])), shape=(n, n))
    graph.sum_duplicates()
    path = tmp_path_factory.mktemp("graph") / "hubs.npz"
    np.savez(path, indptr=graph.indptr, indices=graph.indices, shape=graph.shape)
    return path


def named(name: str, hubs: Path) -> Path:
    if name == "made up":
        return hubs
    path = GRAPHS / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"NOT TESTED on the graph {name}, which is not at {path}")
    return path


def square(path: Path) -> scipy_sparse.csr_array:
    found = np.load(path)
    ones = np.ones(len(found["indices"]))
    graph = scipy_sparse.csr_array((ones, found["indices"], found["indptr"]), shape=tuple(found["shape"]))
    product = graph @ graph
    product.sort_indices()
    return product


PRODUCTS = [("made up", 64), ("made up", 256), ("arxiv-cit-hep-th", 64), ("astro-ph-cc1", 64)]


@pytest.mark.parametrize(("name", "mib"), PRODUCTS)
def test_products_of_graphs_are_stored(ds: lacus.Dataset, hubs: Path, name: str, mib: int) -> None:
    graph = named(name, hubs)
    assert not run(ds, mib << 20, "(x @ x).store(ds, 'y', memory=memory)", graph)
    expected = square(graph)
    assert ds["y"].nnz == expected.nnz
    for rows in (slice(0, 7), slice(expected.shape[0] // 2, expected.shape[0] // 2 + 50)):
        assert np.array_equal(np.asarray(ds["y"][rows]), expected[rows].todense())


@pytest.mark.parametrize(("name", "mib"), PRODUCTS)
def test_products_of_graphs_come_back_or_are_refused(ds: lacus.Dataset, hubs: Path, name: str, mib: int) -> None:
    graph = named(name, hubs)
    expected = square(graph)
    told = run(ds, mib << 20, "(x @ x).compute(memory=memory)", graph)
    # Two coordinates and an element each.
    takes = 24 * expected.nnz
    assert bool(told) == (takes > mib << 20), told
    if told:
        assert f"{expected.nnz} nonzeros" in told and "memory budget" in told
        needed = float(told.split()[-2]) * {"MiB": 1 << 20, "GiB": 1 << 30}[told.split()[-1]]
        assert takes <= needed <= takes + (64 << 20)
        # What is told to do, does.
        assert not run(ds, int(needed * 1.001), "(x @ x).compute(memory=memory)", graph)


def test_sparse_results_of_other_steps_are_spilled(ds: lacus.Dataset, hubs: Path) -> None:
    found = np.load(hubs)
    what = "(2.0 * (x @ x)).store(ds, 'y', memory=memory)"
    told = run(ds, 256 << 20, what, hubs)
    assert not told
    expected = square(hubs)
    assert ds["y"].nnz == expected.nnz and len(found["indices"]) > 0
    assert np.array_equal(np.asarray(ds["y"][5:9]), 2 * expected[5:9].todense())
