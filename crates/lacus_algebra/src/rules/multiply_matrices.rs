//! Three plans for the product of two matrices, `Σ_k A[i, k] · B[k, j]` by tiles. All give the same relation.
//!
//! They are points of one family: a grid of r × c × d sites over (i, j, k) moves `|A|(c-1) + |B|(r-1) + |C|(d-1)`
//! elements.

use crate::kernel::{JoinKernel, ReduceKernel};
use crate::physical::Plan;
use crate::placement::SiteMap;
use crate::relation::JoinOn;
use lacus_tensor::BinaryOp;

fn plus() -> ReduceKernel {
    ReduceKernel::Elementwise(BinaryOp::Add)
}

fn on() -> JoinOn {
    JoinOn::new(&[1], &[0], JoinKernel::MATMUL)
}

/// BMM: `B` is broadcast, and every site multiplies the rows of `A` that it has. Moves `|B|` to every site.
///
/// `left` must be dealt out by its rows, so that no contribution is left over.
pub fn broadcast_multiply(left: Plan, right: Plan) -> Plan {
    left.join(right.broadcast(), on()).aggregate(&[0, 2], plus())
}

/// CPMM: columns of `A` and rows of `B` meet, every site makes contributions to all of `C`, and these are shuffled
/// and reduced.
pub fn cross_product_multiply(left: Plan, right: Plan, sites: usize) -> Plan {
    let joined =
        left.shuffle(SiteMap::over(&[1], sites)).join(right.shuffle(SiteMap::over(&[0], sites)), on());
    joined.shuffle(SiteMap::over(&[0, 2], sites)).aggregate(&[0, 2], plus())
}

/// RMM: tiles of `A` are copied for every column of tiles of `B` and the other way round, and all that belongs to one
/// tile of `C` is brought to one site.
///
/// `rows` are the tiles along the rows of `A`, `columns` those along the columns of `B`.
pub fn replicate_multiply(left: Plan, right: Plan, rows: usize, columns: usize, sites: usize) -> Plan {
    let map = SiteMap::over(&[0, 2], sites);
    let left = left.duplicate(2, columns).shuffle(map.clone());
    let right = right.duplicate(0, rows).shuffle(map);
    let on = JoinOn::new(&[0, 1, 2], &[0, 1, 2], JoinKernel::MATMUL);
    left.join(right, on).aggregate(&[0, 2], plus())
}
