"""Processes that save checkpoints are killed at random moments: the last step that was acknowledged loads whole, always."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from multiprocessing.connection import Connection

import numpy as np
import pytest

import lacus

PROCESSES = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
#: `LACUS_TEST_LONG=1` is the number that was promised.
KILLS = 200 if os.environ.get("LACUS_TEST_LONG") else 12


def state(step: int) -> dict[str, object]:
    """All of it says which step it is; a part never changes."""
    return {
        "model": {f"w{i}": np.full((64, 100), step, np.int64) for i in range(6)},
        "frozen": np.arange(20_000),
        "tied": [np.full(10, step)] * 2,
        "step": step,
    }


def save_until_killed(url: str, start: int, in_background: bool, told: Connection) -> None:
    """Saves steps and tells each that was acknowledged."""
    told.send(start)
    step, handle = start, None
    while True:
        step += 1
        if in_background:
            after = lacus.save(state(step), url, step=step, wait=False, keep_last=4)
            if handle is not None:
                told.send(handle.result().step)
            handle = after
        else:
            told.send(lacus.save(state(step), url, step=step, keep_last=4).step)


def check(url: str, acknowledged: int) -> int:
    """The newest step, checked to be whole and to be no older than the one that was acknowledged."""
    found = lacus.load(url)
    step = int(found["step"])
    assert step >= acknowledged
    for name, value in found["model"].items():
        assert (value == step).all(), name
    assert (found["frozen"] == np.arange(20_000)).all() and (found["tied"][1] == step).all()
    if acknowledged:
        whole = lacus.load(url, step=acknowledged)
        assert whole["step"] == acknowledged and (whole["model"]["w5"] == acknowledged).all()
    return step


@pytest.mark.parametrize("in_background", [False, True])
def test_the_last_acknowledged_step_loads(url: str, in_background: bool) -> None:
    chance, step, told = random.Random(5 + in_background), 0, 0
    lacus.save(state(0), url, step=0)
    for turn in range(KILLS):
        ours, theirs = PROCESSES.Pipe(duplex=False)
        worker = PROCESSES.Process(target=save_until_killed, args=(url, step, in_background, theirs))
        worker.start()
        theirs.close()
        assert ours.poll(60)
        ours.recv()
        # Every other time it is let come to a step, however slow the machine is.
        assert turn % 2 or ours.poll(60)
        time.sleep(chance.random() * 0.4)
        worker.kill()
        worker.join()
        acknowledged = step
        while ours.poll(0):
            try:
                acknowledged = ours.recv()
                told += 1
            except EOFError:
                break
        ours.close()
        step = check(url, acknowledged)
    assert told >= KILLS / 2
    # And all goes on.
    lacus.save(state(step + 1), url, step=step + 1)
    assert lacus.load(url)["step"] == step + 1
    assert lacus.open(url).check().healthy
