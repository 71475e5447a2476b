"""Ctrl-C ends a call soon, with KeyboardInterrupt; what was not acknowledged is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from test_object_stores import FakeS3
from workers import ENVIRONMENT

import lacus

# A value that takes minutes to write and no memory: one page of numbers, over and over.
START = """
import signal, sys, time, numpy as np, lacus
signal.signal(signal.SIGINT, signal.default_int_handler)
def slow(rows=200_000):
    page = np.random.default_rng(0).integers(0, 200, 1 << 16, dtype=np.uint8)
    return np.broadcast_to(page, (rows, 1 << 16))
def wait_for_int(call):
    print("started", flush=True)
    start = time.monotonic()
    try:
        call()
        print("finished")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    return time.monotonic() - start
"""

PUT = START + """
ds = lacus.open(sys.argv[1])
for options in ({"compression": "zstd:12", "layout": "dense"}, {"compression": None, "layout": "dense"}):
    wait_for_int(lambda: ds.put("big", slow(), **options))
    assert ds.version == 1 and ds.keys() == ["x"], ds
ds["y"] = 2
print("version", ds.version)
"""

OPEN = START + """
options = {"aws_endpoint_url": sys.argv[1], "aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "r"}
wait_for_int(lambda: lacus.open("s3://bucket/x", storage_options=options))
"""

HANDLER = START + """
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
ds = lacus.open(sys.argv[1])
wait_for_int(lambda: ds.put("big", slow(20_000), compression="zstd:9", layout="dense"))
assert heard and ds.version == 2 and ds["big"].shape == (20_000, 1 << 16)
print("heard")
"""


def interrupted(code: str, argument: str, times: int, after: float) -> str:
    """Runs `code`, sends SIGINT some time after each "started", returns its output."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", code, argument], stdout=subprocess.PIPE, stderr=errors, text=True, env=ENVIRONMENT
        )
        assert process.stdout is not None
        lines = []
        try:
            for _ in range(times):
                if process.stdout.readline() != "started\n":
                    break
                time.sleep(after)
                os.kill(process.pid, signal.SIGINT)
                lines.append(process.stdout.readline())
            lines.append(process.stdout.read())
            code_found = process.wait(60)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        errors.seek(0)
        assert code_found == 0, errors.read()
    return "".join(lines)


def test_a_put_is_cancelled_and_leaves_nothing(ds: lacus.Dataset) -> None:
    ds["x"] = 1
    before = sorted(Path(ds.url).rglob("*.parquet"))
    output = interrupted(PUT, ds.url, 2, 0.7)
    assert output == "interrupted\ninterrupted\nversion 2\n"
    assert ds.refresh() == 2 and ds.keys() == ["x", "y"]
    assert len(sorted(Path(ds.url).rglob("*.parquet"))) == len(before) + 1


def test_waiting_for_a_store_is_given_up() -> None:
    with FakeS3(answers="never") as server:
        output = interrupted(OPEN, server.endpoint, 1, 0.3)
    assert output == "interrupted\n"


def test_a_handler_that_does_not_raise_changes_nothing(ds: lacus.Dataset) -> None:
    ds["x"] = 1
    output = interrupted(HANDLER, ds.url, 1, 0.2)
    assert output == "finished\nheard\n"
