"""Commits, branches, tags, diffs and merges, with the same outcome on disk, in memory and on S3."""

from __future__ import annotations

import datetime
import json
import multiprocessing
import pickle
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import picture, png
from same import assert_same
from workers import ENVIRONMENT

import lacus


class Place:
    """Where a dataset is made."""

    def __init__(self, url: str, options: dict[str, str] | None) -> None:
        self.url, self.options = url, options

    def create(self) -> lacus.Dataset:
        return lacus.create(self.url, storage_options=self.options)

    def open(self, **how: Any) -> lacus.Dataset:
        return lacus.open(self.url, storage_options=self.options, **how)


@pytest.fixture(params=["disk", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return Place(str(tmp_path / "dataset"), None)
    if request.param == "memory":
        return Place(f"memory://history-{uuid.uuid4().hex}", None)
    server, bucket = request.getfixturevalue("s3_server"), request.getfixturevalue("s3_bucket")
    return Place(f"s3://{bucket}/some/where", server.storage_options)


def put(ds: lacus.Dataset, name: str, values: Any) -> None:
    """An array of chunks of two elements, so that regions are small."""
    ds.put(name, np.asarray(values), layout="dense", chunk_shape=(2,))


def labelled(ds: lacus.Dataset, count: int = 6) -> None:
    """Rows with a label, a text, and every other one a picture."""
    ds.add_column("label", "class_label", class_names=["cat", "dog", "owl"])
    ds.add_column("text", "text")
    ds.add_column("image", "image", compression="png")
    rng = np.random.default_rng(5)
    pictures = [png(picture(rng, 4 + i, 5)) if i % 2 == 0 else None for i in range(count)]
    ds.extend(
        {"label": [i % 2 for i in range(count)], "text": [f"row {i}" for i in range(count)], "image": pictures}
    )


def test_a_whole_story(place: Place) -> None:
    ds = place.create()
    assert ds.branch == "main" and ds.log() == [] and ds.status().clean
    put(ds, "x", np.zeros(8, np.int64))
    labelled(ds)
    status = ds.status()
    assert (status.branch, status.head, status.clean) == ("main", None, False)
    assert {entry.operation for entry in status.draft} >= {"PUT"}
    first = ds.commit("First", author="ada", metadata={"ticket": 17})
    assert len(first) == 64 and ds.status().clean and "nothing to commit" in repr(ds.status())
    with pytest.raises(lacus.InvalidError, match="nothing to commit"):
        ds.commit("Again")
    again = ds.commit("Again", allow_empty=True)
    found = ds.log()
    assert [commit.id for commit in found] == [again, first]
    (_, commit) = found
    assert (commit.message, commit.author, commit.metadata) == ("First", "ada", {"ticket": 17})
    assert commit.parents == [] and found[0].parents == [first] and commit.short_id == first[:10]
    assert commit.changed == ["image", "label", "text", "x"]
    assert abs(commit.time - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=5)
    assert ds.log(limit=1) == found[:1] and ds.log(first) == found[1:] and ds.log("main~1") == found[1:]

    # Two lines of work.
    ds.checkout("dev", create=True)
    assert ds.branch == "dev" and not ds.read_only and "dev" in repr(ds)
    ds["x"][0] = 1
    ds["label"][1] = "owl"
    ds["image"][2] = None
    ds.append({"label": "dog", "text": "from dev"})
    on_dev = ds.commit("On dev")
    main = place.open()
    assert main.branch == "main" and main["x"][0] == 0 and len(main) == 6
    main["x"][7] = 9
    main["text"][1] = "from main"
    main.delete_rows(5)
    main.commit("On main")
    infos = main.branches
    assert list(infos) == ["dev", "main"] and len(infos) == 2 and "dev" in infos and "de" not in infos
    assert (infos["dev"].ahead, infos["dev"].behind, infos["dev"].head) == (1, 1, on_dev)
    assert infos["main"].is_current and not infos["dev"].is_current and infos["dev"].summary == "On dev"
    with pytest.raises(lacus.NotFoundError, match="dev"):
        infos["devel"]

    merged = main.merge("dev")
    assert merged.outcome == "committed"
    assert_same(main["x"][...], np.array([1, 0, 0, 0, 0, 0, 0, 9]))
    assert main["text"][:] == ["row 0", "from main", "row 2", "row 3", "row 4", "from dev"]
    assert main["label"].names(1) == "owl" and main["image"][2] is None
    assert main.log()[0].id == merged.id and len(main.log()[0].parents) == 2
    assert main.merge("dev") == lacus.Merged("up to date", None)
    # Dev only lags behind now.
    assert ds.merge("main") == lacus.Merged("fast-forward", merged.id)
    assert ds["text"][:] == main["text"][:]
    assert ds.branches["main"].ahead == 0 and ds.branches["main"].behind == 0

    # Any state can be opened.
    assert main.tag("v1", first, "the first") == first and main.tags == {"v1": first}
    assert main.tags.message("v1") == "the first" and main.tags["v1"] == first
    for at in ("v1", first, first[:8], "main~2", main.log(first)[0]):
        old = place.open(at=at)
        assert old.branch is None and old.read_only and old["x"][7] == 0 and len(old) == 6
        with pytest.raises(lacus.InvalidError, match="read-only"):
            old["x"][0] = 1
    assert place.open(branch="dev")["x"][0] == 1 and place.open(branch="dev").branch == "dev"
    assert place.open(at="dev")["x"][0] == 1 and place.open(at="dev").read_only
    assert place.open(at=1)["x"][0] == 0
    now = datetime.datetime.now()
    assert place.open(at=now)["x"][7] == place.open(at=now.isoformat())["x"][7] == 9
    main.checkout("v1")
    assert main.status().clean and "on no branch, at " + first[:10] in repr(main.status()) and not main.diff()
    assert main.branch is None and main["x"][7] == 0 and main.log()[0].id == first
    main.checkout("main")
    assert main["x"][7] == 9
    main.tags.delete("v1")
    assert main.tags == {}
    # It does not come to mean version 1.
    with pytest.raises(lacus.NotFoundError, match="version 1 of a branch is written @1"):
        place.open(at="v1")
    with pytest.raises(lacus.InvalidError, match="reads as a version"):
        main.tag("1")

    # Back, and away from there again.
    main.restore(first)
    assert main["text"][:] == [f"row {i}" for i in range(6)] and len(main.status().draft) == 1
    assert main.discard() == 1 and main.discard() == 0
    assert main["x"][7] == 9 and main.status().clean
    main["x"][3] = 5
    mistake = main.commit("A mistake")
    main["x"][4] = 6
    main.commit("None")
    main.revert(mistake)
    assert_same(main["x"][...], np.array([1, 0, 0, 0, 6, 0, 0, 9]))
    assert main.log()[0].summary == 'Revert "A mistake"'
    ds.cherry_pick(mistake)
    assert_same(ds["x"][...], np.array([1, 0, 0, 5, 0, 0, 0, 9]))
    assert ds.log()[0].message == "A mistake"

    # Any reader opens what is published.
    url = ds.publish()
    assert url.startswith(place.url) and "_branches" in url and ds.branches["dev"].borrowed_files == 0
    assert main.publish("main") == place.url
    ds.branches.rename("dev", "work/dev")
    assert ds.branch == "work/dev" and list(ds.branches) == ["main", "work/dev"]
    with pytest.raises(lacus.InvalidError, match="on; check out another"):
        ds.branches.delete("work/dev")
    with pytest.raises(lacus.InvalidError, match="no other branch or tag"):
        main.branches.delete("work/dev")
    main.branches.delete("work/dev", force=True)
    assert list(main.branches) == ["main"]
    with pytest.raises(lacus.InvalidError):
        ds.branches.delete("main")
    lacus.delete(place.url, storage_options=place.options)
    assert not lacus.exists(place.url, storage_options=place.options)


def test_a_diff_has_values(place: Place) -> None:
    ds = place.create()
    labelled(ds)
    put(ds, "x", np.arange(9))
    ds.put("s", np.eye(4), layout="COO")
    ds["gone"] = np.arange(3)
    ds.commit("First")
    assert not ds.diff() and repr(ds.diff()) == "<lacus.Diff no difference>"
    ids = ds[:].ids
    image = ds["image"][4]
    ds["x"][4] = 40
    ds["label"][[0, 3]] = ["owl", "owl"]
    ds["text"][2] = None
    ds["image"][1] = png(np.zeros((2, 2, 3), np.uint8))
    ds.append({"label": "cat", "text": "new"})
    ds.delete_rows(4)
    ds["s"] = np.ones((2, 2))
    del ds["gone"]
    ds["y"] = np.arange(2)
    ds.set_metadata({"k": 1})
    diff = ds.diff()
    new_id = ds[5:].ids
    assert diff and diff.metadata and diff.rows_added == new_id and diff.rows_deleted == [ids[4]]
    assert {name: t.change for name, t in diff.tensors.items()} == {
        "gone": "dropped", "image": "changed", "label": "changed", "s": "retyped", "text": "changed", "x": "changed",
        "y": "added",
    }  # fmt: skip
    assert sorted(diff.tensors["label"].updated) == [ids[0], ids[3]]
    assert diff.tensors["text"].cleared == [ids[2]] and diff.tensors["image"].added == [ids[1]]
    assert diff.tensors["x"].regions == [(slice(4, 6),)]
    changes = list(diff)
    regions = [(c.slices, c.old.tolist(), c.new.tolist()) for c in changes if c.what == "region"]
    assert regions == [((slice(4, 6),), [4, 5], [40, 5])]
    samples = {(c.tensor, c.row): c for c in changes if c.what == "sample"}
    assert set(samples) == {("label", ids[0]), ("label", ids[3]), ("text", ids[2]), ("image", ids[1])}
    assert (int(samples["label", ids[3]].old), int(samples["label", ids[3]].new)) == (1, 2)
    assert (samples["text", ids[2]].old, samples["text", ids[2]].new) == ("row 2", None)
    added = samples["image", ids[1]]
    assert added.kind == "added" and added.old is None and added.new.shape == (2, 2, 3)
    rows = [c for c in changes if c.what == "row"]
    assert [(c.kind, c.row) for c in rows] == [("deleted", ids[4]), ("added", new_id[0])]
    assert rows[0].new is None and rows[0].old["text"] == "row 4"
    assert_same(rows[0].old["image"], image)
    assert rows[1].old is None and rows[1].new["text"] == "new" and rows[1].new["image"] is None
    whole = {c.tensor: c for c in changes if c.what == "tensor"}
    assert set(whole) == {"gone", "s", "y"}
    assert_same(whole["gone"].old, np.arange(3))
    assert whole["gone"].new is None and whole["y"].old is None
    assert_same(np.asarray(whole["s"].old.todense()), np.eye(4))
    (dataset,) = [c for c in changes if c.what == "dataset"]
    assert (dataset.old, dataset.new) == ({}, {"k": 1})
    facts = json.loads(json.dumps(diff.to_dict()))
    assert facts["rows_added"] == new_id and facts["tensors"]["x"]["regions"] == [[[4, 6]]]
    assert facts["tensors"]["label"]["updated"] == sorted([ids[0], ids[3]])
    assert "7 tensors, 1 row added, 1 row deleted" in repr(diff) and "2 samples updated" in repr(diff)
    assert "7 tensors" in repr(ds.status()) and ds.status().diff.to_dict() == diff.to_dict()
    second = ds.commit("Second")
    shown = ds.show()
    assert shown.commit.id == second and shown.diff.to_dict() == diff.to_dict()
    assert f"commit {second}" in repr(shown) and "Second" in repr(shown)
    assert ds.diff("main~1", "main").to_dict() == diff.to_dict()
    back = ds.diff("main", "main~1")
    assert back.rows_added == [ids[4]] and back.tensors["y"].change == "dropped"
    assert ds.show("main~1").diff.tensors["x"].change == "added"


def test_values_of_many_rows_and_of_arrays_that_grew(ds: lacus.Dataset) -> None:
    ds.add_column("n", dtype="int64", shape=())
    ds.extend({"n": np.arange(1000)})
    put(ds, "x", np.arange(5))
    ds.commit("First")
    ds["n"][100:900] = np.arange(800) * 3
    ds["x"].append([7, 8])
    found = {c.row: (int(c.old), int(c.new)) for c in ds.diff() if c.what == "sample"}
    # Row 150 holds what it held.
    assert len(found) == 799
    ids = ds[:].ids
    assert all(found[ids[i]] == (i, (i - 100) * 3) for i in range(100, 900) if i != 150)
    regions = [(c.old.tolist(), c.new.tolist()) for c in ds.diff() if c.what == "region"]
    assert regions == [([4], [4, 7]), ([], [8])]


def test_compaction_and_the_same_value_are_no_difference(ds: lacus.Dataset) -> None:
    labelled(ds)
    put(ds, "x", np.arange(9))
    ds.commit("First")
    ds["text"][0] = ds["text"][0]
    ds["x"][1] = 1
    ds.compact()
    assert not ds.diff()


def conflicting(ds: lacus.Dataset) -> lacus.Dataset:
    """Main and dev changed the same; the handle is on main."""
    labelled(ds)
    put(ds, "x", np.zeros(8, np.int64))
    ds.commit("First")
    ds.branches.create("dev")
    dev = lacus.open(ds.url, branch="dev")
    dev["x"][2] = 1
    dev["label"][0] = "owl"
    dev["text"][5] = "kept"
    dev.put("both", np.arange(3))
    dev.commit("On dev")
    ds["x"][3] = 2
    ds["label"][0] = "dog"
    ds.delete_rows(5)
    ds.put("both", np.arange(4))
    ds.commit("On main")
    return ds


def test_conflicts_are_listed_and_nothing_changes(ds: lacus.Dataset) -> None:
    conflicting(ds)
    version = ds.version
    with pytest.raises(lacus.MergeConflictError, match="nothing was merged") as caught:
        ds.merge("dev")
    assert isinstance(caught.value, lacus.ConflictError)
    found = {(c.kind, c.tensor): c for c in caught.value.conflicts}
    assert set(found) == {("tensor", "both"), ("row", None), ("sample", "label"), ("chunk", "x")}
    assert found["chunk", "x"].chunk == (1,) and not found["chunk", "x"].has_union
    assert found["row", None].has_union and found["sample", "label"].row is not None
    assert str(found["sample", "label"]) in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.conflicts == caught.value.conflicts and str(again) == str(caught.value)
    with pytest.raises(lacus.MergeConflictError, match="has no union"):
        ds.merge("dev", on_conflict="union")
    assert ds.refresh() == version and ds.status().clean and len(ds.log()) == 2


@pytest.mark.parametrize("policy", ["ours", "theirs"])
def test_policies(ds: lacus.Dataset, policy: str) -> None:
    conflicting(ds)
    assert ds.merge("dev", policy).outcome == "committed"
    theirs = policy == "theirs"
    assert ds["x"][2:4].tolist() == ([1, 0] if theirs else [0, 2])
    assert ds["label"].names(0) == ("owl" if theirs else "dog")
    assert ds["both"].shape == ((3,) if theirs else (4,))
    assert len(ds) == (6 if theirs else 5)
    if theirs:
        assert sorted(ds["text"][:])[0] == "kept"


def test_a_function_decides(ds: lacus.Dataset) -> None:
    conflicting(ds)
    seen = []

    def decide(conflict: lacus.Conflict) -> str:
        # It may look at what there is.
        assert ds["x"][3] == 2
        seen.append(conflict)
        return {"chunk": "theirs", "row": "union"}.get(conflict.kind, "ours")

    ds.merge("dev", decide, "As decided")
    assert len(seen) == 4 and ds.log()[0].message == "As decided"
    assert ds["x"][2:4].tolist() == [1, 0] and ds["label"].names(0) == "dog" and len(ds) == 6


def test_a_function_that_fails_changes_nothing(ds: lacus.Dataset) -> None:
    conflicting(ds)
    version = ds.version

    def decide(_: lacus.Conflict) -> str:
        raise ZeroDivisionError("in the function")

    with pytest.raises(ZeroDivisionError, match="in the function"):
        ds.merge("dev", decide)
    with pytest.raises(lacus.InvalidError, match="neither"):
        ds.merge("dev", lambda _: "maybe")
    with pytest.raises(lacus.MergeConflictError, match="has no union"):
        ds.merge("dev", lambda _: "union")
    assert ds.refresh() == version and ds.status().clean


def test_union_of_columns_that_both_added(ds: lacus.Dataset) -> None:
    ds.add_column("n", dtype="int64", shape=())
    ds.extend({"n": range(4)})
    ds.commit("First")
    ds.branches.create("dev")
    dev = lacus.open(ds.url, branch="dev")
    for handle, row in ((ds, 0), (dev, 2)):
        handle.add_column("note", "text")
        handle["note"][row] = f"of row {row}"
        handle.commit("A note")
    ds.merge("dev", "union")
    assert ds["note"][:] == ["of row 0", None, "of row 2", None]


def test_fast_forward_can_be_refused_or_demanded(ds: lacus.Dataset) -> None:
    put(ds, "x", [1])
    ds.commit("First")
    ds.checkout("dev", create=True)
    put(ds, "y", [2])
    on_dev = ds.commit("Second")
    ds.checkout("main")
    assert ds.merge("dev", fast_forward=False).outcome == "committed"
    assert ds.log()[0].parents[1] == on_dev
    ds.checkout("dev")
    put(ds, "z", [3])
    ds.commit("Third")
    with pytest.raises(lacus.InvalidError, match="fast-forward"):
        ds.merge("main", fast_forward="only")
    with pytest.raises(lacus.InvalidError, match="fast_forward"):
        ds.merge("main", fast_forward="maybe")


def test_bad_input_changes_nothing(ds: lacus.Dataset) -> None:
    with pytest.raises(lacus.NotFoundError, match="no commit yet"):
        ds.branches.create("dev")
    put(ds, "x", np.arange(4))
    ds.commit("First")
    ds.branches.create("develop")
    for call in (ds.checkout, ds.merge, ds.log, ds.show, ds.diff, ds.revert, ds.cherry_pick, ds.restore):
        with pytest.raises(lacus.NotFoundError, match='did you mean "?develop'):
            call("develp")
    with pytest.raises(lacus.NotFoundError, match="develop"):
        lacus.open(ds.url, branch="develp")
    with pytest.raises(lacus.NotFoundError, match="develop"):
        lacus.open(ds.url, at="develp")
    with pytest.raises(lacus.NotFoundError, match="parents"):
        lacus.open(ds.url, at="main~5")
    with pytest.raises(lacus.NotFoundError, match="nothing is there"):
        lacus.open(ds.url + "x", branch="dev")
    for name in ("", "a b", "a..b", "HEAD", "x~1", "a//b"):
        with pytest.raises(lacus.InvalidError):
            ds.branches.create(name)
        with pytest.raises(lacus.InvalidError):
            ds.tag(name)
    with pytest.raises(lacus.ConflictError, match="already"):
        ds.branches.create("develop")
    with pytest.raises(lacus.ConflictError, match="already"):
        ds.tag("develop")
    for message in ("", "  \n"):
        with pytest.raises(lacus.InvalidError, match="message is empty"):
            ds.commit(message, allow_empty=True)
    with pytest.raises(lacus.InvalidError, match="text is expected"):
        ds.commit(3)  # type: ignore[arg-type]
    with pytest.raises(lacus.InvalidError, match="JSON"):
        ds.commit("x", metadata={"a": object()}, allow_empty=True)
    with pytest.raises(lacus.InvalidError, match="lineage"):
        ds.commit("x", lineage={"outpts": []}, allow_empty=True)
    with pytest.raises(lacus.InvalidError, match="first"):
        ds.revert("main")
    # A draft in the way.
    ds["x"][0] = 5
    version = ds.version
    for call in (ds.checkout, ds.merge, ds.restore):
        with pytest.raises(lacus.InvalidError, match="draft of 1 version"):
            call("develop")
    with pytest.raises(lacus.InvalidError, match="draft"):
        ds.checkout("other", create=True)
    assert list(ds.branches) == ["develop", "main"] and ds.branch == "main" and ds.refresh() == version
    ds.checkout("main")
    ds.checkout("develop", force=True)
    assert ds["x"][0] == 0
    ds.checkout("main")
    assert ds["x"][0] == 5 and len(ds.status().draft) == 1
    with pytest.raises(lacus.InvalidError, match="read_only"):
        lacus.open(ds.url, read_only=True).commit("x")
    with pytest.raises(lacus.InvalidError, match="read-only"):
        lacus.open(ds.url, at=1).commit("x")
    with pytest.raises(lacus.InvalidError, match="uncommitted version"):
        lacus.open(ds.url, at=1).tag("t")
    other = lacus.create(ds.url + "-other")
    put(other, "x", [1])
    id = other.commit("Elsewhere")
    with pytest.raises(lacus.NotFoundError):
        ds.merge(id)
    with pytest.raises(lacus.InvalidError, match="length of time"):
        ds.gc(grace="soon")


def test_damaged_commits_are_told(ds: lacus.Dataset) -> None:
    put(ds, "x", [1])
    id = ds.commit("First")
    path = Path(ds.url) / "_lacus" / "commits" / f"{id}.json"
    path.write_bytes(path.read_bytes().replace(b"First", b"Forst"))
    # Another process: this one has read the commit, and knows that it never changes.
    program = "import sys, lacus; lacus.open(sys.argv[1]).log()"
    done = subprocess.run([sys.executable, "-c", program, ds.url], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode != 0 and "CorruptError" in done.stderr and "damaged" in done.stderr, done.stderr
    assert lacus.open(ds.url)["x"][0] == 1


def test_drafts_of_others_are_not_thrown_away(ds: lacus.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    put(ds, "x", [1])
    ds.commit("First")
    monkeypatch.setenv("USER", "somebody-else")
    monkeypatch.setenv("LOGNAME", "somebody-else")
    put(ds, "y", [1])
    monkeypatch.undo()
    if ds.history(1)[0].author == ds.history()[1].author:
        pytest.skip("the author does not come from the environment")
    with pytest.raises(lacus.InvalidError, match="others"):
        ds.discard()
    assert ds.discard(force=True) == 1 and "y" not in ds


def test_lineage(ds: lacus.Dataset) -> None:
    ds["raw"] = np.arange(4)
    raw = ds.commit("Raw")
    ds["features"] = np.arange(4) * 2
    made = {"outputs": ["features"], "function": "double", "inputs": ["raw"], "parameters": {"by": 2}}
    ds.commit("Features", lineage=made)
    ds["model"] = np.arange(2)
    inputs = [{"commit": "main", "tensors": ["features"]}, {"url": "s3://elsewhere/x", "tensors": ["y"]}]
    ds.commit("Model", lineage=[{"outputs": ["model"], "program": "train.py", "inputs": inputs}])
    steps = ds.lineage("model")
    assert [(step.depth, step.tensor) for step in steps] == [(0, "model"), (1, "features"), (2, "raw")]
    assert steps[1].lineage is not None and steps[1].lineage["parameters"] == {"by": 2}
    assert steps[2].commit.id == raw and steps[2].lineage is None and "train.py" in repr(steps[0])
    assert ds.log()[0].lineage[0]["program"] == "train.py"
    assert ds.lineage("nothing") == []


def test_handles_remember_where_they_are(ds: lacus.Dataset) -> None:
    put(ds, "x", np.arange(4))
    first = ds.commit("First")
    ds.checkout("dev", create=True)
    ds["x"][0] = 7
    again = pickle.loads(pickle.dumps(ds))
    assert again["x"][0] == 7 and again.read_only and again.version == ds.version
    assert again.log()[0].id == first
    ds["x"][0] = 8
    assert again["x"][0] == 7
    old = pickle.loads(pickle.dumps(lacus.open(ds.url, at=first)))
    assert old["x"][0] == 0 and old.log()[0].id == first and old.branch is None
    again.checkout("main")
    assert again.branch == "main" and again["x"][0] == 0


def test_rows_stay_those_of_their_branch(ds: lacus.Dataset) -> None:
    labelled(ds)
    ds.commit("First")
    ds.checkout("dev", create=True)
    ds["text"][0] = "dev"
    ds.commit("Dev")
    rows, each = ds[:2], iter(ds["text"])
    ds.checkout("main")
    ds["text"][0] = "main"
    assert rows["text"] == ["dev", "row 1"] and next(each) == "dev"
    assert ds["text"][0] == "main" and ds[:2]["text"] == ["main", "row 1"]


def test_two_handles_on_one_branch(ds: lacus.Dataset) -> None:
    put(ds, "x", np.zeros(8, np.int64))
    ds.commit("First")
    other = lacus.open(ds.url)
    ds["x"][0] = 1
    other["x"][6] = 2
    id = other.commit("Both")
    with pytest.raises(lacus.InvalidError, match="nothing to commit"):
        ds.commit("Nothing left")
    assert ds.log()[0].id == id and ds.status().clean
    assert lacus.open(ds.url, at=id)["x"][...].tolist() == [1, 0, 0, 0, 0, 0, 2, 0]


def _commit_many(url: str, name: str, count: int, barrier: Any) -> None:
    ds = lacus.open(url)
    barrier.wait()
    for i in range(count):
        with ds.transaction(f"{name} {i}") as tx:
            ds.put(f"{name}/{i}", np.full(5, i))
        # The id is that of its own commit, whoever else made one meanwhile.
        assert tx.id is not None and ds.log(tx.id, 1)[0].message == f"{name} {i}"


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_processes_commit_at_once(ds: lacus.Dataset) -> None:
    put(ds, "x", [1])
    ds.commit("First")
    processes = multiprocessing.get_context("fork")
    barrier = processes.Barrier(3)
    started = [processes.Process(target=_commit_many, args=(ds.url, f"w{w}", 5, barrier)) for w in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
        assert process.exitcode == 0
    ds.refresh()
    assert len(ds.keys()) == 16 and ds.status().clean
    messages = [commit.message for commit in ds.log()]
    assert sorted(messages) == sorted(["First", *(f"w{w} {i}" for w in range(3) for i in range(5))])
    # One line, no commit lost.
    assert all(len(commit.parents) == 1 for commit in ds.log()[:-1])
