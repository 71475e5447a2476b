"""``t[selection] = values`` does what numpy does, in one commit, and nothing when it cannot."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from same import assert_same
from test_selections_equal_numpy import random_key

import lacus


@pytest.mark.parametrize("seed", range(4))
def test_random_regions(ds: lacus.Dataset, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    for _ in range(3):
        shape = tuple(int(n) for n in rng.integers(1, 8, int(rng.integers(1, 5))))
        chunks = tuple(int(rng.integers(1, n + 1)) for n in shape)
        value = rng.integers(-1000, 1000, shape, dtype=np.int32)
        ds.put("x", value, layout="dense", chunk_shape=chunks)
        for _ in range(12):
            key = random_key(rng, shape)
            try:
                region = value[key]
            except IndexError:
                version = ds.version
                with pytest.raises(IndexError):
                    ds["x"][key] = 0
                assert ds.version == version
                continue
            new = rng.integers(0, 99, np.shape(region), dtype=np.int32)
            if rng.random() < 0.4:
                new = new[..., :1] if np.ndim(new) and np.shape(new)[-1] else np.int32(5)
            value[key] = new
            ds["x"][key] = new
            assert_same(ds["x"].read(), value, key)
        assert_same(lacus.open(ds.url)["x"].read(), value)


def test_broadcasting(ds: lacus.Dataset) -> None:
    value = np.zeros((4, 5, 6))
    ds.put("x", value, layout="dense", chunk_shape=(2, 2, 6))
    t = ds["x"]
    key: Any
    for key, new in (
        (0, 1.0),
        (slice(1, 3), np.arange(6.0)),
        ((slice(None), 2), np.arange(4.0)[:, None]),
        (..., np.ones((1, 1, 1, 5, 6))),
        ((1, 2), np.arange(6.0)[None]),
        ([0, 2], np.arange(30.0).reshape(5, 6)),
        (slice(2, 2), 9.0),
    ):
        value[key] = new
        t[key] = new
        assert_same(t[...], value, key)
    t[0] += 1
    value[0] += 1
    assert_same(t[...], value)
    version = ds.version
    for key, bad in ((0, np.zeros(7)), (0, np.zeros((2, 5, 6))), ((0, 0), np.zeros((2, 6))), (slice(2, 2), [1, 2])):
        with pytest.raises(lacus.InvalidError, match="could not broadcast input array from shape"):
            t[key] = bad
    assert ds.version == version


def test_casting_is_of_the_same_kind(ds: lacus.Dataset) -> None:
    def check(dtype: Any, new: Any, works: bool) -> None:
        expected = np.zeros(3, dtype)
        ds.put("x", expected, layout="dense")
        version = ds.version
        if works:
            ds["x"][0] = new
            with np.errstate(over="ignore"):
                expected[0] = new
            assert_same(ds["x"][...], expected, (dtype, new))
        else:
            with pytest.raises(lacus.InvalidError, match="cannot cast|cannot be stored"):
                ds["x"][0] = new
            assert ds.version == version

    check("float32", 1.5, True)
    check("float32", np.float64(1e300), True)
    check("float32", 3, True)
    check("float32", 1j, False)
    check("int8", np.int64(5), True)
    check("int8", 127, True)
    check("int8", 128, False)
    check("uint8", 255, True)
    check("uint8", -1, False)
    check("uint8", np.int64(1), False)
    check("uint8", np.uint64(1), True)
    check("int32", 1.0, False)
    check("int32", np.float32(1), False)
    check("int32", True, True)
    check("bool", 1, True)
    check("bool", 2, False)
    check("bool", 0.5, False)
    check("complex64", 1.5, True)
    check("complex64", 1 + 2j, True)
    check("float16", 70000, True)
    check("int64", "5", False)
    check("int64", None, False)
    check(ml_dtypes.bfloat16, 1.25, True)
    check(ml_dtypes.bfloat16, np.float32(3), True)
    check(ml_dtypes.bfloat16, 7, True)
    check(ml_dtypes.bfloat16, 1j, False)
    check("float32", ml_dtypes.bfloat16(2), True)
    check("int32", ml_dtypes.bfloat16(2), False)
    check("float32", np.array(2, ">f8"), True)


def test_a_region_is_one_commit_of_the_touched_chunks(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    value = rng.integers(0, 256, (64, 1024, 16), dtype=np.uint8)
    ds.put("x", value, chunk_shape=(1, 1024, 16), compression=None)
    before = ds.version
    ds["x"][10:12] = 0
    value[10:12] = 0
    ds["x"][20, 5] = 1
    value[20, 5] = 1
    assert ds.version == before + 2
    assert_same(ds["x"][...], value)
    assert_same(lacus.open(ds.url, at=before)["x"][20, 5], lacus.open(ds.url, at=before + 1)["x"][20, 5])
    assert ds["x"].shape == value.shape and ds["x"].chunk_shape == (1, 1024, 16)


def test_sparse_tensors_refuse_regions(ds: lacus.Dataset) -> None:
    s = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    for layout in ("COO", "CSR", "CSC", "CSF", "BSGS"):
        ds.put("s", s, layout=layout)
        version = ds.version
        with pytest.raises(lacus.InvalidError, match=f'tensor "s" has the sparse layout {layout}'):
            ds["s"][0] = 1.0
        assert ds.version == version and ds["s"][...].equals(s)
