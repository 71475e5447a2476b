//! How a program would be run here, for people: nothing is computed.

use crate::engine::tile_bytes;
use crate::error::{ExecuteError, human};
use crate::form::{Manner, ProductForm, manner};
use crate::fuse::Fusing;
use crate::input::Input;
use crate::limits::default_memory_bytes;
use crate::output::{bytes_of, kept_in_memory};
use crate::run::{RunOptions, plan_for, plan_run, pooled, sparse_values};
use crate::sparsity::Densities;
use crate::units::{Beside, Unit, Units};
use lacus_algebra::expr::{CheckedProgram, Slot};
use lacus_algebra::{FlowNode, Formula, Known, Made, ProgramPlan, Task, TaskGraph, TaskId, Until};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// How a program would be run on these inputs: tiles, what stays sparse, which formulas are done at one go with what they
/// are of, what takes memory. Results go back to the caller, or are stored if they are larger than the budget.
pub fn explain_run(
    program: &CheckedProgram,
    inputs: &BTreeMap<String, Input<'_>>,
    options: &RunOptions,
) -> Result<String, ExecuteError> {
    let (plan, is_stored) = match plan_run(program, inputs, options) {
        Err(ExecuteError::Budget { .. }) => (plan_for(program, inputs, &|_| true, options)?, true),
        found => (found?, false),
    };
    let sparse = sparse_values(&plan.network, inputs)?;
    let budget = options.memory_bytes.unwrap_or_else(default_memory_bytes);
    let kept = kept_in_memory(&plan.network, &|_| is_stored, budget, &sparse);
    let results = bytes_of(&plan.network, &kept);
    let mut explained = Explained {
        plan: &plan,
        inputs,
        sparse: &sparse,
        is_stored,
        budget,
        results,
        in_place: BTreeMap::new(),
        text: String::new(),
    };
    let how = Fusing { sparse: &sparse, on_one_site: options.sites.is_some(), is_off: options.forbid_nan };
    explained.find_fused(&plan.network.flow, &how, &mut Known::new())?;
    // Writing to a string does not fail.
    let _ = explained.write(options);
    Ok(explained.text)
}

struct Explained<'a> {
    plan: &'a ProgramPlan,
    inputs: &'a BTreeMap<String, Input<'a>>,
    sparse: &'a Densities,
    /// Whether results are stored, and not handed back.
    is_stored: bool,
    /// Bytes that there are, and those of results among them.
    budget: u64,
    results: u64,
    /// Formulas that are done in place, and what is there before them.
    in_place: BTreeMap<Slot, Slot>,
    text: String,
}

impl Explained<'_> {
    fn find_fused(
        &mut self,
        flow: &[FlowNode],
        how: &Fusing<'_>,
        known: &mut Known,
    ) -> Result<(), ExecuteError> {
        let network = &self.plan.network;
        let left = self.budget.saturating_sub(self.results + pooled(self.budget, self.results));
        for part in flow.split(|node| matches!(node, FlowNode::Loop(_))).filter(|part| !part.is_empty()) {
            let graph = TaskGraph::of_part(self.plan, part, known)?;
            let bytes = |task: TaskId| graph.task(task).map_or(0, |task| self.bytes(&task));
            let beside = |unit: &Unit| match network.value(graph.task(unit.task)?.value).made {
                Made::Operator(at) => Some(Beside::of(self.plan, &network.operators[at])),
                _ => None,
            };
            let fits = |unit: &Unit| unit.need(beside(unit).unwrap_or(Beside::NOTHING), bytes) <= left;
            let fused = Units::that_fit(self.plan, &graph, how, fits)?.fused;
            for (from, to) in fused.pairs() {
                if let (Some(from), Some(to)) = (graph.task(from), graph.task(to)) {
                    self.in_place.insert(to.value, from.value);
                }
            }
        }
        for node in flow {
            let FlowNode::Loop(at) = node else { continue };
            let node = &network.loops[*at];
            if let Until::Counted(counter, from, _) = &node.until {
                // One round stands for all.
                known.insert(*counter, network.position(from, known).unwrap_or(0));
            }
            self.find_fused(&node.before, how, known)?;
            self.find_fused(&node.after, how, known)?;
            if let Until::Counted(counter, ..) = &node.until {
                known.remove(counter);
            }
        }
        Ok(())
    }

    /// Bytes of a task's tile. What the caller has is there already.
    fn bytes(&self, task: &Task<'_>) -> u64 {
        match &self.plan.network.value(task.value).made {
            Made::Load(name)
                if !self.sparse.contains_key(&task.value)
                    && !matches!(self.inputs.get(name), Some(Input::Stored(..))) =>
            {
                0
            }
            _ => tile_bytes(self.plan, self.sparse, task.value, task.tile),
        }
    }

    fn write(&mut self, options: &RunOptions) -> std::fmt::Result {
        let (plan, network) = (self.plan, &self.plan.network);
        let (inputs, budget, results) = (self.inputs, self.budget, self.results);
        let workers = options.team().threads();
        let mut text = String::new();
        writeln!(
            text,
            "within {}, of which results take {}; {workers} workers, sums split among {} lanes",
            human(budget),
            human(results),
            plan.options.sites,
        )?;
        if self.is_stored {
            writeln!(text, "results are too large to go back to the caller: they have to be stored")?;
        }
        writeln!(text, "\nloads")?;
        let from = |name: &str| match inputs.get(name) {
            Some(Input::Stored(table, stored)) => format!("{stored:?} of {}", table.store().text()),
            _ => "of the caller".to_owned(),
        };
        for (slot, name) in plan.loads() {
            writeln!(text, "  {}, {}: {}", self.value(slot), from(name), self.tiles(slot))?;
        }
        let factors = network.apart.iter().flat_map(|(at, _)| &network.operators[*at].reads);
        let factors: BTreeSet<Slot> = factors.map(|read| read.value).collect();
        for slot in factors {
            if let Made::Load(name) = &network.value(slot).made {
                writeln!(text, "  {}, {}: whole", self.value(slot), from(name))?;
            }
        }
        writeln!(text, "\nsteps")?;
        for (at, name) in &network.apart {
            let operator = &network.operators[*at];
            writeln!(text, "  {}", Formula(network, operator))?;
            writeln!(text, "    product with sparse factors, counted first: row by row")?;
            writeln!(text, "  save {name:?}: {}", self.value(operator.output))?;
        }
        self.steps(&network.flow, 1, &mut text)?;
        self.text = text;
        Ok(())
    }

    fn steps(&self, flow: &[FlowNode], depth: usize, text: &mut String) -> std::fmt::Result {
        let network = &self.plan.network;
        let indent = "  ".repeat(depth);
        for node in flow {
            match node {
                FlowNode::Operator(at) => {
                    let operator = &network.operators[*at];
                    writeln!(text, "{indent}{}", Formula(network, operator))?;
                    let how = self.how(*at);
                    writeln!(text, "{indent}  {how}: {}", self.tiles(operator.output))?;
                }
                FlowNode::Save(slot, name) => {
                    writeln!(text, "{indent}save {name:?}: {}", self.value(*slot))?;
                }
                FlowNode::Loop(at) => {
                    let node = &network.loops[*at];
                    let names = node.carried.iter().map(|carried| &*network.value(carried.inside).name);
                    let names: Vec<&str> = names.collect();
                    let kind = match node.until {
                        Until::Counted(..) => "counted rounds",
                        Until::Is(..) => "rounds until a condition holds",
                    };
                    writeln!(text, "{indent}{kind}, which carry {}", names.join(", "))?;
                    self.steps(&node.before, depth + 1, text)?;
                    self.steps(&node.after, depth + 1, text)?;
                }
            }
        }
        Ok(())
    }

    /// What is done for an operator.
    fn how(&self, at: usize) -> String {
        let network = &self.plan.network;
        let operator = &network.operators[at];
        if let Some(from) = self.in_place.get(&operator.output) {
            return format!("in place of {}, part by part as that is made", network.value(*from).name);
        }
        let is_sparse = |slot: Slot| self.sparse.contains_key(&slot);
        let reads_sparse = operator.reads.iter().any(|read| is_sparse(read.value));
        let how = match manner(network, operator, &is_sparse).filter(|_| reads_sparse) {
            Some(Manner::Nonzeros) => "formula at the nonzeros",
            Some(Manner::Folded) => "sum of a formula at the nonzeros",
            Some(Manner::Sampled) => "product at the nonzeros only",
            Some(Manner::Product) => "product with sparse factors",
            Some(Manner::Moved) => "nonzeros at other places",
            None if operator.fold.is_none() => "formula",
            None if ProductForm::of(network, operator).is_some() => "product",
            None => "reduction of a formula",
        };
        how.to_owned()
    }

    fn value(&self, slot: Slot) -> String {
        let value = self.plan.network.value(slot);
        let sparse = match self.sparse.get(&slot) {
            Some(density) if *density < 1e-3 => format!(", {:.1e} % of it not zero", 100.0 * density),
            Some(density) => format!(", {:.1} % of it not zero", 100.0 * density),
            None => String::new(),
        };
        let name = match &value.made {
            Made::Load(name) => name,
            _ => &value.name,
        };
        format!("{name} {} {:?}{sparse}", value.dtype.name(), value.dims)
    }

    fn tiles(&self, slot: Slot) -> String {
        let tiles = self.plan.tiles(slot);
        match tiles.len() {
            1 => "one tile".to_owned(),
            count => format!("{count} tiles of {:?}", tiles.blocks),
        }
    }
}
