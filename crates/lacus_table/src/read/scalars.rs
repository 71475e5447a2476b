//! Scalars as bits of the column that holds them.

use lacus_tensor::Buffer;

use crate::read::value_column::ValueColumn;
use crate::schema::column;

/// Scalars, as bits of the column that holds them.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarBits {
    /// Of the `int` column.
    Int(Vec<i64>),
    /// Of the `float` column.
    Float(Vec<u32>),
    /// Of the `real` column.
    Real(Vec<u64>),
}

impl ScalarBits {
    /// The column that holds them.
    pub(crate) fn column(&self) -> &'static str {
        match self {
            ScalarBits::Int(_) => column::INT,
            ScalarBits::Float(_) => column::FLOAT,
            ScalarBits::Real(_) => column::REAL,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            ScalarBits::Int(values) => values.len(),
            ScalarBits::Float(values) => values.len(),
            ScalarBits::Real(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether two scalars have the same bits.
    pub(crate) fn is_same_at(&self, other: &ScalarBits, at: usize) -> bool {
        match (self, other) {
            (ScalarBits::Int(a), ScalarBits::Int(b)) => a.get(at) == b.get(at),
            (ScalarBits::Float(a), ScalarBits::Float(b)) => a.get(at) == b.get(at),
            (ScalarBits::Real(a), ScalarBits::Real(b)) => a.get(at) == b.get(at),
            _ => false,
        }
    }
}

/// Scalars of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarRead {
    /// Which of the rows have one; the others hold zero.
    pub present: Vec<bool>,
    /// One for each row asked for.
    pub values: ScalarBits,
}

/// Scalars of some rows in one piece of memory, which a tensor or an array can take over.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// Which column holds them: [`ValueColumn::Int`] means `i64`, [`ValueColumn::Float`] the bits of `f32`, [`ValueColumn::Real`] those of `f64`.
    pub form: ValueColumn,
    /// One for each row asked for; zero where there is none.
    pub values: Buffer,
    /// Which of the rows have one; `None` if all have.
    pub present: Option<Vec<bool>>,
}

impl Numbers {
    /// How many rows were asked for.
    pub fn len(&self) -> usize {
        self.values.len() / width(self.form)
    }

    /// Whether none was asked for.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether a row has a scalar.
    pub fn is_present(&self, row: usize) -> bool {
        self.present.as_ref().is_none_or(|present| present[row])
    }
}

impl From<Numbers> for ScalarRead {
    fn from(numbers: Numbers) -> ScalarRead {
        let values = match numbers.form {
            ValueColumn::Float => ScalarBits::Float(numbers.values.cast::<u32>().to_vec()),
            ValueColumn::Real => ScalarBits::Real(numbers.values.cast::<u64>().to_vec()),
            _ => ScalarBits::Int(numbers.values.cast::<i64>().to_vec()),
        };
        let present = numbers.present.unwrap_or_else(|| vec![true; values.len()]);
        ScalarRead { present, values }
    }
}

/// The bytes of one scalar.
pub(crate) fn width(form: ValueColumn) -> usize {
    match form {
        ValueColumn::Float => 4,
        _ => 8,
    }
}
