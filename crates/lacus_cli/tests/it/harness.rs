//! A directory to play in, the command, and files to feed it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lacus::files::{FileTensors, FileValue, Format, Item, Packing, ReadOptions};
use lacus::tensor::{Buffer, DType, Duplicates, Shape, SparseTensor, Tensor};
use serde_json::Value as Json;

/// A directory that the command runs in.
pub(crate) struct Sandbox {
    dir: tempfile::TempDir,
    /// Where checkouts are remembered.
    state: tempfile::TempDir,
}

impl Sandbox {
    /// With an empty dataset `d`.
    pub(crate) fn with_dataset() -> Sandbox {
        let sandbox = Sandbox::empty();
        sandbox.lacus(["create", "d"]).ok();
        sandbox
    }

    pub(crate) fn empty() -> Sandbox {
        Sandbox { dir: tempfile::tempdir().unwrap(), state: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command, ready to run here.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lacus"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null()).env("LACUS_AUTHOR", "Ada");
        command.env("XDG_STATE_HOME", self.state.path()).env_remove("LACUS_BRANCH");
        command
    }

    /// Runs the command.
    pub(crate) fn lacus<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ended {
        let mut command = self.command(args);
        let words = format!("{command:?}");
        Ended { output: command.output().unwrap(), words }
    }

    /// Names of the tensors in `d`.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lacus(["ls", "d"]).ok().lines().map(str::to_owned).collect()
    }

    /// Names of everything in this directory, hidden ones too.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Writes a file of tensors.
    pub(crate) fn write(&self, name: &str, tensors: &[(&str, &Value)]) -> PathBuf {
        let path = self.path(name);
        let (format, packing): (Format, Packing) = Format::from_path(&path).unwrap();
        let items: Vec<Item<'_>> = tensors
            .iter()
            .map(|(name, value)| {
                let value = match value {
                    Value::Dense(tensor) => FileValue::Dense(tensor.as_ref()),
                    Value::Sparse(tensor) => FileValue::Sparse(tensor),
                };
                Item { name, value, metadata: None }
            })
            .collect();
        lacus::files::write(&path, format, packing, &items).unwrap();
        path
    }

    /// Writes a file of one tensor.
    pub(crate) fn write_one(&self, name: &str, value: &Value) -> PathBuf {
        self.write(name, &[("x", value)])
    }

    /// The tensors in a file, by name.
    pub(crate) fn read(&self, name: &str) -> Vec<(String, Value)> {
        values(&lacus::files::open(self.path(name), &ReadOptions::default()).unwrap())
    }

    /// The only tensor in a file.
    pub(crate) fn read_one(&self, name: &str) -> Value {
        let mut found = self.read(name);
        assert_eq!(found.len(), 1, "{name}");
        found.remove(0).1
    }
}

fn values(file: &FileTensors) -> Vec<(String, Value)> {
    let value = |value: FileValue<'_>| match value {
        FileValue::Dense(tensor) => Value::Dense(tensor.to_tensor()),
        FileValue::Sparse(tensor) => Value::Sparse(tensor.clone()),
    };
    file.entries().map(|entry| (entry.name().to_owned(), value(entry.value()))).collect()
}

/// A tensor, compared bit by bit.
#[derive(Debug)]
pub(crate) enum Value {
    Dense(Tensor),
    Sparse(SparseTensor),
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Dense(a), Value::Dense(b)) => {
                a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes() == b.bytes()
            }
            (Value::Sparse(a), Value::Sparse(b)) => a == b,
            _ => false,
        }
    }
}

/// A dense tensor of these elements' bytes.
pub(crate) fn dense(dtype: DType, dims: &[u64], bytes: &[u8]) -> Value {
    Value::Dense(Tensor::new(dtype, Shape::new(dims).unwrap(), Buffer::from_slice(bytes)).unwrap())
}

/// float32 0, 1, 2, …
pub(crate) fn counting(dims: &[u64]) -> Value {
    let elements = Shape::new(dims).unwrap().elements().unwrap();
    let bytes: Vec<u8> = (0..elements).flat_map(|value| (value as f32).to_le_bytes()).collect();
    dense(DType::F32, dims, &bytes)
}

/// A float64 matrix with these nonzeros.
pub(crate) fn matrix(dims: [u64; 2], nonzeros: &[(i64, i64, f64)]) -> Value {
    let coords: Vec<i64> = nonzeros.iter().map(|n| n.0).chain(nonzeros.iter().map(|n| n.1)).collect();
    let values: Vec<u8> = nonzeros.iter().flat_map(|n| n.2.to_le_bytes()).collect();
    let tensor = SparseTensor::new(
        DType::F64,
        Shape::new(dims).unwrap(),
        Buffer::from_elements(&coords),
        Buffer::from_slice(&values),
        Duplicates::Refuse,
    );
    Value::Sparse(tensor.unwrap())
}

/// A command that has ended.
pub(crate) struct Ended {
    pub output: Output,
    words: String,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    /// Its stdout; it must have worked.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code(), Some(0), "{}\n{}", self.words, self.stderr());
        self.stdout()
    }

    /// Its stdout as JSON; it must have worked and said nothing else.
    pub(crate) fn json(self) -> Json {
        assert_eq!(self.stderr(), "", "{}", self.words);
        let words = self.words.clone();
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words}: {error}: {text}"))
    }

    /// Its stderr; it must have failed with this code, and printed no result.
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code(), Some(code), "{}\n{}\n{}", self.words, self.stdout(), self.stderr());
        assert_eq!(self.stdout(), "", "{}", self.words);
        self.stderr()
    }
}

/// Every file below a directory with its size, for seeing that nothing was written.
pub(crate) fn tree(root: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false => found.push((entry.path(), entry.metadata().unwrap().len())),
            }
        }
    }
    found.sort();
    found
}
