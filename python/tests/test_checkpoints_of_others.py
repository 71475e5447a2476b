"""Checkpoints from and to the files of others: safetensors byte for byte, shards, weights of torch; Lightning's plug-in; what moved."""

from __future__ import annotations

import json
import pickle
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same import assert_same

import lacus
from lacus.safetensors import read_safetensors


def test_weights_that_moved(url: str, rng: np.random.Generator, tmp_path: Path) -> None:
    a = {"still": rng.random(10), "moved": rng.random((3, 4)).astype(np.float32), "gone": np.ones(2), "cast": np.ones(2), "odd": np.array([1.0, np.nan])}
    b = {"still": a["still"], "moved": a["moved"] + np.float32(0.5), "new": np.ones(3), "cast": np.ones(2, np.float32), "odd": np.array([2.0, np.nan])}
    lacus.save(a, url, step=1)
    lacus.save(b, url, step=2)
    report = lacus.compare_checkpoints(url, 1, 2)
    assert {found.name: found.fate for found in report} == {
        "still": "same", "moved": "changed", "gone": "removed", "new": "added", "cast": "reshaped", "odd": "changed",
    }
    moved = report["moved"]
    difference = b["moved"].astype(float) - a["moved"]
    assert moved.moved == pytest.approx(np.linalg.norm(difference)) and moved.norm == pytest.approx(np.linalg.norm(a["moved"]))
    assert moved.largest == pytest.approx(0.5) and moved.changed == 12
    assert sum(moved.histogram) == 12 and moved.histogram[9] == 12, "from 0.1 to 1"
    assert report["odd"].not_finite == 1 and report["odd"].largest == 1
    assert "moved" in repr(report) and "still" not in repr(report).splitlines()[1]
    json.dumps(report.to_dict())
    report.plot(tmp_path / "moved.svg")
    xml.etree.ElementTree.parse(tmp_path / "moved.svg")
    assert "moved" in (tmp_path / "moved.svg").read_text()
    assert lacus.compare_checkpoints(url, "step-1")["moved"] == moved
    with pytest.raises(lacus.NotFoundError):
        lacus.compare_checkpoints(url, 1, 7)


def test_safetensors_come_in(url: str, tmp_path: Path, rng: np.random.Generator) -> None:
    ds = lacus.create(tmp_path / "source")
    value = rng.random((3, 4)).astype(np.float32)
    ds["w"], ds["n"] = value, np.arange(3)
    ds.export_to(tmp_path / "m.safetensors", "safetensors")
    made = lacus.import_checkpoint(tmp_path / "m.safetensors", url, step=4)
    assert (made.step, made.message) == (4, "Import m.safetensors")
    found = lacus.load(url, step=4)
    assert_same(np.asarray(found["w"]), value)
    assert_same(np.asarray(found["n"]), np.arange(3))


@pytest.mark.parametrize(
    "data",
    [b"", b"abc", b"\xff" * 20, b"\x02\0\0\0\0\0\0\0{]", b'\x40\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,800]}}           '],
)
def test_damaged_files_are_refused(url: str, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(lacus.CorruptError, match="bad.safetensors is no safetensors file"):
        lacus.import_checkpoint(path, url)
    assert not lacus.exists(url)
    with pytest.raises(lacus.NotFoundError):
        lacus.import_checkpoint(tmp_path / "none.safetensors", url)


def test_files_are_those_of_safetensors(url: str, tmp_path: Path, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("safetensors.torch")
    names = "uint8 int8 int16 uint16 float16 bfloat16 int32 uint32 float32 complex64 float64 int64 uint64"
    names += " float8_e5m2 float8_e4m3fn float8_e8m0fnu float8_e4m3fnuz float8_e5m2fnuz float4_e2m1fn_x2"
    state: dict[str, Any] = {"z.empty": torch.empty(0, 3), "number": torch.tensor(1.5), "ünï\n": torch.arange(3), "flags": torch.tensor([True, False])}
    for name in names.split():
        if not hasattr(torch, name):
            continue
        value = torch.from_numpy(np.frombuffer(rng.bytes(64), np.uint8).copy()).view(getattr(torch, name)).reshape(2, -1)
        try:
            theirs.save({"x": value})
        except Exception:
            # Not a type of this version of safetensors.
            continue
        state[f"layer.{name}"] = value
    assert len(state) > 15
    lacus.save({"model": state, "other": 1}, url)
    for metadata in (None, {"format": "pt"}):
        theirs.save_file(state, tmp_path / "theirs.safetensors", metadata=metadata)
        size = lacus.export_safetensors(url, tmp_path / "ours.safetensors", names="model", metadata=metadata)
        ours = (tmp_path / "ours.safetensors").read_bytes()
        assert ours == (tmp_path / "theirs.safetensors").read_bytes() and size == len(ours)
    found = read_safetensors(tmp_path / "theirs.safetensors")
    assert found.keys() == state.keys()
    for name, value in state.items():
        assert found[name].dtype == value.dtype and torch.equal(found[name].view(torch.uint8), value.view(torch.uint8)) if value.dim() else True
    shared = torch.ones(3)
    lacus.save({"a": shared, "b": shared}, url)
    with pytest.raises(lacus.InvalidError, match="'a', 'b' share memory"):
        lacus.export_safetensors(url, tmp_path / "x.safetensors")
    lacus.save({"a": torch.ones(3, dtype=torch.complex128)}, url)
    with pytest.raises(lacus.InvalidError, match="no type for complex128"):
        lacus.export_safetensors(url, tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()


def test_shards_and_weights_of_torch(url: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("safetensors.torch")
    parts = {"model-1.safetensors": {"a": torch.ones(2), "b": torch.zeros(3)}, "model-2.safetensors": {"c": torch.arange(4)}}
    for file, state in parts.items():
        theirs.save_file(state, tmp_path / file)
    index = tmp_path / "model.safetensors.index.json"
    names = {name: file for file, state in parts.items() for name in state}
    index.write_text(json.dumps({"metadata": {}, "weight_map": names}))
    lacus.import_checkpoint(index, url)
    assert list(lacus.load(url)) == ["a", "b", "c"]
    (tmp_path / "model-2.safetensors").unlink()
    with pytest.raises(lacus.NotFoundError, match="names the shard 'model-2.safetensors'"):
        lacus.import_checkpoint(index, url)
    torch.save({"w": torch.ones(3), "n": 1}, tmp_path / "m.pt")
    lacus.import_checkpoint(tmp_path / "m.pt", url)
    assert lacus.load(url)["n"] == 1

    class Harm:
        def __reduce__(self) -> Any:
            return open, (str(tmp_path / "harm"), "w")

    (tmp_path / "harm.pt").write_bytes(pickle.dumps(Harm()))
    with pytest.raises(lacus.CorruptError, match="harm.pt"):
        lacus.import_checkpoint(tmp_path / "harm.pt", url)
    assert not (tmp_path / "harm").exists() and lacus.load(url)["n"] == 1


@pytest.mark.parametrize("wait", [True, False])
def test_lightning_plugs_it_in(tmp_path: Path, wait: bool) -> None:
    plugin = lacus.lightning.CheckpointIO(wait=wait)
    path = tmp_path / "epoch=3.ckpt"
    plugin.save_checkpoint({"state_dict": {"w": np.arange(3)}, "epoch": 3}, path)
    found = plugin.load_checkpoint(path)
    assert found["epoch"] == 3 and found["state_dict"]["w"].tolist() == [0, 1, 2]
    plugin.remove_checkpoint(path)
    plugin.remove_checkpoint(path)
    plugin.teardown()
    assert not path.exists()
    with pytest.raises(lacus.NotFoundError):
        plugin.load_checkpoint(path)
    with pytest.raises(lacus.InvalidError, match="storage_options"):
        plugin.save_checkpoint({}, path, storage_options={})
