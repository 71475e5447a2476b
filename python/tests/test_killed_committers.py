"""Processes that commit, merge and run transactions are killed at random moments: a dataset is as before or after."""

from __future__ import annotations

import multiprocessing
import random
import time
from multiprocessing.connection import Connection

import numpy as np
import pytest

import lacus

PROCESSES = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
ROUNDS = 20


def work_until_killed(url: str, start: int, told: Connection) -> None:
    """Round k: a transaction sets two arrays and a row to k on dev; main merges it; a tag and a plain commit follow."""
    main, dev = lacus.open(url), lacus.open(url, branch="dev")
    told.send(("ready", start))
    k = start
    while True:
        k += 1
        with dev.transaction(f"transaction {k}"):
            dev["a"][...] = k
            dev["b"][...] = k
            dev["n"][0] = k
            dev.append({"n": k})
        told.send(("transaction", k))
        main.merge("dev", message=f"merge {k}", fast_forward=k % 2 == 0)
        told.send(("merge", k))
        main["c"][...] = k
        main.commit(f"commit {k}")
        told.send(("commit", k))
        if k % 2:
            dev.merge("main")
            told.send(("forward", k))


def check(url: str, heard: dict[str, int]) -> None:
    dev, main = lacus.open(url, branch="dev"), lacus.open(url)
    for ds in (dev, main):
        a, b = ds["a"][...], ds["b"][...]
        k = int(a[0])
        assert (a == k).all() and (b == k).all() and int(ds["n"][0]) == k
        # The rows appended are those of the transactions that are there.
        rows = ds["n"][1:].tolist()
        assert len(rows) == len(set(rows)) and (k == 0 or max(rows) == k)
    assert int(dev["a"][0]) >= heard["transaction"] and int(main["a"][0]) >= heard["merge"]
    assert int(main["c"][0]) >= heard["commit"]
    # Transactions and merges leave no draft; a write before its commit may.
    status = dev.status()
    assert status.clean and status.head is not None
    messages = [commit.message for commit in dev.log()]
    assert len(messages) == len(set(messages))
    found = main.status()
    assert found.clean or [entry.operation for entry in found.draft] == ["WRITE REGION"], found
    messages = [commit.message for commit in main.log()]
    assert len(messages) == len(set(messages))
    for what in ("transaction", "commit"):
        if heard[what]:
            assert f"{what} {heard[what]}" in messages + [commit.message for commit in dev.log()]


def test_before_or_after(ds: lacus.Dataset) -> None:
    ds.add_column("n", dtype="int64", shape=())
    ds.append({"n": 0})
    for name in "abc":
        ds.put(name, np.zeros(64, np.int64), layout="dense", chunk_shape=(16,))
    ds.commit("First")
    ds.branches.create("dev")
    url, chance = ds.url, random.Random(11)
    heard = {"transaction": 0, "merge": 0, "commit": 0, "forward": 0}
    start = told = 0
    for _ in range(ROUNDS):
        ours, theirs = PROCESSES.Pipe(duplex=False)
        worker = PROCESSES.Process(target=work_until_killed, args=(url, start, theirs))
        worker.start()
        theirs.close()
        assert ours.poll(60)
        ours.recv()
        time.sleep(chance.random() * 0.8)
        worker.kill()
        worker.join()
        while ours.poll(0):
            try:
                what, k = ours.recv()
            except EOFError:
                break
            heard[what] = k
            told += 1
        ours.close()
        check(url, heard)
        # Numbers are never used twice; a draft that was left is committed, and all goes on.
        start = max(start, *heard.values()) + 2
        main = lacus.open(url)
        if not main.status().clean:
            main.commit(f"after {start}")
        assert main.status().clean
    assert told > ROUNDS
    main = lacus.open(url)
    main.merge("dev", "theirs")
    main["c"][0] = -1
    main.commit("The end")
