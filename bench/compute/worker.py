"""One contender in a process of its own, so that its threads and its memory are its own.

    python -m compute.worker TASK CONTENDER DIRECTORY DIVIDE

says that it is ready, and then runs once for each line it is given, telling how long it took, how much memory there
was at most, and where the results lie to be compared.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import importlib.metadata
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from compute.case import Case, Way, open_inputs, sketch
from compute.tasks import TASKS


def main() -> None:
    # What libraries print must not get between the lines of the conversation.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")

    def reply(**facts: Any) -> None:
        replies.write(json.dumps(facts) + "\n")
        replies.flush()

    key, contender, directory, divide = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    module_name, _, name = contender.partition(":")
    task = TASKS[key]
    try:
        module = importlib.import_module(f"compute.{module_name}")
        version = importlib.metadata.version(module.DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        version = "from sources, not a release build"
    except Exception as error:
        reply(absent=f"cannot be imported: {type(error).__name__}: {error}")
        return
    gc.collect()
    # Before the inputs: they count, once each.
    base = _status("VmRSS")
    try:
        case = Case(task, task.scaled(divide), directory, divide, open_inputs(task, directory))
        way: Way = module.ways(case)[name]()
    except Exception as error:
        reply(failed=_told(error))
        return
    reply(
        ready=True, version=f"{module.DISTRIBUTION} {version}", note=way.note, same_work=way.same_work,
        has_children=way.has_children,
    )
    out = directory / f"result-{os.getpid()}.npz"
    for line in sys.stdin:
        if line.strip() == "end":
            break
        try:
            reply(**_once(way, base, out))
        except Exception as error:
            reply(failed=_told(error))
    way.close()
    out.unlink(missing_ok=True)


def _once(way: Way, base: int, out: Path) -> dict[str, Any]:
    gc.collect()
    gc.disable()
    _forget_peak()
    start = time.perf_counter()
    found = way.run()
    seconds = time.perf_counter() - start
    peak = _status("VmHWM")
    gc.enable()
    gathered = way.gather(found)
    np.savez(out, **{name: sketch(value) for name, value in gathered.items()})
    return {
        "seconds": seconds,
        "peak_bytes": peak - base,
        "rss_bytes": peak,
        "bits": _digest(gathered),
        "result": str(out),
        "facts": way.facts(),
    }


def _digest(arrays: dict[str, Any]) -> str:
    """Of all bits of all dense results."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        if isinstance(arrays[name], np.ndarray):
            digest.update(memoryview(np.ascontiguousarray(arrays[name]).reshape(-1)).cast("B"))
    return digest.hexdigest()


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        # Where this is not allowed, the peak is that of all runs so far.
        pass


def _status(what: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {what}")


def _told(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    main()
