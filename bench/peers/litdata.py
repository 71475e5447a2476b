"""LitData: chunks of a binary format, streamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from contender import LoaderContender, consumed
from data import Files
from litdata import StreamingDataLoader, StreamingDataset
from litdata.streaming.writer import BinaryWriter

DISTRIBUTION = "litdata"


def loader() -> list[LoaderContender]:
    return [Chunks()]


class Chunks(LoaderContender):
    name = "LitData"
    family = "litdata"
    note = "chunks of 64 MB, Pillow"

    def write(self, path: Path, value: Files) -> None:
        path.mkdir()
        writer = BinaryWriter(str(path), chunk_bytes=64 << 20)
        for row, (content, label) in enumerate(zip(value.contents, value.labels, strict=True)):
            writer.add_item(row, {"image": content, "label": int(label)})
        writer.done()
        writer.merge()

    def epoch(self, handle: Any, seed: int) -> tuple[np.ndarray, int]:
        import io

        from PIL import Image

        def collate(rows: list[dict[str, Any]]) -> tuple[np.ndarray, list[int]]:
            return np.stack([np.array(Image.open(io.BytesIO(row["image"]))) for row in rows]), [row["label"] for row in rows]

        found = StreamingDataset(str(handle), shuffle=True, seed=seed)
        return consumed(StreamingDataLoader(found, batch_size=64, num_workers=0, collate_fn=collate))
