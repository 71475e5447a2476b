"""Merges of all pairs of operations, under every policy, against a table of what a person would expect.

Both sides begin with rows ``x y z`` that column ``a`` labels ``cat dog dog``. One side does one thing, the other another.
What is expected is written as the columns in their order, each with the samples of all rows::

    a:cat,dog,dog b:x,y,z

``-`` is a missing sample. Where there is a conflict, the table has its text behind ``!``, and below what each policy makes of it; a
policy that has no answer ``stops``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lacus

NAMES = ["cat", "dog", "owl"]

#: What each side does: the value it writes says who did it.
OPERATIONS: dict[str, tuple[Callable[[lacus.Dataset], object], Callable[[lacus.Dataset], object]]] = {
    "rename": (lambda ds: ds.rename("a", "ours"), lambda ds: ds.rename("a", "theirs")),
    "update": (lambda ds: _set(ds, 0, "dog"), lambda ds: _set(ds, 0, "owl")),
    "drop": (lambda ds: ds.drop_column("a"), lambda ds: ds.drop_column("a")),
    "add": (lambda ds: ds.add_column("n", "text", default="o"), lambda ds: ds.add_column("n", "text", default="t")),
    "append": (lambda ds: ds.append({"a": "owl", "b": "o"}), lambda ds: ds.append({"a": "owl", "b": "t"})),
    "delete": (lambda ds: ds.delete_rows(0), lambda ds: ds.delete_rows(0)),
    "classes": (lambda ds: _classes(ds, "fox", 1), lambda ds: _classes(ds, "elk", 2)),
    "retype": (lambda ds: _retype(ds, "o"), lambda ds: _retype(ds, "t")),
}

#: What ours did, what theirs did, and what is expected of the merge.
EXPECTED = """
rename  rename  ! "a": renamed to "ours" in ours and to "theirs" in theirs
                  ours:   ours:cat,dog,dog b:x,y,z
                  theirs: theirs:cat,dog,dog b:x,y,z
                  union:  stops
rename  update  ours:owl,dog,dog b:x,y,z
rename  drop    ! "ours": renamed in ours, dropped in theirs
                  ours:   ours:cat,dog,dog b:x,y,z
                  theirs: b:x,y,z
                  union:  ours:cat,dog,dog b:x,y,z
rename  add     ours:cat,dog,dog b:x,y,z n:t,t,t
rename  append  ours:cat,dog,dog,owl b:x,y,z,t
rename  delete  ours:dog,dog b:y,z
rename  classes ours:cat,dog,elk b:x,y,z
rename  retype  ! "ours": renamed in ours, dropped in theirs
                  ours:   ours:cat,dog,dog b:x,y,z a:t,t,t
                  theirs: b:x,y,z a:t,t,t
                  union:  ours:cat,dog,dog b:x,y,z a:t,t,t

update  rename  theirs:dog,dog,dog b:x,y,z
update  update  ! "a", row with id 0: changed on both sides
                  ours:   a:dog,dog,dog b:x,y,z
                  theirs: a:owl,dog,dog b:x,y,z
                  union:  stops
update  drop    ! "a": changed in ours, dropped in theirs
                  ours:   a:dog,dog,dog b:x,y,z
                  theirs: b:x,y,z
                  union:  a:dog,dog,dog b:x,y,z
update  add     a:dog,dog,dog b:x,y,z n:t,t,t
update  append  a:dog,dog,dog,owl b:x,y,z,t
update  delete  ! row with id 0: changed in ours ("a"), deleted in theirs
                  ours:   a:dog,dog,dog b:x,y,z
                  theirs: a:dog,dog b:y,z
                  union:  a:dog,dog,dog b:x,y,z
update  classes a:dog,dog,elk b:x,y,z
update  retype  ! "a": content changed in ours, type or shape changed in theirs
                  ours:   a:dog,dog,dog b:x,y,z
                  theirs: b:x,y,z a:t,t,t
                  union:  stops

drop    rename  ! "theirs": renamed in theirs, dropped in ours
                  ours:   b:x,y,z
                  theirs: theirs:cat,dog,dog b:x,y,z
                  union:  theirs:cat,dog,dog b:x,y,z
drop    update  ! "a": changed in theirs, dropped in ours
                  ours:   b:x,y,z
                  theirs: a:owl,dog,dog b:x,y,z
                  union:  a:owl,dog,dog b:x,y,z
drop    drop    b:x,y,z
drop    add     b:x,y,z n:t,t,t
drop    append  ! "a": changed in theirs, dropped in ours
                  ours:   b:x,y,z,t
                  theirs: a:cat,dog,dog,owl b:x,y,z,t
                  union:  a:cat,dog,dog,owl b:x,y,z,t
drop    delete  b:y,z
drop    classes ! "a": changed in theirs, dropped in ours
                  ours:   b:x,y,z
                  theirs: a:cat,dog,elk b:x,y,z
                  union:  a:cat,dog,elk b:x,y,z
drop    retype  ! "a": changed in theirs, dropped in ours
                  ours:   b:x,y,z
                  theirs: b:x,y,z a:t,t,t
                  union:  b:x,y,z a:t,t,t

add     rename  theirs:cat,dog,dog b:x,y,z n:o,o,o
add     update  a:owl,dog,dog b:x,y,z n:o,o,o
add     drop    b:x,y,z n:o,o,o
add     add     ! "n": added on both sides, differently
                  ours:   a:cat,dog,dog b:x,y,z n:o,o,o
                  theirs: a:cat,dog,dog b:x,y,z n:t,t,t
                  union:  stops
add     append  a:cat,dog,dog,owl b:x,y,z,t n:o,o,o,-
add     delete  a:dog,dog b:y,z n:o,o
add     classes a:cat,dog,elk b:x,y,z n:o,o,o
add     retype  b:x,y,z a:t,t,t n:o,o,o

append  rename  theirs:cat,dog,dog,owl b:x,y,z,o
append  update  a:owl,dog,dog,owl b:x,y,z,o
append  drop    ! "a": changed in ours, dropped in theirs
                  ours:   a:cat,dog,dog,owl b:x,y,z,o
                  theirs: b:x,y,z,o
                  union:  a:cat,dog,dog,owl b:x,y,z,o
append  add     a:cat,dog,dog,owl b:x,y,z,o n:t,t,t,-
append  append  a:cat,dog,dog,owl,owl b:x,y,z,o,t
append  delete  a:dog,dog,owl b:y,z,o
append  classes a:cat,dog,elk,owl b:x,y,z,o
append  retype  ! "a": content changed in ours, type or shape changed in theirs
                  ours:   a:cat,dog,dog,owl b:x,y,z,o
                  theirs: b:x,y,z,o a:t,t,t,-
                  union:  stops

delete  rename  theirs:dog,dog b:y,z
delete  update  ! row with id 0: changed in theirs ("a"), deleted in ours
                  ours:   a:dog,dog b:y,z
                  theirs: a:dog,dog,owl b:y,z,x
                  union:  a:dog,dog,owl b:y,z,x
delete  drop    b:y,z
delete  add     a:dog,dog b:y,z n:t,t
delete  append  a:dog,dog,owl b:y,z,t
delete  delete  a:dog,dog b:y,z
delete  classes a:dog,elk b:y,z
delete  retype  b:y,z a:t,t

classes rename  theirs:cat,fox,dog b:x,y,z
classes update  a:owl,fox,dog b:x,y,z
classes drop    ! "a": changed in ours, dropped in theirs
                  ours:   a:cat,fox,dog b:x,y,z
                  theirs: b:x,y,z
                  union:  a:cat,fox,dog b:x,y,z
classes add     a:cat,fox,dog b:x,y,z n:t,t,t
classes append  a:cat,fox,dog,owl b:x,y,z,t
classes delete  a:fox,dog b:y,z
classes classes a:cat,fox,elk b:x,y,z
classes retype  ! "a": type or shape changed on both sides, differently
                  ours:   a:cat,fox,dog b:x,y,z
                  theirs: b:x,y,z a:t,t,t
                  union:  stops

retype  rename  ! "theirs": renamed in theirs, dropped in ours
                  ours:   b:x,y,z a:o,o,o
                  theirs: theirs:cat,dog,dog b:x,y,z a:o,o,o
                  union:  theirs:cat,dog,dog b:x,y,z a:o,o,o
retype  update  ! "a": content changed in theirs, type or shape changed in ours
                  ours:   b:x,y,z a:o,o,o
                  theirs: a:owl,dog,dog b:x,y,z
                  union:  stops
retype  drop    ! "a": changed in ours, dropped in theirs
                  ours:   b:x,y,z a:o,o,o
                  theirs: b:x,y,z
                  union:  b:x,y,z a:o,o,o
retype  add     b:x,y,z n:t,t,t a:o,o,o
retype  append  ! "a": content changed in theirs, type or shape changed in ours
                  ours:   b:x,y,z,t a:o,o,o,-
                  theirs: a:cat,dog,dog,owl b:x,y,z,t
                  union:  stops
retype  delete  b:y,z a:o,o
retype  classes ! "a": type or shape changed on both sides, differently
                  ours:   b:x,y,z a:o,o,o
                  theirs: a:cat,dog,elk b:x,y,z
                  union:  stops
retype  retype  ! "a": content changed on both sides
                  ours:   b:x,y,z a:o,o,o
                  theirs: b:x,y,z a:t,t,t
                  union:  stops
"""


def _set(ds: lacus.Dataset, row: int, label: str) -> None:
    ds["a"][row] = label


def _classes(ds: lacus.Dataset, name: str, row: int) -> None:
    ds["a"].add_class_names([name])
    ds["a"][row] = name


def _retype(ds: lacus.Dataset, text: str) -> None:
    ds.drop_column("a")
    ds.add_column("a", "text", default=text)


def _shown(ds: lacus.Dataset) -> str:
    shown = []
    for name in ds.columns:
        column = ds[name]
        names = column.class_names
        values = [None if v is None else names[int(v)] if names else v for v in (column[i] for i in range(len(ds)))]
        shown.append(f"{name}:{','.join('-' if value is None else str(value) for value in values)}")
    return " ".join(shown)


def _case(template: Path, place: Path, ours: str, theirs: str, policy: str | None) -> str:
    shutil.copytree(template, place)
    ds = lacus.open(str(place))
    ds.checkout("other", create=True)
    OPERATIONS[theirs][1](ds)
    ds.commit("Theirs")
    ds.checkout("main")
    OPERATIONS[ours][0](ds)
    ds.commit("Ours")
    before = _shown(ds)
    try:
        ds.merge("other", on_conflict=policy)
    except lacus.MergeConflictError as error:
        assert _shown(ds) == before, "a merge that stops changes nothing"
        return f"[{'; '.join(sorted({str(conflict) for conflict in error.conflicts}))}]"
    assert not ds.check().damage
    return _shown(ds)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("base") / "ds"
    ds = lacus.create(str(place))
    ds.add_column("a", "class_label", class_names=NAMES)
    ds.add_column("b", "text")
    ds.extend({"a": ["cat", "dog", "dog"], "b": ["x", "y", "z"]})
    ds.commit("Base")
    return place


def _expected() -> list[tuple[str, str, str, dict[str, str]]]:
    found: list[tuple[str, str, str, dict[str, str]]] = []
    for line in filter(None, EXPECTED.splitlines()):
        if line.startswith(" "):
            policy, _, result = line.strip().partition(":")
            found[-1][3][policy] = result.strip()
        else:
            ours, theirs, result = line.split(maxsplit=2)
            found.append((ours, theirs, result, {}))
    return found


def test_the_table_has_every_pair() -> None:
    pairs = [(ours, theirs) for ours, theirs, _, _ in _expected()]
    assert pairs == [(ours, theirs) for ours in OPERATIONS for theirs in OPERATIONS]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_pairs_of_operations(operation: str, template: Path, tmp_path: Path) -> None:
    cases = [case for case in _expected() if case[0] == operation]
    for ours, theirs, result, policies in cases:
        where = tmp_path / theirs
        where.mkdir()
        found = _case(template, where / "none", ours, theirs, None)
        assert found == (f"[{result.removeprefix('! ')}]" if policies else result), (ours, theirs)
        for policy, expected in policies.items():
            found = _case(template, where / policy, ours, theirs, policy)
            wanted = f"[{result.removeprefix('! ')}]" if expected == "stops" else expected
            assert found == wanted, (ours, theirs, policy)


def test_class_names_added_on_both_sides_are_united(tmp_path: Path) -> None:
    ds = lacus.create(str(tmp_path / "ds"))
    ds.add_column("a", "class_label", class_names=["cat"])
    ds.add_column("many", "class_label", class_names=["cat"], shape=(None,))
    ds.add_column("mask", "segment_mask", class_names=["cat"])
    ds.extend({"a": ["cat"] * 4, "many": [["cat"]] * 4, "mask": [[[0, 0]]] * 4})
    ds.commit("Base")
    ds.checkout("other", create=True)
    for name in ("a", "many", "mask"):
        ds[name].add_class_names(["owl", "fox"])
    ds["a"][0], ds["a"][1] = "owl", "fox"
    ds["many"][0], ds["mask"][0] = ["fox", "owl", "cat"], [[2, 1]]
    ds.append({"a": "fox", "many": ["owl"], "mask": [[1, 0]]})
    ds.commit("Theirs")
    ds.checkout("main")
    for name in ("a", "many", "mask"):
        ds[name].add_class_names(["fox", "elk"])
    ds["a"][1], ds["a"][2] = "fox", "elk"
    ds.commit("Ours")
    # Both say that row 1 is a fox, by different numbers: no conflict.
    ds.merge("other")
    assert ds["a"].class_names == ["cat", "fox", "elk", "owl"]
    assert ds["a"].names(slice(None)) == ["owl", "fox", "elk", "cat", "fox"]
    assert [list(labels) for labels in ds["many"][:]] == [[1, 3, 0], [0], [0], [0], [3]]
    assert [mask.tolist() for mask in ds["mask"][:]] == [[[1, 3]], [[0, 0]], [[0, 0]], [[0, 0]], [[3, 0]]]
    assert not ds.check().damage


def test_the_same_number_for_two_classes_is_a_conflict(tmp_path: Path) -> None:
    ds = lacus.create(str(tmp_path / "ds"))
    ds.add_column("a", "class_label", class_names=["cat"])
    ds.append({"a": "cat"})
    ds.commit("Base")
    ds.checkout("other", create=True)
    _classes(ds, "owl", 0)
    ds.commit("Theirs")
    ds.checkout("main")
    _classes(ds, "fox", 0)
    ds.commit("Ours")
    with pytest.raises(lacus.MergeConflictError) as caught:
        ds.merge("other")
    assert [(conflict.kind, conflict.tensor) for conflict in caught.value.conflicts] == [("sample", "a")]
    ds.merge("other", on_conflict="theirs")
    assert ds["a"].names(slice(None)) == ["owl"] and ds["a"].class_names == ["cat", "fox", "owl"]


def test_a_rename_is_shown_as_one(tmp_path: Path) -> None:
    ds = lacus.create(str(tmp_path / "ds"))
    ds.add_column("a", "text")
    ds.extend({"a": ["x", "y"]})
    ds["w"] = [1.0, 2.0]
    ds.commit("Base")
    ds.rename("a", "b")
    ds["b"][0] = "z"
    ds.rename("w", "v")
    diff = ds.diff()
    assert {name: tensor.renamed_from for name, tensor in diff.tensors.items()} == {"b": "a", "v": "w"}
    assert diff.tensors["b"].change == "changed" and len(diff.tensors["b"].updated) == 1
    assert "renamed a -> b, 1 sample updated" in repr(diff) and "renamed w -> v" in repr(diff)
    assert diff.to_dict()["tensors"]["v"]["renamed_from"] == "w"
    changes = [(c.what, c.kind, c.tensor, c.old, c.new) for c in diff]
    assert changes == [
        ("tensor", "renamed", "b", "a", "b"),
        ("sample", "updated", "b", "x", "z"),
        ("tensor", "renamed", "v", "w", "v"),
    ]
