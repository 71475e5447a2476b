//! Tags: names that stay. One object each, never replaced.
//!
//! ```text
//! _lacus/tags/v1.0    {"commit":"ab12…","author":…,"time_millis":…,"message":…}
//! ```

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lacus_io::{Store, World};
use lacus_table::{BLANK_SEAL, Seal, look_at_seal, seal};
use serde::{Deserialize, Serialize};

use crate::error::HistoryError;
use crate::id::CommitId;
use crate::names::{check_name, close_to, decode, encode};

const PREFIX: &str = "_lacus/tags/";

/// Tags read at the same time.
const AT_ONCE: usize = 32;

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

/// What is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    tag: Tag,
    /// Different for each put, so that a put whose answer was lost is recognised.
    mark: String,
    /// The checksum of all of this; older objects have none.
    #[serde(default)]
    crc32c: String,
}

/// Where the tag of this name is stored.
pub fn tag_path(name: &str) -> String {
    format!("{PREFIX}{}", encode(name))
}

/// Makes a tag. `tag` says all but the time. A name that is taken is an error, even for the same commit.
pub async fn create(store: &Store, world: &World, tag: Tag) -> Result<Tag, HistoryError> {
    check_name("tag", &tag.name)?;
    let path = tag_path(&tag.name);
    let stored = Stored {
        tag: Tag { time_millis: world.now_millis(), ..tag },
        mark: world.uuid().simple().to_string(),
        crc32c: BLANK_SEAL.to_owned(),
    };
    let fault = |e: serde_json::Error| HistoryError::Fault { what: format!("a tag as JSON: {e}") };
    let bytes = Bytes::from(seal(serde_json::to_vec(&stored).map_err(fault)?));
    if let Err(error) = store.put_new(&path, bytes.clone()).await {
        match store.read_all(&path).await {
            // It was this very put, whose answer was lost.
            Ok(found) if found == bytes => {}
            Ok(_) => return Err(HistoryError::NameTaken { what: "tag", name: stored.tag.name }),
            Err(_) => return Err(error.into()),
        }
    }
    Ok(stored.tag)
}

/// All tags, sorted by name.
pub async fn list(store: &Store) -> Result<Vec<Tag>, HistoryError> {
    let names = names(store).await?;
    let reads = names.into_iter().map(|name| async move { find(store, &name).await });
    // One that was deleted since it was listed is left out.
    stream::iter(reads).buffered(AT_ONCE).try_filter_map(|tag| async { Ok(tag) }).try_collect().await
}

/// The names of all tags, sorted. Nothing is read, so that a damaged one is among them.
pub async fn names(store: &Store) -> Result<Vec<String>, HistoryError> {
    let found = match store.list(PREFIX).await {
        Ok(found) => found,
        Err(e) if e.is_not_found() => Vec::new(),
        Err(e) => return Err(e.into()),
    };
    let mut names: Vec<String> =
        found.iter().filter_map(|entry| decode(entry.path.strip_prefix(PREFIX)?)).collect();
    names.sort_unstable();
    Ok(names)
}

/// The tag of this name; an error that suggests others, if there is none.
pub async fn get(store: &Store, name: &str) -> Result<Tag, HistoryError> {
    if let Some(tag) = find(store, name).await? {
        return Ok(tag);
    }
    let names = names(store).await?;
    let close = close_to(name, names.iter().map(String::as_str));
    Err(HistoryError::NoSuchRef { what: "tag", name: name.to_owned(), close })
}

/// The tag of this name, if there is one.
pub async fn find(store: &Store, name: &str) -> Result<Option<Tag>, HistoryError> {
    if check_name("tag", name).is_err() {
        return Ok(None);
    }
    let path = tag_path(name);
    let bytes = match store.read_all(&path).await {
        Ok(bytes) => bytes,
        Err(e) if e.is_not_found() => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let damaged = |what: String| HistoryError::corrupt(&path, format!("tag {name:?} is damaged: {what}"));
    if look_at_seal(&bytes) == Seal::Broken {
        return Err(damaged("it does not have its checksum".to_owned()));
    }
    let stored: Stored = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
    match stored.tag.name == name {
        true => Ok(Some(stored.tag)),
        false => Err(damaged(format!("it says that it is {:?}", stored.tag.name))),
    }
}

/// Deletes a tag, a damaged one as well. The commit stays.
pub async fn delete(store: &Store, name: &str) -> Result<(), HistoryError> {
    check_name("tag", name)?;
    let path = tag_path(name);
    if !store.exists(&path).await? {
        get(store, name).await?;
    }
    Ok(store.remove(vec![path]).await?)
}
