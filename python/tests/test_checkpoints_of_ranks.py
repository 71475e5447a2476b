"""torch.distributed.checkpoint on Lacus: several ranks make one commit, shards are loaded in any other way, a rank that dies leaves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lacus

torch = pytest.importorskip("torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")
pytest.importorskip("torch.distributed.tensor")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch without gloo", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")


def ranks(count: int, work: Callable[..., None], tmp_path: Path, *args: Any, dies: int | None = None) -> None:
    """Runs `work(rank, count, ...)` in so many processes that hear of each other."""
    context = torch.multiprocessing.get_context("spawn")
    meeting = tmp_path / f"meeting-{os.urandom(4).hex()}"
    started = [context.Process(target=joined, args=(rank, count, str(meeting), work, args)) for rank in range(count)]
    for process in started:
        process.start()
    for rank, process in enumerate(started):
        process.join(120)
        if process.is_alive():
            process.kill()
            raise AssertionError(f"rank {rank} hangs")
        if dies is None:
            assert process.exitcode == 0, rank


def joined(rank: int, count: int, meeting: str, work: Callable[..., None], args: Any) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
    work(rank, count, *args)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def values() -> dict[str, Any]:
    """What all ranks have together."""
    made = torch.Generator().manual_seed(3)
    return {
        "rows": torch.randn(10, 6, generator=made),
        "columns": torch.randn(4, 9, generator=made).to(torch.bfloat16),
        "eights": torch.randint(0, 255, (8, 4), generator=made, dtype=torch.uint8).view(torch.float8_e4m3fn),
        "same": torch.arange(5),
    }


def placed(placements: dict[str, Any], count: int, empty: bool = False) -> dict[str, Any]:
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (count,))
    made = {}
    for name, value in values().items():
        value = torch.zeros_like(value.view(torch.uint8)).view(value.dtype) if empty else value
        if value.dtype == torch.float8_e4m3fn:
            made[name] = value
        else:
            made[name] = distribute_tensor(value, mesh, [placements.get(name, Replicate())])
    return made


def save_shards(rank: int, count: int, url: str, step: int, in_background: bool) -> None:
    from torch.distributed.tensor import Shard

    state = {"model": placed({"rows": Shard(0), "columns": Shard(1)}, count), "epoch": 3, "lr": [0.1, None]}
    writer = lacus.dcp.StorageWriter(url, step=step)
    if in_background:
        dcp.async_save(state, storage_writer=writer, planner=lacus.dcp.SavePlanner()).result()
    else:
        dcp.save(state, storage_writer=writer, planner=lacus.dcp.SavePlanner())


def load_shards(rank: int, count: int, url: str) -> None:
    from torch.distributed.tensor import Shard

    # The other way round than they were saved.
    state = {"model": placed({"rows": Shard(1), "columns": Shard(0), "same": Shard(0)}, count, empty=True), "epoch": 0, "lr": None}
    lacus.dcp.load(state, url)
    for name, expected in values().items():
        found = state["model"][name]
        whole = found.full_tensor() if hasattr(found, "full_tensor") else found
        assert torch.equal(whole.view(torch.uint8), expected.view(torch.uint8)), name
    assert state["epoch"] == 3 and state["lr"] == [0.1, None]


@pytest.mark.parametrize("in_background", [False, True])
def test_two_ranks_make_one_commit(url: str, tmp_path: Path, in_background: bool) -> None:
    ranks(2, save_shards, tmp_path, url, 7, in_background)
    ds = lacus.open(url)
    (made,) = lacus.checkpoints(url)
    assert made.step == 7 and len(ds.log()) == 1 and ds.status().clean and ds.check().healthy
    assert ds["model.same"].shape == (5,) and ds["model.rows/@0,0"].shape == (5, 6) and ds["model.rows/@5,0"].shape == (5, 6)
    # No pickle: neither in the structure nor in what is no tensor.
    assert ds["epoch"].read().tobytes() == b"lacus.value:3"
    ranks(3, load_shards, tmp_path, url)
    # One process alone.
    state = {"model": {name: torch.zeros_like(v.view(torch.uint8)).view(v.dtype) for name, v in values().items()}}
    lacus.dcp.load(state, url, step=7)
    for name, expected in values().items():
        assert torch.equal(state["model"][name].view(torch.uint8), expected.view(torch.uint8)), name
    # What did not change is not staged again.
    ranks(2, save_shards, tmp_path, url, 8, False)
    assert [c.written for c in lacus.checkpoints(url)][1] == 0
    lacus.dcp.load(state, url, step=8)


def save_and_die(rank: int, count: int, url: str) -> None:
    class Dying(lacus.dcp.StorageWriter):
        def write_data(self, plan: Any, planner: Any) -> Any:
            done = super().write_data(plan, planner)
            if rank == 1:
                os._exit(1)
            return done

    from torch.distributed.tensor import Shard

    state = {"model": {name: value + 1 for name, value in placed({"rows": Shard(0)}, count).items() if name == "rows"}}
    dcp.save(state, storage_writer=Dying(url, step=2))


def test_a_rank_that_dies_leaves_the_step_before(url: str, tmp_path: Path) -> None:
    ranks(2, save_shards, tmp_path, url, 1, False)
    before = lacus.open(url).version
    ranks(2, save_and_die, tmp_path, url, dies=1)
    ds = lacus.open(url)
    assert ds.version == before and [c.step for c in lacus.checkpoints(url)] == [1] and ds.check().healthy
    assert ds.gc(grace=0).removable_bytes > 0
    ranks(2, load_shards, tmp_path, url)


def test_alone_with_planners_of_torch(url: str) -> None:
    net = torch.nn.Linear(3, 4)
    dcp.save({"model": net.state_dict(), "n": 5}, storage_writer=lacus.dcp.StorageWriter(url))
    other = torch.nn.Linear(3, 4)
    state = {"model": other.state_dict(), "n": 0}
    dcp.load(state, storage_reader=lacus.dcp.StorageReader(url))
    assert torch.equal(other.weight, net.weight) and state["n"] == 5
    dcp.load({"model": other.state_dict()}, checkpoint_id=url, storage_reader=lacus.dcp.StorageReader())
    assert lacus.open(url)["model.weight"][1:3].tolist() == net.weight[1:3].tolist()


def test_wrong_uses_are_errors(url: str, tmp_path: Path) -> None:
    net = torch.nn.Linear(3, 4)
    lacus.save(net.state_dict(), url)
    with pytest.raises(dcp.api.CheckpointException, match="is one of lacus.save"):
        dcp.load(net.state_dict(), storage_reader=lacus.dcp.StorageReader(url))
    other = str(tmp_path / "other")
    lacus.dcp.save({"w": torch.ones(3)}, other, step=1)
    with pytest.raises(lacus.InvalidError, match="one of torch.distributed.checkpoint"):
        lacus.load(other)
    with pytest.raises(dcp.api.CheckpointException, match="no step 5"):
        lacus.dcp.load({"w": torch.ones(3)}, other, step=5)
    with pytest.raises(dcp.api.CheckpointException, match="object cannot be stored"):
        lacus.dcp.save({"w": torch.ones(3), "odd": object()}, other, step=2)
    assert [c.step for c in lacus.checkpoints(other)] == [1]
    with pytest.raises(BaseException, match="no URL"):
        dcp.save({"w": torch.ones(3)}, storage_writer=lacus.dcp.StorageWriter())
