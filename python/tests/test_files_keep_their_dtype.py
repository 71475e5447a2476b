"""A column of files holds what files hold: each is read in its own dtype."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import dicom, picture, png
from same import assert_same

import lacus

#: Real files, which only some machines have.
REAL = Path(__file__).parents[3] / "shared/data"


def assert_each(found: list[Any], expected: list[Any]) -> None:
    """The same for lists of arrays, some of which are missing."""
    assert isinstance(found, list) and len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one is other if other is None else assert_same(one, other) is None


def test_pictures_of_8_and_16_bits(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    shallow = picture(rng)
    deep = shallow.astype(np.uint16) * 257
    ds.add_column("image", "image")
    ds.add_column("frames", "sequence[image]")
    files = [png(deep), png(shallow)]
    ds.extend({"image": [*files, shallow, None], "frames": [files, [], None, None]})
    assert_each(ds["image"][:], [deep, shallow, shallow, None])
    assert_each(ds["image"][:2, 3:5, ::7], [deep[3:5, ::7], shallow[3:5, ::7]])
    assert_same(ds["image"][0, 3:3], deep[3:3])
    assert_each(ds["frames"][0], [deep, shallow])
    # Arrays have the dtype of the column, and become it where every value fits.
    assert ds["image"].dtype == np.uint8
    ds.append({"image": deep // 257})
    assert_same(ds["image"][-1], shallow)
    with pytest.raises(lacus.InvalidError, match='row 0: image: expected uint8 .*the value [0-9]+'):
        ds.append({"image": deep})
    again = lacus.open(ds.url)
    assert_same(again["image"][0], deep)
    assert_same(again.materialize(f"{ds.url}-copy")["image"][0], deep)
    ds.map(lambda row: row, columns=["image"], inputs=["image"], into=f"{ds.url}-map", on_error="skip")
    assert_same(lacus.open(f"{ds.url}-map")["image"][0], shallow)


def test_a_fixed_shape_is_one_array_where_dtypes_agree(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    shallow = picture(rng, 4, 5)
    deep = shallow.astype(np.uint16) * 257
    ds.add_column("image", "image", shape=(4, 5, 3))
    ds.extend({"image": [png(shallow), png(shallow), png(deep), png(deep)]})
    assert_same(ds["image"][:2], np.stack([shallow, shallow]))
    assert_same(ds["image"][2:], np.stack([deep, deep]))
    assert_each(ds["image"][1:3], [shallow, deep])
    assert_each(ds["image"][:, 1], [shallow[1], shallow[1], deep[1], deep[1]])
    with pytest.raises(ValueError, match="different shapes or dtypes"):
        np.asarray(ds["image"])
    assert_same(np.stack([sample.astype(np.uint16) for sample in ds["image"]])[0], shallow.astype(np.uint16))


def test_a_declared_dtype_is_kept_to(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    deep = picture(rng).astype(np.uint16)
    ds.add_column("deep", "image", dtype="uint16")
    ds.add_column("scan", "dicom", dtype="int16")
    ds.add_column("plain", "image", compression="none")
    for again in (ds, lacus.open(ds.url)):
        again.append({"deep": png(deep)})
        for row in ({"deep": png(picture(rng))}, {"scan": dicom(deep[:, :, 0])}, {"plain": png(deep)}):
            with pytest.raises(lacus.InvalidError, match="expected .* found a .* file of uint"):
                again.append(row)


def test_links_lead_to_files_of_any_dtype(ds: lacus.Dataset, tmp_path: Path, rng: np.random.Generator) -> None:
    (tmp_path / "deep.png").write_bytes(png(picture(rng).astype(np.uint16)))
    (tmp_path / "shallow.png").write_bytes(png(picture(rng)))
    ds.allow_links(tmp_path)
    ds.add_column("linked", "link[image]")
    ds.extend({"linked": [str(tmp_path / "deep.png"), str(tmp_path / "shallow.png")]})
    assert [sample.dtype for sample in ds["linked"]] == [np.uint16, np.uint8]


def signed(pixels: np.ndarray[Any, Any]) -> bytes:
    """A DICOM file whose pixels are signed."""
    data = dicom(pixels.view(np.uint16))
    tag = b"\x28\x00\x03\x01US\x02\x00"
    assert data.count(tag + b"\0\0") == 1
    return data.replace(tag + b"\0\0", tag + b"\1\0")


def test_dicom_files_of_any_dtype(ds: lacus.Dataset) -> None:
    unsigned = np.arange(12, dtype=np.uint16).reshape(3, 4)
    both = [unsigned, -unsigned.astype(np.int16)]
    ds.add_column("scan", "dicom")
    ds.append({"scan": dicom(both[0])})
    ds.append({"scan": signed(both[1])})
    assert ds["scan"].dtype is None
    assert [column.dtype for column in ds.summary().columns] == ["by file"]
    for again in (ds, lacus.open(ds.url)):
        assert_each(again["scan"][:], both)
        assert_each(again["scan"][:, 1], [both[0][1], both[1][1]])


@pytest.mark.skipif(not (REAL / "medical").is_dir(), reason="there are no real files here")
def test_real_files_lie_side_by_side(ds: lacus.Dataset) -> None:
    ds.add_column("scan", "dicom")
    ds.add_column("image", "image")
    scans = sorted((REAL / "medical").glob("*.dcm"))
    report = ds.extend({"scan": [lacus.read(path) for path in scans]}, on_error="skip")
    # JPEG 2000 is not read, and so not taken.
    assert [scans[row].name for row, _ in report.skipped] == ["J2K_pixelrep_mismatch.dcm"]
    kept = [lacus.read(path) for path in scans if not path.name.startswith("J2K")]
    assert_each(ds["scan"][:], [sample.array for sample in kept])
    assert len({str(sample.dtype) for sample in ds["scan"]}) > 1
    pictures = [lacus.read(path) for path in sorted((REAL / "geo_micro").glob("*.[tT][iI][fF]"))]
    pictures = [sample for sample in pictures if len(sample.shape) in (2, 3) and (*sample.shape, 1)[2] <= 4]
    before = len(ds)
    ds.extend({"image": pictures})
    for sample, found in zip(pictures, ds["image"][before:], strict=True):
        assert_same(found, sample.array.reshape(found.shape))
