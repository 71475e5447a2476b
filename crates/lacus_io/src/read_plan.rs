//! Merges the byte ranges somebody wants into the requests worth making.
//!
//! ```text
//! wanted   [a)   [b)            [c)
//! requests [a----b)             [c)      one request where the gap is cheaper than a round trip
//! ```

use std::ops::Range;

/// One byte range to fetch, and which of the wanted ranges lie in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The file, as an index into the caller's list.
    pub file: usize,
    /// The bytes to fetch.
    pub range: Range<u64>,
    /// The wanted ranges inside, in order of offset.
    pub parts: Vec<Part>,
}

/// A wanted range within a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which of the wanted ranges this is.
    pub wanted: usize,
    /// Where it lies, counted from the start of the request.
    pub within: Range<usize>,
}

/// Merges `wanted` (file, range) into requests: gaps up to `gap_bytes` are read through, and no
/// request made by merging grows past `max_bytes`.
pub fn coalesce(wanted: &[(usize, Range<u64>)], gap_bytes: u64, max_bytes: u64) -> Vec<Request> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&i| (wanted[i].0, wanted[i].1.start, wanted[i].1.end));
    let mut requests: Vec<Request> = Vec::new();
    for i in order {
        let (file, range) = &wanted[i];
        if let Some(last) = requests.last_mut() {
            let end = last.range.end.max(range.end);
            let close = last.file == *file && range.start <= last.range.end.saturating_add(gap_bytes);
            let small = end - last.range.start <= max_bytes || range.end <= last.range.end;
            if close && small {
                last.range.end = end;
                last.parts.push(part(i, &last.range, range));
                continue;
            }
        }
        requests.push(Request { file: *file, range: range.clone(), parts: vec![part(i, range, range)] });
    }
    requests
}

fn part(wanted: usize, request: &Range<u64>, range: &Range<u64>) -> Part {
    let start = (range.start - request.start) as usize;
    Part { wanted, within: start..start + (range.end - range.start) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wanted: &[(usize, Range<u64>)], gap: u64, max: u64, expected: &[(usize, Range<u64>)]) {
        let requests = coalesce(wanted, gap, max);
        let found: Vec<_> = requests.iter().map(|r| (r.file, r.range.clone())).collect();
        assert_eq!(found, expected);
        let mut seen: Vec<usize> = requests.iter().flat_map(|r| r.parts.iter().map(|p| p.wanted)).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..wanted.len()).collect::<Vec<_>>());
        for request in &requests {
            for p in &request.parts {
                let start = request.range.start + p.within.start as u64;
                assert_eq!((request.file, start..start + p.within.len() as u64), wanted[p.wanted].clone());
            }
        }
    }

    #[test]
    fn ranges_merge_when_the_gap_is_small() {
        check(&[], 10, 100, &[]);
        check(&[(0, 0..10), (0, 12..20)], 5, 100, &[(0, 0..20)]);
        check(&[(0, 0..10), (0, 16..20)], 5, 100, &[(0, 0..10), (0, 16..20)]);
        check(&[(0, 12..20), (0, 0..10)], 5, 100, &[(0, 0..20)]);
        check(&[(0, 0..10), (1, 10..20)], 5, 100, &[(0, 0..10), (1, 10..20)]);
        check(&[(0, 0..60), (0, 60..120)], 5, 100, &[(0, 0..60), (0, 60..120)]);
        check(&[(0, 0..500)], 5, 100, &[(0, 0..500)]);
        check(&[(0, 0..50), (0, 10..20), (0, 10..20)], 0, 10, &[(0, 0..50)]);
    }
}
