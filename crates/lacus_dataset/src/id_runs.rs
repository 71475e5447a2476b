//! Ids of rows in an order, as runs: taken from the front, cut, counted.

/// Runs of ids (first, count), in order; an id may come more than once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IdRuns {
    runs: Vec<(u64, u64)>,
    /// The first run that is not used up, and how many ids of it are.
    at: (usize, u64),
}

impl IdRuns {
    pub(crate) fn new(runs: Vec<(u64, u64)>) -> IdRuns {
        IdRuns { runs, at: (0, 0) }
    }

    /// How many ids are left.
    pub(crate) fn len(&self) -> u64 {
        let left: u64 = self.runs[self.at.0..].iter().map(|(_, count)| count).sum();
        left - self.at.1
    }

    /// Puts back what was taken last.
    pub(crate) fn put_back(&mut self, mut runs: Vec<(u64, u64)>) {
        runs.extend(self.take(u64::MAX));
        *self = IdRuns::new(runs);
    }

    /// The next `most` ids, or as many as are left.
    pub(crate) fn take(&mut self, most: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        let mut left = most;
        while left > 0 {
            let Some(&(first, count)) = self.runs.get(self.at.0) else { break };
            let step = (count - self.at.1).min(left);
            if step > 0 {
                taken.push((first + self.at.1, step));
            }
            left -= step;
            self.at = match self.at.1 + step == count {
                true => (self.at.0 + 1, 0),
                false => (self.at.0, self.at.1 + step),
            };
        }
        taken
    }
}

/// All ids of some runs.
pub(crate) fn ids_of(runs: &[(u64, u64)]) -> Vec<u64> {
    runs.iter().flat_map(|&(first, count)| first..first + count).collect()
}

/// Ids as runs, in their order.
pub(crate) fn runs_of(ids: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(id) => *count += 1,
            _ => runs.push((id, 1)),
        }
    }
    runs
}

/// A set of ids: runs that ascend and lie apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IdSet(Vec<(u64, u64)>);

impl IdSet {
    /// The ids of runs in any order.
    pub(crate) fn of(mut runs: Vec<(u64, u64)>) -> IdSet {
        runs.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(runs.len());
        for (first, count) in runs.into_iter().filter(|(_, count)| *count > 0) {
            match joined.last_mut() {
                Some((start, length)) if first <= *start + *length => {
                    *length = (*length).max(first + count - *start);
                }
                _ => joined.push((first, count)),
            }
        }
        IdSet(joined)
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        let at = self.0.partition_point(|(first, count)| first + count <= id);
        self.0.get(at).is_some_and(|(first, _)| *first <= id)
    }

    /// Those of some runs, in their order, that are in the set.
    pub(crate) fn among(&self, runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for &(first, count) in runs {
            let end = first + count;
            let from = self.0.partition_point(|(start, length)| start + length <= first);
            for &(start, length) in self.0[from..].iter().take_while(|(start, _)| *start < end) {
                let (low, high) = (start.max(first), (start + length).min(end));
                found.push((low, high - low));
            }
        }
        found
    }

    /// Those that are in both.
    pub(crate) fn and(&self, other: &IdSet) -> IdSet {
        IdSet(self.among(&other.0))
    }

    /// Those that are in one of them.
    pub(crate) fn or(mut self, other: IdSet) -> IdSet {
        self.0.extend(other.0);
        IdSet::of(self.0)
    }

    /// Those that are not in another.
    pub(crate) fn without(&self, other: &IdSet) -> IdSet {
        let mut left = Vec::new();
        for &(first, count) in &self.0 {
            let mut from = first;
            for (start, length) in other.among(&[(first, count)]) {
                left.push((from, start - from));
                from = start + length;
            }
            left.push((from, first + count - from));
        }
        IdSet::of(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sets() {
        let set = |ids: &[u64]| IdSet::of(ids.iter().map(|id| (*id, 1)).collect());
        let (a, b) = (set(&[1, 2, 3, 7, 9]), set(&[9, 3, 4, 0]));
        assert_eq!(a, IdSet(vec![(1, 3), (7, 1), (9, 1)]));
        assert_eq!(a.and(&b), set(&[3, 9]));
        assert_eq!(a.without(&b), set(&[1, 2, 7]));
        assert_eq!(a.clone().or(b), set(&[0, 1, 2, 3, 4, 7, 9]));
        assert_eq!(a.among(&[(8, 3), (0, 3), (9, 1)]), [(9, 1), (1, 2), (9, 1)]);
        assert!(a.contains(7) && !a.contains(8) && !a.contains(10));
        assert_eq!(IdSet::of(vec![(5, 2), (0, 9), (3, 0)]), IdSet(vec![(0, 9)]));
    }

    #[test]
    fn runs_are_taken_in_order() {
        let mut runs = IdRuns::new(vec![(5, 3), (5, 1), (9, 0), (0, 2)]);
        assert_eq!(runs.len(), 6);
        assert_eq!(runs.take(2), [(5, 2)]);
        assert_eq!(runs.take(3), [(7, 1), (5, 1), (0, 1)]);
        assert_eq!(runs.len(), 1);
        runs.put_back(vec![(5, 1), (0, 1)]);
        assert_eq!((runs.len(), runs.take(2)), (3, vec![(5, 1), (0, 1)]));
        assert_eq!(runs.take(9), [(1, 1)]);
        assert_eq!((runs.take(9), runs.len()), (vec![], 0));
        assert_eq!(runs_of(ids_of(&[(5, 3), (8, 1), (8, 1)])), [(5, 4), (8, 1)]);
    }
}
