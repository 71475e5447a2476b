//! An explanation for people.

use super::{Explanation, line};
use crate::machine::Objective;
use crate::network::{Formula, Made, Until};
use std::fmt::Write;

pub(super) fn text(explanation: &Explanation) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(explanation, &mut out);
    out
}

fn write(explanation: &Explanation, out: &mut String) -> std::fmt::Result {
    let plan = &explanation.plan;
    let network = &plan.network;
    let goal = match plan.options.objective {
        Objective::Moved => "the least movement",
        Objective::Time => "the least time",
    };
    writeln!(
        out,
        "for {goal} on {} sites, tiles of {}: {} floats ({} bytes) moved, {} in all",
        plan.options.sites,
        plan.tiling.largest_block(),
        plan.moved_floats,
        plan.moved_bytes,
        secs(plan.secs),
    )?;
    let found =
        if plan.is_exact { "no combination of spreads is better" } else { "not all combinations were tried" };
    writeln!(out, "{found}")?;
    for (way, moved) in &explanation.ways {
        writeln!(out, "with every contraction by {}: {moved} floats moved", way.name())?;
    }
    writeln!(out, "\nvalues")?;
    for (&slot, placed) in &plan.placed {
        let value = network.value(slot);
        let from = match &value.made {
            Made::Load(name) => format!("load \"{name}\""),
            Made::Carried(_) => "carried by a loop".to_owned(),
            _ => "computed".to_owned(),
        };
        writeln!(
            out,
            "  {} {} {:?}, {from}: {} tiles, {} floats moved",
            value.name,
            value.dtype.name(),
            value.dims,
            placed.homes.len(),
            placed.moved_floats,
        )?;
    }
    writeln!(out, "\noperators")?;
    let line_ends = explanation.line_ends();
    for (&at, planned) in &plan.operators {
        let operator = &network.operators[at];
        let line = line(&line_ends, operator.span.start);
        writeln!(out, "  line {line}, {}: {}", operator.kind(), Formula(network, operator))?;
        let rounds = if planned.rounds == 1 { String::new() } else { format!(", {} times", planned.rounds) };
        writeln!(
            out,
            "    {} on {} sites{rounds}: {} floats of contributions moved, {}, {} bytes on a site",
            planned.spread,
            planned.spread.used(),
            planned.contributions,
            secs(planned.secs),
            planned.memory_bytes,
        )?;
        for other in &planned.alternatives {
            writeln!(
                out,
                "    not {}, {}: {} floats moved in all, {}",
                other.name, other.spread, other.moved_floats, other.reason
            )?;
        }
    }
    for of in network.looping() {
        let node = &network.loops[of];
        let names: Vec<&str> =
            node.carried.iter().map(|carried| &*network.value(carried.inside).name).collect();
        let rounds = match node.until {
            Until::Counted(..) => "counted".to_owned(),
            Until::Is(..) => format!("{} rounds assumed", plan.options.rounds),
        };
        let line = line(&line_ends, node.span.start);
        writeln!(out, "  line {line}, loop, {rounds}: carries {}", names.join(", "))?;
    }
    tasks(explanation, out)
}

fn tasks(explanation: &Explanation, out: &mut String) -> std::fmt::Result {
    let Some(tasks) = &explanation.tasks else {
        return writeln!(out, "\ntasks\n  too many to write them out: make tiles larger");
    };
    let [load, apply, accumulate, reduce, carry, _] = tasks.graph.counts();
    writeln!(out, "\ntasks")?;
    if let Some(rounds) = tasks.rounds {
        writeln!(out, "  of {rounds} rounds of each loop")?;
    }
    writeln!(
        out,
        "  {}: {load} load, {apply} apply, {accumulate} accumulate ({} steps), {reduce} reduce, {carry} carry; {} bytes",
        tasks.graph.len(),
        tasks.graph.steps(&explanation.plan),
        tasks.graph.size_bytes(),
    )?;
    let simulation = &tasks.simulation;
    writeln!(out, "\nschedule, simulated")?;
    writeln!(
        out,
        "  {}, {:.0} % at work, {} bytes moved, {} bytes at most on a site, {} bytes spilled",
        secs(simulation.makespan_secs),
        100.0 * simulation.utilisation,
        simulation.moved_bytes,
        simulation.peak_bytes(),
        simulation.spilled_bytes(),
    )?;
    for (at, site) in simulation.sites.iter().enumerate() {
        writeln!(
            out,
            "  site {at}: {} tasks, {}, {} bytes received, {} sent, {} at most",
            site.tasks,
            secs(site.busy_secs),
            site.received_bytes,
            site.sent_bytes,
            site.peak_bytes,
        )?;
    }
    Ok(())
}

fn secs(secs: f64) -> String {
    match secs {
        s if s >= 10.0 => format!("{s:.0} s"),
        s if s >= 0.01 => format!("{s:.2} s"),
        s => format!("{:.3} ms", s * 1e3),
    }
}
