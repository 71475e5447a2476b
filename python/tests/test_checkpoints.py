"""States are saved as commits and come back bit for bit: nesting, shared memory, steps, retention, in the background."""

from __future__ import annotations

import collections
import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same import assert_same
from workers import ENVIRONMENT

import lacus
from lacus import _background, checkpoint


def weights(rng: np.random.Generator, count: int = 4) -> dict[str, np.ndarray]:
    return {f"layers.{i}.weight": rng.standard_normal((32, 16 + i)).astype(np.float32) for i in range(count)}


def data_bytes(url: str) -> int:
    return sum(path.stat().st_size for path in Path(url, "data").iterdir())


def test_a_state_comes_back(url: str, rng: np.random.Generator) -> None:
    state = {
        "model": weights(rng),
        "optimizer": {"state": {0: {"step": np.int64(7), "exp": rng.random(3)}, 1: {}}, "groups": [{"lr": 1e-3, "betas": (0.9, 0.999)}]},
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        "text": "größer\n\ud800",
        "bytes": b"\0\1\2",
        "long bytes": bytes(range(256)) * 100,
        "none": None,
        "flags": [True, False],
        "numbers": [0, -(10**40), 1.5, math.inf, -math.inf, 3 + 4j],
        "empty": {"dict": {}, "list": [], "tuple": (), "array": np.zeros((0, 3), np.int16)},
        "scalar": np.array(2.5),
        "set": {1, 2},
        "": {"/": np.arange(3), "%": np.arange(4), "..": np.arange(5)},
        0: np.arange(2, dtype=np.uint8),
        "0": np.arange(3, dtype=np.uint8),
    }
    made = lacus.save(state, url)
    assert (made.step, made.message) == (None, "Checkpoint")
    found = lacus.load(url)
    assert list(found) == list(state)
    same(found, state)
    assert type(found["ordered"]) is collections.OrderedDict and type(found["model"]) is dict
    assert type(found["optimizer"]["state"][0]["step"]) is np.int64
    lacus.save({"x": math.nan}, url)
    assert math.isnan(lacus.load(url)["x"])
    for plain in (np.arange(6).reshape(2, 3), [np.ones(2)], 3, None):
        lacus.save(plain, url)
        same(lacus.load(url), plain)


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        assert_same(found, expected)
    elif isinstance(expected, dict):
        assert type(found) is type(expected) and list(found) == list(expected)
        for key, value in expected.items():
            same(found[key], value)
    elif isinstance(expected, (list, tuple)):
        assert type(found) is type(expected) and len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    else:
        assert type(found) is type(expected) and found == expected


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128", ">f4", ">i8", "M8[ns]", "m8[s]"],
)
def test_every_type(url: str, rng: np.random.Generator, dtype: str) -> None:
    value = np.frombuffer(rng.bytes(16 * 12), np.uint8)
    value = (value % 2).astype(bool) if dtype == "bool" else value.view(dtype)
    lacus.save({"x": value, "y": value[:4].reshape(2, 2).T}, url)
    found = lacus.load(url)
    assert found["x"].dtype == value.dtype and found["x"].tobytes() == value.tobytes()
    assert found["y"].tobytes() == value[:4].reshape(2, 2).T.tobytes()
    into = {"x": np.zeros_like(value), "y": np.zeros((2, 2), value.dtype)}
    lacus.load(url, into=into)
    assert into["x"].tobytes() == value.tobytes() and into["y"].tobytes() == found["y"].tobytes()


def test_types_that_numpy_lacks(url: str, rng: np.random.Generator) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"]
    state = {
        name: np.frombuffer(rng.bytes(64), np.uint8).view(getattr(ml_dtypes, name))
        for name in names
        if hasattr(ml_dtypes, name)
    }
    lacus.save(state, url)
    for name, value in lacus.load(url).items():
        assert value.dtype == state[name].dtype and value.tobytes() == state[name].tobytes()
    assert lacus.open(url)["float8_e5m2"].metadata == {"dtype": "float8_e5m2"}


def test_memory_is_stored_once_and_shared_again(url: str) -> None:
    whole = np.arange(24.0).reshape(4, 6)
    overlapping = np.arange(10, dtype=np.int32)
    lone = np.arange(40.0).reshape(5, 8)
    state = {
        "part": whole[1:3, ::2],
        "tied": {"a": whole, "b": whole, "turned": whole.T, "back": whole[::-1]},
        "windows": [overlapping[:6], overlapping[4:]],
        "wide": np.broadcast_to(np.float32(3), (1000, 1000)),
        "fortran": np.asfortranarray(lone),
        "every other": lone[::2, 1::3],
        "bytes": whole.view(np.uint8)[0, 3:7],
    }
    made = lacus.save(state, url)
    assert made.tensors == 11
    fortran, every_other = lone.nbytes, lone[::2, 1::3].size * 8
    assert made.bytes == whole.nbytes + overlapping.nbytes + 4 + fortran + every_other
    assert lacus.open(url)["tied/a"].shape == (4, 6)
    found = lacus.load(url)
    for path in (("part",), ("tied", "a"), ("tied", "turned"), ("tied", "back"), ("wide",), ("fortran",), ("every other",), ("bytes",)):
        one, other = state, found
        for key in path:
            one, other = one[key], other[key]
        assert_same(other, one)
        assert other.strides == one.strides, path
    found["tied"]["b"][1, 2] = -1
    assert found["part"][0, 1] == found["tied"]["a"][1, 2] == found["tied"]["turned"][2, 1] == found["tied"]["back"][2, 2] == -1
    found["windows"][0][5] = 99
    assert found["windows"][1][1] == 99
    # What is loaded in part shares nothing that it does not have.
    assert_same(lacus.load(url, names=["part"])["part"], state["part"])


def test_steps_are_commits(url: str, rng: np.random.Generator) -> None:
    states = []
    for step in (10, 20, 30):
        states.append({"w": rng.random(100), "step": step})
        made = lacus.save(states[-1], url, step=step, message=f"after {step}")
        assert (made.step, made.tag, made.tensors, made.bytes) == (step, f"step-{step}", 1, 800)
    listed = lacus.checkpoints(url)
    assert [(c.step, c.message, c.tensors, c.bytes) for c in listed] == [(s, f"after {s}", 1, 800) for s in (10, 20, 30)]
    for step, state in zip((10, 20, 30), states):
        same(lacus.load(url, step=step), state)
        assert_same(lacus.open(url, at=f"step-{step}")["w"][10:20], state["w"][10:20])
    same(lacus.load(url), states[-1])
    assert lacus.open(url).status().clean
    # Saved again, a step is replaced.
    again = {"w": rng.random(100), "step": 20}
    lacus.save(again, url, step=20)
    same(lacus.load(url, step=20), again)
    assert [c.step for c in lacus.checkpoints(url)] == [10, 30, 20]
    with pytest.raises(lacus.NotFoundError, match="no step 25 at .*; there are 10, 20, 30"):
        lacus.load(url, step=25)
    assert lacus.open(url).check().healthy


def test_unchanged_tensors_are_not_written(url: str, rng: np.random.Generator) -> None:
    state = {f"w{i}": rng.random(10_000) for i in range(100)}
    first = lacus.save(state, url, step=0)
    assert first.written == first.bytes == 8_000_000
    before = data_bytes(url)
    state["w7"] = rng.random(10_000)
    second = lacus.save(state, url, step=1)
    assert second.written == 80_000
    assert data_bytes(url) - before < 0.012 * first.bytes
    same(lacus.load(url), state)
    # Whoever wrote to the array by hand did not change what the next save has.
    ds = lacus.open(url)
    ds["w3"][0] = -1
    assert lacus.save(state, url, step=2).written == 8_000_000
    same(lacus.load(url), state)
    # A tensor that is gone, one that is new, one of another shape.
    del state["w5"]
    state["new"], state["w1"] = np.ones(3), state["w1"].reshape(100, 100)
    assert lacus.save(state, url, step=3).written == 80_024
    assert "w5" not in lacus.open(url) and "w5" in lacus.open(url, at="step-2")
    same(lacus.load(url), state)


def test_retention(url: str, rng: np.random.Generator) -> None:
    for step in range(0, 100, 10):
        lacus.save({"w": rng.random(50_000)}, url, step=step, keep_last=2, keep_every=40)
    assert [c.step for c in lacus.checkpoints(url)] == [0, 40, 80, 90]
    assert data_bytes(url) < 4.5 * 400_000
    with pytest.raises(lacus.NotFoundError):
        lacus.load(url, step=10)
    for step in (0, 40, 80, 90):
        assert lacus.load(url, step=step)["w"].shape == (50_000,)
    assert lacus.open(url).check().healthy
    lacus.save({"w": 1}, url, step=100, keep_last=1)
    assert [c.step for c in lacus.checkpoints(url)] == [100]


def test_in_parts(url: str, rng: np.random.Generator) -> None:
    state = {"model": weights(rng), "epoch": 3, "optimizer": {"lr": 0.1, "m": rng.random(3)}}
    lacus.save(state, url)
    found = lacus.load(url, names=["model/layers.1.weight", "optimizer", "epoch"])
    same(found, {"model/layers.1.weight": state["model"]["layers.1.weight"], "optimizer": state["optimizer"], "epoch": 3})
    with pytest.raises(lacus.NotFoundError, match="'model/layers.1.weigh'.*did you mean 'model/layers.1.weight'"):
        lacus.load(url, names=["model/layers.1.weigh"])
    with pytest.raises(lacus.InvalidError, match=r"names=\['epoch'\]"):
        lacus.load(url, names="epoch")


def test_into_arrays(url: str, rng: np.random.Generator) -> None:
    state = {"model": weights(rng), "epoch": 3, "more": [np.arange(3), 1]}
    lacus.save(state, url)
    into: dict[str, Any] = {"model": {name: np.zeros_like(w) for name, w in state["model"].items()}, "epoch": 0, "more": [np.zeros(3, int), 0]}
    # Also what is not one piece of memory.
    name = "layers.2.weight"
    into["model"][name] = np.zeros((32, 40), np.float32)[:, 3:21]
    kept = into["model"]["layers.0.weight"]
    assert lacus.load(url, into=into) == ([], [])
    same(into, state)
    assert into["model"]["layers.0.weight"] is kept

    into["model"]["extra"] = np.zeros(1)
    del into["model"][name]
    kept[...] = 0
    with pytest.raises(lacus.InvalidError) as raised:
        lacus.load(url, into=into)
    assert "missing in the checkpoint: model.extra" in str(raised.value)
    assert f"unexpected in the checkpoint: model.{name}" in str(raised.value)
    assert not kept.any(), "nothing was changed"
    assert lacus.load(url, into=into, strict=False) == (["model.extra"], [f"model.{name}"])
    assert_same(kept, state["model"]["layers.0.weight"])

    into = {"model": {"layers.0.weight": np.zeros((1, 2), np.float32), "layers.1.weight": np.zeros((32, 17), np.float64)}}
    with pytest.raises(lacus.InvalidError) as raised:
        lacus.load(url, into=into, strict=False)
    assert "state['model']['layers.0.weight']: shape (1, 2) is expected, the checkpoint has (32, 16)" in str(raised.value)
    assert "state['model']['layers.1.weight']: float64 is expected, the checkpoint has float32" in str(raised.value)


class Odd:
    pass


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": [1, {"b": Odd()}]}, r"state\['a'\]\[1\]\['b'\]: .*Odd cannot be stored"),
        ({"a": {(1, 2): 3}}, r"state\['a'\]: the key \(1, 2\) is a tuple; keys are text or integers"),
        ({True: 1}, r"state: the key True is a bool"),
        ({"f": len}, r"state\['f'\]: .* cannot be stored; store its name"),
        ({"x": np.array(["a"])}, r"state\['x'\]: an array of <U1 cannot be stored"),
        ({"x": np.array([object()])}, r"state\['x'\]: an array of object cannot be stored"),
        ({"x": np.ma.masked_array([1], [True])}, r"state\['x'\]: a masked array"),
        ({"x": np.zeros(2, np.longdouble)}, r"state\['x'\]: an array of .* cannot be stored"),
    ],
)
def test_what_cannot_be_stored_is_named(url: str, state: Any, message: str) -> None:
    lacus.save({"w": np.arange(3)}, url, step=1)
    for wait in (True, False):
        with pytest.raises(lacus.InvalidError, match=message):
            lacus.save(state, url, step=2, wait=wait)
    assert [c.step for c in lacus.checkpoints(url)] == [1]
    assert_same(lacus.load(url)["w"], np.arange(3))


def test_nesting_has_an_end(url: str) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(lacus.InvalidError, match=r"state\[0\]: a list that contains itself"):
        lacus.save(loop, url)
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(lacus.InvalidError, match="nested deeper than 200 levels"):
        lacus.save(deep, url)
    point = collections.namedtuple("point", "x y")
    with pytest.raises(lacus.InvalidError, match=r"state\['p'\]: .*named tuple"):
        lacus.save({"p": point(1, 2)}, url)
    assert not lacus.exists(url)


def test_places_of_another_kind(url: str, tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    file.write_bytes(b"something else")
    with pytest.raises(lacus.LacusError, match="model.pt"):
        lacus.save({}, file)
    assert file.read_bytes() == b"something else"
    with pytest.raises(lacus.NotFoundError, match="model.pt"):
        lacus.load(file)
    full = tmp_path / "full"
    full.mkdir()
    (full / "a.txt").write_text("a")
    with pytest.raises(lacus.ConflictError, match="a path of its own"):
        lacus.save({}, full)
    ds = lacus.create(url)
    ds["x"] = np.arange(3)
    with pytest.raises(lacus.InvalidError, match="holds other things than checkpoints"):
        lacus.save({}, url)
    with pytest.raises(lacus.InvalidError, match="no checkpoint in the dataset"):
        lacus.load(url)
    assert lacus.open(url).keys() == ["x"]
    with pytest.raises(lacus.NotFoundError):
        lacus.load(tmp_path / "nothing")


@pytest.mark.parametrize("options", [{"step": -1}, {"step": 1.5}, {"step": True}, {"keep_last": 0}, {"keep_every": "2"}, {"message": " "}])
def test_options_are_checked(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(lacus.InvalidError, match=next(iter(options))):
        lacus.save({}, url, **options)
    assert not lacus.exists(url)


def test_a_newer_form_is_refused(url: str) -> None:
    lacus.save({"x": 1}, url)
    ds = lacus.open(url)
    text = ds["_checkpoint"].read().tobytes().replace(b'"form":1', b'"form":2')
    ds["_checkpoint"] = np.frombuffer(text, np.uint8)
    with pytest.raises(lacus.InvalidError, match="has form 2, this version of Lacus knows 1: update Lacus"):
        lacus.load(url)
    with pytest.raises(lacus.InvalidError, match="update Lacus"):
        lacus.save({"x": 2}, url)


def test_in_the_background(url: str, rng: np.random.Generator) -> None:
    state = {"w": rng.random((200, 300)), "t": rng.random((30, 20)).T}
    expected = {name: value.copy() for name, value in state.items()}
    handle = lacus.save(state, url, step=1, wait=False)
    assert isinstance(handle, lacus.Saving)
    # Values are those of the call.
    for value in state.values():
        value[...] = 0
    made = handle.result()
    assert (made.step, handle.done()) == (1, True)
    for name, value in lacus.load(url, step=1).items():
        assert_same(value, expected[name])
    memory = {id(each) for kept in _background._kept.values() for each in kept}
    for step in range(2, 5):
        state["w"][...] = step
        lacus.save(state, url, step=step, wait=False)
    # The next call waits, and so does a load; memory is used again.
    assert lacus.load(url)["w"][0, 0] == 4
    assert {id(each) for kept in _background._kept.values() for each in kept} == memory
    assert [c.step for c in lacus.checkpoints(url)] == [1, 2, 3, 4]
    assert lacus.load(url, step=3)["w"][0, 0] == 3


def test_errors_of_the_background_surface_once(url: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    handle = lacus.save({"w": np.arange(3)}, file, wait=False)
    with pytest.raises(lacus.LacusError):
        handle.result()
    lacus.save({"w": np.arange(3)}, url)
    lacus.save({"w": np.arange(3)}, file, wait=False)
    with pytest.raises(lacus.LacusError, match="file"):
        lacus.save({"w": np.arange(4)}, url)
    lacus.save({"w": np.arange(5)}, url)
    assert len(lacus.load(url)["w"]) == 5


def test_one_is_in_flight(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, lock = 0, 0, threading.Lock()
    write = checkpoint._write

    def counted(*args: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        made = write(*args)
        with lock:
            running -= 1
        return made

    monkeypatch.setattr(checkpoint, "_write", counted)
    for step in range(5):
        lacus.save({"w": np.full(1000, step)}, url, step=step, wait=False)
    lacus.save({"w": np.full(1000, 5)}, url, step=5)
    assert most == 1 and [c.step for c in lacus.checkpoints(url)] == list(range(6))


def test_a_process_that_ends_waits_for_it(url: str) -> None:
    code = f"import lacus, numpy as np; lacus.save({{'w': np.arange(100000)}}, {url!r}, step=3, wait=False)"
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT, timeout=60)
    assert_same(lacus.load(url, step=3)["w"], np.arange(100000))


def test_a_step_without_its_tag_is_found(url: str) -> None:
    for step in (1, 2):
        lacus.save({"w": np.full(3, step)}, url, step=step)
    # As if killed before the tag was there.
    lacus.open(url).tags.delete("step-2")
    assert [c.step for c in lacus.checkpoints(url)] == [1, 2]
    assert lacus.load(url, step=2)["w"][0] == 2
    lacus.save({"w": np.full(3, 3)}, url, step=3)
    assert set(lacus.open(url).tags) == {"step-1", "step-2", "step-3"}


def test_not_durable_is_complete_all_the_same(url: str) -> None:
    for step in range(3):
        lacus.save({"w": np.full(1000, step)}, url, step=step, durable=False)
    assert lacus.load(url)["w"][0] == 2 and lacus.open(url).check().healthy
    lacus.save({"w": np.full(1000, 3)}, url, step=3)
    assert [c.step for c in lacus.checkpoints(url)] == [0, 1, 2, 3]


def test_there_is_no_pickle(url: str) -> None:
    code = (
        "import pickle, lacus, numpy as np\n"
        "def no(*a, **k): raise SystemExit('pickled')\n"
        "pickle.dumps = pickle.loads = pickle.dump = pickle.load = pickle.Pickler = pickle.Unpickler = no\n"
        f"lacus.save({{'a': [np.arange(3), 'x', b'y']}}, {url!r}); assert lacus.load({url!r})['a'][1] == 'x'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT, timeout=60)


def test_the_command_lists_steps(url: str) -> None:
    command = os.environ.get("LACUS_TEST_CLI")
    if not command or not Path(command).is_file():
        pytest.skip("NO lacus COMMAND: LACUS_TEST_CLI names none")

    def told(*more: str) -> str:
        return subprocess.run([command, "checkpoints", url, *more], check=True, capture_output=True, text=True, timeout=60).stdout

    lacus.create(url)
    assert json.loads(told("--json")) == []
    for step in (5, 10, 15):
        lacus.save({"w": np.full(1000, step), "n": step}, url, step=step, message=f"after {step}", keep_last=2)
    found = json.loads(told("--json"))
    assert [(c["step"], c["message"], c["tensors"], c["bytes"], c["written"]) for c in found] == [
        (step, f"after {step}", 1, 8000, 8000) for step in (10, 15)
    ]
    assert [line.split()[0] for line in told().splitlines()] == ["10", "15"]
    lacus.save({"w": 1}, url)
    assert told().splitlines()[-1].split()[0] == "latest"


@pytest.mark.parametrize("wait", [True, False])
def test_a_disk_without_room_leaves_the_step_before(url: str, wait: bool) -> None:
    lacus.save({"w": np.arange(1000)}, url, step=1)
    # No file may grow beyond a megabyte: what a full disk does to a write, it does too.
    code = (
        "import resource, lacus, numpy as np\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "try:\n"
        f"    made = lacus.save({{'w': np.random.rand(1 << 19)}}, {url!r}, step=2, wait={wait})\n"
        "    getattr(made, 'result', lambda: None)()\n"
        "except lacus.LacusError as error:\n"
        "    print(error)\n"
        "else:\n"
        "    raise SystemExit('no error')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT, timeout=60, capture_output=True, text=True)
    assert done.stdout.strip()
    assert [c.step for c in lacus.checkpoints(url)] == [1]
    assert_same(lacus.load(url)["w"], np.arange(1000))
    assert lacus.open(url).check().healthy
    lacus.save({"w": np.arange(10)}, url, step=2)
    assert len(lacus.load(url)["w"]) == 10


def test_in_memory() -> None:
    url = "memory://checkpoints-of-a-test"
    for step in range(3):
        lacus.save({"w": np.full(10, step)}, url, step=step, wait=step % 2 == 0)
    assert [c.step for c in lacus.checkpoints(url)] == [0, 1, 2]
    assert lacus.load(url, step=1)["w"].tolist() == [1] * 10
    lacus.delete(url)
