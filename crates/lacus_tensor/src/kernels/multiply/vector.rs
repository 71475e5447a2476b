//! Matrix times vector, as fast as the matrix can be read.
//!
//! If its rows lie side by side, each gives a dot product; if its columns do, they are added up. Either way several are read
//! at once, so that the vector is not read as often as the matrix.

use super::super::matrix::{MatrixMut, MatrixRef};
use super::super::number::Number;
use super::super::vectorise::{Loop, vectorise};

/// y = alpha·A·x, or y += alpha·A·x; `x` and `y` are matrices of one column. No side is empty.
pub(super) fn multiply<T: Number>(
    a: MatrixRef<'_, T>,
    alpha: T,
    x: MatrixRef<'_, T>,
    mut y: MatrixMut<'_, T>,
    is_first: bool,
) {
    let x: Vec<T> = (0..x.rows()).map(|i| x.at(i, 0)).collect();
    let mut sums = vec![T::ZERO; y.rows()];
    // The stride of a side of one says nothing, and must not decide the order of summation.
    let is_by_rows = a.column_stride() == 1 || a.columns() == 1 || a.rows() == 1;
    if !is_by_rows && a.row_stride() == 1 {
        vectorise(AddColumns { a, x: &x, sums: &mut sums });
    } else {
        vectorise(DotRows { a, x: &x, sums: &mut sums });
    }
    for (i, sum) in sums.into_iter().enumerate() {
        let sum = alpha.mul(sum);
        let value = if is_first { sum } else { y.as_ref().at(i, 0).add(sum) };
        y.set(i, 0, value);
    }
}

/// Rows that are read at once.
const ROWS: usize = 4;

/// Partial sums of a row: with four rows, eight vectors of 32 bytes for doubles.
const LANES: usize = 8;

struct DotRows<'a, T> {
    a: MatrixRef<'a, T>,
    x: &'a [T],
    sums: &'a mut [T],
}

impl<T: Number> Loop for DotRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let DotRows { a, x, sums } = self;
        let mut gathered = if a.row(0).is_some() { Vec::new() } else { vec![T::ZERO; x.len() * ROWS] };
        for (group, sums) in sums.chunks_mut(ROWS).enumerate() {
            let count = sums.len();
            // The last rows are repeated to fill up a group.
            let number = |i: usize| group * ROWS + i.min(count - 1);
            if gathered.is_empty() {
                let rows: [&[T]; ROWS] = std::array::from_fn(|i| a.row(number(i)).unwrap_or_default());
                sums.copy_from_slice(&dots(rows, x)[..count]);
            } else {
                for (i, row) in gathered.chunks_exact_mut(x.len()).enumerate() {
                    row.iter_mut().enumerate().for_each(|(j, element)| *element = a.at(number(i), j));
                }
                let mut rows = gathered.chunks_exact(x.len());
                let rows: [&[T]; ROWS] = std::array::from_fn(|_| rows.next().unwrap_or_default());
                sums.copy_from_slice(&dots(rows, x)[..count]);
            }
        }
    }
}

/// The products of some rows with a vector of their length.
#[inline(always)]
fn dots<T: Number>(rows: [&[T]; ROWS], x: &[T]) -> [T; ROWS] {
    let mut sums = [[T::ZERO; LANES]; ROWS];
    let (x, x_rest) = x.as_chunks::<LANES>();
    let rows = rows.map(|row| row.as_chunks::<LANES>());
    assert!(rows.iter().all(|(row, rest)| row.len() == x.len() && rest.len() == x_rest.len()));
    let [r0, r1, r2, r3] = rows.map(|(row, _)| row);
    // Written as iterators, else a check of bounds keeps it from being vectorised.
    for ((((x, r0), r1), r2), r3) in x.iter().zip(r0).zip(r1).zip(r2).zip(r3) {
        for (sums, row) in sums.iter_mut().zip([r0, r1, r2, r3]) {
            for j in 0..LANES {
                sums[j] = sums[j].add(row[j].mul(x[j]));
            }
        }
    }
    // The compiler would arrange the loop for the sum of the lanes below, instead of the lanes; so it may not see both.
    let mut sums = std::hint::black_box(sums);
    std::array::from_fn(|r| {
        let s = &mut sums[r];
        for (j, (&element, &x)) in rows[r].1.iter().zip(x_rest).enumerate() {
            s[j] = s[j].add(element.mul(x));
        }
        (s[0].add(s[4])).add(s[2].add(s[6])).add((s[1].add(s[5])).add(s[3].add(s[7])))
    })
}

/// Columns that are read at once.
const COLUMNS: usize = 8;

/// Elements of the result that stay in the nearest cache while the columns go by.
const PIECE: usize = 1024;

struct AddColumns<'a, T> {
    a: MatrixRef<'a, T>,
    x: &'a [T],
    sums: &'a mut [T],
}

impl<T: Number> Loop for AddColumns<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let AddColumns { a, x, sums } = self;
        let columns = a.transposed();
        for (piece, sums) in sums.chunks_mut(PIECE).enumerate() {
            let part = piece * PIECE..piece * PIECE + sums.len();
            let column = |j: usize| &columns.row(j).unwrap_or_default()[part.clone()];
            let (groups, rest) = x.as_chunks::<COLUMNS>();
            for (group, x) in groups.iter().enumerate() {
                let c: [&[T]; COLUMNS] = std::array::from_fn(|j| column(group * COLUMNS + j));
                add_columns(sums, c, x);
            }
            for (j, &x) in rest.iter().enumerate() {
                let column = column(groups.len() * COLUMNS + j);
                for (sum, &element) in sums.iter_mut().zip(column) {
                    *sum = sum.add(element.mul(x));
                }
            }
        }
    }
}

#[inline(always)]
fn add_columns<T: Number>(sums: &mut [T], c: [&[T]; COLUMNS], x: &[T; COLUMNS]) {
    let n = sums.len();
    let c = c.map(|column| &column[..n]);
    for i in 0..n {
        let p = |j: usize| c[j][i].mul(x[j]);
        let sum = (p(0).add(p(1))).add(p(2).add(p(3))).add((p(4).add(p(5))).add(p(6).add(p(7))));
        sums[i] = sums[i].add(sum);
    }
}
