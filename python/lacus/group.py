"""A group: the tensors of a dataset whose names have a common prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._guard import guard
from ._values import by_name
from .errors import InvalidError

if TYPE_CHECKING:
    from .column import Column
    from .dataset import Dataset, ExtendReport
    from .tensor import Array

__all__ = ["Group"]


@guard
class Group:
    """Tensors with a common prefix, ``ds.group("train")``: ``group["images"]`` is ``ds["train/images"]``."""

    __slots__ = ("_dataset", "_prefix")

    def __init__(self, dataset: Dataset, name: str) -> None:
        if not name or name.startswith("/") or name.endswith("/"):
            raise InvalidError(f"{name!r} is no name of a group")
        self._dataset = dataset
        self._prefix = name + "/"

    @property
    def name(self) -> str:
        """Its name."""
        return self._prefix[:-1]

    def keys(self) -> list[str]:
        """The names of its tensors, without the prefix."""
        return [name[len(self._prefix) :] for name in self._dataset.keys() if name.startswith(self._prefix)]

    @property
    def columns(self) -> list[str]:
        """The names of its columns, without the prefix."""
        return [name[len(self._prefix) :] for name in self._dataset.columns if name.startswith(self._prefix)]

    def group(self, name: str) -> Group:
        """A group inside this one."""
        return Group(self._dataset, self._prefix + name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._prefix + name in self._dataset

    def __getitem__(self, name: str) -> Array | Column:
        if not isinstance(name, str):
            raise TypeError(f"a group is indexed by names, not by {type(name).__name__}; rows are in ds[3] and ds[a:b]")
        found: Array | Column = self._dataset[self._prefix + name]
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        self._dataset[self._prefix + name] = value

    def __delitem__(self, name: str) -> None:
        del self._dataset[self._prefix + name]

    def add_column(self, name: str, htype: str = "generic", **options: Any) -> Column:
        """Adds a column to this group; see :meth:`Dataset.add_column`."""
        return self._dataset.add_column(self._prefix + name, htype, **options)

    def append(self, row: Mapping[str, Any], **options: Any) -> int:
        """Appends a row to the dataset, given by the names in this group."""
        return self._dataset.append(self._named(row), **options)

    def extend(self, columns: Mapping[str, Sequence[Any]], **options: Any) -> ExtendReport:
        """Appends rows to the dataset, given by the names in this group."""
        return self._dataset.extend(self._named(columns), **options)

    def _named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {self._prefix + name: value for name, value in by_name(values).items()}

    def __repr__(self) -> str:
        return f"<lacus.Group {self.name!r}: {', '.join(self.keys()) or 'empty'}>"
