"""Rows come, change and go; what nobody changes stays, and every call is one version."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same import assert_same
from workers import append_rows, delete_and_update

import lacus

PROCESSES = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def blob(number: int) -> np.ndarray[Any, Any]:
    """A sample that tells its number, of a size that depends on it."""
    return np.full(1 + number % 5, number, np.int32)


@pytest.fixture
def full(ds: lacus.Dataset) -> lacus.Dataset:
    """Ten rows of a number, a text and something ragged."""
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("text", "text")
    ds.add_column("blob", dtype="int32")
    ds.extend({"n": range(10), "text": [f"row {i}" for i in range(10)], "blob": [blob(i) for i in range(10)]})
    return ds


def numbers(ds: lacus.Dataset) -> list[Any]:
    """The numbers of all rows, whose other columns are checked to belong to them."""
    found = []
    for row in ds:
        assert row["text"] == f"row {row['n']}"
        assert_same(row["blob"], blob(int(row["n"])))
        found.append(int(row["n"]))
    assert len(found) == len(ds)
    return found


def row_of(number: int) -> dict[str, Any]:
    return {"n": number, "text": f"row {number}", "blob": blob(number)}


def test_each_call_is_one_version(full: lacus.Dataset) -> None:
    assert full.version == 4
    assert full.append(row_of(10)) == full.version == 5
    report = full.extend({"n": [11, 12], "text": ["row 11", "row 12"], "blob": [blob(11), blob(12)]})
    assert (report.version, report.rows, report.skipped) == (6, 2, [])
    assert numbers(full) == list(range(13))
    # Rows of nothing are not a version.
    assert full.extend({"n": []}).rows == 0 and full.version == 6
    full["n"][[]] = []
    assert full.delete_rows([]) == 6
    assert [entry.operation for entry in full.history(2)] == ["APPEND", "APPEND"]


def test_columns_that_are_not_named_have_no_sample(full: lacus.Dataset) -> None:
    full.append({"text": "alone"})
    full.append({"n": None})
    assert full[10] == {"n": None, "text": "alone", "blob": None}
    assert full[11] == {"n": None, "text": None, "blob": None}
    assert full["n"][8:] == [8, 9, None, None]
    assert full["blob"].shapes[8:] == [(4,), (5,), None, None]


def test_rows_by_number_slice_list_and_mask(full: lacus.Dataset) -> None:
    assert full[3]["n"] == full[-7]["n"] == full[np.int8(3)]["n"] == 3
    for key, expected in (
        (slice(2, 5), [2, 3, 4]),
        (slice(None, None, -3), [9, 6, 3, 0]),
        ([5, 5, -1], [5, 5, 9]),
        (np.arange(10) % 4 == 1, [1, 5, 9]),
        (range(3), [0, 1, 2]),
        (slice(20, 30), []),
    ):
        rows = full[key]
        assert len(rows) == len(expected) and rows.positions == expected
        assert [row["n"] for row in rows] == expected == list(rows["n"])
        assert [list(found) for found in rows["blob"]] == [list(blob(i)) for i in expected]
        assert rows.to_dict(["text"]) == {"text": [f"row {i}" for i in expected]}
    rows = full[2:8]
    assert rows[1]["n"] == 3 and [r["n"] for r in rows[::2]] == [2, 4, 6] and "6 of 10 rows" in repr(rows)
    assert set(rows.to_dict()) == {"n", "text", "blob"}
    with pytest.raises(IndexError):
        rows[6]


def test_cells_slices_lists_and_masks_are_updated(full: lacus.Dataset) -> None:
    before = full.version
    full["n"][2] = 20
    full["n"][3:5] = [30, 40]
    full["n"][[9, 0]] = np.array([90, 0])
    full["n"][full["n"][:] == 5] = 50
    full["text"][[1, 1]] = ["lost", "last"]
    full["blob"][-1] = [7, 7, 7]
    full["text"][6:8] = "same"
    full["blob"][0:2] = np.array([[1, 2], [3, 4]], np.int32)
    assert full.version == before + 8
    for dataset in (full, lacus.open(full.url)):
        assert dataset["n"][:].tolist() == [0, 1, 20, 30, 40, 50, 6, 7, 8, 90]
        texts = ["row 0", "last", *(f"row {i}" for i in range(2, 6)), "same", "same", "row 8", "row 9"]
        assert dataset["text"][:] == texts
        assert [b.tolist() for b in dataset["blob"][[0, 1, 2, 9]]] == [[1, 2], [3, 4], [2, 2, 2], [7, 7, 7]]
    full.compact()
    assert full["n"][:].tolist() == [0, 1, 20, 30, 40, 50, 6, 7, 8, 90] and full["text"][7] == "same"


def test_updates_leave_other_columns_files_alone(full: lacus.Dataset) -> None:
    full.add_column("big", compression=None)
    full["big"][:] = [np.zeros(100_000, np.uint8)] * 10
    files = {path: path.stat().st_size for path in Path(full.url).rglob("*") if path.is_file()}
    full["n"][::2] = 5
    new = {path for path in Path(full.url).rglob("*") if path.is_file()} - files.keys()
    assert sum(path.stat().st_size for path in new) < 20_000
    assert all(path.stat().st_size == size for path, size in files.items())


def test_none_clears(full: lacus.Dataset) -> None:
    full["n"][1] = None
    full["text"][2:4] = None
    full["blob"][[5, 6]] = [None, blob(6)]
    for _ in range(2):
        assert full["n"][:3] == [0, None, 2]
        assert full["text"][1:5] == ["row 1", None, None, "row 4"]
        assert full["blob"][5] is None and full["blob"].shapes[4:7] == [(5,), None, (2,)]
        assert len(full) == 10 and full.summary().columns[1].samples == 8
        full.compact()
    full["n"][1] = 1
    full["n"][4] = None
    full["n"][4] = None
    assert full["n"][:6] == [0, 1, 2, 3, None, 5]


def test_rows_past_the_end_are_made_when_not_strict(full: lacus.Dataset) -> None:
    before = full.version
    for key in (10, [3, 12], np.int64(10)):
        with pytest.raises(lacus.OutOfBoundsError, match="out of bounds for 10 rows"):
            full["n"][key] = 5 if np.ndim(key) == 0 else [5, 5]
    assert full.version == before and len(full) == 10
    full["n"].write(12, 12, strict=False)
    assert full.version == before + 1 and len(full) == 13
    assert full["n"][8:] == [8, 9, None, None, 12] and full["text"][10:] == [None] * 3
    full["text"].write(slice(-1, 15), ["a", "b", "c"], strict=False)
    assert len(full) == 15 and full["text"][11:] == [None, "a", "b", "c"]
    full["blob"].write([0, 16], [blob(9), blob(16)], strict=False)
    assert len(full) == 17 and full["blob"].shapes[14:] == [None, None, (2,)]
    full["n"].write(0, 5, strict=False)
    assert len(full) == 17 and full["n"][0] == 5
    with pytest.raises(lacus.OutOfBoundsError):
        full["n"].write(-20, 5, strict=False)
    full.compact()
    assert full["n"][10:] == [None, None, 12, None, None, None, None]


def test_rows_are_deleted_from_every_column(full: lacus.Dataset) -> None:
    ids = full[:].ids
    full.delete_rows(3)
    assert numbers(full) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    full.delete_rows([-1, 0, 0])
    assert numbers(full) == [1, 2, 4, 5, 6, 7, 8]
    full.delete_rows(slice(1, 3))
    full.delete_rows(full["n"][:] == 7)
    assert numbers(full) == [1, 5, 6, 8]
    # Ids stay with their rows, also when others are compacted away, and are not used again.
    assert full[:].ids == [ids[i] for i in (1, 5, 6, 8)]
    full.compact()
    full.append(row_of(11))
    assert numbers(full) == [1, 5, 6, 8, 11]
    assert full[:4].ids == [ids[i] for i in (1, 5, 6, 8)] and full[4:].ids[0] not in ids
    full["n"][1] = 55
    assert full["n"][:].tolist() == [1, 55, 6, 8, 11]
    full.delete_rows(slice(None))
    assert len(full) == 0 and list(full) == [] and full["n"][:].shape == (0,) and full["text"][:] == []
    full.append(row_of(1))
    assert numbers(full) == [1]


def test_columns_come_and_go(full: lacus.Dataset) -> None:
    full.add_column("plain", "class_label")
    full.add_column("five", dtype="float32", shape=(2,), default=[5, 5])
    full.add_column("word", "text", default="word")
    full.add_column("list", "sequence[class_label]", default=["a"], class_names=["a"])
    assert full["plain"][:] == [None] * 10
    assert_same(full["five"][:], np.full((10, 2), 5, np.float32))
    assert full["word"][9] == "word" and full["list"][3] == [0]
    full.append({"word": "new"})
    # A default is for rows that were there.
    assert full["five"][10] is None and full["word"][9:] == ["word", "new"]
    full["plain"][10] = 3
    assert full.columns == ["n", "text", "blob", "plain", "five", "word", "list"]
    assert full.keys() == sorted(full.columns)
    full.rename_column("plain", "deep/plain")
    assert full["deep/plain"][10] == 3 and "plain" not in full
    full.drop_column("five")
    del full["word"]
    assert full.columns == ["n", "text", "blob", "deep/plain", "list"]
    with pytest.raises(KeyError):
        full["five"]
    # The name is free again, and nothing of the old samples is left.
    full.add_column("five", "text")
    assert full["five"][:] == [None] * 11
    full.compact()
    assert full["deep/plain"][10] == 3 and full["five"][0] is None and full["n"][3] == 3


def test_the_dtype_is_that_of_the_first_sample(ds: lacus.Dataset) -> None:
    ds.add_column("x")
    ds.extend({"x": [None, np.int16(3), 4]})
    assert ds["x"].dtype == np.int16
    with pytest.raises(lacus.InvalidError, match="int16"):
        ds.append({"x": 1.5})
    ds.add_column("y")
    ds["y"][1] = np.float32([1, 2])
    assert ds["y"].dtype == np.float32 and ds["x"][2] == 4


def test_groups(ds: lacus.Dataset) -> None:
    train = ds.group("train")
    train.add_column("images", "image")
    train.add_column("labels", "class_label", class_names=["a", "b"])
    ds.add_column("other", "text")
    image = np.zeros((2, 3, 3), np.uint8)
    train.append({"images": image, "labels": "b"})
    train.extend({"labels": [0, 1]})
    assert train.keys() == train.columns == ["images", "labels"] and "labels" in train and "other" not in train
    assert ds["train/labels"][:].tolist() == train["labels"][:].tolist() == [1, 0, 1]
    assert ds.group("train").name == "train" and "images" in repr(train)
    ds["train/deep/x"] = np.arange(3)
    assert train.group("deep")["x"][1] == 1 and train.keys() == ["deep/x", "images", "labels"]
    del train["images"]
    assert ds.columns == ["train/labels", "other"]
    with pytest.raises(TypeError, match="names"):
        train[0]  # type: ignore[index]
    with pytest.raises(lacus.InvalidError, match="by column"):
        train.append([1])  # type: ignore[arg-type]
    for wrong in ("", "/", "a/", "/a"):
        with pytest.raises(lacus.InvalidError):
            ds.group(wrong)


def test_older_versions_stay(full: lacus.Dataset) -> None:
    first = full.version
    full["n"][0] = 100
    full.delete_rows([1, 2])
    full.append(row_of(50))
    full.drop_column("text")
    full.add_column("late", "text", default="x")
    full.compact()
    for version in (first, first + 1):
        old = lacus.open(full.url, at=version)
        assert len(old) == 10 and old.columns == ["n", "text", "blob"]
        assert old["n"][:].tolist() == [0 if version == first else 100, *range(1, 10)]
        assert old["text"][3] == "row 3" and old["blob"][9].tolist() == [9] * 5
    assert len(lacus.open(full.url, at=2)) == 0
    assert full["n"][:].tolist() == [100, 3, 4, 5, 6, 7, 8, 9, 50]


def test_rows_and_loops_stay_at_their_version(full: lacus.Dataset) -> None:
    """Whoever writes inside of a loop over rows sees all rows, each once."""
    more = [row_of(i) for i in range(10, 600)]
    full.extend({name: [row[name] for row in more] for name in more[0]})
    rows = full[5:8]
    seen, column = [], []
    for row, number in zip(full, full["n"], strict=True):
        seen.append(int(row["n"]))
        column.append(int(number))
        if row["n"] % 300 == 0:
            full.delete_rows(0)
            full["n"][5] = 12345
    assert seen == column == list(range(600)) and len(full) == 598
    assert rows["n"].tolist() == [5, 6, 7] and [row["n"] for row in rows] == [5, 6, 7] and rows[0]["text"] == "row 5"
    assert len(rows.ids) == 3


def test_columns_pickle(full: lacus.Dataset) -> None:
    column = pickle.loads(pickle.dumps(full["n"]))
    rows = pickle.loads(pickle.dumps(full[2:4]))
    full["n"][0] = 77
    assert column[0] == 0 and column[:].tolist() == list(range(10)) and column.name == "n"
    assert rows["text"] == ["row 2", "row 3"]
    with pytest.raises(lacus.InvalidError, match="read-only"):
        column[0] = 5


def test_arrays_and_columns_live_together(full: lacus.Dataset) -> None:
    full["weights"] = np.eye(3)
    assert isinstance(full["weights"], lacus.Tensor) and isinstance(full["n"], lacus.Column)
    assert full.keys() == ["blob", "n", "text", "weights"] and full.columns == ["n", "text", "blob"]
    assert set(full[0]) == {"blob", "n", "text"} and len(full) == 10
    full.compact()
    assert full["weights"][1, 1] == 1 and numbers(full) == list(range(10))


def test_hundred_single_appends_then_compact(ds: lacus.Dataset) -> None:
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("text", "text")
    ds.add_column("blob", dtype="int32")
    for i in range(100):
        ds.append(row_of(i))
    assert numbers(ds) == list(range(100)) and ds.summary().advice
    ids = ds[:].ids
    report = ds.compact()
    assert report.files_after < 10 < report.files_before
    for dataset in (ds, lacus.open(ds.url)):
        assert numbers(dataset) == list(range(100)) and dataset[:].ids == ids
    # Everything goes on.
    ds["n"][50] = 50
    ds.delete_rows(range(0, 100, 10))
    ds.append(row_of(100))
    kept = [i for i in range(100) if i % 10] + [100]
    assert numbers(ds) == kept
    ds.compact()
    assert numbers(lacus.open(ds.url)) == kept


def test_processes_that_append_at_once_lose_and_renumber_nothing(full: lacus.Dataset) -> None:
    ids = full[:].ids
    barrier = PROCESSES.Barrier(3)
    writers = [PROCESSES.Process(target=append_rows, args=(full.url, 1000 * w, 20, barrier)) for w in (1, 2, 3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    seen: list[int] = []
    full.refresh()
    assert full[:10].ids == ids
    # At every version, what was there before is where it was.
    for version in range(5, full.version + 1, 7):
        old = numbers(lacus.open(full.url, at=version))
        assert old[: len(seen)] == seen
        seen = old
    found = numbers(full)
    assert found[: len(seen)] == seen and found[:10] == list(range(10))
    for w in (1, 2, 3):
        # Each one's rows are in the order in which it appended them: 20 single ones, 20 times two.
        assert [n for n in found if n // 1000 == w] == [1000 * w + i for i in range(60)]
    assert len(set(full[:].ids)) == len(full) == 190


def test_appends_deletes_and_updates_at_once(full: lacus.Dataset) -> None:
    barrier = PROCESSES.Barrier(2)
    workers = [
        PROCESSES.Process(target=append_rows, args=(full.url, 1000, 15, barrier)),
        PROCESSES.Process(target=delete_and_update, args=(full.url, barrier)),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    full.refresh()
    assert numbers(full) == [5, 6, 7, 8, 9, *range(1000, 1045)]
    full.compact()
    assert numbers(full) == [5, 6, 7, 8, 9, *range(1000, 1045)]


def test_conflicts_know_rows(full: lacus.Dataset) -> None:
    one, two = lacus.open(full.url), lacus.open(full.url)
    # Different rows, different columns: both stay.
    one["n"][0] = 100
    two["n"][1] = 101
    one["blob"][1] = blob(7)
    two["text"][1] = "text"
    full.refresh()
    assert full["n"][:3].tolist() == [100, 101, 2] and full["text"][1] == "text" and len(full["blob"][1]) == 3
    # The same cell, or a row that is gone: the second is told, and can go on after a refresh.
    one.refresh(), two.refresh()
    one["n"][2] = 1
    with pytest.raises(lacus.ConflictError):
        two["n"][2] = 2
    two.refresh()
    one.refresh()
    one.delete_rows(3)
    with pytest.raises(lacus.ConflictError):
        two["text"][3] = "gone"
    two.refresh()
    two["text"][3] = "there"
    full.refresh()
    assert full["n"][:4].tolist() == [100, 101, 1, 4] and full["text"][3] == "there" and len(full) == 9
    # A column that is gone.
    one.refresh(), two.refresh()
    one.drop_column("text")
    with pytest.raises((lacus.ConflictError, lacus.NotFoundError)):
        two["text"][0] = "x"


def test_threads_share_a_handle(full: lacus.Dataset) -> None:
    def work(first: int) -> None:
        for i in range(10):
            full.append(row_of(first + i))
            assert full[3]["text"] == "row 3"

    threads = [threading.Thread(target=work, args=(100 * (t + 1),)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(full)) == [*range(10), *(100 * t + i for t in range(1, 5) for i in range(10))]


def test_an_empty_reservation_of_ids_is_passed_over(full: lacus.Dataset) -> None:
    """What a power cut may leave."""
    before = numbers(full)
    (newest,) = sorted(Path(full.url, "_lacus", "rows").iterdir())[-1:]
    newest.write_bytes(b"")
    again = lacus.open(full.url)
    again.append(row_of(77))
    assert numbers(again) == [*before, 77]
    assert len(set(again[:].ids)) == len(again)


def test_a_row_far_past_the_end_is_refused(full: lacus.Dataset) -> None:
    version = full.version
    with pytest.raises(lacus.InvalidError, match="past the end"):
        full["n"].write(10**11, 1, strict=False)
    assert full.version == version


def test_tiled_samples_survive_compaction_into_several_files(ds: lacus.Dataset) -> None:
    ds.add_column("a", dtype="uint8", compression=None)
    rng = np.random.default_rng(3)
    # Files are closed at 512 MiB, between groups of 16 MiB: some of them would end inside of a sample of many tiles.
    sizes = [4 << 20] * 127 + [(3 << 20) + (1 << 19), 5 << 20, 1000, 6 << 20]
    small = rng.integers(0, 255, 6 << 20).astype(np.uint8)
    for size in sizes:
        ds.append({"a": small[:size]})
    ds.compact()
    assert [shape[0] for shape in ds["a"].shapes] == sizes
    for row in (0, 126, 127, 128, 129, 130):
        assert np.array_equal(ds["a"][row], small[: sizes[row]])
    ds.delete_rows([0, 128])
    assert len(ds) == len(sizes) - 2 and np.array_equal(ds["a"][-1], small[: sizes[-1]])
