//! The physical algebra: plans over relations that live on several sites.
//!
//! Two operators move tiles (broadcast, shuffle), four work on each site alone (join, aggregation, filter, map).
//! [`Plan::describe`] says exactly which tile of which shape will be on which site, without touching data;
//! [`Plan::run`] is the reference interpreter, which does it on small arrays.
//!
//! Local operators are refused where their result would not be what the operator means: a join of two relations
//! that are dealt out differently would miss pairs. An aggregation over parts that are dealt out is not refused but
//! gives contributions, [`Placement::Partial`], which the next broadcast or shuffle reduces.

mod describe;
mod run;

pub use describe::{RelationType, TileType};
pub use run::Placed;

use crate::kernel::{MapKernel, ReduceKernel};
use crate::key::{KeyCondition, KeyFunction};
use crate::logical::Logical;
use crate::placement::SiteMap;
use crate::relation::JoinOn;
use std::fmt;

/// A plan over relations that live on several sites.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// A named relation, wherever it is.
    Input(String),
    /// BCAST: every tile to every site.
    Broadcast(Box<Plan>),
    /// SHUF: every tile to the site that the map says.
    Shuffle(SiteMap, Box<Plan>),
    /// ⋈ᴸ: of tiles that are on one site.
    Join(JoinOn, Box<Plan>, Box<Plan>),
    /// Σᴸ: by parts of the key, of tiles that are on one site.
    Aggregate(Vec<usize>, ReduceKernel, Box<Plan>),
    /// σᴸ
    Filter(KeyCondition, Box<Plan>),
    /// λᴸ
    Map(LocalMap, Box<Plan>),
}

/// What a local map does to a key and its tile.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalMap {
    /// One new key and one new tile.
    One(KeyFunction, MapKernel),
    /// The tile several times, counted by a new part of the key at this position.
    Duplicate {
        /// Where the new part stands.
        part: usize,
        /// How many times.
        times: usize,
    },
    /// Pieces of the tile along an axis, counted by a new last part of the key.
    Tile {
        /// The axis.
        axis: usize,
        /// The extent of a piece.
        size: usize,
    },
}

impl Plan {
    /// A named relation.
    pub fn input(name: &str) -> Plan {
        Plan::Input(name.to_owned())
    }

    /// This, broadcast.
    pub fn broadcast(self) -> Plan {
        Plan::Broadcast(Box::new(self))
    }

    /// This, shuffled.
    pub fn shuffle(self, map: SiteMap) -> Plan {
        Plan::Shuffle(map, Box::new(self))
    }

    /// This joined with another.
    pub fn join(self, right: Plan, on: JoinOn) -> Plan {
        Plan::Join(on, Box::new(self), Box::new(right))
    }

    /// This, aggregated.
    pub fn aggregate(self, group_by: &[usize], kernel: ReduceKernel) -> Plan {
        Plan::Aggregate(group_by.to_vec(), kernel, Box::new(self))
    }

    /// This, filtered.
    pub fn filter(self, condition: KeyCondition) -> Plan {
        Plan::Filter(condition, Box::new(self))
    }

    /// This with new keys and tiles.
    pub fn map(self, function: KeyFunction, kernel: MapKernel) -> Plan {
        Plan::Map(LocalMap::One(function, kernel), Box::new(self))
    }

    /// This with every tile several times.
    pub fn duplicate(self, part: usize, times: usize) -> Plan {
        Plan::Map(LocalMap::Duplicate { part, times }, Box::new(self))
    }

    /// The plans that this one is made of, one level down.
    pub fn parts(&self) -> Vec<&Plan> {
        match self {
            Plan::Input(_) => Vec::new(),
            Plan::Join(_, left, right) => vec![left, right],
            Plan::Broadcast(of)
            | Plan::Shuffle(_, of)
            | Plan::Aggregate(_, _, of)
            | Plan::Filter(_, of)
            | Plan::Map(_, of) => vec![of],
        }
    }
}

/// The first plan for an expression, by the paper's table 1: the left side of every join is broadcast, and every
/// aggregation shuffles by what it groups by.
///
/// `arity_of` says how many parts the keys of an input have.
pub fn compile(expr: &Logical, sites: usize, arity_of: &impl Fn(&str) -> usize) -> Plan {
    let compile = |of: &Logical| compile(of, sites, arity_of);
    match expr {
        Logical::Input(name) => Plan::input(name),
        Logical::Join(on, left, right) => match on.missing {
            crate::relation::Missing::Skip => compile(left).broadcast().join(compile(right), on.clone()),
            // A broadcast tile without a partner would be found on every site; both sides are dealt out instead.
            crate::relation::Missing::Fill => {
                let [left_map, right_map] = [&on.left, &on.right].map(|parts| SiteMap::over(parts, sites));
                compile(left).shuffle(left_map).join(compile(right).shuffle(right_map), on.clone())
            }
        },
        Logical::Aggregate(group_by, kernel, of) => {
            compile(of).shuffle(SiteMap::over(group_by, sites)).aggregate(group_by, kernel.clone())
        }
        Logical::Rekey(function, of) => compile(of).map(function.clone(), MapKernel::Identity),
        Logical::Filter(condition, of) => compile(of).filter(condition.clone()),
        Logical::Transform(kernel, of) => {
            let arity = arity(of, arity_of);
            compile(of).map(KeyFunction::identity(arity), kernel.clone())
        }
        Logical::Tile(axis, size, of) => {
            Plan::Map(LocalMap::Tile { axis: *axis, size: *size }, Box::new(compile(of)))
        }
        Logical::Concat { arity, part, axis, of } => {
            let others: Vec<usize> = (0..*arity).filter(|at| at != part).collect();
            compile(of).shuffle(SiteMap::over(&others, sites)).aggregate(&others, ReduceKernel::Concat(*axis))
        }
    }
}

/// Parts of the keys of an expression.
fn arity(expr: &Logical, of_input: &impl Fn(&str) -> usize) -> usize {
    match expr {
        Logical::Input(name) => of_input(name),
        Logical::Join(on, left, right) => arity(left, of_input) + arity(right, of_input) - on.right.len(),
        Logical::Aggregate(group_by, ..) => group_by.len(),
        Logical::Rekey(function, _) => function.terms().len(),
        Logical::Filter(_, of) | Logical::Transform(_, of) => arity(of, of_input),
        Logical::Tile(_, _, of) => arity(of, of_input) + 1,
        Logical::Concat { arity, .. } => arity.saturating_sub(1),
    }
}

impl fmt::Display for LocalMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalMap::One(function, kernel) => write!(f, "{function}, {kernel}"),
            LocalMap::Duplicate { part, times } => write!(f, "insert k{part} < {times}"),
            LocalMap::Tile { axis, size } => write!(f, "tile axis {axis} by {size}"),
        }
    }
}

impl fmt::Display for Plan {
    /// One operator per line, what it is made of below and further in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn line(f: &mut fmt::Formatter<'_>, plan: &Plan, depth: usize) -> fmt::Result {
            write!(f, "{}", "  ".repeat(depth))?;
            match plan {
                Plan::Input(name) => writeln!(f, "input {name}")?,
                Plan::Broadcast(_) => writeln!(f, "broadcast")?,
                Plan::Shuffle(map, _) => writeln!(f, "shuffle {map}")?,
                Plan::Join(on, ..) => writeln!(f, "join {:?} = {:?} {}", on.left, on.right, on.kernel)?,
                Plan::Aggregate(group_by, kernel, _) => writeln!(f, "aggregate by {group_by:?} {kernel}")?,
                Plan::Filter(condition, _) => writeln!(f, "filter {condition}")?,
                Plan::Map(map, _) => writeln!(f, "map {map}")?,
            }
            plan.parts().into_iter().try_for_each(|part| line(f, part, depth + 1))
        }
        line(f, self, 0)
    }
}
