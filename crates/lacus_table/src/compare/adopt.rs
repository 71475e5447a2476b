//! Takes over whole files of another state: many appended images are not copied one by one.

use std::collections::{BTreeMap, BTreeSet};

use roaring::RoaringTreemap;

use crate::error::TableError;
use crate::files::chunk_file::StagedFile;
use crate::files::stats::loosened;
use crate::log::deletion;
use crate::log::snapshot::{FileEntry, FileKind, FileTags, Held};
use crate::table::Table;
use crate::write::commit::MAX_REWRITE_BYTES;
use crate::write::stage::new_path;

/// Rows of one file of the source that are taken, by tensor.
pub(crate) type TakenRows = BTreeMap<String, RoaringTreemap>;

/// A chunk file of `source` as a file of `table`, if all its live rows are `taken`. Of its header rows, those of
/// `with_header` count, the others die. A file under the table's own root comes back as it is, unless it is
/// part of the table; any other is linked or copied.
pub(crate) async fn adopt(
    table: &Table,
    source: &Table,
    entry: &FileEntry,
    taken: &TakenRows,
    with_header: &BTreeSet<String>,
) -> Result<Option<StagedFile>, TableError> {
    if entry.tags.kind != FileKind::Chunks {
        return Ok(None);
    }
    let (source_store, _, source_cache, _) = source.parts();
    if entry.has_unproven_tags() {
        source_cache.file(source_store, entry).await?;
    }
    let dead = source_cache.deleted(source_store, entry).await?;
    let mut dead: RoaringTreemap = dead.as_deref().cloned().unwrap_or_default();
    let mut held = Vec::with_capacity(entry.tags.tensors.len());
    for one in &entry.tags.tensors {
        let runs = one.rows.iter();
        let live: u64 =
            runs.map(|(first, count)| count - dead.range_cardinality(*first..first + count)).sum();
        if live != taken.get(&one.name).map_or(0, RoaringTreemap::len) {
            return Ok(None);
        }
        held.extend(kept(one, live > 0, with_header.contains(&one.name)));
    }
    let lost = entry.tags.tensors.iter().filter(|one| !with_header.contains(&one.name));
    dead.extend(lost.filter_map(|one| one.header.as_ref()).map(|header| header.row));
    let (store, world, _, snapshot) = table.parts();
    let bytes: u64 = held.iter().map(|one| one.bytes).sum();
    if !dead.is_empty() && !snapshot.deletion_vectors && bytes <= MAX_REWRITE_BYTES {
        // A plain table stays plain for as little as this.
        return Ok(None);
    }
    let mut vector = None;
    if !dead.is_empty() {
        let encoded = deletion::encode(&dead, world.uuid());
        if let Some((path, bytes)) = encoded.file {
            store.put_new(&path, bytes).await?;
        }
        vector = Some(encoded.descriptor);
    }
    let here = store.path_to(&source_store.outer_path(entry.path())?);
    let is_old = here.starts_with("data/") && !snapshot.files.contains_key(&here);
    let path = match is_old {
        true => here,
        false => {
            let path = new_path(world);
            store.copy(&here, &path).await?;
            path
        }
    };
    let stats = entry.add.stats.clone();
    Ok(Some(StagedFile {
        path,
        bytes: u64::try_from(entry.add.size).unwrap_or(0),
        stats: if vector.is_some() { stats.as_deref().map(loosened) } else { stats },
        tags: FileTags { deleted: dead.len(), tensors: held, ..entry.tags.clone() },
        vector,
        is_old,
        new_rows: None,
    }))
}

/// What the file still holds of a tensor.
fn kept(held: &Held, has_rows: bool, has_header: bool) -> Option<Held> {
    let header = held.header.clone().filter(|_| has_header);
    match has_rows {
        true => Some(Held { header, ..held.clone() }),
        false => {
            let more_headers = held.more_headers.clone();
            header.map(|header| Held { header: Some(header), more_headers, ..Held::new(&held.name) })
        }
    }
}
