//! Things several tests need.

use std::sync::Arc;

use lacus_io::{Store, World};
use lacus_layout::{Value, Wish};
use lacus_simulation::{Dice, seeded_world};
use lacus_table::{At, Put, Read, Table, TableError, WriteOptions};
use lacus_tensor::{DType, Index, Selection, Shape, Tensor};

/// A directory for one dataset, gone with the value.
pub(crate) struct Place {
    pub(crate) directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        self.directory.path().join("ds").to_str().unwrap().to_owned()
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.url(), &Default::default()).unwrap()
    }

    pub(crate) async fn create(&self) -> Table {
        Table::create(self.store(), World::real()).await.unwrap()
    }

    pub(crate) async fn open(&self) -> Table {
        Table::open(self.store(), World::real(), At::Tip).await.unwrap()
    }
}

/// A store in memory that only the caller knows.
pub(crate) fn memory_store(name: &str) -> Store {
    let url = url::Url::parse(&format!("memory:///{name}/")).unwrap();
    Store::over(url, Arc::new(object_store::memory::InMemory::new())).unwrap()
}

pub(crate) async fn memory_table(name: &str, seed: u64) -> Table {
    Table::create(memory_store(name), seeded_world(seed)).await.unwrap()
}

/// A tensor of random bits; one in `zeros` elements is not zero.
pub(crate) fn random_tensor(dice: &Dice, dtype: DType, dims: &[u64], zeros: u64) -> Tensor {
    let shape = Shape::new(dims.to_vec()).unwrap();
    let mut tensor = Tensor::zeros(dtype, shape).unwrap();
    let item = dtype.size_bytes();
    for element in tensor.bytes_mut().chunks_exact_mut(item) {
        if dice.one_in(zeros) {
            for byte in element {
                *byte = if dtype == DType::Bool { 1 } else { (dice.roll() | 1) as u8 };
            }
        }
    }
    tensor
}

pub(crate) async fn put(
    table: &mut Table,
    name: &str,
    tensor: &Tensor,
    wish: Wish,
) -> Result<u64, TableError> {
    let put = Put { name: name.into(), value: Value::Dense(tensor.as_ref()), wish, metadata: None };
    table.put(vec![put], &WriteOptions::default()).await
}

pub(crate) fn layout(name: &str) -> Wish {
    Wish { layout: Some(name.to_owned()), ..Wish::default() }
}

/// A read, made dense.
pub(crate) async fn read(table: &Table, name: &str, indices: &[Index]) -> Tensor {
    match table.read(name, indices).await.unwrap_or_else(|e| panic!("{name}{indices:?}: {e}")) {
        Read::Dense(tensor) => tensor,
        Read::Sparse(tensor) => tensor.to_dense().unwrap(),
    }
}

/// What a selection of a whole tensor gives.
pub(crate) fn selected(tensor: &Tensor, indices: &[Index]) -> Tensor {
    let selection = Selection::resolve(tensor.shape(), indices).unwrap();
    tensor.as_ref().select(&selection).unwrap()
}

pub(crate) fn assert_same(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    assert_eq!(found.dtype(), expected.dtype(), "{what}");
    assert!(found.bytes() == expected.bytes(), "{what}: bytes differ");
}

pub(crate) fn slice(start: i64, stop: i64) -> Index {
    Index::Slice { start: Some(start), stop: Some(stop), step: None }
}
