//! What a file comes to hold, noted row by row while it is written.

use crate::log::snapshot::{HeaderRow, Held};
use crate::log::zone::Zone;

/// The sequence of rows whose version is not known yet: `PENDING + k` becomes the k-th sequence that is free
/// when the log entry is written.
pub(crate) const PENDING: u64 = 1 << 63;

/// Runs of ids kept in the tags. Where there are more, readers take them from the `row` column: the
/// log is read by everybody who opens the table, the column only by those who need it.
pub(crate) const MAX_ID_RUNS: usize = 128;

/// Notes rows in the order in which they are written, sorted by tensor.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    row: u64,
    held: Vec<Held>,
}

impl Holding {
    /// How many rows there are so far.
    pub(crate) fn rows(&self) -> u64 {
        self.row
    }

    /// What is held of the tensor written last.
    pub(crate) fn last(&mut self) -> Option<&mut Held> {
        self.held.last_mut()
    }

    pub(crate) fn all(&mut self) -> &mut [Held] {
        &mut self.held
    }

    fn of(&mut self, name: &str) -> &mut Held {
        if self.held.last().is_none_or(|h| h.name != name) {
            self.held.push(Held::new(name));
        }
        self.held.last_mut().expect("just pushed")
    }

    /// A header row.
    pub(crate) fn header(&mut self, name: &str, header: &HeaderRow) {
        let row = self.row;
        self.of(name).header = Some(HeaderRow { row, ..header.clone() });
        self.row += 1;
    }

    /// Rows of chunks or cells.
    pub(crate) fn add(&mut self, name: &str, count: u64, bytes: u64) {
        let first = self.row;
        let held = self.of(name);
        held.bytes += bytes;
        extend_run(&mut held.rows, first, count);
        self.row += count;
    }

    /// Rows of samples, each with the id of its dataset row.
    pub(crate) fn add_ids(&mut self, name: &str, ids: &[u64], bytes: u64) {
        self.add(name, ids.len() as u64, bytes);
        let held = self.of(name);
        for &id in ids {
            // Past the bound they are only counted.
            if held.ids.len() <= MAX_ID_RUNS || held.ids.last().is_some_and(|(f, c)| f + c == id) {
                extend_run(&mut held.ids, id, 1);
            }
            let (low, high) = held.span.unwrap_or((id, id));
            held.span = Some((low.min(id), high.max(id)));
        }
    }

    /// Between which values the rows of samples just added lie. `is_first` when nothing else is held of the tensor yet.
    pub(crate) fn add_zone(&mut self, name: &str, zone: Option<&Zone>, is_first: bool) {
        let held = self.of(name);
        held.zone = match (held.zone.take(), zone) {
            (None, Some(zone)) if is_first => Some(zone.clone()),
            // Where one of them is unknown, all are.
            (known, zone) => known.zip(zone).and_then(|(known, zone)| known.with(zone)),
        };
    }

    /// The sequence of the rows of the axis just added.
    pub(crate) fn add_sequence(&mut self, name: &str, sequence: u64, count: u64) {
        let held = self.of(name);
        match held.sequences.last_mut() {
            Some((same, rows)) if *same == sequence => *rows += count,
            _ => held.sequences.push((sequence, count)),
        }
    }

    /// Everything held, fit for tags.
    pub(crate) fn finish(mut self) -> Vec<Held> {
        for held in &mut self.held {
            if held.ids.len() > MAX_ID_RUNS {
                held.ids.clear();
            }
        }
        self.held
    }
}

/// Adds `count` numbers from `first` on to a list of runs.
pub(crate) fn extend_run(runs: &mut Vec<(u64, u64)>, first: u64, count: u64) {
    match runs.last_mut() {
        Some((start, length)) if *start + *length == first => *length += count,
        _ => runs.push((first, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_ids_are_kept_while_they_are_few() {
        let mut holding = Holding::default();
        holding.add_ids("a", &[5, 6, 7, 20], 4);
        let scattered: Vec<u64> = (0..1000).map(|i| i * 3).collect();
        holding.add_ids("b", &scattered, 9);
        let held = holding.finish();
        assert_eq!(held[0].ids, [(5, 3), (20, 1)]);
        assert_eq!((&held[0].rows[..], held[0].span), (&[(0, 4)][..], Some((5, 20))));
        assert!(held[1].ids.is_empty());
        assert_eq!((&held[1].rows[..], held[1].span), (&[(4, 1000)][..], Some((0, 2997))));
    }
}
