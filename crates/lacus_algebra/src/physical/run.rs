//! The reference interpreter of plans: every site is a map from keys to tiles.

use super::describe::{
    RelationType, TileType, aggregate_placement, check_map, join_placement, map_placement,
};
use super::{LocalMap, Plan};
use crate::array::Array;
use crate::error::AlgebraError;
use crate::kernel::ReduceKernel;
use crate::key::Key;
use crate::placement::Placement;
use crate::relation::{Relation, cut};
use std::collections::BTreeMap;

/// A relation on several sites.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    placement: Placement,
    /// One relation per site, of the tiles (or contributions) that it holds.
    sites: Vec<Relation>,
}

impl Placed {
    /// A relation, placed over some sites. Fails if the placement is not one that data can start with.
    pub fn new(relation: &Relation, placement: Placement, sites: usize) -> Result<Placed, AlgebraError> {
        let described = RelationType::of_relation(relation, placement, sites)?;
        let empty = Relation { tiles: BTreeMap::new(), ..relation.clone() };
        let mut all = vec![empty; sites];
        for (key, tile) in &described.tiles {
            for &site in &tile.sites {
                all[site].tiles.insert(key.clone(), relation.tiles[key].clone());
            }
        }
        Ok(Placed { placement: described.placement, sites: all })
    }

    /// Where the tiles are.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// What each site holds.
    pub fn sites(&self) -> &[Relation] {
        &self.sites
    }

    /// The same without the data, from where the tiles really are.
    pub fn describe(&self) -> RelationType {
        let first = &self.sites[0];
        let mut tiles: BTreeMap<Key, TileType> = BTreeMap::new();
        for (site, relation) in self.sites.iter().enumerate() {
            for (key, tile) in &relation.tiles {
                let dims = tile.dims().to_vec();
                let entry = tiles.entry(key.clone()).or_insert(TileType { dims, sites: Vec::new() });
                entry.sites.push(site);
            }
        }
        let (arity, dtype, fill) = (first.arity, first.dtype, first.fill);
        RelationType { arity, dtype, fill, placement: self.placement.clone(), tiles }
    }

    /// The relation it stands for, wherever its tiles are: contributions are reduced in the order of their sites.
    pub fn gather(&self) -> Result<Relation, AlgebraError> {
        let mut all: BTreeMap<&Key, Vec<&Array>> = BTreeMap::new();
        for relation in &self.sites {
            relation.tiles.iter().for_each(|(key, tile)| all.entry(key).or_default().push(tile));
        }
        let mut tiles = BTreeMap::new();
        for (key, held) in all {
            let tile = match &self.placement {
                Placement::Partial(_, op) => ReduceKernel::Elementwise(*op).run(&held)?,
                _ => held[0].clone(),
            };
            tiles.insert(key.clone(), tile);
        }
        Ok(Relation { tiles, ..self.sites[0].clone() })
    }

    fn with(&self, placement: Placement, tiles: &Relation, on: impl Fn(&Key, usize) -> bool) -> Placed {
        let sites = (0..self.sites.len()).map(|site| {
            let kept = tiles.tiles.iter().filter(|(key, _)| on(key, site));
            Relation { tiles: kept.map(|(key, tile)| (key.clone(), tile.clone())).collect(), ..tiles.clone() }
        });
        Placed { placement, sites: sites.collect() }
    }

    fn each(
        &self,
        placement: Placement,
        work: impl Fn(&Relation) -> Result<Relation, AlgebraError>,
    ) -> Result<Placed, AlgebraError> {
        let sites = self.sites.iter().map(work).collect::<Result<Vec<_>, _>>()?;
        Ok(Placed { placement, sites })
    }

    /// Fails if two sites hold tiles of one key where there should be one.
    fn unique(self, what: &'static str) -> Result<Placed, AlgebraError> {
        if matches!(self.placement, Placement::Part(_)) {
            let described = self.describe();
            if let Some((key, _)) = described.tiles.iter().find(|(_, tile)| tile.sites.len() > 1) {
                return Err(AlgebraError::DuplicateKey { what, key: key.clone() });
            }
        }
        Ok(self)
    }
}

impl Plan {
    /// Runs the plan on small relations. Fails where an operator does not fit what it is given.
    pub fn run(&self, inputs: &BTreeMap<String, Placed>) -> Result<Placed, AlgebraError> {
        match self {
            Plan::Input(name) => {
                inputs.get(name).cloned().ok_or_else(|| AlgebraError::MissingInput { name: name.clone() })
            }
            Plan::Broadcast(of) => {
                let of = of.run(inputs)?;
                Ok(of.with(Placement::All, &of.gather()?, |_, _| true))
            }
            Plan::Shuffle(map, of) => {
                let of = of.run(inputs)?;
                check_map(map, of.sites[0].arity, of.sites.len())?;
                let on = |key: &Key, site| map.sites_of(key).is_some_and(|sites| sites.contains(&site));
                Ok(of.with(Placement::Part(map.clone()), &of.gather()?, on))
            }
            Plan::Join(on, left, right) => {
                let (left, right) = (left.run(inputs)?, right.run(inputs)?);
                let (left_arity, right_arity) = (left.sites[0].arity, right.sites[0].arity);
                on.check(left_arity, right_arity)?;
                let placement =
                    join_placement(on, (&left.placement, left_arity), (&right.placement, right_arity))?;
                let sites = left.sites.iter().zip(&right.sites).map(|(left, right)| left.join(right, on));
                Ok(Placed { placement, sites: sites.collect::<Result<Vec<_>, _>>()? })
            }
            Plan::Aggregate(group_by, kernel, of) => {
                let of = of.run(inputs)?;
                let placement = aggregate_placement(group_by, kernel, &of.placement)?;
                of.each(placement, |relation| relation.aggregate(group_by, kernel))
            }
            Plan::Filter(condition, of) => {
                let of = of.run(inputs)?;
                of.each(of.placement.clone(), |relation| Ok(relation.filter(condition)))
            }
            Plan::Map(map, of) => {
                let of = of.run(inputs)?;
                let placement = map_placement(map, &of.placement)?;
                of.each(placement, |relation| map.run(relation))?.unique("local map")
            }
        }
    }
}

impl LocalMap {
    fn run(&self, relation: &Relation) -> Result<Relation, AlgebraError> {
        match self {
            LocalMap::One(function, kernel) => relation.map(function, kernel),
            LocalMap::Duplicate { part, times } => {
                let arity = self.arity(relation.arity)?;
                let mut tiles = BTreeMap::new();
                for (key, tile) in &relation.tiles {
                    for count in 0..*times {
                        let mut key = key.clone();
                        key.insert(*part, count as i64);
                        tiles.insert(key, tile.clone());
                    }
                }
                Ok(Relation { arity, tiles, ..relation.clone() })
            }
            LocalMap::Tile { axis, size } => {
                let mut tiles = BTreeMap::new();
                for (key, tile) in &relation.tiles {
                    for (count, piece) in cut(tile, *axis, *size)?.into_iter().enumerate() {
                        tiles.insert(key.iter().copied().chain([count as i64]).collect(), piece);
                    }
                }
                Ok(Relation { arity: relation.arity + 1, tiles, ..relation.clone() })
            }
        }
    }
}
