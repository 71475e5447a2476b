"""A function mapped over rows: results in the order of rows, whoever made them, and failures told by row."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lacus


@pytest.fixture
def full(ds: lacus.Dataset) -> lacus.Dataset:
    """500 rows: enough for several batches."""
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("text", "text")
    ds.extend({"n": range(500), "text": [f"row {i}" for i in range(500)]})
    return ds


# At the top of the module, so that other processes find them.


def doubled(row: dict[str, Any]) -> dict[str, Any]:
    # Later rows are done sooner.
    time.sleep((row["n"] % 64 == 0) * 0.01)
    return {"double": row["n"] * 2, "pid": os.getpid()}


def repeated(row: dict[str, Any]) -> list[dict[str, Any]] | None:
    return None if row["n"] == 0 else [{"n": row["n"], "k": k} for k in range(int(row["n"]) % 3)]


def lazily(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for k in range(int(row["n"]) % 3):
        yield {"n": row["n"], "k": k}


class Particular(Exception):
    """An error that pickles and does not unpickle."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"{why} at {row}")


def failing(row: dict[str, Any]) -> dict[str, Any]:
    if row["n"] in (70, 300):
        raise ValueError(f"cannot do {row['text']}")
    if row["n"] == 301:
        raise Particular(301, "special")
    return {"double": row["n"] * 2}


COLUMNS = {"double": dict(dtype="int64", shape=()), "pid": dict(dtype="int64", shape=())}
WAYS = [{"workers": 1}, {"workers": 4}, {}, {"workers": 2, "processes": True}]
IDS = ["one", "four", "default", "processes"]


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_in_place(full: lacus.Dataset, way: dict[str, Any]) -> None:
    report = full.map(doubled, columns=COLUMNS, **way)
    assert (report.rows, report.written, report.failed) == (500, 500, []) and report.version == full.version
    assert full["double"][:].tolist() == [2 * i for i in range(500)]
    assert full["text"][7] == "row 7" and len(full) == 500
    pids = set(full["pid"][:].tolist())
    assert (os.getpid() in pids) != bool(way.get("processes"))


@pytest.mark.parametrize("way", WAYS, ids=IDS)
@pytest.mark.parametrize("fn", [repeated, lazily])
def test_into_another_dataset(full: lacus.Dataset, fn: Any, way: dict[str, Any], tmp_path: Any) -> None:
    url = str(tmp_path / "into")
    report = full.map(fn, columns={"n": dict(dtype="int64", shape=()), "k": "class_label"}, into=url, **way)
    expected = [(i, k) for i in range(500) for k in range(i % 3)]
    made = lacus.open(url)
    assert list(zip(made["n"][:].tolist(), made["k"][:].tolist(), strict=True)) == expected
    assert (report.rows, report.written, report.version) == (500, len(expected), made.version)
    assert full.columns == ["n", "text"]


def test_into_an_open_dataset_with_columns_like_ours(full: lacus.Dataset, tmp_path: Any) -> None:
    full.add_column("label", "class_label", class_names=["even", "odd"])
    full.map(lambda row: {"label": int(row["n"] % 2)})
    into = lacus.create(tmp_path / "into")
    report = full.map(lambda row: row if row["n"] % 2 else None, columns=["n", "text", "label", "new"], into=into)
    assert report.written == 250 == len(into)
    assert into["label"].class_names == ["even", "odd"]
    assert into["n"].sample_shape == () and into["text"].htype == "text"
    assert into["new"].htype == "generic" and into["new"][0] is None
    assert into["n"][:].tolist() == list(range(1, 500, 2)) and set(into["label"].names(slice(None))) == {"odd"}


def test_columns_that_are_there_are_changed(full: lacus.Dataset) -> None:
    full.map(lambda row: {"text": row["text"].upper(), "n": -row["n"]} if row["n"] % 2 else None)
    assert full["text"][2:4] == ["row 2", "ROW 3"] and full["n"][:4].tolist() == [0, -1, 2, -3]


def test_only_the_columns_it_needs_are_read(full: lacus.Dataset) -> None:
    seen: list[set[str]] = []

    def look(row: dict[str, Any]) -> None:
        seen.append(set(row))

    full.map(look, inputs=["n"])
    full.map(look, inputs=[])
    assert seen[0] == {"n"} and seen[-1] == set() and len(seen) == 1000
    with pytest.raises(lacus.NotFoundError, match="nope"):
        full.map(look, inputs=["nope"])
    with pytest.raises(lacus.InvalidError, match="list of names"):
        full.map(look, inputs="n")


@pytest.mark.parametrize("way", WAYS, ids=IDS)
def test_failures_are_told_by_row(full: lacus.Dataset, way: dict[str, Any], tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="cannot do row 70") as caught:
        full.map(failing, columns=COLUMNS, **way)
    assert any("at row 70" in note for note in getattr(caught.value, "__notes__", ["at row 70"]))
    report = full.map(failing, columns=COLUMNS, on_error="skip", **way)
    assert [row for row, _ in report.failed] == [70, 300, 301] and report.written == 497
    assert report.failed[0][1] == "ValueError: cannot do row 70" and "special at 301" in report.failed[2][1]
    assert full["double"][69:72] == [138, None, 142]
    into = lacus.create(tmp_path / "into")
    report = full.map(failing, columns=COLUMNS, into=into, on_error="skip", **way)
    assert [row for row, _ in report.failed] == [70, 300, 301] and len(into) == report.written == 497


@pytest.mark.parametrize("into", [False, True])
def test_results_that_do_not_fit_are_failures_of_their_row(full: lacus.Dataset, into: bool, tmp_path: Any) -> None:
    def wrong(row: dict[str, Any]) -> Any:
        n = int(row["n"])
        bad = {5: {"label": "cow"}, 77: 5, 78: [5], 79: {"other": 1}, 80: {}, 130: {"label": 2}}
        return bad.get(n, {"label": n % 2})

    target = lacus.create(tmp_path / "into") if into else None
    columns = {"label": dict(htype="class_label", class_names=["a", "b"])}
    with pytest.raises(lacus.InvalidError, match="row (5|77)"):
        full.map(wrong, columns=columns, into=target)
    if target is not None:
        assert len(target) == 0
    report = full.map(wrong, columns=columns, into=target, on_error="skip")
    assert [row for row, _ in report.failed] == [5, 77, 78, 79, 80, 130]
    assert '"cow"' in report.failed[0][1] and "'other'" in report.failed[3][1]
    assert 'column "label"' in report.failed[5][1]
    assert report.written == 494
    expected = [i % 2 for i in range(500) if i not in (5, 77, 78, 79, 80, 130)]
    found = full["label"][:] if target is None else target["label"][:]
    assert [int(label) for label in found if label is not None] == expected


def test_rows_deleted_meanwhile_are_left_out(full: lacus.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results go to the rows they were made from, wherever these are by then."""
    monkeypatch.setattr("lacus.transform._WRITE_ROWS", 100)
    other = lacus.open(full.url)

    def meddling(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] == 150:
            other.refresh()
            other.delete_rows([0, 1, 2, 400])
            other.append({"n": 999})
        return {"double": 2 * row["n"]}

    report = full.map(meddling, columns=COLUMNS, workers=1)
    full.refresh()
    assert len(full) == 497 and full["double"][-1] is None
    assert all(double == 2 * n for n, double in zip(full["n"][:-1], full["double"][:-1], strict=True))
    assert report.rows == 500 and report.written == 499


def test_links_are_followed(full: lacus.Dataset, tmp_path: Any) -> None:
    from media import png

    (tmp_path / "a.png").write_bytes(png(np.full((3, 4, 3), 7, np.uint8)))
    full.allow_links(tmp_path)
    full.add_column("image", "link[image]")
    full["image"][3] = str(tmp_path / "a.png")
    full.map(lambda row: {"mean": 0.0 if row["image"] is None else row["image"].mean()}, columns=["mean"])
    assert full["mean"][2:5] == [0, 7, 0]
    into = lacus.create(tmp_path / "into")
    full.map(lambda row: {"image": row["image"]} if row["n"] == 3 else None, columns=["image"], into=into)
    assert into["image"].htype == "image" and into["image"][0].shape == (3, 4, 3)


def test_memory_is_bounded(full: lacus.Dataset) -> None:
    """Workers do not run far ahead of what is written."""
    written = 0
    ahead: list[int] = []
    lock = threading.Lock()
    writer = lacus.Writer.append

    def count(self: Any, row: Any) -> None:
        nonlocal written
        written += 1
        # The consumer is the slow one.
        time.sleep(0.0005)
        writer(self, row)

    def work(row: dict[str, Any]) -> dict[str, Any]:
        with lock:
            ahead.append(int(row["n"]) - written)
        return {"n": row["n"]}

    full.extend({"n": range(500, 3000), "text": [None] * 2500})
    into = lacus.create(f"{full.url}-into")
    into.add_column("n", dtype="int64", shape=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lacus.Writer, "append", count)
        full.map(work, into=into, workers=2)
    assert into["n"][:].tolist() == list(range(3000))
    # Two batches of 64 rows for each of two workers, and those at work.
    assert max(ahead) <= 64 * 6


def test_a_failure_stops_the_workers(full: lacus.Dataset) -> None:
    full.extend({"n": range(500, 5000), "text": [None] * 4500})
    calls = 0

    def work(row: dict[str, Any]) -> None:
        nonlocal calls
        calls += 1
        if row["n"] == 10:
            raise KeyError("stop")

    with pytest.raises(KeyError):
        full.map(work, workers=2)
    stopped = calls
    assert stopped < 1000 and not [t for t in threading.enumerate() if t.name.startswith("lacus-map")]
    time.sleep(0.1)
    assert calls == stopped


def test_bad_calls(full: lacus.Dataset, tmp_path: Any) -> None:
    version, into = full.version, tmp_path / "into"
    bad: list[tuple[dict[str, Any], str]] = [
        ({"fn": 5}, "a function"),
        ({"workers": 0}, "workers: 0"),
        ({"on_error": "x"}, "on_error"),
        ({"processes": True, "fn": lambda row: row}, "must pickle"),
    ]
    for options, message in bad:
        with pytest.raises(lacus.InvalidError, match=message):
            full.map(**{"fn": doubled, "columns": COLUMNS, "into": into, **options})
    assert not into.exists() and full.version == version
    with pytest.raises(lacus.InvalidError, match="'double'; name it in columns="):
        full.map(doubled)
    assert full.version == version


def test_progress(full: lacus.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    full.map(lambda row: None, progress=True)
    assert "500 of 500 rows" in capsys.readouterr().err
    full.map(lambda row: None)
    assert capsys.readouterr().err == ""
