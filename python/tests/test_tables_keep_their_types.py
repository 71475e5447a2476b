"""Every Arrow type becomes the same column from a Parquet file and from a table in memory, and goes out as it came in."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from media import png

import lacus

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
pq = pytest.importorskip("pyarrow.parquet")

UTC = datetime.timezone.utc
MOMENT = datetime.datetime(2026, 1, 31, 8, 30, 0, 1)
D = decimal.Decimal

# Name, values, type, the column it becomes, what is read from it. The last row is missing.
TYPES: list[tuple[str, list[Any], Any, dict[str, Any], list[Any]]] = [
    ("bool", [True, False], pa.bool_(), {"dtype": "bool"}, [True, False]),
    *[
        (f"{kind}", [1, 2], kind, {"dtype": str(kind)}, [1, 2])
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ],
    ("huge", [2**64 - 1, 0], pa.uint64(), {"dtype": "uint64"}, [2**64 - 1, 0]),
    ("half", [0.5, -1.0], pa.float16(), {"dtype": "float16"}, [0.5, -1.0]),
    ("single", [0.1, float("inf")], pa.float32(), {"dtype": "float32"}, [np.float32(0.1), np.inf]),
    ("double", [0.1, -0.0], pa.float64(), {"dtype": "float64"}, [0.1, -0.0]),
    ("string", ["a", "é\n"], pa.string(), {"htype": "text"}, ["a", "é\n"]),
    ("large_string", ["a", ""], pa.large_string(), {"htype": "text"}, ["a", ""]),
    ("string_view", ["a", "b" * 40], pa.string_view(), {"htype": "text"}, ["a", "b" * 40]),
    ("dictionary", ["x", "y"], pa.dictionary(pa.int8(), pa.string()), {"htype": "text"}, ["x", "y"]),
    ("codes", [7, 9], pa.dictionary(pa.int8(), pa.int32()), {"dtype": "int32"}, [7, 9]),
    ("decimal", [D("1234567890.12"), D("-0.10")], pa.decimal128(12, 2), {"htype": "decimal", "dtype": object},
     [D("1234567890.12"), D("-0.10")]),
    ("wide", [D("12345678901234567890.12"), D("-0.10")], pa.decimal128(30, 2), {"htype": "decimal", "dtype": None},
     [D("12345678901234567890.12"), D("-0.10")]),
    ("few", [D("1.5"), D("-0.1")], pa.decimal128(2, 1), {"options": {"precision": 2, "scale": 1}}, [D("1.5"), D("-0.1")]),
    ("decimal256", [D(10**60), D(-1)], pa.decimal256(70, 5), {"htype": "text"}, [f"{10**60}.00000", "-1.00000"]),
    ("date", [datetime.date(2026, 1, 31), datetime.date(1, 1, 1)], pa.date32(), {"htype": "date", "dtype": "datetime64[D]"},
     [datetime.date(2026, 1, 31), datetime.date(1, 1, 1)]),
    ("moment", [MOMENT, datetime.datetime(1970, 1, 1)], pa.timestamp("us"), {"htype": "timestamp", "dtype": "datetime64[us]"},
     [MOMENT, datetime.datetime(1970, 1, 1)]),
    ("utc", [MOMENT.replace(tzinfo=UTC), None], pa.timestamp("ns", "UTC"),
     {"htype": "timestamp", "options": {"unit": "ns", "timezone": "UTC"}}, [np.datetime64("2026-01-31T08:30:00.000001", "ns"), None]),
    ("berlin", [MOMENT.replace(tzinfo=UTC), None], pa.timestamp("ms", "Europe/Berlin"),
     {"options": {"unit": "ms", "timezone": "Europe/Berlin"}}, [MOMENT.replace(microsecond=0, tzinfo=UTC), None]),
    ("time", [datetime.time(1, 2, 3, 4), datetime.time(0)], pa.time64("us"), {"htype": "time"},
     [datetime.time(1, 2, 3, 4), datetime.time(0)]),
    ("time32", [datetime.time(1, 2, 3), datetime.time(0)], pa.time32("ms"), {"options": {"unit": "ms"}},
     [datetime.time(1, 2, 3), datetime.time(0)]),
    ("duration", [datetime.timedelta(seconds=1), datetime.timedelta(microseconds=-1)], pa.duration("us"),
     {"htype": "duration", "dtype": "timedelta64[us]"}, [datetime.timedelta(seconds=1), datetime.timedelta(microseconds=-1)]),
    ("list", [[1, 2], []], pa.list_(pa.int16()), {"dtype": "int16", "sample_shape": (None,)}, [[1, 2], []]),
    ("large_list", [[0.5], [1.0]], pa.large_list(pa.float32()), {"dtype": "float32", "sample_shape": (None,)},
     [[0.5], [1.0]]),
    ("pair", [[1, 2], [3, 4]], pa.list_(pa.float64(), 2), {"dtype": "float64", "sample_shape": (2,)}, [[1, 2], [3, 4]]),
    ("boxes", [[[1, 2, 3, 4], [5, 6, 7, 8]], []], pa.list_(pa.list_(pa.int32(), 4)),
     {"dtype": "int32", "sample_shape": (None, 4)}, [[[1, 2, 3, 4], [5, 6, 7, 8]], []]),
    ("matrix", [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.uint8(), 2), 2),
     {"dtype": "uint8", "sample_shape": (2, 2)}, [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
    ("ragged", [[[1], [2, 3]], []], pa.list_(pa.list_(pa.int64())), {"htype": "sequence[generic]", "dtype": "int64"},
     [[[1], [2, 3]], []]),
    ("deep", [[[[1], [2]], [[3]]], [[]]], pa.list_(pa.list_(pa.list_(pa.float32()))), {"htype": "sequence[generic]"},
     [[[[1], [2]], [[3]]], [[]]]),
    ("words", [["a", "b"], []], pa.list_(pa.string()), {"htype": "sequence[text]"}, [["a", "b"], []]),
    ("prices", [[D("0.10")], []], pa.list_(pa.decimal128(5, 2)), {"htype": "sequence[decimal]"}, [[D("0.10")], []]),
    ("days", [[datetime.date(2026, 1, 31)] * 2, []], pa.list_(pa.date32()), {"htype": "sequence[date]"},
     [[datetime.date(2026, 1, 31)] * 2, []]),
    ("struct", [{"a": 1, "b": D("1.50"), "c": [1.5, None]}, {"a": None, "b": None, "c": None}],
     pa.struct([("a", pa.int64()), ("b", pa.decimal128(5, 2)), ("c", pa.list_(pa.float32()))]), {"htype": "json"},
     [{"a": 1, "b": "1.50", "c": [1.5, None]}, {"a": None, "b": None, "c": None}]),
    ("structs", [[{"a": 1}, None], []], pa.list_(pa.struct([("a", pa.int8())])), {"htype": "json"}, [[{"a": 1}, None], []]),
    ("map", [[("k", 1), ("j", None)], []], pa.map_(pa.string(), pa.int64()), {"htype": "json"}, [{"k": 1, "j": None}, {}]),
    ("numbered", [[(1, "x")], []], pa.map_(pa.int32(), pa.string()), {"htype": "json"}, [[[1, "x"]], []]),
    ("nothing", [None, None], pa.null(), {"htype": "json"}, [None, None]),
    ("picture", [png(np.zeros((2, 3, 3), np.uint8)), None], pa.binary(), {"htype": "image"}, [np.zeros((2, 3, 3)), None]),
]  # fmt: skip


def table() -> Any:
    return pa.table({name: pa.array([*values, None], kind) for name, values, kind, _, _ in TYPES})


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def check(ds: lacus.Dataset) -> None:
    assert len(ds) == 3
    for name, _, _, column, expected in TYPES:
        found = ds[name]
        for fact, value in column.items():
            assert getattr(found, fact) == value, (name, fact, getattr(found, fact))
        assert plain(found[:]) == plain([*expected, None]), name


def same(first: lacus.Dataset, second: lacus.Dataset) -> None:
    """All of their columns, what is known of them, and their values."""
    assert first.columns == second.columns
    for name in first.columns:
        a, b = first[name], second[name]
        facts = ("htype", "dtype", "sample_shape", "options", "metadata")
        assert {fact: getattr(a, fact) for fact in facts} == {fact: getattr(b, fact) for fact in facts}, name
        assert plain(a[:]) == plain(b[:]), name


def test_both_ways_in_are_the_same_and_out_is_what_came(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "in.parquet")
    memory = lacus.from_table(table(), tmp_path / "memory")
    check(memory)
    file = lacus.from_parquet(tmp_path / "in.parquet", tmp_path / "file")
    check(file)
    same(memory, file)
    memory.export_to(tmp_path / "out.parquet")
    again = lacus.from_parquet(tmp_path / "out.parquet", tmp_path / "again")
    same(memory, again)
    came = pq.read_table(tmp_path / "in.parquet")
    went = pq.read_table(tmp_path / "out.parquet")
    for name, _, kind, _, _ in TYPES:
        # What other engines read is what they wrote. JSON stays text where no Arrow type was kept.
        if name == "map":
            entries = [[dict(row) if row is not None else None for row in side[name].to_pylist()] for side in (went, came)]
            assert entries[0] == entries[1]
        elif name != "numbered":
            assert went[name].to_pylist() == came[name].to_pylist(), name
        is_kept = pa.types.is_decimal(kind) or pa.types.is_temporal(kind) or pa.types.is_struct(kind)
        if is_kept or name in ("pair", "matrix", "map"):
            assert str(went[name].type).replace("element", "item") == str(came[name].type).replace("element", "item"), name


def test_polars_needs_no_pyarrow(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "price": [D("1.10"), None],
            "when": [datetime.date(2026, 1, 1), None],
            "span": [datetime.timedelta(milliseconds=5), None],
            "word": pl.Series(["a", None], dtype=pl.Categorical),
            "box": pl.Series([[[1, 2]], None], dtype=pl.List(pl.Array(pl.Int32, 2))),
        }
    )
    ds = lacus.from_table(frame, tmp_path / "ds")
    assert ds["price"][0] == D("1.10") and ds["when"][:] == [datetime.date(2026, 1, 1), None] and ds["word"][:] == ["a", None]
    assert ds["box"][0].tolist() == [[1, 2]] and ds["box"].sample_shape == (None, 2)
    ds.export_to(tmp_path / "out.parquet")
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert out["price"].to_list() == frame["price"].to_list() and out["span"].to_list() == frame["span"].to_list()


def hugging_face(features: dict[str, Any]) -> dict[bytes, bytes]:
    """What Hugging Face writes into the metadata of a schema."""
    return {b"huggingface": json.dumps({"info": {"features": features}}).encode()}


VALUE = {"dtype": "int64", "_type": "Value"}
CLASSES = {"names": ["cat", "dog"], "_type": "ClassLabel"}


def hugging_face_table() -> Any:
    picture = png(np.zeros((2, 3, 3), np.uint8))
    array = {b"ARROW:extension:name": b"datasets.features.features.Array2DExtensionType"}
    array[b"ARROW:extension:metadata"] = json.dumps([[None, 2], "float32"]).encode()
    nested = pa.list_(pa.list_(pa.float32()))
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    fields = [
        (pa.field("label", pa.int64()), CLASSES, [1, -1]),
        (pa.field("labels", pa.list_(pa.int64())), {"feature": CLASSES, "_type": "List"}, [[0, 1], []]),
        (pa.field("ids", pa.list_(pa.int32())), {"feature": VALUE, "_type": "Sequence"}, [[1, 2], [3]]),
        (pa.field("old", pa.list_(pa.int64())), [VALUE], [[1], []]),
        (pa.field("grid", nested), {"shape": [2, 2], "dtype": "float32", "_type": "Array2D"}, [[[1, 2], [3, 4]], None]),
        (pa.field("open", nested, metadata=array), {}, [[[1, 2]], []]),
        (pa.field("image", image), {"_type": "Image"}, [{"bytes": picture, "path": "a.png"}, None]),
        (pa.field("none", image), {"_type": "Image"}, [None, None]),
        (pa.field("several", pa.list_(image)), {"feature": {"_type": "Image"}, "_type": "List"},
         [[{"bytes": picture, "path": None}] * 2, []]),
    ]  # fmt: skip
    schema = pa.schema([field for field, _, _ in fields], hugging_face({f.name: hint for f, hint, _ in fields if hint}))
    return pa.table([pa.array(values, field.type) for field, _, values in fields], schema=schema)


def check_hugging_face(ds: lacus.Dataset) -> None:
    assert ds["label"].class_names == ["cat", "dog"] and ds["label"][:] == [1, None]
    assert ds["labels"].class_names == ["cat", "dog"] and plain(ds["labels"][:]) == [[0, 1], []]
    assert ds["ids"].dtype == np.int32 and plain(ds["ids"][:]) == [[1, 2], [3]]
    assert ds["old"].dtype == np.int64 and plain(ds["old"][:]) == [[1], []]
    assert ds["grid"].sample_shape == (2, 2) and plain(ds["grid"][:]) == [[[1, 2], [3, 4]], None]
    assert ds["open"].sample_shape == (None, 2) and ds["open"].dtype == np.float32
    assert ds["open"].shapes == [(1, 2), (0, 2)]
    assert ds["image"].htype == "image" and ds["image"].shapes == [(2, 3, 3), None]
    assert ds["none"].htype == "image" and ds["none"][:] == [None, None]
    assert ds["several"].htype == "sequence[image]" and [len(pictures) for pictures in ds["several"][:]] == [2, 0]


def test_features_of_hugging_face(tmp_path: Path) -> None:
    memory = lacus.from_table(hugging_face_table(), tmp_path / "memory")
    check_hugging_face(memory)
    pq.write_table(hugging_face_table(), tmp_path / "in.parquet")
    file = lacus.from_parquet(tmp_path / "in.parquet", tmp_path / "file")
    check_hugging_face(file)
    same(memory, file)


class Features:
    arrow_schema = pa.schema(
        [
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("n", pa.int64()),
        ],
        hugging_face({"image": {"_type": "Image"}, "n": VALUE}),
    )


class Dataset:
    """What is used of Hugging Face's: pictures are known by their paths, and read when they are needed."""

    features = Features()

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def with_format(self, kind: str) -> Dataset:
        assert kind == "arrow"
        return self

    def iter(self, batch_size: int) -> Any:
        for n, path in enumerate(self.paths):
            rows = {"image": [{"bytes": None, "path": path}], "n": [n]}
            yield pa.table(rows, schema=pa.schema([(f.name, f.type) for f in self.features.arrow_schema]))


Dataset.__module__ = "datasets.arrow_dataset"


def test_pictures_that_hugging_face_knows_by_path(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(np.ones((2, 2, 3), np.uint8)))
    ds = lacus.from_table(Dataset([str(tmp_path / "a.png")] * 2), tmp_path / "ds")
    assert ds["n"][:].tolist() == [0, 1] and ds["image"].shapes == [(2, 2, 3)] * 2
    with pytest.raises(lacus.InvalidError, match="none.png"):
        lacus.from_table(Dataset([str(tmp_path / "none.png")]), tmp_path / "other")
    assert not lacus.exists(tmp_path / "other")
    # A file of somebody else's does not make us read where it points.
    rows = next(Dataset([str(tmp_path / "a.png")]).iter(1))
    pq.write_table(rows.replace_schema_metadata(Features.arrow_schema.metadata), tmp_path / "in.parquet")
    with pytest.raises(lacus.InvalidError, match=r'row 0: column "image": it has the path .*a.png" but no bytes'):
        lacus.from_parquet(tmp_path / "in.parquet", tmp_path / "third", on_error="raise")


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([[1.5, None]], pa.list_(pa.float32()), 'row 0: column "x": its list has a null at place 1'),
        ([[1], [1, None]], pa.list_(pa.int64()), 'row 1: column "x": its list has a null at place 1'),
        ([[[1], None]], pa.list_(pa.list_(pa.int8())), 'row 0: column "x": its list has a null at place 1'),
        ([[[[1], [2, 3]]]], pa.list_(pa.list_(pa.list_(pa.int8()))), 'row 0: column "x": at place 0: its lists have 1 and 2'),
        ([["a", None]], pa.list_(pa.string()), 'row 0: column "x": its list has a null at place 1'),
        ([{"a": float("nan")}], pa.struct([("a", pa.float64())]), "its field \"a\": JSON has no NaN"),
        ([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8()), 'its map has the key "a" twice'),
        ([{"a": {"b": b"x"}}], pa.struct([("a", pa.struct([("b", pa.binary())]))]), 'column "x": its field "a.b": JSON has no bytes'),
        ([(1, 2, 3)], pa.month_day_nano_interval(), 'column "x": Lacus has no column for Interval'),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_by_name(tmp_path: Path, values: Any, kind: Any, message: str) -> None:
    given = pa.table({"n": pa.array(range(len(values))), "x": pa.array(values, kind)})
    with pytest.raises(lacus.InvalidError) as refused:
        lacus.from_table(given, tmp_path / "ds")
    assert message in str(refused.value)
    assert not lacus.exists(tmp_path / "ds")
    skipped = lacus.from_table(given, tmp_path / "skipped", on_error="skip")
    assert len(skipped) in (len(values) - 1, len(values))
    try:
        pq.write_table(given, tmp_path / "in.parquet")
    except pa.ArrowNotImplementedError:
        return  # Parquet has no such type.
    with pytest.raises(lacus.InvalidError) as refused:
        lacus.from_parquet(tmp_path / "in.parquet", tmp_path / "ds")
    assert message in str(refused.value)


def test_a_changed_decimal_is_not_rounded(tmp_path: Path) -> None:
    ds = lacus.from_table(pa.table({"x": pa.array([D("1.10"), D("2.20")], pa.decimal128(5, 2))}), tmp_path / "ds")
    ds["x"][0] = "3.5"
    ds.export_to(tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet")["x"].to_pylist() == [D("3.50"), D("2.20")]
    with pytest.raises(lacus.InvalidError, match='column "x", row 1: .*found "3.505"'):
        ds["x"][1] = "3.505"
    # A text that came as a decimal, as older datasets have them, is looked at on its way out.
    ds.add_column("old", "text", metadata={"arrow": "Decimal128(5, 2)"})
    ds["old"][:] = ["3.5", "3.505"]
    with pytest.raises(lacus.InvalidError, match=r'column "old", row 1: .*"3.505" is not a decimal\(5, '):
        ds.export_to(tmp_path / "b.parquet")
    report = ds.export_to(tmp_path / "b.parquet", on_error="skip")
    assert report.skipped_total == 1
    assert pq.read_table(tmp_path / "b.parquet")["old"].to_pylist() == [D("3.50"), None]


def test_decimals_and_dates_in_delta_tables(tmp_path: Path) -> None:
    given = pa.table({"x": pa.array([D("1.10")], pa.decimal128(5, 2)), "d": pa.array([datetime.date(2026, 1, 1)])})
    lacus.from_table(given, tmp_path / "ds").export_to(tmp_path / "delta", "delta")
    found = pl.read_delta(str(tmp_path / "delta"))
    assert found["x"].to_list() == [D("1.10")] and found["d"].to_list() == [datetime.date(2026, 1, 1)]


class Broken:
    """A table that fails while it is read."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        def batches() -> Any:
            yield pa.record_batch({"x": [1]})
            raise RuntimeError("the network is gone")

        return pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), batches()).__arrow_c_stream__()


class Refusing:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise pa.ArrowInvalid("Could not convert 'a' with type str: column x")


def test_errors_of_tables_are_ours(tmp_path: Path) -> None:
    with pytest.raises(lacus.InvalidError, match="the network is gone"):
        lacus.from_table(Broken(), tmp_path / "ds")
    with pytest.raises(lacus.InvalidError, match="column x") as refused:
        lacus.from_table(Refusing(), tmp_path / "ds")
    assert isinstance(refused.value.__cause__, pa.ArrowInvalid)
    with pytest.raises(lacus.InvalidError, match="no table of columns"):
        lacus.from_table(pl.Series([1, 2]), tmp_path / "ds")
    assert not lacus.exists(tmp_path / "ds")
