//! Scalars as bits of the column that holds them.

use lacus_tensor::Buffer;

use crate::read::form::Form;
use crate::schema::column;

/// Scalars, as bits of the column that holds them.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalars {
    /// Of the `int` column.
    Int(Vec<i64>),
    /// Of the `float` column.
    Float(Vec<u32>),
    /// Of the `real` column.
    Real(Vec<u64>),
}

impl Scalars {
    /// The column that holds them.
    pub(crate) fn column(&self) -> &'static str {
        match self {
            Scalars::Int(_) => column::INT,
            Scalars::Float(_) => column::FLOAT,
            Scalars::Real(_) => column::REAL,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Scalars::Int(values) => values.len(),
            Scalars::Float(values) => values.len(),
            Scalars::Real(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether two scalars have the same bits.
    pub(crate) fn is_same_at(&self, other: &Scalars, at: usize) -> bool {
        match (self, other) {
            (Scalars::Int(a), Scalars::Int(b)) => a.get(at) == b.get(at),
            (Scalars::Float(a), Scalars::Float(b)) => a.get(at) == b.get(at),
            (Scalars::Real(a), Scalars::Real(b)) => a.get(at) == b.get(at),
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
    pub values: Scalars,
}

/// Scalars of some rows in one piece of memory, which a tensor or an array can take over.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// Which column holds them: [`Form::Int`] means `i64`, [`Form::Float`] the bits of `f32`, [`Form::Real`] those of `f64`.
    pub form: Form,
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
            Form::Float => Scalars::Float(numbers.values.cast::<u32>().to_vec()),
            Form::Real => Scalars::Real(numbers.values.cast::<u64>().to_vec()),
            _ => Scalars::Int(numbers.values.cast::<i64>().to_vec()),
        };
        let present = numbers.present.unwrap_or_else(|| vec![true; values.len()]);
        ScalarRead { present, values }
    }
}

/// The bytes of one scalar.
pub(crate) fn width(form: Form) -> usize {
    match form {
        Form::Float => 4,
        _ => 8,
    }
}
