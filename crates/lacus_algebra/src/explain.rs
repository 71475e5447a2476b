//! Plans for people and programs: text, JSON and Graphviz of each level, from the operators of a program to who does
//! what when. No data is needed, only shapes.
//!
//! ```
//! use lacus_algebra::{ExplainOptions, explain_program, parse_shapes};
//!
//! let shapes = parse_shapes("A=40000x40000,B=40000x40000")?;
//! let options = ExplainOptions { shapes, sites: 10, block: Some(4000), ..ExplainOptions::default() };
//! let explanation = explain_program("A = load(\"A\"); B = load(\"B\")\nsave(A @ B, \"C\")", &options)?;
//! assert!(explanation.to_json()["moved_floats"].as_u64() >= Some(6_400_000_000));
//! # Ok::<(), lacus_algebra::AlgebraError>(())
//! ```

mod graphviz;
mod json;
mod physical;
mod shapes;
mod text;

pub use physical::{explain_plan, plan_graphviz};
pub use shapes::{TensorType, parse_shapes};

use crate::choose::{plan_program, steps};
use crate::error::AlgebraError;
use crate::function::Functions;
use crate::infer::{Inputs, check};
use crate::machine::{Machine, Objective, PlanOptions};
use crate::plan::{ProgramPlan, Way, plan_in_way};
use crate::schedule::{Schedule, schedule};
use crate::simulate::{Simulation, simulate};
use crate::syntax::parser::parse;
use crate::task_graph::{GraphOptions, TaskGraph};
use lacus_tensor::Shape;
use std::collections::BTreeMap;

/// What a program is explained for.
#[derive(Clone, Debug)]
pub struct ExplainOptions {
    /// The tensors that it may load.
    pub shapes: BTreeMap<String, TensorType>,
    /// Sites there are.
    pub sites: u64,
    /// The extent of a tile along every axis; `None` chooses one.
    pub block: Option<u64>,
    /// What is to be little.
    pub objective: Objective,
    /// Bytes of memory of a site; `None` for as many as it takes.
    pub memory_bytes: Option<u64>,
    /// What a site can do.
    pub machine: Machine,
    /// Rounds that a loop is assumed to take whose end depends on data.
    pub rounds: u64,
    /// Functions that it may call.
    pub functions: Functions,
}

impl Default for ExplainOptions {
    fn default() -> ExplainOptions {
        let PlanOptions { sites, block, objective, machine, memory_bytes, rounds, .. } =
            PlanOptions::default();
        let (shapes, functions) = (BTreeMap::new(), Functions::new());
        ExplainOptions { shapes, sites, block, objective, memory_bytes, machine, rounds, functions }
    }
}

/// What a program would do.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The plan.
    pub plan: ProgramPlan,
    /// What it would move with every contraction done in one known way, if it has contractions, and not too many.
    pub ways: Vec<(Way, u128)>,
    /// The tasks, and what it would be like to run them; none where there are too many to write them out.
    pub tasks: Option<Tasks>,
}

/// Tasks of a program.
#[derive(Clone, Debug)]
pub struct Tasks {
    /// Rounds of loops that were written out at most; `None` for all of them.
    pub rounds: Option<u64>,
    /// The tasks.
    pub graph: TaskGraph,
    /// Who does what, in which order.
    pub schedule: Schedule,
    /// How that would go.
    pub simulation: Simulation,
}

/// Steps of all tasks up to which these are written out: a few seconds.
const MAX_STEPS: f64 = 2e7;

/// Contractions of a program, and tiles of all its values, up to which it is compared with known ways.
const MAX_COMPARED: (usize, usize) = (8, 50_000);

/// Explains a program. Fails as [`parse`], [`check`] and [`plan_program`] do, with the place in the text.
pub fn explain_program(text: &str, options: &ExplainOptions) -> Result<Explanation, AlgebraError> {
    let mut inputs = Inputs::new();
    for (name, tensor) in &options.shapes {
        inputs = inputs.with(name, tensor.dtype, Shape::new(tensor.dims.clone())?);
    }
    let program = check(&parse(text)?, &inputs, &options.functions)?;
    let ExplainOptions { sites, block, objective, memory_bytes, machine, rounds, .. } = *options;
    let plan_options =
        PlanOptions { sites, block, objective, machine, memory_bytes, rounds, ..PlanOptions::default() };
    let plan = plan_program(&program, &plan_options)?;
    let contractions =
        plan.operators.keys().filter(|&&at| plan.network.operators[at].is_contraction()).count();
    let mut ways = Vec::new();
    let tiles: usize = plan.placed.values().map(|placed| placed.homes.len()).sum();
    if (1..=MAX_COMPARED.0).contains(&contractions) && tiles <= MAX_COMPARED.1 {
        for way in Way::ALL {
            ways.push((way, plan_in_way(&program, &plan_options, way)?.moved_floats));
        }
    }
    let tasks = match rounds_to_write(&plan) {
        Some(rounds) => {
            let graph = TaskGraph::build(&plan, &GraphOptions { rounds, ..GraphOptions::default() })?;
            let schedule = schedule(&graph, sites);
            let simulation = simulate(&plan, &graph, &schedule);
            Some(Tasks { rounds, graph, schedule, simulation })
        }
        None => None,
    };
    Ok(Explanation { plan, ways, tasks })
}

/// All rounds if that is little, else two of each loop, else nothing.
fn rounds_to_write(plan: &ProgramPlan) -> Option<Option<u64>> {
    let operators: f64 = plan.operators.values().map(|planned| planned.rounds as f64).sum();
    if steps(plan) <= MAX_STEPS && operators <= 1e4 {
        return Some(None);
    }
    let once = plan.operators.values().map(|planned| planned.rounds).max().unwrap_or(1);
    (once > 1 && 2.0 * steps(plan) / once as f64 <= MAX_STEPS).then_some(Some(2))
}

impl Explanation {
    /// For people.
    pub fn to_text(&self) -> String {
        text::text(self)
    }

    /// For programs: an object with the total as `moved_floats`.
    pub fn to_json(&self) -> serde_json::Value {
        json::json(self)
    }

    /// For Graphviz: operators with what moves between them, and the tasks where there are few.
    pub fn to_dot(&self) -> String {
        graphviz::dot(self)
    }

    /// Where the lines of the program end, to find those of many operators.
    fn line_ends(&self) -> Vec<usize> {
        self.plan.network.source.match_indices('\n').map(|(at, _)| at).collect()
    }
}

/// The number of the line that a part of the program begins in.
fn line(line_ends: &[usize], start: usize) -> usize {
    line_ends.partition_point(|&end| end < start) + 1
}

#[cfg(test)]
mod tests;
