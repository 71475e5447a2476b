//! Which positions of an epoch's order a rank takes.
//!
//! ```text
//! positions   0 ........ G | G ........ 2G | 2G .. n         G = batch size × ranks
//! rank 0      0..B         | G..G+B        | first part of the rest
//! rank 1      B..2B        | G+B..G+2B     | second part
//! ```
//!
//! All ranks have the same number of batches, always: a rank that has one batch more than the others would wait for them for ever in
//! the next all-reduce.

use std::ops::Range;

use crate::error::LoaderError;

/// Which rank this is, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// From 0 on.
    pub rank: u64,
    /// How many there are.
    pub world: u64,
}

/// What becomes of the samples at the end that do not fill a batch on every rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// They are split as evenly as possible, so that the last batches are shorter and differ by one sample at most. If there are fewer
    /// samples than ranks, the ranks that get none repeat one of them.
    #[default]
    Split,
    /// As `Split`, but all last batches have the same length: samples from the beginning of the epoch are repeated.
    Pad,
    /// They are left out.
    Drop,
}

/// How the rest of an epoch is cut into batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    total: u64,
    from: u64,
    batch_size: u64,
    ranks: Ranks,
    tail: Tail,
    /// Batches that are left to others after each one.
    stride: u64,
}

impl Cut {
    /// Positions `from..total` of an epoch. Fails for batches of nothing, for a rank that is none, and for fewer samples than ranks.
    pub fn new(total: u64, from: u64, batch_size: u64, ranks: Ranks, tail: Tail) -> Result<Cut, LoaderError> {
        let refused = |why: String| Err(LoaderError::refused(why));
        if batch_size == 0 {
            return refused("batch_size must be 1 or more".to_owned());
        }
        if ranks.world == 0 || ranks.rank >= ranks.world {
            return refused(format!(
                "rank {} of world {}: ranks go from 0 to world - 1",
                ranks.rank, ranks.world
            ));
        }
        if total < ranks.world && total > 0 {
            return refused(format!(
                "{total} samples for {} ranks: each rank needs at least one",
                ranks.world
            ));
        }
        if batch_size.checked_mul(ranks.world).is_none() {
            return refused(format!("{batch_size} samples on {} ranks are too many", ranks.world));
        }
        Ok(Cut { total, from: from.min(total), batch_size, ranks, tail, stride: 1 })
    }

    /// Only every `stride`-th batch: the others are those of other workers, which begin one batch later each.
    pub fn strided(self, stride: u64) -> Cut {
        Cut { stride: stride.max(1), ..self }
    }

    fn step(&self) -> u64 {
        self.batch_size * self.ranks.world
    }

    fn left(&self) -> u64 {
        self.total - self.from
    }

    /// How many batches there are, the same for every rank.
    pub fn batches(&self) -> u64 {
        let all = match self.tail {
            Tail::Drop => self.left() / self.step(),
            Tail::Split | Tail::Pad => self.left().div_ceil(self.step()),
        };
        all.div_ceil(self.stride)
    }

    /// The positions of a batch on all ranks together.
    pub fn everyone(&self, batch: u64) -> Range<u64> {
        let start = self.from.saturating_add(batch.saturating_mul(self.step() * self.stride));
        start.min(self.total)..start.saturating_add(self.step()).min(self.total)
    }

    /// How many samples of the epoch are consumed when a number of batches are.
    pub fn consumed(&self, batches: u64) -> u64 {
        if batches >= self.batches() { self.total } else { self.everyone(batches).start }
    }

    /// The positions of this rank's part of a batch, and how many of them are repeats.
    pub fn mine(&self, batch: u64) -> (Vec<Range<u64>>, u64) {
        let all = self.everyone(batch);
        let (Ranks { rank, world }, count) = (self.ranks, all.end - all.start);
        if count == self.step() {
            let start = all.start + rank * self.batch_size;
            return (vec![start..start + self.batch_size], 0);
        }
        if self.tail == Tail::Pad {
            let each = count.div_ceil(world);
            let (start, end) = (all.start + rank * each, all.start + (rank + 1) * each);
            let own = start.min(self.total)..end.min(self.total);
            let repeats = each - (own.end - own.start);
            let first = (start.max(self.total) - self.total) % self.total;
            // A few more than the epoch has, where ranks are many: it is gone through again.
            let mut ranges = vec![own];
            let mut left = repeats;
            let mut at = first;
            while left > 0 {
                let some = left.min(self.total - at);
                ranges.push(at..at + some);
                (left, at) = (left - some, 0);
            }
            ranges.retain(|range| !range.is_empty());
            return (ranges, repeats);
        }
        let cut = |rank: u64| all.start + (u128::from(count) * u128::from(rank) / u128::from(world)) as u64;
        let own = cut(rank)..cut(rank + 1);
        match own.is_empty() {
            false => (vec![own], 0),
            true => {
                let again = all.start + rank % count;
                (vec![again..again + 1], 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(total: u64, from: u64, batch_size: u64, world: u64, tail: Tail) -> Vec<Vec<Vec<u64>>> {
        let rank = |rank: u64| {
            let cut = Cut::new(total, from, batch_size, Ranks { rank, world }, tail).unwrap();
            let batch = |b: u64| cut.mine(b).0.into_iter().flatten().collect::<Vec<u64>>();
            (0..cut.batches()).map(batch).collect()
        };
        (0..world).map(rank).collect()
    }

    #[test]
    fn ranks_have_as_many_batches_and_every_sample_once() {
        for (total, from, world) in
            [(100, 0, 1), (100, 0, 8), (101, 13, 4), (64, 0, 2), (9, 0, 2), (97, 96, 1)]
        {
            let all = parts(total, from, 4, world, Tail::Split);
            assert!(all.iter().all(|rank| rank.len() == all[0].len()));
            assert!(all.iter().flatten().all(|batch| !batch.is_empty()));
            // Batch by batch the ranks together are the order.
            let together: Vec<u64> =
                (0..all[0].len()).flat_map(|b| all.iter().flat_map(move |rank| rank[b].clone())).collect();
            let tail = (total - from) % (4 * world);
            if tail == 0 || tail >= world {
                assert_eq!(together, (from..total).collect::<Vec<_>>(), "{total} {from} {world}");
            }
        }
    }

    #[test]
    fn tails_are_split_padded_or_dropped() {
        assert_eq!(
            parts(10, 0, 4, 2, Tail::Split),
            [[vec![0, 1, 2, 3], vec![8]], [vec![4, 5, 6, 7], vec![9]]]
        );
        assert_eq!(parts(9, 0, 4, 2, Tail::Split)[0][1], [8]);
        assert_eq!(parts(9, 0, 4, 2, Tail::Split)[1][1], [8], "a rank that would have none repeats one");
        assert_eq!(parts(11, 0, 4, 2, Tail::Pad)[1][1], [10, 0]);
        let padded = parts(9, 0, 4, 8, Tail::Pad).concat();
        assert_eq!(padded, [[0, 1], [2, 3], [4, 5], [6, 7], [8, 0], [1, 2], [3, 4], [5, 6]]);
        assert_eq!(parts(11, 0, 4, 2, Tail::Drop), [[vec![0, 1, 2, 3]], [vec![4, 5, 6, 7]]]);
        assert!(parts(7, 0, 4, 2, Tail::Drop)[0].is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let cut = |total, size, rank, world| Cut::new(total, 0, size, Ranks { rank, world }, Tail::Split);
        for (total, size, rank, world, says) in [
            (10, 0, 0, 1, "batch_size"),
            (10, 1, 2, 2, "rank 2 of world 2"),
            (10, 1, 0, 0, "world 0"),
            (3, 1, 0, 4, "3 samples for 4 ranks"),
        ] {
            let error = cut(total, size, rank, world).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(cut(0, 4, 0, 2).unwrap().batches(), 0);
    }
}
