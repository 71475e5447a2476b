"""Processes that append are killed at random moments: every row they told of is there, and rows are whole."""

from __future__ import annotations

import multiprocessing
import random
import time

import numpy as np
import pytest
from workers import append_until_killed, sample_row

import lacus

# Forked before anything is open, as in test_killed_writers_leave_nothing_half.
PROCESSES = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
ROUNDS = 20


def check(ds: lacus.Dataset) -> list[int]:
    """The numbers of all rows, each of which is whole."""
    found = ds["n"][:]
    # A column without rows that have none is an array: no row lacks its number.
    assert isinstance(found, np.ndarray)
    texts, blobs = ds["text"][:], ds["blob"][:]
    for number, text, blob in zip(found.tolist(), texts, blobs, strict=True):
        expected = sample_row(number)
        assert text == expected["text"] and np.array_equal(blob, expected["blob"])
    return found.tolist()


def test_twenty_rounds(ds: lacus.Dataset) -> None:
    ds.add_column("n", dtype="int64", shape=())
    ds.add_column("text", "text")
    ds.add_column("blob", dtype="int32")
    chance = random.Random(5)
    told: set[int] = set()
    before: list[int] = []
    for round_number in range(ROUNDS):
        writers = []
        for lane in (1, 2):
            ours, theirs = PROCESSES.Pipe(duplex=False)
            start = (2 * round_number + lane) * 1_000_000
            writer = PROCESSES.Process(target=append_until_killed, args=(ds.url, start, theirs))
            writer.start()
            theirs.close()
            writers.append((start, ours, writer))
        for _, ours, _ in writers:
            ours.recv()
        for start, ours, writer in writers:
            time.sleep(chance.random() * 0.15)
            writer.kill()
            writer.join()
            last = start
            while ours.poll(0):
                try:
                    last = ours.recv()
                except EOFError:
                    break
            ours.close()
            told.update(range(start, last))
        found = check(lacus.open(ds.url))
        # Nothing is lost, twice there, or elsewhere than it was.
        assert told <= set(found) and len(set(found)) == len(found)
        assert found[: len(before)] == before
        before = found
        if round_number % 7 == 6:
            lacus.open(ds.url).compact()
            assert check(lacus.open(ds.url)) == before
    assert len(told) > ROUNDS
    # As good as new.
    ds.refresh()
    ds.append(sample_row(5))
    ds["text"][0] = "other"
    ds.delete_rows([1])
    assert ds["n"][:].tolist() == [before[0], *before[2:], 5] and ds["text"][0] == "other"
