//! Sets of sites, one per tile of a tensor, as bits.

/// A row of bits for every tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteSets {
    words: usize,
    bits: Vec<u64>,
}

impl SiteSets {
    /// Empty sets.
    pub(crate) fn new(tiles: usize, sites: u64) -> SiteSets {
        let words = (sites as usize).div_ceil(64).max(1);
        SiteSets { words, bits: vec![0; tiles * words] }
    }

    pub(crate) fn row(&self, tile: usize) -> &[u64] {
        &self.bits[tile * self.words..(tile + 1) * self.words]
    }

    pub(crate) fn insert(&mut self, tile: usize, site: u64) {
        self.bits[tile * self.words + site as usize / 64] |= 1 << (site % 64);
    }

    pub(crate) fn contains(&self, tile: usize, site: u64) -> bool {
        self.bits[tile * self.words + site as usize / 64] >> (site % 64) & 1 == 1
    }

    /// Adds to a set another one, moved up by so many sites.
    pub(crate) fn insert_shifted(&mut self, tile: usize, set: &[u64], by: u64) {
        let row = &mut self.bits[tile * self.words..(tile + 1) * self.words];
        let (skip, shift) = ((by / 64) as usize, by % 64);
        for (at, &word) in set.iter().enumerate() {
            if let Some(low) = row.get_mut(at + skip) {
                *low |= word << shift;
            }
            if shift > 0
                && let Some(high) = row.get_mut(at + skip + 1)
            {
                *high |= word >> (64 - shift);
            }
        }
    }

    /// Members of a set.
    pub(crate) fn count(&self, tile: usize) -> u32 {
        self.row(tile).iter().map(|word| word.count_ones()).sum()
    }

    /// The members of a set in order.
    pub(crate) fn members(&self, tile: usize) -> impl Iterator<Item = u64> + '_ {
        members(self.row(tile))
    }
}

/// The sites of a row of bits in order.
pub(crate) fn members(row: &[u64]) -> impl Iterator<Item = u64> + '_ {
    row.iter().enumerate().flat_map(|(at, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| u64::from(rest.trailing_zeros()))?;
            rest &= rest - 1;
            Some(at as u64 * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_shift_over_words() {
        let mut sets = SiteSets::new(2, 130);
        sets.insert_shifted(1, &[0b101, 0, 0], 63);
        sets.insert(1, 129);
        assert_eq!(sets.members(1).collect::<Vec<_>>(), [63, 65, 129]);
        assert_eq!((sets.count(0), sets.count(1)), (0, 3));
        assert!(sets.contains(1, 65) && !sets.contains(0, 65));
    }
}
