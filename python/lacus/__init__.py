"""Lacus: tensors in open Delta tables, on disk or in an object store.

>>> import lacus, numpy as np
>>> ds = lacus.create("weights")
>>> ds["layer/0"] = np.ones((1024, 1024), np.float32)
>>> ds["layer/0"][:2, ::512]
array([[1., 1.],
       [1., 1.]], dtype=float32)
"""

from typing import Any

from . import transforms
from .array import LazyArray, array
from .branches import Branches, BranchInfo, Tags
from .checkpoint import Checkpoint, Incompatible, Saving, checkpoints, load, save
from .column import Column
from .commit import Commit, LineageStep, Shown
from .compare import Comparison, TensorChange, compare_checkpoints
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
from .loader import Batch, Loader, LoaderStats, Mix, Nested, mix
from .query import sql
from .safetensors import export_safetensors, import_checkpoint
from .sample import Link, Sample, link, read
from .settings import Settings, configure, settings
from .sparse import SparseTensor
from .table import Table
from .tensor import Array
from .text_search import TextIndex
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
    "Batch",
    "BranchInfo",
    "Branches",
    "Change",
    "CheckReport",
    "Checkpoint",
    "Column",
    "Commit",
    "CompactReport",
    "Comparison",
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
    "Incompatible",
    "InternalError",
    "InvalidError",
    "LacusError",
    "LazyArray",
    "LineageStep",
    "Link",
    "Loader",
    "LoaderStats",
    "MapReport",
    "MergeConflictError",
    "Merged",
    "Mix",
    "Nested",
    "NotFoundError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "Progress",
    "Rows",
    "Sample",
    "SavedView",
    "Saving",
    "Settings",
    "Shown",
    "SparseTensor",
    "Status",
    "Summary",
    "Table",
    "Tags",
    "Tensor",
    "TensorChange",
    "TensorDiff",
    "TextIndex",
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
    "checkpoints",
    "clip",
    "compare_checkpoints",
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
    "export_safetensors",
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
    "import_checkpoint",
    "isfinite",
    "isinf",
    "isnan",
    "link",
    "load",
    "log",
    "log1p",
    "maximum",
    "minimum",
    "mix",
    "ones",
    "open",
    "pad",
    "random",
    "read",
    "relu",
    "round",
    "run",
    "save",
    "settings",
    "sigmoid",
    "sign",
    "sin",
    "sql",
    "sqrt",
    "square",
    "stack",
    "tanh",
    "transforms",
    "tril",
    "triu",
    "udf",
    "where",
    "zeros",
]

#: Modules that need other packages, imported when you use them.
_LATER = ("dcp", "lightning", "torch")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
