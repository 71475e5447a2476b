"""Batches as the tensors of other libraries, which are imported when they are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ._collate import Nested
from .errors import InvalidError

__all__ = ["to_jax", "to_tensorflow", "to_torch"]

Convert = Callable[[dict[str, Any]], dict[str, Any]]


def _library(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InvalidError(f"loader.{what}() needs {name}: install it with `pip install {name}`") from error


class _Each:
    """Converts every array of a batch; what is no array stays as it is."""

    def __init__(self, library: str, what: str) -> None:
        self._library, self._what = library, what
        self._module: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_module": None}

    @property
    def module(self) -> Any:
        if self._module is None:
            self._module = _library(self._library, self._what)
        return self._module

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {name: self.value(value) for name, value in batch.items()}

    def value(self, value: Any) -> Any:
        if isinstance(value, Nested):
            return self.nested(value)
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, list):
            return [self.value(one) for one in value]
        return value

    def array(self, value: np.ndarray[Any, Any]) -> Any:
        raise NotImplementedError

    def nested(self, value: Nested) -> Any:
        return Nested(self.array(value.values), self.array(value.offsets))


class _Torch(_Each):
    def __init__(self, device: Any, pin_memory: bool | None) -> None:
        super().__init__("torch", "pytorch")
        self._device = None if device is None else self.module.device(device)
        is_cuda = self._device is not None and self._device.type == "cuda"
        self._pins = is_cuda if pin_memory is None else bool(pin_memory)
        if self._pins and not self.module.cuda.is_available():
            raise InvalidError("loader.pytorch: pin_memory=True needs a CUDA device, which torch does not find here")

    def array(self, value: np.ndarray[Any, Any]) -> Any:
        torch = self.module
        if value.dtype.name == "bfloat16":
            made = torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
        else:
            made = torch.from_numpy(value)
        if self._pins:
            made = made.pin_memory()
        return made if self._device is None else made.to(self._device, non_blocking=True)

    def nested(self, value: Nested) -> Any:
        return self.module.nested.nested_tensor_from_jagged(self.array(value.values), self.array(value.offsets))


class _TensorFlow(_Each):
    def __init__(self) -> None:
        super().__init__("tensorflow", "tensorflow")
        _ = self.module

    def array(self, value: np.ndarray[Any, Any]) -> Any:
        return self.module.convert_to_tensor(value)

    def nested(self, value: Nested) -> Any:
        return self.module.RaggedTensor.from_row_splits(value.values, value.offsets)


class _Jax(_Each):
    def __init__(self, device: Any) -> None:
        super().__init__("jax", "jax")
        self._device = device
        _ = self.module

    def array(self, value: np.ndarray[Any, Any]) -> Any:
        return self.module.device_put(value, self._device)


def to_torch(device: Any, pin_memory: bool | None) -> Convert:
    """Makes torch tensors of batches."""
    return _Torch(device, pin_memory)


def to_tensorflow() -> Convert:
    """Makes TensorFlow tensors of batches."""
    return _TensorFlow()


def to_jax(device: Any) -> Convert:
    """Makes JAX arrays of batches."""
    return _Jax(device)
