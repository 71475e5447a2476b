"""torch on the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from compute.case import Case, Way
from compute.tasks import THREADS

DISTRIBUTION = "torch"


def ways(case: Case) -> dict[str, Callable[[], Way]]:
    torch.set_num_threads(THREADS)
    x = {name: torch.from_numpy(value) for name, value in case.inputs.items()}
    found: dict[str, Callable[[], dict[str, torch.Tensor]]] = {
        "fused": lambda: {"c": 2 * x["a"] + 3 * x["b"] - x["a"] * x["b"]},
        "regression": lambda: regression(case, x),
        "nearest_large": lambda: nearest(x),
        "nearest_wide": lambda: nearest(x),
        "network_speech": lambda: network(case, x),
        "network_labels": lambda: network(case, x),
    }
    run = found[case.task.key]
    return {"torch": lambda: Way(run, lambda made: {name: value.numpy() for name, value in made.items()})}


def nearest(x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    d = x["X"] - x["q"]
    least = torch.min(torch.einsum("nk,nk->n", d @ x["M"], d), 0)
    return {"nearest": least.indices, "square": least.values}


def regression(case: Case, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    x, y, w = given["X"], given["y"], given["w"]
    for _ in range(case.rounds):
        w = w - 0.1 / len(x) * (x.T @ (x @ w - y))
    return {"w": w}


def network(case: Case, given: dict[str, torch.Tensor]) -> dict[str, Any]:
    weights = [given[name].clone().requires_grad_() for name in ("W1", "b1", "W2", "b2")]
    losses = []
    for _ in range(case.rounds):
        w1, b1, w2, b2 = weights
        score = torch.addmm(b2, torch.relu(torch.addmm(b1, given["X"], w1)), w2)
        loss = torch.nn.functional.cross_entropy(score, given["labels"])
        slopes = torch.autograd.grad(loss, weights)
        # What torch.optim.SGD does, without what it takes to make one.
        with torch.no_grad():
            for weight, slope in zip(weights, slopes):
                weight.sub_(slope, alpha=0.1)
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), "W1": weights[0].detach(), "W2": weights[2].detach()}
