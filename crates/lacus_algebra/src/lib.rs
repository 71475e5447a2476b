//! How should this be computed? From a program's text to tasks on several sites. Pure: no I/O, no threads, no clock; the
//! same input gives the same plan.
//!
//! ```text
//! text ─parse→ Program ─check→ CheckedProgram (comprehensions: all shapes known) ─interpret→ small arrays
//!      ─lower→ Network (operators, values, loops) ─plan_program→ ProgramPlan (where everything is, what moves)
//!      ─TaskGraph::build→ tasks ─schedule→ Schedule ─simulate→ Simulation       run → small arrays, by tasks
//! Logical (seven operators over tiles) ─compile→ Plan (with placement) ─rules→ Plan ─moved_floats→ cost
//! ```
//!
//! ```
//! use lacus_algebra::{Array, Functions, Inputs, Limits, Scalar, check, interpret, parse};
//! use lacus_tensor::{DType, Shape};
//!
//! let program = parse(
//!     "G = load(\"G\"); r = ones([2])
//!      repeat {
//!          s[i] = 0.5 * G[i,j] * r[j] + 0.5   # j is summed, 0.5 is not
//!          d = sum(abs(s - r)); r = s
//!      } until d < 1e-9
//!      save(r, \"r\")",
//! )?;
//! let checked = check(&program, &Inputs::new().with("G", DType::F64, Shape::new([2, 2])?), &Functions::new())?;
//! let g = Array::new(DType::F64, vec![2, 2], [0.0, 1.0, 0.5, 0.5].map(Scalar::F64).to_vec())?;
//! let outcome = interpret(&checked, &[("G".to_owned(), g)].into(), Limits::default())?;
//! assert!(outcome.saved["r"].items().iter().all(|x| (x.to_f64() - 1.0).abs() < 1e-6));
//!
//! let error = check(&parse("C[i,j] = ones([2, 3])[i,k] * ones([4, 2])[k,j]")?, &Inputs::new(), &Functions::new());
//! assert!(error.unwrap_err().to_string().starts_with("index 'k' has extent 3 in ones([2, 3]) [2, 3] and 4 in"));
//! # Ok::<(), lacus_algebra::AlgebraError>(())
//! ```
//!
//! Every level has a plain interpreter that says what it means ([`interpret`], [`Logical::run`], [`Plan::run`], [`run()`]),
//! and is tested against the level above it. [`explain_program`] shows all of it for a text and shapes. The language is
//! described in `docs/algebra.md`; decisions and what they cost are in `design/0003-the-algebra.md`.

mod error;
mod steps;

mod array;
mod function;

pub mod syntax;

pub mod expr;
mod infer;
mod interpret;

mod key;
mod kernel;

mod relation;

mod logical;
mod placement;

mod physical;

pub mod rules;

mod cost;

mod contraction;
mod grid;

mod network;

mod lower;

mod machine;
mod tiling;

mod touch;

mod site_set;
mod spread;

mod search;

mod plan;

mod task_graph;

mod schedule;

mod simulate;

mod choose;

mod run;

mod explain;

#[doc(hidden)]
pub mod conformance;

pub use array::{Array, compute_dtype};
pub use choose::plan_program;
pub use contraction::{Contraction, EXACT_FACTORS, Label, PairStep};
pub use cost::{CostModel, moved_floats};
pub use error::{AlgebraError, Place, Problem};
pub use explain::{
    ExplainOptions, Explanation, Tasks, TensorType, explain_plan, explain_program, parse_shapes,
    plan_graphviz,
};
pub use function::{Function, Functions};
pub use grid::{Grid, Product};
pub use infer::{Inputs, check};
pub use interpret::{Limits, Outcome, interpret, random};
pub use kernel::{JoinKernel, MapKernel, ReduceKernel};
pub use key::{Key, KeyCondition, KeyFunction, KeyTerm};
pub use logical::Logical;
pub use lower::lower;
pub use machine::{MAX_SITES, Machine, Objective, PlanOptions};
pub use network::{
    Carried, FlowNode, Fold, Formula, Known, LoopNode, Made, Network, Operator, Read, Scope, Until, Value,
};
pub use physical::{LocalMap, Placed, Plan, RelationType, TileType, compile};
pub use placement::{GridAxis, Placement, SiteMap};
pub use plan::{
    Alternative, PlacedValue, PlannedOperator, ProgramPlan, Way, plan, plan_in_way, plan_network,
};
pub use relation::{JoinOn, Missing, Relation};
pub use run::run;
pub use schedule::{Schedule, schedule};
pub use simulate::{Simulation, SiteLoad, simulate};
pub use spread::Spread;
pub use syntax::parser::parse;
pub use task_graph::{GraphOptions, Output, Task, TaskGraph, TaskId, TaskKind};
pub use tiling::{Tiles, Tiling};

pub use lacus_tensor::{BinaryOp, Scalar, UnaryOp};
