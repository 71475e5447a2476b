//! Segments in the dataset: arrays of bytes under hidden names, which are found, read and kept in memory.

use std::ops::Range;
use std::sync::Arc;

use lacus_dataset::DatasetError;
use lacus_io::{blocking, boxed};
use lacus_table::{Put, Read, Table, TableError, Value, Wish, WriteOptions};
use lacus_tensor::{DType, Index, Shape, TensorRef};
use tokio::sync::Mutex;

use crate::INDEX_PREFIX;
use crate::text::blocks::{BLOCK_BYTES, Blocks};
use crate::text::bm25::Part;
use crate::text::pack::{Begun, Header, begin};
use crate::text::segment::{Segment, Unread, blocks_of};
use crate::text::wanted::Wanted;

/// What stands between the name of a column and that of a segment.
const KIND: &str = "/text/";

/// How often a search that misses bytes is tried again. It takes three or four: the ends of files, the dictionary, the lists.
const MOST_ROUNDS: usize = 32;

/// The columns that have segments, and the names of these.
pub(crate) fn segment_names(table: &Table) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for name in table.hidden_names() {
        // A column may be called `a/text/b`: the last part counts.
        let Some((column, _)) = name.strip_prefix(INDEX_PREFIX).and_then(|rest| rest.rsplit_once(KIND))
        else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| known == column) {
            Some((_, names)) => names.push(name),
            None => found.push((column.to_owned(), vec![name])),
        }
    }
    found
}

/// The segments of a column, oldest first.
pub(crate) fn segments_of(table: &Table, column: &str) -> Vec<String> {
    let all = segment_names(table).into_iter();
    all.filter(|(known, _)| known == column).flat_map(|(_, names)| names).collect()
}

/// Writes segments as one version. Their names are new, and sort in the order in which they were made.
#[boxed]
pub(crate) async fn write_segments(
    table: &mut Table,
    column: &str,
    packs: &[Vec<u8>],
    options: &WriteOptions,
) -> Result<(), TableError> {
    let millis = table.world().now_millis().max(0);
    let shapes: Vec<Shape> =
        packs.iter().map(|pack| Shape::new(vec![pack.len() as u64])).collect::<Result<_, _>>()?;
    let mut puts = Vec::with_capacity(packs.len());
    for (at, (pack, shape)) in packs.iter().zip(&shapes).enumerate() {
        let chance = table.world().uuid().as_u64_pair().0 >> 32;
        let name = format!("{INDEX_PREFIX}{column}{KIND}{millis:012x}{at:04x}{chance:08x}");
        let value = Value::Dense(TensorRef::contiguous(DType::U8, shape, pack)?);
        let wish = Wish { chunk_shape: Some(vec![BLOCK_BYTES]), ..Wish::default() };
        puts.push(Put { name, value, wish, metadata: None });
    }
    table.put_hidden(puts, options).await?;
    Ok(())
}

/// A segment of the dataset, as far as it was read.
#[derive(Debug)]
pub(crate) struct Stored {
    name: String,
    pub header: Header,
    pub bytes: u64,
    blocks: Arc<Blocks>,
    /// Whoever opens it lets others wait: what is missing is fetched once.
    opened: Mutex<Option<Arc<Segment>>>,
}

/// Reads bytes of a segment.
async fn read(table: &Table, name: &str, range: Range<u64>) -> Result<Vec<u8>, TableError> {
    let slice = Index::Slice { start: Some(range.start as i64), stop: Some(range.end as i64), step: None };
    match table.read(name, &[slice]).await? {
        Read::Dense(tensor)
            if tensor.dtype() == DType::U8 && tensor.bytes().len() as u64 == range.end - range.start =>
        {
            Ok(tensor.bytes().to_vec())
        }
        _ => Err(damaged(name, "it is not an array of bytes")),
    }
}

fn damaged(name: &str, what: impl Into<String>) -> TableError {
    TableError::Corrupt { path: name.to_owned(), what: what.into() }
}

/// The segment of a name. Names are never used again, so one that is known stays what it is.
#[boxed]
pub(crate) async fn open(table: &Table, name: &str) -> Result<Arc<Stored>, TableError> {
    let key = format!("text segment {name}");
    if let Some(known) = table.store().place().get::<Stored>(&key) {
        return Ok(known);
    }
    let length = table.tensor(name)?.header.shape.dims().iter().product::<u64>();
    let mut first = Vec::new();
    let mut wanted = BLOCK_BYTES.min(length);
    let (header, body) = loop {
        first.extend(read(table, name, first.len() as u64..wanted).await?);
        match begin(&first, length) {
            Begun::Whole(header, body) => break (header, body),
            Begun::Needs(more) if more > wanted => wanted = more,
            Begun::Needs(_) => return Err(damaged(name, "its header cannot be read")),
            Begun::Wrong(why) => return Err(damaged(name, why)),
        }
    };
    let blocks = Arc::new(blocks_of(&header, body, length));
    // What was read of it need not be read again, but for a block that is not whole.
    let whole = if wanted == length { length } else { wanted / BLOCK_BYTES * BLOCK_BYTES };
    blocks.keep(&(0..whole), &first[..whole as usize]);
    let stored =
        Arc::new(Stored { name: name.to_owned(), header, bytes: length, blocks, opened: Mutex::default() });
    table.store().place().put(key, Arc::clone(&stored), stored.memory_bytes());
    Ok(stored)
}

impl Stored {
    fn memory_bytes(&self) -> u64 {
        let spans = self.header.spans.len() * 32 + self.header.files_of_rows.len() * 80;
        // Lengths of texts are kept, too.
        self.blocks.kept_bytes() + spans as u64 + self.header.rows() * 4 + 1024
    }
}

/// Counts in the documents of some ranges of a segment.
#[boxed]
pub(crate) async fn count(
    stored: &Arc<Stored>,
    table: &Table,
    wanted: &Wanted,
    live: &[Range<u32>],
) -> Result<Part, DatasetError> {
    let mut opened = stored.opened.lock().await;
    for _ in 0..MOST_ROUNDS {
        let found = blocking(|| {
            let segment = match &*opened {
                Some(segment) => Arc::clone(segment),
                None => Arc::new(Segment::open(&stored.blocks, &stored.header)?),
            };
            let part = segment.count(&stored.blocks, wanted, live);
            *opened = Some(segment);
            part
        });
        match found {
            Ok(part) => {
                let key = format!("text segment {}", stored.name);
                table.store().place().put(key, Arc::clone(stored), stored.memory_bytes());
                return Ok(part);
            }
            Err(Unread::Damaged(why)) => return Err(damaged(&stored.name, why).into()),
            Err(Unread::Missing) => {
                for range in stored.blocks.take_missing() {
                    let bytes = read(table, &stored.name, range.clone()).await?;
                    stored.blocks.keep(&range, &bytes);
                }
            }
        }
    }
    Err(damaged(&stored.name, "it asks for ever more of its bytes").into())
}
