"""MosaicML Streaming: shards of MDS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from contender import LoaderContender, consumed
from data import Files
from streaming import MDSWriter, StreamingDataset

DISTRIBUTION = "mosaicml-streaming"


def loader() -> list[LoaderContender]:
    return [Shards()]


class Shards(LoaderContender):
    name = "MosaicML Streaming"
    family = "streaming"
    note = "py1e, Pillow"

    def write(self, path: Path, value: Files) -> None:
        with MDSWriter(out=str(path), columns={"image": "bytes", "label": "int"}) as writer:
            for content, label in zip(value.contents, value.labels, strict=True):
                writer.write({"image": content, "label": int(label)})

    def epoch(self, handle: Any, seed: int) -> tuple[np.ndarray, int]:
        import io

        from PIL import Image
        from torch.utils.data import DataLoader

        def collate(rows: list[dict[str, Any]]) -> tuple[np.ndarray, list[int]]:
            return np.stack([np.array(Image.open(io.BytesIO(row["image"]))) for row in rows]), [row["label"] for row in rows]

        found = StreamingDataset(local=str(handle), shuffle=True, shuffle_seed=seed, batch_size=64)
        return consumed(DataLoader(found, batch_size=64, collate_fn=collate))
