"""WebDataset: tar files, read in order and shuffled in a buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import webdataset
from contender import LoaderContender, consumed
from data import Files

DISTRIBUTION = "webdataset"


def loader() -> list[LoaderContender]:
    return [Tars()]


class Tars(LoaderContender):
    name = "WebDataset"
    family = "webdataset"
    note = "shards of 2,000, a shuffle buffer of 5,000, Pillow"

    def write(self, path: Path, value: Files) -> None:
        path.mkdir()
        with webdataset.ShardWriter(str(path / "%06d.tar"), maxcount=2000, verbose=0) as sink:
            for row, (content, label) in enumerate(zip(value.contents, value.labels, strict=True)):
                sink.write({"__key__": f"{row:08d}", "jpg": content, "cls": int(label)})

    def epoch(self, handle: Any, seed: int) -> tuple[np.ndarray, int]:
        shards = sorted(str(shard) for shard in Path(handle).glob("*.tar"))
        found = webdataset.WebDataset(shards, shardshuffle=len(shards), seed=seed).shuffle(5000)
        rows = found.decode("rgb8").to_tuple("jpg", "cls").batched(64)
        return consumed((np.stack(images) if isinstance(images, list) else images, labels) for images, labels in rows)
