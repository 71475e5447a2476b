//! An explanation for Graphviz: `dot -Tsvg`.

use super::Explanation;
use crate::expr::Slot;
use crate::network::{FlowNode, Formula, Made, Network};
use crate::task_graph::TaskKind;
use std::fmt::Write;

/// Tasks up to which they are drawn.
const MAX_TASKS: usize = 200;

pub(super) fn dot(explanation: &Explanation) -> String {
    let mut out = String::from("digraph program {\n  rankdir=BT;\n  node [shape=box];\n");
    // Writing to a string does not fail.
    let _ = operators(explanation, &mut out);
    let _ = tasks(explanation, &mut out);
    out.push_str("}\n");
    out
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn operators(explanation: &Explanation, out: &mut String) -> std::fmt::Result {
    let plan = &explanation.plan;
    let network = &plan.network;
    writeln!(out, "  subgraph cluster_operators {{\n    label={};", quoted("operators"))?;
    for (&slot, placed) in &plan.placed {
        let value = network.value(slot);
        let text = match &value.made {
            Made::Operator(at) => {
                let operator = &network.operators[*at];
                let spread = plan
                    .operators
                    .get(at)
                    .map_or("where it is needed".to_owned(), |planned| planned.spread.to_string());
                format!("{}\n{spread}", Formula(network, operator))
            }
            Made::Carried(_) => format!("{} from round to round", value.name),
            _ => format!("{} {:?}", value.name, value.dims),
        };
        let shape = if matches!(value.made, Made::Load(_)) { "ellipse" } else { "box" };
        let moved =
            if placed.moved_floats > 0 { format!("\nmoves {}", placed.moved_floats) } else { String::new() };
        writeln!(out, "    v{} [shape={shape}, label={}];", slot.0, quoted(&format!("{text}{moved}")))?;
    }
    for at in network.running() {
        let operator = &network.operators[at];
        let mut seen: Vec<Slot> = Vec::new();
        for read in &operator.reads {
            if !seen.contains(&read.value) {
                seen.push(read.value);
                writeln!(out, "    v{} -> v{};", read.value.0, operator.output.0)?;
            }
        }
    }
    for of in network.looping() {
        for carried in &network.loops[of].carried {
            writeln!(out, "    v{} -> v{};", carried.enter.0, carried.inside.0)?;
            writeln!(
                out,
                "    v{} -> v{} [style=dashed, label=\"next round\"];",
                carried.next.0, carried.inside.0
            )?;
        }
    }
    saves(network, &network.flow, out)?;
    out.push_str("  }\n");
    Ok(())
}

fn saves(network: &Network, flow: &[FlowNode], out: &mut String) -> std::fmt::Result {
    for node in flow {
        match node {
            FlowNode::Save(slot, name) => {
                let to = quoted(&format!("save {name}"));
                writeln!(out, "    {to} [shape=ellipse];\n    v{} -> {to};", slot.0)?;
            }
            FlowNode::Loop(of) => {
                saves(network, &network.loops[*of].before, out)?;
                saves(network, &network.loops[*of].after, out)?;
            }
            FlowNode::Operator(_) => {}
        }
    }
    Ok(())
}

fn tasks(explanation: &Explanation, out: &mut String) -> std::fmt::Result {
    let Some(tasks) = explanation.tasks.as_ref().filter(|tasks| tasks.graph.len() <= MAX_TASKS) else {
        return Ok(());
    };
    let network = &explanation.plan.network;
    for (site, order) in tasks.schedule.sites.iter().enumerate().filter(|(_, order)| !order.is_empty()) {
        writeln!(out, "  subgraph cluster_site{site} {{\n    label=\"site {site}\";")?;
        for &id in order {
            let Some(task) = tasks.graph.task(id) else { continue };
            let kind = match task.kind {
                TaskKind::Load => "load",
                TaskKind::Apply => "apply",
                TaskKind::Accumulate => "accumulate",
                TaskKind::Reduce => "reduce",
                TaskKind::Carry => "carry",
                TaskKind::Given => "given",
            };
            let at = explanation.plan.tiles(task.value).coordinates(task.tile as usize);
            let text = format!("{kind} {}{at:?}", network.value(task.value).name);
            writeln!(out, "    t{id} [label={}];", quoted(&text))?;
        }
        out.push_str("  }\n");
    }
    for (id, task) in tasks.graph.tasks().enumerate() {
        for (at, input) in task.inputs.iter().enumerate() {
            if !task.inputs[..at].contains(input) {
                writeln!(out, "  t{input} -> t{id};")?;
            }
        }
    }
    Ok(())
}
