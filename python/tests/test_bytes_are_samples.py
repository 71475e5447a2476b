"""A column of bytes holds any bytes, and gives them back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lacus

SAMPLES = [b"", b"\0\xff text", bytes(range(256)) * 100, b"a" * 5_000_000, None]


def test_bytes_come_back(ds: lacus.Dataset, tmp_path: Path) -> None:
    ds.add_column("blob", "bytes")
    ds.add_column("plain", "bytes", compression="none")
    ds.add_column("parts", "sequence[bytes]")
    path = tmp_path / "file"
    path.write_bytes(b"of a file")
    ds.extend({"blob": SAMPLES, "plain": SAMPLES, "parts": [[b"a", b""], [], None, [b"c"], None]})
    ds.extend({"blob": [bytearray(b"one"), memoryview(b"two"), lacus.read(path)]})
    expected = [*SAMPLES, b"one", b"two", b"of a file"]
    assert ds["blob"][:] == expected
    assert ds["plain"][:5] == SAMPLES
    assert ds["parts"][:5] == [[b"a", b""], [], None, [b"c"], None]
    assert [ds["blob"].bytes(row) for row in range(8)] == expected
    assert ds["blob"].shapes == [None if sample is None else (len(sample),) for sample in expected]
    assert (ds["blob"][1, 1:3], ds["blob"][1, 1], ds["blob"][2, ::-100]) == (b"\xff ", 255, SAMPLES[2][::-100])
    assert ds["blob"].stored_bytes < 200_000, "five million letters are compressed"
    assert lacus.open(ds.url)["blob"].htype == "bytes"
    summary = next(column for column in ds.summary().columns if column.name == "blob")
    assert (summary.htype, summary.samples, summary.shape_range) == ("bytes", 7, ((0,), (5_000_000,)))
    ds["blob"][0] = b"changed"
    assert ds["blob"][0] == b"changed"
    assert ds.materialize(f"{ds.url}-copy")["blob"][2] == SAMPLES[2]
    ds.map(lambda row: {"length": len(row["blob"] or b"")}, columns={"length": {"dtype": "int64", "shape": ()}})
    assert ds["length"][6] == 3
    ds.map(lambda row: row, columns=["blob"], inputs=["blob"], into=f"{ds.url}-map")
    assert lacus.open(f"{ds.url}-map")["blob"][6] == b"two"


@pytest.mark.parametrize("value", ["text", 5, [1, 2], np.zeros(3, np.uint8), {"a": 1}, lacus.link("file:///x")])
def test_only_bytes_are_bytes(ds: lacus.Dataset, value: object) -> None:
    ds.add_column("blob", "bytes")
    with pytest.raises(lacus.InvalidError, match='column "blob", row 0: bytes: expected bytes, found '):
        ds.append({"blob": value})
    for wrong in ({"dtype": "int8"}, {"shape": (3,)}, {"compression": "png"}):
        with pytest.raises(lacus.InvalidError):
            ds.add_column("wrong", "bytes", **wrong)


def test_bytes_have_a_history(ds: lacus.Dataset) -> None:
    ds.add_column("blob", "bytes")
    ds.extend({"blob": [b"a", b"b", b"c"]})
    ds.commit("first")
    ds.checkout("side", create=True)
    ds["blob"][0] = b"side"
    ds.commit("side")
    ds.checkout("main")
    ds["blob"][2] = b"main"
    ds.append({"blob": b"d"})
    ds.commit("main")
    assert len(list(ds.diff("main", "side"))) > 0
    ds.merge("side")
    assert ds["blob"][:] == [b"side", b"b", b"main", b"d"]


def test_bytes_go_out_as_binary_and_come_in(ds: lacus.Dataset, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    ds.add_column("blob", "bytes")
    ds.add_column("parts", "sequence[bytes]")
    ds.extend({"blob": [b"", b"\0\1", None], "parts": [[b"x", b""], None, []]})
    ds.export_to(tmp_path / "table.parquet")
    table = pq.read_table(tmp_path / "table.parquet")
    assert table["blob"].to_pylist() == [b"", b"\0\1", None]
    assert table["parts"].to_pylist() == [[b"x", b""], None, []]
    back = lacus.create(f"{ds.url}-back")
    back.import_from(tmp_path / "table.parquet")
    assert (back["blob"].htype, back["blob"][:]) == ("bytes", [b"", b"\0\1", None])
    assert (back["parts"].htype, back["parts"][:]) == ("sequence[bytes]", [[b"x", b""], None, []])


def test_binary_of_tables_that_is_no_picture_is_bytes(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    values = [b"no picture", None, b""]
    table = pa.table({"one": pa.array(values, pa.binary()), "many": pa.array([[b"a"], None, []], pa.list_(pa.binary()))})
    ds = lacus.from_table(table, tmp_path / "ds")
    assert (ds["one"].htype, ds["one"][:]) == ("bytes", values)
    assert (ds["many"].htype, ds["many"][:]) == ("sequence[bytes]", [[b"a"], None, []])
