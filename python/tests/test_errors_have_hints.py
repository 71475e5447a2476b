"""Exceptions say what would help in their attribute ``hint``, as Python code."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lacus


def _import_unknown(ds: lacus.Dataset, tmp: Path) -> None:
    (tmp / "data.xyz").write_text("?")
    ds.import_from(tmp / "data.xyz")


CASES: list[tuple[Callable[[lacus.Dataset, Path], object], type[lacus.LacusError], str | None]] = [
    (lambda ds, tmp: lacus.open(tmp / "nowhere"), lacus.NotFoundError, "lacus.create("),
    (lambda ds, tmp: lacus.create(ds.url), lacus.ConflictError, "choose an empty location"),
    (lambda ds, tmp: ds["quite different"][:], lacus.NotFoundError, "ds.keys() lists the arrays"),
    (lambda ds, tmp: ds.views["none"], lacus.NotFoundError, "ds.views lists the saved views"),
    (_import_unknown, lacus.InvalidError, "specify the format with kind="),
    # Nothing is known to help against a bad index.
    (lambda ds, tmp: ds["x"][99], lacus.OutOfBoundsError, None),
]


@pytest.mark.parametrize(("call", "kind", "hint"), CASES)
def test_hints(
    tmp_path: Path, call: Callable[[lacus.Dataset, Path], object], kind: type[lacus.LacusError], hint: str | None
) -> None:
    ds = lacus.create(tmp_path / "ds")
    ds["x"] = np.arange(3)
    with pytest.raises(kind) as raised:
        call(ds, tmp_path)
    assert (raised.value.hint or "").startswith(hint or "")
    assert (raised.value.hint is None) == (hint is None), raised.value.hint
    assert pickle.loads(pickle.dumps(raised.value)).hint == raised.value.hint


def test_conflicts_of_a_merge_have_a_hint(tmp_path: Path) -> None:
    ds = lacus.create(tmp_path / "ds")
    ds["x"] = np.zeros(3)
    ds.commit("first")
    ds.checkout("try", create=True)
    ds["x"] = np.ones(3)
    ds.commit("ones")
    ds.checkout("main")
    ds["x"] = np.full(3, 2.0)
    ds.commit("twos")
    with pytest.raises(lacus.MergeConflictError) as raised:
        ds.merge("try")
    assert raised.value.hint == "choose with on_conflict="
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.hint, again.conflicts) == (raised.value.hint, raised.value.conflicts)
