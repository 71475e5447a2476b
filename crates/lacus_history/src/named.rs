//! Objects with a name, one each, never replaced: tags and saved views.
//!
//! ```text
//! _lacus/<kind>/<name>    {"name":…, …, "mark":…, "crc32c":…}
//! ```
//!
//! Put-if-absent makes exactly one of several writers the one who gave the name. A name is free again once it was deleted.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lacus_error::close_to;
use lacus_io::{Store, World};
use lacus_table::{BLANK_SEAL, Seal, look_at_seal, seal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::HistoryError;
use crate::names::{check_name, decode, encode};

/// Objects read at the same time.
const AT_ONCE: usize = 32;

/// What has such a name.
pub(crate) trait Named: Serialize + DeserializeOwned + Send {
    /// What messages call it.
    const WHAT: &'static str;
    /// Where these objects are.
    const PREFIX: &'static str;
    /// Whether there are objects from before checksums.
    const MAY_LACK_CHECKSUM: bool;

    /// Its name.
    fn name(&self) -> &str;
}

/// What is stored.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    #[serde(flatten)]
    named: T,
    /// Different for each put, so that a put whose answer was lost is recognised.
    mark: String,
    /// The checksum of all of this; older objects have none.
    #[serde(default)]
    crc32c: String,
}

/// Where the object of this name is stored.
pub(crate) fn path<T: Named>(name: &str) -> String {
    format!("{}{}", T::PREFIX, encode(name))
}

/// Stores it. A name that is taken is an error, even for the same content.
pub(crate) async fn create<T: Named>(store: &Store, world: &World, named: T) -> Result<T, HistoryError> {
    check_name(T::WHAT, named.name())?;
    let path = path::<T>(named.name());
    let mark = world.uuid().simple().to_string();
    let stored = Stored { named, mark, crc32c: BLANK_SEAL.to_owned() };
    let fault = |e: serde_json::Error| HistoryError::Fault { what: format!("a {} as JSON: {e}", T::WHAT) };
    let bytes = Bytes::from(seal(serde_json::to_vec(&stored).map_err(fault)?));
    if let Err(error) = store.put_new(&path, bytes.clone()).await {
        match store.read_all(&path).await {
            // It was this very put, whose answer was lost.
            Ok(found) if found == bytes => {}
            Ok(_) => {
                let name = stored.named.name().to_owned();
                return Err(HistoryError::NameTaken { what: T::WHAT, name });
            }
            Err(_) => return Err(error.into()),
        }
    }
    Ok(stored.named)
}

/// All of them, sorted by name.
pub(crate) async fn list<T: Named>(store: &Store) -> Result<Vec<T>, HistoryError> {
    let names = names::<T>(store).await?;
    let reads = names.into_iter().map(|name| async move { find::<T>(store, &name).await });
    // One that was deleted since it was listed is left out.
    stream::iter(reads).buffered(AT_ONCE).try_filter_map(|found| async { Ok(found) }).try_collect().await
}

/// Their names, sorted. Nothing is read, so that a damaged one is among them.
pub(crate) async fn names<T: Named>(store: &Store) -> Result<Vec<String>, HistoryError> {
    let found = match store.list(T::PREFIX).await {
        Ok(found) => found,
        Err(e) if e.is_not_found() => Vec::new(),
        Err(e) => return Err(e.into()),
    };
    let mut names: Vec<String> =
        found.iter().filter_map(|entry| decode(entry.path.strip_prefix(T::PREFIX)?)).collect();
    names.sort_unstable();
    Ok(names)
}

/// The one of this name; an error that suggests others, if there is none.
pub(crate) async fn get<T: Named>(store: &Store, name: &str) -> Result<T, HistoryError> {
    if let Some(found) = find(store, name).await? {
        return Ok(found);
    }
    let names = names::<T>(store).await?;
    let close = close_to(name, names.iter().map(String::as_str));
    Err(HistoryError::NoSuchRef { what: T::WHAT, name: name.to_owned(), close })
}

/// The one of this name, if there is one.
pub(crate) async fn find<T: Named>(store: &Store, name: &str) -> Result<Option<T>, HistoryError> {
    if check_name(T::WHAT, name).is_err() {
        return Ok(None);
    }
    let path = path::<T>(name);
    let bytes = match store.read_all(&path).await {
        Ok(bytes) => bytes,
        Err(e) if e.is_not_found() => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let damaged =
        |what: String| HistoryError::corrupt(&path, format!("{} {name:?} is damaged: {what}", T::WHAT));
    match look_at_seal(&bytes) {
        Seal::Whole => {}
        Seal::Absent if T::MAY_LACK_CHECKSUM => {}
        Seal::Broken | Seal::Absent => return Err(damaged("it does not have its checksum".to_owned())),
    }
    let stored: Stored<T> = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
    match stored.named.name() == name {
        true => Ok(Some(stored.named)),
        false => Err(damaged(format!("it says that it is {:?}", stored.named.name()))),
    }
}

/// Deletes one, a damaged one as well.
pub(crate) async fn delete<T: Named>(store: &Store, name: &str) -> Result<(), HistoryError> {
    check_name(T::WHAT, name)?;
    let path = path::<T>(name);
    if !store.exists(&path).await? {
        get::<T>(store, name).await?;
    }
    Ok(store.remove(vec![path]).await?)
}
