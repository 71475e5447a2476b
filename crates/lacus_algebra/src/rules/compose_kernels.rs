//! Rules R1: filters and maps are merged, pushed down, or made part of the kernel below them.

use super::Context;
use crate::kernel::{JoinKernel, MapKernel, ReduceKernel};
use crate::key::{KeyCondition, KeyFunction, KeyTerm};
use crate::physical::{LocalMap, Plan};
use crate::placement::Placement;
use crate::relation::{JoinOn, Missing};

/// R1-1: two filters are one.
pub fn merge_filters(plan: &Plan, _: Context<'_>) -> Option<Plan> {
    let Plan::Filter(outer, of) = plan else { return None };
    let Plan::Filter(inner, of) = &**of else { return None };
    Some(Plan::Filter(inner.clone().and(outer.clone()), of.clone()))
}

/// R1-2: two maps are one.
pub fn merge_maps(plan: &Plan, _: Context<'_>) -> Option<Plan> {
    let Plan::Map(LocalMap::One(outer_key, outer), of) = plan else { return None };
    let Plan::Map(LocalMap::One(inner_key, inner), of) = &**of else { return None };
    let map = LocalMap::One(inner_key.then(outer_key).ok()?, inner.clone().then(outer.clone()));
    Some(Plan::Map(map, of.clone()))
}

/// R1-3: a filter goes below a map. The paper asks that the map keeps the keys; a condition that is data can be
/// asked of the keys before any key function.
pub fn filter_before_map(plan: &Plan, _: Context<'_>) -> Option<Plan> {
    let Plan::Filter(condition, of) = plan else { return None };
    let Plan::Map(LocalMap::One(function, kernel), of) = &**of else { return None };
    let below = Plan::Filter(condition.after(function.terms()), of.clone());
    Some(below.map(function.clone(), kernel.clone()))
}

/// R1-4, first form: a map that keeps the keys becomes the last step of the aggregation below it.
///
/// Printed as `arrayMapFunc ∘ aggOp`, it would be applied at every pairwise step: `f(f(a + b) + c)`. Here it is
/// applied once, after the group is reduced; and only where the group is whole on its site, since what is mapped
/// cannot be reduced further.
pub fn map_within_aggregation(plan: &Plan, context: Context<'_>) -> Option<Plan> {
    let (kernel, of) = map_of_same_keys(plan)?;
    let Plan::Aggregate(group_by, reduce, inner) = of else { return None };
    if matches!(context.describe(of).ok()?.placement, Placement::Partial(..)) {
        return None;
    }
    let reduce = ReduceKernel::Then(Box::new(reduce.clone()), kernel.clone());
    Some(Plan::Aggregate(group_by.clone(), reduce, inner.clone()))
}

/// R1-4, second form: a map that keeps the keys and distributes over the aggregation goes below it. Equal up to
/// rounding.
pub fn map_before_aggregation(plan: &Plan, context: Context<'_>) -> Option<Plan> {
    let (kernel, of) = map_of_same_keys(plan)?;
    let Plan::Aggregate(group_by, reduce, inner) = of else { return None };
    if !kernel.distributes_over(reduce.as_op()?) {
        return None;
    }
    let arity = context.describe(inner).ok()?.arity;
    let mapped = (**inner).clone().map(KeyFunction::identity(arity), kernel.clone());
    context.checked(mapped.aggregate(group_by, reduce.clone()))
}

/// R1-5: a filter goes below an aggregation: the condition, on the parts that are grouped by.
///
/// The printed right side puts the condition in the place of the grouping (`Σ_(boolFunc(groupByKeys), aggOp)`).
pub fn filter_before_aggregation(plan: &Plan, _: Context<'_>) -> Option<Plan> {
    let Plan::Filter(condition, of) = plan else { return None };
    let Plan::Aggregate(group_by, reduce, inner) = &**of else { return None };
    let parts: Vec<KeyTerm> = group_by.iter().map(|&part| KeyTerm::Part(part)).collect();
    let below = Plan::Filter(condition.after(&parts), inner.clone());
    Some(below.aggregate(group_by, reduce.clone()))
}

/// R1-6: a filter goes below a join, each of its conditions to the side (or both sides) that has the parts it asks
/// for, with these numbered as they are there. What asks for parts of both sides stays above.
///
/// The printed form gives both sides the same condition: on the right side its positions mean other parts.
pub fn filter_before_join(plan: &Plan, context: Context<'_>) -> Option<Plan> {
    let Plan::Filter(condition, of) = plan else { return None };
    let Plan::Join(on, left, right) = &**of else { return None };
    let left_arity = context.describe(left).ok()?.arity;
    let right_arity = context.describe(right).ok()?.arity;
    let positions = on.right_positions(left_arity, right_arity);
    let mut conditions = Vec::new();
    split(condition, &mut conditions);
    let (mut to_left, mut to_right, mut stay) = (Vec::new(), Vec::new(), Vec::new());
    for condition in conditions {
        let parts = condition.parts();
        let on_left = parts.iter().all(|&part| part < left_arity);
        let on_right = parts.iter().all(|part| positions.contains(part));
        // Where a missing tile counts as the fill, leaving out one side alone would keep the key.
        if on.missing == Missing::Fill && !(on_left && on_right) || !(on_left || on_right) {
            stay.push(condition);
            continue;
        }
        if on_right {
            let arity = left_arity + right_arity - on.right.len();
            let terms: Vec<KeyTerm> = (0..arity)
                .map(|part| KeyTerm::Part(positions.iter().position(|&at| at == part).unwrap_or(0)))
                .collect();
            to_right.push(condition.after(&terms));
        }
        if on_left {
            to_left.push(condition);
        }
    }
    if to_left.is_empty() && to_right.is_empty() {
        return None;
    }
    let join = filtered((**left).clone(), to_left).join(filtered((**right).clone(), to_right), on.clone());
    Some(filtered(join, stay))
}

/// R1-7, first form: the kernel of a map becomes part of the join below it.
///
/// The printed form also applies the key function to the lists of joined positions, which are no keys; a key
/// function that changes something stays above, on its own.
pub fn map_within_join(plan: &Plan, _: Context<'_>) -> Option<Plan> {
    let Plan::Map(LocalMap::One(function, kernel), of) = plan else { return None };
    let Plan::Join(on, left, right) = &**of else { return None };
    if on.missing == Missing::Fill || *kernel == MapKernel::Identity {
        return None;
    }
    let kernel = JoinKernel::Then(Box::new(on.kernel.clone()), kernel.clone());
    let join = Plan::Join(JoinOn { kernel, ..on.clone() }, left.clone(), right.clone());
    Some(if function.is_identity() { join } else { join.map(function.clone(), MapKernel::Identity) })
}

/// R1-7, second form: a kernel that distributes over a join of elements goes below it, to both sides: only the
/// diagonals of `X` and `Y` are added in `diag(X + Y)`.
///
/// That asks for a join of elements: the diagonal of a product of matrices is not the product of their diagonals.
pub fn map_before_join(plan: &Plan, context: Context<'_>) -> Option<Plan> {
    let Plan::Map(LocalMap::One(function, kernel), of) = plan else { return None };
    let Plan::Join(on, left, right) = &**of else { return None };
    let JoinKernel::Elementwise(op) = &on.kernel else { return None };
    if on.missing == Missing::Fill || *kernel == MapKernel::Identity || !kernel.distributes_over(*op) {
        return None;
    }
    let mapped = |side: &Plan| {
        let arity = context.describe(side).ok()?.arity;
        Some(side.clone().map(KeyFunction::identity(arity), kernel.clone()))
    };
    let join = mapped(left)?.join(mapped(right)?, on.clone());
    let join = context.checked(join)?;
    Some(if function.is_identity() { join } else { join.map(function.clone(), MapKernel::Identity) })
}

fn map_of_same_keys(plan: &Plan) -> Option<(&MapKernel, &Plan)> {
    match plan {
        Plan::Map(LocalMap::One(function, kernel), of) if function.is_identity() => Some((kernel, of)),
        _ => None,
    }
}

fn split(condition: &KeyCondition, all: &mut Vec<KeyCondition>) {
    match condition {
        KeyCondition::All(conditions) => conditions.iter().for_each(|each| split(each, all)),
        other => all.push(other.clone()),
    }
}

fn filtered(plan: Plan, mut conditions: Vec<KeyCondition>) -> Plan {
    match (conditions.pop(), conditions.is_empty()) {
        (None, _) => plan,
        (Some(only), true) => plan.filter(only),
        (Some(last), false) => {
            conditions.push(last);
            plan.filter(KeyCondition::All(conditions))
        }
    }
}
