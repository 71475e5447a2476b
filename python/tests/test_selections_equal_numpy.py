"""Every selection gives what numpy gives, and fails where numpy fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from same import assert_same

import lacus

SPARSE_LAYOUTS = ["COO", "CSR", "CSC", "CSF", "BSGS"]


def random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Something to stand between brackets; now and then something that does not fit."""

    def one(size: int) -> Any:
        kind = rng.integers(0, 12)
        if kind < 2:
            return int(rng.integers(-size - 1, size + 1)) if rng.random() < 0.1 or size == 0 else int(
                rng.integers(-size, size)
            )
        if kind < 8:
            bound = lambda: None if rng.random() < 0.3 else int(rng.integers(-size - 3, size + 4))  # noqa: E731
            step = None if rng.random() < 0.4 else int(rng.choice([-5, -2, -1, 1, 2, 3, 7]))
            return slice(bound(), bound(), step)
        count = int(rng.integers(0, 5))
        if kind < 10 and size > 0:
            values = rng.integers(-size, size, count)
            return values.tolist() if rng.random() < 0.5 else values
        mask = rng.random(size) < 0.5
        return mask.tolist() if rng.random() < 0.3 and size else mask

    items: list[Any] = [one(size) for size in shape[: int(rng.integers(0, len(shape) + 1))]]
    if rng.random() < 0.3:
        cut = int(rng.integers(0, len(items) + 1))
        tail = min(len(items) - cut, len(shape))
        items = items[:cut] + [...] + [one(size) for size in shape[len(shape) - tail :]][: len(shape) - cut]
    if rng.random() < 0.15:
        items.insert(int(rng.integers(0, len(items) + 1)), None)
    if rng.random() < 0.05:
        items.append(0)
    return items[0] if len(items) == 1 and rng.random() < 0.5 else tuple(items)


def check(t: Any, value: np.ndarray, key: Any, error: type[Exception] = IndexError) -> None:
    """The same result as numpy, or an error where numpy has one."""
    try:
        expected = value[key]
    except IndexError:
        with pytest.raises(error):
            t[key]
        return
    found = t[key]
    assert_same(found, expected, key)


@pytest.mark.parametrize("seed", range(12))
def test_random_selections_of_dense_tensors(ds: lacus.Dataset, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(6):
        shape = tuple(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 8, int(rng.integers(0, 6))))
        chunks = tuple(int(rng.integers(1, max(2, n + 2))) for n in shape)
        value = rng.integers(-1000, 1000, shape, dtype=np.int32)
        ds.put("x", value, layout="dense", chunk_shape=chunks)
        for _ in range(60):
            check(ds["x"], value, random_key(rng, shape))


@pytest.mark.parametrize("layout", SPARSE_LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_random_selections_of_sparse_tensors(ds: lacus.Dataset, seed: int, layout: str) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(4):
        shape = tuple(int(n) for n in rng.integers(1, 9, int(rng.integers(1, 5))))
        value = np.where(rng.random(shape) < 0.2, rng.integers(1, 1000, shape), 0).astype(np.float32)
        ds.put("x", value, layout=layout)
        in_memory = ds["x"][...]
        for _ in range(40):
            key = random_key(rng, shape)
            check(ds["x"], value, key)
            check(in_memory, value, key)


def test_the_kinds_of_index(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    value = rng.integers(0, 100, (6, 7, 8))
    ds.put("x", value, chunk_shape=(2, 3, 5))
    t = ds["x"]
    mask2, mask3 = value[..., 0] > 50, value > 50
    for key in (
        (),
        ...,
        None,
        0,
        -1,
        np.int8(2),
        np.array(3),
        np.array([1, 5], np.uint64),
        np.array([], int),
        [],
        [[0, 1], [2, 3]],
        (slice(10**30), slice(None, None, -(10**30))),
        slice(-(10**30), None),
        True,
        False,
        np.True_,
        (True, 0),
        mask2,
        mask3,
        (slice(None), rng.random(7) < 0.5),
        (0, [1, 2], slice(None)),
        ([1, 2], slice(None), [3, 4]),
        ([1, 2], 0, [3, 4]),
        ([[1], [2]], [3, 4]),
        (..., None, [1, 1, 1]),
        (None, ..., 5, None),
        np.ix_([0, 2], [1, 3], [5]),
        (slice(None, None, -1),) * 3,
        (1, 2, 3),
        (..., 1, 2, 3),
        [True, False, True, False, True, False],
        (np.int64(1), np.arange(3)),
    ):
        check(t, value, key)


def test_what_numpy_refuses_is_refused(ds: lacus.Dataset) -> None:
    value = np.zeros((3, 4))
    ds["x"] = value
    t = ds["x"]
    for key in (
        3,
        -4,
        (0, 4),
        (0, 0, 0),
        (..., ...),
        [0, 3],
        [-4],
        np.array([0, 2**63], np.uint64),
        1.5,
        "x",
        [1.5],
        [0.0, 1.0],
        np.zeros((2, 4), bool),
        np.zeros(4, bool),
        ([0, 1], [0, 1, 2]),
        10**30,
        object(),
        slice("a"),
        {},
        [[0, 1], [2]],
    ):
        with pytest.raises((IndexError, TypeError, ValueError)):
            value[key]
        with pytest.raises(lacus.OutOfBoundsError) as caught:
            t[key]
        assert isinstance(caught.value, IndexError) and isinstance(caught.value, ValueError)
    with pytest.raises(lacus.OutOfBoundsError, match='tensor "x": index 3 is out of bounds for axis 0 with size 3'):
        t[3]
    with pytest.raises(ValueError, match="step cannot be zero"):
        t[::0]
    assert ds.version == 1


def test_huge_axes_are_sliced(ds: lacus.Dataset) -> None:
    far = 2**62
    s = lacus.SparseTensor([[5, far], [far, 7]], [1.0, 2.0], (2**62 + 1, 2**62 + 1))
    for layout in ("COO", "CSF"):
        ds.put("s", s, layout=layout)
        assert ds["s"][far, 7] == 2 and ds["s"][far, 8] == 0
        assert ds["s"][far:, :10].indices.tolist() == [[0, 7]]
        assert ds["s"][::-1][0, 7] == 2
        with pytest.raises(lacus.LacusError):
            np.asarray(ds["s"])
