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
mod schema;
mod log;
mod files;
mod read;
mod write;
mod table;
mod upkeep;
mod compare;

pub use compare::difference::{Content, Difference, Fate, Graft, TensorDifference};
pub use error::TableError;
pub use lacus_layout::{CompressionWish, Coords, Value, Wish};
pub use lacus_tensor::ErrorKind;
pub use log::history::HistoryEntry;
pub use log::seal::{BLANK_SEAL, SEAL_KEY, Seal, look_at_seal, seal};
pub use log::snapshot::edit_distance;
pub use log::zone::Zone;
pub use read::array_read::{Amount, ArrayRead, FetchedArray};
pub use read::arrays::Read;
pub use read::form::Form;
pub use read::row_index::RowAxis;
pub use read::sample_read::{FetchedSamples, SampleRead};
pub use read::samples::Samples;
pub use read::scalars::{Numbers, ScalarRead, Scalars};
pub use schema::{FORMAT, INDEX_PREFIX, is_hidden};
pub use table::column_types::{ColumnTypes, Join};
pub use table::rows::{ColumnHeader, ColumnInfo, RowChange, SamplePiece};
pub use table::{ArrayWriter, At, EncodedRows, Put, Savepoint, Table, TensorInfo};
pub use upkeep::lives::{FileLife, Lives};
pub use upkeep::{
    CompactReport, DoctorReport, Finding, check_log, empty_tail, remove_empty_tail, repair_log,
};
pub use write::commit::{NameVersion, default_author};
pub use write::row_ids::{reserve_above, reserved_until};
pub use write::stage::{Progress, ProgressFn, WriteOptions};
pub use write::stage_rows::{BlobSample, BlobTile, ColumnValues, ColumnWrite};
