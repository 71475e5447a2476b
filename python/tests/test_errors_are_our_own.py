"""Errors of Python, numpy, torch, Arrow and process pools come as errors of Lacus that name the place and a way out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus

HALF = "\ud800"


@pytest.fixture
def ds(tmp_path: Path) -> lacus.Dataset:
    ds = lacus.create(tmp_path / "ds")
    ds["x"] = np.zeros((3, 3))
    ds.add_column("text", "text")
    ds.add_column("label", "class_label", class_names=["a"])
    ds.add_column("numbers", dtype="float64", shape=(None,))
    ds.append({"text": "a", "label": 0})
    return ds


def of_text() -> list[tuple[str, Any]]:
    def call(name: str, *args: Any, **kwargs: Any) -> tuple[str, Any]:
        return name, lambda ds, path: getattr(ds, name)(*args, **kwargs)

    return [
        ("get", lambda ds, path: ds[HALF]),
        ("in", lambda ds, path: HALF in ds),
        ("set", lambda ds, path: ds.__setitem__(HALF, 1)),
        call("put", HALF, 1),
        call("put_all", {HALF: 1}),
        ("metadata", lambda ds, path: ds.put("y", 1, metadata={"a": HALF})),
        call("set_metadata", {"a": HALF}),
        call("rename", "x", HALF),
        call("add_column", HALF, "text"),
        call("add_column", "y", HALF),
        call("add_column", "y", "class_label", class_names=[HALF]),
        call("drop_column", HALF),
        call("rename_column", "text", HALF),
        ("names", lambda ds, path: ds["label"].add_class_names([HALF])),
        call("append", {HALF: "a"}),
        call("append", {"text": HALF}),
        call("commit", HALF),
        call("import_from", HALF + ".csv"),
        call("import_from", "x.csv", prefix=HALF),
        call("export_to", HALF + ".csv"),
        call("export_to", "x.csv", columns=[HALF]),
        ("store", lambda ds, path: ds["x"].lazy().store(ds, HALF)),
        ("group", lambda ds, path: ds.group(HALF)["a"]),
        ("create", lambda ds, path: lacus.create(path / HALF)),
        ("open", lambda ds, path: lacus.open(path / HALF)),
        ("exists", lambda ds, path: lacus.exists(path / HALF)),
        ("delete", lambda ds, path: lacus.delete(path / HALF)),
        ("branch", lambda ds, path: lacus.open(ds.url, branch=HALF)),
        ("at", lambda ds, path: lacus.open(ds.url, at=HALF)),
        ("options", lambda ds, path: lacus.open(ds.url, storage_options={"a": HALF})),
        ("run", lambda ds, path: lacus.run(HALF)),
        ("folder", lambda ds, path: lacus.from_folder(HALF, path / "other")),
    ]


@pytest.mark.parametrize(("name", "call"), of_text(), ids=[name for name, _ in of_text()])
def test_text_that_is_no_utf8(ds: lacus.Dataset, tmp_path: Path, name: str, call: Any) -> None:
    version = ds.version
    with pytest.raises(lacus.InvalidError, match="surrogates not allowed") as refused:
        call(ds, tmp_path)
    assert isinstance(refused.value.__cause__, UnicodeEncodeError)
    assert ds.version == version
    if name != "append":
        assert "U+D800" in str(refused.value) and "decode the bytes" in str(refused.value)


def test_none_among_numbers_is_no_nan(ds: lacus.Dataset) -> None:
    for numbers in ([float("nan"), None], [1.0, None], [None], [[float("inf")], [None]]):
        with pytest.raises(lacus.InvalidError, match=r'column "numbers", row 0'):
            ds.append({"numbers": numbers})
    ds.append({"numbers": [float("nan"), 1]})
    assert np.isnan(ds["numbers"][1][0])


def die(row: dict[str, Any]) -> None:
    os._exit(3)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_dies(ds: lacus.Dataset, workers: int) -> None:
    ds.extend({"text": ["a"] * 300})
    with pytest.raises(lacus.InvalidError, match="map: a worker process died, at or after row 0") as refused:
        ds.map(die, processes=True, workers=workers)
    assert refused.value.__cause__ is not None
    assert "BrokenProcessPool" in type(refused.value.__cause__).__name__


def test_a_tensor_without_data(ds: lacus.Dataset) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(lacus.InvalidError, match='tensor "z": cannot take a torch tensor on the device meta'):
        ds.put("z", torch.zeros(2, device="meta"))
    with pytest.raises(lacus.InvalidError, match='column "numbers", row 0'):
        ds.append({"numbers": torch.zeros(2, device="meta")})


class Unfinished:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("not yet")


def test_what_is_not_implemented_elsewhere(ds: lacus.Dataset) -> None:
    with pytest.raises(lacus.InvalidError, match='tensor "z": a Unfinished cannot be made an array: not yet'):
        ds.put("z", Unfinished())
    with pytest.raises(lacus.InvalidError, match='column "numbers", row 0: .*not yet'):
        ds.append({"numbers": Unfinished()})


@pytest.mark.parametrize("delimiter", ["", "ab", 7])
def test_delimiters_are_one_character(ds: lacus.Dataset, tmp_path: Path, delimiter: Any) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(lacus.InvalidError, match="delimiter: expected one character"):
        ds.import_from(tmp_path / "a.csv", delimiter=delimiter)
    with pytest.raises(lacus.InvalidError, match="delimiter: expected one character"):
        ds.export_to(tmp_path / "b.csv", delimiter=delimiter)


def test_sizes_count_arrays_and_columns(tmp_path: Path) -> None:
    ds = lacus.create(tmp_path / "ds")
    assert "stored" not in repr(ds) and " B" not in repr(ds)
    ds.put("x", np.arange(100, dtype=np.uint8), compression="none")
    assert "1 tensor, 100 B" in repr(ds)
    ds.add_column("y", dtype="uint8", shape=(50_000,), compression="none")
    ds.append({"y": np.zeros(50_000, np.uint8)})
    assert ds["y"].stored_bytes >= 50_000
    total = 100 + ds["y"].stored_bytes
    assert f"1 row, 1 column, 1 tensor, {total / 1000:.1f} kB" in repr(ds)
    assert f"{total / 1000:.1f} kB" in ds._repr_html_()
    # Also where not all tensors are shown.
    ds.put_all({f"t{n}": np.ones(1000, np.uint8) for n in range(30)}, compression="none")
    assert f"31 tensors, {(total + 30_000) / 1000:.1f} kB" in repr(ds)
