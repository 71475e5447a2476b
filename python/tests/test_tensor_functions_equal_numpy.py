"""Tensor functions of SQL give what numpy gives: random shapes and dtypes, the same in every run."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lacus

Array = npt.NDArray[Any]
#: An expression of SQL, what numpy does with the columns of a row, and values of its parameters.
Case = tuple[str, Callable[[dict[str, Array]], Any], list[Any]]

ROWS = 3
DTYPES = ["uint8", "int16", "int32", "int64", "float32", "float64"]
DATASETS = 36


def random_values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Numbers for which sums and products fit."""
    if dtype.startswith("float"):
        return rng.uniform(0.5, 4, shape).astype(dtype)
    return rng.integers(1, 9, shape).astype(dtype)


@functools.cache
def made(seed: int) -> tuple[lacus.Dataset, list[dict[str, Array]], tuple[int, ...]]:
    """A dataset with columns of one shape (a, b), of one that broadcasts (c), of vectors (u, v) and of shapes of their own (r)."""
    rng = np.random.default_rng(seed)
    dtype, rank = DTYPES[seed % len(DTYPES)], 1 + seed // len(DTYPES) % 3
    shape = tuple(int(size) for size in rng.integers(2, 6, rank))
    smaller = tuple(int(size) if rng.random() < 0.6 else 1 for size in shape)[int(rng.integers(0, 2)) :]
    ds = lacus.create(f"memory://equal-numpy-{seed}")
    shapes = {"a": shape, "b": shape, "c": smaller, "u": (shape[-1],), "v": (shape[-1],)}
    for name, of in shapes.items():
        ds.add_column(name, dtype="float32" if name in "uv" else dtype, shape=of)
    ds.add_column("r", dtype=dtype, shape=[None] * rank)
    rows = []
    for _ in range(ROWS):
        row = {name: random_values(rng, "float32" if name in "uv" else dtype, of) for name, of in shapes.items()}
        row["r"] = random_values(rng, dtype, tuple(int(size) for size in rng.integers(2, 6, rank)))
        rows.append(row)
    ds.extend({name: [row[name] for row in rows] for name in rows[0]})
    return ds, rows, shape


def subscripts(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Case]:
    """Indices, slices with every part there or not, and dots."""
    found: list[Case] = []
    for name in ("a", "a", "a", "r", "r"):
        limit = shape if name == "a" else (2,) * len(shape)
        parts: list[str] = []
        keys: list[Any] = []
        for size in limit[: int(rng.integers(1, len(limit) + 1))]:
            kind = rng.integers(0, 5)
            low, high = sorted(int(place) for place in rng.integers(-size, size + 1, 2))
            step = int(rng.choice([-2, -1, 1, 2, 3]))
            if kind == 0:
                place = int(rng.integers(-size, size))
                parts.append(str(place))
                keys.append(place)
            elif kind == 1:
                parts.append(f"{low}:{high}")
                keys.append(slice(low, high))
            elif kind == 2:
                parts.append(f"::{step}")
                keys.append(slice(None, None, step))
            elif kind == 3:
                parts.append(f"{low}:")
                keys.append(slice(low, None))
            else:
                parts.append(":")
                keys.append(slice(None))
        if rng.random() < 0.3:
            parts, keys = ["...", parts[-1]], [Ellipsis, keys[-1]]
        key = tuple(keys)
        found.append((f"{name}[{', '.join(parts)}]", lambda row, name=name, key=key: row[name][key], []))
    return found


def reductions(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Case]:
    """Over all axes, and over one."""
    known: dict[str, Callable[..., Any]] = {
        "sum": np.sum, "mean": np.mean, "std": np.std, "min": np.min, "max": np.max, "argmin": np.argmin,
        "argmax": np.argmax, "prod": np.prod, "any": np.any, "all": np.all,
    }
    found: list[Case] = []
    for name, function in known.items():
        column = str(rng.choice(["a", "r"]))
        if name in ("any", "all"):
            found.append((f"{name}({column} > 3)", lambda row, c=column, f=function: f(row[c] > 3), []))
        else:
            found.append((f"{name}({column})", lambda row, c=column, f=function: f(row[c]), []))
        axis = int(rng.integers(-len(shape), len(shape)))
        found.append((f"{name}({column}, axis => {axis})", lambda row, c=column, f=function, x=axis: f(row[c], axis=x), []))
    return found


def arithmetic(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Case]:
    """With constants, parameters and other columns, which broadcast."""
    constant = random_values(rng, "float64", shape[-1:])
    number = float(rng.integers(1, 5))
    return [
        ("a + b", lambda row: row["a"] + row["b"], []),
        ("a * c", lambda row: row["a"] * row["c"], []),
        ("a / c", lambda row: np.true_divide(row["a"], row["c"]), []),
        ("a + ?", lambda row: row["a"] + constant, [constant]),
        ("? * a", lambda row: constant * row["a"], [constant]),
        ("a * 2", lambda row: row["a"] * 2, []),
        ("a / 2.0", lambda row: row["a"] / 2.0, []),
        ("a > c", lambda row: row["a"] > row["c"], []),
        ("a <= ?", lambda row: row["a"] <= constant, [constant]),
        ("a = b", lambda row: row["a"] == row["b"], []),
        ("r != ?", lambda row: row["r"] != number, [number]),
        ("(a > 2) AND (b > 2)", lambda row: (row["a"] > 2) & (row["b"] > 2), []),
    ]


def elementwise(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Case]:
    """One tensor in, one of the same shape out."""
    low, high = sorted(int(bound) for bound in rng.integers(1, 9, 2))
    return [
        (f"clip(a, {low}, {high})", lambda row: np.clip(row["a"], low, high), []),
        ("abs(a)", lambda row: np.abs(row["a"]), []),
        ("exp(r)", lambda row: np.exp(row["r"]), []),
        ("log(a)", lambda row: np.log(row["a"]), []),
        ("sqrt(a)", lambda row: np.sqrt(row["a"]), []),
    ]


def linear(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Case]:
    """Products, shapes, distances, statistics."""
    order = [int(axis) for axis in rng.permutation(len(shape))]
    size = int(np.prod(shape))
    found: list[Case] = [
        ("dot(u, v)", lambda row: np.dot(row["u"], row["v"]), []),
        ("norm(u)", lambda row: np.linalg.norm(row["u"]), []),
        (
            "cosine_similarity(u, v)",
            lambda row: row["u"] @ row["v"] / np.linalg.norm(row["u"]) / np.linalg.norm(row["v"]),
            [],
        ),
        ("l2_distance(u, v)", lambda row: np.linalg.norm(row["u"] - row["v"]), []),
        ("transpose(a)", lambda row: row["a"].T, []),
        (f"transpose(a, {', '.join(map(str, order))})", lambda row: np.transpose(row["a"], order), []),
        ("reshape(a, -1)", lambda row: row["a"].reshape(-1), []),
        (f"reshape(a, {size}, 1)", lambda row: row["a"].reshape(size, 1), []),
        ("quantile(a, 0.25)", lambda row: np.quantile(row["a"], 0.25), []),
        ("histogram(a, 4, 0, 8)", lambda row: np.histogram(row["a"], 4, (0, 8))[0], []),
    ]
    if len(shape) == 2:
        weights = random_values(rng, "float64", (shape[1], 3))
        found.append(("matmul(a, ?)", lambda row: row["a"] @ weights, [weights]))
        found.append(("matmul(a, v)", lambda row: row["a"] @ row["v"], []))
    return found


def check(ds: lacus.Dataset, rows: list[dict[str, Array]], cases: list[Case], exact_dtype: bool) -> None:
    columns = ", ".join(f"{text} AS x{place}" for place, (text, _, _) in enumerate(cases))
    params = [value for _, _, values in cases for value in values]
    answer = ds.query(f"SELECT {columns}", params or None)
    for place, (text, function, _) in enumerate(cases):
        found = answer[f"x{place}"]
        for row, given in zip(found, rows, strict=True):
            expected = np.asarray(function(given))
            got = np.asarray(row)
            what = f"{text} of {given['a'].dtype} {given['a'].shape}, r {given['r'].shape}, c {given['c'].shape}"
            assert got.shape == expected.shape, what
            if exact_dtype:
                assert got.dtype == expected.dtype, f"{what}: {got.dtype}, numpy has {expected.dtype}"
            low = {got.dtype, expected.dtype} & {np.dtype("float16"), np.dtype("float32")}
            tolerance = 5e-3 if np.dtype("float16") in low else 2e-5 if low else 1e-12
            np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), tolerance, 1e-12, err_msg=what)


@pytest.mark.parametrize(
    ("of", "exact_dtype"),
    [(subscripts, True), (reductions, False), (arithmetic, False), (elementwise, False), (linear, False)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_they_are_equal(of: Callable[[np.random.Generator, tuple[int, ...]], list[Case]], exact_dtype: bool) -> None:
    checked = 0
    for seed in range(DATASETS):
        ds, rows, shape = made(seed)
        rng = np.random.default_rng([seed, zlib.crc32(of.__name__.encode())])
        cases = of(rng, shape)
        check(ds, rows, cases, exact_dtype)
        checked += len(cases)
    assert checked >= 150


def test_what_numpy_refuses_is_refused(url: str) -> None:
    ds = lacus.create(url)
    ds.add_column("a", dtype="float32", shape=[2, 3])
    ds.extend({"a": np.ones((1, 2, 3), np.float32)})
    for text in ("a[2]", "a[0, 3]", "a[0, 0, 0]", "a + ?", "sum(a, axis => 2)", "reshape(a, 4)", "matmul(a, a)"):
        params = [np.ones(4)] if "?" in text else None
        with pytest.raises(lacus.InvalidError):
            ds.query(f"SELECT {text} AS x", params).to_dict()
