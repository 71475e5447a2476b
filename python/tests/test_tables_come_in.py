"""Tables in memory become datasets, and datasets become files of plain columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")


def arrow() -> Any:
    return pa.table(
        {
            "n": pa.array([1, None, 3], pa.int32()),
            "x": pa.array([0.5, float("nan"), None], pa.float64()),
            "flag": pa.array([True, False, None]),
            "text": pa.array(["a", None, "é"]),
            "list": pa.array([[1, 2], [], None], pa.list_(pa.int16())),
            "pair": pa.array([[1, 2], [3, 4], None], pa.list_(pa.float32(), 2)),
            "struct": pa.array([{"k": 1}, None, {"k": None}]),
        }
    )


def check(ds: lacus.Dataset) -> None:
    assert len(ds) == 3
    assert ds["n"][:] == [1, None, 3] and ds["n"].dtype == np.int32
    assert ds["x"][0] == 0.5 and np.isnan(ds["x"][1]) and ds["x"][2] is None
    assert ds["flag"][:] == [True, False, None]
    assert ds["text"][:] == ["a", None, "é"]
    assert ds["list"][0].tolist() == [1, 2] and ds["list"][1].tolist() == [] and ds["list"][2] is None
    assert ds["pair"][1].tolist() == [3, 4] and ds["pair"][2] is None
    assert ds["struct"][:] == [{"k": 1}, None, {"k": None}]


def test_arrow(tmp_path: Path) -> None:
    check(lacus.from_table(arrow(), tmp_path / "ds"))


def test_polars(tmp_path: Path) -> None:
    check(lacus.from_table(pl.from_arrow(arrow()), tmp_path / "ds"))


def test_what_is_no_table_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(lacus.InvalidError, match="not dict"):
        lacus.from_table({"a": [1]}, tmp_path / "ds")
    with pytest.raises(lacus.InvalidError, match="no bytes that show what it holds"):
        lacus.from_table(pa.table({"b": pa.array([None], pa.binary())}), tmp_path / "ds")
    assert not lacus.exists(tmp_path / "ds")


def test_a_wide_table_is_read_by_others(tmp_path: Path) -> None:
    ds = lacus.from_table(arrow(), tmp_path / "ds")
    ds.export_to(tmp_path / "wide.parquet", columns=["n", "text", "pair"])
    found = pl.read_parquet(tmp_path / "wide.parquet")
    assert found["n"].to_list() == [1, None, 3] and found["text"].to_list() == ["a", None, "é"]
    assert found["pair"].to_list() == [[1.0, 2.0], [3.0, 4.0], None]
    report = ds.export_to(tmp_path / "delta", "delta", columns=["n", "text"])
    assert report.rows == 3 and pl.read_delta(str(tmp_path / "delta"))["n"].to_list() == [1, None, 3]
    back = lacus.from_parquet(tmp_path / "wide.parquet", tmp_path / "back")
    assert back["n"][:] == [1, None, 3] and back["text"][2] == "é"
