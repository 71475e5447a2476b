"""Lacus, by programs on arrays in memory or on a dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lacus
import numpy as np

from compute.case import Case, Csr, Way
from compute.tasks import THREADS

DISTRIBUTION = "lacus"

PROGRAMS = {
    "product": 'save(load("A") @ load("B"), "C")',
    "chain_power": 'A = load("A"); B = load("B")\nfor step in 0..ROUNDS { A = A @ B }\nsave(A, "C")',
    "chain_vector": 'A = load("A"); B = load("B"); v = load("v")\nx[i] = A[i,j] * B[j,k] * v[k]\nsave(x, "x")',
    "fused": 'a = load("a"); b = load("b")\nsave(2*a + 3*b - a*b, "c")',
    "nearest": """
        X = load("X"); q = load("q"); M = load("M")
        d[i,k] = X[i,k] - q[k]
        square[i] = d[i,k] * M[k,l] * d[i,l]
        least = min(square)
        nearest[] min= where(square[i] == least, i, dim(X, 0))
        save(nearest, "nearest"); save(least, "square")
    """,
    "regression": """
        X = load("X"); y = load("y"); w = load("w")
        n = dim(X, 0)
        for round in 0..ROUNDS {
            left[i] = X[i,k] * w[k] - y[i]
            slope[k] = X[i,k] * left[i]
            w = w - 0.1/n * slope
        }
        save(w, "w")
    """,
    "sparse_product": 'A = load("A"); B = load("B")\nC[i,j] = A[i,k] * B[k,j]\nsave(C, "C")',
    "pagerank": """
        G = load("G")
        n = dim(G, 0)
        r = full([n], 1/n)
        rounds = 0
        repeat {
            follow[i] = G[i,j] * r[j]
            s = 0.85 * follow + (1 - 0.85 * sum(follow)) / n
            change = sum(abs(s - r))
            r = s
            rounds = rounds + 1
        } until change < 1e-8
        save(r, "rank"); save(rounds, "rounds")
    """,
    "factorisation": """
        R = load("R"); P = load("P"); Q = load("Q")
        for round in 0..ROUNDS {
            guess[i,j] = P[i,k] * Q[k,j] if R[i,j] != 0
            E[i,j] = R[i,j] - guess[i,j]
            dP[i,k] = E[i,j] * Q[k,j]
            dQ[k,j] = P[i,k] * E[i,j]
            P = P + 0.001 * (dP - 0.02 * P)
            Q = Q + 0.001 * (dQ - 0.02 * Q)
        }
        save(P, "P"); save(Q, "Q")
    """,
    "shortest_paths": 'D = load("D")\nfor step in 0..ROUNDS { S[i,j] min= D[i,k] + D[k,j]; D = S }\nsave(D, "D")',
    "network": """
        X = load("X"); labels = load("labels")
        W1 = load("W1"); b1 = load("b1"); W2 = load("W2"); b2 = load("b2")
        size = dim(X, 0)
        losses = float32(zeros([ROUNDS]))
        for step in 0..ROUNDS {
            hidden = relu(X @ W1 + b1)
            score = hidden @ W2 + b2
            largest[n] max= score[n,c]
            e[n,c] = exp(score[n,c] - largest[n])
            norm[n] = e[n,c]
            chosen[n] = score[n,c] if c == labels[n]
            loss = sum(log(norm) + largest - chosen) / size
            losses[t] = where(t == step, loss, losses[t])
            dscore[n,c] = (e[n,c] / norm[n] - where(c == labels[n], 1, 0)) / size
            dhidden[n,h] = dscore[n,c] * W2[h,c] if hidden[n,h] > 0
            W2 = W2 - 0.1 * transpose(hidden) @ dscore
            b2 = b2 - 0.1 * sum(dscore, 0)
            W1 = W1 - 0.1 * transpose(X) @ dhidden
            b1 = b1 - 0.1 * sum(dhidden, 0)
        }
        save(losses, "losses"); save(W1, "W1"); save(W2, "W2")
    """,
    "overhead": 'x = load("x")\nfor round in 0..ROUNDS { x = x * 0.5 + 1 }\nsave(x, "x")',
    "diagonal": 'S = load("A") + load("B")\nd[i] = S[i,i]\nsave(d, "d")',
}


def ways(case: Case) -> dict[str, Callable[[], Way]]:
    key = case.task.key
    name = key if key in PROGRAMS else key.partition("_")[0]
    text = PROGRAMS[name].replace("ROUNDS", str(case.sizes.get("rounds", 1)))
    # As much as of the sizes is left, but not nothing.
    budget = max(2**25, 2**31 // case.divide**2)
    return {
        "Lacus": lambda: in_memory(case, text),
        "Lacus, in memory": lambda: in_memory(case, text),
        "Lacus, from storage": lambda: from_storage(case, text, None),
        "Lacus, from storage in 2 GiB": lambda: from_storage(case, text, budget),
    }


def in_memory(case: Case, text: str) -> Way:
    loaded = {name: value for name, value in case.inputs.items() if f'load("{name}")' in text}
    inputs = {name: lacus.array(value.scipy() if isinstance(value, Csr) else value) for name, value in loaded.items()}
    seen = _Seen()
    note = "rounds of a loop; planning is in it" if case.task.key == "overhead" else ""
    return Way(lambda: lacus.run(text, inputs=inputs, workers=THREADS, progress=seen), note=note, facts=seen.facts)


def from_storage(case: Case, text: str, memory: int | None) -> Way:
    # The mapped files are for others; as long as they are not touched they take nothing.
    ds = lacus.open(case.directory / "stored")
    spill = case.directory / "spill"
    spill.mkdir(exist_ok=True)
    seen = _Seen()

    def run() -> dict[str, Any]:
        # Another contender may have written its result meanwhile.
        ds.refresh()
        return lacus.run(text, data=ds, memory=memory, workers=THREADS, spill=spill, progress=seen)

    def gather(found: dict[str, Any]) -> dict[str, Any]:
        return {name: np.asarray(tensor[...]) for name, tensor in found.items()}

    chunks = ds["A"].chunk_shape
    limit = "" if memory is None else f", memory {memory / 2**20:.0f} MiB"
    return Way(run, gather, f"from a dataset with chunks {chunks} into it{limit}", facts=seen.facts)


class _Seen:
    """The last that was told of the progress."""

    def __init__(self) -> None:
        self._last: lacus.Progress | None = None

    def __call__(self, now: lacus.Progress) -> None:
        self._last = now

    def facts(self) -> dict[str, float]:
        if self._last is None:
            return {}
        return {
            "tasks": self._last.tasks_done,
            "operations": self._last.operations,
            "bytes_read": self._last.bytes_read,
            "spilled_bytes": self._last.spilled_bytes,
        }
