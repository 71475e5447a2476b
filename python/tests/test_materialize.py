"""A copy of a version elsewhere: the same rows, links followed, nothing of what was replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import encoded, picture, png
from same import assert_same

import lacus


@pytest.fixture
def full(ds: lacus.Dataset, rng: np.random.Generator, tmp_path: Path) -> lacus.Dataset:
    """Columns of all kinds of storage, changed here and there."""
    files = encoded(ds, [picture(rng, 6 + i, 8) for i in range(12)], "jpeg")
    ds.add_column("image", "image", metadata={"camera": "a"})
    ds.add_column("label", "class_label", class_names=["a", "b"])
    ds.add_column("real", dtype="float64", shape=())
    ds.add_column("text", "text")
    ds.add_column("box", "bbox", format="ltrb")
    ds.add_column("vector", "embedding", size=4)
    ds.add_column("frames", "sequence[image]")
    ds.add_column("deep/outline", "polygon")
    ds.add_column("large", compression=None)
    ds.add_column("empty", "json")
    for i in range(12):
        ds.append(
            {
                "image": files[i],
                "label": i % 2,
                "real": i / 3,
                "text": f"row {i}" if i % 4 else None,
                "box": np.full((i % 3, 4), i),
                "vector": np.full(4, i),
                "frames": [picture(rng, 3, 3)] * (i % 3),
                "deep/outline": [np.full((3, 2), i)],
                "large": np.full((1100, 1000), i, np.int32) if i in (3, 4) else np.zeros(3, np.int32),
            }
        )
    ds["text"][5] = "changed"
    ds["label"][6] = None
    ds.delete_rows([0, 7])
    ds["weights"] = np.eye(3)
    ds["sparse"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    return ds


def assert_alike(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    elif expected is None or isinstance(expected, str):
        assert found == expected
    else:
        assert_same(found, expected)


def test_everything_is_there(full: lacus.Dataset, tmp_path: Path) -> None:
    copy = full.materialize(tmp_path / "copy")
    full.append({"text": "later"})
    old = lacus.open(full.url, at=full.version - 1)
    for made in (copy, lacus.open(tmp_path / "copy")):
        assert made.columns == old.columns and made.keys() == old.keys() and len(made) == len(old) == 10
        for name in old.columns:
            one, other = made[name], old[name]
            assert (one.htype, one.dtype, one.sample_shape, one.compression) == (
                other.htype,
                other.dtype,
                other.sample_shape,
                other.compression,
            )
            assert one.options == other.options and one.metadata == other.metadata
            assert one.shapes == other.shapes
            assert_alike(list(one), list(other))
        assert made["image"].bytes_of(slice(None)) == old["image"].bytes_of(slice(None))
        assert_same(made["weights"][...], np.eye(3))
        assert_same(made["sparse"][...], old["sparse"][...].todense())
    assert copy.summary().files < full.summary().files
    copy.append({"label": "b"})
    assert copy["label"][-1] == 1 and len(copy) == 11 and len(lacus.open(full.url)) == 11


def test_links_become_what_they_lead_to(ds: lacus.Dataset, rng: np.random.Generator, tmp_path: Path) -> None:
    album = tmp_path / "album"
    album.mkdir()
    values = [picture(rng, 5 + i, 7) for i in range(3)]
    for i, value in enumerate(values):
        (album / f"{i}.png").write_bytes(png(value))
    ds.allow_links(album)
    ds.add_column("one", "link[image]")
    ds.extend({"one": [str(album / "1.png"), None, str(album / "0.png")]})
    copy = ds.materialize(tmp_path / "copy")
    kept = [(album / f"{i}.png").read_bytes() for i in range(3)]
    for path in album.iterdir():
        path.unlink()
    assert copy["one"].htype == "image"
    assert copy["one"].bytes_of(slice(None)) == [kept[1], None, kept[0]]
    assert_same(copy["one"][2], values[0])


def test_sequences_of_links_too(ds: lacus.Dataset, rng: np.random.Generator, tmp_path: Path) -> None:
    values = [picture(rng, 5 + i, 7) for i in range(3)]
    for i, value in enumerate(values):
        (tmp_path / f"{i}.png").write_bytes(png(value))
    ds.allow_links(tmp_path)
    ds.add_column("many", "sequence[link[image]]")
    ds.extend({"many": [[str(tmp_path / f"{i}.png") for i in (2, 0)], [], None]})
    copy = ds.materialize(tmp_path / "copy")
    assert copy["many"].htype == "sequence[image]" and copy["many"][1:] == [[], None]
    assert_alike(copy["many"][0], [values[2], values[0]])


def test_a_failure_leaves_no_half_copy(ds: lacus.Dataset, tmp_path: Path) -> None:
    """The place can be used once the trouble is over."""
    (tmp_path / "a.png").write_bytes(png(np.zeros((2, 2, 3), np.uint8)))
    ds.allow_links(tmp_path)
    ds.add_column("one", "link[image]")
    ds.append({"one": str(tmp_path / "a.png")})
    (tmp_path / "a.png").rename(tmp_path / "b.png")
    with pytest.raises(lacus.LacusError, match="a.png"):
        ds.materialize(tmp_path / "copy")
    (tmp_path / "b.png").rename(tmp_path / "a.png")
    assert len(ds.materialize(tmp_path / "copy")) == 1


def test_what_is_there_is_left_alone(full: lacus.Dataset, tmp_path: Path) -> None:
    other = lacus.create(tmp_path / "other")
    other["x"] = np.arange(3)
    for place in (other.url, full.url):
        with pytest.raises(lacus.ConflictError):
            full.materialize(place)
    assert lacus.open(other.url).keys() == ["x"] and len(lacus.open(full.url)) == 10


def test_a_dataset_of_nothing(ds: lacus.Dataset, tmp_path: Path) -> None:
    assert len(ds.materialize(tmp_path / "one")) == 0
    ds.add_column("x")
    copy = ds.materialize(tmp_path / "two")
    assert copy.columns == ["x"] and len(copy) == 0


def test_computed_columns_are_stored(full: lacus.Dataset, tmp_path: Path) -> None:
    full.commit("all kinds")
    text = (
        "SELECT label, image, text, box, vector * 2 AS twice, real + 1 AS more, upper(text) AS shout, image[0:2, ::2] AS crop,"
        " shape(box)[0] > 0 AS is_boxed, frames"
        " WHERE real >= 0 ORDER BY real DESC"
    )
    view = full.query(text)
    assert isinstance(view, lacus.View) and len(view) == 10
    copied = view.materialize(tmp_path / "copy")
    assert [column for column in copied.view().columns] == view.columns
    assert copied.view().computed == {}
    for name in view.columns:
        assert_alike(list(copied.view()[name]), list(view[name]))
    assert copied["image"].htype == "image" and copied["label"].class_names == ["a", "b"]
    assert copied["twice"].dtype == np.float32 and copied["twice"].shape == (10, 4)
    # Pictures are the same files.
    assert copied["image"].bytes_of(range(10)) == full["image"].bytes_of(view.positions)
    [lineage] = copied.log()[0].lineage
    assert lineage["parameters"]["computed"] == view.computed and "twice" in lineage["outputs"]


def test_functions_of_your_own_are_stored(full: lacus.Dataset, tmp_path: Path) -> None:
    full.commit("all kinds")
    tenfold = lacus.udf(returns="float64", name="tenfold", register=False)(lambda values: values * 10)
    view = full.query("SELECT real, tenfold(real) AS ten", functions=[tenfold])
    copied = view.materialize(tmp_path / "copy")
    assert_same(copied["ten"][:], full["real"][:] * 10)

    def fails(values: Any) -> Any:
        raise ValueError("no")

    wrong = lacus.udf(returns="float64", name="wrong", register=False)(fails)
    with pytest.raises(lacus.InvalidError, match="udf wrong: .*ValueError: no"):
        full.query("SELECT wrong(real) AS x", functions=[wrong]).materialize(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists() or not any((tmp_path / "nothing").rglob("*.parquet"))
