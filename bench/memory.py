"""How much memory a put needs beyond its input, which is a file mapped into memory.

    python bench/memory.py --gb 10

Counted is the process's own memory (`RssAnon`), sampled every few milliseconds while the put runs; pages of mapped
files are the input's and can be dropped at any time. Each put runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import remove, say

LIMIT_MIB = 512
COMPRESSIONS = ("none", "auto", "zstd")
SAMPLE_SECS = 0.002


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=2.0, help="size of the input (2)")
    parser.add_argument("--directory", type=Path, default=Path(".cache/bench"), help="where files are made")
    parser.add_argument("--put", nargs=3, metavar=("INPUT", "OUTPUT", "COMPRESSION"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.put:
        print(json.dumps(_put(Path(args.put[0]), Path(args.put[1]), args.put[2])))
        return
    for found in measure(args.gb, args.directory):
        verdict = "within" if found["beyond_mib"] <= LIMIT_MIB else "MORE THAN"
        print(
            f"compression {found['compression']:5}  {found['input_gb']:.1f} GB in {found['seconds']:6.1f} s, "
            f"at most {found['beyond_mib']:.0f} MiB beyond the input: {verdict} {LIMIT_MIB} MiB"
        )


def measure(gigabytes: float, directory: Path) -> list[dict[str, Any]]:
    """A put with each compression; each entry has `compression`, `input_gb`, `seconds` and `beyond_mib`."""
    directory.mkdir(parents=True, exist_ok=True)
    source, target = directory / "mapped.npy", directory / "mapped.lacus"
    found = []
    try:
        _make(source, gigabytes)
        for compression in COMPRESSIONS:
            remove(target)
            say(f"put of a mapped file of {gigabytes} GB, compression {compression}")
            command = [sys.executable, __file__, "--put", str(source), str(target), compression]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found.append(json.loads(done.stdout))
    finally:
        remove(source)
        remove(target)
    return found


def _make(path: Path, gigabytes: float) -> None:
    """A float32 array of the wanted size that compresses a little, as measurements do."""
    rng = np.random.default_rng(1)
    item = 256 * 1024
    count = max(1, round(gigabytes * 1e9 / (item * 4)))
    block = (rng.standard_normal((min(32, count), 256, 1024), np.float32) * 1000).round() / 8
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(count, 256, 1024))
    for start in range(0, count, len(block)):
        part = block[: count - start]
        out[start : start + len(part)] = part + np.float32(start)
    out.flush()


def _put(source: Path, target: Path, compression: str) -> dict[str, Any]:
    import lacus

    value = np.load(source, mmap_mode="r")
    ds = lacus.create(target)
    before = _own_bytes()
    peak, done = before, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(SAMPLE_SECS):
            peak = max(peak, _own_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    ds.put("value", value, compression=compression)
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    for place in {0, len(value) // 2, len(value) - 1}:
        if not np.array_equal(ds["value"][place], value[place]):
            raise AssertionError(f"item {place} is not what was put")
    return {
        "compression": compression,
        "stored_as": ds["value"].compression,
        "input_gb": value.nbytes / 1e9,
        "seconds": seconds,
        "beyond_mib": (peak - before) / 2**20,
    }


def _own_bytes() -> int:
    """The process's memory that is no file's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no RssAnon")


if __name__ == "__main__":
    main()
