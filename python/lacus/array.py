"""Lazy arrays: numpy's operators on arrays of any size, computed on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _expression as ex
from . import _forms as forms
from ._arrays import NDArray
from ._expression import Node
from ._guard import guarded
from ._native import Sparse
from ._notebook import facts_html, never_raises
from ._numpy import call_function, call_ufunc, dot
from ._program import Given, Stored, ordered, shown, written
from ._values import native
from ._wish import wish
from .errors import InvalidError
from .sparse import SparseTensor
from .tensor import Array, metadata_text, quoted

if TYPE_CHECKING:
    from .compute import Progress
    from .dataset import Dataset

__all__ = ["LazyArray", "array"]

#: Lines of a program that a notebook shows.
_LINES = 20


def array(value: Any, *, what: str = "the value") -> LazyArray:
    """A lazy array over existing data: a numpy array, a ``scipy.sparse`` array, a :class:`SparseTensor`, a torch tensor, a
    number or nested lists of numbers, a stored :class:`Array`.

    Arrays are not copied: if you change one before computing, the result uses the new values.

    Raises:
        InvalidError: elements of this type are not supported.

    >>> (lacus.array(np.arange(3.0)) * 2).compute()
    array([0., 2., 4.])
    """
    if isinstance(value, LazyArray):
        return value
    if isinstance(value, Array):
        return value.lazy()
    found, dtype = native(value, what)
    shape = tuple(found.shape)
    kind = "sparse" if isinstance(found, Sparse) else "array"
    return LazyArray._of(ex.loaded(Given(found, dtype), f"{kind}{shape}", dtype, shape, what))


def stored(tensor: Array) -> LazyArray:
    """The current version of a stored tensor; later writes do not change it."""
    dataset = tensor._dataset._frozen()
    info = dataset._native.tensor(tensor._name).info()
    name = tensor._name if tensor._name.isidentifier() else quoted(tensor._name)
    what = f"tensor {quoted(tensor._name)}"
    return LazyArray._of(ex.loaded(Stored(dataset, tensor._name), name, info.dtype, info.shape, what))


class LazyArray:
    """An array that is not computed yet. ``ds[name].lazy()`` and :func:`lacus.array` create one, and operators combine them.

    Operators, slices, reductions and broadcasting work as in numpy; unsupported operations raise an error. Elements are bool,
    int64, float32 or float64; smaller integers become int64. Nothing is read or computed until :meth:`compute` or
    :meth:`store`.

    >>> a = ds["A"].lazy()
    >>> b = (a - a.mean(axis=0)) @ a.T
    >>> b.shape, b.dtype
    >>> b.compute(memory="1GiB")
    """

    __slots__ = ("_node", "__weakref__")
    _node: Node
    # Above numpy's, so that an array of it on the left asks us.
    __array_priority__ = 1000

    def __init__(self) -> None:
        raise TypeError("lazy arrays are made by lacus.array(value) and ds[name].lazy()")

    @classmethod
    def _of(cls, node: Node) -> LazyArray:
        made = cls.__new__(cls)
        made._node = node
        return made

    # Facts.

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self._node.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        return np.dtype(self._node.dtype)

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return self._node.ndim

    @property
    def size(self) -> int:
        """The number of its elements."""
        return self._node.size

    # Computing.

    def compute(
        self,
        *,
        memory: int | str | None = None,
        workers: int | None = None,
        spill: str | os.PathLike[str] | None = None,
        forbid_nan: bool = False,
        progress: Callable[[Progress], None] | bool | None = None,
    ) -> NDArray | SparseTensor:
        """Its elements, as a numpy array or a :class:`SparseTensor`. The options are those of :func:`lacus.run`."""
        from .compute import compute

        (found,) = compute(
            self, memory=memory, workers=workers, spill=spill, forbid_nan=forbid_nan, progress=progress
        )
        return found

    @guarded
    def store(
        self,
        dataset: Dataset,
        name: str,
        *,
        memory: int | str | None = None,
        workers: int | None = None,
        spill: str | os.PathLike[str] | None = None,
        forbid_nan: bool = False,
        progress: Callable[[Progress], None] | bool | None = None,
        layout: str = "auto",
        chunk_shape: Sequence[int] | None = None,
        compression: str | None = "auto",
        metadata: Mapping[str, Any] | None = None,
        durable: bool = False,
    ) -> Array:
        """Computes it and stores it in a dataset as one version. Returns the stored tensor.

        The first options are those of :func:`lacus.run`, the others those of :meth:`Dataset.put`.

        >>> (ds["A"].lazy() @ ds["B"].lazy()).store(ds, "C")
        """
        from .compute import execute, options
        from .dataset import Dataset

        if not isinstance(dataset, Dataset):
            raise InvalidError(f"store: expected a dataset, as lacus.open gives it, found a {type(dataset).__name__}")
        if not isinstance(name, str):
            raise TypeError(f"tensors are addressed by name, not by {type(name).__name__}")
        if dataset._rows.is_column(name):
            raise InvalidError(f"{quoted(name)} is a column: its samples are written row by row")
        wanted = wish(layout, chunk_shape, None, compression, "slices", None, None, None)
        text = None if metadata is None else metadata_text(metadata, f"tensor {quoted(name)}")
        program, sources = written({"result": self._node})
        chosen = options(memory, workers, spill, forbid_nan, None, durable, zero_by_zero=True)
        execute(program, sources, dataset, {"result": (name, wanted, text)}, chosen, progress)
        return Array(dataset, name)

    def explain(self, *, memory: int | str | None = None, workers: int | None = None) -> str:
        """Shows how :meth:`compute` would work: steps, tiles, what stays sparse, what is done in place. Computes nothing."""
        from .compute import explain

        text, sources = written({"result": self._node})
        return explain(text, sources, memory, workers)

    # Operators.

    def __add__(self, other: Any) -> LazyArray:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> LazyArray:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> LazyArray:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> LazyArray:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> LazyArray:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> LazyArray:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> LazyArray:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> LazyArray:
        return _binary("/", other, self)

    def __floordiv__(self, other: Any) -> LazyArray:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> LazyArray:
        return _binary("//", other, self)

    def __mod__(self, other: Any) -> LazyArray:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> LazyArray:
        return _binary("%", other, self)

    def __pow__(self, other: Any) -> LazyArray:
        return _binary("**", self, other)

    def __rpow__(self, other: Any) -> LazyArray:
        return _binary("**", other, self)

    def __and__(self, other: Any) -> LazyArray:
        return _binary("and", self, other)

    def __rand__(self, other: Any) -> LazyArray:
        return _binary("and", other, self)

    def __or__(self, other: Any) -> LazyArray:
        return _binary("or", self, other)

    def __ror__(self, other: Any) -> LazyArray:
        return _binary("or", other, self)

    def __eq__(self, other: Any) -> LazyArray:  # type: ignore[override]
        return _binary("==", self, other)

    def __ne__(self, other: Any) -> LazyArray:  # type: ignore[override]
        return _binary("!=", self, other)

    def __lt__(self, other: Any) -> LazyArray:
        return _binary("<", self, other)

    def __le__(self, other: Any) -> LazyArray:
        return _binary("<=", self, other)

    def __gt__(self, other: Any) -> LazyArray:
        return _binary(">", self, other)

    def __ge__(self, other: Any) -> LazyArray:
        return _binary(">=", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __matmul__(self, other: Any) -> LazyArray:
        b = _node_or_none(other)
        return NotImplemented if b is None else LazyArray._of(ex.matmul(self._node, b))

    def __rmatmul__(self, other: Any) -> LazyArray:
        a = _node_or_none(other)
        return NotImplemented if a is None else LazyArray._of(ex.matmul(a, self._node))

    def __neg__(self) -> LazyArray:
        return LazyArray._of(ex.unary("-", self._node))

    def __pos__(self) -> LazyArray:
        return self

    def __abs__(self) -> LazyArray:
        return LazyArray._of(ex.unary("abs", self._node))

    def __invert__(self) -> LazyArray:
        return LazyArray._of(ex.unary("not", self._node))

    def __getitem__(self, key: Any) -> LazyArray:
        """A part of it, selected by integers, slices of any step, ``...`` and ``None``."""
        return LazyArray._of(ex.indexed(self._node, key))

    # Other forms.

    @property
    def T(self) -> LazyArray:
        """With its axes reversed."""
        return LazyArray._of(ex.transposed(self._node, None))

    def transpose(self, *axes: Any) -> LazyArray:
        """With its axes in another order; by default reversed."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))) else axes
        return LazyArray._of(ex.transposed(self._node, order or None))

    def astype(self, dtype: Any) -> LazyArray:
        """With its elements as bool, int64, float32 or float64."""
        return LazyArray._of(ex.converted(self._node, ex.parse_dtype(dtype, "astype")))

    def reshape(self, *shape: Any) -> LazyArray:
        """The same elements in the same order, with another shape. Axes can be split; an axis of up to 64 elements can be joined with the
        next."""
        wanted = shape[0] if len(shape) == 1 else shape
        return LazyArray._of(forms.reshaped(self._node, wanted))

    def squeeze(self, axis: Any = None) -> LazyArray:
        """Without its axes of extent 1, or without these."""
        return LazyArray._of(forms.squeezed(self._node, axis))

    def swapaxes(self, axis1: int, axis2: int) -> LazyArray:
        """With two axes swapped."""
        return LazyArray._of(forms.swapped(self._node, axis1, axis2))

    def clip(self, min: Any = None, max: Any = None) -> LazyArray:
        """With each element limited to the range from `min` to `max`."""
        low, high = (None if bound is None else node_of(bound, "clip") for bound in (min, max))
        return LazyArray._of(ex.clipped(self._node, low, high))

    def round(self, decimals: int = 0) -> LazyArray:
        """Rounded to so many decimals; ties go to the even number."""
        return LazyArray._of(ex.rounded(self._node, forms.whole(decimals, "round: decimals")))

    def dot(self, other: Any) -> LazyArray:
        """``self @ other``; with a single number, their product."""
        return dot(self, other)  # type: ignore[no-any-return]

    # Reductions.

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> LazyArray:
        """The sum over one axis, several, or all; for bools, the number of true elements."""
        return LazyArray._of(ex.reduced("sum", self._node, axis, keepdims))

    def prod(self, axis: Any = None, *, keepdims: bool = False) -> LazyArray:
        """The product."""
        return LazyArray._of(ex.reduced("prod", self._node, axis, keepdims))

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> LazyArray:
        """The mean."""
        return LazyArray._of(ex.mean(self._node, axis, keepdims))

    def var(self, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> LazyArray:
        """The variance: the sum of squared distances from the mean, divided by their number minus `ddof`."""
        return LazyArray._of(ex.variance(self._node, axis, ddof, keepdims))

    def std(self, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> LazyArray:
        """The standard deviation, the root of the variance."""
        return LazyArray._of(ex.unary("sqrt", ex.variance(self._node, axis, ddof, keepdims)))

    def min(self, axis: Any = None, *, keepdims: bool = False) -> LazyArray:
        """The smallest element; NaN where there is one."""
        return LazyArray._of(ex.reduced("min", self._node, axis, keepdims))

    def max(self, axis: Any = None, *, keepdims: bool = False) -> LazyArray:
        """The largest element; NaN where there is one."""
        return LazyArray._of(ex.reduced("max", self._node, axis, keepdims))

    def any(self, axis: Any = None, *, keepdims: bool = False) -> LazyArray:
        """Whether any element is true or nonzero."""
        return LazyArray._of(ex.reduced("any", self._node, axis, keepdims))

    def all(self, axis: Any = None, *, keepdims: bool = False) -> LazyArray:
        """Whether all elements are true or nonzero."""
        return LazyArray._of(ex.reduced("all", self._node, axis, keepdims))

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> LazyArray:
        """The position of the first smallest element along an axis; without an axis, in C order."""
        return LazyArray._of(ex.extreme_place("argmin", self._node, axis, keepdims))

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> LazyArray:
        """The position of the first largest element along an axis; without an axis, in C order."""
        return LazyArray._of(ex.extreme_place("argmax", self._node, axis, keepdims))

    # numpy's doors.

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        raise TypeError("a lazy array has no elements yet: call its .compute()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return call_function(function, args, options)

    # The rest.

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[LazyArray]:
        """Parts along the first axis, each lazy too."""
        return (self[place] for place in range(len(self)))

    def __bool__(self) -> bool:
        raise TypeError("whether a lazy array is true is not known before it is computed: call its .compute()")

    def _unknown(self, *_: Any) -> Any:
        raise TypeError("a lazy array is no number before it is computed: call its .compute()")

    __float__ = __int__ = __complex__ = __index__ = _unknown

    def _title(self) -> str:
        return f"{self._node.dtype} {self.shape}"

    def __repr__(self) -> str:
        return f"<lacus.LazyArray {self._title()}: {shown(self._node)}>"

    @never_raises
    def _repr_html_(self) -> str:
        text, sources = written({"result": self._node})
        lines = text.splitlines()
        more = [f"… and {len(lines) - _LINES:,} more lines"] if len(lines) > _LINES else []
        facts = [("expression", shown(self._node))]
        facts.extend((name, f"{source.name} of {source.dataset.url} at version {source.dataset.version}")
                     for name, source in list(sources.items())[:_LINES] if isinstance(source, Stored))
        facts.extend(("program" if k == 0 else "", line) for k, line in enumerate([*lines[:_LINES], *more]))
        return facts_html(f"LazyArray {self._title()}", facts)

    def __reduce__(self) -> tuple[Any, ...]:
        # Flat, since a graph may be deeper than the stack.
        nodes = ordered([self._node])
        places = {id(node): k for k, node in enumerate(nodes)}
        flat = [
            (n.form, n.strength, n.least, tuple(places[id(arg)] for arg in n.args), n.dtype, n.shape, n.weak,
             n.statement, n.label, n.source)
            for n in nodes
        ]
        return _unpickled, (flat,)


def _unpickled(flat: list[tuple[Any, ...]]) -> LazyArray:
    nodes: list[Node] = []
    for form, strength, least, args, *rest in flat:
        nodes.append(Node(form, strength, least, tuple(nodes[k] for k in args), *rest))
    return LazyArray._of(nodes[-1])


def node_of(value: Any, what: str) -> Node:
    """What stands for a value in an expression: numbers take the type of what they meet."""
    if isinstance(value, LazyArray):
        return value._node
    # numpy's numbers are Python's too, but have a type.
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return ex.literal(value)
    if isinstance(value, np.generic) and value.dtype.name in ex.COMPUTED:
        return ex.literal_of(ex.COMPUTED[value.dtype.name], value.item())
    return array(value, what=what)._node


def _node_or_none(value: Any) -> Node | None:
    """None for what can be no operand, so that Python says so."""
    if value is None or isinstance(value, (str, bytes, Mapping, set)):
        return None
    return node_of(value, "the operand")


def _binary(name: str, a: Any, b: Any) -> LazyArray:
    """An operator; Python asks the other side, and says so, where this one has no answer."""
    left, right = _node_or_none(a), _node_or_none(b)
    if left is None or right is None:
        return NotImplemented  # type: ignore[no-any-return]
    return LazyArray._of(ex.binary(name, left, right))
