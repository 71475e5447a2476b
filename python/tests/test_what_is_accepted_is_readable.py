"""A sample that is taken can be read: damage and things of another kind are refused when they come, by row and file."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import dicom, encoded, picture, png, wav
from same import assert_same

import lacus


def flac(ds: lacus.Dataset, frames: int = 20_000) -> bytes:
    made = lacus.create(f"{ds.url}-flac")
    made.add_column("sound", "audio", dtype="int16", compression="flac", sample_rate=8000)
    made.append({"sound": (np.arange(2 * frames) * 7919 % 65536).astype(np.uint16).view(np.int16).reshape(-1, 2)})
    found = made["sound"].bytes(0)
    lacus.delete(made.url)
    assert found is not None
    return found


def with_flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def test_damaged_files_are_refused_by_row_and_file(ds: lacus.Dataset, tmp_path: Path, rng: np.random.Generator) -> None:
    image = png(picture(rng))
    jpeg = encoded(ds, [picture(rng)], "jpeg")[0]
    tiff = encoded(ds, [picture(rng)], "tiff")[0]
    sound = flac(ds)
    whole = {"image": image, "sound": sound, "scan": dicom(np.arange(12, dtype=np.uint16).reshape(3, 4))}
    ds.add_column("image", "image")
    ds.add_column("sound", "audio")
    ds.add_column("scan", "dicom")
    bad: list[tuple[str, bytes, str]] = [
        ("image", with_flipped(image, len(image) // 2), "damaged: the checksum of the chunk"),
        ("image", image[:-1], "cut off"),
        ("image", jpeg[:-2], "cut off"),
        ("image", jpeg[: len(jpeg) // 2] + b"\0" * 5000, "cut off"),
        ("image", tiff[: len(tiff) // 2], "tiff: "),
        ("sound", sound[: len(sound) // 2], "flac: cut off"),
        ("sound", with_flipped(sound, len(sound) // 2), "cut off or damaged: 20000 frames are promised"),
        ("sound", wav(np.zeros((100, 1), np.int16))[:-10], "cut off"),
        ("scan", whole["scan"][:-4], "dicom: "),
    ]
    for number, (name, data, why) in enumerate(bad):
        path = tmp_path / f"bad-{number}"
        path.write_bytes(data)
        message = rf'column "{name}", row 1: .*{why}.*\(file ".*bad-{number}"\)'
        with pytest.raises(lacus.InvalidError, match=message):
            ds.extend({name: [whole[name], lacus.read(path)]})
        with pytest.raises(lacus.InvalidError, match=message), ds.writer() as writer:
            writer.extend({name: [whole[name], lacus.read(path)]})
        report = ds.extend({name: [whole[name], lacus.read(path)]}, on_error="skip")
        assert report.rows == 1 and f'bad-{number}")' in report.skipped[0][1]
    for name in whole:
        assert all(sample is not None for sample in ds[name] if sample is not None)
    ds.add_column("frames", "sequence[image]")
    with pytest.raises(lacus.InvalidError, match=r'row 0: element 1 .*damaged.*\(file ".*bad-0"\)'):
        ds.append({"frames": [image, lacus.read(tmp_path / "bad-0")]})
    ds["image"][0] = None
    with pytest.raises(lacus.InvalidError, match=r'row 0: .*damaged.*\(file ".*bad-0"\)'):
        ds["image"][0] = lacus.read(tmp_path / "bad-0")


def test_what_others_append_to_files_is_no_damage(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    ds.add_column("image", "image")
    files = [encoded(ds, [picture(rng)], "jpeg")[0], png(picture(rng))]
    ds.extend({"image": [file + b"\x2a" * 100_000 for file in files]})
    assert [sample.shape for sample in ds["image"]] == [(20, 30, 3)] * 2


def test_links_lead_to_samples_of_the_column(ds: lacus.Dataset, tmp_path: Path, rng: np.random.Generator) -> None:
    album = tmp_path / "album"
    album.mkdir()
    large = rng.integers(0, 255, (300, 300, 3), np.uint8)
    files = {
        "good.png": png(picture(rng)),
        "large.png": png(large),
        "gray.png": png(picture(rng)[:, :, 0]),
        "notes.txt": b"no picture, but words",
        "long.txt": b"no picture, but words" * 10_000,
        "sound.wav": wav(np.zeros((90_000, 1), np.int16)),
        "bad.png": with_flipped(png(picture(rng)), 60),
        "empty": b"",
    }
    for name, data in files.items():
        (album / name).write_bytes(data)
    ds.allow_links(album)
    ds.add_column("one", "link[image]")
    ds.add_column("gray", "link[image.gray]")
    ds.add_column("sound", "link[audio]")
    ds.add_column("many", "sequence[link[image]]")
    for name, why in [
        ("notes.txt", "no known media format"),
        ("long.txt", "no known media format"),
        ("sound.wav", "expected an image file, found a wav file"),
        ("bad.png", "damaged"),
        ("empty", "no bytes"),
    ]:
        several = [str(album / "good.png"), str(album / name)]
        for column, value in [("one", lacus.link(album / name)), ("many", several)]:
            with pytest.raises(lacus.InvalidError, match=f'column "{column}", row 1: link .*{name}: .*{why}'):
                ds.extend({column: [None, value]})
    for column, name in [("gray", "large.png"), ("gray", "good.png"), ("sound", "large.png")]:
        with pytest.raises(lacus.InvalidError, match=f'column "{column}", row 0: link .*{name}'):
            ds.append({column: lacus.link(album / name)})
    with pytest.raises(lacus.NotFoundError, match="nothing is there"):
        ds.append({"one": lacus.link(album / "nowhere.png")})
    assert len(ds) == 0
    ds.append({"one": str(album / "large.png"), "gray": str(album / "gray.png"), "sound": str(album / "sound.wav")})
    assert_same(ds["one"][0], large)


def test_keypoints_are_whole_points(ds: lacus.Dataset) -> None:
    ds.add_column("any", "keypoints")
    ds.add_column("named", "keypoints", keypoints=[f"p{i}" for i in range(17)])
    for numbers in (0, 2, 3, 4, 51):
        ds.append({"any": np.zeros((numbers, 1), int)})
    for numbers in (1, 5, 7):
        with pytest.raises(lacus.InvalidError, match=f"for each keypoint, found {numbers} numbers"):
            ds.append({"any": np.zeros((numbers, 1), int)})
    message = r"expected 17 keypoints \(51 numbers, or 34 without visibility\), found 12 numbers"
    with pytest.raises(lacus.InvalidError, match=message):
        ds.append({"named": np.zeros((12, 2), int)})


def cmyk_tiff(inks: np.ndarray[Any, Any]) -> bytes:
    """An uncompressed TIFF of CMYK by the book."""
    height, width = inks.shape[:2]
    data = inks.astype(inks.dtype.newbyteorder("<")).tobytes()
    bits = inks.dtype.itemsize * 8
    tags = [(256, 3, 1, width), (257, 3, 1, height), (258, 3, 4, 8 + len(data)), (259, 3, 1, 1), (262, 3, 1, 5)]
    tags += [(273, 4, 1, 8), (277, 3, 1, 4), (278, 3, 1, height), (279, 4, 1, len(data)), (332, 3, 1, 1)]
    start = 8 + len(data) + 8
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    depths = struct.pack("<4H", *[bits] * 4)
    return b"II*\0" + struct.pack("<I", start) + data + depths + struct.pack("<H", len(tags)) + entries + b"\0" * 4


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_cmyk_of_a_tiff_is_rgb(ds: lacus.Dataset, dtype: Any) -> None:
    most = np.iinfo(dtype).max
    above = [[0, 0, 0, 0], [most, 0, 0, 0], [0, most, 0, 0]]
    below = [[0, 0, most, 0], [0, 0, 0, most], [0, 0, 0, most // 2]]
    inks = np.array([above, below])
    ds.add_column("image", "image")
    ds.append({"image": cmyk_tiff(inks.astype(dtype))})
    half = most - most // 2
    rgb = [[[most] * 3, [0, most, most], [most, 0, most]], [[most, most, 0], [0, 0, 0], [half] * 3]]
    assert ds["image"].shape_of(0) == (2, 3, 3)
    assert_same(ds["image"][0], np.array(rgb, dtype))
    assert_same(ds["image"][0, 1:, ::2], np.array(rgb, dtype)[1:, ::2])


def test_one_picture_is_no_sequence(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    ds.add_column("frames", "sequence[image]")
    ds.add_column("sounds", "sequence[audio]", sample_rate=8000)
    ds.add_column("boxes", "sequence[bbox]")
    image = picture(rng)
    one: dict[str, Any] = {"frames": image, "sounds": np.zeros((9, 2), "f4"), "boxes": np.ones((3, 4), "f4")}
    for name, array in one.items():
        message = rf'column "{name}", row 0: .*give \[array\] for a sequence of one'
        with pytest.raises(lacus.InvalidError, match=message):
            ds.append({name: array})
        ds.append({name: [array]})
        assert_same(ds[name][-1], [array])
    gray = rng.integers(0, 255, (5, 6, 7), np.uint8)
    ds.append({"frames": np.stack([image, image])})
    ds.append({"frames": gray})
    assert_same(ds["frames"][-2], [image, image])
    assert_same(ds["frames"][-1], list(gray[..., None]))


def test_a_path_is_told_how_to_become_a_file(ds: lacus.Dataset) -> None:
    ds.add_column("image", "image")
    ds.add_column("sounds", "sequence[audio]")
    for row in ({"image": "cat.jpg"}, {"sounds": ["cat.jpg"]}):
        with pytest.raises(lacus.InvalidError, match=r'found text; to store a file, give lacus.read\("cat.jpg"\)'):
            ds.append(row)
    ds.extend({"image": [np.zeros((2, 2, 3), np.uint8)]})
    with pytest.raises(lacus.InvalidError, match=r'lacus.read\("cat.jpg"\)'):
        ds["image"][0] = "cat.jpg"
