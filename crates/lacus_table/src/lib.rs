//! How do rows live in Delta?
//!
//! One Delta table holds all tensors of a dataset in long form: every row is a chunk of some tensor,
//! a nonzero, or a header that says what a tensor is. This crate writes and reads such a table and
//! knows nothing of branches.
//!
//! ```text
//! write   Tensor ─choose→ Header ─encode→ chunks ─stage→ files ─commit→ version
//! read    "[0:10]" ─resolve→ Selection ─wanted→ chunks ─pages→ requests ─fetch→ bytes ─decode→ Tensor
//! ```
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use lacus_io::{Store, World};
//! use lacus_layout::{Value, Wish};
//! use lacus_table::{Put, Read, Table, WriteOptions};
//! use lacus_tensor::{DType, Index, Shape, TensorRef};
//!
//! let store = Store::open("memory://table-example", &Default::default())?;
//! let mut table = Table::create(store, World::real()).await?;
//! let shape = Shape::new(vec![2, 3])?;
//! let value = Value::Dense(TensorRef::contiguous(DType::U8, &shape, &[1, 2, 3, 4, 5, 6])?);
//! let put = Put { name: "x".into(), value, wish: Wish::default(), metadata: None };
//! table.put(vec![put], &WriteOptions::default()).await?;
//!
//! let Read::Dense(row) = table.read("x", &[Index::At(1)]).await? else { unreachable!() };
//! assert_eq!(row.bytes(), [4, 5, 6]);
//! # Ok::<(), lacus_table::TableError>(())
//! # }).unwrap();
//! ```

mod error;
mod difference;
mod schema;
mod stats;
mod deletion;
mod log;
mod beginning;
mod log_checkpoint;
mod replay;
mod snapshot;
mod held;
mod page;
mod fetched;
mod checks;
mod file_index;
mod chunk_file;
mod cell_file;
mod scan;
mod tensor_index;
mod form;
mod row_index;
mod blob_index;
mod cells;
mod read;
mod read_rows;
mod write_set;
mod stage;
mod stage_rows;
mod copy_samples;
mod copy_rows;
mod commit;
mod region;
mod row_ids;
mod history;
mod table;
mod rows;
mod upkeep;
mod lives;
mod own_rows;
mod compare;
mod compare_arrays;
mod compare_samples;
mod graft;
mod adopt;

pub use commit::{NameVersion, default_author};
pub use difference::{Content, Difference, Fate, Graft, TensorDifference};
pub use error::TableError;
pub use form::Form;
pub use history::HistoryEntry;
pub use lacus_layout::{Coords, Value, Wish};
pub use lacus_tensor::ErrorKind;
pub use lives::{FileLife, Lives};
pub use read::Read;
pub use read_rows::{Samples, ScalarRead, Scalars};
pub use row_ids::{reserve_above, reserved_until};
pub use row_index::RowAxis;
pub use rows::{ColumnHeader, ColumnInfo, RowChange};
pub use schema::FORMAT;
pub use stage::{Progress, ProgressFn, WriteOptions};
pub use stage_rows::{BlobSample, BlobTile, ColumnValues, ColumnWrite};
pub use table::{At, Put, Savepoint, Table, TensorInfo};
pub use upkeep::{CompactReport, DoctorReport, Finding, check_log, repair_log};
