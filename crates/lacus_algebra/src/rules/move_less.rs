//! Rules R2: tiles are moved once, after they became fewer, or not at all.

use super::Context;
use crate::key::KeyTerm;
use crate::physical::{LocalMap, Plan};
use crate::placement::{Placement, SiteMap};
use crate::relation::{JoinOn, Missing};

/// R2-1: of several broadcasts and shuffles in a row only the last is needed.
pub fn move_once(plan: &Plan, _: Context<'_>) -> Option<Plan> {
    let inner = |of: &Plan| match of {
        Plan::Broadcast(inner) | Plan::Shuffle(_, inner) => Some(inner.clone()),
        _ => None,
    };
    match plan {
        Plan::Broadcast(of) => Some(Plan::Broadcast(inner(of)?)),
        Plan::Shuffle(map, of) => Some(Plan::Shuffle(map.clone(), inner(of)?)),
        _ => None,
    }
}

/// R2-2: what is filtered afterwards need not be moved.
pub fn filter_before_move(plan: &Plan, _: Context<'_>) -> Option<Plan> {
    let Plan::Filter(condition, of) = plan else { return None };
    let below = |of: &Plan| of.clone().filter(condition.clone());
    match &**of {
        Plan::Broadcast(of) => Some(below(of).broadcast()),
        Plan::Shuffle(map, of) => Some(below(of).shuffle(map.clone())),
        _ => None,
    }
}

/// R2-3: tiles are mapped before they are moved. For a shuffle, the parts of the key that it deals out by must still
/// be there after the map.
///
/// Where contributions are moved (and thereby reduced), the kernel must distribute over their reduction; relations of
/// the paper have no contributions, so its form has no such condition.
pub fn map_before_move(plan: &Plan, context: Context<'_>) -> Option<Plan> {
    let Plan::Map(LocalMap::One(function, kernel), of) = plan else { return None };
    let below = |of: &Plan| of.clone().map(function.clone(), kernel.clone());
    match &**of {
        Plan::Broadcast(of) => context.checked(below(of).broadcast()),
        Plan::Shuffle(map, of) => {
            let at = |part| function.terms().iter().position(|term| *term == KeyTerm::Part(part));
            let followed = map.follow(at);
            let kept = followed.is_settled() && followed != SiteMap::Somewhere;
            if kept { context.checked(below(of).shuffle(fixed(&followed)?)) } else { None }
        }
        _ => None,
    }
}

/// A map in which every axis has a part: axes of one site without a part are dropped.
fn fixed(map: &SiteMap) -> Option<SiteMap> {
    match map {
        SiteMap::Grid(axes) => {
            Some(SiteMap::Grid(axes.iter().filter(|axis| axis.part.is_some()).copied().collect()))
        }
        SiteMap::Somewhere => None,
    }
}

/// R2-4: no shuffle before an aggregation when each group is on one site already. The groups stay where they are, so
/// the placement is that of what is aggregated.
///
/// Printed without a condition on where the tiles are: groups that lie apart would be reduced apart.
pub fn aggregate_in_place(plan: &Plan, context: Context<'_>) -> Option<Plan> {
    let Plan::Aggregate(group_by, kernel, of) = plan else { return None };
    let Plan::Shuffle(_, inner) = &**of else { return None };
    let placement = context.describe(inner).ok()?.placement;
    placement.is_partitioned_by(group_by).then(|| inner.as_ref().clone().aggregate(group_by, kernel.clone()))
}

/// R2-5: tiles are aggregated where they are, and the contributions shuffled and reduced on arrival.
///
/// The printed right side shuffles by parts of the key that the first aggregation has removed.
pub fn aggregate_before_shuffle(plan: &Plan, context: Context<'_>) -> Option<Plan> {
    let Plan::Aggregate(group_by, kernel, of) = plan else { return None };
    let Plan::Shuffle(map, inner) = &**of else { return None };
    let op = kernel.as_op().filter(|op| op.is_associative() && op.is_commutative())?;
    let followed = map.follow(|part| group_by.iter().position(|&kept| kept == part));
    if !followed.is_settled() {
        return None;
    }
    let kernel = crate::kernel::ReduceKernel::Elementwise(op);
    context.checked(inner.as_ref().clone().aggregate(group_by, kernel).shuffle(fixed(&followed)?))
}

/// R2-6: the ways to join two relations, of which some may not apply: the left side broadcast, the right side
/// broadcast, both dealt out by the joined parts. Broadcasts and shuffles that are there already are replaced.
///
/// Each has its own placement.
pub fn join_placements(plan: &Plan, context: Context<'_>) -> Vec<Plan> {
    let Plan::Join(on, left, right) = plan else { return Vec::new() };
    let (left, right) = (unmoved(left), unmoved(right));
    let mut all = vec![
        left.clone().broadcast().join(right.clone(), on.clone()),
        left.clone().join(right.clone().broadcast(), on.clone()),
    ];
    let [left_map, right_map] = joined_maps(on, context.sites);
    all.push(left.clone().shuffle(left_map).join(right.clone().shuffle(right_map), on.clone()));
    // What is joined with a relation on all sites must itself be settled.
    all.into_iter().filter(|plan| context.describe(plan).is_ok()).collect()
}

/// The maps that deal both sides of a join out by the joined parts, to the same sites.
pub(super) fn joined_maps(on: &JoinOn, sites: usize) -> [SiteMap; 2] {
    [&on.left, &on.right].map(|parts| SiteMap::over(parts, sites))
}

fn unmoved(plan: &Plan) -> &Plan {
    match plan {
        Plan::Broadcast(of) | Plan::Shuffle(_, of) => unmoved(of),
        other => other,
    }
}

/// R2-7: no shuffle after a join whose tiles are together already: those that agree on the parts the shuffle deals
/// out by. They stay where the join left them, so the placement is that of the join.
///
/// A join dealt out by the parts J leaves tiles that agree on J together, and hence those that agree on more parts
/// than J. The shuffle's parts must include J; printed the other way round.
pub fn keep_joined_in_place(plan: &Plan, context: Context<'_>) -> Option<Plan> {
    let Plan::Shuffle(map, of) = plan else { return None };
    let Plan::Join(on, ..) = &**of else { return None };
    let placement = context.describe(of).ok()?.placement;
    let together = matches!(placement, Placement::Part(_)) && placement.is_partitioned_by(&map.parts()?);
    (together && on.missing == Missing::Skip).then(|| of.as_ref().clone())
}
