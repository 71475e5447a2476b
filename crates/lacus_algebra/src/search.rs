//! The search: a spread for every operator, such that what all of them move, or the time they take, is least.
//!
//! Exact for programs whose tables stay small: then it looks at every combination, by dynamic programming over the
//! graph. Of larger ones only the best candidates of each node are combined, and the result is improved one node at a
//! time. All bounds are numbers of steps and not of seconds, so that the same program gets the same plan everywhere.

pub(crate) mod candidates;
pub(crate) mod eliminate;
pub(crate) mod model;
mod moves;
mod pattern;
pub(crate) mod rounds;

use crate::expr::Slot;
use crate::site_set::SiteSets;
use crate::steps;
use crate::touch::Touches;
use eliminate::{Cost, Factor, entries, minimise, order};
use model::Model;
use std::collections::HashMap;
use std::sync::Arc;

/// Entries of the largest table, at most.
const MAX_TABLE: u128 = 2_000_000;

/// Rounds of improving one node at a time, at most.
const MAX_SWEEPS: usize = 4;

/// What was chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// The number of the candidate of each node.
    pub(crate) chosen: Vec<usize>,
    /// True when no combination of candidates is better.
    pub(crate) is_exact: bool,
}

/// Finds candidates and chooses.
pub(crate) fn search(model: &mut Model<'_>) -> Choice {
    candidates::find(model);
    let all: Vec<Vec<usize>> = model.nodes.iter().map(|node| (0..node.candidates.len()).collect()).collect();
    let mut weigh = Weigh::new(model, Cache::default());
    let mut best = weigh.solve(&all);
    if !best.is_exact {
        // Every contraction in one of the known ways: better than a search that did not see them together.
        for way in 0..5 {
            let allowed = one_way(weigh.model, &all, way);
            let other = weigh.solve(&allowed);
            if weigh.total(&other.chosen) < weigh.total(&best.chosen) {
                best.chosen = other.chosen;
            }
        }
    }
    let cache = weigh.cache;
    best.chosen = pattern::balance(model, best.chosen, cache);
    best
}

/// The candidates with every contraction done in one of the known ways, by its number, where there is such a one.
pub(crate) fn one_way(model: &Model<'_>, all: &[Vec<usize>], way: usize) -> Vec<Vec<usize>> {
    let only = |(node, own): (usize, &Vec<usize>)| {
        let tiled = &model.nodes[node].tiled;
        let ways = candidates::known_ways(tiled.operator, tiled, model.options.sites);
        let Some((_, grid)) = ways.get(way) else { return own.clone() };
        let found: Vec<usize> = own
            .iter()
            .copied()
            .filter(|&at| {
                matches!(&model.nodes[node].candidates[at].spread, crate::spread::Spread::Grid(other) if other == grid)
            })
            .collect();
        if found.is_empty() { own.clone() } else { found }
    };
    all.iter().enumerate().map(only).collect()
}

/// Who needs what, and why.
#[derive(Default)]
pub(crate) struct Cache {
    /// By value, consumer and candidate.
    needs: HashMap<(Slot, usize, usize), Arc<SiteSets>>,
    /// By value and consumer, and whether by tile.
    touches: HashMap<(Slot, usize, bool), Vec<Touches>>,
}

/// Weighs choices, remembering who needs what.
pub(crate) struct Weigh<'m, 'a> {
    pub(crate) model: &'m Model<'a>,
    pub(crate) cache: Cache,
}

impl<'m, 'a> Weigh<'m, 'a> {
    pub(crate) fn new(model: &'m Model<'a>, cache: Cache) -> Weigh<'m, 'a> {
        Weigh { model, cache }
    }

    fn need(&mut self, value: Slot, consumer: usize, candidate: usize) -> Arc<SiteSets> {
        let (model, touches) = (self.model, &mut self.cache.touches);
        let found = self.cache.needs.entry((value, consumer, candidate)).or_insert_with(|| {
            let reader = &model.consumers[&value][consumer];
            let spread = &model.nodes[reader.node].candidates[candidate].spread;
            let by_tile = spread.is_by_tile();
            let touched = touches
                .entry((value, consumer, by_tile))
                .or_insert_with(|| model.touches(value, reader, by_tile, &model.typical(value)));
            Arc::new(model.needs_of(value, reader, spread, touched))
        });
        Arc::clone(found)
    }

    /// The values that a node makes and reads, if anybody reads them.
    fn values_of(&self, node: usize) -> Vec<Slot> {
        let model = self.model;
        let operator = model.nodes[node].tiled.operator;
        let mut values: Vec<Slot> = operator.reads.iter().map(|read| read.value).collect();
        values.push(operator.output);
        values.sort_unstable();
        values.dedup();
        values.retain(|value| model.consumers.contains_key(value));
        values
    }

    /// Tiles that are looked at to find the cost of a value.
    fn value_work(&self, value: Slot) -> u128 {
        (self.model.floats[value.0].len() * (self.model.consumers[&value].len() + 1)) as u128
    }

    /// Tiles that are looked at to find what a node has to do with.
    pub(crate) fn local_work(&self, node: usize) -> u128 {
        self.values_of(node).into_iter().map(|value| self.value_work(value)).sum()
    }

    /// The cost of what a node has to do with: itself, and the values that it makes and reads.
    pub(crate) fn local(&mut self, node: usize, chosen: &[usize]) -> Cost {
        let model = self.model;
        let mut cost = model.own_cost(node, &model.nodes[node].candidates[chosen[node]]);
        for value in self.values_of(node) {
            cost = cost + self.value_cost(value, |other| chosen[other]);
        }
        cost
    }

    /// The cost of what a node has to do with as it was chosen, and with another candidate: of what differs between the two.
    /// `reads` has the values that it reads, with its numbers among their consumers. Also tells how many tiles were looked at.
    pub(crate) fn compare(
        &mut self,
        node: usize,
        other: usize,
        chosen: &mut [usize],
        reads: &[(Slot, usize)],
    ) -> (Cost, Cost, u128) {
        let model = self.model;
        let own = chosen[node];
        let candidates = &model.nodes[node].candidates;
        let mut values: Vec<Slot> = reads
            .iter()
            .filter(|&&(value, at)| self.need(value, at, own) != self.need(value, at, other))
            .map(|(value, _)| *value)
            .collect();
        let output = model.nodes[node].tiled.operator.output;
        if candidates[own].homes != candidates[other].homes && model.consumers.contains_key(&output) {
            values.push(output);
        }
        values.sort_unstable();
        values.dedup();
        let mut of = |choice: usize| {
            chosen[node] = choice;
            let moved = values.iter().map(|&value| self.value_cost(value, |node| chosen[node]));
            moved.fold(model.own_cost(node, &candidates[choice]), |all, cost| all + cost)
        };
        let (new, old) = (of(other), of(own));
        let work = values.iter().map(|&value| 2 * self.value_work(value)).sum();
        (old, new, work)
    }

    /// The cost of moving a value when nodes do as `choice` says.
    fn value_cost(&mut self, value: Slot, choice: impl Fn(usize) -> usize) -> Cost {
        let model = self.model;
        let consumers = &model.consumers[&value];
        steps::count(consumers.len() * model.floats[value.0].len());
        let needs: Vec<Arc<SiteSets>> =
            (0..consumers.len()).map(|at| self.need(value, at, choice(consumers[at].node))).collect();
        let needs: Vec<&SiteSets> = needs.iter().map(|sets| &**sets).collect();
        let homes = model.maker.get(&value).map(|&node| &*model.nodes[node].candidates[choice(node)].homes);
        model.move_cost(value, model.moves(value, homes, &needs))
    }

    /// The cost of everything.
    pub(crate) fn total(&mut self, chosen: &[usize]) -> Cost {
        let model = self.model;
        let own =
            model.nodes.iter().enumerate().map(|(at, node)| model.own_cost(at, &node.candidates[chosen[at]]));
        let mut total = own.fold(Cost::default(), |a, b| a + b);
        for &value in model.consumers.keys() {
            total = total + self.value_cost(value, |node| chosen[node]);
        }
        total
    }

    /// The best of the allowed candidates, as far as tables reach.
    pub(crate) fn solve(&mut self, allowed: &[Vec<usize>]) -> Choice {
        let model = self.model;
        let scopes = model.scopes();
        let nodes: Vec<&[usize]> = scopes.iter().map(|(_, nodes)| &nodes[..]).collect();
        let widest = allowed.iter().map(Vec::len).max().unwrap_or(1);
        let fewer = [64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1].into_iter().filter(|&most| most < widest);
        let mut domains: Vec<usize> = Vec::new();
        for most in std::iter::once(widest).chain(fewer) {
            domains = allowed.iter().map(|own| own.len().min(most).max(1)).collect();
            let work: u128 = scopes
                .iter()
                .map(|(value, nodes)| {
                    let entries = entries(&domains, nodes.iter().copied(), u128::MAX - 1);
                    entries.saturating_mul(self.value_work(*value))
                })
                .fold(0, u128::saturating_add);
            if work <= u128::from(model.options.effort) && order(&domains, &nodes, MAX_TABLE).is_some() {
                break;
            }
        }
        let mut factors = Vec::new();
        for (node, &count) in domains.iter().enumerate() {
            let own = &model.nodes[node].candidates;
            let costs = (0..count).map(|at| model.own_cost(node, &own[allowed[node][at]])).collect();
            factors.push(Factor { variables: vec![node], costs });
        }
        // Where each node stands in the scope that is looked at.
        let mut places = vec![0; model.nodes.len()];
        for (value, nodes) in &scopes {
            nodes.iter().enumerate().for_each(|(place, &node)| places[node] = place);
            let counts: Vec<usize> = nodes.iter().map(|&node| domains[node]).collect();
            let costs = crate::array::positions(&counts)
                .map(|at| self.value_cost(*value, |node| allowed[node][at[places[node]]]))
                .collect();
            factors.push(Factor { variables: nodes.clone(), costs });
        }
        let local = minimise(&domains, factors);
        let mut chosen: Vec<usize> = local.iter().enumerate().map(|(node, &at)| allowed[node][at]).collect();
        let is_exact = domains.iter().zip(allowed).all(|(&count, own)| count == own.len());
        if !is_exact {
            self.improve(&mut chosen, allowed);
        }
        Choice { chosen, is_exact }
    }

    /// Changes one node at a time, as long as that helps.
    fn improve(&mut self, chosen: &mut [usize], allowed: &[Vec<usize>]) {
        let model = self.model;
        let mut work = 0u128;
        for _ in 0..MAX_SWEEPS {
            let mut changed = false;
            for node in 0..chosen.len() {
                if work > u128::from(model.options.effort) {
                    return;
                }
                let mut best = (Cost(f64::INFINITY, f64::INFINITY), chosen[node]);
                let own = chosen[node];
                let each_work = self.local_work(node);
                for &at in [own].iter().chain(allowed[node].iter().filter(|&&at| at != own)) {
                    if work > u128::from(model.options.effort) {
                        break;
                    }
                    chosen[node] = at;
                    let cost = self.local(node, chosen);
                    chosen[node] = own;
                    work += each_work;
                    if cost < best.0 {
                        best = (cost, at);
                    }
                }
                if best.1 != chosen[node] {
                    chosen[node] = best.1;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
    }
}
