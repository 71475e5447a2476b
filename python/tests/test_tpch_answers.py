"""TPC-H: the answers to its 22 queries are DuckDB's. Scale factor 0.01; LACUS_TEST_TPCH=0.1 takes another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tpch_queries import queries

import lacus

SCALE = float(os.environ.get("LACUS_TEST_TPCH", "0.01"))
TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]
QUERIES = queries(SCALE)
#: Empty answers say little. At small scale factors nobody can help these being so.
MAY_BE_EMPTY = {2, 20} if SCALE < 0.1 else set()

Row = tuple[Any, ...]


def generator() -> str:
    found = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    assert found is not None, "no tpchgen-cli here; python/requirements-test.txt has it"
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tpch")
    subprocess.run([generator(), "parquet", "-s", str(SCALE), "--output-dir", str(made)], check=True)
    return made


@pytest.fixture(scope="module")
def datasets(files: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, lacus.Dataset]:
    made = tmp_path_factory.mktemp("datasets")
    return {name: lacus.from_parquet(files / f"{name}.parquet", str(made / name)) for name in TABLES}


@pytest.fixture(scope="module")
def peer(files: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{files / f'{name}.parquet'}'")
    return connection


def test_all_rows_are_there(datasets: dict[str, lacus.Dataset], peer: duckdb.DuckDBPyConnection) -> None:
    for name in TABLES:
        counted = peer.execute(f"SELECT count(*) FROM {name}").fetchone()
        assert counted is not None and len(datasets[name]) == counted[0], name


def test_dates_and_decimals_are_stored_as_such(datasets: dict[str, lacus.Dataset]) -> None:
    lineitem = datasets["lineitem"]
    assert {lineitem[f"l_{name}"].htype for name in ("shipdate", "commitdate", "receiptdate")} == {"date"}
    assert {lineitem[f"l_{name}"].htype for name in ("quantity", "extendedprice", "discount", "tax")} == {"decimal"}
    assert lineitem["l_discount"].options == {"precision": 15, "scale": 2}
    plan = lineitem.explain("SELECT l_orderkey WHERE l_shipdate < DATE '1993-01-01'")
    assert 'Compare("l_shipdate"' in plan, plan


@pytest.mark.parametrize("number", QUERIES)
def test_the_answer_is_that_of_duckdb(
    number: int, datasets: dict[str, lacus.Dataset], peer: duckdb.DuckDBPyConnection
) -> None:
    text, ordered_by = QUERIES[number]
    expected = [plain(row) for row in peer.execute(text).fetchall()]
    found = lacus.sql(text, **datasets).to_arrow()
    rows = [plain(row) for row in zip(*(column.to_pylist() for column in found.columns))]
    assert expected or number in MAY_BE_EMPTY, "a query that finds nothing proves nothing"
    assert len(rows) == len(expected)
    # What ORDER BY leaves open may differ; what it fixes may not.
    for ours, theirs in zip(rows, expected):
        same([ours[at] for at in ordered_by], [theirs[at] for at in ordered_by])
    for ours, theirs in zip(sorted(rows, key=sortable), sorted(expected, key=sortable)):
        same(ours, theirs)


def plain(row: tuple[Any, ...]) -> Row:
    """Decimals as floats: engines give quotients different scales."""
    return tuple(float(value) if isinstance(value, Decimal) else value for value in row)


def sortable(row: Row) -> list[str]:
    return [f"{value:.2f}" if isinstance(value, float) else str(value) for value in row]


def same(ours: Any, theirs: Any) -> None:
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, float) or isinstance(other, float):
            assert one == pytest.approx(other, rel=1e-6, abs=1e-6), (ours, theirs)
        else:
            assert one == other, (ours, theirs)
