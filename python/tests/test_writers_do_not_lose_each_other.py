"""Threads and processes that write at once."""

from __future__ import annotations

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from same import assert_same
from workers import put_many, put_same

import lacus

PROCESSES = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def test_eight_processes_put_25_tensors_each(ds: lacus.Dataset) -> None:
    barrier = PROCESSES.Barrier(8)
    writers = [PROCESSES.Process(target=put_many, args=(ds.url, f"w{w}", 25, None, barrier)) for w in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert ds.refresh() == 200
    assert len(ds.keys()) == 200
    for w in range(8):
        for i in range(25):
            assert_same(ds[f"w{w}/{i}"][...], np.full((20, 30), i, np.int32))
    entries = ds.history()
    assert [e.version for e in entries] == list(range(200, -1, -1))


def test_two_processes_put_the_same_new_name(ds: lacus.Dataset) -> None:
    for round_number in range(5):
        barrier, results = PROCESSES.Barrier(2), PROCESSES.Queue()
        name = f"same{round_number}"
        writers = [PROCESSES.Process(target=put_same, args=(ds.url, name, n, barrier, results)) for n in (1, 2)]
        for writer in writers:
            writer.start()
        found = dict(results.get(timeout=60) for _ in writers)
        for writer in writers:
            writer.join()
        won = [number for number, result in found.items() if result == "ok"]
        assert len(won) == 1, found
        (lost,) = (result for result in found.values() if result != "ok")
        assert f'"{name}"' in lost
        ds.refresh()
        assert_same(ds[name][...], np.full(10, won[0]))


def test_conflicts_are_about_the_same_thing(ds: lacus.Dataset) -> None:
    ds.put("x", np.zeros((8, 100)), layout="dense", chunk_shape=(1, 100))
    ds["y"] = np.zeros(3)
    one, two = lacus.open(ds.url), lacus.open(ds.url)
    # Different chunks, different tensors: both stay.
    one["x"][0] = 1
    two["x"][1] = 2
    two["y"] = np.ones(3)
    one["z"] = 5
    ds.refresh()
    assert ds["x"][:2, 0].tolist() == [1, 2] and ds["y"][0] == 1 and ds["z"][()] == 5
    # The same chunk: the second is told, nothing of it is written, and it can go on after a refresh.
    one.refresh(), two.refresh()
    one["x"][3, :50] = 1
    with pytest.raises(lacus.ConflictError, match="refresh and try again"):
        two["x"][3, 50:] = 2
    ds.refresh()
    assert ds["x"][3].tolist() == [1] * 50 + [0] * 50
    two.refresh()
    two["x"][3, 50:] = 2
    ds.refresh()
    assert ds["x"][3].tolist() == [1] * 50 + [2] * 50
    # A removed tensor cannot be written to.
    one.refresh(), two.refresh()
    del one["x"]
    with pytest.raises(lacus.ConflictError):
        two["x"][0] = 9
    with pytest.raises(lacus.ConflictError):
        two["x"].append(np.zeros((1, 100)))


def test_threads_share_a_handle(ds: lacus.Dataset) -> None:
    value = np.arange(100_000).reshape(100, 1000)
    ds.put("x", value, chunk_shape=(3, 1000))

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for i in range(25):
            row = int(rng.integers(0, 100))
            assert_same(ds["x"][row, ::3], value[row, ::3])
            if i % 5 == 0:
                ds[f"t{seed}/{i}"] = np.full(5, i)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(ds.keys()) == 41 and ds.version == 41


def test_others_run_while_we_work(ds: lacus.Dataset) -> None:
    """The GIL is released: a thread that counts goes on counting while another one writes and reads."""
    value = np.random.default_rng(0).integers(0, 9, (64, 1 << 18), dtype=np.uint8)
    busy = threading.Event()
    ticks = 0

    def work() -> None:
        ds.put("x", value, layout="dense", compression="zstd:6")
        assert ds["x"][...].shape == value.shape
        busy.set()

    worker = threading.Thread(target=work)
    worker.start()
    while not busy.is_set() and worker.is_alive():
        ticks += 1
        time.sleep(0.001)
    worker.join()
    # With the GIL held throughout, it would count a few times between calls.
    assert ticks > 20
