"""The programs in examples/programs, each run on a dataset and compared with numpy.

    python examples/compute.py                     all of them, on small data
    python examples/compute.py pagerank --size 20  one of them, on twenty times as much
    python examples/compute.py heat --keep plate   leaves the dataset there, to try `lacus run` on it

Data is real where it lies beside the project (LACUS_BENCH_DATA names another place), and made up otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lacus

PROGRAMS = Path(__file__).resolve().parent / "programs"
REAL = Path(os.environ.get("LACUS_BENCH_DATA", PROGRAMS.parents[2] / "shared" / "data"))

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Example:
    """A program, what it is run on and what it should give."""

    name: str
    #: What to load, for a size (1 unless told), a source of chance, and whether real data may be used.
    inputs: Callable[[float, np.random.Generator, bool], Arrays]
    #: What is saved, computed without Lacus.
    expected: Callable[[Arrays], Arrays]
    #: A few words about the result.
    remark: Callable[[Arrays, Arrays], str] = lambda inputs, found: ""

    @property
    def text(self) -> str:
        """The program."""
        return (PROGRAMS / f"{self.name}.lac").read_text()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {', '.join(EXAMPLES)}; all unless told")
    parser.add_argument("--size", type=float, default=1, help="how much more data than the little there is by default")
    parser.add_argument("--memory", help="what tiles may take together, as 2GiB")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the datasets in this directory and leave them")
    args = parser.parse_args()
    if unknown := set(args.names) - set(EXAMPLES):
        parser.error(f"{', '.join(sorted(unknown))}: there are {', '.join(EXAMPLES)}")
    with tempfile.TemporaryDirectory(prefix="lacus-programs-") as home:
        wrong = [name for name in args.names or EXAMPLES if not show(EXAMPLES[name], args.keep or Path(home), args)]
    return 1 if wrong else 0


def show(example: Example, home: Path, args: argparse.Namespace) -> bool:
    """Runs one and prints a line about it; whether it is right."""
    inputs = example.inputs(args.size, np.random.default_rng(7), True)
    ds = lacus.create(home / example.name)
    ds.put_all(inputs)
    start = time.perf_counter()
    stored = lacus.run(example.text, data=ds, memory=args.memory)
    seconds = time.perf_counter() - start
    found = {name: tensor[...] for name, tensor in stored.items()}
    off = difference(found, example.expected(inputs))
    shapes = ", ".join(f"{name} {shape_text(value)}" for name, value in inputs.items())
    remark = example.remark(inputs, found)
    print(f"{example.name:16} {seconds:7.2f} s  {shapes}{': ' * bool(remark)}{remark}")
    if args.keep:
        print(f"{'':16} lacus run {os.path.relpath(PROGRAMS / example.name)}.lac --data {home / example.name}")
    if off > TOLERANCE:
        print(f"{'':16} WRONG: off by {off:.1e} of the largest", file=sys.stderr)
    return off <= TOLERANCE


#: Sums in another order differ by this much at most, as a share of the largest element.
TOLERANCE = 1e-9


def difference(found: Arrays, expected: Arrays) -> float:
    """How far two sets of arrays lie apart at most, as a share of the largest finite element of each."""
    if found.keys() != expected.keys():
        return np.inf
    return max(_difference(dense(found[name]), dense(expected[name])) for name in expected)


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    a, b = a[finite], b[finite]
    if not a.size:
        return 0.0
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300))


def dense(value: Any) -> np.ndarray:
    """A value with all its zeros."""
    return np.asarray(value.todense() if hasattr(value, "todense") else value)


def shape_text(value: Any) -> str:
    return "×".join(map(str, np.shape(value) or getattr(value, "shape", ()))) or "one"


def extent(base: int, size: float, power: float = 1) -> int:
    """An extent that makes the work grow with the size: for a product of matrices the third root of it."""
    return max(4, round(base * size**power))


# ---------------------------------------------------------------- products


def general(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    n = extent(200, size, 1 / 3)
    return {"A": rng.standard_normal((n, n + 1)), "B": rng.standard_normal((n + 1, n + 2))}


def common(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    n = extent(10_000, size)
    return {"X": rng.standard_normal((n, 20)), "Y": rng.standard_normal((n, 30))}


def outer(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    n = extent(500, size, 1 / 2)
    return {"X": rng.standard_normal((n, 20)), "Y": rng.standard_normal((n + 50, 20))}


def chain(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    n = extent(300, size, 1 / 2)
    return {"A": rng.standard_normal((n, n)), "B": rng.standard_normal((n, n)), "v": rng.standard_normal(n)}


def powers(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    n = extent(120, size, 1 / 3)
    return {"A": rng.standard_normal((n, n)), "B": rng.standard_normal((n, n)) / np.sqrt(n)}


def sparse_pair(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    n = extent(400, size, 1 / 2)
    return {"A": sparse(rng, (n, n), 0.01), "B": sparse(rng, (n, n), 0.01)}


def sparse(rng: np.random.Generator, shape: tuple[int, int], density: float, low: float = 0.5) -> lacus.SparseTensor:
    """A matrix with about this share of its elements other than zero: numbers from `low` on, as wide as 1."""
    count = max(1, int(shape[0] * shape[1] * density))
    cells = np.unique(rng.integers(0, shape[0] * shape[1], count))
    indices = np.stack(np.unravel_index(cells, shape), axis=1)
    return lacus.SparseTensor(indices, low + rng.random(len(cells)), shape)


# ---------------------------------------------------------------- neighbours and regression


def vectors(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    """Sentence embeddings and a question; the metric takes from each direction how much they differ in it anyway."""
    path = REAL / "vectors" / "minilm_A_10k.npz"
    n, width = extent(1000, size), 32
    if real and path.is_file():
        with np.load(path) as found:
            rows, query = found["base"][:n, :width].astype(float), found["queries"][0, :width].astype(float)
    else:
        rows, query = rng.standard_normal((n, width)), rng.standard_normal(width)
    return {"X": rows, "q": query, "M": np.linalg.inv(np.cov(rows.T) + 1e-3 * np.eye(width))}


def nearest(inputs: Arrays) -> Arrays:
    # In coordinates where the metric is the usual one.
    root = np.linalg.cholesky(inputs["M"])
    distances = np.linalg.norm((inputs["X"] - inputs["q"]) @ root, axis=1)
    return {"nearest": np.int64(distances.argmin()), "distance": distances.min()}


def measurements(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    n, width = extent(2000, size), 16
    x = rng.standard_normal((n, width))
    return {"X": x, "y": x @ rng.standard_normal(width) + 0.1 * rng.standard_normal(n), "w": np.zeros(width)}


def regression(inputs: Arrays) -> Arrays:
    x, y, w = inputs["X"], inputs["y"], inputs["w"]
    # The same steps on the normal equations.
    square, right = x.T @ x, x.T @ y
    for _ in range(20):
        w = w - 0.5 / len(x) * (square @ w - right)
    return {"w": w, "loss": np.mean((x @ w - y) ** 2) / 2}


# ---------------------------------------------------------------- a network


def pixels(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    """Fields seen from the air: light in 200 colours, and what grows there."""
    path = REAL / "dense" / "tensorly_real_tensors.npz"
    batches, batch, hidden = extent(10, size), 40, 32
    if real and path.is_file():
        with np.load(path) as found:
            seen, kinds = found["indian_pines"].reshape(-1, 200).astype(float), found["indian_pines_gt"].reshape(-1)
        seen, kinds = seen[kinds > 0], kinds[kinds > 0].astype(np.int64) - 1
    else:
        kinds = rng.integers(0, 8, batches * batch)
        seen = rng.standard_normal((8, 50))[kinds] + 0.7 * rng.standard_normal((len(kinds), 50))
    batches = min(batches, len(seen) // batch)
    some = rng.permutation(len(seen))[: batches * batch]
    x = (seen[some] - seen.mean(0)) / seen.std(0)
    features, classes = x.shape[1], int(kinds.max()) + 1
    return {
        "X": x.reshape(batches, batch, features),
        "labels": kinds[some].reshape(batches, batch),
        "W1": rng.standard_normal((features, hidden)) * np.sqrt(2 / features),
        "b1": np.zeros(hidden),
        "W2": rng.standard_normal((hidden, classes)) * np.sqrt(2 / hidden),
        "b2": np.zeros(classes),
    }


def network(inputs: Arrays) -> Arrays:
    w1, b1, w2, b2 = (inputs[name] for name in ("W1", "b1", "W2", "b2"))
    losses = np.zeros(10)
    for epoch in range(10):
        for x, labels in zip(inputs["X"], inputs["labels"]):
            before = x @ w1 + b1
            hidden = np.maximum(before, 0)
            score = hidden @ w2 + b2
            score -= score.max(1, keepdims=True)
            p = np.exp(score)
            p /= p.sum(1, keepdims=True)
            truth = np.eye(len(b2))[labels]
            losses[epoch] += -np.log((p * truth).sum(1)).mean() / len(inputs["X"])
            d2 = (p - truth) / len(x)
            d1 = (d2 @ w2.T) * (before > 0)
            w1, b1, w2, b2 = w1 - 0.1 * x.T @ d1, b1 - 0.1 * d1.sum(0), w2 - 0.1 * hidden.T @ d2, b2 - 0.1 * d2.sum(0)
    return {"W1": w1, "b1": b1, "W2": w2, "b2": b2, "losses": losses}


def learned(inputs: Arrays, found: Arrays) -> str:
    score = np.maximum(inputs["X"] @ found["W1"] + found["b1"], 0) @ found["W2"] + found["b2"]
    right = (score.argmax(-1) == inputs["labels"]).mean()
    return f"loss {found['losses'][0]:.2f} to {found['losses'][-1]:.2f}, {100 * right:.0f} % right"


# ---------------------------------------------------------------- graphs


def links(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    """Who links to whom on Slashdot, as far as the first so many users are concerned."""
    path = REAL / "graphs" / "soc-slashdot0902-directed.npz"
    n = extent(400, size)
    if real and path.is_file():
        with np.load(path) as found:
            start, to = found["indptr"], found["indices"].astype(np.int64)
        source = np.repeat(np.arange(len(start) - 1), np.diff(start))
        n = min(n, len(start) - 1)
        kept = (source < n) & (to < n) & (source != to)
        source, to = source[kept], to[kept]
    else:
        # The lower the number, the more links there are to it; some have none themselves.
        source = rng.integers(0, n - n // 10, 8 * n)
        to = (n * rng.random(8 * n) ** 3).astype(np.int64)
    return {"G": follow_matrix(source, to, n)}


def follow_matrix(source: np.ndarray, to: np.ndarray, n: int) -> lacus.SparseTensor:
    """Where one gets to from j by a link taken by chance; columns of pages without links stay empty."""
    cells = np.unique(to * n + source)
    to, source = cells // n, cells % n
    return lacus.SparseTensor(np.stack([to, source], axis=1), 1 / np.bincount(source, minlength=n)[source], (n, n))


def pagerank(inputs: Arrays) -> Arrays:
    (to, source), share, n = inputs["G"].indices.T, inputs["G"].values, inputs["G"].shape[0]
    has_no_links = np.bincount(source, minlength=n) == 0
    r, rounds = np.full(n, 1 / n), 0
    while True:
        follow = np.bincount(to, share * r[source], minlength=n)
        s = 0.85 * (follow + r[has_no_links].sum() / n) + 0.15 / n
        rounds += 1
        if np.abs(s - r).sum() < 1e-10:
            return {"rank": s, "rounds": np.int64(rounds)}
        r = s


def ratings(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    users, items, width = extent(200, size, 1 / 2), extent(300, size, 1 / 2), 8
    return {
        "R": sparse(rng, (users, items), 0.02, low=3),
        "P": 0.5 + 0.1 * rng.standard_normal((users, width)),
        "Q": 0.5 + 0.1 * rng.standard_normal((width, items)),
    }


def factorisation(inputs: Arrays) -> Arrays:
    p, q = inputs["P"], inputs["Q"]
    (i, j), known = inputs["R"].indices.T, inputs["R"].values
    for _ in range(10):
        # One known rating after the other.
        e = known - np.einsum("nk,kn->n", p[i], q[:, j])
        dp, dq = np.zeros_like(p), np.zeros_like(q.T)
        np.add.at(dp, i, e[:, None] * q.T[j])
        np.add.at(dq, j, e[:, None] * p[i])
        p, q = p + 0.01 * (dp - 0.02 * p), q + 0.01 * (dq.T - 0.02 * q)
    e = known - np.einsum("nk,kn->n", p[i], q[:, j])
    return {"P": p, "Q": q, "error": np.sqrt(np.mean(e * e))}


def roads(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    """Places with four roads each, one way; some cannot be reached."""
    n = extent(80, size, 1 / 3)
    lengths = np.zeros((n, n))
    for place in range(n):
        lengths[place, rng.integers(0, n, 4)] = rng.integers(1, 100, 4)
    lengths[:, -1] = 0
    return {"W": lengths}


def shortest_paths(inputs: Arrays) -> Arrays:
    # Floyd and Warshall's way: one place after the other may be passed through.
    d = np.where(inputs["W"] == 0, np.inf, inputs["W"])
    np.fill_diagonal(d, 0)
    for k in range(len(d)):
        d = np.minimum(d, d[:, k, None] + d[k])
    return {"D": d}


# ---------------------------------------------------------------- the rest


def two(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    n = extent(300, size, 1 / 2)
    return {"X": rng.standard_normal((n, n)), "Y": rng.standard_normal((n, n))}


def plate(size: float, rng: np.random.Generator, real: bool) -> Arrays:
    """Cold, with a hot spot near a corner."""
    n = extent(60, size, 1 / 2)
    u = np.zeros((n, n + 7))
    u[1 : n // 3, 2 : n // 2] = 100
    return {"u": u}


def heat(inputs: Arrays) -> Arrays:
    u = inputs["u"]
    for _ in range(50):
        # The heat that flows between neighbours; none over the edges.
        down, right = 0.2 * np.diff(u, axis=0), 0.2 * np.diff(u, axis=1)
        u = u + np.diff(down, axis=0, prepend=0, append=0) + np.diff(right, axis=1, prepend=0, append=0)
    return {"u": u}


EXAMPLES = {
    example.name: example
    for example in (
        Example("product_general", general, lambda x: {"C": np.dot(x["A"], x["B"])}),
        Example("product_common", common, lambda x: {"C": np.dot(x["X"].T, x["Y"])}),
        Example("product_outer", outer, lambda x: {"C": np.dot(x["X"], x["Y"].T)}),
        Example("chain_vector", chain, lambda x: {"x": x["A"] @ (x["B"] @ x["v"])}),
        Example("chain_power", powers, lambda x: {"C": x["A"] @ np.linalg.matrix_power(x["B"], 5)}),
        Example("nearest", vectors, nearest, lambda x, found: f"row {found['nearest']}, {found['distance']:.2f} away"),
        Example("regression", measurements, regression, lambda x, found: f"loss {found['loss']:.4f}"),
        Example("network", pixels, network, learned),
        Example("sparse_product", sparse_pair, lambda x: {"C": dense(x["A"]) @ dense(x["B"])}),
        Example("pagerank", links, pagerank, lambda x, found: f"{x['G'].nnz:,} links, {found['rounds']} rounds"),
        Example(
            "factorisation", ratings, factorisation,
            lambda x, found: f"{x['R'].nnz:,} ratings, off by {found['error']:.2f}",
        ),
        Example(
            "shortest_paths", roads, shortest_paths,
            lambda x, found: f"{np.isfinite(found['D']).sum():,} pairs, {found['D'][np.isfinite(found['D'])].max():.0f} at most",
        ),
        Example("diagonal", two, lambda x: {"d": np.diag(x["X"]) + np.diag(x["Y"])}),
        Example("heat", plate, heat, lambda x, found: f"{x['u'].sum():.0f} of heat, {found['u'].sum():.0f} left"),
    )
}

if __name__ == "__main__":
    sys.exit(main())
