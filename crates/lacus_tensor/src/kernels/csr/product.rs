//! Products of a sparse with a dense matrix, into a dense one.
//!
//! Columns of the dense matrices go by blocks whose sums stay in registers. Only two loops are needed: dense × sparse
//! is sparse × dense with everything transposed, and strides make transposing free.

use super::{Csr, Value};
use crate::kernels::matrix::{MatrixMut, MatrixRef};
use crate::kernels::vectorise::prefetch;
use crate::op::BinaryOp;
use std::ops::Range;

/// What plus and times mean. The zero, which is what is not stored, is the identity of plus and annihilates times.
pub(super) trait Ring<T>: Copy {
    /// True when the operations are known to the compiler.
    const IS_FAST: bool;
    fn zero(self) -> T;
    fn plus(self, a: T, b: T) -> T;
    fn times(self, a: T, b: T) -> T;
}

/// Sum and product of the type.
#[derive(Clone, Copy)]
pub(super) struct Arithmetic;

impl<T: Value> Ring<T> for Arithmetic {
    const IS_FAST: bool = true;

    #[inline(always)]
    fn zero(self) -> T {
        T::ZERO
    }

    #[inline(always)]
    fn plus(self, a: T, b: T) -> T {
        a.add(b)
    }

    #[inline(always)]
    fn times(self, a: T, b: T) -> T {
        a.mul(b)
    }
}

/// The least (or the greatest) of sums: shortest and longest paths.
#[derive(Clone, Copy)]
pub(super) struct Paths<T, const IS_LEAST: bool>(pub(super) T);

impl<T: Value, const IS_LEAST: bool> Ring<T> for Paths<T, IS_LEAST> {
    const IS_FAST: bool = true;

    #[inline(always)]
    fn zero(self) -> T {
        self.0
    }

    #[inline(always)]
    fn plus(self, a: T, b: T) -> T {
        if IS_LEAST { a.lesser(b) } else { a.greater(b) }
    }

    #[inline(always)]
    fn times(self, a: T, b: T) -> T {
        a.add(b)
    }
}

/// Calls a function with the ring of two operations as its first argument. Those that programs are written with are known
/// to the compiler.
macro_rules! over {
    ([$plus:expr, $times:expr], $function:path, $type:ty, $($arg:expr),*) => {{
        let zero = $plus.identity(<$type>::DTYPE).expect("the sum of a semiring has an identity");
        let zero = <$type>::from_scalar(zero);
        match ($plus, $times) {
            (BinaryOp::Add, BinaryOp::Mul) => $function(Arithmetic, $($arg),*),
            (BinaryOp::Min, BinaryOp::Add) => $function(Paths::<$type, true>(zero), $($arg),*),
            (BinaryOp::Max, BinaryOp::Add) => $function(Paths::<$type, false>(zero), $($arg),*),
            (plus, times) => $function(Pair { plus, times, zero }, $($arg),*),
        }
    }};
}
pub(super) use over;

/// Two operations that are looked up for every element: any semiring, and slow.
#[derive(Clone, Copy)]
pub(super) struct Pair<T> {
    pub(super) plus: BinaryOp,
    pub(super) times: BinaryOp,
    pub(super) zero: T,
}

impl<T: Value> Ring<T> for Pair<T> {
    const IS_FAST: bool = false;

    #[inline(always)]
    fn zero(self) -> T {
        self.zero
    }

    #[inline(always)]
    fn plus(self, a: T, b: T) -> T {
        a.binary(self.plus, b)
    }

    #[inline(always)]
    fn times(self, a: T, b: T) -> T {
        a.binary(self.times, b)
    }
}

/// Runs a function compiled twice: for the vectors of AVX2 where they exist, and for any machine. Both round alike:
/// product and sum are never fused.
macro_rules! with_vectors {
    ($(#[$doc:meta])* $name:ident<$($generic:ident: $bound:path),*; $($konst:ident)?> = $body:ident($($arg:ident: $type:ty),*)) => {
        $(#[$doc])*
        unsafe fn $name<$($generic: $bound),* $(, const $konst: usize)?>($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                unsafe fn wide<$($generic: $bound),* $(, const $konst: usize)?>($($arg: $type),*) {
                    // SAFETY: the caller's promise.
                    unsafe { $body::<$($generic),* $(, $konst)?>($($arg),*) }
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the caller's promise, and the machine has AVX2.
                    return unsafe { wide::<$($generic),* $(, $konst)?>($($arg),*) };
                }
            }
            // SAFETY: the caller's promise.
            unsafe { $body::<$($generic),* $(, $konst)?>($($arg),*) }
        }
    };
}
pub(super) use with_vectors;

/// Elements in memory with strides; bounds are the business of who uses it.
#[derive(Clone, Copy)]
struct Source<T> {
    first: *const T,
    row_stride: isize,
    column_stride: isize,
}

/// As [`Source`], to be written.
#[derive(Clone, Copy)]
struct Target<T> {
    first: *mut T,
    row_stride: isize,
    column_stride: isize,
}

impl<T: Value> Csr<T> {
    /// `C += alpha · A · B`, or `C = …` if this is the first term: then what C holds is not read. May copy up to 32 columns
    /// of B at a time.
    ///
    /// # Panics
    /// If the shapes disagree.
    pub fn multiply_dense(&self, alpha: T, b: MatrixRef<'_, T>, c: MatrixMut<'_, T>, is_first: bool) {
        forward_product(Arithmetic, 0..self.rows(), self, alpha, b, c, is_first);
    }

    /// The same for some rows of A, which are all that C has.
    ///
    /// # Panics
    /// If the shapes disagree, or if A has no such rows.
    pub fn multiply_dense_rows(
        &self,
        rows: Range<usize>,
        alpha: T,
        b: MatrixRef<'_, T>,
        c: MatrixMut<'_, T>,
        is_first: bool,
    ) {
        assert!(rows.end <= self.rows(), "rows of a product");
        forward_product(Arithmetic, rows, self, alpha, b, c, is_first);
    }

    /// Its rows in so many parts, with about as many elements in each.
    pub fn even_rows(&self, parts: usize) -> Vec<Range<usize>> {
        let mut from = 0;
        let end = |part: usize| match part == parts {
            true => self.rows(),
            false => self.pattern.starts.partition_point(|&start| start < self.nnz() / parts * part),
        };
        (1..=parts)
            .map(|part| {
                let end = end(part).clamp(from, self.rows());
                std::mem::replace(&mut from, end)..end
            })
            .collect()
    }

    /// `C ⊕= A · B` over a semiring. What A does not store is the identity of `plus` and must annihilate `times`, as
    /// infinity does for min and plus. Other operations than (+, ×), (min, +) and (max, +) are slow: they are looked up for
    /// every element.
    ///
    /// # Panics
    /// If the shapes disagree, or if `plus` has no identity.
    pub fn multiply_dense_over(
        &self,
        [plus, times]: [BinaryOp; 2],
        b: MatrixRef<'_, T>,
        c: MatrixMut<'_, T>,
        is_first: bool,
    ) {
        over!([plus, times], forward_product, T, 0..self.rows(), self, T::ONE, b, c, is_first);
    }

    /// `C += alpha · Aᵀ · B` without ever making Aᵀ. May copy up to 32 columns of C at a time.
    ///
    /// # Panics
    /// If the shapes disagree.
    pub fn multiply_dense_transposed(
        &self,
        alpha: T,
        b: MatrixRef<'_, T>,
        c: MatrixMut<'_, T>,
        is_first: bool,
    ) {
        backward_product(Arithmetic, self, alpha, b, c, is_first);
    }

    /// `C ⊕= Aᵀ · B` over a semiring, see [`Csr::multiply_dense_over`].
    ///
    /// # Panics
    /// If the shapes disagree, or if `plus` has no identity.
    pub fn multiply_dense_transposed_over(
        &self,
        [plus, times]: [BinaryOp; 2],
        b: MatrixRef<'_, T>,
        c: MatrixMut<'_, T>,
        is_first: bool,
    ) {
        over!([plus, times], backward_product, T, self, T::ONE, b, c, is_first);
    }
}

/// `C += alpha · A · B` with a sparse B, or `C = …` if this is the first term.
///
/// # Panics
/// If the shapes disagree.
pub fn dense_multiply<T: Value>(
    alpha: T,
    a: MatrixRef<'_, T>,
    b: &Csr<T>,
    c: MatrixMut<'_, T>,
    is_first: bool,
) {
    b.multiply_dense_transposed(alpha, a.transposed(), c.transposed(), is_first);
}

/// `C += alpha · A · Bᵀ` with a sparse B, without ever making Bᵀ.
///
/// # Panics
/// If the shapes disagree.
pub fn dense_multiply_transposed<T: Value>(
    alpha: T,
    a: MatrixRef<'_, T>,
    b: &Csr<T>,
    c: MatrixMut<'_, T>,
    is_first: bool,
) {
    b.multiply_dense(alpha, a.transposed(), c.transposed(), is_first);
}

/// Calls a function with blocks of columns: 32 at a time, then ever fewer. Slow operations go one by one, since unrolling
/// them would only make code.
macro_rules! by_blocks {
    ($columns:expr, |$at:ident| $function:ident::<_, _, N>($($arg:expr),*)) => {{
        let columns = $columns;
        let mut $at = 0;
        // SAFETY: `at` and the block together stay within the columns; see the callers for the rest.
        unsafe {
            while R::IS_FAST && columns - $at >= 32 {
                $function::<_, _, 32>($($arg),*);
                $at += 32;
            }
            while R::IS_FAST && columns - $at >= 8 {
                $function::<_, _, 8>($($arg),*);
                $at += 8;
            }
            if R::IS_FAST && columns - $at >= 4 {
                $function::<_, _, 4>($($arg),*);
                $at += 4;
            }
            if R::IS_FAST && columns - $at >= 2 {
                $function::<_, _, 2>($($arg),*);
                $at += 2;
            }
            while columns - $at >= 1 {
                $function::<_, _, 1>($($arg),*);
                $at += 1;
            }
        }
    }};
}

/// True when rows are used so often that a block of columns should lie closer together, even if they are side by side.
fn pays<T: Value>(a: &Csr<T>, columns: usize) -> bool {
    columns > 64 && a.nnz() > 8 * a.columns()
}

fn forward_product<T: Value, R: Ring<T>>(
    ring: R,
    rows: Range<usize>,
    a: &Csr<T>,
    alpha: T,
    b: MatrixRef<'_, T>,
    mut c: MatrixMut<'_, T>,
    is_first: bool,
) {
    assert_eq!(b.rows(), a.columns(), "the inner extents of a product");
    assert_eq!([c.rows(), c.columns()], [rows.len(), b.columns()], "the shape of a product");
    if c.rows() == 0 || c.columns() == 0 {
        return;
    }
    let b_all = Source { first: b.as_ptr(), row_stride: b.row_stride(), column_stride: b.column_stride() };
    let (row_stride, column_stride) = (c.row_stride(), c.column_stride());
    // Where the first row of all would be.
    let first = c.as_mut_ptr().wrapping_offset(-(rows.start as isize) * row_stride);
    let c_all = Target { first, row_stride, column_stride };
    // Rows of B are read once per element of A: side by side, or brought there first. A single column is as good.
    let is_packed = b.columns() > 1 && (b.column_stride() != 1 || pays(a, b.columns()));
    let mut packed = Vec::new();
    by_blocks!(c.columns(), |at| forward_step::<_, _, N>(
        (ring, rows.clone()),
        a,
        alpha,
        columns_from(b_all, at),
        is_packed.then_some(&mut packed),
        target_from(c_all, at),
        is_first
    ));
}

/// One block of columns, packed if it must be.
///
/// # Safety
/// As for [`forward`], except that B may have any strides if there is a place to pack it.
unsafe fn forward_step<T: Value, R: Ring<T>, const N: usize>(
    (ring, rows): (R, Range<usize>),
    a: &Csr<T>,
    alpha: T,
    mut b: Source<T>,
    packed: Option<&mut Vec<T>>,
    c: Target<T>,
    is_first: bool,
) {
    if let Some(packed) = packed {
        packed.clear();
        packed.reserve(a.columns() * N);
        for row in 0..a.columns() {
            // SAFETY: rows and columns of B, by the caller's promise.
            packed.extend_from_slice(&unsafe { load::<T, N>(b, row) });
        }
        b = Source { first: packed.as_ptr(), row_stride: N as isize, column_stride: 1 };
    }
    // SAFETY: the caller's promise; packed rows are side by side.
    unsafe { forward::<T, R, N>(ring, a, rows, alpha, b, c, is_first) }
}

with_vectors! {
    /// N columns of C, whose sums stay in registers.
    ///
    /// # Safety
    /// B has as many rows as A columns, C as many rows as A, and both N columns; those of B lie side by side, unless N
    /// is 1. Nothing else writes to B or uses C.
    forward<T: Value, R: Ring<T>; N> = forward_body(
        ring: R,
        a: &Csr<T>,
        rows: Range<usize>,
        alpha: T,
        b: Source<T>,
        c: Target<T>,
        is_first: bool
    )
}

#[inline(always)]
unsafe fn forward_body<T: Value, R: Ring<T>, const N: usize>(
    ring: R,
    a: &Csr<T>,
    rows: Range<usize>,
    alpha: T,
    b: Source<T>,
    c: Target<T>,
    is_first: bool,
) {
    let is_scaled = alpha != T::ONE;
    if N == 1 {
        let is_far = a.columns() * size_of::<T>() > NEAR_BYTES;
        for row in rows {
            // SAFETY: as below.
            unsafe {
                let sum = c.first.wrapping_offset(row as isize * c.row_stride);
                let before = if is_first { ring.zero() } else { *sum };
                *sum = match is_far {
                    true => dot_row::<T, R, true>(ring, a, row, alpha, b, before),
                    false => dot_row::<T, R, false>(ring, a, row, alpha, b, before),
                };
            }
        }
        return;
    }
    for row in rows {
        let (indices, values) = a.row(row);
        // SAFETY: the columns of A are below its number of columns, which is the number of rows of B; and C has this
        // row. Both have N columns, by the caller's promise.
        unsafe {
            let mut sums = if is_first { [ring.zero(); N] } else { load::<T, N>(c.source(), row) };
            let first = a.pattern.starts[row];
            for (place, (&column, &value)) in indices.iter().zip(values).enumerate() {
                if let Some(&next) = a.pattern.indices.get(first + place + AHEAD_ROWS) {
                    prefetch_row::<T, N>(b.first.wrapping_offset(next as isize * b.row_stride));
                }
                let value = if is_scaled { ring.times(alpha, value) } else { value };
                let line = b.first.offset(column as isize * b.row_stride);
                for (lane, sum) in sums.iter_mut().enumerate() {
                    *sum = ring.plus(*sum, ring.times(value, *line.add(lane)));
                }
            }
            store(c, row, sums);
        }
    }
}

/// Elements ahead that are fetched for later: what a vector of some megabytes takes to answer.
const AHEAD: usize = 32;

/// The same for rows of several elements, of which fewer fit into what the machine can wait for.
const AHEAD_ROWS: usize = 8;

/// Vectors of fewer bytes are near enough without asking for them.
const NEAR_BYTES: usize = 1 << 20;

/// One row times one column. `IS_FAR` if the column is larger than what is near.
///
/// # Safety
/// B has as many rows as A columns.
#[inline(always)]
unsafe fn dot_row<T: Value, R: Ring<T>, const IS_FAR: bool>(
    ring: R,
    a: &Csr<T>,
    row: usize,
    alpha: T,
    b: Source<T>,
    mut sum: T,
) -> T {
    let is_scaled = alpha != T::ONE;
    let places = a.pattern.places(row);
    let (indices, values) = (&a.pattern.indices[..], &a.values[..]);
    assert!(places.end <= indices.len() && places.end <= values.len(), "a row lies within its matrix");
    for place in places {
        // SAFETY: the place was just checked, the next one is, and columns of A are rows of B.
        unsafe {
            if IS_FAR && place + AHEAD < indices.len() {
                let next = *indices.get_unchecked(place + AHEAD);
                prefetch(b.first.offset(next as isize * b.row_stride));
            }
            let (column, value) = (*indices.get_unchecked(place), *values.get_unchecked(place));
            let value = if is_scaled { ring.times(alpha, value) } else { value };
            sum = ring.plus(sum, ring.times(value, *b.first.offset(column as isize * b.row_stride)));
        }
    }
    sum
}

/// Asks for the N elements from here on.
#[inline(always)]
fn prefetch_row<T, const N: usize>(first: *const T) {
    (0..N).step_by((64 / size_of::<T>()).max(1)).for_each(|lane| prefetch(first.wrapping_add(lane)));
}

fn backward_product<T: Value, R: Ring<T>>(
    ring: R,
    a: &Csr<T>,
    alpha: T,
    b: MatrixRef<'_, T>,
    mut c: MatrixMut<'_, T>,
    is_first: bool,
) {
    assert_eq!(b.rows(), a.rows(), "the inner extents of a product");
    assert_eq!([c.rows(), c.columns()], [a.columns(), b.columns()], "the shape of a product");
    if c.rows() == 0 || c.columns() == 0 {
        return;
    }
    let b_all = Source { first: b.as_ptr(), row_stride: b.row_stride(), column_stride: b.column_stride() };
    let is_packed = c.columns() > 1 && (c.column_stride() != 1 || pays(a, c.columns()));
    if is_first && !is_packed {
        c.fill(ring.zero());
    }
    let (row_stride, column_stride) = (c.row_stride(), c.column_stride());
    let c_all = Target { first: c.as_mut_ptr(), row_stride, column_stride };
    let mut packed = Vec::new();
    by_blocks!(c.columns(), |at| backward_step::<_, _, N>(
        ring,
        a,
        alpha,
        columns_from(b_all, at),
        is_packed.then_some(&mut packed),
        target_from(c_all, at),
        is_first
    ));
}

/// One block of columns, packed if it must be: then C is written when all is summed.
///
/// # Safety
/// As for [`backward`], except that C may have any strides if there is a place to pack it.
unsafe fn backward_step<T: Value, R: Ring<T>, const N: usize>(
    ring: R,
    a: &Csr<T>,
    alpha: T,
    b: Source<T>,
    packed: Option<&mut Vec<T>>,
    c: Target<T>,
    is_first: bool,
) {
    let Some(packed) = packed else {
        // SAFETY: the caller's promise.
        return unsafe { backward::<T, R, N>(ring, a, alpha, b, c) };
    };
    packed.clear();
    packed.reserve(a.columns() * N);
    for row in 0..a.columns() {
        // SAFETY: a row of C, by the caller's promise.
        let sums = if is_first { [ring.zero(); N] } else { unsafe { load::<T, N>(c.source(), row) } };
        packed.extend_from_slice(&sums);
    }
    let sums = Target { first: packed.as_mut_ptr(), row_stride: N as isize, column_stride: 1 };
    // SAFETY: the caller's promise; packed rows are side by side, and each goes back to where it came from.
    unsafe {
        backward::<T, R, N>(ring, a, alpha, b, sums);
        (0..a.columns()).for_each(|row| store(c, row, load::<T, N>(sums.source(), row)));
    }
}

with_vectors! {
    /// Adds to N columns of C, row of A by row of A.
    ///
    /// # Safety
    /// B has as many rows as A, C as many rows as A columns, and both N columns; those of C lie side by side, unless N
    /// is 1. Nothing else writes to B or uses C.
    backward<T: Value, R: Ring<T>; N> =
        backward_body(ring: R, a: &Csr<T>, alpha: T, b: Source<T>, c: Target<T>)
}

#[inline(always)]
unsafe fn backward_body<T: Value, R: Ring<T>, const N: usize>(
    ring: R,
    a: &Csr<T>,
    alpha: T,
    b: Source<T>,
    c: Target<T>,
) {
    let is_scaled = alpha != T::ONE;
    for row in 0..a.rows() {
        let (indices, values) = a.row(row);
        // SAFETY: B has this row, and the columns of A are below its number of columns, which is the number of rows of
        // C. Both have N columns, by the caller's promise.
        unsafe {
            let factors = load::<T, N>(b, row);
            let first = a.pattern.starts[row];
            for (place, (&column, &value)) in indices.iter().zip(values).enumerate() {
                let ahead = if N == 1 { AHEAD } else { AHEAD_ROWS };
                if let Some(&next) = a.pattern.indices.get(first + place + ahead) {
                    prefetch_row::<T, N>(c.first.wrapping_offset(next as isize * c.row_stride));
                }
                let value = if is_scaled { ring.times(alpha, value) } else { value };
                let line = c.first.offset(column as isize * c.row_stride);
                for (lane, &factor) in factors.iter().enumerate() {
                    *line.add(lane) = ring.plus(*line.add(lane), ring.times(value, factor));
                }
            }
        }
    }
}

impl<T> Target<T> {
    fn source(self) -> Source<T> {
        Source { first: self.first, row_stride: self.row_stride, column_stride: self.column_stride }
    }
}

/// # Safety
/// There are more than `at` columns.
unsafe fn columns_from<T>(all: Source<T>, at: usize) -> Source<T> {
    // SAFETY: the caller's promise.
    Source { first: unsafe { all.first.offset(at as isize * all.column_stride) }, ..all }
}

fn target_from<T>(all: Target<T>, at: usize) -> Target<T> {
    Target { first: all.first.wrapping_offset(at as isize * all.column_stride), ..all }
}

/// # Safety
/// There is such a row, of N columns.
#[inline(always)]
unsafe fn load<T: Value, const N: usize>(from: Source<T>, row: usize) -> [T; N] {
    let mut values = [T::ZERO; N];
    // SAFETY: the caller's promise.
    unsafe {
        let line = from.first.wrapping_offset(row as isize * from.row_stride);
        if from.column_stride == 1 {
            for (lane, value) in values.iter_mut().enumerate() {
                *value = *line.add(lane);
            }
        } else {
            for (lane, value) in values.iter_mut().enumerate() {
                *value = *line.offset(lane as isize * from.column_stride);
            }
        }
    }
    values
}

/// # Safety
/// There is such a row, of N columns.
#[inline(always)]
unsafe fn store<T: Value, const N: usize>(to: Target<T>, row: usize, values: [T; N]) {
    // SAFETY: the caller's promise.
    unsafe {
        let line = to.first.wrapping_offset(row as isize * to.row_stride);
        if to.column_stride == 1 {
            for (lane, value) in values.into_iter().enumerate() {
                *line.add(lane) = value;
            }
        } else {
            for (lane, value) in values.into_iter().enumerate() {
                *line.offset(lane as isize * to.column_stride) = value;
            }
        }
    }
}
