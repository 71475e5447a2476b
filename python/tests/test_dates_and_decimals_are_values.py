"""Dates, times, durations and decimals come in as Python, numpy, pandas, polars and Arrow have them, and go out again."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus

D = decimal.Decimal
UTC = datetime.timezone.utc
DAY = datetime.date(2026, 1, 31)
MOMENT = datetime.datetime(2026, 1, 31, 8, 30, 0, 1)
SPAN = datetime.timedelta(days=-1, microseconds=5)


@pytest.fixture
def ds(tmp_path: Path) -> lacus.Dataset:
    made = lacus.create(tmp_path / "ds")
    made.add_column("day", "date")
    made.add_column("at", "timestamp")
    made.add_column("zoned", "timestamp", unit="ms", timezone="Europe/Zurich")
    made.add_column("exact", "timestamp", unit="ns")
    made.add_column("clock", "time")
    made.add_column("span", "duration")
    made.add_column("price", "decimal", precision=12, scale=2)
    made.add_column("wide", "decimal", precision=38, scale=3)
    made.add_column("days", "sequence[date]")
    return made


# Column, what is given, what is read.
SAMPLES: list[tuple[str, Any, Any]] = [
    ("day", DAY, DAY),
    ("day", "2026-01-31", DAY),
    ("day", np.datetime64("2026-01-31"), DAY),
    ("day", np.datetime64("2026-01"), datetime.date(2026, 1, 1)),
    ("day", 0, datetime.date(1970, 1, 1)),
    ("day", np.datetime64("NaT"), None),
    ("at", MOMENT, MOMENT),
    ("at", DAY, datetime.datetime(2026, 1, 31)),
    ("at", np.datetime64("2026-01-31T08"), datetime.datetime(2026, 1, 31, 8)),
    ("at", np.datetime64(MOMENT).astype("M8[ns]"), MOMENT),
    ("zoned", datetime.datetime(2026, 1, 31, 8, tzinfo=UTC), datetime.datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ("zoned", "2026-07-31T08:00:00+02:00", datetime.datetime(2026, 7, 31, 6, tzinfo=UTC)),
    ("zoned", np.datetime64("2026-01-31T08:00"), datetime.datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ("exact", "2026-01-31T08:30:00.000000001", np.datetime64("2026-01-31T08:30:00.000000001")),
    ("clock", datetime.time(8, 30, 0, 1), datetime.time(8, 30, 0, 1)),
    ("span", SPAN, SPAN),
    ("span", np.timedelta64(-3, "h"), datetime.timedelta(hours=-3)),
    ("price", D("-12.5"), D("-12.50")),
    ("price", D("1E+3"), D("1000.00")),
    ("price", 5, D("5.00")),
    ("price", 0.1, D("0.10")),
    ("price", np.float32(0.1), D("0.10")),
    ("price", np.int8(-5), D("-5.00")),
    ("wide", D("12345678901234567890123456789.125"), D("12345678901234567890123456789.125")),
    ("wide", 7, D("7.000")),
    ("days", [DAY, "1970-01-01"], [DAY, datetime.date(1970, 1, 1)]),
    ("days", np.array(["2026-01-31", "1970-01-01"], "M8[D]"), [DAY, datetime.date(1970, 1, 1)]),
    ("days", [], []),
]


@pytest.mark.parametrize(("name", "given", "expected"), SAMPLES)
def test_one_sample(ds: lacus.Dataset, name: str, given: Any, expected: Any) -> None:
    ds.append({name: given})
    found = ds[name][0]
    assert found == expected and type(found) is type(expected)
    if isinstance(expected, decimal.Decimal):
        assert str(found) == str(expected)
    row, (looped,) = ds[0][name], ds[name]
    assert row == looped == expected and type(row) is type(looped) is type(expected)
    # What was read can be written.
    ds[name][0] = found
    assert ds[name][0] == expected


BAD: list[tuple[str, Any, str]] = [
    ("day", MOMENT, "expected a date such as 2026-01-31"),
    ("day", "31.1.2026", "expected a date"),
    ("day", 1.5, "expected a date"),
    ("at", MOMENT.replace(tzinfo=UTC), "the column has no time zone"),
    ("zoned", MOMENT, "the offset from UTC is needed"),
    ("zoned", MOMENT.replace(tzinfo=UTC), "expected a time in ms"),
    ("exact", datetime.datetime(9999, 1, 1), "expected a time in ns"),
    ("clock", 86_400_000_000, "expected a time of day"),
    ("price", D("12.505"), "2 of them behind the point"),
    ("price", 0.125, "2 of them behind the point"),
    ("price", D("NaN"), "expected a decimal number"),
    ("price", 10**10, "at most 12 digits"),
    ("price", True, "expected a decimal number"),
    ("wide", "x", "expected a decimal number of at most 38 digits"),
]


@pytest.mark.parametrize(("name", "given", "why"), BAD)
def test_what_does_not_fit_is_refused(ds: lacus.Dataset, name: str, given: Any, why: str) -> None:
    with pytest.raises(lacus.InvalidError, match=f'column "{name}", row 0: .*{why}'):
        ds.append({name: given})
    assert len(ds) == 0


def test_arrays_go_in_and_out(ds: lacus.Dataset) -> None:
    days = np.arange("1995-01-01", "1995-01-11", dtype="M8[D]")
    moments = days.astype("M8[us]") + np.timedelta64(1, "us")
    ds.extend({"day": days, "at": moments, "zoned": days, "span": np.arange(10).astype("m8[s]"), "price": np.arange(10)})
    for name, expected in (("day", days), ("at", moments), ("zoned", days), ("span", np.arange(10).astype("m8[s]"))):
        found = ds[name][:]
        assert isinstance(found, np.ndarray) and (found == expected).all(), name
        assert found.dtype == ds[name].dtype
    assert ds["price"][:].tolist() == [D(n) for n in range(10)] and ds["price"][:].sum() == D(45)
    assert (ds["day"][2:4] == days[2:4]).all() and ds[2:4]["day"].tolist() == days[2:4].tolist()
    ds["day"][ds["day"][:] >= np.datetime64("1995-01-05")] = DAY
    assert ds["day"][4] == DAY and ds["day"][3] == datetime.date(1995, 1, 4)
    # Some missing, and some that do not fit.
    ds.extend({"day": np.array(["1995-01-01", "NaT"], "M8[D]")})
    assert ds["day"][10:] == [datetime.date(1995, 1, 1), None]
    with pytest.raises(lacus.InvalidError, match='column "day", row 1: .*expected a date'):
        ds.extend({"day": np.array(["1995-01-01", "1995-01-01T08"], "M8[h]")})
    report = ds.extend({"day": ["1995-01-01", "x"]}, on_error="skip")
    assert report.rows == 1 and "expected a date" in report.skipped[0][1]


def test_frames_go_in_and_out(ds: lacus.Dataset) -> None:
    pd, pl, pa = pytest.importorskip("pandas"), pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    moments = [MOMENT, None]
    ds.extend({"at": pd.Series(moments), "day": pl.Series([DAY, None]), "price": pa.array([D("1.50"), None], pa.decimal128(5, 2))})
    ds.extend({"zoned": pd.Series(pd.to_datetime(["2026-01-31T08:30:00Z"])), "span": pd.Series([SPAN]), "at": pl.Series([MOMENT])})
    assert ds["at"][:] == [MOMENT, None, MOMENT] and ds["day"][0] == DAY and ds["price"][0] == D("1.50")
    assert ds["zoned"][2] == datetime.datetime(2026, 1, 31, 8, 30, tzinfo=UTC) and ds["span"][2] == SPAN
    frame = pl.DataFrame(ds.view().select(["at", "zoned", "day", "price", "wide", "clock"]))
    assert frame["at"].to_list() == [MOMENT, None, MOMENT] and frame["price"].to_list()[0] == D("1.50")
    assert frame.schema["zoned"] == pl.Datetime("ms", "Europe/Zurich") and frame.schema["day"] == pl.Date
    table = ds.view().to_arrow()
    assert table.schema.field("wide").type == pa.decimal128(38, 3) and table.schema.field("span").type == pa.duration("us")
    assert table.schema.field("days").type == pa.list_(pa.field("element", pa.date32()))


def test_queries_compare_and_prune(ds: lacus.Dataset) -> None:
    days = np.arange("1995-01-01", "1999-01-01", dtype="M8[D]")
    for some in np.array_split(days, 8):
        cents = [D(int(n)) / 100 for n in some.astype(int)]
        ds.extend({"day": some, "at": some.astype("M8[us]"), "price": cents, "wide": cents})
    since = np.datetime64("1998-06-01")
    expected = int((days >= since).sum())
    for condition, params in [
        ("day >= DATE '1998-06-01'", None),
        ("day >= '1998-06-01'", None),
        ("day >= ?", [datetime.date(1998, 6, 1)]),
        ("at >= TIMESTAMP '1998-06-01 00:00:00'", None),
        ("at >= ?", [datetime.datetime(1998, 6, 1)]),
        (f"price >= {D(int(since.astype(int))) / 100}", None),
        ("price >= ?", [D(int(since.astype(int))) / 100]),
        ("wide >= ?", [D(int(since.astype(int))) / 100]),
        ("date_part('year', day) = 1998 AND date_part('month', day) >= 6", None),
    ]:
        found = ds.query(f"SELECT * WHERE {condition}", params)
        assert isinstance(found, lacus.View) and len(found) == expected, condition
    for condition in ("day >= DATE '1998-06-01'", "at >= TIMESTAMP '1998-06-01 00:00:00'", "price < CAST('91.5' AS DECIMAL(12, 2))"):
        plan = ds.explain(f"SELECT day WHERE {condition}")
        column = condition.split()[0]
        assert f'Compare("{column}"' in plan, plan
    years = ds.query("SELECT date_part('year', day) AS y, count(*) AS n, sum(price) AS p FROM dataset GROUP BY y ORDER BY y")
    assert years["n"].tolist() == [365, 366, 365, 365] and isinstance(years["p"][0], decimal.Decimal)
    assert ds.query("SELECT max(day) AS d, max(wide) AS w FROM dataset")[0]["d"] == np.datetime64("1998-12-31")
    backwards = ds.view().sort_by("day", descending=True)
    assert backwards[0]["day"] == datetime.date(1998, 12, 31)
    ds.extend({"wide": [D("1000.5"), D("-1000.5")]})
    assert [row["wide"] for row in ds.view().sort_by("wide")][0] == D("-1000.5")
    assert [row["wide"] for row in ds.view().sort_by("wide")][-1] == D("1000.5")


def test_csv_goes_in_and_out(ds: lacus.Dataset, tmp_path: Path) -> None:
    ds.extend({"day": [DAY, None], "at": [MOMENT, None], "zoned": ["2026-01-31T09:30:00+01:00", None], "price": [D("1.5"), None]})
    ds.export_to(tmp_path / "out.csv", columns=["day", "at", "zoned", "price"])
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[1:] == ["2026-01-31,2026-01-31T08:30:00.000001,2026-01-31T08:30:00Z,1.50", ",,,"]
    again = lacus.from_csv(tmp_path / "out.csv", tmp_path / "again")
    assert [again[name].htype for name in ("day", "at", "zoned")] == ["date", "timestamp", "timestamp"]
    assert again["day"][0] == DAY and again["at"][0] == MOMENT and again["zoned"].options == {"unit": "us", "timezone": "UTC"}


def test_texts_of_before_stay_texts(tmp_path: Path) -> None:
    ds = lacus.create(tmp_path / "ds")
    ds.add_column("day", "text", metadata={"arrow": "Date32"})
    ds.add_column("price", "text", metadata={"arrow": "Decimal128(10, 2)"})
    ds.extend({"day": ["1995-01-01", "1996-01-01"], "price": ["1.50", None]})
    assert ds["day"][0] == "1995-01-01" and ds["price"][:] == ["1.50", None]
    found = ds.query("SELECT * WHERE day >= DATE '1996-01-01' AND price IS NULL")
    assert isinstance(found, lacus.View) and len(found) == 1
    ds.add_column("converted", "date")
    ds["converted"][:] = ds["day"][:]
    assert ds["converted"][1] == datetime.date(1996, 1, 1)


def test_displays_and_transforms(ds: lacus.Dataset) -> None:
    ds.extend({"day": [DAY, None], "price": [D("1.5"), None], "wide": [D(1), None]})
    assert "2026-01-31" in ds._repr_html_() and "1.50" in ds._repr_html_()
    assert "date" in repr(ds["day"]) and ds["day"]._repr_html_() and ds["price"]._repr_html_()
    ds.map(lambda row: {"next": None if row["day"] is None else row["day"] + datetime.timedelta(days=1)}, columns={"next": "date"})
    assert ds["next"][:] == [datetime.date(2026, 2, 1), None]
    ds.add_column("start", "timestamp", default=MOMENT)
    assert ds["start"][1] == MOMENT
