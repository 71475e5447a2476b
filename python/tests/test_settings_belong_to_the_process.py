"""``lacus.configure`` changes the threads and the memory of the process; what is wrong is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = lacus.settings()
    yield
    lacus.configure(threads=before["threads"], memory=before["memory"])


def test_what_is_set_is_reported() -> None:
    lacus.configure(threads=3, memory="512MiB")
    found = lacus.settings()
    assert list(found) == ["threads", "memory", "in_flight", "cached"]
    assert (found["threads"], found["memory"]) == (3, 512 << 20)
    lacus.configure(memory=100_000_001)
    assert (lacus.settings()["threads"], lacus.settings()["memory"]) == (3, 100_000_001)
    lacus.configure(threads=1)
    assert (lacus.settings()["threads"], lacus.settings()["memory"]) == (1, 100_000_001)
    lacus.configure()
    assert (lacus.settings()["threads"], lacus.settings()["memory"]) == (1, 100_000_001)


def test_caches_shrink_and_data_stays_right(tmp_path: Path) -> None:
    ds = lacus.create(tmp_path / "ds")
    ds.add_column("label", dtype="int64", shape=())
    labels = np.arange(50_000) % 17
    ds.extend({"label": labels})
    assert (ds["label"][::7] == labels[::7]).all()
    assert lacus.settings()["cached"] > 0
    lacus.configure(threads=1, memory=1)
    assert lacus.settings()["cached"] == 0
    assert lacus.settings()["in_flight"] == 0
    assert (ds["label"][[3, 49_999, 3]] == labels[[3, 49_999, 3]]).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"threads": 0},
        {"threads": -1},
        {"threads": 2.5},
        {"threads": "4"},
        {"threads": True},
        {"threads": 10**9},
        {"threads": 10**30},
        {"memory": 0},
        {"memory": -1},
        {"memory": "-1"},
        {"memory": ""},
        {"memory": "lots"},
        {"memory": "2 parsecs"},
        {"memory": True},
        {"memory": 10**30},
        {"memory": "99999999999999999999TiB"},
        {"threads": 2, "memory": "lots"},
    ],
)
def test_what_is_wrong_changes_nothing(wrong: dict[str, Any]) -> None:
    before = lacus.settings()
    with pytest.raises(lacus.InvalidError) as raised:
        lacus.configure(**wrong)
    assert isinstance(raised.value, ValueError)
    assert str(raised.value).startswith(("threads: ", "memory: "))
    after = lacus.settings()
    assert (after["threads"], after["memory"]) == (before["threads"], before["memory"])
