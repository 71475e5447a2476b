"""Lacus against its peers and against the physical limits.

    python bench/run.py                         everything, tables on the terminal
    python bench/run.py dense sparse            some parts
    python bench/run.py compute --tasks fused   one task of the computing part
    python bench/run.py --quick                 small sizes, to see whether everything works
    python bench/run.py --write-docs            and docs/benchmarks.md

`make bench` installs the peers and a release build of Lacus first.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import compute
import compute.report
import limits
import memory
import peers
import report
from compute.tasks import TASKS
from data import ROOT
from harness import measure, remove, say
from machine import describe_machine

WORKLOADS = ("dense", "sparse", "checkpoint", "samples", "search")
PARTS = (*WORKLOADS, "memory", "compute")
DOCS = ROOT / "docs" / "benchmarks.md"


def main() -> int:
    args = _arguments()
    if args.from_json:
        run = json.loads(args.from_json.read_text())
    else:
        run = _run(args)
    if args.json:
        args.json.write_text(json.dumps(run, indent=1))
    print(report.text(run))
    if args.write_docs:
        DOCS.write_text(report.page(run, DOCS.read_text() if DOCS.is_file() else ""))
    return 1 if _lacus_failed(run) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Lacus against its peers and against the physical limits.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"some of {', '.join(PARTS)}; all unless told")
    parser.add_argument("--only", type=_parts, metavar="PART,…", help="the same with commas")
    parser.add_argument("--repeat", type=int, help="counted repetitions (7; quick: 1)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see whether everything works")
    parser.add_argument("--gb", type=float, help="size of the input of the memory part (2; quick: 0.2)")
    parser.add_argument("--tasks", type=_tasks, default=tuple(TASKS), help=f"of computing, some of {','.join(TASKS)}")
    parser.add_argument("--divide", type=int, help="by how much extents of computing are divided (1; quick: 8)")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds that a run of computing may take (1800)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured to a file")
    parser.add_argument("--from-json", type=Path, metavar="FILE", help="show such a file instead of running")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--directory", type=Path, default=ROOT / ".cache" / "bench", help="where files are made")
    args = parser.parse_args()
    try:
        args.only = _known(args.parts, PARTS) if args.parts else args.only or PARTS
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    return args


def _parts(text: str) -> tuple[str, ...]:
    return _known(text.split(","), PARTS)


def _tasks(text: str) -> tuple[str, ...]:
    return _known(text.split(","), tuple(TASKS))


def _known(wanted: Sequence[str], there: tuple[str, ...]) -> tuple[str, ...]:
    """What is wanted, in the order of what there is."""
    if unknown := set(wanted) - set(there):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: there are {', '.join(there)}")
    return tuple(name for name in there if name in wanted)


def _run(args: argparse.Namespace) -> dict[str, Any]:
    """Runs what was asked for; what was found, as plain data."""
    # They are about settings we leave at their defaults.
    warnings.filterwarnings("ignore", module="torch|peers")
    import lacus_peer

    repeat = args.repeat or (1 if args.quick else 7)
    remove(args.directory)
    args.directory.mkdir(parents=True)
    machine = describe_machine(args.directory)
    loaded = [peers.load(name) for name in peers.NAMES]
    absent = [{"name": found.name, "reason": found.reason} for found in loaded if isinstance(found, peers.Absent)]
    for found in absent:
        say(f"{found['name']}: {found['reason']}")
    adapters = [limits, lacus_peer, *(found for found in loaded if not isinstance(found, peers.Absent))]
    workloads = []
    for key in (key for key in WORKLOADS if key in args.only):
        workload = importlib.import_module(f"workloads.{key}").workload(args.quick)
        contenders = [found for adapter in adapters if hasattr(adapter, key) for found in getattr(adapter, key)()]
        rows = measure(workload, contenders, repeat, args.directory)
        workloads.append(
            {
                "key": key,
                "title": workload.title,
                "facts": workload.facts,
                "is_real": workload.is_real,
                "operations": [{"key": found.key, "title": found.title} for found in workload.operations],
                "rows": rows,
            }
        )
    gigabytes = args.gb or (0.2 if args.quick else 2.0)
    used = memory.measure(gigabytes, args.directory) if "memory" in args.only else []
    divide = args.divide or (8 if args.quick else 1)
    computed = []
    if "compute" in args.only:
        asked = args.repeat or (1 if args.quick else None)
        computed = compute.measure(args.tasks, divide, asked, args.timeout, args.directory)
    remove(args.directory)
    return {
        "machine": machine,
        "versions": {adapter.DISTRIBUTION: peers.version(adapter) for adapter in adapters[1:]},
        "settings": {"repeat": repeat, "quick": args.quick, "divide": divide},
        "workloads": workloads,
        "memory": used,
        "compute": computed,
        "absent": absent,
        "left_out": [part for part in PARTS if part not in args.only],
    }


def _lacus_failed(run: dict[str, Any]) -> bool:
    stored = any(
        row["failures"] for workload in run["workloads"] for row in workload["rows"] if row["family"] == "lacus"
    )
    return stored or compute.report.lacus_failed(run.get("compute", []))


if __name__ == "__main__":
    sys.exit(main())
