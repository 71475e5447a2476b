"""Views: rows and columns of one state, as values that are chosen from, saved, pickled, copied and exported."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

import lacus

COUNT = 60


@pytest.fixture
def ds(tmp_path: Path) -> lacus.Dataset:
    """Numbers, texts some of which are missing, and vectors; committed."""
    ds = lacus.create(tmp_path / "ds")
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("t", "text")
    ds.add_column("v", dtype="float32", shape=(3,))
    ds.extend({
        "n": np.arange(COUNT),
        "t": [None if i % 9 == 0 else f"t{i % 7}" for i in range(COUNT)],
        "v": np.arange(3 * COUNT, dtype=np.float32).reshape(-1, 3),
    })
    ds.commit("all rows")
    return ds


def test_indices_choose_rows_as_numpy_does(ds: lacus.Dataset) -> None:
    numbers, rng = np.arange(COUNT), np.random.default_rng(1)
    indices = [
        slice(None), slice(10, 20), slice(None, None, -1), slice(50, 3, -7), slice(70, 80), slice(-5, None), slice(5, 5),
        [3, 1, 1, -1], [], range(0, 10, 3), np.arange(0, COUNT, 11), rng.random(COUNT) < 0.3, np.zeros(COUNT, bool),
    ]  # fmt: skip
    for index in indices:
        view = ds[index]
        expected = numbers[list(index) if isinstance(index, range) else index if len(np.shape(index)) == 0 or np.size(index) else []]
        assert isinstance(view, lacus.View)
        assert len(view) == len(expected)
        assert view["n"].tolist() == expected.tolist()
        assert view.positions == expected.tolist()
        # And again of what was chosen.
        for again in indices[:9]:
            if isinstance(again, list) and len(view) < 4:
                continue
            assert view[again]["n"].tolist() == expected[again if again != [] else slice(0)].tolist()


def test_rows_and_columns(ds: lacus.Dataset) -> None:
    view = ds[[5, 0, 9]]
    assert view.columns == ["n", "t", "v"]
    assert view[0]["t"] == "t5" and view[1]["t"] is None and view[-1]["n"] == 9
    assert [row["n"] for row in view] == [5, 0, 9]
    assert view.select(["v", "n"]).columns == ["v", "n"]
    assert list(view.select(["n"])[0]) == ["n"]
    assert np.array_equal(view["v"], ds["v"][[5, 0, 9]])
    assert view.to_dict(["n"])["n"].tolist() == [5, 0, 9]
    with pytest.raises(lacus.InvalidError, match="not one of the columns of this view"):
        view.select(["n"])["t"]
    assert bool(ds[:0]) and len(ds[:0]) == 0 and ds[:0]["n"].shape == (0,)


def test_what_is_written_later_changes_nothing(ds: lacus.Dataset) -> None:
    view = ds[10:13]
    ds["n"][11] = 999
    ds.delete_rows([10])
    ds.append({"n": 1})
    assert view["n"].tolist() == [10, 11, 12]
    assert ds[10:13]["n"].tolist() == [999, 12, 13]
    assert view.state.version < ds.version
    assert len(ds.view(at="main")) == len(ds.view()) and len(ds.view(at="HEAD")) == COUNT


def test_views_follow_the_handle_to_other_states(ds: lacus.Dataset) -> None:
    first = ds.log()[0].id
    assert ds[:2]["n"].tolist() == [0, 1]
    ds["n"][0] = 100
    ds.commit("changed")
    assert ds[:2]["n"].tolist() == [100, 1]
    ds.checkout(first)
    assert ds[:2]["n"].tolist() == [0, 1] and ds[:2].state.commit == first
    assert ds.log("HEAD")[0].id == first and ds.view(at="HEAD")["n"][0] == 0
    ds.checkout("main")
    assert ds[:2]["n"].tolist() == [100, 1] and ds.view(at="HEAD~1")["n"][0] == 0
    assert ds[np.array([1, -1], np.int8)]["n"].tolist() == [1, COUNT - 1]
    assert ds[[0, 1, 2]] == ds[:3] and hash(ds[[0, 1, 2]]) == hash(ds[:3]) and ds[:3] != ds[:4]


def test_views_keep_the_links_of_their_handle(tmp_path: Path) -> None:
    from media import png

    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.png").write_bytes(png(np.zeros((4, 5, 3), np.uint8)))
    ds = lacus.create(tmp_path / "linked")
    ds.allow_links(tmp_path / "files")
    ds.add_column("image", "link[image]")
    ds.append({"image": lacus.link(str(tmp_path / "files" / "a.png"))})
    ds.commit("a link")
    ds[:].save("all")
    for view in (ds[:], pickle.loads(pickle.dumps(ds[:])), ds.views["all"], ds.view(at="main")):
        assert view["image"][0].shape == (4, 5, 3)
    with pytest.raises(lacus.LacusError):
        lacus.open(ds.url).views["all"]["image"]


def test_views_of_a_transaction_see_it(ds: lacus.Dataset) -> None:
    with ds.transaction("more"):
        ds.append({"n": 7})
        view = ds[-2:]
        assert view["n"].tolist() == [COUNT - 1, 7]
        with pytest.raises(lacus.InvalidError, match="transaction"):
            pickle.dumps(view)
        with pytest.raises(lacus.InvalidError, match="transaction"):
            view.save("no")
    assert ds[-2:]["n"].tolist() == [COUNT - 1, 7]


def test_conditions(ds: lacus.Dataset) -> None:
    view = ds.view()
    assert view.where(view["n"] % 20 == 3)["n"].tolist() == [3, 23, 43]
    assert view.where(lambda row: row["t"] is None, columns=["t"])["n"].tolist() == list(range(0, COUNT, 9))
    with pytest.raises(ZeroDivisionError):
        view.where(lambda row: 1 / 0)
    for bad in (np.ones(3, bool), np.arange(COUNT), 7, "n > 3"):
        with pytest.raises(lacus.InvalidError, match="mask"):
            view.where(bad)


def test_orders_follow_from_the_seed(ds: lacus.Dataset) -> None:
    view = ds[:8]
    # Fixed for ever.
    assert view.shuffle(42)["n"].tolist() == [4, 3, 2, 0, 7, 6, 1, 5]
    assert view.shuffle(1) == view.shuffle(1) and view.shuffle(1) != view.shuffle(2)
    train, test = ds.view().split([0.8, 0.2], seed=3)
    assert (len(train), len(test)) == (48, 12)
    assert sorted([*train["n"], *test["n"]]) == list(range(COUNT))
    first, rest = ds.view().split([0.25, 0.75])
    assert first["n"].tolist() == list(range(15)) and rest[0]["n"] == 15
    drawn = ds.view().sample(10, 5)
    assert len(set(drawn["n"].tolist())) == 10 and drawn == ds.view().sample(10, 5)
    weights = np.zeros(COUNT)
    weights[[4, 7]] = 1, 3
    assert set(ds.view().sample(200, 1, weights=weights, replace=True)["n"].tolist()) == {4, 7}
    assert sorted(ds.view().sample(2, 1, weights=weights)["n"].tolist()) == [4, 7]
    for wrong in (dict(n=61), dict(n=-1), dict(n=3, weights=[1.0]), dict(n=3, weights=-weights), dict(n=3, weights=weights), dict(n=1, weights=np.zeros(COUNT))):
        with pytest.raises(lacus.InvalidError):
            ds.view().sample(seed=1, **wrong)
    for shares in ([], [0.6, 0.6], [0.0, 1.0], [-1], [float("nan")], "ab", 0.5):
        with pytest.raises(lacus.InvalidError):
            ds.view().split(shares)
    for seed in (-1, 1 << 64, 1.5, None, True):
        with pytest.raises(lacus.InvalidError, match="seed"):
            ds.view().shuffle(seed)


def test_sorting(ds: lacus.Dataset) -> None:
    assert ds.view().sort_by("n", descending=True)["n"].tolist() == list(range(COUNT))[::-1]
    texts = ds.view().sort_by("t")["t"]
    known = [text for text in texts if text is not None]
    assert known == sorted(known) and texts[len(known) :] == [None] * (COUNT - len(known))
    ds.add_column("f", dtype="float64", shape=())
    ds["f"][:4] = [2.0, float("nan"), -1.0, 0.5]
    assert ds[:5].sort_by("f").positions == [2, 3, 0, 1, 4]
    assert ds[:5].sort_by("f", descending=True).positions == [0, 3, 2, 1, 4]
    with pytest.raises(lacus.InvalidError, match="no order"):
        ds.view().sort_by("v")


def test_views_join_within_one_state(ds: lacus.Dataset) -> None:
    joined = ds[:2].concat(ds[5:3:-1], ds[[0]])
    assert joined["n"].tolist() == [0, 1, 5, 4, 0]
    assert joined.ids == ds.view()[joined.positions].ids
    before = ds[:2]
    ds.append({"n": 0})
    with pytest.raises(lacus.InvalidError, match="different states"):
        before.concat(ds[:2])


def test_views_pickle_small(ds: lacus.Dataset) -> None:
    for view in (ds.view(), ds[10:50], ds[::-3], ds.view().shuffle(3).select(["n"])):
        again = pickle.loads(pickle.dumps(view))
        assert again == view and again["n"].tolist() == view["n"].tolist() and again.columns == view.columns
    assert len(pickle.dumps(ds[3:])) < 400
    ds.delete_rows([5])
    view = ds.view()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_sum, (view,)) == sum(range(COUNT)) - 5


def test_all_of_ten_million_rows_pickle_small(tmp_path: Path) -> None:
    ds = lacus.create(tmp_path / "ds")
    ds.add_column("x", dtype="uint8", shape=())
    ds.extend({"x": np.zeros(10_000_000, np.uint8)})
    view = ds.view()
    assert (len(view), len(pickle.dumps(view)) < 1024) == (10_000_000, True)
    assert len(pickle.loads(pickle.dumps(view))) == 10_000_000


def test_a_view_whose_dataset_moved_says_so(ds: lacus.Dataset, tmp_path: Path) -> None:
    for view in (ds.view(), ds.view(at="main")):
        pickled = pickle.dumps(view)
        (tmp_path / "ds").rename(tmp_path / "moved")
        with pytest.raises(lacus.NotFoundError, match="no dataset here") as raised:
            pickle.loads(pickled)
        assert raised.value.hint is not None and "lacus.create(" in raised.value.hint
        (tmp_path / "moved").rename(tmp_path / "ds")
        assert pickle.loads(pickled) == view


def _sum(view: lacus.View) -> int:
    return int(view["n"].sum())


def test_saved_views(ds: lacus.Dataset) -> None:
    saved = ds[::2].select(["n"]).save("even-ones", "every other row")
    assert saved.rows == COUNT // 2 and saved.message == "every other row" and saved.commit == ds.log()[0].id
    ds.append({"n": 5})
    with pytest.raises(lacus.InvalidError, match="draft of 1 version"):
        ds[:1].save("draft")
    other = lacus.open(ds.url, read_only=True)
    assert list(other.views) == ["even-ones"] and "even-ones" in other.views and len(other.views) == 1
    assert other.views["even-ones"]["n"].tolist() == list(range(0, COUNT, 2))
    assert other.views.info("even-ones").rows == COUNT // 2
    assert "even-ones: 30 rows" in repr(other.views)
    with pytest.raises(lacus.ConflictError):
        ds.view(at="HEAD").save("even-ones")
    with pytest.raises(lacus.InvalidError, match="read_only"):
        del other.views["even-ones"]
    with pytest.raises(lacus.InvalidError, match="read_only"):
        other.views["even-ones"].save("copy")
    for name in ("evn ones", "", "a//b", 7):
        with pytest.raises((lacus.NotFoundError, lacus.InvalidError)):
            ds.views[name]
    del ds.views["even-ones"]
    assert not list(ds.views) and repr(ds.views) == "<lacus.Views: none>"
    with pytest.raises(KeyError):
        del ds.views["even-ones"]


def test_saved_views_outlive_branch_and_clean_up(ds: lacus.Dataset) -> None:
    ds.checkout("try", create=True)
    ds["n"][0] = 1000
    ds.commit("on try")
    ds[:3].save("tried")
    ds.checkout("main")
    ds.branches.delete("try", force=True)
    ds.gc(dry_run=False, grace=0)
    assert ds.views["tried"]["n"].tolist() == [1000, 1, 2]
    assert ds.check().healthy
    view = ds.views["tried"]
    del ds.views["tried"]
    data = pickle.dumps(view)
    ds.gc(dry_run=False, grace=0)
    ds.gc(dry_run=False, grace=0)
    with pytest.raises(lacus.NotFoundError):
        pickle.loads(data)


def test_one_name_has_one_winner(ds: lacus.Dataset) -> None:
    won: list[int] = []

    def save(k: int) -> None:
        view = lacus.open(ds.url)[:k]
        try:
            view.save("race")
            won.append(k)
        except lacus.ConflictError:
            pass

    threads = [threading.Thread(target=save, args=(k,)) for k in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and len(ds.views["race"]) == won[0]


def test_copies_and_exports(ds: lacus.Dataset, tmp_path: Path) -> None:
    view = ds[[7, 3, 3]].select(["n", "t"])
    copy = view.materialize(tmp_path / "copy")
    assert copy["n"][:].tolist() == [7, 3, 3] and copy.columns == ["n", "t"]
    assert "made by materialize" in repr(copy.lineage("n")[0])
    with pytest.raises(lacus.ConflictError):
        view.materialize(tmp_path / "copy")
    view.export(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines() == ["n,t", "7,t0", "3,t3", "3,t3"]
    view.export(tmp_path / "out.parquet", columns=["n"])
    pq = pytest.importorskip("pyarrow.parquet")
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {"n": [7, 3, 3]}


def test_bad_input(ds: lacus.Dataset) -> None:
    view = ds[:5]
    for key in (5, -6):
        with pytest.raises(IndexError):
            view[key]
    with pytest.raises(lacus.OutOfBoundsError):
        view[[0, 9]]
    mask = np.ones(4, bool)
    for choose in (lambda: view[mask], lambda: view.where(mask), lambda: ds[mask]):
        with pytest.raises(lacus.OutOfBoundsError, match="a mask of 4 for"):
            choose()
    with pytest.raises(lacus.InvalidError):
        view[1.5]
    with pytest.raises(KeyError):
        view["nothing"]
    with pytest.raises(KeyError):
        view.select(["nothing"])
    with pytest.raises(lacus.InvalidError, match="list of names"):
        view.select("n")
    with pytest.raises(lacus.InvalidError, match="named twice"):
        view.select(["n", "n"])
    with pytest.raises(TypeError):
        lacus.View()
    with pytest.raises(lacus.InvalidError, match="a view is expected"):
        view.concat([1])


def test_views_are_tables_of_other_libraries(ds: lacus.Dataset) -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    view = ds[[9, 0, 7, 7]]
    table = view.to_arrow()
    assert table.column_names == ["n", "t", "v"] and table["n"].to_pylist() == [9, 0, 7, 7]
    assert table["t"].to_pylist() == [None, None, "t0", "t0"]
    assert np.array_equal(table["v"].combine_chunks().to_numpy_ndarray(), view["v"])
    assert pa.table(view).equals(table) and pa.table(ds["n"]).num_rows == COUNT
    assert pl.DataFrame(view.select(["n", "t"]))["n"].to_list() == [9, 0, 7, 7]
    assert view.to_polars(["n"])["n"].to_list() == [9, 0, 7, 7]
    assert ds[:0].to_arrow().num_rows == 0 and ds[:0].to_arrow().schema == table.schema
    sizes = [batch.num_rows for batch in ds.view().scan(["v"], batch_bytes=120)]
    assert sum(sizes) == COUNT and max(sizes) <= 10 and len(sizes) > 5
    again = lacus.from_table(view, str(Path(ds.url).parent / "again"))
    assert again["n"][:].tolist() == [9, 0, 7, 7] and again["v"].sample_shape == (3,)


def test_views_are_tables_of_duckdb_and_pandas(ds: lacus.Dataset) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pandas")
    view = ds[::-1]
    assert duckdb.sql("select sum(n), count(t), max(n) from view").fetchall() == [
        (sum(range(COUNT)), sum(text is not None for text in ds["t"][:]), COUNT - 1)
    ]
    frame = view.to_pandas(["n", "t"])
    assert frame["n"].tolist() == list(range(COUNT))[::-1] and int(frame["t"].isna().sum()) == len(range(0, COUNT, 9))
    assert view.to_pandas().shape == (COUNT, 3)


def test_filters_equal_masks(ds: lacus.Dataset) -> None:
    pytest.importorskip("pyarrow")
    numbers, texts = ds["n"][:], ds["t"][:]
    view = ds.view().shuffle(3)

    def found(filter: list[object]) -> list[int]:
        return sorted(view.to_arrow(["n"], filter)["n"].to_pylist())

    assert found([("n", ">=", 10), ("n", "<", 13)]) == [10, 11, 12]
    assert found([("t", "==", "t3")]) == [i for i, text in enumerate(texts) if text == "t3"]
    assert found([("t", "==", None)]) == [i for i, text in enumerate(texts) if text is None]
    assert found([("t", "!=", "t3"), ("n", "not in", [1, 2])]) == [
        i for i, text in enumerate(texts) if text not in (None, "t3") and i not in (1, 2)
    ]
    assert found([[("n", "==", np.int64(3))], [("n", "in", (5, 999))]]) == [3, 5]
    assert found([("n", ">", 1e9)]) == [] and found([]) == sorted(numbers.tolist())
    for wrong in ("n > 3", [("n", "~", 3)], [("n", "==")], [("n", "==", [1])], {"n": 3}):
        with pytest.raises(lacus.InvalidError, match="filter"):
            view.to_arrow(filter=wrong)
    with pytest.raises(KeyError):
        view.to_arrow(filter=[("nothing", "==", 3)])
    with pytest.raises(lacus.InvalidError, match="batch_bytes"):
        next(view.scan(batch_bytes=0))


def test_a_stream_outlives_what_it_came_from(ds: lacus.Dataset) -> None:
    pa = pytest.importorskip("pyarrow")
    reader = pa.RecordBatchReader.from_stream(ds[5:9])
    ds.delete_rows(list(range(20)))
    del ds
    assert reader.read_all()["n"].to_pylist() == [5, 6, 7, 8]
