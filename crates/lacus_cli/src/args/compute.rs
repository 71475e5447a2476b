//! Arguments of `lacus explain` and `lacus run`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  lacus explain product.lac --sites 10 --shapes A=40000x40000,B=40000x40000
  lacus explain product.lac --sites 10 --shapes A=40000x40000,B=40000x40000 --block 4000 --json
  echo 'save(load(\"A\") @ load(\"B\"), \"C\")' | lacus explain - --shapes A=1000x500,B=500x800:float32

Shows the plan, its grids and costs, what else was considered, the task graph and how a run would go.
With --json, moved_floats is the number of elements that the plan moves between sites.";

/// What a plan is to save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Goal {
    /// Elements moved between sites
    Moved,
    /// Estimated time
    Time,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The program's file; - reads standard input
    #[arg(value_name = "PROGRAM")]
    pub program: String,
    /// Number of sites that compute
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub sites: u64,
    /// Shapes of what the program loads: A=40000x40000,v=1000:float32 (float64 by default)
    #[arg(long, value_name = "NAME=SHAPE,…")]
    pub shapes: Option<String>,
    /// Extent of a tile along every axis [default: chosen automatically]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub block: Option<u64>,
    /// What the plan minimizes
    #[arg(long, value_enum, default_value_t = Goal::Time)]
    pub objective: Goal,
    /// Memory of a site, such as 2GiB
    #[arg(long, value_parser = crate::commands::parse_bytes)]
    pub memory: Option<u64>,
    /// Rounds to assume for loops whose end depends on data
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..))]
    pub rounds: Option<u64>,
    /// Print Graphviz instead of text
    #[arg(long)]
    pub dot: bool,
}

pub(super) const RUN_EXAMPLES: &str = "\
Examples:
  lacus run pagerank.lac --data ./graph
  lacus run product.lac --data s3://bucket/data --memory 2GiB --spill /mnt/scratch
  lacus run score.lac --data ./data --input query=query.npy
  echo 'save(load(\"A\") @ load(\"B\"), \"C\")' | lacus run - --data ./data

A program loads tensors from the dataset or from --input. What it saves becomes one
version when it ends; if it fails, nothing is written. The language
is described in docs/algebra.md; `lacus explain` shows what a program would do.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The program's file; - reads standard input
    #[arg(value_name = "PROGRAM")]
    pub program: String,
    /// The dataset to load from and save into: a directory, s3://…, gs://… or az://…
    #[arg(long, value_name = "URL", value_hint = ValueHint::DirPath)]
    pub data: String,
    /// Memory for all tiles together, such as 2GiB [default: half of the machine's]
    #[arg(long, value_parser = crate::commands::parse_bytes)]
    pub memory: Option<u64>,
    /// Threads, at most LACUS_THREADS [default: LACUS_THREADS, or the number of cores]. The result does
    /// not depend on it
    #[arg(long, value_name = "N", value_parser = parse_workers)]
    pub workers: Option<usize>,
    /// Directory for what does not fit into memory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub spill: Option<PathBuf>,
    /// A file of one tensor that the program loads by this name (repeatable)
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = parse_input)]
    pub inputs: Vec<(String, PathBuf)>,
    /// Fail if a result contains NaN
    #[arg(long)]
    pub forbid_nan: bool,
    /// Store the state of loops every N rounds; the same command resumes from there
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub checkpoint_every: Option<u64>,
    /// Return only when the result is safe against power loss
    #[arg(long)]
    pub durable: bool,
}

fn parse_workers(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| format!("{text:?} is no number of threads from 1"))
}

fn parse_input(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err(format!("{text:?} is not NAME=FILE")),
    }
}
