"""A stored tensor: its facts, its slices, and changes to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _dtypes
from ._arrays import NDArray, cast, sizes
from ._display import size_text
from ._guard import guard
from ._native import Sparse, TensorInfo
from ._native import Tensor as NativeTensor
from ._notebook import array_html, never_raises
from ._values import native
from .errors import InvalidError
from .sparse import SparseTensor, scalar_or

if TYPE_CHECKING:
    from .array import LazyArray
    from .dataset import Dataset

__all__ = ["Array"]


@guard
class Array:
    """A tensor of a dataset: ``ds[name]``. Nothing is read until you slice it.

    It follows the version of its dataset: after a write through the dataset, or a ``refresh``, the next slice reads the new
    version.

    >>> t = ds["photos"]
    >>> t[10:20, :, ::2]            # a numpy array, or a SparseTensor for a sparse tensor
    >>> t[0] = 255                  # rewrites only the chunks it touches, as one version
    """

    __slots__ = ("_dataset", "_name", "_native", "__weakref__")

    def __init__(self, dataset: Dataset, name: str) -> None:
        self._dataset = dataset
        self._name = name
        self._native: NativeTensor = dataset._native.tensor(name)

    # Facts.

    @property
    def _info(self) -> TensorInfo:
        return self._native.info()

    @property
    def _what(self) -> str:
        return f"tensor {quoted(self._name)}"

    @property
    def name(self) -> str:
        """Its name in the dataset."""
        return self._name

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self._info.shape

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of its elements, zeros included."""
        return _product(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        return _dtypes.numpy_dtype(self._info.dtype, self._what)

    @property
    def nbytes(self) -> int:
        """Bytes that all elements take in memory, zeros included."""
        info = self._info
        return _product(info.shape) * (2 if info.dtype == "bfloat16" else np.dtype(info.dtype).itemsize)

    @property
    def layout(self) -> str:
        """How it is stored: ``"FTSF"`` (dense chunks), ``"COO"``, ``"CSR"``, ``"CSC"``, ``"CSF"`` or ``"BSGS"``."""
        return self._info.layout

    @property
    def is_sparse(self) -> bool:
        """Whether its layout stores nonzeros only, so that slices are :class:`SparseTensor`."""
        return self._info.is_sparse

    @property
    def reasons(self) -> list[str]:
        """Why this layout was chosen."""
        return self._info.reasons

    @property
    def nnz(self) -> int | None:
        """The number of elements that a sparse tensor stores; None for a dense one."""
        return self._info.nnz

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        """The shape of its chunks or blocks; None for layouts that have none."""
        return self._info.chunk_shape

    @property
    def compression(self) -> str:
        """How its dense chunks are compressed: ``"none"`` or ``"zstd:<level>"``."""
        return self._info.compression

    @property
    def stored_bytes(self) -> int:
        """Bytes that its chunks or cells take in the files of this version."""
        return self._info.stored_bytes

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata."""
        found: dict[str, Any] = json.loads(self._info.metadata)
        return found

    def set_metadata(self, metadata: Mapping[str, Any], *, durable: bool = False) -> int:
        """Replaces its metadata. Returns the new version."""
        return self._native.set_metadata(metadata_text(metadata, self._what), durable)

    # Reading.

    def __getitem__(self, selection: Any) -> Any:
        """A slice, by numpy's rules: integers, slices of any step, ``...``, ``None``, lists, masks.

        Only the chunks that the selection touches are read.

        Raises:
            OutOfBoundsError: also an ``IndexError``; the selection does not fit the shape.
        """
        return scalar_or(self.read(selection), selection)

    def read(self, selection: Any = ..., *, raw: bool = False) -> Any:
        """The same as slicing, but always an array or :class:`SparseTensor`, never a scalar.

        Args:
            selection: what you would write between the brackets; by default everything.
            raw: returns bfloat16 as uint16 with the same bits, which does not need ``ml_dtypes``.
        """
        found = self._native.read(selection)
        if isinstance(found, Sparse):
            return SparseTensor._of(found)
        return found if raw else self._dressed(found)

    def _dressed(self, found: NDArray) -> NDArray:
        # Only uint16 can be bfloat16 in disguise.
        return _dtypes.dressed(found, self._info.dtype, self._what) if found.dtype == np.uint16 else found

    def read_into(self, out: NDArray, selection: Any = ...) -> None:
        """Reads a selection of a dense tensor into an array of exactly its shape and dtype, in C order.

        Reusing one array is much cheaper than allocating a new one each time.
        """
        if not isinstance(out, np.ndarray):
            raise InvalidError(f"{self._what}: read_into needs a numpy array, found {type(out).__name__}")
        dtype = self._info.dtype
        if _dtypes.name_of(out.dtype, "the array to read into") != dtype or not out.dtype.isnative:
            raise InvalidError(f"{self._what} is {dtype}, the array to read into is {out.dtype}")
        shape = self._native.selected_shape(selection)
        if out.shape != shape:
            raise InvalidError(f"{self._what}: the selection has shape {shape}, the array to read into {out.shape}")
        self._native.read_into(out, selection)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        if copy is False:
            raise ValueError("a stored tensor cannot become an array without a copy")
        found = self.read()
        dense: NDArray = found.todense() if isinstance(found, SparseTensor) else found
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def lazy(self) -> LazyArray:
        """A lazy array over the current version of the tensor: operators build a computation, and later writes do not change it.

        >>> (ds["A"].lazy() @ ds["B"].lazy()).store(ds, "C")
        """
        from .array import stored

        return stored(self)

    def _sparse_value(self) -> SparseTensor | None:
        return self.read() if self.is_sparse else None

    # Writing.

    def __setitem__(self, selection: Any, values: Any) -> None:
        """Writes a region of a dense tensor as one version; only the chunks it touches are rewritten.

        Values broadcast and are cast as in numpy, with ``same_kind``.
        """
        self.write(selection, values)

    def write(self, selection: Any, values: Any, *, durable: bool = False) -> int:
        """The same as ``t[selection] = values``. Returns the new version."""
        shape = self._native.selected_shape(selection)
        dtype = self._info.dtype
        return self._native.write(selection, cast(values, dtype, shape, self._what), dtype, durable)

    def append(self, values: Any, *, durable: bool = False) -> int:
        """Appends values along the first axis. Returns the new version."""
        found, dtype = native(values, self._what)
        info = self._info
        if dtype != info.dtype and not isinstance(found, Sparse):
            found, dtype = cast(values, info.dtype, found.shape, self._what), info.dtype
        return self._native.append(found, dtype, durable)

    def resize(self, shape: Any, *, durable: bool = False) -> int:
        """Makes the first axis longer, filled with zeros, or shorter. Returns the new version.

        Args:
            shape: the new shape, or the new size of the first axis.
        """
        old = self.shape
        new = sizes(shape, f"{self._what}: shape")
        if not hasattr(shape, "__iter__"):
            new += old[1:]
        if not old or len(new) != len(old) or new[1:] != old[1:]:
            raise InvalidError(f"{self._what}: only the first axis can change, so shape {old} cannot become {new}")
        return self._native.resize(new[0], durable)

    # The rest.

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __bool__(self) -> bool:
        """A tensor is always true, also without elements."""
        return True

    def __iter__(self) -> Iterator[Any]:
        """Slices along the first axis, one read each."""
        return (self[place] for place in range(len(self)))

    def _title(self) -> str:
        info = self._info
        return f"{quoted(self._name)} {info.dtype} {info.shape} {info.layout}"

    def __repr__(self) -> str:
        info = self._info
        return f"<lacus.Array {self._title()}, {size_text(info.stored_bytes)} stored>"

    @never_raises
    def _repr_html_(self) -> str:
        info = self._info
        facts = [("dataset", f"{self._dataset.url} at version {self._dataset.version}")]
        if info.nnz is not None:
            facts.append(("nonzeros", f"{info.nnz:,}"))
        if info.chunk_shape is not None:
            facts.append(("chunk shape", str(info.chunk_shape)))
        facts.append(("stored", f"{size_text(info.stored_bytes)} for {size_text(self.nbytes)}"))
        facts.extend(("chosen because", reason) for reason in info.reasons)
        return array_html(self, f"lacus.Array {self._title()}", facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return Array, (self._dataset, self._name)


def quoted(name: str) -> str:
    """A name as messages show it."""
    return json.dumps(name, ensure_ascii=False)


def metadata_text(metadata: Mapping[str, Any], what: str) -> str:
    """Metadata as JSON text."""
    if not isinstance(metadata, Mapping):
        raise InvalidError(f"{what}: metadata must be a dict, found {type(metadata).__name__}")
    try:
        return json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidError(f"{what}: metadata cannot be made JSON: {error}") from error


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


#: The old name, by which pickles know it.
Tensor = Array
