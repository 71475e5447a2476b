//! What a commit wrote, in terms of tensors and chunks, and when two of them clash.
//!
//! Files say nothing about conflicts here: two writers may both touch one file and be friends, if
//! they replaced different chunks of it.

use serde::{Deserialize, Serialize};

/// What one commit wrote. Kept in its log entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WriteSet {
    pub tensors: Vec<Written>,
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
}

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
        WriteSet { tensors }
    }

    /// The first tensor both wrote in the same place.
    pub(crate) fn clash(&self, other: &WriteSet) -> Option<&str> {
        self.tensors.iter().find_map(|mine| {
            let hit = other.tensors.iter().any(|t| t.tensor == mine.tensor && mine.scope.overlaps(&t.scope));
            hit.then_some(mine.tensor.as_str())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tensor: &str, scope: Scope) -> WriteSet {
        WriteSet { tensors: vec![Written { tensor: tensor.into(), scope }] }
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
    }
}
