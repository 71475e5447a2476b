//! What cannot be planned at all.

use crate::error::{AlgebraError, Place, Problem};
use crate::expr::Slot;
use crate::machine::PlanOptions;
use crate::network::{Formula, Network, Operator};
use crate::tiling::{Tiles, Tiling};
use crate::touch::{Ranges, Tiled};

/// Steps of an operator with conditions on its indices, at most: each of them is looked at.
const MAX_LOOKED_AT: u64 = 1 << 24;

/// Steps of an operator that can be counted.
const MAX_STEPS: u64 = 1 << 56;

/// Fails when an operator has too many steps to be planned, or when its largest task does not fit memory.
pub(super) fn check(
    network: &Network,
    tiling: &Tiling,
    operator: &Operator,
    options: &PlanOptions,
) -> Result<(), AlgebraError> {
    let place = || Place::of(&network.source, operator.span.start, operator.span.end);
    let (what, block) = (|| Formula(network, operator).to_string(), tiling.largest_block());
    let tiled = Tiled::new(network, tiling, operator);
    let steps = tiled.labels.counts.iter().fold(1u64, |all, &n| all.saturating_mul(n));
    let looked_at = operator.reads.iter().any(|read| !read.under.is_empty()) || tiled.is_guarded();
    let most = if looked_at { MAX_LOOKED_AT } else { MAX_STEPS };
    if steps > most {
        return Err(Problem::TooManySteps { what: what(), steps, most, block }.at(place()));
    }
    let Some(budget) = options.memory_bytes else { return Ok(()) };
    let needed = task_bytes(network, tiling, operator);
    if needed > budget {
        return Err(Problem::MemoryBudget { what: what(), needed, budget, block }.at(place()));
    }
    Ok(())
}

/// Bytes of the largest task of an operator: its tile, and all tiles of one step.
fn task_bytes(network: &Network, tiling: &Tiling, operator: &Operator) -> u64 {
    let tiled = Tiled::new(network, tiling, operator);
    let counts = &tiled.labels.counts;
    if counts.contains(&0) {
        return 0;
    }
    let own = Tiles::of(tiling, &network.value(operator.output).dims);
    let largest = |tiles: &Tiles| tiles.blocks.iter().fold(1u64, |all, &n| all.saturating_mul(n));
    let size = |slot: Slot| network.value(slot).dtype.size_bytes() as u64;
    let result = largest(&own).saturating_mul(size(operator.output));
    // The first tiles are whole; those in the middle can meet more of a tensor that is read off its tiles' edges.
    let steps = [vec![0; counts.len()], counts.iter().map(|&n| n / 2).collect::<Vec<u64>>()];
    let reads = steps.iter().map(|step| {
        let mut bytes = 0u64;
        for read in &operator.reads {
            let tensor = Tiles::of(tiling, &network.value(read.value).dims);
            let mut met = 0;
            tiled.tiles(read, &tensor, step, &Ranges::new(), |_| met += 1);
            bytes = bytes.saturating_add(largest(&tensor).saturating_mul(met * size(read.value)));
        }
        bytes
    });
    result.saturating_add(reads.max().unwrap_or(0))
}
