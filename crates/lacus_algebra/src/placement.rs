//! Where the tiles of a relation are: on all sites, each on one, or as contributions that are still to be reduced.
//!
//! The paper's `PART_D` only says that tiles which agree on the parts D are together. Two relations with the same
//! D can still be apart, so placement here names the function from keys to sites.

use lacus_tensor::BinaryOp;
use std::fmt;

/// A function from keys to sites.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SiteMap {
    /// A grid of sites. Along each of its axes, tiles are dealt out in turn by one part of their key.
    Grid(Vec<GridAxis>),
    /// Each tile is on one site, and that is all that is known.
    Somewhere,
}

/// One axis of a grid of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GridAxis {
    /// The part of the key that decides; `None` when tiles can be anywhere along this axis.
    pub part: Option<usize>,
    /// Sites along this axis.
    pub sites: usize,
}

/// Where the tiles of a relation are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Every tile is on every site (`ALL`).
    All,
    /// Every tile is on the one site that the map says (`PART`).
    Part(SiteMap),
    /// Sites hold contributions to tiles; the tile is all of them reduced by the operation. The map says on which
    /// sites there can be some: along axes without a part, on any.
    Partial(SiteMap, BinaryOp),
}

impl SiteMap {
    /// Tiles dealt out by some parts of their key over a grid as square as `sites` allows.
    pub fn over(parts: &[usize], sites: usize) -> SiteMap {
        let mut rest = sites.max(1);
        let mut axes = Vec::with_capacity(parts.len());
        for (done, &part) in parts.iter().enumerate() {
            let left = parts.len() - done;
            // The divisor nearest to an even share, so that the product stays the number of sites.
            let share = (rest as f64).powf(1.0 / left as f64);
            let divisors = (1..=rest).filter(|n| rest.is_multiple_of(*n));
            let distance = |n: usize| (n as f64 / share).ln().abs();
            let best = divisors.min_by(|a, b| distance(*a).total_cmp(&distance(*b))).unwrap_or(1);
            let size = if left == 1 { rest } else { best };
            axes.push(GridAxis { part: Some(part), sites: size });
            rest /= size;
        }
        SiteMap::Grid(axes)
    }

    /// A grid given by parts of the key and sites along each.
    pub fn grid(axes: &[(usize, usize)]) -> SiteMap {
        SiteMap::Grid(axes.iter().map(|&(part, sites)| GridAxis { part: Some(part), sites }).collect())
    }

    /// The sites a tile can be on, in order; `None` when nothing is known.
    pub fn sites_of(&self, key: &[i64]) -> Option<Vec<usize>> {
        let SiteMap::Grid(axes) = self else { return None };
        let mut sites = vec![0];
        for axis in axes {
            let along: Vec<usize> = match axis.part {
                Some(part) => {
                    vec![key.get(part).copied().unwrap_or(0).rem_euclid(axis.sites.max(1) as i64) as usize]
                }
                None => (0..axis.sites.max(1)).collect(),
            };
            sites = sites
                .iter()
                .flat_map(|site| along.iter().map(move |at| site * axis.sites.max(1) + at))
                .collect();
        }
        Some(sites)
    }

    /// The parts of the key that decide; `None` when nothing is known.
    pub fn parts(&self) -> Option<Vec<usize>> {
        match self {
            SiteMap::Grid(axes) => {
                Some(axes.iter().filter(|axis| axis.sites > 1).filter_map(|axis| axis.part).collect())
            }
            SiteMap::Somewhere => None,
        }
    }

    /// Sites it uses at most.
    pub fn size(&self) -> usize {
        match self {
            SiteMap::Grid(axes) => axes.iter().map(|axis| axis.sites.max(1)).product(),
            SiteMap::Somewhere => 1,
        }
    }

    /// The same map on other keys, where `part` says what has become of each part. Parts that are gone leave their
    /// axis free.
    pub(crate) fn follow(&self, part: impl Fn(usize) -> Option<usize>) -> SiteMap {
        match self {
            SiteMap::Grid(axes) => SiteMap::Grid(
                axes.iter()
                    .map(|axis| GridAxis { part: axis.part.and_then(&part), sites: axis.sites })
                    .collect(),
            ),
            SiteMap::Somewhere => SiteMap::Somewhere,
        }
    }

    /// True when every tile has one site.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            SiteMap::Grid(axes) => axes.iter().all(|axis| axis.part.is_some() || axis.sites <= 1),
            SiteMap::Somewhere => true,
        }
    }
}

impl Placement {
    /// True when tiles that agree on `parts` are on one site (the paper's `PART_D`).
    pub fn is_partitioned_by(&self, parts: &[usize]) -> bool {
        match self {
            Placement::Part(map) => {
                map.parts().is_some_and(|own| own.iter().all(|part| parts.contains(part)))
            }
            _ => false,
        }
    }

    /// True when this placement says at least as much as the other.
    pub fn refines(&self, other: &Placement) -> bool {
        match (self, other) {
            (Placement::Part(_), Placement::Part(SiteMap::Somewhere)) => true,
            (Placement::Partial(_, a), Placement::Partial(SiteMap::Somewhere, b)) => a == b,
            _ => self == other,
        }
    }
}

impl fmt::Display for SiteMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SiteMap::Grid(axes) = self else { return f.write_str("somewhere") };
        let axes: Vec<String> = axes
            .iter()
            .map(|axis| match axis.part {
                Some(part) => format!("k{part} mod {}", axis.sites),
                None => format!("any of {}", axis.sites),
            })
            .collect();
        f.write_str(&axes.join(" × "))
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::All => f.write_str("All"),
            Placement::Part(map) => write!(f, "Part({map})"),
            Placement::Partial(map, op) => write!(f, "Partial({map}, {op})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_deal_tiles_out_over_a_grid() {
        let map = SiteMap::over(&[0, 2], 6);
        assert_eq!(map.to_string(), "k0 mod 2 × k2 mod 3");
        assert_eq!(map.sites_of(&[3, 9, 4]), Some(vec![4]));
        let free = map.follow(|part| (part == 0).then_some(0));
        assert_eq!(free.to_string(), "k0 mod 2 × any of 3");
        assert_eq!(free.sites_of(&[3]), Some(vec![3, 4, 5]));
        assert!(!free.is_settled() && map.is_settled());
        assert_eq!(SiteMap::over(&[], 4).sites_of(&[7]), Some(vec![0]));
        assert_eq!(SiteMap::over(&[1], 7), SiteMap::grid(&[(1, 7)]));
        assert!(Placement::Part(map).is_partitioned_by(&[0, 1, 2]));
    }
}
