"""Native transforms inside of a loader make what they make alone, whatever the threads, batches and ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus
import lacus.transforms as T

TRAIN = T.Compose(
    [
        T.RandomResizedCrop(16),
        T.RandomHorizontalFlip(),
        T.ToImage(),
        T.ToDtype("float32", scale=True),
        T.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]),
    ]
)


def picture(row: int) -> np.ndarray[Any, Any]:
    y, x = np.mgrid[: 30 + row % 7, : 40 + row % 5]
    return np.stack([y * 7 + row, x * 5, y * x], -1).astype(np.uint8)


@pytest.fixture
def ds(tmp_path: Path) -> lacus.Dataset:
    made = lacus.create(str(tmp_path / "pictures"))
    made.add_column("image", "image", compression="jpeg")
    made.add_column("number", "class_label")
    made.extend({"image": [picture(row) for row in range(30)], "number": np.arange(30)})
    made.commit("thirty pictures")
    return made


def by_number(loader: Any) -> dict[int, np.ndarray[Any, Any]]:
    return {int(n): image for batch in loader for n, image in zip(batch["number"], batch["image"], strict=True)}


def test_a_loader_makes_what_the_transform_makes_alone(ds: lacus.Dataset) -> None:
    view = ds.view()
    loaded = by_number(view.loader(8, shuffle=True, seed=5, transform={"image": TRAIN}))
    assert sorted(loaded) == list(range(30))
    assert all(image.shape == (3, 16, 16) and image.dtype == np.float32 for image in loaded.values())
    for number in (0, 7, 29):
        pixels = np.asarray(ds["image"][number])
        alone = T.apply(TRAIN, pixels, seed=5, epoch=0, row=view.ids[number])
        # Pixels are decoded at full size, and these crops are too small to be reduced.
        np.testing.assert_array_equal(loaded[number], alone)


def test_batches_and_ranks_do_not_matter(ds: lacus.Dataset) -> None:
    view = ds.view()
    expected = by_number(view.loader(30, seed=9, transform={"image": TRAIN}))
    small = by_number(view.loader(4, shuffle=True, seed=9, transform={"image": TRAIN}))
    ranks: dict[int, np.ndarray[Any, Any]] = {}
    for rank in range(3):
        ranks |= by_number(view.loader(5, seed=9, rank=rank, world=3, transform={"image": TRAIN}))
    for number, image in expected.items():
        np.testing.assert_array_equal(small[number], image)
        np.testing.assert_array_equal(ranks[number], image)


def test_the_only_column_of_media_needs_no_name(ds: lacus.Dataset) -> None:
    batch = next(iter(ds.view().loader(6, transform=T.Compose([T.Resize((12, 10))]))))
    assert batch["image"].shape == (6, 12, 10, 3) and batch["image"].dtype == np.uint8


def test_a_transform_for_something_else_is_refused(ds: lacus.Dataset) -> None:
    with pytest.raises(lacus.InvalidError, match="the steps are for sound"):
        list(ds.view().loader(6, transform={"image": T.ToMono()}))
    with pytest.raises(lacus.InvalidError, match="RandomCrop: a part of 64 × 64"):
        list(ds.view().loader(6, transform={"image": T.RandomCrop(64)}))
