"""Merges are reverted along a parent that is named; versions and times are written the same way everywhere."""

import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import lacus


@pytest.fixture
def ds(tmp_path: pathlib.Path) -> lacus.Dataset:
    made = lacus.create(str(tmp_path / "ds"))
    made.put("x", np.zeros(8, np.int64), chunk_shape=(2,))
    made.commit("First")
    return made


def merged(ds: lacus.Dataset) -> None:
    ds.checkout("dev", create=True)
    ds["x"][7] = 9
    ds.commit("On dev")
    ds.checkout("main")
    ds["x"][0] = 1
    ds.commit("On main")
    ds.merge("dev")


def test_a_merge_is_reverted_along_a_parent(ds: lacus.Dataset) -> None:
    merged(ds)
    with pytest.raises(lacus.InvalidError, match='1 goes back to .* "On main".*; 2 goes back to .* "On dev"'):
        ds.revert("main")
    for bad in (0, 3, -1, True, 1.0, "1", 1 << 70):
        with pytest.raises(lacus.InvalidError, match="mainline"):
            ds.revert("main", mainline=bad)  # type: ignore[arg-type]
    with pytest.raises(lacus.InvalidError, match="is not a merge"):
        ds.revert("main~1", mainline=1)
    assert ds["x"][:].tolist() == [1, 0, 0, 0, 0, 0, 0, 9]
    undone = ds.revert("main", mainline=1)
    assert ds["x"][:].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert ds.log()[0].summary == 'Revert "Merge dev into main"'
    ds.revert(undone)
    ds.revert("main~2", mainline=np.int64(2))
    assert ds["x"][:].tolist() == [0, 0, 0, 0, 0, 0, 0, 9]


def test_versions_are_written_in_one_way(ds: lacus.Dataset) -> None:
    ds["x"][0] = 5
    ds.tag("v1")
    assert lacus.open(ds.url, at="v1")["x"][0] == 0
    ds.tags.delete("v1")
    for at in (1, "@1", "version:1", "1"):
        assert lacus.open(ds.url, at=at).version == 1, at
    assert ds.diff("@1", "@2") and not ds.diff("version:2", 2)
    with pytest.raises(lacus.NotFoundError, match="version 1 of a branch is written @1"):
        lacus.open(ds.url, at="v1")
    with pytest.raises(lacus.LacusError, match="the newest is 2"):
        lacus.open(ds.url, at="@3")
    for name in ("12", "@12"):
        with pytest.raises(lacus.InvalidError, match="reads as a version"):
            ds.tag(name)
        with pytest.raises(lacus.InvalidError, match="reads as a version"):
            ds.branches.create(name)


READ = """
import datetime, json, sys, lacus, numpy as np
url, bare = sys.argv[1:]
def version(at):
    try:
        return lacus.open(url, at=at).version
    except lacus.NotFoundError as error:
        return str(error)
ds = lacus.open(url)
def compared(at):
    try:
        return bool(ds.diff(at, "main"))
    except lacus.NotFoundError as error:
        return None
forms = [bare, datetime.datetime.fromisoformat(bare), np.datetime64(bare)]
print(json.dumps([[version(at) for at in forms], compared(bare)]))
"""


def test_a_time_without_a_zone_is_local(ds: lacus.Dataset) -> None:
    """In Python and on the command line, in a text and in a datetime. `TZ` says which zone that is."""
    time.sleep(0.02)
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds")
    time.sleep(0.02)
    ds["x"][0] = 5
    cli = os.environ.get("LACUS_TEST_CLI") or shutil.which("lacus")

    def ask(zone: str) -> tuple[list[object], bool | None]:
        env = {**os.environ, "TZ": zone}
        done = subprocess.run([sys.executable, "-c", READ, ds.url, now], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found, compared = json.loads(done.stdout)
        if cli:
            done = subprocess.run(
                [cli, "info", ds.url, "--json", "--at", now], env=env, capture_output=True, text=True
            )
            found.append(json.loads(done.stdout)["version"] if done.returncode == 0 else done.stderr)
        return found, compared

    found, compared = ask("XXX")
    assert found == [1] * len(found) and compared is True
    # Hours later.
    found, compared = ask("XXX9")
    assert found == [2] * len(found) and compared is False
    # Hours earlier, when there was nothing.
    found, compared = ask("XXX-9")
    assert all("no version at or before 20" in str(said) for said in found) and compared is None, found
