//! Checksums of cells.
//!
//! Parquet pages carry no checksum, so a cell file keeps its own, one for each run of rows that was
//! written together, in the footer under [`CHECKS_KEY`]. Runs and pages have the same borders.

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use lacus_layout::Crc32c;
use lacus_tensor::bytes_of;

use crate::log::zone::Zone;

/// The key of the checksums in a cell file's footer: a JSON array of `[first row, rows, CRC-32C]`.
pub(crate) const CHECKS_KEY: &str = "lacus.cells";

/// The key of the zones of samples in a cell file's footer: a JSON array of `[first row, rows, zone]`, in order.
pub(crate) const ZONES_KEY: &str = "lacus.zones";

/// A run of samples and between which values they lie.
pub(crate) type ZoneRun = (u64, u64, Zone);

/// The zones of a footer: none when there is no such key, or when a later version wrote something else there.
pub(crate) fn parse_zones(text: &str) -> Vec<ZoneRun> {
    let zones: Vec<ZoneRun> = serde_json::from_str(text).unwrap_or_default();
    let end = |zone: &ZoneRun| zone.0.checked_add(zone.1);
    let ordered = zones.windows(2).all(|pair| end(&pair[0]).is_some_and(|end| end <= pair[1].0));
    match ordered && zones.iter().all(|zone| end(zone).is_some()) {
        true => zones,
        false => Vec::new(),
    }
}

/// A run of cell rows and the checksum of what they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub first: u64,
    pub rows: u64,
    pub crc: u32,
}

/// The checksum of cells: all of `c0`, then `c1`, … (of samples: all of `row`), then the values,
/// little-endian as stored.
pub(crate) fn digest(coords: &[&[i64]], values: Option<&ArrayRef>) -> u32 {
    let mut crc = Crc32c::new();
    coords.iter().for_each(|axis| crc.update(bytes_of(axis)));
    let Some(values) = values else { return crc.finish() };
    match values.data_type() {
        DataType::Int64 => crc.update(bytes_of(values.as_primitive::<Int64Type>().values())),
        DataType::Float32 => crc.update(bytes_of(values.as_primitive::<Float32Type>().values())),
        DataType::Float64 => crc.update(bytes_of(values.as_primitive::<Float64Type>().values())),
        DataType::Utf8 => {
            let texts = values.as_string::<i32>();
            // Lengths too: texts must not flow into each other.
            let mut bytes = Vec::with_capacity(texts.len() * 4 + text_bytes(texts));
            for text in texts.iter().flatten() {
                bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
            crc.update(&bytes);
        }
        _ => crc.update(&values.as_binary::<i32>().iter().flatten().flatten().copied().collect::<Vec<u8>>()),
    }
    crc.finish()
}

/// The bytes that all texts of an array have together.
fn text_bytes(texts: &StringArray) -> usize {
    let offsets = texts.value_offsets();
    offsets.last().zip(offsets.first()).map_or(0, |(last, first)| (last - first) as usize)
}

/// The checksums as they stand in the footer.
pub(crate) fn render_checks(checks: &[Check]) -> String {
    let rows: Vec<(u64, u64, u32)> = checks.iter().map(|c| (c.first, c.rows, c.crc)).collect();
    serde_json::to_string(&rows).unwrap_or_default()
}

/// The checksums of a footer; `None` when they make no sense.
pub(crate) fn parse_checks(text: &str) -> Option<Vec<Check>> {
    let rows: Vec<(u64, u64, u32)> = serde_json::from_str(text).ok()?;
    let checks: Vec<Check> = rows.into_iter().map(|(first, rows, crc)| Check { first, rows, crc }).collect();
    let ordered =
        checks.windows(2).all(|w| w[0].first.checked_add(w[0].rows).is_some_and(|end| end <= w[1].first));
    let ends =
        checks.last().is_none_or(|c| c.first.checked_add(c.rows).is_some_and(|end| end <= i64::MAX as u64));
    (ordered && ends).then_some(checks)
}

/// The checksums that cover some of these rows.
pub(crate) fn overlapping(checks: &[Check], first: u64, count: u64) -> &[Check] {
    let from = checks.partition_point(|c| c.first + c.rows <= first);
    let to = checks.partition_point(|c| c.first < first + count);
    checks.get(from..to).unwrap_or_default()
}

/// `runs` grown so that no checksum is cut.
pub(crate) fn widened(runs: &[(u64, u64)], checks: &[Check]) -> Vec<(u64, u64)> {
    let mut wide: Vec<(u64, u64)> = Vec::with_capacity(runs.len());
    for &(first, count) in runs {
        let touched = overlapping(checks, first, count);
        let from = touched.first().map_or(first, |c| c.first.min(first));
        let to = touched.last().map_or(first + count, |c| (c.first + c.rows).max(first + count));
        match wide.last_mut() {
            Some((start, length)) if from <= *start + *length => {
                *length = (*start + *length).max(to) - *start
            }
            _ => wide.push((from, to - from)),
        }
    }
    wide
}

/// Cuts `runs` into pieces of about `rows` rows that end where checksums do.
pub(crate) fn pieces(runs: &[(u64, u64)], checks: &[Check], rows: u64) -> Vec<(u64, u64)> {
    let mut cut = Vec::new();
    for &(first, count) in runs {
        let end = first + count;
        let mut from = first;
        while from < end {
            let wanted = from.saturating_add(rows).min(end);
            let to = overlapping(checks, wanted, 1).first().map_or(wanted, |c| c.first);
            let to = if to > from { to } else { wanted };
            cut.push((from, to - from));
            from = to;
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_widened_to_whole_checks() {
        let check = |first, rows| Check { first, rows, crc: 0 };
        let checks = [check(1, 10), check(11, 10), check(21, 4)];
        assert_eq!(widened(&[(3, 2)], &checks), [(1, 10)]);
        assert_eq!(widened(&[(10, 2), (22, 1)], &checks), [(1, 24)]);
        assert_eq!(widened(&[(3, 2)], &[]), [(3, 2)]);
        assert_eq!(pieces(&[(1, 24)], &checks, 12), [(1, 10), (11, 10), (21, 4)]);
        assert_eq!(pieces(&[(0, 5)], &[], 2), [(0, 2), (2, 2), (4, 1)]);
    }

    #[test]
    fn checks_survive_the_footer() {
        let checks = vec![Check { first: 1, rows: 5, crc: 7 }, Check { first: 6, rows: 2, crc: u32::MAX }];
        assert_eq!(parse_checks(&render_checks(&checks)), Some(checks));
        assert_eq!(parse_checks("[[5,2,1],[6,1,1]]"), None);
        assert_eq!(parse_checks("junk"), None);
    }
}
