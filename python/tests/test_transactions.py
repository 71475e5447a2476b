"""A transaction is one commit or nothing, whatever is written in it and whatever happens."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from media import picture, png
from same import assert_same

import lacus


@pytest.fixture
def full(ds: lacus.Dataset) -> lacus.Dataset:
    """A dataset with a commit: rows and an array."""
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("text", "text")
    ds.add_column("image", "image", compression="png")
    rng = np.random.default_rng(3)
    ds.extend({"n": range(5), "text": list("abcde"), "image": [png(picture(rng, 3, 4)) for _ in range(5)]})
    ds.put("x", np.zeros(8, np.int64), layout="dense", chunk_shape=(2,))
    ds.commit("First")
    return ds


def write_a_lot(ds: lacus.Dataset) -> None:
    """Every kind of write."""
    ds["x"][3] = 7
    ds["y"] = np.arange(3)
    ds["z"] = 1
    del ds["z"]
    ds.rename("y", "y2")
    ds.append({"n": 5, "text": "f"})
    with ds.writer() as writer:
        for n in range(6, 9):
            writer.append({"n": n, "text": str(n), "image": png(np.full((2, 2, 3), n, np.uint8))})
    ds["text"][0] = "A"
    ds.delete_rows([1, 2])
    ds.add_column("twice", dtype="int64", shape=())
    ds.map(lambda row: {"twice": row["n"] * 2}, ["twice"], workers=2, inputs=["n"])
    ds.set_metadata({"k": 1})


def check_a_lot(ds: lacus.Dataset) -> None:
    assert ds["x"][3] == 7 and ds["y2"].shape == (3,) and "z" not in ds and "y" not in ds
    assert ds["n"][:].tolist() == [0, 3, 4, 5, 6, 7, 8]
    assert ds["twice"][:].tolist() == [0, 6, 8, 10, 12, 14, 16]
    assert ds["text"][:] == ["A", "d", "e", "f", "6", "7", "8"]
    assert ds["image"][3] is None and (ds["image"][6] == 8).all() and ds.metadata == {"k": 1}


def test_all_of_it_is_one_commit(full: lacus.Dataset) -> None:
    other, version = lacus.open(full.url), full.version
    with full.transaction("A lot", author="ada", metadata={"k": 2}) as tx:
        assert tx.id is None and "open" in repr(tx)
        write_a_lot(full)
        check_a_lot(full)
        assert full.refresh() == full.version
        # Nobody else sees any of it.
        assert other.refresh() == version and other["x"][3] == 0 and len(other) == 5
        assert lacus.open(full.url).status().clean
        assert full.diff().tensors["x"].regions == [(slice(2, 4),)]
    check_a_lot(full)
    assert tx.id is not None and tx.id[:10] in repr(tx)
    assert full.version == version + 1 == other.refresh()
    check_a_lot(other)
    commit = full.log()[0]
    assert (commit.id, commit.message, commit.author, commit.metadata) == (tx.id, "A lot", "ada", {"k": 2})
    assert set(commit.changed) >= {"x", "y2", "n", "text", "image", "twice"} and full.status().clean
    assert len(full.log()) == 2


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_nothing(full: lacus.Dataset, error: type[BaseException]) -> None:
    version = full.version
    with pytest.raises(error), full.transaction("A lot") as tx:
        write_a_lot(full)
        raise error
    assert tx.id is None and full.version == version and full.refresh() == version
    assert full.keys() == ["image", "n", "text", "x"] and full["text"][:] == list("abcde")
    assert full["x"][3] == 0 and full.status().clean and len(full.log()) == 1
    # The handle goes on as before.
    full.add_column("twice", "text")
    full["twice"][0] = "a text now"
    assert full["twice"][0] == "a text now"
    with full.transaction("Again"):
        full["x"][0] = 1
    assert full.log()[0].message == "Again"


def test_nothing_written_is_no_commit(full: lacus.Dataset) -> None:
    with full.transaction("Nothing") as tx:
        pass
    assert tx.id is None and len(full.log()) == 1 and full.status().clean


def test_a_write_that_is_refused_leaves_the_rest(full: lacus.Dataset) -> None:
    with full.transaction("Some") as tx:
        full["x"][0] = 1
        with pytest.raises(lacus.InvalidError):
            full["n"][0] = "no number"
        with pytest.raises(lacus.NotFoundError):
            full["nothing"]
        full["x"][1] = 2
    assert tx.id == full.log()[0].id and full["x"][:2].tolist() == [1, 2]


def test_what_must_not_be_inside(full: lacus.Dataset) -> None:
    full.branches.create("dev")
    calls: list[Any] = [
        lambda: full.transaction("Nested").__enter__(),
        lambda: full.commit("No"),
        lambda: full.checkout("dev"),
        lambda: full.checkout("new", create=True),
        lambda: full.merge("dev"),
        lambda: full.discard(),
        lambda: full.restore("main"),
        lambda: full.revert("main"),
        lambda: full.cherry_pick("main"),
    ]
    with full.transaction("One") as tx:
        full["x"][0] = 1
        for call in calls:
            with pytest.raises(lacus.InvalidError, match="transaction is open"):
                call()
        with pytest.raises(lacus.InvalidError, match="cannot be pickled"):
            pickle.dumps(full)
        full["x"][1] = 2
    assert tx.id is not None and full["x"][:2].tolist() == [1, 2] and list(full.branches) == ["dev", "main"]
    with pytest.raises(lacus.InvalidError, match="used already"), tx:
        pass
    with pytest.raises(lacus.InvalidError, match="message is empty"):
        full.transaction("")
    with pytest.raises(lacus.InvalidError, match="read_only"), lacus.open(full.url, read_only=True).transaction("x"):
        pass
    with pytest.raises(lacus.InvalidError, match="read-only"), lacus.open(full.url, at=1).transaction("x"):
        pass


def test_others_may_write_elsewhere_meanwhile(full: lacus.Dataset) -> None:
    other = lacus.open(full.url)
    with full.transaction("Mine") as tx:
        full["x"][0] = 1
        full["text"][0] = "mine"
        full.append({"n": 10})
        other["x"][7] = 9
        other["text"][4] = "theirs"
        other.append({"n": 20})
    other.refresh()
    for ds in (full, other):
        assert ds["x"][...].tolist() == [1, 0, 0, 0, 0, 0, 0, 9]
        assert ds["text"][0] == "mine" and ds["text"][4] == "theirs"
        assert sorted(ds["n"][:].tolist()) == [0, 1, 2, 3, 4, 10, 20]
    assert full.log()[0].id == tx.id


def test_others_that_write_the_same_win(full: lacus.Dataset) -> None:
    other = lacus.open(full.url)
    with pytest.raises(lacus.ConflictError), full.transaction("Mine") as tx:
        full["x"][0] = 1
        full["y"] = 1
        other["x"][1] = 2
    assert tx.id is None
    full.refresh()
    assert full["x"][:2].tolist() == [0, 2] and "y" not in full and len(full.log()) == 1
    with full.transaction("Again"):
        full["x"][0] = 1
    assert full["x"][:2].tolist() == [1, 2]


def test_a_draft_is_part_of_the_commit(full: lacus.Dataset) -> None:
    full["x"][0] = 1
    with full.transaction("Both") as tx:
        full["x"][2] = 2
    assert full.status().clean and full.diff("main~1", "main").tensors["x"].regions == [(slice(0, 2),), (slice(2, 4),)]
    assert tx.id == full.log()[0].id


def test_on_a_branch(full: lacus.Dataset) -> None:
    full.checkout("dev", create=True)
    with full.transaction("On dev") as tx:
        full["x"][0] = 1
        full.delete_rows(0)
    main = lacus.open(full.url)
    assert main["x"][0] == 0 and len(main) == 5 and full.branches["dev"].head == tx.id
    assert main.merge("dev").outcome == "fast-forward" and main["x"][0] == 1 and len(main) == 4


def test_rows_got_inside_stay_what_they_were(full: lacus.Dataset) -> None:
    with full.transaction("One"):
        full["text"][0] = "first"
        rows, each, texts = full[:2], iter(full), iter(full["text"])
        full["text"][0] = "second"
        full.delete_rows(1)
        assert rows["text"] == ["first", "b"] and next(each)["text"] == "first" and next(texts) == "first"
        assert full["text"][:2] == ["second", "c"]
    assert full["text"][:2] == ["second", "c"]


def test_columns_of_another_type_in_the_same_version(full: lacus.Dataset) -> None:
    # Versions inside are numbered like those that come later: what is known of columns must not be mixed up.
    with pytest.raises(ZeroDivisionError), full.transaction("No"):
        full.add_column("c", "text")
        full["c"][0] = "text"
        raise ZeroDivisionError
    full.add_column("c", dtype="float32", shape=(2,))
    full["c"][0] = np.ones(2, np.float32)
    assert_same(full["c"][0], np.ones(2, np.float32))


def test_imports_are_part_of_it(full: lacus.Dataset, tmp_path: Any) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("a,b\n1,x\n2,y\n")
    version = full.version
    with pytest.raises(ZeroDivisionError), full.transaction("Import"):
        full.import_from(source, prefix="csv")
        assert "csv/a" in full
        raise ZeroDivisionError
    assert "csv/a" not in full and full.refresh() == version
    with full.transaction("Import"):
        full.import_from(source, prefix="csv")
    assert full["csv/b"][5:] == ["x", "y"] and full.version == version + 1


def test_nothing_is_left_lying_around(full: lacus.Dataset) -> None:
    from pathlib import Path

    before = {path for path in Path(full.url).rglob("*.parquet")}
    with pytest.raises(ZeroDivisionError), full.transaction("No"):
        write_a_lot(full)
        raise ZeroDivisionError
    assert {path for path in Path(full.url).rglob("*.parquet")} == before
