//! What plans move, compared with the plans of the papers: a table of `docs/algebra.md`, made here.
//!
//! Some rows are checked always, all of them (a minute) with `--ignored`; then `LACUS_BLESS=1` writes the table anew.

use lacus_algebra::expr::CheckedProgram;
use lacus_algebra::{
    Functions, GraphOptions, Inputs, Machine, Objective, PlanOptions, ProgramPlan, TaskGraph, Way, check,
    parse, plan, plan_in_way, plan_program, schedule, simulate,
};
use lacus_tensor::{DType, Shape};
use std::fmt::Write;

fn checked(text: &str, shapes: &[(&str, &[u64])]) -> CheckedProgram {
    let mut inputs = Inputs::new();
    let mut header = String::new();
    for (name, dims) in shapes {
        inputs = inputs.with(name, DType::F64, Shape::new(dims.to_vec()).unwrap());
        header += &format!("{name} = load(\"{name}\")\n");
    }
    check(&parse(&format!("{header}{text}")).unwrap(), &inputs, &Functions::new())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn product([i, k, j]: [u64; 3]) -> CheckedProgram {
    checked("C[i,j] = A[i,k] * B[k,j]\nsave(C, \"C\")", &[("A", &[i, k]), ("B", &[k, j])])
}

/// The nearest of N points of D dimensions under a metric, as the relational algebra paper has it.
fn nearest([n, d]: [u64; 2]) -> CheckedProgram {
    checked(
        "y[n,d] = X[n,d] - q[d]\np[n,e] = y[n,d] * M[d,e]\nr[n] = p[n,e] * y[n,e]\nm min= r[n]\nsave(m, \"m\")",
        &[("X", &[n, d]), ("q", &[d]), ("M", &[d, d])],
    )
}

/// One step of gradient descent of a network with one hidden layer.
fn network([n, d, h, l]: [u64; 4]) -> CheckedProgram {
    checked(
        "z[n,h] = X[n,d] * V[d,h]
         a = relu(z)
         o[n,l] = a[n,h] * W[h,l]
         e = sigmoid(o) - Y
         f[h,l] = a[n,h] * e[n,l]
         b[n,h] = e[n,l] * W[h,l]
         c = where(z > 0, b, 0)
         g[d,h] = X[n,d] * c[n,h]
         W = W - 0.1 * f
         V = V - 0.1 * g
         save(V, \"V\"); save(W, \"W\")",
        &[("X", &[n, d]), ("V", &[d, h]), ("W", &[h, l]), ("Y", &[n, l])],
    )
}

/// The machines of the paper: 8 cores, 10 Gb/s.
fn options(sites: u64, objective: Objective) -> PlanOptions {
    let machine = Machine { operations_per_sec: 1.5e11, ..Machine::default() };
    PlanOptions { sites, objective, machine, ..PlanOptions::default() }
}

fn simulated(plan: &ProgramPlan) -> f64 {
    let graph = TaskGraph::build(plan, &GraphOptions::default()).unwrap();
    let order = schedule(&graph, plan.options.sites);
    let simulation = simulate(plan, &graph, &order);
    assert_eq!(simulation.moved_floats, plan.moved_floats, "the simulator moves what the plan says");
    simulation.makespan_secs
}

/// A row of the table: ours for the least movement, the known ways, ours for the least time, and how long each takes.
fn row(name: &str, program: &CheckedProgram, sites: u64, paper: &str, others: &[(&str, u128)]) -> String {
    let ours = plan(program, &options(sites, Objective::Moved)).unwrap();
    let [right, left, cross, replicate, root] =
        Way::ALL.map(|way| plan_in_way(program, &options(sites, Objective::Moved), way).unwrap());
    let broadcast = if left.moved_floats < right.moved_floats { left } else { right };
    let mut text = format!("| {name} | {sites} | **{}** |", floats(ours.moved_floats));
    let mut fastest = f64::INFINITY;
    for other in [&broadcast, &cross, &replicate, &root] {
        assert!(ours.moved_floats <= other.moved_floats, "{name} on {sites} sites");
        let _ = write!(text, " {} |", floats(other.moved_floats));
        fastest = fastest.min(simulated(other));
    }
    for (other, moved) in others {
        assert!(ours.moved_floats <= *moved, "{name} on {sites} sites: {other} moves {moved}");
    }
    let quick = plan_program(program, &options(sites, Objective::Time)).unwrap();
    let secs = simulated(&quick);
    assert!(secs <= fastest * 1.05, "{name} on {sites} sites takes {secs} s, a known way {fastest} s");
    let others: Vec<String> =
        others.iter().map(|(other, moved)| format!("{other} {}", floats(*moved))).collect();
    let paper = if others.is_empty() { paper.to_owned() } else { format!("{paper}: {}", others.join(", ")) };
    let _ = writeln!(text, " {paper} | {} | {} |", seconds(secs), seconds(fastest));
    text
}

fn floats(n: u128) -> String {
    format!("{:.3e}", n as f64)
}

fn seconds(secs: f64) -> String {
    format!("{secs:.1} s")
}

const HEAD: &str = "\
| program | sites | ours | BMM | CMM | RMM | √p | fastest in the paper | ours, simulated | best other, simulated |
|---|---|---|---|---|---|---|---|---|---|
";

/// The rows of the table for some numbers of sites.
fn rows(products_on: &[u64], nearest_on: &[u64], networks_on: &[u64]) -> Vec<String> {
    let mut all = Vec::new();
    let products = [
        ("general", [40_000, 40_000, 40_000], ["RMM", "ScaLAPACK (√p)", "ScaLAPACK (√p)"]),
        ("common large dimension", [10_000, 640_000, 10_000], ["CMM", "CMM", "CMM"]),
        ("two large dimensions", [80_000, 10_000, 80_000], ["ScaLAPACK (√p)"; 3]),
    ];
    for (name, size, fastest) in products {
        for (sites, fastest) in [5, 10, 15].into_iter().zip(fastest) {
            if products_on.contains(&sites) {
                all.push(row(name, &product(size), sites, fastest, &[]));
            }
        }
    }
    for (name, [n, d], fastest) in [
        ("nearest, large", [1_500_000u64, 6_000], "horizontal"),
        ("nearest, wide", [6_000, 100_000], "vertical"),
    ] {
        for &sites in nearest_on {
            let others = u128::from(sites) - 1;
            let (n, d) = (u128::from(n), u128::from(d));
            // The last one is the minimum of each site.
            let ways = [("horizontal", others * (d * d + d + 1)), ("vertical", others * (d + n * d + 1))];
            all.push(row(name, &nearest([n as u64, d as u64]), sites, fastest, &ways));
        }
    }
    for (name, [n, d, h, l]) in [
        ("network, speech", [10_000u64, 1_600, 100_000, 10]),
        ("network, labels", [1_000, 597_540, 1_000, 14_588]),
    ] {
        for &sites in networks_on {
            let others = u128::from(sites) - 1;
            let [samples, inputs, hidden, labels] = [n, d, h, l].map(u128::from);
            let weights = inputs * hidden + hidden * labels;
            let ways =
                [("data parallel", 2 * others * weights), ("model parallel", 4 * others * samples * hidden)];
            let fastest = if h == 100_000 { "data parallel" } else { "model parallel" };
            all.push(row(name, &network([n, d, h, l]), sites, fastest, &ways));
        }
    }
    all
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/algebra.md");

#[test]
fn rows_of_the_docs_are_what_plans_move() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    for row in rows(&[10], &[4], &[2]) {
        assert!(page.contains(&row), "docs/algebra.md has no row\n{row}");
    }
}

#[test]
#[ignore = "takes a minute"]
fn the_table_of_the_docs_is_what_plans_move() {
    let (start, end) =
        ("<!-- table: made by plans_move_no_more_than_known_ones.rs -->\n", "<!-- end of table -->");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(start).expect("the page has a place for the table");
    let (old, after) = rest.split_once(end).expect("the table ends");
    let new = format!("{HEAD}{}", rows(&[5, 10, 15], &[4, 8, 12], &[2, 5, 10]).concat());
    if std::env::var_os("LACUS_BLESS").is_some() {
        std::fs::write(PAGE, format!("{before}{start}{new}{end}{after}")).unwrap();
    } else {
        assert_eq!(old, new, "docs/algebra.md is not up to date: run with LACUS_BLESS=1");
    }
}
