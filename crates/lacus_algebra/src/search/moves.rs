//! What moves: who needs which tiles, and what that sends from site to site.

use super::model::{Candidate, Consumer, Model, Node};
use super::rounds::{counters_of, rounds_of};
use crate::expr::Slot;
use crate::site_set::{SiteSets, members};
use crate::spread::{Moves, Spread};
use crate::touch::{Ranges, Touches};
use std::collections::BTreeSet;

impl Model<'_> {
    /// The sites that need each tile of a value for one consumer, while the counters around the value are these.
    pub(crate) fn needs(
        &self,
        value: Slot,
        consumer: &Consumer,
        spread: &Spread,
        fixed: &Ranges,
    ) -> SiteSets {
        let touches = self.touches(value, consumer, spread.is_by_tile(), fixed);
        self.needs_of(value, consumer, spread, &touches)
    }

    /// The same, of what is touched.
    pub(crate) fn needs_of(
        &self,
        value: Slot,
        consumer: &Consumer,
        spread: &Spread,
        touches: &[Touches],
    ) -> SiteSets {
        let mut sets = SiteSets::new(self.tiles[value.0].len(), self.options.sites);
        let tiled = &self.nodes[consumer.node].tiled;
        touches.iter().for_each(|each| spread.needs(tiled, each, &mut sets, self.options.sites));
        sets
    }

    /// What a consumer touches of a value, in all rounds during which the value stays.
    pub(crate) fn touches(
        &self,
        value: Slot,
        consumer: &Consumer,
        by_tile: bool,
        fixed: &Ranges,
    ) -> Vec<Touches> {
        let tiled = &self.nodes[consumer.node].tiled;
        let tensor = &self.tiles[value.0];
        let all = rounds_of(self.network, consumer.scope, self.options.rounds);
        let counters = counters_of(self.network, tiled.operator);
        let agrees = |ranges: &&Ranges| {
            fixed.iter().all(|(slot, own)| ranges.get(slot).is_none_or(|other| other == own))
        };
        let mut seen: BTreeSet<Vec<(Slot, (i64, i64))>> = BTreeSet::new();
        let mut result = Vec::new();
        for ranges in all.counters.iter().filter(agrees) {
            // Rounds that differ in other counters read the same.
            let own = ranges.iter().filter(|(slot, _)| counters.contains(slot));
            if seen.insert(own.map(|(slot, range)| (*slot, *range)).collect()) {
                let reads = consumer.reads.iter();
                result.extend(reads.map(|read| Touches::of(tiled, read, tensor, ranges, by_tile)));
            }
        }
        result
    }

    /// The counters while a value is looked at in the search: one round stands for all.
    pub(crate) fn typical(&self, value: Slot) -> Ranges {
        let rounds = rounds_of(self.network, self.network.value(value).scope, self.options.rounds);
        rounds.counters.get(rounds.counters.len() / 2).cloned().unwrap_or_default()
    }

    /// What a value moves, where its tiles are on `homes` (or loaded where they are needed) and its consumers, in their
    /// order, need them as said.
    pub(crate) fn moves(&self, value: Slot, homes: Option<&[u32]>, needs: &[&SiteSets]) -> Moves {
        let consumers = self.consumers.get(&value).map_or(&[][..], |all| &all[..]);
        let times: Vec<u128> = consumers.iter().map(|consumer| consumer.times).collect();
        self.moves_with(value, homes, needs, &times)
    }

    pub(crate) fn moves_with(
        &self,
        value: Slot,
        homes: Option<&[u32]>,
        needs: &[&SiteSets],
        times: &[u128],
    ) -> Moves {
        let consumers = self.consumers.get(&value).map_or(&[][..], |all| &all[..]);
        let sites = self.options.sites as usize;
        // Of single sites only how busy they are, roughly, is of interest.
        let (mut sent, mut received) = (vec![0f64; sites], vec![0f64; sites]);
        let words = sites.div_ceil(64).max(1);
        let mut floats = vec![0u128; needs.len()];
        let mut have = vec![0u64; words];
        for (tile, &size) in self.floats[value.0].iter().enumerate() {
            let home = match homes {
                Some(homes) => u64::from(homes[tile]),
                None => match self.loaded_in(value, tile, needs, &mut have) {
                    Some(site) => site,
                    None => continue,
                },
            };
            let mut is_apart = false;
            have.fill(0);
            have[home as usize / 64] |= 1 << (home % 64);
            for (at, set) in needs.iter().enumerate() {
                if consumers[at].is_apart && !is_apart {
                    is_apart = true;
                    have.fill(0);
                    have[home as usize / 64] |= 1 << (home % 64);
                }
                let weight = size as f64 * times[at] as f64;
                for (word, (have, need)) in have.iter_mut().zip(set.row(tile)).enumerate() {
                    let new = need & !*have;
                    if new == 0 {
                        continue;
                    }
                    *have |= need;
                    let count = new.count_ones();
                    floats[at] += u128::from(size) * u128::from(count);
                    sent[home as usize] += weight * f64::from(count);
                    for site in members(&[new]) {
                        received[word * 64 + site as usize] += weight;
                    }
                }
            }
        }
        let busiest = sent.into_iter().chain(received).fold(0.0, f64::max);
        Moves { floats: floats.iter().zip(times).map(|(floats, times)| floats * times).sum(), busiest }
    }

    /// Where a tile is loaded: on the sites that need it in turn. `None` for one that nobody needs.
    pub(crate) fn loaded_at(&self, value: Slot, tile: usize, needs: &[&SiteSets]) -> Option<u64> {
        let mut all = vec![0; (self.options.sites as usize).div_ceil(64).max(1)];
        self.loaded_in(value, tile, needs, &mut all)
    }

    /// The same with room for a set.
    fn loaded_in(&self, value: Slot, tile: usize, needs: &[&SiteSets], all: &mut [u64]) -> Option<u64> {
        all.fill(0);
        for set in needs {
            all.iter_mut().zip(set.row(tile)).for_each(|(own, other)| *own |= other);
        }
        let count: u32 = all.iter().map(|word| word.count_ones()).sum();
        let turn = self.turns[value.0][tile];
        members(all).nth((turn % count.max(1)) as usize)
    }

    /// What a value moves in all rounds, exactly, with these candidates.
    pub(crate) fn exact_moves(&self, value: Slot, homes: &[u32], chosen: &[usize]) -> Moves {
        let consumers = &self.consumers[&value];
        let needs = |fixed: &Ranges| -> Vec<SiteSets> {
            consumers
                .iter()
                .map(|consumer| self.needs(value, consumer, self.spread(consumer.node, chosen), fixed))
                .collect()
        };
        let rounds = rounds_of(self.network, self.network.value(value).scope, self.options.rounds);
        if !consumers.iter().any(|consumer| consumer.varies) || rounds.counters.len() < 2 {
            let needs = needs(&self.typical(value));
            return self.moves(value, Some(homes), &needs.iter().collect::<Vec<_>>());
        }
        // Versions differ: each round on its own, and what comes after the loop with the last one.
        let mut all = Moves::default();
        let last = rounds.counters.len() - 1;
        for (at, fixed) in rounds.counters.iter().enumerate() {
            let needs = needs(fixed);
            let times: Vec<u128> = consumers
                .iter()
                .map(|consumer| match consumer.times {
                    times if times >= rounds.count() => rounds.times,
                    times if at == last => times,
                    _ => 0,
                })
                .collect();
            let moves = self.moves_with(value, Some(homes), &needs.iter().collect::<Vec<_>>(), &times);
            all.floats += moves.floats;
            all.busiest += moves.busiest;
        }
        all
    }

    /// Elements of contributions that a node moves in all rounds, exactly.
    pub(crate) fn exact_contributions(&self, node: usize, candidate: &Candidate) -> u128 {
        let Node { tiled, rounds, .. } = &self.nodes[node];
        if !tiled.is_guarded() || counters_of(self.network, tiled.operator).is_empty() {
            return candidate.contributions.floats.saturating_mul(rounds.count());
        }
        let floats = &self.floats[tiled.operator.output.0];
        let each = |ranges| candidate.spread.contributions(tiled, &candidate.homes, floats, ranges).floats;
        rounds.counters.iter().map(|ranges| each(ranges) * rounds.times).sum()
    }
}
