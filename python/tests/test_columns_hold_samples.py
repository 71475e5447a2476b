"""Columns of every type: good samples in, the same out."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import dicom, encoded, picture, png, wav
from same import assert_same

import lacus

RNG = np.random.default_rng(3)
GRAY = RNG.integers(0, 255, (7, 9), dtype=np.uint8)
COLOUR = RNG.integers(0, 255, (7, 9, 3), dtype=np.uint8)
F32 = RNG.random((5, 4), dtype=np.float32)


def same_value(found: Any, expected: Any) -> None:
    """Arrays by every bit, lists by their items, the rest by what they are."""
    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same_value(one, other)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert type(found) is type(expected)
        assert_same(found, expected)
    else:
        assert type(found) is type(expected) and found == expected


# Type, options, and what is given with what comes back (… for the same).
SAMPLES: list[tuple[str, dict[str, Any], list[tuple[Any, Any]]]] = [
    (
        "generic",
        {},
        [(F32, ...), (F32[:0], ...), (F32.T, ...), (F32[::2, ::-1], ...), (np.float32(3), ...), (None, ...)],
    ),
    ("generic", {}, [(np.array([1 + 2j]), ...), (np.zeros((2, 0, 3), complex), ...)]),
    ("generic", {}, [([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])), (7, np.int64(7)), ([], np.zeros(0, np.int64))]),
    ("generic", {}, [(np.array([True, False]), ...), (np.bool_(True), ...)]),
    ("generic", {"dtype": "int16"}, [(np.arange(3), np.arange(3, dtype=np.int16)), (-5, np.int16(-5))]),
    (
        "generic",
        {"dtype": "uint64", "shape": ()},
        [(2**64 - 1, np.uint64(2**64 - 1)), (np.uint64(5), ...), (None, ...)],
    ),
    ("generic", {"dtype": "int64", "shape": ()}, [(-(2**63), np.int64(-(2**63))), (0, np.int64(0))]),
    (
        "generic",
        {"dtype": "float64", "shape": ()},
        [(0.1, np.float64(0.1)), (np.float64("nan"), ...), (-0.0, np.float64(-0.0))],
    ),
    ("generic", {"dtype": "float32", "shape": ()}, [(0.1, np.float32(0.1)), (np.float32("inf"), ...)]),
    ("generic", {"dtype": "float16", "shape": ()}, [(0.1, np.float16(0.1))]),
    ("generic", {"dtype": "bool", "shape": ()}, [(True, np.True_), (np.False_, ...)]),
    ("generic", {"dtype": ">i4"}, [(np.array([1, -2], ">i4"), np.array([1, -2], np.int32))]),
    ("generic", {"compression": "zstd:3"}, [(np.zeros(5000), ...), (np.arange(3.0), ...)]),
    ("generic", {"compression": None}, [(np.zeros(5000), ...)]),
    ("image", {}, [(COLOUR, ...), (COLOUR[..., :1], ...), (GRAY, GRAY[..., None]), (np.dstack([COLOUR, GRAY]), ...)]),
    (
        "image",
        {"dtype": "uint16"},
        [(COLOUR.astype(np.uint16) * 257, ...), (np.full((1, 1, 1), 65535, np.uint16), ...)],
    ),
    ("image", {"compression": "jpeg"}, [(COLOUR[:0], ...), (COLOUR[:, :0], ...)]),
    ("image", {"compression": "bmp"}, [(COLOUR, ...)]),
    ("image", {"compression": "tiff"}, [(COLOUR, ...)]),
    ("image", {"compression": None}, [(COLOUR, ...)]),
    ("image.gray", {}, [(GRAY, ...), (GRAY[::-1, 1:], ...)]),
    ("audio", {"sample_rate": 8000}, [(F32, ...), (F32[:, 0], F32[:, :1])]),
    ("audio", {"sample_rate": 8000, "shape": (None,)}, [(F32[:, 0].copy(), ...)]),
    ("audio", {"sample_rate": 8000, "dtype": "int16"}, [(np.array([[1], [-32768]], np.int16), ...)]),
    ("class_label", {}, [(3, np.uint32(3)), (np.int64(2**32 - 1), np.uint32(2**32 - 1)), (None, ...)]),
    ("class_label", {"class_names": ["cat", "dog"]}, [("dog", np.uint32(1)), (0, np.uint32(0)), (None, ...)]),
    ("class_label", {"dtype": "uint8", "class_names": ["a", "b", "c"]}, [("c", np.uint8(2)), (1, np.uint8(1))]),
    (
        "class_label",
        {"shape": (None,), "class_names": ["a", "b"]},
        [(["b", "a", "b"], np.array([1, 0, 1], np.uint32)), ([1, 1], np.array([1, 1], np.uint32))],
    ),
    ("text", {}, [("", ...), ("hello", ...), ("naïve 🦀\n\0", ...), ("x" * 100_000, ...), (None, ...)]),
    (
        "json",
        {},
        [({"a": [1, None, 2.5, {"b": "ü"}]}, ...), ("text", ...), (5, ...), (True, ...), ([], ...), ({}, ...)],
    ),
    (
        "json",
        {},
        [({"n": np.int32(3), "l": np.arange(3)}, {"n": 3, "l": [0, 1, 2]}), ((1, 2), [1, 2]), (2**64 - 1, ...)],
    ),
    ("list", {}, [([1, "a", None, [2]], ...), ([], ...), ((1, 2), [1, 2])]),
    ("tag", {}, [(["a", "b"], ...), ("one", ["one"]), ([], ...)]),
    (
        "bbox",
        {},
        [(F32, ...), ([[1, 2, 3, 4]], np.array([[1, 2, 3, 4]], np.float32)), (F32[0], F32[:1]), (F32[:0], ...)],
    ),
    ("bbox", {}, [([], np.zeros((0, 4), np.float32)), (F32.astype(np.float64), F32)]),
    ("bbox", {"format": "ltrb", "bbox_type": "fractional"}, [(np.array([[0, 0.25, 1, 0.5]], np.float32), ...)]),
    (
        "bbox",
        {"coords": {"mode": "CCWH", "type": "pixel"}, "dtype": "int32"},
        [([[5, 5, 2, 0]], np.array([[5, 5, 2, 0]], np.int32))],
    ),
    ("bbox.3d", {}, [(np.ones((2, 7), np.float32), ...), (np.ones((3, 8), np.float32), ...)]),
    ("binary_mask", {}, [(GRAY > 99, ...), (COLOUR > 99, ...), ((GRAY > 99).astype(np.uint8), GRAY > 99)]),
    ("segment_mask", {}, [(GRAY.astype(np.uint32), ...), (GRAY, GRAY.astype(np.uint32))]),
    ("segment_mask", {"dtype": "uint8", "class_names": [str(i) for i in range(256)]}, [(GRAY, ...)]),
    ("instance_label", {}, [(GRAY.astype(np.uint32), ...), (np.array([1, 5], np.uint32), ...), (4, np.uint32(4))]),
    ("keypoints", {}, [(np.arange(12, dtype=np.int32).reshape(6, 2), ...)]),
    (
        "keypoints",
        {"keypoints": ["nose", "ear"], "connections": [[0, 1]]},
        [(np.zeros((6, 3), np.int32), ...), (np.zeros((4, 1), np.int32), ...)],
    ),
    (
        "polygon",
        {},
        [
            ([F32[:3, :2].copy(), F32[:, 2:].copy()], ...),
            ([], ...),
            ([[[1, 2], [3, 4]]], [np.array([[1, 2], [3, 4]], np.float32)]),
        ],
    ),
    ("polygon", {"dtype": "float64"}, [([np.ones((4, 3))], ...)]),
    ("point", {}, [(F32[:, :2].copy(), ...), (F32[:, :3].copy(), ...), ([1, 2], np.array([[1, 2]], np.float32))]),
    (
        "embedding",
        {},
        [
            (F32[0], ...),
            (F32.ravel(), ...),
            ([1, 0.5], np.array([1, 0.5], np.float32)),
            (np.arange(2.0), np.arange(2, dtype=np.float32)),
        ],
    ),
    ("embedding", {"size": 4, "dtype": "float16"}, [(np.ones(4), np.ones(4, np.float16)), (None, ...)]),
    (
        "sequence[image]",
        {},
        [([COLOUR, COLOUR[:3], GRAY], [COLOUR, COLOUR[:3], GRAY[..., None]]), ([], ...), (None, ...)],
    ),
    ("sequence[image]", {}, [(np.stack([COLOUR, COLOUR]), [COLOUR, COLOUR])]),
    ("sequence[text]", {}, [(["a", "", "ü"], ...), ([], ...)]),
    ("sequence[json]", {}, [([{"a": 1}, [2], "x", 5], ...)]),
    ("sequence[class_label]", {"class_names": ["a", "b"]}, [(["b", 0], [np.uint32(1), np.uint32(0)]), ([], ...)]),
    ("sequence[bbox]", {}, [([F32, F32[:0]], ...)]),
    ("sequence[generic]", {}, [([F32, F32[0], np.float32(5)], ...), ([F32[:0]], ...)]),
    ("sequence[polygon]", {}, [([[F32[:, :2].copy()], []], ...)]),
    ("sequence[embedding]", {}, [(F32, list(F32))]),
]


@pytest.mark.parametrize(
    ("htype", "options", "samples"), SAMPLES, ids=[f"{n}-{htype}" for n, (htype, _, _) in enumerate(SAMPLES)]
)
def test_good_samples_come_back(
    ds: lacus.Dataset, htype: str, options: dict[str, Any], samples: list[tuple[Any, Any]]
) -> None:
    given = [sample for sample, _ in samples]
    expected = [sample if back is ... else back for sample, back in samples]
    ds.add_column("c", htype, **options)
    assert ds["c"].htype == htype
    for sample in given:
        ds.append({"c": sample})
    ds.extend({"c": given})
    ds.compact()
    for dataset in (ds, lacus.open(ds.url)):
        assert len(dataset) == 2 * len(given)
        for row, value in enumerate(expected * 2):
            same_value(dataset["c"][row], value)
            same_value(dataset[row]["c"], value)
        same_value(list(dataset["c"]), expected * 2)
    # Shapes are known without the samples.
    for shape, value in zip(ds["c"].shapes, expected * 2, strict=True):
        if value is None:
            assert shape is None
        elif isinstance(value, (np.ndarray, np.generic)):
            assert shape == np.shape(value)


def test_bfloat16(ds: lacus.Dataset) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bf16 = np.dtype(ml_dtypes.bfloat16)
    value = np.arange(12, dtype=np.float32).reshape(4, 3).astype(bf16)
    ds.add_column("any")
    ds.add_column("fixed", "embedding", dtype="bfloat16", size=3)
    ds.add_column("number", dtype="bfloat16", shape=())
    ds.extend({"any": value, "fixed": value, "number": value[:, 1]})
    assert ds["any"].dtype == ds["fixed"].dtype == ds["number"].dtype == bf16
    assert_same(ds["any"][1], value[1])
    assert_same(ds["fixed"][:], value)
    assert_same(ds["fixed"][:, 1:], value[:, 1:])
    assert_same(ds["number"][:], value[:, 1])
    assert ds["number"][2].dtype == bf16 and float(ds["number"][2]) == 7
    ds["fixed"][1] = value[3]
    assert_same(ds["fixed"][1], value[3])


def test_a_slice_is_an_array_when_the_shape_is_fixed_and_else_a_list(ds: lacus.Dataset) -> None:
    ds.add_column("fixed", dtype="float32", shape=(2, 3))
    ds.add_column("ragged", dtype="float32", shape=(None, 3))
    ds.add_column("open", dtype="float32")
    ds.add_column("label", "class_label")
    value = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    ds.extend({"fixed": value, "ragged": value, "open": value, "label": range(4)})
    mask = np.array([True, False, False, True])
    for key in (slice(None), slice(1, 3), slice(None, None, -2), [3, 0, 0], mask, slice(0, 0)):
        for name in ("fixed", "label"):
            expected = value if name == "fixed" else np.arange(4, dtype=np.uint32)
            assert_same(ds[name][key], expected[key])
        for name in ("ragged", "open"):
            found = ds[name][key]
            assert isinstance(found, list)
            same_value(found, list(value[key]))
    # Parts follow the same rule.
    assert_same(ds["fixed"][1:3, 0, ::2], value[1:3, 0, ::2])
    assert_same(ds["fixed"][:, 1, 2], value[:, 1, 2])
    assert_same(ds["fixed"][0:0, 1], value[0:0, 1])
    same_value(ds["ragged"][1:3, 0, ::2], list(value[1:3, 0, ::2]))
    same_value(ds["open"][:, 1, 2], list(value[:, 1, 2]))
    # One row is a sample, whatever it is counted by.
    for row in (-1, np.int64(3), np.array(3)):
        assert_same(ds["fixed"][row], value[3])
    assert_same(np.asarray(ds["fixed"]), value)
    with pytest.raises(ValueError, match="different shapes"):
        np.asarray(ds["ragged"])
    # What is missing is None, so it cannot be an array.
    ds["fixed"][1] = None
    found = ds["fixed"][:3]
    assert isinstance(found, list) and found[1] is None
    assert ds["fixed"][1] is None and ds["fixed"][1, 0] is None
    assert isinstance(ds["fixed"][2:], np.ndarray)


def test_parts_of_samples_follow_numpy(ds: lacus.Dataset) -> None:
    ds.add_column("image", "image")
    ds.add_column("volume", compression="zstd")
    volume = RNG.integers(0, 9, (6, 7, 8), dtype=np.int16)
    ds.append({"image": COLOUR, "volume": volume})
    for name, value in (("image", COLOUR), ("volume", volume)):
        column = ds[name]
        assert_same(column[0, 1:6, 2:5], value[1:6, 2:5])
        assert_same(column[0, -1], value[-1])
        assert_same(column[0, ..., 1], value[..., 1])
        assert_same(column[0, ::-2, ::3], value[::-2, ::3])
        assert_same(column[0, [3, 1]], value[[3, 1]])
        assert_same(column[0, None, 2], value[None, 2])
        assert_same(column[0, 50:], value[50:])
        assert column[0, 1, 2, 1] == value[1, 2, 1]
        for wrong in ((0, 50), (0, 0, 0, 0, 0), (5, 0)):
            with pytest.raises(IndexError):
                column[wrong]


def test_parts_of_sequences_and_polygons(ds: lacus.Dataset) -> None:
    ds.add_column("frames", "sequence[image]")
    ds.add_column("outlines", "polygon")
    outlines = [F32[:3, :2].copy(), F32[:, 2:].copy()]
    ds.append({"frames": [COLOUR, COLOUR[:3], COLOUR[1:]], "outlines": outlines})
    assert ds["frames"].shapes == [(3,)] and ds["outlines"].shapes == [(2,)]
    assert_same(ds["frames"][0, 1], COLOUR[:3])
    assert_same(ds["frames"][0, -1, 2:4, ::2], COLOUR[1:][2:4, ::2])
    same_value(ds["frames"][0, 1:], [COLOUR[:3], COLOUR[1:]])
    assert_same(ds["outlines"][0, 1], outlines[1])
    with pytest.raises(IndexError):
        ds["frames"][0, 3]


def test_large_samples_are_tiled_and_sliced_in_part(ds: lacus.Dataset) -> None:
    large = RNG.integers(0, 1 << 30, (1500, 1200), dtype=np.int32)
    assert large.nbytes > 4 << 20
    ds.add_column("x", compression=None)
    ds.extend({"x": [large, large[:2], large.T]})
    files = {path for path in Path(ds.url).rglob("*.parquet")}
    assert ds["x"].shapes == [(1500, 1200), (2, 1200), (1200, 1500)]
    for _ in range(2):
        assert_same(ds["x"][0], large)
        assert_same(ds["x"][1], large[:2])
        assert_same(ds["x"][2], large.T)
        assert_same(ds["x"][0, 700:710, ::100], large[700:710, ::100])
        assert_same(ds["x"][2, -1], large.T[-1])
        assert_same(ds["x"][0, 3, 4], large[3, 4])
        ds.compact()
    # A part is put together from its tiles alone: the rest may be damaged.
    ds2 = lacus.create(f"{ds.url}-2")
    ds2.add_column("x", compression=None)
    ds2.append({"x": large})
    (file,) = (path for path in Path(ds2.url).rglob("*.parquet") if path.stat().st_size > 4 << 20)
    content = bytearray(file.read_bytes())
    place = content.find(large[-1, -100:].tobytes())
    assert place > 0
    content[place + 7] ^= 0xFF
    file.write_bytes(content)
    damaged = lacus.open(ds2.url)
    assert_same(damaged["x"][0, :5, :5], large[:5, :5])
    with pytest.raises(lacus.CorruptError):
        damaged["x"][0]
    assert files


@pytest.mark.parametrize("format", ["jpeg", "png", "webp", "gif", "bmp", "tiff"])
def test_files_are_kept_as_they_came(ds: lacus.Dataset, format: str, tmp_path: Path) -> None:
    pictures = [picture(RNG), picture(RNG, 5, 4)]
    files = encoded(ds, pictures, format)
    path = tmp_path / f"a.{format}"
    path.write_bytes(files[0])
    ds.add_column("image", "image")
    ds.add_column("strict", "image", compression=format)
    ds.append({"image": lacus.read(path), "strict": lacus.read(str(path))})
    ds.extend({"image": [files[1], bytearray(files[0])], "strict": [lacus.read(files[1]), None]})
    for _ in range(2):
        assert ds["image"].bytes_of(slice(None)) == [files[0], files[1], files[0]]
        assert ds["strict"].bytes_of([2, 1, 0]) == [None, files[1], files[0]]
        assert ds["image"].bytes(-1) == files[0] == path.read_bytes()
        assert ds["image"].shapes == [(20, 30, 3), (5, 4, 3), (20, 30, 3)]
        assert ds["image"].shape_of(1) == (5, 4, 3) and ds["strict"].shape_of(2) is None
        ds.compact()
    decoded = lacus.read(path).array
    assert_same(ds["image"][0], decoded)
    assert_same(ds["image"][0, 3:9, 4:8], decoded[3:9, 4:8])
    if format not in ("jpeg", "webp", "gif"):
        assert_same(decoded, pictures[0])
    else:
        assert np.abs(decoded.astype(int) - pictures[0]).mean() < 12


def test_other_files_are_encoded_anew(ds: lacus.Dataset) -> None:
    value = RNG.integers(0, 255, (7, 9, 3), dtype=np.uint8)
    ds.add_column("bmp", "image", compression="bmp")
    ds.add_column("mask", "segment_mask")
    ds.add_column("any")
    ds.append({"bmp": png(value), "mask": png(value[..., 0]), "any": png(value)})
    stored = ds["bmp"].bytes(0)
    assert stored is not None and stored[:2] == b"BM"
    assert_same(ds["bmp"][0], value)
    assert_same(ds["mask"][0], value[..., 0].astype(np.uint32))
    assert_same(ds["any"][0], value)


def test_lazy_samples(tmp_path: Path) -> None:
    value = RNG.integers(0, 65535, (3, 4, 3), dtype=np.uint16)
    (tmp_path / "deep.png").write_bytes(png(value))
    sample = lacus.read(tmp_path / "deep.png")
    assert (sample.format, sample.shape, sample.dtype) == ("png", (3, 4, 3), np.dtype(np.uint16))
    assert_same(sample.array, value)
    assert_same(np.asarray(sample, np.int64), value.astype(np.int64))
    assert sample.bytes == (tmp_path / "deep.png").read_bytes() and sample.path == str(tmp_path / "deep.png")
    assert pickle.loads(pickle.dumps(sample)).bytes == sample.bytes
    assert "deep.png" in repr(sample)
    sound = lacus.read(wav(np.zeros((400, 2), np.int16)))
    assert (sound.format, sound.shape, sound.path) == ("wav", (400, 2), None)
    assert sound.details
    with pytest.raises(lacus.NotFoundError, match="nowhere.png"):
        lacus.read(tmp_path / "nowhere.png")
    with pytest.raises(lacus.InvalidError):
        lacus.read(b"no media").format
    (tmp_path / "deep.png").unlink()
    with pytest.raises(lacus.NotFoundError, match="deep.png"):
        sample.bytes


def test_sounds(ds: lacus.Dataset) -> None:
    sound = RNG.integers(-30000, 30000, (300, 2)).astype(np.int16)
    file = wav(sound)
    ds.add_column("float", "audio")
    ds.add_column("int", "audio", dtype="int16")
    ds.append({"float": file, "int": file})
    assert ds["float"].bytes(0) == ds["int"].bytes(0) == file
    assert ds["float"].shapes == [(300, 2)]
    assert_same(ds["int"][0], sound)
    assert_same(ds["float"][0], (sound / 32768).astype(np.float32))
    assert_same(ds["int"][0, 100:110, 1], sound[100:110, 1])


def test_medical_pictures(ds: lacus.Dataset) -> None:
    pixels = RNG.integers(0, 65535, (6, 5), dtype=np.uint16)
    file = dicom(pixels)
    ds.add_column("scan", "dicom")
    ds.append({"scan": file})
    assert ds["scan"].bytes(0) == file
    shape = ds["scan"].shape_of(0)
    found = ds["scan"][0]
    assert shape == found.shape
    assert np.array_equal(found.squeeze(), pixels)


@pytest.mark.parametrize("name", ["test.mp4", "test.webm"])
def test_videos(ds: lacus.Dataset, name: str) -> None:
    path = Path(__file__).parents[2] / "crates" / "lacus_media" / "tests" / "data" / name
    ds.add_column("video", "video")
    ds.append({"video": lacus.read(path)})
    assert ds["video"].bytes(0) == path.read_bytes()
    shape = ds["video"].shape_of(0)
    assert shape is not None and shape == lacus.read(path).shape and len(shape) == 4 and shape[3] == 3
    if shutil.which("ffmpeg"):
        assert ds["video"][0].shape == shape
        assert_same(ds["video"][0, 1:3], ds["video"][0][1:3])
    else:
        with pytest.raises(lacus.LacusError, match="ffmpeg"):
            ds["video"][0]


def test_names_of_classes(ds: lacus.Dataset) -> None:
    label = ds.add_column("label", "class_label", class_names=np.array(["cat", "dog"]))
    ds.extend({"label": ["dog", None, 0]})
    assert label.class_names == ["cat", "dog"]
    assert label.names(slice(None)) == ["dog", None, "cat"] and label.names(0) == "dog"
    label.add_class_names(["cow", "dog"])
    assert label.class_names == ["cat", "dog", "cow"]
    label[1] = "cow"
    assert label[:].tolist() == [1, 2, 0]
    assert lacus.open(ds.url)["label"].names([1]) == ["cow"]


def test_what_is_known_of_a_column(ds: lacus.Dataset) -> None:
    made = ds.add_column("box", "bbox", format="ltrb", metadata={"source": "hand"})
    assert made.options == {"coords": {"type": "pixel", "mode": "LTRB"}} and made.metadata == {"source": "hand"}
    assert made.dtype == np.float32 and made.sample_shape == (None, 4) and made.shape == (0, None, 4)
    later = ds.add_column("later")
    assert later.dtype is None and later.sample_shape is None
    ds.append({"later": np.float16(1), "box": np.zeros((2, 4))})
    assert later.dtype == np.float16 and made.stored_bytes > 0 and bool(made) and len(made) == 1
    assert ds.add_column("t", "text").dtype is None
    summary = ds.summary()
    assert summary.rows == 1 and [c.name for c in summary.columns] == ["box", "later", "t"]
    box = summary.columns[0]
    assert (box.htype, box.dtype, box.samples, box.shape_range) == ("bbox", "float32", 1, ((2, 4), (2, 4)))
    assert "bbox" in repr(summary) and "box" in repr(ds) and "bbox" in ds._repr_html_() and "bbox" in repr(made)


def test_bytes_of_what_is_no_file(ds: lacus.Dataset) -> None:
    ds.add_column("text", "text")
    ds.add_column("json", "json")
    ds.add_column("raw", compression=None)
    ds.add_column("n", "class_label")
    ds.append({"text": "ü", "json": {"a": 1}, "raw": np.arange(3, dtype=np.int16), "n": 3})
    assert ds["text"].bytes(0) == "ü".encode()
    assert ds["json"].bytes(0) == b'{"a":1}'
    assert ds["raw"].bytes(0) == np.arange(3, dtype=np.int16).tobytes()
    with pytest.raises(lacus.InvalidError, match='"n" are numbers'):
        ds["n"].bytes(0)


def test_masks_are_made_from_pictures(ds: lacus.Dataset) -> None:
    ds.add_column("binary", "binary_mask")
    ds.add_column("segments", "segment_mask")
    ds.add_column("instances", "instance_label")
    mask = (GRAY > 99).astype(np.uint8)
    ds.append({"binary": png(mask), "segments": png(GRAY), "instances": png(GRAY)})
    assert_same(ds["binary"][0], GRAY > 99)
    assert_same(ds["segments"][0], GRAY.astype(np.uint32))
    assert_same(ds["instances"][0], GRAY.astype(np.uint32))


def test_a_mask_of_rows_with_missing_samples(ds: lacus.Dataset) -> None:
    ds.add_column("label", "class_label")
    ds.extend({"label": [1, None, 0, 1]})
    with pytest.raises(lacus.InvalidError, match="np.array"):
        ds["label"][ds["label"][:] == 1]
    assert ds[np.array(ds["label"][:]) == 1].positions == [0, 3]
    ds["label"][np.array(ds["label"][:]) == 1] = 7
    assert ds["label"][:] == [7, None, 0, 7]
