//! Expressions of the tensor relational algebra: the seven operators over named relations.

use crate::error::AlgebraError;
use crate::kernel::{MapKernel, ReduceKernel};
use crate::key::{KeyCondition, KeyFunction};
use crate::relation::{JoinOn, Relation};
use std::collections::BTreeMap;

/// An expression over relations.
#[derive(Clone, Debug, PartialEq)]
pub enum Logical {
    /// A named relation.
    Input(String),
    /// ⋈
    Join(JoinOn, Box<Logical>, Box<Logical>),
    /// Σ, by these parts of the key
    Aggregate(Vec<usize>, ReduceKernel, Box<Logical>),
    /// REKEY
    Rekey(KeyFunction, Box<Logical>),
    /// σ
    Filter(KeyCondition, Box<Logical>),
    /// λ
    Transform(MapKernel, Box<Logical>),
    /// TILE along an axis, by a size
    Tile(usize, usize, Box<Logical>),
    /// CONCAT of a part of the key (of keys with so many parts), along an axis
    Concat {
        /// Parts of the keys.
        arity: usize,
        /// The part that counts the pieces.
        part: usize,
        /// The axis.
        axis: usize,
        /// What is put together.
        of: Box<Logical>,
    },
}

impl Logical {
    /// The relation the expression stands for. Fails as the operators do.
    pub fn run(&self, inputs: &BTreeMap<String, Relation>) -> Result<Relation, AlgebraError> {
        match self {
            Logical::Input(name) => {
                inputs.get(name).cloned().ok_or_else(|| AlgebraError::MissingInput { name: name.clone() })
            }
            Logical::Join(on, left, right) => left.run(inputs)?.join(&right.run(inputs)?, on),
            Logical::Aggregate(group_by, kernel, of) => of.run(inputs)?.aggregate(group_by, kernel),
            Logical::Rekey(function, of) => of.run(inputs)?.rekey(function),
            Logical::Filter(condition, of) => Ok(of.run(inputs)?.filter(condition)),
            Logical::Transform(kernel, of) => of.run(inputs)?.transform(kernel),
            Logical::Tile(axis, size, of) => of.run(inputs)?.tile(*axis, *size),
            Logical::Concat { part, axis, of, .. } => of.run(inputs)?.concat(*part, *axis),
        }
    }
}
