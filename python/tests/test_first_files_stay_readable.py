"""A dataset that the first versions of Lacus wrote is read as it was, named by a check, and brought up to date by a compaction."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus

sys.path.insert(0, str(Path(__file__).parent / "fixtures"))

from make_first_files import arrays, columns, rows, unpack  # noqa: E402

STATES: dict[str, dict[str, Any]] = {"v1.0": {"at": "v1.0"}, "main": {}, "other": {"branch": "other"}}


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A copy of the dataset."""
    return unpack(tmp_path / "old")


def _check(ds: lacus.Dataset, state: str) -> None:
    """Every value is what was written, bit for bit."""
    expected = arrays(state)
    assert sorted(ds.keys()) == sorted([*expected, *columns()]) or sorted(ds.keys()) == sorted(expected)
    for name, value in expected.items():
        found = ds[name][...]
        found = np.asarray(found.todense() if isinstance(found, lacus.SparseTensor) else found)
        assert found.dtype == value.dtype and found.tobytes() == value.tobytes(), name
    # A slice finds its chunks, pages and cells, too.
    assert np.array_equal(np.asarray(ds["grid"][1:3, 3]), expected["grid"][1:3, 3])
    part = ds["cells/float"][2:5].todense()
    assert np.asarray(part).tobytes() == expected["cells/float"][2:5].tobytes()
    samples = rows(state)
    assert len(ds) == len(samples)
    assert ds["number"][:].tolist() == [row["number"] for row in samples]
    for name in ("weight", "real"):
        dtype = columns()[name]["dtype"]
        assert ds[name][:].tobytes() == np.array([row[name] for row in samples], dtype).tobytes()
    assert list(ds["caption"][:]) == [row["caption"] for row in samples]
    assert [ds["label"].names(i) for i in range(len(ds))] == [row["label"] for row in samples]
    for i, row in enumerate(samples):
        assert np.array_equal(ds["blob"][i], row["blob"])
    assert ds.metadata == {"made": "for tests"}
    assert ds["grid"].metadata == {"of": "grid"}


def _files(ds: lacus.Dataset) -> dict[str, int]:
    """The data files of main's newest version with their revisions, by the log."""
    log = sorted((Path(ds.url) / "_delta_log").glob("*[0-9].json"))
    files: dict[str, int] = {}
    for entry in log:
        for line in entry.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                files[action["add"]["path"]] = json.loads(action["add"]["tags"]["lacus"]).get("revision", 1)
            elif "remove" in action:
                files.pop(action["remove"]["path"], None)
    return files


def _is_misread(path: Path) -> bool:
    """Whether Spark 4.0 misses a row group of a file, or refuses it: the rule of parquet-mr, and an encoding."""
    metadata = pytest.importorskip("pyarrow.parquet").read_metadata(path)
    for group in (metadata.row_group(i) for i in range(metadata.num_row_groups)):
        columns = [group.column(i) for i in range(group.num_columns)]
        first = columns[0]
        start = min(first.data_page_offset, first.dictionary_page_offset or first.data_page_offset)
        middle = start + sum(column.total_compressed_size for column in columns) // 2
        if middle >= path.stat().st_size or any("BYTE_STREAM_SPLIT" in column.encodings for column in columns):
            return True
    return False


@pytest.mark.parametrize("state", STATES)
def test_every_state_is_read(old: str, state: str) -> None:
    _check(lacus.open(old, **STATES[state]), state)


def test_check_names_what_is_old_and_compact_brings_it_up_to_date(old: str) -> None:
    ds = lacus.open(old)
    report = ds.check()
    assert report.healthy, report
    assert any("old layout" in problem and "compact" in problem for _, problem in report.notes), report
    assert set(_files(ds).values()) == {1}
    assert any(_is_misread(Path(old, path)) for path in _files(ds))
    for branch in ("main", "other"):
        ds.checkout(branch)
        assert ds.compact().files_before > 0
    report = ds.check()
    assert report.healthy and report.notes == []
    ds.checkout("main")
    assert 1 not in _files(ds).values()
    assert not any(_is_misread(Path(old, path)) for path in _files(ds))
    for state, how in STATES.items():
        _check(lacus.open(old, **how), state)
    # The version before is still there, in its old files.
    _check(lacus.open(old, at=ds.version - 1), "main")


def test_old_files_take_changes(old: str) -> None:
    """Small files are rewritten when they change, so that what stays in them goes through both ways of writing."""
    ds = lacus.open(old)
    expected = arrays("main")["grid"]
    changes: list[Callable[[Any], None]] = [lambda x: x.__setitem__((0, 0), 9), lambda x: x.__setitem__((3, 5, 4), 8)]
    for change in changes:
        change(ds["grid"])
        change(expected)
        assert np.array_equal(np.asarray(ds["grid"][...]), expected)
    ds["number"][0] = -5
    ds["blob"][2] = np.arange(4, dtype=np.uint8)
    assert ds["number"][:3].tolist() == [-5, 4, 9]
    assert ds["blob"][2].tolist() == [0, 1, 2, 3]
    assert ds["weight"][:].tolist() == [row["weight"] for row in rows("main")]
    report = ds.check()
    assert report.healthy, report


def test_a_merge_takes_old_files(old: str) -> None:
    ds = lacus.open(old)
    ds.merge("other")
    _check(ds, "other")
    assert ds.check().healthy
