//! What the table holds at one version: its files, and the catalogue of its tensors.
//!
//! A file says in its tags which tensors it holds, in which rows, and what their header rows say.
//! The tags are a cache of the file's own rows: where they are missing, because another tool rewrote
//! the file, they are made anew by reading it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use lacus_layout::{Header, LayoutError, crc32c};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::error::TableError;
use crate::log::actions::{Action, Add, Foreign, LogState};
use crate::log::deletion::Descriptor;
use crate::log::zone::Zone;
use crate::schema::{COLUMN_LAYOUT, DATASET_ROW, FORMAT, FORMAT_PROPERTY, is_hidden};

/// The tag that carries [`FileTags`].
pub(crate) const TAG: &str = "lacus";

/// The tag that carries the CRC-32C of the text of the other, in hex. Tags that have it are believed; older ones are
/// compared with the file's rows before they are used, see `tag_check`.
pub(crate) const TAG_CRC: &str = "lacus.crc";

/// What kind of rows a file holds, which decides how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileKind {
    /// Chunk rows, written by Lacus: blobs in front, index columns at the tail.
    Chunks,
    /// COO cells, written by Lacus.
    Cells,
    /// Written by another tool: read by the book.
    Foreign,
}

/// How data files are laid out and encoded today; docs/format.md lists what changed with each number. Files of an
/// older one are read as before, and a compaction writes them anew.
pub(crate) const FILE_REVISION: u32 = 2;

/// What a file holds, as its tags say.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FileTags {
    pub kind: FileKind,
    /// The [`FILE_REVISION`] with which it was written; files from before there was one say nothing.
    #[serde(default = "first_revision")]
    pub revision: u32,
    /// Where what describes the data begins: from here to the end is one request.
    pub tail: u64,
    /// CRC-32C of the bytes from `tail` to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_crc: Option<u32>,
    /// How many rows were deleted when these tags were made. Tags that another tool carried over to
    /// another deletion vector are not believed.
    #[serde(default)]
    pub deleted: u64,
    pub tensors: Vec<Held>,
}

fn first_revision() -> u32 {
    1
}

impl FileTags {
    /// Whether Lacus wrote the file in a way that other engines read badly, or not at all.
    pub(crate) fn is_old(&self) -> bool {
        self.kind != FileKind::Foreign && self.revision < FILE_REVISION
    }

    /// Whether runs of rows lie apart, in a file of so many rows, and ids where ids can be.
    fn are_sane(&self, file_rows: u64) -> bool {
        let ends = |runs: &[(u64, u64)], limit: u64| {
            runs.iter().all(|(first, count)| first.checked_add(*count).is_some_and(|end| end <= limit))
        };
        let apart = |runs: &[(u64, u64)]| runs.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
        let counts = |runs: &[(u64, u64)]| runs.iter().map(|(_, count)| u128::from(*count)).sum::<u128>();
        self.tensors.iter().all(|held| {
            let rows = counts(&held.rows);
            ends(&held.rows, file_rows)
                && apart(&held.rows)
                && ends(&held.ids, i64::MAX as u64)
                && held.span.is_none_or(|(low, high)| low <= high && high < i64::MAX as u64)
                && (held.ids.is_empty() || counts(&held.ids) == rows)
                && (held.sequences.is_empty() || counts(&held.sequences) == rows)
        })
    }
}

/// What a file holds of one tensor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Held {
    pub name: String,
    /// The header row, when it is in this file and alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderRow>,
    /// Other live header rows of the same tensor, which only another writer can have left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_headers: Vec<u64>,
    /// Runs of rows (first, count) of chunks, cells or samples, dead ones included.
    #[serde(default)]
    pub rows: Vec<(u64, u64)>,
    /// Samples: runs (first, count) of the ids of these rows, in their order; empty when they are too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<(u64, u64)>,
    /// Samples: the least and the greatest id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(u64, u64)>,
    /// Samples: between which values they lie, where they are numbers or texts. Older files do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Zone>,
    /// Rows of the dataset: runs (sequence, count), by which they are ordered before their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<(u64, u64)>,
    /// Stored bytes of the live ones.
    pub bytes: u64,
}

impl Held {
    pub(crate) fn new(name: &str) -> Held {
        Held {
            name: name.to_owned(),
            header: None,
            more_headers: Vec::new(),
            rows: Vec::new(),
            ids: Vec::new(),
            span: None,
            zone: None,
            sequences: Vec::new(),
            bytes: 0,
        }
    }

    /// How many rows there are, dead ones included.
    pub(crate) fn row_count(&self) -> u64 {
        self.rows.iter().map(|(_, count)| count).sum()
    }
}

/// A header row: what a tensor is.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
pub(crate) struct HeaderRow {
    pub row: u64,
    pub dtype: String,
    pub shape: Vec<i64>,
    pub layout: String,
    /// The type of a column's samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub htype: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_shape: Option<Vec<i64>>,
    pub parameters: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
}

impl HeaderRow {
    pub(crate) fn new(header: &Header, metadata: Option<&Json>) -> HeaderRow {
        let longs = |dims: &[u64]| dims.iter().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect();
        HeaderRow {
            row: 0,
            dtype: header.dtype.name().to_owned(),
            shape: longs(header.shape.dims()),
            layout: header.layout.name().to_owned(),
            htype: None,
            chunk_shape: header.chunk_shape().map(longs),
            parameters: header.parameters_json(),
            metadata: metadata.map(Json::to_string),
        }
    }

    /// The row that carries the dataset's own metadata.
    pub(crate) fn of_dataset(metadata: &Json) -> HeaderRow {
        HeaderRow { metadata: Some(metadata.to_string()), ..missing_header() }
    }

    /// Whether this describes a column of samples.
    pub(crate) fn is_column(&self) -> bool {
        self.layout == COLUMN_LAYOUT
    }

    pub(crate) fn parse(&self) -> Result<Header, LayoutError> {
        Header::from_parts(
            &self.dtype,
            &self.shape,
            &self.layout,
            self.chunk_shape.as_deref(),
            &self.parameters,
        )
    }
}

/// A file of the table.
#[derive(Clone, Debug)]
pub(crate) struct FileEntry {
    pub add: Add,
    pub tags: FileTags,
}

impl FileEntry {
    pub(crate) fn path(&self) -> &str {
        &self.add.path
    }

    pub(crate) fn deletions(&self) -> Option<&Descriptor> {
        self.add.deletion_vector.as_ref()
    }

    pub(crate) fn held(&self, name: &str) -> Option<&Held> {
        self.tags.tensors.iter().find(|h| h.name == name)
    }

    /// Whether nothing vouches for the tags: they came from a log and have no checksum.
    pub(crate) fn has_unproven_tags(&self) -> bool {
        let tags = self.add.tags.as_ref();
        self.tags.kind != FileKind::Foreign
            && tags.is_some_and(|tags| tags.contains_key(TAG) && !tags.contains_key(TAG_CRC))
    }
}

/// A tensor of the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct TensorState {
    pub header: Arc<HeaderRow>,
    /// The files that hold rows of it, header included, oldest first.
    pub files: Vec<Arc<FileEntry>>,
    /// See `content_key`; reset with every change.
    pub(in crate::log) key: OnceLock<String>,
}

impl TensorState {
    pub(crate) fn new(header: Arc<HeaderRow>, files: Vec<Arc<FileEntry>>) -> TensorState {
        TensorState { header, files, key: OnceLock::new() }
    }

    pub(crate) fn stored_bytes(&self, name: &str) -> u64 {
        self.files.iter().filter_map(|f| f.held(name)).map(|h| h.bytes).sum()
    }
}

/// The table at one version. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub version: u64,
    pub deletion_vectors: bool,
    /// The table's `protocol` action, as it is.
    protocol: Json,
    /// The table's `metaData` action, as it is.
    pub metadata: Json,
    /// What a writer would have to know that Lacus does not, if anything.
    pub unknown_to_writers: Option<String>,
    pub files: BTreeMap<String, Arc<FileEntry>>,
    tensors: BTreeMap<String, TensorState>,
    /// What other writers keep in the log; none if it is not known.
    foreign: Foreign,
}

/// Features of a table that reading follows. Of the second, only reading: Lacus writes no such checkpoints.
const READABLE: [&str; 2] = ["deletionVectors", "v2Checkpoint"];

impl Snapshot {
    /// The state a log says. Files without tags come back for the caller to scan.
    pub(crate) fn new(state: LogState) -> Result<(Snapshot, Vec<Add>), TableError> {
        let mut snapshot = Snapshot {
            version: state.version,
            deletion_vectors: false,
            protocol: Json::Null,
            metadata: Json::Null,
            unknown_to_writers: None,
            files: BTreeMap::new(),
            tensors: BTreeMap::new(),
            foreign: state.foreign,
        };
        snapshot.set_protocol(&state.protocol)?;
        snapshot.set_metadata(&state.metadata)?;
        let mut adds = state.adds;
        adds.sort_by(|a, b| (a.modification_time, &a.path).cmp(&(b.modification_time, &b.path)));
        let mut untagged = Vec::new();
        for add in adds {
            untagged.extend(snapshot.add(add)?);
        }
        Ok((snapshot, untagged))
    }

    /// The same table with other files, whose tensors have the headers they have here.
    pub(crate) fn with_files(&self, entries: Vec<FileEntry>) -> Snapshot {
        let mut other = Snapshot { files: BTreeMap::new(), tensors: BTreeMap::new(), ..self.clone() };
        entries.into_iter().for_each(|entry| other.insert(entry));
        for (name, state) in &mut other.tensors {
            if let Some(here) = self.tensors.get(name) {
                state.header = Arc::clone(&here.header);
            }
        }
        other
    }

    fn set_protocol(&mut self, protocol: &Json) -> Result<(), TableError> {
        let features = |key: &str| -> Vec<String> {
            let listed = protocol[key].as_array().cloned().unwrap_or_default();
            listed.iter().filter_map(|f| f.as_str().map(str::to_owned)).collect()
        };
        let reader = protocol["minReaderVersion"].as_i64().unwrap_or(1);
        let unknown: Vec<String> =
            features("readerFeatures").into_iter().filter(|f| !READABLE.contains(&f.as_str())).collect();
        if !unknown.is_empty() || (reader == 2) || reader > 3 {
            let what = format!("reader version {reader} with features {unknown:?}");
            return Err(TableError::NewerFormat { what });
        }
        let writer = protocol["minWriterVersion"].as_i64().unwrap_or(2);
        let needed = features("writerFeatures");
        self.deletion_vectors = needed.iter().any(|f| f == "deletionVectors");
        let known = ["deletionVectors", "appendOnly", "invariants"];
        let unknown: Vec<&String> = needed.iter().filter(|f| !known.contains(&f.as_str())).collect();
        let is_known = writer <= 2 || (writer == 7 && unknown.is_empty());
        self.unknown_to_writers =
            (!is_known).then(|| format!("writer version {writer} with features {unknown:?}"));
        self.protocol = protocol.clone();
        Ok(())
    }

    fn set_metadata(&mut self, metadata: &Json) -> Result<(), TableError> {
        let format = metadata["configuration"][FORMAT_PROPERTY].as_str();
        match format.and_then(|f| f.parse::<u32>().ok()) {
            None => {
                return Err(TableError::NotADataset {
                    url: String::new(),
                    found: "a Delta table that Lacus did not make",
                });
            }
            Some(format) if format > FORMAT => {
                let what = format!("it has table format {format}, this Lacus knows {FORMAT}");
                return Err(TableError::NewerFormat { what });
            }
            Some(_) => {}
        }
        self.metadata = metadata.clone();
        Ok(())
    }

    /// Adds a file, or gives it back when it carries no tags.
    fn add(&mut self, add: Add) -> Result<Option<Add>, TableError> {
        let tag = |name: &str| add.tags.as_ref().and_then(|t| t.get(name)).and_then(|t| t.as_deref());
        let text = tag(TAG);
        if let (Some(text), Some(crc)) = (text, tag(TAG_CRC))
            && crc != tag_crc(text)
        {
            let what = "what the log says of this file (its tag \"lacus\") does not have its checksum";
            return Err(TableError::corrupt(&add.path, what));
        }
        let deleted = add.deletion_vector.as_ref().map_or(0, |dv| u64::try_from(dv.cardinality).unwrap_or(0));
        let tags = text.and_then(|t| serde_json::from_str::<FileTags>(t).ok());
        let rows = row_count(add.stats.as_deref());
        match tags.filter(|tags| tags.deleted == deleted && tags.are_sane(rows)) {
            Some(tags) => {
                self.insert(FileEntry { add, tags });
                Ok(None)
            }
            None => Ok(Some(add)),
        }
    }

    /// Adds a file whose tags are known.
    pub(crate) fn insert(&mut self, entry: FileEntry) {
        self.remove(&entry.add.path);
        let entry = Arc::new(entry);
        for held in &entry.tags.tensors {
            let state = self
                .tensors
                .entry(held.name.clone())
                .or_insert_with(|| TensorState::new(Arc::new(missing_header()), Vec::new()));
            state.key = OnceLock::new();
            if let Some(header) = &held.header {
                state.header = Arc::new(header.clone());
            }
            state.files.push(Arc::clone(&entry));
        }
        self.files.insert(entry.add.path.clone(), entry);
    }

    fn remove(&mut self, path: &str) {
        let Some(entry) = self.files.remove(path) else { return };
        for held in &entry.tags.tensors {
            let Some(state) = self.tensors.get_mut(&held.name) else { continue };
            state.key = OnceLock::new();
            state.files.retain(|f| f.add.path != path);
            if held.header.is_some() {
                state.header = Arc::new(missing_header());
            }
            if state.files.is_empty() {
                self.tensors.remove(&held.name);
            }
        }
    }

    /// The state after one more log entry. Files without tags come back for the caller to scan.
    pub(crate) fn apply(&mut self, version: u64, actions: &[Action]) -> Result<Vec<Add>, TableError> {
        for action in actions {
            match action {
                Action::Remove(remove) => self.remove(&remove.path),
                Action::Protocol(protocol) => self.set_protocol(protocol)?,
                Action::Metadata(metadata) => self.set_metadata(metadata)?,
                // Who knows what it was, and whether a log checkpoint would have to have it.
                other => self.foreign.note(other),
            }
        }
        let mut untagged = Vec::new();
        for action in actions {
            if let Action::Add(add) = action {
                untagged.extend(self.add(add.clone())?);
            }
        }
        self.version = version;
        Ok(untagged)
    }

    /// Holds these files and no others.
    pub(crate) fn replace_files(&mut self, files: &[FileEntry]) {
        self.files.clear();
        self.tensors.clear();
        files.iter().for_each(|file| self.insert(file.clone()));
    }

    /// What a log has to say to lead here: files sorted by path.
    pub(crate) fn log_state(&self) -> LogState {
        LogState {
            version: self.version,
            protocol: self.protocol.clone(),
            metadata: self.metadata.clone(),
            adds: self.files.values().map(|file| file.add.clone()).collect(),
            foreign: self.foreign.clone(),
        }
    }

    /// The tensors, by name.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&String, &TensorState)> {
        self.tensors.iter().filter(|(_, state)| !state.header.dtype.is_empty())
    }

    /// One tensor.
    pub(crate) fn tensor(&self, name: &str) -> Option<&TensorState> {
        self.tensors.get(name).filter(|state| !state.header.dtype.is_empty())
    }

    /// What is held under a name, the dataset's own row included.
    pub(crate) fn state(&self, name: &str) -> Option<&TensorState> {
        self.tensors.get(name)
    }

    /// The row that carries the dataset's own metadata.
    pub(crate) fn dataset_row(&self) -> Option<&HeaderRow> {
        self.tensors.get(DATASET_ROW).map(|state| state.header.as_ref())
    }

    /// Gives a tensor a header that is in none of its files.
    pub(crate) fn set_header(&mut self, name: &str, header: &Arc<HeaderRow>) {
        if let Some(state) = self.tensors.get_mut(name) {
            state.key = OnceLock::new();
            state.header = Arc::clone(header);
        }
    }

    /// Names close to one that was not found, for error messages.
    pub(crate) fn close_to(&self, name: &str) -> Vec<String> {
        let wanted = name.to_lowercase();
        let mut close: Vec<(usize, &String)> = self
            .tensors()
            .filter(|(n, _)| !is_hidden(n))
            .map(|(n, _)| (edit_distance(&wanted, &n.to_lowercase()), n))
            .filter(|(distance, n)| *distance <= 2.max(n.len() / 3))
            .collect();
        close.sort();
        close.into_iter().take(3).map(|(_, n)| format!("{n:?}")).collect()
    }
}

/// How many rows a file has, by its statistics; any number if they do not say.
fn row_count(stats: Option<&str>) -> u64 {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Counted {
        num_records: u64,
    }
    let counted = stats.and_then(|stats| serde_json::from_str::<Counted>(stats).ok());
    counted.map_or(i64::MAX as u64, |counted| counted.num_records)
}

/// Stands in while a tensor's rows are known but its header row is not.
fn missing_header() -> HeaderRow {
    HeaderRow {
        row: 0,
        dtype: String::new(),
        shape: Vec::new(),
        layout: String::new(),
        htype: None,
        chunk_shape: None,
        parameters: String::new(),
        metadata: None,
    }
}

/// How many characters have to be changed, added or left out to make one name of another.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut previous = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = previous + usize::from(x != *y);
            previous = row[j + 1];
            row[j + 1] = substituted.min(previous + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The tags of an `add` action.
pub(crate) fn render_tags(tags: &FileTags) -> BTreeMap<String, Option<String>> {
    let text = serde_json::to_string(tags).unwrap_or_default();
    let crc = tag_crc(&text);
    BTreeMap::from([(TAG.to_owned(), Some(text)), (TAG_CRC.to_owned(), Some(crc))])
}

fn tag_crc(text: &str) -> String {
    format!("{:08x}", crc32c(text.as_bytes()))
}
