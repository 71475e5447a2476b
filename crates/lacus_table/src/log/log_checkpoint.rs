//! Log checkpoints: all that a log says up to a version in one file, so that opening reads few entries.
//!
//! ```text
//! write   LogState ─→ actions ─JSON→ Arrow ─→ <version>.checkpoint.parquet, then _last_checkpoint
//! read    _last_checkpoint ─names→ <version>.checkpoint.parquet ─→ Arrow ─JSON→ actions
//! ```
//!
//! A checkpoint holds the actions that entries hold, one in a row, as columns of Delta's protocol (the
//! classic kind, a single file). Those of other kinds, which only other writers make, are read by
//! `foreign_checkpoint.rs`. Entries are JSON already, so JSON is the way in and out: what can stand
//! in an entry can stand in a checkpoint, spelled the same.
//!
//! Tombstones are left out. They grow with every version, and only a vacuum by age would want them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::{LineDelimitedWriter, ReaderBuilder};
use bytes::Bytes;
use lacus_io::{IoError, Store};
use lacus_layout::crc32c;
use object_store::{PutOptions, path::Path};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde::Deserialize;
use serde_json::json;

use crate::error::{TableError, unless_panicking};
use crate::log::actions::{Action, Add, LogState, outer_path, parse_lines, render_lines};

/// Log entries between log checkpoints: an open costs a request per entry, or a quarter of a millisecond on
/// a local disk.
pub(crate) const CHECKPOINT_EVERY: u64 = 20;

/// Says which log checkpoint is the newest.
pub(crate) const LAST_CHECKPOINT: &str = "_delta_log/_last_checkpoint";

/// The tag of `_last_checkpoint` that carries the CRC-32C of the checkpoint's bytes: Parquet has none, and a
/// checkpoint that is read wrong is a table that is read wrong. The key in the checkpoint's own footer that carries the
/// CRC-32C of its actions, as lines of JSON: hints get lost, and older checkpoints have none.
const CRC_TAG: &str = "lacus.crc32c";

/// The log checkpoint of a version, relative to the table's root.
pub(crate) fn checkpoint_path(version: u64) -> String {
    format!("_delta_log/{version:020}.checkpoint.parquet")
}

/// The bytes of a log checkpoint. What other writers keep in the log is in it as far as it is known.
pub(crate) fn render(state: &LogState) -> Result<Bytes, TableError> {
    let failed = |what: String| TableError::Fault {
        what: format!("log checkpoint of version {}: {what}", state.version),
    };
    let actions = actions(state);
    let lines = render_lines(&actions);
    let mut decoder = ReaderBuilder::new(schema())
        .with_batch_size(actions.len())
        .build_decoder()
        .map_err(|e| failed(e.to_string()))?;
    decoder.decode(&lines).map_err(|e| failed(e.to_string()))?;
    let batch = decoder.flush().map_err(|e| failed(e.to_string()))?;
    let batch = batch
        .filter(|batch| batch.num_rows() == actions.len())
        .ok_or_else(|| failed("an action was lost on the way".into()))?;
    let options =
        ArrowWriterOptions::new().with_properties(writer_properties()).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema(), options)
        .map_err(|e| failed(e.to_string()))?;
    writer.write(&batch).map_err(|e| failed(e.to_string()))?;
    let digest = crc32c(&as_lines([Ok(batch)]).map_err(|e| failed(e.to_string()))?);
    writer.append_key_value_metadata(KeyValue::new(CRC_TAG.to_owned(), digest.to_string()));
    writer.into_inner().map(Bytes::from).map_err(|e| failed(e.to_string()))
}

/// Writes a log checkpoint and makes it the one that opening begins with, unless there is a newer one.
///
/// Each of the two objects is synced before the next is put: after a power loss `_last_checkpoint` names no
/// checkpoint that is torn.
pub(crate) async fn write(store: &Store, state: &LogState) -> Result<(), TableError> {
    let last = write_unnamed(store, state).await?;
    let newest = LastCheckpoint::read(store).await?;
    if newest.is_some_and(|newest| newest.version > state.version) {
        return Ok(());
    }
    put(store, LAST_CHECKPOINT, last).await
}

/// The same for a newest state that is known to be the newest, whatever `_last_checkpoint` says.
pub(crate) async fn rewrite(store: &Store, state: &LogState) -> Result<(), TableError> {
    let last = write_unnamed(store, state).await?;
    put(store, LAST_CHECKPOINT, last).await
}

/// Writes a log checkpoint and gives what `_last_checkpoint` is to say of it.
async fn write_unnamed(store: &Store, state: &LogState) -> Result<Bytes, TableError> {
    let bytes = lacus_io::blocking(|| render(state))?;
    let last = json!({
        "version": state.version,
        "size": actions(state).len(),
        "sizeInBytes": bytes.len(),
        "numOfAddFiles": state.adds.len(),
        "tags": {CRC_TAG: crc32c(&bytes).to_string()},
    });
    put(store, &checkpoint_path(state.version), bytes).await?;
    Ok(last.to_string().into())
}

/// Puts an object, over an old one if there is one.
async fn put(store: &Store, path: &str, bytes: Bytes) -> Result<(), TableError> {
    let objects = store.object_store();
    let put = objects.put_opts(&Path::from(path), bytes.into(), PutOptions::default()).await;
    put.map_err(|e| IoError::from_store("put", path, e))?;
    Ok(store.make_durable(&[path.to_owned()])?)
}

/// What `_last_checkpoint` says.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastCheckpoint {
    pub version: u64,
    parts: Option<u64>,
    size_in_bytes: Option<u64>,
    v2_checkpoint: Option<serde::de::IgnoredAny>,
    tags: Option<HashMap<String, Option<String>>>,
}

impl LastCheckpoint {
    /// Reads it, if there is one. It is a hint: one that makes no sense is as good as none.
    pub(crate) async fn read(store: &Store) -> Result<Option<LastCheckpoint>, TableError> {
        match store.read_all(LAST_CHECKPOINT).await {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether the checkpoint is one file of the classic kind.
    pub(crate) fn is_classic(&self) -> bool {
        self.parts.is_none() && self.v2_checkpoint.is_none()
    }

    /// Whether `bytes` can be the checkpoint that is meant.
    fn fits(&self, bytes: &[u8]) -> bool {
        let crc = self.tags.as_ref().and_then(|tags| tags.get(CRC_TAG)?.as_deref());
        self.size_in_bytes.is_none_or(|size| size == bytes.len() as u64)
            && crc.is_none_or(|crc| crc == crc32c(bytes).to_string())
    }
}

/// Reads the actions of a log checkpoint, if it is there. `last` is what is known of this one.
pub(crate) async fn read(
    store: &Store,
    version: u64,
    last: Option<&LastCheckpoint>,
) -> Result<Option<Vec<Action>>, TableError> {
    let path = checkpoint_path(version);
    let bytes = match store.read_all(&path).await {
        Ok(bytes) => bytes,
        Err(e) if e.is_not_found() => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let fits = last.is_none_or(|last| last.fits(&bytes));
    let path = outer_path(store, &path);
    let parsed = lacus_io::blocking(|| parse(&path, bytes));
    let actions = match (fits, parsed) {
        (true, parsed) => parsed?.actions,
        (false, Ok(parsed)) if parsed.is_verified => {
            tracing::warn!(
                path,
                "_last_checkpoint says something else of this log checkpoint, which is sound"
            );
            parsed.actions
        }
        (false, _) => {
            return Err(TableError::corrupt(path, "log checkpoint is not what _last_checkpoint says"));
        }
    };
    Ok(Some(actions))
}

/// The actions in a Parquet file of a log checkpoint that must be there.
pub(crate) async fn read_file(store: &Store, path: &str) -> Result<Vec<Action>, TableError> {
    let bytes = store.read_all(path).await.map_err(|error| match error.is_not_found() {
        true => TableError::corrupt(outer_path(store, path), "a file of a log checkpoint is missing"),
        false => error.into(),
    })?;
    let path = outer_path(store, path);
    Ok(lacus_io::blocking(|| parse(&path, bytes))?.actions)
}

/// Whether `_last_checkpoint` describes the checkpoint it names, which is there.
pub(crate) async fn is_described(store: &Store, last: &LastCheckpoint) -> Result<bool, TableError> {
    Ok(last.fits(&store.read_all(&checkpoint_path(last.version)).await?))
}

/// What is in a log checkpoint.
#[derive(Debug)]
struct Parsed {
    actions: Vec<Action>,
    /// Whether its own checksum says that these are the actions that were written.
    is_verified: bool,
}

/// The actions in a log checkpoint, tombstones left out.
fn parse(path: &str, bytes: Bytes) -> Result<Parsed, TableError> {
    let bad = |what: String| TableError::corrupt(path, format!("log checkpoint: {what}"));
    let (lines, digest) = unless_panicking(|| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
        let pairs = builder.metadata().file_metadata().key_value_metadata();
        let digest = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == CRC_TAG)).cloned();
        // Other writers say some things twice, as text and parsed; the text is what entries have.
        let columns = builder.parquet_schema().columns().iter().enumerate();
        let wanted = columns.filter(|(_, column)| {
            let parts = column.path().parts();
            parts[0] != "remove" && !parts.get(1).is_some_and(|part| part.ends_with("_parsed"))
        });
        let wanted: Vec<usize> = wanted.map(|(i, _)| i).collect();
        let mask = ProjectionMask::leaves(builder.parquet_schema(), wanted);
        Ok((as_lines(builder.with_projection(mask).build()?)?, digest))
    })
    .map_err(|e| bad(e.to_string()))?;
    if let Some(digest) = &digest
        && digest.value.as_deref() != Some(crc32c(&lines).to_string().as_str())
    {
        return Err(bad("its actions do not have their checksum".to_owned()));
    }
    Ok(Parsed { actions: parse_lines(path, &lines)?, is_verified: digest.is_some() })
}

/// Actions as lines of JSON.
fn as_lines(
    batches: impl IntoIterator<Item = Result<RecordBatch, ArrowError>>,
) -> Result<Vec<u8>, ArrowError> {
    let mut writer = LineDelimitedWriter::new(Vec::new());
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    Ok(writer.into_inner())
}

/// The actions that lead to a state.
fn actions(state: &LogState) -> Vec<Action> {
    let mut actions =
        vec![Action::Protocol(state.protocol.clone()), Action::Metadata(state.metadata.clone())];
    actions.extend(state.foreign.transactions.values().cloned().map(Action::Transaction));
    actions.extend(state.foreign.domains.values().cloned().map(Action::Domain));
    // The change was in the entry; the checkpoint only repeats it.
    actions.extend(state.adds.iter().map(|add| Action::Add(Add { data_change: false, ..add.clone() })));
    actions
}

/// The columns of a checkpoint, as the protocol has them. All may be null, as in checkpoints of other
/// writers: a row holds one action.
fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let text = |name: &str| Field::new(name, DataType::Utf8, true);
        let long = |name: &str| Field::new(name, DataType::Int64, true);
        let int = |name: &str| Field::new(name, DataType::Int32, true);
        let flag = |name: &str| Field::new(name, DataType::Boolean, true);
        let group = |name: &str, fields: Vec<Field>| Field::new_struct(name, fields, true);
        let texts = |name: &str| Field::new_list(name, Field::new("element", DataType::Utf8, true), true);
        let map = |name: &str| {
            let key = Field::new("key", DataType::Utf8, false);
            Field::new_map(name, "key_value", key, text("value"), false, true)
        };
        let deletion_vector = || {
            let place = [text("storageType"), text("pathOrInlineDv"), int("offset")];
            let size = [int("sizeInBytes"), long("cardinality")];
            group("deletionVector", place.into_iter().chain(size).collect())
        };
        Arc::new(Schema::new(vec![
            group("txn", vec![text("appId"), long("version"), long("lastUpdated")]),
            group(
                "add",
                vec![
                    text("path"),
                    map("partitionValues"),
                    long("size"),
                    long("modificationTime"),
                    flag("dataChange"),
                    text("stats"),
                    map("tags"),
                    deletion_vector(),
                ],
            ),
            // Always null, and there for readers that insist on the column.
            group("remove", vec![text("path"), long("deletionTimestamp"), flag("dataChange")]),
            group(
                "metaData",
                vec![
                    text("id"),
                    text("name"),
                    text("description"),
                    group("format", vec![text("provider"), map("options")]),
                    text("schemaString"),
                    texts("partitionColumns"),
                    map("configuration"),
                    long("createdTime"),
                ],
            ),
            group(
                "protocol",
                vec![
                    int("minReaderVersion"),
                    int("minWriterVersion"),
                    texts("readerFeatures"),
                    texts("writerFeatures"),
                ],
            ),
            group("domainMetadata", vec![text("domain"), text("configuration"), flag("removed")]),
        ]))
    });
    Arc::clone(&SCHEMA)
}

fn writer_properties() -> WriterProperties {
    WriterProperties::builder()
        .set_created_by(concat!("lacus ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).unwrap_or_default()))
        // Nearly all values differ, and what repeats within them is zstd's to find.
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .build()
}

#[cfg(test)]
mod tests;
