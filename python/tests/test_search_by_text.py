"""Search by text: the same scores as bm25s, with an index and without, at every state; bad input is told."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest

import lacus

WORDS = "cat dog black white the a on mat house tree small large runs sleeps sun moon rain x1 42 naïve".split()


def corpus(count: int, seed: int = 7) -> list[str]:
    """Texts whose words come as often as those of a language: few very often, many seldom."""
    chance = random.Random(seed)
    rare = [f"word{number}" for number in range(300)]
    weights = [1 / (place + 1) for place in range(len(WORDS) + len(rare))]
    return [" ".join(chance.choices(WORDS + rare, weights, k=chance.randrange(0, 40))) for _ in range(count)]


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def peer_scores(texts: list[str], query: str) -> np.ndarray[Any, Any]:
    """What bm25s says, for the same words."""
    known: dict[str, int] = {}
    ids = [[known.setdefault(word, len(known)) for word in words_of(text)] for text in texts]
    peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    peer.index((ids, known), show_progress=False)
    scores = np.zeros(len(texts), np.float64)
    for word in words_of(query):
        if word in known:
            scores += peer.get_scores([word])
    return scores


@pytest.fixture
def ds(tmp_path: Path) -> lacus.Dataset:
    made = lacus.create(str(tmp_path / "ds"))
    made.add_column("caption", "text")
    made.add_column("n", dtype="int64", shape=())
    return made


def fill(ds: lacus.Dataset, texts: list[str]) -> None:
    first = len(ds)
    ds.extend({"caption": texts, "n": list(range(first, first + len(texts)))})


def scores(ds: lacus.Dataset, query: str) -> np.ndarray[Any, Any]:
    return np.asarray(ds.query("SELECT bm25(caption, ?) AS score", [query])["score"], np.float64)


QUERIES = ["cat", "black cat", "the cat cat sleeps", "word3 word250 house", "a", "naïve 42", "nowhere"]


def test_scores_equal_those_of_bm25s(ds: lacus.Dataset) -> None:
    texts = corpus(800)
    fill(ds, texts)
    for step in ["read", "index", "appended", "updated"]:
        if step == "index":
            ds["caption"].create_index("text")
        elif step == "appended":
            more = corpus(150, seed=8)
            fill(ds, more)
            texts += more
        elif step == "updated":
            ds["caption"].update_index()
        for query in QUERIES:
            np.testing.assert_allclose(scores(ds, query), peer_scores(texts, query), atol=1e-4, err_msg=f"{step}: {query}")


def test_deleted_and_changed_rows_count_as_they_are(ds: lacus.Dataset) -> None:
    texts = corpus(300)
    fill(ds, texts)
    ds["caption"].create_index("text")
    ds["caption"][[0, 5, 250]] = ["black cat", "a dog", "the house"]
    ds.delete_rows(list(range(10, 60)))
    for row, text in zip([0, 5, 250], ["black cat", "a dog", "the house"], strict=True):
        texts[row] = text
    del texts[10:60]
    index = ds["caption"].index
    assert index is not None and (index.rows, index.covered) == (250, 247)
    for query in QUERIES:
        np.testing.assert_allclose(scores(ds, query), peer_scores(texts, query), atol=1e-4, err_msg=query)


def test_a_search_is_a_view(ds: lacus.Dataset) -> None:
    texts = corpus(500)
    fill(ds, texts)
    expected = peer_scores(texts, "black cat")
    order = sorted(range(500), key=lambda row: (-expected[row], row))
    for _ in range(2):
        found = ds["caption"].search("black cat", k=20)
        assert isinstance(found, lacus.View)
        assert found.columns == ["caption", "n", "score"]
        assert found.positions == order[:20]
        np.testing.assert_allclose(np.asarray(found["score"]), expected[order[:20]], atol=1e-4)
        # WHERE comes first: k rows come back, however few are kept.
        few = ds["caption"].search("black cat", k=5, where="n % 10 = ?", params=[3])
        assert few.positions == [row for row in order if row % 10 == 3 and expected[row] > 0][:5]
        none = ds["caption"].search("black cat", k=5, where="n < 0")
        assert len(none) == 0
        sql = ds.query("SELECT *, bm25(caption, 'black cat') AS score ORDER BY score DESC LIMIT 20")
        assert isinstance(sql, lacus.View) and sql.ids == found.ids
        assert "text search in" in ds.explain("SELECT * FROM text_search('caption', 'cat', 3)")
        ds["caption"].create_index("text")


def test_an_index_goes_with_commits_branches_and_merges(ds: lacus.Dataset) -> None:
    fill(ds, corpus(200))
    ds.commit("texts")
    ds["caption"].create_index("text")
    ds.commit("an index")
    names = list(ds)
    ds.checkout("side", create=True)
    fill(ds, corpus(50, seed=3))
    ds["caption"].update_index()
    ds.commit("more on the side")
    ds.checkout("main")
    fill(ds, corpus(40, seed=4))
    ds["caption"].update_index()
    ds.commit("more on main")
    ds.merge("side")
    assert len(ds) == 290
    assert list(ds) == names, "segments of an index are listed"
    index = ds["caption"].index
    assert index is not None and index.covered > 200 and index.rows == 290
    texts = [text for text in ds["caption"][:]]
    for query in QUERIES:
        np.testing.assert_allclose(scores(ds, query), peer_scores(texts, query), atol=1e-4, err_msg=query)
    # Other states are as they were.
    before = ds.query("SELECT bm25(caption, 'black cat') AS score FROM dataset@\"main~2\"")
    np.testing.assert_allclose(np.asarray(before["score"]), peer_scores(texts[:200], "black cat"), atol=1e-4)


def test_a_saved_view_keeps_its_scores(ds: lacus.Dataset) -> None:
    fill(ds, corpus(100))
    ds.commit("texts")
    found = ds["caption"].search("cat", k=3)
    wanted = np.asarray(found["score"])
    found.save("best")
    again = ds.views["best"]
    assert again.ids == found.ids
    np.testing.assert_array_equal(np.asarray(again["score"]), wanted)


def test_hybrid_search(tmp_path: Path) -> None:
    ds = lacus.create(str(tmp_path / "ds"))
    ds.add_column("caption", "text")
    ds.add_column("vector", dtype="float32", shape=(4,))
    chance = np.random.default_rng(5)
    vectors = chance.normal(size=(300, 4)).astype(np.float32)
    texts = corpus(300)
    ds.extend({"caption": texts, "vector": vectors})
    wanted = chance.normal(size=4).astype(np.float32)
    found = ds.query("SELECT * FROM hybrid_search('vector', ?, 'caption', 'black cat', 10)", [wanted])
    near = vectors @ wanted / np.linalg.norm(vectors, axis=1) / np.linalg.norm(wanted)
    words = peer_scores(texts, "black cat")
    by_vector = sorted(range(300), key=lambda row: (-near[row], row))[:100]
    by_text = [row for row in sorted(range(300), key=lambda row: (-words[row], row)) if words[row] > 0][:100]
    fused: dict[int, float] = {}
    for ranking in [by_vector, by_text]:
        for rank, row in enumerate(ranking):
            fused[row] = fused.get(row, 0) + 1 / (61 + rank)
    best = sorted(fused.values(), reverse=True)[:10]
    assert isinstance(found, lacus.View)
    np.testing.assert_allclose(np.asarray(found["score"]), best, rtol=1e-9)
    np.testing.assert_allclose([fused[row] for row in found.positions], best, rtol=1e-9)


def test_bad_input_is_told(ds: lacus.Dataset) -> None:
    fill(ds, ["a cat", "a dog"])
    caption = ds["caption"]
    with pytest.raises(lacus.InvalidError, match="k must be a whole number, 1 at least, found 0"):
        caption.search("cat", k=0)
    with pytest.raises(lacus.InvalidError, match="k must be"):
        caption.search("cat", k=True)
    with pytest.raises(lacus.InvalidError, match="search for a text, found int"):
        caption.search(3)  # type: ignore[arg-type]
    with pytest.raises(lacus.InvalidError, match="needs a column of type text"):
        ds["n"].search("cat")
    with pytest.raises(lacus.InvalidError, match="needs a column of type text"):
        ds["n"].create_index("text")
    with pytest.raises(lacus.InvalidError, match="no index of kind 'trees'"):
        caption.create_index("trees")
    with pytest.raises(lacus.InvalidError, match="no tokenizer"):
        caption.create_index("text", tokenizer="klingon")
    with pytest.raises(lacus.InvalidError, match="no option 'stem'"):
        caption.create_index("text", stem=True)
    with pytest.raises(lacus.InvalidError, match="create it first"):
        caption.update_index()
    assert caption.drop_index() is False and caption.index is None and ds["n"].index is None
    for query in ["", "   ", '"', "+", "-cat", "(", "a:b*~2 AND [x TO y]", "\0", "'; DROP TABLE", "\U0001f600" * 1000]:
        assert len(caption.search(query)) in (0, 2), query
    assert len(caption.search("cat " * 50_000)) == 1
    caption[0] = "cat " * 300_000
    assert caption.search("cat").positions == [0]
    caption.create_index("text")
    assert caption.search("cat").positions == [0]


def test_a_damaged_index_is_not_used(ds: lacus.Dataset, tmp_path: Path) -> None:
    fill(ds, corpus(100))
    ds.commit("texts")
    before = {path for path in (tmp_path / "ds").rglob("*.parquet")}
    expected = scores(ds, "black cat")
    ds["caption"].create_index("text")
    ds.commit("an index")
    made = [path for path in (tmp_path / "ds").rglob("*.parquet") if path not in before]
    assert made
    for path in made:
        data = bytearray(path.read_bytes())
        for at in range(4, len(data) // 2, 64):
            data[at] ^= 0xFF
        path.write_bytes(data)
    again = lacus.open(str(tmp_path / "ds"))
    np.testing.assert_allclose(scores(again, "black cat"), expected, rtol=1e-6)
    index = again["caption"].index
    assert index is not None and index.problem is not None and "damaged" in index.problem
    assert "damaged" in again.explain("SELECT * ORDER BY bm25(caption, 'cat') DESC LIMIT 1")
    # Made again, it is whole.
    again["caption"].create_index("text")
    index = again["caption"].index
    assert index is not None and index.problem is None and index.covered == index.rows == 100
