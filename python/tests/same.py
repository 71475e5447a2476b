"""What it means that two values are the same: dtype, shape and every bit."""

from __future__ import annotations

from typing import Any

import numpy as np

import lacus


def assert_same(found: Any, expected: Any, hint: object = "") -> None:
    """Fails unless both have the same dtype, shape and bits. Sparse tensors are compared as dense."""
    if isinstance(found, lacus.SparseTensor):
        found = found.todense()
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype, hint
    assert found.shape == expected.shape, hint
    assert found.tobytes() == expected.tobytes(), hint
