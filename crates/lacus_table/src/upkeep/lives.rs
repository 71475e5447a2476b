//! How long files live: from which version to which a table has them, as every entry of its log says.
//!
//! ```text
//! version   3    4    5    6    7
//! data/a    ├─────────┤              from 3, until 5
//! data/b         ├─────────────────  from 4, to this day
//! ```
//!
//! A clean-up asks this of all tables of a dataset, as they borrow from each other.

use lacus_io::boxed;
use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt};

use crate::error::TableError;
use crate::log::actions::{Action, Add, read_known_entry};
use crate::log::deletion;
use crate::log::history::{HistoryEntry, describe};
use crate::log::replay::replay;
use crate::table::Table;

/// Entries read at once: as many as hide the latency of an object store.
const AT_ONCE: usize = 64;

/// A time during which a table had a data file or the file of a deletion vector. A file that was removed and came back has
/// several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLife {
    /// The file, as seen from the dataset's root.
    pub path: String,
    /// Its bytes, as the log says.
    pub bytes: u64,
    /// The first version that has it.
    pub from: u64,
    /// The first version after that which has it no more; `None` if the newest has it.
    pub until: Option<u64>,
    /// When that was, in milliseconds since 1970.
    pub removed_millis: Option<i64>,
}

impl FileLife {
    /// Whether a version has the file.
    pub fn includes(&self, version: u64) -> bool {
        self.from <= version && self.until.is_none_or(|until| version < until)
    }
}

/// All that the log of a table says of its versions and files.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    /// The version with which the log begins.
    pub first: u64,
    /// The newest version.
    pub newest: u64,
    /// The versions that an entry describes, oldest first: all but the first of a fork.
    pub entries: Vec<HistoryEntry>,
    /// The files there ever were.
    pub files: Vec<FileLife>,
}

impl Table {
    /// Reads the whole log up to this version. An entry that is missing is an error: nobody knows then which files
    /// its version had.
    #[boxed]
    pub async fn lives(&self) -> Result<Lives, TableError> {
        let (store, _, _, snapshot) = self.parts();
        let (first, newest) = (self.first_version(), snapshot.version);
        let mut open = Open::default();
        let mut lives = Lives { first, newest, ..Lives::default() };
        let first_entry = self.first_entry();
        if first < first_entry {
            for add in replay(store, Some(first)).await?.adds {
                open.begin(self, first, &add)?;
            }
        }
        let mut entries = futures::stream::iter(first_entry..=newest)
            .map(|version| async move {
                let actions = read_known_entry(store, version).await?;
                Ok::<_, TableError>((version, actions))
            })
            .buffered(AT_ONCE);
        while let Some((version, actions)) = entries.try_next().await? {
            let described = describe(version, &actions);
            for action in &actions {
                if let Action::Remove(remove) = action {
                    let time = remove.deletion_timestamp.unwrap_or(described.time_millis);
                    open.end(&remove.path, version, time, &mut lives.files);
                }
            }
            for action in &actions {
                if let Action::Add(add) = action {
                    open.end(&add.path, version, described.time_millis, &mut lives.files);
                    open.begin(self, version, add)?;
                }
            }
            lives.entries.push(described);
        }
        lives.files.extend(open.files.into_values().flatten());
        lives.files.sort_by(|a, b| (&a.path, a.from).cmp(&(&b.path, b.from)));
        join(&mut lives.files);
        Ok(lives)
    }
}

/// The files that the version reached has: by the path of the data file, that file and its vector's.
#[derive(Default)]
struct Open {
    files: HashMap<String, Vec<FileLife>>,
}

impl Open {
    fn begin(&mut self, table: &Table, version: u64, add: &Add) -> Result<(), TableError> {
        let life = |path: &str, bytes: u64| -> Result<FileLife, TableError> {
            let path = table.store().outer_path(path)?;
            Ok(FileLife { path, bytes, from: version, until: None, removed_millis: None })
        };
        let mut lives = vec![life(&add.path, add.size.unsigned_abs())?];
        if let Some(descriptor) = &add.deletion_vector
            && let Some(path) = deletion::file_path(descriptor)
        {
            lives.push(life(&path, u64::from(descriptor.size_in_bytes.unsigned_abs()))?);
        }
        self.files.insert(add.path.clone(), lives);
        Ok(())
    }

    fn end(&mut self, path: &str, version: u64, time_millis: i64, ended: &mut Vec<FileLife>) {
        for life in self.files.remove(path).into_iter().flatten() {
            ended.push(FileLife { until: Some(version), removed_millis: Some(time_millis), ..life });
        }
    }
}

/// Joins lives of one file that follow each other without a gap: it only got another deletion vector.
fn join(lives: &mut Vec<FileLife>) {
    lives.dedup_by(|later, earlier| {
        let follows = later.path == earlier.path && earlier.until.is_none_or(|until| until >= later.from);
        if follows {
            let is_longer =
                later.until.is_none() || earlier.until.is_some_and(|until| later.until > Some(until));
            if is_longer && earlier.until.is_some() {
                (earlier.until, earlier.removed_millis) = (later.until, later.removed_millis);
            }
        }
        follows
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(path: &str, from: u64, until: Option<u64>) -> FileLife {
        let removed_millis = until.map(|until| until as i64);
        FileLife { path: path.into(), bytes: 1, from, until, removed_millis }
    }

    #[test]
    fn lives_without_a_gap_are_one() {
        let mut lives = vec![
            life("a", 1, Some(3)),
            life("a", 3, Some(4)),
            life("a", 6, None),
            life("b", 2, Some(5)),
            life("b", 3, Some(4)),
            life("c", 1, Some(2)),
            life("c", 2, None),
        ];
        join(&mut lives);
        let expected =
            vec![life("a", 1, Some(4)), life("a", 6, None), life("b", 2, Some(5)), life("c", 1, None)];
        assert_eq!(lives, expected);
        assert!(lives[0].includes(3) && !lives[0].includes(4) && lives[1].includes(100));
    }
}
