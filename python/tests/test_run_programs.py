"""lacus.run: text in, tensors out; one version, or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lacus

G = np.array([[0.0, 0.5, 1.0], [0.5, 0.0, 0.0], [0.5, 0.5, 0.0]])

PAGERANK = """
G = load("G")
n = dim(G, 0)
r = full([n], 1/n)
repeat {
    s[i] = 0.85 * G[i,j] * r[j] + 0.15/n
    d = sum(abs(s - r))
    r = s
} until d < 1e-12
save(r, "rank")
"""


def rank() -> Any:
    r = np.full(3, 1 / 3)
    for _ in range(300):
        r = 0.85 * G @ r + 0.15 / 3
    return r


def test_programs_read_and_write_a_dataset(ds: lacus.Dataset) -> None:
    ds["G"] = G
    before = ds.version
    found = lacus.run(PAGERANK + 'save(sum(r), "total")', data=ds, memory="1GiB", workers=2)
    assert list(found) == ["rank", "total"] and all(isinstance(t, lacus.Tensor) for t in found.values())
    assert ds.version == before + 1 and ds.keys() == ["G", "rank", "total"]
    np.testing.assert_allclose(found["rank"][:], rank())
    np.testing.assert_allclose(ds["total"][...], 1.0)


def test_programs_run_without_a_dataset() -> None:
    found = lacus.run(PAGERANK, inputs={"G": G})
    assert list(found) == ["rank"] and isinstance(found["rank"], np.ndarray)
    np.testing.assert_allclose(found["rank"], rank())


def test_inputs_come_first(ds: lacus.Dataset) -> None:
    ds["x"] = np.ones(3)
    ds["y"] = np.full(3, 10.0)
    program = 'save(load("x") + load("y"), "sum")'
    for value in (np.arange(3), [0, 1, 2], lacus.array(np.arange(3))):
        found = lacus.run(program, data=ds, inputs={"x": value})
        assert found["sum"][:].tolist() == [10, 11, 12]
    assert lacus.run(program, data=ds, inputs={"x": ds["y"]})["sum"][:].tolist() == [20, 20, 20]
    assert lacus.run('save(load("k") * 2, "z")', inputs={"k": 21})["z"] == 42
    sparse = lacus.SparseTensor([[1]], [5.0], (3,))
    assert lacus.run(program, data=ds, inputs={"x": sparse})["sum"][:].tolist() == [10, 15, 10]


def test_what_is_loaded_may_be_saved_over(ds: lacus.Dataset) -> None:
    ds["x"] = np.arange(3.0)
    lacus.run('x = load("x"); save(x + 1, "x"); save(x, "old")', data=ds)
    assert ds["x"][:].tolist() == [1, 2, 3] and ds["old"][:].tolist() == [0, 1, 2]
    assert lacus.open(ds.url, at=ds.version - 1)["x"][:].tolist() == [0, 1, 2]


def test_strided_arrays_are_read_as_they_lie() -> None:
    big = np.arange(24.0).reshape(4, 6)
    for view in (big[::2, ::-1], big.T, np.asfortranarray(big), np.broadcast_to(big[:1], (4, 6)), big.astype(">f8")):
        assert np.array_equal(lacus.run('save(load("x") + 0, "y")', inputs={"x": view})["y"], view)


def test_names_of_groups_are_loaded_and_saved(ds: lacus.Dataset) -> None:
    ds["a/b c"] = np.ones(2)
    found = lacus.run('# with "quotes" in a comment\nsave(load("a/b c") * 3, "out/ü")', data=ds)
    assert found["out/ü"][:].tolist() == [3, 3]


def test_runs_join_transactions(ds: lacus.Dataset) -> None:
    ds["x"] = np.ones(2)
    with ds.transaction("Together") as tx:
        lacus.run('save(load("x") + 1, "y")', data=ds)
        lacus.run('save(load("y") + 1, "z")', data=ds)
    assert tx.id and ds["z"][:].tolist() == [3, 3]


def test_a_run_that_fails_leaves_the_transaction_as_it_was(ds: lacus.Dataset) -> None:
    ds["y"] = [1, 2, 3]
    with ds.transaction("Others"):
        ds["before"] = 1
        with pytest.raises(lacus.InvalidError, match="zero"):
            # y is stored tile by tile, and has begun to be when something else fails.
            lacus.run(
                'n = load("n"); save(n * 2, "y"); save(n % (n - 199999), "bad")',
                data=ds, inputs={"n": np.arange(200_000)}, memory="4MB",
            )
        ds["after"] = 2
    assert ds["y"][:].tolist() == [1, 2, 3] and "bad" not in ds
    assert (ds["before"][()], ds["after"][()]) == (1, 2)


def test_inputs_that_nobody_loads_are_refused() -> None:
    with pytest.raises(lacus.InvalidError, match='input "typo" is not used: the program loads "x"'):
        lacus.run('save(load("x"), "y")', inputs={"x": [1], "typo": [2]})


def test_batches_are_slices_that_move() -> None:
    x = np.random.default_rng(1).standard_normal((100, 7))
    found = lacus.run(
        """
        x = load("x"); total = zeros([7, 7])
        for t in 0..4 { batch = x[25*t : 25*t + 25]; total = total + transpose(batch) @ batch / (t + 1) }
        save(total, "total")
        """,
        inputs={"x": x},
    )["total"]
    expected = sum(x[25 * t : 25 * t + 25].T @ x[25 * t : 25 * t + 25] / (t + 1) for t in range(4))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_progress_is_told_and_may_fail() -> None:
    told: list[lacus.Progress] = []

    def fail(now: lacus.Progress) -> None:
        told.append(now)
        raise RuntimeError("no")

    assert lacus.run('save(load("x"), "y")', inputs={"x": [1]}, progress=fail)["y"].tolist() == [1]
    assert told and told[-1].tasks_done == told[-1].tasks


BAD: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    (
        'save(load("nope"), "y")',
        {},
        lacus.NotFoundError,
        "there is no tensor 'nope' to load\n --> line 1, column 11\n  1 | save(load(\"nope\"), \"y\")\n"
        '    |           ^^^^^^\nthere are "G", "x", "z"',
    ),
    (
        'C = load("G") @ load("x")[:2]\nsave(C, "y")',
        {},
        lacus.InvalidError,
        "`@`: lhs [3, 3] and rhs [2] disagree on the inner axis\n --> line 1, column 5",
    ),
    ('x = load("x")', {}, lacus.InvalidError, "the program saves nothing: say what is wanted of it with"),
    ("", {}, lacus.InvalidError, "the program saves nothing"),
    ("save(x, 'y')", {}, lacus.InvalidError, "expected a name, a number or an operator, found '\\''\n --> line 1"),
    ('save(q, "y")', {}, lacus.NotFoundError, "'q' is not defined\n --> line 1, column 6"),
    ('save(load("z"), "y")', {}, lacus.InvalidError, "tensor 'z' is complex128, which cannot be computed with"),
    ('save(load("x") + load("G")[:, :2], "y")', {}, lacus.InvalidError, "`+`: "),
    ('save(load("x") / 0 * 0, "y")', {"forbid_nan": True}, lacus.InvalidError, '"y": NaN'),
    ('save(load("x"), "")', {}, lacus.InvalidError, ""),
    ('save(load("x"), "rows")', {}, lacus.InvalidError, ""),
    ('save(load("rows"), "y")', {}, lacus.NotFoundError, "there is no tensor 'rows' to load"),
    ('save(1, "y")', {"memory": 0}, lacus.InvalidError, "memory: 0 is not positive"),
    ('save(1, "y")', {"memory": "2 parsecs"}, lacus.InvalidError, "memory: '2 parsecs' is no size; "),
    ('save(1, "y")', {"workers": 1.5}, lacus.InvalidError, "workers: expected a whole number, found 1.5"),
    ('save(1, "y")', {"checkpoint_every": 0}, lacus.InvalidError, "checkpoint_every: 0 is not positive"),
    ('save(1, "y")', {"inputs": [1]}, lacus.InvalidError, "inputs are given by name, as in {name: array}, not as a list"),
    ('save(1, "y")', {"inputs": {1: 2}}, TypeError, "inputs are addressed by name, not by int"),
    (
        'save(1, "y")',
        {"inputs": {"x": lacus.array([1]) + 1}},
        lacus.InvalidError,
        'input "x" is a lazy array that has to be computed first: call its .compute()',
    ),
    ('save(1, "y")', {"inputs": {"x": [1j]}}, lacus.InvalidError, 'input "x" is complex128, which cannot be computed'),
    ('save(1, "y")', {"inputs": {"x": None}}, lacus.InvalidError, 'input "x": dtype object cannot be stored; '),
    ('save(1, "y")', {"data": "somewhere"}, lacus.InvalidError, "data: expected a dataset, as lacus.open gives it"),
    (b"save(1)", {}, lacus.InvalidError, "program: expected text, found a bytes"),  # type: ignore[list-item]
    ("(" * 1000, {}, lacus.InvalidError, ""),
]


@pytest.mark.parametrize("place", range(len(BAD)))
def test_what_is_wrong_is_told_and_nothing_is_written(ds: lacus.Dataset, place: int) -> None:
    program, options, kind, message = BAD[place]
    ds["G"], ds["x"], ds["z"] = G, np.arange(3.0), np.array([1j])
    ds.add_column("rows", dtype="int64")
    before = ds.version
    with pytest.raises(kind) as caught:
        lacus.run(program, **{"data": ds, **options})
    assert str(caught.value).startswith(message), str(caught.value)
    ds.refresh()
    assert ds.version == before and "y" not in ds


def test_what_cannot_be_written_is_not_computed(ds: lacus.Dataset, url: str) -> None:
    ds["x"] = np.ones(2)
    endless = 'x = load("x")\nwhile sum(x) > 0 { x = x + 1 }\nsave(x, "y")'
    for handle in (lacus.open(url, read_only=True), lacus.open(url, at=ds.version)):
        with pytest.raises(lacus.InvalidError, match="read-only|read_only"):
            lacus.run(endless, data=handle)


def test_the_snapshot_is_read_while_others_write(ds: lacus.Dataset, url: str) -> None:
    ds["x"] = np.ones(2)
    other = lacus.open(url)
    other["x"] = np.zeros(2)
    # The handle has not seen the other's version, and what it saves is another tensor.
    assert lacus.run('save(load("x") + 1, "y")', data=ds)["y"][:].tolist() == [2, 2]
    ds.refresh()
    assert ds["x"][:].tolist() == [0, 0]


def test_types_and_shapes_are_told_without_running() -> None:
    from lacus import _native

    found = _native.check_program(PAGERANK, {"G": ("float32", (1000, 1000))})
    assert found == {"rank": ("float64", (1000,))}
