"""Writing streams: a value much larger than the memory that writing it takes."""

from __future__ import annotations

import subprocess
import sys

from workers import ENVIRONMENT

import lacus

PUT = """
import sys, numpy as np, lacus
def anonymous():
    # What the process has of its own, mapped files left out; the peak is not kept, so it is looked at often.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))
import threading
peak, done = 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.005):
        peak = max(peak, anonymous())
# 2 GiB that are one page over and over, so that the input itself takes nothing.
page = np.random.default_rng(0).integers(0, 256, 1 << 16, dtype=np.uint8)
value = np.broadcast_to(page, (1 << 15, 1 << 16))
ds = lacus.open(sys.argv[1])
ds["warm"] = page
before = anonymous()
watcher = threading.Thread(target=watch)
watcher.start()
ds.put("x", value, layout="dense", compression="zstd:1")
done.set()
watcher.join()
print((peak - before) >> 20)
assert np.array_equal(ds["x"][12345], page)
"""


def test_a_put_of_2_gib(ds: lacus.Dataset) -> None:
    command = [sys.executable, "-c", PUT, ds.url]
    found = subprocess.run(command, capture_output=True, text=True, timeout=240, env=ENVIRONMENT)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) < 512, f"{found.stdout} MiB"
