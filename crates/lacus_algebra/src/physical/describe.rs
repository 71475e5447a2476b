//! What a plan will make, exactly, without data: keys, shapes, sites, placement.

use super::{LocalMap, Plan};
use crate::error::AlgebraError;
use crate::kernel::{MapKernel, ReduceKernel};
use crate::key::{Key, KeyFunction, KeyTerm};
use crate::placement::{Placement, SiteMap};
use crate::relation::{JoinOn, Missing, Relation, mapped_fill, reduced_fill};
use lacus_tensor::DType;
use lacus_tensor::Scalar;
use std::collections::BTreeMap;

/// A relation that lives on several sites, without its data.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationType {
    /// Parts of the keys.
    pub arity: usize,
    /// The type of the elements.
    pub dtype: DType,
    /// What a missing tile is filled with.
    pub fill: Option<Scalar>,
    /// Where the tiles are.
    pub placement: Placement,
    /// Every tile.
    pub tiles: BTreeMap<Key, TileType>,
}

/// A tile without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileType {
    /// Its shape, trimmed at the edges.
    pub dims: Vec<usize>,
    /// The sites that hold it, or a contribution to it, in order.
    pub sites: Vec<usize>,
}

impl TileType {
    /// Its elements.
    pub fn floats(&self) -> u64 {
        self.dims.iter().map(|&n| n as u64).product()
    }
}

impl RelationType {
    /// A tensor of this shape cut into tiles of `block`, placed. Fails if a block has no extent, or if the placement
    /// is not one that data can start with.
    pub fn of_tensor(
        dtype: DType,
        dims: &[usize],
        block: &[usize],
        placement: Placement,
        sites: usize,
    ) -> Result<RelationType, AlgebraError> {
        if block.len() != dims.len() || block.contains(&0) {
            let shapes = vec![dims.to_vec(), block.to_vec()];
            return Err(AlgebraError::TileShapes { what: "blocks".to_owned(), shapes });
        }
        let grid: Vec<usize> = dims.iter().zip(block).map(|(&n, &b)| n.div_ceil(b)).collect();
        let shapes = crate::array::positions(&grid).map(|at| {
            let extent =
                (0..dims.len()).map(|axis| block[axis].min(dims[axis] - at[axis] * block[axis])).collect();
            (at.iter().map(|&part| part as i64).collect::<Key>(), extent)
        });
        place(dims.len(), dtype, None, shapes, placement, sites)
    }

    /// A relation, placed. Fails if the placement is not one that data can start with.
    pub fn of_relation(
        relation: &Relation,
        placement: Placement,
        sites: usize,
    ) -> Result<RelationType, AlgebraError> {
        let shapes = relation.tiles.iter().map(|(key, tile)| (key.clone(), tile.dims().to_vec()));
        place(relation.arity, relation.dtype, relation.fill, shapes, placement, sites)
    }

    /// Elements of all tiles, each counted once.
    pub fn floats(&self) -> u64 {
        self.tiles.values().map(TileType::floats).sum()
    }

    /// Elements that each site holds.
    pub fn floats_per_site(&self, sites: usize) -> Vec<u64> {
        let mut all = vec![0; sites];
        for tile in self.tiles.values() {
            tile.sites.iter().filter(|&&site| site < sites).for_each(|&site| all[site] += tile.floats());
        }
        all
    }

    /// True when every tile is where the placement says.
    pub fn is_valid(&self, sites: usize) -> bool {
        self.tiles.iter().all(|(key, tile)| match &self.placement {
            Placement::All => tile.sites.len() == sites,
            Placement::Part(map) => {
                tile.sites.len() == 1 && map.sites_of(key).is_none_or(|expected| expected == tile.sites)
            }
            Placement::Partial(map, _) => {
                !tile.sites.is_empty()
                    && map
                        .sites_of(key)
                        .is_none_or(|possible| tile.sites.iter().all(|at| possible.contains(at)))
            }
        })
    }
}

fn place(
    arity: usize,
    dtype: DType,
    fill: Option<Scalar>,
    shapes: impl Iterator<Item = (Key, Vec<usize>)>,
    placement: Placement,
    sites: usize,
) -> Result<RelationType, AlgebraError> {
    if sites == 0 {
        let found = sites.to_string();
        return Err(AlgebraError::Argument { what: "placement", expected: "at least 1 site", found });
    }
    let mut tiles = BTreeMap::new();
    for (key, dims) in shapes {
        let at = match &placement {
            Placement::All => Some((0..sites).collect()),
            Placement::Part(map) if map.is_settled() && map.size() <= sites => map.sites_of(&key),
            _ => None,
        };
        let Some(at) = at else {
            let reason = format!("an input must be on all of {sites} sites or dealt out over them");
            return Err(refused("input", reason, &[&placement]));
        };
        tiles.insert(key, TileType { dims, sites: at });
    }
    Ok(RelationType { arity, dtype, fill, placement, tiles })
}

pub(super) fn refused(
    what: &'static str,
    reason: impl Into<String>,
    placements: &[&Placement],
) -> AlgebraError {
    let placement = placements.iter().map(|each| each.to_string()).collect::<Vec<_>>().join(" and ");
    AlgebraError::Placement { what, reason: reason.into(), placement }
}

impl Plan {
    /// What this plan makes of inputs on so many sites. Fails where an operator does not fit what it is given.
    pub fn describe(
        &self,
        inputs: &BTreeMap<String, RelationType>,
        sites: usize,
    ) -> Result<RelationType, AlgebraError> {
        match self {
            Plan::Input(name) => {
                inputs.get(name).cloned().ok_or_else(|| AlgebraError::MissingInput { name: name.clone() })
            }
            Plan::Broadcast(of) => {
                let mut of = of.describe(inputs, sites)?;
                of.placement = Placement::All;
                of.tiles.values_mut().for_each(|tile| tile.sites = (0..sites).collect());
                Ok(of)
            }
            Plan::Shuffle(map, of) => {
                let mut of = of.describe(inputs, sites)?;
                check_map(map, of.arity, sites)?;
                for (key, tile) in &mut of.tiles {
                    tile.sites = map.sites_of(key).unwrap_or_default();
                }
                of.placement = Placement::Part(map.clone());
                Ok(of)
            }
            Plan::Join(on, left, right) => {
                join(on, &left.describe(inputs, sites)?, &right.describe(inputs, sites)?)
            }
            Plan::Aggregate(group_by, kernel, of) => {
                aggregate(group_by, kernel, &of.describe(inputs, sites)?)
            }
            Plan::Filter(condition, of) => {
                let mut of = of.describe(inputs, sites)?;
                of.tiles.retain(|key, _| condition.holds(key));
                Ok(of)
            }
            Plan::Map(map, of) => local_map(map, &of.describe(inputs, sites)?),
        }
    }
}

pub(super) fn check_map(map: &SiteMap, arity: usize, sites: usize) -> Result<(), AlgebraError> {
    let fits = match map {
        SiteMap::Grid(axes) => axes.iter().all(|axis| axis.part.is_some_and(|part| part < arity)),
        SiteMap::Somewhere => false,
    };
    if !fits || map.size() > sites {
        let (what, expected) = ("shuffle", "a map of the key's parts to the sites there are");
        return Err(AlgebraError::Argument { what, expected, found: map.to_string() });
    }
    Ok(())
}

/// The placement of a join, or why it cannot be done locally.
pub(super) fn join_placement(
    on: &JoinOn,
    left: (&Placement, usize),
    right: (&Placement, usize),
) -> Result<Placement, AlgebraError> {
    let ((left, left_arity), (right, right_arity)) = (left, right);
    let positions = on.right_positions(left_arity, right_arity);
    let moved = |map: &SiteMap| map.follow(|part| positions.get(part).copied());
    let bilinear = |op| on.missing == Missing::Skip && on.kernel.is_bilinear_over(op);
    match (left, right) {
        (Placement::All, Placement::All) => Ok(Placement::All),
        (Placement::Part(a), Placement::Part(b)) => {
            let joined = a.parts().is_some_and(|parts| parts.iter().all(|part| on.left.contains(part)));
            if joined && *a == moved(b) {
                Ok(Placement::Part(a.clone()))
            } else {
                Err(refused("local join", "tiles that meet are on different sites", &[left, right]))
            }
        }
        (Placement::All, _) | (_, Placement::All) if on.missing == Missing::Fill => {
            let reason = "a tile on all sites would be found to have no partner on most of them";
            Err(refused("local join", reason, &[left, right]))
        }
        (Placement::All, Placement::Part(map)) => Ok(Placement::Part(moved(map))),
        (Placement::Part(map), Placement::All) => Ok(Placement::Part(map.clone())),
        (Placement::All, Placement::Partial(map, op)) if bilinear(*op) => {
            Ok(Placement::Partial(moved(map), *op))
        }
        (Placement::Partial(map, op), Placement::All) if bilinear(*op) => {
            Ok(Placement::Partial(map.clone(), *op))
        }
        _ => {
            let reason = "contributions can only be joined with what is on all sites, by a bilinear kernel";
            Err(refused("local join", reason, &[left, right]))
        }
    }
}

fn join(on: &JoinOn, left: &RelationType, right: &RelationType) -> Result<RelationType, AlgebraError> {
    on.check(left.arity, right.arity)?;
    let placement = join_placement(on, (&left.placement, left.arity), (&right.placement, right.arity))?;
    let mut tiles = BTreeMap::new();
    // By the joined parts, so that only tiles that meet are looked at.
    let mut partners: BTreeMap<Key, Vec<(&Key, &TileType)>> = BTreeMap::new();
    for (key, tile) in &right.tiles {
        partners.entry(on.right.iter().map(|&part| key[part]).collect()).or_default().push((key, tile));
    }
    for (left_key, left_tile) in &left.tiles {
        let joined: Key = on.left.iter().map(|&part| left_key[part]).collect();
        for (right_key, right_tile) in partners.get(&joined).into_iter().flatten() {
            let Some(key) = on.key(left_key, right_key) else { continue };
            let sites: Vec<usize> =
                left_tile.sites.iter().filter(|site| right_tile.sites.contains(site)).copied().collect();
            let dims = on.kernel.shape(&left_tile.dims, &right_tile.dims)?;
            tiles.insert(key, TileType { dims, sites });
        }
    }
    if on.missing == Missing::Fill {
        let lonely = left.tiles.iter().filter(|(key, _)| !right.tiles.contains_key(&on.partner(key, true)));
        let lonely: Vec<_> = lonely.map(|(key, tile)| (key.clone(), key.clone(), tile, right.fill)).collect();
        let others =
            right.tiles.iter().map(|(key, tile)| (key.clone(), on.partner(key, false), tile, left.fill));
        let others = others.filter(|(_, partner, ..)| !left.tiles.contains_key(partner));
        for (key, result, tile, fill) in lonely.into_iter().chain(others.collect::<Vec<_>>()) {
            if fill.is_none() {
                return Err(AlgebraError::NoPartner { what: on.kernel.to_string(), key });
            }
            tiles.insert(result, tile.clone());
        }
    }
    let (arity, dtype) = (left.arity + right.arity - on.right.len(), on.kernel.dtype(left.dtype));
    Ok(RelationType { arity, dtype, fill: on.fill(left.fill, right.fill), placement, tiles })
}

/// The placement of an aggregation, or why it cannot be done locally.
pub(super) fn aggregate_placement(
    group_by: &[usize],
    kernel: &ReduceKernel,
    of: &Placement,
) -> Result<Placement, AlgebraError> {
    let follow = |map: &SiteMap| map.follow(|part| group_by.iter().position(|&kept| kept == part));
    let op = kernel.as_op().filter(|op| op.is_associative() && op.is_commutative());
    match (of, op) {
        (Placement::All, _) => Ok(Placement::All),
        (Placement::Part(map), _) if *map != SiteMap::Somewhere && follow(map).is_settled() => {
            Ok(Placement::Part(follow(map)))
        }
        (Placement::Part(map), Some(op)) => Ok(Placement::Partial(follow(map), op)),
        (Placement::Partial(map, by), Some(op)) if *by == op => Ok(Placement::Partial(follow(map), op)),
        _ => {
            let reason = format!("{kernel} needs all tiles of a group on one site");
            Err(refused("local aggregation", reason, &[of]))
        }
    }
}

fn aggregate(
    group_by: &[usize],
    kernel: &ReduceKernel,
    of: &RelationType,
) -> Result<RelationType, AlgebraError> {
    let group = KeyFunction::project(of.arity, group_by)?;
    let placement = aggregate_placement(group_by, kernel, &of.placement)?;
    let mut groups: BTreeMap<Key, (Vec<Vec<usize>>, Vec<usize>)> = BTreeMap::new();
    for (key, tile) in &of.tiles {
        let (shapes, sites) = groups.entry(group.apply(key)).or_default();
        shapes.push(tile.dims.clone());
        sites.extend(&tile.sites);
    }
    let mut tiles = BTreeMap::new();
    for (key, (shapes, mut sites)) in groups {
        sites.sort_unstable();
        sites.dedup();
        tiles.insert(key, TileType { dims: kernel.shape(&shapes)?, sites });
    }
    let (arity, dtype) = (group_by.len(), kernel.dtype(of.dtype));
    Ok(RelationType { arity, dtype, fill: reduced_fill(of.fill, kernel), placement, tiles })
}

/// The placement after a local map, or why it cannot be done.
pub(super) fn map_placement(map: &LocalMap, of: &Placement) -> Result<Placement, AlgebraError> {
    let follow = |map_of: &SiteMap| match map {
        LocalMap::One(function, _) => {
            let followed =
                map_of.follow(|part| function.terms().iter().position(|term| *term == KeyTerm::Part(part)));
            // A part that is gone was what the site followed from.
            if map_of.is_settled() && !followed.is_settled() { SiteMap::Somewhere } else { followed }
        }
        LocalMap::Duplicate { part, .. } => {
            map_of.follow(|own| Some(if own >= *part { own + 1 } else { own }))
        }
        LocalMap::Tile { .. } => map_of.clone(),
    };
    match of {
        Placement::All => Ok(Placement::All),
        Placement::Part(map_of) => Ok(Placement::Part(follow(map_of))),
        Placement::Partial(map_of, op) => match map {
            LocalMap::One(_, kernel) if !kernel.distributes_over(*op) => {
                let reason = format!("{kernel} does not distribute over what is still to be reduced");
                Err(refused("local map", reason, &[of]))
            }
            _ => Ok(Placement::Partial(follow(map_of), *op)),
        },
    }
}

fn local_map(map: &LocalMap, of: &RelationType) -> Result<RelationType, AlgebraError> {
    let placement = map_placement(map, &of.placement)?;
    let mut tiles = BTreeMap::new();
    for (key, tile) in &of.tiles {
        for (key, dims) in map.keys_and_shapes(key, &tile.dims)? {
            let new = TileType { dims, sites: tile.sites.clone() };
            if tiles.insert(key.clone(), new).is_some() {
                return Err(AlgebraError::DuplicateKey { what: "local map", key });
            }
        }
    }
    let kernel = map.kernel();
    let (arity, dtype) = (map.arity(of.arity)?, kernel.dtype(of.dtype));
    Ok(RelationType { arity, dtype, fill: mapped_fill(of.fill, kernel), placement, tiles })
}

impl LocalMap {
    pub(super) fn kernel(&self) -> &MapKernel {
        match self {
            LocalMap::One(_, kernel) => kernel,
            _ => &MapKernel::Identity,
        }
    }

    pub(super) fn arity(&self, of: usize) -> Result<usize, AlgebraError> {
        match self {
            LocalMap::One(function, _) if function.arity() != of => {
                Err(AlgebraError::KeyArity { what: "local map", expected: function.arity(), found: of })
            }
            LocalMap::One(function, _) => Ok(function.terms().len()),
            LocalMap::Duplicate { part, .. } if *part > of => {
                Err(AlgebraError::KeyArity { what: "duplicate", expected: *part, found: of })
            }
            _ => Ok(of + 1),
        }
    }

    fn keys_and_shapes(&self, key: &[i64], dims: &[usize]) -> Result<Vec<(Key, Vec<usize>)>, AlgebraError> {
        self.arity(key.len())?;
        let with = |part: usize, count: usize| {
            let mut key = key.to_vec();
            key.insert(part, count as i64);
            key
        };
        Ok(match self {
            LocalMap::One(function, kernel) => vec![(function.apply(key), kernel.shape(dims)?)],
            LocalMap::Duplicate { part, times } => {
                (0..*times).map(|count| (with(*part, count), dims.to_vec())).collect()
            }
            LocalMap::Tile { axis, size } => {
                if *axis >= dims.len() || *size == 0 {
                    let what = format!("tile along axis {axis} by {size}");
                    return Err(AlgebraError::TileShapes { what, shapes: vec![dims.to_vec()] });
                }
                let pieces = (0..dims[*axis].div_ceil(*size)).map(|count| {
                    let mut extent = dims.to_vec();
                    extent[*axis] = (*size).min(dims[*axis] - count * size);
                    (with(key.len(), count), extent)
                });
                pieces.collect()
            }
        })
    }
}
