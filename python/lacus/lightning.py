"""Checkpoints of PyTorch Lightning in datasets: a ``CheckpointIO`` plug-in.

>>> import lightning, lacus.lightning
>>> trainer = lightning.Trainer(plugins=[lacus.lightning.CheckpointIO()])

Works with the packages ``lightning`` and ``pytorch_lightning``, whichever is installed. What Lightning's own plug-in saves as one file is a directory
here, with checksums, and complete or not there at all.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Any

from . import checkpoint as checkpoints
from . import dataset
from ._background import settle
from .errors import InvalidError

__all__ = ["CheckpointIO"]


def _base() -> Any:
    """Lightning's own class, so that its trainers take ours for one; plain ``object`` where it is not installed."""
    for name in ("lightning.fabric.plugins.io.checkpoint_io", "lightning_fabric.plugins.io.checkpoint_io"):
        try:
            return importlib.import_module(name).CheckpointIO
        except ImportError:
            continue
    return object


class CheckpointIO(_base()):  # type: ignore[misc]
    """Saves and loads the checkpoints of a trainer as :func:`lacus.save` and :func:`lacus.load` do.

    Args:
        wait: with False, training goes on while a checkpoint is written; see :func:`lacus.save`.
        durable: see :func:`lacus.save`.
        storage_options: see :func:`lacus.create`.
    """

    def __init__(self, *, wait: bool = True, durable: bool = True, storage_options: dataset.StorageOptions | None = None) -> None:
        self._wait = wait
        self._durable = durable
        self._storage_options = storage_options

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None) -> None:
        """Saves a checkpoint at a path."""
        if storage_options is not None:
            raise InvalidError("save_checkpoint: give storage_options to lacus.lightning.CheckpointIO")
        checkpoints.save(
            checkpoint, path, durable=self._durable, wait=self._wait, storage_options=self._storage_options
        )

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Loads a checkpoint; a file of Lightning's own is loaded by torch, of which only weights."""
        if os.path.isfile(path):
            torch = importlib.import_module("torch")
            found: dict[str, Any] = torch.load(path, map_location=map_location, weights_only=True)
            return found
        loaded: dict[str, Any] = checkpoints.load(
            path, map_location=map_location, storage_options=self._storage_options
        )
        return loaded

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Removes a checkpoint, if it is there."""
        settle()
        if dataset.exists(path, storage_options=self._storage_options):
            dataset.delete(path, storage_options=self._storage_options)
            # On a disk, directories without files in them are left.
            for folder, _, _ in os.walk(path, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)

    def teardown(self) -> None:
        """Waits for the save under way."""
        settle()
