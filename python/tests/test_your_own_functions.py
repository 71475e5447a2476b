"""Functions of Python in queries: what they get, what they may return, when they are called, and how they fail."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from test_ctrl_c_cancels import START, interrupted

import lacus
from lacus.udf import _registry

ROWS = 12
NAMES = ["cat", "dog", "owl"]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Functions of one test are not known to the next."""
    before = dict(_registry)
    yield
    _registry.clear()
    _registry.update(before)


@pytest.fixture
def ds(url: str) -> lacus.Dataset:
    made = lacus.create(url)
    made.add_column("image", "image", compression="png")
    made.add_column("label", "class_label", class_names=NAMES)
    made.add_column("caption", "text")
    made.add_column("score", dtype="float64", shape=[])
    made.add_column("boxes", "bbox")
    made.add_column("embedding", "embedding", dtype="float32", shape=[4])
    made.extend(
        {
            "image": [np.full((4 + row, 6, 3), row * 10, np.uint8) for row in range(ROWS)],
            "label": [NAMES[row % 3] for row in range(ROWS)],
            "caption": [None if row % 4 == 3 else f"caption {row:02}" for row in range(ROWS)],
            "score": [float((row * 7) % ROWS) for row in range(ROWS)],
            "boxes": [np.full((row % 3, 4), row, np.float32) for row in range(ROWS)],
            "embedding": [np.arange(4, dtype=np.float32) + row for row in range(ROWS)],
        }
    )
    made.commit("rows")
    return made


def view(answer: lacus.View | lacus.Table) -> lacus.View:
    assert isinstance(answer, lacus.View), answer
    return answer


def table(answer: lacus.View | lacus.Table) -> lacus.Table:
    assert isinstance(answer, lacus.Table), answer
    return answer


class Counted:
    """Brightness of pictures, which remembers how many it saw."""

    def __init__(self) -> None:
        self.rows = 0
        self.lock = threading.Lock()

    def __call__(self, images: Any) -> list[float]:
        with self.lock:
            self.rows += len(images)
        return [float(image.mean()) for image in images]


# ---------------------------------------------------------------- where they can be used


def test_functions_are_seen_by_name_everywhere(ds: lacus.Dataset) -> None:
    @lacus.udf(returns="float32")
    def brightness(images: Any) -> Any:
        return np.array([image.mean() for image in images])

    assert view(ds.query("SELECT * WHERE brightness(image) >= 90")).positions == [9, 10, 11]
    assert view(ds.query("SELECT * WHERE Brightness(image) >= 90 AND label = 'dog'")).positions == [10]
    assert view(ds.query("SELECT * ORDER BY brightness(image) DESC LIMIT 2")).positions == [11, 10]
    assert ds.filter("brightness(image) < 20").positions == [0, 1]
    assert ds.view()[3:].filter("brightness(image) < 50").positions == [3, 4]
    grouped = table(ds.query("SELECT label, max(brightness(image)) AS most GROUP BY label ORDER BY label"))
    assert grouped["label"] == ["cat", "dog", "owl"] and grouped["most"].tolist() == [90, 100, 110]
    by = table(ds.query("SELECT brightness(image) > 50 AS light, count(*) AS n GROUP BY brightness(image) > 50 ORDER BY light"))
    assert by["n"].tolist() == [6, 6]
    kept = table(ds.query("SELECT label, count(*) AS n GROUP BY label HAVING max(brightness(image)) > 95 ORDER BY label"))
    assert kept["label"] == ["dog", "owl"]
    both = table(
        lacus.sql(
            "SELECT a.score AS s FROM a JOIN b ON a.score = b.score WHERE brightness(a.image) > 100 AND brightness(b.image) > 100",
            a=ds,
            b=ds.view(),
        )
    )
    assert both["s"].tolist() == [5.0]
    inner = ds.query("SELECT x FROM (SELECT brightness(image) AS x, score FROM dataset) AS t WHERE x > 85 ORDER BY x DESC")
    assert inner["x"].tolist() == [110, 100, 90]
    assert "brightness" in ds.explain("SELECT * WHERE brightness(image) > 3")
    # It is still a function.
    assert brightness([np.zeros(3)]).tolist() == [0] and brightness.__name__ == "brightness"


def test_computed_columns_are_evaluated_when_they_are_read(ds: lacus.Dataset) -> None:
    count = Counted()
    lacus.udf(returns="float64", name="light")(count)
    found = view(ds.query("SELECT label, light(image) AS l WHERE score > 5"))
    assert count.rows == 0 and found.computed == {"l": "light(image)"}
    expected = [row * 10.0 for row in range(ROWS) if (row * 7) % ROWS > 5]
    assert found["l"].tolist() == expected and count.rows == len(expected)
    assert found[1]["l"] == expected[1] and [row["l"] for row in found] == expected
    assert found.to_arrow()["l"].to_pylist() == expected
    assert found.sort_by("l", descending=True)["l"].tolist() == expected[::-1]
    assert view(found.query("SELECT * WHERE l > 60"))["l"].tolist() == [value for value in expected if value > 60]
    again = pickle.loads(pickle.dumps(found))
    assert again["l"].tolist() == expected
    found.save("lit")
    assert ds.views["lit"]["l"].tolist() == expected
    # What needs no function can be read without it.
    del _registry["light"]
    assert again["label"].tolist() == found["label"].tolist()
    for call in (lambda: again["l"], lambda: again.to_arrow(), lambda: again.query("SELECT * WHERE l > 3")):
        with pytest.raises(lacus.InvalidError, match=r'column "l" is computed by light\(image\).*no function "light"'):
            call()


def test_only_rows_that_are_left_are_seen(ds: lacus.Dataset) -> None:
    count = Counted()
    lacus.udf(returns="float64", name="light")(count)
    view(ds.query("SELECT * WHERE light(image) > 30 AND label = 'dog' AND height(image) > 5"))
    assert count.rows == 3
    count.rows = 0
    assert table(ds.query("SELECT DISTINCT light(image) AS x FROM (SELECT * FROM dataset ORDER BY score LIMIT 2) AS t"))["x"].size == 2
    assert count.rows == 2
    count.rows = 0
    found = table(ds.query("SELECT x, x + 1 AS y FROM (SELECT light(image) AS x FROM dataset WHERE score < 3) AS t WHERE x >= 0"))
    assert (found["y"] - found["x"]).tolist() == [1] * len(found)
    assert count.rows == 3

    seen: list[float] = []

    @lacus.udf(returns="bool")
    def odd(scores: Any) -> Any:
        seen.extend(scores.tolist())
        return scores % 2 == 1

    assert len(view(ds.query("SELECT * WHERE odd(score) AND label = 'owl'"))) == 2
    assert len(seen) == 4


def test_what_is_called_twice_may_differ_and_what_is_named_once_does_not(ds: lacus.Dataset) -> None:
    numbers = iter(range(1000))

    @lacus.udf(returns="int64", per_row=True)
    def ticket() -> int:
        return next(numbers)

    found = table(ds.query("SELECT t, t AS again, score FROM (SELECT ticket() AS t, score FROM dataset) AS x WHERE t >= 0 GROUP BY t, score"))
    assert found["t"].tolist() == found["again"].tolist() and len(set(found["t"].tolist())) == ROWS
    other = table(ds.query("SELECT DISTINCT ticket() AS a, ticket() AS b"))
    assert not set(other["a"].tolist()) & set(other["b"].tolist())


def test_constant_calls_of_deterministic_functions_are_made_once(ds: lacus.Dataset) -> None:
    calls: list[int] = []

    def twice(x: Any) -> Any:
        calls.append(len(x))
        return x * 2

    lacus.udf(returns="int64", deterministic=True)(twice)
    assert len(view(ds.query("SELECT * WHERE score < twice(3)"))) == 6
    assert set(calls) == {1}
    calls.clear()
    lacus.udf(returns="int64")(twice)
    assert len(view(ds.query("SELECT * WHERE score < twice(3)"))) == 6
    assert sum(calls) == ROWS


# ---------------------------------------------------------------- what they get and return


def test_arguments_and_results_of_all_kinds(ds: lacus.Dataset) -> None:
    seen: dict[str, Any] = {}

    def noted(name: str, returns: Any, result: Any, **options: Any) -> None:
        def call(*columns: Any) -> Any:
            seen[name] = columns
            return result(*columns)

        lacus.udf(returns=returns, name=name, **options)(call)

    noted("scaled", ("float32", (4,)), lambda vectors, by: vectors * by[:, None])
    found = ds.query("SELECT scaled(embedding, 2) AS x")
    assert found["x"].shape == (ROWS, 4) and found["x"].dtype == np.float32
    np.testing.assert_array_equal(found["x"], np.asarray(ds["embedding"]) * 2)
    assert seen["scaled"][0].shape == (ROWS, 4) and seen["scaled"][1].tolist() == [2] * ROWS

    noted("first", ("float32", (None, 2)), lambda boxes: [box[:, :2] for box in boxes])
    found = ds.query("SELECT first(boxes) AS x")["x"]
    assert isinstance(seen["first"][0], list) and [box.shape for box in found] == [(row % 3, 2) for row in range(ROWS)]

    noted("any_shape", ("uint8", ...), lambda images: [image[0] if at % 2 else image for at, image in enumerate(images)])
    found = ds.query("SELECT any_shape(image) AS x")["x"]
    assert {value.ndim for value in found} == {2, 3}

    noted("shout", "text", lambda texts, labels: [f"{text}: {label}!" for text, label in zip(texts, labels, strict=True)])
    found = ds.query("SELECT shout(caption, label) AS x WHERE score < 100")["x"]
    assert found == [None if row % 4 == 3 else f"caption {row:02}: {NAMES[row % 3]}!" for row in range(ROWS)]
    assert None not in seen["shout"][0]

    noted("letters", "int16", lambda texts: [0 if text is None else len(text) for text in texts], nulls=True)
    assert ds.query("SELECT letters(caption) AS x")["x"].tolist() == [0 if row % 4 == 3 else 10 for row in range(ROWS)]
    assert seen["letters"][0].count(None) == 3

    noted("gaps", "int64", lambda scores: [None if score > 5 else int(score) for score in scores])
    assert ds.query("SELECT gaps(score) AS x")["x"].count(None) == 6
    noted("masked", "float32", lambda scores: np.ma.masked_greater(scores, 5))
    assert ds.query("SELECT masked(score) AS x")["x"].count(None) == 6
    noted("is_dog", "bool", lambda labels: np.array([label == "dog" for label in labels]))
    assert view(ds.query("SELECT * WHERE is_dog(label)")).positions == [1, 4, 7, 10]


def test_per_row(ds: lacus.Dataset) -> None:
    @lacus.udf(returns="float64", per_row=True)
    def corner(image: Any, scale: Any = 1) -> float:
        assert image.ndim == 3
        return float(image[0, 0, 0]) * float(scale)

    assert ds.query("SELECT corner(image) AS x")["x"].tolist() == [row * 10.0 for row in range(ROWS)]
    assert ds.query("SELECT corner(image, score) AS x")["x"].tolist() == [row * 10.0 * ((row * 7) % ROWS) for row in range(ROWS)]

    @lacus.udf(returns="text", per_row=True)
    def title(text: str) -> str:
        return text.title()

    assert ds.query("SELECT title(caption) AS x")["x"][:4] == ["Caption 00", "Caption 01", "Caption 02", None]


def test_torch(ds: lacus.Dataset) -> None:
    torch = pytest.importorskip("torch")

    @lacus.udf(returns=("float32", (4,)), torch=True)
    def normal(vectors: Any) -> Any:
        assert isinstance(vectors, torch.Tensor)
        return torch.nn.functional.normalize(vectors, dim=1)

    found = ds.query("SELECT normal(embedding) AS x")["x"]
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)

    @lacus.udf(returns="float32", torch=True)
    def means(images: Any) -> Any:
        return [image.float().mean() for image in images]

    assert ds.query("SELECT means(image) AS x")["x"].tolist() == [row * 10.0 for row in range(ROWS)]


def test_functions_of_one_query(ds: lacus.Dataset) -> None:
    double = lacus.udf(returns="float64", name="double_it", register=False)(lambda x: x * 2)
    with pytest.raises(lacus.InvalidError, match='no function "double_it"'):
        ds.query("SELECT double_it(score) AS x")
    found = view(ds.query("SELECT double_it(score) AS x WHERE score > 9", functions=[double]))
    assert found["x"].tolist() == found[:]["x"].tolist() == [22.0, 20.0]
    assert found.query("SELECT * WHERE x > 20")["x"].tolist() == [22.0]
    assert len(found.to_arrow()) == 2
    assert ds.query("SELECT other(score) AS x LIMIT 1", functions={"other": double})["x"].tolist() == [0.0]
    assert lacus.sql("SELECT double_it(score) AS x FROM a LIMIT 1", functions=[double], a=ds)["x"].tolist() == [0.0]
    assert "double_it" in ds.explain("SELECT * WHERE double_it(score) > 3", functions=[double])
    with pytest.raises(lacus.InvalidError, match='no function "double_it"'):
        pickle.loads(pickle.dumps(found))["x"]
    for wrong in ([len], double, 3):
        with pytest.raises(lacus.InvalidError, match="functions"):
            ds.query("SELECT *", functions=wrong)  # type: ignore[arg-type]


def test_a_later_definition_replaces_an_earlier_one(ds: lacus.Dataset) -> None:
    for number in (1, 2):
        lacus.udf(returns="int64", name="Number", per_row=True)(lambda number=number: number)
        assert set(ds.query("SELECT number() AS x")["x"].tolist()) == {number}


# ---------------------------------------------------------------- threads


def test_functions_may_use_lacus_themselves(ds: lacus.Dataset, url: str) -> None:
    other = lacus.create(url + "-other")
    other["factor"] = np.arange(ROWS, dtype=np.float64)

    @lacus.udf(returns="float64")
    def looked_up(scores: Any) -> Any:
        factors = lacus.open(url + "-other")["factor"][...]
        inner = ds.query("SELECT * WHERE score >= 0 ORDER BY score DESC LIMIT 1")
        return factors[scores.astype(int)] + len(inner)

    assert ds.query("SELECT looked_up(score) AS x")["x"].tolist() == [float((row * 7) % ROWS + 1) for row in range(ROWS)]
    assert len(view(ds.query("SELECT * WHERE looked_up(score) > 6"))) == 6

    @lacus.udf(returns="float64", per_row=True)
    def nested(score: Any) -> float:
        return float(ds.query("SELECT max(looked_up(score)) AS m WHERE score <= ?", [float(score)])["m"][0])

    assert view(ds.query("SELECT * WHERE nested(score) >= 12")).positions == [5]


def test_a_function_may_write(ds: lacus.Dataset, url: str) -> None:
    log = lacus.create(url + "-log")
    log.add_column("seen", dtype="float64", shape=[])

    @lacus.udf(returns="bool")
    def written(scores: Any) -> Any:
        log.extend({"seen": scores.tolist()})
        return scores >= 0

    assert len(view(ds.query("SELECT * WHERE written(score)"))) == ROWS
    assert sorted(log["seen"][:].tolist()) == list(range(ROWS))


def test_several_threads_ask_at_once(ds: lacus.Dataset) -> None:
    @lacus.udf(returns="float64", per_row=True)
    def shifted(score: Any, by: Any) -> float:
        return float(score + by)

    found: dict[int, Any] = {}

    def ask(by: int) -> None:
        for _ in range(5):
            found[by] = ds.query("SELECT * WHERE shifted(score, :by) >= :by + 6", {"by": by}).positions

    threads = [threading.Thread(target=ask, args=(by,)) for by in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [row for row in range(ROWS) if (row * 7) % ROWS >= 6]
    assert found == dict.fromkeys(range(4), expected)


CTRL_C = START + """
@lacus.udf(returns="bool")
def endless(x):
    while True:
        pass
@lacus.udf(returns="bool")
def asleep(x):
    time.sleep(3600)
ds = lacus.open(sys.argv[1])
wait_for_int(lambda: ds.query("SELECT * WHERE endless(score)"))
wait_for_int(lambda: ds.query("SELECT endless(score) AS x")["x"])
wait_for_int(lambda: ds.query("SELECT * WHERE asleep(score)"))
print(len(ds.query("SELECT * WHERE score > 5")), flush=True)
import os
os._exit(0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_a_function(ds: lacus.Dataset) -> None:
    output = interrupted(CTRL_C, ds.url, 3, 0.7)
    assert output == "interrupted\ninterrupted\ninterrupted\n6\n"


def test_a_function_that_is_interrupted_interrupts(ds: lacus.Dataset) -> None:
    @lacus.udf(returns="bool")
    def stop(scores: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.query("SELECT * WHERE stop(score)")


# ---------------------------------------------------------------- errors


def test_errors_name_the_row_and_keep_the_cause(ds: lacus.Dataset) -> None:
    @lacus.udf(returns="float64")
    def inverse(scores: Any) -> Any:
        return [1 / float(score) for score in scores]

    @lacus.udf(returns="float64", per_row=True)
    def inverse_of_one(score: Any) -> float:
        return 1 / float(score - 4)

    zero = next(row for row in range(ROWS) if (row * 7) % ROWS == 0)
    four = next(row for row in range(ROWS) if (row * 7) % ROWS == 4)
    asked = [
        (lambda: ds.query("SELECT * WHERE inverse(score) > 0"), "inverse", zero),
        (lambda: ds.query("SELECT * WHERE inverse_of_one(score) > 0"), "inverse_of_one", four),
        (lambda: ds.query("SELECT * WHERE score < 5 ORDER BY inverse_of_one(score)"), "inverse_of_one", four),
        (lambda: ds.query("SELECT max(inverse_of_one(score)) AS x"), "inverse_of_one", four),
        (lambda: ds.query("SELECT inverse_of_one(score) AS x")["x"], "inverse_of_one", four),
        (lambda: ds.query("SELECT inverse_of_one(score) AS x").to_arrow(), "inverse_of_one", four),
        (lambda: ds.view()[four - 2 :].query("SELECT * WHERE inverse_of_one(score) > 0"), "inverse_of_one", 2),
        (lambda: ds.query("SELECT inverse_of_one(score) AS x")[four - 1 :]["x"], "inverse_of_one", 1),
    ]
    for call, name, row in asked:
        with pytest.raises(lacus.InvalidError) as raised:
            call()
        assert str(raised.value) == f"udf {name}: row {row}: ZeroDivisionError: float division by zero"
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
    # After a join, a row is one of two datasets.
    with pytest.raises(lacus.InvalidError, match=r"^udf inverse: ZeroDivisionError") as raised:
        lacus.sql("SELECT inverse(a.score - b.score) AS x FROM a JOIN b ON a.label = b.label", a=ds, b=ds.view())
    # All rows together are to blame.

    @lacus.udf(returns="float64")
    def crowded(scores: Any) -> Any:
        if len(scores) > 3:
            raise RuntimeError("too many")
        return scores

    with pytest.raises(lacus.InvalidError, match=r"^udf crowded: RuntimeError: too many$"):
        ds.query("SELECT crowded(score) AS x")["x"]


def test_results_that_are_not_as_declared(ds: lacus.Dataset) -> None:
    def check(returns: Any, result: Any, why: str) -> None:
        lacus.udf(returns=returns, name="wrong")(result)
        with pytest.raises(lacus.InvalidError) as raised:
            ds.query("SELECT wrong(score) AS x")["x"]
        assert str(raised.value) == f"udf wrong: {why}"

    check("float32", lambda x: x[:3], "returned 3 results for 12 rows")
    check("float32", lambda x: x.mean(), "returned float64 np.float64(5.5), expected one result for each of the 12 rows")
    check("float32", lambda x: None, "returned None, expected one result for each of the 12 rows")
    check("int64", lambda x: x, "row 0: returned float64, declared int64; convert the result, or declare float64")
    check("int8", lambda x: (x * 100).astype(np.int64), "row 1: returned 700, which does not fit into int8")
    check("int8", lambda x: [1, 2, 300, *x[3:].astype(int).tolist()], "row 2: returned int64 300, declared int8; convert the result, or declare int64")
    check("int64", lambda x: [1, 2.5, *range(10)], "row 1: returned float64 2.5, declared int64; convert the result, or declare float64")
    check("text", lambda x: ["a"] * 11 + [3], "row 11: returned int 3, declared text")
    check("float64", lambda x: ["a"] * 12, "row 0: returned str 'a', declared float64")
    check("float64", lambda x: x[:, None], "row 0: returned float64 of shape (1,), declared float64 of shape ()")
    check(("float64", (3,)), lambda x: [np.zeros(3)] * 11 + [np.zeros(2)], "row 11: returned float64 of shape (2,), declared float64 of shape (3,)")
    check(("float64", (None, 3)), lambda x: np.zeros((12, 3)), "row 0: returned float64 of shape (3,), declared float64 of shape (?, 3)")


def test_calls_that_do_not_fit(ds: lacus.Dataset) -> None:
    @lacus.udf(returns="float64")
    def brightness(images: Any, by: Any = 1) -> Any:
        return [0.0 for _ in images]

    with pytest.raises(lacus.InvalidError, match="udf brightness: expected 1 to 2 arguments, found 3"):
        ds.query("SELECT brightness(image, 1, 2) AS x")
    with pytest.raises(lacus.InvalidError, match="udf brightness: expected 1 to 2 arguments, found 0"):
        ds.query("SELECT brightness() AS x")
    with pytest.raises(lacus.InvalidError, match='no function "brightnes"; did you mean "brightness"'):
        ds.query("SELECT brightnes(image) AS x")


def test_definitions_that_cannot_be() -> None:
    def check(why: str, function: Any = lambda x: x, **options: Any) -> None:
        with pytest.raises(lacus.InvalidError, match=why):
            lacus.udf(**({"returns": "float32"} | options))(function)

    check(r'a lambda has no name; give it one: lacus.udf\(returns=..., name="brightness"\)')
    check("built-in function", name="abs")
    check("built-in function", name="Mean")
    check("letters, digits", name="a b")
    check("dtype", name="f", returns="floaty")
    check("a dtype and a shape", name="f", returns=("float32", 3, 4))
    check("shape such as", name="f", returns=("float32", 3))
    check("not negative", name="f", returns=("float32", (-3,)))
    check("texts have no shape", name="f", returns=("text", (3,)))
    check("per_row=True", name="f", function=lambda: 3)
    check("a function is expected", name="f", function=3)
    check("'by' is given by name", name="f", function=lambda x, *, by: x)
    with pytest.raises(lacus.InvalidError, match="say what the function returns"):
        lacus.udf(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(lacus.InvalidError, match="say what the function returns"):
        lacus.udf()
