//! Rewrite rules of the physical algebra, in a form that is sound.
//!
//! A rule takes a plan and gives an equivalent one, or `None` where it does not apply: the same relation, with a
//! placement that is at least as well known, unless the rule's page says that the placement changes. The paper calls
//! two plans equivalent when they give the same tiles after the sites are forgotten; under local operators that is no
//! congruence, so what is above a rewritten plan has to be described again when its placement changed.
//!
//! | rule | here | the printed form |
//! |---|---|---|
//! | R1-1 | [`merge_filters`] | as printed |
//! | R1-2 | [`merge_maps`] | as printed |
//! | R1-3 | [`filter_before_map`] | as printed; here for any key function |
//! | R1-4 | [`map_within_aggregation`], [`map_before_aggregation`] | first form applies the map at every step |
//! | R1-5 | [`filter_before_aggregation`] | has the condition in the place of the grouping |
//! | R1-6 | [`filter_before_join`] | same positions on both sides |
//! | R1-7 | [`map_within_join`], [`map_before_join`] | maps lists of positions as if they were keys |
//! | R2-1 | [`move_once`] | as printed |
//! | R2-2 | [`filter_before_move`] | as printed |
//! | R2-3 | [`map_before_move`] | as printed, except where contributions are moved |
//! | R2-4 | [`aggregate_in_place`] | no condition on where the tiles are |
//! | R2-5 | [`aggregate_before_shuffle`] | shuffles by parts that no longer exist |
//! | R2-6 | [`join_placements`] | as printed |
//! | R2-7 | [`keep_joined_in_place`] | inclusion the wrong way round |

mod compose_kernels;
mod move_less;
mod multiply_matrices;

pub use compose_kernels::{
    filter_before_aggregation, filter_before_join, filter_before_map, map_before_aggregation,
    map_before_join, map_within_aggregation, map_within_join, merge_filters, merge_maps,
};
pub use move_less::{
    aggregate_before_shuffle, aggregate_in_place, filter_before_move, join_placements, keep_joined_in_place,
    map_before_move, move_once,
};
pub use multiply_matrices::{broadcast_multiply, cross_product_multiply, replicate_multiply};

use crate::error::AlgebraError;
use crate::physical::{Plan, RelationType};
use std::collections::BTreeMap;

/// What rules may know: the inputs of the plan and the number of sites.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Inputs by name.
    pub inputs: &'a BTreeMap<String, RelationType>,
    /// Sites there are.
    pub sites: usize,
}

impl Context<'_> {
    /// What a plan makes.
    pub fn describe(&self, plan: &Plan) -> Result<RelationType, AlgebraError> {
        plan.describe(self.inputs, self.sites)
    }

    /// The plan, if it can be run.
    fn checked(&self, plan: Plan) -> Option<Plan> {
        self.describe(&plan).ok().map(|_| plan)
    }
}

#[cfg(test)]
mod tests;
