"""Arrays that are joined, split and padded are numpy's, whatever the tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus

scipy_sparse = pytest.importorskip("scipy.sparse")


def steps(rng: np.random.Generator, arrays: list[Any], count: int) -> list[Any]:
    """Random forms of arrays, each of what there is so far: the same draws do the same to numpy's and to lazy ones."""
    all_of = list(arrays)
    for _ in range(count):
        a = all_of[rng.integers(len(all_of))]
        xp: Any = lacus if isinstance(a, lacus.LazyArray) else np
        kind, k, n = rng.integers(9), int(rng.integers(-3, 4)), int(rng.integers(1, 40))
        axis = int(rng.integers(a.ndim))
        if kind == 0:
            all_of.append(xp.concatenate([a, a[(slice(None),) * axis + (slice(n, None, 2),)], a], axis))
        elif kind == 1:
            all_of.append(xp.concatenate([a[:n], a[n:], a[: n // 2]]))
        elif kind == 2:
            widths = [(int(rng.integers(3)), int(rng.integers(3))) for _ in range(a.ndim)]
            all_of.append(np.pad(a, widths, constant_values=n))
        elif kind == 3 and a.ndim > 1:
            all_of.append(np.tril(a, k) - np.triu(a, -k))
        elif kind == 4 and a.ndim > 1 and a.shape[0] - abs(k) > 0 and a.shape[1] - abs(k) > 0:
            all_of.append(np.diagonal(a, k))
        elif kind == 5 and a.shape[axis] % 4 == 0 and a.ndim < 4:
            shape = [*a.shape[:axis], 2, a.shape[axis] // 4, 2, *a.shape[axis + 1 :]]
            all_of.append(a.reshape(shape)[(slice(None),) * axis + (int(rng.integers(2)), slice(None), slice(None))])
        elif kind == 5 and a.ndim > 1 and a.shape[-2] <= 64:
            all_of.append(a.reshape(*a.shape[:-2], -1))
        elif kind == 6 and a.ndim < 3:
            all_of.append(np.broadcast_to(a, (3, *a.shape)) + xp.arange(a.shape[-1]))
        elif kind == 7 and a.ndim < 3:
            all_of.append(xp.stack([a, a * 2, a + n], axis)[..., ::-1])
        else:
            all_of.append(np.moveaxis(a, axis, -1) * 0.5 + 1)
    return all_of


@pytest.mark.parametrize("seed", range(12))
def test_random_forms(seed: int, tmp_path: Path) -> None:
    arrays = [np.random.default_rng(seed).normal(size=shape) for shape in [(60, 44), (97,), (12, 8, 20)]]
    expected = steps(np.random.default_rng(seed), arrays, 12)
    found = steps(np.random.default_rng(seed), [lacus.array(a) for a in arrays], 12)
    ds = lacus.create(f"memory://forms-{seed}-{tmp_path.name}")
    for name, value in zip("abc", arrays, strict=True):
        ds[name] = value
    stored = steps(np.random.default_rng(seed), [ds[name].lazy() for name in "abc"], 12)
    wanted = [k for k in range(3, len(expected)) if expected[k].size < 200_000]
    computed = lacus.compute(*(found[k] for k in wanted))
    for place, k in enumerate(wanted):
        np.testing.assert_allclose(computed[place], expected[k], rtol=1e-12, err_msg=repr(found[k]))
        if expected[k].nbytes > 20_000:
            # Small tiles, many of them aside.
            stored[k].store(ds, f"made/{k}", memory="1MiB", spill=tmp_path)
            np.testing.assert_allclose(ds[f"made/{k}"][...], expected[k], rtol=1e-12, err_msg=repr(found[k]))


def test_many_arrays_are_joined_by_and_by() -> None:
    parts = [np.full((k % 3, 2), float(k)) for k in range(100)]
    np.testing.assert_array_equal(lacus.concatenate(parts).compute(), np.concatenate(parts))


def test_sparse_arrays_are_joined_too() -> None:
    a = scipy_sparse.random(50, 30, 0.02, random_state=1, format="csr")
    b = scipy_sparse.random(20, 30, 0.02, random_state=2, format="csr")
    x = lacus.concatenate([lacus.array(a), lacus.array(b)])
    expected = np.concatenate([a.toarray(), b.toarray()])
    np.testing.assert_array_equal(np.asarray(x.compute()), expected)
    np.testing.assert_allclose(np.asarray((x @ np.ones(30)).compute()), expected.sum(axis=1))
    np.testing.assert_array_equal(np.asarray(lacus.tril(lacus.array(a)).compute()), np.tril(a.toarray()))


def test_names_may_have_quotes(ds: lacus.Dataset) -> None:
    ds['say "a\\b"'] = np.arange(3.0)
    found = lacus.run(r'save(load("say \"a\\b\"") * 2, "\"twice\"")', data=ds)
    assert found['"twice"'][...].tolist() == [0.0, 2.0, 4.0]
