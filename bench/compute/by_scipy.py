"""scipy's sparse matrices and graphs; they use one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csgraph

from compute.case import Case, Way

DISTRIBUTION = "scipy"
#: Known ratings that are compared with P·Q at a time, so that what is gathered for them stays in cache.
GATHERED = 4096


def ways(case: Case) -> dict[str, Callable[[], Way]]:
    return {
        "scipy": lambda: product(case) if case.task.key == "sparse_product" else pagerank(case),
        "scipy, known ratings only": lambda: factorisation(case),
        "scipy floyd_warshall": lambda: Way(
            lambda: {"D": csgraph.floyd_warshall(case.inputs["D"])}, note="another algorithm: one pass of n³", same_work=False
        ),
    }


def product(case: Case) -> Way:
    a, b = case.inputs["A"].scipy(), case.inputs["B"].scipy()
    return Way(lambda: {"C": a @ b}, note="the result in compressed rows")


def pagerank(case: Case) -> Way:
    g = case.inputs["G"].scipy()
    n = g.shape[0]

    def run() -> dict[str, Any]:
        r, rounds = np.full(n, 1 / n), 0
        while True:
            s = 0.85 * (g @ r)
            s += (1 - s.sum()) / n
            rounds += 1
            if np.abs(s - r).sum() < 1e-8:
                return {"rank": s, "rounds": rounds}
            r = s

    return Way(run, note=f"{g.nnz:,} links")


def factorisation(case: Case) -> Way:
    ratings = case.inputs["R"].scipy()
    columns = ratings.indices
    rows = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))

    def run() -> dict[str, Any]:
        p, q = case.inputs["P"], np.ascontiguousarray(case.inputs["Q"].T)
        e = ratings.copy()
        for _ in range(case.rounds):
            for k in range(0, len(rows), GATHERED):
                part = slice(k, k + GATHERED)
                e.data[part] = ratings.data[part] - np.einsum("nk,nk->n", p[rows[part]], q[columns[part]])
            p, q = p + 0.001 * (e @ q - 0.02 * p), q + 0.001 * (e.T @ p - 0.02 * q)
        return {"P": p, "Q": q.T}

    return Way(run, note="P·Q gathered where ratings are")
