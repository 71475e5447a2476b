//! Products with sparse tiles.

use crate::error::ExecuteError;
use crate::form::{Bench, ProductForm, Reads};
use crate::tile::{SparseTile, Tile};
use crate::window::{Window, WindowMut};
use lacus_tensor::DType;
use lacus_tensor::kernels::csr::{Csr, Value, dense_multiply, dense_multiply_transposed};
use lacus_tensor::kernels::matrix::{MatrixMut, MatrixRef};
use lacus_threads::Team;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// The sparse matrix of a tile, if it is of this type.
trait OfTile: Sized {
    fn of(tile: &SparseTile) -> Option<&Csr<Self>>;
}

macro_rules! of_tile {
    ($($name:ident $t:ty),*) => {$(
        impl OfTile for $t {
            fn of(tile: &SparseTile) -> Option<&Csr<$t>> {
                match tile {
                    SparseTile::$name(csr) => Some(csr),
                    _ => None,
                }
            }
        }
    )*};
}
of_tile!(I64 i64, F32 f32, F64 f64);

/// A product of which a factor is sparse, into a dense tile. False if it is not one of matrices.
pub(crate) fn multiply(
    form: &ProductForm,
    bench: &mut Bench<'_>,
    reads: &Reads<'_>,
    out: &mut WindowMut,
    scale: Option<&Window>,
    is_first: bool,
    tiles: Vec<Option<Tile>>,
) -> Result<bool, ExecuteError> {
    let [rows, columns, folded] = form.classes();
    if rows.len() > 1 || columns.len() > 1 || tiles.iter().flatten().any(|tile| !tile.is_sparse()) {
        return Ok(false);
    }
    let sparse: Vec<Option<SparseTile>> = tiles
        .into_iter()
        .map(|tile| match tile {
            Some(Tile::Sparse(sparse)) => Some(sparse),
            _ => None,
        })
        .collect();
    let mut dense = Vec::with_capacity(2);
    for (which, sparse) in sparse.iter().enumerate() {
        dense.push(match sparse {
            Some(_) => None,
            None => Some(form.dense_factor(which, bench, reads)?),
        });
    }
    // Whether the axes of a sparse factor are those of the product, or the other way round.
    let is_turned = |which: usize| -> bool {
        let axes = form.axes(which, reads);
        match which {
            0 => axes.first() == folded.first(),
            _ => axes.last() == folded.first(),
        }
    };
    let extent = |labels: &[usize]| labels.first().map_or(1, |&label| reads.region.counts[label]);
    let (m, n, k) = (extent(rows), extent(columns), extent(folded));
    let own = out.window().strides().to_vec();
    let stride = |labels: &[usize]| labels.first().map_or(1, |&label| own[label]);
    let strides = [stride(rows), stride(columns)];
    let label = |labels: &[usize]| labels.first().copied();
    macro_rules! run {
        ($t:ty, $one:expr) => {{
            let alpha = scale.and_then(|scale| scale.slice::<$t>()).map_or($one, |scale| scale[0]);
            let csr = |which: usize| sparse[which].as_ref().and_then(<$t as OfTile>::of);
            // SAFETY: the part of the result that this region is, which nobody else has.
            let c: MatrixMut<'_, $t> = unsafe { out.matrix(0, [m, n], strides) };
            let matrix =
                |which: usize, shape: [usize; 2], labels: [Option<usize>; 2]| -> Option<MatrixRef<'_, $t>> {
                    let (window, walk) = dense[which].as_ref()?;
                    let strides = labels.map(|label| label.map_or(1, |label| walk.steps[label] as isize));
                    // SAFETY: the walk stays within the window of the region.
                    Some(unsafe { window.matrix(walk.start as isize, shape, strides) })
                };
            let left = || matrix(0, [m, k], [label(rows), label(folded)]);
            let right = || matrix(1, [k, n], [label(folded), label(columns)]);
            match (csr(0), csr(1), left(), right()) {
                (Some(a), Some(b), ..) => {
                    let turned = |csr, is_turned| {
                        if is_turned { Cow::Owned(Csr::transpose(csr)) } else { Cow::Borrowed(csr) }
                    };
                    let (a, b) = (turned(a, is_turned(0)), turned(b, is_turned(1)));
                    a.multiply_into(alpha, &b, c, is_first);
                }
                (Some(a), None, _, Some(b)) if is_turned(0) => {
                    a.multiply_dense_transposed(alpha, b, c, is_first)
                }
                (Some(a), None, _, Some(b)) => multiply_by_rows(bench.team, a, alpha, b, c, is_first),
                (None, Some(b), Some(a), _) if is_turned(1) => {
                    dense_multiply_transposed(alpha, a, b, c, is_first)
                }
                (None, Some(b), Some(a), _) => dense_multiply(alpha, a, b, c, is_first),
                _ => return Ok(false),
            }
        }};
    }
    match form.dtype() {
        DType::I64 => run!(i64, 1),
        DType::F32 => run!(f32, 1.0),
        DType::F64 => run!(f64, 1.0),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Elements of a sparse matrix that are worth another thread: a tenth of a millisecond of each.
const WORTH_THREADS: usize = 200_000;

/// A product with a dense matrix by several threads, if there is enough to do. No bit depends on their number.
fn multiply_by_rows<T: Value>(
    team: Team<'_>,
    a: &Csr<T>,
    alpha: T,
    b: MatrixRef<'_, T>,
    c: MatrixMut<'_, T>,
    is_first: bool,
) {
    if team.threads() <= 1 || a.nnz() * b.columns() < WORTH_THREADS {
        return a.multiply_dense(alpha, b, c, is_first);
    }
    let mut parts = Vec::with_capacity(team.threads());
    let mut below = c;
    for rows in a.even_rows(team.threads()) {
        let (own, rest) = below.split_at_row(rows.len());
        below = rest;
        parts.push((rows, own));
    }
    let parts = Mutex::new(parts);
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let some = || {
        while let Some((rows, own)) = next() {
            a.multiply_dense_rows(rows, alpha, b, own, is_first);
        }
    };
    team.run(&some);
}

/// Bytes of a product of two sparse tiles, at most: no place is stored twice, and none without a term.
pub(crate) fn most_bytes(form: &ProductForm, reads: &Reads<'_>, a: &SparseTile, b: &SparseTile) -> u64 {
    let [rows, columns, folded] = form.classes();
    let a_is_turned = form.axes(0, reads).first() == folded.first();
    let b_is_turned = form.axes(1, reads).last() == folded.first();
    let extent = |labels: &[usize]| labels.first().map_or(1, |&label| reads.region.counts[label] as u64);
    let size = form.dtype().size_bytes() as u64;
    // Nonzeros of B along each inner index.
    let mut lengths = vec![0u64; extent(folded) as usize];
    match b_is_turned {
        true => b.columns().iter().for_each(|&k| lengths[k as usize] += 1),
        false => lengths
            .iter_mut()
            .zip(b.starts().windows(2))
            .for_each(|(n, ends)| *n = (ends[1] - ends[0]) as u64),
    }
    let area = extent(rows).saturating_mul(extent(columns));
    let most = if a_is_turned {
        let terms = a.starts().windows(2).zip(&lengths).map(|(ends, &n)| (ends[1] - ends[0]) as u64 * n);
        terms.sum::<u64>().min(area)
    } else {
        let of_row = |ends: &[usize]| {
            let terms = a.columns()[ends[0]..ends[1]].iter().map(|&k| lengths[k as usize]).sum::<u64>();
            terms.min(extent(columns))
        };
        a.starts().windows(2).map(of_row).sum()
    };
    // Factors that are turned are turned as copies, and so is the result.
    let copies = if a_is_turned { a.size_bytes() } else { 0 } + if b_is_turned { b.size_bytes() } else { 0 };
    let is_turned = rows.first() == Some(&1) && columns.first() == Some(&0);
    let made = most * (4 + size) + 8 * (extent(rows) + 1) + (size + 1) * extent(columns);
    copies + if is_turned { 2 * made } else { made }
}

/// A product of two sparse tiles as a sparse tile.
pub(crate) fn multiply_sparse(
    form: &ProductForm,
    reads: &Reads<'_>,
    scale: Option<&Window>,
    a: &SparseTile,
    b: &SparseTile,
) -> Option<SparseTile> {
    let [rows, columns, folded] = form.classes();
    // A result whose rows are those of the right factor is the product the other way round.
    let is_turned = rows.first() == Some(&1) && columns.first() == Some(&0);
    let a_is_turned = form.axes(0, reads).first() == folded.first();
    let b_is_turned = form.axes(1, reads).last() == folded.first();
    macro_rules! run {
        ($name:ident, $t:ty, $a:expr, $b:expr) => {{
            let turned =
                |csr, is_turned| if is_turned { Cow::Owned(Csr::transpose(csr)) } else { Cow::Borrowed(csr) };
            let (a, b): (Cow<'_, Csr<$t>>, Cow<'_, Csr<$t>>) =
                (turned(&**$a, a_is_turned), turned(&**$b, b_is_turned));
            let mut product = a.multiply(&b);
            if let Some(scale) = scale.and_then(|scale| scale.slice::<$t>()) {
                product.scale(scale[0]);
            }
            SparseTile::$name(Arc::new(if is_turned { product.transpose() } else { product }))
        }};
    }
    Some(match (a, b) {
        (SparseTile::I64(a), SparseTile::I64(b)) => run!(I64, i64, a, b),
        (SparseTile::F32(a), SparseTile::F32(b)) => run!(F32, f32, a, b),
        (SparseTile::F64(a), SparseTile::F64(b)) => run!(F64, f64, a, b),
        _ => return None,
    })
}
