"""Handles pickle as where they look; sparse tensors pickle whole."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import ml_dtypes
import numpy as np
import pytest
from same import assert_same

import lacus


def _sum(handle: lacus.Dataset, name: str) -> float:
    return float(np.asarray(handle[name]).sum())


def test_an_unpickled_handle_is_pinned(ds: lacus.Dataset) -> None:
    ds["x"] = np.arange(5)
    bytes_ = pickle.dumps(ds)
    assert len(bytes_) < 1000
    ds["x"] = np.arange(6)
    again = pickle.loads(bytes_)
    assert (again.url, again.version, again.read_only) == (ds.url, 1, True)
    assert_same(again["x"][...], np.arange(5))
    assert again.refresh() == 1
    with pytest.raises(lacus.InvalidError, match="read-only"):
        again["y"] = 1
    assert pickle.loads(pickle.dumps(again)).version == 1
    assert copy.deepcopy(ds).version == 2


def test_tensors_pickle_with_their_dataset(ds: lacus.Dataset) -> None:
    ds["x"] = np.arange(5)
    t = pickle.loads(pickle.dumps(ds["x"]))
    assert t.name == "x" and t[3] == 3


def test_a_gone_dataset_is_an_error_when_unpickled(ds: lacus.Dataset) -> None:
    ds["x"] = 1
    bytes_ = pickle.dumps(ds)
    lacus.delete(ds.url)
    with pytest.raises(lacus.NotFoundError):
        pickle.loads(bytes_)


def test_sparse_tensors_pickle(ds: lacus.Dataset) -> None:
    for dtype in (np.float32, np.uint8, ml_dtypes.bfloat16):
        s = lacus.SparseTensor([[1, 2], [0, 3]], np.array([5, 6]).astype(dtype), (4, 5))
        assert pickle.loads(pickle.dumps(s)).equals(s)
        assert copy.deepcopy(s).equals(s)


def test_errors_pickle() -> None:
    for kind in (lacus.NotFoundError, lacus.InvalidError, lacus.UnavailableError, lacus.OutOfBoundsError):
        error = pickle.loads(pickle.dumps(kind("what happened")))
        assert type(error) is kind and str(error) == "what happened"


def test_handles_go_to_other_processes(ds: lacus.Dataset) -> None:
    ds["x"] = np.arange(1000)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(_sum, (ds, "x")).get(60) == 499500
