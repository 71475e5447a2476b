"""Writers gather rows and write them in large pieces, each whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from media import png

import lacus


@pytest.fixture
def full(ds: lacus.Dataset) -> lacus.Dataset:
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("x", dtype="uint8")
    ds.add_column("label", "class_label", class_names=["a", "b"])
    return ds


def test_many_rows_are_one_version(full: lacus.Dataset) -> None:
    version = full.version
    with full.writer() as writer:
        for i in range(1000):
            writer.append({"n": i, "x": np.full(i % 7, i % 256, np.uint8)})
        assert len(full) == 0 and writer.rows == 0
    assert writer.rows == len(full) == 1000 and full.version == version + 1
    assert full["n"][:].tolist() == list(range(1000)) and full["x"][5].tolist() == [5] * 5


@pytest.mark.parametrize("buffer", ["10kB", "10 KB", 10_000, "9.765625KiB"])
def test_pieces_have_the_size_of_the_buffer(full: lacus.Dataset, buffer: str | int) -> None:
    version = full.version
    with full.writer(buffer) as writer:
        for i in range(100):
            writer.append({"n": i, "x": np.zeros(1000, np.uint8)})
    pieces = full.version - version
    # 1000 bytes and something for each.
    assert 10 <= pieces <= 15
    assert full["n"][:].tolist() == list(range(100))


def test_columns_may_come_and_go_between_rows(full: lacus.Dataset) -> None:
    with full.writer() as writer:
        writer.append({"n": 0})
        writer.append({"x": [1, 2]})
        writer.extend({"label": ["a", "b"], "n": np.array([2, 3])})
        writer.append({"n": None})
        writer.extend({"n": (i for i in (5, 6))})
        writer.extend({"n": []})
    assert full["n"][:] == [0, None, 2, 3, None, 5, 6] and full["label"][:4] == [None, None, 0, 1]
    assert full["x"].shapes == [None, (2,), None, None, None, None, None]


def test_what_is_gathered_does_not_change(full: lacus.Dataset) -> None:
    """The same array may be filled anew for each row."""
    full.add_column("json", "json")
    full.add_column("frames", "sequence[generic]")
    frame, facts = np.zeros(4, np.uint8), {"list": [0]}
    frames = [frame, frame]
    with full.writer() as writer:
        for i in range(5):
            frame[:] = i
            facts["list"][0] = i
            writer.append({"x": frame, "json": facts, "frames": frames, "n": i})
    for i in range(5):
        assert full["x"][i].tolist() == [i] * 4 and full["json"][i] == {"list": [i]}
        assert full["frames"][i, 1].tolist() == [i] * 4


def test_an_exception_leaves_the_pieces_before_it(full: lacus.Dataset) -> None:
    with pytest.raises(ZeroDivisionError), full.writer(5000) as writer:
        for i in range(100):
            writer.append({"n": i, "x": np.zeros(1000, np.uint8)})
            if i == 37:
                raise ZeroDivisionError
    written = len(full)
    assert 30 <= written < 38 and written == writer.rows
    assert full["n"][:].tolist() == list(range(written))
    with pytest.raises(lacus.InvalidError, match="closed"):
        writer.append({"n": 1})


def test_a_bad_sample_is_named_by_its_place_among_all(full: lacus.Dataset) -> None:
    with pytest.raises(lacus.InvalidError, match='column "label", row 25: .*"cow"'), full.writer(3000) as writer:
        for i in range(100):
            writer.append({"n": i, "x": np.zeros(500, np.uint8), "label": "cow" if i == 25 else "a"})
    # Pieces before it are there, its own is not.
    assert len(full) == writer.rows <= 25 and full["n"][:].tolist() == list(range(len(full)))


def test_skipped_rows_are_told_by_their_place_among_all(full: lacus.Dataset, tmp_path: Path) -> None:
    full.add_column("image", "image")
    path = tmp_path / "a.png"
    path.write_bytes(png(np.zeros((2, 2, 3), np.uint8)))
    with full.writer(3000, on_error="skip") as writer:
        for i in range(100):
            image = b"broken" if i == 60 else lacus.read(path)
            label = "cow" if i % 40 == 25 else "a"
            writer.append({"n": i, "x": np.zeros(500, np.uint8), "label": label, "image": image})
    assert [row for row, _ in writer.skipped] == [25, 60, 65]
    assert 'column "label", row 25' in writer.skipped[0][1] and 'column "image", row 60' in writer.skipped[1][1]
    assert writer.rows == len(full) == 97
    assert full["n"][:].tolist() == [i for i in range(100) if i not in (25, 60, 65)]


def test_files_are_read_when_they_are_appended(full: lacus.Dataset, tmp_path: Path) -> None:
    full.add_column("image", "image")
    path = tmp_path / "a.png"
    with full.writer() as writer:
        for i in range(3):
            path.write_bytes(png(np.full((2, 2, 3), i, np.uint8)))
            writer.append({"image": lacus.read(path)})
            path.unlink()
    assert [int(image[0, 0, 0]) for image in full["image"]] == [0, 1, 2]


def test_what_cannot_be_written_stays_gathered(full: lacus.Dataset) -> None:
    """A failure that was caught inside of the block is told again at its end, not forgotten with the rows."""
    with pytest.raises(lacus.InvalidError, match="row 1"):
        with full.writer() as writer:
            writer.extend({"n": [0, 1], "label": ["a", "cow"]})
            with pytest.raises(lacus.InvalidError, match="row 1"):
                writer.flush()
            writer.append({"n": 2})
    assert len(full) == 0


def test_bad_rows_are_refused_at_once(full: lacus.Dataset) -> None:
    with full.writer() as writer:
        writer.append({"n": 0})
        for row, kind in (({}, lacus.InvalidError), ([1], lacus.InvalidError), ({"no": 1}, lacus.NotFoundError)):
            with pytest.raises(kind):
                writer.append(row)  # type: ignore[arg-type]
        for columns in ({"n": [1, 2], "label": ["a"]}, {"n": "12"}, {"n": 5}):
            with pytest.raises(lacus.InvalidError):
                writer.extend(columns)  # type: ignore[arg-type]
        writer.append({"n": 1})
    assert full["n"][:].tolist() == [0, 1]


def test_flush(full: lacus.Dataset) -> None:
    writer = full.writer()
    writer.append({"n": 1})
    writer.flush()
    writer.flush()
    assert full["n"][:].tolist() == [1] and writer.rows == 1 and full.version == 4
