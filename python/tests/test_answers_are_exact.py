"""Answers that other engines round, wrap around or tell apart: sums, zeros with a sign, singles, names of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lacus
import numpy as np
import pytest


def made(path: Path, **columns: Any) -> lacus.Dataset:
    ds = lacus.create(path)
    for name, values in columns.items():
        ds.add_column(name, dtype=values.dtype.name, shape=values.shape[1:])
    ds.extend(columns)
    ds.commit("rows")
    return ds


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_sums_do_not_wrap_around(tmp_path: Path, dtype: str) -> None:
    most = np.iinfo(dtype).max
    ds = made(tmp_path / "ds", n=np.array([most, 1, most - 5, 5], dtype), g=np.array([0, 0, 1, 1]))
    for text in ("SELECT sum(n) AS s", "SELECT g, sum(n) AS s GROUP BY g", "SELECT sum(n) OVER (ORDER BY g) AS s"):
        with pytest.raises(lacus.InvalidError, match="does not fit into"):
            ds.query(text)["s"]
    assert ds.query("SELECT sum(n) AS s WHERE g = 1")["s"].tolist() == [most]
    assert ds.query("SELECT g, sum(n) AS s WHERE n < 10 GROUP BY g ORDER BY g")["s"].tolist() == [1, 5]
    assert ds.query("SELECT sum(n) AS s WHERE g = 7")["s"][0] is None
    # What fits in the end fits, whatever comes on the way.
    if dtype == "int64":
        ds.extend({"n": [-most, -2], "g": [0, 0]})
        assert ds.query("SELECT sum(n) AS s WHERE g = 0")["s"].tolist() == [-1]


def test_sums_of_windows_slide(tmp_path: Path) -> None:
    ds = made(tmp_path / "ds", n=np.array([5, 7, -2, 40]))
    text = "SELECT sum(n) OVER (ORDER BY row_id() ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s ORDER BY row_id()"
    assert ds.query(text)["s"].tolist() == [5, 12, 5, 38]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zero_is_one_number(tmp_path: Path, dtype: str) -> None:
    ds = made(tmp_path / "ds", x=np.array([0.0, -0.0, 1.5, -2.5, 7.0, -0.0], dtype))
    zeros, others = [0, 1, 5], [2, 3, 4]
    assert ds.query("SELECT * WHERE x = 0").positions == zeros
    assert ds.query("SELECT * WHERE x = -0.0").positions == zeros
    long = "(0.0, 11, 12, 13, 14, 15, 16)"
    assert ds.query(f"SELECT * WHERE x IN {long}").positions == zeros
    assert ds.query(f"SELECT * WHERE x NOT IN {long}").positions == others
    assert ds.query("SELECT * WHERE x IN (-0.0, 1.5, 12, 13, 14, 15, 16)").positions == [0, 1, 2, 5]
    assert ds.query("SELECT * WHERE x = 0 OR x = 11 OR x = 12 OR x = 13 OR x = 14").positions == zeros
    cases = ds.query("SELECT CASE x WHEN 0.0 THEN 'zero' WHEN 1.5 THEN 'more' WHEN 7 THEN 'most' ELSE 'less' END AS c")
    assert list(cases["c"]) == ["zero", "zero", "more", "less", "most", "zero"]
    assert ds.query("SELECT * ARRANGE BY x").positions == [0, 1, 5, 2, 3, 4]
    assert len(ds.query("SELECT x, count(*) AS n GROUP BY x")) == 4
    assert len(ds.query("SELECT DISTINCT x")) == 4


def test_singles_compare_as_singles(tmp_path: Path) -> None:
    ds = made(tmp_path / "ds", x=np.array([0.1, 0.2, 0.3], np.float32), y=np.array([0.1, 0.2, 0.3]))
    assert ds.query("SELECT * WHERE x = 0.1").positions == [0]
    assert ds.query("SELECT * WHERE 0.2 <= x").positions == [1, 2]
    assert ds.query("SELECT * WHERE x < 0.2").positions == [0]
    assert ds.query("SELECT * WHERE x IN (0.1, 0.3)").positions == [0, 2]
    assert ds.query("SELECT * WHERE x BETWEEN 0.1 AND 0.2").positions == [0, 1]
    assert list(ds.query("SELECT CASE x WHEN 0.3 THEN 1 ELSE 0 END AS c")["c"]) == [0, 0, 1]
    assert ds.query("SELECT * WHERE x = ?", [0.1]).positions == [0]
    assert ds.query("SELECT * WHERE y = 0.1").positions == [0]
    assert ds.query("SELECT * WHERE x < 1e300").positions == [0, 1, 2]


def test_columns_have_the_names_that_are_written(tmp_path: Path) -> None:
    ds = made(tmp_path / "ds", n=np.arange(3))
    answer = ds.query("SELECT n, -n, n IS NULL, NOT (n > 1), n IS DISTINCT FROM 2")
    assert answer.columns == ["n", "-n", "n IS NULL", "NOT (n > 1)", "n IS DISTINCT FROM 2"]
    assert list(answer["-n"]) == [0, -1, -2]
    assert ds.query("SELECT DISTINCT ON (n % 2) n + 1 ORDER BY n % 2, n").columns == ["n + 1"]


def test_columns_may_be_left_out_and_replaced(tmp_path: Path) -> None:
    ds = made(tmp_path / "ds", n=np.arange(4), m=np.arange(4) * 10, k=np.arange(4))
    some = ds.query("SELECT * EXCEPT (m) WHERE n > 1")
    assert isinstance(some, lacus.View) and some.columns == ["n", "k"] and some.positions == [2, 3]
    assert isinstance(ds.query("SELECT * EXCLUDE (m, k)"), lacus.View)
    twice = ds.query("SELECT n * 2 AS n, m WHERE n > 1")
    assert isinstance(twice, lacus.View) and twice.positions == [2, 3]
    assert list(twice["n"]) == [4, 6] and twice.computed == {"n": "n * 2"}
    # Whoever asks the view means its column.
    assert twice.query("SELECT * WHERE n = 6").positions == [3]
    assert list(twice.query("SELECT n + 1 AS n")["n"]) == [5, 7]
    assert list(ds.query("SELECT m AS n, n AS m")[2].values()) == [20, 2]
    twice.save("twice")
    assert list(ds.views["twice"]["n"]) == [4, 6]


def test_rows_are_known_in_every_clause(tmp_path: Path) -> None:
    ds = made(tmp_path / "ds", n=np.arange(6))
    assert ds.query("SELECT * ARRANGE BY row_id() % 2").positions == [0, 2, 4, 1, 3, 5]
    assert sorted(ds.query("SELECT * SAMPLE BY row_id() >= 3").positions) == [3, 4, 5]
    order = np.argsort(ds.query("SELECT random(7) AS r")["r"])
    assert ds.query("SELECT * ORDER BY random(7)").positions == order.tolist()
    assert len(ds.query("SELECT * SAMPLE BY random(7) LIMIT 2")) == 2
    assert list(ds.query("SELECT row_id() AS id WHERE n = 2 EXPAND BY 1 1")["id"]) == [1, 2, 3]
    for text in ("SELECT * ARRANGE BY row_number()", "SELECT row_number() AS r WHERE n = 2 EXPAND BY 1 1"):
        with pytest.raises(lacus.InvalidError, match="row_number"):
            ds.query(text)
    with pytest.raises(lacus.InvalidError, match="need rows of a dataset"):
        ds.query("SELECT n, count(*) AS c GROUP BY n ARRANGE BY row_id()")


def test_several_labels_have_names(tmp_path: Path) -> None:
    ds = lacus.create(tmp_path / "ds")
    ds.add_column("labels", "class_label", class_names=["cat", "dog", "bird"], shape=(None,))
    ds.extend({"labels": [[0, 1], [2], [], [1, 1, 2]]})
    assert ds.query("SELECT * WHERE contains(labels, 'dog')").positions == [0, 3]
    assert ds.query("SELECT * WHERE any(labels = 'bird')").positions == [1, 3]
    assert ds.query("SELECT * WHERE all(labels <> 'cat')").positions == [1, 2, 3]
    assert ds.query("SELECT * WHERE any(labels = 'cow') OR contains(labels, 'cow')").positions == []


def test_a_panic_of_the_engine_is_an_error() -> None:
    with pytest.raises(lacus.LacusError):
        lacus.sql("SELECT array_resize([1, 2], -5) AS x")
