"""polars on Parquet files, lazily."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from contender import PicturesContender, TablesContender, Timed
from workloads.query import LIMIT, Numbers, Pictures

DISTRIBUTION = "polars"


def pictures() -> list[PicturesContender]:
    return [PolarsPictures()]


def numbers() -> list[TablesContender]:
    return [PolarsNumbers()]


class PolarsPictures(PicturesContender):
    name = "polars on Parquet"
    family = "polars"

    def prepare(self, value: Pictures) -> pa.Table:
        self._bright, self._labels = value.bright, list(value.labels)
        return pa.table(
            {
                "image": pa.array(value.files.contents, pa.binary()),
                "label": pa.array(value.files.labels, pa.int64()),
                "mean": pa.array(value.means),
                "row": pa.array(range(len(value.means)), pa.int64()),
            }
        )

    def write(self, path: Path, value: pa.Table) -> None:
        pq.write_table(value, path)

    def _found(self, path: Path, column: str) -> list[Any]:
        wanted = pl.col("label").is_in(self._labels) & (pl.col("mean") > self._bright)
        found = pl.scan_parquet(path).filter(wanted).select(column, "mean").sort("mean").head(LIMIT)
        return found.collect()[column].to_list()

    def rows(self, handle: Path) -> list[int]:
        return self._found(handle, "row")

    def pictures(self, handle: Path) -> list[bytes]:
        return self._found(handle, "image")

    def start(self) -> Timed:
        return self._elsewhere("import polars", "")

    def first(self, path: Path) -> Timed:
        asking = (
            f"wanted = pl.col('label').is_in({self._labels}) & (pl.col('mean') > {self._bright!r})\n"
            f"found = pl.scan_parquet({str(path)!r}).filter(wanted).select('row', 'mean').sort('mean').head({LIMIT})\n"
            "found = found.collect()['row'].to_list()"
        )
        return self._elsewhere("import polars as pl", asking)


class PolarsNumbers(TablesContender):
    name = "polars on Parquet"
    family = "polars"

    def prepare(self, value: Numbers) -> pa.Table:
        return pa.table({"key": value.keys, "value": value.values})

    def write(self, path: Path, value: pa.Table) -> None:
        pq.write_table(value, path)

    def ask(self, handle: Path, text: str) -> pa.Table:
        return pl.SQLContext(numbers=pl.scan_parquet(handle)).execute(text).collect().to_arrow()
