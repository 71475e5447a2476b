//! TensorPlanner's assignment, bottom-up over what the search chose: what folds pairs (a group-by-join) stays on its
//! grid, and every tile of a cell-wise operator goes to the producer of one of its tiles that has less to do so far.
//!
//! The search knows where tiles come from but not how much each site has to do, and of two producers either one spares
//! the same. Work counts as the planner counts it: tiles that go in, and those that come from elsewhere once more.

use super::candidates::{candidate, follow};
use super::model::Model;
use super::{Cache, Weigh, eliminate::Cost};
use crate::network::Read;
use crate::spread::Spread;
use crate::tiling::each_of;

/// Tiles that are looked at, at most: a value that all operators read is looked at for each of them.
const MAX_WORK: u128 = 50_000_000;

/// The choice with tiles of cell-wise operators moved to the less loaded producer, where that costs no more.
pub(super) fn balance(model: &mut Model<'_>, mut chosen: Vec<usize>, mut cache: Cache) -> Vec<usize> {
    let mut loads = vec![0.0f64; model.options.sites as usize];
    let mut work = 0u128;
    for node in 0..chosen.len() {
        if work > MAX_WORK {
            break;
        }
        if let Some(spread) = less_loaded(model, node, &chosen, &loads) {
            let ranges = model.typical(model.nodes[node].tiled.operator.output);
            let new = candidate(model, node, spread, &ranges);
            model.nodes[node].candidates.push(new);
            let last = model.nodes[node].candidates.len() - 1;
            let mut weigh = Weigh::new(model, cache);
            work += 2 * weigh.local_work(node);
            let before = std::mem::replace(&mut chosen[node], last);
            let new = weigh.local(node, &chosen);
            chosen[node] = before;
            // Of equal ones the new one.
            let no_worse = |new: Cost, old: Cost| new.0 <= old.0;
            if no_worse(new, weigh.local(node, &chosen)) {
                chosen[node] = last;
            }
            cache = weigh.cache;
        }
        add_load(model, node, &chosen, &mut loads);
    }
    chosen
}

/// The sites of a cell-wise operator's tiles by less loaded producer; `None` where its producers agree.
fn less_loaded(model: &Model<'_>, node: usize, chosen: &[usize], loads: &[f64]) -> Option<Spread> {
    let tiled = &model.nodes[node].tiled;
    if tiled.operator.fold.is_some() || !model.nodes[node].candidates[chosen[node]].spread.is_by_tile() {
        return None;
    }
    let ranges = model.typical(tiled.operator.output);
    let produced = |read: &Read| {
        let homes = model.homes(read.value, chosen)?;
        match follow(model, tiled, read, &homes, &ranges)? {
            Spread::Table(table) => Some(table),
            Spread::Grid(_) => None,
        }
    };
    let tables: Vec<_> = tiled.operator.reads.iter().filter_map(produced).collect();
    if tables.len() < 2 || tables.iter().all(|table| table == &tables[0]) {
        return None;
    }
    let mut loads = loads.to_vec();
    let mut result = Vec::with_capacity(tables[0].len());
    for tile in 0..tables[0].len() {
        let elsewhere = |site: u32| tables.iter().filter(|table| table[tile] != site).count() as f64;
        let cost = |site: u32| loads[site as usize] + elsewhere(site);
        let site = tables.iter().map(|table| table[tile]).min_by(|a, b| cost(*a).total_cmp(&cost(*b)))?;
        loads[site as usize] += tables.len() as f64 + elsewhere(site);
        result.push(site);
    }
    Some(Spread::Table(result.into()))
}

fn add_load(model: &Model<'_>, node: usize, chosen: &[usize], loads: &mut [f64]) {
    let own = &model.nodes[node];
    let candidate = &own.candidates[chosen[node]];
    let steps: u64 = own.tiled.labels.counts.iter().product();
    let per_step = own.tiled.operator.reads.len() as f64;
    if let Spread::Grid(grid) = &candidate.spread {
        // Along a grid every site has nearly the same.
        let used = grid.iter().product::<u64>().max(1);
        (0..used as usize).for_each(|site| loads[site] += per_step * steps as f64 / used as f64);
        return;
    }
    let sites = candidate.spread.sites(own.tiled.rank);
    each_of(&own.tiled.labels.counts, &mut |at| {
        loads[sites.of(at, &own.tiled.labels.counts) as usize] += per_step;
    });
}
