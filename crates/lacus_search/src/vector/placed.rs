//! Rows of a view as runs of ids with their places, and sets of ids as runs.

use lacus_dataset::{PlacedRun, View};

/// All rows of a view, ascending by id.
pub(crate) fn all_rows(view: &View) -> Vec<PlacedRun> {
    let mut place = 0;
    let placed = |(id, count): (u64, u64)| {
        place += count;
        PlacedRun { place: place - count, id, count }
    };
    by_id(view.rows().runs().into_iter().map(placed).collect())
}

/// The rows at some places of a view, ascending by id. Places that are not there are left out.
pub(crate) fn rows_at(view: &View, places: &[u64]) -> Vec<PlacedRun> {
    let mut runs: Vec<PlacedRun> = Vec::new();
    for &place in places {
        let Some(id) = view.rows().get(place) else { continue };
        match runs.last_mut() {
            Some(last) if last.id + last.count == id && last.place + last.count == place => last.count += 1,
            _ => runs.push(PlacedRun { place, id, count: 1 }),
        }
    }
    by_id(runs)
}

fn by_id(mut runs: Vec<PlacedRun>) -> Vec<PlacedRun> {
    runs.sort_unstable_by_key(|run| (run.id, run.place));
    runs
}

/// How many rows runs have.
pub(crate) fn count(runs: &[PlacedRun]) -> u64 {
    runs.iter().map(|run| run.count).sum()
}

/// Whether a row is there twice. The runs ascend by id.
pub(crate) fn has_repeats(runs: &[PlacedRun]) -> bool {
    runs.windows(2).any(|pair| pair[0].id + pair[0].count > pair[1].id)
}

/// The part of a run that has ids from `first` to before `end`.
pub(crate) fn between(run: &PlacedRun, first: u64, end: u64) -> Option<PlacedRun> {
    let (low, high) = (run.id.max(first), (run.id + run.count).min(end));
    (low < high).then(|| PlacedRun { place: run.place + (low - run.id), id: low, count: high - low })
}

/// The rows that are in a set of ids (runs of first id and count that ascend), and those that are not.
pub(crate) fn split(runs: &[PlacedRun], set: &[(u64, u64)]) -> (Vec<PlacedRun>, Vec<PlacedRun>) {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for run in runs {
        let end = run.id + run.count;
        let mut from = run.id;
        let at = set.partition_point(|(first, count)| first + count <= run.id);
        for &(first, count) in set[at..].iter().take_while(|(first, _)| *first < end) {
            outside.extend(between(run, from, first));
            inside.extend(between(run, first, first + count));
            from = first + count;
        }
        outside.extend(between(run, from, end));
    }
    (inside, outside)
}

/// The place of a row among runs that ascend by id and have no repeats.
pub(crate) fn place_of(runs: &[PlacedRun], id: u64) -> Option<u64> {
    let at = runs.partition_point(|run| run.id + run.count <= id);
    let run = runs.get(at).filter(|run| run.id <= id)?;
    Some(run.place + (id - run.id))
}

/// Adds ids to runs that ascend.
pub(crate) fn extend(runs: &mut Vec<(u64, u64)>, first: u64, count: u64) {
    match runs.last_mut() {
        Some((start, length)) if *start + *length == first => *length += count,
        _ => runs.push((first, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_split_by_sets() {
        let run = |place, id, count| PlacedRun { place, id, count };
        let runs = [run(100, 5, 10), run(0, 20, 2)];
        let (inside, outside) = split(&runs, &[(0, 6), (8, 2), (14, 7), (40, 1)]);
        assert_eq!(inside, [run(100, 5, 1), run(103, 8, 2), run(109, 14, 1), run(0, 20, 1)]);
        assert_eq!(outside, [run(101, 6, 2), run(105, 10, 4), run(1, 21, 1)]);
        assert_eq!(
            (place_of(&runs, 14), place_of(&runs, 15), place_of(&runs, 21)),
            (Some(109), None, Some(1))
        );
        assert!(!has_repeats(&runs) && has_repeats(&[run(0, 5, 2), run(7, 6, 1)]));
        assert_eq!(count(&inside) + count(&outside), count(&runs));
    }
}
