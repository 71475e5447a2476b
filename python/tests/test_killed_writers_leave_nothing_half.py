"""Writers killed at random moments: what they told is there, and nothing is half there."""

from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from workers import ENVIRONMENT, NEW, ROWS, write_until_killed

import lacus

LANES, DATASETS, ROUNDS = 2, 10, 10
PREFIXES = ("one", "two")

# A forked writer is at work in a few milliseconds; one that starts Python anew takes half a second.
PROCESSES = multiprocessing.get_context("fork")


class Told:
    """What a writer said it had written, over all its lives."""

    def __init__(self) -> None:
        self.last: dict[str, int] = defaultdict(int)
        self.new: set[int] = set()
        self.moved: set[int] = set()
        self.start = 0

    def hear(self, what: str, k: int) -> None:
        self.last[what] = k
        self.start = max(self.start, k)
        if what == "new":
            self.new.add(k)
        elif what == "moved":
            self.new.discard(k)
            self.moved.add(k)


def one_round(url: str, told: dict[str, Told], chance: random.Random) -> int:
    """Starts a writer per prefix, kills each at a random moment, returns how many writes they told."""
    writers = []
    for prefix in PREFIXES:
        ours, theirs = PROCESSES.Pipe(duplex=False)
        # A round that died half-way may have left its number behind, so numbers are never used twice.
        told[prefix].start += 2
        writer = PROCESSES.Process(target=write_until_killed, args=(url, prefix, told[prefix].start, theirs))
        writer.start()
        theirs.close()
        writers.append((prefix, ours, writer))
    for _, ours, _ in writers:
        ours.recv()
    heard = 0
    for prefix, ours, writer in writers:
        time.sleep(chance.random() * 0.05)
        writer.kill()
        writer.join()
        # All it told is in the pipe by now.
        while ours.poll(0):
            try:
                what, k = ours.recv()
            except EOFError:
                break
            told[prefix].hear(what, k)
            heard += 1
        ours.close()
    return heard


def check(url: str, told: dict[str, Told], seen: set[str]) -> None:
    """Everything told is there and whole; of what was under way, all or nothing. What nobody writes to any
    more is read once, and then `seen`."""
    ds = lacus.open(url)
    names = set(ds.keys())
    for prefix, said in told.items():
        if f"{prefix}/a" in names:
            a, b = ds[f"{prefix}/a"][...], ds[f"{prefix}/b"][...]
            value = int(a[0, 0])
            assert (a == value).all() and (b == value).all() and a.shape == (50, 40) and b.shape == (7,)
            assert value >= said.last["pair"]
        else:
            assert said.last["pair"] == 0 and f"{prefix}/b" not in names
        for k in said.moved:
            assert f"{prefix}/moved/{k}" in names and f"{prefix}/new/{k}" not in names
        for k in said.new:
            # It was put; a rename of it may have been under way.
            assert (f"{prefix}/new/{k}" in names) != (f"{prefix}/moved/{k}" in names)
        rows = ds[f"{prefix}/rows"][...]
        assert (rows == rows[:, :1]).all()
        assert said.last["row"] <= rows.max()
    for name in names - {"after"} - seen:
        prefix, kind, *rest = name.split("/")
        if kind in ("new", "moved"):
            value = ds[name][...]
            assert value.shape == NEW and (value == int(rest[0])).all(), name
            seen.add(name)
        elif kind == "sparse":
            s = ds[name][...]
            k = int(s.values[0])
            assert k >= told[prefix].last["sparse"] and s.indices.tolist() == [[k, k], [k, k + 1]]


def lane(place: Path, seed: int) -> tuple[int, int]:
    """Some datasets, some rounds each. Returns rounds and writes."""
    chance = random.Random(seed)
    rounds = writes = 0
    for number in range(DATASETS // LANES):
        url = str(place / f"{seed}-{number}")
        ds = lacus.create(url)
        for prefix in PREFIXES:
            ds.create_array(f"{prefix}/rows", (ROWS, 600), np.int64, (2, 600))
        told = {prefix: Told() for prefix in PREFIXES}
        seen: set[str] = set()
        for _ in range(ROUNDS):
            writes += one_round(url, told, chance)
            rounds += len(PREFIXES)
            check(url, told, seen)
        # All of it once more, and the dataset is as good as new.
        ds = lacus.open(url)
        ds.put("after", np.arange(3))
        ds.compact()
        check(url, told, set())
    return rounds, writes


def test_two_hundred_rounds(tmp_path: Path) -> None:
    # Processes of their own, with little in them, so that forks are quick.
    command = [sys.executable, __file__, str(tmp_path)]
    lanes = [
        subprocess.Popen(
            [*command, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        for seed in range(LANES)
    ]
    rounds = writes = 0
    for process in lanes:
        output, errors = process.communicate(timeout=280)
        assert process.returncode == 0, errors
        found = output.split()
        rounds += int(found[0])
        writes += int(found[1])
    assert rounds == 200
    # Enough was told for the test to mean something.
    assert writes > 40


if __name__ == "__main__":
    print(*lane(Path(sys.argv[1]), int(sys.argv[2])))
