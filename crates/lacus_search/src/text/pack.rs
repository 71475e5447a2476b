//! The bytes of a segment: what is in it, then the files of tantivy.
//!
//! ```text
//! "LACUSTX1" │ length of the header, 8 bytes │ header, JSON │ files, one after the other
//! ```
//!
//! The header is the truth about a segment: which rows it covers and how texts were cut into words. Of tantivy's own list of segments
//! (`meta.json`) each pack has one, which says only what the files of this segment are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a pack begins with.
const MAGIC: &[u8; 8] = b"LACUSTX1";

/// Bytes in front of the header.
const START: usize = 16;

/// The bytes of a header that is believed. Rows that are scattered over many places take some dozens each.
const LONGEST_HEADER: u64 = 1 << 30;

/// Samples that lie one after the other in a file and have consecutive ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Span {
    /// The number of the file in [`Header::files_of_rows`].
    pub file: u32,
    /// The place of the first in its file.
    pub row: u64,
    /// Its id.
    pub id: u64,
    /// How many there are.
    pub count: u64,
}

/// What a segment is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// How texts became words.
    pub tokenizer: String,
    /// Names of data files, which are never used again for other data: a sample that still lies where it lay is the same.
    pub files_of_rows: Vec<String>,
    /// The rows: document 0 of the segment is the first of the first span, and so on.
    pub spans: Vec<Span>,
    /// How many words there are in all texts.
    pub words: u64,
    /// Where tantivy's files are, counted from the end of the header: begin and end.
    pub files: BTreeMap<String, (u64, u64)>,
}

impl Header {
    /// How many rows the segment has.
    pub(crate) fn rows(&self) -> u64 {
        self.spans.iter().map(|span| span.count).sum()
    }

    /// Whether spans and files are possible in a pack of so many bytes.
    fn is_sane(&self, body_bytes: u64) -> bool {
        let is_inside = |span: &Span| {
            (span.file as usize) < self.files_of_rows.len()
                && span.row.checked_add(span.count).is_some()
                && span.id.checked_add(span.count).is_some_and(|end| end < i64::MAX as u64)
        };
        let rows = self.spans.iter().try_fold(0u64, |rows, span| rows.checked_add(span.count));
        rows.is_some_and(|rows| rows < i32::MAX as u64)
            && self.spans.iter().all(is_inside)
            && self.files.values().all(|(begin, end)| begin <= end && *end <= body_bytes)
    }
}

/// A pack of files.
pub(crate) fn pack(mut header: Header, files: Vec<(String, Vec<u8>)>) -> Vec<u8> {
    let mut end = 0;
    for (name, bytes) in &files {
        let begin = end;
        end += bytes.len() as u64;
        header.files.insert(name.clone(), (begin, end));
    }
    // A header is plain data, which can always be written.
    let text = serde_json::to_vec(&header).unwrap_or_default();
    let mut packed = Vec::with_capacity(START + text.len() + end as usize);
    packed.extend_from_slice(MAGIC);
    packed.extend_from_slice(&(text.len() as u64).to_le_bytes());
    packed.extend_from_slice(&text);
    files.iter().for_each(|(_, bytes)| packed.extend_from_slice(bytes));
    packed
}

/// What the first bytes of a pack say.
pub(crate) enum Begun {
    /// All of its header, and where the files begin.
    Whole(Header, u64),
    /// So many bytes are needed.
    Needs(u64),
    /// It is no pack.
    Wrong(String),
}

/// Reads the header of a pack of `length` bytes from its first bytes.
pub(crate) fn begin(first: &[u8], length: u64) -> Begun {
    let wrong = |why: &str| Begun::Wrong(why.to_owned());
    if first.len() < START {
        return match length < START as u64 {
            true => wrong("it is too short"),
            false => Begun::Needs(START as u64),
        };
    }
    let (magic, rest) = first.split_at(MAGIC.len());
    if magic != MAGIC {
        return wrong("it is not a segment of a text index, or one of a newer version");
    }
    let (count, rest) = rest.split_at(8);
    let count = u64::from_le_bytes(count.try_into().unwrap_or_default());
    let body = START as u64 + count;
    if count > LONGEST_HEADER || body > length {
        return wrong("its header is longer than it is");
    }
    let Some(text) = rest.get(..count as usize) else { return Begun::Needs(body) };
    match serde_json::from_slice::<Header>(text) {
        Ok(header) if header.is_sane(length - body) => Begun::Whole(header, body),
        Ok(_) => wrong("its header contradicts itself"),
        Err(error) => Begun::Wrong(format!("its header: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed() -> Vec<u8> {
        let span = Span { file: 0, row: 4, id: 7, count: 2 };
        let header = Header {
            tokenizer: "simple".into(),
            files_of_rows: vec!["f".into()],
            spans: vec![span],
            words: 3,
            files: BTreeMap::new(),
        };
        pack(header, vec![("a.term".into(), b"abc".to_vec()), ("meta.json".into(), b"{}".to_vec())])
    }

    #[test]
    fn packs_are_read_again() {
        let bytes = packed();
        let length = bytes.len() as u64;
        let Begun::Needs(16) = begin(&bytes[..5], length) else { panic!() };
        let Begun::Needs(body) = begin(&bytes[..20], length) else { panic!() };
        let Begun::Whole(header, begins) = begin(&bytes[..body as usize], length) else { panic!() };
        assert_eq!((begins, header.rows()), (body, 2));
        let (from, to) = header.files["meta.json"];
        assert_eq!(&bytes[(body + from) as usize..(body + to) as usize], b"{}");
    }

    #[test]
    fn anything_else_is_refused() {
        let bytes = packed();
        let length = bytes.len() as u64;
        let is_wrong = |bytes: &[u8], length: u64| matches!(begin(bytes, length), Begun::Wrong(_));
        assert!(is_wrong(b"", 3));
        assert!(is_wrong(&[0; 64], 64));
        assert!(is_wrong(&bytes, length - 1));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x40;
            // Whatever comes of it, it is no panic.
            let _ = begin(&other, length);
        }
    }
}
