"""Loaders go on where they were: at every step, on any number of ranks, in torch's own loops, after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lacus

ROWS = 61


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lacus.Dataset:
    made = lacus.create(tmp_path_factory.mktemp("resume") / "ds")
    made.add_column("number", "class_label")
    made.add_column("vector", "embedding", size=4)
    made.extend({"number": list(range(ROWS)), "vector": np.arange(4 * ROWS, dtype=np.float32).reshape(ROWS, 4)})
    made.commit("rows")
    return made


def numbers(batches: Any) -> list[int]:
    return [int(number) for batch in batches for number in batch["number"]]


def loader(ds: lacus.Dataset, size: int = 5, **options: Any) -> lacus.Loader:
    return ds.loader(size, shuffle=True, seed=11, columns=["number"], **{"block": "1KiB", **options})


@pytest.mark.parametrize("world", [1, 2, 3])
def test_every_step_on_other_numbers_of_ranks(ds: lacus.Dataset, world: int) -> None:
    whole = numbers(loader(ds))
    for steps in range(len(loader(ds)) + 1):
        first = loader(ds)
        iterator = iter(first)
        seen = numbers(next(iterator) for _ in range(steps))
        text = json.dumps(first.state_dict())
        assert len(text) < 1024
        parts = []
        for rank in range(world):
            again = loader(ds, 4, rank=rank, world=world, prefetch="2KiB")
            again.load_state_dict(json.loads(text))
            assert again.state_dict() == json.loads(text)
            parts.append([batch["number"].tolist() for batch in again] if again.epoch == 0 else [])
        rest = [number for batch in zip(*parts, strict=True) for part in batch for number in part]
        tail = (ROWS - len(seen)) % (4 * world)
        assert seen + rest[: ROWS - len(seen)] == whole if tail == 0 or tail >= world else set(seen + rest) == set(whole)


def test_epochs_go_on(ds: lacus.Dataset) -> None:
    straight = loader(ds)
    epochs = [numbers(straight) for _ in range(3)]
    first = loader(ds)
    assert numbers(first) == epochs[0]
    state = first.state_dict()
    assert (state["epoch"], state["consumed"]) == (1, 0)
    again = loader(ds)
    again.load_state_dict(state)
    assert [numbers(again), numbers(again)] == epochs[1:]
    # A loop that is left begins the next epoch, as torch's do.
    broken = loader(ds)
    next(iter(broken))
    assert numbers(broken) == epochs[1]


def test_states_of_others_are_refused(ds: lacus.Dataset) -> None:
    state = loader(ds).state_dict()
    with pytest.raises(lacus.InvalidError, match="another view"):
        ds[:60].loader(5).load_state_dict(state)
    with pytest.raises(lacus.InvalidError, match="no state of a loader"):
        loader(ds).load_state_dict({"epoch": 1})
    with pytest.raises(lacus.InvalidError, match="state_dict"):
        loader(ds).load_state_dict(3)  # type: ignore[arg-type]
    with pytest.raises(lacus.InvalidError, match="another view"):
        ds.loader(5, weights=np.ones(ROWS)).load_state_dict(state)
    # Other columns of the same rows go on.
    other = ds.loader(5, columns=["vector"])
    other.load_state_dict(state)


def test_python_functions_do_not_count_what_is_ahead(ds: lacus.Dataset) -> None:
    options: dict[str, Any] = {"transform": lambda sample: sample, "threads": 3}
    first = loader(ds, **options)
    iterator = iter(first)
    seen = numbers([next(iterator), next(iterator)])
    again = loader(ds, **options)
    again.load_state_dict(first.state_dict())
    assert seen + numbers(again) == numbers(loader(ds))


def test_torch_tensors_and_data_loaders(ds: lacus.Dataset) -> None:
    torch = pytest.importorskip("torch")
    whole = numbers(loader(ds))
    batches = list(loader(ds).pytorch())
    assert isinstance(batches[0]["number"], torch.Tensor) and numbers(batches) == whole
    for workers in (0, 2):
        data = torch.utils.data.DataLoader(loader(ds).dataset(), batch_size=None, num_workers=workers)
        assert numbers(data) == whole and len(data) == len(loader(ds)), workers


def test_stateful_data_loaders(ds: lacus.Dataset) -> None:
    pytest.importorskip("torch")
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    whole = numbers(loader(ds))
    for workers in (0, 2):
        first = stateful(loader(ds).dataset(), batch_size=None, num_workers=workers)
        iterator = iter(first)
        seen = numbers([next(iterator) for _ in range(4)])
        state = first.state_dict()
        again = stateful(loader(ds).dataset(), batch_size=None, num_workers=workers)
        again.load_state_dict(state)
        assert seen + numbers(again) == whole, workers


def test_grain_agrees(ds: lacus.Dataset) -> None:
    check = pytest.importorskip("grain._src.python.testing.experimental").assert_equal_output_after_checkpoint

    class Iterated:
        def __init__(self) -> None:
            self._loader = loader(ds)
            self._iterator = iter(self._loader)

        def __iter__(self) -> Iterated:
            return self

        def __next__(self) -> Any:
            return next(self._iterator)["number"]

        def get_state(self) -> dict[str, Any]:
            return self._iterator.state_dict()

        def set_state(self, state: dict[str, Any]) -> None:
            self._loader.load_state_dict(state)
            self._iterator = iter(self._loader)

    class Faced:
        def __iter__(self) -> Iterated:
            return Iterated()

    check(Faced())


TRAINING = """
    import json, os, sys, torch, lacus

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(4), torch.nn.Flatten(), torch.nn.Linear(128, 4)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    view = lacus.open(sys.argv[1]).query("SELECT * WHERE number < 200")
    loader = view.loader(16, shuffle=True, seed=5, columns=["image", "label"]).pytorch()
    saved, stop = sys.argv[2], int(sys.argv[3])
    if os.path.exists(saved):
        found = torch.load(saved)
        net.load_state_dict(found["net"])
        optimizer.load_state_dict(found["optimizer"])
        loader.load_state_dict(found["loader"])
    step = 0
    while loader.epoch < 6:
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(net(batch["image"].permute(0, 3, 1, 2) / 255), batch["label"].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == stop:
                torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}, saved)
                os.kill(os.getpid(), 9)
    right = sum(int((net(b["image"].permute(0, 3, 1, 2) / 255).argmax(1) == b["label"].long()).sum()) for b in view.loader(50).pytorch())
    weights = torch.cat([p.detach().flatten() for p in net.parameters()])
    print(json.dumps({"right": right, "weights": weights.numpy().tobytes().hex()}))
"""


def test_a_network_trained_through_a_kill_has_the_same_weights(tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    ds = lacus.create(tmp_path / "ds")
    ds.add_column("image", "image", compression="jpeg")
    ds.add_column("label", "class_label")
    ds.add_column("number", dtype="int64", shape=())
    labels = rng.integers(0, 4, 240)
    pictures = rng.integers(0, 60, (240, 16, 16, 3)).astype(np.uint8)
    for picture, label in zip(pictures, labels, strict=True):
        picture[(label // 2) * 8 : (label // 2) * 8 + 8, (label % 2) * 8 : (label % 2) * 8 + 8] += 120
    ds.extend({"image": list(pictures), "label": labels, "number": np.arange(240)})
    ds.commit("pictures")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAINING))

    def train(saved: str, stop: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(script), ds.url, str(tmp_path / saved), str(stop)], capture_output=True, text=True, timeout=300
        )

    straight = train("none", -1)
    assert straight.returncode == 0, straight.stderr
    assert train("killed", 20).returncode == -9
    resumed = train("killed", -1)
    assert resumed.returncode == 0, resumed.stderr
    expected = json.loads(straight.stdout)
    assert expected["right"] >= 190, "it learns"
    assert json.loads(resumed.stdout) == expected
