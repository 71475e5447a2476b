"""SparseTensor itself, and sparse values of scipy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from same import assert_same

import lacus


def test_a_sparse_tensor_is_sorted_and_shows_itself() -> None:
    s = lacus.SparseTensor([[2, 0], [0, 1], [1, 3]], np.array([9, 7, 8], np.uint8), (3, 4))
    assert s.indices.tolist() == [[0, 1], [1, 3], [2, 0]] and s.indices.dtype == np.int64
    assert s.values.tolist() == [7, 8, 9]
    assert (s.shape, s.dtype, s.ndim, s.nnz, s.nbytes) == ((3, 4), np.uint8, 2, 3, 51)
    assert_same(s.todense(), np.array([[0, 7, 0, 0], [0, 0, 0, 8], [9, 0, 0, 0]], np.uint8))
    assert_same(np.asarray(s), s.todense())
    assert_same(np.asarray(s, np.float32), s.todense().astype(np.float32))
    assert repr(s) == "<lacus.SparseTensor uint8 (3, 4), 3 nonzeros>"
    # Coordinates lie axis by axis, and nobody can change them.
    assert s.indices.T.flags.c_contiguous and not s.indices.flags.writeable and not s.values.flags.writeable
    with pytest.raises(ValueError):
        s.values[0] = 1


def test_memory_of_a_sparse_tensor_outlives_it() -> None:
    indices = lacus.SparseTensor(np.arange(50_000)[:, None], np.ones(50_000), (50_000,)).indices
    [np.ones(50_000) for _ in range(20)]
    assert indices[:, 0].tolist() == list(range(50_000))


def test_equality_is_of_bits() -> None:
    one = lacus.SparseTensor([[0, 1]], [1.0], (2, 2))
    assert one.equals(lacus.SparseTensor(np.array([[0, 1]]), np.array([1.0]), [2, 2]))
    for other in (
        lacus.SparseTensor([[0, 1]], [2.0], (2, 2)),
        lacus.SparseTensor([[0, 0]], [1.0], (2, 2)),
        lacus.SparseTensor([[0, 1]], [1.0], (2, 3)),
        lacus.SparseTensor([[0, 1]], np.float32([1.0]), (2, 2)),
        lacus.SparseTensor([[0, 1], [1, 1]], [1.0, 0.0], (2, 2)),
        np.array([[0, 1], [0, 0]]),
    ):
        assert not one.equals(other)  # type: ignore[arg-type]
    nan = lacus.SparseTensor([[0]], [np.nan], (1,))
    assert nan.equals(lacus.SparseTensor([[0]], [np.nan], (1,)))
    assert not nan.equals(lacus.SparseTensor([[0]], [-np.nan], (1,)))


def test_empty_and_odd_shapes() -> None:
    for s in (
        lacus.SparseTensor([], [], (3, 4)),
        lacus.SparseTensor(np.zeros((0, 2)), np.zeros(0), (3, 4)),
        lacus.SparseTensor(np.zeros((0, 2), int), [], (0, 4)),
    ):
        assert s.nnz == 0 and s.indices.shape == (0, 2) and s.todense().sum() == 0
    assert lacus.SparseTensor(np.array([[3], [1]], np.uint16), [1, 2], 5).indices.tolist() == [[1], [3]]


def test_duplicates_are_summed_when_asked() -> None:
    indices, values = [[1, 1], [0, 0], [1, 1]], [5, 1, 7]
    with pytest.raises(lacus.InvalidError, match=r"coordinates \(1, 1\) appear more than once"):
        lacus.SparseTensor(indices, values, (2, 2))
    s = lacus.SparseTensor(indices, values, (2, 2), sum_duplicates=True)
    assert s.values.tolist() == [1, 12]


@pytest.mark.parametrize(
    ("indices", "values", "shape", "message"),
    [
        ([[0, -1]], [1.0], (2, 2), "coordinate -1 on axis 1"),
        ([[2, 0]], [1.0], (2, 2), "coordinate 2 on axis 0"),
        (np.array([[0, 2**63]], np.uint64), [1.0], (2, 2), "larger than any axis"),
        ([[0, np.nan]], [1.0], (2, 2), "row 0 has NaN on axis 1"),
        ([[0, 0.5]], [1.0], (2, 2), "expected integers, found float64"),
        ([[0.0, 1.0]], [1.0], (2, 2), "expected integers"),
        ([["a", "b"]], [1.0], (2, 2), "expected integers"),
        ([[0, 0]], [1.0, 2.0], (2, 2), r"expected shape \(1,\)"),
        ([[0, 0]], [[1.0]], (2, 2), r"expected shape \(1,\)"),
        ([0, 0], [1.0], (2, 2), r"expected shape \(nnz, 2\)"),
        ([[0, 0, 0]], [1.0], (2, 2), r"expected shape \(nnz, 2\)"),
        ([[0, 0]], [1.0], (-2, 2), "-2 is no size"),
        ([[0, 0]], [1.0], "ab", "shape: expected integers"),
        ([[0, 0]], [1.0], (2.5, 2), "shape: expected integers"),
        ([[0, 0]], [object()], (2, 2), "dtype object cannot be stored"),
        ([[0, 0]], ["x"], (2, 2), "cannot be stored"),
        ([[0]] * 3, [1.0] * 3, (2,), "3 nonzeros cannot be distinct in a tensor of 2 elements"),
        ([[0] * 17], [1.0], (1,) * 17, "dimensions must be within"),
    ],
)
def test_bad_parts_are_refused(indices: object, values: object, shape: object, message: str) -> None:
    with pytest.raises(lacus.InvalidError, match=message):
        lacus.SparseTensor(indices, values, shape)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["coo", "csr", "csc", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "bool", "complex128"])
def test_scipy(ds: lacus.Dataset, rng: np.random.Generator, format: str, dtype: str) -> None:
    dense = np.where(rng.random((20, 30)) < 0.1, rng.integers(1, 100, (20, 30)), 0).astype(dtype)
    for make in (scipy.sparse.csr_matrix, scipy.sparse.csr_array):
        ds["x"] = make(dense).asformat(format)
        assert ds["x"].is_sparse
        assert_same(np.asarray(ds["x"]), dense)
    for back in ("coo", "csr", "csc"):
        found = ds["x"][...].to_scipy(back)
        assert found.format == back
        assert_same(found.toarray(), dense)
    found = ds["x"][...].to_scipy()
    found.data[:] = 1


def test_scipy_duplicates_mean_their_sum(ds: lacus.Dataset) -> None:
    value = scipy.sparse.coo_matrix(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    ds["x"] = value
    assert_same(np.asarray(ds["x"]), np.array([[0, 3.0], [4, 0]]))
    assert value.nnz == 3


def test_scipy_takes_two_axes(ds: lacus.Dataset) -> None:
    s = lacus.SparseTensor([[0, 1, 2]], [1.0], (2, 2, 3))
    with pytest.raises(lacus.InvalidError, match=r"2 axes, this one has 3: \(2, 2, 3\)"):
        s.to_scipy()
    assert s[0].to_scipy().shape == (2, 3)
    with pytest.raises(lacus.InvalidError, match="scipy.sparse does not support dtype float16"):
        lacus.SparseTensor([[0, 1]], np.ones(1, np.float16), (2, 2)).to_scipy()
    with pytest.raises(lacus.InvalidError, match="to_scipy"):
        s[0].to_scipy("zarr")


def test_automatic_choice_of_dense_values(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    mostly_zero = np.where(rng.random((200, 300)) < 0.01, rng.random((200, 300)), 0)
    ds["sparse"] = mostly_zero
    ds["dense"] = rng.random((200, 300))
    assert ds["sparse"].is_sparse and not ds["dense"].is_sparse
    assert isinstance(ds["sparse"][3], lacus.SparseTensor)
    assert_same(np.asarray(ds["sparse"]), mostly_zero)
    ds.put("kept", mostly_zero, layout="dense")
    assert_same(ds["kept"][...], mostly_zero)
