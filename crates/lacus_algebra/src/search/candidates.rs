//! The ways to run a node that are looked at: grids over its labels, and where the tiles already are that it goes
//! through.

use super::model::{Candidate, Doing, Model};
use crate::expr::{Element, ElementNode};
use crate::machine::Objective;
use crate::network::{Network, Operator, Read};
use crate::spread::{Spread, grids};
use crate::tiling::each_of;
use crate::touch::{Ranges, Tiled};
use std::sync::Arc;

/// Grids of one node that are looked at, at most.
const MAX_GRIDS: usize = 512;

/// Candidates of one node that are kept, at most.
const MAX_CANDIDATES: usize = 96;

/// Candidates that follow each tensor a node reads, at most.
const MAX_FOLLOWED: usize = 24;

/// Steps of a node up to which candidates list the site of each.
const MAX_LISTED: u64 = 1 << 16;

/// Finds candidates for all nodes, in their order.
pub(crate) fn find(model: &mut Model<'_>) {
    for node in 0..model.nodes.len() {
        let found = for_node(model, node);
        model.nodes[node].candidates = found;
    }
    // What a loop carries may also stay where a round leaves it.
    for node in 0..model.nodes.len() {
        if let Doing::Carry(of, at) = model.nodes[node].doing {
            let next = model.network.loops[of].carried[at].next;
            let mut more = Vec::new();
            if let Some(&maker) = model.maker.get(&next) {
                for candidate in model.nodes[maker].candidates.iter().take(MAX_FOLLOWED) {
                    more.push(Spread::Table(Arc::clone(&candidate.homes)));
                }
            }
            add(model, node, more);
        }
    }
}

fn for_node(model: &Model<'_>, node: usize) -> Vec<Candidate> {
    let tiled = &model.nodes[node].tiled;
    let options = model.options;
    let all = grids(&tiled.labels.counts, options.sites, MAX_GRIDS);
    let used = |grid: &[u64]| grid.iter().product::<u64>();
    let most = all.iter().map(|grid| used(grid)).max().unwrap_or(1);
    let least = options.least_sites().min(most);
    let many = all.len() > MAX_CANDIDATES;
    let wanted = |grid: &Vec<u64>| match options.objective {
        Objective::Moved => used(grid) >= least,
        Objective::Time => !many || used(grid) >= least || used(grid).is_power_of_two(),
    };
    let ranges = model.typical(tiled.operator.output);
    let mut found: Vec<Candidate> = all
        .into_iter()
        .filter(wanted)
        .map(|grid| candidate(model, node, Spread::Grid(grid), &ranges))
        .collect();
    // Where only movement counts, what fits memory comes before what moves less.
    let fits =
        |candidate: &Candidate| options.memory_bytes.is_none_or(|budget| candidate.memory_bytes <= budget);
    if options.objective == Objective::Moved && found.iter().any(fits) {
        found.retain(fits);
    }
    found.sort_by(|a, b| rank(model, node, a).total_cmp(&rank(model, node, b)));
    found.truncate(MAX_CANDIDATES);
    let mut followed = Vec::new();
    for read in &tiled.operator.reads {
        let Some(&maker) = model.maker.get(&read.value) else { continue };
        for other in model.nodes[maker].candidates.iter().take(MAX_FOLLOWED) {
            followed.extend(follow(model, tiled, read, &other.homes, &ranges));
        }
    }
    let mut result: Vec<Candidate> = Vec::new();
    let mut grids = found.into_iter();
    let mut tables = followed
        .into_iter()
        .map(|spread| candidate(model, node, spread, &ranges))
        .collect::<Vec<_>>()
        .into_iter();
    // One of each in turn, so that both remain where only some are looked at.
    loop {
        let pair = [grids.next(), tables.next()];
        if pair.iter().all(Option::is_none) {
            break;
        }
        for each in pair.into_iter().flatten() {
            let is_new = result.iter().all(|other| !same(other, &each, tiled));
            if is_new {
                result.push(each);
            }
        }
    }
    result
}

/// True when two candidates of a node do the same: where it folds nothing, the sites of results say all.
fn same(a: &Candidate, b: &Candidate, tiled: &Tiled<'_>) -> bool {
    a.spread == b.spread || (tiled.operator.fold.is_none() && a.homes == b.homes)
}

fn add(model: &mut Model<'_>, node: usize, spreads: Vec<Spread>) {
    for spread in spreads {
        let ranges = model.typical(model.nodes[node].tiled.operator.output);
        let new = candidate(model, node, spread, &ranges);
        let tiled = &model.nodes[node].tiled;
        if !model.nodes[node].candidates.iter().any(|other| same(other, &new, tiled)) {
            model.nodes[node].candidates.push(new);
        }
    }
}

/// Steps run where the tile is that a read needs first; `None` unless all labels decide which one that is.
pub(super) fn follow(
    model: &Model<'_>,
    tiled: &Tiled<'_>,
    read: &Read,
    homes: &[u32],
    ranges: &Ranges,
) -> Option<Spread> {
    let counts = &tiled.labels.counts;
    let steps = counts.iter().try_fold(1u64, |all, &n| all.checked_mul(n))?;
    if steps > MAX_LISTED || tiled.labels_of(read).len() < counts.len() {
        return None;
    }
    let tensor = &model.tiles[read.value.0];
    let mut table = Vec::with_capacity(steps as usize);
    each_of(counts, &mut |at| {
        let mut site = None;
        tiled.tiles(read, tensor, at, ranges, |tile| site = site.or(Some(homes[tile])));
        table.push(site.unwrap_or(0));
    });
    Some(Spread::Table(table.into()))
}

/// A candidate with its costs.
pub(crate) fn candidate(model: &Model<'_>, node: usize, spread: Spread, ranges: &Ranges) -> Candidate {
    let tiled = &model.nodes[node].tiled;
    let operator = tiled.operator;
    let homes = spread.homes(tiled, ranges);
    let floats = &model.floats[operator.output.0];
    let contributions = spread.contributions(tiled, &homes, floats, ranges);
    let labels = &tiled.labels;
    let machine = &model.options.machine;
    let per_point = operations(&operator.body).max(1) as f64;
    // Of a grid the site with the most tiles along each label; tiles are counted whole, also those that are trimmed.
    let share = |label: usize, sites: u64| {
        let most = labels.counts[label].div_ceil(sites) as f64 * labels.blocks[label] as f64;
        most.min(labels.dims[label] as f64)
    };
    let (points, tasks) = match &spread {
        Spread::Grid(grid) => {
            let points: f64 = (0..grid.len()).map(|label| share(label, grid[label])).product();
            let tasks: f64 =
                (0..tiled.rank).map(|label| labels.counts[label].div_ceil(grid[label]) as f64).product();
            (points, tasks)
        }
        Spread::Table(table) => {
            let mut counts = vec![0u64; model.options.sites as usize];
            table.iter().for_each(|&site| counts[site as usize] += 1);
            let most = counts.into_iter().max().unwrap_or(0) as f64;
            (most * labels.blocks.iter().map(|&n| n as f64).product::<f64>(), most)
        }
    };
    // Contributions are added where they arrive.
    let added = contributions.busiest;
    let secs = (points * per_point + added) / machine.operations_per_sec + tasks * machine.task_secs;
    Candidate { memory_bytes: memory(model.network, tiled, &spread), spread, homes, contributions, secs }
}

/// Bytes that the fullest site holds when it has its part of everything at once.
fn memory(network: &Network, tiled: &Tiled<'_>, spread: &Spread) -> u64 {
    let operator = tiled.operator;
    let size = |slot: crate::expr::Slot| {
        let value = network.value(slot);
        value.dims.iter().map(|&n| n as f64).product::<f64>() * value.dtype.size_bytes() as f64
    };
    let split = |labels: &[usize]| -> f64 {
        match spread {
            Spread::Grid(grid) => labels.iter().map(|&label| grid[label] as f64).product(),
            Spread::Table(_) => spread.used().max(1) as f64,
        }
    };
    let own: Vec<usize> = (0..tiled.rank).collect();
    let mut bytes = size(operator.output) / split(&own);
    for read in &operator.reads {
        bytes += size(read.value) / split(&tiled.labels_of(read));
    }
    bytes.min(u64::MAX as f64) as u64
}

/// How good a candidate looks on its own, with everything it reads loaded for it.
fn rank(model: &Model<'_>, node: usize, candidate: &Candidate) -> f64 {
    let tiled = &model.nodes[node].tiled;
    let Spread::Grid(grid) = &candidate.spread else { return 0.0 };
    let copied: f64 = tiled
        .operator
        .reads
        .iter()
        .map(|read| {
            let own = tiled.labels_of(read);
            let copies: u64 =
                (0..grid.len()).filter(|label| !own.contains(label)).map(|label| grid[label]).product();
            let size: f64 = model.network.value(read.value).dims.iter().map(|&n| n as f64).product();
            size * (copies - 1) as f64
        })
        .sum();
    let moved = copied + candidate.contributions.floats as f64;
    match model.options.objective {
        Objective::Moved => moved + candidate.secs.min(0.5),
        Objective::Time => {
            let bytes = tiled.operator.body.dtype.size_bytes() as f64;
            let shared = moved * bytes / candidate.spread.used().max(1) as f64;
            let budget = model.options.memory_bytes.unwrap_or(u64::MAX);
            let over = candidate.memory_bytes.saturating_sub(budget) as f64;
            candidate.secs
                + shared / model.options.machine.bytes_per_sec
                + 2.0 * over / model.options.machine.spill_bytes_per_sec
        }
    }
}

/// Operations of one element: a multiplication and the addition after it count as one.
pub(crate) fn operations(element: &Element) -> u64 {
    let own = match &element.node {
        ElementNode::Unary(..)
        | ElementNode::Binary(..)
        | ElementNode::Call(..)
        | ElementNode::Random(..) => 1,
        _ => 0,
    };
    element.parts().into_iter().map(operations).fold(own, u64::saturating_add)
}

/// The known ways to contract two tensors, as grids: names and sites along each label.
pub(crate) fn known_ways(
    operator: &Operator,
    tiled: &Tiled<'_>,
    sites: u64,
) -> Vec<(&'static str, Vec<u64>)> {
    if !operator.is_contraction() {
        return Vec::new();
    }
    let labels: Vec<Vec<usize>> =
        operator.reads.iter().filter(|read| !read.at.is_empty()).map(|read| tiled.labels_of(read)).collect();
    let [left, right, ..] = &labels[..] else { return Vec::new() };
    let only = |own: &[usize], other: &[usize]| {
        (0..tiled.rank).find(|label| own.contains(label) && !other.contains(label))
    };
    let (row, column) = (only(left, right), only(right, left));
    let folded =
        (tiled.rank..tiled.labels.counts.len()).find(|label| left.contains(label) && right.contains(label));
    let root = sites.isqrt().max(1);
    let wide = (1..=root).rev().find(|n| sites.is_multiple_of(*n)).unwrap_or(1);
    let ways = [
        ("broadcast right (BMM)", vec![(row, sites)]),
        ("broadcast left (BMM)", vec![(column, sites)]),
        ("cross product (CMM)", vec![(folded, sites)]),
        ("replicate both (RMM)", vec![(row, wide), (column, sites / wide)]),
        ("√p grid", vec![(row, root), (column, sites / root)]),
    ];
    ways.into_iter()
        .filter_map(|(name, way)| {
            let mut grid = vec![1; tiled.labels.counts.len()];
            for (label, n) in way {
                let label = label?;
                grid[label] = n.min(tiled.labels.counts[label]).max(1);
            }
            Some((name, grid))
        })
        .collect()
}
