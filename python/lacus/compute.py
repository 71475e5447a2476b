"""Running programs: text in the language of ``docs/algebra.md``, and programs that lazy arrays build."""

from __future__ import annotations

import dataclasses
import operator
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from . import _native
from ._arrays import NDArray
from ._display import size_text
from ._guard import guarded
from ._native import Sparse
from ._program import Given, Stored, written
from ._progress import ProgressLine
from .array import array
from .dataset import Dataset
from .errors import InvalidError
from .sparse import SparseTensor
from .tensor import Array, quoted
from .writer import parse_size

if TYPE_CHECKING:
    from ._wish import Wish

__all__ = ["Progress", "compute", "run"]


class Options(TypedDict):
    """How a program is run; the native module expects all of them."""

    memory: int | None
    workers: int | None
    spill: str | None
    forbid_nan: bool
    #: Integers divided by zero give zero and a warning instead of an error.
    zero_by_zero: bool
    checkpoint_every: int | None
    durable: bool
    progress: Callable[..., None] | None


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    tasks_done: int
    tasks: int
    #: Floating-point operations so far.
    operations: float
    bytes_read: int
    memory_bytes: int
    spilled_bytes: int
    #: Since the run began.
    seconds: float = 0.0

    @property
    def gflops(self) -> float:
        """Billions of floating-point operations a second."""
        return self.operations / self.seconds / 1e9 if self.seconds > 0 else 0.0


@guarded
def run(
    program: str,
    data: Dataset | None = None,
    inputs: Mapping[str, Any] | None = None,
    *,
    memory: int | str | None = None,
    workers: int | None = None,
    spill: str | os.PathLike[str] | None = None,
    forbid_nan: bool = False,
    checkpoint_every: int | None = None,
    durable: bool = False,
    progress: Callable[[Progress], None] | bool | None = None,
) -> dict[str, Array | NDArray | SparseTensor]:
    """Runs a program and returns its results by name.

    ``load`` looks in `inputs` first, then in `data` at its version when the run starts. ``save`` stores results in `data`: all of
    them as one version when the program ends, or nothing if it fails. Without `data`, results are returned as arrays.

    Args:
        program: the text; ``docs/algebra.md`` describes the language.
        data: the dataset to load from and to save into.
        inputs: values by name: anything that :func:`lacus.array` accepts.
        memory: memory for all tiles together, such as ``"2GiB"``; by default half of the machine's memory.
        workers: the number of threads; by default, and at most, those of the process
            (:func:`lacus.configure`). It does not change the result.
        spill: a directory for tiles that do not fit into memory; it must exist.
        forbid_nan: fails if a result contains NaN.
        checkpoint_every: stores the variables of loops every so many rounds, in `data` below ``_run/``. If the run is killed, running
            the same program again continues from there and ends with the same bits.
        durable: returns only when the results are safe against power loss.
        progress: a function that is called regularly with a :class:`Progress`; True shows a line on the terminal.

    Raises:
        InvalidError: the program is wrong or does not fit its inputs; the message shows the place in the text.
        NotFoundError: it loads a tensor that does not exist, or uses an unknown name.

    >>> lacus.run('A = load("A"); save(A @ A, "squared")', data=ds)["squared"]
    """
    if not isinstance(program, str):
        raise InvalidError(f"program: expected text, found a {type(program).__name__}")
    if data is not None and not isinstance(data, Dataset):
        raise InvalidError(f"data: expected a dataset, as lacus.open gives it, found a {type(data).__name__}")
    sources = {name: _input(name, value) for name, value in _by_name(inputs).items()}
    chosen = options(memory, workers, spill, forbid_nan, checkpoint_every, durable)
    made, stored, _ = execute(program, sources, data, {}, chosen, progress)
    found: dict[str, Any] = {name: made[name] for name in sorted(made)}
    if data is not None:
        found.update((name, data[name]) for name in stored)
    return found


def compute(
    *arrays: Any,
    memory: int | str | None = None,
    workers: int | None = None,
    spill: str | os.PathLike[str] | None = None,
    forbid_nan: bool = False,
    progress: Callable[[Progress], None] | bool | None = None,
) -> tuple[NDArray | SparseTensor, ...]:
    """Computes several lazy arrays in one run: shared parts are computed once. The options are those of :func:`run`.

    >>> mean, largest = lacus.compute(x.mean(), x.max())
    """
    if not arrays:
        return ()
    # As messages call them.
    names = ["result"] if len(arrays) == 1 else [f"result {k}" for k in range(len(arrays))]
    roots = {name: array(value)._node for name, value in zip(names, arrays, strict=True)}
    text, sources = written(roots)
    chosen = options(memory, workers, spill, forbid_nan, None, False, zero_by_zero=True)
    made, _, _ = execute(text, sources, None, {}, chosen, progress)
    return tuple(made[name] for name in roots)


def execute(
    text: str,
    sources: Mapping[str, Any],
    data: Dataset | None,
    targets: dict[str, tuple[str, Wish, str | None] | None],
    chosen: Options,
    progress: Callable[[Progress], None] | bool | None,
) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    """Runs a program: what is given back, the names of what was stored, and what it took."""
    line = ProgressLine(progress is True)
    told = (lambda now: line.show(_line_of(now))) if progress is True else progress or None
    if told is not None:
        if not callable(told):
            raise InvalidError(f"progress: expected a function, True, False or None, found {progress!r}")
        began = time.monotonic()
        chosen = {**chosen, "progress": lambda *facts: told(dataclasses.replace(Progress(*facts), seconds=time.monotonic() - began))}
    handed = {name: _handed(source) for name, source in sources.items()}
    try:
        native = None if data is None else data._native
        made, stored, report = _native.run_program(text, handed, native, targets, chosen)
    finally:
        line.close()
    if report["divided_by_zero"]:
        # As numpy says it, at the line that asked for the result.
        warnings.warn("divide by zero encountered in // or %", RuntimeWarning, stacklevel=_outside())
    dressed = {name: SparseTensor._of(value) if isinstance(value, Sparse) else value for name, value in made.items()}
    return dressed, stored, report


def _outside() -> int:
    """The number of the first frame that is not of this package, as :func:`warnings.warn` counts them from :func:`execute`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level


def explain(text: str, sources: Mapping[str, Given | Stored], memory: int | str | None, workers: int | None) -> str:
    """How a program would be run."""
    handed = {name: _handed(source) for name, source in sources.items()}
    chosen = options(memory, workers, None, False, None, False)
    return _native.explain_run(text, handed, chosen["memory"], chosen["workers"])


def options(
    memory: int | str | None,
    workers: int | None,
    spill: str | os.PathLike[str] | None,
    forbid_nan: bool,
    checkpoint_every: int | None,
    durable: bool,
    *,
    zero_by_zero: bool = False,
) -> Options:
    """The options of a run, checked."""
    return {
        "memory": None if memory is None else parse_size(memory, "memory"),
        "workers": _positive(workers, "workers"),
        "spill": None if spill is None else os.path.abspath(os.path.expanduser(os.fspath(spill))),
        "forbid_nan": bool(forbid_nan),
        "zero_by_zero": zero_by_zero,
        "checkpoint_every": _positive(checkpoint_every, "checkpoint_every"),
        "durable": bool(durable),
        "progress": None,
    }


def _positive(value: Any, what: str) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError as error:
        raise InvalidError(f"{what}: expected a whole number, found {value!r}") from error
    if number < 1 or isinstance(value, bool):
        raise InvalidError(f"{what}: {value!r} is not positive")
    return number


def _handed(source: Given | Stored) -> Any:
    if isinstance(source, Stored):
        return source.dataset._native, source.name
    return source.value if isinstance(source.value, Sparse) else (source.value, source.dtype)


def _by_name(inputs: Any) -> Mapping[str, Any]:
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        raise InvalidError(f"inputs are given by name, as in {{name: array}}, not as a {type(inputs).__name__}")
    for name in inputs:
        if not isinstance(name, str):
            raise TypeError(f"inputs are addressed by name, not by {type(name).__name__}")
    return inputs


def _input(name: str, value: Any) -> Any:
    node = array(value, what=f"input {quoted(name)}")._node
    if node.source is None:
        raise InvalidError(f"input {quoted(name)} is a lazy array that has to be computed first: call its .compute()")
    return node.source


def _line_of(now: Progress) -> str:
    done = f"{now.tasks_done:,} of {now.tasks:,} tasks, {now.gflops:.1f} GFLOP/s, {size_text(now.bytes_read)} read"
    return f"{done}, {size_text(now.memory_bytes)} in memory, {size_text(now.spilled_bytes)} spilled"
