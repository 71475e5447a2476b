//! The plan of a contraction: in which order two factors are multiplied at a time, and on which grid each product is
//! done, so that what one product leaves behind is near where the next one needs it.
//!
//! The order comes first, by multiplications alone. Then grids are chosen for all products together, by dynamic
//! programming over the tree that they make: the best for a product on a grid is its own cost, and for each factor
//! the best over the grids it may come from, with what has to move between. That is exact as long as no product has
//! more grids to choose from than are looked at; of more, those are that are best on their own, so that the time is
//! bounded.

use crate::contraction::{Contraction, Label, PairStep};
use crate::error::AlgebraError;
use crate::grid::{Grid, Objective, Product};
use crate::placement::{GridAxis, SiteMap};
use std::collections::BTreeMap;

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanOptions {
    /// Sites there are.
    pub sites: u64,
    /// The extent of a tile along every label; shorter at the edges.
    pub block: u64,
    /// What is to be little.
    pub objective: Objective,
    /// Elements that a site has room for in one product; `None` for as many as it takes.
    pub budget_floats: Option<u128>,
}

/// Grids of one product that are looked at, at most. A product of matrices on 64 sites has fewer that use them all.
pub const MAX_GRIDS: usize = 512;

/// Classes of tiles that are looked at for two neighbouring products, over all pairs of their grids: some seconds.
const MAX_WORK: u64 = 20_000_000;

/// How a contraction is done.
#[derive(Clone, Debug, PartialEq)]
pub struct ContractionPlan {
    /// Products in order.
    pub products: Vec<PlannedProduct>,
    /// Elements that are moved in all of them.
    pub moved_floats: u128,
}

/// One product of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedProduct {
    /// Which factors it multiplies.
    pub step: PairStep,
    /// Its shapes.
    pub product: Product,
    /// The grid it is done on.
    pub grid: Grid,
    /// Elements moved for it: its factors to where they are needed, its contributions to where they are reduced.
    pub moved_floats: u128,
}

/// Plans a contraction. Fails if there is no site or no tile, or if no grid fits the budget.
///
/// A contraction of one factor is no product, so its plan is empty.
pub fn plan_contraction(
    contraction: &Contraction,
    options: &PlanOptions,
) -> Result<ContractionPlan, AlgebraError> {
    for (what, number) in [("a number of sites", options.sites), ("the extent of a tile", options.block)] {
        if number == 0 {
            return Err(AlgebraError::Argument { what, expected: "at least 1", found: "0".to_owned() });
        }
    }
    let steps = contraction.order();
    let tree = Tree::new(contraction, steps, options)?;
    let chosen = tree.choose(options);
    let products = (0..tree.steps.len()).map(|at| PlannedProduct {
        step: tree.steps[at].clone(),
        product: tree.products[at].clone(),
        grid: tree.grids[at][chosen[at]].clone(),
        moved_floats: tree.moved(at, &chosen),
    });
    let products: Vec<PlannedProduct> = products.collect();
    let moved_floats = products.iter().map(|product| product.moved_floats).fold(0, u128::saturating_add);
    Ok(ContractionPlan { products, moved_floats })
}

/// Products and the grids they may be done on.
struct Tree {
    /// Factors of the contraction; numbers from here on are products.
    factors: usize,
    steps: Vec<PairStep>,
    products: Vec<Product>,
    grids: Vec<Vec<Grid>>,
}

impl Tree {
    fn new(
        contraction: &Contraction,
        steps: Vec<PairStep>,
        options: &PlanOptions,
    ) -> Result<Tree, AlgebraError> {
        let factors = contraction.factors.len();
        let mut labels: Vec<Vec<Label>> =
            contraction.factors.iter().map(|(_, labels)| distinct(labels)).collect();
        let (mut products, mut grids) = (Vec::new(), Vec::new());
        for step in &steps {
            let (left, right) = (labels[step.left].clone(), labels[step.right].clone());
            let used = left.iter().chain(&right);
            let extents: BTreeMap<Label, u64> =
                used.map(|&label| (label, contraction.extent(label))).collect();
            let blocks = extents.keys().map(|&label| (label, options.block)).collect();
            let product = Product { left, right, output: step.output.clone(), extents, blocks };
            // Fails with the numbers when nothing fits.
            product.choose(options.sites, options.objective, options.budget_floats)?;
            let mut all = candidates(&product, options);
            all.sort_by_key(|grid| (grid.moved_floats, grid.multiplications, grid.parts, grid.memory_floats));
            all.truncate(most_grids(&product, options.sites));
            labels.push(step.output.clone());
            products.push(product);
            grids.push(all);
        }
        Ok(Tree { factors, steps, products, grids })
    }

    /// The number of the best grid of each product.
    fn choose(&self, options: &PlanOptions) -> Vec<usize> {
        // For each product and grid: the cost of it and all below, and the grids of the products it multiplies.
        let mut best: Vec<Vec<(f64, [usize; 2])>> = Vec::with_capacity(self.steps.len());
        for at in 0..self.steps.len() {
            let mut row = Vec::with_capacity(self.grids[at].len());
            for grid in &self.grids[at] {
                let mut total = own_cost(grid, self.contributions(at, grid), options);
                let mut below = [0; 2];
                for (side, choice) in below.iter_mut().enumerate() {
                    let mut least = f64::INFINITY;
                    let below: Vec<f64> = match self.producer(at, side) {
                        Some(producer) => best[producer].iter().map(|(cost, _)| *cost).collect(),
                        None => vec![0.0],
                    };
                    for (from, under) in below.into_iter().enumerate() {
                        let moved = self.edge(at, side, grid, from);
                        let cost = under + transfer_cost(moved, grid, options);
                        if cost < least {
                            (least, *choice) = (cost, from);
                        }
                    }
                    total += least;
                }
                row.push((total, below));
            }
            best.push(row);
        }
        let mut chosen = vec![0; self.steps.len()];
        if let Some(last) = self.steps.len().checked_sub(1) {
            let costs = best[last].iter().enumerate();
            chosen[last] = costs.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0)).map_or(0, |(grid, _)| grid);
            for at in (0..self.steps.len()).rev() {
                for (side, &choice) in best[at][chosen[at]].1.iter().enumerate() {
                    if let Some(producer) = self.producer(at, side) {
                        chosen[producer] = choice;
                    }
                }
            }
        }
        chosen
    }

    /// The product that makes a factor; `None` for a factor of the contraction.
    fn producer(&self, at: usize, side: usize) -> Option<usize> {
        let factor = if side == 0 { self.steps[at].left } else { self.steps[at].right };
        factor.checked_sub(self.factors)
    }

    fn contributions(&self, at: usize, grid: &Grid) -> u128 {
        let product = &self.products[at];
        product.size(&product.output).saturating_mul(u128::from(grid.parts) - 1)
    }

    /// Elements of a factor that move to the grid: to every site that needs a tile, unless it is there.
    fn edge(&self, at: usize, side: usize, grid: &Grid, from: usize) -> u128 {
        let product = &self.products[at];
        let labels = if side == 0 { &product.left } else { &product.right };
        let needed = layout(labels, &grid.sites);
        let Some(producer) = self.producer(at, side) else {
            // Factors of the contraction are laid out for this product: one copy is in place.
            return product.size(labels).saturating_mul(copies(&needed) - 1);
        };
        let held = layout(labels, &self.grids[producer][from].sites);
        if held == needed {
            return product.size(labels).saturating_mul(copies(&needed) - 1);
        }
        // Sites follow from coordinates modulo both grids, so tiles that agree on that are counted together.
        let classes: Vec<Vec<u128>> = labels
            .iter()
            .map(|label| {
                let sites_along = |grid: &Grid| grid.sites.get(label).copied().unwrap_or(1).max(1);
                class_extents(product, *label, sites_along(grid), sites_along(&self.grids[producer][from]))
            })
            .collect();
        let counts: Vec<usize> = classes.iter().map(Vec::len).collect();
        let mut moved = 0u128;
        for class in crate::array::positions(&counts) {
            let key: Vec<i64> = class.iter().map(|&at| at as i64).collect();
            // Contributions are reduced on the first of the sites that can hold the tile.
            let home = held.sites_of(&key).and_then(|sites| sites.first().copied());
            let wanted = needed.sites_of(&key).unwrap_or_default();
            let sent = wanted.iter().filter(|site| Some(**site) != home).count();
            let floats: u128 = class.iter().zip(&classes).map(|(&at, extents)| extents[at]).product();
            moved = moved.saturating_add(floats.saturating_mul(sent as u128));
        }
        moved
    }

    /// Elements moved for a product, with these grids.
    fn moved(&self, at: usize, chosen: &[usize]) -> u128 {
        let grid = &self.grids[at][chosen[at]];
        let sides = (0..2).map(|side| {
            let from = self.producer(at, side).map_or(0, |producer| chosen[producer]);
            self.edge(at, side, grid, from)
        });
        sides.fold(self.contributions(at, grid), u128::saturating_add)
    }
}

/// How much of a label the tiles of each class cover, where a class is a coordinate modulo both numbers.
fn class_extents(product: &Product, label: Label, a: u64, b: u64) -> Vec<u128> {
    let (extent, block) = (product.extents[&label], product.blocks[&label].max(1));
    let tiles = product.tiles(label);
    let classes = (a / gcd(a, b)).saturating_mul(b).min(tiles);
    // All tiles are whole but the last, which is trimmed.
    let trimmed = (u128::from(tiles) * u128::from(block)).saturating_sub(u128::from(extent));
    let covered = (0..classes).map(|class| {
        let whole = u128::from((tiles - class).div_ceil(classes)) * u128::from(block);
        if (tiles - 1) % classes == class { whole - trimmed } else { whole }
    });
    covered.collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn own_cost(grid: &Grid, contributions: u128, options: &PlanOptions) -> f64 {
    let work = match options.objective {
        Objective::Moved => 0.0,
        Objective::Time { multiplications_per_sec, .. } => {
            grid.multiplications as f64 / multiplications_per_sec
        }
    };
    work + transfer_cost(contributions, grid, options)
}

fn transfer_cost(moved: u128, grid: &Grid, options: &PlanOptions) -> f64 {
    match options.objective {
        Objective::Moved => moved as f64,
        Objective::Time { floats_per_sec, .. } => moved as f64 / grid.used() as f64 / floats_per_sec,
    }
}

/// Grids that fit the budget and, where movement alone counts, use enough sites.
fn candidates(product: &Product, options: &PlanOptions) -> Vec<Grid> {
    let grids = product.grids(options.sites);
    let most_used = grids.iter().map(Grid::used).max().unwrap_or(1);
    let root = options.sites.isqrt().max(1);
    let wanted = match options.objective {
        Objective::Moved => (root * (options.sites / root)).min(most_used),
        Objective::Time { .. } => 1,
    };
    let fits = |grid: &Grid| options.budget_floats.is_none_or(|budget| grid.memory_floats <= budget);
    grids.into_iter().filter(|grid| fits(grid) && grid.used() >= wanted).collect()
}

/// Grids of a product that are looked at, so that all pairs with those of its neighbours stay within [`MAX_WORK`].
fn most_grids(product: &Product, sites: u64) -> usize {
    // Two grids have less than sites² classes along a label, and no more than there are tiles.
    let classes = |label: &Label| product.tiles(*label).min(sites.saturating_mul(sites));
    let along = |labels: &[Label]| labels.iter().map(classes).fold(1, u64::saturating_mul);
    let most = along(&product.left).max(along(&product.right)).max(along(&product.output));
    ((MAX_WORK / most.max(1)).isqrt() as usize).clamp(16, MAX_GRIDS)
}

/// Where the tiles of a tensor with these labels are on a grid: along labels it does not have, everywhere.
fn layout(labels: &[Label], sites: &BTreeMap<Label, u64>) -> SiteMap {
    let axes = sites
        .iter()
        .map(|(label, &n)| GridAxis { part: labels.iter().position(|own| own == label), sites: n as usize });
    SiteMap::Grid(axes.filter(|axis| axis.sites > 1).collect())
}

fn copies(map: &SiteMap) -> u128 {
    match map {
        SiteMap::Grid(axes) => {
            axes.iter().filter(|axis| axis.part.is_none()).map(|axis| axis.sites as u128).product()
        }
        SiteMap::Somewhere => 1,
    }
}

fn distinct(labels: &[Label]) -> Vec<Label> {
    let mut all: Vec<Label> = Vec::new();
    for label in labels {
        if !all.contains(label) {
            all.push(*label);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Index, Slot};
    use proptest::prelude::*;

    /// A chain of matrices with these extents.
    fn chain(extents: &[u64]) -> Contraction {
        let last = extents.len() as u32 - 1;
        Contraction {
            factors: (0..last).map(|at| (Slot(at as usize), vec![Index(at), Index(at + 1)])).collect(),
            output: vec![Index(0), Index(last)],
            extents: extents.iter().enumerate().map(|(at, &n)| (Index(at as u32), n)).collect(),
        }
    }

    fn options(sites: u64, block: u64) -> PlanOptions {
        PlanOptions { sites, block, objective: Objective::Moved, budget_floats: None }
    }

    /// The least that any choice of grids moves, by trying all.
    fn exhaustive(tree: &Tree) -> u128 {
        let mut best = u128::MAX;
        let counts: Vec<usize> = tree.grids.iter().map(Vec::len).collect();
        for chosen in crate::array::positions(&counts) {
            best = best.min((0..counts.len()).map(|at| tree.moved(at, &chosen)).sum());
        }
        best
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        #[test]
        fn the_plan_moves_the_least_of_all(
            extents in prop::collection::vec(1..40u64, 3..6), sites in 1..9u64, block in 3..12u64,
        ) {
            let contraction = chain(&extents);
            let options = options(sites, block);
            let plan = plan_contraction(&contraction, &options).unwrap();
            let tree = Tree::new(&contraction, contraction.order(), &options).unwrap();
            prop_assert_eq!(plan.moved_floats, exhaustive(&tree));
            for each in &plan.products {
                prop_assert!(each.grid.used() <= sites);
            }
            prop_assert_eq!(&plan, &plan_contraction(&contraction, &options).unwrap(), "the same plan again");
        }
    }

    #[test]
    fn a_single_product_is_planned_as_its_grid() {
        let plan = plan_contraction(&chain(&[10_000, 640_000, 10_000]), &options(10, 1000)).unwrap();
        let product = &plan.products[0];
        let best = product.product.choose(10, Objective::Moved, None).unwrap();
        assert_eq!((plan.moved_floats, &product.grid), (best.moved_floats, &best));
        assert!(
            product.grid.sites[&Index(1)] >= 9,
            "the common dimension is split: {:?}",
            product.grid.sites
        );
    }

    #[test]
    fn huge_tensors_and_many_sites_are_planned_in_bounded_time() {
        let start = std::time::Instant::now();
        let wide = plan_contraction(&chain(&[1 << 40, 1 << 40, 1 << 40, 1 << 40]), &options(10, 1)).unwrap();
        assert!(wide.moved_floats > 0);
        let time = Objective::Time { multiplications_per_sec: 1e10, floats_per_sec: 1e8 };
        let many = PlanOptions { objective: time, ..options(64, 100) };
        let plan = plan_contraction(&chain(&[10_000, 5_000, 10_000, 3_000, 10_000]), &many).unwrap();
        assert_eq!(plan.products.len(), 3);
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    }

    #[test]
    fn products_are_placed_for_one_another() {
        // Both products on the grids that are best alone would move the intermediate result as well.
        let contraction = chain(&[4_000, 4_000, 4_000, 4_000]);
        let options = options(4, 500);
        let plan = plan_contraction(&contraction, &options).unwrap();
        let alone: u128 = plan
            .products
            .iter()
            .map(|each| each.product.choose(4, Objective::Moved, None).unwrap().moved_floats)
            .sum();
        assert!(plan.moved_floats >= alone);
        assert_eq!(plan.products.iter().map(|each| each.moved_floats).sum::<u128>(), plan.moved_floats);
    }

    #[test]
    fn what_cannot_be_planned_is_an_error() {
        let contraction = chain(&[100, 100, 100]);
        assert!(plan_contraction(&contraction, &options(0, 10)).is_err());
        assert!(plan_contraction(&contraction, &options(4, 0)).is_err());
        let tight = PlanOptions { budget_floats: Some(10), ..options(4, 10) };
        let error = plan_contraction(&contraction, &tight).unwrap_err().to_string();
        assert!(error.contains("10 elements, of which"), "{error}");
        assert_eq!(plan_contraction(&chain(&[3, 4]), &options(4, 2)).unwrap().products, []);
    }
}
