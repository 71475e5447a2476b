//! Makes, renews and drops the index of a column of texts.
//!
//! ```text
//! rows that no segment covers ─read in windows→ texts ─tokenizer→ words ─tantivy→ a segment ─put→ one more array of the dataset
//! ```
//!
//! Each write adds a segment. Rows that are deleted or changed stay in theirs and count no more. Where many segments have come together,
//! or most of their rows count no more, one takes the place of all.

use lacus_dataset::{Dataset, DatasetError};
use lacus_io::{blocking, boxed};
use lacus_table::{TableError, Whereabouts, WriteOptions};

use crate::text::pack::Span;
use crate::text::search::{Index, index_of, known_tokenizer};
use crate::text::segment::Writer;
use crate::text::store::{segment_names, segments_of, write_segments};
use crate::text::texts::{Windows, check_column};
use crate::text::words::{DEFAULT_TOKENIZER, Tokenizer, tokenizer_names};

/// Bytes of texts in a segment, about. tantivy holds a segment that is being made in memory.
const SEGMENT_BYTES: usize = 128 << 20;

/// Segments of a column that an update leaves as they are. Each costs a look of its own.
const MOST_SEGMENTS: usize = 8;

/// Rows whose words are found on a thread at a time.
const ROWS_AT_ONCE: usize = 1024;

/// The index of a column, as it is at a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextIndex {
    /// The column.
    pub column: String,
    /// How texts become words.
    pub tokenizer: String,
    /// How many segments there are.
    pub segments: usize,
    /// How many rows have a text.
    pub rows: u64,
    /// How many of these the index covers.
    pub covered: u64,
    /// Bytes of the segments.
    pub bytes: u64,
    /// What is wrong with it, if something is.
    pub problem: Option<String>,
}

/// Makes the index of a column, in place of one that there is.
#[boxed]
pub async fn create_text_index(
    dataset: &mut Dataset,
    column: &str,
    tokenizer: Option<&str>,
    options: &WriteOptions,
) -> Result<TextIndex, DatasetError> {
    check_column(dataset, column, "create_index")?;
    let name = tokenizer.unwrap_or(DEFAULT_TOKENIZER);
    let tokenizer = Tokenizer::named(name).ok_or_else(|| {
        let why = format!("no tokenizer {name:?}; known: {}", tokenizer_names().join(", "));
        DatasetError::Refused { op: "create_index", why }
    })?;
    rebuilt(dataset, column, &tokenizer, options).await
}

/// Adds the rows that the index of a column does not cover.
#[boxed]
pub async fn update_text_index(
    dataset: &mut Dataset,
    column: &str,
    options: &WriteOptions,
) -> Result<TextIndex, DatasetError> {
    check_column(dataset, column, "update_index")?;
    let old = segments_of(dataset.table(), column);
    if old.is_empty() {
        let why = format!("column {column:?} has no text index; create it first");
        return Err(DatasetError::Refused { op: "update_index", why });
    }
    let index = index_of(dataset, column).await?;
    let tokenizer = known_tokenizer(&index.tokenizer)?;
    let covered: u64 = index.segments.iter().map(|(_, covered)| covered.rows()).sum();
    let all: u64 = index.segments.iter().map(|(stored, _)| stored.header.rows()).sum();
    let is_worn = old.len() >= MOST_SEGMENTS || covered < all / 2 || index.problem.is_some();
    if is_worn || index.segments.len() < old.len() {
        return rebuilt(dataset, column, &tokenizer, options).await;
    }
    let packs = packs(dataset, column, &index.rest, &tokenizer).await?;
    if !packs.is_empty() {
        write_segments(dataset.table_mut(), column, &packs, options).await?;
    }
    described(dataset, column).await
}

/// Drops the index of a column. Whether there was one.
#[boxed]
pub async fn drop_text_index(
    dataset: &mut Dataset,
    column: &str,
    options: &WriteOptions,
) -> Result<bool, DatasetError> {
    let old = segments_of(dataset.table(), column);
    if old.is_empty() {
        return Ok(false);
    }
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    dataset.table_mut().discard(&old, options).await?;
    Ok(true)
}

/// The text indexes of a dataset. Those of columns that are gone are not among them.
#[boxed]
pub async fn text_indexes(dataset: &Dataset) -> Result<Vec<TextIndex>, DatasetError> {
    let mut found = Vec::new();
    for (column, _) in segment_names(dataset.table()) {
        if dataset.table().is_column(&column) && check_column(dataset, &column, "index").is_ok() {
            found.push(described(dataset, &column).await?);
        }
    }
    Ok(found)
}

/// What is known of the index of a column; without one, that it covers no row.
#[boxed]
pub async fn text_index(dataset: &Dataset, column: &str) -> Result<TextIndex, DatasetError> {
    check_column(dataset, column, "text search")?;
    described(dataset, column).await
}

async fn described(dataset: &Dataset, column: &str) -> Result<TextIndex, DatasetError> {
    let Index { segments, tokenizer, rest, problem } = index_of(dataset, column).await?;
    let covered: u64 = segments.iter().map(|(_, covered)| covered.rows()).sum();
    Ok(TextIndex {
        column: column.to_owned(),
        tokenizer,
        segments: segments.len(),
        rows: covered + rest.iter().map(|sample| sample.count).sum::<u64>(),
        covered,
        bytes: segments.iter().map(|(stored, _)| stored.bytes).sum(),
        problem,
    })
}

/// New segments of all rows, instead of those that there are.
async fn rebuilt(
    dataset: &mut Dataset,
    column: &str,
    tokenizer: &Tokenizer,
    options: &WriteOptions,
) -> Result<TextIndex, DatasetError> {
    let old = segments_of(dataset.table(), column);
    let samples = dataset.table().whereabouts(column).await?;
    let mut packs = packs(dataset, column, &samples, tokenizer).await?;
    if packs.is_empty() {
        // A column without texts has an index all the same, which says how those that come are cut into words.
        let empty = blocking(|| Writer::new()?.finish(tokenizer.name(), Vec::new(), Vec::new()));
        packs.push(empty.map_err(|error| fault(&error))?);
    }
    write_segments(dataset.table_mut(), column, &packs, options).await?;
    if !old.is_empty() {
        let old: Vec<&str> = old.iter().map(String::as_str).collect();
        dataset.table_mut().discard(&old, options).await?;
    }
    described(dataset, column).await
}

fn fault(error: &tantivy::TantivyError) -> DatasetError {
    TableError::Fault { what: format!("a segment of a text index cannot be made: {error}") }.into()
}

/// Segments of some rows.
async fn packs(
    dataset: &Dataset,
    column: &str,
    samples: &[Whereabouts],
    tokenizer: &Tokenizer,
) -> Result<Vec<Vec<u8>>, DatasetError> {
    let pool = dataset.table().world().pool();
    let mut places = Places { samples, at: 0, used: 0 };
    let mut windows = Windows::new(dataset, column, samples);
    let mut packs = Vec::new();
    let mut open: Option<(Writer, Vec<String>, Vec<Span>, usize)> = None;
    while let Some(texts) = windows.next().await? {
        let made = blocking(|| -> tantivy::Result<()> {
            let (writer, files, spans, bytes) = match &mut open {
                Some(open) => open,
                None => open.insert((Writer::new()?, Vec::new(), Vec::new(), 0)),
            };
            let rows: Vec<(u64, Option<&str>)> = texts.iter().collect();
            let pieces: Vec<&[(u64, Option<&str>)]> = rows.chunks(ROWS_AT_ONCE).collect();
            let team = pool.team(pieces.len());
            let words = team.map_with(
                pieces,
                || tokenizer.clone(),
                |piece, tokenizer| -> Vec<Vec<(String, u32)>> {
                    piece.iter().map(|(_, text)| tokenizer.words(text.unwrap_or_default())).collect()
                },
            );
            *bytes += texts.texts.values().len();
            words.into_iter().flatten().try_for_each(|words| writer.add(words))?;
            places.take(rows.len() as u64, files, spans);
            if *bytes >= SEGMENT_BYTES
                && let Some((writer, files, spans, _)) = open.take()
            {
                packs.push(writer.finish(tokenizer.name(), files, spans)?);
            }
            Ok(())
        });
        made.map_err(|error| fault(&error))?;
    }
    if let Some((writer, files, spans, _)) = open {
        let pack = blocking(|| writer.finish(tokenizer.name(), files, spans));
        packs.push(pack.map_err(|error| fault(&error))?);
    }
    Ok(packs)
}

/// Where the rows lie that are read one after the other.
struct Places<'a> {
    samples: &'a [Whereabouts],
    at: usize,
    /// Rows of the current run that were taken.
    used: u64,
}

impl Places<'_> {
    fn take(&mut self, mut rows: u64, files: &mut Vec<String>, spans: &mut Vec<Span>) {
        while rows > 0
            && let Some(sample) = self.samples.get(self.at)
        {
            let count = (sample.count - self.used).min(rows);
            // Mostly the file of the run before.
            let file = match files.iter().rposition(|file| *file == sample.file) {
                Some(file) => file,
                None => {
                    files.push(sample.file.clone());
                    files.len() - 1
                }
            };
            let (row, id) = (sample.row + self.used, sample.id + self.used);
            match spans.last_mut() {
                Some(last)
                    if last.file as usize == file
                        && last.row + last.count == row
                        && last.id + last.count == id =>
                {
                    last.count += count;
                }
                _ => spans.push(Span { file: file as u32, row, id, count }),
            }
            self.used += count;
            rows -= count;
            if self.used == sample.count {
                (self.at, self.used) = (self.at + 1, 0);
            }
        }
    }
}
