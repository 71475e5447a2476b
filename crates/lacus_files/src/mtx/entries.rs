//! The lines behind a MatrixMarket header.

use lacus_tensor::{Buffer, Shape, SparseTensor};

use super::{Header, Sizes};
use crate::error::{Fault, quoted};
use crate::lines::{Lines, Words};
use crate::numbers::{Column, Mirror, mirrored, unsigned};
use crate::tns::sparse;
use crate::value::HeldDense;

/// Calls `each` for every line that is neither blank nor a comment, and adds its number to errors.
fn for_each_line(lines: &mut Lines, mut each: impl FnMut(&[u8]) -> Result<(), Fault>) -> Result<(), Fault> {
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next()? else { return Ok(()) };
        if !matches!(line.trim_ascii_start().first(), None | Some(b'%')) {
            each(line).map_err(|fault| fault.on_line(number))?;
        }
    }
}

/// Entries of a sparse matrix.
pub(super) fn read(
    mut lines: Lines,
    header: &Header,
    sizes: Sizes,
    mut values: Column,
    sum_duplicates: bool,
) -> Result<SparseTensor, Fault> {
    let shape = Shape::new([sizes.rows, sizes.columns])?;
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    let mut found = 0;
    for_each_line(&mut lines, |line| {
        if found == sizes.entries {
            return Err(Fault::malformed(format!(
                "more than the {} entries that the header says",
                sizes.entries
            )));
        }
        found += 1;
        let mut words = Words::of(line);
        let row = coordinate(words.next(), "row", sizes.rows)?;
        let column = coordinate(words.next(), "column", sizes.columns)?;
        header.push_value(&mut values, &mut words)?;
        rows.push(row);
        columns.push(column);
        match header.mirror {
            Some(Mirror::Negated) if row == column => Err(Fault::malformed(format!(
                "the diagonal entry {}, in a skew-symmetric matrix",
                quoted(line)
            ))),
            Some(mirror) if row != column => {
                values.push_mirrored(mirror)?;
                rows.push(column);
                columns.push(row);
                Ok(())
            }
            _ => Ok(()),
        }
    })?;
    if found != sizes.entries {
        return Err(Fault::malformed(format!("{found} entries, where the header says {}", sizes.entries)));
    }
    sparse(vec![rows, columns], values, shape, 1, sum_duplicates)
}

/// A coordinate from 1, as one from 0.
#[inline]
fn coordinate(word: Option<&[u8]>, what: &str, size: u64) -> Result<i64, Fault> {
    match word.and_then(unsigned) {
        Some(number) if number != 0 && number <= size => Ok((number - 1) as i64),
        _ => Err(bad_coordinate(word, what, size)),
    }
}

#[cold]
fn bad_coordinate(word: Option<&[u8]>, what: &str, size: u64) -> Fault {
    Fault::malformed(match (word, word.and_then(unsigned)) {
        (_, Some(0)) => format!("{what} 0; mtx coordinates start at 1"),
        (_, Some(number)) => format!("{what} {number} of a matrix with {size} {what}s"),
        (Some(word), None) => format!("{} where a {what} should be", quoted(word)),
        (None, None) => format!("the {what} is missing"),
    })
}

/// Values of a dense matrix, column by column: Fortran order.
pub(super) fn read_array(
    mut lines: Lines,
    header: &Header,
    sizes: Sizes,
    mut values: Column,
) -> Result<HeldDense, Fault> {
    let shape = Shape::new([sizes.rows, sizes.columns])?;
    let dtype = values.dtype();
    let length = shape.byte_len(dtype)?;
    // As many values as the file must have: all, or those on and below the diagonal, or those below.
    let (side, elements) = (sizes.rows, length / dtype.size_bytes());
    let expected = match header.mirror {
        None => elements,
        Some(Mirror::Negated) => (elements - side as usize) / 2,
        Some(_) => elements - (elements - side as usize) / 2,
    };
    let mut found = 0;
    for_each_line(&mut lines, |line| {
        if found == expected {
            return Err(Fault::malformed(format!("more than the {expected} values that the header says")));
        }
        found += 1;
        header.push_value(&mut values, &mut Words::of(line))
    })?;
    if found != expected {
        return Err(Fault::malformed(format!("{found} values, where the header says {expected}")));
    }
    let owned = match header.mirror {
        None => Buffer::from_slice(values.bytes()),
        Some(mirror) => unfold(&values, side as usize, length, mirror)?,
    };
    Ok(HeldDense { dtype, shape, fortran: true, range: 0..length, owned: Some(owned) })
}

/// Puts the values of the lower triangle in their places, on both sides of the diagonal.
fn unfold(values: &Column, side: usize, length: usize, mirror: Mirror) -> Result<Buffer, Fault> {
    let (dtype, size) = (values.dtype(), values.dtype().size_bytes());
    let mut all = Buffer::try_zeroed(length)?;
    let mut items = values.bytes().chunks_exact(size);
    for column in 0..side {
        let first = if mirror == Mirror::Negated { column + 1 } else { column };
        for (row, item) in (first..side).zip(&mut items) {
            let mut place = |row: usize, column: usize, item: &[u8]| {
                all[(column * side + row) * size..][..size].copy_from_slice(item);
            };
            place(row, column, item);
            if row != column {
                let mut other = [0; 16];
                other[..size].copy_from_slice(item);
                mirrored(dtype, &mut other[..size], mirror)?;
                place(column, row, &other[..size]);
            }
        }
    }
    Ok(all)
}
