//! Every rule on random relations: both sides are run, give the same relation, are where their descriptions say.

use super::*;
use crate::array::Array;
use crate::kernel::{JoinKernel, MapKernel, ReduceKernel};
use crate::key::{KeyCondition, KeyFunction, KeyTerm};
use crate::logical::Logical;
use crate::physical::{LocalMap, Placed, compile};
use crate::placement::{Placement, SiteMap};
use crate::relation::{JoinOn, Relation};
use lacus_tensor::DType;
use lacus_tensor::Scalar;
use lacus_tensor::{BinaryOp, UnaryOp};
use proptest::prelude::*;

const SITES: usize = 4;

/// Inputs as data and as descriptions.
#[derive(Clone, Debug)]
struct World {
    placed: BTreeMap<String, Placed>,
    types: BTreeMap<String, RelationType>,
    relations: BTreeMap<String, Relation>,
}

impl World {
    fn context(&self) -> Context<'_> {
        Context { inputs: &self.types, sites: SITES }
    }

    fn with(mut self, name: &str, relation: Relation, placement: Placement) -> World {
        let placed = Placed::new(&relation, placement.clone(), SITES).unwrap();
        self.types.insert(name.to_owned(), RelationType::of_relation(&relation, placement, SITES).unwrap());
        self.placed.insert(name.to_owned(), placed);
        self.relations.insert(name.to_owned(), relation);
        self
    }

    fn empty() -> World {
        World { placed: BTreeMap::new(), types: BTreeMap::new(), relations: BTreeMap::new() }
    }

    /// Runs the plan, and checks that what comes out is what was described, and is where the placement says.
    fn run(&self, plan: &Plan) -> Result<(Relation, Placement), AlgebraError> {
        let described = plan.describe(&self.types, SITES);
        let placed = match (plan.run(&self.placed), &described) {
            (Ok(placed), Ok(_)) => placed,
            (Err(error), Err(_)) => return Err(error),
            (ran, described) => panic!("run and description disagree on\n{plan}{ran:?}\n{described:?}"),
        };
        let (found, described) = (placed.describe(), described?);
        assert_eq!((&found.placement, &found.tiles), (&described.placement, &described.tiles), "{plan}");
        assert_eq!(
            (found.arity, found.dtype, found.fill),
            (described.arity, described.dtype, described.fill),
            "{plan}"
        );
        assert!(found.is_valid(SITES), "{} is not where it should be:\n{plan}", found.placement);
        Ok((placed.gather()?, placed.placement().clone()))
    }

    /// Both plans give the same relation. Returns false when the first cannot be run at all.
    fn equal(&self, before: &Plan, after: &Plan) -> Result<bool, TestCaseError> {
        let Ok((expected, _)) = self.run(before) else { return Ok(false) };
        let (found, _) = self.run(after).map_err(|error| TestCaseError::fail(format!("{error}\n{after}")))?;
        prop_assert_eq!(&found.tiles, &expected.tiles, "\n{}\nbecame\n{}", before, after);
        prop_assert_eq!((found.arity, found.dtype), (expected.arity, expected.dtype));
        Ok(true)
    }

    /// Where the rule applies, the result is the same and its placement at least as well known.
    fn holds(
        &self,
        plan: &Plan,
        rule: fn(&Plan, Context<'_>) -> Option<Plan>,
        same_placement: bool,
    ) -> Result<bool, TestCaseError> {
        let Some(after) = rule(plan, self.context()) else { return Ok(false) };
        let ran = self.equal(plan, &after)?;
        if ran && same_placement {
            let (before, now) = (self.run(plan).unwrap().1, self.run(&after).unwrap().1);
            prop_assert!(now.refines(&before), "{} became {}\n{}{}", before, now, plan, after);
        }
        Ok(ran)
    }
}

/// Integers, so that sums are exact in any order. Some tiles are missing.
fn relation(holes: &[bool]) -> impl Fn(usize) -> Relation + '_ {
    move |shift: usize| {
        let array = Array::from_fn(DType::I64, &[6, 6], |at| {
            Scalar::I64((at[0] * 6 + at[1] + shift) as i64 * 7 % 23 - 9)
        });
        let mut relation = Relation::from_array(&array, &[2, 2], Some(Scalar::I64(0))).unwrap();
        let keys: Vec<_> = relation.tiles.keys().cloned().collect();
        for (key, hole) in keys.iter().zip(holes.iter().cycle().skip(shift)) {
            if *hole && relation.tiles.len() > 1 {
                relation.tiles.remove(key);
            }
        }
        relation
    }
}

fn placements() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::All),
        (0..2usize).prop_map(|part| Placement::Part(SiteMap::over(&[part], SITES))),
        Just(Placement::Part(SiteMap::over(&[0, 1], SITES))),
        Just(Placement::Part(SiteMap::grid(&[(1, 3)]))),
    ]
}

fn worlds() -> impl Strategy<Value = World> {
    (prop::collection::vec(any::<bool>(), 5..12), placements(), placements()).prop_map(|(holes, a, b)| {
        let make = relation(&holes);
        World::empty().with("A", make(0), a).with("B", make(3), b)
    })
}

fn conditions(arity: usize) -> impl Strategy<Value = KeyCondition> {
    let term = move || {
        prop_oneof![
            (0..arity).prop_map(KeyTerm::Part),
            (0..3i64).prop_map(KeyTerm::constant),
            (0..arity, 0..arity)
                .prop_map(|(a, b)| KeyTerm::Sum(vec![(1, KeyTerm::Part(a)), (1, KeyTerm::Part(b))], 0)),
        ]
    };
    let one = prop_oneof![
        (term(), term()).prop_map(|(a, b)| KeyCondition::Equal(a, b)),
        (term(), term()).prop_map(|(a, b)| KeyCondition::Not(Box::new(KeyCondition::Less(a, b)))),
        Just(KeyCondition::Always),
    ];
    prop::collection::vec(one, 1..3).prop_map(KeyCondition::All)
}

fn key_functions() -> impl Strategy<Value = KeyFunction> {
    prop::sample::select(vec![
        KeyFunction::identity(2),
        KeyFunction::project(2, &[1, 0]).unwrap(),
        KeyFunction::new(
            2,
            vec![KeyTerm::Sum(vec![(3, KeyTerm::Part(0)), (1, KeyTerm::Part(1))], 0), KeyTerm::Part(1)],
        )
        .unwrap(),
        KeyFunction::new(2, vec![KeyTerm::Part(0), KeyTerm::Sum(vec![(2, KeyTerm::Part(1))], 1)]).unwrap(),
    ])
}

fn kernels() -> impl Strategy<Value = MapKernel> {
    prop::sample::select(vec![
        MapKernel::Identity,
        MapKernel::Scale(3.0),
        MapKernel::Apply(UnaryOp::Neg),
        MapKernel::Apply(UnaryOp::Relu),
        MapKernel::Permute(vec![1, 0]),
        MapKernel::Diagonal,
        MapKernel::SumAxis(1),
        MapKernel::Permute(vec![1, 0]).then(MapKernel::Scale(-2.0)),
    ])
}

fn reductions() -> impl Strategy<Value = BinaryOp> {
    prop::sample::select(vec![BinaryOp::Add, BinaryOp::Max, BinaryOp::Min])
}

fn groups() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::select(vec![vec![], vec![0], vec![1], vec![0, 1], vec![1, 0]])
}

fn joins() -> impl Strategy<Value = JoinOn> {
    let add = JoinKernel::Elementwise(BinaryOp::Add);
    prop::sample::select(vec![
        JoinOn::new(&[1], &[0], JoinKernel::MATMUL),
        JoinOn::new(&[0, 1], &[0, 1], add.clone()),
        JoinOn::new(&[0, 1], &[1, 0], add.clone()),
        JoinOn::new(&[0, 1], &[0, 1], add).filled(),
        JoinOn::new(&[0, 1], &[0, 1], JoinKernel::Elementwise(BinaryOp::Max)),
        JoinOn::new(&[0], &[0], JoinKernel::Elementwise(BinaryOp::Mul)),
    ])
}

/// The input, moved or aggregated in some way, so that rules meet all placements.
fn sources() -> impl Strategy<Value = Plan> {
    prop_oneof![
        Just(Plan::input("A")),
        Just(Plan::input("A").broadcast()),
        Just(Plan::input("A").shuffle(SiteMap::over(&[1], SITES))),
        reductions().prop_map(|op| Plan::input("A").aggregate(&[1, 0], ReduceKernel::Elementwise(op))),
        // Contributions: pairs of rows of tiles fall together, wherever they are.
        reductions().prop_map(|op| {
            let halves = KeyTerm::Floor(Box::new(KeyTerm::Part(0)), 2);
            let three = KeyFunction::new(2, vec![halves, KeyTerm::Part(1), KeyTerm::Part(0)]).unwrap();
            Plan::input("A").map(three, MapKernel::Identity).aggregate(&[0, 1], ReduceKernel::Elementwise(op))
        }),
    ]
}

fn sides() -> impl Strategy<Value = (Plan, Plan)> {
    let side = |name: &'static str| {
        prop_oneof![
            Just(Plan::input(name)),
            Just(Plan::input(name).broadcast()),
            Just(Plan::input(name).shuffle(SiteMap::over(&[0], SITES))),
            Just(Plan::input(name).shuffle(SiteMap::over(&[1], SITES))),
            Just(Plan::input(name).shuffle(SiteMap::over(&[0, 1], SITES))),
        ]
    };
    (side("A"), side("B"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn r1_1_to_r1_3_filters_and_maps_merge_and_swap(
        world in worlds(), source in sources(), c in conditions(2), d in conditions(2),
        f in key_functions(), g in key_functions(), k in kernels(), l in kernels(),
    ) {
        world.holds(&source.clone().filter(c.clone()).filter(d), merge_filters, true)?;
        world.holds(&source.clone().map(f.clone(), k.clone()).map(g, l), merge_maps, true)?;
        world.holds(&source.map(f, k).filter(c), filter_before_map, true)?;
    }

    #[test]
    fn r1_4_and_r1_5_maps_and_filters_pass_aggregations(
        world in worlds(), source in sources(), by in groups(), op in reductions(), k in kernels(), c in conditions(2),
    ) {
        let reduced = source.aggregate(&by, ReduceKernel::Elementwise(op));
        let mapped = reduced.clone().map(KeyFunction::identity(by.len()), k);
        world.holds(&mapped, map_within_aggregation, true)?;
        world.holds(&mapped, map_before_aggregation, true)?;
        if by.len() == 2 {
            world.holds(&reduced.filter(c), filter_before_aggregation, true)?;
        }
    }

    #[test]
    fn r1_6_and_r1_7_filters_and_maps_pass_joins(
        world in worlds(), (left, right) in sides(), on in joins(), c in conditions(2), wide in conditions(3),
        k in kernels(), f in key_functions(),
    ) {
        let arity = 4 - on.right.len();
        let join = left.join(right, on);
        let condition = if arity == 3 { wide } else { c };
        world.holds(&join.clone().filter(condition), filter_before_join, true)?;
        let function = if arity == 3 { KeyFunction::project(3, &[2, 0, 1]).unwrap() } else { f };
        let mapped = join.map(function, k);
        world.holds(&mapped, map_within_join, true)?;
        world.holds(&mapped, map_before_join, true)?;
    }

    #[test]
    fn r2_1_to_r2_3_moves_are_done_once_and_last(
        world in worlds(), source in sources(), first in groups(), second in groups(), c in conditions(2),
        f in key_functions(), k in kernels(), all in any::<bool>(),
    ) {
        let once = source.shuffle(SiteMap::over(&first, SITES));
        let moved = |plan: Plan| if all { plan.broadcast() } else { plan.shuffle(SiteMap::over(&second, SITES)) };
        prop_assert!(world.holds(&moved(once.clone()), move_once, true)?);
        prop_assert!(world.holds(&moved(once.broadcast()), move_once, true)?);
        let Plan::Shuffle(_, source) = Plan::input("A").shuffle(SiteMap::Somewhere) else { unreachable!() };
        world.holds(&moved(*source.clone()).filter(c), filter_before_move, true)?;
        world.holds(&moved(*source).map(f, k), map_before_move, true)?;
    }

    #[test]
    fn r2_2_and_r2_3_hold_for_contributions(
        world in worlds(), source in sources(), c in conditions(2), f in key_functions(), k in kernels(),
        second in groups(), all in any::<bool>(),
    ) {
        let moved = if all { source.broadcast() } else { source.shuffle(SiteMap::over(&second, SITES)) };
        world.holds(&moved.clone().filter(c), filter_before_move, true)?;
        world.holds(&moved.map(f, k), map_before_move, true)?;
    }

    #[test]
    fn r2_4_and_r2_5_aggregations_save_their_shuffles(
        world in worlds(), source in sources(), by in groups(), to in groups(), op in reductions(),
    ) {
        let plan = source.shuffle(SiteMap::over(&to, SITES)).aggregate(&by, ReduceKernel::Elementwise(op));
        world.holds(&plan, aggregate_in_place, false)?;
        world.holds(&plan, aggregate_before_shuffle, true)?;
    }

    #[test]
    fn r2_6_and_r2_7_joins_are_done_in_all_ways(
        world in worlds(), (left, right) in sides(), on in joins(), to in groups(),
    ) {
        let join = left.join(right, on);
        let ways = join_placements(&join, world.context());
        prop_assert!(!ways.is_empty(), "at least the shuffled join is possible");
        for way in &ways {
            world.equal(&ways[ways.len() - 1], way)?;
            world.holds(&way.clone().shuffle(SiteMap::over(&to, SITES)), keep_joined_in_place, false)?;
        }
        for way in &ways {
            world.equal(&join, way)?;
        }
    }

    #[test]
    fn the_first_plan_of_an_expression_gives_its_relation(
        world in worlds(), on in joins(), by in groups(), op in reductions(), k in kernels(), c in conditions(2),
        f in key_functions(),
    ) {
        let input = |name: &str| Box::new(Logical::Input(name.to_owned()));
        let left = Logical::Filter(c, Box::new(Logical::Rekey(f, input("A"))));
        let join = Logical::Join(on, Box::new(left), input("B"));
        let reduced = Logical::Aggregate(by, ReduceKernel::Elementwise(op), Box::new(join));
        let tiled = Logical::Concat {
            arity: 3, part: 2, axis: 0, of: Box::new(Logical::Tile(0, 1, Box::new(Logical::Transform(k, input("A"))))),
        };
        for expr in [reduced, tiled] {
            let plan = compile(&expr, SITES, &|_| 2);
            match (expr.run(&world.relations), world.run(&plan)) {
                (Ok(expected), Ok((found, _))) => prop_assert_eq!(found, expected, "{}", plan),
                (Err(_), Err(_)) => {}
                (expected, found) => prop_assert!(false, "{:?}\n{:?}\n{}", expected, found, plan),
            }
        }
    }

    #[test]
    fn all_three_multiplications_give_the_product(holes in prop::collection::vec(any::<bool>(), 5..12)) {
        let make = relation(&holes);
        let by = |part| Placement::Part(SiteMap::over(&[part], SITES));
        let world = World::empty().with("A", make(0), by(0)).with("B", make(3), by(0));
        let [a, b] = ["A", "B"].map(Plan::input);
        let expected = compile(
            &Logical::Aggregate(vec![0, 2], ReduceKernel::Elementwise(BinaryOp::Add), Box::new(Logical::Join(
                JoinOn::new(&[1], &[0], JoinKernel::MATMUL),
                Box::new(Logical::Input("A".to_owned())),
                Box::new(Logical::Input("B".to_owned())),
            ))),
            SITES,
            &|_| 2,
        );
        prop_assert!(world.equal(&expected, &broadcast_multiply(a.clone(), b.clone()))?);
        prop_assert!(world.equal(&expected, &cross_product_multiply(a.clone(), b.clone(), SITES))?);
        prop_assert!(world.equal(&expected, &replicate_multiply(a, b, 3, 3, SITES))?);
    }
}

fn full_world(a: Placement, b: Placement) -> World {
    let make = relation(&[false]);
    World::empty().with("A", make(0), a).with("B", make(3), b)
}

fn by(parts: &[usize]) -> Placement {
    Placement::Part(SiteMap::over(parts, SITES))
}

const ADD: ReduceKernel = ReduceKernel::Elementwise(BinaryOp::Add);

#[test]
fn every_rule_applies_somewhere() {
    let world = full_world(by(&[0]), by(&[0]));
    let a = || Plan::input("A");
    let same = KeyFunction::identity(2);
    let first = KeyCondition::Less(KeyTerm::Part(0), KeyTerm::constant(2));
    let on = JoinOn::new(&[1], &[0], JoinKernel::MATMUL);
    let add = JoinOn::new(&[0, 1], &[0, 1], JoinKernel::Elementwise(BinaryOp::Add));
    let joined = a()
        .shuffle(SiteMap::over(&[1], 4))
        .join(Plan::input("B").shuffle(SiteMap::over(&[0], 4)), on.clone());
    let sum = |plan: Plan| plan.join(Plan::input("B"), add.clone());
    type Rule = fn(&Plan, Context<'_>) -> Option<Plan>;
    let cases: Vec<(&str, Rule, Plan)> = vec![
        ("R1-1", merge_filters, a().filter(first.clone()).filter(first.clone())),
        (
            "R1-2",
            merge_maps,
            a().map(same.clone(), MapKernel::Scale(2.0)).map(same.clone(), MapKernel::Diagonal),
        ),
        ("R1-3", filter_before_map, a().map(same.clone(), MapKernel::Scale(2.0)).filter(first.clone())),
        (
            "R1-4",
            map_within_aggregation,
            a().aggregate(&[0], ADD).map(KeyFunction::identity(1), MapKernel::Apply(UnaryOp::Relu)),
        ),
        (
            "R1-4b",
            map_before_aggregation,
            a().aggregate(&[1], ADD).map(KeyFunction::identity(1), MapKernel::Scale(2.0)),
        ),
        ("R1-5", filter_before_aggregation, a().aggregate(&[1], ADD).filter(first.clone())),
        ("R1-6", filter_before_join, joined.clone().filter(first.clone())),
        ("R1-7", map_within_join, joined.clone().map(KeyFunction::identity(3), MapKernel::Diagonal)),
        ("R1-7b", map_before_join, sum(a()).map(same.clone(), MapKernel::Diagonal)),
        ("R2-1", move_once, a().broadcast().broadcast()),
        ("R2-2", filter_before_move, a().broadcast().filter(first)),
        ("R2-3", map_before_move, a().shuffle(SiteMap::over(&[1], 4)).map(same, MapKernel::Diagonal)),
        ("R2-4", aggregate_in_place, a().shuffle(SiteMap::over(&[0, 1], 4)).aggregate(&[0], ADD)),
        ("R2-5", aggregate_before_shuffle, a().shuffle(SiteMap::over(&[1], 4)).aggregate(&[1], ADD)),
        ("R2-7", keep_joined_in_place, joined.shuffle(SiteMap::over(&[1, 2], 4))),
    ];
    for (name, rule, plan) in cases {
        assert!(world.holds(&plan, rule, !["R2-4", "R2-7"].contains(&name)).unwrap(), "{name}\n{plan}");
    }
    assert_eq!(join_placements(&a().join(Plan::input("B"), on), world.context()).len(), 3);
}

/// The printed rules that are not sound: what they would do differs.
mod as_printed {
    use super::*;

    fn differ(world: &World, before: &Plan, after: &Plan) {
        let (expected, _) = world.run(before).unwrap();
        let (found, _) = world.run(after).unwrap();
        assert_ne!(found.tiles, expected.tiles, "\n{before}\n{after}");
    }

    #[test]
    fn r1_4_would_map_at_every_step() {
        // f(f(a + b) + c) instead of f(a + b + c), for f = relu: what falls below zero on the way is lost.
        let relu = MapKernel::Apply(UnaryOp::Relu);
        let tile = |n: i64| Array::scalar(Scalar::I64(n));
        let [a, b, c] = [tile(1), tile(-5), tile(5)];
        let whole = ReduceKernel::Then(Box::new(ADD), relu.clone());
        let once = whole.run(&[&a, &b, &c]).unwrap();
        let step = whole.run(&[&whole.run(&[&a, &b]).unwrap(), &c]).unwrap();
        assert_eq!((once, step), (tile(1), tile(5)));
        // And where a site has only some of a group, the map cannot be part of its aggregation: the rule refuses.
        let world = full_world(by(&[0]), by(&[0]));
        let plan = Plan::input("A").aggregate(&[1], ADD).map(KeyFunction::identity(1), MapKernel::Scale(2.0));
        assert_eq!(map_within_aggregation(&plan, world.context()), None);
    }

    #[test]
    fn r1_6_would_filter_other_parts_on_the_right() {
        let world = full_world(Placement::All, Placement::All);
        let on = JoinOn::new(&[1], &[0], JoinKernel::MATMUL);
        let condition = KeyCondition::Less(KeyTerm::Part(1), KeyTerm::constant(1));
        let [a, b] = ["A", "B"].map(Plan::input);
        let before = a.clone().join(b.clone(), on.clone()).filter(condition.clone());
        let printed = a.filter(condition.clone()).join(b.filter(condition), on);
        differ(&world, &before, &printed);
        world.holds(&before, filter_before_join, true).unwrap();
    }

    #[test]
    fn r1_7_would_take_the_product_of_diagonals() {
        let world = full_world(Placement::All, Placement::All);
        let on = JoinOn::new(&[0, 1], &[0, 1], JoinKernel::MATMUL);
        let same = KeyFunction::identity(2);
        let [a, b] = ["A", "B"].map(Plan::input);
        let before = a.clone().join(b.clone(), on).map(same.clone(), MapKernel::Diagonal);
        let elementwise = JoinOn::new(&[0, 1], &[0, 1], JoinKernel::Elementwise(BinaryOp::Mul));
        let printed =
            a.map(same.clone(), MapKernel::Diagonal).join(b.map(same, MapKernel::Diagonal), elementwise);
        differ(&world, &before, &printed);
        assert_eq!(map_before_join(&before, world.context()), None);
    }

    #[test]
    fn r2_4_would_reduce_groups_that_lie_apart() {
        // The tiles are dealt out by part 0 and grouped by part 1: without the shuffle, sites hold contributions.
        let world = full_world(by(&[0]), by(&[0]));
        let before = Plan::input("A").shuffle(SiteMap::over(&[1], SITES)).aggregate(&[1], ADD);
        assert_eq!(aggregate_in_place(&before, world.context()), None);
        let printed = Plan::input("A").aggregate(&[1], ADD);
        let (_, placement) = world.run(&printed).unwrap();
        assert!(matches!(placement, Placement::Partial(..)));
        // Taken for whole tiles, as the paper would, one site's are not the sums.
        let sums = world.run(&before).unwrap().0;
        let held = printed.run(&world.placed).unwrap();
        assert!(held.sites().iter().all(|site| site.tiles != sums.tiles));
    }

    #[test]
    fn r2_5_would_shuffle_by_parts_that_are_gone() {
        let world = full_world(by(&[0]), by(&[0]));
        let partial = Plan::input("A").aggregate(&[1], ADD);
        let printed = partial.shuffle(SiteMap::over(&[0, 1], SITES)).aggregate(&[0], ADD);
        assert!(world.run(&printed).is_err());
        let before = Plan::input("A").shuffle(SiteMap::over(&[1], SITES)).aggregate(&[1], ADD);
        assert!(world.holds(&before, aggregate_before_shuffle, true).unwrap());
    }

    #[test]
    fn r2_7_would_leave_tiles_apart() {
        // Joined by parts 0 and 1, and then wanted together by part 0 alone: partDims ⊆ joinKeysL, as printed.
        let world = full_world(by(&[0]), by(&[0]));
        let map = SiteMap::over(&[0, 1], SITES);
        let on = JoinOn::new(&[0, 1], &[0, 1], JoinKernel::Elementwise(BinaryOp::Add));
        let join = Plan::input("A").shuffle(map.clone()).join(Plan::input("B").shuffle(map), on);
        let plan = join.clone().shuffle(SiteMap::over(&[0], SITES));
        assert_eq!(keep_joined_in_place(&plan, world.context()), None);
        let (_, placement) = world.run(&join).unwrap();
        assert!(!placement.is_partitioned_by(&[0]));
        let sites_of_row = |described: RelationType| {
            let sites: std::collections::BTreeSet<usize> = described
                .tiles
                .iter()
                .filter(|(key, _)| key[0] == 0)
                .flat_map(|(_, tile)| tile.sites.clone())
                .collect();
            sites.len()
        };
        assert_eq!(sites_of_row(world.context().describe(&plan).unwrap()), 1);
        assert!(sites_of_row(world.context().describe(&join).unwrap()) > 1);
    }

    #[test]
    fn a_map_after_contributions_must_distribute() {
        let world = full_world(by(&[0]), by(&[0]));
        let sums = Plan::input("A").aggregate(&[1], ADD).broadcast();
        let plan = sums.map(KeyFunction::identity(1), MapKernel::Apply(UnaryOp::Relu));
        assert_eq!(map_before_move(&plan, world.context()), None);
        let early = Plan::input("A").aggregate(&[1], ADD);
        let early = early.map(KeyFunction::identity(1), MapKernel::Apply(UnaryOp::Relu));
        assert!(matches!(world.run(&early), Err(AlgebraError::Placement { .. })));
    }
}

#[test]
fn tiles_can_be_cut_and_put_together_on_sites() {
    let world = full_world(by(&[0]), by(&[1]));
    let cut = Plan::Map(LocalMap::Tile { axis: 1, size: 1 }, Box::new(Plan::input("A")));
    let whole = cut.aggregate(&[0, 1], ReduceKernel::Concat(1));
    assert!(world.equal(&Plan::input("A"), &whole).unwrap());
}
