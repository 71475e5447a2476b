//! The last word of the simulator: an estimate adds up what operators take one after another, but sites compute while
//! tiles are sent. So where a program has few tasks, several plans are made and the one that runs fastest is taken.

use crate::error::AlgebraError;
use crate::expr::CheckedProgram;
use crate::machine::{Objective, PlanOptions};
use crate::plan::{ProgramPlan, Way, plan, plan_in_way};
use crate::schedule::schedule;
use crate::simulate::simulate;
use crate::task_graph::{GraphOptions, TaskGraph};

/// Steps of all tasks up to which plans are simulated: a fraction of a second each.
const MAX_STEPS: f64 = 2e5;

/// Contractions up to which doing all of them in one known way is worth a look.
const MAX_CONTRACTIONS: usize = 8;

/// Of plans that take nearly the same time the one that moves less is taken: the network may not be ours alone.
const NEAR: f64 = 1.02;

/// Plans a checked program: for the least movement as [`plan`] does, for the least time with the simulator to decide
/// between the plan of the least estimated time, that of the least movement, and those with every contraction done in
/// one known way. Fails as [`plan`] does.
pub fn plan_program(program: &CheckedProgram, options: &PlanOptions) -> Result<ProgramPlan, AlgebraError> {
    let best = plan(program, options)?;
    if options.objective == Objective::Moved || options.sites == 1 || steps(&best) > MAX_STEPS {
        return Ok(best);
    }
    let mut others = vec![plan(program, &PlanOptions { objective: Objective::Moved, ..*options })?];
    let network = &best.network;
    let contractions = network.running().iter().filter(|&&at| network.operators[at].is_contraction()).count();
    if (1..=MAX_CONTRACTIONS).contains(&contractions) {
        for way in Way::ALL {
            others.push(plan_in_way(program, options, way)?);
        }
    }
    let mut all = vec![(makespan(&best)?, best)];
    for mut other in others {
        other.options = *options;
        all.push((makespan(&other)?, other));
    }
    let fastest = all.iter().map(|(secs, _)| *secs).fold(f64::INFINITY, f64::min);
    let near = all.into_iter().filter(|(secs, _)| *secs <= fastest * NEAR).map(|(_, plan)| plan);
    match near.min_by_key(|plan| plan.moved_floats) {
        Some(chosen) => Ok(chosen),
        // Times are numbers, so that there is always one.
        None => plan(program, options),
    }
}

/// Steps of all operators in all rounds.
pub(crate) fn steps(plan: &ProgramPlan) -> f64 {
    let tiles = |extent: u64| extent.div_ceil(plan.tiling.block(extent)) as f64;
    plan.operators
        .iter()
        .map(|(&at, planned)| {
            let labels = plan.network.operators[at].labels();
            let own: f64 = labels.iter().map(|axis| tiles(axis.extent)).product();
            (own + 1.0) * planned.rounds as f64
        })
        .sum()
}

fn makespan(plan: &ProgramPlan) -> Result<f64, AlgebraError> {
    let graph = TaskGraph::build(plan, &GraphOptions::default())?;
    Ok(simulate(plan, &graph, &schedule(&graph, plan.options.sites)).makespan_secs)
}
