"""Rows that other Delta writers add or delete: `check` names what does not fit, nothing loses them, and nothing is blocked by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lacus

deltalake = pytest.importorskip("deltalake")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")


def append(ds: lacus.Dataset, *rows: dict[str, Any]) -> None:
    """Rows of another writer: whatever is not given is null."""
    found = pa.table(deltalake.QueryBuilder().register("t", deltalake.DeltaTable(ds.url)).execute("SELECT * FROM t LIMIT 0").read_all())
    # The reader's own wide and short types are nothing that a writer has to keep to.
    types = {field.name: _plain(field.type) for field in found.schema}
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in types.items()}
    deltalake.write_deltalake(ds.url, pa.table(columns), mode="append")
    ds.refresh()


def _plain(kind: Any) -> Any:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.int64())
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind) else kind


def delete(ds: lacus.Dataset, where: str) -> None:
    """Rows that another writer deletes."""
    deltalake.DeltaTable(ds.url).delete(where)
    ds.refresh()


def rows_of(ds: lacus.Dataset, name: str | None) -> list[dict[str, Any]]:
    """The rows that another reader finds under a name."""
    column = pl.col("tensor")
    rows = pl.scan_delta(ds.url).filter(column.is_null() if name is None else column == name)
    found: list[dict[str, Any]] = rows.collect().to_dicts()
    return found


def problems(ds: lacus.Dataset) -> str:
    """What a check finds."""
    report = ds.check()
    assert report.healthy == (not report.damage)
    return "\n".join(f"{what}: {problem}" for what, problem in report.damage)


@pytest.fixture
def filled(ds: lacus.Dataset) -> lacus.Dataset:
    """A dataset with something of everything, in several files."""
    ds.put("dense", np.arange(24).reshape(4, 6), layout="dense", chunk_shape=(2, 3))
    ds.put("cells", np.diag([1.5, 2, 3, 4]), layout="COO")
    ds.put("packed", np.diag(np.arange(1, 9)), layout="CSR")
    ds.add_column("n", dtype="int64", shape=())
    ds.extend({"n": np.arange(10)})
    return ds


def check_values(ds: lacus.Dataset) -> None:
    assert np.array_equal(np.asarray(ds["dense"]), np.arange(24).reshape(4, 6))
    assert np.array_equal(np.asarray(ds["cells"]), np.diag([1.5, 2, 3, 4]))
    assert np.array_equal(np.asarray(ds["packed"]), np.diag(np.arange(1, 9)))
    assert ds["n"][:].tolist() == list(range(10))


@pytest.mark.parametrize("name", ["stranger", "", None])
def test_rows_of_no_tensor_are_named_and_kept(filled: lacus.Dataset, name: str | None) -> None:
    ds = filled
    assert problems(ds) == ""
    append(ds, {"tensor": name, "text": "hello", "c0": 5}, {"tensor": name, "int": 7})
    check_values(ds)
    found = problems(ds)
    assert "2 rows of another writer" in found and "compact leaves them" in found
    assert (name or "name") in found
    report = ds.compact()
    assert report.files_kept == 1 and report.files_before > 1
    check_values(ds)
    assert sorted(row["text"] or "" for row in rows_of(ds, name)) == ["", "hello"]
    assert "2 rows of another writer" in problems(ds)
    # Lacus goes on as if they were not there.
    ds["dense"][0, 0] = 0
    ds["n"][3] = 3
    ds.put("more", np.arange(3))
    assert problems(lacus.open(ds.url)) == problems(ds) == found
    delete(ds, "text = 'hello' OR int = 7 AND c0 IS NULL AND row IS NULL")
    assert problems(ds) == ""
    check_values(ds)


def test_rows_of_no_tensor_stay_in_files_that_change(filled: lacus.Dataset) -> None:
    """Another tool joined all files: what Lacus changes and what it does not know lie side by side."""
    ds = filled
    append(ds, {"tensor": "stranger", "text": "hello"})
    deltalake.DeltaTable(ds.url).optimize.compact()
    ds.refresh()
    check_values(ds)
    ds["dense"][1:3] = -1
    ds.put("cells", np.diag([1.5, 2, 3, 4]), layout="COO")
    ds["n"][2] = 2
    ds.delete_rows([9])
    ds.append({"n": 9})
    assert ds.compact().files_kept == 1
    assert [row["text"] for row in rows_of(ds, "stranger")] == ["hello"]
    ds["dense"][1:3] = np.arange(24).reshape(4, 6)[1:3]
    check_values(ds)
    check_values(lacus.open(ds.url))
    assert "1 row of another writer" in problems(ds)


@pytest.mark.parametrize("joined", [False, True])
def test_a_second_header_row_is_named_until_the_tensor_is_put_again(filled: lacus.Dataset, joined: bool) -> None:
    ds = filled
    (header,) = [row for row in rows_of(ds, "dense") if row["dtype"] is not None]
    append(ds, {key: value for key, value in header.items() if value is not None})
    if joined:
        deltalake.DeltaTable(ds.url).optimize.compact()
        ds.refresh()
    check_values(ds)
    assert "tensor 'dense'" in problems(ds).replace('"', "'") and "2 header rows" in problems(ds)
    ds.compact()
    assert len([row for row in rows_of(ds, "dense") if row["dtype"] is not None]) == 2
    check_values(ds)
    ds.put("dense", np.arange(24).reshape(4, 6), layout="dense", chunk_shape=(2, 3))
    assert problems(ds) == ""
    assert len([row for row in rows_of(ds, "dense") if row["dtype"] is not None]) == 1
    ds.compact()
    check_values(ds)


def test_nonzeros_that_another_writer_deleted_are_missed(filled: lacus.Dataset) -> None:
    ds = filled
    delete(ds, "tensor = 'cells' AND c0 = 1")
    found = problems(ds)
    assert "4 nonzeros" in found and "3 are stored" in found and "cells" in found
    ds.compact()
    assert "3 are stored" in problems(ds)
    ds.put("cells", np.diag([1.5, 2, 3, 4]), layout="COO")
    assert problems(ds) == ""
    delete(ds, "tensor = 'packed' AND codec IS NOT NULL")
    assert "0 nonzeros are stored where 8 belong" in problems(ds)


def test_a_header_that_another_writer_deleted_is_missed(filled: lacus.Dataset) -> None:
    ds = filled
    delete(ds, "tensor = 'dense' AND dtype IS NOT NULL")
    assert "dense" not in ds.keys()
    assert "4 rows of another writer" in problems(ds) and "dense" in problems(ds)
    ds.compact()
    assert len(rows_of(ds, "dense")) == 4
    # Nothing is lost: the version before has it all.
    ds.put("dense", np.arange(24).reshape(4, 6), layout="dense", chunk_shape=(2, 3))
    assert problems(ds) == ""
    check_values(ds)


def test_versions_of_other_programs_are_noted(filled: lacus.Dataset) -> None:
    """What is not stored of a dense array is zero: only the log can tell that another program took it."""
    ds = filled
    assert ds.check().notes == []
    delete(ds, "tensor = 'dense' AND c0 = 1 AND c1 = 1")
    assert np.asarray(ds["dense"])[2:, 3:].tolist() == [[0] * 3] * 2
    report = ds.check()
    assert report.healthy
    assert any(f"{ds.version} (DELETE by" in problem for _, problem in report.notes), report
