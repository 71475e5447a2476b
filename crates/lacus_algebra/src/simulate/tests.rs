use super::*;
use crate::machine::{Machine, Objective, PlanOptions};
use crate::plan::plan;
use crate::plan::tests::{matmul, program};
use crate::schedule::schedule;
use crate::task_graph::GraphOptions;

fn simulated(plan: &ProgramPlan) -> Simulation {
    let graph = TaskGraph::build(plan, &GraphOptions::default()).unwrap();
    simulate(plan, &graph, &schedule(&graph, plan.options.sites))
}

fn options(sites: u64, block: u64) -> PlanOptions {
    let machine =
        Machine { operations_per_sec: 1e6, bytes_per_sec: 1e6, task_secs: 0.0, spill_bytes_per_sec: 1e6 };
    PlanOptions { sites, block: Some(block), objective: Objective::Moved, machine, ..PlanOptions::default() }
}

#[test]
fn one_site_computes_all_the_time() {
    let planned = plan(&matmul([100, 100, 100]), &options(1, 10)).unwrap();
    let run = simulated(&planned);
    assert!((run.makespan_secs - 1.0).abs() < 1e-9, "{run:?}");
    assert_eq!((run.moved_bytes, run.utilisation), (0, 1.0));
    assert_eq!(run.sites[0].tasks, 300);
    // All of B, a row of A that is used up tile by tile, and one tile of the result.
    assert!(run.peak_bytes() >= 80_000 && run.peak_bytes() <= 80_000 + 8_000 + 800, "{run:?}");
}

#[test]
fn sites_share_the_work_and_wait_for_the_network() {
    let mut fast = options(4, 10);
    fast.machine.bytes_per_sec = 1e12;
    let product = matmul([100, 100, 100]);
    let quick = simulated(&plan(&product, &fast).unwrap());
    assert!((0.25..0.33).contains(&quick.makespan_secs), "{quick:?}");
    assert!(quick.utilisation > 0.75);
    let mut slow = options(4, 10);
    slow.machine.bytes_per_sec = 1e4;
    let late = simulated(&plan(&product, &slow).unwrap());
    assert!(late.makespan_secs > 3.0 && late.utilisation < 0.2, "{late:?}");
    assert_eq!(late.moved_bytes, quick.moved_bytes);
    let (sent, received): (u128, u128) = (
        late.sites.iter().map(|site| site.sent_bytes).sum(),
        late.sites.iter().map(|site| site.received_bytes).sum(),
    );
    assert_eq!((sent, received), (late.moved_bytes, late.moved_bytes));
}

#[test]
fn what_does_not_fit_is_put_aside_and_read_again() {
    let with = |bytes| PlanOptions { memory_bytes: Some(bytes), ..options(1, 10) };
    let product = matmul([100, 100, 100]);
    let free = simulated(&plan(&product, &with(1_000_000)).unwrap());
    assert_eq!((free.spilled_bytes(), free.sites[0].reread_bytes), (0, 0));
    let tight = simulated(&plan(&product, &with(20_000)).unwrap());
    assert!(tight.peak_bytes() <= 20_000 + 800, "{tight:?}");
    assert!(tight.sites[0].reread_bytes > 0 && tight.makespan_secs > free.makespan_secs);
    assert_eq!(tight.spilled_bytes(), 0, "what is stored needs no writing");
    // An intermediate result that is read twice, long apart, has to be written.
    let text = "D = exp(A)\ns[i] = D[i,j]\nE[i,j] = D[i,j] / s[i] * s[99 - i]\nsave(E, \"E\")";
    let normalised = program(text, &[("A", &[100, 100])]);
    let spilled = simulated(&plan(&normalised, &with(20_000)).unwrap());
    assert!(spilled.spilled_bytes() > 0 && spilled.peak_bytes() <= 20_800, "{spilled:?}");
}
