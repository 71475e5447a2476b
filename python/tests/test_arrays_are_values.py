"""`slice('name', …)` in expressions: stored arrays as values, with numpy's subscripts."""

from __future__ import annotations

from typing import Any

import lacus
import numpy as np
import pytest

LAYOUTS = ["dense", "coo", "csr", "csc", "csf", "bsgs"]
ONE_ROW = "FROM (VALUES (1)) AS t(a)"


@pytest.fixture
def rows(url: str) -> lacus.Dataset:
    """Six rows with a vector each, and two arrays."""
    ds = lacus.create(url)
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("vector", dtype="float64", shape=(3,))
    ds.extend({"n": range(6), "vector": np.arange(18.0).reshape(6, 3)})
    ds["weights"] = np.array([[1.0, 0.0, 2.0], [0.5, 0.5, 0.5]])
    ds["groups"] = np.array([1, 0, 1, 0, 2, 2])
    ds.commit("rows and arrays")
    return ds


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
def test_parts_equal_numpy(url: str, layout: str, dtype: str) -> None:
    rng = np.random.default_rng(len(layout) + len(dtype))
    array = np.where(rng.random((9, 7, 11)) < 0.2, rng.integers(1, 9, (9, 7, 11)), 0)
    if dtype == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        stored: Any = array.astype(ml_dtypes.bfloat16)
    else:
        stored = array.astype(dtype)
    ds = lacus.create(url)
    ds.put("x", stored, layout=layout)

    def bound(size: int) -> str:
        return "" if rng.random() < 0.4 else str(rng.integers(-size - 2, size + 3))

    for _ in range(15):
        axes = []
        for size in array.shape[: rng.integers(1, 4)]:
            step = ["", ":2", ":-1", ":-3"][rng.integers(4)]
            axes.append(str(rng.integers(-size, size)) if rng.random() < 0.3 else f"{bound(size)}:{bound(size)}{step}")
        if rng.random() < 0.2:
            axes[-1] = "..."
        expected = eval(f"stored[{', '.join(axes)}]", {"stored": stored})
        if expected.size == 0:
            continue
        for text in (f"slice('x', {', '.join(axes)})", f"slice('x')[{', '.join(axes)}]"):
            found = np.asarray(ds.query(f"SELECT {text} AS part {ONE_ROW}")["part"][0])
            assert found.shape == expected.shape, text
            np.testing.assert_array_equal(found.astype("float64"), expected.astype("float64"), text)


def test_arrays_meet_columns(rows: lacus.Dataset) -> None:
    view = rows.query("SELECT n, dot(vector, slice('weights', 0)) AS score WHERE slice('groups')[n] <> 0 ORDER BY score DESC")
    assert isinstance(view, lacus.View)
    assert view.positions == [5, 4, 2, 0]
    weights = np.array([1.0, 0.0, 2.0])
    np.testing.assert_array_equal(view["score"], [np.arange(3 * n, 3 * n + 3) @ weights for n in (5, 4, 2, 0)])
    # A view that was saved reads the array of its own state.
    view.save("scored")
    rows["weights"] = np.zeros((2, 3))
    rows.commit("other weights")
    np.testing.assert_array_equal(rows.views["scored"]["score"], view["score"])
    assert not rows.query("SELECT dot(vector, slice('weights', 0)) AS score")["score"].any()
    old = rows.query("SELECT dot(vector, slice('weights', 0)@\"main~1\") AS score WHERE n = 5")
    assert isinstance(old, lacus.Table) and old["score"][0] == 49.0


def test_arrays_are_parts_of_every_clause(rows: lacus.Dataset) -> None:
    assert rows.query("SELECT * ARRANGE BY slice('groups')[n]").positions == [0, 2, 1, 3, 4, 5]
    assert sorted(rows.query("SELECT * SAMPLE BY slice('groups')[n] = 1").positions) == [0, 2]
    assert rows.query("SELECT * ORDER BY slice('groups')[n], n DESC").positions == [3, 1, 2, 0, 5, 4]
    grouped = rows.query("SELECT slice('groups')[n] AS g, count(*) AS c GROUP BY slice('groups')[n] ORDER BY g")
    assert [(row["g"], row["c"]) for row in grouped] == [(0, 2), (1, 2), (2, 2)]
    assert len(rows.query("SELECT * WHERE n < ? AND n >= slice('groups', ?:?)[0]", [4, 4, 5])) == 2
    assert rows.filter("n = slice('groups', -1)").positions == [2]
    largest = rows.query("SELECT max(slice('weights')) AS m LIMIT 1")
    assert largest["m"][0] == 2.0


def test_arrays_of_other_datasets(rows: lacus.Dataset, tmp_path: Any) -> None:
    other = lacus.create(tmp_path / "other")
    other["means"] = np.array([0.5, 7.0])
    found = lacus.sql("SELECT n + slice(other, 'means')[1] AS x FROM rows WHERE n < 2", rows=rows, other=other)
    assert found["x"].tolist() == [7.0, 8.0]
    assert rows.query(f"SELECT n + slice('{tmp_path / 'other'}', 'means', 0) AS x LIMIT 1")["x"].tolist() == [0.5]
    of_rows = lacus.sql("SELECT dot(vector, slice(rows, 'weights')[1]) AS s FROM rows", rows=rows)
    assert isinstance(of_rows, lacus.View) and of_rows["s"].tolist() == [1.5, 6.0, 10.5, 15.0, 19.5, 24.0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("slice('wieghts')", 'no array "wieghts"; did you mean "weights"'),
        ("slice('weights', 2)", "index 2 is out of bounds for axis 0 with size 2"),
        ("slice('n')", "is a column, and `slice` reads arrays"),
        ("slice('groups')[n + 6]", "out of bounds"),
        ("slice('weights')@\"nowhere\"", "nowhere"),
        ("slice(groups + 1)", "expected the name of an array in quotes"),
    ],
)
def test_errors_say_what_is_wrong(rows: lacus.Dataset, text: str, why: str) -> None:
    with pytest.raises(lacus.LacusError, match=why.replace("(", "\\(")):
        rows.query(f"SELECT {text} AS x FROM dataset WHERE n >= 0 GROUP BY x")
