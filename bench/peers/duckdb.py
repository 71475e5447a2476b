"""DuckDB on Parquet files, as it is used most: nothing is imported."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from contender import PicturesContender, TablesContender, Timed
from workloads.query import LIMIT, TABLES, Numbers, Pictures

DISTRIBUTION = "duckdb"


def pictures() -> list[PicturesContender]:
    return [DuckPictures()]


def tpch() -> list[TablesContender]:
    return [DuckTpch()]


def numbers() -> list[TablesContender]:
    return [DuckNumbers()]


def table_of(value: Pictures) -> pa.Table:
    """The pictures as a table with the number of each row."""
    return pa.table(
        {
            "image": pa.array(value.files.contents, pa.binary()),
            "label": pa.array(value.files.labels, pa.int64()),
            "mean": pa.array(value.means),
            "row": pa.array(range(len(value.means)), pa.int64()),
        }
    )


class DuckPictures(PicturesContender):
    name = "DuckDB on Parquet"
    family = "duckdb"

    def prepare(self, value: Pictures) -> pa.Table:
        self._where = f"{value.condition} ORDER BY mean LIMIT {LIMIT}"
        return table_of(value)

    def write(self, path: Path, value: pa.Table) -> None:
        pq.write_table(value, path)

    def open(self, path: Path) -> tuple[Any, Path]:
        return duckdb.connect(), path

    def close(self, handle: tuple[Any, Path]) -> None:
        handle[0].close()

    def rows(self, handle: tuple[Any, Path]) -> list[int]:
        found = handle[0].execute(f"SELECT row FROM read_parquet('{handle[1]}') WHERE {self._where}").fetchall()
        return [row for (row,) in found]

    def pictures(self, handle: tuple[Any, Path]) -> list[bytes]:
        found = handle[0].execute(f"SELECT image FROM read_parquet('{handle[1]}') WHERE {self._where}").fetchall()
        return [image for (image,) in found]

    def start(self) -> Timed:
        return self._elsewhere("import duckdb", "")

    def first(self, path: Path) -> Timed:
        text = f"SELECT row FROM read_parquet('{path}') WHERE {self._where}"
        return self._elsewhere("import duckdb", f"found = [row for (row,) in duckdb.connect().execute({text!r}).fetchall()]")


class DuckTpch(TablesContender):
    name = "DuckDB on Parquet"
    family = "duckdb"

    def write(self, path: Path, value: Path) -> None:
        shutil.copytree(value, path)

    def open(self, path: Path) -> Any:
        connection = duckdb.connect()
        for name in TABLES:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{path / f'{name}.parquet'}'")
        return connection

    def close(self, handle: Any) -> None:
        handle.close()

    def ask(self, handle: Any, text: str) -> pa.Table:
        return handle.sql(text).to_arrow_table()


class DuckNumbers(DuckTpch):
    def prepare(self, value: Numbers) -> pa.Table:
        return pa.table({"key": value.keys, "value": value.values})

    def write(self, path: Path, value: pa.Table) -> None:
        pq.write_table(value, path)

    def open(self, path: Path) -> Any:
        connection = duckdb.connect()
        connection.execute(f"CREATE VIEW numbers AS SELECT * FROM read_parquet('{path}')")
        return connection
