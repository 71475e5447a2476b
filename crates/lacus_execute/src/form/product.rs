//! Products of two factors over a semiring: `C = ⊕ (A ⊗ B)`, done by matrix kernels.
//!
//! Labels fall into four classes: those of A and C are rows, of B and C columns, of A and B folded, of all three a batch.
//! Of each class as many labels as go on in memory become one axis of a matrix; the others are loops around it.

use super::{Bench, Elements, Finish, Reads, fill_identity, with_type};
use crate::error::ExecuteError;
use crate::region::{Walk, each_place, merge};
use crate::tile::{SparseTile, Tile};
use crate::window::{Window, WindowMut};
use lacus_algebra::expr::{Element, ElementNode, ReduceOp};
use lacus_algebra::{BinaryOp, Network, Operator};
use lacus_tensor::DType;
use lacus_tensor::kernels::matrix::{MatrixMut, MatrixRef};
use lacus_tensor::kernels::multiply::{Then, multiply_add_then};
use lacus_tensor::kernels::semiring::fold_product;

/// A product of two factors.
pub(crate) struct ProductForm {
    plus: BinaryOp,
    times: BinaryOp,
    dtype: DType,
    factors: [Factor; 2],
    /// What all products are multiplied by; only for sums of products.
    scale: Option<Elements>,
    /// The classes of labels.
    rows: Vec<usize>,
    columns: Vec<usize>,
    folded: Vec<usize>,
    batch: Vec<usize>,
}

/// One side of a product.
struct Factor {
    labels: Vec<usize>,
    elements: Elements,
    /// The read it is, when its axes are its labels.
    read: Option<usize>,
}

impl ProductForm {
    /// The product that an operator is; `None` for anything else. Also if a factor is a formula of which every element is
    /// needed once: to fold it as it is made takes no memory.
    pub(crate) fn of(network: &Network, operator: &Operator) -> Option<ProductForm> {
        if operator.fold.as_ref()?.guard.is_some() {
            return None;
        }
        let labels = operator.labels().len();
        let is_needed_once = |factor: &Factor| factor.read.is_none() && factor.labels.len() == labels;
        ProductForm::within(network, operator).filter(|product| !product.factors.iter().any(is_needed_once))
    }

    /// The product that a guard lets count.
    pub(crate) fn within(network: &Network, operator: &Operator) -> Option<ProductForm> {
        let fold = operator.fold.as_ref()?;
        let ReduceOp::Op(plus) = &fold.op else { return None };
        let ElementNode::Binary(times, ..) = operator.body.node else { return None };
        if !times.distributes_over(*plus) || times == *plus {
            return None;
        }
        let mut parts = Vec::new();
        split(&operator.body, times, &mut parts);
        let count = operator.labels().len();
        let labels = |element: &Element| -> Vec<usize> {
            (0..count).filter(|&label| element.uses(lacus_algebra::expr::Index(label as u32))).collect()
        };
        let (numbers, tensors): (Vec<&Element>, Vec<&Element>) =
            parts.into_iter().partition(|part| labels(part).is_empty());
        let [a, b] = tensors[..] else { return None };
        if !numbers.is_empty() && (*plus, times) != (BinaryOp::Add, BinaryOp::Mul) {
            return None;
        }
        let (in_a, in_b) = (labels(a), labels(b));
        let rank = operator.axes.len();
        let (mut rows, mut columns, mut folded, mut batch) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for label in 0..count {
            match (in_a.contains(&label), in_b.contains(&label), label < rank) {
                (true, true, true) => batch.push(label),
                (true, true, false) => folded.push(label),
                (true, false, true) => rows.push(label),
                (false, true, true) => columns.push(label),
                _ => return None,
            }
        }
        if folded.is_empty() {
            return None;
        }
        let scale = numbers.into_iter().cloned().reduce(|x, y| {
            let dtype = x.dtype;
            Element { node: ElementNode::Binary(BinaryOp::Mul, Box::new(x), Box::new(y)), dtype }
        });
        let factor = |element: &Element, labels: Vec<usize>| {
            let elements = Elements::of(network, operator, element);
            let read = elements.as_read().filter(|&read| {
                let at = &operator.reads[read].at;
                let own: Option<Vec<usize>> =
                    at.iter().map(|at| at.as_index().map(|index| index.0 as usize)).collect();
                // Each label once, and the whole of every axis.
                own.is_some_and(|own| {
                    own.len() == labels.len() && {
                        let dims = &network.value(operator.reads[read].value).dims;
                        let extents = operator.labels();
                        own.iter().zip(dims).all(|(&label, extent)| extents[label].extent == *extent)
                    }
                })
            });
            Factor { labels, elements, read }
        };
        Some(ProductForm {
            plus: *plus,
            times,
            dtype: operator.body.dtype,
            factors: [factor(a, in_a), factor(b, in_b)],
            scale: scale.map(|scale| Elements::of(network, operator, &scale)),
            rows,
            columns,
            folded,
            batch,
        })
    }

    /// One step, after which the tile is finished if there is something to finish it.
    pub(crate) fn run(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        out: &mut WindowMut,
        is_first: bool,
        finish: Option<&Finish<'_>>,
    ) -> Result<(), ExecuteError> {
        let is_finished = self.multiply(bench, reads, out, is_first, finish)?;
        match finish.filter(|_| !is_finished) {
            Some(finish) => finish.all(bench.scratch, out),
            None => Ok(()),
        }
    }

    /// True if parts of the tile were finished as they were done.
    fn multiply(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        out: &mut WindowMut,
        is_first: bool,
        finish: Option<&Finish<'_>>,
    ) -> Result<bool, ExecuteError> {
        let scale = self.scale(bench, reads)?;
        let is_sum = (self.plus, self.times) == (BinaryOp::Add, BinaryOp::Mul) && self.dtype != DType::Bool;
        if is_sum && self.run_sparse(bench, reads, out, scale.as_ref(), is_first)? {
            return Ok(false);
        }
        if self.rows.len().max(self.columns.len()) > 1 && !out.window().is_contiguous() {
            let mut own = WindowMut::for_overwrite(self.dtype, out.window().shape());
            if !is_first {
                own.copy_from(out.window());
            }
            self.multiply(bench, reads, &mut own, is_first, None)?;
            out.copy_from(own.window());
            return Ok(false);
        }
        let (a, b) = (self.factor(0, bench, reads)?, self.factor(1, bench, reads)?);
        let count = reads.region.counts.len();
        let rank = out.window().strides().len();
        let axes: Vec<usize> = (0..rank).collect();
        let walks = [a.1, b.1, Walk::of_labels(out.window().strides(), &axes, count)];
        if !is_sum && is_first {
            fill_identity(reads.operator, out)?;
        }
        let nest = Nest::of(self, &reads.region.counts, &walks);
        // Parts of one matrix are parts of the tile.
        let finish = finish.filter(|_| is_sum && self.is_one_matrix() && nest.is_alone());
        let tile = out.window().clone();
        let mut outcome = Ok(());
        let mut then = |at: [usize; 2], shape: [usize; 2]| {
            if let (Some(finish), Ok(())) = (finish, &outcome) {
                let ([row, column], [rows, columns]) = (at, shape);
                let (mut starts, mut counts) = (vec![0; rank], vec![1; rank]);
                for &label in &self.rows {
                    (starts[label], counts[label]) = (row, rows);
                }
                for &label in &self.columns {
                    (starts[label], counts[label]) = (column, columns);
                }
                // SAFETY: the kernel lends this part.
                outcome = unsafe { finish.part(bench.scratch, &tile, &starts, &counts) };
            }
        };
        with_type!(self.dtype, T => {
            let one = scale.as_ref().and_then(|scale| scale.slice::<T>()).map(|scale| scale[0]);
            nest.each(|[at_a, at_b, at_c], is_first_fold| {
                // SAFETY: the walks stay within the windows of the region, whose elements are of this type; nobody else
                // has the part of the result.
                unsafe {
                    let [m, n, k] = nest.extents;
                    let s = &nest.strides;
                    let a: MatrixRef<'_, T> = a.0.matrix(at_a, [m, k], [s[0][0], s[2][0]]);
                    let b: MatrixRef<'_, T> = b.0.matrix(at_b, [k, n], [s[2][1], s[1][1]]);
                    let c: MatrixMut<'_, T> = out.matrix(at_c, [m, n], [s[0][2], s[1][2]]);
                    let is_first = is_first && is_first_fold;
                    let then: &mut Then<'_, T> = &mut |at, part| then(at, [part.rows(), part.columns()]);
                    Multiply::go(self, c, one, a, b, is_first, is_sum, then);
                }
            });
        });
        outcome.map(|()| finish.is_some())
    }

    /// Whether rows and columns are one label each, or none.
    fn is_one_matrix(&self) -> bool {
        self.batch.is_empty() && self.rows.len() <= 1 && self.columns.len() <= 1
    }

    /// What all products are multiplied by, as a single number.
    pub(crate) fn scale(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
    ) -> Result<Option<Window>, ExecuteError> {
        let Some(scale) = &self.scale else { return Ok(None) };
        let mut one = WindowMut::for_overwrite(self.dtype, &[]);
        scale.run_over(bench, reads, &mut one, &[])?;
        Ok(Some(one.freeze()))
    }

    /// Whether it is a sum of products of matrices or vectors, whose factors may be sparse.
    pub(crate) fn takes_sparse(&self) -> bool {
        (self.plus, self.times) == (BinaryOp::Add, BinaryOp::Mul)
            && self.dtype != DType::Bool
            && self.batch.is_empty()
            && self.folded.len() == 1
            && self.rows.len() <= 1
            && self.columns.len() <= 1
    }

    /// Whether it has one label each of rows, columns and the fold, and no others.
    pub(crate) fn is_of_matrices(&self) -> bool {
        self.batch.is_empty() && self.classes().iter().all(|labels| labels.len() == 1)
    }

    /// Whether a read is one of the factors as it is, and nothing else.
    pub(crate) fn is_factor(&self, operator: &Operator, read: &lacus_algebra::Read) -> bool {
        let is_one = |factor: &Factor| factor.read.is_some_and(|at| operator.reads[at] == *read);
        read.at.len() == 2 && self.factors.iter().any(is_one)
    }

    /// A factor as a window, and how one goes through it.
    fn factor(
        &self,
        which: usize,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
    ) -> Result<(Window, Walk), ExecuteError> {
        let factor = &self.factors[which];
        let count = reads.region.counts.len();
        if let Some(read) = factor.read {
            let mut located = reads.locate(read, bench);
            // Which labels go on as one must not depend on whether a tile is a part of a larger array: bits would, too.
            if self.classes().iter().any(|labels| labels.len() > 1) {
                located.window = located.window.into_contiguous();
            }
            let walk = reads.walk(read, &located, bench);
            return Ok((located.window, walk));
        }
        let shape: Vec<usize> = factor.labels.iter().map(|&label| reads.region.counts[label]).collect();
        let mut made = WindowMut::for_overwrite(self.dtype, &shape);
        factor.elements.run_over(bench, reads, &mut made, &factor.labels)?;
        let made = made.freeze();
        let walk = Walk::of_labels(made.strides(), &factor.labels, count);
        Ok((made, walk))
    }

    /// A product with a sparse tile, without making it dense. False if there is none.
    fn run_sparse(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        out: &mut WindowMut,
        scale: Option<&Window>,
        is_first: bool,
    ) -> Result<bool, ExecuteError> {
        let tiles: Vec<Option<Tile>> = self
            .factors
            .iter()
            .map(|factor| {
                factor.read.and_then(|read| reads.tile(read, bench)).filter(|t| t.is_sparse()).cloned()
            })
            .collect();
        if tiles.iter().all(Option::is_none) || !self.takes_sparse() {
            return Ok(false);
        }
        crate::sparse::multiply(self, bench, reads, out, scale, is_first, tiles)
    }

    /// Bytes of the product of two sparse tiles, at most; `None` if one of them is dense.
    pub(crate) fn most_bytes(&self, bench: &Bench<'_>, reads: &Reads<'_>) -> Option<u64> {
        let tile = |which: usize| match reads.tile(self.factors[which].read?, bench)? {
            Tile::Sparse(sparse) => Some(sparse),
            Tile::Dense(_) => None,
        };
        Some(crate::sparse::most_bytes(self, reads, tile(0)?, tile(1)?))
    }

    /// A product of two sparse tiles as a sparse tile; `None` if one of them is dense.
    pub(crate) fn sparse_product(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
    ) -> Result<Option<SparseTile>, ExecuteError> {
        let tile = |which: usize| match self.factors[which].read.and_then(|read| reads.tile(read, bench)) {
            Some(Tile::Sparse(sparse)) => Some(sparse.clone()),
            _ => None,
        };
        let (Some(a), Some(b)) = (tile(0), tile(1)) else { return Ok(None) };
        let scale = self.scale(bench, reads)?;
        Ok(crate::sparse::multiply_sparse(self, reads, scale.as_ref(), &a, &b))
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// The labels of rows, columns and the fold.
    pub(crate) fn classes(&self) -> [&[usize]; 3] {
        [&self.rows, &self.columns, &self.folded]
    }

    /// The labels of a factor's axes in order.
    pub(crate) fn axes(&self, which: usize, reads: &Reads<'_>) -> Vec<usize> {
        match self.factors[which].read {
            Some(read) => {
                let at = &reads.operator.reads[read].at;
                at.iter().filter_map(|at| at.as_index().map(|index| index.0 as usize)).collect()
            }
            None => self.factors[which].labels.clone(),
        }
    }

    pub(crate) fn dense_factor(
        &self,
        which: usize,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
    ) -> Result<(Window, Walk), ExecuteError> {
        self.factor(which, bench, reads)
    }
}

/// Loops around one matrix product.
struct Nest {
    /// Rows, columns, folded.
    extents: [usize; 3],
    /// Of rows, columns and folded: elements from one to the next in A, B and C.
    strides: [[isize; 3]; 3],
    /// Loops around: of rows, columns and batches, then of what is folded.
    around: (Vec<usize>, [Walk; 3]),
    folds: (Vec<usize>, [Walk; 3]),
}

impl Nest {
    fn of(form: &ProductForm, counts: &[usize], walks: &[Walk; 3]) -> Nest {
        let class = |labels: &[usize]| -> (Vec<usize>, Vec<Walk>) {
            // In the order in which the result, or else the left factor, has them.
            let mut labels = labels.to_vec();
            labels.sort_by_key(|&label| {
                let of = |walk: &Walk| std::cmp::Reverse(walk.steps[label].unsigned_abs());
                (of(&walks[2]), of(&walks[0]), of(&walks[1]))
            });
            let extents: Vec<usize> = labels.iter().map(|&label| counts[label]).collect();
            let mut own: Vec<Walk> = walks
                .iter()
                .map(|walk| Walk { start: 0, steps: labels.iter().map(|&label| walk.steps[label]).collect() })
                .collect();
            let extents = merge(&extents, &mut own);
            (extents, own)
        };
        let still = |starts: bool| {
            walks.clone().map(|walk| Walk { start: if starts { walk.start } else { 0 }, steps: Vec::new() })
        };
        let mut nest = Nest {
            extents: [1; 3],
            strides: [[1; 3]; 3],
            around: (Vec::new(), still(true)),
            folds: (Vec::new(), still(false)),
        };
        let (batches, own) = class(&form.batch);
        nest.loops(false, &batches, &own, None);
        for (which, labels) in [&form.rows, &form.columns, &form.folded].into_iter().enumerate() {
            let (extents, own) = class(labels);
            // The longest is the matrix's.
            let longest = (0..extents.len()).max_by_key(|&at| (extents[at], at));
            if let Some(at) = longest {
                nest.extents[which] = extents[at];
                for (operand, walk) in own.iter().enumerate() {
                    nest.strides[which][operand] = walk.steps[at] as isize;
                }
            }
            nest.loops(which == 2, &extents, &own, longest);
        }
        nest
    }

    /// Whether there are no loops around the matrix product.
    fn is_alone(&self) -> bool {
        self.around.0.is_empty() && self.folds.0.is_empty()
    }

    fn loops(&mut self, is_fold: bool, extents: &[usize], own: &[Walk], except: Option<usize>) {
        let to = if is_fold { &mut self.folds } else { &mut self.around };
        for (at, &extent) in extents.iter().enumerate().filter(|(at, _)| Some(*at) != except) {
            to.0.push(extent);
            for (walk, own) in to.1.iter_mut().zip(own) {
                walk.steps.push(own.steps[at]);
            }
        }
    }

    /// Calls with the places of A, B and C, and whether this is the first product of the fold there.
    fn each(&self, mut call: impl FnMut([isize; 3], bool)) {
        each_place(&self.around.0, &self.around.1, |outer| {
            let mut is_first = true;
            each_place(&self.folds.0, &self.folds.1, |inner| {
                call(
                    [0, 1, 2].map(|at| (outer[at] + inner[at]) as isize),
                    std::mem::replace(&mut is_first, false),
                );
            });
        });
    }
}

fn split<'e>(element: &'e Element, times: BinaryOp, parts: &mut Vec<&'e Element>) {
    match &element.node {
        ElementNode::Binary(op, a, b) if *op == times => {
            split(a, times, parts);
            split(b, times, parts);
        }
        _ => parts.push(element),
    }
}

/// The kernel for a type.
trait Multiply: Copy {
    #[expect(clippy::too_many_arguments, reason = "a product is all of these")]
    fn go(
        form: &ProductForm,
        c: MatrixMut<'_, Self>,
        scale: Option<Self>,
        a: MatrixRef<'_, Self>,
        b: MatrixRef<'_, Self>,
        is_first: bool,
        is_sum: bool,
        then: &mut Then<'_, Self>,
    );
}

macro_rules! multiply {
    ($($t:ty, $one:expr);*) => {$(
        impl Multiply for $t {
            fn go(
                form: &ProductForm,
                c: MatrixMut<'_, $t>,
                scale: Option<$t>,
                a: MatrixRef<'_, $t>,
                b: MatrixRef<'_, $t>,
                is_first: bool,
                is_sum: bool,
                then: &mut Then<'_, $t>,
            ) {
                match is_sum {
                    true => multiply_add_then(c, scale.unwrap_or($one), a, b, is_first, then),
                    false => fold_product(form.plus, form.times, c, a, b),
                }
            }
        }
    )*};
}
multiply!(f64, 1.0; f32, 1.0; i64, 1);

impl Multiply for u8 {
    fn go(
        form: &ProductForm,
        c: MatrixMut<'_, u8>,
        _: Option<u8>,
        a: MatrixRef<'_, u8>,
        b: MatrixRef<'_, u8>,
        _: bool,
        _: bool,
        _: &mut Then<'_, u8>,
    ) {
        fold_product(form.plus, form.times, c, a, b);
    }
}
