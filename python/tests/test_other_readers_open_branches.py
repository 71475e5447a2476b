"""Which released readers open main, with and without deletion vectors, a branch, and a branch that was published: the table
in docs/history.md.

`LACUS_WRITE_DOCS=1` writes the table; otherwise it is compared with what is found. Readers that are not installed keep what
the table says of them.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import spark_session

import lacus

DOCUMENT = Path(__file__).parents[2] / "docs" / "history.md"
STATES = ("main", "main with deletion vectors", "a branch", "a published branch")


def _deltalake(path: str) -> int:
    import deltalake
    import pyarrow

    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    found = query.execute("SELECT SUM(int) AS s FROM t WHERE tensor = 'n' AND dtype IS NULL")
    return int(pyarrow.table(found.read_all()).to_pylist()[0]["s"])


def _polars(path: str) -> int:
    import polars as pl

    rows = pl.scan_delta(path).filter((pl.col("tensor") == "n") & pl.col("dtype").is_null())
    return int(rows.select(pl.col("int").sum()).collect().item())


def _daft(path: str) -> int:
    import daft

    rows = daft.read_deltalake(path).where((daft.col("tensor") == "n") & daft.col("dtype").is_null())
    return int(rows.agg(daft.col("int").sum()).to_pydict()["int"][0])


def _spark(path: str) -> int:
    query = f"SELECT sum(int) AS s FROM delta.`{path}` WHERE tensor = 'n' AND dtype IS NULL"
    return int(spark_session.session().sql(query).collect()[0]["s"])


READERS: dict[str, Callable[[str], int]] = {"deltalake": _deltalake, "polars": _polars, "daft": _daft, "Spark": _spark}


def _version(reader: str) -> str | None:
    """The version of a reader; `None` where it is not installed."""
    if reader == "Spark":
        if not spark_session.is_there():
            return None
        spark, delta = spark_session.session().version, spark_session.delta_version()
        return f"{spark} with Delta {delta}"
    return None if importlib.util.find_spec(reader) is None else importlib.metadata.version(reader)


def _found(read: Callable[[str], int], path: str, expected: int) -> str:
    try:
        found = read(path)
    except Exception as error:
        # What exactly fails changes with every release; what matters is that it is no wrong answer.
        print(f"{read.__name__} of {path}: {type(error).__name__}: {error}")
        return "refuses"
    return "yes" if found == expected else f"WRONG: {found} for {expected}"


def _rows() -> dict[str, str]:
    """The rows of the table as it is written, by reader."""
    table = re.search(r"<!-- readers -->\n(.*?)<!-- /readers -->", DOCUMENT.read_text(), re.DOTALL)
    assert table is not None
    return {line.split("`")[1]: line for line in table[1].splitlines() if line.startswith("| `")}


def test_the_table_is_true(ds: lacus.Dataset, tmp_path: Path) -> None:
    # A copy that a branch borrows from is changed, too: rows are deleted and replaced on both.
    ds.add_column("n", dtype="int64", shape=())
    ds.extend({"n": np.arange(1000)})
    ds.delete_rows([1, 2, 3])
    ds["n"][0] = 100_000
    ds.commit("First")
    expected = int(ds["n"][:].sum())
    paths, sums = {"main": ds.url}, {"main": expected}
    # Where a change would rewrite more than a megabyte, rows are marked as deleted instead.
    large = lacus.create(str(tmp_path / "large"))
    large["noise"] = np.random.default_rng(5).integers(0, 256, 3 << 20, dtype=np.uint8)
    large["noise"][7] = 8
    large.add_column("n", dtype="int64", shape=())
    large.extend({"n": np.arange(1000)})
    large.delete_rows([1, 2, 3])
    large["n"][0] = 100_000
    assert "deletionVectors" in "".join(entry.read_text() for entry in Path(large.url, "_delta_log").glob("*.json"))
    paths["main with deletion vectors"], sums["main with deletion vectors"] = large.url, int(large["n"][:].sum())
    for name, state in (("plain", "a branch"), ("open", "a published branch")):
        ds.checkout(name, create=True)
        ds["n"][5] = 500_000
        ds.delete_rows(7)
        ds.commit("Changed")
        paths[state] = f"{ds.url}/{ds.branches[name].directory}"
        sums[state] = int(ds["n"][:].sum())
        if name == "open":
            assert ds.publish() == paths[state]
        ds.checkout("main")
    written = _rows()
    rows = dict(written)
    for reader, read in READERS.items():
        version = _version(reader)
        if version is None:
            continue
        cells = [_found(read, paths[state], sums[state]) for state in STATES]
        assert not any("WRONG" in cell for cell in cells), (reader, cells)
        assert cells[0] == cells[3] == "yes", (reader, cells)
        rows[reader] = f"| `{reader}` {version} | {' | '.join(cells)} |"
    if os.environ.get("LACUS_WRITE_DOCS"):
        head = [f"| reader | {' | '.join(STATES)} |", "|---" * (len(STATES) + 1) + "|"]
        table = "\n".join([*head, *(rows[reader] for reader in READERS if reader in rows)])
        text = re.sub(
            r"<!-- readers -->\n.*?<!-- /readers -->",
            lambda _: f"<!-- readers -->\n{table}\n<!-- /readers -->",
            DOCUMENT.read_text(),
            flags=re.DOTALL,
        )
        DOCUMENT.write_text(text)
    elif rows != written:
        pytest.fail(f"docs/history.md says otherwise (LACUS_WRITE_DOCS=1 writes it): {rows}")


def test_a_vacuum_of_main_harms_no_branch(ds: lacus.Dataset) -> None:
    deltalake = pytest.importorskip("deltalake")
    ds.add_column("n", dtype="int64", shape=())
    ds.extend({"n": np.arange(100)})
    ds["x"] = np.arange(50)
    ds.commit("First")
    ds.branches.create("dev")
    ds["x"] = np.arange(3)
    ds["n"][:] = 0
    ds.delete_rows(slice(0, 50))
    ds.compact()
    ds.commit("All else")
    deltalake.DeltaTable(ds.url).vacuum(dry_run=False)
    dev = lacus.open(ds.url, branch="dev")
    assert dev["n"][:].tolist() == list(range(100)) and dev["x"].shape == (50,)
    assert lacus.open(ds.url, at="main~1")["n"][:].tolist() == list(range(100))
    assert len(lacus.open(ds.url)) == 50
