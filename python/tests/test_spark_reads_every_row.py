"""Real Spark with Delta Lake reads every row of every state of a dataset, and what it writes is read or named by Lacus.

Spark's default settings are used: the vectorised reader, splits of files, deletion vectors. Nothing but docs/format.md is
known of the rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spark_session import session
from test_other_readers_agree import dense_from_rows

import lacus

#: Where SQL finds the cells of COO tensors and the samples of columns.
CELLS = {"counts": "int", "weights": "float", "rates": "real"}
SAMPLES = {"label": "int", "weight": "float", "score": "real", "caption": "text", "blob": "data"}
ROWS = 60

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def spark() -> Any:
    """The session."""
    return session()


def samples(rng: np.random.Generator, count: int) -> dict[str, list[Any]]:
    """Rows of every kind; the blobs do not compress and lie in pages of their own and together with others."""
    return {
        "label": rng.integers(0, 5, count).tolist(),
        "weight": rng.random(count).astype(np.float32).tolist(),
        "score": rng.random(count).tolist(),
        "caption": [f"caption {i}" for i in range(count)],
        "blob": [rng.integers(0, 256, int(size), dtype=np.uint8) for size in rng.integers(0, 90_000, count)],
    }


@pytest.fixture
def filled(ds: lacus.Dataset, rng: np.random.Generator) -> lacus.Dataset:
    """Chunks large and small, cells of three types, packed nonzeros, columns."""
    images = rng.integers(0, 255, (12, 256, 256), dtype=np.uint8)
    ds.put("images", images, layout="dense", chunk_shape=(2, 256, 256), compression=None)
    ds.put("waves", np.sin(np.arange(40_000.0)).reshape(40, 1000).astype(np.float32), layout="dense", chunk_shape=(9, 300))
    for name, dtype in (("counts", "int32"), ("weights", "float32"), ("rates", "float64")):
        shape = (8, 30, 20)
        value = np.where(rng.random(shape) < 0.7, rng.integers(4, 2**20, shape) / 4, 0)
        ds.put(name, value.astype(dtype), layout="COO", metadata={"of": name})
    ds.put("packed", np.where(rng.random((300, 200)) < 0.05, 1.5, 0), layout="CSR")
    ds.add_column("label", dtype="int64", shape=())
    ds.add_column("weight", dtype="float32", shape=())
    ds.add_column("score", dtype="float64", shape=())
    ds.add_column("caption", "text")
    ds.add_column("blob", dtype="uint8", shape=(None,))
    ds.extend(samples(rng, ROWS))
    return ds


def rows_of(spark: Any, path: str) -> dict[str, list[dict[str, Any]]]:
    """All columns of all rows, by tensor."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in spark.sql(f"SELECT * FROM delta.`{path}`").collect():
        found.setdefault(row["tensor"], []).append(row.asDict())
    return found


def check(spark: Any, ds: lacus.Dataset, path: str | None = None) -> None:
    """Spark finds what Lacus finds."""
    path = path or ds.url
    found = rows_of(spark, path)
    arrays = [name for name in ds.keys() if name not in ds.columns]
    assert set(found) - {"", "/rows"} == {*arrays, *ds.columns}
    headers = {name: row for name, rows in found.items() for row in rows if row["dtype"] is not None}
    for name in arrays:
        value = np.asarray(ds[name])
        rows = [row for row in found[name] if row["dtype"] is None]
        assert tuple(headers[name]["shape"]) == value.shape
        if headers[name]["layout"] == "FTSF":
            assert np.array_equal(dense_from_rows(headers[name], rows), value), name
        elif headers[name]["layout"] == "COO":
            built = np.zeros_like(value)
            axes = tuple(np.array([row[f"c{k}"] for row in rows], int) for k in range(value.ndim))
            built[axes] = [row[CELLS[name]] for row in rows]
            assert len(rows) == np.count_nonzero(value) and np.array_equal(built, value), name
    ids = list(ds[:].ids)
    assert sorted(row["row"] for row in found.get("/rows", [])) == sorted(ids)
    for name in ds.columns:
        rows = [row for row in found[name] if row["dtype"] is None]
        at = {row["row"]: row for row in rows}
        assert len(at) == len(rows)
        expected = dict(zip(ids, list(ds[name][:]), strict=True))
        if name == "blob":
            lengths = {id: len(value) for id, value in expected.items()}
            assert {id: row["shape"][0] for id, row in at.items()} == lengths
            raw = {id: bytes(row["data"]) for id, row in at.items() if row["codec"] == "raw"}
            assert raw == {id: expected[id].tobytes() for id in raw} and raw
        else:
            assert {id: row[SAMPLES[name]] for id, row in at.items()} == expected
    # The same in SQL, where only some columns are read.
    sums = spark.sql(
        "SELECT tensor, count(*) AS n, sum(int) AS i, sum(float) AS f, sum(real) AS r, sum(bytes) AS b, "
        f"sum(length(data)) AS d, count(codec) AS k FROM delta.`{path}` WHERE dtype IS NULL GROUP BY tensor"
    ).collect()
    for row in sums:
        rows = [each for each in found[row["tensor"]] if each["dtype"] is None]
        assert row["n"] == len(rows), row["tensor"]
        assert row["b"] == row["d"] and row["k"] == sum(each["codec"] is not None for each in rows)
        for key, column in (("i", "int"), ("f", "float"), ("r", "real")):
            values = [each[column] for each in rows if each[column] is not None]
            assert (row[key] is None) == (not values)
            assert not values or row[key] == pytest.approx(float(np.sum(np.array(values, float))))
    slices = spark.sql(
        "SELECT tensor, count(*) AS n, sum(coalesce(int, float, real)) AS s "
        f"FROM delta.`{path}` WHERE layout IS NULL AND c0 = 7 AND codec IS NULL GROUP BY tensor"
    ).collect()
    assert {row["tensor"] for row in slices} == {name for name in CELLS if np.asarray(ds[name])[7].any()}
    for row in slices:
        value = np.asarray(ds[row["tensor"]])[7]
        assert row["n"] == np.count_nonzero(value)
        assert row["s"] == pytest.approx(float(value.sum(dtype=np.float64)))


def test_every_state_of_main_and_of_branches(spark: Any, filled: lacus.Dataset, rng: np.random.Generator) -> None:
    ds = filled
    check(spark, ds)
    # Regions: the first change of a large file brings deletion vectors.
    ds["images"][3:5, 7] = 1
    ds["waves"][20] = 0.5
    check(spark, ds)
    ds.extend(samples(rng, 20))
    ds.delete_rows([0, 5, 6, 70])
    ds["label"][10:20] = np.arange(10)
    ds["blob"][3] = np.arange(200, dtype=np.uint8)
    ds["waves"].append(np.ones((3, 1000), np.float32))
    check(spark, ds)
    ds.commit("Changed")
    ds.checkout("try", create=True)
    ds["images"][0] = 2
    ds["score"][1] = -1.0
    ds.delete_rows([2])
    ds.put("rates", np.asarray(ds["rates"]) * 2, layout="COO")
    ds.commit("Tried")
    branch = f"{ds.url}/{ds.branches['try'].directory}"
    check(spark, ds, branch)
    assert ds.publish() == branch
    check(spark, ds, branch)
    ds.checkout("main")
    ds["label"][0] = 4
    ds.commit("Meanwhile")
    ds.merge("try")
    check(spark, ds)
    ds.compact()
    check(spark, ds)
    assert ds.check().healthy


@pytest.fixture
def copied(filled: lacus.Dataset, tmp_path: Path) -> Callable[[], lacus.Dataset]:
    """Copies of a dataset with a commit and a branch, for others to write to; half of them with deletion vectors."""
    ds = filled
    ds.commit("First")
    ds.branches.create("other")
    made: list[str] = []

    def copy() -> lacus.Dataset:
        to = str(tmp_path / f"copy-{len(made)}")
        made.append(to)
        return lacus.open(shutil.copytree(ds.url, to))

    return copy


def values(ds: lacus.Dataset) -> dict[str, Any]:
    """Everything that is stored, to be compared."""
    arrays = {name: np.asarray(ds[name]).tobytes() for name in ds.keys() if name not in ds.columns}
    columns = {name: [np.asarray(value).tobytes() for value in ds[name][:]] for name in ds.columns}
    return arrays | columns


@pytest.mark.parametrize("vectors", [False, True], ids=["plain", "deletion vectors"])
def test_what_spark_writes_is_read_or_named(spark: Any, copied: Callable[[], lacus.Dataset], vectors: bool) -> None:
    def fresh() -> lacus.Dataset:
        ds = copied()
        if vectors:
            ds["images"][3:5, 7] = 1
        return ds

    def table(ds: lacus.Dataset) -> str:
        return f"delta.`{ds.url}`"

    # INSERT: rows of no tensor are kept and named; Lacus goes on.
    ds = fresh()
    before = values(ds)
    spark.sql(f"INSERT INTO {table(ds)} (tensor, text, c0) VALUES ('stranger', 'hello', 1)")
    ds.refresh()
    assert values(ds) == before
    assert any("stranger" in what for what, _ in ds.check().damage)
    assert any("INSERT" in problem or "WRITE" in problem for _, problem in ds.check().notes)
    ds.compact()
    ds["label"][0] = ds["label"][0]
    assert values(ds) == before
    assert [row["text"] for row in rows_of(spark, ds.url)["stranger"]] == ["hello"]

    # DELETE: a tensor, then cells of another.
    ds = fresh()
    before = values(ds)
    spark.sql(f"DELETE FROM {table(ds)} WHERE tensor = 'waves'")
    ds.refresh()
    before.pop("waves")
    assert values(ds) == before
    assert ds.check().healthy
    spark.sql(f"DELETE FROM {table(ds)} WHERE tensor = 'weights' AND c0 = 7")
    ds.refresh()
    expected = np.asarray(lacus.open(ds.url, at="main")["weights"]).copy()
    assert not expected[7].any()
    report = ds.check()
    assert any("nonzeros" in problem and "weights" in what for what, problem in report.damage), report
    ds.put("weights", expected, layout="COO")
    assert ds.check().healthy

    # OPTIMIZE and VACUUM: nothing changes, not for branches and commits either.
    ds = fresh()
    before, committed = values(ds), values(lacus.open(ds.url, at="HEAD"))
    spark.sql(f"OPTIMIZE {table(ds)}")
    spark.sql(f"VACUUM {table(ds)}")
    ds.refresh()
    assert values(ds) == before
    assert ds.check().healthy
    check(spark, ds)
    ds.compact()
    assert values(ds) == before
    assert values(lacus.open(ds.url, at="HEAD")) == committed
    assert values(lacus.open(ds.url, branch="other")) == committed
    assert ds.check().healthy
