"""Lacus: tensors in open Delta tables, on disk or in an object store.

>>> import lacus, numpy as np
>>> ds = lacus.create("weights")
>>> ds["layer/0"] = np.ones((1024, 1024), np.float32)
>>> ds["layer/0"][:2, ::512]
array([[1., 1.],
       [1., 1.]], dtype=float32)
"""

from .column import Column
from .dataset import CompactReport, Dataset, ExtendReport, HistoryEntry, Summary, create, delete, exists, open
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
from .group import Group
from .rows import Rows
from .sample import Link, Sample, link, read
from .sparse import SparseTensor
from .tensor import Tensor
from .transform import MapReport
from .writer import Writer

__all__ = [
    "Column",
    "CompactReport",
    "ConflictError",
    "CorruptError",
    "Dataset",
    "ExchangeReport",
    "ExtendReport",
    "Group",
    "HistoryEntry",
    "InternalError",
    "InvalidError",
    "LacusError",
    "Link",
    "MapReport",
    "NotFoundError",
    "OutOfBoundsError",
    "Rows",
    "Sample",
    "SparseTensor",
    "Summary",
    "Tensor",
    "UnavailableError",
    "Writer",
    "create",
    "delete",
    "exists",
    "from_coco",
    "from_csv",
    "from_folder",
    "from_parquet",
    "from_safetensors",
    "from_table",
    "from_webdataset",
    "link",
    "open",
    "read",
]
