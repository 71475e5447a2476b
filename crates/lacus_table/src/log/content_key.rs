//! Names for what is cached, made from all that it depends on: handles that see the same files find the same entries, and
//! another state never does.
//!
//! Data files get names that are never used again, so a path says which bytes are meant. Size and time are part of the key
//! all the same, for files that other tools wrote.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::log::snapshot::{FileEntry, TAG, TensorState};

/// Two hashes of 64 bits each: what is cached under them was read from the same dataset, so nobody gains by a collision.
struct Digest(DefaultHasher, DefaultHasher);

impl Digest {
    fn new() -> Digest {
        let mut second = DefaultHasher::new();
        second.write_u8(1);
        Digest(DefaultHasher::new(), second)
    }

    fn add(&mut self, what: impl Hash) {
        what.hash(&mut self.0);
        what.hash(&mut self.1);
    }

    fn text(&self) -> String {
        format!("{:016x}{:016x}", self.0.finish(), self.1.finish())
    }
}

/// The key of what depends on a file's bytes alone.
pub(crate) fn file_key(entry: &FileEntry) -> String {
    let add = &entry.add;
    format!("{} {} {} {:?}", add.path, add.size, add.modification_time, entry.tags.kind)
}

/// The key of what depends on a file's bytes and on which rows of it the log says are a tensor's.
pub(crate) fn held_key(entry: &FileEntry, name: &str) -> String {
    let mut digest = Digest::new();
    digest.add((name, entry.held(name).map(|held| &held.rows)));
    format!("{} {}", file_key(entry), digest.text())
}

/// The key of a file's tags, where nothing vouches for them.
pub(crate) fn tags_key(entry: &FileEntry) -> String {
    let mut digest = Digest::new();
    digest.add(entry.add.tags.as_ref().and_then(|tags| tags.get(TAG)));
    digest.add(entry.deletions());
    format!("{} {}", file_key(entry), digest.text())
}

/// The key of what depends on a state of the tensor called `name`: its header, its rows in all files, and which are deleted.
pub(crate) fn state_key<'s>(state: &'s TensorState, name: &str) -> &'s str {
    state.key.get_or_init(|| {
        let mut digest = Digest::new();
        digest.add((name, &state.header));
        for entry in &state.files {
            match entry.has_unproven_tags() {
                true => digest.add(tags_key(entry)),
                false => digest.add((file_key(entry), entry.deletions())),
            }
            if let Some(held) = entry.held(name) {
                digest.add((&held.rows, &held.ids, &held.sequences));
            }
        }
        digest.text()
    })
}
