"""Arrays in SQL: cells of arrays as rows, and coordinates and values as tensors again."""

from __future__ import annotations

from typing import Any

import lacus
import numpy as np
import pytest

SPARSE = ["coo", "csr", "csc", "csf", "bsgs"]
LAYOUTS = ["dense", *SPARSE]


def table(answer: lacus.View | lacus.Table) -> lacus.Table:
    assert isinstance(answer, lacus.Table), answer
    return answer


def values(rows: str, columns: str) -> lacus.Table:
    return table(lacus.sql(f"SELECT * FROM (VALUES {rows}) AS t({columns})"))


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """An array of which a tenth is not zero."""
    drawn = rng.integers(1, 100, shape)
    return np.where(rng.random(shape) < 0.1, drawn, 0).astype(dtype)


def rows_of(array: Any, is_sparse: bool, keep: Any) -> list[tuple[Any, ...]]:
    """What cells of an array should be: in C order, of a sparse one those that are not zero."""
    wanted = [(*map(int, place), array[place]) for place in np.ndindex(array.shape) if keep(*place)]
    return [row for row in wanted if row[-1] != 0 or not is_sparse]


def found_rows(answer: lacus.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in answer]


# ---------------------------------------------------------------- cells


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint64", "bool", "uint8"])
def test_cells_equal_numpy_for_any_box(url: str, layout: str, dtype: str) -> None:
    rng = np.random.default_rng(len(layout) + len(dtype))
    shape = (9, 7, 11)
    array = random_array(rng, shape, dtype)
    ds = lacus.create(url)
    ds.put("x", array, layout=layout)
    for _ in range(12):
        low = [int(rng.integers(-2, size)) for size in shape]
        high = [int(rng.integers(0, size + 3)) for size in shape]
        axis = int(rng.integers(3))
        listed = sorted({int(at) for at in rng.integers(0, shape[axis], 3)})
        where = " AND ".join(f"c{k} >= {low[k]} AND {high[k]} > c{k}" for k in range(3) if rng.random() < 0.7)
        bounded = [f"c{k} >= {low[k]}" in where for k in range(3)]
        where += f"{' AND ' if where else ''}c{axis} IN ({', '.join(map(str, listed))})"

        def keep(
            *place: int,
            bounded: Any = bounded,
            low: Any = low,
            high: Any = high,
            axis: int = axis,
            listed: Any = listed,
        ) -> bool:
            inside = all(not bounded[k] or low[k] <= place[k] < high[k] for k in range(3))
            return inside and place[axis] in listed

        found = table(ds.query(f"SELECT * FROM cells('x') WHERE {where}"))
        assert found.columns == ["c0", "c1", "c2", "value"]
        assert found_rows(found) == rows_of(array, layout != "dense", keep), where
        back = found.to_tensor(shape)
        assert isinstance(back, np.ndarray) and back.dtype == array.dtype
        mask = np.array([keep(*place) for place in np.ndindex(shape)]).reshape(shape)
        assert np.array_equal(back, np.where(mask, array, array.dtype.type(0)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cells_come_back_as_the_same_array(url: str, layout: str) -> None:
    array = random_array(np.random.default_rng(3), (20, 30), "float64")
    array[-1, -1] = 1.0
    ds = lacus.create(url)
    ds.put("x", array, layout=layout)
    answer = table(ds.query("SELECT * FROM cells('x')"))
    assert np.array_equal(answer.to_tensor(), array)
    sparse = answer.to_tensor(array.shape, dense=False)
    assert isinstance(sparse, lacus.SparseTensor)
    ds.put("copy", sparse)
    assert np.array_equal(np.asarray(ds["copy"][...]), array)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_are_joined_and_grouped(url: str, layout: str) -> None:
    rng = np.random.default_rng(5)
    a, b = random_array(rng, (12, 8), "int64"), random_array(rng, (8, 10), "int64")
    ds = lacus.create(url)
    ds.put("a", a, layout=layout)
    ds.put("b", b, layout=layout)
    product = ds.query(
        "SELECT a.c0 AS c0, b.c1 AS c1, sum(a.value * b.value) AS value "
        "FROM cells('a') JOIN cells('b') ON a.c1 = b.c0 GROUP BY a.c0, b.c1"
    )
    assert np.array_equal(table(product).to_tensor((12, 10)), a @ b)
    sums = ds.query("SELECT c1 AS c0, sum(value) AS value FROM cells('a') GROUP BY c1")
    assert np.array_equal(table(sums).to_tensor((8,)), a.sum(axis=0))
    total = table(ds.query("SELECT sum(value) AS s, count(*) AS n FROM cells('a') WHERE c0 = 3"))
    # The sum of no rows is NULL.
    assert (total["s"][0] or 0) == a[3].sum()
    assert total["n"][0] == (8 if layout == "dense" else np.count_nonzero(a[3]))


def test_scalar_subqueries_bring_arrays_into_conditions(url: str) -> None:
    ds = lacus.create(url)
    ds["history"] = np.array([1.0, 2.0, 6.0])
    ds.add_column("score", dtype="float64", shape=[])
    ds.extend({"score": [2.0, 3.5, 9.0]})
    found = ds.query("SELECT * WHERE score > (SELECT avg(value) FROM cells('history'))")
    assert isinstance(found, lacus.View) and found.positions == [1, 2]


def test_only_the_chunks_that_are_asked_for_are_read(url: str) -> None:
    ds = lacus.create(url)
    ds.put("x", np.arange(100 * 100, dtype="int32").reshape(100, 100), layout="dense", chunk_shape=(10, 10))
    plan = ds.explain("SELECT value FROM cells('x') WHERE c0 BETWEEN 12 AND 18 AND c1 = 33")
    assert 'LacusCells: array="x"' in plan and "ranges=[12:19, 33:34], chunks=1 of 100" in plan
    run = ds.explain("SELECT value FROM cells('x') WHERE c0 BETWEEN 12 AND 18 AND c1 = 33", analyze=True)
    assert "stored_rows_read=1" in run
    # Coordinates of a dense array need no reading.
    assert "stored_rows_read=0" in ds.explain("SELECT max(c0 + c1) FROM cells('x') WHERE c0 < 50", analyze=True)
    # Nor do many chunks for a few rows.
    assert table(ds.query("SELECT value FROM cells('x') LIMIT 3"))["value"].tolist() == [0, 1, 2]


def test_a_huge_shape_with_few_nonzeros_is_small_work(url: str) -> None:
    places = [[0, 5, 2**40], [2**50, 0, 1], [2**50, 7, 0]]
    for layout in ["coo", "csf"]:
        ds = lacus.create(f"{url}-{layout}")
        ds.put("x", lacus.SparseTensor(places, [1.5, 2.5, 3.5], (2**60, 2**60, 2**60)), layout=layout)
        found = table(ds.query(f"SELECT * FROM cells('x') WHERE c0 > 0 AND c0 <= {2**50} ORDER BY c1"))
        assert found_rows(found) == [(2**50, 0, 1, 2.5), (2**50, 7, 0, 3.5)]
        assert len(table(ds.query("SELECT * FROM cells('x') WHERE c0 > 17 AND c0 < 20"))) == 0
        back = table(ds.query("SELECT * FROM cells('x')")).to_tensor((2**60, 2**60, 2**60))
        assert isinstance(back, lacus.SparseTensor) and back.indices.tolist() == places


def test_arrays_larger_than_a_part_come_in_order(url: str) -> None:
    # More than the 16 MiB that are in memory at a time, in chunks that do not follow C order.
    array = np.arange(3000 * 1000, dtype="int64").reshape(3000, 1000)
    ds = lacus.create(url)
    ds.put("x", array, layout="dense", chunk_shape=(1500, 500))
    assert np.array_equal(
        table(ds.query("SELECT value FROM cells('x') WHERE value % 3 = 0"))["value"], np.arange(0, array.size, 3)
    )
    assert table(ds.query("SELECT value FROM cells('x') LIMIT 3 OFFSET 700"))["value"].tolist() == [700, 701, 702]
    sums = table(ds.query("SELECT sum(value) AS s, count(*) AS n FROM cells('x') WHERE c1 < 700"))
    assert (sums["s"][0], sums["n"][0]) == (array[:, :700].sum(), 3000 * 700)


def test_empty_arrays_numbers_and_small_floats(url: str) -> None:
    ds = lacus.create(url)
    ds["empty"] = np.zeros((0, 4), "float32")
    ds["number"] = np.float32(2.5)
    ds["half"] = np.array([0.5, 1.5], "float16")
    assert len(table(ds.query("SELECT * FROM cells('empty')"))) == 0
    number = table(ds.query("SELECT * FROM cells('number')"))
    assert number.columns == ["value"] and number["value"].tolist() == [2.5]
    assert table(ds.query("SELECT sum(value) AS s FROM cells('half')"))["s"].tolist() == [2.0]


def test_other_states_and_datasets(url: str) -> None:
    ds = lacus.create(url)
    ds["x"] = np.array([1, 2, 3])
    ds.commit("first")
    ds.tag("v1")
    ds["x"] = np.array([1, 5, 3])
    ds.commit("second")
    changed = ds.query(
        "SELECT new.c0, old.value AS before FROM cells('x') AS new JOIN cells('x')@\"v1\" AS old ON new.c0 = old.c0 WHERE new.value <> old.value"
    )
    assert found_rows(table(changed)) == [(1, 2)]
    assert table(lacus.sql("SELECT value FROM cells(other, 'x') WHERE c0 = 1", other=ds.view(at="v1")))[
        "value"
    ].tolist() == [2]


def test_wrong_names_get_help(url: str) -> None:
    ds = lacus.create(url)
    ds["uber"] = np.arange(3)
    ds["complex"] = np.array([1j])
    ds.add_column("label", "class_label", class_names=["a"])
    for text, why in [
        ("SELECT * FROM cells('ubr')", 'no array "ubr"; did you mean "uber"?'),
        ("SELECT * FROM cells('label')", "is a column, and `cells` reads arrays"),
        ("SELECT * FROM cells('complex')", "SQL has no complex numbers"),
        ("SELECT * FROM cells()", "found 0 arguments"),
        ("SELECT * FROM cells(3)", "the name of an array in quotes"),
        ("SELECT c7 FROM cells('uber')", 'no column "c7"'),
    ]:
        with pytest.raises(lacus.InvalidError) as caught:
            ds.query(text)
        assert why in str(caught.value), text


# ---------------------------------------------------------------- to_tensor


def test_coordinates_and_values_are_a_tensor() -> None:
    pairs = values("(0, 1, 1.5), (2, 0, 2.5)", "c0, c1, value")
    assert np.array_equal(pairs.to_tensor(), np.array([[0, 1.5], [0, 0], [2.5, 0]]))
    wide = pairs.to_tensor((3, 4))
    assert isinstance(wide, np.ndarray) and wide.shape == (3, 4) and wide.sum() == 4.0
    sparse = pairs.to_tensor((3, 4), dense=False)
    assert isinstance(sparse, lacus.SparseTensor) and np.array_equal(sparse.todense(), wide)
    # What would not fit into memory is sparse by itself.
    assert isinstance(pairs.to_tensor((10**9, 10**9)), lacus.SparseTensor)
    flags = values("(2, true), (0, false)", "c0, flag").to_tensor(4, value="flag")
    assert isinstance(flags, np.ndarray) and flags.tolist() == [False, False, True, False]


def test_tables_without_rows_or_coordinates() -> None:
    nothing = table(lacus.sql("SELECT * FROM (VALUES (1, 2.0)) AS t(c0, value) WHERE c0 > 5"))
    assert np.array_equal(nothing.to_tensor((3,)), np.zeros(3))
    assert np.asarray(nothing.to_tensor()).shape == (0,)
    number = values("(7)", "value").to_tensor()
    assert np.asarray(number).shape == () and number == 7


@pytest.mark.parametrize(
    ("rows", "columns", "shape", "error", "why"),
    [
        (
            "(1, 2), (0, 9), (1, 3)",
            "c0, value",
            None,
            lacus.InvalidError,
            r"rows 0 and 2 have the same coordinates \(1,\)",
        ),
        ("(1, NULL), (2, 3)", "c0, value", None, lacus.InvalidError, "'value' has no value in row 0"),
        ("(1, 2), (NULL, 3)", "c0, value", None, lacus.InvalidError, "'c0' has no value in row 1"),
        ("(1.5, 2)", "c0, value", None, lacus.InvalidError, "an integer is expected in column 'c0', which has float64"),
        ("(1, 'x')", "c0, value", None, lacus.InvalidError, "a number is expected in column 'value', which has text"),
        ("(-1, 2)", "c0, value", None, lacus.OutOfBoundsError, "c0 is -1 in row 0, and coordinates are not negative"),
        ("(1, 2), (5, 2)", "c0, value", (3,), lacus.OutOfBoundsError, r"c0 is 5 in row 1, outside of shape \(3,\)"),
        ("(1, 2)", "c0, value", (3, 3), lacus.InvalidError, "has 2 axes, and there are 1 columns"),
        ("(1, 2, 3)", "c0, c2, value", None, lacus.InvalidError, "there is a column 'c2' and no column 'c1'"),
        ("(1, 2)", "c0, w", None, lacus.NotFoundError, "there is no column 'value'"),
        ("(1), (2)", "value", None, lacus.InvalidError, "rows 0 and 1 have the same coordinates"),
        ("(1, 2)", "c0, value", -3, lacus.InvalidError, "-3 is no size"),
    ],
)
def test_what_is_no_tensor_is_refused(rows: str, columns: str, shape: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        values(rows, columns).to_tensor(shape)


def test_a_dense_tensor_that_does_not_fit_says_so() -> None:
    with pytest.raises(lacus.OutOfMemoryError, match="dense=False makes it sparse"):
        values("(1, 2, 3)", "c0, c1, value").to_tensor((10**9, 10**9), dense=True)
