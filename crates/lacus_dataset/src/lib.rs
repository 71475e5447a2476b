//! What did we have? Datasets of samples: typed columns that share rows, with arrays beside them.
//!
//! ```text
//! extend   samples ─encode on all cores→ stored forms ─one change of rows→ version
//! scan     ids ─filter by zones, then by values→ ids ─sizes→ cut by bytes ─read, decode→ record batches of Arrow
//! read     positions ─axis→ ids ─locate→ shapes, sizes ─one planned fetch→ bytes ─decode on all cores→ values
//! ```
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use lacus_dataset::{Batch, ColumnSpec, Dataset, Extend, Sample};
//! use lacus_io::{Store, World};
//! use lacus_table::{Table, WriteOptions};
//!
//! let store = Store::open("memory://dataset-example", &Default::default())?;
//! let mut dataset = Dataset::new(Table::create(store, World::real()).await?);
//! let spec = ColumnSpec { htype: Some("text".into()), ..ColumnSpec::default() };
//! dataset.add_column("caption", &spec, None, None, &WriteOptions::default()).await?;
//! let samples = vec![Sample::Text("a cat".into()), Sample::Missing];
//! let rows = Extend { columns: vec![("caption".into(), samples.into())], ..Extend::default() };
//! dataset.extend(rows, &WriteOptions::default()).await?;
//!
//! assert_eq!(dataset.len().await?, 2);
//! let Batch::Values(found) = dataset.read("caption", &[1, 0], &[]).await? else { unreachable!() };
//! assert!(found[0].is_none() && found[1].is_some());
//! # Ok::<(), lacus_dataset::DatasetError>(())
//! # }).unwrap();
//! ```

mod error;
mod row_set;
mod chance;
mod draw;
mod threads;
mod links;
mod dataset;
mod extend;
mod columns;
mod update;
mod texts;
mod rows_read;
mod read;
mod ids_read;
mod id_runs;
mod filter;
mod matching;
mod scan_column;
mod scan;
mod summary;
mod view;
mod view_arrays;
mod materialize;
mod merge_types;

pub use columns::ColumnFacts;
pub use dataset::Dataset;
pub use draw::{Draw, drawn};
pub use error::DatasetError;
pub use extend::{Extend, Extended, OnError, Skipped};
pub use filter::{Compare, Constant, Filter};
pub use ids_read::{FetchedIds, IdsRead};
pub use lacus_sample::{Base, Column, ColumnSpec, HType, Sample, Samples, Value};
pub use lacus_tensor::ErrorKind;
pub use links::LinkRoots;
pub use merge_types::SampleTypes;
pub use row_set::{BadRows, RowSet};
pub use rows_read::{Batch, FetchedRows, RowsRead};
pub use scan::{DEFAULT_BATCH_BYTES, Scan, ScanOptions};
pub use summary::{ColumnSummary, Summary};
pub use view::{StateId, VIEW_FORMAT, View, ViewData};
pub use view_arrays::{PlacedRun, SampleFacts};
