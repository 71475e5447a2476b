//! The plan of a program: where every operator runs and every tile is, what that moves, and what else was considered.
//! Plain data, from which task graphs are made.

mod alternatives;
mod limits;

use crate::error::AlgebraError;
use crate::expr::{CheckedProgram, Slot};
use crate::lower::lower;
use crate::machine::PlanOptions;
use crate::network::{Known, Made, Network, Operator};
use crate::search::candidates::{candidate, find, known_ways};
use crate::search::model::{Doing, Model, carries};
use crate::search::{Cache, Weigh, search};
use crate::site_set::SiteSets;
use crate::spread::Spread;
use crate::tiling::{Tiles, Tiling, each_of};
use crate::touch::{Ranges, Tiled};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a program is run.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    /// Its operators and values.
    pub network: Network,
    /// What it was planned for.
    pub options: PlanOptions,
    /// How tensors are cut.
    pub tiling: Tiling,
    /// Where each operator runs, by its number.
    pub operators: BTreeMap<usize, PlannedOperator>,
    /// Where the tiles of each value are, and how much of it moves.
    pub placed: BTreeMap<Slot, PlacedValue>,
    /// Elements that move between sites in all, with every round of every loop.
    pub moved_floats: u128,
    /// The same in bytes.
    pub moved_bytes: u128,
    /// Seconds it takes, roughly: one operator after another.
    pub secs: f64,
    /// True when no other combination of the spreads that were considered is better.
    pub is_exact: bool,
}

/// An operator of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedOperator {
    /// Where its steps run.
    pub spread: Spread,
    /// How often it runs.
    pub rounds: u128,
    /// Elements of contributions that move to where they are reduced, in all rounds.
    pub contributions: u128,
    /// Operations and tasks on the site with the most, in seconds, in all rounds.
    pub secs: f64,
    /// Bytes that the fullest site would hold with its part of everything at once.
    pub memory_bytes: u64,
    /// What else was considered.
    pub alternatives: Vec<Alternative>,
}

/// A spread that was not chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// What it is known as.
    pub name: String,
    /// Where steps would run.
    pub spread: Spread,
    /// What the whole program would move.
    pub moved_floats: u128,
    /// Why it lost.
    pub reason: String,
}

/// A value of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedValue {
    /// The site of every tile, in C order.
    pub homes: Arc<[u32]>,
    /// Elements that move to those who read it, in all rounds.
    pub moved_floats: u128,
}

/// Plans a checked program. Fails if an option cannot be, if there are too many tiles, or if a task needs more memory
/// than a site has.
pub fn plan(program: &CheckedProgram, options: &PlanOptions) -> Result<ProgramPlan, AlgebraError> {
    plan_in(program, options, None)
}

/// The known ways to contract two tensors on several sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Every site has some rows of the left tensor and all of the right one (BMM).
    BroadcastRight,
    /// Every site has some columns of the right tensor and all of the left one (BMM).
    BroadcastLeft,
    /// Every site has some of what is summed over, and contributions are added (CMM, CPMM).
    CrossProduct,
    /// Sites form a grid of rows and columns that uses all of them (RMM).
    Replicate,
    /// TensorPlanner's grid of ⌊√p⌋ × ⌊p/⌊√p⌋⌋.
    RootGrid,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 5] =
        [Way::BroadcastRight, Way::BroadcastLeft, Way::CrossProduct, Way::Replicate, Way::RootGrid];

    /// What it is known as.
    pub const fn name(self) -> &'static str {
        match self {
            Way::BroadcastRight => "broadcast right (BMM)",
            Way::BroadcastLeft => "broadcast left (BMM)",
            Way::CrossProduct => "cross product (CMM)",
            Way::Replicate => "replicate both (RMM)",
            Way::RootGrid => "√p grid",
        }
    }
}

/// Plans with every contraction done in one way, and everything else as suits it, to compare with.
pub fn plan_in_way(
    program: &CheckedProgram,
    options: &PlanOptions,
    way: Way,
) -> Result<ProgramPlan, AlgebraError> {
    plan_in(program, options, Some(way as usize))
}

fn plan_in(
    program: &CheckedProgram,
    options: &PlanOptions,
    way: Option<usize>,
) -> Result<ProgramPlan, AlgebraError> {
    options.check()?;
    let network = lower(program)?;
    let tiling = Tiling::choose(&network, options.block, options.sites)?;
    plan_tiles(network, tiling, options, way, way.is_none())
}

/// Plans operators over tiles that somebody else has chosen; [`ProgramPlan::options`] has no say in them. What else was
/// considered is not told. Fails as [`plan`] does.
pub fn plan_network(
    network: Network,
    tiling: Tiling,
    options: &PlanOptions,
) -> Result<ProgramPlan, AlgebraError> {
    plan_tiles(network, tiling, options, None, false)
}

fn plan_tiles(
    network: Network,
    tiling: Tiling,
    options: &PlanOptions,
    way: Option<usize>,
    tells_others: bool,
) -> Result<ProgramPlan, AlgebraError> {
    options.check()?;
    for at in network.running() {
        limits::check(&network, &tiling, &network.operators[at], options)?;
    }
    let carried = carries(&network);
    let mut model = Model::new(&network, &carried, &tiling, options);
    let choice = match way {
        None => search(&mut model),
        Some(way) => {
            find(&mut model);
            let ways: Vec<Vec<usize>> =
                (0..model.nodes.len()).map(|node| force(&mut model, node, way)).collect();
            Weigh::new(&model, Cache::default()).solve(&ways)
        }
    };
    let chosen = choice.chosen;
    let mut placed = BTreeMap::new();
    let (mut moved_floats, mut moved_bytes, mut secs) = (0u128, 0u128, 0.0);
    for &value in model.consumers.keys() {
        let homes = homes(&model, value, &chosen);
        let moves = model.exact_moves(value, &homes, &chosen);
        moved_floats += moves.floats;
        let size = network.value(value).dtype.size_bytes();
        moved_bytes += moves.floats * size as u128;
        secs += moves.busiest * size as f64 / options.machine.bytes_per_sec;
        placed.insert(value, PlacedValue { homes, moved_floats: moves.floats });
    }
    let saved = network.saved();
    for &value in model.maker.keys().chain(&saved) {
        placed
            .entry(value)
            .or_insert_with(|| PlacedValue { homes: homes(&model, value, &chosen), moved_floats: 0 });
    }
    let mut operators = BTreeMap::new();
    for (node, &choice) in chosen.iter().enumerate() {
        let Doing::Operator(at) = model.nodes[node].doing else { continue };
        let own = model.nodes[node].candidates[choice].clone();
        let contributions = model.exact_contributions(node, &own);
        let rounds = model.nodes[node].rounds.count();
        moved_floats += contributions;
        let size = model.nodes[node].tiled.operator.body.dtype.size_bytes();
        moved_bytes += contributions * size as u128;
        let shared = contributions as f64 * size as f64 / own.spread.used().max(1) as f64;
        secs += own.secs * rounds as f64 + shared / options.machine.bytes_per_sec;
        operators.insert(
            at,
            PlannedOperator {
                spread: own.spread,
                rounds,
                contributions,
                secs: own.secs * rounds as f64,
                memory_bytes: own.memory_bytes,
                alternatives: Vec::new(),
            },
        );
    }
    // Of a plan that is only compared with nobody asks what else was considered.
    let others = if tells_others { alternatives::alternatives(&mut model, &chosen) } else { Vec::new() };
    for (at, others) in others {
        if let Some(operator) = operators.get_mut(&at) {
            operator.alternatives = others;
        }
    }
    let is_exact = choice.is_exact;
    let options = *options;
    Ok(ProgramPlan { network, options, tiling, operators, placed, moved_floats, moved_bytes, secs, is_exact })
}

/// The candidates of a node, or only the one that is a known way.
fn force(model: &mut Model<'_>, node: usize, way: usize) -> Vec<usize> {
    let all = (0..model.nodes[node].candidates.len()).collect();
    let tiled = &model.nodes[node].tiled;
    let ways = known_ways(tiled.operator, tiled, model.options.sites);
    let Some((_, grid)) = ways.get(way) else { return all };
    vec![number_of(model, node, Spread::Grid(grid.clone()))]
}

/// The number of a spread among the candidates of a node, to which it is added if it is not there.
fn number_of(model: &mut Model<'_>, node: usize, spread: Spread) -> usize {
    if let Some(at) = model.nodes[node].candidates.iter().position(|other| other.spread == spread) {
        return at;
    }
    let ranges = model.typical(model.nodes[node].tiled.operator.output);
    let new = candidate(model, node, spread, &ranges);
    model.nodes[node].candidates.push(new);
    model.nodes[node].candidates.len() - 1
}

/// The site of every tile of a value. What is loaded is where it is needed; what nobody needs is dealt out.
fn homes(model: &Model<'_>, value: Slot, chosen: &[usize]) -> Arc<[u32]> {
    if let Some(homes) = model.homes(value, chosen) {
        return homes;
    }
    let consumers = model.consumers.get(&value).map_or(&[][..], |all| &all[..]);
    let fixed = model.typical(value);
    let needs: Vec<SiteSets> = consumers
        .iter()
        .map(|consumer| model.needs(value, consumer, model.spread(consumer.node, chosen), &fixed))
        .collect();
    let needs: Vec<&SiteSets> = needs.iter().collect();
    let home = |tile| {
        let site = model.loaded_at(value, tile, &needs).unwrap_or(tile as u64 % model.options.sites);
        site as u32
    };
    (0..model.floats[value.0].len()).map(home).collect()
}

impl ProgramPlan {
    /// The tiles of a value.
    pub fn tiles(&self, value: Slot) -> Tiles {
        Tiles::of(&self.tiling, &self.network.value(value).dims)
    }

    /// The site of a tile.
    pub(crate) fn home(&self, value: Slot, tile: usize) -> u32 {
        self.placed.get(&value).and_then(|placed| placed.homes.get(tile)).copied().unwrap_or(0)
    }

    /// The operator that makes a value: the kernel of its tasks. `None` for what is loaded, carried or known.
    pub fn operator_of(&self, value: Slot) -> Option<&Operator> {
        match self.network.value(value).made {
            Made::Operator(at) => Some(&self.network.operators[at]),
            _ => None,
        }
    }

    /// The tiles of all labels of an operator: axes of the result, then those of the fold. A step has a coordinate for
    /// each.
    pub fn label_tiles(&self, operator: &Operator) -> Tiles {
        Tiled::new(&self.network, &self.tiling, operator).labels
    }

    /// The steps of one tile of an operator's result that are done on a site, in order: what an accumulation folds.
    pub fn steps(&self, operator: usize, tile: &[u64], site: u32, known: &Known) -> Vec<Vec<u64>> {
        let tiled = Tiled::new(&self.network, &self.tiling, &self.network.operators[operator]);
        let planned = self.operators.get(&operator);
        let here = Spread::Grid(vec![1; tiled.labels.counts.len()]);
        let sites = planned.map_or(&here, |planned| &planned.spread).sites(tiled.rank);
        let ranges: Ranges = known.iter().map(|(slot, n)| (*slot, (*n, *n))).collect();
        let mut all = Vec::new();
        each_of(tiled.folded(), &mut |folded| {
            let step = [tile, folded].concat();
            // What reads nothing is done where it is needed.
            let is_here = planned.is_none() || sites.of(&step, &tiled.labels.counts) == u64::from(site);
            if is_here && tiled.lives(&step, &ranges) {
                all.push(step);
            }
        });
        all
    }

    /// The tiles that one read of an operator needs in a step.
    pub fn touched(&self, operator: usize, read: usize, step: &[u64], known: &Known) -> Vec<usize> {
        let operator = &self.network.operators[operator];
        let tiled = Tiled::new(&self.network, &self.tiling, operator);
        let ranges: Ranges = known.iter().map(|(slot, n)| (*slot, (*n, *n))).collect();
        let read = &operator.reads[read];
        let mut all = Vec::new();
        tiled.tiles(read, &self.tiles(read.value), step, &ranges, |tile| all.push(tile));
        all
    }

    /// The values that are loaded, with the names they are stored under.
    pub fn loads(&self) -> Vec<(Slot, &str)> {
        self.placed
            .keys()
            .filter_map(|&slot| match &self.network.value(slot).made {
                Made::Load(name) => Some((slot, &**name)),
                _ => None,
            })
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
