//! How do tensors enter and leave other file formats? npy, npz, safetensors, FROSTT tns, MatrixMarket mtx.
//!
//! ```text
//! path ─open→ FileTensors ─entries→ (name, FileValue)      dense: a view of the mapped file; sparse: owned
//! (name, FileValue, metadata)… ─write→ path                beside its place, then renamed
//! ```
//!
//! ```
//! use lacus_files::{FileValue, Format, Item, Packing, ReadOptions, open, write};
//! use lacus_tensor::{DType, Shape, TensorRef};
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("weights.npy");
//! let shape = Shape::new([2, 3])?;
//! let value = FileValue::Dense(TensorRef::contiguous(DType::U8, &shape, &[1, 2, 3, 4, 5, 6])?);
//! write(&path, Format::Npy, Packing::Plain, &[Item { name: "weights", value, metadata: None }])?;
//!
//! let file = open(&path, &ReadOptions::default())?;
//! for entry in file.entries() {
//!     assert_eq!(entry.name(), "weights");
//!     assert_eq!(entry.value().shape().to_string(), "(2, 3)");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Foreign bytes never make this crate panic, nor allocate more than in proportion to what they really hold.

mod error;
mod format;
mod value;

mod lines;
mod map;
mod numbers;
mod note;
mod target;

mod npy;
mod npz;
mod safetensors;

mod tns;

mod mtx;

mod read;
mod write;

pub use error::{Cause, FileError, Place};
pub use format::{Format, Packing};
pub use npy::npy_header;
pub use read::{Entry, FileTensors, open, open_as};
pub use value::{FileValue, Item, Metadata, ReadOptions};
pub use write::write;
