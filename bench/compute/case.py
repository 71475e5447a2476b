"""What a contender is given, and what it gives: one way to do a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compute.tasks import Task


@dataclass(frozen=True)
class Csr:
    """A sparse matrix in compressed rows, as arrays."""

    start: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]

    def scipy(self) -> Any:
        from scipy import sparse

        return sparse.csr_array((self.values, self.columns, self.start), self.shape)


@dataclass(frozen=True)
class Case:
    """A task with its sizes and its inputs."""

    task: Task
    sizes: dict[str, int]
    directory: Path
    #: By how much sizes were divided; what is left of a limit of memory.
    divide: int
    inputs: dict[str, Any]

    @property
    def rounds(self) -> int:
        return self.sizes["rounds"]


@dataclass(frozen=True)
class Way:
    """How a contender does it."""

    #: The timed call.
    run: Callable[[], Any]
    #: What it gave, as arrays by name; not timed.
    gather: Callable[[Any], dict[str, Any]] = lambda found: found
    #: Settings worth a line under the table.
    note: str = ""
    #: What else is worth telling about a run, as numbers.
    facts: Callable[[], dict[str, float]] = dict
    #: Ends what the contender started.
    close: Callable[[], None] = lambda: None
    #: Whether it does the work that the task counts; another algorithm has no rate.
    same_work: bool = True
    #: Processes of its own compute, whose memory counts as well.
    has_children: bool = False


def open_inputs(task: Task, directory: Path) -> dict[str, Any]:
    """The inputs of a task: mapped, so that contenders share them, or read."""
    # Copies on writing, since some want arrays that could be written to.
    arrays = {path.stem: np.load(path, mmap_mode="c" if task.mapped else None) for path in directory.glob("*.npy")}
    found: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items() if "." not in name}
    for name in {name.partition(".")[0] for name in arrays if "." in name}:
        start, columns, values, shape = (np.asarray(arrays[f"{name}.{part}"]) for part in ("start", "columns", "values", "shape"))
        found[name] = Csr(start, columns, values, (int(shape[0]), int(shape[1])))
    return found


#: Larger matrices are compared by what they do to a vector.
COMPARED_WHOLE = 100_000


def sketch(value: Any) -> np.ndarray:
    """A result as a short vector, which a wrong element changes."""
    if hasattr(value, "to_scipy"):
        value = value.to_scipy("csr")
    is_dense = isinstance(value, (np.ndarray, np.generic, float, int))
    if is_dense:
        value = np.asarray(value)
    if value.ndim == 2 and value.shape[0] * value.shape[1] > COMPARED_WHOLE:
        vector = np.random.default_rng(1).standard_normal(value.shape[1])
        if not is_dense:
            return np.asarray(value @ vector)
        rows = max(1, 2**24 // value.shape[1])
        return np.concatenate([value[k : k + rows].astype(np.float64) @ vector for k in range(0, len(value), rows)])
    return np.asarray(value if is_dense else value.todense(), np.float64).reshape(-1)
