"""A forked child reads and writes with handles it inherited, and never hangs."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from same import assert_same

import lacus

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def in_child(work: Callable[[], object], seconds: float = 60, fork: Callable[[], int] = os.fork) -> None:
    """Runs `work` in a forked child; fails if it raises or does not end."""
    read, write = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            work()
            os.write(write, b"ok")
        except BaseException as error:
            os.write(write, repr(error).encode()[:4000])
        finally:
            os._exit(0)
    os.close(write)
    give_up = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > give_up:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"ok"


def test_a_child_reads_and_writes(ds: lacus.Dataset) -> None:
    value = np.arange(10_000).reshape(100, 100)
    ds.put("x", value, chunk_shape=(10, 100))
    ds["s"] = lacus.SparseTensor([[1, 2]], [3.0], (4, 5))
    assert ds["x"][0, 0] == 0
    t, pinned = ds["x"], lacus.open(ds.url, at=1)

    def work() -> None:
        assert ds.version == 2
        assert_same(t[5], value[5])
        assert ds["s"][1, 2] == 3
        assert pinned.keys() == ["x"] and pinned.refresh() == 1
        ds["child"] = np.arange(3)
        t[0] = -1
        assert ds.version == 4 and t[0, 5] == -1
        in_child(lambda: ds.put("grandchild", t[1]))
        assert ds.refresh() == 5

    in_child(work)
    assert ds.version == 2 and t[0, 5] == 5
    ds["parent"] = 1
    assert ds.version == 6
    assert ds.keys() == ["child", "grandchild", "parent", "s", "x"]


def test_a_child_sees_the_version_its_parent_saw(ds: lacus.Dataset) -> None:
    ds["x"] = np.zeros(3)
    stale = lacus.open(ds.url)
    assert stale["x"][0] == 0
    ds["x"] = np.ones(3)

    def work() -> None:
        assert stale.version == 1 and stale["x"][0] == 0 and stale.keys() == ["x"]
        assert stale.refresh() == 2 and stale["x"][0] == 1

    in_child(work)
    read_only = lacus.open(ds.url, read_only=True)
    ds["x"] = np.full(3, 2)

    def look() -> None:
        assert read_only["x"][0] == 1
        assert read_only.refresh() == 3 and read_only["x"][0] == 2
        with pytest.raises(lacus.InvalidError):
            read_only["y"] = 1

    in_child(look)


def test_a_fork_in_the_middle_of_a_write(ds: lacus.Dataset) -> None:
    """Locks that a writing thread of the parent holds are held for ever in the child."""
    ds["x"] = np.arange(5)
    started, big = threading.Event(), np.random.default_rng(0).integers(0, 99, (64, 1 << 18), dtype=np.uint8)

    def write() -> None:
        started.set()
        ds.put("big", big, compression="zstd:9", layout="dense")

    writer = threading.Thread(target=write)
    writer.start()
    started.wait()
    try:
        for number in range(5):
            time.sleep(0.02)

            def work(number: int = number) -> None:
                assert ds["x"][3] == 3 and "x" in ds.keys() and ds.version >= 1
                ds[f"child{number}"] = number

            in_child(work)
    finally:
        writer.join()
    ds.refresh()
    assert len(ds.keys()) == 7
    assert_same(ds["big"][0], big[0])


_SHARED: list[lacus.Tensor] = []


def _row(place: int) -> float:
    return float(_SHARED[0][place].sum())


def test_pools_of_forked_workers(ds: lacus.Dataset) -> None:
    value = np.random.default_rng(0).random((40, 500))
    ds.put("x", value, chunk_shape=(4, 500))
    _SHARED[:] = [ds["x"]]
    assert _row(0) == value[0].sum()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map_async(_row, range(40)).get(60) == [row.sum() for row in value]


def test_memory_datasets_are_copied_with_the_process() -> None:
    ds = lacus.create(f"memory://fork-{os.getpid()}-{time.monotonic_ns()}")
    ds["x"] = np.arange(5)

    def work() -> None:
        assert ds["x"][3] == 3
        ds["y"] = 1

    in_child(work)
    assert ds.refresh() == 1


def test_forks_and_calls_take_turns(ds: lacus.Dataset) -> None:
    """Calls of other threads hold up a fork, a fork holds up calls, and nobody waits for ever."""
    ds["x"] = np.arange(1000)
    stop = threading.Event()
    counts = [0, 0, 0]

    def work(number: int) -> None:
        while not stop.is_set():
            assert ds["x"][number] == number
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            in_child(lambda: ds["x"][5] == 5 or os.abort())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert min(counts) > 0


def test_a_fork_behind_pythons_back_is_told(ds: lacus.Dataset) -> None:
    """A child that nobody prepared gets an error, not a deadlock."""
    ds["x"] = np.arange(5)
    t = ds["x"]

    def work() -> None:
        for call in (lambda: t[3], lambda: ds.put("y", 1), lambda: lacus.open(ds.url), lambda: ds.refresh()):
            with pytest.raises(lacus.UnavailableError, match="forked"):
                call()
        assert ds.url and ds.version == 1

    in_child(work, fork=ctypes.PyDLL(None).fork)
    assert t[3] == 3


def test_a_child_does_not_use_its_parents_row_ids(ds: lacus.Dataset) -> None:
    ds.add_column("n", dtype="int64", shape=())
    ds.extend({"n": [0]})
    # Ids are reserved in blocks: both would go on in the same one.
    read, write = os.pipe()

    def work() -> None:
        os.read(read, 1)
        ds.refresh()
        ds.extend({"n": [100, 101, 102]})

    def fork() -> int:
        pid = os.fork()
        if pid != 0:
            ds.extend({"n": [10, 11, 12]})
            os.write(write, b"x")
        return pid

    in_child(work, fork=fork)
    ds.refresh()
    assert ds["n"][:].tolist() == [0, 10, 11, 12, 100, 101, 102]
