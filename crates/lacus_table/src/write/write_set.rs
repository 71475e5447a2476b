//! What a commit wrote, in terms of tensors and chunks, and when two of them clash.
//!
//! Files say nothing about conflicts here: two writers may both touch one file and be friends, if
//! they replaced different chunks of it.

use serde::{Deserialize, Serialize};

use crate::schema::ROW_AXIS;

/// What one commit wrote. Kept in its log entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WriteSet {
    pub tensors: Vec<Written>,
    /// The whole dataset was replaced: whatever anybody else wrote clashes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everything: bool,
}

/// What was written of one tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    pub tensor: String,
    pub scope: Scope,
}

/// How much of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// The tensor itself: made, replaced, removed, resized, described anew.
    Whole,
    /// These chunks.
    Chunks(Vec<Vec<i64>>),
    /// Chunks within this box (first and last, inclusive), when they are too many to list.
    Box(Vec<i64>, Vec<i64>),
    /// Samples of the rows with these ids: runs (first, count), sorted.
    Rows(Vec<(u64, u64)>),
}

/// What stands for the whole dataset where a tensor is named.
pub(crate) const WHOLE_DATASET: &str = "/";

/// Chunks listed one by one up to this many; beyond, their bounding box.
const MAX_LISTED: usize = 256;

impl Scope {
    pub(crate) fn of_chunks(chunks: &[lacus_layout::Coords]) -> Scope {
        if chunks.len() <= MAX_LISTED {
            return Scope::Chunks(chunks.iter().map(|c| c.to_vec()).collect());
        }
        let mut low = chunks[0].to_vec();
        let mut high = low.clone();
        for chunk in chunks {
            for (k, &c) in chunk.iter().enumerate() {
                low[k] = low[k].min(c);
                high[k] = high[k].max(c);
            }
        }
        Scope::Box(low, high)
    }

    /// Samples of rows, given as sorted runs of ids. Too many of them become fewer, wider ones.
    pub(crate) fn of_rows(mut runs: Vec<(u64, u64)>) -> Scope {
        while runs.len() > MAX_LISTED {
            let pairs = runs.chunks(2);
            runs = pairs
                .map(|pair| {
                    let (first, last) = (pair[0], pair[pair.len() - 1]);
                    (first.0, last.0 + last.1 - first.0)
                })
                .collect();
        }
        Scope::Rows(runs)
    }

    fn overlaps(&self, other: &Scope) -> bool {
        let within = |c: &[i64], low: &[i64], high: &[i64]| {
            c.iter().zip(low.iter().zip(high)).all(|(c, (l, h))| l <= c && c <= h)
        };
        match (self, other) {
            (Scope::Whole, _) | (_, Scope::Whole) => true,
            (Scope::Chunks(a), Scope::Chunks(b)) => {
                let b: std::collections::HashSet<&Vec<i64>> = b.iter().collect();
                a.iter().any(|c| b.contains(c))
            }
            (Scope::Chunks(a), Scope::Box(low, high)) | (Scope::Box(low, high), Scope::Chunks(a)) => {
                a.iter().any(|c| within(c, low, high))
            }
            (Scope::Rows(a), Scope::Rows(b)) => a.iter().any(|&(first, count)| {
                let at = b.partition_point(|&(other, length)| other + length <= first);
                b.get(at).is_some_and(|&(other, _)| other < first + count)
            }),
            (Scope::Rows(_), _) | (_, Scope::Rows(_)) => false,
            (Scope::Box(l1, h1), Scope::Box(l2, h2)) => {
                l1.iter().zip(h2).all(|(l, h)| l <= h) && l2.iter().zip(h1).all(|(l, h)| l <= h)
            }
        }
    }
}

impl WriteSet {
    /// Everything about one tensor.
    pub(crate) fn whole(names: impl IntoIterator<Item = String>) -> WriteSet {
        let tensors = names.into_iter().map(|tensor| Written { tensor, scope: Scope::Whole }).collect();
        WriteSet { tensors, everything: false }
    }

    /// The whole dataset.
    pub(crate) fn everything() -> WriteSet {
        WriteSet { tensors: Vec::new(), everything: true }
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.tensors.is_empty() && !self.everything
    }

    /// Adds what another change wrote.
    pub(crate) fn join(&mut self, other: &WriteSet) {
        self.everything |= other.everything;
        for written in &other.tensors {
            if !self.tensors.contains(written) {
                self.tensors.push(written.clone());
            }
        }
    }

    /// The first tensor both wrote in the same place; `/` for the whole dataset.
    pub(crate) fn clash(&self, other: &WriteSet) -> Option<&str> {
        if (self.everything && !other.is_empty()) || (other.everything && !self.is_empty()) {
            return Some(WHOLE_DATASET);
        }
        self.tensors.iter().find_map(|mine| {
            let hit = |theirs: &Written| match (&mine.scope, &theirs.scope) {
                // Which rows there are concerns the samples of every column.
                (Scope::Rows(_), Scope::Rows(_)) if ROW_AXIS == mine.tensor || ROW_AXIS == theirs.tensor => {
                    mine.scope.overlaps(&theirs.scope)
                }
                _ => mine.tensor == theirs.tensor && mine.scope.overlaps(&theirs.scope),
            };
            other.tensors.iter().any(hit).then_some(mine.tensor.as_str())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tensor: &str, scope: Scope) -> WriteSet {
        WriteSet { tensors: vec![Written { tensor: tensor.into(), scope }], everything: false }
    }

    fn check(a: Scope, b: Scope, clash: bool) {
        assert_eq!(set("x", a.clone()).clash(&set("x", b.clone())).is_some(), clash);
        assert_eq!(set("x", b.clone()).clash(&set("x", a.clone())).is_some(), clash);
        assert_eq!(set("x", a).clash(&set("y", b)), None);
    }

    #[test]
    fn only_what_overlaps_clashes() {
        let chunks = |list: &[&[i64]]| Scope::Chunks(list.iter().map(|c| c.to_vec()).collect());
        check(Scope::Whole, Scope::Whole, true);
        check(Scope::Whole, chunks(&[&[1, 2]]), true);
        check(chunks(&[&[1, 2], &[3, 4]]), chunks(&[&[3, 4]]), true);
        check(chunks(&[&[1, 2]]), chunks(&[&[2, 1]]), false);
        check(chunks(&[&[1, 2]]), Scope::Box(vec![0, 0], vec![1, 1]), false);
        check(chunks(&[&[1, 1]]), Scope::Box(vec![0, 0], vec![1, 1]), true);
        check(Scope::Box(vec![0, 0], vec![4, 4]), Scope::Box(vec![4, 4], vec![5, 5]), true);
        check(Scope::Box(vec![0, 0], vec![4, 4]), Scope::Box(vec![0, 5], vec![5, 9]), false);
        check(Scope::Rows(vec![(0, 5), (9, 1)]), Scope::Rows(vec![(5, 4), (20, 1)]), false);
        check(Scope::Rows(vec![(0, 5), (9, 1)]), Scope::Rows(vec![(5, 5)]), true);
        check(Scope::Rows(vec![(3, 1)]), Scope::Whole, true);
    }

    #[test]
    fn a_deleted_row_clashes_with_its_samples() {
        let update = set("labels", Scope::Rows(vec![(7, 2)]));
        assert!(update.clash(&set(ROW_AXIS, Scope::Rows(vec![(8, 1)]))).is_some());
        assert!(set(ROW_AXIS, Scope::Rows(vec![(8, 1)])).clash(&update).is_some());
        assert_eq!(update.clash(&set(ROW_AXIS, Scope::Rows(vec![(9, 9)]))), None);
        assert_eq!(update.clash(&set("boxes", Scope::Rows(vec![(7, 1)]))), None);
    }

    #[test]
    fn many_rows_become_fewer_runs_that_cover_them() {
        let runs: Vec<(u64, u64)> = (0..1000).map(|i| (i * 10, 2)).collect();
        let Scope::Rows(fewer) = Scope::of_rows(runs) else { panic!() };
        assert!(fewer.len() <= MAX_LISTED);
        assert_eq!((fewer[0].0, fewer.last().map(|r| r.0 + r.1)), (0, Some(9992)));
    }
}
