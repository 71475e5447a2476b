//! WebM and Matroska: which pictures the first video track has. Elements are walked, nothing is decoded.
//!
//! ```text
//! EBML │ Segment ─┬ Info: ticks, duration
//!                 ├ Tracks ─ TrackEntry: number, kind, codec, sides
//!                 └ Cluster: time ─┬ SimpleBlock: track, delay, flags, a picture
//!                                  └ BlockGroup ─ Block, ReferenceBlock (it needs others)
//! ```
//!
//! Live recordings leave the length of segments and clusters unknown; such an element is entered and not
//! stepped over, so its children are met on the same walk. That is done with all clusters and groups: one
//! loop sees every block.

use crate::error::Cause;
use crate::track::{Shown, Track};

const SEGMENT: u32 = 0x1853_8067;
const INFO: u32 = 0x1549_a966;
const TICK_NANOS: u32 = 0x2a_d7b1;
const DURATION: u32 = 0x4489;
const TRACKS: u32 = 0x1654_ae6b;
const TRACK: u32 = 0xae;
const TRACK_NUMBER: u32 = 0xd7;
const TRACK_KIND: u32 = 0x83;
const CODEC: u32 = 0x86;
const VIDEO: u32 = 0xe0;
const WIDTH: u32 = 0xb0;
const HEIGHT: u32 = 0xba;
const CLUSTER: u32 = 0x1f43_b675;
const TIME: u32 = 0xe7;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;
const REFERENCE: u32 = 0xfb;

/// What a file says about its first video track.
#[derive(Default)]
struct Found {
    tick_nanos: Option<u64>,
    duration: f64,
    number: Option<u64>,
    codec: String,
    sides: (u64, u64),
    /// When the cluster that is being walked begins.
    cluster_at: i64,
    is_in_group: bool,
    shown: Vec<Shown>,
}

pub(crate) fn read(bytes: &[u8]) -> Result<Track, Cause> {
    let mut found = Found::default();
    let mut at = 0;
    while at < bytes.len() {
        let element = element(bytes, at).ok_or_else(|| Cause::cut_off("an element"))?;
        let Some(end) = element.end else {
            // Of unknown length: entered if its children are of interest, and an error if not.
            if !matches!(element.id, SEGMENT | CLUSTER) {
                return Err(Cause::malformed(format!("the element {:#x} has no length", element.id)));
            }
            at = element.start;
            continue;
        };
        if end > bytes.len() {
            return Err(Cause::cut_off("an element"));
        }
        if matches!(element.id, SEGMENT | INFO | TRACKS | CLUSTER | BLOCK_GROUP) {
            found.is_in_group = element.id == BLOCK_GROUP;
            at = element.start;
        } else {
            found.take(element.id, &bytes[element.start..end]);
            at = end;
        }
    }
    if found.number.is_none() {
        return Err(Cause::unsupported("there is no video track"));
    }
    let ticks_per_sec = 1e9 / found.tick_nanos.unwrap_or(1_000_000).max(1) as f64;
    Track::new(found.codec, found.sides, ticks_per_sec, found.duration, found.shown)
}

impl Found {
    fn take(&mut self, id: u32, content: &[u8]) {
        match id {
            TICK_NANOS => self.tick_nanos = Some(unsigned(content)),
            DURATION => self.duration = float(content),
            TRACK if self.number.is_none() => self.take_track(content),
            TIME => self.cluster_at = unsigned(content).min(i64::MAX as u64) as i64,
            SIMPLE_BLOCK => self.take_block(content, None),
            // Whether it needs others is said behind it, if at all.
            BLOCK if self.is_in_group => self.take_block(content, Some(true)),
            REFERENCE if self.is_in_group => {
                if let Some(last) = self.shown.last_mut() {
                    last.is_key = false;
                }
            }
            _ => {}
        }
    }

    fn take_track(&mut self, content: &[u8]) {
        const KIND_VIDEO: u64 = 1;
        let (mut number, mut kind, mut codec, mut sides) = (None, 0, String::new(), (0, 0));
        for (id, value) in children(content) {
            match id {
                TRACK_NUMBER => number = Some(unsigned(value)),
                TRACK_KIND => kind = unsigned(value),
                CODEC => codec = String::from_utf8_lossy(&value[..value.len().min(64)]).into_owned(),
                VIDEO => {
                    for (id, value) in children(value) {
                        match id {
                            WIDTH => sides.0 = unsigned(value),
                            HEIGHT => sides.1 = unsigned(value),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        if kind == KIND_VIDEO {
            (self.number, self.codec, self.sides) = (number, codec, sides);
        }
    }

    fn take_block(&mut self, content: &[u8], is_key: Option<bool>) {
        let Some((number, length)) = number(content, 0, true) else { return };
        let Some(&[high, low, flags, ref picture @ ..]) = content.get(length..) else { return };
        if Some(number) != self.number || is_hidden(&self.codec, picture) {
            return;
        }
        let at = self.cluster_at.saturating_add(i16::from_be_bytes([high, low]).into());
        self.shown.push(Shown { at, decoded_at: at, is_key: is_key.unwrap_or(flags & 0x80 != 0) });
    }
}

/// Whether a picture is only there for others to refer to. VP8 has such in blocks of their own; later codecs
/// pack them with one that is shown.
fn is_hidden(codec: &str, picture: &[u8]) -> bool {
    codec == "V_VP8" && picture.first().is_some_and(|byte| byte & 0x10 == 0)
}

/// The children of an element held whole.
fn children(content: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let element = element(content, at)?;
        let end = element.end?;
        at = end;
        Some((element.id, content.get(element.start..end)?))
    })
}

struct Element {
    id: u32,
    start: usize,
    /// `None` if the length is unknown.
    end: Option<usize>,
}

fn element(bytes: &[u8], at: usize) -> Option<Element> {
    let (id, id_length) = number(bytes, at, false)?;
    let (length, length_length) = number(bytes, at + id_length, true)?;
    let start = at + id_length + length_length;
    let is_unknown = length == (1 << (7 * length_length)) - 1;
    let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
    Some(Element { id: u32::try_from(id).ok()?, start, end: (!is_unknown).then_some(end) })
}

/// A number whose first byte says its length by the place of the first one, and that length. Lengths are
/// without that mark, identifiers with it.
fn number(bytes: &[u8], at: usize, is_length: bool) -> Option<(u64, usize)> {
    let first = *bytes.get(at)?;
    let length = first.leading_zeros() as usize + 1;
    if length > 8 {
        return None;
    }
    let value = bytes.get(at..at + length)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    Some((if is_length { value & ((1 << (7 * length)) - 1) } else { value }, length))
}

fn unsigned(content: &[u8]) -> u64 {
    content.iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn float(content: &[u8]) -> f64 {
    match *content {
        [a, b, c, d] => f32::from_be_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => f64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests;
