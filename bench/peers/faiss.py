"""faiss: flat vectors, and inverted lists with a fixed number of probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
from contender import SearchContender

DISTRIBUTION = "faiss-cpu"


def search() -> list[SearchContender]:
    return [FaissFlat(), FaissLists()]


class FaissFlat(SearchContender):
    name = "faiss, flat"
    family = "faiss"
    note = "vectors of length one, inner products; conditions by IDSelectorBatch"

    def _index(self, rows: np.ndarray) -> Any:
        return faiss.IndexFlatIP(rows.shape[1])

    def write(self, path: Path, value: Any) -> None:
        rows = value.rows / np.linalg.norm(value.rows, axis=1, keepdims=True)
        index = self._index(rows)
        if not index.is_trained:
            index.train(rows)
        index.add(rows)
        path.mkdir()
        faiss.write_index(index, str(path / "index"))
        np.save(path / "share", value.share)

    def open(self, path: Path) -> tuple[Any, np.ndarray]:
        return faiss.read_index(str(path / "index")), np.load(path / "share.npy")

    def _parameters(self, selector: Any) -> Any:
        return faiss.SearchParameters(sel=selector)

    def nearest(self, handle: tuple[Any, np.ndarray], query: np.ndarray, k: int, share: float) -> Any:
        index, shares = handle
        wanted = (query / np.linalg.norm(query))[None]
        if share >= 1:
            _, found = index.search(wanted, k, params=self._parameters(None))
        else:
            selector = faiss.IDSelectorBatch(np.flatnonzero(shares < share))
            _, found = index.search(wanted, k, params=self._parameters(selector))
        return found[0][found[0] >= 0]


class FaissLists(FaissFlat):
    name = "faiss, IVF, nprobe 100"
    note = "lists as many as Lacus has; the same number of probes whatever the condition"
    least_recall = 0.95

    def _index(self, rows: np.ndarray) -> Any:
        lists = round(2 * len(rows) ** 0.5)
        return faiss.IndexIVFFlat(faiss.IndexFlatIP(rows.shape[1]), rows.shape[1], lists, faiss.METRIC_INNER_PRODUCT)

    def _parameters(self, selector: Any) -> Any:
        return faiss.SearchParametersIVF(sel=selector, nprobe=100)
