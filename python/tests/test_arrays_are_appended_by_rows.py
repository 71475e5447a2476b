"""A whole array given for a column is written from its memory: the same values and errors as row by row, and no Python
object per row."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from same import assert_same

import lacus
from lacus import _arrays

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool", *INTEGERS, "float16", "float32", "float64"]


@pytest.fixture
def no_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that need a look of their own go through this function, which arrays do not."""

    def bits(value: Any, what: str) -> Any:
        raise AssertionError(f"{what} was looked at by itself: {value!r}")

    monkeypatch.setattr(_arrays, "bits", bits)


@pytest.mark.parametrize("source", DTYPES)
def test_every_dtype_goes_by_its_memory(ds: lacus.Dataset, no_objects: None, source: str) -> None:
    values = (np.arange(12) % 2).astype(source)
    # Those that it fits without loss; doubles are rounded as Python's are.
    kinds = {"b": "b", "i": "iuf", "u": "iuf", "f": "f"}[values.dtype.kind]
    targets = [name for name in DTYPES if np.dtype(name).kind in kinds]
    if values.dtype.kind == "f" and source != "float64":
        targets = [name for name in targets if np.dtype(name).itemsize >= values.dtype.itemsize]
    for target in targets:
        ds.add_column(target, dtype=target, shape=())
    layouts = [values, np.repeat(values, 3)[::3], values[::-1], values.reshape(3, 4).T.reshape(-1)[:12]]
    for given in layouts:
        ds.extend({target: given for target in targets})
    for target in targets:
        assert_same(ds[target][:], np.concatenate(layouts).astype(target))


def test_values_that_do_not_fit_are_named_by_their_row(ds: lacus.Dataset, no_objects: None) -> None:
    ds.add_column("small", dtype="uint8", shape=())
    ds.add_column("label", "class_label", class_names=["cat", "dog"])
    ds.add_column("single", dtype="float32", shape=())
    ds.add_column("vector", "embedding", size=3)
    bad: list[tuple[str, Any, str]] = [
        ("small", np.array([1, 255, 256, 300]), 'column "small", row 2: .*the value 256'),
        ("small", np.array([1, -1], np.int8), 'column "small", row 1: .*the value -1'),
        ("small", np.array([1.0, 2.0]), 'column "small", row 0: .*float64'),
        ("small", np.array([True]), 'column "small", row 0: .*bool'),
        ("label", np.array([0, 1, 2]), 'column "label", row 2: .*a class from 0 to 1, found 2'),
        ("single", np.array([0.5, 1e300]), 'column "single", row 1: .*1e300'),
        ("single", np.array([1, (1 << 24) + 1]), 'column "single", row 1: .*16777217'),
        ("vector", np.zeros((3, 2), np.float32), r'column "vector", row 0: .*shape \(2,\)'),
        ("small", np.zeros((2, 2), np.uint8), r'column "small", row 0: .*shape \(2,\)'),
    ]
    for name, values, message in bad:
        with pytest.raises(lacus.InvalidError, match=message):
            ds.extend({name: values})
    assert len(ds) == 0
    report = ds.extend({"small": np.array([1, 999, 3, -1])}, on_error="skip")
    assert (report.rows, [row for row, _ in report.skipped]) == (2, [1, 3])
    assert ds["small"][:].tolist() == [1, 3]


def test_a_row_that_is_bad_elsewhere_is_left_out_of_arrays(ds: lacus.Dataset) -> None:
    ds.add_column("n", dtype="int32", shape=())
    ds.add_column("pair", dtype="float64", shape=(2,))
    ds.add_column("text", "text")
    pairs = np.arange(8.0).reshape(4, 2)
    # An object that is no sample at all, and a sample that does not fit.
    report = ds.extend({"n": np.arange(4), "pair": pairs, "text": ["a", object(), 3, "d"]}, on_error="skip")
    assert (report.rows, [row for row, _ in report.skipped]) == (2, [1, 2])
    assert ds["n"][:].tolist() == [0, 3]
    assert_same(ds["pair"][:], pairs[[0, 3]])


def test_rows_of_tensors_go_by_their_memory(
    ds: lacus.Dataset, no_objects: None, rng: np.random.Generator
) -> None:
    ds.add_column("vector", "embedding", size=8)
    ds.add_column("image", "image")
    ds.add_column("any")
    vectors = rng.random((5, 8)).astype(np.float32)
    images = rng.integers(0, 255, (5, 3, 6, 7), np.uint8).transpose(0, 2, 3, 1)
    whole = rng.integers(-9, 9, (5, 2, 2))
    ds.extend({"vector": vectors, "image": images, "any": whole})
    ds.extend({"vector": vectors[::-1], "image": images[::-1], "any": whole[:, ::-1]})
    assert_same(ds["vector"][:], np.concatenate([vectors, vectors[::-1]]))
    assert_same(np.stack(ds["image"][:]), np.concatenate([images, images[::-1]]))
    assert_same(np.stack(ds["any"][:]), np.concatenate([whole, whole[:, ::-1]]))
    ds["vector"][2:4] = vectors[:2]
    ds["any"][[9, 0]] = np.arange(8).reshape(2, 2, 2)
    assert_same(ds["vector"][2:4], vectors[:2])
    assert_same(ds["any"][9], np.arange(4).reshape(2, 2))


def test_updates_take_arrays(ds: lacus.Dataset, no_objects: None) -> None:
    ds.add_column("n", dtype="int16", shape=())
    ds.extend({"n": np.zeros(10, np.int64)})
    ds["n"][3:6] = np.array([7, 8, 9], np.uint8)
    assert ds["n"][:].tolist() == [0, 0, 0, 7, 8, 9, 0, 0, 0, 0]
    with pytest.raises(lacus.InvalidError, match='column "n", row 8: .*the value 40000'):
        ds["n"][7:9] = np.array([1, 40_000])


def test_numbers_of_numpy_are_numbers(ds: lacus.Dataset, no_objects: None) -> None:
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("yes", dtype="bool", shape=())
    ds.add_column("real", dtype="float32", shape=())
    ds.extend({"n": [np.int8(3), 4, np.uint64(5)], "yes": [np.True_, False, None], "real": [np.float16(1.5), 2, None]})
    with ds.writer() as writer:
        writer.extend({"n": np.arange(3), "yes": np.array([True, False, True]), "real": np.array([1, 2, 3], "f4")})
    assert ds["n"][:].tolist() == [3, 4, 5, 0, 1, 2]
    assert ds["yes"][:] == [True, False, None, True, False, True]
    assert ds["real"][3:].tolist() == [1, 2, 3]


def test_an_open_column_takes_the_dtype_of_its_array(ds: lacus.Dataset) -> None:
    for name, values in [("a", np.arange(3, dtype=np.uint16)), ("b", np.array([0.5, 1, np.nan])), ("c", np.arange(0))]:
        ds.add_column(name, shape=())
        ds.extend({name: values})
    assert (ds["a"].dtype, ds["b"].dtype, ds["c"].dtype) == (np.uint16, np.float64, None)
    assert np.isnan(ds["b"][5])


def test_columns_of_other_libraries(ds: lacus.Dataset) -> None:
    ds.add_column("n", dtype="int32", shape=())
    values = [3, 1, 4]
    given: list[Any] = [pl.Series(values), pa.array(values), pa.chunked_array([values[:1], values[1:]])]
    given.append(memoryview(b"\3\1\4"))
    given.append(np.memmap(lacus.create(f"{ds.url}-x").url + "/file", np.int64, "w+", shape=3))
    given[-1][:] = values
    for each in given:
        ds.extend({"n": each})
    assert ds["n"][:].tolist() == values * len(given)
    for each in [pl.Series([1, None]), pa.array([1, None])]:
        ds.extend({"n": each})
    assert ds["n"][-4:] == [1, None, 1, None]
    ds["n"][:3] = pa.array([7, 8, 9])
    assert ds["n"][:3].tolist() == [7, 8, 9]


def test_tensors_of_torch(ds: lacus.Dataset) -> None:
    torch = pytest.importorskip("torch")
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("vector", "embedding", size=2, dtype="bfloat16")
    ds.extend({"n": torch.arange(3), "vector": torch.arange(6).reshape(3, 2).to(torch.bfloat16)})
    assert ds["n"][:].tolist() == [0, 1, 2]
    assert np.asarray(ds["vector"][1], np.float32).tolist() == [2, 3]
