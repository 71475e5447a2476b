//! Tensor relations and the seven operators of the tensor relational algebra: join, aggregation, rekey, filter,
//! transform, tile, concat.
//!
//! A relation is a set of (key, tile) with unique keys. Where the paper asks for relations without holes, the key
//! set here is exact, and a missing tile stands for one filled with `fill`, which is the identity of whatever
//! tiles are reduced by. Tiles at the edge of a tensor are trimmed, never padded: padding would change a minimum.

use crate::array::{Array, positions};
use crate::error::AlgebraError;
use crate::kernel::{JoinKernel, MapKernel, ReduceKernel};
use crate::key::{Key, KeyCondition, KeyFunction};
use lacus_tensor::BinaryOp;
use lacus_tensor::DType;
use lacus_tensor::Scalar;
use std::collections::{BTreeMap, BTreeSet};

/// A set of tiles by key.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    pub(crate) arity: usize,
    pub(crate) dtype: DType,
    pub(crate) fill: Option<Scalar>,
    pub(crate) tiles: BTreeMap<Key, Array>,
}

/// How two relations are joined.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinOn {
    /// Parts of the left key that must equal…
    pub left: Vec<usize>,
    /// …these parts of the right key.
    pub right: Vec<usize>,
    /// What is done to two tiles that meet.
    pub kernel: JoinKernel,
    /// What is done with a tile that meets none.
    pub missing: Missing,
}

/// What a missing tile does to a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The tile that would meet it is left out. Right when the fill annihilates, as 0 does in a product.
    Skip,
    /// It counts as a tile of the fill: for kernels of elements, on whole keys.
    Fill,
}

impl JoinOn {
    /// A join in which tiles without a partner are left out.
    pub fn new(left: &[usize], right: &[usize], kernel: JoinKernel) -> JoinOn {
        JoinOn { left: left.to_vec(), right: right.to_vec(), kernel, missing: Missing::Skip }
    }

    /// The same with missing tiles counted as tiles of the fill.
    pub fn filled(mut self) -> JoinOn {
        self.missing = Missing::Fill;
        self
    }

    /// Where the parts of the right key stand in the key of the result: the left key, then the rest of the right.
    pub fn right_positions(&self, left_arity: usize, right_arity: usize) -> Vec<usize> {
        let mut next = left_arity;
        (0..right_arity)
            .map(|part| match self.right.iter().position(|&joined| joined == part) {
                Some(at) => self.left[at],
                None => {
                    next += 1;
                    next - 1
                }
            })
            .collect()
    }

    pub(crate) fn check(&self, left_arity: usize, right_arity: usize) -> Result<(), AlgebraError> {
        let fits = |parts: &[usize], arity: usize| {
            let distinct: BTreeSet<&usize> = parts.iter().collect();
            distinct.len() == parts.len() && parts.iter().all(|&part| part < arity)
        };
        if self.left.len() != self.right.len()
            || !fits(&self.left, left_arity)
            || !fits(&self.right, right_arity)
        {
            let found =
                format!("{:?} and {:?} of {left_arity} and {right_arity} parts", self.left, self.right);
            let expected = "a list of distinct parts of either key, of one length";
            return Err(AlgebraError::Argument { what: "join", expected, found });
        }
        let whole = self.left.len() == left_arity && self.right.len() == right_arity;
        if self.missing == Missing::Fill && !(whole && self.kernel.is_elementwise()) {
            let expected = "a kernel of elements on whole keys, which missing tiles need";
            return Err(AlgebraError::Argument { what: "join", expected, found: self.kernel.to_string() });
        }
        Ok(())
    }

    /// The key of the result of two tiles, or `None` when they do not meet.
    pub(crate) fn key(&self, left: &[i64], right: &[i64]) -> Option<Key> {
        if self.left.iter().zip(&self.right).any(|(&l, &r)| left[l] != right[r]) {
            return None;
        }
        let rest = right.iter().enumerate().filter(|(at, _)| !self.right.contains(at));
        Some(left.iter().copied().chain(rest.map(|(_, &part)| part)).collect())
    }

    /// The key of the left (right) tile that a right (left) one would meet, when whole keys are joined.
    pub(crate) fn partner(&self, key: &[i64], from_left: bool) -> Key {
        let (from, to) = if from_left { (&self.left, &self.right) } else { (&self.right, &self.left) };
        let mut partner = vec![0; to.len()];
        from.iter().zip(to).for_each(|(&from, &to)| partner[to] = key[from]);
        partner
    }

    /// What a missing tile of the result stands for.
    pub(crate) fn fill(&self, left: Option<Scalar>, right: Option<Scalar>) -> Option<Scalar> {
        let (left, right) = (left?, right?);
        match &self.kernel {
            JoinKernel::Elementwise(op) if self.missing == Missing::Fill => Some(left.binary(*op, right)),
            kernel if left == right && kernel.is_annihilated_by(left) => {
                Some(left.convert(kernel.dtype(left.dtype())))
            }
            _ => None,
        }
    }
}

impl Relation {
    /// A relation of these tiles. Fails if a key has another number of parts or a tile another type.
    pub fn new(
        arity: usize,
        dtype: DType,
        fill: Option<Scalar>,
        tiles: BTreeMap<Key, Array>,
    ) -> Result<Relation, AlgebraError> {
        for (key, tile) in &tiles {
            if key.len() != arity {
                return Err(AlgebraError::KeyArity { what: "a relation", expected: arity, found: key.len() });
            }
            if tile.dtype() != dtype {
                let (what, expected) = ("a relation", "of the type of its tiles");
                return Err(AlgebraError::Argument { what, expected, found: dtype.name().to_owned() });
            }
        }
        Ok(Relation { arity, dtype, fill: fill.map(|fill| fill.convert(dtype)), tiles })
    }

    /// An array cut into tiles of `block`, those at the edges trimmed. Fails if a block has no extent.
    pub fn from_array(
        array: &Array,
        block: &[usize],
        fill: Option<Scalar>,
    ) -> Result<Relation, AlgebraError> {
        let dims = array.dims();
        if block.len() != dims.len() || block.contains(&0) {
            return Err(AlgebraError::TileShapes {
                what: "blocks".to_owned(),
                shapes: vec![dims.to_vec(), block.to_vec()],
            });
        }
        let grid: Vec<usize> = dims.iter().zip(block).map(|(&n, &b)| n.div_ceil(b)).collect();
        let tiles = positions(&grid).map(|at| {
            let extent: Vec<usize> =
                (0..dims.len()).map(|axis| block[axis].min(dims[axis] - at[axis] * block[axis])).collect();
            let tile = Array::from_fn(array.dtype(), &extent, |inner| {
                let place: Vec<usize> =
                    (0..dims.len()).map(|axis| at[axis] * block[axis] + inner[axis]).collect();
                array.at(&place)
            });
            (at.iter().map(|&part| part as i64).collect(), tile)
        });
        Relation::new(dims.len(), array.dtype(), fill, tiles.collect())
    }

    /// The array of this shape that was cut into tiles of `block`. Fails if a tile is missing and has no fill.
    pub fn to_array(&self, dims: &[usize], block: &[usize]) -> Result<Array, AlgebraError> {
        let mut items = Vec::new();
        for at in positions(dims) {
            let key: Key = at.iter().zip(block).map(|(&at, &b)| (at / b) as i64).collect();
            let inner: Vec<usize> = at.iter().zip(block).map(|(&at, &b)| at % b).collect();
            items.push(match (self.tiles.get(&key), self.fill) {
                (Some(tile), _) if inner.iter().zip(tile.dims()).all(|(at, n)| at < n) => tile.at(&inner),
                (Some(tile), _) => {
                    let shapes = vec![tile.dims().to_vec(), dims.to_vec()];
                    return Err(AlgebraError::TileShapes { what: "an array of tiles".to_owned(), shapes });
                }
                (None, Some(fill)) => fill,
                (None, None) => {
                    return Err(AlgebraError::NoPartner { what: "an array of tiles".to_owned(), key });
                }
            });
        }
        Array::new(self.dtype, dims.to_vec(), items)
    }

    /// Parts of its keys.
    pub fn arity(&self) -> usize {
        self.arity
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// What a missing tile is filled with; `None` when a missing tile stands for nothing.
    pub fn fill(&self) -> Option<Scalar> {
        self.fill
    }

    /// Its tiles by key.
    pub fn tiles(&self) -> &BTreeMap<Key, Array> {
        &self.tiles
    }

    /// The same relation without tiles that hold nothing but the fill.
    pub fn without_fill(mut self) -> Relation {
        if let Some(fill) = self.fill {
            self.tiles.retain(|_, tile| tile.items().iter().any(|item| *item != fill));
        }
        self
    }

    /// ⋈: every two tiles whose keys agree on the joined parts, through a kernel.
    pub fn join(&self, right: &Relation, on: &JoinOn) -> Result<Relation, AlgebraError> {
        on.check(self.arity, right.arity)?;
        let mut tiles = BTreeMap::new();
        for (left_key, left_tile) in &self.tiles {
            for (right_key, right_tile) in &right.tiles {
                if let Some(key) = on.key(left_key, right_key) {
                    tiles.insert(key, on.kernel.run(left_tile, right_tile)?);
                }
            }
        }
        if on.missing == Missing::Fill {
            fill_partners(&mut tiles, self, right, on)?;
        }
        let arity = self.arity + right.arity - on.right.len();
        Ok(Relation {
            arity,
            dtype: on.kernel.dtype(self.dtype),
            fill: on.fill(self.fill, right.fill),
            tiles,
        })
    }

    /// Σ: tiles whose keys agree on some parts become one.
    pub fn aggregate(&self, group_by: &[usize], kernel: &ReduceKernel) -> Result<Relation, AlgebraError> {
        let group = KeyFunction::project(self.arity, group_by)?;
        let mut groups: BTreeMap<Key, Vec<&Array>> = BTreeMap::new();
        for (key, tile) in &self.tiles {
            groups.entry(group.apply(key)).or_default().push(tile);
        }
        let tiles = groups.into_iter().map(|(key, all)| Ok((key, kernel.run(&all)?)));
        let tiles = tiles.collect::<Result<BTreeMap<_, _>, AlgebraError>>()?;
        let dtype = kernel.dtype(self.dtype);
        Ok(Relation { arity: group_by.len(), dtype, fill: reduced_fill(self.fill, kernel), tiles })
    }

    /// REKEY: new keys. Fails if two tiles would have one.
    pub fn rekey(&self, function: &KeyFunction) -> Result<Relation, AlgebraError> {
        self.map(function, &MapKernel::Identity)
    }

    /// σ: the tiles whose keys meet a condition.
    pub fn filter(&self, condition: &KeyCondition) -> Relation {
        let kept = self.tiles.iter().filter(|(key, _)| condition.holds(key));
        let tiles = kept.map(|(key, tile)| (key.clone(), tile.clone())).collect();
        Relation { tiles, ..self.without_tiles() }
    }

    /// λ: every tile through a kernel.
    pub fn transform(&self, kernel: &MapKernel) -> Result<Relation, AlgebraError> {
        self.map(&KeyFunction::identity(self.arity), kernel)
    }

    /// Rekey and transform in one.
    pub(crate) fn map(&self, function: &KeyFunction, kernel: &MapKernel) -> Result<Relation, AlgebraError> {
        if function.arity() != self.arity {
            let (expected, found) = (function.arity(), self.arity);
            return Err(AlgebraError::KeyArity { what: "rekey", expected, found });
        }
        let mut tiles = BTreeMap::new();
        for (key, tile) in &self.tiles {
            let key = function.apply(key);
            if tiles.insert(key.clone(), kernel.run(tile)?).is_some() {
                return Err(AlgebraError::DuplicateKey { what: "rekey", key });
            }
        }
        let (arity, dtype) = (function.terms().len(), kernel.dtype(self.dtype));
        Ok(Relation { arity, dtype, fill: mapped_fill(self.fill, kernel), tiles })
    }

    /// TILE: every tile cut along an axis into pieces of at most `size`, counted by a new last part of the key.
    pub fn tile(&self, axis: usize, size: usize) -> Result<Relation, AlgebraError> {
        let mut tiles = BTreeMap::new();
        for (key, tile) in &self.tiles {
            for (count, piece) in cut(tile, axis, size)?.into_iter().enumerate() {
                tiles.insert(key.iter().copied().chain([count as i64]).collect(), piece);
            }
        }
        Ok(Relation { arity: self.arity + 1, tiles, ..self.without_tiles() })
    }

    /// CONCAT: tiles that differ in one part of the key only, one after another along an axis.
    pub fn concat(&self, key_part: usize, axis: usize) -> Result<Relation, AlgebraError> {
        let others: Vec<usize> = (0..self.arity).filter(|&part| part != key_part).collect();
        self.aggregate(&others, &ReduceKernel::Concat(axis))
    }

    fn without_tiles(&self) -> Relation {
        Relation { arity: self.arity, dtype: self.dtype, fill: self.fill, tiles: BTreeMap::new() }
    }
}

/// Joins tiles that have no partner with one of the fill.
pub(crate) fn fill_partners(
    tiles: &mut BTreeMap<Key, Array>,
    left: &Relation,
    right: &Relation,
    on: &JoinOn,
) -> Result<(), AlgebraError> {
    let fill_of = |fill: Option<Scalar>, key: &Key| {
        fill.ok_or_else(|| AlgebraError::NoPartner { what: on.kernel.to_string(), key: key.clone() })
    };
    for (key, tile) in &left.tiles {
        if !right.tiles.contains_key(&on.partner(key, true)) {
            let fill = fill_of(right.fill, key)?;
            tiles.insert(key.clone(), on.kernel.run(tile, &tile.map(right.dtype, |_| fill))?);
        }
    }
    for (key, tile) in &right.tiles {
        let partner = on.partner(key, false);
        if !left.tiles.contains_key(&partner) {
            let fill = fill_of(left.fill, key)?;
            tiles.insert(partner, on.kernel.run(&tile.map(left.dtype, |_| fill), tile)?);
        }
    }
    Ok(())
}

/// Pieces of a tile along an axis.
pub(crate) fn cut(tile: &Array, axis: usize, size: usize) -> Result<Vec<Array>, AlgebraError> {
    let dims = tile.dims();
    if axis >= dims.len() || size == 0 {
        let what = format!("tile along axis {axis} by {size}");
        return Err(AlgebraError::TileShapes { what, shapes: vec![dims.to_vec()] });
    }
    let pieces = (0..dims[axis].div_ceil(size)).map(|count| {
        let mut extent = dims.to_vec();
        extent[axis] = size.min(dims[axis] - count * size);
        Array::from_fn(tile.dtype(), &extent, |at| {
            let mut from = at.to_vec();
            from[axis] += count * size;
            tile.at(&from)
        })
    });
    Ok(pieces.collect())
}

/// What a missing tile stands for after tiles were reduced: still the fill if that is the operation's identity.
pub(crate) fn reduced_fill(fill: Option<Scalar>, kernel: &ReduceKernel) -> Option<Scalar> {
    match kernel {
        ReduceKernel::Elementwise(op) => fill.filter(|fill| op.identity(fill.dtype()) == Some(*fill)),
        ReduceKernel::Concat(_) => fill,
        ReduceKernel::Then(kernel, map) => mapped_fill(reduced_fill(fill, kernel), map),
        ReduceKernel::Before(map, kernel) => reduced_fill(mapped_fill(fill, map), kernel),
    }
}

/// What a missing tile stands for after a kernel.
pub(crate) fn mapped_fill(fill: Option<Scalar>, kernel: &MapKernel) -> Option<Scalar> {
    let fill = fill?;
    match kernel {
        MapKernel::Identity | MapKernel::Permute(_) | MapKernel::Diagonal => Some(fill),
        MapKernel::Apply(op) => Some(fill.unary(*op)),
        MapKernel::Scale(by) => {
            let dtype = kernel.dtype(fill.dtype());
            Some(fill.convert(dtype).binary(BinaryOp::Mul, Scalar::F64(*by).convert(dtype)))
        }
        MapKernel::SumAxis(_) => BinaryOp::Add
            .identity(fill.dtype())
            .filter(|zero| *zero == fill)
            .map(|zero| zero.convert(kernel.dtype(fill.dtype()))),
        MapKernel::Then(first, next) => mapped_fill(mapped_fill(Some(fill), first), next),
    }
}

#[cfg(test)]
mod tests;
