"""A model's weights, about a hundred arrays by name: saved, loaded, loaded into the arrays of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import weights
from harness import Operation, Step, Workload

#: A matrix from the middle.
ONE = "layers.1.feed.wide.weight"


def workload(quick: bool) -> Workload:
    made = weights(width=64, layers=2, words=1000) if quick else weights()
    value: dict[str, np.ndarray] = made.value
    model = {name: np.zeros_like(array) for name, array in value.items()}

    def fill(contender: Any, path: Any) -> dict[str, np.ndarray]:
        contender.load_into(path, model)
        return model

    def is_filled(found: dict[str, np.ndarray]) -> bool:
        right = _same(found, value)
        for array in model.values():
            array.fill(0)
        return right

    return Workload(
        key="checkpoint",
        title=f"checkpoint of {len(value)} float32 arrays",
        facts=f"{made.source}, {sum(array.nbytes for array in value.values()):,} bytes",
        is_real=made.is_real,
        value=value,
        operations=[
            Operation("load", "load", [Step(lambda c, path: c.load(path), lambda found: _same(found, value))]),
            Operation("fill", "load into model", [Step(fill, is_filled)]),
            Operation(
                "one",
                "load one",
                [Step(lambda c, path: c.load_one(path, ONE), lambda found: np.array_equal(found, value[ONE]))],
            ),
        ],
    )


def _same(found: dict[str, Any], expected: dict[str, np.ndarray]) -> bool:
    return found.keys() == expected.keys() and all(
        np.array_equal(np.asarray(found[name]), array) for name, array in expected.items()
    )
