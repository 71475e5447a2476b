"""DataFusion on Parquet files: the engine that Lacus plans with, on the format that it likes best."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from contender import TablesContender
from datafusion import SessionContext
from workloads.query import TABLES, Numbers

DISTRIBUTION = "datafusion"


def tpch() -> list[TablesContender]:
    return [DataFusionTpch()]


def numbers() -> list[TablesContender]:
    return [DataFusionNumbers()]


class DataFusionTpch(TablesContender):
    name = "DataFusion on Parquet"
    family = "datafusion"

    def write(self, path: Path, value: Path) -> None:
        shutil.copytree(value, path)

    def open(self, path: Path) -> SessionContext:
        context = SessionContext()
        for name in TABLES:
            context.register_parquet(name, str(path / f"{name}.parquet"))
        return context

    def ask(self, handle: Any, text: str) -> pa.Table:
        return handle.sql(text).to_arrow_table()


class DataFusionNumbers(DataFusionTpch):
    def prepare(self, value: Numbers) -> pa.Table:
        return pa.table({"key": value.keys, "value": value.values})

    def write(self, path: Path, value: pa.Table) -> None:
        path.mkdir()
        pq.write_table(value, path / "numbers.parquet")

    def open(self, path: Path) -> SessionContext:
        context = SessionContext()
        context.register_parquet("numbers", str(path / "numbers.parquet"))
        return context
