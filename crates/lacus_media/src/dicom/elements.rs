//! The elements of a DICOM file, walked in place: a length is compared with the file before it is believed,
//! and nothing is copied. (The usual crate makes room for what a length says; one flipped bit asks it for
//! gigabytes.)
//!
//! ```text
//! 128 bytes │ DICM │ group 2: how the rest is coded │ tag, (type,) length, value │ … │ 7fe0,0010: pixels
//! ```
//!
//! Values of sequences are stepped over. A sequence may end where its length says, or at a delimiter.

use crate::error::Cause;
use crate::fields::{part, u16_be, u16_le, u32_be, u32_le};

/// Group and element number.
pub(super) type Tag = (u16, u16);

const PIXEL_DATA: Tag = (0x7fe0, 0x0010);
const TRANSFER_SYNTAX: Tag = (0x0002, 0x0010);
const ITEM: Tag = (0xfffe, 0xe000);
const ITEM_END: Tag = (0xfffe, 0xe00d);
const SEQUENCE_END: Tag = (0xfffe, 0xe0dd);
/// A length that a delimiter takes the place of.
const OPEN: u32 = u32::MAX;
/// Sequences inside of sequences: the standard's own have a handful of levels, and each is a call here.
const DEEPEST: u32 = 32;

const IMPLICIT: &str = "1.2.840.10008.1.2";
const BIG_ENDIAN: &str = "1.2.840.10008.1.2.2";
const DEFLATED: &str = "1.2.840.10008.1.2.1.99";

/// How elements are coded.
#[derive(Clone, Copy)]
struct Coding {
    /// Whether types are written, or known from the tag.
    has_types: bool,
    is_big_endian: bool,
}

/// Pixels as they are stored.
pub(super) enum Stored<'a> {
    /// Bytes, and whether they are to be taken for words of two: in big-endian files such are swapped even
    /// where a pixel has one byte.
    Plain {
        bytes: &'a [u8],
        is_words: bool,
    },
    Fragments(Vec<&'a [u8]>),
}

/// What the walk met on the outermost level, up to the pixels.
pub(super) struct Elements<'a> {
    bytes: &'a [u8],
    coding: Coding,
    pub(super) transfer_syntax: String,
    found: Vec<(Tag, &'a [u8])>,
    /// What comes before the pixels, and their place.
    pixels: Option<(Header, usize)>,
}

impl<'a> Elements<'a> {
    /// Walks up to the pixels. Of the elements before them, those that are `wanted` are kept.
    pub(super) fn read(bytes: &'a [u8], wanted: impl Fn(Tag) -> bool) -> Result<Elements<'a>, Cause> {
        // The preamble and the group that says how the rest is coded are always in this coding.
        let mut walk = Walk { bytes, at: 132, coding: Coding { has_types: true, is_big_endian: false } };
        let mut transfer_syntax = String::new();
        while u16_le(bytes, walk.at) == Some(2) {
            let Header { tag, length, .. } = walk.header()?;
            let value = walk.value(length)?;
            if tag == TRANSFER_SYNTAX {
                transfer_syntax = text(value);
            }
        }
        if transfer_syntax == DEFLATED {
            return Err(Cause::unsupported("a deflated data set"));
        }
        walk.coding =
            Coding { has_types: transfer_syntax != IMPLICIT, is_big_endian: transfer_syntax == BIG_ENDIAN };
        let (mut found, mut pixels) = (Vec::new(), None);
        while walk.at < bytes.len() {
            let header = walk.header()?;
            if header.tag == PIXEL_DATA {
                pixels = Some((header, walk.at));
                break;
            }
            if header.length == OPEN {
                walk.skip_sequence(&header, 0)?;
                continue;
            }
            let value = walk.value(header.length)?;
            if wanted(header.tag) {
                found.push((header.tag, value));
            }
        }
        Ok(Elements { bytes, coding: walk.coding, transfer_syntax, found, pixels })
    }

    pub(super) fn is_big_endian(&self) -> bool {
        self.coding.is_big_endian
    }

    fn value(&self, tag: Tag) -> Option<&'a [u8]> {
        self.found.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value)
    }

    /// A number of 16 bits.
    pub(super) fn short(&self, tag: Tag) -> Option<u16> {
        let value = self.value(tag)?;
        if self.coding.is_big_endian { u16_be(value, 0) } else { u16_le(value, 0) }
    }

    /// A text, without its padding. Of several values the first.
    pub(super) fn text(&self, tag: Tag) -> Option<String> {
        self.value(tag).map(text)
    }

    /// The pixels.
    pub(super) fn pixels(&self) -> Result<Stored<'a>, Cause> {
        let (header, at) = self.pixels.as_ref().ok_or_else(|| Cause::malformed("there are no pixels"))?;
        let mut walk = Walk { bytes: self.bytes, at: *at, coding: self.coding };
        if header.length != OPEN {
            let bytes = walk.value(header.length)?;
            return Ok(Stored::Plain { bytes, is_words: header.is_words });
        }
        let mut fragments = Vec::new();
        loop {
            match walk.header()? {
                Header { tag: ITEM, length, .. } if length != OPEN => fragments.push(walk.value(length)?),
                Header { tag: SEQUENCE_END, .. } => break,
                Header { tag, .. } => return Err(unexpected(tag, "the fragments of pixels")),
            }
        }
        // The first says where frames begin, which is not needed to go over all of them.
        if fragments.is_empty() {
            return Err(Cause::malformed("pixels without an offset table"));
        }
        fragments.remove(0);
        Ok(Stored::Fragments(fragments))
    }
}

/// What comes before a value.
struct Header {
    tag: Tag,
    length: u32,
    /// Whether the writer did not know the type, and so wrote what is inside without types.
    is_untyped: bool,
    /// Whether the type is words of two bytes.
    is_words: bool,
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    coding: Coding,
}

impl<'a> Walk<'a> {
    fn header(&mut self) -> Result<Header, Cause> {
        self.next_header().ok_or_else(|| Cause::cut_off("an element"))
    }

    fn next_header(&mut self) -> Option<Header> {
        let is_big = self.coding.is_big_endian;
        let short = |at: usize| if is_big { u16_be(self.bytes, at) } else { u16_le(self.bytes, at) };
        let long = |at: usize| if is_big { u32_be(self.bytes, at) } else { u32_le(self.bytes, at) };
        let tag = (short(self.at)?, short(self.at + 2)?);
        // Items and delimiters have no type in any coding.
        let (mut is_untyped, mut is_words) = (false, false);
        let (length, header_bytes) = if !self.coding.has_types || tag.0 == ITEM.0 {
            (long(self.at + 4)?, 8)
        } else {
            let name = part(self.bytes, self.at + 4, 2)?;
            (is_untyped, is_words) = (name == b"UN", name == b"OW");
            match name {
                b"OB" | b"OD" | b"OF" | b"OL" | b"OV" | b"OW" | b"SQ" | b"SV" | b"UC" | b"UN" | b"UR"
                | b"UT" | b"UV" => (long(self.at + 8)?, 12),
                _ => (short(self.at + 6)?.into(), 8),
            }
        };
        self.at += header_bytes;
        Some(Header { tag, length, is_untyped, is_words })
    }

    fn value(&mut self, length: u32) -> Result<&'a [u8], Cause> {
        let value = part(self.bytes, self.at, length as usize).ok_or_else(|| {
            let left = self.bytes.len() - self.at;
            Cause::malformed(format!("cut off: an element takes {length} bytes, {left} are left"))
        })?;
        self.at += value.len();
        Ok(value)
    }

    /// Steps over the items of the sequence behind `header`, whose length is open, with its delimiter.
    fn skip_sequence(&mut self, header: &Header, depth: u32) -> Result<(), Cause> {
        if depth > DEEPEST {
            return Err(Cause::malformed("sequences inside of each other without end"));
        }
        let outer = self.coding;
        if header.is_untyped {
            self.coding = Coding { has_types: false, is_big_endian: false };
        }
        loop {
            match self.header()? {
                Header { tag: SEQUENCE_END, .. } => break,
                Header { tag: ITEM, length: OPEN, .. } => self.skip_item(depth)?,
                Header { tag: ITEM, length, .. } => _ = self.value(length)?,
                Header { tag, .. } => return Err(unexpected(tag, "a sequence")),
            }
        }
        self.coding = outer;
        Ok(())
    }

    /// Steps over the elements of an item whose length is open, with its delimiter.
    fn skip_item(&mut self, depth: u32) -> Result<(), Cause> {
        loop {
            match self.header()? {
                Header { tag: ITEM_END, .. } => return Ok(()),
                header if header.length == OPEN => self.skip_sequence(&header, depth + 1)?,
                header => _ = self.value(header.length)?,
            }
        }
    }
}

fn unexpected(tag: Tag, inside: &str) -> Cause {
    Cause::malformed(format!("the element {:04x},{:04x} inside of {inside}", tag.0, tag.1))
}

fn text(value: &[u8]) -> String {
    /// Longer ones are of no use as a fact, and could be anything.
    const LONGEST: usize = 64;
    let text = String::from_utf8_lossy(&value[..value.len().min(LONGEST)]);
    text.split('\\').next().unwrap_or_default().trim_matches(['\0', ' ']).to_owned()
}
