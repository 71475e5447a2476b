"""Sparse tensors in memory: coordinates and values of the stored elements."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _dtypes
from ._arrays import NDArray, bits, sizes
from ._native import Sparse
from .errors import InvalidError

__all__ = ["SparseTensor"]


class SparseTensor:
    """A sparse tensor: one row of `indices` and one element of `values` per nonzero.

    Coordinates are sorted and unique; explicit zeros are kept. A sparse tensor does not change, so its arrays are
    read-only: ``.copy()`` them to write.

    Args:
        indices: integers of shape (nnz, ndim).
        values: the elements at these coordinates, of shape (nnz,).
        shape: the tensor's shape.
        sum_duplicates: adds up the values of duplicate coordinates; otherwise duplicates are an error.

    Raises:
        InvalidError: a coordinate is negative, too large, not an integer or duplicate, or shapes do not match.

    >>> s = SparseTensor([[0, 1], [2, 0]], [5.0, 7.0], (3, 4))
    >>> s.todense()[2, 0]
    np.float64(7.0)
    """

    __slots__ = ("_native", "__weakref__")
    _native: Sparse

    def __init__(self, indices: Any, values: Any, shape: Sequence[int], *, sum_duplicates: bool = False) -> None:
        found = np.asarray(indices)
        dims = sizes(shape, "shape")
        if found.size == 0 and found.ndim < 2:
            found = np.zeros((0, len(dims)), np.int64)
        if found.ndim != 2 or found.shape[1] != len(dims):
            raise InvalidError(
                f"indices: expected shape (nnz, {len(dims)}) for a tensor of shape {dims}, found {found.shape}"
            )
        self._native = self._from_coords(found.T, values, dims, sum_duplicates, "values")._native

    @classmethod
    def _of(cls, native: Sparse) -> SparseTensor:
        made = cls.__new__(cls)
        made._native = native
        return made

    @classmethod
    def _from_coords(cls, coords: Any, values: Any, shape: Any, sum_duplicates: bool, what: str) -> SparseTensor:
        """From coordinates of shape (ndim, nnz)."""
        dims = sizes(shape, "shape")
        found, name = bits(values, what)
        coords = _coordinates(np.asarray(coords))
        if found.shape != (coords.shape[1],):
            raise InvalidError(
                f"{what}: expected shape ({coords.shape[1]},), one per row of indices, found {found.shape}"
            )
        return cls._of(Sparse.from_parts(coords, found, name, dims, sum_duplicates))

    @property
    def indices(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The coordinates, of shape (nnz, ndim), sorted. In memory they are stored axis by axis."""
        return self._native.coords().T

    @property
    def values(self) -> NDArray:
        """The stored elements, of shape (nnz,)."""
        return _dtypes.dressed(self._native.values(), self._native.dtype, "the tensor")

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self._native.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return _dtypes.numpy_dtype(self._native.dtype, "the tensor")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nnz(self) -> int:
        """How many elements are stored, explicit zeros included."""
        return self._native.nnz

    @property
    def nbytes(self) -> int:
        """Bytes that coordinates and values take in memory."""
        return self._native.coords().nbytes + self._native.values().nbytes

    def todense(self) -> NDArray:
        """All elements as a numpy array."""
        return _dtypes.dressed(self._native.to_dense(), self._native.dtype, "the tensor")

    def to_scipy(self, format: str = "coo") -> Any:
        """A ``scipy.sparse`` array of a tensor with two axes: ``"coo"``, ``"csr"``, ``"csc"``, …"""
        sparse = importlib.import_module("scipy.sparse")
        if self.ndim != 2:
            raise InvalidError(f"to_scipy: scipy takes tensors of 2 axes, this one has {self.ndim}: {self.shape}")
        rows, columns = self._native.coords()
        try:
            array = sparse.coo_array((self.values.copy(), (rows.copy(), columns.copy())), shape=self.shape)
            # Sorted and unique already, so nobody has to look.
            array.has_canonical_format = True
            return array if format == "coo" else array.asformat(format)
        except ValueError as error:
            raise InvalidError(f"to_scipy: {error}") from error

    def to_torch(self) -> Any:
        """A coalesced ``torch.sparse_coo_tensor``."""
        torch = importlib.import_module("torch")
        values = self._native.values().copy()
        if self._native.dtype == "bfloat16":
            elements = torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
        else:
            elements = torch.from_numpy(values)
        indices = torch.from_numpy(self._native.coords().copy())
        return torch.sparse_coo_tensor(indices, elements, self.shape, is_coalesced=True, check_invariants=False)

    def equals(self, other: SparseTensor) -> bool:
        """Whether dtype, shape, coordinates and values are the same, bit for bit."""
        return isinstance(other, SparseTensor) and self._native.equals(other._native)

    def __getitem__(self, selection: Any) -> Any:
        """The selected elements, by numpy's rules: a sparse tensor, or a single element."""
        return scalar_or(SparseTensor._of(self._native.select(selection)), selection)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        if copy is False:
            raise ValueError("a sparse tensor cannot become an array without a copy")
        dense = self.todense()
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<lacus.SparseTensor {self._native.dtype} {self.shape}, {self.nnz:,} nonzeros>"

    def __reduce__(self) -> tuple[Any, ...]:
        native = self._native
        return _unpickled, (np.array(native.coords()), np.array(native.values()), native.dtype, native.shape)


def scalar_or(found: Any, selection: Any) -> Any:
    """What brackets give for an array or sparse tensor that was selected: as with numpy, one without axes is
    a scalar unless an ellipsis asked for an array."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if found.ndim > 0 or any(item is ... for item in items):
        return found
    return (found.todense() if isinstance(found, SparseTensor) else found)[()]


def _unpickled(coords: Any, values: Any, dtype: str, shape: tuple[int, ...]) -> SparseTensor:
    return SparseTensor._of(Sparse.from_parts(coords, values, dtype, shape, False))


def _coordinates(coords: NDArray) -> NDArray:
    """Coordinates as int64, without changing what any of them means."""
    if coords.dtype.kind in "fc" and np.isnan(coords).any():
        axis, row = np.argwhere(np.isnan(coords))[0]
        raise InvalidError(f"indices: row {row} has NaN on axis {axis}")
    if coords.size > 0 and coords.dtype.kind not in "iu":
        raise InvalidError(f"indices: expected integers, found {coords.dtype}")
    if coords.dtype.kind == "u" and coords.size > 0 and int(coords.max()) > np.iinfo(np.int64).max:
        raise InvalidError(f"indices: coordinate {coords.max()} is larger than any axis")
    return coords.astype(np.int64, copy=False)
