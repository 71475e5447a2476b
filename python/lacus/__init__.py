"""Lacus: tensors in open Delta tables, on disk or in an object store.

>>> import lacus, numpy as np
>>> ds = lacus.create("weights")
>>> ds["layer/0"] = np.ones((1024, 1024), np.float32)
>>> ds["layer/0"][:2, ::512]
array([[1., 1.],
       [1., 1.]], dtype=float32)
"""

from .array import LazyArray, array
from .branches import Branches, BranchInfo, Tags
from .column import Column
from .commit import Commit, LineageStep, Shown
from .compute import Progress, compute, run
from .conflict import Conflict
from .dataset import CompactReport, Dataset, ExtendReport, Summary, create, delete, exists, open
from .diff import Change, Diff, TensorDiff
from .errors import (
    ConflictError,
    CorruptError,
    InternalError,
    InvalidError,
    LacusError,
    MergeConflictError,
    NotFoundError,
    OutOfBoundsError,
    OutOfMemoryError,
    UnavailableError,
)
from .exchange import (
    ExchangeReport,
    from_coco,
    from_csv,
    from_folder,
    from_parquet,
    from_safetensors,
    from_table,
    from_webdataset,
)
from .functions import (
    abs,
    arange,
    ceil,
    clip,
    concatenate,
    cos,
    diag,
    einsum,
    exp,
    expm1,
    eye,
    floor,
    full,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    maximum,
    minimum,
    ones,
    pad,
    random,
    relu,
    round,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    stack,
    tanh,
    tril,
    triu,
    where,
    zeros,
)
from .group import Group
from .history import HistoryEntry, Merged, Status
from .query import sql
from .sample import Link, Sample, link, read
from .search import IndexInfo
from .settings import Settings, configure, settings
from .sparse import SparseTensor
from .table import Table
from .tensor import Array
from .transaction import Transaction
from .transform import MapReport
from .udf import Udf, udf
from .upkeep import CheckReport, ExpireReport, GcReport
from .view import SavedView, View, Views, ViewState
from .writer import Writer

#: The old names of :class:`View` and :class:`Array`.
Rows = View
Tensor = Array

__all__ = [
    "Array",
    "BranchInfo",
    "Branches",
    "Change",
    "CheckReport",
    "Column",
    "Commit",
    "CompactReport",
    "Conflict",
    "ConflictError",
    "CorruptError",
    "Dataset",
    "Diff",
    "ExchangeReport",
    "ExpireReport",
    "ExtendReport",
    "GcReport",
    "Group",
    "HistoryEntry",
    "IndexInfo",
    "InternalError",
    "InvalidError",
    "LacusError",
    "LazyArray",
    "LineageStep",
    "Link",
    "MapReport",
    "MergeConflictError",
    "Merged",
    "NotFoundError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "Progress",
    "Rows",
    "Sample",
    "SavedView",
    "Settings",
    "Shown",
    "SparseTensor",
    "Status",
    "Summary",
    "Table",
    "Tags",
    "Tensor",
    "TensorDiff",
    "Transaction",
    "Udf",
    "UnavailableError",
    "View",
    "ViewState",
    "Views",
    "Writer",
    "abs",
    "arange",
    "array",
    "ceil",
    "clip",
    "compute",
    "concatenate",
    "configure",
    "cos",
    "create",
    "delete",
    "diag",
    "einsum",
    "exists",
    "exp",
    "expm1",
    "eye",
    "floor",
    "from_coco",
    "from_csv",
    "from_folder",
    "from_parquet",
    "from_safetensors",
    "from_table",
    "from_webdataset",
    "full",
    "isfinite",
    "isinf",
    "isnan",
    "link",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "ones",
    "open",
    "pad",
    "random",
    "read",
    "relu",
    "round",
    "run",
    "settings",
    "sigmoid",
    "sign",
    "sin",
    "sql",
    "sqrt",
    "square",
    "stack",
    "tanh",
    "tril",
    "triu",
    "udf",
    "where",
    "zeros",
]
