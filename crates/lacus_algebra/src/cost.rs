//! What a plan costs in elements moved between sites.
//!
//! [`CostModel::Paper`] is the model of the tensor relational algebra paper: a broadcast costs `s · f`, a shuffle `f`,
//! and a shuffle of what is together already nothing. It is kept to reproduce the paper's tables, which its tests do.
//! [`CostModel::Moved`] counts the elements that really leave a site, tile by tile, and knows that a site which holds
//! a tile need not be sent it, and that contributions are as many as there are sites that hold some. Plans are
//! chosen by it.
//!
//! Both count tiles by their exact keys and shapes. The paper multiplies frontiers, which do not see a filter: it
//! would find nothing saved in `diag(X + Y)`.

use crate::error::AlgebraError;
use crate::physical::{Plan, RelationType};
use crate::placement::Placement;
use crate::rules::Context;

/// How moved elements are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostModel {
    /// As the paper does.
    Paper,
    /// As they are.
    Moved,
}

/// The elements that a plan moves. Fails where the plan cannot be run.
pub fn moved_floats(plan: &Plan, context: Context<'_>, model: CostModel) -> Result<u64, AlgebraError> {
    let mut total = 0u64;
    for part in plan.parts() {
        total = total.saturating_add(moved_floats(part, context, model)?);
    }
    let own = match plan {
        Plan::Broadcast(of) => broadcast(&context.describe(of)?, context.sites, model),
        Plan::Shuffle(map, of) => {
            let before = context.describe(of)?;
            match model {
                CostModel::Paper if before.placement.is_partitioned_by(&map.parts().unwrap_or_default()) => 0,
                CostModel::Paper => before.floats(),
                CostModel::Moved => shuffle(&before, |key| map.sites_of(key).unwrap_or_default()),
            }
        }
        _ => 0,
    };
    Ok(total.saturating_add(own))
}

fn broadcast(before: &RelationType, sites: usize, model: CostModel) -> u64 {
    if model == CostModel::Paper {
        return before.floats().saturating_mul(sites as u64);
    }
    let each = before.tiles.values().map(|tile| {
        let receivers = match before.placement {
            // All contributions but one come to one site, and from there the tile goes to all others.
            Placement::Partial(..) => tile.sites.len() - 1 + sites - 1,
            _ => sites - tile.sites.len(),
        };
        tile.floats().saturating_mul(receivers as u64)
    });
    each.fold(0, u64::saturating_add)
}

fn shuffle(before: &RelationType, to: impl Fn(&[i64]) -> Vec<usize>) -> u64 {
    let each = before.tiles.iter().map(|(key, tile)| {
        let arrived = to(key).iter().filter(|site| tile.sites.contains(site)).count();
        let sent = match before.placement {
            // Every contribution that is not there already.
            Placement::Partial(..) => tile.sites.len() - arrived,
            _ => 1 - arrived.min(1),
        };
        tile.floats().saturating_mul(sent as u64)
    });
    each.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
