//! Segments of tantivy: made of texts, and asked where words are.
//!
//! Only the inverted lists are tantivy's. Scores are our own (see [`super::bm25`]): tantivy rounds lengths to a byte, and counts rows
//! that were deleted since. So a segment has the exact number of words of each text as a fast field, no norms and no stored
//! documents.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use tantivy::directory::{Directory, RamDirectory};
use tantivy::index::SegmentReader;
use tantivy::indexer::SingleSegmentIndexWriter;
use tantivy::postings::Postings;
use tantivy::schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{DocSet, Index, IndexBuilder, IndexSettings, TERMINATED, TantivyDocument, Term};

use crate::text::blocks::{Blocks, PackDirectory};
use crate::text::bm25::Part;
use crate::text::pack::{Header, Span, pack};
use crate::text::wanted::{Wanted, phrase_count};

/// The field of words.
const WORDS: &str = "words";

/// The field of lengths.
const LENGTH: &str = "length";

/// tantivy's list of segments.
const META: &str = "meta.json";

/// What tantivy is told it may use. It takes what it needs: segments are cut by the bytes of texts.
const WRITER_BYTES: usize = 64 << 20;

fn schema() -> (Schema, Field, Field) {
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let words = schema.add_text_field(WORDS, TextOptions::default().set_indexing_options(indexing));
    let length = schema.add_u64_field(LENGTH, FAST);
    (schema.build(), words, length)
}

/// A segment that is being made.
pub(crate) struct Writer {
    directory: RamDirectory,
    writer: SingleSegmentIndexWriter<TantivyDocument>,
    words: Field,
    length: Field,
    rows: u64,
    word_count: u64,
}

impl Writer {
    pub(crate) fn new() -> tantivy::Result<Writer> {
        let (schema, words, length) = schema();
        let directory = RamDirectory::create();
        // No thread of tantivy's own.
        let settings = IndexSettings { docstore_compress_dedicated_thread: false, ..Default::default() };
        let builder = IndexBuilder::new().schema(schema).settings(settings);
        let writer = builder.single_segment_index_writer(directory.clone(), WRITER_BYTES)?;
        Ok(Writer { directory, writer, words, length, rows: 0, word_count: 0 })
    }

    /// Adds the words of a row, with their places.
    pub(crate) fn add(&mut self, words: Vec<(String, u32)>) -> tantivy::Result<()> {
        let mut document = TantivyDocument::new();
        document.add_u64(self.length, words.len() as u64);
        self.rows += 1;
        self.word_count += words.len() as u64;
        let token = |(text, place): (String, u32)| Token {
            offset_from: 0,
            offset_to: 0,
            position: place as usize,
            text,
            position_length: 1,
        };
        let tokens = words.into_iter().map(token).collect();
        document.add_pre_tokenized_text(self.words, PreTokenizedString { text: String::new(), tokens });
        self.writer.add_document(document)
    }

    /// The pack of all rows, which lie where `spans` says, in files with these names.
    pub(crate) fn finish(
        self,
        tokenizer: &str,
        files_of_rows: Vec<String>,
        spans: Vec<Span>,
    ) -> tantivy::Result<Vec<u8>> {
        let Writer { directory, writer, word_count, .. } = self;
        let index = writer.finalize()?;
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for path in index.directory().list_managed_files() {
            let name = path.to_string_lossy().into_owned();
            // Documents are stored nowhere, and the file for them says so at length.
            if name.ends_with(".store") || name == META || !directory.exists(&path)? {
                continue;
            }
            files.push((name, directory.open_read(&path)?.read_bytes()?.to_vec()));
        }
        files.push((META.to_owned(), directory.atomic_read(&PathBuf::from(META))?));
        // What every search reads lies together.
        files.sort_by_key(|(name, bytes)| (bytes.len(), name.clone()));
        let header = Header {
            tokenizer: tokenizer.to_owned(),
            files_of_rows,
            spans,
            words: word_count,
            files: Default::default(),
        };
        Ok(pack(header, files))
    }
}

/// Why a segment did not answer.
#[derive(Debug)]
pub(crate) enum Unread {
    /// Bytes are missing: fetch what [`Blocks::take_missing`] says, and ask again.
    Missing,
    /// It is damaged.
    Damaged(String),
}

/// A segment that is open.
pub(crate) struct Segment {
    reader: SegmentReader,
    words: Field,
    /// By document.
    pub lengths: Arc<Vec<u32>>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("documents", &self.lengths.len()).finish_non_exhaustive()
    }
}

/// The blocks of a pack of `length` bytes whose files begin at `body`.
pub(crate) fn blocks_of(header: &Header, body: u64, length: u64) -> Blocks {
    let place = |(begin, end): &(u64, u64)| body + begin..body + end;
    let mut files: HashMap<PathBuf, std::ops::Range<u64>> =
        header.files.iter().map(|(name, range)| (PathBuf::from(name), place(range))).collect();
    // tantivy opens the file of stored documents and looks at its end, but never reads documents: any whole file will do.
    let norms = header.files.iter().find(|(name, _)| name.ends_with(".fieldnorm"));
    if let Some((name, range)) = norms {
        files.insert(PathBuf::from(name).with_extension("store"), place(range));
    }
    Blocks::new(length, files)
}

/// Runs a part of a search. tantivy trusts its files: bytes that have the right checksum and are wrong all the same may make it panic.
fn guarded<T>(blocks: &Blocks, work: impl FnOnce() -> tantivy::Result<T>) -> Result<T, Unread> {
    let missing = |why: String| match blocks.is_missing() {
        true => Unread::Missing,
        false => Unread::Damaged(why),
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(missing(error.to_string())),
        Err(_) => Err(missing("it cannot be read".to_owned())),
    }
}

impl Segment {
    pub(crate) fn open(blocks: &Arc<Blocks>, header: &Header) -> Result<Segment, Unread> {
        let opened = guarded(blocks, || {
            let index = Index::open(PackDirectory(Arc::clone(blocks)))?;
            let words = index.schema().get_field(WORDS)?;
            let mut lengths = Vec::new();
            let mut reader = None;
            for segment in index.searchable_segments()? {
                let opened = SegmentReader::open(&segment)?;
                let column = opened.fast_fields().u64(LENGTH)?;
                lengths = (0..opened.max_doc()).map(|at| column.first(at).unwrap_or(0) as u32).collect();
                reader = Some(opened);
            }
            Ok((reader, words, lengths))
        })?;
        match opened {
            (Some(reader), words, lengths) if lengths.len() as u64 == header.rows() => {
                Ok(Segment { reader, words, lengths: Arc::new(lengths) })
            }
            _ => Err(Unread::Damaged("it has other rows than its header says".to_owned())),
        }
    }

    /// What is counted in the documents of some ranges, which ascend and lie apart. Slots are documents.
    pub(crate) fn count(
        &self,
        blocks: &Blocks,
        wanted: &Wanted,
        live: &[std::ops::Range<u32>],
    ) -> Result<Part, Unread> {
        let mut part = Part::empty(wanted);
        part.rows = live.iter().map(|range| u64::from(range.end - range.start)).sum();
        let lengths_of =
            |range: &std::ops::Range<u32>| &self.lengths[range.start as usize..range.end as usize];
        part.words = live.iter().flat_map(lengths_of).map(|length| u64::from(*length)).sum();
        part.lengths = Arc::clone(&self.lengths);
        let is_live = Live::new(live, self.lengths.len());
        // All words are asked for before the first answer counts: one round of fetching gets them all.
        let mut lists: Vec<Option<Listed>> = Vec::with_capacity(wanted.words.len());
        let mut is_missing = false;
        let with_places = wanted.has_phrases();
        for word in &wanted.words {
            match guarded(blocks, || self.list(word, with_places, &is_live)) {
                Ok(list) => lists.push(list),
                Err(Unread::Missing) => is_missing = true,
                Err(damaged) => return Err(damaged),
            }
        }
        if is_missing {
            return Err(Unread::Missing);
        }
        for (word, list) in lists.iter().enumerate() {
            part.rows_with[word] = list.as_ref().map_or(0, |list| list.hits.len() as u64);
        }
        for (at, (clause, _)) in wanted.clauses.iter().enumerate() {
            let each: Option<Vec<(&Listed, u32)>> =
                clause.words.iter().map(|(word, offset)| Some((lists[*word].as_ref()?, *offset))).collect();
            part.hits[at] = match each.as_deref() {
                None => Vec::new(),
                Some([(list, _)]) => list.hits.clone(),
                Some(each) => phrases(each),
            };
        }
        Ok(part)
    }

    fn list(&self, word: &str, with_places: bool, live: &Live) -> tantivy::Result<Option<Listed>> {
        let option = match with_places {
            true => IndexRecordOption::WithFreqsAndPositions,
            false => IndexRecordOption::WithFreqs,
        };
        let inverted = self.reader.inverted_index(self.words)?;
        let Some(mut postings) = inverted.read_postings(&Term::from_field_text(self.words, word), option)?
        else {
            return Ok(None);
        };
        let mut list = Listed::default();
        let mut places = Vec::new();
        let mut document = postings.doc();
        while document != TERMINATED {
            if live.has(document) {
                list.hits.push((document, postings.term_freq()));
                if with_places {
                    postings.positions(&mut places);
                    list.ends.push(list.places.len() + places.len());
                    list.places.extend_from_slice(&places);
                }
            }
            document = postings.advance();
        }
        Ok(Some(list))
    }
}

/// Where a word is.
#[derive(Default)]
struct Listed {
    /// Documents, and how often they have it.
    hits: Vec<(u32, u32)>,
    /// Its places in all of them, one after the other, and where those of each end.
    places: Vec<u32>,
    ends: Vec<usize>,
}

impl Listed {
    fn places_in(&self, document: u32) -> Option<&[u32]> {
        let at = self.hits.binary_search_by_key(&document, |(document, _)| *document).ok()?;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.places.get(begin..self.ends[at])
    }
}

/// Documents that have words one after the other.
fn phrases(each: &[(&Listed, u32)]) -> Vec<(u32, u32)> {
    let Some(rarest) = each.iter().min_by_key(|(list, _)| list.hits.len()) else { return Vec::new() };
    let mut found = Vec::new();
    for (document, _) in &rarest.0.hits {
        let places: Option<Vec<(&[u32], u32)>> =
            each.iter().map(|(list, offset)| Some((list.places_in(*document)?, *offset))).collect();
        let count = places.map_or(0, |places| phrase_count(&places));
        if count > 0 {
            found.push((*document, count));
        }
    }
    found
}

/// Which documents count.
enum Live {
    All,
    Some(Vec<u64>),
}

impl Live {
    fn new(ranges: &[std::ops::Range<u32>], documents: usize) -> Live {
        if let [only] = ranges
            && only.start == 0
            && only.end as usize == documents
        {
            return Live::All;
        }
        let mut bits = vec![0u64; documents.div_ceil(64)];
        for document in ranges.iter().cloned().flatten() {
            bits[document as usize / 64] |= 1 << (document % 64);
        }
        Live::Some(bits)
    }

    fn has(&self, document: u32) -> bool {
        match self {
            Live::All => true,
            Live::Some(bits) => {
                bits.get(document as usize / 64).is_some_and(|bits| bits >> (document % 64) & 1 == 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::look::look;
    use crate::text::pack::{Begun, begin};
    use crate::text::words::Tokenizer;

    /// A segment of texts, all fetched.
    fn made(texts: &[&str]) -> (Vec<u8>, Header, Arc<Blocks>) {
        let mut tokenizer = Tokenizer::named("simple").unwrap();
        let mut writer = Writer::new().unwrap();
        texts.iter().for_each(|text| writer.add(tokenizer.words(text)).unwrap());
        let span = Span { file: 0, row: 0, id: 0, count: texts.len() as u64 };
        let bytes = writer.finish("simple", vec!["f".into()], vec![span]).unwrap();
        let Begun::Whole(header, body) = begin(&bytes, bytes.len() as u64) else { panic!() };
        let blocks = Arc::new(blocks_of(&header, body, bytes.len() as u64));
        (bytes, header, blocks)
    }

    fn opened(bytes: &[u8], header: &Header, blocks: &Arc<Blocks>) -> Segment {
        loop {
            match Segment::open(blocks, header) {
                Ok(segment) => return segment,
                Err(Unread::Missing) => fetch(bytes, blocks),
                Err(Unread::Damaged(why)) => panic!("{why}"),
            }
        }
    }

    fn fetch(bytes: &[u8], blocks: &Blocks) {
        for range in blocks.take_missing() {
            blocks.keep(&range, &bytes[range.start as usize..range.end as usize]);
        }
    }

    #[test]
    fn a_segment_counts_what_its_texts_have() {
        let texts = ["a black cat", "a dog", "", "black black cat cat", "the cat is black", "dog cat"];
        let (bytes, header, blocks) = made(&texts);
        assert!(!header.files.keys().any(|name| name.ends_with(".store")));
        let segment = opened(&bytes, &header, &blocks);
        assert_eq!(*segment.lengths, [3, 2, 0, 4, 4, 2]);
        let mut tokenizer = Tokenizer::named("simple").unwrap();
        for question in
            ["cat", "black cat", "\"black cat\"", "\"cat is black\" -dog", "fish", "+dog \"fish cat\""]
        {
            let wanted = Wanted::read(question, &mut tokenizer);
            for live in [vec![0..6], vec![1..3, 4..6], vec![]] {
                let part = loop {
                    match segment.count(&blocks, &wanted, &live) {
                        Ok(part) => break part,
                        Err(Unread::Missing) => fetch(&bytes, &blocks),
                        Err(Unread::Damaged(why)) => panic!("{why}"),
                    }
                };
                let some = live.iter().cloned().flatten();
                let some = some.map(|at| (u64::from(at), Some(texts[at as usize])));
                let looked = look(some, &wanted, &mut tokenizer);
                assert_eq!((part.rows, part.words), (looked.part.rows, looked.part.words), "{question}");
                assert_eq!(part.rows_with, looked.part.rows_with, "{question}");
                let by_row = |hits: &[Vec<(u32, u32)>]| -> Vec<Vec<(u32, u32)>> {
                    let id = |slot: u32| looked.ids[slot as usize] as u32;
                    hits.iter().map(|hits| hits.iter().map(|(slot, n)| (id(*slot), *n)).collect()).collect()
                };
                assert_eq!(part.hits, by_row(&looked.part.hits), "{question}");
            }
        }
    }

    #[test]
    fn what_is_no_segment_is_damage() {
        let (bytes, header, _) = made(&["a black cat", "a dog", "cat"]);
        let body = bytes.len() - header.files.values().map(|(_, end)| *end as usize).max().unwrap();
        let blocks = Arc::new(blocks_of(&header, body as u64, bytes.len() as u64));
        let mut zeros = bytes.clone();
        zeros[body..].fill(0);
        fetch(&zeros, &blocks);
        let found = loop {
            match Segment::open(&blocks, &header) {
                Err(Unread::Missing) => fetch(&zeros, &blocks),
                found => break found,
            }
        };
        assert!(matches!(found, Err(Unread::Damaged(_))), "{found:?}");
        // A header that promises other rows.
        let blocks = Arc::new(blocks_of(&header, body as u64, bytes.len() as u64));
        let other = Header { spans: vec![Span { file: 0, row: 0, id: 0, count: 2 }], ..header };
        let found = loop {
            match Segment::open(&blocks, &other) {
                Err(Unread::Missing) => fetch(&bytes, &blocks),
                found => break found,
            }
        };
        assert!(matches!(found, Err(Unread::Damaged(_))), "{found:?}");
    }
}
