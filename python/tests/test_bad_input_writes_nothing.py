"""A clear error of the right kind that names the thing, and nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from workers import ENVIRONMENT

import lacus


def files(ds: lacus.Dataset) -> set[str]:
    """All files of a dataset."""
    return {str(path.relative_to(ds.url)) for path in Path(ds.url).rglob("*") if path.is_file()}


@pytest.fixture
def full(ds: lacus.Dataset) -> lacus.Dataset:
    """A dataset with a dense and a sparse tensor."""
    ds.put("x", np.arange(20.0).reshape(4, 5), layout="dense", chunk_shape=(2, 5))
    ds["s"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    return ds


BAD_CALLS: list[tuple[str, Callable[[lacus.Dataset], object], type[Exception], str]] = [
    # Values.
    ("object array", lambda ds: ds.put("bad", np.array([object()])), lacus.InvalidError, 'tensor "bad": dtype object'),
    ("None", lambda ds: ds.put("bad", None), lacus.InvalidError, 'tensor "bad": dtype object'),
    ("text", lambda ds: ds.put("bad", "text"), lacus.InvalidError, 'tensor "bad": dtype <U4'),
    ("bytes", lambda ds: ds.put("bad", b"text"), lacus.InvalidError, 'tensor "bad": dtype |S4'),
    ("ragged", lambda ds: ds.put("bad", [[1, 2], [3]]), lacus.InvalidError, 'tensor "bad": a list cannot be made'),
    ("huge int", lambda ds: ds.put("bad", 2**70), lacus.InvalidError, 'tensor "bad": dtype object'),
    ("time", lambda ds: ds.put("bad", np.array(["2020-01-01"], "M8[D]")), lacus.InvalidError, "dtype datetime64[D]"),
    ("record", lambda ds: ds.put("bad", np.zeros(2, "i4,f4")), lacus.InvalidError, 'tensor "bad": dtype'),
    ("long double", lambda ds: ds.put("bad", np.zeros(2, np.longdouble)), lacus.InvalidError, "dtype float128"),
    ("masked", lambda ds: ds.put("bad", np.ma.masked_equal([1, 2], 1)), lacus.InvalidError, "masked array"),
    ("rank 17", lambda ds: ds.put("bad", np.zeros((1,) * 17)), lacus.InvalidError, "found 17"),
    ("one of many", lambda ds: ds.put_all({"ok": 1, "bad": "text"}), lacus.InvalidError, 'tensor "bad"'),
    # Names.
    ("empty name", lambda ds: ds.put("", 1), lacus.InvalidError, 'tensor name "": it is empty'),
    ("control", lambda ds: ds.put("a\nb", 1), lacus.InvalidError, "it has control characters"),
    ("nul", lambda ds: ds.put("a\0b", 1), lacus.InvalidError, "it has control characters"),
    ("long name", lambda ds: ds.put("a" * 2000, 1), lacus.InvalidError, "longer than 1024 bytes"),
    ("dots", lambda ds: ds.put("a/../b", 1), lacus.InvalidError, "between slashes"),
    ("one bad name", lambda ds: ds.put_all({"ok": 1, "": 2}), lacus.InvalidError, "it is empty"),
    ("surrogates", lambda ds: ds.put("\ud800", 1), ValueError, "surrogates"),
    ("rename to nothing", lambda ds: ds.rename("x", ""), lacus.InvalidError, "it is empty"),
    ("rename to taken", lambda ds: ds.rename("x", "s"), lacus.ConflictError, 'tensor "s"'),
    ("rename of nothing", lambda ds: ds.rename("y", "z"), lacus.NotFoundError, 'no tensor "y"'),
    ("delete of nothing", lambda ds: ds.__delitem__("y"), lacus.NotFoundError, 'no tensor "y"'),
    ("get of nothing", lambda ds: ds["y"], lacus.NotFoundError, 'no tensor "y"'),
    ("close name", lambda ds: ds["x2"], lacus.NotFoundError, 'did you mean "x"'),
    # Selections.
    ("out of bounds", lambda ds: ds["x"][4], lacus.OutOfBoundsError, 'tensor "x": index 4 is out of bounds for axis 0'),
    ("write out of bounds", lambda ds: ds["x"].write(4, 0), lacus.OutOfBoundsError, "index 4 is out of bounds"),
    ("too many", lambda ds: ds["x"][0, 0, 0], lacus.OutOfBoundsError, "too many indices"),
    ("sparse bounds", lambda ds: ds["s"][9], lacus.OutOfBoundsError, 'tensor "s": index 9'),
    # Shapes.
    ("region shape", lambda ds: ds["x"].write(0, np.zeros(4)), lacus.InvalidError, "(4,) into shape (5,)"),
    ("append shape", lambda ds: ds["x"].append(np.zeros((1, 6))), lacus.InvalidError, "(1, 6) do not continue"),
    ("append rank", lambda ds: ds["x"].append(np.zeros(5)), lacus.InvalidError, "do not continue tensor"),
    ("append sparse to dense", lambda ds: ds["x"].append(ds["s"]), lacus.InvalidError, "dense"),
    ("resize", lambda ds: ds["x"].resize((4, 6)), lacus.InvalidError, "only the first axis"),
    ("negative shape", lambda ds: ds.create_array("bad", (-1,), "i4"), lacus.InvalidError, 'tensor "bad": shape: -1'),
    ("no shape", lambda ds: ds.create_array("bad", "ab", "i4"), lacus.InvalidError, 'tensor "bad": shape'),
    ("no dtype", lambda ds: ds.create_array("bad", (1,), "float31"), lacus.InvalidError, "'float31' is no dtype"),
    ("object dtype", lambda ds: ds.create_array("bad", (1,), object), lacus.InvalidError, "dtype object"),
    ("chunk rank", lambda ds: ds.put("bad", np.zeros((2, 2)), chunk_shape=(2,)), lacus.InvalidError, 'tensor "bad"'),
    ("scalar sparse", lambda ds: ds.put("bad", 5, layout="COO"), lacus.InvalidError, "rank 0"),
    ("metadata", lambda ds: ds.put("bad", 1, metadata=[1]), lacus.InvalidError, "must be a dict"),  # type: ignore
    ("metadata of dataset", lambda ds: ds.set_metadata({"a": {1}}), lacus.InvalidError, "cannot be made JSON"),
    ("negative limit", lambda ds: ds.history(-1), lacus.InvalidError, "limit: -1 is negative"),
]


@pytest.mark.parametrize(("call", "kind", "message"), [c[1:] for c in BAD_CALLS], ids=[c[0] for c in BAD_CALLS])
def test_bad_calls(
    full: lacus.Dataset, call: Callable[[lacus.Dataset], object], kind: type[Exception], message: str
) -> None:
    version, before = full.version, files(full)
    with pytest.raises(kind) as caught:
        call(full)
    assert message in str(caught.value)
    assert full.version == version and lacus.open(full.url).version == version
    assert files(full) == before


def test_what_is_not_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "data.csv").write_text("1,2")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "_delta_log").mkdir()
    for place, found in (("nowhere", "nothing is there"), ("file", "file"), ("directory", "no Delta log"), ("log", "")):
        with pytest.raises(lacus.NotFoundError) as caught:
            lacus.open(tmp_path / place)
        assert str(tmp_path / place) in str(caught.value) and found in str(caught.value)
        assert not lacus.exists(tmp_path / place)
    for place in ("file", "directory"):
        with pytest.raises(lacus.LacusError):
            lacus.create(tmp_path / place)
    assert sorted(os.listdir(tmp_path / "directory")) == ["data.csv"]


@pytest.mark.parametrize("url", ["", "ftp://host/x", "s3://", "http://host/x", "s3://bucket with space/x"])
def test_bad_urls(url: str) -> None:
    for call in (lacus.open, lacus.create, lacus.exists, lacus.delete):
        with pytest.raises(lacus.InvalidError):
            call(url)


def test_bad_storage_options(tmp_path: Path) -> None:
    with pytest.raises(lacus.InvalidError, match="no meaning"):
        lacus.create(tmp_path / "x", storage_options={"aws_region": "x"})
    with pytest.raises(lacus.InvalidError, match='unknown storage option "aws_rejoin"'):
        lacus.open("s3://bucket/x", storage_options={"aws_rejoin": "x"})
    with pytest.raises(lacus.InvalidError, match="aws_region"):
        lacus.open("s3://bucket/x", storage_options={"aws_region": None})
    with pytest.raises(lacus.InvalidError, match="expected a dict"):
        lacus.open("s3://bucket/x", storage_options="region")  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


def test_another_tools_table_is_left_alone(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    pyarrow = pytest.importorskip("pyarrow")
    deltalake.write_deltalake(str(tmp_path / "t"), pyarrow.table({"a": [1, 2]}))
    with pytest.raises(lacus.LacusError) as caught:
        lacus.open(tmp_path / "t")
    assert not isinstance(caught.value, lacus.InternalError)
    with pytest.raises(lacus.LacusError):
        lacus.delete(tmp_path / "t")
    assert deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 2


def test_a_newer_format_is_refused(full: lacus.Dataset) -> None:
    log = Path(full.url) / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["lacus.format"] = "99"
    log.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    with pytest.raises(lacus.InvalidError, match="newer Lacus"):
        lacus.open(full.url)


# Run in a process of its own: the limit holds for all that it writes.
FULL_DISK = """
import resource, sys, numpy as np, lacus
ds = lacus.open(sys.argv[1])
version = ds.version
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
big = np.random.default_rng(0).random((64, 1 << 14))
for options in ({"compression": None}, {"compression": "zstd"}, {"layout": "COO"}, {"layout": "CSR"}):
    try:
        ds.put("big", big, **options)
    except lacus.UnavailableError as error:
        print("full:", error)
    assert ds.version == version and "big" not in ds
ds["small"] = np.arange(10)
assert lacus.open(sys.argv[1])["small"][3] == 3
"""


def test_a_full_disk(full: lacus.Dataset) -> None:
    before = files(full)
    command = [sys.executable, "-c", FULL_DISK, full.url]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("full:") == 4, found.stdout
    assert "too large" in found.stdout
    assert full["x"][3, 4] == 19
    # One new data file and one log entry: what could not be finished is gone.
    assert len(files(full) - before) == 2
