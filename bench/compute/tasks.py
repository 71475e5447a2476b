"""What is computed: the tasks, their sizes, and their data as files that all contenders share.

Inputs lie in .npy files that every contender maps into memory, so they are there once however many contenders wait for
their turn, and memory beyond them is each contender's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SEED = 6
REAL = Path(os.environ.get("LACUS_BENCH_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
SLASHDOT = REAL / "graphs" / "soc-slashdot0902-directed.npz"
#: Work is cut into this many threads by everyone.
THREADS = 2

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Task:
    """One thing to compute."""

    key: str
    title: str
    #: What `make`, `work` and the contenders want to know; divided in quick runs, except what is in `kept`.
    sizes: Sizes
    #: Writes the inputs into a directory.
    make: Callable[[Path, Sizes], None]
    #: How much there is to do, in `unit` times 1e9 per second, and for `rounds` of a loop.
    work: Callable[[Sizes], float]
    unit: str
    #: Module and contender, as in "by_numpy:numpy"; the first one that is not Lacus is what results are compared with.
    contenders: tuple[str, ...]
    kept: tuple[str, ...] = ("rounds",)
    #: How far results may lie apart, as a share of the largest.
    tolerance: float = 1e-9
    #: Counted repetitions at most: what takes long is not done often.
    repeat: int = 7
    #: What is written into storage first, for those who compute from there.
    stored: tuple[str, ...] = ()
    #: Small inputs are read into memory of one's own, with large pages.
    mapped: bool = True

    def scaled(self, divide: int) -> dict[str, int]:
        """The sizes of a run; none gets below eight."""
        return {name: n if name in self.kept else max(8, n // divide) for name, n in self.sizes.items()}


# ---------------------------------------------------------------- data


def normal(directory: Path, name: str, shape: tuple[int, ...], dtype: Any = np.float64, scale: float = 1) -> None:
    """Normal numbers, written row by row so that not all of them are in memory."""
    # Not hash(name), which is another one in each process.
    rng = np.random.default_rng([SEED, *name.encode()])
    out = np.lib.format.open_memmap(directory / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)
    rows = max(1, 2**22 // max(1, int(np.prod(shape[1:]))))
    for start in range(0, shape[0], rows):
        part = out[start : start + rows]
        part[...] = rng.standard_normal(part.shape, np.float32 if dtype == np.float32 else np.float64) * scale
    out.flush()


def save(directory: Path, **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        np.save(directory / f"{name}.npy", array)


def save_sparse(directory: Path, name: str, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, n: int, m: int) -> None:
    """A matrix in compressed rows; cells come once each, and in order."""
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n), out=start[1:])
    parts = {"start": start, "columns": columns.astype(np.int64), "values": values, "shape": np.array([n, m])}
    save(directory, **{f"{name}.{part}": array for part, array in parts.items()})


def scattered(directory: Path, name: str, n: int, m: int, density: float, low: float) -> None:
    rng = np.random.default_rng([SEED, *name.encode()])
    cells = np.unique(rng.integers(0, n * m, max(1, int(n * m * density))))
    save_sparse(directory, name, cells // m, cells % m, low + rng.random(len(cells)), n, m)


def product(directory: Path, sizes: Sizes) -> None:
    normal(directory, "A", (sizes["n"], sizes["k"]))
    normal(directory, "B", (sizes["k"], sizes["m"]))


def chain(directory: Path, sizes: Sizes) -> None:
    n = sizes["n"]
    normal(directory, "A", (n, n))
    normal(directory, "B", (n, n), scale=1 / np.sqrt(n))
    normal(directory, "v", (n,))


def two_vectors(directory: Path, sizes: Sizes) -> None:
    normal(directory, "a", (sizes["n"],))
    normal(directory, "b", (sizes["n"],))


def neighbours(directory: Path, sizes: Sizes) -> None:
    d = sizes["d"]
    dtype = np.float32
    normal(directory, "X", (sizes["n"], d), dtype)
    normal(directory, "q", (d,), dtype)
    normal(directory, "root", (d, d), dtype, 1 / np.sqrt(d))
    root = np.load(directory / "root.npy")
    save(directory, M=root @ root.T + np.eye(d, dtype=dtype))
    (directory / "root.npy").unlink()


def regression(directory: Path, sizes: Sizes) -> None:
    normal(directory, "X", (sizes["n"], sizes["d"]))
    normal(directory, "y", (sizes["n"],))
    save(directory, w=np.zeros(sizes["d"]))


def sparse_pair(directory: Path, sizes: Sizes) -> None:
    scattered(directory, "A", sizes["n"], sizes["n"], 0.01, 0.5)
    scattered(directory, "B", sizes["n"], sizes["n"], 0.01, 0.5)


def slashdot(directory: Path, sizes: Sizes) -> None:
    """The real graph, or one of its size."""
    n = sizes["n"]
    if not SLASHDOT.is_file():
        return power_law(directory, {"n": n, "edges": 12 * n})
    with np.load(SLASHDOT) as found:
        start, to = found["indptr"], found["indices"].astype(np.int64)
    source = np.repeat(np.arange(len(start) - 1), np.diff(start))
    kept = (source < n) & (to < n) & (source != to)
    follow(directory, source[kept], to[kept], n)


def power_law(directory: Path, sizes: Sizes) -> None:
    """Few pages that many link to, and many that hardly anyone does; a tenth have no links themselves."""
    n, edges = sizes["n"], sizes["edges"]
    rng = np.random.default_rng(SEED)
    places = rng.permutation(n)
    follow(directory, rng.integers(0, n - n // 10, edges), places[(n * rng.random(edges) ** 4).astype(np.int64)], n)


def follow(directory: Path, source: np.ndarray, to: np.ndarray, n: int) -> None:
    cells = np.unique(to * n + source)
    to, source = cells // n, cells % n
    save_sparse(directory, "G", to, source, 1 / np.bincount(source, minlength=n)[source], n, n)


def ratings(directory: Path, sizes: Sizes) -> None:
    n, d = sizes["n"], sizes["d"]
    scattered(directory, "R", n, n, 0.01, 3)
    normal(directory, "P", (n, d), scale=0.1)
    normal(directory, "Q", (d, n), scale=0.1)


def roads(directory: Path, sizes: Sizes) -> None:
    n = sizes["n"]
    rng = np.random.default_rng(SEED)
    lengths = np.where(rng.random((n, n)) < 0.1, rng.integers(1, 1000, (n, n)).astype(float), np.inf)
    # A ring, so that everything can be reached.
    lengths[np.arange(n), np.arange(1, n + 1) % n] = 1000
    np.fill_diagonal(lengths, 0)
    save(directory, D=lengths)


def network(directory: Path, sizes: Sizes) -> None:
    d, h, l, n = (sizes[name] for name in ("d", "h", "l", "n"))
    normal(directory, "X", (n, d), np.float32)
    normal(directory, "W1", (d, h), np.float32, np.sqrt(2 / d))
    normal(directory, "W2", (h, l), np.float32, np.sqrt(2 / h))
    rng = np.random.default_rng(SEED)
    save(directory, labels=rng.integers(0, l, n), b1=np.zeros(h, np.float32), b2=np.zeros(l, np.float32))


def one(directory: Path, sizes: Sizes) -> None:
    save(directory, x=np.ones(1))


# ---------------------------------------------------------------- tasks


PRODUCT_CONTENDERS = ("by_lacus:Lacus", "by_numpy:numpy", "by_dask:Dask", "by_ray:Ray")


def _flops(s: Sizes) -> float:
    return 2 * s["n"] * s["k"] * s["m"]


def _product(key: str, title: str, n: int, k: int, m: int) -> Task:
    sizes = {"n": n, "k": k, "m": m}
    return Task(key, f"{title}, float64", sizes, product, _flops, "GFLOP/s", PRODUCT_CONTENDERS, repeat=3)


def _network(key: str, title: str, sizes: Sizes) -> Task:
    return Task(
        key, f"two-layer network, {title}, two steps of gradient descent, float32", {**sizes, "rounds": 2}, network,
        # Forward, and back to the weights of both layers and to what is between them.
        lambda s: 2 * s["n"] * s["h"] * (2 * s["d"] + 3 * s["l"]) * s["rounds"], "GFLOP/s",
        ("by_lacus:Lacus", "by_torch:torch", "by_numpy:numpy"), ("rounds", "l"), tolerance=1e-4, repeat=3,
    )


TASKS = {
    task.key: task
    for task in (
        _product("product_general", "product of matrices", 8000, 8000, 8000),
        _product("product_common", "product with a long inner axis", 2000, 128_000, 2000),
        _product("product_outer", "product with two long outer axes", 16_000, 2000, 16_000),
        Task(
            "product_stored", "product of matrices out of storage, float64", {"n": 12_000, "k": 12_000, "m": 12_000},
            product, _flops, "GFLOP/s",
            (
                "by_lacus:Lacus, in memory", "by_lacus:Lacus, from storage", "by_lacus:Lacus, from storage in 2 GiB",
                "by_numpy:numpy", "by_dask:Dask, from files",
            ),
            repeat=1, stored=("A", "B"),
        ),
        Task(
            "chain_power", "A ← A·B five times, float64", {"n": 4000, "rounds": 5}, chain,
            lambda s: 2 * s["n"] ** 3 * s["rounds"], "GFLOP/s", ("by_lacus:Lacus", "by_numpy:numpy", "by_dask:Dask"),
            repeat=3,
        ),
        Task(
            "chain_vector", "A·B·v as it is written, float64", {"n": 8000}, chain, lambda s: 16 * s["n"] ** 2, "GB/s",
            ("by_lacus:Lacus", "by_numpy:numpy, from the right"),
        ),
        Task(
            "nearest_large", "nearest neighbour in a Riemannian metric, many rows, float32", {"n": 100_000, "d": 2000},
            neighbours, lambda s: 2 * s["n"] * s["d"] ** 2, "GFLOP/s",
            ("by_lacus:Lacus", "by_numpy:numpy", "by_torch:torch"), tolerance=1e-4, repeat=3,
        ),
        Task(
            "nearest_wide", "nearest neighbour in a Riemannian metric, long rows, float32", {"n": 2000, "d": 16_000},
            neighbours, lambda s: 2 * s["n"] * s["d"] ** 2, "GFLOP/s",
            ("by_lacus:Lacus", "by_numpy:numpy", "by_torch:torch"), tolerance=1e-4, repeat=3,
        ),
        Task(
            "fused", "2a + 3b − ab, float64", {"n": 20_000_000}, two_vectors, lambda s: 24 * s["n"], "GB/s",
            ("by_lacus:Lacus", "by_numexpr:numexpr", "by_numpy:numpy", "by_torch:torch"), mapped=False,
        ),
        Task(
            # The table is read twice in each round: for what is left, and for the slope.
            "regression", "linear regression, ten steps, float64", {"n": 400_000, "d": 1000, "rounds": 10}, regression,
            lambda s: 16 * s["n"] * s["d"] * s["rounds"], "GB/s",
            ("by_lacus:Lacus", "by_numpy:numpy", "by_torch:torch", "by_copy:copy loop"), repeat=5,
        ),
        Task(
            # Multiplications and additions, of which scipy does as many.
            "sparse_product", "sparse × sparse, 1 % of each, float64", {"n": 10_000}, sparse_pair,
            lambda s: 2 * s["n"] ** 3 * 0.01**2, "GFLOP/s", ("by_lacus:Lacus", "by_scipy:scipy"), repeat=5,
        ),
        Task(
            "pagerank_slashdot", f"PageRank of {'soc-slashdot0902' if SLASHDOT.is_file() else 'a made-up graph'}",
            {"n": 82_168}, slashdot, lambda s: 0, "", ("by_lacus:Lacus", "by_scipy:scipy"),
        ),
        Task(
            "pagerank_large", "PageRank of a made-up graph with 1.6e7 links", {"n": 1_000_000, "edges": 16_000_000},
            power_law, lambda s: 0, "", ("by_lacus:Lacus", "by_scipy:scipy"), repeat=5,
        ),
        Task(
            "factorisation", "Funk factorisation, 1 % known, ten rounds, float64", {"n": 10_000, "d": 100, "rounds": 10},
            ratings, lambda s: 6 * s["n"] ** 2 * 0.01 * s["d"] * s["rounds"], "GFLOP/s",
            ("by_lacus:Lacus", "by_scipy:scipy, known ratings only", "by_numpy:numpy, all of P·Q"), repeat=3,
        ),
        Task(
            "shortest_paths", "shortest paths by min-plus squaring, eleven times, float64", {"n": 2000, "rounds": 11},
            roads, lambda s: 2 * s["n"] ** 3 * s["rounds"], "GFLOP/s",
            ("by_lacus:Lacus", "by_scipy:scipy floyd_warshall"), repeat=3,
        ),
        _network("network_speech", "few classes", {"d": 1600, "h": 10_000, "l": 10, "n": 10_000}),
        _network("network_labels", "many features and classes", {"d": 60_000, "h": 1000, "l": 1500, "n": 1000}),
        Task(
            "overhead", "ten thousand tasks of one element, one after the other", {"rounds": 10_000}, one, lambda s: 0, "",
            ("by_lacus:Lacus", "by_dask:Dask", "by_ray:Ray"), kept=(),
        ),
        Task(
            "diagonal", "diag(X + Y) of stored matrices, float64", {"n": 16_000, "k": 16_000, "m": 16_000}, product,
            lambda s: 0, "", ("by_lacus:Lacus, from storage", "by_dask:Dask, from files"), stored=("A", "B"),
        ),
    )
}
