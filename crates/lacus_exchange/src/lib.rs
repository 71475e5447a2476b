//! How do samples come in and go out? Folders, COCO, CSV, Parquet, WebDataset and safetensors, both ways; Arrow tables in
//! memory, in; wide tables of plain columns, out.
//!
//! ```text
//! in    source ─read on a thread of its own→ batches of 64 MiB ─Dataset::extend→ a version each
//! out   Dataset ─read in batches→ cells ─file or directory that appears whole or not at all
//! ```
//!
//! All functions take a dataset, a path and options, and return a [`Report`] of what was done and what was left out, where
//! and why. When an import fails or is cancelled nothing of it is kept.
//!
//! In wide tables (`to_parquet`, `to_delta`) scalars, text and media are columns of their own types, arrays of one axis are
//! lists, other arrays lists of their elements in C order beside a column `<name>_shape`, and classes numbers beside a
//! column `<name>_name`. What came as another type of Arrow's (decimals, dates, structs, lists in lists) goes out as it.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use lacus_dataset::Dataset;
//! use lacus_exchange::{ExportOptions, ImportOptions, from_csv, to_parquet};
//! use lacus_io::{Store, World};
//! use lacus_table::Table;
//!
//! let directory = tempfile::tempdir()?;
//! let source = directory.path().join("people.csv");
//! std::fs::write(&source, "name,age\nAda,36\nAlan,\n")?;
//!
//! let store = Store::open("memory://exchange-example", &Default::default())?;
//! let mut dataset = Dataset::new(Table::create(store, World::real()).await?);
//! let report = from_csv(&mut dataset, &source, &ImportOptions::default()).await?;
//! assert_eq!((report.rows, report.columns), (2, vec!["name".to_owned(), "age".to_owned()]));
//! to_parquet(&dataset, &directory.path().join("people.parquet"), &ExportOptions::default()).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod error;
mod options;
mod names;
mod number_text;
mod importer;
mod exporter;
mod folder;
mod csv;
mod rle;
mod coco;
mod from_coco;
mod to_coco;
mod from_arrow;
mod from_parquet;
mod parquet_file;
mod wide;
mod webdataset;
mod arrays;
mod kind;

pub use arrays::{from_safetensors, to_safetensors};
pub use csv::{from_csv, to_csv};
pub use error::ExchangeError;
pub use folder::{from_folder, to_folder};
pub use from_arrow::from_arrow;
pub use from_coco::from_coco;
pub use from_parquet::from_parquet;
pub use kind::{Kind, export_as, import_as};
pub use lacus_dataset::{ErrorKind, OnError};
pub use options::{ExportOptions, ImportOptions, MOST_SKIPPED, Progress, ProgressFn, Report};
pub use parquet_file::ParquetFile;
pub use to_coco::to_coco;
pub use webdataset::{from_webdataset, to_webdataset};
pub use wide::{to_delta, to_parquet};
