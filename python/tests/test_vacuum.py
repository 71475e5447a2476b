"""Stock `deltalake` vacuums main with default settings, and no branch loses anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lacus

deltalake = pytest.importorskip("deltalake")


@pytest.mark.parametrize("full", [False, True])
def test_a_stock_vacuum_damages_no_branch(tmp_path: Path, full: bool) -> None:
    url = str(tmp_path / "ds")
    ds = lacus.create(url)
    ds["x"] = np.arange(8)
    first = ds.commit("first")
    ds.checkout("dev", create=True)
    ds["y"] = np.ones(4)
    ds.commit("on dev")
    ds.checkout("main")
    # What only the branch and the first commit have from now on.
    ds["x"] = np.zeros(8)
    ds["x"][2:4] = 7
    ds.commit("second")

    table = deltalake.DeltaTable(url)
    table.vacuum(dry_run=False, full=full)

    for branch, expected in [("main", [0, 0, 7, 7, 0, 0, 0, 0]), ("dev", list(range(8)))]:
        again = lacus.open(url, branch=branch)
        assert again["x"][:].tolist() == expected
    assert lacus.open(url, branch="dev")["y"][:].tolist() == [1, 1, 1, 1]
    assert lacus.open(url, at=first)["x"][:].tolist() == list(range(8))
