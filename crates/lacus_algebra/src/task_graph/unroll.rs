//! What runs, one after another, with loops written out.

use crate::error::AlgebraError;
use crate::expr::Slot;
use crate::network::{FlowNode, Known, Until};
use crate::plan::ProgramPlan;
use std::collections::{BTreeMap, BTreeSet};

/// Operators of all rounds, at most.
const MAX_INSTANCES: usize = 200_000;

/// One thing that runs once.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Doing {
    /// An operator.
    Operator(usize),
    /// A carried value takes another one.
    Carry { inside: Slot, from: Slot },
    /// A value is saved, looked at (a condition), or handed on.
    Output(Option<String>, Slot),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    pub(super) all: Vec<(Doing, u32)>,
    pub(super) known: Vec<Known>,
}

/// A whole program.
pub(super) fn program(plan: &ProgramPlan, rounds: Option<u64>) -> Result<Instances, AlgebraError> {
    let mut unroll = Unroll { plan, rounds, result: Instances::default() };
    unroll.result.known.push(Known::new());
    unroll.flow(&plan.network.flow, &mut Known::new())?;
    Ok(unroll.result)
}

/// A stretch without loops, with everything that is read elsewhere as an output.
pub(super) fn part(plan: &ProgramPlan, part: &[FlowNode], known: &Known) -> Result<Instances, AlgebraError> {
    if part.iter().any(|node| matches!(node, FlowNode::Loop(_))) {
        let (what, expected) = ("a part of a program", "without loops");
        return Err(AlgebraError::Argument { what, expected, found: "one with loops".to_owned() });
    }
    let mut unroll = Unroll { plan, rounds: None, result: Instances::default() };
    unroll.result.known.push(known.clone());
    unroll.flow(part, &mut known.clone())?;
    let network = &plan.network;
    let own: BTreeSet<usize> = part
        .iter()
        .filter_map(|node| match node {
            FlowNode::Operator(at) => Some(*at),
            _ => None,
        })
        .collect();
    let mut read: BTreeSet<Slot> = network
        .running()
        .into_iter()
        .filter(|at| !own.contains(at))
        .flat_map(|at| network.operators[at].reads.iter().map(|read| read.value))
        .collect();
    for of in network.looping() {
        let node = &network.loops[of];
        read.extend(node.carried.iter().flat_map(|carried| [carried.enter, carried.next]));
        if let Until::Is(condition, _) = node.until {
            read.insert(condition);
        }
    }
    // What is saved within the part is handed out there; elsewhere it is read.
    let here = part.iter().filter_map(|node| match node {
        FlowNode::Save(slot, _) => Some(*slot),
        _ => None,
    });
    let mut elsewhere: BTreeMap<Slot, usize> = BTreeMap::new();
    network.saved().into_iter().for_each(|slot| *elsewhere.entry(slot).or_default() += 1);
    for slot in here {
        if let Some(count) = elsewhere.get_mut(&slot) {
            *count = count.saturating_sub(1);
        }
    }
    read.extend(elsewhere.into_iter().filter(|(_, count)| *count > 0).map(|(slot, _)| slot));
    for node in part {
        if let FlowNode::Operator(at) = node
            && read.contains(&network.operators[*at].output)
        {
            unroll.push(Doing::Output(None, network.operators[*at].output))?;
        }
    }
    Ok(unroll.result)
}

struct Unroll<'a> {
    plan: &'a ProgramPlan,
    rounds: Option<u64>,
    result: Instances,
}

impl Unroll<'_> {
    fn push(&mut self, doing: Doing) -> Result<(), AlgebraError> {
        if self.result.all.len() >= MAX_INSTANCES {
            let expected = "of at most 200000 operators in all rounds: ask for fewer rounds";
            let found = format!("one of more than {MAX_INSTANCES}");
            return Err(AlgebraError::Argument { what: "a task graph", expected, found });
        }
        let round = self.result.known.len() as u32 - 1;
        self.result.all.push((doing, round));
        Ok(())
    }

    fn flow(&mut self, flow: &[FlowNode], known: &mut Known) -> Result<(), AlgebraError> {
        for node in flow {
            match node {
                FlowNode::Operator(at) => self.push(Doing::Operator(*at))?,
                FlowNode::Save(slot, name) => self.push(Doing::Output(Some(name.clone()), *slot))?,
                FlowNode::Loop(at) => self.rounds(*at, known)?,
            }
        }
        Ok(())
    }

    fn rounds(&mut self, of: usize, known: &mut Known) -> Result<(), AlgebraError> {
        let plan = self.plan;
        let node = &plan.network.loops[of];
        for carried in &node.carried {
            self.push(Doing::Carry { inside: carried.inside, from: carried.enter })?;
        }
        let most = self.rounds.unwrap_or(u64::MAX);
        let (counter, numbers) = match &node.until {
            Until::Counted(counter, from, to) => {
                let of = |at| plan.network.position(at, known).unwrap_or(0);
                let (from, to) = (of(from), of(to));
                (Some(*counter), from..from.saturating_add_unsigned(most).min(to).max(from))
            }
            Until::Is(..) => (None, 0..plan.options.rounds.min(most) as i64),
        };
        let last = numbers.end - 1;
        for n in numbers {
            if let Some(counter) = counter {
                known.insert(counter, n);
            }
            self.result.known.push(known.clone());
            self.flow(&node.before, known)?;
            if let Until::Is(condition, _) = node.until {
                self.push(Doing::Output(None, condition))?;
                if n == last {
                    break;
                }
                self.flow(&node.after, known)?;
            }
            for carried in &node.carried {
                self.push(Doing::Carry { inside: carried.inside, from: carried.next })?;
            }
        }
        // What follows knows no counter of this loop.
        if let Some(counter) = counter {
            known.remove(&counter);
        }
        self.result.known.push(known.clone());
        Ok(())
    }
}
