"""Checkpoints of torch: state dicts of modules and optimisers, tied weights, views, devices, types; and in place of torch.save."""

from __future__ import annotations

import collections
import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")


def model() -> Any:
    made = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4, dtype=torch.float32)
    )
    return made


def trained(steps: int = 3) -> tuple[Any, Any]:
    torch.manual_seed(0)
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(12, 8)).square().sum().backward()
        optimizer.step()
    return net, optimizer


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected), (type(found), type(expected))
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype and found.shape == expected.shape and found.stride() == expected.stride()
        assert torch.equal(found.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8)) if found.dim() else found == expected
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            same(found[key], value)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    else:
        assert found == expected


def test_modules_and_optimisers(url: str) -> None:
    net, optimizer = trained()
    state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(), "epoch": 3}
    lacus.save(state, url, step=3)
    found = lacus.load(url)
    same(found, state)
    assert isinstance(found["model"], collections.OrderedDict)
    assert found["model"]._metadata == state["model"]._metadata
    other = model()
    assert str(other.load_state_dict(found["model"])) == "<All keys matched successfully>"
    again = torch.optim.AdamW(other.parameters())
    again.load_state_dict(found["optimizer"])
    torch.manual_seed(5)
    data = torch.randn(12, 8)
    for one, opt in ((net, optimizer), (other, again)):
        opt.zero_grad()
        one(data).square().sum().backward()
        opt.step()
    same(other.state_dict(), net.state_dict())


def test_into_a_model(url: str) -> None:
    net, optimizer = trained()
    lacus.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, url)
    other = model()
    addresses = [p.data_ptr() for p in other.parameters()]
    again = torch.optim.AdamW(other.parameters())
    into = {"model": other, "optimizer": again, "epoch": 0}
    assert lacus.load(url, into=into) == ([], [])
    assert [p.data_ptr() for p in other.parameters()] == addresses and into["epoch"] == 3
    same(other.state_dict(), net.state_dict())
    same(again.state_dict()["state"], optimizer.state_dict()["state"])

    lacus.save(net.state_dict(), url)
    wider = torch.nn.Sequential(torch.nn.Linear(8, 17), *list(model())[1:])
    wider.register_buffer("more", torch.zeros(1))
    before = copy.deepcopy(wider.state_dict())
    with pytest.raises(lacus.InvalidError) as raised:
        lacus.load(url, into=wider)
    for line in ("state['0.weight']: shape (17, 8) is expected, the checkpoint has (16, 8)", "missing in the checkpoint: more"):
        assert line in str(raised.value)
    same(wider.state_dict(), before)
    half = model().half()
    with pytest.raises(lacus.InvalidError, match="float16 is expected, the checkpoint has float32"):
        lacus.load(url, into=half)
    smaller = torch.nn.Sequential(*list(model())[:2])
    with pytest.raises(lacus.InvalidError, match="unexpected in the checkpoint: 3.weight"):
        lacus.load(url, into=smaller)
    assert lacus.load(url, into=smaller, strict=False).unexpected_keys == ["3.weight", "3.bias"]
    assert torch.equal(smaller[0].weight, net[0].weight)


def test_tied_weights_and_views(url: str) -> None:
    embedding = torch.randn(50, 8)
    big = torch.arange(60.0).reshape(6, 10)
    state = {
        "embed": embedding,
        "head": embedding,
        "turned": big.t(),
        "rows": big[2:4],
        "whole": big,
        "lone": torch.arange(24.0).reshape(4, 6).t(),
        "gaps": torch.arange(24.0).reshape(4, 6)[::2, ::3],
        "expanded": torch.ones(1).expand(1000, 1000),
        "empty": torch.empty(0, 3),
        "number": torch.tensor(3.5),
        "channels": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "windows": [big.flatten()[:30], big.flatten()[25:]],
        "bits": big.view(torch.int32),
    }
    made = lacus.save(state, url)
    assert made.bytes == 1600 + 240 + 96 + 16 + 4 + 4 + 480
    found = lacus.load(url)
    same(found, state)
    assert found["embed"].data_ptr() == found["head"].data_ptr()
    found["whole"][2, 3] = -7
    assert found["turned"][3, 2] == found["rows"][0, 3] == found["windows"][0][23] == -7
    assert found["bits"][2, 3] == torch.tensor(-7.0).view(torch.int32)


def test_every_type(url: str) -> None:
    names = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex32 complex64 complex128"
    names += " float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
    raw = torch.randint(0, 256, (16 * 12,), dtype=torch.uint8)
    state = {name: raw.clone().view(getattr(torch, name)) for name in names.split() if hasattr(torch, name) and name != "bool"}
    state["bool"] = raw.clone() > 100
    lacus.save(state, url)
    found = lacus.load(url)
    for name, value in state.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape
        assert torch.equal(found[name].view(torch.uint8), value.view(torch.uint8)), name
    into = {name: torch.zeros_like(value.view(torch.uint8)).view(value.dtype) for name, value in state.items()}
    lacus.load(url, into=into)
    for name, value in state.items():
        assert torch.equal(into[name].view(torch.uint8), value.view(torch.uint8)), name
    assert lacus.open(url)["bfloat16"].read(raw=True).tobytes() == raw.numpy().tobytes()


def test_things_of_torch(url: str) -> None:
    dense = torch.rand(8, 9) * (torch.rand(8, 9) < 0.3)
    parameter = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    state = {
        "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1),
        "size": torch.Size([2, 3]),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "fixed": parameter,
        "leaf": torch.ones(2, requires_grad=True),
        "conj": torch.complex(torch.rand(3), torch.rand(3)).conj(),
    }
    lacus.save(state, url)
    found = lacus.load(url)
    assert (found["dtype"], found["device"], found["size"]) == (torch.bfloat16, torch.device("cuda", 1), torch.Size([2, 3]))
    assert type(found["size"]) is torch.Size
    assert type(found["parameter"]) is torch.nn.Parameter and found["parameter"].requires_grad
    assert not found["fixed"].requires_grad and found["leaf"].requires_grad
    assert torch.equal(found["conj"], state["conj"])
    layouts = [dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), torch.rand(4, 4).to_sparse_bsr((2, 2))]
    double = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    lacus.save([*layouts, double], url)
    for one, other in zip(lacus.load(url), [*layouts, double]):
        assert one.layout == other.layout and torch.equal(one.to_dense(), other.to_dense())
    assert not lacus.load(url)[-1].is_coalesced()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.nn.Linear(2, 2), r"state\['x'\]: a torch.nn.modules.linear.Linear cannot be stored; store its .state_dict\(\)"),
        (lambda: torch.zeros(2, device="meta"), r"state\['x'\]: a torch tensor that is meta"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), r"state\['x'\]: a torch tensor that is quantized"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_stored_is_named(url: str, make: Any, message: str) -> None:
    with pytest.raises(lacus.InvalidError, match=message):
        lacus.save({"x": make()}, url)


def test_drop_in(tmp_path: Path, url: str) -> None:
    import lacus.torch as drop_in

    net, _ = trained()
    drop_in.save(net.state_dict(), url, _use_new_zipfile_serialization=True)
    same(drop_in.load(url, map_location="cpu", weights_only=True), net.state_dict())
    same(lacus.torch.load(url, map_location=lambda storage, place: storage), net.state_dict())
    same(lacus.torch.load(url, map_location={"cuda:0": "cpu"}), net.state_dict())
    with pytest.raises(lacus.InvalidError, match=r"state: a torch.nn.modules.container.Sequential cannot be stored; store its .state_dict"):
        drop_in.save(net, url)
    with pytest.raises(lacus.InvalidError, match="never does"):
        drop_in.load(url, weights_only=False)
    with (tmp_path / "x").open("wb") as file, pytest.raises(lacus.InvalidError, match="a checkpoint is a directory"):
        drop_in.save({}, file)  # type: ignore[arg-type]
    # A file of torch's own, of which only weights are taken.
    torch.save(net.state_dict(), tmp_path / "model.pt")
    same(drop_in.load(tmp_path / "model.pt"), net.state_dict())


def test_values_of_the_call(url: str) -> None:
    net, optimizer = trained()
    expected = copy.deepcopy(net.state_dict())
    handle = lacus.save(net.state_dict(), url, step=1, wait=False)
    for _ in range(3):
        net(torch.randn(12, 8)).square().sum().backward()
        optimizer.step()
    handle.result()
    same(lacus.load(url), expected)


def test_numpy_and_torch_may_share(url: str) -> None:
    array = np.arange(6.0)
    lacus.save({"n": array, "t": torch.from_numpy(array)[2:]}, url)
    found = lacus.load(url)
    found["t"][0] = -1
    assert isinstance(found["n"], np.ndarray) and found["n"][2] == -1
    # A slice of one tensor, read as an array.
    assert lacus.open(url)["n"][1:3].tolist() == [1, 2]
