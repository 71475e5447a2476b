"""Loaders: what is in a batch, what happens on the way, and that nothing is left behind."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus
from lacus import InvalidError
from media import encoded

ROWS = 120


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lacus.Dataset:
    made = lacus.create(tmp_path_factory.mktemp("loader") / "ds")
    made.add_column("number", "class_label")
    made.add_column("vector", "embedding", size=8)
    made.add_column("ragged", dtype="int64", shape=(None,))
    made.add_column("text", "text")
    made.add_column("score", dtype="float64", shape=())
    made.extend(
        {
            "number": list(range(ROWS)),
            "vector": np.repeat(np.arange(ROWS, dtype=np.float32), 8).reshape(ROWS, 8),
            "ragged": [np.full(row % 5, row) for row in range(ROWS)],
            "text": [f"row {row}" for row in range(ROWS)],
            "score": [None if row % 10 == 3 else row / 2 for row in range(ROWS)],
        }
    )
    made.commit("rows")
    return made


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def numbers(loader: Any) -> list[list[int]]:
    return [batch["number"].tolist() for batch in loader]


def test_batches_are_dicts_of_arrays(ds: lacus.Dataset) -> None:
    loader = ds.view().loader(32, shuffle=True, seed=1, columns=["number", "vector", "text"])
    batches = list(loader)
    assert [len(batch["number"]) for batch in batches] == [32, 32, 32, 24]
    assert len(loader) == 4 and loader.samples == ROWS
    first = batches[0]
    assert isinstance(first, dict) and list(first) == ["number", "vector", "text"]
    assert first["vector"].dtype == np.float32 and first["vector"].shape == (32, 8)
    assert (first["vector"][:, 0] == first["number"]).all()
    assert first["text"] == [f"row {number}" for number in first["number"]]
    assert first.places.tolist() == first["number"].tolist()
    assert sorted(number for batch in batches for number in batch["number"]) == list(range(ROWS))
    # The order is known without reading anything.
    assert loader.order(0).tolist() == [number for batch in batches for number in batch["number"]]


def test_epochs_differ_and_repeat(ds: lacus.Dataset) -> None:
    loader = ds.loader(16, shuffle=True, seed=3, columns=["number"])
    first, second = numbers(loader), numbers(loader)
    assert first != second and loader.epoch == 2
    loader.set_epoch(0)
    assert numbers(loader) == first
    assert numbers(ds.loader(16, shuffle=True, seed=3, columns=["number"], prefetch="1KiB")) == first
    assert numbers(ds.loader(16, shuffle=True, seed=4, columns=["number"])) != first
    full = ds.loader(16, shuffle="full", seed=3, columns=["number"])
    assert sorted(sum(numbers(full), [])) == list(range(ROWS))
    assert sum(numbers(ds.loader(16, columns=["number"])), []) == list(range(ROWS))


@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_share_the_same_global_batches(ds: lacus.Dataset, world: int) -> None:
    whole = numbers(ds.loader(24, shuffle=True, seed=1, columns=["number"]))
    ranks = [numbers(ds.loader(24 // world, shuffle=True, seed=1, columns=["number"], rank=rank, world=world)) for rank in range(world)]
    assert [sum(parts, []) for parts in zip(*ranks, strict=True)] == whole


def test_ranks_come_from_the_environment(ds: lacus.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    loader = ds.loader(8)
    assert (loader.rank, loader.world) == (1, 3)
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(InvalidError, match="RANK='one'"):
        ds.loader(8)


def test_the_end_is_split_padded_or_dropped(ds: lacus.Dataset) -> None:
    view = ds[:10]
    kinds: dict[str, dict[str, Any]] = {"split": {}, "pad": {"even": "pad"}, "drop": {"drop_last": True}}
    found = {
        name: [numbers(view.loader(3, columns=["number"], rank=rank, world=2, **options)) for rank in range(2)]
        for name, options in kinds.items()
    }
    assert found["split"] == [[[0, 1, 2], [6, 7]], [[3, 4, 5], [8, 9]]]
    assert found["drop"] == [[[0, 1, 2]], [[3, 4, 5]]]
    assert found["pad"] == found["split"]
    assert [numbers(ds[:9].loader(3, columns=["number"], rank=rank, world=2, even="pad"))[1] for rank in range(2)] == [[6, 7], [8, 0]]


def test_ragged_samples(ds: lacus.Dataset) -> None:
    view = ds[:5]
    batch = next(iter(view.loader(5, columns=["ragged"])))
    assert [sample.tolist() for sample in batch["ragged"]] == [[], [1], [2, 2], [3, 3, 3], [4, 4, 4, 4]]
    batch = next(iter(view.loader(5, columns=["ragged"], collate="pad", pad_value=-1)))
    assert batch["ragged"].tolist()[2] == [2, 2, -1, -1]
    assert batch["ragged_mask"].tolist()[2] == [True, True, False, False]
    batch = next(iter(view.loader(5, columns=["ragged"], collate={"ragged": "nested"})))
    assert batch["ragged"].offsets.tolist() == [0, 0, 1, 3, 6, 10] and batch["ragged"].values.tolist()[-1] == 4
    with pytest.raises(InvalidError, match=r"row 0 of the view .*shape \(0,\), but row 1 .*\(1,\).*stacked"):
        next(iter(view.loader(5, columns=["ragged"], collate="stack")))
    lengths = next(iter(view.loader(5, columns=["ragged", "number"], collate={"ragged": lambda samples: [len(s) for s in samples]})))
    assert lengths["ragged"] == [0, 1, 2, 3, 4] and lengths["number"].tolist() == [0, 1, 2, 3, 4]
    whole = next(iter(view.loader(5, columns=["ragged", "number"], collate=lambda rows: {"n": len(rows), "last": rows[-1]["number"]})))
    assert whole == {"n": 5, "last": 4}


def test_missing_samples(ds: lacus.Dataset) -> None:
    view = ds[:5]
    assert next(iter(view.loader(5, columns=["score"])))["score"][3] is None
    filled = next(iter(view.loader(5, columns=["score"], missing=-1)))["score"]
    assert filled.tolist() == [0, 0.5, 1, -1, 2]
    loader = view.loader(5, columns=["score", "number"], missing={"score": "skip"})
    assert loader.samples == 4 and len(loader) == 1
    assert next(iter(loader))["number"].tolist() == [0, 1, 2, 4]
    with pytest.raises(InvalidError, match="row 3 of the view .*has no sample"):
        next(iter(view.loader(5, columns=["score"], collate="stack")))


def test_weights_balance_order_and_mixes(ds: lacus.Dataset) -> None:
    weights = np.zeros(ROWS)
    weights[:3] = [1, 1, 2]
    drawn = sum(numbers(ds.loader(10, columns=["number"], weights=weights, samples=400)), [])
    assert len(drawn) == 400 and set(drawn) == {0, 1, 2} and 150 < drawn.count(2) < 250
    once = sum(numbers(ds.loader(10, columns=["number"], weights=weights, samples=3, replace=False)), [])
    assert sorted(once) == [0, 1, 2]
    with pytest.raises(InvalidError, match="replace=True"):
        ds.loader(10, weights=weights, samples=4, replace=False)
    view = ds.query("SELECT *, number < 10 AS is_low")
    balanced = view.loader(10, columns=["number"], balance="is_low", samples=1000)
    low = sum(number < 10 for batch in balanced for number in batch["number"])
    assert 430 < low < 570
    assert sum(numbers(ds[:6].loader(4, columns=["number"], order=[5, 3, 1, 1])), []) == [5, 3, 1, 1]
    assert sum(numbers(ds.view().shuffle(1).loader(50, columns=["number"], order="number")), []) == list(range(ROWS))
    mixed = lacus.mix([ds[:100], ds[100:]], [3, 1]).loader(64, columns=["number"], samples=1024, shuffle=True)
    found = np.concatenate([batch["number"] for batch in mixed])
    assert len(found) == 1024 and (found < 100).sum() == 768
    lengths = [len({len(s) for s in batch["ragged"]}) for batch in ds.loader(6, columns=["ragged"], bucket_by="ragged", shuffle=True)]
    assert sum(lengths) <= len(lengths) + 4


def test_computed_columns_and_functions(ds: lacus.Dataset) -> None:
    view = ds.query("SELECT number, vector[0] * 2 AS double WHERE number >= 20")
    for batch in view.loader(16, shuffle=True, seed=2):
        assert (np.asarray(batch["double"]) == 2 * batch["number"]).all()

    def augment(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"noisy": sample["vector"] + rng.normal(size=8), "number": sample["number"]}

    loader = ds.loader(16, shuffle=True, seed=1, columns=["number", "vector"], transform=augment)
    first = {int(n): v for batch in loader for n, v in zip(batch["number"], batch["noisy"], strict=True)}
    loader.set_epoch(0)
    again = {int(n): v for batch in loader for n, v in zip(batch["number"], batch["noisy"], strict=True)}
    assert len(first) == ROWS and all((again[n] == first[n]).all() for n in first)
    other = {int(n): v for batch in loader for n, v in zip(batch["number"], batch["noisy"], strict=True)}
    assert all((other[n] != first[n]).any() for n in first)
    # By column, and of whole batches.
    by_column = ds.loader(16, columns=["vector"], transform={"vector": lambda v: v[:2]}, batch_transform=lambda b: {**b, "n": len(b["vector"])})
    batch = next(iter(by_column))
    assert batch["vector"].shape == (16, 2) and batch["n"] == 16


def test_functions_that_fail_name_the_sample(ds: lacus.Dataset) -> None:
    def fails(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["number"] == 7:
            raise ValueError("seven")
        return sample

    options: dict[str, Any] = {"columns": ["number"], "transform": fails}
    with pytest.raises(InvalidError, match=r"row 7 of the view \(id \d+\): ValueError: seven"):
        list(ds.loader(5, **options))
    skipping = ds.loader(5, on_error="skip", **options)
    batches = list(skipping)
    assert [len(batch["number"]) for batch in batches[:3]] == [5, 4, 5]
    assert batches[1].failures[0][1] == 7
    zeros = list(ds.loader(5, on_error="zeros", **options))
    assert zeros[1]["number"].tolist() == [5, 6, 0, 8, 9]

    def changes(sample: dict[str, Any]) -> dict[str, Any]:
        return {"x": np.zeros(2, np.float32 if sample["number"] < 3 else np.float64)}

    with pytest.raises(InvalidError, match="float32 of row 0 .* float64 of row 3"):
        list(ds.loader(5, columns=["number"], transform=changes))


def test_pictures_and_broken_files(tmp_path: Path) -> None:
    ds = lacus.create(tmp_path / "ds")
    ds.add_column("image", "image")
    ds.add_column("number", "class_label")
    plain = [np.full((8, 8 + row % 2, 3), row * 10, np.uint8) for row in range(20)]
    pictures = encoded(lacus.create(tmp_path / "other"), plain, "jpeg")
    ds.extend({"image": pictures, "number": list(range(20))})
    even = ds[::2].loader(4, columns=["image", "number"])
    for batch in even:
        assert batch["image"].dtype == np.uint8 and batch["image"].shape == (len(batch["number"]), 8, 8, 3)
        assert np.abs(batch["image"][:, 0, 0, 0].astype(int) - 10 * batch["number"].astype(int)).max() <= 3
    assert isinstance(next(iter(ds.loader(4)))["image"], list)
    padded = next(iter(ds.loader(4, collate={"image": "pad"})))
    assert padded["image"].shape == (4, 8, 9, 3) and padded["image_mask"].shape[:3] == (4, 8, 9)
    # Damage a file.
    files = sorted((tmp_path / "ds").rglob("*.parquet"), key=lambda path: path.stat().st_size)
    data = files[-1].read_bytes()
    at = data.index(pictures[6])
    files[-1].write_bytes(data[: at + 200] + bytes(50) + data[at + 250 :])
    damaged = lacus.open(tmp_path / "ds")[::2]
    with pytest.raises(lacus.CorruptError, match="column 'image', row 3 of the view|column \"image\", row 3 of the view"):
        list(damaged.loader(4))
    loader = damaged.loader(4)
    batches = iter(loader)
    with pytest.raises(lacus.CorruptError):
        next(batches)
    assert next(batches)["number"].tolist() == [8, 10, 12, 14], "the loop can go on behind the error"
    assert sorted(sum(numbers(damaged.loader(4, on_error="skip")), [])) == [0, 2, 4, 8, 10, 12, 14, 16, 18]
    zeros = damaged.loader(4, on_error="zeros")
    assert (next(iter(zeros))["image"][3] == 0).all()
    assert zeros.stats()["failures"] == 1 and "row 3" in zeros.stats()["failed"][0]


def test_nothing_is_left_behind(ds: lacus.Dataset) -> None:
    options: dict[str, Any] = {"shuffle": True, "columns": ["number", "vector"]}
    list(ds.loader(4, **options))
    before = threads()
    for _ in range(5):
        for batch in ds.loader(4, **options):
            assert len(batch["number"]) == 4
            break
        iterator = iter(ds.loader(4, transform=lambda sample: sample, threads=2, **options))
        next(iterator)
        del iterator
        with pytest.raises(RuntimeError):
            for _ in ds.loader(4, **options):
                raise RuntimeError
    gc.collect()
    for _ in range(100):
        if threads() <= before + 2 and threading.active_count() == 1:
            break
        time.sleep(0.05)
    assert threads() <= before + 2 and threading.active_count() == 1


def test_a_loop_that_is_left_is_dropped(ds: lacus.Dataset) -> None:
    loader = ds.loader(4, shuffle=True, columns=["number"])
    iterator = iter(loader)
    next(iterator)
    left = weakref.ref(iterator)
    del iterator
    assert left() is None, "the loader does not keep what was made ahead"
    assert loader.state_dict()["consumed"] == 4


def test_epochs_end_also_without_batches(ds: lacus.Dataset) -> None:
    for loader in (ds[:3].loader(4, drop_last=True), ds[:0].loader(4)):
        while loader.epoch < 2:
            assert list(loader) == []


def test_two_loaders_at_once(ds: lacus.Dataset) -> None:
    train, test = ds.loader(8, shuffle=True, seed=1, columns=["number"]), ds.loader(6, columns=["number"])
    pairs = list(zip(train, test, strict=False))
    assert len(pairs) == 15 and sum((b["number"].tolist() for _, b in pairs), []) == list(range(90))


def _child(loader: Any, iterator: Any, pipe: Any) -> None:
    pipe.send((next(iterator)["number"].tolist(), numbers(loader)))
    pipe.close()


def test_forks(ds: lacus.Dataset) -> None:
    loader = ds.loader(8, shuffle=True, seed=1, columns=["number"])
    whole = numbers(ds.loader(8, shuffle=True, seed=1, columns=["number"]))
    iterator = iter(loader)
    assert next(iterator)["number"].tolist() == whole[0]
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    child = context.Process(target=_child, args=(ds.loader(8, shuffle=True, seed=1, columns=["number"]), iterator, theirs))
    child.start()
    assert mine.poll(60), "the child hangs"
    second, all_ = mine.recv()
    child.join(60)
    assert child.exitcode == 0 and second == whole[1] and all_ == whole
    assert [batch["number"].tolist() for batch in iterator] == whole[1:]


def test_ctrl_c(ds: lacus.Dataset) -> None:
    slow = ds.loader(1, columns=["number"], transform=lambda sample: time.sleep(0.2) or sample, threads=1)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in slow:
            pass
    timer.join()


def test_loaders_pickle(ds: lacus.Dataset) -> None:
    loader = ds.loader(8, shuffle=True, seed=1, columns=["number"])
    iterator = iter(loader)
    next(iterator)
    again = pickle.loads(pickle.dumps(loader))
    assert numbers(again) == [batch["number"].tolist() for batch in iterator]


def test_it_tells_where_time_goes(ds: lacus.Dataset) -> None:
    loader = ds.loader(8, shuffle=True, seed=1)
    assert loader.stats()["verdict"] == "no batch was handed over yet"
    list(loader)
    stats = loader.stats()
    assert stats["samples"] == ROWS and stats["batches"] == 15 and "limit" in stats["verdict"]
    assert all(0 <= stats[share] <= 1 for share in ("fetch", "decode", "wait", "transform"))
    json.dumps(stats)
    described = loader.describe()
    assert described["shuffle_quality"] > 0.9 and described["batches"] == 15


def test_bad_input_is_refused(ds: lacus.Dataset) -> None:
    bad: list[tuple[str, dict[str, Any]]] = [
        ("batch_size", {"batch_size": 0}),
        ("batch_size", {"batch_size": 2.5}),
        ("120 samples for 121 ranks", {"rank": 0, "world": 121}),
        ("rank 2 of world 2", {"rank": 2, "world": 2}),
        ("both rank and world", {"rank": 1}),
        ("nmber", {"columns": ["nmber"]}),
        ("named twice", {"columns": ["number", "number"]}),
        ("shuffle", {"shuffle": "well"}),
        ("collate", {"collate": "heap"}),
        ("collate", {"collate": {"nmber": "pad"}}),
        ("on_error", {"on_error": "ignore"}),
        ("even", {"even": "odd"}),
        ("prefetch", {"prefetch": "lots"}),
        ("missing", {"missing": [1]}),
        ("seed", {"seed": -1}),
        ("transform", {"transform": 3}),
        ("weights", {"weights": [1.0]}),
        ("invalid weight", {"weights": np.full(ROWS, -1.0)}),
        ("timeout", {"timeout": 0}),
        ("shuffle", {"order": "number", "shuffle": True}),
    ]
    for says, options in bad:
        options = {"batch_size": 4, **options}
        with pytest.raises(InvalidError if says != "nmber" else lacus.LacusError, match=says):
            ds.view().loader(**options)
    with pytest.raises(InvalidError, match="proportions"):
        lacus.mix([ds.view()], [1, 2])
    empty = ds[:0].loader(4)
    assert len(empty) == 0 and list(empty) == []


def test_batches_may_be_kept(ds: lacus.Dataset) -> None:
    kept = list(ds.loader(8, shuffle=True, columns=["number", "vector"]))
    copies = [batch["vector"].copy() for batch in kept]
    list(ds.loader(8, shuffle=True, seed=9, columns=["number", "vector"]))
    assert all((batch["vector"] == copy).all() for batch, copy in zip(kept, copies, strict=True))
