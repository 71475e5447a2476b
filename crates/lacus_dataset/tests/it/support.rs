//! Things several tests need.

use lacus_dataset::{Batch, ColumnSpec, Dataset, Extend, Sample};
use lacus_io::{Store, World};
use lacus_table::{At, Table, WriteOptions};
use lacus_tensor::{Buffer, DType, Shape, Tensor};

/// A directory for one dataset, gone with the value.
pub(crate) struct Place {
    pub(crate) directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn store(&self, name: &str) -> Store {
        let path = self.directory.path().join(name);
        Store::open(path.to_str().unwrap(), &Default::default()).unwrap()
    }

    pub(crate) async fn create(&self) -> Dataset {
        Dataset::new(Table::create(self.store("ds"), World::real()).await.unwrap())
    }

    pub(crate) async fn open(&self) -> Dataset {
        Dataset::new(Table::open(self.store("ds"), World::real(), At::Tip).await.unwrap())
    }
}

pub(crate) fn options() -> WriteOptions {
    WriteOptions::default()
}

pub(crate) fn spec(htype: &str) -> ColumnSpec {
    ColumnSpec { htype: Some(htype.to_owned()), ..ColumnSpec::default() }
}

/// A column of tensors of one shape.
pub(crate) fn fixed(dtype: DType, shape: &[u64]) -> ColumnSpec {
    ColumnSpec {
        dtype: Some(dtype),
        shape: Some(shape.iter().map(|size| Some(*size)).collect()),
        ..ColumnSpec::default()
    }
}

pub(crate) fn floats(values: &[f32]) -> Tensor {
    let shape = Shape::new(vec![values.len() as u64]).unwrap();
    Tensor::new(DType::F32, shape, Buffer::from_elements(values)).unwrap()
}

pub(crate) async fn extend(dataset: &mut Dataset, columns: Vec<(&str, Vec<Sample<'_>>)>) {
    let columns = columns.into_iter().map(|(name, samples)| (name.to_owned(), samples.into())).collect();
    dataset.extend(Extend { columns, ..Extend::default() }, &options()).await.unwrap();
}

/// The numbers of a column of scalars, all there.
pub(crate) async fn numbers(dataset: &Dataset, name: &str, positions: &[u64]) -> Vec<i64> {
    match dataset.read(name, positions, &[]).await.unwrap() {
        Batch::Stacked(tensor) => {
            assert_eq!(tensor.dtype(), DType::I64);
            tensor.bytes().as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
        }
        other => panic!("{other:?}"),
    }
}
