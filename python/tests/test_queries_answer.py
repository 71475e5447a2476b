"""Questions in SQL, asked from Python: views and tables as answers, parameters, errors that help."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_ctrl_c_cancels import START, interrupted

import lacus

ROWS = 12
NAMES = ["cat", "dog", "owl"]


@pytest.fixture
def ds(url: str) -> lacus.Dataset:
    """Rows of every kind, every fourth caption and embedding missing."""
    made = lacus.create(url)
    made.add_column("image", "image", compression="png")
    made.add_column("label", "class_label", class_names=NAMES)
    made.add_column("caption", "text")
    made.add_column("score", dtype="float64", shape=[])
    made.add_column("boxes", "bbox")
    made.add_column("embedding", "embedding", dtype="float32", shape=[4])
    rng = np.random.default_rng(7)
    made.extend(
        {
            "image": [np.full((4 + row, 6, 3), row * 10, np.uint8) for row in range(ROWS)],
            "label": [NAMES[row % 3] for row in range(ROWS)],
            "caption": [None if row % 4 == 3 else f"caption {row:02}" for row in range(ROWS)],
            "score": [float((row * 7) % ROWS) for row in range(ROWS)],
            "boxes": [rng.random((row % 3, 4), np.float32) for row in range(ROWS)],
            "embedding": [None if row % 4 == 3 else np.arange(4, dtype=np.float32) + row for row in range(ROWS)],
        }
    )
    made.commit("rows")
    return made


def view(answer: lacus.View | lacus.Table) -> lacus.View:
    assert isinstance(answer, lacus.View), answer
    return answer


def table(answer: lacus.View | lacus.Table) -> lacus.Table:
    assert isinstance(answer, lacus.Table), answer
    return answer


# ---------------------------------------------------------------- views


def test_rows_of_the_dataset_are_a_view(ds: lacus.Dataset) -> None:
    found = view(ds.query("SELECT * FROM dataset WHERE label = 'dog'"))
    assert found.positions == [1, 4, 7, 10]
    assert found.columns == ds.columns
    assert found == ds.view()[1::3]
    assert found.query_text == "SELECT * FROM dataset WHERE label = 'dog'"
    assert found[:1].query_text is None
    assert ds.view().query_text is None


def test_the_order_is_kept(ds: lacus.Dataset) -> None:
    found = view(ds.query("SELECT * ORDER BY score DESC LIMIT 5"))
    scores = np.asarray(ds["score"])
    assert found.positions == np.argsort(-scores)[:5].tolist()
    assert view(ds.query("SELECT * ORDER BY score LIMIT 3 OFFSET 2"))["score"].tolist() == [2.0, 3.0, 4.0]


def test_views_are_asked_too_and_keep_repeats(ds: lacus.Dataset) -> None:
    asked = ds.view()[[5, 1, 5, 2]]
    assert view(asked.query("SELECT *")).positions == [5, 1, 5, 2]
    assert view(asked.query("SELECT * WHERE label = 'owl'")).positions == [5, 5, 2]
    assert table(asked.query("SELECT count(*) AS n"))["n"].tolist() == [4]


def test_filters(ds: lacus.Dataset) -> None:
    expected = [row for row in range(ROWS) if row % 3 == 1 and (row * 7) % ROWS > 5]
    assert ds.filter("label = 'dog' and score > 5").positions == expected
    assert ds.filter("label = ? AND score > ?", ["dog", 5]).positions == expected
    assert ds.filter("label = 'dog' AND score > 5 -- that is all").positions == expected
    by_function = ds.filter(lambda row: row["label"] == 1 and row["score"] > 5, columns=["label", "score"])
    assert by_function.positions == expected
    assert ds.view()[6:].filter("label = 'dog'").positions == [7, 10]
    assert ds.view()[6:].filter(lambda row: row["score"] > 5).positions == [
        row for row in range(6, ROWS) if (row * 7) % ROWS > 5
    ]
    assert ds.filter("caption IS NULL").positions == [3, 7, 11]
    for wrong in ("", "  "):
        with pytest.raises(lacus.InvalidError, match="empty"):
            ds.filter(wrong)
    with pytest.raises(lacus.InvalidError, match="columns"):
        ds.filter("score > 1", columns=["score"])


def test_computed_columns(ds: lacus.Dataset) -> None:
    found = view(
        ds.query("SELECT label, score * 2 AS double, upper(caption) AS loud, image[0, 0] AS corner, boxes[:, 0] AS left")
    )
    assert found.columns == ["label", "double", "loud", "corner", "left"]
    assert set(found.computed) == {"double", "loud", "corner", "left"}
    assert found["double"].tolist() == [float((row * 7) % ROWS) * 2 for row in range(ROWS)]
    assert found["loud"] == [None if row % 4 == 3 else f"CAPTION {row:02}" for row in range(ROWS)]
    assert found["corner"].shape == (ROWS, 3) and found["corner"].dtype == np.uint8
    assert found["corner"][:, 0].tolist() == [row * 10 for row in range(ROWS)]
    lefts = found["left"]
    assert isinstance(lefts, list) and [left.shape for left in lefts] == [(row % 3,) for row in range(ROWS)]
    for row in range(ROWS):
        np.testing.assert_array_equal(lefts[row], ds["boxes"][row][:, 0])
    one = found[5]
    assert one["double"] == found["double"][5] and one["loud"] == "CAPTION 05" and one["label"] == 2
    assert [row["double"] for row in found] == found["double"].tolist()
    assert found[[7, 2]]["double"].tolist() == [found["double"][7], found["double"][2]]
    assert found.select(["double"]).columns == ["double"]
    assert found.to_dict(["double"])["double"].tolist() == found["double"].tolist()


def test_missing_values_of_computed_columns_are_none(ds: lacus.Dataset) -> None:
    found = view(ds.query("SELECT embedding * 2 AS twice, length(caption) AS letters"))
    assert [value is None for value in found["twice"]] == [row % 4 == 3 for row in range(ROWS)]
    np.testing.assert_array_equal(found["twice"][2], (np.arange(4) + 2) * 2)
    assert found["letters"] == [None if row % 4 == 3 else 10 for row in range(ROWS)]


def test_computed_columns_sort_and_leave(ds: lacus.Dataset) -> None:
    found = view(ds.query("SELECT label, -score AS minus, upper(caption) AS loud"))
    assert found.sort_by("minus")["minus"].tolist() == sorted(found["minus"].tolist())
    assert found.sort_by("minus", descending=True)["minus"].tolist() == sorted(found["minus"].tolist(), reverse=True)
    loud = found.sort_by("loud", descending=True)["loud"]
    assert loud[-3:] == [None] * 3 and loud[:-3] == sorted(loud[:-3], reverse=True)
    assert found.materialize(ds.url + "-copy")["minus"][:].tolist() == found["minus"].tolist()
    with pytest.raises(lacus.InvalidError, match="computed"):
        found.export(ds.url + ".csv")


def test_computed_columns_go_to_arrow(ds: lacus.Dataset) -> None:
    pa = pytest.importorskip("pyarrow")
    found = view(ds.query("SELECT label, score + 1 AS more, caption WHERE score < 6 ORDER BY score"))
    arrow = found.to_arrow()
    assert arrow.column_names == ["label", "more", "caption"]
    assert arrow["more"].to_pylist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert pa.table(found)["more"].to_pylist() == arrow["more"].to_pylist()
    assert found.to_arrow(["more"]).column_names == ["more"]
    assert sum(batch.num_rows for batch in found.scan(batch_bytes=1)) == 6
    with pytest.raises(lacus.InvalidError, match="query"):
        found.to_arrow(filter=[("more", ">", 2)])
    pytest.importorskip("pandas")
    assert found.to_pandas()["more"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_views_are_saved_with_their_query(ds: lacus.Dataset) -> None:
    text = "SELECT label, score * 2 AS double WHERE score > 5"
    found = view(ds.query(text))
    saved = found.save("high")
    assert saved.query == text and saved.rows == 6
    again = lacus.open(ds.url).views["high"]
    assert again == found and again.query_text == text
    assert again["double"].tolist() == found["double"].tolist()


def test_views_with_computed_columns_pickle(ds: lacus.Dataset) -> None:
    found = view(ds.query("SELECT score * 2 AS double WHERE label = 'cat'"))
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.query_text == found.query_text
    assert again["double"].tolist() == found["double"].tolist()


def test_other_states_can_be_named(ds: lacus.Dataset) -> None:
    ds.tag("v1")
    ds.append({"label": "cat", "score": 99.0})
    ds.commit("one more")
    old = view(ds.query("SELECT * FROM dataset@\"v1\" WHERE label = 'cat'"))
    assert old.positions == [0, 3, 6, 9] and len(ds.query("SELECT * WHERE label = 'cat'")) == 5
    assert old["score"].tolist() == ds.view(at="v1")[::3]["score"].tolist()
    assert old.save("old-cats").rows == 4


# ---------------------------------------------------------------- tables


def test_groups_are_a_table(ds: lacus.Dataset) -> None:
    found = table(ds.query("SELECT label, count(*) AS n, avg(score) AS mean GROUP BY label ORDER BY label"))
    assert len(found) == 3 and found.columns == ["label", "n", "mean"]
    assert found["label"] == NAMES and found["n"].tolist() == [4, 4, 4]
    scores = np.asarray(ds["score"])
    np.testing.assert_allclose(found["mean"], [scores[first::3].mean() for first in range(3)])
    assert found[1] == {"label": "dog", "n": 4, "mean": found["mean"][1]}
    assert found[-1]["label"] == "owl" and [row["label"] for row in found] == NAMES
    assert [row["n"] for row in found[1:]] == [4, 4]
    assert found.types["n"] == "int64"
    with pytest.raises(lacus.NotFoundError, match="mean"):
        found["median"]
    with pytest.raises(lacus.OutOfBoundsError):
        found[3]
    with pytest.raises(TypeError):
        lacus.Table()


def test_tables_show_themselves(ds: lacus.Dataset) -> None:
    text = "SELECT a.score, a.caption, a.image, a.embedding FROM dataset a JOIN dataset b ON a.score >= b.score"
    found = table(ds.query(text))
    shown = repr(found)
    assert f"… {len(found) - 10:,} more rows" in shown and "float32 (4,)" in shown
    assert "png" in shown and "<lacus.Table 78 rows, 4 columns>" in shown
    assert len({len(line) for line in shown.splitlines()[3:4]}) == 1
    html = found._repr_html_()
    assert html.startswith("<div") and "caption" in html
    assert isinstance(found["image"][0], bytes)
    assert repr(table(ds.query("SELECT count(*) AS n WHERE score > 100"))).splitlines()[-1].strip() == "0"


def test_tables_go_to_other_libraries(ds: lacus.Dataset) -> None:
    pa = pytest.importorskip("pyarrow")
    found = table(ds.query("SELECT DISTINCT label, score > 5 AS high ORDER BY label, high"))
    assert found.to_arrow()["high"].to_pylist() == [False, True] * 3
    assert pa.table(found).equals(found.to_arrow())
    assert found.schema.names == ["label", "high"]
    pytest.importorskip("pandas")
    assert found.to_pandas()["high"].tolist() == [False, True] * 3
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(found.to_polars())["high"].to_list() == [False, True] * 3


def test_an_empty_table_has_its_columns(ds: lacus.Dataset) -> None:
    found = table(ds.query("SELECT label, count(*) AS n WHERE score < 0 GROUP BY label"))
    assert len(found) == 0 and found.columns == ["label", "n"] and list(found) == []
    assert len(found["n"]) == 0 and bool(found)


def test_several_datasets(ds: lacus.Dataset, tmp_path: Path) -> None:
    other = lacus.create(str(tmp_path / "prices"))
    other.add_column("animal", "text")
    other.add_column("price", dtype="int64", shape=[])
    other.extend({"animal": ["cat", "dog"], "price": [5, 7]})
    text = "SELECT a.label, sum(b.price) AS paid FROM a JOIN b ON a.label = b.animal GROUP BY a.label ORDER BY a.label"
    found = table(lacus.sql(text, a=ds, b=other.view()))
    assert found.to_dict()["label"] == ["cat", "dog"] and found["paid"].tolist() == [20, 28]
    by_url = view(lacus.sql(f"SELECT * FROM '{other.url}' WHERE price > 5"))
    assert by_url["animal"] == ["dog"]
    assert view(lacus.sql("SELECT price WHERE animal = :it", {"it": "cat"}, dataset=other))["price"].tolist() == [5]
    mine = view(lacus.sql("SELECT * FROM b WHERE price < 6", a=ds, b=other))
    assert mine["animal"] == ["cat"] and mine.state.dataset == other.view().state.dataset
    with pytest.raises(lacus.InvalidError, match="a dataset or a view"):
        lacus.sql("SELECT * FROM a", a=[1, 2])  # type: ignore[arg-type]


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("condition", "params", "expected"),
    [
        ("score > ?", [8], [3, 5, 10]),
        ("score > ?", [8.5], [3, 5, 10]),
        ("score = ?", [np.float32(4)], [4]),
        ("score = ?", [np.int64(4)], [4]),
        ("label = ? AND score < ?", ["cat", 4], [0, 9]),
        ("label = ? AND score < ?", ("cat", np.uint8(4)), [0, 9]),
        ("label = :what", {"what": "owl"}, [2, 5, 8, 11]),
        ("score < :most AND score >= :most - 1", {"most": 4}, [9]),
        ("? AND score < 1", [True], [0]),
        ("score < 2 AND ? IS NULL", [None], [0, 7]),
        ("dot(embedding, ?) > 50", [[0, 0, 0, 5]], [8, 9, 10]),
        ("dot(embedding, ?) > 50", [np.array([0, 0, 0, 5], np.float32)], [8, 9, 10]),
        ("dot(embedding, :v) > 100", {"v": np.array([0, 5, 0, 0, 0, 0, 0, 5])[::-2]}, [9, 10]),
        ("array_has(?, caption)", [["caption 00", "caption 02"]], [0, 2]),
    ],
)
def test_parameters_of_every_kind(ds: lacus.Dataset, condition: str, params: Any, expected: list[int]) -> None:
    assert ds.filter(condition, params).positions == expected


def test_bytes_are_parameters(ds: lacus.Dataset) -> None:
    file = ds["image"].bytes(4)
    assert ds.filter("image = ?", [file]).positions == [4]


def test_parameters_of_torch(ds: lacus.Dataset) -> None:
    torch = pytest.importorskip("torch")
    found = view(ds.query("SELECT embedding + ? AS more WHERE embedding IS NOT NULL", [torch.ones(4)]))
    np.testing.assert_array_equal(found["more"][0], np.arange(4, dtype=np.float32) + 1)


def test_computed_columns_keep_their_parameters(ds: lacus.Dataset) -> None:
    found = view(ds.query("SELECT score + ? AS more WHERE score < ?", [100, 3]))
    assert sorted(found["more"].tolist()) == [100.0, 101.0, 102.0]
    again = pickle.loads(pickle.dumps(found))
    assert again["more"].tolist() == found["more"].tolist()


@pytest.mark.parametrize("params", ["x", 5, np.float64(3), b"x", {1: 2}, [{}], [object()], [{1, 2}], [1 << 70]])
def test_wrong_parameters_are_refused(ds: lacus.Dataset, params: Any) -> None:
    with pytest.raises(lacus.InvalidError, match="param"):
        ds.query("SELECT * WHERE score > ?", params)


def test_missing_and_needless_parameters_are_refused(ds: lacus.Dataset) -> None:
    for text, params in (("SELECT * WHERE score > ?", None), ("SELECT * WHERE score > ?", [1, 2]), ("SELECT *", [1])):
        with pytest.raises(lacus.InvalidError):
            ds.query(text, params)
    with pytest.raises(lacus.InvalidError):
        ds.query("SELECT * WHERE score > :low", {"high": 1})


# ---------------------------------------------------------------- explanations and errors


def test_explanations_say_what_is_read(ds: lacus.Dataset) -> None:
    text = "SELECT label, mean(image) AS mean WHERE score > 3 ORDER BY mean(image) LIMIT 2"
    told = ds.explain(text)
    assert "LacusScan" in told and "LacusFetch" in told
    assert "rows:" in ds.explain(text, analyze=True)
    assert "LacusScan" in ds.view()[:3].explain("SELECT * WHERE score > ?", [1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT lable", "label"),
        ("SELECT upperr(caption)", "upper"),
        ("SELECT caption + embedding", ""),
        ("SELECT * WHERE score", ""),
        ("", "empty"),
        ("  ;  ", "empty"),
        ("INSERT INTO dataset VALUES (1)", "only read"),
        ("DROP TABLE dataset", "only read"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT * FROM", ""),
        ("SELECT 1; SELECT 2", "one query"),
        ("SELECT embedding[9]", ""),
    ],
)
def test_errors_help(ds: lacus.Dataset, text: str, said: str) -> None:
    with pytest.raises(lacus.InvalidError) as caught:
        found = ds.query(text)
        found.to_dict()
    assert said in str(caught.value) and isinstance(caught.value, ValueError)


def test_errors_point_at_the_text(ds: lacus.Dataset) -> None:
    with pytest.raises(lacus.InvalidError) as caught:
        ds.query("SELECT *\nWHERE lable = 'dog'")
    assert "2 | WHERE lable = 'dog'\n          ^^^^^" in str(caught.value)


def test_wrong_arguments_are_refused(ds: lacus.Dataset) -> None:
    for memory in ("much", -1, 0, "5 parsecs", True):
        with pytest.raises(lacus.InvalidError):
            ds.query("SELECT *", memory=memory)
    assert len(ds.query("SELECT * ORDER BY score", memory="64MiB")) == ROWS
    for text in (None, 5, b"SELECT *"):
        with pytest.raises(lacus.InvalidError, match="a text is expected"):
            ds.query(text)  # type: ignore[arg-type]
    with pytest.raises(lacus.InvalidError, match="UTF-8"):
        ds.query("SELECT '\ud800'")


SLOW = START + """
ds = lacus.open(sys.argv[1])
wait_for_int(lambda: ds.query("SELECT count(*) AS n FROM dataset a, dataset b, dataset c, dataset d WHERE sin(a.n + b.n) > c.n + d.n"))
assert len(ds.query("SELECT * WHERE n < 3")) == 3
"""


def test_ctrl_c_ends_a_query(url: str) -> None:
    made = lacus.create(url)
    made.add_column("n", dtype="int64", shape=[])
    made.extend({"n": np.arange(3000)})
    told = interrupted(SLOW, url, 1, 0.8)
    assert told.startswith("interrupted")
