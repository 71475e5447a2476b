//! Lacus is a tensor lakehouse: any tensor (dense, sparse, ragged, media) in open Delta tables on any object store, versioned like
//! source code, and computed with. This crate is its public API; the Python package and the `lacus` command stand on it.
//!
//! ```text
//! Repository ─checkout→ Checkout ─dataset_mut→ rows, columns, arrays ─commit→ a commit
//!     └──────view──────→ View ─every, select, shuffled, …→ View ─read→ samples
//! ```
//!
//! - A [`Repository`] is a dataset at a URL: its store, its history, all its states.
//! - A [`Checkout`] is a branch that you write to.
//! - A [`View`] is some rows and columns of one state: a small, read-only value that can be stored and sent.
//! - An [`Error`] says what kind it is, and what would help.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use lacus::{ColumnSpec, Extend, Record, Repository, Sample, WriteOptions};
//!
//! let mut main = Repository::create("memory://photos", &Default::default()).await?;
//! let (text, options) = (ColumnSpec { htype: Some("text".into()), ..Default::default() }, WriteOptions::default());
//! main.dataset_mut().add_column("caption", &text, None, None, &options).await?;
//! let captions = vec![Sample::Text("a cat".into()), Sample::Text("a dog".into())];
//! let rows = Extend { columns: vec![("caption".into(), captions.into())], ..Default::default() };
//! main.dataset_mut().extend(rows, &options).await?;
//! main.commit(&Record { message: "Two captions".into(), ..Default::default() }, false).await?;
//!
//! let view = main.repository().view("main").await?.shuffled(7);
//! assert_eq!((view.len(), view.columns()), (2, vec!["caption".to_owned()]));
//! # Ok::<(), lacus::Error>(())
//! # }).unwrap();
//! ```
//!
//! The parts that it joins are here under their own names: [`tensor`], [`layout`], [`io`], [`files`], [`media`], [`sample`], [`arrow`], [`table`],
//! [`dataset`], [`history`], [`exchange`], [`search`], [`query`], [`loader`], [`algebra`], [`execute`]. `examples/` shows how to use them.

mod error;
mod place;
mod repository;
mod checkout;
mod ask;
mod answer_scan;
mod materialize;

pub use answer_scan::AnswerScan;
pub use ask::{Asked, ask, explain};
pub use checkout::Checkout;
pub use error::{Error, Hint};
pub use lacus_algebra as algebra;
pub use lacus_arrow as arrow;
pub use lacus_dataset as dataset;
pub use lacus_dataset::{
    Batch, ColumnSpec, Dataset, Draw, Extend, RowSet, Sample, Samples, StateId, View, ViewData,
};
pub use lacus_exchange as exchange;
pub use lacus_execute as execute;
pub use lacus_files as files;
pub use lacus_history as history;
pub use lacus_history::{CommitId, FastForward, Record, SavedView};
pub use lacus_io as io;
pub use lacus_layout as layout;
pub use lacus_loader as loader;
pub use lacus_media as media;
pub use lacus_query as query;
pub use lacus_query::{Answer, CallError, Callee, Parameter, Parameters, Question, Results, Returned};
pub use lacus_sample as sample;
pub use lacus_search as search;
pub use lacus_table as table;
pub use lacus_table::{Put, Read, Table, WriteOptions};
pub use lacus_tensor as tensor;
pub use lacus_tensor::{DType, ErrorKind, Index, Shape, Tensor, TensorRef};
pub use place::{At, Pinned, Place};
pub use repository::{Repository, StorageOptions};
