//! Pages of the `data` column, byte by byte.
//!
//! Blob pages are written and read by hand, so that a chunk's bytes go from the caller's memory to
//! the file and back without a copy. They are ordinary Parquet (data page version 1, plain
//! encoding, no compression), which every reader understands:
//!
//! ```text
//! page header (Thrift) | length of levels | levels: runs of null / present | (length | bytes) …
//! ```

use crate::error::TableError;

/// What one page holds: runs of (rows, present), in row order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    runs: Vec<(u32, bool)>,
}

impl Levels {
    pub(crate) fn push(&mut self, present: bool) {
        match self.runs.last_mut() {
            Some((count, same)) if *same == present => *count += 1,
            _ => self.runs.push((1, present)),
        }
    }

    pub(crate) fn rows(&self) -> u32 {
        self.runs.iter().map(|(count, _)| count).sum()
    }

    pub(crate) fn has_values(&self) -> bool {
        self.runs.iter().any(|(_, present)| *present)
    }

    /// How many values precede `row`, and whether `row` is one.
    fn values_before(&self, row: u32) -> (usize, bool) {
        let mut start = 0;
        let mut values = 0;
        for &(count, present) in &self.runs {
            if row < start + count {
                return (values + if present { (row - start) as usize } else { 0 }, present);
            }
            start += count;
            values += if present { count as usize } else { 0 };
        }
        (values, false)
    }
}

/// Everything of a page up to its values, for values that take `value_bytes` (lengths included).
pub(crate) fn page_start(levels: &Levels, value_bytes: usize) -> Result<Vec<u8>, TableError> {
    let mut encoded = Vec::with_capacity(levels.runs.len() * 3);
    for &(count, present) in &levels.runs {
        varint(&mut encoded, u64::from(count) << 1);
        encoded.push(u8::from(present));
    }
    let page_bytes = i32::try_from(4 + encoded.len() + value_bytes).map_err(|_| {
        TableError::refused("write", "a chunk is larger than 2 GiB; use a smaller chunk shape")
    })?;
    let mut page = Vec::with_capacity(32 + encoded.len());
    // PageHeader { 1: type DATA_PAGE, 2: uncompressed size, 3: compressed size, 5: DataPageHeader
    // { 1: values, 2: encoding PLAIN, 3: definition levels RLE, 4: repetition levels RLE } }
    page.extend_from_slice(&[0x15, 0]);
    for _ in 0..2 {
        page.push(0x15);
        varint(&mut page, zigzag(page_bytes));
    }
    page.extend_from_slice(&[0x2c, 0x15]);
    varint(&mut page, zigzag(i32::try_from(levels.rows()).unwrap_or(i32::MAX)));
    page.extend_from_slice(&[0x15, 0, 0x15, 6, 0x15, 6, 0, 0]);
    page.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
    page.extend_from_slice(&encoded);
    Ok(page)
}

/// A page that was read, taken apart as far as its values.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    levels: Levels,
    values: &'a [u8],
}

impl<'a> Page<'a> {
    /// Parses a whole page written by [`page_start`] and its values.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Page<'a>> {
        let (levels, at, size) = parse_start(bytes)?;
        (size == bytes.len()).then_some(Page { levels, values: &bytes[at..] })
    }

    /// The bytes of the value at `row` of the page; `None` when it is null or out of place.
    pub(crate) fn value(&self, row: u32) -> Option<&'a [u8]> {
        let (skip, present) = self.levels.values_before(row);
        if !present {
            return None;
        }
        let mut rest = self.values;
        for _ in 0..skip {
            rest = rest.get(4 + length(rest)?..)?;
        }
        rest.get(4..4 + length(rest)?)
    }
}

/// Checks the start of a page whose only value is its last `value_bytes` bytes, read elsewhere.
pub(crate) fn is_start_of_single(start: &[u8], row: u32, value_bytes: usize) -> bool {
    let Some((levels, at, size)) = parse_start(start) else { return false };
    let (skip, present) = levels.values_before(row);
    let rest = &start[at..];
    skip == 0
        && present
        && rest.len() == 4
        && length(rest) == Some(value_bytes)
        && size == start.len() + value_bytes
}

fn length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..4)?;
    Some(u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize)
}

/// Levels, where the values start, and the size of the whole page.
fn parse_start(bytes: &[u8]) -> Option<(Levels, usize, usize)> {
    let mut at = 0;
    let expect = |at: &mut usize, wanted: &[u8]| -> Option<()> {
        let found = bytes.get(*at..*at + wanted.len())?;
        *at += wanted.len();
        (found == wanted).then_some(())
    };
    expect(&mut at, &[0x15, 0, 0x15])?;
    let size = unzigzag(read_varint(bytes, &mut at)?)?;
    expect(&mut at, &[0x15])?;
    if unzigzag(read_varint(bytes, &mut at)?)? != size {
        return None;
    }
    expect(&mut at, &[0x2c, 0x15])?;
    let rows = unzigzag(read_varint(bytes, &mut at)?)?;
    expect(&mut at, &[0x15, 0, 0x15, 6, 0x15, 6, 0, 0])?;
    let body = at;
    let levels_bytes = length(bytes.get(at..)?)?;
    at += 4;
    let end = at.checked_add(levels_bytes)?;
    if end > bytes.len() {
        return None;
    }
    let mut levels = Levels::default();
    while at < end {
        let run = read_varint(bytes, &mut at)?;
        let present = *bytes.get(at)? != 0;
        at += 1;
        if run & 1 == 1 {
            return None;
        }
        levels.runs.push((u32::try_from(run >> 1).ok()?, present));
    }
    let total: u64 = levels.runs.iter().map(|(count, _)| u64::from(*count)).sum();
    (at == end && total == rows as u64).then_some((levels, end, body + size))
}

/// The bytes that a page takes when it is decompressed, as its header says, where that begins as Parquet writers begin it: with the
/// type and this size.
pub(crate) fn claimed_bytes(header: &[u8]) -> Option<u64> {
    let mut at = 0;
    for _ in 0..2 {
        (header.get(at) == Some(&0x15)).then_some(())?;
        at += 1;
        let value = read_varint(header, &mut at)?;
        if at > 2 {
            return unzigzag(value).map(|bytes| bytes as u64);
        }
    }
    None
}

fn zigzag(value: i32) -> u64 {
    u64::from(((value << 1) ^ (value >> 31)) as u32)
}

fn unzigzag(value: u64) -> Option<usize> {
    (value & 1 == 0).then(|| usize::try_from(value >> 1).ok()).flatten()
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gives_back_its_values() {
        let values: [Option<&[u8]>; 5] = [None, Some(b"abc"), Some(b""), None, Some(&[7; 300])];
        let mut levels = Levels::default();
        let mut body = Vec::new();
        for value in values {
            levels.push(value.is_some());
            if let Some(bytes) = value {
                body.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                body.extend_from_slice(bytes);
            }
        }
        let mut page = page_start(&levels, body.len()).unwrap();
        page.extend_from_slice(&body);
        let parsed = Page::parse(&page).unwrap();
        for (row, value) in values.iter().enumerate() {
            assert_eq!(parsed.value(row as u32), *value);
        }
        assert_eq!(parsed.value(5), None);
        for cut in 0..page.len() {
            assert!(Page::parse(&page[..cut]).is_none());
        }
    }

    #[test]
    fn the_size_that_a_header_claims_is_seen() {
        let mut levels = Levels::default();
        levels.push(true);
        for value in [0, 10, 1000, 100_000_000] {
            let start = page_start(&levels, value).unwrap();
            let (_, _, size) = parse_start(&start).unwrap();
            let claimed = claimed_bytes(&start).unwrap();
            assert!(claimed >= value as u64 && claimed as usize <= size, "{value}: {claimed}");
        }
        assert_eq!(
            (claimed_bytes(&[]), claimed_bytes(&[0x15]), claimed_bytes(&[0x25, 0, 0x15, 2])),
            (None, None, None)
        );
    }

    #[test]
    fn the_start_of_a_single_value_is_recognised() {
        let mut levels = Levels::default();
        levels.push(false);
        levels.push(true);
        let mut start = page_start(&levels, 4 + 1000).unwrap();
        start.extend_from_slice(&1000u32.to_le_bytes());
        assert!(is_start_of_single(&start, 1, 1000));
        assert!(!is_start_of_single(&start, 0, 1000));
        assert!(!is_start_of_single(&start, 1, 999));
        for i in 0..start.len() {
            let mut damaged = start.clone();
            damaged[i] ^= 0x40;
            // Whatever the damage, nothing but a verdict comes back.
            let _ = is_start_of_single(&damaged, 1, 1000);
        }
    }
}
