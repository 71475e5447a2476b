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
//! caller's memory; everything else goes through `object_store`. Time, chance and worker threads are
//! handed in as a [`World`], so that a test can replace them. All reads and caches of a process share one
//! budget of bytes, [`Memory`].
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
mod memory;
mod options;
mod store;
mod probe;
mod read_plan;
mod fetch;
mod read_ranges;
mod read_pieces;
mod upload;
mod scratch;

/// Boxes the future of an async function: it is compiled in the crate that defines it, once, and not again in every crate that
/// awaits it. Put it on public functions that do more than pass a call on.
pub use async_recursion::async_recursion as boxed;
pub use blocking::{blocking, on_plain_thread};
pub use error::{IoError, IoErrorKind};
pub use fetch::{IN_FLIGHT, fetch};
/// The worker threads that a [`World`] carries.
pub use lacus_threads::{Pool, THREADS_VARIABLE};
pub use layers::counting::{CountingStore, Counts};
pub use memory::{MEMORY_VARIABLE, Memory, Place, Reservation};
pub use probe::{commit_safety, ensure_conditional_put};
pub use read_pieces::{Pieces, ReadStraight, read_pieces};
pub use read_plan::{Part, Request, coalesce};
pub use read_ranges::{read_ranges, requests_for};
pub use scratch::{Extent, Scratch};
pub use store::{Entry, Store};
pub use upload::{FileWriter, Reserved};
pub use world::{Chance, Clock, World};
