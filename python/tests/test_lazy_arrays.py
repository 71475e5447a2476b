"""Lazy arrays compute what numpy computes, and refuse what they cannot."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same import assert_same

import lacus
from lacus._program import written

scipy_sparse = pytest.importorskip("scipy.sparse")

M = np.array([[1.5, -2.0, 3.0, 0.0], [4.0, 5.5, -6.0, 2.0], [0.5, -0.5, 7.0, 9.0]])
V = np.array([2.0, -1.0, 0.5, 4.0])
F = np.array([0.5, 1.5, -2.5, 3.0], np.float32)
N = np.array([[3, -8, 9, 0], [1, 1, -2, 5], [7, 6, 2, 2]])
B = np.array([True, False, True, True])
C = np.arange(24.0).reshape(2, 3, 4)


def check(lazy: lacus.LazyArray, expected: Any) -> None:
    """Shape and dtype are known before, and are those of the result; elements are close to numpy's."""
    expected = np.asarray(expected)
    shape, dtype = lazy.shape, lazy.dtype
    found = lazy.compute()
    assert isinstance(found, np.ndarray)
    assert (found.shape, found.dtype) == (shape, dtype)
    assert (shape, dtype) == (expected.shape, expected.dtype), lazy
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-12, err_msg=repr(lazy))


def lazy_of(*arrays: Any) -> list[lacus.LazyArray]:
    return [lacus.array(each) for each in arrays]


#: Expressions that mean the same of numpy's arrays and of lazy ones.
EXPRESSIONS: list[Callable[..., Any]] = [
    lambda m, v, f, n, b, c, xp: m + v * 2 - 1,
    lambda m, v, f, n, b, c, xp: 1 - m / (v + 10),
    lambda m, v, f, n, b, c, xp: -(m**2) % 3,
    lambda m, v, f, n, b, c, xp: (m - 1) ** (v > 0),
    lambda m, v, f, n, b, c, xp: 2.0**f,
    lambda m, v, f, n, b, c, xp: f + 1,
    lambda m, v, f, n, b, c, xp: f * 0.1,
    lambda m, v, f, n, b, c, xp: f * np.float64(0.1),
    lambda m, v, f, n, b, c, xp: f * np.float32(0.1),
    lambda m, v, f, n, b, c, xp: f + n,
    lambda m, v, f, n, b, c, xp: n + 0.5,
    lambda m, v, f, n, b, c, xp: n % 4 - n * 3,
    lambda m, v, f, n, b, c, xp: n % -4,
    lambda m, v, f, n, b, c, xp: n / 2,
    lambda m, v, f, n, b, c, xp: b * f,
    lambda m, v, f, n, b, c, xp: b * 3,
    lambda m, v, f, n, b, c, xp: abs(m) + abs(n),
    lambda m, v, f, n, b, c, xp: (m > 0) & b | ~(m <= v),
    lambda m, v, f, n, b, c, xp: (m == m) & (n != 1) & (m >= -1) & (m < 7),
    lambda m, v, f, n, b, c, xp: m @ v,
    lambda m, v, f, n, b, c, xp: m @ m.T @ m,
    lambda m, v, f, n, b, c, xp: m * (v @ v) @ m.T,
    lambda m, v, f, n, b, c, xp: c @ v,
    lambda m, v, f, n, b, c, xp: c @ c.transpose(0, 2, 1),
    lambda m, v, f, n, b, c, xp: m @ c.transpose((0, 2, 1)),
    lambda m, v, f, n, b, c, xp: n @ n.T,
    lambda m, v, f, n, b, c, xp: c.T + 1,
    lambda m, v, f, n, b, c, xp: c.sum(axis=1),
    lambda m, v, f, n, b, c, xp: c.sum(axis=(0, -1), keepdims=True),
    lambda m, v, f, n, b, c, xp: c.sum(),
    lambda m, v, f, n, b, c, xp: c.sum(axis=()),
    lambda m, v, f, n, b, c, xp: b.sum(),
    lambda m, v, f, n, b, c, xp: b.mean(),
    lambda m, v, f, n, b, c, xp: f.mean(),
    lambda m, v, f, n, b, c, xp: n.mean(axis=0),
    lambda m, v, f, n, b, c, xp: n.prod(axis=1),
    lambda m, v, f, n, b, c, xp: m.min(axis=1) - m.max(),
    lambda m, v, f, n, b, c, xp: b.min(),
    lambda m, v, f, n, b, c, xp: (m > 8).any(axis=0),
    lambda m, v, f, n, b, c, xp: n.all(axis=1),
    lambda m, v, f, n, b, c, xp: n.any(),
    lambda m, v, f, n, b, c, xp: m.argmin(),
    lambda m, v, f, n, b, c, xp: n.argmax(axis=1),
    lambda m, v, f, n, b, c, xp: n.argmin(axis=0, keepdims=True),
    lambda m, v, f, n, b, c, xp: c.argmax(axis=1) + 1,
    lambda m, v, f, n, b, c, xp: (c % 5).argmin(axis=-1),
    lambda m, v, f, n, b, c, xp: b.argmin(),
    lambda m, v, f, n, b, c, xp: (m - m.mean(axis=0)) / m.max(axis=1, keepdims=True),
    lambda m, v, f, n, b, c, xp: xp.exp(m) + xp.log(abs(m) + 1) * xp.sqrt(abs(v)),
    lambda m, v, f, n, b, c, xp: xp.tanh(f) * xp.sign(f) + xp.exp(f),
    lambda m, v, f, n, b, c, xp: xp.sqrt(abs(n)),
    lambda m, v, f, n, b, c, xp: xp.where(m > v, m, 0.0),
    lambda m, v, f, n, b, c, xp: xp.where(b, f, 2),
    lambda m, v, f, n, b, c, xp: xp.where(b, 1.0, 0.0) + f,
    lambda m, v, f, n, b, c, xp: xp.where(n, 1, -1),
    lambda m, v, f, n, b, c, xp: xp.minimum(m, v) + xp.maximum(m, 1),
    lambda m, v, f, n, b, c, xp: xp.einsum("ij,kj->ik", m, m),
    lambda m, v, f, n, b, c, xp: xp.einsum("aij,kj->ka", c, m),
    lambda m, v, f, n, b, c, xp: xp.einsum("ij,j", m, v),
    lambda m, v, f, n, b, c, xp: xp.einsum("ba", m),
    lambda m, v, f, n, b, c, xp: xp.einsum("ij->", n),
    lambda m, v, f, n, b, c, xp: xp.einsum("i,j->ij", v, v),
    lambda m, v, f, n, b, c, xp: xp.full((2, 3), 7) + xp.ones((3,)) - xp.zeros((2, 1)),
    lambda m, v, f, n, b, c, xp: xp.full((4,), 0.5, dtype=np.float32) + f,
    lambda m, v, f, n, b, c, xp: xp.zeros((2,), dtype=bool),
    lambda m, v, f, n, b, c, xp: m.astype(np.float32) * f,
    lambda m, v, f, n, b, c, xp: m.astype("int64"),
    lambda m, v, f, n, b, c, xp: m.astype(bool),
    lambda m, v, f, n, b, c, xp: f.astype(float) + 0.1,
    lambda m, v, f, n, b, c, xp: np.add(m, V) + np.ones(4) * v,
    lambda m, v, f, n, b, c, xp: M @ v + (np.float64(2) - m.T).sum(axis=0),
    lambda m, v, f, n, b, c, xp: np.sum(c, axis=0) + np.mean(m, axis=1)[:, None] + np.max(v),
    lambda m, v, f, n, b, c, xp: np.dot(m, v) * np.matmul(m, v) + np.argmin(m, axis=1),
    lambda m, v, f, n, b, c, xp: np.where(m > 0, np.transpose(m.T), np.negative(m)),
    lambda m, v, f, n, b, c, xp: np.einsum("ij,j->i", m, v) + np.exp(m).sum(axis=1),
    lambda m, v, f, n, b, c, xp: m + [1, 2, 3, 4],
    lambda m, v, f, n, b, c, xp: m * float("inf") + 0 * float("-inf"),
    lambda m, v, f, n, b, c, xp: m + float("nan"),
    lambda m, v, f, n, b, c, xp: n + (-(2**63)),
    lambda m, v, f, n, b, c, xp: m * -1e-300 + 1.7976931348623157e308,
    lambda m, v, f, n, b, c, xp: n // 4 + n // -3,
    lambda m, v, f, n, b, c, xp: m // v + 7 // (v + 0.25),
    lambda m, v, f, n, b, c, xp: f // 2,
    lambda m, v, f, n, b, c, xp: m // 0,
    lambda m, v, f, n, b, c, xp: np.floor_divide(m, -np.inf),
    lambda m, v, f, n, b, c, xp: xp.floor(m) + xp.ceil(m) * xp.round(m / 2) + xp.floor(f),
    lambda m, v, f, n, b, c, xp: xp.floor(n) - np.ceil(n),
    lambda m, v, f, n, b, c, xp: m.round(1) + v.round(-1) + np.round(n),
    lambda m, v, f, n, b, c, xp: xp.sin(m) + xp.cos(f) + xp.expm1(v * 1e-9) + xp.log1p(abs(m)),
    lambda m, v, f, n, b, c, xp: xp.expm1(n) + np.log1p(abs(n)),
    lambda m, v, f, n, b, c, xp: xp.square(m) - np.square(n),
    lambda m, v, f, n, b, c, xp: xp.isnan(m / (v - v)) | xp.isinf(m / (v - v)),
    lambda m, v, f, n, b, c, xp: xp.isfinite(m / (m - m[0])) & np.isfinite(n),
    lambda m, v, f, n, b, c, xp: m.clip(0, 4) + xp.clip(v, -0.5, None) + np.clip(n, None, 3),
    lambda m, v, f, n, b, c, xp: m.clip(v, v + 1),
    lambda m, v, f, n, b, c, xp: m.var() + m.std(axis=0) * c.var(axis=(0, 2), ddof=1, keepdims=True),
    lambda m, v, f, n, b, c, xp: np.std(n, axis=1) + np.var(f, ddof=1),
    lambda m, v, f, n, b, c, xp: f[:1].var(ddof=1),
    lambda m, v, f, n, b, c, xp: m.dot(v) + m.dot(2)[:, 0],
    lambda m, v, f, n, b, c, xp: c.swapaxes(0, -1) + np.moveaxis(c, 0, -1).swapaxes(0, 1),
    lambda m, v, f, n, b, c, xp: np.moveaxis(c, (0, 1), (-1, 0)) * np.swapaxes(c, 1, 2).T[..., :1, :].swapaxes(1, 1).sum(),
    lambda m, v, f, n, b, c, xp: np.expand_dims(m, (0, -1)) + np.expand_dims(v, 1),
    lambda m, v, f, n, b, c, xp: np.squeeze(m[:, None, :1]) + m[None, :, :1].squeeze((0, -1)),
    lambda m, v, f, n, b, c, xp: v.reshape(2, 2) + v.reshape((1, 2, -1, 1)).reshape(2, 2),
    lambda m, v, f, n, b, c, xp: m.reshape(3, 2, 2)[:, 1] * np.reshape(c, (2, 3, 1, 4))[0, :, 0, :2],
    lambda m, v, f, n, b, c, xp: m.reshape(-1) + np.ravel(n) * c.reshape(2, 12)[1],
    lambda m, v, f, n, b, c, xp: c.reshape(24).reshape(4, -1, 1, 2)[:, 1] + c.reshape(6, 4)[:4, None, :2],
    lambda m, v, f, n, b, c, xp: c.reshape(2, -1) @ xp.arange(12).reshape(12, 1) + xp.arange(60).reshape(30, 2).reshape(-1)[:2],
    lambda m, v, f, n, b, c, xp: np.ravel(v[None]) + m[:0].reshape(4, 0).sum(),
    lambda m, v, f, n, b, c, xp: xp.concatenate([m, n, m[:0], m[::-1]]),
    lambda m, v, f, n, b, c, xp: xp.concatenate([c, c[..., :1] * 2], axis=-1).sum(axis=0),
    lambda m, v, f, n, b, c, xp: xp.concatenate([v, f]) @ xp.concatenate([f, v]),
    lambda m, v, f, n, b, c, xp: xp.concatenate([v[k : k + 1] * k for k in range(4)] * 5) ** 2,
    lambda m, v, f, n, b, c, xp: np.concatenate((b, b, n[0]))[3:7],
    lambda m, v, f, n, b, c, xp: xp.stack([m, n], axis=1) + np.stack([v, v * 2]),
    lambda m, v, f, n, b, c, xp: xp.stack([v.sum(), v.max(), 3.0]),
    lambda m, v, f, n, b, c, xp: np.pad(m, ((1, 0), (0, 2)), constant_values=-1.0) + np.pad(v, (1, 1))[None, :],
    lambda m, v, f, n, b, c, xp: np.pad(c, 2).sum(axis=1) * np.pad(b, 2),
    lambda m, v, f, n, b, c, xp: xp.tril(m) + xp.triu(n, 1) - xp.tril(m, -1) * np.triu(m, -1),
    lambda m, v, f, n, b, c, xp: xp.tril(c, 1) @ v,
    lambda m, v, f, n, b, c, xp: xp.diag(v) @ xp.diag(f, 1)[:4, :] + xp.diag(v, -2)[:4, :5],
    lambda m, v, f, n, b, c, xp: xp.diag(m) + np.diag(m, 1) + np.diagonal(n),
    lambda m, v, f, n, b, c, xp: np.diagonal(c, -1) + np.trace(c, 1) + np.trace(m),
    lambda m, v, f, n, b, c, xp: np.diagonal(m, 4).sum() + np.diagonal(m, -3).sum(),
    lambda m, v, f, n, b, c, xp: np.broadcast_to(v, (3, 4)) - np.broadcast_to(m[:, :1], (2, 3, 4)),
    lambda m, v, f, n, b, c, xp: np.broadcast_to(v.sum(), (2, 3)) @ m,
    lambda m, v, f, n, b, c, xp: xp.diag(v[:0], 2) + xp.eye(2) * m.var(ddof=np.int64(1)) + np.std(n, ddof=np.float64(1)),
    lambda m, v, f, n, b, c, xp: xp.tril(m, 2**63 - 1) + xp.triu(m, 2**63 - 1) * xp.eye(3, 4, -(2**40)),
    lambda m, v, f, n, b, c, xp: np.pad(np.diagonal(m), (0, 3000))[::400] + np.pad(m, np.array([[0, 0], [3, 1]]))[0, 0],
    lambda m, v, f, n, b, c, xp: np.rint(n) + m.round(400) * 0 + np.pad(v, (1,))[:4],
    lambda m, v, f, n, b, c, xp: 1 / (m % 1.0) + m.reshape(np.array([3, 2, 2]))[0].sum(),
    lambda m, v, f, n, b, c, xp: xp.arange(12) // 5 + xp.arange(3, 27, 2),
    lambda m, v, f, n, b, c, xp: xp.arange(4, 0, -1) * v + xp.arange(0, 1, 0.25),
    lambda m, v, f, n, b, c, xp: xp.arange(4, dtype=np.float32) * f + xp.arange(5, 5).sum(),
    lambda m, v, f, n, b, c, xp: xp.eye(3) @ m + xp.eye(3, 4, 1) + xp.eye(3, 4, dtype="int64"),
    lambda m, v, f, n, b, c, xp: np.zeros_like(f) + np.ones_like(n)[0] * np.full_like(v, 2.5),
    lambda m, v, f, n, b, c, xp: np.outer(v, f) + np.linalg.norm(m) + np.linalg.norm(n, axis=0),
    lambda m, v, f, n, b, c, xp: np.count_nonzero(n, axis=1) + np.count_nonzero(m),
    lambda m, v, f, n, b, c, xp: xp.einsum("...ij,...jk->...ik", c, m.T),
    lambda m, v, f, n, b, c, xp: xp.einsum("...j,j", c, v) + xp.einsum("i...->...", c).sum(),
    lambda m, v, f, n, b, c, xp: xp.einsum("ij,ij->ij", m, m[:1]) + xp.einsum("...,...->...", m, v),
    lambda m, v, f, n, b, c, xp: xp.einsum("ij,ij->j", m[:, :1], m) + xp.einsum("i,i", v[:1], v),
    lambda m, v, f, n, b, c, xp: xp.einsum("a...a->...", c[:, :, :2]),
]


@pytest.mark.parametrize("place", range(len(EXPRESSIONS)))
def test_expressions_equal_numpy(place: int) -> None:
    expression = EXPRESSIONS[place]
    arrays = (M, V, F, N, B, C)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        check(expression(*lazy_of(*arrays), lacus), expression(*arrays, np))


def test_random_trees_equal_numpy(rng: np.random.Generator) -> None:
    arrays = [rng.normal(size=(3, 4)), rng.normal(size=(4,)), rng.integers(-5, 5, (3, 1)), rng.normal(size=())]
    binary = [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: a - 2 * b,
        lambda a, b: a / (b * b + 1),
        lambda a, b: (a < b) * (a + 1),
    ]
    unary: list[Callable[[Any], Any]] = [
        lambda a: -(a * 1),
        lambda a: abs(a * 0.5),
        lambda a: np.tanh(a + 0.0),
        lambda a: a.sum(axis=0) if a.ndim == 2 else a * 2,
        lambda a: a[..., ::-1] if a.ndim else a * 3,
        lambda a: a[::2] if a.ndim else a + 1,
        lambda a: (a + 0).max(axis=-1, keepdims=True) if a.ndim and a.size else a + 1,
        lambda a: a[..., None] * 1 if a.ndim < 3 else a * 1,
    ]
    for _ in range(60):
        pairs = [(lacus.array(a), a) for a in arrays]
        for _ in range(12):
            if rng.random() < 0.5:
                do = unary[rng.integers(len(unary))]
                lazy, known = pairs[rng.integers(len(pairs))]
                pairs.append((do(lazy), do(known)))
            else:
                op = binary[rng.integers(len(binary))]
                (la, a), (lb, b) = (pairs[rng.integers(len(pairs))] for _ in range(2))
                try:
                    both = np.broadcast_shapes(np.shape(a), np.shape(b))
                except ValueError:
                    with pytest.raises(lacus.InvalidError, match="do not broadcast"):
                        op(la, lb)
                    continue
                if np.prod(both) < 500:
                    pairs.append((op(la, lb), op(a, b)))
        wanted = pairs[-4:]
        found = lacus.compute(*(lazy for lazy, _ in wanted))
        for (lazy, expected), result in zip(wanted, found, strict=True):
            assert result.shape == lazy.shape == np.shape(expected)
            assert result.dtype == lazy.dtype == np.asarray(expected).dtype, lazy
            np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        slice(None),
        slice(1, None),
        slice(None, None, -1),
        slice(None, None, -2),
        slice(-1, 0, -1),
        slice(-2, None),
        slice(2, 1),
        slice(None, 1),
        (..., slice(0, 2)),
        slice(100, -100, -3),
        slice(-100, 100, 2),
        ...,
        None,
        (),
        (1, 2),
        (1, ..., 3),
        (..., 0),
        (..., None),
        (None, 1, None, slice(None, None, -1)),
        (slice(0, 2), slice(1, 3), slice(None, None, 3)),
        (slice(None), -2, slice(3, None, -1)),
        (np.int64(1), np.uint8(2)),
        (slice(0, 0), 1),
    ],
    ids=repr,
)
def test_slices_equal_numpy(key: Any) -> None:
    check(lacus.array(C)[key], C[key])
    check((lacus.array(C) + 1)[key], (C + 1)[key])


def test_nan_is_the_first_extreme() -> None:
    x = np.array([[3.0, np.nan, 1.0, np.nan], [2.0, 1.0, 1.0, 4.0]])
    lazy = lacus.array(x)
    check(lazy.argmin(axis=1), x.argmin(axis=1))
    check(lazy.argmax(), x.argmax())
    check(lazy.min(axis=0), x.min(axis=0))


def test_means_of_large_integers() -> None:
    x = np.full(4, 2**62)
    assert float(lacus.array(x).mean().compute()) == x.mean()


def test_arrays_without_elements() -> None:
    x = np.zeros((0, 3))
    lazy = lacus.array(x)
    check(lazy.sum(axis=0), x.sum(axis=0))
    check(lazy.T @ lazy, x.T @ x)
    check(lazy + 1, x + 1)
    check(lazy.max(axis=1), x.max(axis=1))
    with pytest.raises(lacus.InvalidError, match=r"min: an array of shape \(0, 3\) has no elements to choose from"):
        lazy.min()


def test_values_come_from_anywhere(ds: lacus.Dataset) -> None:
    dense = np.array([[0.0, 2.0], [3.0, 0.0]])
    ds["x"] = dense
    ds["s"] = scipy_sparse.csr_array(dense)
    sparse = lacus.SparseTensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    for value in (dense, dense[::-1].copy()[::-1], np.asfortranarray(dense), scipy_sparse.csr_array(dense), sparse):
        assert (lacus.array(value) * 2).compute().tolist() == [[0, 4], [6, 0]]
    assert (ds["x"].lazy() * ds["s"] + ds["s"].lazy()).compute().tolist() == [[0, 6], [12, 0]]
    assert lacus.array(3).shape == () and lacus.array([[1, 2]]).compute().tolist() == [[1, 2]]
    for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32"):
        assert (lacus.array(np.array([1, 100], dtype)) * 1000).dtype == np.int64
        assert (lacus.array(np.array([1, 100], dtype)) * 1000).compute().tolist() == [1000, 100_000]


def test_torch_tensors_are_operands() -> None:
    torch = pytest.importorskip("torch")
    check(lacus.array(torch.arange(3.0)) + 1, np.arange(3, dtype=np.float32) + 1)


def test_what_is_shared_is_written_once() -> None:
    a = lacus.array(M)
    gram = a @ a.T
    text, sources = written({"x": (gram + gram)._node, "y": gram.sum()._node})
    assert text == 't0 = load("t0")\nx1 = t0 @ transpose(t0)\nsave(x1 + x1, "x")\nsave(sum(x1), "y")'
    assert list(sources) == ["t0"]
    both = lacus.compute(gram + gram, gram.sum())
    np.testing.assert_allclose(both[0], 2 * (M @ M.T))
    assert lacus.compute() == ()


def test_long_chains_and_wide_sharing() -> None:
    x = lacus.array(V)
    for _ in range(2000):
        x = x + 1
    check(x, V + 2000)
    y = lacus.array(V)
    for _ in range(100):
        y = (y + y) / 2
    check(y, V)
    assert len(repr(y)) < 150 and len(y._repr_html_()) < 20_000
    check(pickle.loads(pickle.dumps(x)), V + 2000)


def test_ten_thousand_terms() -> None:
    one = lacus.array(V)
    total = nested = one
    for k in range(10_000):
        total = total + one
        nested = lacus.sqrt(nested * nested) if k % 2 else nested + 0
    np.testing.assert_allclose(total.compute(), 10_001 * V)
    np.testing.assert_allclose(nested.compute(), np.abs(V))
    assert "formula" in total.explain()
    text = f'x = load("x"); save({" + ".join(["x"] * 10_000)}, "y")'
    np.testing.assert_allclose(lacus.run(text, inputs={"x": V})["y"], 10_000 * V)


def test_integers_by_zero_are_zero_with_a_warning(ds: lacus.Dataset) -> None:
    n = np.array([3, 0, -5])
    for lazy, expected in ((lacus.array(7) // n, [2, 0, -2]), (7 % lacus.array(n), [1, 0, -3])):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered") as told:
            assert lazy.compute().tolist() == expected
        assert told[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert (lacus.array(n) // 0).store(ds, "zeros")[:].tolist() == [0, 0, 0]
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert (7 // lacus.array(n)).sum().compute().item() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lacus.where(lacus.array(n) != 0, 7 % lacus.array(n), -1).compute().tolist() == [1, -1, -3]
        assert (lacus.array(n) // 2).compute().tolist() == [1, 0, -3]
        # Floats are floats.
        assert np.isinf((7.0 // lacus.array(n)).compute()[1])
    # Programs say where.
    with pytest.raises(lacus.InvalidError, match=r"an integer is divided by zero at \[1\]"):
        lacus.run('save(7 // load("n"), "r")', inputs={"n": n})


def test_nothing_is_computed_before_it_is_asked() -> None:
    huge = lacus.zeros((10**6, 10**6)) @ lacus.random((10**6, 3), seed=1) + lacus.exp(lacus.ones(3))
    assert (huge.shape, huge.dtype, huge.ndim, huge.size) == ((10**6, 3), np.float64, 2, 3 * 10**6)
    assert repr(huge.astype("float32")[5]).startswith("<lacus.LazyArray float32 (3,): float32(")
    assert "sum[" in huge.explain()


def test_explain_tells_what_compute_would_do(tmp_path: Path) -> None:
    ds = lacus.create(tmp_path / "d")
    ds["W"] = np.ones((300, 200), np.float32)
    x, b = lacus.array(np.ones((50, 300), np.float32)), lacus.array(np.ones(200, np.float32))
    text = lacus.maximum(x @ ds["W"].lazy() + b, 0).explain(memory="1GiB", workers=3)
    assert text.startswith("within 1.0 GiB, of which results take 39.1 KiB; 3 workers, sums split among 8 lanes\n")
    assert f'"W" of {ds.url}' in text and "of the caller" in text
    assert "in place of" in text and 'save "result": ' in text
    graph = lacus.array(scipy_sparse.random(500, 500, 0.01, random_state=1, format="csr"))
    text = (graph @ graph).explain()
    assert "1.0 % of it not zero" in text and "product with sparse factors" in text
    with pytest.raises(lacus.InvalidError, match="workers"):
        graph.explain(workers=0)
    assert "they have to be stored" in x.explain(memory=10)


def test_random_numbers_follow_from_their_seed() -> None:
    x, y, z = lacus.compute(lacus.random((50, 40), 7), lacus.random((50, 40), 7), lacus.random((50, 40), 8))
    assert_same(x, y)
    assert 0 <= x.min() < 0.1 and 0.9 < x.max() < 1 and abs(x.mean() - 0.5) < 0.05 and (x != z).any()


def test_stored_tensors_keep_their_version(ds: lacus.Dataset, url: str) -> None:
    ds["A"] = M
    a = ds["A"].lazy()
    total = a.sum() * 2
    kept = pickle.dumps(total)
    ds["A"] = M * 100
    ds["A"].append(M)
    np.testing.assert_allclose(total.compute(), M.sum() * 2)
    del ds["A"]
    np.testing.assert_allclose(total.compute(), M.sum() * 2)
    np.testing.assert_allclose(pickle.loads(kept).compute(), M.sum() * 2)
    lacus.delete(url)
    with pytest.raises(lacus.LacusError):
        pickle.loads(kept)


def test_handles_on_one_state_are_one_source(ds: lacus.Dataset) -> None:
    ds["A"] = M
    text, sources = written({"x": (ds["A"].lazy() + ds["A"].lazy() * 2)._node})
    assert len(sources) == 1 and text.count("load") == 1


def test_results_are_stored_as_one_version(ds: lacus.Dataset) -> None:
    ds["A"] = M
    before = ds.version
    made = (ds["A"].lazy() @ V).store(ds, "out/v", metadata={"by": "test"})
    assert isinstance(made, lacus.Tensor) and made.name == "out/v" and made.metadata["by"] == "test"
    # What fixes the bits of a result is written down with it.
    assert made.metadata["lacus.run"]["lanes"] > 0 and "load" in made.metadata["lacus.run"]["program"]
    assert ds.version == before + 1
    np.testing.assert_allclose(ds["out/v"][:], M @ V)
    again = (ds["out/v"].lazy() * 2).store(ds, "out/v", layout="FTSF", chunk_shape=(2,))
    np.testing.assert_allclose(again[:], 2 * (M @ V))
    assert again.chunk_shape == (2,)
    with ds.transaction("Twice"):
        (ds["out/v"].lazy() * 2).store(ds, "out/v")
        (ds["out/v"].lazy() + 1).store(ds, "w")
    np.testing.assert_allclose(ds["w"][:], 4 * (M @ V) + 1)


def test_reads_of_a_transaction_are_lazy_too(ds: lacus.Dataset) -> None:
    with ds.transaction("Both"):
        ds["A"] = M
        inside = ds["A"].lazy().sum()
        np.testing.assert_allclose(inside.compute(), M.sum())
        with pytest.raises(lacus.InvalidError, match="transaction cannot be pickled"):
            pickle.dumps(inside)


def test_iteration_and_length() -> None:
    rows = list(lacus.array(M))
    assert len(lacus.array(M)) == len(rows) == 3
    check(rows[1], M[1])
    first, *_ = lacus.array(V)
    assert float(first.compute()) == V[0]


def test_progress_is_told() -> None:
    told: list[lacus.Progress] = []
    (lacus.array(M) @ M.T).compute(progress=told.append)
    assert told and told[-1].tasks_done == told[-1].tasks > 0
    assert told[-1].seconds > 0 and told[-1].gflops == pytest.approx(told[-1].operations / told[-1].seconds / 1e9)


def test_display_fits_a_screen(ds: lacus.Dataset) -> None:
    ds["A"] = M
    ds["a/b <x>"] = M
    x = (ds["A"].lazy() - 1) * ds["a/b <x>"].lazy()
    assert repr(x) == '<lacus.LazyArray float64 (3, 4): (A - 1) * "a/b <x>">'
    html = x._repr_html_()
    assert "<x>" not in html and "float64 (3, 4)" in html and f"version {ds.version}" in html
    assert repr(lacus.array(M).argmin(axis=0)) == "<lacus.LazyArray int64 (4,): argmin(array(3, 4))>"


A, N_LAZY = lacus.array(M), lacus.array(N)
BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: A + np.ones(3), lacus.InvalidError, "`+`: shapes (3, 4) and (3,) do not broadcast"),
    (lambda: A @ A, lacus.InvalidError, "`@`: lhs (3, 4) and rhs (3, 4) disagree on the inner axis"),
    (lambda: A @ 2, lacus.InvalidError, "`@`: both sides need at least one axis; use * for a single number"),
    (lambda: A.sum(axis=2), lacus.OutOfBoundsError, "sum: axis 2 is out of bounds for an array of 2 axes"),
    (lambda: A.sum(axis=(0, -2)), lacus.InvalidError, "sum: axis -2 is given twice"),
    (lambda: A.max(axis=1.5), lacus.InvalidError, "max: an axis is a whole number, found 1.5"),
    (lambda: A.argmin(axis=(0, 1)), lacus.InvalidError, "argmin: axis must be one number or None, found (0, 1)"),
    (lambda: A[3], lacus.OutOfBoundsError, "index 3 is out of bounds for axis 0 with size 3"),
    (lambda: A[0, -5], lacus.OutOfBoundsError, "index -5 is out of bounds for axis 1 with size 4"),
    (
        lambda: A[0, 0, 0],
        lacus.OutOfBoundsError,
        "too many indices: an array of shape (3, 4) has 2 axes, found 3",
    ),
    (lambda: A[..., ...], lacus.OutOfBoundsError, "an index can only have a single ellipsis ('...')"),
    (lambda: A[::0], lacus.InvalidError, "slice step cannot be zero"),
    (lambda: A[0.5:], lacus.InvalidError, "slice indices must be integers or None, found slice(0.5, None, None)"),
    (
        lambda: A[[0, 1]],
        lacus.InvalidError,
        "a lazy array is indexed by integers, slices, ... and None, not by list; where(mask, a, b) chooses by a mask, and",
    ),
    (
        lambda: A[M > 0],
        lacus.InvalidError,
        "a lazy array is indexed by integers, slices, ... and None, not by ndarray; "
        "where(mask, a, b) chooses by a mask",
    ),
    (lambda: A & True, TypeError, "& is for bools, found float64 of shape (3, 4)"),
    (lambda: ~A, TypeError, "~ is for bools, found float64 of shape (3, 4)"),
    (lambda: A + "x", TypeError, "unsupported operand type(s) for +: 'LazyArray' and 'str'"),
    (lambda: A ^ 2, TypeError, "unsupported operand type(s) for ^: 'LazyArray' and 'int'"),
    (lambda: A + 2**63, lacus.InvalidError, "9223372036854775808 does not fit int64"),
    (lambda: A + 1j, lacus.InvalidError, "the operand is complex128, which cannot be computed with; "),
    (lambda: lacus.array(np.array([1], "u8")), lacus.InvalidError, "the value is uint64, which cannot be computed"),
    (lambda: lacus.array(np.array([1], "f2")), lacus.InvalidError, "the value is float16, which cannot be computed"),
    (lambda: lacus.array("abc"), lacus.InvalidError, "the value: dtype <U3 cannot be stored; "),
    (lambda: A.reshape(2, 6), TypeError, "reshape from (3, 4) to (2, 6) is not supported on lazy arrays: their axes have"),
    (lambda: lacus.zeros((65, 2)).reshape(-1), TypeError, "reshape to (-1,) is not supported on lazy arrays: an axis of"),
    (lambda: A.reshape(-2, 6), lacus.InvalidError, "reshape: shape: -2 is no size of an axis"),
    (lambda: A[:0].reshape(-1, 0), lacus.InvalidError, "reshape: what -1 stands for in (-1, 0) does not follow"),
    (lambda: A.reshape("a"), lacus.InvalidError, "reshape: an extent must be a whole number, found 'a'"),
    (lambda: A.reshape(5, -1), lacus.InvalidError, "reshape: an array of shape (3, 4) has no shape (5, -1)"),
    (lambda: A.reshape(-1, -1), lacus.InvalidError, "reshape: (-1, -1) has more than one unknown extent"),
    (lambda: A.squeeze(0), lacus.InvalidError, "squeeze: axis 0 of shape (3, 4) has extent 3"),
    (lambda: lacus.concatenate([A, A[:, 1:]]), lacus.InvalidError, "concatenate: shapes (3, 4) and (3, 3) differ in more"),
    (lambda: lacus.concatenate([]), lacus.InvalidError, "concatenate: there is nothing to join"),
    (lambda: lacus.concatenate([A.sum()]), lacus.InvalidError, "concatenate: arrays without axes cannot be joined"),
    (lambda: lacus.stack([A, A.T]), lacus.InvalidError, "stack: shapes (3, 4) and (4, 3) differ"),
    (lambda: lacus.pad(A, ((1, 2),) * 3), lacus.InvalidError, "pad: ((1, 2), (1, 2), (1, 2)) does not fit an array of 2"),
    (lambda: lacus.pad(A, -1), lacus.InvalidError, "pad: expected whole numbers from 0, found -1"),
    (lambda: lacus.eye(3, k="x"), lacus.InvalidError, "eye: k must be a whole number, found 'x'"),  # type: ignore[arg-type]
    (lambda: lacus.tril(A, None), lacus.InvalidError, "tril: k must be a whole number"),  # type: ignore[arg-type]
    (lambda: A.round(1.5), lacus.InvalidError, "round: decimals must be a whole number"),  # type: ignore[arg-type]
    (lambda: A.var(ddof="x"), lacus.InvalidError, "var: ddof must be a number, found 'x'"),  # type: ignore[arg-type]
    (lambda: lacus.arange(0, 1e300, 1e-300), lacus.InvalidError, "arange: shape: 9223372036854775808 is no size of an axis"),
    (lambda: lacus.arange("5"), lacus.InvalidError, "arange: expected numbers, found 0, '5', 1"),
    (lambda: np.pad(A, 1, mode="edge"), TypeError, "mode='edge' is not supported; 'constant' is"),
    (lambda: lacus.tril(A[0]), lacus.InvalidError, "tril: an array of shape (4,) has no two axes"),
    (lambda: lacus.diag(A.sum()), lacus.InvalidError, "diag: expected one axis or two, found shape ()"),
    (lambda: np.broadcast_to(A, (4,)), lacus.InvalidError, "broadcast_to: "),
    (lambda: lacus.arange(0, 5, 0), lacus.InvalidError, "arange: the numbers must be finite, and the step not zero"),
    (lambda: lacus.arange("a"), lacus.InvalidError, "arange: expected numbers, found 0, 'a', 1"),
    (lambda: lacus.eye(-1), lacus.InvalidError, "eye: shape: -1 is no size of an axis"),
    (lambda: N_LAZY.round(-1), lacus.InvalidError, "round: decimals=-1 of integers is not supported"),
    (lambda: A.astype("int32"), lacus.InvalidError, "astype: int32 is not computed with; bool, int64, float32"),
    (lambda: A.transpose(0), lacus.InvalidError, "transpose: 2 axes are expected for shape (3, 4), found 1"),
    (lambda: bool(A), TypeError, "whether a lazy array is true is not known before it is computed: call its .compute()"),
    (lambda: float(A), TypeError, "a lazy array is no number before it is computed: call its .compute()"),
    (lambda: len(A.sum()), TypeError, "len() of an array without axes"),
    (lambda: np.asarray(A), TypeError, "a lazy array has no elements yet: call its .compute()"),
    (lambda: np.arctan(A), TypeError, "np.arctan is not supported on lazy arrays; call their .compute() first"),
    (lambda: np.add.reduce(A), TypeError, "np.add.reduce is not supported on lazy arrays; call their"),
    (lambda: np.add(A, 1, where=B), TypeError, "np.add takes no where= with lazy arrays"),
    (lambda: np.cumsum(A), TypeError, "np.cumsum is not supported on lazy arrays; call their .compute() first"),
    (lambda: np.sum(A, dtype=int), TypeError, "np.sum on lazy arrays: got an unexpected keyword argument 'dtype'"),
    (lambda: np.linalg.solve(A, A), TypeError, "np.linalg.solve is not supported on lazy arrays; call their .compute()"),
    (lambda: np.fft.fft(A), TypeError, "np.fft.fft is not supported on lazy arrays; call their .compute()"),
    (lambda: np.sort(A), TypeError, "np.sort is not supported on lazy arrays; call their"),
    (lambda: lacus.einsum("ij,jk", A, A), lacus.InvalidError, "einsum 'ij,jk': 'j' has extent 4 and 3"),
    (lambda: lacus.einsum("ij->ik", A), lacus.InvalidError, "einsum 'ij->ik': 'k' is in no operand"),
    (lambda: lacus.einsum("ijk", A), lacus.InvalidError, "einsum 'ijk': 'ijk' does not fit an operand of shape (3, 4)"),
    (lambda: lacus.einsum("ij,k", A), lacus.InvalidError, "einsum 'ij,k': it has 2 terms for 1 operands"),
    (lambda: lacus.einsum("..j", A), lacus.InvalidError, "einsum '..j': dots are only used as one '...' in a term"),
    (lambda: lacus.einsum("...j->j", A), lacus.InvalidError, "einsum '...j->j': axes of '...' are not in the result; sum"),
    (lambda: lacus.einsum("...ijk", A), lacus.InvalidError, "einsum '...ijk': '...ijk' does not fit an operand of shape"),
    (lambda: lacus.einsum("i1", A), lacus.InvalidError, "einsum 'i1': '1' is no letter"),
    (lambda: lacus.einsum("ii", A[:1]), lacus.InvalidError, "einsum 'ii': 'ii' does not fit an operand of shape (1, 4)"),
    (lambda: lacus.einsum("...,...", A, A.T), lacus.InvalidError, "einsum '...,...': '...' has extent 3 and 4"),
    (lambda: lacus.einsum("ij->ii", A), lacus.InvalidError, "einsum 'ij->ii': 'i' appears twice in the result"),
    (lambda: lacus.zeros((-1,)), lacus.InvalidError, "zeros: shape: -1 is no size of an axis (in (-1,))"),
    (lambda: lacus.zeros((2**40, 2**40)), lacus.InvalidError, "zeros: shape (1099511627776, 1099511627776) has too"),
    (lambda: lacus.random((2,), 1.5), lacus.InvalidError, "random: the seed must be a whole number, found 1.5"),
    (lambda: lacus.full((2,), A), lacus.InvalidError, "full: expected a single number, found shape (3, 4)"),
    (lambda: A.compute(memory="lots"), lacus.InvalidError, "memory: 'lots' is no size; "),
    (lambda: A.compute(memory=1.5), lacus.InvalidError, "memory: 1.5 is no size; "),  # type: ignore[arg-type]
    (lambda: A.compute(workers=0), lacus.InvalidError, "workers: 0 is not positive"),
    (lambda: A.compute(progress="yes"), lacus.InvalidError, "progress: expected a function, True, False or None"),
    (lambda: A.store("somewhere", "x"), lacus.InvalidError, "store: expected a dataset, as lacus.open gives it, found a str"),
    (lambda: (A * np.inf * 0).compute(forbid_nan=True), lacus.InvalidError, '"result": NaN'),
    (lambda: lacus.LazyArray(), TypeError, "lazy arrays are made by lacus.array(value) and ds[name].lazy()"),
    (lambda: hash(A), TypeError, "unhashable type: 'LazyArray'"),
]


@pytest.mark.parametrize("place", range(len(BAD)))
def test_bad_input_says_what_is_wrong(place: int) -> None:
    do, kind, message = BAD[place]
    with pytest.raises(kind) as caught:
        do()
    assert str(caught.value).startswith(message)


def test_a_refused_store_writes_nothing(ds: lacus.Dataset, url: str) -> None:
    ds["A"] = M
    ds.add_column("labels", dtype="int64")
    before = ds.version
    a = ds["A"].lazy()
    reader = lacus.open(url, read_only=True)
    pinned = lacus.open(url, at=before)
    for handle in (reader, pinned):
        with pytest.raises(lacus.InvalidError, match="read-only|read_only"):
            a.store(handle, "B")
    for name in ("", "a\nb"):
        with pytest.raises(lacus.InvalidError):
            a.store(ds, name)
    with pytest.raises(lacus.InvalidError, match='"labels" is a column'):
        a.store(ds, "labels")
    with pytest.raises(lacus.InvalidError, match="NaN"):
        (a * np.inf * 0).store(ds, "B", forbid_nan=True)
    ds["B"] = np.array([1j])
    with pytest.raises(lacus.InvalidError, match='tensor "B" is complex128, which cannot be computed with'):
        ds["B"].lazy()
    with pytest.raises(lacus.InvalidError, match="a lazy array has no elements yet"):
        ds["C"] = a
    assert ds.version == before + 1 and ds.keys() == ["A", "B", "labels"]
