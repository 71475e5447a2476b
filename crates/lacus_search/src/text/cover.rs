//! Which rows a segment covers: those whose samples still lie where they lay when it was made. Pure.
//!
//! ```text
//! samples now ─the same file, place and id?→ documents of the segment
//!                                          └→ the rest: for the next segment, or to be read
//! ```

use std::collections::HashMap;
use std::ops::Range;

use lacus_table::Whereabouts;

use crate::text::pack::Header;

/// What a segment covers of some samples.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Covered {
    /// Its documents, ascending, and the id of the first of each range.
    pub documents: Vec<(Range<u32>, u64)>,
    /// The samples that it does not cover, in their order.
    pub rest: Vec<Whereabouts>,
}

/// Looks for samples in a segment.
pub(crate) fn cover(header: &Header, samples: &[Whereabouts]) -> Covered {
    // By file: place of the first, id of the first, count, document of the first.
    let mut known: HashMap<&str, Vec<(u64, u64, u64, u64)>> = HashMap::new();
    let mut document = 0;
    for span in &header.spans {
        if let Some(file) = header.files_of_rows.get(span.file as usize) {
            known.entry(file).or_default().push((span.row, span.id, span.count, document));
        }
        document += span.count;
    }
    known.values_mut().for_each(|spans| spans.sort_unstable());
    let mut covered = Covered::default();
    for sample in samples {
        let spans = known.get(sample.file.as_str()).map_or(&[][..], Vec::as_slice);
        let (mut row, end) = (sample.row, sample.row + sample.count);
        let mut at = spans.partition_point(|(first, _, count, _)| first + count <= row);
        while row < end {
            let id = sample.id + (row - sample.row);
            let span = spans.get(at).filter(|(first, ..)| *first < end);
            let Some(&(first, first_id, count, document)) = span else {
                covered.leave(sample, row..end);
                break;
            };
            if first > row {
                covered.leave(sample, row..first);
                row = first;
                continue;
            }
            let until = (first + count).min(end);
            match first_id + (row - first) == id {
                true => covered.take(document + (row - first), until - row, id),
                false => covered.leave(sample, row..until),
            }
            (row, at) = (until, at + 1);
        }
    }
    covered.documents.sort_unstable_by_key(|(range, _)| range.start);
    covered
}

impl Covered {
    fn take(&mut self, document: u64, count: u64, id: u64) {
        // A header has fewer documents than an `i32` counts.
        let range = document as u32..(document + count) as u32;
        match self.documents.last_mut() {
            Some((last, first_id))
                if last.end == range.start && *first_id + u64::from(last.end - last.start) == id =>
            {
                last.end = range.end;
            }
            _ => self.documents.push((range, id)),
        }
    }

    fn leave(&mut self, sample: &Whereabouts, rows: Range<u64>) {
        let (row, count) = (rows.start, rows.end - rows.start);
        let id = sample.id + (row - sample.row);
        match self.rest.last_mut() {
            Some(last)
                if last.file == sample.file && last.row + last.count == row && last.id + last.count == id =>
            {
                last.count += count;
            }
            _ => self.rest.push(Whereabouts { file: sample.file.clone(), row, id, count }),
        }
    }

    /// How many rows are covered.
    pub(crate) fn rows(&self) -> u64 {
        self.documents.iter().map(|(range, _)| u64::from(range.end - range.start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::pack::Span;

    fn at(file: &str, row: u64, id: u64, count: u64) -> Whereabouts {
        Whereabouts { file: file.to_owned(), row, id, count }
    }

    #[test]
    fn samples_are_found_where_they_lay() {
        let header = Header {
            files_of_rows: vec!["a".into(), "b".into()],
            spans: vec![
                Span { file: 0, row: 10, id: 0, count: 5 },
                Span { file: 1, row: 0, id: 5, count: 5 },
                Span { file: 0, row: 15, id: 20, count: 2 },
            ],
            ..Header::default()
        };
        let check = |samples: &[Whereabouts], documents: &[(Range<u32>, u64)], rest: &[Whereabouts]| {
            let covered = cover(&header, samples);
            assert_eq!(covered.documents, documents, "{samples:?}");
            assert_eq!(covered.rest, rest, "{samples:?}");
        };
        // As it was.
        let all = [at("a", 10, 0, 5), at("b", 0, 5, 5), at("a", 15, 20, 2)];
        check(&all, &[(0..10, 0), (10..12, 20)], &[]);
        // Row 2 was deleted, row 7 written again, rows 30 and 31 added.
        let samples = [
            at("a", 10, 0, 2),
            at("a", 13, 3, 2),
            at("b", 0, 5, 2),
            at("c", 0, 7, 1),
            at("b", 3, 8, 2),
            at("c", 1, 30, 2),
        ];
        check(&samples, &[(0..2, 0), (3..7, 3), (8..10, 8)], &[at("c", 0, 7, 1), at("c", 1, 30, 2)]);
        // The same place with another id is another row.
        check(&[at("a", 10, 100, 5)], &[], &[at("a", 10, 100, 5)]);
        // More rows of the same file than were there.
        check(&[at("b", 0, 5, 9)], &[(5..10, 5)], &[at("b", 5, 10, 4)]);
        check(&[at("a", 8, 18, 2), at("a", 10, 0, 1)], &[(0..1, 0)], &[at("a", 8, 18, 2)]);
    }
}
