"""safetensors: a header and the bytes, made for model weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from contender import CheckpointContender, synced
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

DISTRIBUTION = "safetensors"


def checkpoint() -> list[CheckpointContender]:
    return [SafetensorsCheckpoint()]


def saves() -> list[CheckpointContender]:
    return [SafetensorsSaves()]


class SafetensorsCheckpoint(CheckpointContender):
    name = "safetensors"
    family = "safetensors"

    def write(self, path: Path, value: dict[str, np.ndarray]) -> None:
        save_file(value, path)

    def load(self, path: Path) -> dict[str, np.ndarray]:
        return load_file(path)

    def load_into(self, path: Path, model: dict[str, np.ndarray]) -> None:
        # One by one, so that no second copy of the model is in memory.
        with safe_open(path, framework="numpy") as file:
            for name, array in model.items():
                np.copyto(array, file.get_tensor(name))

    def load_one(self, path: Path, name: str) -> np.ndarray:
        with safe_open(path, framework="numpy") as file:
            return file.get_tensor(name)


class SafetensorsSaves(SafetensorsCheckpoint):
    name = "safetensors, fsync"

    def write(self, path: Path, value: dict[str, np.ndarray]) -> None:
        save_file(value, path)
        synced(path)
