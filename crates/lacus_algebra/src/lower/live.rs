//! What nothing that is saved depends on is left out of the flow.

use crate::expr::Slot;
use crate::network::{FlowNode, Made, Network, Until};
use std::collections::BTreeSet;

/// Leaves the operators, loops and carried values in the flow that are needed.
pub(super) fn keep(network: &mut Network) {
    let mut live: BTreeSet<Slot> = BTreeSet::new();
    let mut open: Vec<Slot> = Vec::new();
    let mut loops: BTreeSet<usize> = BTreeSet::new();
    saved(network, &network.flow, &mut Vec::new(), &mut open, &mut loops);
    // A loop that does anything has to know when it ends.
    let condition = |at: usize| match network.loops[at].until {
        Until::Is(condition, _) => Some(condition),
        Until::Counted(..) => None,
    };
    open.extend(loops.iter().filter_map(|&at| condition(at)));
    while let Some(slot) = open.pop() {
        if !live.insert(slot) {
            continue;
        }
        let value = network.value(slot);
        for at in network.around(value.scope).filter_map(|scope| network.scopes[scope].of) {
            if loops.insert(at) {
                open.extend(condition(at));
            }
        }
        match value.made {
            Made::Operator(at) => open.extend(network.operators[at].reads.iter().map(|read| read.value)),
            Made::Carried(at) => {
                let carried = network.loops[at].carried.iter().filter(|carried| carried.inside == slot);
                open.extend(carried.flat_map(|carried| [carried.enter, carried.next]));
            }
            Made::Load(_) | Made::Parameter(_) | Made::Counter(_) => {}
        }
    }
    let mut flow = std::mem::take(&mut network.flow);
    filter(network, &mut flow, &live);
    network.flow = flow;
}

/// What is saved, and the loops in which.
fn saved(
    network: &Network,
    flow: &[FlowNode],
    around: &mut Vec<usize>,
    open: &mut Vec<Slot>,
    loops: &mut BTreeSet<usize>,
) {
    for node in flow {
        match node {
            FlowNode::Operator(_) => {}
            FlowNode::Save(slot, _) => {
                open.push(*slot);
                loops.extend(around.iter().copied());
            }
            FlowNode::Loop(at) => {
                around.push(*at);
                saved(network, &network.loops[*at].before, around, open, loops);
                saved(network, &network.loops[*at].after, around, open, loops);
                around.pop();
            }
        }
    }
}

fn filter(network: &mut Network, flow: &mut Vec<FlowNode>, live: &BTreeSet<Slot>) {
    flow.retain(|node| match node {
        FlowNode::Operator(at) => live.contains(&network.operators[*at].output),
        FlowNode::Save(..) => true,
        FlowNode::Loop(at) => {
            let at = *at;
            for part in 0..2 {
                let node = &mut network.loops[at];
                let list = if part == 0 { &mut node.before } else { &mut node.after };
                let mut nodes = std::mem::take(list);
                filter(network, &mut nodes, live);
                let node = &mut network.loops[at];
                *(if part == 0 { &mut node.before } else { &mut node.after }) = nodes;
            }
            let node = &mut network.loops[at];
            node.carried.retain(|carried| live.contains(&carried.inside));
            !(node.before.is_empty() && node.after.is_empty() && node.carried.is_empty())
        }
    });
}
