use super::*;
use crate::conformance::{PROGRAMS, checked};
use crate::machine::{Objective, PlanOptions};
use crate::plan::plan;
use crate::plan::tests::{matmul, program};
use crate::schedule::schedule;
use std::collections::BTreeSet;

fn options(sites: u64, block: u64) -> PlanOptions {
    PlanOptions { sites, block: Some(block), objective: Objective::Moved, ..PlanOptions::default() }
}

fn loads(graph: &TaskGraph, plan: &ProgramPlan) -> BTreeSet<(String, u32)> {
    let name = |slot| plan.network.value(slot).name.clone();
    let all = graph.tasks().filter(|task| task.kind == TaskKind::Load);
    all.map(|task| (name(task.value), task.tile)).collect()
}

#[test]
fn nothing_is_made_in_vain_and_inputs_come_first() {
    for text in PROGRAMS {
        let planned = plan(&checked(text), &options(3, 2)).unwrap();
        let graph = TaskGraph::build(&planned, &GraphOptions::default()).unwrap();
        let asked: BTreeSet<TaskId> =
            graph.outputs().iter().flat_map(|output| output.tiles.iter().map(|(_, task)| *task)).collect();
        let dependents = graph.dependents();
        for (id, task) in graph.tasks().enumerate() {
            assert!(task.inputs.iter().all(|&input| (input as usize) < id), "{text}");
            assert!(u64::from(task.site) < 3);
            let wanted =
                dependents[id] > 0 || asked.contains(&(id as TaskId)) || task.kind == TaskKind::Carry;
            assert!(wanted, "{text}: {task:?}");
        }
    }
}

#[test]
fn only_what_is_asked_for_gets_tasks() {
    let planned = plan(&matmul([8, 6, 8]), &options(4, 2)).unwrap();
    let ask = |tiles: Vec<Vec<u64>>| {
        let asked = BTreeMap::from([("C".to_owned(), tiles)]);
        TaskGraph::build(&planned, &GraphOptions { rounds: None, asked })
    };
    let graph = ask(vec![vec![1, 2], vec![1, 2]]).unwrap();
    let expected: BTreeSet<(String, u32)> =
        (0..3).flat_map(|k| [("A".to_owned(), 3 + k), ("B".to_owned(), k * 4 + 2)]).collect();
    assert_eq!(loads(&graph, &planned), expected);
    assert_eq!(graph.outputs()[0].tiles.len(), 1);
    assert!(ask(vec![vec![4, 0]]).is_err());
}

#[test]
fn a_diagonal_reads_its_tiles_and_no_others() {
    // diag(X + Y) of 20 × 20 tiles reads 40 of 800.
    let shapes: [(&str, &[u64]); 2] = [("X", &[20_000, 20_000]), ("Y", &[20_000, 20_000])];
    for text in ["d[i] = X[i,i] + Y[i,i]\nsave(d, \"d\")", "Z = X + Y\nd[i] = Z[i,i]\nsave(d, \"d\")"] {
        let planned = plan(&program(text, &shapes), &options(4, 1000)).unwrap();
        let graph = TaskGraph::build(&planned, &GraphOptions::default()).unwrap();
        assert_eq!(loads(&graph, &planned).len(), 40, "{text}");
    }
    let text = "t[] = X[i,j] * Y[j,i] if i == j\nsave(t, \"t\")";
    let planned = plan(&program(text, &shapes), &options(4, 1000)).unwrap();
    let graph = TaskGraph::build(&planned, &GraphOptions::default()).unwrap();
    assert_eq!(loads(&graph, &planned).len(), 40, "conditions are seen");
    assert_eq!(graph.moved(&planned).0, planned.moved_floats);
}

#[test]
fn products_of_one_tile_are_one_task() {
    let planned = plan(&matmul([40, 60, 40]), &options(1, 10)).unwrap();
    let graph = TaskGraph::build(&planned, &GraphOptions::default()).unwrap();
    let [load, apply, accumulate, reduce, carry, given] = graph.counts();
    assert_eq!((load, apply, accumulate, reduce, carry, given), (48, 0, 16, 0, 0, 0));
    assert_eq!(graph.steps(&planned), 96);
    let first = graph.task(graph.outputs()[0].tiles[0].1).unwrap();
    let k: Vec<u32> = first.inputs.iter().step_by(2).map(|&left| graph.task(left).unwrap().tile).collect();
    assert_eq!(k, [0, 1, 2, 3, 4, 5], "k ascending");
    assert_eq!(graph.task(1_000_000), None);
    assert_eq!(graph.floats(&planned, 0), 100);
}

#[test]
fn a_million_multiplications_stay_small() {
    let planned = plan(&matmul([100_000, 100_000, 100_000]), &options(10, 1000)).unwrap();
    let graph = TaskGraph::build(&planned, &GraphOptions::default()).unwrap();
    assert_eq!(graph.steps(&planned), 1_000_000);
    assert!(graph.size_bytes() < 20_000_000, "{} bytes", graph.size_bytes());
}

#[test]
fn a_million_tasks_stay_small() {
    let text = "D = A + B\nE = D * A\nF = E - D\nsave(F, \"F\")";
    let shapes: [(&str, &[u64]); 2] = [("A", &[450, 450]), ("B", &[450, 450])];
    let planned = plan(&program(text, &shapes), &options(2, 1)).unwrap();
    let graph = TaskGraph::build(&planned, &GraphOptions::default()).unwrap();
    assert_eq!(graph.len(), 5 * 450 * 450);
    assert!(graph.size_bytes() < 100 * graph.len(), "{} bytes", graph.size_bytes());
}

#[test]
fn loops_are_written_out_as_far_as_asked_or_kept_as_templates() {
    let text = "x = v\nfor t in 0..50 { x = G @ x }\nsave(x, \"x\")";
    let shapes: [(&str, &[u64]); 2] = [("G", &[40, 40]), ("v", &[40])];
    let planned = plan(&program(text, &shapes), &options(2, 10)).unwrap();
    let count = |rounds| {
        let graph = TaskGraph::build(&planned, &GraphOptions { rounds, ..GraphOptions::default() }).unwrap();
        graph.counts()[TaskKind::Accumulate as usize]
    };
    let once = count(Some(1));
    assert_eq!((count(Some(2)), count(None)), (2 * once, 50 * once));
    let [node] = &planned.network.loops[..] else { panic!() };
    let template = TaskGraph::of_part(&planned, &node.before, &Known::new()).unwrap();
    let [load, _, accumulate, _, _, given] = template.counts();
    assert_eq!((load, accumulate, given), (16, once, 4));
    assert_eq!(template.outputs().len(), 1);
    assert!(TaskGraph::of_part(&planned, &planned.network.flow, &Known::new()).is_err());
    let order = schedule(&template, 2);
    assert_eq!(order.order.len(), template.len());
}
