"""Columns are listed in the order in which they were added, whatever happens to them."""

from __future__ import annotations

import sys
from pathlib import Path

import lacus

sys.path.insert(0, str(Path(__file__).parent / "fixtures"))

from make_first_files import unpack  # noqa: E402

WANTED = ["zebra", "ant", "mole", "bee"]


def _made(place: Path) -> lacus.Dataset:
    ds = lacus.create(str(place))
    for name in WANTED:
        ds.add_column(name, "text")
    ds.append(dict.fromkeys(sorted(WANTED), "x"))
    ds.commit("Base")
    return ds


def test_the_order_of_adding_is_kept(tmp_path: Path) -> None:
    ds = _made(tmp_path / "ds")
    assert ds.columns == WANTED
    assert list(ds[0]) == WANTED
    assert [column.name for column in ds.summary().columns] == WANTED
    ds["ant"][0] = "y"
    ds.extend({"bee": ["z"]})
    ds.compact()
    assert ds.columns == WANTED
    assert lacus.open(str(tmp_path / "ds")).columns == WANTED
    # Arrays are listed by name, as names of a namespace are.
    ds["b"], ds["a"] = [1], [2]
    assert ds.keys() == sorted([*WANTED, "a", "b"])


def test_a_renamed_column_keeps_its_place_and_a_new_one_is_last(tmp_path: Path) -> None:
    ds = _made(tmp_path / "ds")
    ds.rename("ant", "zzz")
    assert ds.columns == ["zebra", "zzz", "mole", "bee"]
    ds.rename_column("zebra", "a")
    ds.compact()
    assert ds.columns == ["a", "zzz", "mole", "bee"]
    ds.drop_column("a")
    ds.add_column("a", "text")
    assert ds.columns == ["zzz", "mole", "bee", "a"]


def test_branches_and_merges_keep_the_order(tmp_path: Path) -> None:
    ds = _made(tmp_path / "ds")
    ds.checkout("other", create=True)
    ds.add_column("c", "text")
    ds.rename("bee", "aaa")
    ds.commit("Theirs")
    ds.checkout("main")
    ds.add_column("b", "text")
    ds.commit("Ours")
    ds.merge("other")
    assert ds.columns == ["zebra", "ant", "mole", "aaa", "c", "b"]
    ds.restore("main~1")
    assert ds.columns == [*WANTED, "b"]


def test_exports_have_the_order(tmp_path: Path) -> None:
    ds = _made(tmp_path / "ds")
    ds.export_to(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == ",".join(WANTED)


def test_columns_of_the_first_versions_come_first_and_are_followed_by_name(tmp_path: Path) -> None:
    ds = lacus.open(unpack(tmp_path / "old"))
    names = ds.columns
    assert names == sorted(names)
    ds.checkout("renamed", create=True)
    ds.compact()
    ds.add_column("a", "text")
    ds.rename("label", "zzz")
    ds.rename("grid", "raster")
    ds.compact()
    ds.commit("Renamed")
    renamed = ["zzz" if name == "label" else name for name in names]
    assert ds.columns == [*renamed, "a"]
    ds.checkout("main")
    ds["label"][0] = ds["label"].class_names[-1]
    ds["grid"][0, 0] = 7
    ds.commit("Changed")
    ds.merge("renamed")
    assert ds.columns == [*renamed, "a"]
    assert ds["zzz"].names(0) == ds["zzz"].class_names[-1]
    assert (ds["raster"][0, 0] == 7).all() and "grid" not in ds
