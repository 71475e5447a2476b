//! What comes next in training? The order of an epoch, and batches made ahead of time.
//!
//! ```text
//! View ─order→ places ─rank's part→ mine ─window of bytes→ reads in flight ─decode, transform→ straight into a batch
//! ```
//!
//! - [`order`] is pure: which sample comes at which position of an epoch, and which positions a rank takes.
//! - [`Loader`] joins views, an order and settings; [`Batches`] are those of one epoch, from any place on.
//! - [`LoaderState`] says where a loader is, in a few numbers that any number of ranks can go on from.
//! - [`SampleTransform`] is what a transform looks like from here.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use lacus_dataset::{ColumnSpec, Dataset, Extend, Sample, View};
//! use lacus_io::{Store, World};
//! use lacus_loader::{ColumnBatch, ColumnPlan, Loader, LoaderSpec, Settings, ShuffleWish};
//! use lacus_table::{Table, WriteOptions};
//!
//! let store = Store::open("memory://loader-example", &Default::default())?;
//! let mut dataset = Dataset::new(Table::create(store, World::real()).await?);
//! let label = ColumnSpec { htype: Some("class_label".into()), ..ColumnSpec::default() };
//! dataset.add_column("label", &label, None, None, &WriteOptions::default()).await?;
//! let labels: Vec<Sample<'_>> = (0..10).map(|i| Sample::Json(i.into())).collect();
//! let rows = Extend { columns: vec![("label".into(), labels.into())], ..Extend::default() };
//! dataset.extend(rows, &WriteOptions::default()).await?;
//!
//! let view = View::all(dataset.frozen().into(), None).await?;
//! let loader = Loader::new(LoaderSpec {
//!     views: vec![view],
//!     columns: vec![ColumnPlan::new("label")],
//!     required: vec![],
//!     shuffle: ShuffleWish::Blocks { bytes: 64 << 20 },
//!     draws: Default::default(),
//!     bucket_by: None,
//!     settings: Settings { batch_size: 4, ..Settings::default() },
//! })
//! .await?;
//! let mut batches = loader.batches(7, 0, 0)?;
//! let mut sizes = vec![];
//! while let Some(batch) = batches.next().await? {
//!     let ColumnBatch::Stacked(labels) = &batch.columns[0].1 else { unreachable!() };
//!     sizes.push(labels.shape().dims()[0]);
//! }
//! assert_eq!(sizes, [4, 4, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod error;
mod sample_transform;
pub mod transform;
pub mod order;
mod settings;
mod batch;
mod state;
mod meter;
mod job;
mod stretch;
mod layout;
mod assemble;
mod decode;
mod pipeline;
mod loader;

pub use batch::{BatchRow, ColumnBatch, Failure, LoadedBatch};
pub use error::LoaderError;
pub use loader::{Batches, Loader, LoaderSpec};
pub use meter::Stats;
pub use sample_transform::{SampleInput, SampleKey, SampleOutput, SampleTransform, TransformFailure};
pub use settings::{Collate, ColumnPlan, Missing, OnError, Settings, ShuffleWish};
pub use state::{LoaderState, STATE_FORMAT};
