"""torch tensors, dense and sparse."""

from __future__ import annotations

import numpy as np
import pytest
from same import assert_same

import lacus

torch = pytest.importorskip("torch")

# What torch says about its own sparse tensors.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


def test_dense(ds: lacus.Dataset) -> None:
    for dtype in (
        torch.bool,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    ):
        value = (torch.rand(4, 5) * 100).to(dtype)
        for tensor in (value, value.T, value[::2, 1:], value[0, 0]):
            ds["x"] = tensor
            assert_same(ds["x"].read(), tensor.numpy())
    ds["x"] = torch.ones(3, requires_grad=True)
    assert ds["x"][...].tolist() == [1, 1, 1]
    value = torch.complex(torch.rand(3), torch.rand(3))
    ds["x"] = value.conj()
    assert_same(ds["x"][...], value.numpy().conj())
    assert torch.equal(torch.from_numpy(ds["x"][...]), value.conj().resolve_conj())


def test_bfloat16(ds: lacus.Dataset) -> None:
    value = torch.randn(6, 7).to(torch.bfloat16)
    for tensor in (value, value.T, value[0, 0]):
        ds["x"] = tensor
        assert ds["x"]._info.dtype == "bfloat16"
        bits = torch.from_numpy(ds["x"].read(raw=True).astype(np.int32)).to(torch.int16)
        assert torch.equal(bits, tensor.contiguous().view(torch.int16))
    sparse = value.relu().to_sparse()
    ds["s"] = sparse
    assert torch.equal(ds["s"][...].to_torch().to_dense(), sparse.to_dense())
    ds.create_array("region", (6, 7), torch.bfloat16)[...] = value
    assert_same(ds["region"].read(raw=True), value.view(torch.int16).numpy().view(np.uint16))


def test_sparse(ds: lacus.Dataset) -> None:
    dense = torch.rand(8, 9) * (torch.rand(8, 9) < 0.3)
    for value in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()):
        ds["x"] = value
        assert ds["x"].is_sparse
        assert_same(np.asarray(ds["x"]), dense.numpy())
        back = ds["x"][...].to_torch()
        assert back.is_coalesced() and torch.equal(back.to_dense(), dense)
    cube = torch.rand(3, 4, 5) * (torch.rand(3, 4, 5) < 0.3)
    ds["x"] = cube.to_sparse()
    assert torch.equal(ds["x"][...].to_torch().to_dense(), cube)
    # Writing to what was read changes nobody else's.
    ds["x"][...].to_torch().values().fill_(0)


def test_uncoalesced_means_the_sum(ds: lacus.Dataset) -> None:
    value = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 4.0], (2, 2))
    ds["x"] = value
    assert np.asarray(ds["x"]).tolist() == [[0, 3], [4, 0]]
    assert not value.is_coalesced()


def test_what_cannot_be_taken_is_refused(ds: lacus.Dataset) -> None:
    hybrid = torch.sparse_coo_tensor([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (2, 2))
    with pytest.raises(lacus.InvalidError, match='tensor "x": cannot take a hybrid torch tensor'):
        ds["x"] = hybrid
    with pytest.raises(lacus.InvalidError, match='tensor "x"'):
        ds["x"] = torch.ones(4, 4).to(torch.float8_e4m3fn)
    assert ds.version == 0


class _Slices(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    def __init__(self, tensor: lacus.Tensor) -> None:
        self.tensor = tensor

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, place: int) -> np.ndarray:
        return self.tensor[place]


def test_data_loaders_have_workers(ds: lacus.Dataset) -> None:
    value = np.arange(120.0).reshape(30, 4)
    ds.put("x", value, chunk_shape=(2, 4))
    assert ds["x"][0, 0] == 0
    loader = torch.utils.data.DataLoader(
        _Slices(ds["x"]), batch_size=5, num_workers=2, multiprocessing_context="fork", timeout=60
    )
    assert_same(torch.cat(list(loader)).numpy(), value)
