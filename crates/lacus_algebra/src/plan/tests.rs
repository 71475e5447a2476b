use super::*;
use crate::conformance::{PROGRAMS, checked};
use crate::expr::Index;
use crate::function::Functions;
use crate::grid::Product;
use crate::infer::{Inputs, check};
use crate::machine::Objective;
use crate::search::candidates;
use crate::search::eliminate::Cost;
use crate::simulate::simulate;
use crate::syntax::parser::parse;
use crate::task_graph::{GraphOptions, TaskGraph};
use lacus_tensor::{DType, Shape};
use proptest::prelude::*;

pub(crate) fn program(text: &str, shapes: &[(&str, &[u64])]) -> CheckedProgram {
    let mut inputs = Inputs::new();
    let mut header = String::new();
    for (name, dims) in shapes {
        inputs = inputs.with(name, DType::F64, Shape::new(dims.to_vec()).unwrap());
        header += &format!("{name} = load(\"{name}\")\n");
    }
    let program = parse(&format!("{header}{text}")).unwrap();
    check(&program, &inputs, &Functions::new()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn matmul([i, k, j]: [u64; 3]) -> CheckedProgram {
    program("C[i,j] = A[i,k] * B[k,j]\nsave(C, \"C\")", &[("A", &[i, k]), ("B", &[k, j])])
}

fn moved(sites: u64, block: u64) -> PlanOptions {
    PlanOptions { sites, block: Some(block), objective: Objective::Moved, ..PlanOptions::default() }
}

const SIZES: [[u64; 3]; 3] = [[40_000, 40_000, 40_000], [10_000, 640_000, 10_000], [80_000, 10_000, 80_000]];

#[test]
fn a_product_moves_what_the_formula_says() {
    for size in SIZES {
        for sites in [1, 5, 10, 15] {
            let planned = plan(&matmul(size), &moved(sites, 4_000)).unwrap();
            let [i, k, j] = [0, 1, 2].map(Index);
            let product = Product {
                left: vec![i, k],
                right: vec![k, j],
                output: vec![i, j],
                extents: BTreeMap::from([(i, size[0]), (k, size[1]), (j, size[2])]),
                blocks: [i, j, k].into_iter().map(|label| (label, 4_000)).collect(),
            };
            let best = product.least_moved(sites).unwrap();
            assert_eq!(planned.moved_floats, best.moved_floats, "{size:?} on {sites}");
            assert!(planned.is_exact);
            assert_eq!(planned.moved_bytes, best.moved_floats * 8);
        }
    }
}

/// The least cost of all combinations, by trying them; `None` if there are too many.
fn exhaustive(model: &Model<'_>) -> Option<Cost> {
    let counts: Vec<usize> = model.nodes.iter().map(|node| node.candidates.len()).collect();
    let all = counts.iter().try_fold(1usize, |all, &n| all.checked_mul(n))?;
    if all > 20_000 {
        return None;
    }
    let mut weigh = Weigh::new(model, Cache::default());
    let totals = crate::array::positions(&counts).map(|chosen| weigh.total(&chosen));
    totals.fold(None, |best: Option<Cost>, cost| match best {
        Some(best) if best < cost => Some(best),
        _ => Some(cost),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_search_finds_the_best_of_all_combinations(
        at in 0..PROGRAMS.len(), sites in 1..5u64, block in 2..5u64, is_moved in any::<bool>(),
    ) {
        let program = checked(PROGRAMS[at]);
        let mut options = moved(sites, block);
        options.machine.operations_per_sec = 1e4;
        options.machine.bytes_per_sec = 1e5;
        if !is_moved {
            options.objective = Objective::Time;
        }
        let network = lower(&program).unwrap();
        let tiling = Tiling::of_block(block);
        let carried = carries(&network);
        let mut model = Model::new(&network, &carried, &tiling, &options);
        candidates::find(&mut model);
        let Some(best) = exhaustive(&model) else { return Ok(()) };
        let all: Vec<Vec<usize>> = model.nodes.iter().map(|node| (0..node.candidates.len()).collect()).collect();
        let mut weigh = Weigh::new(&model, Cache::default());
        let found = weigh.solve(&all);
        let total = weigh.total(&found.chosen);
        prop_assert!(found.is_exact);
        prop_assert!((total.0 - best.0).abs() <= 1e-9 * best.0.max(1.0), "{:?} {:?}", total, best);
        prop_assert_eq!(&weigh.solve(&all), &found, "the same plan again");
    }
}

#[test]
fn operators_are_placed_for_one_another() {
    // The product after it needs the result where the first one leaves it.
    let text = "C = A @ B\nD = relu(C + C)\nE = D @ A\nsave(E, \"E\")";
    let shapes: [(&str, &[u64]); 2] = [("A", &[4_000, 4_000]), ("B", &[4_000, 4_000])];
    let planned = plan(&program(text, &shapes), &moved(4, 1_000)).unwrap();
    let names: BTreeMap<String, u128> = planned
        .placed
        .iter()
        .map(|(slot, placed)| (planned.network.value(*slot).name.clone(), placed.moved_floats))
        .collect();
    assert_eq!(names["C"], 0, "the cell-wise operator runs where its tiles are: {names:?}");
    let alone = plan(&matmul([4_000, 4_000, 4_000]), &moved(4, 1_000)).unwrap().moved_floats;
    assert!(planned.moved_floats <= 2 * alone);
}

#[test]
fn shared_values_move_once() {
    let one = "C = A @ B\nsave(C, \"C\")";
    let two = "C = A @ B\nD = A @ transpose(B)\nsave(C + 0 * D, \"C\")";
    let shapes: [(&str, &[u64]); 2] = [("A", &[4_000, 4_000]), ("B", &[4_000, 4_000])];
    let [one, two] = [one, two].map(|text| plan(&program(text, &shapes), &moved(4, 1_000)).unwrap());
    // Both products share what they need of A.
    assert!(two.moved_floats < 2 * one.moved_floats, "{} {}", two.moved_floats, one.moved_floats);
}

#[test]
fn a_loop_is_planned_once() {
    let text = |rounds: u64| format!("x = v\nfor t in 0..{rounds} {{ x = G @ x }}\nsave(x, \"x\")");
    let shapes: [(&str, &[u64]); 2] = [("G", &[4_000, 4_000]), ("v", &[4_000])];
    let plans = [1u64, 10, 1_000_000].map(|n| plan(&program(&text(n), &shapes), &moved(4, 1_000)).unwrap());
    let operators: Vec<usize> = plans.iter().map(|planned| planned.operators.len()).collect();
    assert_eq!(operators, [1, 1, 1]);
    assert!(plans[2].moved_floats > 0);
    assert_eq!(plans[1].moved_floats * 100_000, plans[2].moved_floats, "each round moves the same");
    // G does not change: it is moved once or not at all, whatever the rounds.
    let whole = 16_000_000;
    assert!(plans[1].moved_floats < whole);
}

#[test]
fn time_decides_by_speeds_and_memory_by_room() {
    let product = matmul([4_000, 4_000, 4_000]);
    let with = |bytes_per_sec: f64, memory_bytes| {
        let mut options = PlanOptions { sites: 8, block: Some(400), memory_bytes, ..PlanOptions::default() };
        options.machine.bytes_per_sec = bytes_per_sec;
        plan(&product, &options).unwrap()
    };
    let used = |planned: &ProgramPlan| planned.operators.values().next().unwrap().spread.used();
    assert_eq!((used(&with(1e4, None)), used(&with(1e13, None))), (1, 8));
    // One site would need all three matrices: 384 MB.
    let tight = with(1e8, Some(100_000_000));
    assert!(tight.operators.values().all(|operator| operator.memory_bytes <= 200_000_000));
    let graph = TaskGraph::build(&tight, &GraphOptions::default()).unwrap();
    let order = crate::schedule::schedule(&graph, 8);
    let simulated = simulate(&tight, &graph, &order);
    assert!(simulated.peak_bytes() <= 100_000_000, "{simulated:?}");
}

#[test]
fn what_cannot_be_planned_is_an_error_with_its_place() {
    let product = matmul([4_000, 4_000, 4_000]);
    let check = |options: PlanOptions, expected: &str| {
        let error = plan(&product, &options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(PlanOptions { sites: 0, ..moved(1, 10) }, "0 is not between 1 and 4096");
    check(PlanOptions { block: Some(0), ..moved(1, 10) }, "the extent of a tile: 0 is not at least 1");
    check(moved(1, 1), "16000000 tiles of 'A' [4000, 4000] at [1, 1] each");
    check(PlanOptions { rounds: 1, ..moved(1, 10) }, "the assumed rounds of a loop: 1 is not at least 2");
    check(
        PlanOptions { memory_bytes: Some(1_000_000), ..moved(4, 1_000) },
        "the largest task of `C[i,j] = sum[k] A[i,k] * B[k,j]` needs 24000000 bytes, more than the 1000000 bytes of a \
         site: tiles are 1000 long, make them shorter\n --> line 3, column 1",
    );
}

#[test]
fn huge_loops_and_formulas_are_planned_or_refused() {
    let text = "x = 0.0\nfor t in 0..4000000000000000000 { for u in 0..4000000000000000000 { for w in 0..4000000000000000000 {
        x = x + sum(v) * t } } }\nsave(x, \"x\")";
    let planned = plan(&program(text, &[("v", &[100])]), &moved(3, 10)).unwrap();
    assert!(planned.moved_floats > 0);
    let text = "x[] = exp(v[i] + v[j] + v[k] + v[l] + v[m] + v[n])\nsave(x, \"x\")";
    let error = plan(&program(text, &[("v", &[100_000])]), &moved(3, 10)).unwrap_err().to_string();
    assert!(error.contains("steps over tiles, more than 72057594037927936"), "{error}");
    let text = "x[] = v[i] * v[j] * v[k] if i < j and j < k\nsave(x, \"x\")";
    let error = plan(&program(text, &[("v", &[100_000])]), &moved(3, 10)).unwrap_err().to_string();
    assert!(error.contains("has 1000000000000 steps over tiles, more than 16777216"), "{error}");
    assert!(error.contains("--> line 2, column 1"), "{error}");
}

#[test]
fn large_programs_are_planned_in_bounded_time() {
    let start = std::time::Instant::now();
    let mut text = String::new();
    for at in 0..40 {
        text += &format!("A = relu(A @ B + {at} * transpose(A))\nB = A * B - A @ A\n");
    }
    text += "save(A + B, \"A\")";
    let shapes: [(&str, &[u64]); 2] = [("A", &[6_400, 6_400]), ("B", &[6_400, 6_400])];
    let large = program(&text, &shapes);
    for objective in [Objective::Moved, Objective::Time] {
        let options = PlanOptions { sites: 16, block: Some(400), objective, ..PlanOptions::default() };
        let planned = plan(&large, &options).unwrap();
        assert!(planned.operators.len() >= 160 && planned.moved_floats > 0);
    }
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
}

#[test]
fn alternatives_say_why_they_lost() {
    let planned = plan(&matmul(SIZES[0]), &moved(10, 4_000)).unwrap();
    let operator = planned.operators.values().next().unwrap();
    let reasons: Vec<(String, u128, String)> = operator
        .alternatives
        .iter()
        .map(|other| (other.name.clone(), other.moved_floats, other.reason.clone()))
        .collect();
    let expected = [
        ("broadcast right (BMM)", 14_400_000_000, "moves 8000000000 more"),
        ("broadcast left (BMM)", 14_400_000_000, "moves 8000000000 more"),
        ("cross product (CMM)", 14_400_000_000, "moves 8000000000 more"),
        ("replicate both (RMM)", 8_000_000_000, "moves 1600000000 more"),
        ("√p grid", 6_400_000_000, "it is the one chosen"),
    ];
    let expected = expected.map(|(name, moved, reason)| (name.to_owned(), moved, reason.to_owned()));
    assert_eq!(reasons, expected);
}

#[test]
fn the_work_of_planning_grows_with_the_program() {
    let chain = |count: usize| "y = y @ A\n".repeat(count);
    let squares = |count: usize| "y = y @ y\n".repeat(count);
    let formulas =
        |count: usize| (0..count).map(|k| format!("x{k} = y * {k} + A\ny = y - x{k}\n")).collect::<String>();
    let products = |count: usize| (0..count).map(|k| format!("y = A @ B + y * {k}\n")).collect::<String>();
    // Of several tiles that all operators read, the search looks at as many as it may, however few operators there are.
    type Lines<'a> = &'a dyn Fn(usize) -> String;
    let all: [(Lines<'_>, &[(u64, u64)]); 4] = [
        (&chain, &[(10, 1)]),
        (&squares, &[(10, 1), (10, 4), (4000, 4)]),
        (&formulas, &[(10, 1)]),
        (&products, &[(10, 1)]),
    ];
    for (lines, sizes) in all {
        for &(extent, sites) in sizes {
            let steps = |count: usize| {
                let text = format!("y = A\n{}save(y, \"y\")\n", lines(count));
                let checked = program(&text, &[("A", &[extent, extent]), ("B", &[extent, extent])]);
                crate::steps::taken(|| {
                    plan(&checked, &PlanOptions { sites, ..PlanOptions::default() }).unwrap()
                })
                .1
            };
            let (few, many) = (steps(150), steps(300));
            assert!(many < 3 * few, "{few} steps, then {many}: {}", lines(1));
        }
    }
}
