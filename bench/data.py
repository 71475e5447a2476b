"""What is stored in the benchmarks: real data where it is there, made-up data of the same kind otherwise."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
#: Real data lies beside the project; it is used in place.
REAL = Path(os.environ.get("LACUS_BENCH_DATA", ROOT.parent / "shared" / "data"))
SEED = 20141

PHOTO_ARCHIVES = ("coco256/coco128_train.tar.zst", "pets/pets_A_148.tar.zst")
CIFAR = "cifar10/cifar10_train_50k_jpeg.tar.zst"
UBER = "uber/uber_2014_apr-jun.npz"
UBER_SHAPE = (91, 24, 887, 1410)
UBER_NONZEROS = 1_378_268


@dataclass(frozen=True)
class Made:
    """A value and where it comes from."""

    value: Any
    source: str
    is_real: bool


@dataclass(frozen=True)
class Sparse:
    """Coordinates sorted in row-major order, int64 of shape (nnz, ndim), and float32 values."""

    indices: np.ndarray
    values: np.ndarray
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Files:
    """Files in folders named after their classes, in the order of rows."""

    folder: Path
    paths: list[str]
    labels: list[int]
    names: list[str]
    #: What is in them, to compare with.
    contents: list[bytes]


# ---------------------------------------------------------------- files


def labelled_files(count: int) -> Made:
    """JPEG files of 32 × 32 pixels in folders of ten classes, made once."""
    archive = REAL / CIFAR
    kind = "cifar10" if archive.is_file() else "made-up"
    folder = ROOT / ".cache" / "bench-data" / f"{kind}-{count}"
    if not (folder / ".made").is_file():
        _make_files(folder, archive if archive.is_file() else None, count)
    found = sorted(folder.glob("*/*.jpg"))
    names = sorted({path.parent.name for path in found})
    numbers = {name: number for number, name in enumerate(names)}
    value = Files(
        folder=folder,
        paths=[str(path) for path in found],
        labels=[numbers[path.parent.name] for path in found],
        names=names,
        contents=[path.read_bytes() for path in found],
    )
    source = "CIFAR-10 as JPEG files" if archive.is_file() else "made up: noise as JPEG files"
    return Made(value, source, archive.is_file())


def _make_files(folder: Path, archive: Path | None, count: int) -> None:
    from PIL import Image

    if archive is None:
        rng = np.random.default_rng(SEED)
        for number in range(count):
            path = folder / f"class{number % 10}" / f"{number:06}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 255, (32, 32, 3), np.uint8)).save(path, quality=85)
    else:
        import zstandard

        with archive.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as plain:
            with tarfile.open(fileobj=plain, mode="r|") as members:
                left = count
                for member in members:
                    if left == 0 or not member.name.endswith(".jpg"):
                        continue
                    path = folder / Path(member.name).parent.name / Path(member.name).name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(members.extractfile(member).read())
                    left -= 1
    (folder / ".made").touch()


# ---------------------------------------------------------------- photos


def photos(count: int, side: int = 256) -> Made:
    """Photos as uint8 of shape (count, 3, side, side): crops at random places of the photos there are."""
    rng = np.random.default_rng(SEED)
    archives = [REAL / archive for archive in PHOTO_ARCHIVES if (REAL / archive).is_file()]
    if not archives:
        return Made(_made_up_photos(count, side, rng), "made up: smooth colours with noise", False)
    pictures = [picture for archive in archives for picture in _pictures(archive, side)]
    out = np.empty((count, 3, side, side), np.uint8)
    # Every photo comes about equally often, in an order without a pattern.
    for place, which in enumerate(rng.permutation(np.arange(count) % len(pictures))):
        picture = pictures[which]
        top = rng.integers(picture.shape[0] - side + 1)
        left = rng.integers(picture.shape[1] - side + 1)
        out[place] = picture[top : top + side, left : left + side].transpose(2, 0, 1)
    return Made(out, f"{side}×{side} crops of {len(pictures)} photos", True)


def _pictures(archive: Path, side: int) -> list[np.ndarray]:
    """The photos of an archive as (height, width, 3); ones too small for a crop are enlarged."""
    import zstandard
    from PIL import Image

    found = []
    with archive.open("rb") as file:
        stream = zstandard.ZstdDecompressor().stream_reader(file)
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                if not member.isfile() or not member.name.endswith(".jpg"):
                    continue
                picture = Image.open(io.BytesIO(tar.extractfile(member).read())).convert("RGB")
                scale = side / min(picture.size)
                if scale > 1:
                    picture = picture.resize([max(side, round(size * scale)) for size in picture.size])
                found.append(np.asarray(picture))
    return found


def _made_up_photos(count: int, side: int, rng: np.random.Generator) -> np.ndarray:
    """Smooth colours with the noise of a camera; they compress about as badly as photos do."""
    axis = np.linspace(0, 1, side, dtype=np.float32)
    out = np.empty((count, 3, side, side), np.uint8)
    for item in out:
        for channel in item:
            a, b, c, d = rng.uniform(1, 12, 4)
            smooth = np.sin(a * axis)[:, None] * np.cos(b * axis)[None] + np.sin(c * axis[:, None] + d * axis[None])
            noise = rng.normal(0, 3, (side, side))
            channel[:] = np.clip(128 + 55 * smooth + noise, 0, 255)
    return out


# ---------------------------------------------------------------- pickups


def pickups(days: int | None = None) -> Made:
    """The Uber tensor, day × hour × latitude × longitude; its first days only, when told."""
    path = REAL / UBER
    if path.is_file():
        with np.load(path) as found:
            indices, values = found["indices"].astype(np.int64), found["values"].astype(np.float32)
            shape = tuple(int(size) for size in found["shape"])
        source, is_real = "Uber pickups in New York, April to June 2014", True
    else:
        indices, values = _made_up_pickups()
        shape, source, is_real = UBER_SHAPE, "made up: Poisson counts around a city's centres", False
    if days is not None:
        kept = indices[:, 0] < days
        indices, values, shape = indices[kept], values[kept], (days, *shape[1:])
    return Made(Sparse(np.ascontiguousarray(indices), values, shape), source, is_real)


def _made_up_pickups() -> tuple[np.ndarray, np.ndarray]:
    """Counts of as many cells as the real ones, crowded around a few centres."""
    rng = np.random.default_rng(SEED)
    draws = int(UBER_NONZEROS * 1.3)
    centres = rng.uniform(0.3, 0.7, (24, 2))
    spread = rng.gamma(1.5, 0.03, 24)
    which = rng.choice(24, draws, p=rng.dirichlet(np.full(24, 0.4)))
    places = centres[which] + rng.normal(0, 1, (draws, 2)) * spread[which, None]
    inside = np.clip(places, 0, 1 - 1e-9)
    columns = (
        rng.integers(0, UBER_SHAPE[0], draws),
        np.clip(rng.normal(15, 5, draws), 0, 23).astype(np.int64),
        (inside[:, 0] * UBER_SHAPE[2]).astype(np.int64),
        (inside[:, 1] * UBER_SHAPE[3]).astype(np.int64),
    )
    cells = np.unique(np.ravel_multi_index(columns, UBER_SHAPE))
    counts = 1 + rng.poisson(0.35, len(cells))
    return np.stack(np.unravel_index(cells, UBER_SHAPE), axis=1), counts.astype(np.float32)


# ---------------------------------------------------------------- weights


def weights(width: int = 512, layers: int = 6, words: int = 30_522) -> Made:
    """A language model's weights as float32 arrays by name: normal numbers in the shapes of a real one."""
    rng = np.random.default_rng(SEED)
    found: dict[str, np.ndarray] = {}

    def matrix(name: str, *shape: int) -> None:
        found[name] = rng.standard_normal(shape, np.float32) * np.float32(0.02)

    def norm(name: str) -> None:
        found[f"{name}.weight"] = 1 + rng.standard_normal(width, np.float32) * np.float32(0.05)
        found[f"{name}.bias"] = rng.standard_normal(width, np.float32) * np.float32(0.05)

    matrix("embeddings.words", words, width)
    matrix("embeddings.positions", 512, width)
    matrix("embeddings.types", 2, width)
    norm("embeddings.norm")
    for layer in range(layers):
        at = f"layers.{layer}"
        for part in ("query", "key", "value", "output"):
            matrix(f"{at}.attention.{part}.weight", width, width)
            matrix(f"{at}.attention.{part}.bias", width)
        norm(f"{at}.attention.norm")
        matrix(f"{at}.feed.wide.weight", 4 * width, width)
        matrix(f"{at}.feed.wide.bias", 4 * width)
        matrix(f"{at}.feed.narrow.weight", width, 4 * width)
        matrix(f"{at}.feed.narrow.bias", width)
        norm(f"{at}.feed.norm")
    return Made(found, f"made up: the shapes of a language model of width {width} with {layers} layers", False)
