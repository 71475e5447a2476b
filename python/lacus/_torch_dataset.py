"""A loader as torch's ``IterableDataset``. Imported when it is asked for, because it imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch.utils.data

from ._ranks import worker

if TYPE_CHECKING:
    from .loader import Batch, Loader, LoaderIterator

__all__ = ["LoaderDataset"]

#: Typed so that checks say the same with and without torch.
_Base: Any = torch.utils.data.IterableDataset


class LoaderDataset(_Base):  # type: ignore[misc]
    """Whole batches, for ``DataLoader(dataset, batch_size=None)``. The order is the loader's own, with any number of workers."""

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader
        self._has_own_state = False
        self._iterator: LoaderIterator | None = None

    def __iter__(self) -> Iterator[Batch]:
        nth, of = worker() or (0, 1)
        # A state of this very worker says where it is; any other, where all of them are.
        skipped = 0 if self._has_own_state and self._loader._consumed else nth
        self._has_own_state = False
        self._iterator = self._loader._iterate(skipped, of)
        return self._iterator

    def __len__(self) -> int:
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """See :meth:`Loader.state_dict`."""
        return self._loader.state_dict() if self._iterator is None else self._iterator.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :meth:`Loader.load_state_dict`."""
        self._loader.load_state_dict(state)
        self._iterator = None
        self._has_own_state = worker() is not None
