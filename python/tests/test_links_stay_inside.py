"""Links are followed where the reader allows it, and nowhere else."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from media import encoded, picture, png
from same import assert_same
from workers import ENVIRONMENT

import lacus


@pytest.fixture
def album(tmp_path: Path, rng: np.random.Generator) -> list[Path]:
    """Three pictures beside the dataset."""
    place = tmp_path / "album with space"
    place.mkdir()
    paths = [place / f"{i} ü.png" for i in range(3)]
    for path in paths:
        path.write_bytes(png(picture(rng, 6, 8)))
    return paths


def test_links_are_followed(ds: lacus.Dataset, album: list[Path]) -> None:
    ds.allow_links(album[0].parent)
    ds.add_column("one", "link[image]")
    ds.add_column("many", "sequence[link[image]]")
    values = [lacus.read(path).array for path in album]
    ds.extend(
        {
            "one": [lacus.link(album[0]), str(album[1]), lacus.link(album[2].as_uri()), None],
            "many": [[lacus.link(path) for path in album], [str(album[1])], [], None],
        }
    )
    assert ds["one"].htype == "link[image]"
    # Only the URLs are stored.
    assert ds["one"].stored_bytes < 2000
    for dataset in (ds, pickle.loads(pickle.dumps(ds))):
        for row, value in enumerate(values):
            assert_same(dataset["one"][row], value)
        assert dataset["one"][3] is None and dataset["many"][2:] == [[], None]
        assert [found.tobytes() for found in dataset["many"][0]] == [value.tobytes() for value in values]
        assert_same(dataset["one"][1, 2:4, ::2], values[1][2:4, ::2])
        assert_same(dataset["many"][0, 2, 1:3], values[2][1:3])
        assert dataset["one"].bytes(0) == album[0].read_bytes()
        assert dataset["one"].shapes == [(6, 8, 3)] * 3 + [None]
        assert [row["one"] is None for row in dataset] == [False, False, False, True]
    # What lies there is read when it is asked for.
    album[0].write_bytes(album[1].read_bytes())
    assert_same(ds["one"][0], values[1])


def test_links_under_the_dataset_need_no_leave(ds: lacus.Dataset, album: list[Path]) -> None:
    inside = Path(ds.url) / "media"
    inside.mkdir()
    (inside / "a.png").write_bytes(album[0].read_bytes())
    ds.add_column("image", "link[image]")
    ds.append({"image": lacus.link(inside / "a.png")})
    assert_same(lacus.open(ds.url)["image"][0], lacus.read(album[0]).array)


def test_links_outside_are_refused(ds: lacus.Dataset, album: list[Path], tmp_path: Path) -> None:
    ds.add_column("n", dtype="int8", shape=())
    ds.add_column("image", "link[image]")
    ds.append({"n": 0})
    version = ds.version
    place = album[0].parent
    forbidden = [
        str(album[0]),
        album[0].as_uri(),
        f"{ds.url}/../{place.name}/{album[0].name}",
        f"file://{ds.url}/%2e%2e/x.png",
        f"{ds.url}-other/a.png",
        "/etc/passwd",
        "s3://bucket/key.png",
        "http://127.0.0.1:1/x.png",
        "memory://elsewhere/x.png",
        "nonsense://x",
    ]
    for url in forbidden:
        for link in (url, lacus.link(url)):
            with pytest.raises(lacus.InvalidError, match="not allowed") as caught:
                ds.extend({"n": [1, 2], "image": [None, link]})
            assert 'column "image", row 1' in str(caught.value)
            with pytest.raises(lacus.InvalidError, match="not allowed"):
                ds["image"][0] = link
    report = ds.extend({"n": [1, 2], "image": [None, forbidden[0]]}, on_error="skip")
    assert report.rows == 1 and report.skipped[0][0] == 1 and "not allowed" in report.skipped[0][1]
    assert ds.version == version + 1 and len(ds) == 2


def test_the_reader_decides(ds: lacus.Dataset, album: list[Path], tmp_path: Path) -> None:
    """What a writer allowed is not allowed to whoever opens the dataset next."""
    ds.allow_links(album[0].parent)
    ds.add_column("image", "link[image]")
    ds.add_column("n", dtype="int8", shape=())
    ds.append({"image": lacus.link(album[0]), "n": 5})
    stranger = lacus.open(ds.url)
    with pytest.raises(lacus.InvalidError, match="not allowed"):
        stranger["image"][0]
    with pytest.raises(lacus.InvalidError, match="not allowed"):
        stranger["image"].bytes(0)
    assert stranger["n"][0] == 5
    stranger.allow_links(tmp_path)
    assert_same(stranger["image"][0], lacus.read(album[0]).array)
    code = "import sys, lacus; print(lacus.open(sys.argv[1])['image'][0].shape)"
    environment = {**ENVIRONMENT, "LACUS_LINK_ROOTS": f"/nowhere, {tmp_path}"}
    found = subprocess.run(
        [sys.executable, "-c", code, ds.url], capture_output=True, text=True, env=environment, timeout=60
    )
    assert found.stdout.strip() == "(6, 8, 3)", found.stderr


def test_symbolic_links_do_not_lead_out(ds: lacus.Dataset, album: list[Path]) -> None:
    """A dataset unpacked from an archive may hold symbolic links to anywhere."""
    os.symlink(album[0], Path(ds.url) / "inside.png")
    os.symlink(album[0].parent, Path(ds.url) / "directory")
    ds.add_column("image", "link[image]")
    for name in ("inside.png", f"directory/{album[1].name}"):
        with pytest.raises(lacus.LacusError):
            ds.append({"image": f"{ds.url}/{name}"})
    assert len(ds) == 0


def test_missing_and_broken_targets(ds: lacus.Dataset, album: list[Path]) -> None:
    place = album[0].parent
    ds.allow_links(place)
    ds.add_column("image", "link[image]")
    version = ds.version
    with pytest.raises(lacus.LacusError, match="none.png") as caught:
        ds.extend({"image": [str(album[0]), str(place / "none.png")]})
    assert 'column "image", row 1' in str(caught.value)
    assert ds.version == version
    report = ds.extend({"image": [str(album[0]), str(place / "none.png"), str(album[1])]}, on_error="skip")
    assert report.rows == 2 and [row for row, _ in report.skipped] == [1]
    # Gone since: an error that says what, and other rows are fine.
    album[0].unlink()
    with pytest.raises(lacus.NotFoundError, match="0 "):
        ds["image"][0]
    album[1].write_bytes(b"no picture")
    with pytest.raises(lacus.LacusError, match='column "image", row 1'):
        ds["image"][1]
    ds["image"][1] = str(album[2])
    assert ds["image"][1].shape == (6, 8, 3)


def test_samples_that_are_no_links(ds: lacus.Dataset, rng: np.random.Generator, album: list[Path]) -> None:
    ds.add_column("link", "link[image]")
    ds.add_column("image", "image")
    (jpeg,) = encoded(ds, [picture(rng)], "jpeg")
    ds.allow_links(album[0].parent)
    for sample in (picture(rng), jpeg, 5):
        with pytest.raises(lacus.InvalidError, match="expected a link"):
            ds.append({"link": sample})
    with pytest.raises(lacus.InvalidError, match="found a link"):
        ds.append({"image": lacus.link(album[0])})
    with pytest.raises(lacus.InvalidError, match="empty"):
        lacus.link("")
    assert len(ds) == 0 and str(album[0]) in repr(lacus.link(album[0]))


def test_relative_links_mean_what_they_meant(
    ds: lacus.Dataset, album: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A path is relative to where its writer was, not to where a reader is."""
    ds.allow_links(album[0].parent)
    ds.add_column("image", "link[image]")
    monkeypatch.chdir(album[0].parent)
    ds.append({"image": lacus.link(album[0].name)})
    ds.append({"image": album[0].name})
    monkeypatch.chdir(tmp_path)
    for row in (0, 1):
        assert_same(ds["image"][row], lacus.read(album[0]).array)
