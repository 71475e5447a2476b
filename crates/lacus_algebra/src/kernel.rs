//! Kernels: what is done to tiles. They are named values with declared properties, because rewrite rules have
//! side conditions (is it associative, does it distribute) that no closure can answer.

use crate::array::{Array, positions};
use crate::error::AlgebraError;
use lacus_tensor::DType;
use lacus_tensor::Scalar;
use lacus_tensor::{BinaryOp, UnaryOp};
use std::fmt;

/// A kernel of one tile.
#[derive(Clone, Debug, PartialEq)]
pub enum MapKernel {
    /// Changes nothing.
    Identity,
    /// An operation on every element.
    Apply(UnaryOp),
    /// Every element times a number.
    Scale(f64),
    /// Axes in another order.
    Permute(Vec<usize>),
    /// The diagonal of a square tile.
    Diagonal,
    /// Sums over an axis, which is removed.
    SumAxis(usize),
    /// One kernel and then another.
    Then(Box<MapKernel>, Box<MapKernel>),
}

/// A kernel of two tiles.
#[derive(Clone, Debug, PartialEq)]
pub enum JoinKernel {
    /// An operation on the elements of two tiles of one shape.
    Elementwise(BinaryOp),
    /// A product of matrices over a semiring: `plus` over `k` of `times(left[i, k], right[k, j])`. With `*` and
    /// `+` the usual one, with `+` and `min` that of shortest paths.
    MatMul {
        /// Joins two elements.
        times: BinaryOp,
        /// Reduces what was joined.
        plus: BinaryOp,
    },
    /// A kernel of two tiles and then one of the result.
    Then(Box<JoinKernel>, MapKernel),
    /// A kernel of each tile, and then one of both results.
    Before(MapKernel, MapKernel, Box<JoinKernel>),
}

/// A kernel that makes one tile of many.
#[derive(Clone, Debug, PartialEq)]
pub enum ReduceKernel {
    /// An associative operation on the elements of tiles of one shape.
    Elementwise(BinaryOp),
    /// Tiles one after another along an axis, in the order of the keys that are reduced.
    Concat(usize),
    /// One after the other kernel, applied once at the end and not between steps.
    Then(Box<ReduceKernel>, MapKernel),
    /// A kernel of each tile before they are reduced.
    Before(MapKernel, Box<ReduceKernel>),
}

impl MapKernel {
    /// The usual product with `self` done first.
    pub fn then(self, next: MapKernel) -> MapKernel {
        match (self, next) {
            (MapKernel::Identity, next) => next,
            (first, MapKernel::Identity) => first,
            (first, next) => MapKernel::Then(Box::new(first), Box::new(next)),
        }
    }

    /// True when `f(a ⊕ b) = f(a) ⊕ f(b)` for tiles joined by `op` element by element.
    pub fn distributes_over(&self, op: BinaryOp) -> bool {
        match self {
            MapKernel::Identity | MapKernel::Permute(_) | MapKernel::Diagonal => true,
            MapKernel::Apply(unary) => unary.distributes_over(op),
            MapKernel::Scale(_) | MapKernel::SumAxis(_) => op == BinaryOp::Add,
            MapKernel::Then(first, next) => first.distributes_over(op) && next.distributes_over(op),
        }
    }

    /// True when the identity of `op` (a missing tile) stays the identity.
    pub fn keeps_identity_of(&self, op: BinaryOp, dtype: DType) -> bool {
        let Some(identity) = op.identity(dtype) else { return false };
        match self {
            MapKernel::Identity | MapKernel::Permute(_) | MapKernel::Diagonal => true,
            MapKernel::Apply(unary) => {
                Some(identity.unary(*unary)) == op.identity(identity.unary(*unary).dtype())
            }
            MapKernel::Scale(_) | MapKernel::SumAxis(_) => op == BinaryOp::Add,
            MapKernel::Then(first, next) => {
                first.keeps_identity_of(op, dtype) && next.keeps_identity_of(op, first.dtype(dtype))
            }
        }
    }

    /// The shape of the result for tiles of this shape.
    pub fn shape(&self, dims: &[usize]) -> Result<Vec<usize>, AlgebraError> {
        let wrong = || AlgebraError::TileShapes { what: self.to_string(), shapes: vec![dims.to_vec()] };
        match self {
            MapKernel::Identity | MapKernel::Apply(_) | MapKernel::Scale(_) => Ok(dims.to_vec()),
            MapKernel::Permute(order) => {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if sorted != (0..dims.len()).collect::<Vec<_>>() {
                    return Err(wrong());
                }
                Ok(order.iter().map(|&axis| dims[axis]).collect())
            }
            MapKernel::Diagonal => match dims {
                [n, m] if n == m => Ok(vec![*n]),
                _ => Err(wrong()),
            },
            MapKernel::SumAxis(axis) if *axis < dims.len() => {
                Ok(dims.iter().enumerate().filter(|(at, _)| at != axis).map(|(_, &n)| n).collect())
            }
            MapKernel::SumAxis(_) => Err(wrong()),
            MapKernel::Then(first, next) => next.shape(&first.shape(dims)?),
        }
    }

    /// The type of the result for tiles of this type.
    pub fn dtype(&self, dtype: DType) -> DType {
        match self {
            MapKernel::Apply(op) => Scalar::Bool(false).convert(dtype).unary(*op).dtype(),
            MapKernel::Scale(_) | MapKernel::SumAxis(_) if dtype == DType::Bool => DType::I64,
            MapKernel::Then(first, next) => next.dtype(first.dtype(dtype)),
            _ => dtype,
        }
    }

    /// The result for a tile.
    pub fn run(&self, tile: &Array) -> Result<Array, AlgebraError> {
        let dims = self.shape(tile.dims())?;
        let dtype = self.dtype(tile.dtype());
        Ok(match self {
            MapKernel::Identity => tile.clone(),
            MapKernel::Apply(op) => tile.map(dtype, |item| item.unary(*op)),
            MapKernel::Scale(by) => {
                let by = Scalar::F64(*by).convert(dtype);
                tile.map(dtype, |item| item.convert(dtype).binary(BinaryOp::Mul, by))
            }
            MapKernel::Permute(order) => Array::from_fn(dtype, &dims, |at| {
                let mut from = vec![0; at.len()];
                order.iter().zip(at).for_each(|(&axis, &at)| from[axis] = at);
                tile.at(&from)
            }),
            MapKernel::Diagonal => Array::from_fn(dtype, &dims, |at| tile.at(&[at[0], at[0]])),
            MapKernel::SumAxis(axis) => Array::from_fn(dtype, &dims, |at| {
                (0..tile.dims()[*axis]).fold(Scalar::I64(0).convert(dtype), |sum, n| {
                    let mut from = at.to_vec();
                    from.insert(*axis, n);
                    sum.binary(BinaryOp::Add, tile.at(&from).convert(dtype))
                })
            }),
            MapKernel::Then(first, next) => next.run(&first.run(tile)?)?,
        })
    }
}

impl JoinKernel {
    /// The usual product of matrices.
    pub const MATMUL: JoinKernel = JoinKernel::MatMul { times: BinaryOp::Mul, plus: BinaryOp::Add };

    /// True when the kernel is linear in both tiles: `(a ⊕ b) ⊗ c = (a ⊗ c) ⊕ (b ⊗ c)`, and on the other side.
    pub fn is_bilinear_over(&self, op: BinaryOp) -> bool {
        match self {
            JoinKernel::Elementwise(times) => times.distributes_over(op),
            JoinKernel::MatMul { times, plus } => *plus == op && times.distributes_over(op),
            JoinKernel::Then(kernel, map) => kernel.is_bilinear_over(op) && map.distributes_over(op),
            JoinKernel::Before(left, right, kernel) => {
                left.distributes_over(op) && right.distributes_over(op) && kernel.is_bilinear_over(op)
            }
        }
    }

    /// True when a tile of `fill` on either side makes a tile of `fill`, so that missing tiles need no partner.
    pub fn is_annihilated_by(&self, fill: Scalar) -> bool {
        match self {
            JoinKernel::Elementwise(times) => times.annihilator(fill.dtype()) == Some(fill),
            JoinKernel::MatMul { times, plus } => {
                times.annihilator(fill.dtype()) == Some(fill) && plus.identity(fill.dtype()) == Some(fill)
            }
            JoinKernel::Then(kernel, map) => {
                let plus = [BinaryOp::Add, BinaryOp::Min, BinaryOp::Max, BinaryOp::Or];
                kernel.is_annihilated_by(fill)
                    && plus.into_iter().any(|op| {
                        op.identity(fill.dtype()) == Some(fill) && map.keeps_identity_of(op, fill.dtype())
                    })
            }
            JoinKernel::Before(..) => false,
        }
    }

    /// True when both tiles have the shape of the result, so that one can stand in for the shape of the other.
    pub fn is_elementwise(&self) -> bool {
        matches!(self, JoinKernel::Elementwise(_))
    }

    /// The shape of the result.
    pub fn shape(&self, left: &[usize], right: &[usize]) -> Result<Vec<usize>, AlgebraError> {
        let wrong = || {
            Err(AlgebraError::TileShapes {
                what: self.to_string(),
                shapes: vec![left.to_vec(), right.to_vec()],
            })
        };
        match self {
            JoinKernel::Elementwise(_) if left == right => Ok(left.to_vec()),
            JoinKernel::Elementwise(_) => wrong(),
            JoinKernel::MatMul { .. } => match (left, right) {
                ([i, k], [l, j]) if k == l => Ok(vec![*i, *j]),
                _ => wrong(),
            },
            JoinKernel::Then(kernel, map) => map.shape(&kernel.shape(left, right)?),
            JoinKernel::Before(a, b, kernel) => kernel.shape(&a.shape(left)?, &b.shape(right)?),
        }
    }

    /// The type of the result for two tiles of this type.
    pub fn dtype(&self, dtype: DType) -> DType {
        match self {
            JoinKernel::Elementwise(op) => op_dtype(*op, dtype),
            JoinKernel::MatMul { times, plus } => op_dtype(*plus, op_dtype(*times, dtype)),
            JoinKernel::Then(kernel, map) => map.dtype(kernel.dtype(dtype)),
            JoinKernel::Before(a, _, kernel) => kernel.dtype(a.dtype(dtype)),
        }
    }

    /// The result for two tiles.
    pub fn run(&self, left: &Array, right: &Array) -> Result<Array, AlgebraError> {
        let dims = self.shape(left.dims(), right.dims())?;
        let dtype = self.dtype(left.dtype());
        Ok(match self {
            JoinKernel::Elementwise(op) => {
                Array::from_fn(dtype, &dims, |at| left.at(at).binary(*op, right.at(at)))
            }
            JoinKernel::MatMul { times, plus } => {
                let start = plus.identity(dtype).unwrap_or(Scalar::I64(0).convert(dtype));
                Array::from_fn(dtype, &dims, |at| {
                    (0..left.dims()[1]).fold(start, |sum, k| {
                        let product = left.at(&[at[0], k]).binary(*times, right.at(&[k, at[1]]));
                        sum.binary(*plus, product.convert(dtype))
                    })
                })
            }
            JoinKernel::Then(kernel, map) => map.run(&kernel.run(left, right)?)?,
            JoinKernel::Before(a, b, kernel) => kernel.run(&a.run(left)?, &b.run(right)?)?,
        })
    }
}

fn op_dtype(op: BinaryOp, dtype: DType) -> DType {
    let zero = Scalar::Bool(false).convert(dtype);
    zero.binary(op, zero).dtype()
}

impl ReduceKernel {
    /// The operation, when tiles are reduced element by element and nothing else is done.
    pub fn as_op(&self) -> Option<BinaryOp> {
        match self {
            ReduceKernel::Elementwise(op) => Some(*op),
            _ => None,
        }
    }

    /// The shape of the result for tiles of these shapes, in the order of their keys.
    pub fn shape(&self, all: &[Vec<usize>]) -> Result<Vec<usize>, AlgebraError> {
        let wrong = || AlgebraError::TileShapes { what: self.to_string(), shapes: all.to_vec() };
        let first = all.first().ok_or_else(wrong)?;
        match self {
            ReduceKernel::Elementwise(_) if all.iter().all(|dims| dims == first) => Ok(first.clone()),
            ReduceKernel::Elementwise(_) => Err(wrong()),
            ReduceKernel::Concat(axis) => {
                let others = |dims: &[usize]| {
                    let mut dims = dims.to_vec();
                    if *axis < dims.len() {
                        dims.remove(*axis);
                    }
                    dims
                };
                if *axis >= first.len() || all.iter().any(|dims| others(dims) != others(first)) {
                    return Err(wrong());
                }
                let mut dims = first.clone();
                dims[*axis] = all.iter().map(|dims| dims[*axis]).sum();
                Ok(dims)
            }
            ReduceKernel::Then(kernel, map) => map.shape(&kernel.shape(all)?),
            ReduceKernel::Before(map, kernel) => {
                let all = all.iter().map(|dims| map.shape(dims)).collect::<Result<Vec<_>, _>>()?;
                kernel.shape(&all)
            }
        }
    }

    /// The type of the result.
    pub fn dtype(&self, dtype: DType) -> DType {
        match self {
            ReduceKernel::Elementwise(op) => op_dtype(*op, dtype),
            ReduceKernel::Concat(_) => dtype,
            ReduceKernel::Then(kernel, map) => map.dtype(kernel.dtype(dtype)),
            ReduceKernel::Before(map, kernel) => kernel.dtype(map.dtype(dtype)),
        }
    }

    /// The result for tiles in the order of their keys, of which there is at least one.
    pub fn run(&self, all: &[&Array]) -> Result<Array, AlgebraError> {
        let shapes: Vec<Vec<usize>> = all.iter().map(|tile| tile.dims().to_vec()).collect();
        let dims = self.shape(&shapes)?;
        let dtype = self.dtype(all[0].dtype());
        Ok(match self {
            ReduceKernel::Elementwise(op) => Array::from_fn(dtype, &dims, |at| {
                let mut items = all.iter().map(|tile| tile.at(at).convert(dtype));
                let first = items.next().unwrap_or(Scalar::I64(0).convert(dtype));
                items.fold(first, |sum, item| sum.binary(*op, item))
            }),
            ReduceKernel::Concat(axis) => {
                let mut items = vec![Scalar::I64(0); dims.iter().product()];
                let mut offset = 0;
                for tile in all {
                    for mut at in positions(tile.dims()) {
                        let item = tile.at(&at);
                        at[*axis] += offset;
                        let place = at.iter().zip(&dims).fold(0, |place, (&at, &n)| place * n + at);
                        items[place] = item;
                    }
                    offset += tile.dims()[*axis];
                }
                Array::new(dtype, dims, items)?
            }
            ReduceKernel::Then(kernel, map) => map.run(&kernel.run(all)?)?,
            ReduceKernel::Before(map, kernel) => {
                let all = all.iter().map(|tile| map.run(tile)).collect::<Result<Vec<_>, _>>()?;
                kernel.run(&all.iter().collect::<Vec<_>>())?
            }
        })
    }
}

impl fmt::Display for MapKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapKernel::Identity => f.write_str("id"),
            MapKernel::Apply(op) => write!(f, "{op}"),
            MapKernel::Scale(by) => write!(f, "scale({by})"),
            MapKernel::Permute(order) => write!(f, "permute{order:?}"),
            MapKernel::Diagonal => f.write_str("diag"),
            MapKernel::SumAxis(axis) => write!(f, "sum({axis})"),
            MapKernel::Then(first, next) => write!(f, "{next}∘{first}"),
        }
    }
}

impl fmt::Display for JoinKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinKernel::Elementwise(op) => write!(f, "({op})"),
            JoinKernel::MatMul { times, plus } => write!(f, "matmul({times}, {plus})"),
            JoinKernel::Then(kernel, map) => write!(f, "{map}∘{kernel}"),
            JoinKernel::Before(a, b, kernel) => write!(f, "{kernel}∘({a}, {b})"),
        }
    }
}

impl fmt::Display for ReduceKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReduceKernel::Elementwise(op) => write!(f, "({op})"),
            ReduceKernel::Concat(axis) => write!(f, "concat({axis})"),
            ReduceKernel::Then(kernel, map) => write!(f, "{map}∘{kernel}"),
            ReduceKernel::Before(map, kernel) => write!(f, "{kernel}∘{map}"),
        }
    }
}
