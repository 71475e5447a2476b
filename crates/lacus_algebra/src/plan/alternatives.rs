//! What else was considered, and why it lost.

use super::{Alternative, number_of};
use crate::expr::Slot;
use crate::machine::Objective;
use crate::search::candidates::known_ways;
use crate::search::eliminate::Cost;
use crate::search::model::{Candidate, Doing, Model};
use crate::search::{Cache, Weigh};
use crate::spread::Spread;
use std::collections::BTreeMap;

/// Tiles that are looked at, at most: a value that all operators read is looked at for each of them. Operators that come
/// after that are planned just as well, but nothing is reported of what else was considered for them.
const MAX_WORK: u128 = 50_000_000;

/// For each operator other ways to run it, with everything else as it is.
pub(super) fn alternatives(model: &mut Model<'_>, chosen: &[usize]) -> Vec<(usize, Vec<Alternative>)> {
    let mut others: Vec<(usize, usize, String, usize)> = Vec::new();
    for (node, &choice) in chosen.iter().enumerate() {
        let Doing::Operator(at) = model.nodes[node].doing else { continue };
        let tiled = &model.nodes[node].tiled;
        let ways = known_ways(tiled.operator, tiled, model.options.sites);
        if ways.is_empty() {
            let count = model.nodes[node].candidates.len();
            let next = (0..count).filter(|&other| other != choice).take(2);
            others.extend(next.map(|other| (node, at, "another".to_owned(), other)));
            continue;
        }
        for (name, grid) in ways {
            let other = number_of(model, node, Spread::Grid(grid));
            others.push((node, at, name.to_owned(), other));
        }
    }
    let model = &*model;
    let mut weigh = Weigh::new(model, Cache::default());
    let best = weigh.total(chosen);
    let mut all: BTreeMap<usize, Vec<Alternative>> = BTreeMap::new();
    let mut changed = chosen.to_vec();
    let mut reads: Vec<Vec<(Slot, usize)>> = vec![Vec::new(); model.nodes.len()];
    for (&value, consumers) in &model.consumers {
        consumers.iter().enumerate().for_each(|(at, consumer)| reads[consumer.node].push((value, at)));
    }
    let mut work = 0u128;
    for (node, at, name, other) in others {
        if work > MAX_WORK {
            break;
        }
        let (old, new, looked_at) = weigh.compare(node, other, &mut changed, &reads[node]);
        work += looked_at;
        let total = Cost(best.0 - old.0 + new.0, best.1 - old.1 + new.1);
        let (own, new) = (&model.nodes[node].candidates[chosen[node]], &model.nodes[node].candidates[other]);
        let (floats, secs) = match model.options.objective {
            Objective::Moved => ((total.0, best.0), (total.1, best.1)),
            Objective::Time => ((total.1, best.1), (total.0, best.0)),
        };
        let reason = if other == chosen[node] || new.homes == own.homes && new.spread == own.spread {
            "it is the one chosen".to_owned()
        } else {
            why(model, own, new, floats, secs)
        };
        let spread = new.spread.clone();
        all.entry(at).or_default().push(Alternative { name, spread, moved_floats: floats.0 as u128, reason });
    }
    all.into_iter().collect()
}

fn why(model: &Model<'_>, own: &Candidate, new: &Candidate, floats: (f64, f64), secs: (f64, f64)) -> String {
    let least = model.options.least_sites().min(own.spread.used());
    let budget = model.options.memory_bytes.unwrap_or(u64::MAX);
    let moves = format!("moves {} more", (floats.0 - floats.1).max(0.0));
    let takes = format!("takes {:.3} s more", (secs.0 - secs.1).max(0.0));
    if new.memory_bytes > budget && own.memory_bytes <= budget {
        return format!("needs {} bytes on a site, of which there are {budget}", new.memory_bytes);
    }
    match model.options.objective {
        Objective::Moved if floats.0 > floats.1 => moves,
        Objective::Moved if new.spread.used() < least => {
            format!("uses {} sites, fewer than {least}", new.spread.used())
        }
        Objective::Moved if secs.0 > secs.1 => takes,
        Objective::Time if secs.0 > secs.1 && floats.0 > floats.1 => format!("{takes} and {moves}"),
        Objective::Time if secs.0 > secs.1 => takes,
        _ => "is no better".to_owned(),
    }
}
