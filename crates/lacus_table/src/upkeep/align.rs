//! Do samples belong to rows? Rows are one set of files, the samples of each column others: only their ids tie them.

use crate::error::TableError;
use crate::schema::ROW_AXIS;
use crate::table::Table;
use lacus_io::boxed;

impl Table {
    /// Samples whose row is not there, as columns and runs (first id, count). A sound table has none.
    #[boxed]
    pub async fn strays(&self) -> Result<Vec<(String, Vec<(u64, u64)>)>, TableError> {
        let axis = self.rows().await?;
        let mut rows: Vec<(u64, u64)> =
            axis.runs().iter().map(|(_, first, count)| (*first, *count)).collect();
        rows.sort_unstable();
        let mut found = Vec::new();
        for column in self.columns()? {
            let index = self.row_cache().column(self.store(), self.snapshot(), &column.name).await?;
            let samples = index.segments.iter().map(|segment| (segment.first_id, segment.count));
            let strays = outside(samples, &rows);
            if !strays.is_empty() {
                found.push((column.name, strays));
            }
        }
        Ok(found)
    }

    /// The highest id of a row or sample in this version's files, those of deleted rows included.
    pub fn highest_id(&self) -> Option<u64> {
        let files = self.snapshot().files.values();
        let columns = files.flat_map(|file| &file.tags.tensors);
        let held = columns.filter(|held| held.name == ROW_AXIS || self.is_column(&held.name));
        held.filter_map(|held| held.span).map(|(_, last)| last).max()
    }
}

/// The parts of `samples`, sorted by id, that are in none of `rows`, which are sorted and apart.
fn outside(samples: impl Iterator<Item = (u64, u64)>, rows: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (first, count) in samples {
        let end = first + count;
        let mut at = first;
        let mut next = rows.partition_point(|(start, length)| start + length <= at);
        while at < end {
            let (start, stop) = rows.get(next).map_or((end, end), |(start, length)| (*start, start + length));
            if at < start {
                let stray = (at, start.min(end) - at);
                // The tiles of one sample are found one by one.
                match found.last_mut() {
                    Some(last) if last.0 + last.1 == stray.0 => last.1 += stray.1,
                    Some(last) if *last == stray => {}
                    _ => found.push(stray),
                }
            }
            at = stop.max(start);
            next += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_without_a_row_are_found() {
        let check = |samples: &[(u64, u64)], rows: &[(u64, u64)], expected: &[(u64, u64)]| {
            assert_eq!(outside(samples.iter().copied(), rows), expected, "{samples:?} {rows:?}");
        };
        check(&[(0, 10)], &[(0, 10)], &[]);
        check(&[(0, 10)], &[], &[(0, 10)]);
        check(&[(0, 10)], &[(2, 3), (7, 1)], &[(0, 2), (5, 2), (8, 2)]);
        check(&[(0, 2), (2, 2), (9, 1), (9, 1)], &[(0, 1), (20, 5)], &[(1, 3), (9, 1)]);
        check(&[(5, 5)], &[(0, 100)], &[]);
        check(&[(5, 5), (20, 2)], &[(0, 7), (21, 100)], &[(7, 3), (20, 1)]);
    }
}
