//! `.tns`: one sparse tensor as text, one nonzero per line (FROSTT).
//!
//! ```text
//! # comment
//! 1 1 331 591 1        coordinates, from 1, then the value
//! 1 1 334 825 2.5
//! ```
//!
//! A complex value takes two columns, real and imaginary. With `tns_pattern` there is no value column
//! at all and every value is 1, as in knowledge graphs. The shape and the dtype come from the caller,
//! else from a note (see `note.rs`), else each axis is as long as its largest coordinate and values are
//! float64.

use std::io::Write;

use lacus_tensor::{Buffer, DType, Duplicates, MAX_RANK, Shape, SparseTensor, TensorError};

use crate::error::{Cause, Fault, Place, quoted};
use crate::lines::{Lines, Words};
use crate::note::Note;
use crate::numbers::{Column, unsigned, write_unsigned, write_value};
use crate::value::ReadOptions;

/// Reads a whole file.
pub(crate) fn read(mut lines: Lines, options: &ReadOptions) -> Result<SparseTensor, Fault> {
    let mut note = Note::default();
    let mut table: Option<Table> = None;
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next()? else { break };
        let done = match (line.trim_ascii_start().first(), &mut table) {
            (None, _) => Ok(()),
            // Our note comes first; comments between nonzeros are anybody's.
            (Some(b'#'), None) => note.read(&line.trim_ascii_start()[1..]),
            (Some(b'#'), Some(_)) => Ok(()),
            (Some(_), Some(table)) => table.push(line),
            (Some(_), empty) => Table::for_line(line, options, &note).and_then(|mut first| {
                first.push(line)?;
                *empty = Some(first);
                Ok(())
            }),
        };
        done.map_err(|fault| fault.on_line(number))?;
    }
    let table = match table {
        Some(table) => table,
        None => Table::without_lines(options, &note)?,
    };
    table.into_tensor(options)
}

/// The type of the values.
fn dtype(options: &ReadOptions, note: &Note) -> DType {
    options.dtype.or(note.dtype).unwrap_or(DType::F64)
}

/// Columns of a line behind its coordinates.
fn value_words(options: &ReadOptions, note: &Note) -> usize {
    match dtype(options, note) {
        _ if options.tns_pattern => 0,
        dtype if dtype.is_complex() => 2,
        _ => 1,
    }
}

/// The nonzeros read so far.
struct Table {
    axes: Vec<Vec<i64>>,
    values: Column,
    value_words: usize,
    /// The smallest coordinate there is in the file: 1 or 0.
    base: u64,
    shape: Option<Shape>,
    /// Per axis, what is in bounds: the shape's dimension, or whatever fits.
    bounds: Vec<u64>,
}

impl Table {
    /// A table for lines like this one.
    fn for_line(line: &[u8], options: &ReadOptions, note: &Note) -> Result<Table, Fault> {
        let value_words = value_words(options, note);
        let rank = Words::of(line).count().saturating_sub(value_words);
        match options.dims.as_ref().or(note.shape.as_ref()) {
            Some(shape) if shape.rank() != rank => {
                let needed = shape.rank();
                Err(Fault::malformed(format!("{rank} coordinates, where the shape {shape} needs {needed}")))
            }
            None if rank == 0 => Err(Fault::malformed(format!("{} has no coordinates", quoted(line)))),
            _ if rank > MAX_RANK => Err(TensorError::TooManyAxes { rank }.into()),
            _ => Ok(Table::new(rank, options, note)),
        }
    }

    /// An empty tensor: only its shape says how many axes it has.
    fn without_lines(options: &ReadOptions, note: &Note) -> Result<Table, Fault> {
        match options.dims.as_ref().or(note.shape.as_ref()) {
            Some(shape) => Ok(Table::new(shape.rank(), options, note)),
            None => Err(Fault::malformed("no nonzeros, so the shape must be given")),
        }
    }

    fn new(rank: usize, options: &ReadOptions, note: &Note) -> Table {
        let values = Column::new(dtype(options, note));
        let value_words = value_words(options, note);
        let shape = options.dims.clone().or_else(|| note.shape.clone());
        let bounds = match &shape {
            Some(shape) => shape.dims().to_vec(),
            None => vec![i64::MAX as u64; rank],
        };
        let base = u64::from(options.one_based);
        Table { axes: vec![Vec::new(); rank], values, value_words, base, shape, bounds }
    }

    fn push(&mut self, line: &[u8]) -> Result<(), Fault> {
        let mut words = Words::of(line);
        for (index, (axis, &bound)) in self.axes.iter_mut().zip(&self.bounds).enumerate() {
            let coordinate = words.next().and_then(unsigned).and_then(|found| found.checked_sub(self.base));
            match coordinate {
                Some(coordinate) if coordinate < bound => axis.push(coordinate as i64),
                _ => return Err(self.bad_coordinate(line, index)),
            }
        }
        match self.value_words {
            0 => self.values.push(b"1")?,
            1 => self.values.push(words.next().ok_or_else(|| self.short(line))?)?,
            _ => {
                let (Some(real), Some(imaginary)) = (words.next(), words.next()) else {
                    return Err(self.short(line));
                };
                self.values.push_complex(real, imaginary)?;
            }
        }
        match words.next() {
            None => Ok(()),
            Some(_) => Err(self.short(line)),
        }
    }

    /// The line has another number of columns than the ones before.
    fn short(&self, line: &[u8]) -> Fault {
        let (expected, found) = (self.axes.len() + self.value_words, Words::of(line).count());
        Fault::malformed(format!("{found} columns, where {expected} should be: {}", quoted(line)))
    }

    fn bad_coordinate(&self, line: &[u8], index: usize) -> Fault {
        let Some(word) = Words::of(line).nth(index) else {
            return self.short(line);
        };
        let (column, base) = (index + 1, self.base);
        Fault::malformed(match unsigned(word) {
            None => format!("{} in column {column}, where a coordinate should be", quoted(word)),
            Some(found) if found < base => {
                format!("coordinate {found} in column {column}, tns coordinates start at {base}")
            }
            Some(found) => match &self.shape {
                Some(shape) => {
                    format!("coordinate {found} in column {column} is outside of the shape {shape}")
                }
                None => format!("coordinate {found} in column {column} is too large"),
            },
        })
    }

    fn into_tensor(self, options: &ReadOptions) -> Result<SparseTensor, Fault> {
        let shape = match self.shape {
            Some(shape) => shape,
            None => {
                let longest = |axis: &Vec<i64>| axis.iter().max().map_or(0, |&max| max as u64 + 1);
                Shape::new(self.axes.iter().map(longest).collect::<Vec<_>>())?
            }
        };
        sparse(self.axes, self.values, shape, self.base, options.sum_duplicates)
    }
}

/// Makes a tensor of columns read from text, whose coordinates are called from `base` on in messages.
pub(crate) fn sparse(
    axes: Vec<Vec<i64>>,
    values: Column,
    shape: Shape,
    base: u64,
    sum_duplicates: bool,
) -> Result<SparseTensor, Fault> {
    let dtype = values.dtype();
    let nnz = values.bytes().len() / dtype.size_bytes();
    let mut coords = Buffer::try_for_overwrite(nnz * axes.len() * size_of::<i64>())?;
    let mut rest = coords.cast_mut::<i64>();
    for axis in axes {
        let (place, more) = rest.split_at_mut(nnz);
        place.copy_from_slice(&axis);
        rest = more;
    }
    let values = Buffer::from_slice(values.bytes());
    let duplicates = if sum_duplicates { Duplicates::Sum } else { Duplicates::Refuse };
    SparseTensor::new(dtype, shape, coords, values, duplicates).map_err(|error| match error {
        TensorError::DuplicateCoordinates { coordinates } => {
            let words: Vec<String> = coordinates.iter().map(|&c| (c as u64 + base).to_string()).collect();
            Fault { place: Place::Whole, cause: Cause::Duplicates { at: words.join(" ") } }
        }
        error => error.into(),
    })
}

/// Writes a whole file.
pub(crate) fn write(out: &mut dyn Write, tensor: &SparseTensor) -> Result<(), Fault> {
    const FLUSH_BYTES: usize = 1 << 16;
    let fault = Fault::io("write");
    let axes: Vec<&[i64]> = (0..tensor.shape().rank()).map(|axis| tensor.axis(axis)).collect();
    let mut text = Note::line('#', tensor.dtype(), Some(tensor.shape()));
    for (row, item) in tensor.values().chunks_exact(tensor.dtype().size_bytes()).enumerate() {
        for axis in &axes {
            write_unsigned(&mut text, axis[row] as u64 + 1);
            text.push(b' ');
        }
        write_value(&mut text, tensor.dtype(), item);
        text.push(b'\n');
        if text.len() >= FLUSH_BYTES {
            out.write_all(&text).map_err(&fault)?;
            text.clear();
        }
    }
    out.write_all(&text).map_err(&fault)
}

#[cfg(test)]
mod tests;
