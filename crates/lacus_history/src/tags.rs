//! Tags: names of commits that stay. One object each, never replaced.
//!
//! ```text
//! _lacus/tags/v1.0    {"commit":"ab12…","author":…,"time_millis":…,"message":…}
//! ```

use lacus_io::boxed;
use lacus_io::{Store, World};
use serde::{Deserialize, Serialize};

use crate::error::HistoryError;
use crate::id::CommitId;
use crate::named::{self, Named};

/// A name for a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// Its name.
    pub name: String,
    /// The commit.
    pub commit: CommitId,
    /// Who gave it.
    pub author: String,
    /// When, in milliseconds since 1970, UTC.
    pub time_millis: i64,
    /// What for; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Named for Tag {
    const WHAT: &'static str = "tag";
    const PREFIX: &'static str = "_lacus/tags/";
    const MAY_LACK_CHECKSUM: bool = true;

    fn name(&self) -> &str {
        &self.name
    }
}

/// Where the tag of this name is stored.
pub fn tag_path(name: &str) -> String {
    named::path::<Tag>(name)
}

/// Makes a tag. `tag` says all but the time. A name that is taken is an error, even for the same commit.
#[boxed]
pub async fn create(store: &Store, world: &World, tag: Tag) -> Result<Tag, HistoryError> {
    named::create(store, world, Tag { time_millis: world.now_millis(), ..tag }).await
}

/// All tags, sorted by name.
#[boxed]
pub async fn list(store: &Store) -> Result<Vec<Tag>, HistoryError> {
    named::list(store).await
}

/// The names of all tags, sorted. Nothing is read, so that a damaged one is among them.
#[boxed]
pub async fn names(store: &Store) -> Result<Vec<String>, HistoryError> {
    named::names::<Tag>(store).await
}

/// The tag of this name; an error that suggests others, if there is none.
#[boxed]
pub async fn get(store: &Store, name: &str) -> Result<Tag, HistoryError> {
    named::get(store, name).await
}

/// The tag of this name, if there is one.
#[boxed]
pub async fn find(store: &Store, name: &str) -> Result<Option<Tag>, HistoryError> {
    named::find(store, name).await
}

/// Deletes a tag, a damaged one as well. The commit stays.
#[boxed]
pub async fn delete(store: &Store, name: &str) -> Result<(), HistoryError> {
    named::delete::<Tag>(store, name).await
}
