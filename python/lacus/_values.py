"""Whatever a caller puts, as what the native module takes: an array of bits, or a sparse tensor."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._arrays import NDArray, bits
from ._native import Sparse
from .errors import InvalidError
from .sparse import SparseTensor


def native(value: Any, what: str) -> tuple[NDArray | Sparse, str]:
    """The native form of `value` and the stored name of its dtype; `what` names it in errors."""
    sparse = as_sparse(value, what)
    return bits(value, what) if sparse is None else (sparse._native, sparse._native.dtype)


def by_name(values: Any) -> Mapping[str, Any]:
    """Samples by column, checked to be that."""
    if not isinstance(values, Mapping):
        raise InvalidError(f"samples are given by column, as in {{name: sample}}, not as a {type(values).__name__}")
    for name in values:
        if not isinstance(name, str):
            raise TypeError(f"columns are addressed by name, not by {type(name).__name__}")
    return values


def listed(values: Any) -> dict[str, Any]:
    """Several samples by column, each a sequence."""
    found = {}
    for name, samples in by_name(values).items():
        # A text is a sequence of letters, and a dict of its keys: nobody means that.
        if isinstance(samples, (str, bytes, bytearray, Mapping)) or not hasattr(samples, "__iter__"):
            raise InvalidError(f'column "{name}": expected a list of samples, found a {type(samples).__name__}')
        if getattr(samples, "ndim", 1) == 0:
            raise InvalidError(f'column "{name}": expected a list of samples, found an array without axes')
        found[name] = columnar(samples) if hasattr(samples, "__len__") else list(samples)
    return found


def columnar(samples: Any) -> Any:
    """A column of another library as numpy's array over the same memory where it has one, since that is written
    without an object per row; anything else as it is.

    A column with missing values stays a sequence in which they are None.
    """
    # Only a module that is loaded can have made the samples.
    torch, arrow = sys.modules.get("torch"), sys.modules.get("pyarrow")
    if isinstance(samples, np.memmap):
        return np.asarray(samples)
    if torch is not None and isinstance(samples, torch.Tensor):
        # numpy has no bfloat16: such tensors go row by row.
        is_plain = samples.layout == torch.strided and samples.dtype != torch.bfloat16
        return samples.detach().cpu().resolve_conj().resolve_neg().numpy() if is_plain else samples
    if arrow is not None and isinstance(samples, (arrow.Array, arrow.ChunkedArray)):
        is_number = arrow.types.is_primitive(samples.type) and not arrow.types.is_temporal(samples.type)
        if is_number and samples.null_count == 0:
            return samples.to_numpy(**({} if isinstance(samples, arrow.ChunkedArray) else {"zero_copy_only": False}))
        return samples.to_pylist()
    if isinstance(samples, np.ndarray) or not hasattr(samples, "to_numpy"):
        return samples
    # pandas' and polars' series. Those of polars have nulls apart from their values.
    if hasattr(samples, "null_count") and samples.null_count() > 0:
        return samples
    array = samples.to_numpy()
    return array if isinstance(array, np.ndarray) and array.dtype.kind in "biufcmM" else samples


def as_sparse(value: Any, what: str) -> SparseTensor | None:
    """The sparse tensor that `value` is, or None when it is dense."""
    if isinstance(value, SparseTensor):
        return value
    # A stored tensor: one that is sparse is copied as such.
    if hasattr(value, "_sparse_value"):
        stored: SparseTensor | None = value._sparse_value()
        return stored
    # Only a module that is loaded can have made the value.
    scipy_sparse = sys.modules.get("scipy.sparse")
    if scipy_sparse is not None and scipy_sparse.issparse(value):
        return _from_scipy(value, what)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.layout != torch.strided:
        return _from_torch(torch, value, what)
    return None


# Coordinates that appear more than once mean their sum, to scipy and to torch.


def _from_scipy(value: Any, what: str) -> SparseTensor:
    coo = value.tocoo()
    # Arrays of one axis or many have `coords`; matrices, and older versions, only these two.
    axes = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    return SparseTensor._from_coords(np.stack(axes), coo.data, coo.shape, True, what)


def _from_torch(torch: Any, value: Any, what: str) -> SparseTensor:
    tensor = value.detach()
    if tensor.layout != torch.sparse_coo:
        try:
            tensor = tensor.to_sparse()
        except (RuntimeError, NotImplementedError) as error:
            raise InvalidError(f"{what}: cannot take a torch tensor of layout {value.layout}: {error}") from error
    if tensor.dense_dim() > 0:
        raise InvalidError(
            f"{what}: cannot take a hybrid torch tensor, with {tensor.sparse_dim()} sparse and "
            f"{tensor.dense_dim()} dense axes; make all of it sparse, or dense"
        )
    coords = tensor._indices().cpu().numpy()
    return SparseTensor._from_coords(coords, tensor._values(), tuple(tensor.shape), True, what)
