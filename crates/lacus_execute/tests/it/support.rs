//! A dataset in a directory that goes with the test, and programs that are run on it.

use lacus_algebra::{Functions, Inputs, check, parse};
use lacus_execute::{ExecuteError, Finished, Input, RunOptions, Target, run_into};
use lacus_io::{Store, World};
use lacus_layout::{Value, Wish};
use lacus_table::{At, Put, Read, Table, WriteOptions};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A dataset.
pub(crate) struct Place {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) runtime: Runtime,
}

impl Place {
    pub(crate) fn new() -> Place {
        let place = Place { directory: tempfile::tempdir().unwrap(), runtime: Runtime::new().unwrap() };
        place.runtime.block_on(Table::create(place.store(), World::real())).unwrap();
        place
    }

    fn store(&self) -> Store {
        let path = self.directory.path().join("data.lacus");
        std::fs::create_dir_all(&path).unwrap();
        Store::open(path.to_str().unwrap(), &Default::default()).unwrap()
    }

    /// A new handle, at the newest version.
    pub(crate) fn open(&self) -> Table {
        self.runtime.block_on(Table::open(self.store(), World::real(), At::Tip)).unwrap()
    }

    /// Puts a tensor.
    pub(crate) fn put(&self, name: &str, tensor: &Tensor, layout: Option<&str>) {
        let wish = Wish { layout: layout.map(str::to_owned), ..Wish::default() };
        let put = Put { name: name.to_owned(), value: Value::Dense(tensor.as_ref()), wish, metadata: None };
        self.runtime.block_on(self.open().put(vec![put], &WriteOptions::default())).unwrap();
    }

    /// The bytes of a stored tensor.
    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        match self.runtime.block_on(self.open().read(name, &[])).unwrap() {
            Read::Dense(tensor) => tensor.bytes().to_vec(),
            Read::Sparse(tensor) => tensor.to_dense().unwrap().bytes().to_vec(),
        }
    }

    /// Every file of the dataset that has rows.
    pub(crate) fn data_files(&self) -> Vec<String> {
        let mut all = files_below(&self.directory.path().join("data.lacus"));
        all.retain(|path| path.ends_with(".parquet") && !path.contains("_delta_log"));
        all
    }

    /// Where tiles may be put aside.
    pub(crate) fn spill(&self) -> std::path::PathBuf {
        let path = self.directory.path().join("spill");
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Nothing was put aside, or it is gone.
    pub(crate) fn assert_no_spill(&self) {
        assert_eq!(files_below(&self.spill()), Vec::<String>::new());
        assert_eq!(std::fs::read_dir(self.spill()).unwrap().count(), 0);
    }

    /// Runs a program that saves these names on what the dataset has and on `given`.
    pub(crate) fn run(
        &self,
        text: &str,
        saves: &[&str],
        options: &RunOptions,
    ) -> Result<(Finished, Option<u64>), ExecuteError> {
        self.run_on(&mut self.open(), text, saves, &BTreeMap::new(), &Functions::new(), options)
    }

    pub(crate) fn run_on(
        &self,
        table: &mut Table,
        text: &str,
        saves: &[&str],
        given: &BTreeMap<String, Tensor>,
        functions: &Functions,
        options: &RunOptions,
    ) -> Result<(Finished, Option<u64>), ExecuteError> {
        let frozen = Arc::new(table.frozen());
        let mut inputs: BTreeMap<String, Input<'_>> = BTreeMap::new();
        for name in text.split('"').filter(|name| frozen.contains(name)) {
            inputs.insert(name.to_owned(), Input::Stored(Arc::clone(&frozen), name.to_owned()));
        }
        for (name, tensor) in given {
            inputs.insert(name.clone(), Input::from(tensor.as_ref()));
        }
        let mut types = Inputs::new();
        for (name, input) in &inputs {
            let (dtype, shape, _) = input.describe().unwrap();
            types = types.with(name, dtype, shape);
        }
        let program = check(&parse(text).unwrap(), &types, functions).unwrap();
        let target =
            |name: &&str| ((*name).to_owned(), Target { name: (*name).to_owned(), ..Target::default() });
        let targets = saves.iter().map(target).collect();
        let write = WriteOptions { cancel: options.cancel.clone(), ..WriteOptions::default() };
        self.runtime.block_on(run_into(&program, &inputs, Some((table, &write)), targets, options))
    }
}

fn files_below(path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files_below(&path)),
            false => all.push(path.display().to_string()),
        }
    }
    all.sort();
    all
}

/// Numbers between -0.5 and 0.5.
pub(crate) fn random(dims: &[u64], seed: u64) -> Tensor {
    let count: u64 = dims.iter().product();
    let values: Vec<f64> = (0..count).map(|at| lacus_algebra::random(seed, at) - 0.5).collect();
    tensor(DType::F64, dims, Buffer::from_elements(&values))
}

pub(crate) fn tensor(dtype: DType, dims: &[u64], buffer: Buffer) -> Tensor {
    Tensor::new(dtype, Shape::new(dims.to_vec()).unwrap(), buffer).unwrap()
}
