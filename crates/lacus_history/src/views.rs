//! Saved views: rows and columns of a commit under a name. One object each, never replaced.
//!
//! ```text
//! _lacus/views/hard%20cases    {"commit":"ab12…","author":…,"time_millis":…,"view":{"rows":…,"columns":…},…}
//! ```
//!
//! What a view says of rows and columns is data of whoever makes views; here it is only kept. The clean-up keeps what its
//! commit needs.

use lacus_io::boxed;
use lacus_io::{Store, World};
use serde::{Deserialize, Serialize};

use crate::error::HistoryError;
use crate::id::CommitId;
use crate::named::{self, Named};

/// A view under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedView {
    /// Its name.
    pub name: String,
    /// The commit whose rows these are.
    pub commit: CommitId,
    /// Who saved it.
    pub author: String,
    /// When, in milliseconds since 1970, UTC.
    pub time_millis: i64,
    /// What for; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The query that it answers, if it came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// How many rows it has.
    pub rows: u64,
    /// The rows and columns.
    pub view: serde_json::Value,
}

impl Named for SavedView {
    const WHAT: &'static str = "view";
    const PREFIX: &'static str = "_lacus/views/";
    const MAY_LACK_CHECKSUM: bool = false;

    fn name(&self) -> &str {
        &self.name
    }
}

/// Where the view of this name is stored.
pub fn view_path(name: &str) -> String {
    named::path::<SavedView>(name)
}

/// Saves a view. `view` says all but the time. A name that is taken is an error, even for the same rows.
#[boxed]
pub async fn create(store: &Store, world: &World, view: SavedView) -> Result<SavedView, HistoryError> {
    named::create(store, world, SavedView { time_millis: world.now_millis(), ..view }).await
}

/// All views, sorted by name.
#[boxed]
pub async fn list(store: &Store) -> Result<Vec<SavedView>, HistoryError> {
    named::list(store).await
}

/// The names of all views, sorted. Nothing is read, so that a damaged one is among them.
#[boxed]
pub async fn names(store: &Store) -> Result<Vec<String>, HistoryError> {
    named::names::<SavedView>(store).await
}

/// The view of this name; an error that suggests others, if there is none.
#[boxed]
pub async fn get(store: &Store, name: &str) -> Result<SavedView, HistoryError> {
    named::get(store, name).await
}

/// The view of this name, if there is one.
#[boxed]
pub async fn find(store: &Store, name: &str) -> Result<Option<SavedView>, HistoryError> {
    named::find(store, name).await
}

/// Deletes a view, a damaged one as well. The commit stays.
#[boxed]
pub async fn delete(store: &Store, name: &str) -> Result<(), HistoryError> {
    named::delete::<SavedView>(store, name).await
}
