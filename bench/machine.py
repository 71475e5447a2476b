"""What a run ran on, as far as it matters for its figures."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe_machine(directory: Path) -> dict[str, str]:
    """Facts by name; `directory` is where the files are written."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": f"{_cpu_model()}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "files on": _filesystem(directory),
        "Python": platform.python_version(),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _filesystem(directory: Path) -> str:
    """The kind of filesystem that holds a directory."""
    best = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind = line.split()[:3]
        if directory.resolve().is_relative_to(mount) and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]
