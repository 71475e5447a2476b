//! Forms: what an operator is for kernels. Each is found once, whatever the number of tiles.
//!
//! ```text
//! Product   C[i,j] = Σ A[i,k] B[k,j]         two factors over a semiring: matrix kernels
//! Fold      s[i] = Σ exp(A[i,j] - m[i])      a formula, reduced
//! Formula   D = 2 A + 3 B - A B              a formula
//! ```

mod elements;
mod finish;
mod fold;
mod manner;
mod nonzeros;
mod product;

pub(crate) use elements::Elements;
pub(crate) use finish::Finish;
pub(crate) use fold::FoldForm;
pub(crate) use manner::{Manner, manner};
pub(crate) use nonzeros::Nonzeros;
pub(crate) use product::ProductForm;

use fold::Number;

use crate::error::ExecuteError;
use crate::region::{Located, Numbers, Region, Walk, locate};
use crate::tile::Tile;
use crate::window::{Window, WindowMut};
use lacus_algebra::expr::{ReduceOp, Slot};
use lacus_algebra::{Known, Network, Operator, ProgramPlan, Tiles};
use lacus_tensor::DType;
use lacus_tensor::kernels::formula::Scratch;
use lacus_tensor::kernels::reduce::fold_rows;
use lacus_threads::Team;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The share of elements that are stored, of values that can stay sparse.
pub(crate) type Densities = HashMap<Slot, f64>;

/// An operator, ready to run on tiles.
pub(crate) struct Form {
    pub(crate) operator: usize,
    pub(crate) labels: Tiles,
    /// The tiles of each tensor that is read.
    tensors: Vec<Tiles>,
    dtypes: Vec<DType>,
    kind: Kind,
    /// What to do where operands are sparse.
    nonzeros: Option<Nonzeros>,
    /// The share of elements that are looked at: that of the sparsest operand.
    share: f64,
}

enum Kind {
    Product(Box<ProductForm>),
    Fold(Box<FoldForm>),
    Formula(Box<Elements>),
}

/// A tile, by its value and number.
pub(crate) type NamedTile = (Slot, u32, Tile);

/// What a unit works with.
pub(crate) struct Bench<'a> {
    pub(crate) network: &'a Network,
    pub(crate) known: &'a Known,
    pub(crate) tiles: &'a [NamedTile],
    pub(crate) scratch: &'a mut Scratch,
    /// Threads that it may use: more than one when no other unit runs.
    pub(crate) team: Team<'a>,
    /// Set when an integer is divided by zero, where that is no error.
    pub(crate) by_zero: Option<&'a AtomicBool>,
}

impl Bench<'_> {
    /// An integer was divided by zero, which gives zero: an error, or something to be told of.
    pub(crate) fn divided_by_zero(&self, at: Vec<i64>) -> Result<(), ExecuteError> {
        match self.by_zero {
            Some(by_zero) => {
                by_zero.store(true, Ordering::Relaxed);
                Ok(())
            }
            None => Err(ExecuteError::ZeroDivision { at }),
        }
    }
}

impl Form {
    pub(crate) fn of(plan: &ProgramPlan, number: usize, sparse: &Densities) -> Form {
        let operator = &plan.network.operators[number];
        let nonzeros = Nonzeros::of(&plan.network, operator, &|slot| sparse.contains_key(&slot));
        let shares = operator.reads.iter().filter_map(|read| sparse.get(&read.value));
        // What counts only where something is not zero goes by that, also if it is a product.
        let product = match nonzeros {
            Some(_) => None,
            None => ProductForm::of(&plan.network, operator),
        };
        let kind = match (&operator.fold, product) {
            (_, Some(product)) => Kind::Product(Box::new(product)),
            (Some(_), None) => Kind::Fold(Box::new(FoldForm::of(&plan.network, operator))),
            (None, None) => Kind::Formula(Box::new(Elements::of(&plan.network, operator, &operator.body))),
        };
        Form {
            operator: number,
            labels: plan.label_tiles(operator),
            tensors: operator.reads.iter().map(|read| plan.tiles(read.value)).collect(),
            dtypes: operator.reads.iter().map(|read| plan.network.value(read.value).dtype).collect(),
            kind,
            nonzeros,
            share: shares.copied().fold(1.0, f64::min),
        }
    }

    /// One step of a product of sparse matrices whose result is sparse, too. `Err` with what was there before if a factor
    /// is dense.
    pub(crate) fn run_sparse_product(
        &self,
        bench: &mut Bench<'_>,
        step: &[u64],
        before: Option<Tile>,
    ) -> Result<Result<Tile, Option<Tile>>, ExecuteError> {
        let Kind::Product(product) = &self.kind else { return Ok(Err(before)) };
        if step.contains(&u64::MAX) || matches!(before, Some(Tile::Dense(_))) {
            return Ok(Err(before));
        }
        let operator = &bench.network.operators[self.operator];
        let region = Region::of(&self.labels, step);
        let reads = Reads { form: self, operator, region: &region };
        let Some(found) = product.sparse_product(bench, &reads)? else { return Ok(Err(before)) };
        let sum = match &before {
            Some(Tile::Sparse(before)) => before.add(&found),
            _ => Some(found),
        };
        Ok(sum.map(Tile::Sparse).ok_or(before))
    }

    /// Bytes that [`Form::run_sparse_product`] is going to take, at most: the product of the step, and its sum with what was
    /// there before. `None` if a factor is dense.
    pub(crate) fn sparse_product_bytes(
        &self,
        bench: &Bench<'_>,
        step: &[u64],
        before: Option<&Tile>,
    ) -> Option<u64> {
        let Kind::Product(product) = &self.kind else { return None };
        if step.contains(&u64::MAX) {
            return None;
        }
        let operator = &bench.network.operators[self.operator];
        let region = Region::of(&self.labels, step);
        let own = product.most_bytes(bench, &Reads { form: self, operator, region: &region })?;
        match before {
            Some(Tile::Sparse(before)) => Some(2 * own + before.size_bytes()),
            Some(Tile::Dense(_)) => None,
            None => Some(own),
        }
    }

    /// Operations of a step, as people count them.
    pub(crate) fn operations(&self, step: &[u64]) -> f64 {
        let region = match step.contains(&u64::MAX) {
            true => return 0.0,
            false => Region::of(&self.labels, step),
        };
        let all = region.counts.iter().map(|&n| n as f64).product::<f64>() * self.share;
        match &self.kind {
            Kind::Product(_) => 2.0 * all,
            Kind::Fold(fold) => all * (fold.size() + 1) as f64,
            Kind::Formula(elements) => all * elements.size() as f64,
        }
    }

    /// One step of a tile: all of it where nothing is folded. `is_first` says that nothing was folded into `out` yet, and
    /// `finish` what is to be done with the tile after its last step.
    pub(crate) fn run(
        &self,
        bench: &mut Bench<'_>,
        step: &[u64],
        out: &mut WindowMut,
        is_first: bool,
        finish: Option<&Finish<'_>>,
    ) -> Result<(), ExecuteError> {
        let operator = &bench.network.operators[self.operator];
        if step.contains(&u64::MAX) {
            fill_identity(operator, out)?;
            return finish.map_or(Ok(()), |finish| finish.all(bench.scratch, out));
        }
        let region = Region::of(&self.labels, step);
        let reads = Reads { form: self, operator, region: &region };
        match (&self.kind, finish) {
            // These have parts, each of which is finished at once.
            (Kind::Product(product), _) => return product.run(bench, &reads, out, is_first, finish),
            (Kind::Formula(elements), Some(finish)) => {
                return self.run_by_parts(bench, elements, &reads, out, finish);
            }
            (Kind::Formula(elements), None) => elements.run_into(bench, &reads, out)?,
            (Kind::Fold(fold), _) => self.fold(bench, fold, &reads, out, is_first)?,
        }
        finish.map_or(Ok(()), |finish| finish.all(bench.scratch, out))
    }

    fn fold(
        &self,
        bench: &mut Bench<'_>,
        fold: &FoldForm,
        reads: &Reads<'_>,
        out: &mut WindowMut,
        is_first: bool,
    ) -> Result<(), ExecuteError> {
        if self.multiply_where(bench, reads, out, is_first)? {
            return Ok(());
        }
        if is_first {
            fill_identity(reads.operator, out)?;
        }
        if self.fold_nonzeros(bench, reads, out)? {
            return Ok(());
        }
        fold.run(bench, reads, out)
    }

    fn run_by_parts(
        &self,
        bench: &mut Bench<'_>,
        elements: &Elements,
        reads: &Reads<'_>,
        out: &mut WindowMut,
        finish: &Finish<'_>,
    ) -> Result<(), ExecuteError> {
        let tile = out.window().clone();
        finish::each_part(tile.shape(), |starts, shape| {
            let mut region = reads.region.clone();
            region.narrow(starts, shape);
            let reads = Reads { form: self, operator: reads.operator, region: &region };
            // SAFETY: the tile is borrowed exclusively, and this is one part of it after another.
            unsafe {
                elements.run_into(bench, &reads, &mut WindowMut::within(&tile, starts, shape))?;
                finish.part(bench.scratch, &tile, starts, shape)
            }
        })
    }
}

/// The reads of an operator in a region.
pub(crate) struct Reads<'a> {
    form: &'a Form,
    pub(crate) operator: &'a Operator,
    pub(crate) region: &'a Region,
}

impl Reads<'_> {
    /// What a read needs, as one window.
    pub(crate) fn locate(&self, read: usize, bench: &Bench<'_>) -> Located {
        let numbers = Numbers { network: bench.network, known: bench.known };
        let place = &self.operator.reads[read];
        // Sparse tiles that a formula looks at are made dense, one at a time.
        let dense: Vec<(u32, Cow<'_, Window>)> = bench
            .tiles
            .iter()
            .filter(|(value, ..)| *value == place.value)
            .map(|(_, tile, found)| (*tile, found.dense()))
            .collect();
        let tile = |number: usize| dense.iter().find(|(tile, _)| *tile as usize == number).map(|(_, w)| &**w);
        let (tensor, dtype) = (&self.form.tensors[read], self.form.dtypes[read]);
        locate(&place.at, self.region, &numbers, tensor, dtype, &tile)
    }

    /// The one tile that a read by indices needs, as it is.
    pub(crate) fn tile<'b>(&self, read: usize, bench: &'b Bench<'_>) -> Option<&'b Tile> {
        let (place, tensor) = (&self.operator.reads[read], &self.form.tensors[read]);
        let at: Option<Vec<u64>> = place
            .at
            .iter()
            .zip(&tensor.blocks)
            .map(|(at, block)| Some(self.region.starts[at.as_index()?.0 as usize] as u64 / block))
            .collect();
        let number = tensor.number(&at?) as u32;
        let found = bench.tiles.iter().find(|(value, tile, _)| *value == place.value && *tile == number);
        found.map(|(.., tile)| tile)
    }

    pub(crate) fn walk(&self, read: usize, located: &Located, bench: &Bench<'_>) -> Walk {
        let numbers = Numbers { network: bench.network, known: bench.known };
        located.walk(&self.operator.reads[read].at, self.region, &numbers)
    }
}

/// Calls generic code with the type of elements.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            lacus_tensor::DType::Bool => {
                type $T = u8;
                $body
            }
            lacus_tensor::DType::I64 => {
                type $T = i64;
                $body
            }
            lacus_tensor::DType::F32 => {
                type $T = f32;
                $body
            }
            _ => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(crate) use with_type;

/// What nothing folds to, everywhere.
fn fill_identity(operator: &Operator, out: &mut WindowMut) -> Result<(), ExecuteError> {
    let dtype = out.window().dtype();
    let Some(fold) = &operator.fold else { return Ok(()) };
    let identity = fold
        .op
        .identity(dtype)
        .ok_or_else(|| ExecuteError::Internal { what: "a fold without an identity".to_owned() })?;
    crate::window::fill(out, identity);
    Ok(())
}

/// Folds one contribution into a tile.
pub(crate) fn combine(
    operator: &Operator,
    out: &mut WindowMut,
    contribution: &Window,
) -> Result<(), ExecuteError> {
    let Some(fold) = &operator.fold else { return Ok(()) };
    let contribution = contribution.clone().into_contiguous();
    let strided = || ExecuteError::Internal { what: "a tile with gaps".to_owned() };
    if out.window().is_contiguous() {
        return fold_windows(&fold.op, out, &contribution).ok_or_else(strided);
    }
    let mut copy = WindowMut::for_overwrite(contribution.dtype(), contribution.shape());
    copy.copy_from(out.window());
    fold_windows(&fold.op, &mut copy, &contribution).ok_or_else(strided)?;
    out.copy_from(copy.window());
    Ok(())
}

fn fold_windows(op: &ReduceOp, out: &mut WindowMut, from: &Window) -> Option<()> {
    with_type!(from.dtype(), T => {
        let (out, from) = (out.slice_mut::<T>()?, from.slice::<T>()?);
        match op {
            ReduceOp::Op(op) => fold_rows(*op, out, from),
            ReduceOp::Function(function) => out.iter_mut().zip(from).for_each(|(a, b)| {
                *a = T::of(function.call(&[a.double(), b.double()]));
            }),
        }
    });
    Some(())
}
