//! MP4 and QuickTime (ISO base media): which pictures the first video track has. Boxes are walked, nothing
//! is decoded.
//!
//! ```text
//! moov ─ trak ─ mdia ─┬ mdhd: ticks per second, duration
//!                     ├ hdlr: "vide"
//!                     └ minf ─ stbl: stsd (codec, sides) stts (durations) ctts (delays) stss (key frames)
//! moof ─ traf ─ tfhd, tfdt, trun…     fragments: pictures that moov does not list
//! ```
//!
//! Edit lists are ignored: a picture that is in the file is in the tensor.

use crate::error::{Cause, quoted};
use crate::fields::{i32_be, part, u16_be, u32_be, u64_be};
use crate::track::{Shown, Track};

/// Set in the flags of a picture that needs others.
const NEEDS_OTHERS: u32 = 0x0001_0000;

pub(crate) fn read(bytes: &[u8]) -> Result<Track, Cause> {
    let moov = child(bytes, b"moov").ok_or_else(|| Cause::malformed("cut off: there is no moov box"))?;
    let media = boxes(moov)
        .filter(|(name, _)| name == b"trak")
        .filter_map(|(_, trak)| Some((trak, child(trak, b"mdia")?)))
        .find(|(_, media)| child(media, b"hdlr").and_then(|handler| part(handler, 8, 4)) == Some(b"vide"));
    let (trak, media) = media.ok_or_else(|| Cause::unsupported("there is no video track"))?;
    let broken = || Cause::malformed("the video track lacks a box, or one is too short");

    let header = child(media, b"mdhd").ok_or_else(broken)?;
    let is_long = *header.first().ok_or_else(broken)? == 1;
    let (ticks, duration) = if is_long {
        (u32_be(header, 20), u64_be(header, 24))
    } else {
        (u32_be(header, 12), u32_be(header, 16).map(u64::from))
    };
    let (ticks, duration) = (ticks.ok_or_else(broken)?, duration.ok_or_else(broken)?);
    if ticks == 0 {
        return Err(Cause::malformed("a video of zero ticks per second"));
    }
    // All ones stand for an unknown duration.
    let duration = if duration >= u32::MAX.into() && !is_long || duration == u64::MAX { 0 } else { duration };

    let table = child(media, b"minf").and_then(|minf| child(minf, b"stbl")).ok_or_else(broken)?;
    let description = child(table, b"stsd").ok_or_else(broken)?;
    let codec = part(description, 12, 4).ok_or_else(broken)?;
    let side = |at: usize| u16_be(description, at).map(u64::from).ok_or_else(broken);
    // The entry begins at 8; the sides follow 24 bytes into what its kind adds.
    let sides = (side(40)?, side(42)?);

    // A picture takes a byte at least, so the file's length bounds what tables of a few bytes may claim.
    let most = bytes.len() as u64;
    let mut shown = listed(table, most)?;
    let track_id = track_id(trak).ok_or_else(broken)?;
    fragments(bytes, moov, track_id, most, &mut shown)?;
    let codec = String::from_utf8_lossy(codec).trim_end().to_owned();
    // In a file of fragments the header counts only what it lists itself.
    let duration = if child(moov, b"mvex").is_some() { 0 } else { duration };
    Track::new(codec, sides, ticks.into(), duration as f64, shown)
}

/// Whether every outer box lies inside of the file. What follows the last whole one may be zeros or a stray byte, but no
/// box that was cut.
pub(crate) fn verify(bytes: &[u8]) -> Result<(), Cause> {
    let mut rest = bytes;
    while let (Some(size), Some(name)) = (u32_be(rest, 0), rest.get(4..8)) {
        let end = match size {
            0 => return Ok(()),
            1 => u64_be(rest, 8).unwrap_or(u64::MAX),
            size => size.into(),
        };
        match usize::try_from(end).ok().and_then(|end| rest.get(end.max(8)..)) {
            Some(next) => rest = next,
            None => {
                let left = rest.len();
                let name = quoted(name);
                return Err(Cause::malformed(format!(
                    "cut off: the box {name} takes {end} bytes, {left} are left"
                )));
            }
        }
    }
    Ok(())
}

/// The number by which fragments name the track.
fn track_id(trak: &[u8]) -> Option<u32> {
    let header = child(trak, b"tkhd")?;
    u32_be(header, if *header.first()? == 1 { 20 } else { 12 })
}

/// The pictures that the tables of `stbl` list.
fn listed(table: &[u8], most: u64) -> Result<Vec<Shown>, Cause> {
    let mut shown = Vec::new();
    let mut at = 0i64;
    for (count, duration) in pairs(child(table, b"stts").unwrap_or_default()) {
        if shown.len() as u64 + u64::from(count) > most {
            return Err(too_many());
        }
        for _ in 0..count {
            shown.push(Shown { at, decoded_at: at, is_key: false });
            at = at.saturating_add(duration.into());
        }
    }
    let delays = pairs(child(table, b"ctts").unwrap_or_default());
    // Delays are signed in version 1, and written so in version 0 as well.
    let delays = delays.flat_map(|(count, delay)| std::iter::repeat_n(delay as i32, count as usize));
    for (picture, delay) in shown.iter_mut().zip(delays) {
        picture.at = picture.at.saturating_add(delay.into());
    }
    match child(table, b"stss") {
        None => shown.iter_mut().for_each(|picture| picture.is_key = true),
        Some(keys) => {
            for number in keys.get(8..).unwrap_or_default().as_chunks::<4>().0 {
                let index = (u32::from_be_bytes(*number) as usize).wrapping_sub(1);
                if let Some(picture) = shown.get_mut(index) {
                    picture.is_key = true;
                }
            }
        }
    }
    Ok(shown)
}

fn too_many() -> Cause {
    Cause::malformed("lists more pictures than the file has bytes")
}

/// Adds the pictures of fragments.
fn fragments(bytes: &[u8], moov: &[u8], track: u32, most: u64, shown: &mut Vec<Shown>) -> Result<(), Cause> {
    let defaults = child(moov, b"mvex").into_iter().flat_map(boxes).filter(|(name, _)| name == b"trex");
    let defaults = defaults.map(|(_, trex)| trex).find(|trex| u32_be(trex, 4) == Some(track));
    let default = |at: usize| defaults.and_then(|trex| u32_be(trex, at)).unwrap_or(0);
    let (duration, flags) = (default(12), default(20));
    let mut at = 0i64;
    for (_, moof) in boxes(bytes).filter(|(name, _)| name == b"moof") {
        for (_, traf) in boxes(moof).filter(|(name, _)| name == b"traf") {
            let Some(header) = child(traf, b"tfhd").filter(|header| u32_be(header, 4) == Some(track)) else {
                continue;
            };
            let broken = || Cause::malformed("a fragment that is too short");
            let mut fields = Fields { bytes: header, at: 8 };
            let set = u32_be(header, 0).ok_or_else(broken)?;
            fields.skip(set & 0x01, 8);
            fields.skip(set & 0x02, 4);
            let duration = fields.take(set & 0x08).ok_or_else(broken)?.unwrap_or(duration);
            fields.skip(set & 0x10, 4);
            let flags = fields.take(set & 0x20).ok_or_else(broken)?.unwrap_or(flags);
            if let Some(start) = child(traf, b"tfdt") {
                let is_long = start.first() == Some(&1);
                let start = if is_long { u64_be(start, 4) } else { u32_be(start, 4).map(u64::from) };
                at = start.ok_or_else(broken)?.min(i64::MAX as u64) as i64;
            }
            for (_, run) in boxes(traf).filter(|(name, _)| name == b"trun") {
                let (set, count) = u32_be(run, 0).zip(u32_be(run, 4)).ok_or_else(broken)?;
                if shown.len() as u64 + u64::from(count) > most {
                    return Err(too_many());
                }
                let mut fields = Fields { bytes: run, at: 8 };
                fields.skip(set & 0x01, 4);
                let first_flags = fields.take(set & 0x04).ok_or_else(broken)?;
                for index in 0..count {
                    let duration = fields.take(set & 0x100).ok_or_else(broken)?.unwrap_or(duration);
                    fields.skip(set & 0x200, 4);
                    let own = fields.take(set & 0x400).ok_or_else(broken)?;
                    let delay = fields.take(set & 0x800).ok_or_else(broken)?.unwrap_or(0) as i32;
                    let first = if index == 0 { first_flags } else { None };
                    let is_key = first.or(own).unwrap_or(flags) & NEEDS_OTHERS == 0;
                    shown.push(Shown { at: at.saturating_add(delay.into()), decoded_at: at, is_key });
                    at = at.saturating_add(duration.into());
                }
            }
        }
    }
    Ok(())
}

/// Fields of which flags say whether they are there.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn skip(&mut self, is_there: u32, length: usize) {
        self.at += if is_there != 0 { length } else { 0 };
    }

    /// `None` when the field should be there and is not.
    fn take(&mut self, is_there: u32) -> Option<Option<u32>> {
        if is_there == 0 {
            return Some(None);
        }
        self.at += 4;
        i32_be(self.bytes, self.at - 4).map(|value| Some(value as u32))
    }
}

/// The pairs of a table of runs, behind its version and count.
fn pairs(table: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let entries = table.get(8..).unwrap_or_default().as_chunks::<8>().0;
    let count = u32_be(table, 4).unwrap_or(0) as usize;
    entries.iter().take(count).map(|entry| {
        let word = u64::from_be_bytes(*entry);
        ((word >> 32) as u32, word as u32)
    })
}

/// The content of the first box of a name.
fn child<'a>(bytes: &'a [u8], wanted: &[u8; 4]) -> Option<&'a [u8]> {
    boxes(bytes).find(|(name, _)| name == wanted).map(|(_, content)| content)
}

/// The boxes one after the other: name and content. Ends at the first that does not fit.
fn boxes(bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let size = u32_be(rest, 0)?;
        let name = rest.get(4..8)?.try_into().ok()?;
        let (start, end) = match size {
            0 => (8, rest.len()),
            1 => (16, usize::try_from(u64_be(rest, 8)?).ok()?),
            size => (8, size as usize),
        };
        let content = rest.get(start..end)?;
        rest = &rest[end..];
        Some((name, content))
    })
}

#[cfg(test)]
mod tests;
