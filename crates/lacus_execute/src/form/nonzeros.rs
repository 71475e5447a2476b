//! Operators at the nonzeros of sparse matrices: a formula, a reduced formula, a sampled product.

use super::fold::counted;
use super::{Bench, Elements, Form, Kind, Manner, ProductForm, Reads, manner, with_type};
use crate::error::ExecuteError;
use crate::region::Region;
use crate::tile::{SparseTile, Tile};
use crate::window::WindowMut;
use crate::zeros::{at_zero, is_whole, is_zero, labels_of};
use lacus_algebra::expr::{Affine, Element, Slot};
use lacus_algebra::{Network, Operator, Scalar};
use lacus_tensor::DType;
use lacus_tensor::kernels::csr::{Csr, Pattern, sampled_into};
use lacus_tensor::kernels::formula::Lane;
use lacus_tensor::kernels::reduce::reduce;
use std::sync::Arc;

/// What to do where operands are sparse.
pub(crate) struct Nonzeros {
    pub(crate) manner: Manner,
    /// The labels of rows and columns.
    labels: [usize; 2],
    /// What is zero, or false, where nothing counts.
    target: Element,
    elements: Elements,
    /// Of a sampled product: what counts, and the product.
    sampled: Option<(Elements, ProductForm)>,
}

impl Nonzeros {
    /// What an operator does with sparse values; `None` if there are none among those it reads, or if it is a product.
    pub(crate) fn of(
        network: &Network,
        operator: &Operator,
        sparse: &dyn Fn(Slot) -> bool,
    ) -> Option<Nonzeros> {
        let read = operator.reads.iter().find(|read| sparse(read.value))?;
        let manner = manner(network, operator, sparse)?;
        let labels = match manner {
            Manner::Moved => [0, 1],
            _ => labels_of(&read.at)?,
        };
        let body = counted(operator);
        let (target, sampled) = match manner {
            Manner::Product => return None,
            Manner::Sampled => {
                let guard = operator.fold.as_ref()?.guard.clone()?;
                let product = ProductForm::within(network, operator)?;
                let elements = Elements::of(network, operator, &guard);
                (guard, Some((elements, product)))
            }
            Manner::Nonzeros | Manner::Folded | Manner::Moved => (body.clone().into_owned(), None),
        };
        Some(Nonzeros { manner, labels, target, elements: Elements::of(network, operator, &body), sampled })
    }

    /// Whether an operator is a product of matrices at the nonzeros of sparse ones.
    pub(crate) fn samples(network: &Network, operator: &Operator, sparse: &dyn Fn(Slot) -> bool) -> bool {
        Nonzeros::of(network, operator, sparse).is_some_and(|found| found.sampled.is_some())
    }
}

impl SparseTile {
    fn pattern(&self) -> &Pattern {
        match self {
            SparseTile::I64(csr) => csr.pattern(),
            SparseTile::F32(csr) => csr.pattern(),
            SparseTile::F64(csr) => csr.pattern(),
        }
    }
}

/// A sparse tile of values at the places of a pattern.
fn tile_of(pattern: Pattern, values: &WindowMut) -> Result<SparseTile, ExecuteError> {
    let values = values.window();
    Ok(match values.dtype() {
        DType::I64 => SparseTile::I64(Arc::new(Csr::from_pattern(
            pattern,
            values.slice().unwrap_or_default().to_vec(),
        )?)),
        DType::F32 => SparseTile::F32(Arc::new(Csr::from_pattern(
            pattern,
            values.slice().unwrap_or_default().to_vec(),
        )?)),
        _ => SparseTile::F64(Arc::new(Csr::from_pattern(
            pattern,
            values.slice().unwrap_or_default().to_vec(),
        )?)),
    })
}

impl Form {
    /// One step of a tile at the nonzeros of its operands. `None` if none of them is sparse, or if zeros matter.
    pub(crate) fn run_at_nonzeros(
        &self,
        bench: &mut Bench<'_>,
        step: &[u64],
        before: Option<Tile>,
        is_first: bool,
    ) -> Result<Result<Tile, Option<Tile>>, ExecuteError> {
        let operator = &bench.network.operators[self.operator];
        let Some(nonzeros) = self.nonzeros.as_ref().filter(|_| !step.contains(&u64::MAX)) else {
            return Ok(Err(before));
        };
        let region = Region::of(&self.labels, step);
        if nonzeros.manner == Manner::Moved {
            return Ok(Ok(Tile::Sparse(self.moved(bench, &region)?)));
        }
        let reads = Reads { form: self, operator, region: &region };
        let Some(pattern) = pattern(bench, operator, nonzeros) else { return Ok(Err(before)) };
        match nonzeros.manner {
            Manner::Nonzeros => {
                let mut values = WindowMut::for_overwrite(operator.body.dtype, &[pattern.nnz()]);
                nonzeros.elements.run_at(bench, &reads, &pattern, nonzeros.labels, &mut values)?;
                Ok(Ok(Tile::Sparse(tile_of(pattern, &values)?)))
            }
            Manner::Sampled => {
                let Some((guard, product)) = &nonzeros.sampled else { return Ok(Err(before)) };
                let before = match before {
                    Some(Tile::Sparse(before)) if !is_first => before,
                    _ => {
                        let pattern = guarded(bench, &reads, guard, pattern, nonzeros.labels)?;
                        tile_of(pattern.clone(), &WindowMut::zeroed(operator.body.dtype, &[pattern.nnz()]))?
                    }
                };
                Ok(Ok(Tile::Sparse(sample(bench, &reads, product, before)?)))
            }
            Manner::Folded | Manner::Product | Manner::Moved => Ok(Err(before)),
        }
    }

    /// The nonzeros of the tiles that a matrix is a part of, or turned, where they are in a region of it.
    fn moved(&self, bench: &Bench<'_>, region: &Region) -> Result<SparseTile, ExecuteError> {
        let operator = &bench.network.operators[self.operator];
        let moves = super::manner::moves(operator)
            .ok_or_else(|| ExecuteError::Internal { what: "a matrix that is not moved".to_owned() })?;
        let shape = [region.counts[0], region.counts[1]];
        match operator.body.dtype {
            DType::I64 => Ok(SparseTile::I64(Arc::new(self.moved_of(bench, region, &moves, shape)?))),
            DType::F32 => Ok(SparseTile::F32(Arc::new(self.moved_of(bench, region, &moves, shape)?))),
            _ => Ok(SparseTile::F64(Arc::new(self.moved_of(bench, region, &moves, shape)?))),
        }
    }

    fn moved_of<T: lacus_tensor::kernels::csr::Value + lacus_tensor::Element>(
        &self,
        bench: &Bench<'_>,
        region: &Region,
        moves: &[(usize, i64, i64); 2],
        shape: [usize; 2],
    ) -> Result<Csr<T>, ExecuteError> {
        let mut all: Vec<([i64; 2], T)> = Vec::new();
        for (_, number, tile) in bench.tiles {
            let sparse = match tile {
                Tile::Sparse(sparse) => sparse.clone(),
                Tile::Dense(window) => SparseTile::of_dense(window)?,
            };
            let at = self.tensors[0].coordinates(*number as usize);
            let starts = [0, 1].map(|axis| (at[axis] * self.tensors[0].blocks[axis]) as i64);
            let (places, values) = sparse.coordinates();
            for (place, &value) in values.slice::<T>().unwrap_or_default().iter().enumerate() {
                let mut to = [0; 2];
                let is_inside = (0..2).all(|axis| {
                    let (label, factor, offset) = moves[axis];
                    let position = starts[axis] + places[axis][place] - offset;
                    to[label] = position / factor - region.starts[label];
                    position % factor == 0 && (0..shape[label] as i64).contains(&to[label])
                });
                if is_inside {
                    all.push((to, value));
                }
            }
        }
        all.sort_unstable_by_key(|(to, _)| *to);
        let rows: Vec<i64> = all.iter().map(|(to, _)| to[0]).collect();
        let columns: Vec<i64> = all.iter().map(|(to, _)| to[1]).collect();
        let values = all.into_iter().map(|(_, value)| value).collect();
        Ok(Csr::from_coordinates(shape[0], shape[1], [&rows, &columns], values)?)
    }

    /// A reduced formula of which only nonzeros count, into a dense tile. False if no operand is sparse.
    pub(super) fn fold_nonzeros(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        out: &mut WindowMut,
    ) -> Result<bool, ExecuteError> {
        let Some(nonzeros) = self.nonzeros.as_ref().filter(|found| found.manner == Manner::Folded) else {
            return Ok(false);
        };
        let Some(pattern) = pattern(bench, reads.operator, nonzeros) else { return Ok(false) };
        let mut values = WindowMut::for_overwrite(reads.operator.body.dtype, &[pattern.nnz()]);
        nonzeros.elements.run_at(bench, reads, &pattern, nonzeros.labels, &mut values)?;
        let rank = reads.operator.axes.len();
        let strides = out.window().strides().to_vec();
        let step = |label: usize| if label < rank { strides[label] } else { 0 };
        let (row_step, column_step) = (step(nonzeros.labels[0]), step(nonzeros.labels[1]));
        let first = out.first();
        with_type!(values.window().dtype(), T => {
            let values = values.slice_mut::<T>().unwrap_or_default();
            let first = first.cast::<T>().as_ptr();
            let add = lacus_algebra::BinaryOp::Add;
            for row in 0..pattern.rows() {
                let places = pattern.places(row);
                if column_step == 0 {
                    if !places.is_empty() {
                        let sum = add_all::<T>(&values[places]);
                        // SAFETY: a place of the result, which nobody else has.
                        unsafe {
                            let to = first.offset(row as isize * row_step);
                            *to = reduce_pair::<T>(add, *to, sum);
                        }
                    }
                    continue;
                }
                for (&column, &value) in pattern.row(row).iter().zip(&values[places]) {
                    // SAFETY: as above.
                    unsafe {
                        let to = first.offset(row as isize * row_step + column as isize * column_step);
                        *to = reduce_pair::<T>(add, *to, value);
                    }
                }
            }
        });
        Ok(true)
    }

    /// A product of which some places count, into a dense tile: all of it, and zeros where nothing counts. False if it is
    /// anything else.
    pub(super) fn multiply_where(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        out: &mut WindowMut,
        is_first: bool,
    ) -> Result<bool, ExecuteError> {
        let sampled = self.nonzeros.as_ref().and_then(|nonzeros| nonzeros.sampled.as_ref());
        let Some((guard, product)) = sampled else { return Ok(false) };
        product.run(bench, reads, out, is_first, None)?;
        let mut truths = WindowMut::for_overwrite(DType::Bool, out.window().shape());
        guard.run_over(bench, reads, &mut truths, &[0, 1])?;
        let truths = truths.freeze();
        let (&[_, columns], &[row_step, column_step]) = (out.window().shape(), out.window().strides()) else {
            return Err(ExecuteError::Internal { what: "a product that is no matrix".to_owned() });
        };
        let first = out.first();
        with_type!(out.window().dtype(), T => {
            for (at, &truth) in truths.slice::<u8>().unwrap_or_default().iter().enumerate() {
                if truth == 0 {
                    let (row, column) = ((at / columns) as isize, (at % columns) as isize);
                    // SAFETY: a place of the result, which nobody else has.
                    unsafe { *first.cast::<T>().as_ptr().offset(row * row_step + column * column_step) = T::default() };
                }
            }
        });
        Ok(true)
    }

    /// True for a product of matrices.
    pub(crate) fn is_product(&self) -> bool {
        matches!(self.kind, Kind::Product(_))
    }
}

fn add_all<T: lacus_tensor::kernels::number::Value>(run: &[T]) -> T {
    reduce(lacus_algebra::BinaryOp::Add, run)
}

fn reduce_pair<T: lacus_tensor::kernels::number::Value>(op: lacus_algebra::BinaryOp, a: T, b: T) -> T {
    reduce(op, &[a, b])
}

/// The places outside of which the result is zero, or nothing counts.
fn pattern(bench: &Bench<'_>, operator: &Operator, nonzeros: &Nonzeros) -> Option<Pattern> {
    let found: Vec<(Slot, &SparseTile)> = bench
        .tiles
        .iter()
        .filter_map(|(slot, _, tile)| match tile {
            Tile::Sparse(sparse) => Some((*slot, sparse)),
            Tile::Dense(_) => None,
        })
        .collect();
    let suffices = |slots: &[Slot]| {
        let zero = |slot: Slot, at: &[Affine]| {
            slots.contains(&slot) && is_whole(bench.network, operator, slot, at, nonzeros.labels)
        };
        match nonzeros.manner {
            Manner::Sampled => at_zero(&nonzeros.target, &zero) == Some(Scalar::Bool(false)),
            _ => is_zero(at_zero(&nonzeros.target, &zero)),
        }
    };
    // The nonzeros of one are enough for a product; a sum takes those of all.
    let one = found.iter().filter(|(slot, _)| suffices(&[*slot])).min_by_key(|(_, tile)| tile.nnz());
    if let Some((_, tile)) = one {
        return Some(tile.pattern().clone());
    }
    let slots: Vec<Slot> = found.iter().map(|(slot, _)| *slot).collect();
    let patterns: Vec<&Pattern> = found.iter().map(|(_, tile)| tile.pattern()).collect();
    (!patterns.is_empty() && suffices(&slots)).then(|| Pattern::union(&patterns))
}

/// The places of a pattern at which a guard holds.
fn guarded(
    bench: &mut Bench<'_>,
    reads: &Reads<'_>,
    guard: &Elements,
    pattern: Pattern,
    labels: [usize; 2],
) -> Result<Pattern, ExecuteError> {
    let mut truths = WindowMut::for_overwrite(DType::Bool, &[pattern.nnz()]);
    guard.run_at(bench, reads, &pattern, labels, &mut truths)?;
    let truths = truths.freeze();
    let truths = truths.slice::<u8>().unwrap_or_default();
    if truths.iter().all(|&truth| truth != 0) {
        return Ok(pattern);
    }
    let (mut starts, mut indices) = (vec![0], Vec::new());
    for row in 0..pattern.rows() {
        let places = pattern.places(row);
        let kept = pattern.row(row).iter().zip(&truths[places]).filter(|(_, truth)| **truth != 0);
        indices.extend(kept.map(|(column, _)| *column));
        starts.push(indices.len());
    }
    Ok(Pattern::new(pattern.rows(), pattern.columns(), starts, indices)?)
}

/// Adds one step of a product at the places of a tile.
fn sample(
    bench: &mut Bench<'_>,
    reads: &Reads<'_>,
    product: &ProductForm,
    mut tile: SparseTile,
) -> Result<SparseTile, ExecuteError> {
    let scale = product.scale(bench, reads)?;
    let (a, b) = (product.dense_factor(0, bench, reads)?, product.dense_factor(1, bench, reads)?);
    let [rows, columns, folded] = product.classes();
    // Rows of the result may be those of the right factor.
    let is_turned = rows.first() == Some(&1);
    let (a, b, rows, columns) = if is_turned { (b, a, columns, rows) } else { (a, b, rows, columns) };
    let extent = |labels: &[usize]| labels.first().map_or(1, |&label| reads.region.counts[label]);
    let (m, n, k) = (extent(rows), extent(columns), extent(folded));
    let step = |walk: &crate::region::Walk, labels: &[usize]| {
        labels.first().map_or(1, |&label| walk.steps[label] as isize)
    };
    macro_rules! run {
        ($csr:expr, $t:ty) => {{
            let csr = Arc::make_mut($csr);
            // SAFETY: walks stay within the windows of the region, whose elements are of this type.
            let (left, right) = unsafe {
                (
                    a.0.matrix::<$t>(a.1.start as isize, [m, k], [step(&a.1, rows), step(&a.1, folded)]),
                    b.0.matrix::<$t>(b.1.start as isize, [k, n], [step(&b.1, folded), step(&b.1, columns)]),
                )
            };
            let pattern = csr.pattern().clone();
            match scale.as_ref().and_then(|scale| scale.slice::<$t>()).map(|scale| scale[0]) {
                None => sampled_into(&pattern, left, right, csr.values_mut()),
                Some(scale) => {
                    let mut own = Csr::from_pattern(pattern.clone(), vec![<$t>::default(); pattern.nnz()])?;
                    sampled_into(&pattern, left, right, own.values_mut());
                    own.scale(scale);
                    *csr = csr.add(&own);
                }
            }
        }};
    }
    match &mut tile {
        SparseTile::I64(csr) => run!(csr, i64),
        SparseTile::F32(csr) => run!(csr, f32),
        SparseTile::F64(csr) => run!(csr, f64),
    }
    Ok(tile)
}

impl Elements {
    /// The elements at the places of a pattern, one after another.
    pub(crate) fn run_at(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        pattern: &Pattern,
        labels: [usize; 2],
        out: &mut WindowMut,
    ) -> Result<(), ExecuteError> {
        let nnz = pattern.nnz();
        let gathered = self.gather(bench, reads, pattern, labels)?;
        let lanes: Vec<Lane> = gathered
            .iter()
            .map(|window| match window.len() {
                1 if nnz != 1 => Lane::same(window.first().as_ptr().cast_const()),
                _ => Lane::contiguous(window.first().as_ptr().cast_const()),
            })
            .collect();
        // SAFETY: every lane has an element of its type for each place, and the result is ours.
        let is_zero_met = unsafe { self.formula().run(&lanes, nnz, out.first().as_ptr(), 1, bench.scratch) };
        match is_zero_met {
            true => self.look_for_zero_at(bench, reads, pattern, labels, &gathered),
            false => Ok(()),
        }
    }
}
