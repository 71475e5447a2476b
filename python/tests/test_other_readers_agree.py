"""Released `deltalake` and `polars` open a dataset at its path and find the same numbers.

Nothing but docs/format.md and docs/format-chunks.md is used: a header row has a `dtype`, a chunk row a `codec`, a
cell row of a COO tensor coordinates in c0, c1, … and its value in `int`, `float` or `real`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from media import encoded, picture

import lacus

deltalake = pytest.importorskip("deltalake")
pl = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

DTYPES = {"counts": ("int32", "int"), "weights": ("float32", "float"), "rates": ("float64", "real")}


def sql(url: str, text: str, version: int | None = None) -> list[dict[str, Any]]:
    """Rows that SQL over the table `t` gives."""
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(url, version=version))
    found = query.execute(text)
    rows: list[dict[str, Any]] = pyarrow.table(found.read_all()).to_pylist()
    return rows


def crc32c(data: bytes) -> int:
    """The checksum of a chunk, by the book, as a signed number."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return crc - (1 << 32) if crc >> 31 else crc


def dense_from_rows(header: dict[str, Any], rows: list[dict[str, Any]]) -> np.ndarray:
    """An FTSF tensor put together from its rows, as docs/format-chunks.md says."""
    shape, chunk_shape, dtype = header["shape"], header["chunk_shape"], np.dtype(header["dtype"])
    value = np.zeros(shape, dtype)
    for row in rows:
        box = tuple(
            slice(row[f"c{k}"] * side, min((row[f"c{k}"] + 1) * side, size))
            for k, (side, size) in enumerate(zip(chunk_shape, shape, strict=True))
        )
        extent = value[box].shape
        count = int(np.prod(extent))
        data = row["data"]
        assert row["bytes"] == len(data)
        if len(data) < 20_000:
            assert row["crc"] == crc32c(data)
        if row["codec"] != "raw":
            data = pyarrow.Codec("zstd").decompress(data, count * dtype.itemsize).to_pybytes()
        if row["codec"].startswith("shuffle"):
            width = int(row["codec"].removeprefix("shuffle").removesuffix("+zstd"))
            data = np.frombuffer(data, np.uint8).reshape(width, -1).T.tobytes()
        value[box] = np.frombuffer(data, dtype).reshape(extent)
    return value


class Expected:
    """What a dataset holds, as numpy arrays, and the sums readers must find."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.dense = {
            "images": rng.integers(0, 255, (30, 16, 16), dtype=np.uint8),
            "waves": np.sin(np.arange(4000.0)).reshape(40, 100).astype(np.float32).round(2),
            "one": np.array(2.5),
        }
        self.sparse = {}
        for name, (dtype, _) in DTYPES.items():
            values = rng.integers(1, 1000, (20, 30, 4)).astype(dtype)
            self.sparse[name] = np.where(rng.random((20, 30, 4)) < 0.1, values, 0).astype(dtype)

    def put(self, ds: lacus.Dataset) -> None:
        for name, value in self.dense.items():
            chunk_shape = tuple(max(1, size // 9) for size in value.shape)
            ds.put(name, value, layout="dense", chunk_shape=chunk_shape)
        for name, value in self.sparse.items():
            ds.put(name, value, layout="COO", metadata={"of": name})

    def check(self, ds: lacus.Dataset) -> None:
        """Lacus, SQL and polars agree with numpy."""
        self.check_sql(ds.url)
        self.check_polars(ds.url)
        for name, value in (self.dense | self.sparse).items():
            assert np.array_equal(np.asarray(ds[name]), value)

    def check_sql(self, url: str) -> None:
        headers = {
            row["tensor"]: row
            for row in sql(url, "SELECT * FROM t WHERE dtype IS NOT NULL AND tensor <> ''")
        }
        self.check_headers(headers)
        for name, (_, column) in DTYPES.items():
            value = self.sparse.get(name)
            if value is None:
                continue
            (row,) = sql(
                url,
                f"SELECT COUNT(*) AS n, SUM({column}) AS total, SUM(c0 * {column}) AS moment, MAX(c1) AS last "
                f"FROM t WHERE tensor = '{name}' AND dtype IS NULL",
            )
            places = np.argwhere(value)
            assert row["n"] == len(places)
            assert row["total"] == pytest.approx(float(value.sum(dtype=np.float64)))
            expected = float((places[:, 0] * value[value != 0].astype(np.float64)).sum())
            assert row["moment"] == pytest.approx(expected)
            assert row["last"] == places[:, 1].max()
            by_row = sql(url, f"SELECT c0, SUM({column}) AS s FROM t WHERE tensor = '{name}' AND c0 = 7 GROUP BY c0")
            assert sum(r["s"] for r in by_row) == pytest.approx(float(value[7].sum(dtype=np.float64)))

    def check_headers(self, headers: dict[str, dict[str, Any]]) -> None:
        assert headers.keys() == self.dense.keys() | self.sparse.keys()
        for name, value in (self.dense | self.sparse).items():
            assert tuple(headers[name]["shape"]) == value.shape
            assert headers[name]["dtype"] == value.dtype.name
            assert headers[name]["layout"] == ("FTSF" if name in self.dense else "COO")
        for name, value in self.sparse.items():
            assert json.loads(headers[name]["parameters"])["nnz"] == np.count_nonzero(value)

    def check_polars(self, url: str) -> None:
        frame = pl.scan_delta(url)
        found = frame.filter(pl.col("dtype").is_not_null() & (pl.col("tensor") != "")).collect()
        headers = {row["tensor"]: row for row in found.to_dicts()}
        self.check_headers(headers)
        for name, (_, column) in DTYPES.items():
            value = self.sparse.get(name)
            if value is None:
                continue
            cells = frame.filter((pl.col("tensor") == name) & pl.col("dtype").is_null())
            cells = cells.select("c0", "c1", "c2", pl.col(column).alias("value")).collect()
            # Not only the sums: the whole tensor can be put together again.
            built = np.zeros(value.shape, value.dtype)
            built[cells["c0"].to_numpy(), cells["c1"].to_numpy(), cells["c2"].to_numpy()] = cells["value"].to_numpy()
            assert np.array_equal(built, value)
        for name, value in self.dense.items():
            chunks = frame.filter((pl.col("tensor") == name) & pl.col("codec").is_not_null()).collect()
            assert np.array_equal(dense_from_rows(headers[name], chunks.to_dicts()), value)


def test_before_and_after_updates(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    expected = Expected(rng)
    expected.put(ds)
    expected.check(ds)

    # A region, a replacement, a removal, a rename; small ones, then enough for deletion vectors.
    ds["images"][4:6] = 7
    expected.dense["images"][4:6] = 7
    expected.check(ds)
    expected.sparse["counts"] = expected.sparse["counts"] * 2
    ds.put("counts", expected.sparse["counts"], layout="COO")
    del ds["rates"]
    del expected.sparse["rates"]
    expected.check(ds)
    big = rng.integers(0, 255, (30, 512, 512), dtype=np.uint8)
    ds.put("images", big, layout="dense", chunk_shape=(3, 512, 512), compression=None)
    expected.dense["images"] = big
    ds["images"][::2, 3] = 1
    big[::2, 3] = 1
    expected.check(ds)
    ds.set_metadata({"title": "x"})
    ds["images"].append(big[:4])
    expected.dense["images"] = np.concatenate([big, big[:4]])
    expected.check(ds)
    ds.compact()
    expected.check(ds)
    expected.check(lacus.open(ds.url))


def test_after_many_commits(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    """Log checkpoints are Delta's, too."""
    expected = Expected(rng)
    expected.put(ds)
    for i in range(45):
        ds["images"][i % 30] = i
        expected.dense["images"][i % 30] = i
    expected.check(ds)
    table = deltalake.DeltaTable(ds.url)
    assert table.version() == ds.version
    assert len(table.history()) >= 1


def test_older_versions(ds: lacus.Dataset) -> None:
    ds.put("x", np.diag([1.0, 2, 3]), layout="COO")
    ds.put("x", np.diag([4.0, 5, 6]), layout="COO")
    for version, total in ((1, 6.0), (2, 15.0)):
        rows = sql(ds.url, "SELECT SUM(real) AS s FROM t WHERE tensor = 'x'", version)
        assert rows[0]["s"] == total
        assert pl.scan_delta(ds.url, version=version).select(pl.col("real").sum()).collect().item() == total


def test_other_tools_may_tidy_up(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    """A stock vacuum takes nothing that history needs, and a stock checkpoint is read."""
    expected = Expected(rng)
    expected.put(ds)
    ds["images"][0] = 9
    expected.dense["images"][0] = 9
    table = deltalake.DeltaTable(ds.url)
    table.create_checkpoint()
    removed = table.vacuum(dry_run=False)
    assert removed == [] or all("data/" not in path for path in removed)
    expected.check(lacus.open(ds.url))
    assert lacus.open(ds.url, at=1)["images"].shape == (30, 16, 16)


class Samples:
    """What a dataset of samples holds: rows of a JPEG, a label, a caption and a number, in order."""

    def __init__(self, files: list[bytes]) -> None:
        self.rows: list[dict[str, Any]] = [
            {"image": file, "label": i % 3, "caption": f"picture {i} 'of' it", "weight": i / 8}
            for i, file in enumerate(files)
        ]

    #: Where SQL finds the samples of a column.
    PLACES = {"image": "data", "label": "int", "caption": "text", "weight": "real"}

    def check(self, ds: lacus.Dataset) -> None:
        """Lacus, SQL and polars find the same samples for the same rows."""
        names = list(self.PLACES)
        for row, expected in zip(ds, self.rows, strict=True):
            assert {name: row[name] for name in names[1:]} == {name: expected[name] for name in names[1:]}
        assert ds["image"].bytes_of(slice(None)) == [row["image"] for row in self.rows]
        by_id = dict(zip(ds[:].ids, self.rows, strict=True))
        self.check_sql(ds.url, by_id)
        self.check_polars(ds.url, by_id)

    def check_sql(self, url: str, by_id: dict[int, dict[str, Any]]) -> None:
        found = sql(url, "SELECT row FROM t WHERE tensor = '/rows' AND row IS NOT NULL ORDER BY row")
        assert [row["row"] for row in found] == sorted(by_id)
        for name, place in self.PLACES.items():
            samples = sql(
                url,
                f"SELECT r.row AS row, s.{place} AS sample FROM t r JOIN t s ON r.row = s.row "
                f"WHERE r.tensor = '/rows' AND s.tensor = '{name}' AND s.dtype IS NULL",
            )
            expected = {id: row[name] for id, row in by_id.items() if row[name] is not None}
            assert {row["row"]: row["sample"] for row in samples} == expected
            assert len(samples) == len(expected)
        # What people ask: how many of each label, captions of one label, whose file is largest.
        one = "tensor = 'label' AND dtype IS NULL"
        counts = sql(url, f"SELECT int AS label, COUNT(*) AS n FROM t WHERE {one} GROUP BY int")
        labels = [row["label"] for row in by_id.values() if row["label"] is not None]
        assert {row["label"]: row["n"] for row in counts} == {label: labels.count(label) for label in set(labels)}
        captions = sql(
            url,
            "SELECT c.text AS caption FROM t c JOIN t l ON c.row = l.row "
            "WHERE c.tensor = 'caption' AND l.tensor = 'label' AND l.int = 1",
        )
        expected_captions = [row["caption"] for row in by_id.values() if row["label"] == 1 and row["caption"]]
        assert sorted(row["caption"] for row in captions) == sorted(expected_captions)
        one = "tensor = 'image' AND dtype IS NULL"
        (largest,) = sql(url, f"SELECT MAX(bytes) AS n, MIN(codec) AS codec FROM t WHERE {one}")
        assert largest["n"] == max(len(row["image"]) for row in by_id.values() if row["image"] is not None)
        assert largest["codec"] == "jpeg"

    def check_polars(self, url: str, by_id: dict[int, dict[str, Any]]) -> None:
        frame = pl.scan_delta(url)
        rows = frame.filter(pl.col("tensor") == "/rows").filter(pl.col("row").is_not_null()).select("row")
        assert sorted(rows.collect()["row"].to_list()) == sorted(by_id)
        wide = rows
        for name, place in self.PLACES.items():
            samples = frame.filter((pl.col("tensor") == name) & pl.col("dtype").is_null())
            wide = wide.join(samples.select("row", pl.col(place).alias(name)), on="row", how="left")
        found = {row.pop("row"): row for row in wide.collect().to_dicts()}
        assert found == by_id


def test_samples_are_found_before_and_after_changes(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    files = encoded(ds, [picture(rng, 8 + i, 9) for i in range(40)], "jpeg")
    expected = Samples(files[:30])
    ds.add_column("image", "image")
    ds.add_column("label", "class_label", class_names=["a", "b", "c"])
    ds.add_column("caption", "text")
    ds.add_column("weight", dtype="float64", shape=())
    ds.extend({name: [row[name] for row in expected.rows] for name in Samples.PLACES})
    expected.check(ds)
    # A cell, a slice, files, what is missing.
    ds["label"][4] = "c"
    expected.rows[4]["label"] = 2
    ds["caption"][10:13] = ["x", "y", None]
    for i, caption in enumerate(["x", "y", None]):
        expected.rows[10 + i]["caption"] = caption
    ds["image"][[3, 29]] = [files[30], files[31]]
    expected.rows[3]["image"], expected.rows[29]["image"] = files[30], files[31]
    ds["weight"][7] = None
    expected.rows[7]["weight"] = None
    expected.check(ds)
    version, older = ds.version, {id: dict(row) for id, row in zip(ds[:].ids, expected.rows, strict=True)}
    # Rows go and come.
    ds.delete_rows([0, 3, 28])
    for i in (28, 3, 0):
        del expected.rows[i]
    expected.check(ds)
    for i in range(32, 40):
        expected.rows.append({"image": files[i], "label": None, "caption": f"late {i}", "weight": None})
        ds.append({"image": files[i], "caption": f"late {i}"})
    expected.check(ds)
    ds.add_column("extra", "text", default="z")
    ds.compact()
    expected.check(ds)
    expected.check(lacus.open(ds.url))
    # Headers say what the columns are.
    headers = {row["tensor"]: row for row in sql(ds.url, "SELECT * FROM t WHERE dtype IS NOT NULL AND tensor <> ''")}
    assert {"image", "label", "caption", "weight", "extra"} <= headers.keys()
    assert headers["image"]["dtype"] == "uint8" and headers["caption"]["dtype"] == "string"
    # The version before is what it was, to everybody.
    found = sql(ds.url, "SELECT row, int FROM t WHERE tensor = 'label' AND dtype IS NULL", version)
    assert {row["row"]: row["int"] for row in found} == {id: row["label"] for id, row in older.items()}
