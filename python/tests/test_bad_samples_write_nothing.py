"""Samples that do not fit: an error of the right kind that names the column and the place, and nothing written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import encoded, picture, png, png_claiming, wav
from workers import ENVIRONMENT

import lacus

IMAGE = np.zeros((4, 5, 3), np.uint8)


def files(ds: lacus.Dataset) -> set[str]:
    """All files that hold data or say which there are; ids that were reserved and not used are no loss."""
    found = {str(path.relative_to(ds.url)) for path in Path(ds.url).rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith("_lacus/rows/")}


@pytest.fixture
def full(ds: lacus.Dataset) -> lacus.Dataset:
    """A dataset with a column of many types and two rows."""
    ds.add_column("image", "image")
    ds.add_column("jpeg", "image", compression="jpeg")
    ds.add_column("shallow", "image", dtype="uint8")
    ds.add_column("label", "class_label", class_names=["cat", "dog"])
    ds.add_column("box", "bbox")
    ds.add_column("ltrb", "bbox", format="ltrb", bbox_type="fractional")
    ds.add_column("text", "text")
    ds.add_column("tag", "tag")
    ds.add_column("list", "list")
    ds.add_column("vector", "embedding", size=3)
    ds.add_column("n", dtype="int8", shape=())
    ds.add_column("real", dtype="float64", shape=())
    ds.add_column("sound", "audio")
    ds.add_column("points", "keypoints", keypoints=["nose", "ear"])
    ds.add_column("mask", "binary_mask")
    ds.add_column("frames", "sequence[image]")
    ds["array"] = np.arange(3)
    ds.extend({"label": ["cat", "dog"], "n": [1, 2], "image": [IMAGE, None]})
    return ds


# A column, samples the last of which is bad, and what the message says besides the column and the place.
BAD_SAMPLES: list[tuple[str, str, list[Any], str]] = [
    ("no picture", "image", [IMAGE, b"no picture"], "no known media format"),
    ("empty file", "image", [IMAGE, b""], "no bytes"),
    ("sound for a picture", "image", [IMAGE, wav(np.zeros((5, 1), np.int16))], "a wav file"),
    ("broken header", "image", [IMAGE, png(IMAGE)[:20]], "png"),
    ("bomb", "image", [IMAGE, png_claiming(1 << 20, 1 << 20)], "png"),
    ("deep file to be coded again", "jpeg", [IMAGE, png(IMAGE.astype(np.uint16))], "uint16"),
    ("deep file where a dtype is declared", "shallow", [IMAGE, png(IMAGE.astype(np.uint16))], "uint16"),
    ("path as text", "image", [IMAGE, "a.jpg"], "found text"),
    ("rank 2 of 4", "image", [IMAGE, np.zeros((2, 3, 4, 5), np.uint8)], "(2, 3, 4, 5)"),
    ("channels", "image", [IMAGE, np.zeros((2, 3, 5), np.uint8)], "(2, 3, 5)"),
    ("floats", "image", [IMAGE, np.zeros((2, 3, 3))], "float64 of shape (2, 3, 3)"),
    ("number", "image", [IMAGE, 5], "image: expected uint8 of shape (height, width, channels)"),
    ("unknown class", "label", [0, "dog", "cow"], 'one of the class_names cat, dog, found "cow"'),
    ("class outside", "label", [0, 2], "a class from 0 to 1, found 2"),
    ("negative class", "label", [0, -1], "-1"),
    ("half a class", "label", [0, 0.5], "found float64"),
    ("true", "label", [0, True], "found bool"),
    ("negative width", "box", [[1, 2, 3, 4], [[0, 0, 1, 1], [0, 0, -1, 1]]], "box 1 of [0, 0, -1, 1]"),
    ("three numbers", "box", [[[1, 2, 3]]], "bbox: expected float32 of shape (boxes, 4), found int64 of shape (1, 3)"),
    ("not finite", "box", [np.full((1, 4), np.inf)], "finite"),
    ("left of right", "ltrb", [[0.5, 0, 0.25, 1]], "left ≤ right"),
    ("beyond one", "ltrb", [[0, 0, 0.5, 1.5]], "fractions from 0 to 1"),
    ("number for text", "text", ["a", 3], "text: expected text, found the number 3"),
    ("bytes for text", "text", ["a", b"a"], "text: expected text"),
    ("list for text", "text", ["a", ["a"]], "text: expected text, found a list of 1"),
    ("number for tag", "tag", [["a"], [1]], "tag: expected words"),
    ("dict for list", "list", [[], {}], "list: expected a list"),
    ("size", "vector", [[1, 2, 3], [1, 2]], "embedding: expected float32 of shape (3,), found int64 of shape (2,)"),
    ("ragged", "vector", [[1, 2, [3]]], "embedding"),
    ("words", "vector", [["a", "b", "c"]], "embedding"),
    ("too large", "n", [1, 127, 128], "128"),
    ("float", "n", [1, 1.5], "int8 of shape (), found float64"),
    ("vector for number", "n", [1, [1, 2]], "int8 of shape (), found int64 of shape (2,)"),
    ("text for number", "n", [1, "2"], "found text"),
    ("text for real", "real", [1.0, "2"], "found text"),
    ("elements without rate", "sound", [np.zeros((4, 1), np.float32)], "sample_rate"),
    ("three numbers for two points", "points", [np.zeros((3, 1), int)], "2 keypoints"),
    ("mask of three", "mask", [np.full((2, 2), 3, np.uint8)], "the value 3"),
    ("one of a sequence", "frames", [[IMAGE], [IMAGE, b"x"]], "element 1 of the sequence"),
    ("no sequence", "frames", [[IMAGE], b"x"], "a sequence"),
    # What Python has and no column can hold.
    ("object", "n", [1, object()], "object"),
    ("set", "text", ["a", {1}], "set"),
    ("huge", "n", [1, 2**70], "64 bits"),
    ("surrogates", "text", ["a", "\ud800"], "surrogates"),
    ("masked", "vector", [np.ma.masked_equal([1.0, 2, 3], 1)], "masked"),
    ("times", "n", [1, np.datetime64("2020-01-01")], "datetime64"),
]


@pytest.mark.parametrize(
    ("column", "samples", "message"), [case[1:] for case in BAD_SAMPLES], ids=[case[0] for case in BAD_SAMPLES]
)
def test_bad_samples(full: lacus.Dataset, column: str, samples: list[Any], message: str) -> None:
    version, before = full.version, files(full)
    place = len(samples) - 1
    with pytest.raises(lacus.InvalidError) as caught:
        full.extend({column: samples})
    assert message in str(caught.value)
    assert f'column "{column}", row {place}: ' in str(caught.value)
    with pytest.raises(lacus.InvalidError) as caught:
        full.append({"text": "good", column: samples[-1]})
    assert f'column "{column}", row 0: ' in str(caught.value)
    with pytest.raises(lacus.InvalidError) as caught:
        full[column][1] = samples[-1]
    assert message in str(caught.value) and f'column "{column}", row 1: ' in str(caught.value)
    assert full.version == lacus.open(full.url).version == version and len(full) == 2
    assert files(full) == before
    # The same call leaves the row out and says so.
    report = full.extend({column: samples}, on_error="skip")
    assert report.rows == place and len(full) == 2 + place
    ((row, why),) = report.skipped
    assert row == place and message in why


BAD_CALLS: list[tuple[str, Callable[[lacus.Dataset], object], type[Exception], str]] = [
    ("unequal", lambda ds: ds.extend({"n": [1, 2], "text": ["a"]}), lacus.InvalidError, '"n" has 2, "text" has 1'),
    (
        "unknown column",
        lambda ds: ds.append({"lable": 1}),
        lacus.NotFoundError,
        'no column "lable"; did you mean "label"',
    ),
    ("one of two unknown", lambda ds: ds.extend({"n": [1], "x9": [1]}), KeyError, 'no column "x9"'),
    ("array as column", lambda ds: ds.append({"array": 1}), lacus.InvalidError, '"array" is an array, not a column'),
    ("number as name", lambda ds: ds.append({3: 1}), TypeError, "by name"),  # type: ignore[dict-item]
    ("row as list", lambda ds: ds.append([1]), lacus.InvalidError, "by column"),  # type: ignore[arg-type]
    ("rows as list", lambda ds: ds.extend([{"n": 1}]), lacus.InvalidError, "by column"),  # type: ignore[arg-type]
    ("row of nothing", lambda ds: ds.append({}), lacus.InvalidError, "at least one column"),
    (
        "text as samples",
        lambda ds: ds.extend({"text": "abc"}),
        lacus.InvalidError,
        'column "text": expected a list of samples',
    ),
    ("dict as samples", lambda ds: ds.extend({"text": {"a": 1}}), lacus.InvalidError, 'column "text": expected a list'),
    (
        "number as samples",
        lambda ds: ds.extend({"n": 5}),  # type: ignore
        lacus.InvalidError,
        'column "n": expected a list',
    ),
    (
        "array without axes",
        lambda ds: ds.extend({"n": np.array(5)}),  # type: ignore
        lacus.InvalidError,
        'column "n": expected a list',
    ),
    ("on_error", lambda ds: ds.extend({"n": [1]}, on_error="ignore"), lacus.InvalidError, "on_error"),
    ("put", lambda ds: ds.put("n", np.ones(3)), lacus.InvalidError, '"n" is a column'),
    ("set", lambda ds: ds.__setitem__("n", np.ones(3)), lacus.InvalidError, 'ds["n"][rows] = samples'),
    ("append to a column", lambda ds: ds["n"].append(3), lacus.InvalidError, 'ds.append({"n": sample})'),
    ("set a row", lambda ds: ds.__setitem__(0, {"n": 1}), TypeError, "mean rows"),  # type: ignore[index]
    ("too few", lambda ds: ds["n"].write([0, 1], [5]), lacus.InvalidError, "2 rows are selected, 1 samples are given"),
    ("no samples", lambda ds: ds["n"].write([0, 1], object()), lacus.InvalidError, 'column "n": 2 rows are selected'),
    ("part", lambda ds: ds["image"].write((0, 1), 5), lacus.InvalidError, "a part of a sample cannot be written"),
    ("row past the end", lambda ds: ds["n"].write(2, 5), lacus.OutOfBoundsError, "row 2 is out of bounds for 2 rows"),
    ("mask too short", lambda ds: ds["n"].write([True], [5]), lacus.OutOfBoundsError, "a mask of 1 for 2 rows"),
    ("floats as rows", lambda ds: ds["n"].write([0.5], [5]), lacus.InvalidError, "not by float64"),
    ("truth as row", lambda ds: ds["n"].write(True, 5), lacus.InvalidError, "True or False"),
    ("delete past the end", lambda ds: ds.delete_rows([0, 2]), lacus.OutOfBoundsError, "row 2"),
    ("read past the end", lambda ds: ds[2], IndexError, "row 2 is out of bounds for 2 rows"),
    ("read column past the end", lambda ds: ds["n"][-3], IndexError, "row -3 is out of bounds for 2 rows"),
    ("two indices", lambda ds: ds[0, 1], TypeError, 'ds["name"][3, 10:20]'),
    ("no index", lambda ds: ds[1.5], TypeError, "not by float"),
    ("taken", lambda ds: ds.add_column("n"), lacus.ConflictError, '"n"'),
    ("taken by array", lambda ds: ds.add_column("array"), lacus.ConflictError, '"array"'),
    ("no type", lambda ds: ds.add_column("c", "imgae"), lacus.InvalidError, "did you mean image?"),
    (
        "type as number",
        lambda ds: ds.add_column("c", 3),  # type: ignore[arg-type]
        lacus.InvalidError,
        'column "c": htype',
    ),
    ("dtype of type", lambda ds: ds.add_column("c", "image", dtype="f4"), lacus.InvalidError, "uint8 or uint16"),
    ("no dtype", lambda ds: ds.add_column("c", dtype="f31"), lacus.InvalidError, "'f31' is no dtype"),
    ("rank of type", lambda ds: ds.add_column("c", "image", shape=(3,)), lacus.InvalidError, 'column "c": shape'),
    ("negative size", lambda ds: ds.add_column("c", shape=(-1,)), lacus.InvalidError, 'column "c": shape: -1'),
    (
        "half a size",
        lambda ds: ds.add_column("c", shape=(2.5,)),  # type: ignore
        lacus.InvalidError,
        'column "c": shape',
    ),
    ("compression", lambda ds: ds.add_column("c", compression="zip"), lacus.InvalidError, '"zip" is none of'),
    ("compression of type", lambda ds: ds.add_column("c", compression="jpeg"), lacus.InvalidError, "jpeg does not fit"),
    ("option", lambda ds: ds.add_column("c", "class_label", names=["a"]), lacus.InvalidError, "no such option"),
    (
        "option as object",
        lambda ds: ds.add_column("c", "class_label", class_names={1}),
        lacus.InvalidError,
        'column "c"',
    ),
    (
        "same name twice",
        lambda ds: ds.add_column("c", "class_label", class_names=["a", "a"]),
        lacus.InvalidError,
        '"a"',
    ),
    ("bad default", lambda ds: ds.add_column("c", "image", default="x"), lacus.InvalidError, 'column "c": image'),
    ("object as default", lambda ds: ds.add_column("c", default=object()), lacus.InvalidError, 'column "c"'),
    ("name", lambda ds: ds.add_column("/c"), lacus.InvalidError, '"/c"'),
    ("name of nothing", lambda ds: ds.add_column(""), lacus.InvalidError, "empty"),
    ("link to text", lambda ds: ds.add_column("c", "link[text]"), lacus.InvalidError, "no files to link to"),
    ("drop nothing", lambda ds: ds.drop_column("c"), lacus.NotFoundError, 'no column "c"'),
    ("drop an array", lambda ds: ds.drop_column("array"), lacus.InvalidError, "not a column"),
    ("rename nothing", lambda ds: ds.rename_column("c", "d"), lacus.NotFoundError, 'no column "c"'),
    ("rename to taken", lambda ds: ds.rename_column("n", "array"), lacus.ConflictError, '"array"'),
    ("text has no parts", lambda ds: ds["text"][0, 1], lacus.InvalidError, '"text"'),
    ("classes as text", lambda ds: ds["label"].add_class_names("cow"), lacus.InvalidError, "a list of texts"),
    ("classes of no label", lambda ds: ds["text"].add_class_names(["cow"]), lacus.InvalidError, 'column "text"'),
    ("buffer", lambda ds: ds.writer("big"), lacus.InvalidError, "'big' is no size"),
    ("buffer of nothing", lambda ds: ds.writer(0), lacus.InvalidError, "not positive"),
    ("writer's on_error", lambda ds: ds.writer(on_error="x"), lacus.InvalidError, "on_error"),
]


@pytest.mark.parametrize(("call", "kind", "message"), [c[1:] for c in BAD_CALLS], ids=[c[0] for c in BAD_CALLS])
def test_bad_calls(
    full: lacus.Dataset, call: Callable[[lacus.Dataset], object], kind: type[Exception], message: str
) -> None:
    version, before = full.version, files(full)
    with pytest.raises(kind) as caught:
        call(full)
    assert message in str(caught.value)
    assert full.version == lacus.open(full.url).version == version and len(full) == 2
    assert files(full) == before


def test_a_broken_picture_among_good_ones(full: lacus.Dataset, rng: np.random.Generator) -> None:
    good = encoded(full, [picture(rng) for _ in range(20)], "jpeg")
    broken = [*good[:7], good[7][:25], *good[8:15], b"\xff\xd8", *good[16:]]
    labels = ["cat"] * 20
    with pytest.raises(lacus.InvalidError, match='column "image", row 7: jpeg'):
        full.extend({"image": broken, "label": labels})
    assert len(full) == 2
    labels[3] = "cow"
    report = full.extend({"image": broken, "label": labels, "n": range(20)}, on_error="skip")
    assert report.rows == 17 and [row for row, _ in report.skipped] == [3, 7, 15]
    kept = [i for i in range(20) if i not in (3, 7, 15)]
    assert full["n"][2:].tolist() == kept
    assert full["image"].bytes_of(slice(2, None)) == [good[i] for i in kept]


def test_a_picture_that_is_cut_off(full: lacus.Dataset, rng: np.random.Generator) -> None:
    """Pictures are not decoded to be stored, but one whose end is missing is no picture."""
    (good,) = encoded(full, [picture(rng, 200, 300)], "jpeg")
    for broken in (good[: len(good) // 2], png(picture(rng, 200, 300))[:-500]):
        with pytest.raises(lacus.InvalidError, match='column "image", row 1'):
            full.extend({"image": [IMAGE, broken]})
    assert len(full) == 2


def test_nan_is_a_number(full: lacus.Dataset) -> None:
    """Also where it is Python's, or numpy's double, which is a kind of it."""
    full.extend({"real": [float("nan"), np.float64("inf"), 1.5]})
    assert np.isnan(full["real"][2]) and full["real"][3] == np.inf and full["real"][4] == 1.5
    full.append({"vector": [1.0, float("nan"), -float("inf")]})
    assert np.isnan(full["vector"][5][1])


def test_a_file_that_is_gone(full: lacus.Dataset, tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path in paths:
        path.write_bytes(png(IMAGE))
    samples = [lacus.read(path) for path in paths]
    paths[1].unlink()
    with pytest.raises(lacus.LacusError, match="1.png"):
        full.extend({"image": samples})
    assert len(full) == 2
    report = full.extend({"image": samples}, on_error="skip")
    assert report.rows == 2 and report.skipped[0][0] == 1 and "1.png" in report.skipped[0][1]


def test_read_only_handles(full: lacus.Dataset) -> None:
    for handle in (lacus.open(full.url, read_only=True), lacus.open(full.url, at=full.version)):
        for call in (
            lambda: handle.append({"n": 1}),
            lambda: handle["n"].write(0, 5),
            lambda: handle.delete_rows(0),
            lambda: handle.add_column("x"),
            lambda: handle.drop_column("n"),
            lambda: handle.rename_column("n", "m"),
        ):
            with pytest.raises(lacus.InvalidError, match="read"):
                call()
    assert lacus.open(full.url).version == full.version


# Run in a process of its own: the limit holds for all that it writes.
FULL_DISK = """
import resource, sys, numpy as np, lacus
ds = lacus.open(sys.argv[1])
version, rows = ds.version, len(ds)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
big = np.random.default_rng(0).integers(0, 255, (1500, 1000, 3), dtype=np.uint8)
for call in (
    lambda: ds.append({"n": 1, "image": big}),
    lambda: ds.extend({"n": [1] * 3, "image": [big] * 3}),
    lambda: ds["image"].write(0, big),
    lambda: ds.add_column("big", "image", default=big),
):
    try:
        call()
        print("no error")
    except lacus.UnavailableError as error:
        print("full:", error)
    assert ds.version == version and len(ds) == rows and "big" not in ds
ds.append({"n": 3})
assert lacus.open(sys.argv[1])["n"][-1] == 3
"""


def test_a_full_disk(full: lacus.Dataset) -> None:
    command = [sys.executable, "-c", FULL_DISK, full.url]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("full:") == 4, found.stdout
    assert full["label"][:].tolist() == [0, 1] and len(lacus.open(full.url)) == 3
