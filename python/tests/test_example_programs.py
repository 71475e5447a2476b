"""The programs in examples/programs give what numpy and scipy give, from arrays and from a dataset."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lacus

ROOT = Path(__file__).parents[2]


def _load() -> ModuleType:
    # Not a package that is installed: it lies beside it.
    spec = importlib.util.spec_from_file_location("lacus_example_programs", ROOT / "examples" / "compute.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


examples = _load()
NAMES = list(examples.EXAMPLES)
#: Sizes with tiles that are cut off, and such that a slow build is done in a moment.
SMALL = 0.02


def scipy_part(name: str) -> Any:
    """A part of scipy, or a loud skip."""
    return pytest.importorskip(f"scipy.{name}", reason="NO SCIPY: the comparison with it is left out")


def inputs_of(name: str, rng: np.random.Generator, size: float = SMALL, real: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = examples.EXAMPLES[name].inputs(size, rng, real)
    return found


def run(name: str, inputs: dict[str, Any], **options: Any) -> dict[str, Any]:
    found = lacus.run(examples.EXAMPLES[name].text, inputs=inputs, **options)
    return {key: examples.dense(value[...] if isinstance(value, lacus.Tensor) else value) for key, value in found.items()}


def assert_right(name: str, inputs: dict[str, Any], found: dict[str, Any]) -> None:
    expected = examples.EXAMPLES[name].expected(inputs)
    assert found.keys() == expected.keys()
    assert examples.difference(found, expected) <= examples.TOLERANCE


def test_every_program_is_tested() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in examples.PROGRAMS.glob("*.lac"))


@pytest.mark.parametrize("name", NAMES)
def test_programs_equal_numpy(name: str, rng: np.random.Generator) -> None:
    inputs = inputs_of(name, rng)
    found = run(name, inputs)
    assert_right(name, inputs, found)
    again = run(name, inputs, workers=1)
    assert all(np.array_equal(found[key], again[key], equal_nan=True) for key in found), "not the same bits"


@pytest.mark.parametrize("name", NAMES)
def test_programs_take_stored_tensors(name: str, ds: lacus.Dataset, rng: np.random.Generator) -> None:
    inputs = inputs_of(name, rng)
    ds.put_all(inputs)
    before = ds.version
    found = lacus.run(examples.EXAMPLES[name].text, data=ds)
    assert ds.version == before + 1
    stored = {key: examples.dense(tensor[...]) for key, tensor in found.items()}
    assert_right(name, inputs, stored)


@pytest.mark.parametrize("name", ["product_general", "network", "pagerank", "shortest_paths"])
def test_the_command_runs_them(name: str, ds: lacus.Dataset, rng: np.random.Generator) -> None:
    command = os.environ.get("LACUS_TEST_CLI")
    if not command or not Path(command).is_file():
        pytest.skip("NO lacus COMMAND: LACUS_TEST_CLI names none")
    inputs = inputs_of(name, rng)
    ds.put_all(inputs)
    program = examples.PROGRAMS / f"{name}.lac"
    done = subprocess.run(
        [command, "run", str(program), "--data", ds.url, "--json"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    ds.refresh()
    expected = examples.EXAMPLES[name].expected(inputs)
    assert_right(name, inputs, {key: examples.dense(ds[key][...]) for key in expected})


def test_the_examples_run_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "compute.py"), "heat", "diagonal", "--size", "0.02"]
    done = subprocess.run([*command, "--keep", str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "heat" in done.stdout and "diagonal.lac --data" in done.stdout
    assert lacus.open(tmp_path / "heat").keys() == ["u"]


# ---------------------------------------------------------------- what each is about


def test_pages_without_links_lose_nothing(rng: np.random.Generator) -> None:
    """The rank is the fixed point of the matrix with those columns filled, and sums to one."""
    source, to = np.array([0, 0, 1, 3]), np.array([1, 2, 0, 2])
    g = examples.follow_matrix(source, to, 5)
    full = np.where(g.todense().sum(0) == 0, 1 / 5, g.todense())
    values, found = np.linalg.eig(0.85 * full + 0.15 / 5)
    first = np.real(found[:, values.real.argmax()])
    rank = run("pagerank", {"G": g})["rank"]
    np.testing.assert_allclose(rank, first / first.sum(), atol=1e-9)
    np.testing.assert_allclose(rank.sum(), 1)


def test_pagerank_equals_scipy_sparse(rng: np.random.Generator) -> None:
    sparse = scipy_part("sparse")
    g = inputs_of("pagerank", rng, size=0.2)["G"]
    matrix = sparse.csr_array(g.to_scipy("csr"))
    n = matrix.shape[0]
    empty = np.asarray(matrix.sum(axis=0)).reshape(-1) == 0
    assert empty.any()
    r = np.full(n, 1 / n)
    for _ in range(200):
        r = 0.85 * (matrix @ r + r[empty].sum() / n) + 0.15 / n
    np.testing.assert_allclose(run("pagerank", {"G": matrix})["rank"], r, atol=1e-9)


def test_sparse_products_equal_scipy(rng: np.random.Generator) -> None:
    sparse = scipy_part("sparse")
    a = sparse.random_array((17, 23), density=0.1, rng=rng, format="csr")
    b = sparse.random_array((23, 9), density=0.1, rng=rng, format="csc")
    np.testing.assert_allclose(run("sparse_product", {"A": a, "B": b})["C"], (a @ b).todense())


def test_shortest_paths_equal_scipy(rng: np.random.Generator) -> None:
    csgraph = scipy_part("sparse.csgraph")
    lengths = inputs_of("shortest_paths", rng)["W"]
    found = run("shortest_paths", {"W": lengths})["D"]
    assert np.isinf(found).any()
    np.testing.assert_array_equal(found, csgraph.dijkstra(lengths))


def test_the_network_follows_its_true_slope(rng: np.random.Generator) -> None:
    """The first step, measured against the loss of weights that are a little different."""
    inputs = inputs_of("network", rng)
    inputs["X"], inputs["labels"] = inputs["X"][:1], inputs["labels"][:1]
    program = examples.EXAMPLES["network"].text.replace("0..10", "0..1")
    after = lacus.run(program, inputs=inputs)

    def loss(**other: Any) -> float:
        given = inputs | other
        hidden = np.maximum(given["X"][0] @ given["W1"] + given["b1"], 0)
        score = hidden @ given["W2"] + given["b2"]
        chosen = np.take_along_axis(score, given["labels"][0][:, None], 1)[:, 0]
        return float(np.mean(np.log(np.exp(score).sum(1)) - chosen))

    np.testing.assert_allclose(after["losses"][0], loss())
    for name in ("W1", "b1", "W2", "b2"):
        slope = (inputs[name] - after[name]) / 0.1
        aside = rng.standard_normal(slope.shape)
        measured = (loss(**{name: inputs[name] + 1e-6 * aside}) - loss(**{name: inputs[name] - 1e-6 * aside})) / 2e-6
        np.testing.assert_allclose((slope * aside).sum(), measured, rtol=1e-5)


def test_unknown_ratings_do_not_count(rng: np.random.Generator) -> None:
    """A user without ratings only shrinks a little; ratings that fit already are left as they are."""
    p, q = 1 + rng.random((4, 2)), 1 + rng.random((2, 5))
    indices = np.array([[0, 1], [1, 0], [1, 4], [3, 3]])
    fitting = lacus.SparseTensor(indices, (p @ q)[indices[:, 0], indices[:, 1]], (4, 5))
    program = examples.EXAMPLES["factorisation"].text.replace("0.02 * ", "0.0 * ")
    found = lacus.run(program, inputs={"R": fitting, "P": p, "Q": q})
    np.testing.assert_allclose(found["P"], p, atol=1e-12)
    np.testing.assert_allclose(found["Q"], q, atol=1e-12)
    assert abs(found["error"]) < 1e-12
    shrunk = run("factorisation", {"R": fitting, "P": p, "Q": q})
    np.testing.assert_allclose(shrunk["P"][2], p[2] * (1 - 0.01 * 0.02) ** 10)


def test_regression_comes_near_the_least_squares(rng: np.random.Generator) -> None:
    inputs = inputs_of("regression", rng, size=0.2)
    best, *_ = np.linalg.lstsq(inputs["X"], inputs["y"])
    np.testing.assert_allclose(run("regression", inputs)["w"], best, atol=1e-3)


def test_the_first_of_equally_near_rows_is_taken() -> None:
    x = np.array([[3.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    found = run("nearest", {"X": x, "q": np.zeros(2), "M": np.diag([4.0, 1.0])})
    assert found["nearest"] == 1 and found["distance"] == 2


def test_no_heat_is_lost(rng: np.random.Generator) -> None:
    u = rng.random((5, 9))
    found = run("heat", {"u": u})["u"]
    np.testing.assert_allclose(found.sum(), u.sum())
    assert found.std() < u.std() / 3


@pytest.mark.parametrize("name", ["nearest", "network", "pagerank"])
def test_real_data_is_computed_with(name: str, rng: np.random.Generator) -> None:
    if not examples.REAL.is_dir():
        pytest.skip(f"NO REAL DATA at {examples.REAL}")
    inputs = inputs_of(name, rng, real=True)
    assert_right(name, inputs, run(name, inputs))
