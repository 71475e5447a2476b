use super::*;
use crate::conformance::{PROGRAMS, checked, inputs};
use crate::interpret::interpret;
use crate::machine::{Objective, PlanOptions};
use crate::plan::plan;
use crate::simulate::simulate;
use crate::task_graph::GraphOptions;
use proptest::prelude::*;

/// Runs a program by elements and by tasks; counts what the graph moves against what the plan says.
fn compare(text: &str, options: &PlanOptions) {
    let program = checked(text);
    let (_, values) = inputs();
    let expected = interpret(&program, &values, Limits::default()).unwrap();
    let planned = plan(&program, options).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let found = run(&planned, &values, Limits::default()).unwrap_or_else(|error| panic!("{text}\n{error}"));
    for (name, value) in &expected.saved {
        assert_eq!(found.get(name), Some(value), "{name} of\n{text}\n{options:?}");
    }
    let graph = TaskGraph::build(&planned, &GraphOptions::default()).unwrap();
    let moved = graph.moved(&planned);
    assert_eq!(
        moved,
        (planned.moved_floats, planned.moved_bytes),
        "{text}\n{options:?}\n{:#?}",
        planned.operators
    );
    let order = schedule(&graph, options.sites);
    assert_eq!(order.order.len(), graph.len());
    let simulated = simulate(&planned, &graph, &order);
    assert_eq!((simulated.moved_floats, simulated.moved_bytes), moved, "{text}\n{options:?}");
    assert!(simulated.utilisation <= 1.0 + 1e-9 && simulated.makespan_secs.is_finite());
}

#[test]
fn every_statement_runs_by_tasks_as_it_does_by_elements() {
    for text in PROGRAMS {
        for (sites, block) in [(1, 3), (4, 2), (5, 3)] {
            for objective in [Objective::Moved, Objective::Time] {
                let options = PlanOptions { sites, block: Some(block), objective, ..PlanOptions::default() };
                compare(text, &options);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn any_sites_and_tiles_give_the_same(
        at in 0..PROGRAMS.len(), sites in 1..9u64, block in 1..9u64, moved in any::<bool>(), rounds in 2..5u64,
        network in 1..5i32,
    ) {
        let objective = if moved { Objective::Moved } else { Objective::Time };
        let mut options = PlanOptions { sites, block: Some(block), objective, rounds, ..PlanOptions::default() };
        // So slow a computer that more than one is worth it.
        options.machine.operations_per_sec = 1e3;
        options.machine.bytes_per_sec = 10f64.powi(network * 2);
        compare(PROGRAMS[at], &options);
    }
}
