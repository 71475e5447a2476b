//! Orders of nonzeros: sorted by one order of axes, wanted in another.
//!
//! Nonzeros that lie in some order of axes are brought into another by a *stable* sort on as few leading
//! axes as possible: what follows them is often in order already. From (lat, lon, hour, day) back to
//! (day, hour, lat, lon) the key is just (day, hour), one counting pass.

use crate::header::product;

/// The stable order that brings nonzeros, sorted by the axes `from`, into the order of the axes `to`;
/// `None` if they lie in it already. `columns` and `dims` are indexed by axis.
pub(crate) fn reorder(columns: &[&[i64]], dims: &[u64], from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let n = columns.first().map_or(0, |column| column.len());
    let key = key_axes(from, to);
    if key.is_empty() {
        return None;
    }
    let key_dims: Vec<u64> = key.iter().map(|axis| dims[*axis]).collect();
    match product(&key_dims) {
        Some(limit) => stable_order(n, limit, |i| {
            key.iter().fold(0, |sum, axis| sum * dims[*axis] + columns[*axis][i] as u64)
        }),
        None => {
            let compare = |a: &usize, b: &usize| {
                let unequal =
                    key.iter().map(|axis| columns[*axis][*a].cmp(&columns[*axis][*b])).find(|o| o.is_ne());
                unequal.unwrap_or(std::cmp::Ordering::Equal)
            };
            let mut order: Vec<usize> = (0..n).collect();
            if order.is_sorted_by(|a, b| compare(a, b).is_le()) {
                return None;
            }
            order.sort_by(compare);
            Some(order)
        }
    }
}

/// The axes that a stable sort from one order into another has to look at.
pub(crate) fn key_axes<'a>(from: &[usize], to: &'a [usize]) -> &'a [usize] {
    let keyed = (0..to.len()).find(|k| {
        let mut rest = from.iter().filter(|axis| !to[..*k].contains(*axis));
        to[*k..].iter().all(|axis| rest.next() == Some(axis))
    });
    &to[..keyed.unwrap_or(to.len())]
}

/// The stable order of `0..n` by `key`, all of whose values are below `limit`; `None` if it is `0..n`.
pub(crate) fn stable_order(n: usize, limit: u64, key: impl Fn(usize) -> u64) -> Option<Vec<usize>> {
    if n < 2 {
        return None;
    }
    let key_bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
    if key_bits <= DIGIT_BITS {
        return counting_order(n, limit as usize, key);
    }
    let place_bits = usize::BITS - (n - 1).leading_zeros();
    if key_bits + place_bits > u64::BITS {
        let mut pairs: Vec<(u64, usize)> = (0..n).map(|i| (key(i), i)).collect();
        if pairs.is_sorted() {
            return None;
        }
        pairs.sort_unstable();
        return Some(pairs.into_iter().map(|(_, place)| place).collect());
    }
    // Key and place in one word: half the memory to move.
    let mut words: Vec<u64> = Vec::with_capacity(n);
    let mut sorted = true;
    let mut last = 0;
    for i in 0..n {
        let key = key(i);
        sorted &= last <= key;
        last = key;
        words.push(key << place_bits | i as u64);
    }
    if sorted {
        return None;
    }
    if n < RADIX_FROM {
        words.sort_unstable();
    } else {
        radix_sort(&mut words, &mut Vec::new(), place_bits, key_bits);
    }
    let mask = (1u64 << place_bits) - 1;
    Some(words.into_iter().map(|word| (word & mask) as usize).collect())
}

/// [`stable_order`] for few different keys: count them, then give out places.
fn counting_order(n: usize, limit: usize, key: impl Fn(usize) -> u64) -> Option<Vec<usize>> {
    let keys: Vec<u16> = (0..n).map(|i| key(i) as u16).collect();
    if keys.is_sorted() {
        return None;
    }
    let mut places = vec![0usize; limit];
    for key in &keys {
        places[*key as usize] += 1;
    }
    let mut next = 0;
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    let mut order = vec![0; n];
    for (i, key) in keys.iter().enumerate() {
        let place = &mut places[*key as usize];
        order[*place] = i;
        *place += 1;
    }
    Some(order)
}

/// Sorts different numbers, all below `limit`, and leaves in `words` where each of them was; false, with
/// nothing done, if they are sorted.
pub(crate) fn sort_in_place(numbers: &mut [u64], limit: u64, [words, spare]: &mut [Vec<u64>; 2]) -> bool {
    if numbers.is_sorted() {
        return false;
    }
    let number_bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
    let place_bits = usize::BITS - (numbers.len() - 1).leading_zeros();
    words.clear();
    if number_bits + place_bits > u64::BITS {
        let mut pairs: Vec<(u64, u64)> = numbers.iter().copied().zip(0..).collect();
        pairs.sort_unstable();
        for (number, (sorted, _)) in numbers.iter_mut().zip(&pairs) {
            *number = *sorted;
        }
        words.extend(pairs.into_iter().map(|(_, place)| place));
        return true;
    }
    words.extend(numbers.iter().zip(0..).map(|(number, place)| number << place_bits | place));
    match words.len() < RADIX_FROM {
        true => words.sort_unstable(),
        false => radix_sort(words, spare, place_bits, number_bits),
    }
    let mask = (1u64 << place_bits) - 1;
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = *word >> place_bits;
        *word &= mask;
    }
    true
}

/// Sorts numbers, all below `limit`.
pub(crate) fn sort_numbers(numbers: &mut Vec<u64>, limit: u64) {
    if numbers.is_sorted() {
        return;
    }
    match numbers.len() < RADIX_FROM {
        true => numbers.sort_unstable(),
        false => {
            let bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
            radix_sort(numbers, &mut Vec::new(), 0, bits);
        }
    }
}

/// Below this, the counters of a radix sort cost more than comparisons.
const RADIX_FROM: usize = 1 << 10;

/// Buckets of one pass: their write positions still fit the first-level cache.
const DIGIT_BITS: u32 = 12;

/// Sorts by the `bits` bits above the lowest `skip`, low digits first.
fn radix_sort(words: &mut Vec<u64>, spare: &mut Vec<u64>, skip: u32, bits: u32) {
    let passes = bits.div_ceil(DIGIT_BITS);
    spare.resize(words.len(), 0);
    let mut low = skip;
    for pass in 0..passes {
        let digit_bits = (skip + bits - low).div_ceil(passes - pass);
        let mask = (1u64 << digit_bits) - 1;
        let digit = |word: u64| (word >> low & mask) as usize;
        let mut places = vec![0usize; 1 << digit_bits];
        for word in words.iter() {
            places[digit(*word)] += 1;
        }
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for word in words.iter() {
            let place = &mut places[digit(*word)];
            spare[*place] = *word;
            *place += 1;
        }
        std::mem::swap(words, spare);
        low += digit_bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_stable() {
        let noise = |i: usize| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        for n in [0, 1, 2, 100, 1023, 1024, 5000] {
            for limit in [1, 2, 24, 3000, 1 << 33, 1 << 44, u64::MAX] {
                let key = |i: usize| if limit == u64::MAX { noise(i) << 20 } else { noise(i) % limit };
                let mut expected: Vec<usize> = (0..n).collect();
                expected.sort_by_key(|i| key(*i));
                let found = stable_order(n, limit, key).unwrap_or_else(|| (0..n).collect());
                assert_eq!(found, expected, "n {n}, limit {limit}");
            }
        }
        assert_eq!(stable_order(9, 100, |i| i as u64 / 2), None);
    }

    #[test]
    fn sorted_numbers_tell_where_they_were() {
        let mut buffers = [Vec::new(), Vec::new()];
        for n in [2usize, 100, 1024, 5000] {
            for limit in [1u64 << 20, 1 << 50, u64::MAX] {
                let step = limit / (n as u64 + 1);
                let before: Vec<u64> = (0..n).map(|i| (i * 7919 % n) as u64 * step).collect();
                let mut after = before.clone();
                let moved = sort_in_place(&mut after, limit, &mut buffers);
                assert!(after.is_sorted());
                assert_eq!(moved, !before.is_sorted());
                if moved {
                    let places = buffers[0].iter().map(|place| before[*place as usize]);
                    assert!(places.eq(after.iter().copied()), "n {n}, limit {limit}");
                }
            }
        }
    }

    #[test]
    fn axes_change_places() {
        let dims = [3, 4, 5];
        let cells: Vec<[i64; 3]> =
            (0..60).filter(|i| i % 7 != 3).map(|i| [i / 20, i / 5 % 4, i % 5]).collect();
        for (from, to) in
            [([0, 1, 2], [2, 0, 1]), ([2, 0, 1], [0, 1, 2]), ([1, 0, 2], [2, 1, 0]), ([0, 2, 1], [0, 2, 1])]
        {
            let by = |order: [usize; 3]| {
                let mut cells = cells.clone();
                cells.sort_by_key(|cell| order.map(|axis| cell[axis]));
                cells
            };
            let start = by(from);
            let columns: Vec<Vec<i64>> =
                (0..3).map(|axis| start.iter().map(|cell| cell[axis]).collect()).collect();
            let columns: Vec<&[i64]> = columns.iter().map(|column| &column[..]).collect();
            for dims in [dims.to_vec(), vec![1 << 40; 3]] {
                let order =
                    reorder(&columns, &dims, &from, &to).unwrap_or_else(|| (0..cells.len()).collect());
                let found: Vec<[i64; 3]> = order.iter().map(|i| start[*i]).collect();
                assert_eq!(found, by(to), "{from:?} to {to:?}");
            }
        }
    }
}
