"""What the processes do that tests start. Importable, and quick to import."""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import lacus

#: For processes that start Python anew: they find what this one finds.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def put_many(url: str, prefix: str, count: int, options: dict[str, str] | None, barrier: Any) -> None:
    """Puts `count` tensors, starting with everybody else."""
    ds = lacus.open(url, storage_options=options)
    barrier.wait()
    for i in range(count):
        ds.put(f"{prefix}/{i}", np.full((20, 30), i, np.int32))


def put_same(url: str, name: str, number: int, barrier: Any, results: Any) -> None:
    """Puts one tensor under a name that others use at the same time."""
    ds = lacus.open(url)
    barrier.wait()
    try:
        ds.put(name, np.full(10, number))
        results.put((number, "ok"))
    except lacus.ConflictError as error:
        results.put((number, str(error)))


def read_and_put(t: lacus.Tensor, number: int) -> None:
    """Uses a handle that was inherited by a fork."""
    for row in range(40):
        assert t[row, 7] == row * 1000 + 7
    t._dataset.refresh()
    t._dataset.put(f"child{number}", number)


#: Rows of the array that `write_until_killed` writes to, and the shape of the tensors it adds.
ROWS, NEW = 8, (16, 4096)


def write_until_killed(url: str, prefix: str, start: int, told: Connection) -> None:
    """Writes in rounds and tells what it has written, until it is killed.

    Round k replaces a pair of tensors by k (one commit), adds one of its own (many chunks), and sets row
    k % ROWS of an array to k. Each write is told when it has returned.
    """
    ds = lacus.open(url)
    told.send(("ready", 0))
    k = start
    while True:
        k += 1
        ds.put_all({f"{prefix}/a": np.full((50, 40), k), f"{prefix}/b": np.full(7, k, np.int16)})
        told.send(("pair", k))
        # Large enough that a kill can come in the middle.
        ds.put(f"{prefix}/new/{k}", np.full(NEW, k), layout="dense", chunk_shape=(1, NEW[1]), compression=None)
        told.send(("new", k))
        ds[f"{prefix}/rows"][k % ROWS] = k
        told.send(("row", k))
        if k % 3 == 0:
            ds.rename(f"{prefix}/new/{k}", f"{prefix}/moved/{k}")
            told.send(("moved", k))
        if k % 4 == 0:
            sparse = lacus.SparseTensor([[k, k], [k, k + 1]], [float(k), 1.0], (k + 1, k + 2))
            ds.put(f"{prefix}/sparse", sparse, layout="COO")
            told.send(("sparse", k))


def sample_row(number: int) -> dict[str, Any]:
    """A row whose columns all tell its number."""
    return {"n": number, "text": f"row {number}", "blob": np.full(1 + number % 5, number, np.int32)}


def append_rows(url: str, first: int, count: int, barrier: Any) -> None:
    """Appends `count` rows one by one, then `count` times two, starting with everybody else."""
    ds = lacus.open(url)
    barrier.wait()
    for i in range(first, first + count):
        ds.append(sample_row(i))
    for i in range(first + count, first + 3 * count, 2):
        pair = [sample_row(i), sample_row(i + 1)]
        ds.extend({name: [row[name] for row in pair] for name in pair[0]})


def delete_and_update(url: str, barrier: Any) -> None:
    """Deletes the first five rows one after the other and changes the next one back and forth."""
    ds = lacus.open(url)
    barrier.wait()
    for _ in range(5):
        ds.delete_rows(0)
        found = int(ds["n"][0])
        ds["n"][0] = -1
        ds["n"][0] = found


def append_until_killed(url: str, start: int, told: Connection) -> None:
    """Appends rows, one or three at a time, and tells the number of the last one written, until it is killed."""
    ds = lacus.open(url)
    told.send(start)
    number = start
    while True:
        rows = [sample_row(number + i) for i in range(1 if number % 2 else 3)]
        ds.extend({name: [row[name] for row in rows] for name in rows[0]})
        number += len(rows)
        told.send(number)
