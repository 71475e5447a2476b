"""Spark with Delta Lake, as `scripts/setup-spark` puts it into `.cache/spark`: one session for all tests of a process."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

HOME = Path(__file__).parents[2] / ".cache" / "spark"

#: Two threads, little memory, nothing but loopback, no files but in a directory that goes with the process. The compiler
#: is kept short: tests run each query once.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.default.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def is_there() -> bool:
    """Whether Spark was installed for the tests."""
    return (HOME / ".made").exists() and shutil.which("java") is not None


def delta_version() -> str:
    """The version of Delta Lake."""
    (jar,) = (HOME / "jars").glob("delta-spark_*.jar")
    return jar.stem.rpartition("-")[2]


@functools.cache
def session() -> Any:
    """The session; the test is skipped where there is no Spark."""
    if not is_there():
        pytest.skip("there is no Spark in .cache/spark: LACUS_TEST_SPARK=1 make test installs it")
    sys.path.append(str(HOME / "python"))
    from pyspark.sql import SparkSession

    scratch = tempfile.mkdtemp(prefix="lacus-spark-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("lacus")
    here = {
        "spark.jars": ",".join(str(jar) for jar in sorted((HOME / "jars").glob("*.jar"))),
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
    }
    for key, value in (SETTINGS | here).items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    atexit.register(made.stop)
    return made
