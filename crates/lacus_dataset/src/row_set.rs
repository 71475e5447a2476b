//! Ids of rows, in an order, repeats allowed. Rows that follow each other cost nothing, however many they are.
//!
//! ```text
//! [7, 8, 9, 10, 3, 1, 20, 18, 16] → Run 7 +1 ×4, List [3, 1], Run 20 -2 ×3
//! ```

use std::fmt;

/// Ids of rows in an order. Cheap to clone if it is in an `Arc`; the memory it takes follows how irregular the order is: a run
/// of any length takes a few bytes, anything else eight bytes a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSet {
    pieces: Vec<Piece>,
    /// Where each piece ends: how many rows it and those before it have.
    ends: Vec<u64>,
}

/// Some ids.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// `first`, `first + step`, …: `count` of them.
    Run { first: u64, step: i64, count: u64 },
    /// Ids one by one.
    List(Vec<u64>),
}

/// What the bytes of a row set are, in the first byte.
const FORM: u8 = 1;

/// A run shorter than this is kept as a list: it would take more room.
const SHORTEST_RUN: usize = 4;

/// Bytes that are no row set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRows(String);

impl fmt::Display for BadRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rows cannot be read: {}", self.0)
    }
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Piece::Run { count, .. } => *count,
            Piece::List(ids) => ids.len() as u64,
        }
    }

    fn get(&self, place: u64) -> u64 {
        match self {
            Piece::Run { first, step, .. } => first.wrapping_add_signed(step.wrapping_mul(place as i64)),
            Piece::List(ids) => ids[place as usize],
        }
    }

    /// Every `step`-th of the places from `start` on, `count` of them. The places are there.
    fn every(&self, start: u64, step: i64, count: u64) -> Piece {
        match self {
            Piece::Run { step: own, .. } => {
                Piece::Run { first: self.get(start), step: own.wrapping_mul(step), count }
            }
            Piece::List(ids) => {
                let place = |i: u64| start.wrapping_add_signed(step.wrapping_mul(i as i64)) as usize;
                Piece::List((0..count).map(|i| ids[place(i)]).collect())
            }
        }
    }
}

impl RowSet {
    /// No rows.
    pub fn new() -> RowSet {
        RowSet::default()
    }

    /// `count` rows from `first` on.
    pub fn run(first: u64, count: u64) -> RowSet {
        let mut set = RowSet::new();
        set.push(Piece::Run { first, step: 1, count });
        set
    }

    /// Runs of rows, as a table's row axis has them: the first id and how many.
    pub fn from_runs(runs: impl IntoIterator<Item = (u64, u64)>) -> RowSet {
        let mut set = RowSet::new();
        for (first, count) in runs {
            set.push(Piece::Run { first, step: 1, count });
        }
        set
    }

    /// How many rows there are, repeats counted.
    pub fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id at a place.
    pub fn get(&self, place: u64) -> Option<u64> {
        let at = self.ends.partition_point(|end| *end <= place);
        let piece = self.pieces.get(at)?;
        Some(piece.get(place - self.start_of(at)))
    }

    fn start_of(&self, at: usize) -> u64 {
        if at == 0 { 0 } else { self.ends[at - 1] }
    }

    /// All ids in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces.iter().flat_map(|piece| (0..piece.len()).map(|place| piece.get(place)))
    }

    /// The ids in order as runs that go up by one: how tables take them.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::with_capacity(self.pieces.len());
        let mut add = |first: u64, count: u64| match runs.last_mut() {
            Some((start, length)) if start.checked_add(*length) == Some(first) => *length += count,
            _ => runs.push((first, count)),
        };
        for piece in &self.pieces {
            match piece {
                Piece::Run { first, step: 1, count } => add(*first, *count),
                piece => (0..piece.len()).for_each(|place| add(piece.get(place), 1)),
            }
        }
        runs
    }

    /// The first id that is in none of some runs; they may be in any order.
    pub fn first_outside(&self, runs: &[(u64, u64)]) -> Option<u64> {
        let mut spans = runs.to_vec();
        spans.sort_unstable();
        // Spans that follow each other without a gap are one: first id, and the one past the last.
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(spans.len());
        for (first, count) in spans {
            let end = first.saturating_add(count);
            match joined.last_mut() {
                Some((_, until)) if *until >= first => *until = end.max(*until),
                _ => joined.push((first, end)),
            }
        }
        let span = |id: u64| {
            let at = joined.partition_point(|(start, _)| *start <= id).checked_sub(1)?;
            (id < joined[at].1).then_some(at)
        };
        let is_outside = |id: &u64| span(*id).is_none();
        self.pieces.iter().find_map(|piece| match piece {
            Piece::List(ids) => ids.iter().copied().find(is_outside),
            // What lies between two ids of one span is in it.
            Piece::Run { count, .. } => match (span(piece.get(0)), span(piece.get(count - 1))) {
                (Some(first), Some(last)) if first == last => None,
                // More different ids than there are rows: one of them is soon found to be outside.
                _ => (0..*count).map(|place| piece.get(place)).find(is_outside),
            },
        })
    }

    /// The rows at `count` places: `start`, `start + step`, … All of them must be there.
    ///
    /// # Panics
    ///
    /// If one of the places is past the end.
    pub fn every(&self, start: u64, step: i64, count: u64) -> RowSet {
        let mut set = RowSet::new();
        if count == 0 {
            return set;
        }
        let last = start.wrapping_add_signed(step.wrapping_mul(count as i64 - 1));
        assert!(start < self.len() && last < self.len(), "places {start} to {last} of {} rows", self.len());
        let (mut place, mut left) = (start, count);
        while left > 0 {
            let at = self.ends.partition_point(|end| *end <= place);
            let (from, end) = (self.start_of(at), self.ends[at]);
            // How many of the places are in this piece.
            let here = match step {
                0 => left,
                step if step > 0 => (end - place).div_ceil(step.unsigned_abs()),
                step => (place - from) / step.unsigned_abs() + 1,
            }
            .min(left);
            set.push(self.pieces[at].every(place - from, step, here));
            place = place.wrapping_add_signed(step.wrapping_mul(here as i64));
            left -= here;
        }
        set
    }

    /// The rows at some places, in their order; `None` if one is not there.
    pub fn take(&self, places: impl IntoIterator<Item = u64>) -> Option<RowSet> {
        places.into_iter().map(|place| self.get(place)).collect()
    }

    /// These rows, then others.
    pub fn concat(&self, others: &RowSet) -> RowSet {
        let mut set = self.clone();
        others.pieces.iter().for_each(|piece| set.push(piece.clone()));
        set
    }

    /// Adds a piece at the end, joined with the last one where that is possible.
    fn push(&mut self, piece: Piece) {
        let count = piece.len();
        if count == 0 {
            return;
        }
        let end = self.len() + count;
        match (self.pieces.last_mut(), piece) {
            (
                Some(Piece::Run { first, step, count }),
                Piece::Run { first: next, step: other, count: more },
            ) if (*step == other || more == 1)
                && first.checked_add_signed(step.wrapping_mul(*count as i64)) == Some(next) =>
            {
                *count += more;
            }
            (Some(Piece::List(ids)), Piece::List(more)) => ids.extend(more),
            (_, piece) => {
                self.pieces.push(piece);
                self.ends.push(end);
                return;
            }
        }
        if let Some(last) = self.ends.last_mut() {
            *last = end;
        }
    }

    /// The ids as bytes: a few for a run of any length, one to three for a row of a shuffled set.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        put(&mut bytes, self.pieces.len() as u64);
        let mut before = 0;
        let mut difference = |bytes: &mut Vec<u8>, id: u64| {
            put_signed(bytes, id.wrapping_sub(before) as i64);
            before = id;
        };
        for piece in &self.pieces {
            match piece {
                Piece::Run { first, step, count } => {
                    put(&mut bytes, count << 1);
                    put_signed(&mut bytes, *step);
                    difference(&mut bytes, *first);
                }
                Piece::List(ids) => {
                    put(&mut bytes, (ids.len() as u64) << 1 | 1);
                    ids.iter().for_each(|id| difference(&mut bytes, *id));
                }
            }
        }
        bytes
    }

    /// What [`RowSet::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<RowSet, BadRows> {
        let bad = |what: &str| BadRows(what.to_owned());
        let mut bytes = match bytes {
            [FORM, rest @ ..] => rest,
            [form, ..] => return Err(BadRows(format!("form {form} is not known to this version"))),
            [] => return Err(bad("there is nothing")),
        };
        let pieces = take(&mut bytes).ok_or_else(|| bad("they are cut off"))?;
        let mut set = RowSet::new();
        let mut before = 0u64;
        for _ in 0..pieces {
            let (count, is_list) = match take(&mut bytes) {
                Some(number) => (number >> 1, number & 1 == 1),
                None => return Err(bad("they are cut off")),
            };
            let mut next = |bytes: &mut &[u8]| {
                before = before.wrapping_add_signed(take_signed(bytes)?);
                Some(before)
            };
            let piece = match is_list {
                // Every id takes a byte at least: no number makes us ask for more memory than there are bytes.
                true if count > bytes.len() as u64 => None,
                true => (0..count).map(|_| next(&mut bytes)).collect::<Option<_>>().map(Piece::List),
                false => take_signed(&mut bytes).zip(next(&mut bytes)).and_then(|(step, first)| {
                    let last = step.checked_mul(i64::try_from(count.checked_sub(1)?).ok()?)?;
                    first.checked_add_signed(last)?;
                    Some(Piece::Run { first, step, count })
                }),
            };
            let piece = piece.ok_or_else(|| bad("they are cut off, or an id is not a number of 64 bits"))?;
            set.len().checked_add(piece.len()).ok_or_else(|| bad("there are too many"))?;
            set.push(piece);
        }
        match bytes.is_empty() {
            true => Ok(set),
            false => Err(bad("something follows them")),
        }
    }
}

impl FromIterator<u64> for RowSet {
    fn from_iter<I: IntoIterator<Item = u64>>(ids: I) -> RowSet {
        let mut set = RowSet::new();
        let mut list: Vec<u64> = Vec::new();
        // The end of the list that may be the beginning of a run: where it begins, and its step.
        let mut tail = 0;
        let mut ids = ids.into_iter().peekable();
        while let Some(id) = ids.next() {
            list.push(id);
            let step = |a: u64, b: u64| i64::try_from(i128::from(b) - i128::from(a)).ok();
            let count = list.len() - tail;
            if count > 2 && step(list[tail], list[tail + 1]) != step(list[list.len() - 2], id) {
                tail = list.len() - 2;
                continue;
            }
            let Some(step) = (count >= SHORTEST_RUN).then(|| step(list[tail], list[tail + 1])).flatten()
            else {
                continue;
            };
            // It is one: it goes on for as long as ids follow.
            let (first, mut count, mut last) = (list[tail], count as u64, id);
            while let Some(next) = ids.next_if(|next| last.checked_add_signed(step) == Some(*next)) {
                (count, last) = (count + 1, next);
            }
            list.truncate(tail);
            set.push(Piece::List(std::mem::take(&mut list)));
            set.push(Piece::Run { first, step, count });
            tail = 0;
        }
        set.push(Piece::List(list));
        set
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, ((number << 1) ^ (number >> 63)) as u64);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if place == 9 && part > 1 {
            return None;
        }
        number |= part << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes).map(|number| (number >> 1) as i64 ^ -((number & 1) as i64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ids as people choose them: runs up and down, repeats, anything.
    fn ids() -> impl Strategy<Value = Vec<u64>> {
        let run = (0u64..50, -3i64..4, 0usize..12).prop_map(|(first, step, count)| {
            (0..count).map(|i| (1000 + first).wrapping_add_signed(step * i as i64)).collect::<Vec<_>>()
        });
        let any = prop_oneof![0u64..20, any::<u64>()];
        prop::collection::vec(prop_oneof![run, prop::collection::vec(any, 0..6)], 0..8)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn a_set_is_the_list_of_its_ids(ids in ids(), more in ids()) {
            let set: RowSet = ids.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), ids.clone());
            prop_assert_eq!(set.len(), ids.len() as u64);
            for (place, id) in ids.iter().enumerate() {
                prop_assert_eq!(set.get(place as u64), Some(*id));
            }
            prop_assert_eq!(set.get(ids.len() as u64), None);
            let runs: Vec<u64> = set.runs().into_iter().flat_map(|(first, count)| (0..count).map(move |i| first + i)).collect();
            prop_assert_eq!(&runs, &ids);
            prop_assert_eq!(RowSet::from_bytes(&set.to_bytes()), Ok(set.clone()));
            let other: RowSet = more.iter().copied().collect();
            prop_assert_eq!(set.concat(&other).iter().collect::<Vec<_>>(), [ids, more].concat());
        }

        #[test]
        fn every_takes_what_a_slice_takes(ids in ids(), start in 0usize..60, step in -5i64..6, count in 0u64..60) {
            let set: RowSet = ids.iter().copied().collect();
            let wanted: Vec<i64> = (0..count as i64).map(|i| start as i64 + step * i).take_while(|at| (0..ids.len() as i64).contains(at)).collect();
            let expected: Vec<u64> = wanted.iter().map(|at| ids[*at as usize]).collect();
            prop_assert_eq!(set.every(start as u64, step, wanted.len() as u64).iter().collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(set.take(wanted.iter().map(|at| *at as u64)).unwrap().iter().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn foreign_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(set) = RowSet::from_bytes(&bytes) {
                prop_assert!(set.pieces.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_hundred_million_rows_take_bytes() {
        let set = RowSet::run(5, 100_000_000);
        assert!(set.to_bytes().len() < 12);
        let odd = set.every(1, 2, 50_000_000);
        assert_eq!((odd.pieces.len(), odd.get(1)), (1, Some(8)));
        let back = odd.every(49_999_999, -1, 50_000_000);
        assert_eq!((back.pieces.len(), back.get(0), back.get(49_999_999)), (1, odd.get(49_999_999), Some(6)));
        let backwards = |set: &RowSet| set.every(set.len() - 1, -1, set.len());
        assert_eq!(backwards(&back), odd);
    }

    #[test]
    fn rows_that_are_gone_are_found() {
        let known = [(20, 5), (0, 10), (10, 5)];
        let missing = |ids: &[u64]| ids.iter().copied().collect::<RowSet>().first_outside(&known);
        assert_eq!(missing(&[0, 14, 20, 24, 3, 3]), None);
        assert_eq!(missing(&[0, 1, 2, 15]), Some(15));
        assert_eq!(missing(&(5..30).collect::<Vec<_>>()), Some(15));
        assert_eq!(missing(&[25]), Some(25));
        assert_eq!(missing(&[14, 12, 10, 8, 6, 4, 2, 0]), None);
        assert_eq!(RowSet::run(0, 3).first_outside(&[]), Some(0));
        let endless =
            RowSet { pieces: vec![Piece::Run { first: 3, step: 0, count: 1 << 62 }], ends: vec![1 << 62] };
        assert_eq!(endless.first_outside(&known), None);
        let wide =
            RowSet { pieces: vec![Piece::Run { first: 3, step: 2, count: 1 << 61 }], ends: vec![1 << 61] };
        assert_eq!(wide.first_outside(&known), Some(15));
        assert_eq!(RowSet::run(u64::MAX, 1).runs(), [(u64::MAX, 1)]);
        assert_eq!(RowSet::run(u64::MAX, 1).first_outside(&known), Some(u64::MAX));
    }

    #[test]
    fn bytes_of_a_later_form_say_so() {
        let error = RowSet::from_bytes(&[9, 0]).unwrap_err().to_string();
        assert!(error.contains("form 9"), "{error}");
    }
}
