//! `.mtx`: one matrix as text (MatrixMarket).
//!
//! ```text
//! %%MatrixMarket matrix coordinate real general
//! % comment
//! 3 4 2              rows, columns, entries
//! 1 1 1.5            row, column, value, from 1
//! 3 2 -2
//! ```
//!
//! All of the exchange format is read: `coordinate` (sparse) and `array` (dense, column by column); `real`,
//! `integer`, `complex` and `pattern` (plus `unsigned-integer`, which several programs write); `general`,
//! `symmetric`, `skew-symmetric` and `hermitian`, whose other half is filled in. Explicit zeros are kept.
//!
//! Written are `general` matrices, with the exact dtype in a comment (see `note.rs`).

use lacus_tensor::DType;

use crate::error::{Fault, quoted};
use crate::lines::{Lines, Words};
use crate::note::Note;
use crate::numbers::{Column, Mirror, unsigned};
use crate::value::{Held, ReadOptions};

mod entries;
mod output;

pub(crate) use output::write;

/// Reads a whole file.
pub(crate) fn read(mut lines: Lines, options: &ReadOptions) -> Result<Held, Fault> {
    let header = match lines.next()? {
        Some(line) => Header::parse(line).map_err(|fault| fault.on_line(1))?,
        None => return Err(Fault::malformed("the file is empty")),
    };
    let mut note = Note::default();
    let sizes = loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next()? else {
            return Err(Fault::malformed("ends before the line of sizes"));
        };
        match line.trim_ascii_start() {
            [] => {}
            [b'%', comment @ ..] => note.read(comment).map_err(|fault| fault.on_line(number))?,
            line => break header.sizes(line).map_err(|fault| fault.on_line(number))?,
        }
    };
    let values = Column::new(header.dtype(options.dtype.or(note.dtype))?);
    match header.layout {
        Layout::Coordinate => {
            entries::read(lines, &header, sizes, values, options.sum_duplicates).map(Held::Sparse)
        }
        Layout::Array => entries::read_array(lines, &header, sizes, values).map(Held::Dense),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Coordinate,
    Array,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Real,
    Integer,
    Unsigned,
    Complex,
    Pattern,
}

/// The first line.
#[derive(Debug)]
struct Header {
    layout: Layout,
    field: Field,
    /// How the half that is not in the file follows from the one that is.
    mirror: Option<Mirror>,
}

impl Header {
    fn parse(line: &[u8]) -> Result<Header, Fault> {
        let words: Vec<String> =
            Words::of(line).map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (layout, field, symmetry) = match words[..] {
            ["%%matrixmarket", "matrix", layout, field, symmetry] => (layout, field, symmetry),
            ["%%matrixmarket", ..] => {
                return Err(Fault::unsupported(format!(
                    "{}; known is: %%MatrixMarket matrix <layout> <field> <symmetry>",
                    quoted(line)
                )));
            }
            _ => return Err(Fault::malformed(format!("{} is no MatrixMarket header", quoted(line)))),
        };
        let unknown = |word: &str| {
            Fault::unsupported(format!("MatrixMarket header: unknown {}", quoted(word.as_bytes())))
        };
        let layout = match layout {
            "coordinate" => Layout::Coordinate,
            "array" => Layout::Array,
            other => return Err(unknown(other)),
        };
        let field = match field {
            "real" | "double" => Field::Real,
            "integer" => Field::Integer,
            "unsigned-integer" => Field::Unsigned,
            "complex" => Field::Complex,
            "pattern" if layout == Layout::Coordinate => Field::Pattern,
            "pattern" => return Err(Fault::malformed("an array cannot be a pattern")),
            other => return Err(unknown(other)),
        };
        let mirror = match symmetry {
            "general" => None,
            "symmetric" => Some(Mirror::Same),
            "skew-symmetric" => Some(Mirror::Negated),
            "hermitian" => Some(Mirror::Conjugated),
            other => return Err(unknown(other)),
        };
        if field == Field::Pattern && mirror == Some(Mirror::Negated) {
            return Err(Fault::malformed("a pattern cannot be skew-symmetric"));
        }
        Ok(Header { layout, field, mirror })
    }

    /// Rows, columns and, if sparse, entries.
    fn sizes(&self, line: &[u8]) -> Result<Sizes, Fault> {
        let numbers: Option<Vec<u64>> = Words::of(line).map(unsigned).collect();
        let sizes = match (self.layout, numbers.as_deref()) {
            (Layout::Coordinate, Some(&[rows, columns, entries])) => Sizes { rows, columns, entries },
            (Layout::Array, Some(&[rows, columns])) => Sizes { rows, columns, entries: 0 },
            (Layout::Coordinate, _) => {
                return Err(Fault::malformed(format!(
                    "{} where rows, columns and entries should be",
                    quoted(line)
                )));
            }
            (Layout::Array, _) => {
                return Err(Fault::malformed(format!("{} where rows and columns should be", quoted(line))));
            }
        };
        if self.mirror.is_some() && sizes.rows != sizes.columns {
            return Err(Fault::malformed(format!(
                "a symmetric matrix of {} rows and {} columns",
                sizes.rows, sizes.columns
            )));
        }
        Ok(sizes)
    }

    /// The dtype of the values: what is asked for, if the field can be that.
    fn dtype(&self, asked: Option<DType>) -> Result<DType, Fault> {
        let dtype = asked.unwrap_or(match self.field {
            Field::Real | Field::Pattern => DType::F64,
            Field::Integer => DType::I64,
            Field::Unsigned => DType::U64,
            Field::Complex => DType::C128,
        });
        if self.field == Field::Complex && !dtype.is_complex() {
            return Err(Fault::unsupported(format!("a complex matrix cannot be read as {dtype}")));
        }
        Ok(dtype)
    }

    /// Words that make a value.
    fn value_words(&self) -> usize {
        match self.field {
            Field::Pattern => 0,
            Field::Complex => 2,
            _ => 1,
        }
    }

    fn push_value<'a>(
        &self,
        values: &mut Column,
        words: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), Fault> {
        let mut word = || words.next().ok_or_else(|| Fault::malformed("the value is missing"));
        match self.value_words() {
            0 => values.push(b"1")?,
            1 => values.push(word()?)?,
            _ => values.push_complex(word()?, word()?)?,
        }
        match words.next() {
            None => Ok(()),
            Some(more) => Err(Fault::malformed(format!("{} behind the value", quoted(more)))),
        }
    }
}

/// The line of sizes.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    rows: u64,
    columns: u64,
    entries: u64,
}

#[cfg(test)]
mod tests;
