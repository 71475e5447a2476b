//! How do bytes move fast?
//!
//! This crate owns stores, byte ranges and files. It knows no tensor and no Delta: a store holds
//! objects, an object has byte ranges, and the crate moves them.
//!
//! ```text
//! url ─Store::open→ Store ─coalesce→ Requests ─fetch→ Bytes          (reading)
//!                     └──create_file→ FileWriter ─append×n→ finish    (writing)
//! directory ─Scratch::below→ Scratch ─put→ Extent ─get→ bytes         (for a while)
//! ```
//!
//! Local paths are read and written with positioned system calls straight from and into the
//! caller's memory; everything else goes through `object_store`. Time and chance are handed in as a
//! [`World`], so that a test can replace both.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
//! # runtime.block_on(async {
//! use lacus_io::Store;
//! let store = Store::open("memory://doc-example", &Default::default())?;
//! store.put_new("greeting", bytes::Bytes::from_static(b"hello")).await?;
//! assert_eq!(&store.read("greeting", 0..5).await?[..], b"hello");
//! assert!(store.put_new("greeting", bytes::Bytes::new()).await.unwrap_err().is_already_exists());
//! # Ok::<(), lacus_io::IoError>(())
//! # }).unwrap();
//! ```

mod error;
mod blocking;
mod climb;
mod world;
mod layers;
mod local;
mod options;
mod store;
mod probe;
mod read_plan;
mod fetch;
mod upload;
mod scratch;

pub use blocking::blocking;
pub use error::{IoError, IoErrorKind};
pub use fetch::fetch;
pub use layers::counting::{CountingStore, Counts};
pub use local::LocalRoot;
pub use probe::ensure_conditional_put;
pub use read_plan::{Part, Request, coalesce};
pub use scratch::{Extent, Scratch};
pub use store::{Entry, Store};
pub use upload::{FileWriter, Reserved};
pub use world::{Chance, Clock, World};
