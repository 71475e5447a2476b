"""Clean-up removes what nothing needs and nothing else; a check tells damage."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest

import lacus


@pytest.fixture
def worked(ds: lacus.Dataset) -> lacus.Dataset:
    """A dataset with commits, a branch, a tag, a draft, and things that nothing needs."""
    ds.put("x", np.arange(1000), compression=None)
    ds.commit("First")
    ds.tag("v1")
    for k in range(3):
        ds.put("x", np.arange(1000) + k, compression=None)
    ds.commit("Second")
    ds.checkout("gone", create=True)
    ds["y"] = np.arange(500)
    ds.commit("On a branch that goes")
    ds.checkout("main")
    ds.branches.delete("gone", force=True)
    ds["z"] = np.arange(10)
    return ds


def files(ds: lacus.Dataset) -> set[str]:
    return {str(path) for path in Path(ds.url).rglob("*") if path.is_file()}


def test_a_dry_run_removes_nothing(worked: lacus.Dataset) -> None:
    before = files(worked)
    report = worked.gc(grace=0)
    assert not report.removed and report.removable and report.removable_bytes > 0
    assert "would remove" in repr(report) and any("main" in kept.reason for kept in report.kept)
    assert lacus.open(worked.url, read_only=True).gc(grace=0).removable == report.removable
    assert files(worked) == before
    # Everything is younger than a day.
    assert worked.gc().removable == []


def test_what_is_needed_stays(worked: lacus.Dataset) -> None:
    before = files(worked)
    report = worked.gc(dry_run=False, grace=datetime.timedelta(0))
    assert report.removed and len(files(worked)) < len(before)
    for at in ("v1", "main~1", "main"):
        assert lacus.open(worked.url, at=at)["x"].shape == (1000,)
    assert worked["z"].shape == (10,) and lacus.open(worked.url)["z"].shape == (10,)
    # What changed within the clock's last tick is young even so, and goes with the next run.
    worked.gc(dry_run=False, grace=0)
    assert worked.gc(grace=0).removable == [] and worked.check().healthy
    worked.commit("And on")
    worked.checkout("new", create=True)


def test_old_drafts_expire(worked: lacus.Dataset) -> None:
    assert sum(worked.expire("0s", dry_run=True).expired.values()) > 0
    assert worked.expire("1w").expired.get("main", 0) == 0
    worked.expire(0)
    with pytest.raises(lacus.NotFoundError):
        lacus.open(worked.url, at=3)
    assert lacus.open(worked.url, at="main~1")["x"][0] == 0 and worked["z"][3] == 3
    assert worked.check().healthy


def test_a_check_tells_damage(worked: lacus.Dataset) -> None:
    report = worked.check()
    assert report.healthy and (report.branches, report.tags) == (1, 1) and report.commits >= 2
    assert report.verified_bytes > 0 and "healthy" in repr(report)
    # Every large file, whichever of them the newest version has.
    for path in Path(worked.url).glob("data/*.parquet"):
        if path.stat().st_size > 8000:
            damage(path)
    report = lacus.open(worked.url).check()
    assert not report.healthy and "damaged" in repr(report) and '"x"' in report.damage[0][0]


def test_a_check_tells_damage_of_what_only_a_tag_has(ds: lacus.Dataset) -> None:
    ds.put("x", np.arange(1000), compression=None)
    (only,) = Path(ds.url).glob("data/*.parquet")
    ds.commit("First")
    ds.tag("v1")
    ds.put("x", np.zeros(3), compression=None)
    ds.commit("Second")
    assert ds.check().healthy
    damage(only)
    with pytest.raises(lacus.CorruptError):
        lacus.open(ds.url, at="v1")["x"][...]
    assert not lacus.open(ds.url).check().healthy


def damage(path: Path) -> None:
    """Turns one bit of a file."""
    found = bytearray(path.read_bytes())
    found[len(found) // 3] ^= 1
    path.write_bytes(found)
