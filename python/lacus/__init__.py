"""Lacus: tensors in open Delta tables, on disk or in an object store.

>>> import lacus, numpy as np
>>> ds = lacus.create("weights")
>>> ds["layer/0"] = np.ones((1024, 1024), np.float32)
>>> ds["layer/0"][:2, ::512]
array([[1., 1.],
       [1., 1.]], dtype=float32)
"""

from .dataset import CompactReport, Dataset, HistoryEntry, create, delete, exists, open
from .errors import (
    ConflictError,
    CorruptError,
    InternalError,
    InvalidError,
    LacusError,
    NotFoundError,
    OutOfBoundsError,
    UnavailableError,
)
from .sparse import SparseTensor
from .tensor import Tensor

__all__ = [
    "CompactReport",
    "ConflictError",
    "CorruptError",
    "Dataset",
    "HistoryEntry",
    "InternalError",
    "InvalidError",
    "LacusError",
    "NotFoundError",
    "OutOfBoundsError",
    "SparseTensor",
    "Tensor",
    "UnavailableError",
    "create",
    "delete",
    "exists",
    "open",
]
