"""Drop-in for ``torch.save`` and ``torch.load``: the same signatures, a dataset instead of a pickle.

>>> import lacus.torch
>>> lacus.torch.save(model.state_dict(), "model")
>>> model.load_state_dict(lacus.torch.load("model"))
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from . import checkpoint
from .errors import InvalidError

__all__ = ["load", "save"]


def save(
    obj: Any,
    f: str | os.PathLike[str],
    pickle_module: Any = None,
    pickle_protocol: Any = None,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Saves an object as ``torch.save`` does, but atomically, with checksums, and without pickle.

    Args:
        obj: what :func:`lacus.save` takes: nested dicts, lists and tuples of tensors, numbers, text, bytes.
        f: the path or URL of a directory. The one that was saved there before stays in its history.
        pickle_module: there because torch has it; without effect, as nothing is pickled. The same holds for the others.

    Raises:
        InvalidError: something cannot be stored, such as a whole module; the message says where it is.
    """
    del pickle_module, pickle_protocol, _use_new_zipfile_serialization, _disable_byteorder_record
    checkpoint.save(obj, _path(f, "save"))


def load(
    f: str | os.PathLike[str],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Loads what :func:`save` saved, or a file that ``torch.save`` wrote, of the latter only weights.

    Args:
        f: the path or URL.
        map_location: as in ``torch.load``.
        pickle_module: without effect, as nothing is unpickled.
        weights_only: always so: code that was stored is never run. False is refused.
        mmap: see :func:`lacus.load`.
        pickle_load_args: without effect.
    """
    del pickle_module, pickle_load_args
    if weights_only is False:
        raise InvalidError("load: weights_only=False would run code from the file; lacus.torch.load never does")
    path = _path(f, "load")
    if os.path.isfile(path):
        torch = importlib.import_module("torch")
        return torch.load(path, map_location=map_location, weights_only=True, mmap=mmap)
    return checkpoint.load(path, map_location=map_location, mmap=bool(mmap))


def _path(f: Any, what: str) -> str:
    if not isinstance(f, (str, os.PathLike)):
        raise InvalidError(
            f"{what}: a checkpoint is a directory: give its path or URL, not a {type(f).__name__}"
        )
    return os.fspath(f)
