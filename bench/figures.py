"""The figures Lacus has set itself, each computed from a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from memory import LIMIT_MIB

LAYOUTS = ("COO", "CSR", "CSC", "CSF", "BSGS")
COMPRESSING_PEERS = ("zarr", "tensorstore", "tiledb", "lance")


@dataclass(frozen=True)
class Figure:
    """A promise and what became of it; `met` is None where the run cannot tell."""

    promise: str
    goal: str
    found: str
    met: bool | None


def figures(run: dict[str, Any]) -> list[Figure]:
    """All figures, in order, of a run as plain data."""
    workloads = {workload["key"]: Rows(workload) for workload in run["workloads"]}
    found: list[Figure] = []
    found += _dense(workloads["dense"]) if "dense" in workloads else [_missing("dense photos")]
    found += _sparse(workloads["sparse"]) if "sparse" in workloads else [_missing("Uber tensor")]
    found += _samples(workloads["samples"]) if "samples" in workloads else [_missing("labelled files")]
    found += _query(workloads) if "pictures" in workloads else [_missing("questions")]
    found += _memory(run["memory"]) if run.get("memory") else [_missing("memory of a put")]
    return found


class Rows:
    """The rows of a workload by name."""

    def __init__(self, workload: dict[str, Any]) -> None:
        self.all = workload["rows"]
        self._by_name = {row["name"]: row for row in self.all}

    def time(self, name: str, operation: str) -> float | None:
        row = self._by_name.get(name)
        return row and time_of(row, operation)

    def bytes(self, name: str) -> int | None:
        row = self._by_name.get(name)
        return row and row["stored_bytes"]

    def of(self, family: str, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.all if row["family"] == family and row["kind"] == kind]

    def limit(self, operation: str) -> float | None:
        return self.time("limit: pwrite, pread", operation)


def time_of(row: dict[str, Any], operation: str) -> float | None:
    """The median of an operation, if all of its results were right."""
    found = row["seconds"].get(operation)
    return median(found) if found and operation not in row["failures"] else None


def _dense(rows: Rows) -> Iterator[Figure]:
    titles = {"write": "write", "read": "whole read", "slices": "ten slices of 20"}
    raw = "Lacus, compression=None"
    for operation, title in titles.items():
        limit = rows.limit(operation)
        against = "preallocated pwrite" if operation == "write" else "pread into a reused buffer"
        yield _at_most(f"photos, compression=None: {title}", 2, _ratio(rows.time(raw, operation), limit), f"× {against}")
        if operation != "write":
            into = _ratio(rows.time(f"{raw}, read_into", operation), limit)
            yield _at_most(f"photos, compression=None: {title} by read_into", 2, into, f"× {against}")
    for operation, title in titles.items():
        lacus = rows.time('Lacus, compression="lz4"', operation)
        for peer in COMPRESSING_PEERS:
            for row in rows.of(peer, "compressed"):
                ratio = _ratio(lacus, time_of(row, operation))
                yield _at_most(f"photos, lz4: {title}", 1, ratio, f"× {row['name']}")


def _sparse(rows: Rows) -> Iterator[Figure]:
    torch = "torch.save, torch.load"
    whole = rows.bytes(torch)
    for layout in LAYOUTS:
        yield _at_most(f"Uber tensor, {layout}: size", 13, _percent(rows.bytes(f"Lacus, {layout}"), whole), "% of torch")
    default, size = "Lacus, default", 'Lacus, optimize="size"'
    yield _at_most("Uber tensor, default: size", 3.4, _percent(rows.bytes(default), whole), "% of torch")
    yield _at_most('Uber tensor, optimize="size": size', 2.5, _percent(rows.bytes(size), whole), "% of torch")
    slices = rows.time(default, "slices")
    faster = _ratio(rows.time(torch, "slices"), slices)
    yield Figure(
        "Uber tensor, default: slice [i] faster than torch.load and select",
        "≥ 20 ×",
        "not measured" if faster is None else f"{faster:.1f} ×",
        None if faster is None else faster >= 20,
    )
    yield _at_most("Uber tensor, default: slice [i]", 1, _ratio(slices, rows.time("TileDB", "slices")), "× TileDB")
    for operation, title in (("write", "write"), ("read", "whole read")):
        ratio = _ratio(rows.time(default, operation), rows.time(torch, operation))
        yield _at_most(f"Uber tensor, default: {title}", 1, ratio, "× torch")


def _samples(rows: Rows) -> Iterator[Figure]:
    lacus = "Lacus, from_folder"
    for peer in ("Lance, binary column", "Deep Lake, image column"):
        ratio = _ratio(rows.time(lacus, "write"), rows.time(peer, "write"))
        yield _at_most("labelled files: import", 1, ratio, f"× {peer}")
    ratio = _ratio(rows.time(lacus, "batches"), rows.time("Lance, binary column", "batches"))
    yield _at_most("labelled files: 256 random rows", 1, ratio, "× Lance's take")
    ratio = _ratio(rows.time(lacus, "singles"), rows.limit("singles"))
    yield _at_most("labelled files: one random file", 2, ratio, "× reading the file itself")


def _query(workloads: dict[str, Rows]) -> Iterator[Figure]:
    pictures, tpch, numbers = workloads["pictures"], workloads["tpch"], workloads["numbers"]
    for operation, title in (("rows", "which rows"), ("pictures", "rows and pictures")):
        for peer in ("Lance", "DuckDB on Parquet", "polars on Parquet", "Deep Lake"):
            ratio = _ratio(pictures.time("Lacus", operation), pictures.time(peer, operation))
            yield _at_most(f"query by metadata: {title}", 1, ratio, f"× {peer}")
    ratio = _ratio(tpch.time("Lacus", "all"), tpch.time("DataFusion on Parquet", "all"))
    yield _at_most("TPC-H, all queries", 2, ratio, "× DataFusion on Parquet")
    ratio = _ratio(tpch.time("Lacus", "dates"), tpch.time("DataFusion on Parquet", "dates"))
    yield _at_most("TPC-H, queries that zone maps can help", 1, ratio, "× DataFusion on Parquet")
    for operation, title in (("filter", "filter"), ("groups", "group-by")):
        ratio = _ratio(numbers.time("Lacus", operation), numbers.time("DuckDB on Parquet", operation))
        yield _at_most(f"rows of numbers: {title}", 1.5, ratio, "× DuckDB on Parquet")
    for operation, title, most in (("import", "import lacus", 200), ("first", "first query on a warm dataset", 30)):
        seconds = pictures.time("Lacus", operation)
        yield _at_most(title, most, None if seconds is None else seconds * 1000, "ms")


def _memory(entries: list[dict[str, Any]]) -> Iterator[Figure]:
    for entry in entries:
        what = f"put of a mapped file of {entry['input_gb']:.1f} GB, compression {entry['compression']}: memory"
        yield _at_most(what, LIMIT_MIB, entry["beyond_mib"], "MiB beyond the input")


def _at_most(promise: str, goal: float, found: float | None, unit: str) -> Figure:
    if found is None:
        return Figure(promise, f"≤ {goal} {unit}", "not measured", None)
    digits = 0 if goal > 100 else 2
    return Figure(promise, f"≤ {goal} {unit}", f"{found:.{digits}f}", found <= goal)


def _missing(what: str) -> Figure:
    return Figure(what, "", "not run", None)


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other


def _percent(part: int | None, whole: int | None) -> float | None:
    ratio = _ratio(part, whole)
    return None if ratio is None else 100 * ratio
