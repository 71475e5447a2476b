//! When did we have it? Commits, branches, tags, walks over them, merge plans.
//!
//! ```text
//! Commit ─write→ _lacus/commits/<id>.json ◄─ BranchRef ─advance→ _lacus/branches/<name>/<number>
//!                          ▲                Tag ─create→ _lacus/tags/<name>
//!  text ─resolve→ Resolved ┴ log, merge_base, ahead_behind
//!
//! three Differences ─plan→ MergePlan (Graft, Conflicts) ─resolve→ Merged (Graft)
//! ```
//!
//! Commits never change, tags stay, and branches move by put-if-absent, so that a store needs no lock and no
//! conditional replacement. The crate knows no table: what a merge takes over is data for `lacus_table`.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
//! # runtime.block_on(async {
//! use lacus_history::{BranchRef, Commit, Commits, branches, log};
//! use lacus_io::{Store, World};
//!
//! let (store, world) = (Store::open("memory://history-doc", &Default::default())?, World::real());
//! let commits = Commits::new(store.clone());
//! let main = branches::get(&store, "main").await?;
//! let commit = Commit {
//!     format: lacus_history::COMMIT_FORMAT,
//!     parents: Vec::new(),
//!     directory: String::new(),
//!     version: 3,
//!     generation: 1,
//!     author: "Ada".to_owned(),
//!     time_millis: world.now_millis(),
//!     message: "First labels".to_owned(),
//!     metadata: Default::default(),
//!     lineage: Vec::new(),
//!     changed: vec!["labels".to_owned()],
//!     dataset: "d1".to_owned(),
//! };
//! let id = commits.write(&commit).await?;
//! let moved = BranchRef { head: Some(id), version: 3, ..main.branch().clone() };
//! let main = branches::advance(&store, &world, &main, moved).await?;
//! assert_eq!(log(&commits, &[id], 10).await?.len(), 1);
//! # Ok::<(), lacus_history::HistoryError>(())
//! # }).unwrap();
//! ```

mod id;
mod error;
mod names;
mod commits;
pub mod branches;
mod named;
pub mod tags;
pub mod views;
mod revision;
mod walk;
mod graph;
mod merge_plan;
mod marks;
mod timeline;
mod commit;
mod diff;
mod status;
mod branching;
mod base;
mod merge;
mod lineage;
mod clean;
mod check;

pub use branches::{BranchRef, Held, MAIN};
pub use branching::BranchInfo;
pub use check::CheckReport;
pub use clean::{ExpireReport, GcOptions, GcReport, Kept, Removable};
pub use commit::{Record, Recorded};
pub use commits::{COMMIT_FORMAT, Commit, Commits, Lineage, LineageInput, commit_path};
pub use diff::{Compared, State};
pub use error::HistoryError;
pub use graph::{Drawn, graph};
pub use id::CommitId;
pub use lineage::Step as LineageStep;
pub use merge::{Combined, Decide, FastForward, merge_message, revert_message};
pub use merge_plan::{
    Choice, Conflict, MergePlan, Merged, MetadataFrom, NameConflict, Side, Sides, TensorConflict, Unresolved,
    plan, resolve,
};
pub use names::check_name;
pub use revision::{Resolved, Revision, Step, head, parse_time, parse_time_in, resolve as resolve_revision};
pub use status::Status;
pub use tags::Tag;
pub use timeline::{Opened, Timeline, Tip};
pub use views::SavedView;
pub use walk::{Found, ahead_behind, ancestors, is_ancestor, log, merge_base, merge_bases};
