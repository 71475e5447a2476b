//! Levels: axes folded into the numbers of a packed chunk's tree, and unfolded again.
//!
//! A level folds its axes, slowest first, into `((a · extent_b) + b) · extent_c + c` within a box. CSR has
//! two levels over the whole tensor, CSF one per axis, BSGS a single one over its block.

use crate::error::LayoutError;
use crate::header::product;
use crate::tree::Level;

/// Ids are taken apart in pieces that stay in the first-level cache while the axes are taken off one by one.
const PIECE: usize = 1024;

/// How the nonzeros of a box become tuples of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Levels {
    /// The axes of each level, slowest first; each axis belongs to one level.
    pub(crate) axes: Vec<Vec<usize>>,
    /// Where the box begins, by axis.
    pub(crate) origin: Vec<u64>,
    /// How far it reaches, by axis.
    pub(crate) extent: Vec<u64>,
}

impl Levels {
    /// The numbers of each level are below these.
    pub(crate) fn limits(&self) -> Result<Vec<u64>, LayoutError> {
        let limit = |axes: &Vec<usize>| {
            let extents: Vec<u64> = axes.iter().map(|axis| self.extent[*axis]).collect();
            product(&extents).ok_or_else(|| {
                LayoutError::unsupported("packed", "a level has more cells than a 64-bit number can count")
            })
        };
        self.axes.iter().map(limit).collect()
    }

    /// All axes in the order of the levels: the order in which tuples ascend.
    pub(crate) fn order(&self) -> Vec<usize> {
        self.axes.concat()
    }

    /// The tuples of the nonzeros at `places`, one column per level.
    pub(crate) fn fold(
        &self,
        columns: &[&[i64]],
        places: impl Iterator<Item = usize> + Clone,
    ) -> Vec<Vec<u64>> {
        let mut tuples = Vec::new();
        self.fold_into(columns, places, &mut tuples);
        tuples
    }

    /// [`Levels::fold`] into columns that are used again.
    pub(crate) fn fold_into(
        &self,
        columns: &[&[i64]],
        places: impl Iterator<Item = usize> + Clone,
        tuples: &mut Vec<Vec<u64>>,
    ) {
        tuples.resize_with(self.axes.len(), Vec::new);
        for (axes, ids) in self.axes.iter().zip(tuples) {
            ids.clear();
            // An axis of a single index adds nothing, and most blocks have one.
            let mut wide = axes.iter().filter(|axis| self.extent[**axis] > 1);
            let Some(first) = wide.next() else {
                ids.extend(places.clone().map(|_| 0));
                continue;
            };
            let (from, column) = (self.origin[*first], columns[*first]);
            ids.extend(places.clone().map(|i| column[i] as u64 - from));
            for axis in wide {
                let (from, extent, column) = (self.origin[*axis], self.extent[*axis], columns[*axis]);
                for (id, i) in ids.iter_mut().zip(places.clone()) {
                    *id = *id * extent + (column[i] as u64 - from);
                }
            }
        }
    }

    /// Writes the coordinates of a decoded tree into `columns`, one per axis, each as long as the tree has
    /// nonzeros.
    pub(crate) fn unfold(&self, levels: &[Level], columns: &mut [&mut [i64]]) {
        for (axes, level) in self.axes.iter().zip(levels) {
            if level.leaves.is_empty() {
                self.unfold_ids(axes, &level.ids, columns);
                continue;
            }
            let mut nodes: Vec<Vec<i64>> = vec![Vec::new(); columns.len()];
            for axis in axes {
                nodes[*axis] = vec![0; level.ids.len()];
            }
            let mut of_nodes: Vec<&mut [i64]> = nodes.iter_mut().map(|column| &mut column[..]).collect();
            self.unfold_ids(axes, &level.ids, &mut of_nodes);
            for axis in axes {
                let mut rest = &mut columns[*axis][..];
                for (value, leaves) in nodes[*axis].iter().zip(&level.leaves) {
                    let (run, others) = rest.split_at_mut(*leaves as usize);
                    run.fill(*value);
                    rest = others;
                }
            }
        }
    }

    /// One number per id of a level with the axes `axes`, which orders them by the axes `key`; and the number
    /// that all of these are below. The axes of `key` are among `axes`, slowest first.
    pub(crate) fn keys(&self, axes: &[usize], ids: &[u64], key: &[usize]) -> (Vec<u64>, u64) {
        let weight = |axis: &usize| {
            let at = key.iter().position(|of_key| of_key == axis)?;
            Some(key[at + 1..].iter().map(|axis| self.extent[*axis]).product::<u64>())
        };
        // Digits are taken off from the fastest axis on; those before the first of the key do not matter.
        let needed = axes.iter().position(|axis| key.contains(axis)).unwrap_or(axes.len());
        let mut keys = vec![0u64; ids.len()];
        let (mut rest, mut digits) = ([0u64; PIECE], [0i64; PIECE]);
        for (keys, ids) in keys.chunks_mut(PIECE).zip(ids.chunks(PIECE)) {
            let (rest, digits) = (&mut rest[..ids.len()], &mut digits[..ids.len()]);
            rest.copy_from_slice(ids);
            for axis in axes[needed..].iter().rev().filter(|axis| self.extent[**axis] > 1) {
                take_digit(rest, self.extent[*axis], 0, digits);
                if let Some(weight) = weight(axis) {
                    for (key, digit) in keys.iter_mut().zip(&*digits) {
                        *key += *digit as u64 * weight;
                    }
                }
            }
        }
        (keys, key.iter().map(|axis| self.extent[*axis]).product())
    }

    fn unfold_ids(&self, axes: &[usize], ids: &[u64], columns: &mut [&mut [i64]]) {
        if let [axis] = axes {
            let from = self.origin[*axis];
            for (value, id) in columns[*axis].iter_mut().zip(ids) {
                *value = (id + from) as i64;
            }
            return;
        }
        let mut rest = [0u64; PIECE];
        for (piece, ids) in ids.chunks(PIECE).enumerate() {
            let rest = &mut rest[..ids.len()];
            rest.copy_from_slice(ids);
            for (position, axis) in axes.iter().enumerate().rev() {
                let (from, extent) = (self.origin[*axis], self.extent[*axis]);
                let values = &mut columns[*axis][piece * PIECE..][..ids.len()];
                if extent == 1 {
                    values.fill(from as i64);
                } else if position == 0 {
                    for (value, rest) in values.iter_mut().zip(&*rest) {
                        *value = (rest + from) as i64;
                    }
                } else {
                    take_digit(rest, extent, from, values);
                }
            }
        }
    }
}

/// Divides by `extent`, which is at least 2: the remainder, moved by `from`, goes to `values`, the quotient stays.
fn take_digit(rest: &mut [u64], extent: u64, from: u64, values: &mut [i64]) {
    let largest = rest.iter().fold(0, |all, rest| all | rest);
    if largest <= u64::from(u32::MAX) && extent <= u64::from(u32::MAX) {
        // For 32-bit numbers the upper half of a product with the rounded-up reciprocal is the quotient.
        let reciprocal = u64::MAX / extent + 1;
        for (value, rest) in values.iter_mut().zip(rest) {
            let quotient = ((u128::from(reciprocal) * u128::from(*rest)) >> 64) as u64;
            *value = (*rest - quotient * extent + from) as i64;
            *rest = quotient;
        }
    } else {
        for (value, rest) in values.iter_mut().zip(rest) {
            *value = (*rest % extent + from) as i64;
            *rest /= extent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_exact() {
        for extent in [2u64, 3, 5, 7, 24, 887, 1410, 65_537, 1 << 31, u32::MAX as u64] {
            let multiples = (0..4).map(|k| (u32::MAX as u64 / extent / 3 * k) * extent);
            let numbers: Vec<u64> =
                multiples.flat_map(|m| [m.saturating_sub(1), m, m + 1]).chain([u32::MAX as u64]).collect();
            for shift in [0, 20] {
                let mut rest: Vec<u64> = numbers.iter().map(|number| number << shift).collect();
                let before = rest.clone();
                let mut values = vec![0; rest.len()];
                take_digit(&mut rest, extent, 10, &mut values);
                for ((before, rest), value) in before.iter().zip(&rest).zip(&values) {
                    assert_eq!((*rest, *value), (before / extent, (before % extent + 10) as i64));
                }
            }
        }
    }

    #[test]
    fn keys_order_by_their_axes() {
        let levels = Levels { axes: vec![vec![2, 0, 3, 1]], origin: vec![0; 4], extent: vec![4, 5, 6, 1] };
        let ids: Vec<u64> = (0..120).collect();
        let mut columns = vec![vec![0i64; 120]; 4];
        let mut slices: Vec<&mut [i64]> = columns.iter_mut().map(|column| &mut column[..]).collect();
        levels.unfold(&[Level { ids: ids.clone(), leaves: vec![] }], &mut slices);
        for key in [&[][..], &[0], &[1], &[2], &[0, 1], &[1, 2], &[3, 0], &[2, 1, 0]] {
            let (keys, limit) = levels.keys(&levels.axes[0], &ids, key);
            for (i, found) in keys.iter().enumerate() {
                let fold = |sum, axis: &usize| sum * levels.extent[*axis] + columns[*axis][i] as u64;
                assert_eq!(*found, key.iter().fold(0, fold), "{key:?}");
                assert!(*found < limit);
            }
        }
    }

    #[test]
    fn folding_is_undone() {
        let columns: [&[i64]; 3] = [&[5, 5, 6], &[7, 9, 7], &[0, 1, 0]];
        for axes in [vec![vec![0, 1, 2]], vec![vec![2], vec![1, 0]], vec![vec![], vec![1], vec![2, 0]]] {
            let levels = Levels { axes, origin: vec![5, 7, 0], extent: vec![2, 3, 2] };
            let folded = levels.fold(&columns, 0..3);
            let decoded: Vec<Level> = folded.into_iter().map(|ids| Level { ids, leaves: vec![] }).collect();
            let mut back = vec![vec![0i64; 3]; 3];
            let mut slices: Vec<&mut [i64]> = back.iter_mut().map(|column| &mut column[..]).collect();
            levels.unfold(&decoded, &mut slices);
            assert_eq!(back, columns);
        }
    }
}
