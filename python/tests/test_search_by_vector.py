"""Searches by vector find what numpy finds: exactly, with conditions, by an index, and whatever was written since."""

from __future__ import annotations

import gc
import logging
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lacus
from lacus import InvalidError, NotFoundError

REAL = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data" / "vectors" / "minilm_A_10k.npz"

Scores = Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], np.ndarray[Any, Any]]

#: Less is nearer.
MEASURES: dict[str, Scores] = {
    "cosine": lambda rows, q: -(rows @ q) / (np.linalg.norm(rows, axis=1) * np.linalg.norm(q)),
    "dot": lambda rows, q: -(rows @ q),
    "l2": lambda rows, q: np.linalg.norm(rows - q, axis=1),
    "l1": lambda rows, q: np.abs(rows - q).sum(axis=1),
    "linf": lambda rows, q: np.abs(rows - q).max(axis=1),
    "hamming": lambda rows, q: (rows != q).sum(axis=1),
}


def heaps(rows: int, size: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Vectors in heaps, as embeddings are: the same heaps whatever the seed, as a promise is for vectors like those of the column."""
    centres = np.random.default_rng(99).normal(size=(64, size))
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(64, size=rows)] + 0.6 * rng.normal(size=(rows, size))).astype(np.float32)


def made(url: Any, vectors: np.ndarray[Any, Any], **more: Any) -> lacus.Dataset:
    ds = lacus.create(str(url))
    ds.add_column("embedding", dtype=str(vectors.dtype), shape=vectors.shape[1:])
    ds.add_column("number", dtype="int64", shape=[])
    ds.extend({"embedding": vectors, "number": np.arange(len(vectors)), **more})
    return ds


def brute(vectors: np.ndarray[Any, Any], query: np.ndarray[Any, Any], k: int, metric: str, allowed: Any = None) -> list[int]:
    values = MEASURES[metric](vectors.astype(np.float64), query.astype(np.float64))
    order = np.argsort(values, kind="stable")
    if allowed is not None:
        order = order[np.isin(order, allowed)]
    return [int(row) for row in order[:k]]


def numbers(view: Any) -> list[int]:
    return [int(number) for number in view["number"][:]]


@pytest.mark.parametrize("metric", list(MEASURES))
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8"])
def test_exact_is_what_numpy_finds(tmp_path: pathlib.Path, dtype: str, metric: str) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.integers(0, 100, size=(700, 19)).astype(dtype)
    ds = made(tmp_path / "ds", vectors)
    query = rng.integers(0, 100, size=19).astype(dtype)
    found = ds["embedding"].search(query, k=20, metric=metric)
    assert isinstance(found, lacus.View)
    values = MEASURES[metric](vectors.astype(np.float64), query.astype(np.float64))
    # Numbers of this size have exact sums, so that only rounding of the last step may tie rows.
    got = values[numbers(found)]
    np.testing.assert_allclose(got, np.sort(values)[:20], rtol=1e-6, atol=1e-7)
    shown = found["score" if metric in ("cosine", "dot") else "distance"][:]
    sign = -1 if metric in ("cosine", "dot") else 1
    np.testing.assert_allclose(np.asarray(shown, dtype=np.float64) * sign, got, rtol=1e-3, atol=1e-3)


def test_the_sort_and_the_search_mean_the_same_rows(tmp_path: pathlib.Path) -> None:
    vectors = heaps(3000, 32)
    ds = made(tmp_path / "ds", vectors)
    query = heaps(1, 32, seed=9)[0]
    expected = brute(vectors, query, 10, "cosine")
    sort = ds.query("SELECT * ORDER BY cosine_similarity(embedding, ?) DESC LIMIT 10", [query])
    search = ds.query("SELECT * FROM vector_search('embedding', ?, 10)", [query])
    assert numbers(sort) == numbers(search) == numbers(ds["embedding"].search(query)) == expected
    assert numbers(ds.query("SELECT number, l2_distance(embedding, ?) AS d ORDER BY d LIMIT 7", [query])) == brute(
        vectors, query, 7, "l2"
    )
    # Farthest first is a sort, too.
    far = ds.query("SELECT * ORDER BY l2_distance(embedding, ?) DESC LIMIT 5", [query])
    assert numbers(far) == [int(row) for row in np.argsort(-MEASURES["l2"](vectors, query), kind="stable")[:5]]
    # Of a table, and with more than rows.
    table = ds.query("SELECT number % 2 AS odd, count(*) AS n FROM vector_search('embedding', ?, 100) GROUP BY odd", [query])
    assert sum(table["n"]) == 100
    assert "LacusNearest" in ds.explain("SELECT * ORDER BY l2_distance(embedding, ?) LIMIT 10", [query])


def test_conditions_come_first(tmp_path: pathlib.Path) -> None:
    vectors = heaps(2000, 16)
    ds = made(tmp_path / "ds", vectors)
    query = vectors[5]
    for least in (0, 1000, 1900, 1993, 2000):
        allowed = np.arange(least, 2000)
        found = ds["embedding"].search(query, k=10, where="number >= ?", params=[least])
        assert numbers(found) == brute(vectors, query, 10, "cosine", allowed), least
        assert len(found) == min(10, 2000 - least)
    view = ds.view()[::3]
    found = view.query("SELECT * FROM vector_search('embedding', ?, 4) WHERE number > 600", [query])
    assert numbers(found) == brute(vectors, query, 4, "cosine", np.arange(603, 2000, 3))


def test_missing_vectors_and_ties(tmp_path: pathlib.Path) -> None:
    vectors = np.zeros((6, 2), np.float32)
    vectors[[1, 2, 4]] = [1, 0]
    vectors[3] = [0, 1]
    ds = made(tmp_path / "ds", vectors)
    ds.extend({"number": [6, 7]})
    query = np.array([1, 0], np.float32)
    # Equal ones by their place; then what has no direction or no vector.
    assert numbers(ds["embedding"].search(query, k=8)) == [1, 2, 4, 3, 0, 5, 6, 7]
    assert numbers(ds["embedding"].search(query, k=2)) == [1, 2]
    # ORDER BY has NULL first when it goes down, as SQL says.
    first = ds.query("SELECT * ORDER BY inner_product(embedding, ?) DESC LIMIT 4", [query])
    assert numbers(first) == [6, 7, 1, 2]
    last = ds.query("SELECT * ORDER BY inner_product(embedding, ?) DESC NULLS LAST LIMIT 4", [query])
    assert numbers(last) == [1, 2, 4, 0]




@pytest.mark.parametrize(("metric", "bits"), [("cosine", None), ("l2", 8), ("dot", None)])
def test_an_index_keeps_its_promise_at_any_selectivity(tmp_path: pathlib.Path, metric: str, bits: int | None) -> None:
    rows, size = 12_000, 24
    vectors = heaps(rows, size)
    queries = heaps(30, size, seed=5)
    rng = np.random.default_rng(2)
    share = rng.random(rows)
    ds = lacus.create(str(tmp_path / "ds"))
    ds.add_column("embedding", dtype="float32", shape=(size,))
    ds.add_column("number", dtype="int64", shape=[])
    ds.add_column("share", dtype="float64", shape=[])
    ds.extend({"embedding": vectors, "number": np.arange(rows), "share": share})
    info = ds["embedding"].create_index("ivf", metric=metric, recall=0.95, bits=bits)
    assert (info.rows, info.covered, info.metric, info.bits) == (rows, rows, metric, bits)
    assert all(found.recall >= 0.95 for found in info.probes)
    assert ds.indexes == ds["embedding"].indexes == [info]
    for selectivity in (1.0, 0.5, 0.1, 0.01, 0.001):
        found = 0
        for query in queries:
            allowed = np.flatnonzero(share < selectivity)
            view = ds["embedding"].search(query, k=10, where="share < ?", params=[selectivity], metric=metric)
            expected = brute(vectors, query, 10, metric, allowed)
            assert len(view) == min(10, len(allowed))
            found += len(set(numbers(view)) & set(expected)) / len(expected)
        assert found / len(queries) >= 0.93, selectivity
    text = ds.explain("SELECT * FROM vector_search('embedding', ?, 10, '" + metric + "')", [queries[0]], analyze=True)
    assert "index=ivf" in text and f"index_covers={rows}" in text and "lists_probed=" in text and "rows_scanned=" in text
    scanned = int(text.split("rows_scanned=")[1].split(",")[0].split("]")[0])
    assert scanned < rows / 3
    assert ds["embedding"].drop_index() and not ds["embedding"].drop_index()
    assert ds.indexes == []


def test_what_was_written_since_is_found(tmp_path: pathlib.Path) -> None:
    rows, size = 6000, 16
    vectors = heaps(rows, size)
    ds = made(tmp_path / "ds", vectors)
    ds["embedding"].create_index("ivf", metric="l2")
    ds.commit("with an index")
    queries = heaps(20, size, seed=7)
    ds.branches.create("side")
    # A tenth more rows on one branch.
    more = heaps(rows // 10, size, seed=8)
    ds.extend({"embedding": more, "number": np.arange(rows, rows + len(more))})
    vectors = np.concatenate([vectors, more])
    assert ds["embedding"].search(more[3], k=1, metric="l2")["number"][0] == rows + 3
    # Rows deleted, and some changed.
    ds.delete_rows(range(100, 700))
    ds["embedding"][5] = queries[0]
    vectors[5] = queries[0]
    assert numbers(ds["embedding"].search(queries[0], k=1, metric="l2")) == [5]
    alive = np.concatenate([np.arange(100), np.arange(700, len(vectors))])
    (info,) = ds.indexes
    assert info.covered == rows - 600 - 1
    assert recall_among(ds, vectors, queries, alive) >= 0.93
    ds.commit("changed")
    # Others changed on another branch, which has the index as well.
    side = lacus.open(str(tmp_path / "ds"), branch="side")
    assert side.indexes[0].covered == rows
    extra = heaps(300, size, seed=11)
    side.extend({"embedding": extra, "number": np.arange(20_000, 20_300)})
    side.commit("extra")
    ds.merge("side")
    assert len(ds) == len(alive) + 300
    names = {int(number): place for place, number in enumerate(ds["number"][:])}
    assert ds["embedding"].search(extra[7], k=1, metric="l2")["number"][0] == 20_007
    assert 20_007 in names
    everything = np.zeros((20_300, size), np.float32)
    everything[: len(vectors)] = vectors
    everything[20_000:] = extra
    alive = np.concatenate([alive, np.arange(20_000, 20_300)])
    assert recall_among(ds, everything, queries, alive) >= 0.93
    # Files that were written again hold the same vectors.
    ds.compact()
    assert ds.indexes[0].covered == rows - 600 - 1
    assert recall_among(ds, everything, queries, alive) >= 0.93
    ds["embedding"].create_index("ivf", metric="l2")
    assert ds.indexes[0].covered == len(ds)
    ds.rename_column("embedding", "vector")
    assert ds["vector"].indexes[0].rows == len(ds)


def recall_among(ds: lacus.Dataset, vectors: np.ndarray[Any, Any], queries: np.ndarray[Any, Any], alive: Any) -> float:
    found = 0
    for query in queries:
        rows = numbers(ds["embedding"].search(query, k=10, metric="l2"))
        assert len(rows) == 10
        assert set(rows) <= {int(row) for row in alive}
        found += len(set(rows) & set(brute(vectors, query, 10, "l2", alive)))
    return found / (10 * len(queries))


def test_indexes_are_hidden(tmp_path: pathlib.Path) -> None:
    ds = made(tmp_path / "ds", heaps(500, 8))
    ds["array"] = np.arange(3)
    ds.commit("before")
    ds["embedding"].create_index()
    assert list(ds) == ["array"] or sorted(ds.keys()) == ["array", "embedding", "number"]
    assert not any("_index/" in shown for shown in (repr(ds), str(ds.summary()), repr(ds.diff())))
    for bad in (
        lambda: ds.put("_index/x", np.ones(2)),
        lambda: ds.rename("array", "_index/x"),
        lambda: ds.add_column("_index/c", dtype="int64"),
    ):
        with pytest.raises(InvalidError, match="belong to indexes"):
            bad()
    ds.materialize(str(tmp_path / "copy"))
    assert lacus.open(str(tmp_path / "copy")).indexes == []


def test_bad_input(tmp_path: pathlib.Path) -> None:
    ds = made(tmp_path / "ds", heaps(50, 8))
    ds.add_column("ragged", dtype="float32", shape=(None,))
    ds.add_column("text", htype="text")
    column, query = ds["embedding"], np.ones(8, np.float32)
    with pytest.raises(InvalidError, match=r"shape \(8,\), and the one given has \(7,\)"):
        column.search(np.ones(7))
    with pytest.raises(InvalidError, match="needs numbers"):
        column.search(["a"] * 8)
    for k in (0, -1):
        with pytest.raises(InvalidError, match="k must be at least 1"):
            column.search(query, k=k)
    with pytest.raises(InvalidError, match="no metric 'l3'"):
        column.search(query, metric="l3")
    for name in ("ragged", "text", "number"):
        with pytest.raises(InvalidError, match="a search needs vectors"):
            ds[name].search(query)
        with pytest.raises(InvalidError, match="a search needs vectors"):
            ds[name].create_index()
    with pytest.raises((InvalidError, NotFoundError), match="embeding"):
        ds.query("SELECT * FROM vector_search('embeding', ?, 3)", [query])
    with pytest.raises(InvalidError, match=r"\(8,\) and \(7,\)"):
        ds.query("SELECT * FROM vector_search('embedding', ?, 3)", [np.ones(7, np.float32)])
    with pytest.raises(InvalidError, match="above 0"):
        ds.query("SELECT * FROM vector_search('embedding', ?, 0)", [query])
    with pytest.raises(InvalidError, match="takes a column"):
        ds.query("SELECT * FROM vector_search('embedding', ?)", [query])
    for wrong in ({"recall": 0.0}, {"recall": 1.5}, {"lists": 0}, {"bits": 4}, {"metric": "l1"}, {"metric": "x"}, {"kind": "hnsw"}):
        with pytest.raises(InvalidError, match="create_index"):
            column.create_index(**wrong)  # type: ignore[arg-type]
    assert ds.indexes == []


def test_a_damaged_index_is_passed_over(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    vectors = heaps(4000, 16)
    ds = made(tmp_path / "ds", vectors)
    before = set((tmp_path / "ds").rglob("*.parquet"))
    ds["embedding"].create_index("ivf", metric="l2")
    query = heaps(1, 16, seed=3)[0]
    for path in set((tmp_path / "ds").rglob("*.parquet")) - before:
        path.write_bytes(b"PAR1" + bytes(len(path.read_bytes()) - 8) + b"PAR1")
    # What was read is kept as long as somebody has the dataset open.
    del ds
    gc.collect()
    again = lacus.open(str(tmp_path / "ds"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert numbers(again["embedding"].search(query, k=10, metric="l2")) == brute(vectors, query, 10, "l2")
    assert again.indexes[0].damage


@pytest.mark.skipif(not REAL.exists(), reason="the vectors are not here")
def test_real_vectors(tmp_path: pathlib.Path) -> None:
    with np.load(REAL) as archive:
        vectors = next(archive[name] for name in archive.files if archive[name].ndim == 2).astype(np.float32)
    queries, vectors = vectors[:40], vectors[40:]
    ds = made(tmp_path / "ds", vectors)
    for query in queries[:5]:
        assert numbers(ds["embedding"].search(query)) == brute(vectors, query, 10, "cosine")
    ds["embedding"].create_index()
    found = sum(len(set(numbers(ds["embedding"].search(q))) & set(brute(vectors, q, 10, "cosine"))) for q in queries)
    assert found / (10 * len(queries)) >= 0.93
