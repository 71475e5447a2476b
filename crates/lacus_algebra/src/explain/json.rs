//! An explanation for programs.

use super::{Explanation, Tasks, line};
use crate::machine::Objective;
use crate::network::{Formula, Made, Until, letter};
use crate::plan::{Alternative, PlannedOperator};
use crate::spread::Spread;
use serde_json::{Map, Value, json};

pub(super) fn json(explanation: &Explanation) -> Value {
    let plan = &explanation.plan;
    let values: Vec<Value> = plan
        .placed
        .iter()
        .map(|(&slot, placed)| {
            let value = plan.network.value(slot);
            json!({
                "name": value.name,
                "dtype": value.dtype.name(),
                "shape": value.dims,
                "tiles": placed.homes.len(),
                "from": from(&value.made),
                "moved_floats": number(placed.moved_floats),
            })
        })
        .collect();
    let line_ends = explanation.line_ends();
    let line_of = |start| line(&line_ends, start);
    let operators: Vec<Value> =
        plan.operators.iter().map(|(&at, planned)| operator(explanation, at, planned, &line_of)).collect();
    let loops: Vec<Value> = plan
        .network
        .looping()
        .into_iter()
        .map(|of| {
            let node = &plan.network.loops[of];
            let carried: Vec<&str> =
                node.carried.iter().map(|carried| &*plan.network.value(carried.inside).name).collect();
            let is_counted = matches!(node.until, Until::Counted(..));
            json!({"line": line_of(node.span.start), "counted": is_counted, "carries": carried})
        })
        .collect();
    let ways: Map<String, Value> =
        explanation.ways.iter().map(|(way, moved)| (way.name().to_owned(), number(*moved))).collect();
    json!({
        "sites": plan.options.sites,
        "objective": match plan.options.objective { Objective::Moved => "moved", Objective::Time => "time" },
        "block": plan.tiling.largest_block(),
        "memory_bytes": plan.options.memory_bytes,
        "assumed_rounds": plan.options.rounds,
        "moved_floats": number(plan.moved_floats),
        "moved_bytes": number(plan.moved_bytes),
        "estimated_secs": plan.secs,
        "exact": plan.is_exact,
        "values": values,
        "operators": operators,
        "loops": loops,
        "all_contractions_by": ways,
        "tasks": explanation.tasks.as_ref().map(|tasks| task_counts(explanation, tasks)),
        "schedule": explanation.tasks.as_ref().map(run),
    })
}

/// JSON's numbers are doubles to many readers, and ours fit 64 bits unless something is very large.
fn number(n: u128) -> Value {
    u64::try_from(n).map_or_else(|_| json!(n as f64), |n| json!(n))
}

fn from(made: &Made) -> String {
    match made {
        Made::Load(name) => format!("load {name}"),
        Made::Operator(at) => format!("operator {at}"),
        Made::Carried(of) => format!("loop {of}"),
        Made::Parameter(_) | Made::Counter(_) => "known".to_owned(),
    }
}

fn spread(spread: &Spread) -> Value {
    match spread {
        Spread::Grid(sites) => {
            let along: Map<String, Value> = sites
                .iter()
                .enumerate()
                .map(|(at, n)| (letter(crate::expr::Index(at as u32)), json!(n)))
                .collect();
            json!({"grid": along, "sites_used": spread.used()})
        }
        Spread::Table(_) => json!({"follows_tiles": true, "sites_used": spread.used()}),
    }
}

fn operator(
    explanation: &Explanation,
    at: usize,
    planned: &PlannedOperator,
    line_of: &dyn Fn(usize) -> usize,
) -> Value {
    let network = &explanation.plan.network;
    let operator = &network.operators[at];
    let other = |other: &Alternative| {
        json!({
            "name": other.name,
            "spread": spread(&other.spread),
            "moved_floats": number(other.moved_floats),
            "reason": other.reason,
        })
    };
    json!({
        "number": at,
        "line": line_of(operator.span.start),
        "kind": operator.kind(),
        "formula": Formula(network, operator).to_string(),
        "spread": spread(&planned.spread),
        "rounds": number(planned.rounds),
        "moved_contributions": number(planned.contributions),
        "secs": planned.secs,
        "memory_bytes_per_site": planned.memory_bytes,
        "alternatives": planned.alternatives.iter().map(other).collect::<Vec<_>>(),
    })
}

fn task_counts(explanation: &Explanation, tasks: &Tasks) -> Value {
    let [load, apply, accumulate, reduce, carry, _] = tasks.graph.counts();
    json!({
        "total": tasks.graph.len(),
        "load": load,
        "apply": apply,
        "accumulate": accumulate,
        "reduce": reduce,
        "carry": carry,
        "steps": tasks.graph.steps(&explanation.plan),
        "graph_bytes": tasks.graph.size_bytes(),
        "rounds_written_out": tasks.rounds,
    })
}

fn run(tasks: &Tasks) -> Value {
    let simulation = &tasks.simulation;
    let sites: Vec<Value> = simulation
        .sites
        .iter()
        .map(|site| {
            json!({
                "tasks": site.tasks,
                "busy_secs": site.busy_secs,
                "received_bytes": number(site.received_bytes),
                "sent_bytes": number(site.sent_bytes),
                "peak_bytes": site.peak_bytes,
                "spilled_bytes": number(site.spilled_bytes),
                "reread_bytes": number(site.reread_bytes),
            })
        })
        .collect();
    json!({
        "moved_floats": number(simulation.moved_floats),
        "moved_bytes": number(simulation.moved_bytes),
        "makespan_secs": simulation.makespan_secs,
        "utilisation": simulation.utilisation,
        "peak_bytes": simulation.peak_bytes(),
        "spilled_bytes": number(simulation.spilled_bytes()),
        "sites": sites,
    })
}
