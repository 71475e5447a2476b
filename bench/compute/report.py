"""What was found about computing, as figures, text tables and a section of `docs/benchmarks.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from figures import Figure

Tasks = Sequence[dict[str, Any]]

#: Around the section, so that it can be kept when only the rest of the page is written again, and the other way round.
START, END = "<!-- computing -->", "<!-- end of computing -->"
DASH = "–"
GIB, MIB = 2**30, 2**20
#: Above it the machine is busy: threads that wait actively for each other, as torch's do, were seen to take 400 times as
#: long for small things when two cores had a load of five.
BUSY_LOAD = 0.7

INTRODUCTION = """\
Each contender runs in a process of its own with two threads, and those of a task take turns: one run that is not \
counted, then those that are, in an order that changes; the figures are medians. Inputs are in memory, shared by all, \
unless the task says otherwise. Memory is the most that a process held since before it opened its inputs, which count \
once. Every result is compared with a peer's: large matrices by what they do to a vector. Run again by

```
make bench BENCH_ARGS="compute --write-docs"             # this section
make bench BENCH_ARGS="compute --tasks fused --repeat 9"  # one task, a table on the terminal
make bench BENCH_ARGS="compute --quick"                   # extents divided by 8: does everything still work?
```"""


# ---------------------------------------------------------------- figures


class _Found:
    """What was found, by task and contender."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = {task["key"]: task for task in tasks}

    def row(self, key: str, name: str) -> dict[str, Any]:
        for row in self.tasks.get(key, {"rows": []})["rows"]:
            if row["name"] == name and not row["failure"] and row["seconds"]:
                return row
        return {}

    def seconds(self, key: str, name: str = "Lacus") -> float | None:
        found = self.row(key, name).get("seconds")
        return median(found) if found else None

    def ratio(self, key: str, peer: str, name: str = "Lacus") -> float | None:
        """How many times as long Lacus takes."""
        ours, theirs = self.seconds(key, name), self.seconds(key, peer)
        return None if ours is None or not theirs else ours / theirs

    def rate(self, key: str, name: str = "Lacus") -> float | None:
        seconds = self.seconds(key, name)
        return None if not seconds else self.tasks[key]["work"] / seconds / 1e9


def figures(tasks: Tasks) -> list[Figure]:
    """The figures that Lacus has set itself for computing, of the tasks that were run."""
    found = _Found(tasks)
    return [figure for key, figure in _figures(found) if key in found.tasks]


def _figures(found: _Found) -> Iterator[tuple[str, Figure]]:
    def rate(key: str, peer: str) -> float | None:
        ratio = found.ratio(key, peer)
        return None if ratio is None else 1 / ratio

    yield "product_general", _at_least("product of matrices: rate", 0.95, rate("product_general", "numpy"), "× numpy's")
    yield "product_general", _at_least("product of matrices: rate", 1, rate("product_general", "Dask"), "× Dask's")
    held = _held(found, "product_general")
    yield "product_general", _at_most("product of matrices: peak memory", 1.1, held, "× inputs and output")
    for key, title in (("product_common", "a long inner axis"), ("product_outer", "two long outer axes")):
        yield key, _at_least(f"product with {title}: rate", 0.9, rate(key, "numpy"), "× numpy's")
    yield from (("product_stored", figure) for figure in _stored(found))
    yield "fused", _at_most("2a + 3b − ab: time", 1, found.ratio("fused", "numexpr"), "× numexpr's")
    share = found.ratio("regression", "copy loop")
    yield "regression", _at_least("linear regression: bandwidth", 0.7, share and 1 / share, "× a copy loop's")
    yield "sparse_product", _at_least("sparse × sparse: rate", 2, rate("sparse_product", "scipy"), "× scipy's")
    for key, title in (("pagerank_slashdot", "a real graph"), ("pagerank_large", "1.6e7 links")):
        yield key, _at_most(f"PageRank, {title}: time", 1, found.ratio(key, "scipy"), "× scipy's")
    yield "factorisation", _at_most("Funk factorisation: memory", 0.25, _of_dense(found), "× one array of all ratings")
    yield "factorisation", _at_most(
        "Funk factorisation: time", 1, found.ratio("factorisation", "numpy, all of P·Q"), "× numpy's with all ratings"
    )
    yield "shortest_paths", _at_least("min-plus products: rate", 10, found.rate("shortest_paths"), "GFLOP/s")
    for key, title in (("network_speech", "few classes"), ("network_labels", "many classes")):
        yield key, _at_most(f"two-layer network, {title}: time", 1.3, found.ratio(key, "torch"), "× torch's")
        off = found.row(key, "Lacus").get("off")
        yield key, _at_most(f"two-layer network, {title}: loss and weights differ by", 1e-4, off, "of the largest")
    yield "overhead", _at_most("overhead of a task", 20, _overhead(found, "Lacus"), "µs")


def _stored(found: _Found) -> Iterator[Figure]:
    key, capped = "product_stored", "Lacus, from storage in 2 GiB"
    yield _at_most(
        "product out of storage in 2 GiB: time", 1.5, found.ratio(key, "Lacus, in memory", capped), "× in memory"
    )
    rss = found.row(key, capped).get("rss_bytes")
    yield _at_most("product out of storage in 2 GiB: resident", 2304, rss and rss / MIB, "MiB")
    bits = [found.row(key, name).get("bits") for name in (capped, "Lacus, from storage", "Lacus, in memory")]
    known = None not in bits
    yield Figure(
        "product out of storage in 2 GiB: bits", "as without a limit and in memory",
        ("the same" if len(set(bits)) == 1 else "others") if known else "not measured",
        len(set(bits)) == 1 if known else None,
    )


def _held(found: _Found, key: str) -> float | None:
    """Peak memory as a share of inputs and output."""
    peak = found.row(key, "Lacus").get("peak_bytes")
    if peak is None:
        return None
    sizes = found.tasks[key]["sizes"]
    return peak / (found.tasks[key]["input_bytes"] + 8 * sizes["n"] * sizes["m"])


def _of_dense(found: _Found) -> float | None:
    """Peak memory beyond the inputs as a share of all ratings, known or not."""
    peak = found.row("factorisation", "Lacus").get("peak_bytes")
    if peak is None:
        return None
    task = found.tasks["factorisation"]
    return max(0, peak - task["input_bytes"]) / (8 * task["sizes"]["n"] ** 2)


def _overhead(found: _Found, name: str) -> float | None:
    """Microseconds for each task. Not known where rounds of the loop were no tasks of their own."""
    seconds = found.seconds("overhead", name)
    if seconds is None:
        return None
    tasks = found.row("overhead", name)["facts"].get("tasks", 0)
    return seconds * 1e6 / tasks if tasks >= found.tasks["overhead"]["sizes"]["rounds"] else None


def _at_most(promise: str, goal: float, found: float | None, unit: str) -> Figure:
    told = "not measured" if found is None else _short(found)
    return Figure(promise, f"≤ {goal:g} {unit}", told, None if found is None else found <= goal)


def _at_least(promise: str, goal: float, found: float | None, unit: str) -> Figure:
    told = "not measured" if found is None else _short(found)
    return Figure(promise, f"≥ {goal:g} {unit}", told, None if found is None else found >= goal)


def _short(number: float) -> str:
    if number and abs(number) < 0.01:
        return f"{number:.1e}"
    return f"{number:.2f}" if abs(number) < 100 else f"{number:.0f}"


def lacus_failed(tasks: Tasks) -> bool:
    """Whether Lacus could not do something, or did something else."""
    return any(row["failure"] or row["absent"] for task in tasks for row in task["rows"] if row["family"] == "lacus")


def not_run(tasks: Tasks) -> list[str]:
    """Everybody who was to take part and did not, with the reason; who is absent from all is told once."""
    found: dict[str, None] = {}
    for task in tasks:
        for row in task["rows"]:
            if row["absent"]:
                found[f"{row['family']}: {row['absent']}"] = None
            elif row["failure"]:
                found[f"{row['name']}, {task['key']}: {row['failure']}"] = None
    return list(found)


# ---------------------------------------------------------------- tables


HEADER = ["", "time", "rate", "× Lacus", "memory"]


def _title(task: dict[str, Any]) -> str:
    sizes = ", ".join(f"{name} = {size:,}" for name, size in task["sizes"].items())
    return f"{task['title'][0].upper()}{task['title'][1:]}: {sizes}"


def _lines(task: dict[str, Any]) -> list[list[str]]:
    ours = next((_median(row) for row in task["rows"] if row["family"] == "lacus" and _median(row)), None)
    lines = []
    for row in task["rows"]:
        if row["absent"] or row["failure"]:
            lines.append([row["name"], "absent" if row["absent"] else "failed", DASH, DASH, DASH])
            continue
        seconds = _median(row)
        if seconds is None:
            continue
        rate = f"{task['work'] / seconds / 1e9:.3g} {task['unit']}" if task["unit"] and row["same_work"] else DASH
        if task["key"] == "overhead":
            rate = f"{seconds * 1e6 / task['sizes']['rounds']:.1f} µs a round"
        ratio = f"{seconds / ours:.2f}" if ours else DASH
        lines.append([row["name"], _seconds(seconds), rate, ratio, _bytes(row["peak_bytes"])])
    return lines


def _median(row: dict[str, Any]) -> float | None:
    return median(row["seconds"]) if row["seconds"] and not row["failure"] else None


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def _bytes(count: int | None) -> str:
    if count is None:
        return DASH
    return f"{count / GIB:.2f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"


def text(tasks: Tasks) -> list[str]:
    """A table of each task, for a terminal."""
    tables = []
    for task in tasks:
        lines = [HEADER, *_lines(task)]
        widths = [max(len(line[place]) for line in lines) for place in range(len(HEADER))]
        table = [
            "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zip(line, widths)))
            for line in lines
        ]
        tables.append("\n".join([_title(task), *table]))
    return tables


def section(run: dict[str, Any]) -> str:
    """The section of the page."""
    from report import markdown_figures

    tasks: Tasks = run["compute"]
    parts = [START, "## Computing", INTRODUCTION]
    if run["settings"].get("divide", 1) != 1:
        parts.append(
            f"**Extents were divided by {run['settings']['divide']}: the figures show that it works, not how fast.**"
        )
    if warned := warning(run):
        parts.append(f"**{warned}**")
    parts.append(markdown_figures(figures(tasks)))
    for task in tasks:
        parts.append(f"### {_title(task)}")
        rows = [HEADER, ["---", *["---:"] * (len(HEADER) - 1)], *_lines(task)]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
        notes = [f"- {row['name']}: {row['note']}" for row in task["rows"] if row["note"]]
        if notes:
            parts.append("\n".join(notes))
    versions = sorted({row["version"] for task in tasks for row in task["rows"] if row["version"]})
    machine = ", ".join(f"{name} {value}" for name, value in run["machine"].items())
    parts.append(f"Machine: {machine}. Versions: {', '.join(versions)}.")
    if missing := not_run(tasks):
        parts.append("Not run:\n\n" + "\n".join(f"- {line}" for line in missing))
    return "\n\n".join([*parts, END])


def warning(run: dict[str, Any]) -> str:
    """What is to be said about figures of a machine that had something else to do."""
    load = run["machine"].get("load at the start", "0")
    if float(load) <= BUSY_LOAD:
        return ""
    return f"The machine was busy (load {load}): the figures say little, and flatter Lacus where peers' threads wait actively."


def section_of(page: str) -> str:
    """The section as it is in a page, or nothing."""
    _, found, rest = page.partition(START)
    return f"{START}{rest.partition(END)[0]}{END}" if found else ""


def without_section(page: str) -> str:
    """A page without it."""
    return page.replace(section_of(page), "").rstrip("\n") + "\n" if section_of(page) else page
