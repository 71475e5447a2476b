"""numpy, with the threads of OpenBLAS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compute.case import Case, Way

DISTRIBUTION = "numpy"


def ways(case: Case) -> dict[str, Callable[[], Way]]:
    x = case.inputs
    if case.task.key == "factorisation":
        note = "every element, then those that are known: a hundred times the work"
        return {"numpy, all of P·Q": lambda: Way(lambda: factorisation(case), note=note, same_work=False)}
    if case.task.key == "chain_vector":
        return {"numpy, from the right": lambda: Way(lambda: {"x": x["A"] @ (x["B"] @ x["v"])}, note="A·(B·v) by hand")}
    found: dict[str, Callable[[], dict[str, Any]]] = {
        "chain_power": lambda: power(case),
        "fused": lambda: {"c": 2 * x["a"] + 3 * x["b"] - x["a"] * x["b"]},
        "regression": lambda: regression(case),
        "nearest_large": lambda: nearest(case),
        "nearest_wide": lambda: nearest(case),
        "network_speech": lambda: network(case),
        "network_labels": lambda: network(case),
    }
    return {"numpy": lambda: Way(found.get(case.task.key, lambda: {"C": x["A"] @ x["B"]}))}


def power(case: Case) -> dict[str, Any]:
    a = case.inputs["A"]
    for _ in range(case.rounds):
        a = a @ case.inputs["B"]
    return {"C": a}


def nearest(case: Case) -> dict[str, Any]:
    d = case.inputs["X"] - case.inputs["q"]
    squares = np.einsum("nk,nk->n", d @ case.inputs["M"], d)
    return {"nearest": squares.argmin(), "square": squares.min()}


def regression(case: Case) -> dict[str, Any]:
    x, y, w = case.inputs["X"], case.inputs["y"], case.inputs["w"]
    for _ in range(case.rounds):
        w = w - 0.1 / len(x) * (x.T @ (x @ w - y))
    return {"w": w}


def factorisation(case: Case) -> dict[str, Any]:
    p, q = case.inputs["P"], case.inputs["Q"]
    ratings = case.inputs["R"].scipy().toarray()
    known = ratings != 0
    for _ in range(case.rounds):
        e = (ratings - p @ q) * known
        p, q = p + 0.001 * (e @ q.T - 0.02 * p), q + 0.001 * (p.T @ e - 0.02 * q)
    return {"P": p, "Q": q}


def network(case: Case) -> dict[str, Any]:
    x, labels = case.inputs["X"], case.inputs["labels"]
    w1, b1, w2, b2 = (case.inputs[name] for name in ("W1", "b1", "W2", "b2"))
    rate, rows, losses = np.float32(0.1), np.arange(len(x)), []
    for _ in range(case.rounds):
        hidden = np.maximum(x @ w1 + b1, 0)
        score = hidden @ w2 + b2
        score -= score.max(1, keepdims=True)
        p = np.exp(score)
        norm = p.sum(1)
        losses.append((np.log(norm) - score[rows, labels]).mean(dtype=np.float64))
        p /= norm[:, None]
        p[rows, labels] -= 1
        p /= np.float32(len(x))
        d1 = (p @ w2.T) * (hidden > 0)
        w1, b1, w2, b2 = w1 - rate * (x.T @ d1), b1 - rate * d1.sum(0), w2 - rate * (hidden.T @ p), b2 - rate * p.sum(0)
    return {"losses": np.array(losses), "W1": w1, "W2": w2}
