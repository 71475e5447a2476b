"""All dtypes, in and out, bit for bit: NaN payloads, negative zeros, any strides and byte order."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from same import assert_same

import lacus
from lacus._dtypes import NAMES

DTYPES = [np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name) for name in NAMES]
SPARSE_LAYOUTS = ["COO", "CSR", "CSC", "CSF", "BSGS"]


def arbitrary(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of which every bit is random."""
    if dtype == bool:
        return rng.random(shape) < 0.5
    count = int(np.prod(shape)) * dtype.itemsize
    return rng.integers(0, 256, count, dtype=np.uint8).view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dense(ds: lacus.Dataset, rng: np.random.Generator, dtype: np.dtype) -> None:
    for shape in ((), (1,), (0,), (5,), (3, 0, 2), (7, 9), (4, 5, 6)):
        value = arbitrary(rng, dtype, shape)
        for compression in (None, "zstd"):
            ds.put("x", value, layout="dense", compression=compression)
            assert ds["x"].dtype == dtype
            assert_same(ds["x"].read(), value, shape)
            assert_same(np.asarray(lacus.open(ds.url)["x"]), value, shape)


@pytest.mark.parametrize("layout", SPARSE_LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sparse(ds: lacus.Dataset, rng: np.random.Generator, dtype: np.dtype, layout: str) -> None:
    for shape in ((30,), (6, 7), (3, 4, 5), (5, 0)):
        cells = int(np.prod(shape))
        places = np.sort(rng.choice(cells, min(9, cells), replace=False))
        indices = np.stack(np.unravel_index(places, shape), axis=1) if cells else np.zeros((0, len(shape)), int)
        # Some of these are zeros, negative zeros and NaN; they stay.
        value = lacus.SparseTensor(indices, arbitrary(rng, dtype, (len(places),)), shape)
        if dtype != bool and len(places):
            values = value.values.copy()
            values[0] = 0
            value = lacus.SparseTensor(indices, values, shape)
        ds.put("x", value, layout=layout)
        found = lacus.open(ds.url)["x"][...]
        assert found.dtype == dtype and found.nnz == len(places)
        assert found.equals(value), (layout, shape)
        assert_same(found.indices, value.indices)
        assert_same(found.values, value.values)


def test_special_floats(ds: lacus.Dataset) -> None:
    nan32 = np.array([0x7FC00000, 0x7F800001, 0xFFC12345, 0xFF800001], np.uint32).view(np.float32)
    nan64 = np.array([0x7FF0000000000001, 0xFFF8000000000123], np.uint64).view(np.float64)
    for value in (
        np.array([-0.0, 0.0, np.inf, -np.inf, np.nan], np.float32),
        np.array([-0.0, 5e-324, 2.2e-308], np.float64),
        nan32,
        nan64,
        np.array([complex(-0.0, np.nan), complex(np.inf, -0.0)]),
        np.array([-0.0, 6e-8, np.nan], np.float16),
    ):
        ds.put("dense", value, layout="dense")
        assert_same(ds["dense"][...], value)
        for layout in SPARSE_LAYOUTS:
            ds.put("sparse", value, layout=layout)
            assert_same(np.asarray(ds["sparse"]), value, layout)


def test_any_strides(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    base = rng.integers(0, 1000, (12, 10, 8))
    for value in (
        np.asfortranarray(base),
        base.T,
        base[::2, ::-1, 1:7],
        base[::-3, 3, :],
        base.transpose(1, 0, 2),
        base[..., 0],
        np.broadcast_to(base[0], (5, 10, 8)),
        np.broadcast_to(np.float32(3), (4, 4)),
        base[5:5],
        np.moveaxis(base, 0, -1)[::-1],
        base.view(np.int32)[..., ::3],
    ):
        ds.put("x", value, layout="dense", chunk_shape=tuple(max(1, n // 2) for n in value.shape))
        assert_same(ds["x"].read(), np.ascontiguousarray(value))
        ds.put("x", value, layout="COO")
        assert_same(np.asarray(ds["x"]), np.ascontiguousarray(value))


def test_byte_order_and_aliases(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    for code in (">f4", ">i8", ">u2", ">c16", ">f2"):
        value = arbitrary(rng, np.dtype(code), (6, 5))
        ds["x"] = value
        native = np.dtype(code).newbyteorder("=")
        assert_same(ds["x"][...], value.byteswap().view(native))
    for alias, dtype in ((np.longlong, np.int64), (np.intc, np.int32), (np.ulonglong, np.uint64)):
        ds["x"] = np.arange(4).astype(alias)
        assert ds["x"].dtype == dtype


def test_memory_maps(ds: lacus.Dataset, tmp_path: Path, rng: np.random.Generator) -> None:
    value = rng.random((300, 1000))
    np.save(tmp_path / "x.npy", value)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    ds["x"] = mapped
    ds["part"] = mapped[::7, 3:900:2]
    assert_same(ds["x"][...], value)
    assert_same(ds["part"][...], np.ascontiguousarray(value[::7, 3:900:2]))


def test_scalars_and_lists(ds: lacus.Dataset) -> None:
    for value, dtype in (
        (5, np.int64),
        (2.5, np.float64),
        (True, np.bool_),
        (1 + 2j, np.complex128),
        ([[1, 2], [3, 4]], np.int64),
        ([], np.float64),
        (np.float32(3), np.float32),
        (range(5), np.int64),
        ((1.0, 2), np.float64),
    ):
        ds["x"] = value
        assert ds["x"].dtype == dtype
        assert_same(ds["x"].read(), np.asarray(value))
    assert isinstance(ds["x"][0], np.float64)
    ds["x"] = 7
    assert ds["x"][()] == 7 and np.ndim(ds["x"][()]) == 0 and isinstance(ds["x"][...], np.ndarray)


class _ByArray:
    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.value


class _ByDlpack:
    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __dlpack__(self, **options: object) -> object:
        return self.value.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.value.__dlpack_device__()


def test_array_protocols(ds: lacus.Dataset) -> None:
    value = np.arange(12.0).reshape(3, 4)
    for wrapped in (_ByArray(value), _ByDlpack(value), memoryview(value)):
        ds["x"] = wrapped
        assert_same(ds["x"][...], value)


def test_bfloat16_without_ml_dtypes(ds: lacus.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    value = np.arange(5).astype(ml_dtypes.bfloat16)
    ds["x"] = value
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(lacus.InvalidError, match="install ml_dtypes"):
        ds["x"][...]
    with pytest.raises(lacus.InvalidError, match="install ml_dtypes"):
        ds["x"].dtype
    assert_same(ds["x"].read(raw=True), value.view(np.uint16))
    assert ds["x"].nbytes == 10 and "bfloat16" in repr(ds["x"]) and "bfloat16" in repr(ds)


def test_dtypes_by_any_name(ds: lacus.Dataset) -> None:
    for dtype, expected in (
        ("float32", np.float32),
        (np.int8, np.int8),
        (float, np.float64),
        (bool, np.bool_),
        ("<u2", np.uint16),
        ("bfloat16", ml_dtypes.bfloat16),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
        (np.dtype("complex64"), np.complex64),
    ):
        t = ds.create_array(f"x{ds.version}", (2, 2), dtype)
        assert t.dtype == expected
        assert t[...].dtype == expected
