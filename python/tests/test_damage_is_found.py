"""Truncated and altered files give CorruptError, never wrong data."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from same import assert_same

import lacus


def data_files(ds: lacus.Dataset) -> list[Path]:
    return sorted(Path(ds.url).glob("data/*.parquet"))


def values(rng: np.random.Generator) -> dict[str, dict[str, object]]:
    dense = rng.integers(0, 4, (40, 50), dtype=np.int16)
    sparse = np.where(rng.random((40, 50)) < 0.1, rng.random((40, 50)), 0)
    return {
        "raw": {"value": dense, "layout": "dense", "compression": None, "chunk_shape": (10, 50)},
        "zstd": {"value": dense, "layout": "dense", "compression": "zstd", "chunk_shape": (10, 50)},
        "COO": {"value": sparse, "layout": "COO"},
        "CSR": {"value": sparse, "layout": "CSR"},
        "CSF": {"value": sparse, "layout": "CSF"},
        "BSGS": {"value": sparse, "layout": "BSGS"},
    }


KINDS = ["raw", "zstd", "COO", "CSR", "CSF", "BSGS"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file(ds: lacus.Dataset, rng: np.random.Generator, kind: str) -> None:
    options = values(rng)[kind]
    ds.put("x", **options)  # type: ignore[arg-type]
    (file,) = data_files(ds)
    whole = file.read_bytes()
    for size in (0, 1, 4, 8, len(whole) // 4, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(lacus.CorruptError, match=file.name):
            lacus.open(ds.url)["x"][...]
    file.unlink()
    with pytest.raises((lacus.CorruptError, lacus.NotFoundError), match=file.name):
        lacus.open(ds.url)["x"][...]
    file.write_bytes(whole)
    assert_same(np.asarray(lacus.open(ds.url)["x"]), options["value"])


@pytest.mark.parametrize("kind", KINDS)
def test_altered_bytes(ds: lacus.Dataset, rng: np.random.Generator, kind: str) -> None:
    options = values(rng)[kind]
    ds.put("x", **options)  # type: ignore[arg-type]
    (file,) = data_files(ds)
    whole = file.read_bytes()
    found = 0
    places = rng.choice(len(whole), min(len(whole), 120), replace=False)
    for place in [*places.tolist(), 0, 5, len(whole) - 1, len(whole) - 6]:
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        file.write_bytes(damaged)
        try:
            # Bytes that say nothing, such as statistics that this read does not use, may change.
            assert_same(np.asarray(lacus.open(ds.url)["x"]), options["value"], (kind, place))
        except lacus.LacusError as error:
            assert not isinstance(error, (lacus.InternalError, lacus.UnavailableError)), (place, error)
            found += isinstance(error, lacus.CorruptError)
    assert found > 10


def test_altered_values_of_a_chunk_name_tensor_and_chunk(ds: lacus.Dataset, rng: np.random.Generator) -> None:
    value = rng.integers(0, 256, (64, 64), dtype=np.uint8)
    ds.put("x", value, layout="dense", compression=None, chunk_shape=(16, 64))
    (file,) = data_files(ds)
    whole = bytearray(file.read_bytes())
    place = whole.index(value[16:32].tobytes())
    whole[place + 100] ^= 1
    file.write_bytes(whole)
    t = lacus.open(ds.url)["x"]
    with pytest.raises(lacus.CorruptError, match="x chunk .*checksum"):
        t[20]
    # Other chunks are read as ever.
    assert_same(t[:16], value[:16])
    assert_same(t[32:], value[32:])


def test_a_damaged_log(ds: lacus.Dataset, tmp_path: Path) -> None:
    ds["x"] = np.arange(5)
    for text in ("", "{", "not json", '{"add": 5}', "\x00\xff"):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(ds.url, copy)
        (copy / "_delta_log" / f"{1:020}.json").write_text(text)
        with pytest.raises(lacus.CorruptError, match=f"{1:020}.json"):
            lacus.open(copy)["x"][...]


def test_an_empty_log_entry_is_no_version(ds: lacus.Dataset) -> None:
    """What a power cut leaves of a version that was in no commit."""
    ds["x"] = np.arange(5)
    ds.commit("Safe")
    ds["x"] = np.zeros(5)
    entry = Path(ds.url, "_delta_log", f"{ds.version:020}.json")
    entry.write_bytes(b"")
    with pytest.raises(lacus.CorruptError, match=entry.name):
        lacus.open(ds.url)
    other = lacus.open(ds.url, at=ds.version - 1)
    report = other.check()
    assert not report.healthy and report.repaired == [] and "empty" in report.repairable[0][1]
    assert "repaired" not in repr(report) and "repairable" in repr(report) and entry.exists()
    report = other.check(repair=True)
    assert report.healthy and "empty" in report.repaired[0][1] and not entry.exists()
    assert_same(lacus.open(ds.url)["x"][...], np.arange(5))


def test_a_branch_opens_without_its_hint(ds: lacus.Dataset) -> None:
    ds["x"] = np.arange(5)
    ds.commit("First")
    ds.checkout("dev", create=True)
    ds["x"][1] = 9
    ds.commit("On dev")
    (hint,) = Path(ds.url).glob("_branches/*/_delta_log/_last_checkpoint")
    hint.unlink()
    assert lacus.open(ds.url, branch="dev")["x"][1] == 9
    report = ds.check()
    assert not hint.exists() and report.repaired == [] and "missing" in report.repairable[0][1]
    assert ds.check(repair=True).repaired and hint.exists() and ds.check().healthy
