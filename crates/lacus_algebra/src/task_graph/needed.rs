//! Backwards over what runs: which tiles are needed.

use super::unroll::{Doing, Instances};
use crate::error::AlgebraError;
use crate::expr::Slot;
use crate::network::{Known, Operator};
use crate::plan::ProgramPlan;
use crate::tiling::{Tiles, each_of};
use crate::touch::{Ranges, Tiled, Touches};
use std::collections::{BTreeMap, HashMap};

/// The counters of a round as ranges of one number each.
pub(super) fn ranges(known: &Known) -> Ranges {
    known.iter().map(|(slot, n)| (*slot, (*n, *n))).collect()
}

/// For each thing that runs, which tiles of its result are needed.
pub(super) fn needed(
    plan: &ProgramPlan,
    instances: &Instances,
    asked: &BTreeMap<String, Vec<Vec<u64>>>,
) -> Result<Vec<Vec<bool>>, AlgebraError> {
    let mut wanted: HashMap<Slot, Vec<bool>> = HashMap::new();
    let mut result: Vec<Vec<bool>> = Vec::with_capacity(instances.all.len());
    for (doing, round) in instances.all.iter().rev() {
        let own = match doing {
            Doing::Output(name, slot) => {
                let tiles = plan.tiles(*slot);
                let own = match name.as_ref().and_then(|name| asked.get(name)) {
                    Some(asked) => chosen(&tiles, asked)?,
                    None => vec![true; tiles.len()],
                };
                let all = wanted.entry(*slot).or_insert_with(|| vec![false; own.len()]);
                all.iter_mut().zip(&own).for_each(|(all, own)| *all |= own);
                own
            }
            Doing::Carry { inside, from } => {
                wanted.remove(inside);
                wanted.insert(*from, vec![true; plan.tiles(*from).len()]);
                Vec::new()
            }
            Doing::Operator(at) => {
                let operator = &plan.network.operators[*at];
                let own = wanted.remove(&operator.output).unwrap_or_default();
                let known = ranges(&instances.known[*round as usize]);
                mark(plan, operator, &own, &known, &mut wanted);
                own
            }
        };
        result.push(own);
    }
    result.reverse();
    Ok(result)
}

fn chosen(tiles: &Tiles, asked: &[Vec<u64>]) -> Result<Vec<bool>, AlgebraError> {
    let mut own = vec![false; tiles.len()];
    for at in asked {
        if at.len() != tiles.counts.len() || at.iter().zip(&tiles.counts).any(|(at, count)| at >= count) {
            let (what, expected) = ("a tile that is asked for", "within the tiles of the result");
            let found = format!("{at:?} of {:?}", tiles.counts);
            return Err(AlgebraError::Argument { what, expected, found });
        }
        own[tiles.number(at)] = true;
    }
    Ok(own)
}

/// Marks what an operator reads for some tiles of its result.
fn mark(
    plan: &ProgramPlan,
    operator: &Operator,
    own: &[bool],
    known: &Ranges,
    wanted: &mut HashMap<Slot, Vec<bool>>,
) {
    if !own.contains(&true) {
        return;
    }
    let tiled = Tiled::new(&plan.network, &plan.tiling, operator);
    for read in &operator.reads {
        let tensor = plan.tiles(read.value);
        let all = wanted.entry(read.value).or_insert_with(|| vec![false; tensor.len()]);
        if !own.contains(&false) {
            let touches = Touches::of(&tiled, read, &tensor, known, false);
            touches.tiles.iter().for_each(|&tile| all[tile as usize] = true);
            continue;
        }
        let mut number = 0;
        each_of(&tiled.labels.counts, &mut |at| {
            // Steps come in C order, so that those of one tile of the result follow one another.
            let folded = tiled.folded().iter().product::<u64>() as usize;
            if own[number / folded.max(1)] && tiled.lives(at, known) {
                tiled.tiles(read, &tensor, at, known, |tile| all[tile] = true);
            }
            number += 1;
        });
    }
}
