"""Tensors staged by several processes become one version in one of them; those of a process that died are cleaned up."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest
from same import assert_same

import lacus

PROCESSES = multiprocessing.get_context("spawn")


def stage_part(url: str, number: int) -> bytes:
    """Stages two tensors, one dense and one sparse."""
    ds = lacus.open(url)
    thin = lacus.SparseTensor([[number], [1]], [float(number)], (100, 3))
    return ds.stage({f"part/{number}": np.full((50, 40), number), f"thin/{number}": thin})


def test_one_version_of_all(ds: lacus.Dataset) -> None:
    ds["part/1"] = np.zeros(3)
    before = ds.version
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=PROCESSES) as pool:
        parts = list(pool.map(stage_part, [ds.url] * 6, range(6)))
    assert lacus.open(ds.url).keys() == ["part/1"] and lacus.open(ds.url).version == before
    assert all(isinstance(part, bytes) and len(part) < 8192 for part in parts)
    assert ds.add_staged(parts) == before + 1
    found = lacus.open(ds.url)
    assert found.history(1)[0].operation == "ADD STAGED"
    for number in range(6):
        assert_same(found[f"part/{number}"][...], np.full((50, 40), number))
        assert found[f"thin/{number}"][number, 1] == number
    assert found.check().healthy


def test_in_a_transaction(ds: lacus.Dataset) -> None:
    part = ds.stage({"x": np.arange(5)}, metadata={"x": {"unit": "m"}})
    with ds.transaction("Staged") as tx:
        ds.add_staged([part], durable=True)
        ds["y"] = np.ones(2)
        assert "x" not in lacus.open(ds.url)
    assert tx.id is not None and ds.status().clean
    found = lacus.open(ds.url)
    assert found.keys() == ["x", "y"] and found["x"].metadata == {"unit": "m"}


def test_what_does_not_fit_is_refused(ds: lacus.Dataset, tmp_path: Path) -> None:
    part = ds.stage({"x": np.arange(5)})
    other = lacus.create(tmp_path / "other")
    with pytest.raises(lacus.InvalidError, match="another dataset"):
        other.add_staged([part])
    with pytest.raises(lacus.InvalidError, match="staged twice"):
        ds.add_staged([part, part])
    with pytest.raises(lacus.InvalidError, match="checksum"):
        ds.add_staged([part.replace(b"data/", b"date/")])
    with pytest.raises(lacus.InvalidError, match=r"add_staged\(\[part\]\)"):
        ds.add_staged(part)
    with pytest.raises(lacus.InvalidError, match="bytes that stage returned, found a str"):
        ds.add_staged(["x"])  # type: ignore[list-item]
    ds.add_column("rows")
    columns = ds.stage({"y": np.arange(3)})
    ds.add_column("y")
    with pytest.raises(lacus.LacusError, match='"y"'):
        ds.add_staged([columns])
    ds.commit("Before")
    ds.checkout("branch", create=True)
    with pytest.raises(lacus.InvalidError, match="another branch"):
        ds.add_staged([part])
    ds.checkout("main")
    with pytest.raises(lacus.LacusError):
        lacus.open(ds.url, at="main").stage({"x": np.arange(5)})
    # After all that it can still be added, once.
    ds.add_staged([part])
    with pytest.raises(lacus.InvalidError, match="added before"):
        ds.add_staged([part])
    assert ds["x"][...].tolist() == [0, 1, 2, 3, 4]
    assert ds.add_staged([]) == ds.version


def stage_and_die(url: str) -> None:
    """Stages, and dies before it could tell anybody."""
    lacus.open(url).stage({"lost": np.arange(100_000)})
    os._exit(1)


def test_what_a_dead_process_staged_is_cleaned_up(ds: lacus.Dataset) -> None:
    ds["kept"] = np.arange(10)
    worker = PROCESSES.Process(target=stage_and_die, args=(ds.url,))
    worker.start()
    worker.join(60)
    part = ds.stage({"mine": np.arange(10)})
    data = Path(ds.url, "data")
    assert len(list(data.iterdir())) == 3
    # Within the grace period somebody may yet add it.
    assert ds.gc(dry_run=False).removable == []
    time.sleep(0.05)
    assert len(ds.gc(dry_run=False, grace=0).removable) == 2
    assert len(list(data.iterdir())) == 1
    with pytest.raises(lacus.InvalidError, match="is missing: it was cleaned up"):
        ds.add_staged([part])
    assert ds.check().healthy and ds.keys() == ["kept"]
