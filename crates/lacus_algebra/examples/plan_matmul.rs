//! How long planning takes: a product of matrices of n × n × n tiles, planned, made into tasks and scheduled.
//!
//! ```text
//! cargo run --release -p lacus_algebra --example plan_matmul -- 100 10
//! ```

#![expect(clippy::print_stdout, reason = "a program for people")]

use lacus_algebra::{
    Functions, GraphOptions, Inputs, PlanOptions, TaskGraph, check, parse, plan, schedule, simulate,
};
use lacus_tensor::{DType, Shape};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let (tiles, sites) = (numbers.first().copied().unwrap_or(100), numbers.get(1).copied().unwrap_or(10));
    let n = tiles * 1000;
    let inputs =
        Inputs::new().with("A", DType::F64, Shape::new([n, n])?).with("B", DType::F64, Shape::new([n, n])?);
    let text = "A = load(\"A\"); B = load(\"B\")\nsave(A @ B, \"C\")";
    let start = Instant::now();
    let program = check(&parse(text)?, &inputs, &Functions::new())?;
    let options = PlanOptions { sites, block: Some(1000), ..PlanOptions::default() };
    let planned = plan(&program, &options)?;
    let planning = start.elapsed();
    let graph = TaskGraph::build(&planned, &GraphOptions::default())?;
    let built = start.elapsed();
    let order = schedule(&graph, sites);
    let scheduled = start.elapsed();
    println!(
        "{tiles}³ tiles on {sites} sites: {} tasks, {} steps, {} bytes",
        graph.len(),
        graph.steps(&planned),
        graph.size_bytes()
    );
    println!("planned in {planning:?}, graph after {built:?}, schedule after {scheduled:?}");
    let simulated = simulate(&planned, &graph, &order);
    println!(
        "simulated after {:?}: {} floats moved, {:.1} s, {:.0} % at work, {} bytes at most on a site",
        start.elapsed(),
        simulated.moved_floats,
        simulated.makespan_secs,
        100.0 * simulated.utilisation,
        simulated.peak_bytes()
    );
    Ok(())
}
