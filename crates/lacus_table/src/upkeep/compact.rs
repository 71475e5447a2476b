//! Compaction: many small files into few, deletion vectors purged, files of an older revision written anew.
//!
//! Files that hold rows of other writers which belong to no tensor stay as they are: nothing here knows what
//! these rows mean, so nothing here may drop them.

use lacus_io::boxed;
use serde_json::json;

use crate::error::TableError;
use crate::log::foreign_rows::foreign_rows;
use crate::log::identity::{identified, identity};
use crate::log::snapshot::{FileEntry, FileKind};
use crate::schema::DATASET_ROW;
use crate::table::Table;
use crate::write::commit::{Staged, Supersede};
use crate::write::copy_rows::{Copied, copy_rows};
use crate::write::stage::{FILE_BYTES, WriteOptions};
use crate::write::write_set::WriteSet;

/// A file below this size is worth joining with others.
const SMALL_BYTES: i64 = (FILE_BYTES / 4) as i64;

/// Times a compaction is begun anew because a writer changed the files it was copying.
const ATTEMPTS: usize = 5;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Files that were copied from.
    pub files_before: usize,
    /// Files they became.
    pub files_after: usize,
    /// Bytes of the former.
    pub bytes_before: u64,
    /// Bytes of the latter.
    pub bytes_after: u64,
    /// Files left as they are because they hold rows of other writers that belong to no tensor. A check names these.
    pub files_kept: usize,
    /// The version it made; the one there was when there was nothing to do.
    pub version: u64,
}

impl Table {
    /// Joins small files, purges deletion vectors, writes files of an older revision anew. Readers of older
    /// versions are not disturbed: the old files stay until a clean-up.
    #[boxed]
    pub async fn compact(&mut self, options: &WriteOptions) -> Result<CompactReport, TableError> {
        self.writable().await?;
        self.refresh().await?;
        for _ in 1..ATTEMPTS {
            match self.compact_once(options).await {
                Err(TableError::Conflict { .. }) => self.refresh().await?,
                other => return other,
            };
        }
        self.compact_once(options).await
    }

    async fn compact_once(&mut self, options: &WriteOptions) -> Result<CompactReport, TableError> {
        let (store, world, cache, snapshot) = self.parts();
        let is_worn =
            |f: &FileEntry| f.deletions().is_some() || f.tags.kind == FileKind::Foreign || f.tags.is_old();
        let is_small = |f: &FileEntry| f.add.size < SMALL_BYTES;
        let kept = foreign_rows(snapshot).files;
        let mut chosen: Vec<FileEntry> = Vec::new();
        for kind in [FileKind::Chunks, FileKind::Cells, FileKind::Foreign] {
            let files = snapshot.files.values().map(|f| f.as_ref());
            let of_kind: Vec<&FileEntry> =
                files.filter(|f| f.tags.kind == kind && !kept.contains(f.path())).collect();
            let small = of_kind.iter().filter(|f| is_small(f)).count();
            chosen.extend(of_kind.into_iter().filter(|f| is_worn(f) || (small > 1 && is_small(f))).cloned());
        }
        let mut report =
            CompactReport { version: snapshot.version, files_kept: kept.len(), ..Default::default() };
        if chosen.is_empty() {
            return Ok(report);
        }
        let paths: Vec<String> = chosen.iter().map(|f| f.path().to_owned()).collect();
        let mut tensors: std::collections::BTreeMap<&str, Copied> = Default::default();
        for held in chosen.iter().flat_map(|f| &f.tags.tensors) {
            let copied = tensors.entry(&held.name).or_insert_with(|| Copied {
                name: held.name.clone(),
                new_name: held.name.clone(),
                header: None,
                only: Some(paths.clone()),
            });
            // Headers of versions without ids get theirs written out.
            let header = || {
                let header = held.header.clone().filter(|_| held.name != DATASET_ROW)?;
                let id = identity(&held.name, &header);
                Some(identified(header, &id))
            };
            copied.header = copied.header.take().or_else(header).or_else(|| held.header.clone());
        }
        let tensors: Vec<Copied> = tensors.into_values().collect();
        let files = copy_rows(store, world, cache, snapshot, &tensors, options).await?;
        report.files_before = chosen.len();
        report.bytes_before = chosen.iter().map(|f| u64::try_from(f.add.size).unwrap_or(0)).sum();
        report.files_after = files.len();
        report.bytes_after = files.iter().map(|f| f.bytes).sum();
        let staged = Staged {
            op: "COMPACT",
            files,
            supersede: vec![Supersede::Files(chosen)],
            writes: WriteSet::default(),
            detail: json!({"files_before": report.files_before, "files_after": report.files_after}),
            data_change: false,
        };
        report.version = self.commit(staged, options).await?;
        Ok(report)
    }
}
