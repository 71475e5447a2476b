//! What the search chooses from and what a choice costs.
//!
//! ```text
//! node        an operator, or a value that a loop carries        chooses a spread
//! value       made by a node or loaded                           costs what its tiles move to those who read it
//! ```
//!
//! A tile is sent once to a site, whoever reads it there. What a loop does not change is sent once for all its rounds.
//! What is loaded can be loaded anywhere: one of the sites that need it has it for nothing.

use super::eliminate::Cost;
use super::rounds::{Rounds, counters_of, rounds_of};
use crate::expr::{Affine, Axis, Element, ElementNode, Index, Slot};
use crate::machine::{Objective, PlanOptions};
use crate::network::{Made, Network, Operator, Read, Until};
use crate::spread::{Moves, Spread};
use crate::tiling::{Tiles, Tiling};
use crate::touch::Tiled;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What chooses a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Runs an operator.
    Operator(usize),
    /// Takes what a loop carries, by its number and the number of the loop.
    Carry(usize, usize),
}

pub(crate) struct Node<'a> {
    pub(crate) doing: Doing,
    pub(crate) tiled: Tiled<'a>,
    pub(crate) rounds: Rounds,
    pub(crate) candidates: Vec<Candidate>,
}

/// One way to run a node.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) spread: Spread,
    pub(crate) homes: Arc<[u32]>,
    /// Contributions that move, each time it runs.
    pub(crate) contributions: Moves,
    /// Seconds for operations and tasks on the site that has the most, each time it runs.
    pub(crate) secs: f64,
    /// Bytes that a site holds for it at most: its part of what is read and made.
    pub(crate) memory_bytes: u64,
}

/// A node that reads a value.
pub(crate) struct Consumer {
    pub(crate) node: usize,
    pub(super) reads: Vec<Read>,
    /// How often what it reads is another version.
    pub(super) times: u128,
    /// It reads a version that nobody in the loop has read.
    pub(super) is_apart: bool,
    /// Which tiles it reads depends on counters that change with the value.
    pub(super) varies: bool,
    /// Rounds of the counters that change while the value does not.
    pub(super) scope: usize,
}

pub(crate) struct Model<'a> {
    pub(crate) network: &'a Network,
    pub(crate) options: &'a PlanOptions,
    /// Of every value.
    pub(crate) tiles: Vec<Tiles>,
    pub(crate) floats: Vec<Vec<u64>>,
    /// Of every tile the sum of its coordinates, by which sites have their turn.
    pub(super) turns: Vec<Vec<u32>>,
    pub(crate) nodes: Vec<Node<'a>>,
    /// The node that makes a value.
    pub(crate) maker: BTreeMap<Slot, usize>,
    /// Who reads a value, most often first.
    pub(crate) consumers: BTreeMap<Slot, Vec<Consumer>>,
}

/// The operators that stand for carried values: each reads what it is at first, and what it becomes.
pub(crate) fn carries(network: &Network) -> Vec<(Doing, Operator)> {
    let mut all = Vec::new();
    for of in network.looping() {
        let node = &network.loops[of];
        for (at, carried) in node.carried.iter().enumerate() {
            let value = network.value(carried.inside);
            let axes: Vec<Axis> = value
                .dims
                .iter()
                .enumerate()
                .map(|(at, &extent)| Axis { index: Index(at as u32), extent })
                .collect();
            let position: Vec<Affine> = axes.iter().map(|axis| Affine::index(axis.index)).collect();
            let read = |value| Read { value, at: position.clone(), under: Vec::new() };
            let body =
                Element { node: ElementNode::Read(carried.next, position.clone()), dtype: value.dtype };
            let operator = Operator {
                output: carried.inside,
                reads: vec![read(carried.enter), read(carried.next)],
                axes,
                fold: None,
                body,
                span: node.span,
                scope: value.scope,
            };
            all.push((Doing::Carry(of, at), operator));
        }
    }
    all
}

impl<'a> Model<'a> {
    pub(crate) fn new(
        network: &'a Network,
        carries: &'a [(Doing, Operator)],
        tiling: &Tiling,
        options: &'a PlanOptions,
    ) -> Model<'a> {
        let tiles: Vec<Tiles> = network.values.iter().map(|value| Tiles::of(tiling, &value.dims)).collect();
        let turns = |tiles: &Tiles| {
            let mut all = Vec::with_capacity(tiles.len());
            tiles.each(|at| all.push(at.iter().sum::<u64>() as u32));
            all
        };
        let mut model = Model {
            turns: tiles.iter().map(turns).collect(),
            floats: tiles.iter().map(Tiles::floats).collect(),
            tiles,
            network,
            options,
            nodes: Vec::new(),
            maker: BTreeMap::new(),
            consumers: BTreeMap::new(),
        };
        let carried = carries.iter().map(|(doing, operator)| (*doing, operator));
        // What reads nothing can be made wherever it is needed, as what is loaded can.
        let running = network
            .running()
            .into_iter()
            .map(|at| (Doing::Operator(at), &network.operators[at]))
            .filter(|(_, operator)| operator.kind() != "fill");
        // Carried values first: their readers come after them.
        for (doing, operator) in carried.chain(running) {
            let rounds = rounds_of(network, operator.scope, options.rounds);
            let tiled = Tiled::new(network, tiling, operator);
            model.maker.insert(operator.output, model.nodes.len());
            model.nodes.push(Node { doing, tiled, rounds, candidates: Vec::new() });
        }
        for node in 0..model.nodes.len() {
            model.connect(node);
        }
        for all in model.consumers.values_mut() {
            all.sort_by_key(|consumer| (consumer.is_apart, u128::MAX - consumer.times, consumer.node));
        }
        model
    }

    /// Notes what a node reads.
    fn connect(&mut self, node: usize) {
        let operator = self.nodes[node].tiled.operator;
        let values: BTreeSet<Slot> = operator.reads.iter().map(|read| read.value).collect();
        let counters = counters_of(self.network, operator);
        for value in values {
            let reads: Vec<Read> =
                operator.reads.iter().filter(|read| read.value == value).cloned().collect();
            let mut scopes = vec![operator.scope];
            if let Doing::Carry(of, at) = self.nodes[node].doing {
                let looped = &self.network.loops[of];
                let carried = &looped.carried[at];
                scopes.clear();
                if carried.enter == value {
                    scopes.extend(self.network.scopes[looped.scopes[0]].parent);
                }
                if carried.next == value {
                    let is_counted = matches!(looped.until, Until::Counted(..));
                    scopes.push(looped.scopes[usize::from(!is_counted)]);
                }
            }
            for scope in scopes {
                let consumer = self.consumer(node, value, &reads, scope, &counters);
                self.consumers.entry(value).or_default().push(consumer);
            }
        }
    }

    fn consumer(
        &self,
        node: usize,
        value: Slot,
        reads: &[Read],
        scope: usize,
        counters: &BTreeSet<Slot>,
    ) -> Consumer {
        let network = self.network;
        let own = network.value(value).scope;
        let around: Vec<usize> = network.around(scope).collect();
        let common = network.around(own).find(|each| around.contains(each)).unwrap_or(0);
        let assumed = self.options.rounds;
        let times =
            rounds_of(network, common, assumed).count().min(rounds_of(network, scope, assumed).count());
        // After a counted loop what it carries is a version that its rounds have not seen.
        let is_apart = common != own
            && matches!(network.value(value).made, Made::Carried(of)
                if matches!(network.loops[of].until, Until::Counted(..)));
        let outer: BTreeSet<Slot> = network
            .around(common)
            .filter_map(|each| match network.loops[network.scopes[each].of?].until {
                Until::Counted(counter, ..) => Some(counter),
                Until::Is(..) => None,
            })
            .collect();
        let varies = !counters.is_disjoint(&outer);
        Consumer { node, reads: reads.to_vec(), times, is_apart, varies, scope }
    }

    /// The cost of moving a value.
    pub(crate) fn move_cost(&self, value: Slot, moves: Moves) -> Cost {
        let bytes = self.network.value(value).dtype.size_bytes() as f64;
        let secs = moves.busiest * bytes / self.options.machine.bytes_per_sec;
        self.cost(moves.floats, secs)
    }

    /// The cost of running a node.
    pub(crate) fn own_cost(&self, node: usize, candidate: &Candidate) -> Cost {
        let rounds = self.nodes[node].rounds.count();
        let bytes = self.nodes[node].tiled.operator.body.dtype.size_bytes() as f64;
        let machine = &self.options.machine;
        // What is read is sent while others compute; contributions wait until all is computed, and nothing hides them.
        let busiest = 2.0 * candidate.contributions.busiest;
        let over = match self.options.memory_bytes {
            Some(budget) => candidate.memory_bytes.saturating_sub(budget) as f64,
            None => 0.0,
        };
        // What does not fit is written once and read once.
        let secs = candidate.secs
            + busiest * bytes / machine.bytes_per_sec
            + 2.0 * over / machine.spill_bytes_per_sec;
        self.cost(candidate.contributions.floats.saturating_mul(rounds), secs * rounds as f64)
    }

    fn cost(&self, floats: u128, secs: f64) -> Cost {
        match self.options.objective {
            Objective::Moved => Cost(floats as f64, secs),
            Objective::Time => Cost(secs, floats as f64),
        }
    }

    /// Values that move, each with the nodes that decide how.
    pub(crate) fn scopes(&self) -> Vec<(Slot, Vec<usize>)> {
        self.consumers
            .iter()
            .map(|(&value, consumers)| {
                let mut nodes: Vec<usize> = consumers.iter().map(|consumer| consumer.node).collect();
                nodes.extend(self.maker.get(&value));
                nodes.sort_unstable();
                nodes.dedup();
                (value, nodes)
            })
            .collect()
    }

    pub(crate) fn spread(&self, node: usize, chosen: &[usize]) -> &Spread {
        &self.nodes[node].candidates[chosen[node]].spread
    }

    /// Where the tiles of a value are; `None` for one that is loaded.
    pub(crate) fn homes(&self, value: Slot, chosen: &[usize]) -> Option<Arc<[u32]>> {
        let &node = self.maker.get(&value)?;
        Some(Arc::clone(&self.nodes[node].candidates[chosen[node]].homes))
    }
}
