"""The contract: create, open, put, get, remove, rename, describe."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path

import numpy as np
import pytest
from same import assert_same

import lacus


def test_what_is_put_is_there_for_everybody(ds: lacus.Dataset) -> None:
    value = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert ds.version == 0
    assert ds.put("x", value) == 1
    ds["group/y"] = [[1, 2], [3, 4]]
    assert ds.version == 2
    for handle in (ds, lacus.open(ds.url), lacus.open(ds.url, read_only=True)):
        assert handle.keys() == ["group/y", "x"]
        assert "x" in handle and "y" not in handle and 5 not in handle
        assert_same(handle["x"][...], value)
        assert_same(np.asarray(handle["group/y"]), np.array([[1, 2], [3, 4]]))


def test_a_tensor_tells_what_it_is(ds: lacus.Dataset) -> None:
    ds.put("x", np.ones((10, 20), np.int16), chunk_shape=(5, 20), compression=None, metadata={"unit": "m"})
    t = ds["x"]
    assert (t.name, t.shape, t.ndim, t.size, t.dtype, t.nbytes) == ("x", (10, 20), 2, 200, np.int16, 400)
    assert (t.layout, t.is_sparse, t.nnz, t.chunk_shape, t.compression) == ("FTSF", False, None, (5, 20), "none")
    assert t.stored_bytes == 400
    assert t.metadata == {"unit": "m"}
    assert len(t) == 10 and bool(t)
    assert [row.sum() for row in t] == [20] * 10
    ds["s"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    s = ds["s"]
    assert (s.shape, s.is_sparse, s.nnz, s.size, s.nbytes) == ((4, 5), True, 1, 20, 160)
    assert s.layout in ("COO", "CSR", "CSC", "CSF", "BSGS")
    with pytest.raises(TypeError):
        len(ds["zero-d"] if "zero-d" in ds else ds.create_array("zero-d", (), "int8"))


def test_many_tensors_are_one_commit(ds: lacus.Dataset) -> None:
    values = {f"layer/{i}": np.full((3, i), i) for i in range(40)}
    version = ds.put_all(values, metadata={"layer/3": {"k": 1}})
    assert version == ds.version == 1
    for name, value in values.items():
        assert_same(ds[name][...], value)
    assert ds["layer/3"].metadata == {"k": 1} and ds["layer/4"].metadata == {}
    assert ds.put_all({}) == 1


def test_replacing_removing_renaming(ds: lacus.Dataset) -> None:
    ds["x"] = np.arange(3)
    ds["x"] = np.arange(4.0)
    assert_same(ds["x"][...], np.arange(4.0))
    assert ds.rename("x", "y") == 3
    assert ds.keys() == ["y"]
    assert_same(ds["y"][...], np.arange(4.0))
    del ds["y"]
    assert ds.keys() == [] and ds.version == 4
    with pytest.raises(lacus.NotFoundError, match='no tensor "y" at version 4'):
        ds["y"]
    assert_same(lacus.open(ds.url, at=1)["x"][...], np.arange(3))


def test_strings_address_tensors_and_the_rest_means_rows(ds: lacus.Dataset) -> None:
    ds["x"] = 1
    assert len(ds) == 0 and bool(ds) and list(ds) == []
    for key in (0, -1, [0, 1], np.int64(3)):
        with pytest.raises(IndexError, match="for 0 rows"):
            ds[key]
    assert len(ds[:]) == 0
    for key in (0, slice(None), [0, 1], np.int64(3)):
        with pytest.raises(TypeError, match="rows"):
            ds[key] = 3  # type: ignore[index]
    with pytest.raises(TypeError, match="by name"):
        ds[1.5] = 3  # type: ignore[index]
    assert ds.version == 1


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for url in (tmp_path / "a", "~/b", "c", f"file://{tmp_path}/d", "memory://e", "deep/er/f", "with space ü"):
        assert not lacus.exists(url)
        ds = lacus.create(url)
        ds["x"] = 5
        assert lacus.exists(url)
        assert lacus.open(url)["x"][()] == 5
        with pytest.raises(lacus.ConflictError):
            lacus.create(url)
    assert lacus.open(tmp_path / "c").url == str(tmp_path / "c")
    monkeypatch.chdir("/")
    assert ds.version == 1 and ds["x"][()] == 5
    lacus.delete(tmp_path / "a")
    assert not (tmp_path / "a").exists() and not lacus.exists(tmp_path / "a")
    lacus.delete("memory://e")
    assert not lacus.exists("memory://e")
    with pytest.raises(lacus.NotFoundError):
        lacus.delete(tmp_path / "a")


def test_delete_leaves_what_is_not_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep me")
    with pytest.raises(lacus.NotFoundError):
        lacus.delete(tmp_path)
    assert (tmp_path / "precious").read_text() == "keep me"


def test_a_handle_stays_at_its_version(ds: lacus.Dataset) -> None:
    ds["x"] = np.zeros(3)
    other = lacus.open(ds.url)
    ds["x"] = np.ones(3)
    assert other.version == 1 and other["x"][0] == 0
    assert other.refresh() == 2 and other["x"][0] == 1
    reader = lacus.open(ds.url, read_only=True)
    ds["x"] = np.full(3, 2.0)
    assert reader["x"][0] == 1 and reader.refresh() == 3 and reader["x"][0] == 2


def test_a_pinned_handle_is_read_only(ds: lacus.Dataset) -> None:
    ds["x"] = np.zeros(3)
    ds["x"] = np.ones(3)
    pinned = lacus.open(ds.url, at=1)
    assert pinned.read_only and pinned.refresh() == 1 and pinned["x"][0] == 0
    for handle, hint in ((pinned, "read-only"), (lacus.open(ds.url, read_only=True), "read_only=True")):
        for write in (
            lambda: handle.put("y", 1),
            lambda: handle["x"].append([1.0]),
            lambda: handle["x"].__setitem__(0, 5),
            lambda: handle.__delitem__("x"),
            lambda: handle.rename("x", "z"),
            lambda: handle.set_metadata({}),
            lambda: handle.create_array("z", (1,), "int8"),
            lambda: handle.compact(),
        ):
            with pytest.raises(lacus.InvalidError, match=hint):
                write()
    assert ds.refresh() == 2


def test_opening_at_a_time(ds: lacus.Dataset) -> None:
    ds["x"] = 1
    time.sleep(0.05)
    between = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(0.05)
    ds["x"] = 2
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    naive = between.astimezone().replace(tzinfo=None)
    for at in (
        between,
        naive,
        between.isoformat(),
        between.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        between.timestamp(),
        np.datetime64(naive),
        "@1",
        "version:1",
        "1",
        1,
        np.int64(1),
    ):
        pinned = lacus.open(ds.url, at=at)
        assert pinned.version == 1 and pinned["x"][()] == 1, at
    assert lacus.open(ds.url, at=now).version == 2
    assert lacus.open(ds.url, at=datetime.date.today() + datetime.timedelta(days=1)).version == 2
    for at in (3, -1, 0.0, "1999-01-01", datetime.datetime(2000, 1, 1)):
        with pytest.raises(lacus.NotFoundError, match="version"):
            lacus.open(ds.url, at=at)
    # Dates are told as such.
    with pytest.raises(lacus.NotFoundError, match=r"1999-01-01T.*Z, the first is of 20\d\d-\d\d-\d\dT"):
        lacus.open(ds.url, at="1999-01-01T12:00")
    for bad in (True, object(), float("nan")):
        with pytest.raises(lacus.InvalidError, match="at:"):
            lacus.open(ds.url, at=bad)  # type: ignore[arg-type]
    # Text that is no time may have been meant as a name.
    with pytest.raises(lacus.NotFoundError, match='commit or version "yesterday"'):
        lacus.open(ds.url, at="yesterday")
    with pytest.raises(lacus.NotFoundError, match='branch "dev"'):
        lacus.open(ds.url, branch="dev")


def test_history_says_who_when_what(ds: lacus.Dataset) -> None:
    before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=5)
    ds["x"] = np.zeros((4, 4))
    ds["x"][0] = 1
    ds.put("y", 1, durable=True)
    del ds["y"]
    entries = ds.history()
    assert [e.version for e in entries] == [4, 3, 2, 1, 0]
    assert [e.operation for e in entries] == ["REMOVE", "PUT", "WRITE REGION", "PUT", "CREATE"]
    assert entries[3].detail["tensors"] == ["x"]
    assert [e.durable for e in entries] == [False, True, False, False, False]
    assert all(before < e.time < before + datetime.timedelta(minutes=5) for e in entries)
    assert all(e.author for e in entries)
    assert [e.version for e in ds.history(2)] == [4, 3]
    assert ds.history(0) == []
    assert [e.version for e in lacus.open(ds.url, at=1).history()] == [1, 0]


def test_metadata_of_tensors_and_of_the_dataset(ds: lacus.Dataset) -> None:
    assert ds.metadata == {}
    ds.set_metadata({"title": "Zähler", "n": [1, 2.5, None, {"deep": True}]})
    ds["x"] = np.arange(6)
    ds["x"].set_metadata({"unit": "°C"})
    again = lacus.open(ds.url)
    assert again.metadata == {"title": "Zähler", "n": [1, 2.5, None, {"deep": True}]}
    assert again["x"].metadata == {"unit": "°C"}
    assert_same(again["x"][...], np.arange(6))
    ds["x"][0] = 7
    ds["x"].append([8])
    assert ds["x"].metadata == {"unit": "°C"}
    assert ds.keys() == ["x"]


def test_options_are_used_and_unknown_ones_refused(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    dense = rng.integers(0, 3, (40, 30), dtype=np.int32)
    ds.put("rank", dense, chunk_rank=1)
    assert ds["rank"].chunk_shape == (1, 30)
    for compression, stored in (("none", "none"), (None, "none"), ("zstd", "zstd"), ("zstd:7", "zstd:7")):
        ds.put("c", dense, layout="dense", compression=compression)
        assert ds["c"].compression.startswith(stored)
        assert_same(ds["c"][...], dense)
    sparse = np.where(rng.random((40, 30)) < 0.05, dense + 1, 0)
    for layout in ("FTSF", "COO", "CSR", "CSC", "CSF", "BSGS", "coo", "sparse", "dense"):
        ds.put("l", sparse, layout=layout)
        assert ds["l"].layout == layout or layout in ("coo", "sparse", "dense")
        assert_same(np.asarray(ds["l"]), sparse)
    ds.put("b", sparse, layout="BSGS", block_shape=(10, 10), axis_order=(1, 0))
    assert ds["b"].chunk_shape == (10, 10)
    assert_same(np.asarray(ds["b"]), sparse)
    ds.put("r", sparse, layout="CSR", split=1)
    ds.put("o", sparse, optimize="size")
    assert_same(np.asarray(ds["o"]), sparse)
    assert ds["o"].reasons
    version = ds.version
    for options in (
        {"layout": "zarr"},
        {"layout": 5},
        {"compression": "lzma"},
        {"compression": "zstd:99"},
        {"optimize": "speed"},
        {"chunk_shape": (0, 3)},
        {"chunk_shape": (-1, 3)},
        {"chunk_shape": (3,)},
        {"chunk_shape": "ab"},
        {"chunk_rank": 9},
        {"layout": "BSGS", "block_shape": (3, 3, 3)},
        {"layout": "CSR", "split": 7},
        {"layout": "CSF", "axis_order": (0, 0)},
        {"metadata": [1]},
        {"metadata": {"x": object()}},
        {"metadata": {"x": float("nan")}},
    ):
        with pytest.raises(lacus.InvalidError):
            ds.put("bad", sparse, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ds.put("bad", sparse, layuot="COO")  # type: ignore[call-arg]
    with pytest.raises(lacus.InvalidError, match="missing"):
        ds.put_all({"bad": sparse}, metadata={"missing": {}})
    assert ds.version == version


def test_compaction_changes_nothing_but_files(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    values = {}
    for i in range(12):
        values[f"x{i}"] = rng.integers(0, 255, (50, 50), dtype=np.uint8)
        ds[f"x{i}"] = values[f"x{i}"]
    ds["s"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    ds["x3"] = values["x3"] = np.arange(5)
    old = ds.version
    report = ds.compact()
    assert report.files_after < report.files_before and report.version == ds.version == old + 1
    for handle in (ds, lacus.open(ds.url), lacus.open(ds.url, at=old)):
        for name, value in values.items():
            assert_same(handle[name][...], value)
        assert handle["s"].nnz == 1
    assert ds.compact().version <= old + 2


def test_arrays_start_empty_and_are_filled(ds: lacus.Dataset) -> None:
    t = ds.create_array("x", (100, 100, 100), np.float64, (10, 100, 100), metadata={"a": 1})
    assert t.shape == (100, 100, 100) and t.chunk_shape == (10, 100, 100) and t.stored_bytes == 0
    assert t.metadata == {"a": 1}
    assert t[5].sum() == 0 and t[5].dtype == np.float64
    t[42, 3] = np.arange(100.0)
    assert_same(t[42, 3], np.arange(100.0))
    assert t[41:44].sum() == np.arange(100).sum()
    assert 0 < t.stored_bytes <= 10 * 100 * 100 * 8 + 100
    with pytest.raises(lacus.ConflictError, match='"x"'):
        ds.create_array("x", (1,), "int8")
    # Larger than any memory, which a chunk is not.
    huge = ds.create_array("huge", (2**40, 2**20), "uint8", (1, 2**20))
    huge[2**39, 7] = 9
    assert huge[2**39, 5:9].tolist() == [0, 0, 9, 0]


def test_growing_and_shrinking(ds: lacus.Dataset) -> None:
    expected = np.arange(30).reshape(10, 3)
    ds.put("x", expected, chunk_shape=(4, 3))
    t = ds["x"]
    t.append(np.full((3, 3), -1))
    t.append([[7, 8, 9]])
    expected = np.concatenate([expected, np.full((3, 3), -1), [[7, 8, 9]]])
    assert t.shape == (14, 3)
    assert_same(t[...], expected)
    t.resize((6, 3))
    assert_same(t[...], expected[:6])
    t.resize(9)
    assert_same(t[...], np.concatenate([expected[:6], np.zeros((3, 3), int)]))
    version = ds.version
    for bad in ((9, 4), (9,), (9, 3, 1), (-1, 3), "ab"):
        with pytest.raises(lacus.InvalidError, match='"x"'):
            t.resize(bad)
    with pytest.raises(lacus.InvalidError, match='"x"'):
        t.append(np.zeros((2, 4), int))
    with pytest.raises(lacus.InvalidError, match="cannot cast float64 to int64"):
        t.append(np.zeros((2, 3)))
    assert ds.version == version
    ds["s"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    ds["s"].append(lacus.SparseTensor([[0, 0]], [9.0], (1, 5)))
    assert ds["s"].shape == (5, 5) and ds["s"][4, 0] == 9
    ds["s"].append([[0.0, 1, 0, 0, 0]])
    assert ds["s"].nnz == 3
    ds["s"].resize(2)
    assert ds["s"].nnz == 1 and ds["s"].shape == (2, 5)


def test_reading_into_an_array_of_the_caller(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    value = rng.random((50, 40))
    ds.put("x", value, chunk_shape=(7, 11))
    t = ds["x"]
    out = np.full((50, 40), np.nan)
    t.read_into(out)
    assert_same(out, value)
    part = np.zeros((10, 20))
    t.read_into(part, np.s_[5:15, ::2])
    assert_same(part, value[5:15, ::2])
    t.read_into(out[3:8], np.s_[20:25])
    assert_same(out[3:8], value[20:25])
    read_only = np.zeros((50, 40))
    read_only.flags.writeable = False
    for bad in (
        np.zeros((50, 41)),
        np.zeros((50, 40), np.float32),
        np.zeros((50, 40), ">f8"),
        np.zeros((40, 50)).T,
        np.zeros((100, 40))[::2],
        read_only,
        [1, 2],
    ):
        with pytest.raises(lacus.InvalidError):
            t.read_into(bad)  # type: ignore[arg-type]
    ds["s"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    with pytest.raises(lacus.InvalidError, match="sparse"):
        ds["s"].read_into(np.zeros((4, 5)))


def test_results_own_their_memory_and_can_be_written(ds: lacus.Dataset) -> None:
    ds["x"] = np.arange(1_000_000)
    first, second = ds["x"][...], ds["x"][...]
    first[:] = -1
    assert second[5] == 5 and ds["x"][5] == 5
    assert first.flags.writeable and first.flags.c_contiguous and first.flags.aligned
    view = first[3:5]
    del first
    ds["x"][...]
    assert view.tolist() == [-1, -1]


def test_tensors_can_be_copied_between_datasets(ds: lacus.Dataset, tmp_path: Path) -> None:
    ds["x"] = np.arange(5)
    ds["s"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    other = lacus.create(tmp_path / "other")
    other.put_all({name: ds[name] for name in ds.keys()})
    assert_same(other["x"][...], np.arange(5))
    assert other["s"][...].equals(ds["s"][...])


def test_one_screen(ds: lacus.Dataset) -> None:
    assert "0 tensors" in repr(ds)
    ds.put_all({f"layer/{i:03}/w" + "w" * i: np.zeros(3) for i in range(60)})
    ds["<b>"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    text = repr(ds)
    assert len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) < 200
    assert "61 tensors" in text and "… and 41 more" in text and ds.url in text
    html = ds._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" in html and html.count("<tr>") == 21
    assert repr(ds["<b>"]).startswith('<lacus.Array "<b>" float64 (4, 5) ')
    assert "nonzeros" in ds["<b>"]._repr_html_()
    assert ds._ipython_key_completions_() == ds.keys()


def test_errors_are_also_built_in_ones() -> None:
    kinds = {
        lacus.NotFoundError: KeyError,
        lacus.InvalidError: ValueError,
        lacus.OutOfBoundsError: IndexError,
        lacus.ConflictError: RuntimeError,
        lacus.UnavailableError: OSError,
        lacus.CorruptError: RuntimeError,
        lacus.InternalError: RuntimeError,
    }
    for kind, built_in in kinds.items():
        assert issubclass(kind, lacus.LacusError) and issubclass(kind, built_in)
        assert str(kind("what 'happened'")) == "what 'happened'"
    assert issubclass(lacus.OutOfBoundsError, lacus.InvalidError)


def test_nothing_is_left_open(ds: lacus.Dataset) -> None:
    ds["x"] = np.arange(5)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        assert lacus.open(ds.url)["x"][2] == 2
    assert len(os.listdir("/proc/self/fd")) <= before + 5
