"""A run as text tables for the terminal, and as the page `docs/benchmarks.md`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles
from typing import Any

import compute.report
from figures import Figure, figures, time_of

#: The row that others of its kind are compared with, by workload; the first one that was measured counts.
REFERENCES = {
    "dense": {"raw": "Lacus, compression=None", "compressed": 'Lacus, compression="lz4"'},
    "sparse": {"raw": "Lacus, default"},
    "checkpoint": {"raw": "Lacus, compression=None"},
    "saves": {"raw": "lacus.save, lacus.load"},
    "samples": {"raw": "Lacus, from_folder"},
    "loader": {"raw": "Lacus, shuffle=True"},
    "embeddings": {"raw": "Lacus, shuffle=True"},
    "pictures": {"raw": "Lacus"},
    "tpch": {"raw": "Lacus"},
    "numbers": {"raw": "Lacus"},
}
DASH = "–"


def text(run: dict[str, Any]) -> str:
    """All tables of a run, for a terminal."""
    parts = [_text_workload(workload) for workload in run["workloads"]]
    if run.get("memory"):
        lines = [
            f"  compression {entry['compression']:5}  {entry['beyond_mib']:6.0f} MiB  {entry['seconds']:6.1f} s"
            for entry in run["memory"]
        ]
        size = run["memory"][0]["input_gb"]
        parts.append("\n".join([f"memory beyond the input of a put of a mapped file of {size:.1f} GB", *lines]))
    if has_storage(run):
        parts.append(text_figures(figures(run)))
    if run.get("compute"):
        parts += compute.report.text(run["compute"])
        parts.append(text_figures(compute.report.figures(run["compute"])))
        if warned := compute.report.warning(run):
            parts.append(warned)
    missing = not_run(run)
    parts.append("\n".join(["not run", *(f"  {line}" for line in missing or ["nothing: all took part"])]))
    return "\n\n".join(parts)


def page(run: dict[str, Any], before: str) -> str:
    """The page for the documentation. What was not run stays as it was before: storage or computing."""
    computed = compute.report.section(run) if run.get("compute") else compute.report.section_of(before)
    rest = markdown(run) if has_storage(run) or not before else compute.report.without_section(before)
    return rest.rstrip("\n") + "\n" + (f"\n{computed}\n" if computed else "")


def has_storage(run: dict[str, Any]) -> bool:
    """Whether anything but computing was run."""
    return bool(run["workloads"] or run.get("memory"))


def markdown(run: dict[str, Any]) -> str:
    """The page for the documentation, all but computing."""
    settings = run["settings"]
    parts = [
        "# Benchmarks",
        "Written by the run itself; do not edit. To repeat it, on a machine with nothing else to do:",
        "```\nmake bench BENCH_ARGS=--write-docs                   # everything, and this page\n"
        'make bench BENCH_ARGS="--only sparse --repeat 9"      # one workload, tables on the terminal\n'
        "make bench BENCH_ARGS=--quick                         # small sizes: does everything still work?\n"
        ".venv-bench/bin/python bench/memory.py --gb 10        # memory of a put\n```",
        f"All contenders run in one process: one run that is not counted, then {settings['repeat']} that are, taking turns "
        "in an order that changes; the figures are medians. Files are in the page cache, what was written is "
        "flushed before the next one's turn, and every result is compared with what was stored. Reads are timed "
        "on a handle that is open and has read once, unless the column says otherwise. Stored sizes count all "
        "files, logs included. *Limit* is the same bytes through bare system calls: `pwrite` into a preallocated "
        "file, `pread` into a buffer that was used before.",
        "The adapters, one file per peer, are in `bench/peers`.",
    ]
    if settings["quick"]:
        parts.append("**These are figures of a quick run with small sizes: they show that it works, not how fast.**")
    parts += ["## Figures", markdown_figures(figures(run))]
    parts.append(
        "Promises that are counted rather than timed (requests and bytes of a slice, of opening, of rewriting a chunk) "
        "and those about killed and racing processes are tests: `make test`."
    )
    for workload in run["workloads"]:
        parts += _markdown_workload(workload)
    if run.get("memory"):
        parts += ["## Memory of a put", _markdown_memory(run["memory"])]
    parts += ["## Machine and versions", _markdown_facts(run), "## Not run", _markdown_missing(run)]
    return "\n\n".join(parts) + "\n"


def not_run(run: dict[str, Any]) -> list[str]:
    """Everybody who was to take part and did not, with the reason."""
    found = [f"{absent['name']}: {absent['reason']}" for absent in run["absent"]]
    for workload in run["workloads"]:
        for row in workload["rows"]:
            for operation, reason in row["failures"].items():
                found.append(f"{row['name']}, {workload['key']}, {operation}: {reason}")
    found += compute.report.not_run(run.get("compute", []))
    return found + [f"{name}: left out by --only" for name in run["left_out"]]


# ---------------------------------------------------------------- what the tables show


def _columns(workload: dict[str, Any]) -> list[tuple[str, str]]:
    return [("write", "write"), *((operation["key"], operation["title"]) for operation in workload["operations"])]


def _limit(workload: dict[str, Any], operation: str) -> float | None:
    for row in workload["rows"]:
        if row["family"] == "limit":
            return time_of(row, operation)
    return None


def _reference(workload: dict[str, Any], row: dict[str, Any], operation: str) -> float | None:
    wanted = REFERENCES[workload["key"]].get(row["kind"])
    for other in workload["rows"]:
        if other["name"] == wanted:
            return time_of(other, operation)
    return None


def _stored(workload: dict[str, Any], row: dict[str, Any]) -> str:
    """Bytes, as a share of the plainest file of the workload."""
    if row["stored_bytes"] is None:
        return DASH
    for other in workload["rows"]:
        if other["name"] == "torch.save, torch.load" and other["stored_bytes"]:
            return f"{100 * row['stored_bytes'] / other['stored_bytes']:.2f} %"
    return f"{row['stored_bytes'] / 1e6:.2f} MB"


def _over(time: float | None, base: float | None) -> str:
    return DASH if time is None or not base else _short(time / base)


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}"


def _spread(workload: dict[str, Any]) -> str:
    """How far repetitions lay apart: the middle half of them, as a share of the median, of the typical row."""
    found = []
    for row in workload["rows"]:
        for times in row["seconds"].values():
            if len(times) >= 4:
                low, middle, high = quantiles(times, n=4)
                found.append((high - low) / middle)
    return f"the middle half of a row's repetitions spans {100 * median(found):.0f} % of its median" if found else ""


# ---------------------------------------------------------------- text


def _text_workload(workload: dict[str, Any]) -> str:
    columns = _columns(workload)
    header = ["", "stored", "files"]
    for _, title in columns:
        header += [title, "×limit", "×Lacus"]
    lines = [header]
    for row in workload["rows"]:
        line = [row["name"], _stored(workload, row), str(row["files"] or DASH)]
        for key, _ in columns:
            time = time_of(row, key)
            failed = key in row["failures"]
            line.append("failed" if failed else DASH if time is None else f"{time * 1000:.2f} ms")
            line += [_over(time, _limit(workload, key)), _over(time, _reference(workload, row, key))]
        lines.append(line)
    title = f"{workload['title']}: {workload['facts']}; stored as a share of torch.save"
    return "\n".join([title, _aligned(lines), _spread(workload)]).rstrip()


def text_figures(found: Sequence[Figure]) -> str:
    lines = [[_verdict(figure), figure.promise, figure.goal, figure.found] for figure in found]
    return "figures\n" + _aligned(lines)


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    # Names to the left, numbers to the right.
    return "\n".join(
        "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(zip(line, widths)))
        for line in lines
    )


def _verdict(figure: Figure) -> str:
    return {True: "met", False: "NOT MET", None: "unknown"}[figure.met]


# ---------------------------------------------------------------- markdown


def markdown_figures(found: Sequence[Figure]) -> str:
    lines = ["| promise | goal | found | |", "|---|---|---|---|"]
    lines += [
        f"| {figure.promise} | {figure.goal} | {figure.found} | {'**not met**' if figure.met is False else _verdict(figure)} |"
        for figure in found
    ]
    return "\n".join(lines)


def _markdown_workload(workload: dict[str, Any]) -> list[str]:
    columns = _columns(workload)
    titles = " | ".join(title for _, title in columns)
    rule = "|---|" + "---:|" * (len(columns) + 1)
    limits, ratios = [f"| | stored | {titles} |", rule], [f"| | {titles} |", rule[:-5]]
    for row in workload["rows"]:
        times = [time_of(row, key) for key, _ in columns]
        if row["family"] == "limit":
            cells = [DASH if time is None else f"{time * 1000:.1f} ms" for time in times]
        else:
            cells = [_over(time, _limit(workload, key)) for time, (key, _) in zip(times, columns)]
        limits.append(f"| {row['name']} | {_stored(workload, row)} | {' | '.join(cells)} |")
        if row["family"] not in ("limit", "lacus"):
            cells = [_over(time, _reference(workload, row, key)) for time, (key, _) in zip(times, columns)]
            ratios.append(f"| {row['name']} | {' | '.join(cells)} |")
    notes = "\n".join(f"- {row['name']}: {row['note']}" for row in workload["rows"] if row["note"])
    references = " and ".join(dict.fromkeys(REFERENCES[workload["key"]].values()))
    title = workload["title"]
    spread = _spread(workload)
    return [
        f"## {title[0].upper()}{title[1:]}",
        f"Data: {workload['facts']}. Times the limit, which is given in milliseconds; stored as a share of `torch.save`"
        + (f"; {spread}." if spread else "."),
        "\n".join(limits),
        f"How many times as long the peers take as Lacus ({references}, like with like); above 1 Lacus is faster.",
        "\n".join(ratios),
        notes,
    ]


def _markdown_memory(entries: Sequence[dict[str, Any]]) -> str:
    lines = ["| compression | input | beyond the input | seconds |", "|---|---:|---:|---:|"]
    lines += [
        f"| {entry['compression']} | {entry['input_gb']:.1f} GB | {entry['beyond_mib']:.0f} MiB | {entry['seconds']:.1f} |"
        for entry in entries
    ]
    return "\n".join(lines)


def _markdown_facts(run: dict[str, Any]) -> str:
    facts = [f"- {name}: {value}" for name, value in run["machine"].items()]
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return "\n".join([*facts, f"- versions: {versions}"])


def _markdown_missing(run: dict[str, Any]) -> str:
    return "\n".join(f"- {line}" for line in not_run(run)) or "Everybody took part in everything."
