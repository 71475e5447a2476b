//! Grids: how the tiles of a contraction of two tensors are spread over sites.
//!
//! A grid has an extent for each label, and as many sites as their product. A tensor lies on the grid along its own
//! labels and is copied along the others; the result is a sum of contributions along the labels that are contracted:
//!
//! ```text
//! moved = |A| (Π of labels not in A  − 1) + |B| (Π of labels not in B − 1) + |C| (Π of contracted labels − 1)
//! ```
//!
//! For a product of matrices that is r × c × d: BMM is (s, 1, 1), CPMM (1, 1, s), RMM and SUMMA (r, c, 1).

use crate::contraction::Label;
use std::collections::BTreeMap;

/// A product of two tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// The labels of the left factor.
    pub left: Vec<Label>,
    /// The labels of the right factor.
    pub right: Vec<Label>,
    /// The labels of the result.
    pub output: Vec<Label>,
    /// How far each label runs.
    pub extents: BTreeMap<Label, u64>,
    /// The extent of a tile along each label, at least 1. A grid cannot be wider than the tiles are many.
    pub blocks: BTreeMap<Label, u64>,
}

/// A grid of sites for a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Sites along each label.
    pub sites: BTreeMap<Label, u64>,
    /// Elements that are moved.
    pub moved_floats: u128,
    /// Contributions to each tile of the result. Of grids that move the same, fewer are better: nothing has to be added.
    pub parts: u64,
    /// Multiplications of the site that has the most.
    pub multiplications: u128,
    /// Elements that a site holds at most: its part of both factors and of the result.
    pub memory_floats: u128,
}

impl Product {
    /// Tiles along a label.
    pub fn tiles(&self, label: Label) -> u64 {
        let block = self.blocks.get(&label).copied().unwrap_or(u64::MAX).max(1);
        self.extents.get(&label).copied().unwrap_or(1).div_ceil(block).max(1)
    }

    /// Elements of a tensor with these labels.
    pub fn size(&self, labels: &[Label]) -> u128 {
        labels.iter().fold(1, |size, label| size.saturating_mul(u128::from(self.extents[label])))
    }

    fn labels(&self) -> Vec<Label> {
        self.extents.keys().copied().collect()
    }

    /// What a grid costs.
    pub fn on(&self, sites: BTreeMap<Label, u64>) -> Grid {
        let along = |label: &Label| u128::from(sites.get(label).copied().unwrap_or(1).max(1));
        let copies = |own: &[Label]| -> u128 {
            self.extents.keys().filter(|label| !own.contains(label)).map(along).product()
        };
        let moved = [&self.left, &self.right, &self.output]
            .map(|own| self.size(own).saturating_mul(copies(own) - 1))
            .into_iter()
            .fold(0, u128::saturating_add);
        // The site with the most tiles along each label. Tiles are counted whole, also those that are trimmed.
        let share = |label: &Label| {
            let extent = self.extents[label];
            let block = self.blocks.get(label).copied().unwrap_or(extent).max(1);
            let most = u128::from(self.tiles(*label)).div_ceil(along(label)) * u128::from(block);
            most.min(u128::from(extent))
        };
        let part = |own: &[Label]| own.iter().map(share).fold(1, u128::saturating_mul);
        let memory = [&self.left, &self.right, &self.output].map(|own| part(own)).iter().sum();
        let multiplications = part(&self.labels());
        let contracted = self.extents.keys().filter(|label| !self.output.contains(label));
        let parts = contracted.map(|label| sites.get(label).copied().unwrap_or(1).max(1)).product();
        Grid { moved_floats: moved, parts, multiplications, memory_floats: memory, sites }
    }

    /// All grids of at most so many sites, no wider than the tiles along a label.
    pub fn grids(&self, sites: u64) -> Vec<Grid> {
        let labels = self.labels();
        let mut all = vec![(BTreeMap::new(), 1u64)];
        for label in &labels {
            let widest = self.tiles(*label);
            all = all
                .into_iter()
                .flat_map(|(grid, used)| {
                    (1..=(sites / used).min(widest).max(1)).map(move |n| {
                        let mut grid: BTreeMap<Label, u64> = grid.clone();
                        grid.insert(*label, n);
                        (grid, used * n)
                    })
                })
                .collect();
        }
        all.into_iter().map(|(grid, _)| self.on(grid)).collect()
    }

    /// The grid that moves the fewest elements, on at least as many sites as TensorPlanner's ⌊√p⌋ × ⌊p/⌊√p⌋⌋ uses, or as
    /// many as there are tiles for. (On one site nothing would be moved.)
    pub fn least_moved(&self, sites: u64) -> Option<Grid> {
        let grids = self.grids(sites);
        let most_used = grids.iter().map(Grid::used).max().unwrap_or(1);
        let root = sites.isqrt().max(1);
        let wanted = (root * (sites / root)).min(most_used);
        grids
            .into_iter()
            .filter(|grid| grid.used() >= wanted)
            .min_by_key(|grid| (grid.moved_floats, grid.multiplications, grid.parts, grid.memory_floats))
    }
}

impl Grid {
    /// Sites it uses.
    pub fn used(&self) -> u64 {
        self.sites.values().product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CostModel, moved_floats};
    use crate::expr::Index;
    use crate::physical::{Plan, RelationType};
    use crate::placement::{Placement, SiteMap};
    use crate::rules::{
        Context, aggregate_before_shuffle, broadcast_multiply, cross_product_multiply, replicate_multiply,
    };
    use lacus_tensor::DType;

    const I: Label = Index(0);
    const J: Label = Index(1);
    const K: Label = Index(2);

    fn matmul([i, k, j]: [u64; 3], tiles: u64) -> Product {
        Product {
            left: vec![I, K],
            right: vec![K, J],
            output: vec![I, J],
            extents: BTreeMap::from([(I, i), (J, j), (K, k)]),
            blocks: BTreeMap::from([(I, i.div_ceil(tiles)), (J, j.div_ceil(tiles)), (K, k.div_ceil(tiles))]),
        }
    }

    fn grid(i: u64, j: u64, k: u64) -> BTreeMap<Label, u64> {
        BTreeMap::from([(I, i), (J, j), (K, k)])
    }

    const SIZES: [[u64; 3]; 3] =
        [[40_000, 40_000, 40_000], [10_000, 640_000, 10_000], [80_000, 10_000, 80_000]];

    #[test]
    fn the_reference_table_follows() {
        let check = |size, sites, expected: f64| {
            let found = matmul(size, 40).on(sites).moved_floats as f64;
            assert!((found / expected - 1.0).abs() < 1e-9, "{found:e}, expected {expected:e}");
        };
        check(SIZES[0], grid(2, 5, 1), 8.0e9);
        check(SIZES[0], grid(3, 3, 1), 6.4e9);
        check(SIZES[1], grid(1, 1, 10), 9.0e8);
        check(SIZES[1], grid(3, 3, 1), 2.56e10);
        check(SIZES[2], grid(2, 5, 1), 4.0e9);
        check(SIZES[2], grid(3, 3, 1), 3.2e9);
    }

    /// What the plans of the rules really move, tile by tile, from the placements that suit each best.
    fn rule_plans(size: [u64; 3], tiles: usize, sites: usize) -> Vec<u64> {
        let [i, k, j] = size.map(|n| n as usize);
        let relation = |rows: usize, columns: usize, by: usize| {
            let block = [rows.div_ceil(tiles), columns.div_ceil(tiles)];
            let placement = Placement::Part(SiteMap::over(&[by], sites));
            RelationType::of_tensor(DType::F64, &[rows, columns], &block, placement, sites).unwrap()
        };
        let cost = |plan: &dyn Fn(Context<'_>) -> Plan, a: usize, b: usize| {
            let inputs =
                BTreeMap::from([("A".to_owned(), relation(i, k, a)), ("B".to_owned(), relation(k, j, b))]);
            let context = Context { inputs: &inputs, sites };
            moved_floats(&plan(context), context, CostModel::Moved).unwrap()
        };
        let [a, b] = ["A", "B"].map(Plan::input);
        vec![
            cost(&|_| broadcast_multiply(a.clone(), b.clone()), 0, 0),
            cost(
                &|context| {
                    let plan = cross_product_multiply(a.clone(), b.clone(), sites);
                    aggregate_before_shuffle(&plan, context).unwrap()
                },
                1,
                0,
            ),
            cost(&|_| replicate_multiply(a.clone(), b.clone(), tiles, tiles, sites), 0, 1),
        ]
    }

    #[test]
    fn the_chosen_grid_moves_no_more_than_any_known_plan() {
        for size in SIZES {
            for sites in [5u64, 10, 15] {
                let tiles = 15;
                let product = matmul(size, tiles);
                let best = product.least_moved(sites).unwrap();
                let root = sites.isqrt();
                let pattern = product.on(grid(root, sites / root, 1));
                assert!(best.moved_floats <= pattern.moved_floats, "{size:?} on {sites}: √p");
                for (name, moved) in
                    ["BMM", "CMM", "RMM"].iter().zip(rule_plans(size, tiles as usize, sites as usize))
                {
                    assert!(
                        best.moved_floats <= u128::from(moved),
                        "{size:?} on {sites}: {name} moves {moved:e}"
                    );
                }
                assert!(best.used() >= root * (sites / root) && best.used() <= sites);
            }
        }
    }

    #[test]
    fn plans_of_the_rules_are_points_of_the_family() {
        for size in SIZES {
            let product = matmul(size, 10);
            let moved = |i, j, k| product.on(grid(i, j, k)).moved_floats as u64;
            let plans = rule_plans(size, 10, 10);
            assert_eq!(plans[..2], [moved(10, 1, 1), moved(1, 1, 10)]);
        }
    }
}
