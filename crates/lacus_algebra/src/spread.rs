//! Where the tasks of an operator run: a grid of sites with an extent for each of its labels, or wherever the tiles are
//! that it goes through one by one.
//!
//! On a grid, tiles are dealt out in turn along every label. Along labels that are folded, sites make contributions,
//! and the tile of the result is on one of them: in turn, so that no site gets all.

use crate::site_set::SiteSets;
use crate::tiling::each_of;
use crate::touch::{Ranges, Tiled, Touches};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Where the tasks of an operator run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Sites along each label: those of the result, then those of the fold.
    Grid(Vec<u64>),
    /// The site of each step, counted in C order over the tiles of all labels: where a tensor is that has them all.
    Table(Arc<[u32]>),
}

/// What moves between sites.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moves {
    /// Elements in all.
    pub(crate) floats: u128,
    /// Elements that the busiest site sends or receives.
    pub(crate) busiest: f64,
}

impl Spread {
    /// Distances between neighbouring sites along each label. Labels of the result vary fastest, so that results lie
    /// alike whatever was folded.
    fn strides(sites: &[u64], rank: usize) -> Vec<u64> {
        let mut strides = vec![0; sites.len()];
        let mut next = 1;
        for label in (0..rank).rev().chain(rank..sites.len()) {
            strides[label] = next;
            next *= sites[label];
        }
        strides
    }

    /// Sites it uses at most.
    pub fn used(&self) -> u64 {
        match self {
            Spread::Grid(sites) => sites.iter().product(),
            Spread::Table(table) => {
                let mut all = table.to_vec();
                all.sort_unstable();
                all.dedup();
                all.len() as u64
            }
        }
    }

    /// The sites of steps, ready to be asked.
    pub(crate) fn sites(&self, rank: usize) -> Sites<'_> {
        match self {
            Spread::Grid(sites) => Sites { spread: self, strides: Spread::strides(sites, rank) },
            Spread::Table(_) => Sites { spread: self, strides: Vec::new() },
        }
    }

    /// The sites that contribute to a tile of the result, in order.
    pub(crate) fn contributors(&self, tiled: &Tiled<'_>, tile: &[u64], ranges: &Ranges) -> Vec<u64> {
        let rank = tiled.rank;
        let sites = self.sites(rank);
        let mut all: Vec<u64> = Vec::new();
        match self {
            Spread::Grid(grid) if !tiled.is_guarded() => {
                if tiled.folded().contains(&0) {
                    return all;
                }
                let base: u64 = (0..rank).map(|label| tile[label] % grid[label] * sites.strides[label]).sum();
                // Labels of the fold have the outermost strides: every multiple of the first one.
                let parts: u64 = grid[rank..].iter().product();
                let step: u64 = grid[..rank].iter().product();
                all.extend((0..parts).map(|part| base + part * step));
            }
            _ => {
                let mut at = tile.to_vec();
                each_of(tiled.folded(), &mut |folded| {
                    at.truncate(rank);
                    at.extend_from_slice(folded);
                    if tiled.lives(&at, ranges) {
                        all.push(sites.of(&at, &tiled.labels.counts));
                    }
                });
                all.sort_unstable();
                all.dedup();
            }
        }
        all
    }

    /// The site of each tile of the result: one of those that contribute, in turn.
    pub(crate) fn homes(&self, tiled: &Tiled<'_>, ranges: &Ranges) -> Arc<[u32]> {
        let mut homes = Vec::new();
        if let Spread::Grid(grid) = self
            && !tiled.is_guarded()
        {
            // All parts contribute, so that nothing has to be listed.
            let strides = Spread::strides(grid, tiled.rank);
            let parts: u64 =
                if tiled.folded().contains(&0) { 1 } else { grid[tiled.rank..].iter().product() };
            let step: u64 = grid[..tiled.rank].iter().product();
            each_of(tiled.counts(), &mut |tile| {
                let (mut site, mut turn) = (0, 0);
                for (label, &at) in tile.iter().enumerate() {
                    site += at % grid[label] * strides[label];
                    turn += at / grid[label];
                }
                homes.push((site + turn % parts * step) as u32);
            });
            return homes.into();
        }
        each_of(tiled.counts(), &mut |tile| {
            let all = self.contributors(tiled, tile, ranges);
            let turn: u64 = match self {
                Spread::Grid(grid) => tile.iter().zip(grid).map(|(at, sites)| at / sites).sum(),
                Spread::Table(_) => tile.iter().sum(),
            };
            let home = match (all.len() as u64, self) {
                (0, Spread::Grid(grid)) => {
                    let strides = Spread::strides(grid, tiled.rank);
                    tile.iter().zip(grid).zip(strides).map(|((at, sites), stride)| at % sites * stride).sum()
                }
                (0, Spread::Table(_)) => 0,
                (parts, _) => all[(turn % parts) as usize],
            };
            homes.push(home as u32);
        });
        homes.into()
    }

    /// Elements of contributions that move to where the tiles of the result are.
    pub(crate) fn contributions(
        &self,
        tiled: &Tiled<'_>,
        homes: &[u32],
        floats: &[u64],
        ranges: &Ranges,
    ) -> Moves {
        let is_whole = matches!(self, Spread::Grid(grid) if grid[tiled.rank..].iter().all(|&n| n == 1));
        if tiled.operator.fold.is_none() || is_whole && !tiled.is_guarded() {
            return Moves::default();
        }
        let mut number = 0;
        let mut moves = Moves::default();
        let mut busy: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
        each_of(tiled.counts(), &mut |tile| {
            let (home, size) = (u64::from(homes[number]), u128::from(floats[number]));
            for site in self.contributors(tiled, tile, ranges).into_iter().filter(|&site| site != home) {
                moves.floats += size;
                busy.entry(site).or_default()[0] += size as f64;
                busy.entry(home).or_default()[1] += size as f64;
            }
            number += 1;
        });
        moves.busiest = busy.values().flatten().copied().fold(0.0, f64::max);
        moves
    }

    /// Adds to `sets` the sites that need each tile of a tensor for a read.
    pub(crate) fn needs(&self, tiled: &Tiled<'_>, touches: &Touches, sets: &mut SiteSets, sites: u64) {
        match self {
            Spread::Grid(grid) => {
                let strides = Spread::strides(grid, tiled.rank);
                let mut free = SiteSets::new(1, sites);
                free.insert(0, 0);
                for label in (0..grid.len()).filter(|label| !touches.labels.contains(label)) {
                    let all: Vec<u64> = free.members(0).collect();
                    for n in 1..grid[label] {
                        all.iter().for_each(|site| free.insert(0, site + n * strides[label]));
                    }
                }
                let along: Vec<(u32, u64)> =
                    touches.labels.iter().map(|&label| (grid[label] as u32, strides[label])).collect();
                let width = along.len();
                for (at, &tile) in touches.tiles.iter().enumerate() {
                    let step = &touches.steps[at * width..(at + 1) * width];
                    let base: u64 = step
                        .iter()
                        .zip(&along)
                        .map(|(&n, &(grid, stride))| u64::from(n % grid) * stride)
                        .sum();
                    sets.insert_shifted(tile as usize, free.row(0), base);
                }
            }
            Spread::Table(table) => {
                let width = touches.labels.len();
                for (at, &tile) in touches.tiles.iter().enumerate() {
                    let step = touches.steps[at * width..(at + 1) * width].iter().zip(&tiled.labels.counts);
                    let number = step.fold(0, |number, (&at, &count)| number * count as usize + at as usize);
                    sets.insert(tile as usize, u64::from(table[number]));
                }
            }
        }
    }

    /// True when all labels decide where a step runs, and not only those that a read has.
    pub(crate) fn is_by_tile(&self) -> bool {
        matches!(self, Spread::Table(_))
    }
}

/// The sites of the steps of an operator.
pub(crate) struct Sites<'a> {
    spread: &'a Spread,
    strides: Vec<u64>,
}

impl Sites<'_> {
    /// The site of a step, where labels have so many tiles.
    pub(crate) fn of(&self, at: &[u64], counts: &[u64]) -> u64 {
        match self.spread {
            Spread::Grid(sites) => {
                at.iter().zip(sites).zip(&self.strides).map(|((&at, &n), stride)| at % n * stride).sum()
            }
            Spread::Table(table) => {
                let number = at.iter().zip(counts).fold(0, |number, (&at, &count)| number * count + at);
                u64::from(table[number as usize])
            }
        }
    }
}

/// All grids of at most so many sites, no wider along a label than there are tiles.
pub(crate) fn grids(tiles: &[u64], sites: u64, most: usize) -> Vec<Vec<u64>> {
    let mut all = vec![(Vec::new(), 1u64)];
    for &count in tiles {
        let mut wider = Vec::new();
        for (grid, used) in &all {
            for n in 1..=(sites / used).min(count).max(1) {
                let mut grid: Vec<u64> = grid.clone();
                grid.push(n);
                wider.push((grid, used * n));
            }
        }
        // Of too many those that use the most sites: they are what a plan is for.
        if wider.len() > most {
            wider.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            wider.truncate(most);
        }
        all = wider;
    }
    all.into_iter().map(|(grid, _)| grid).collect()
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spread::Grid(sites) if sites.is_empty() => f.write_str("one site"),
            Spread::Grid(sites) => {
                let axes: Vec<String> = sites
                    .iter()
                    .enumerate()
                    .map(|(at, n)| format!("{}:{n}", crate::network::letter(crate::expr::Index(at as u32))))
                    .collect();
                f.write_str(&axes.join(" × "))
            }
            Spread::Table(_) => write!(f, "where its tiles are, {} sites", self.used()),
        }
    }
}
