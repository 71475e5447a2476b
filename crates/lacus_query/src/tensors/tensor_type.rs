//! What is known about the tensors of a column before any of them is read: the dtype, and the sizes that all of them share.

use std::fmt;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DataFusionError, Result};
use lacus_arrow::Mapping;
use lacus_sample::{Column, ColumnSpec};
use lacus_tensor::{DType, MAX_RANK};
use serde_json::Value as Json;

/// The sizes of the axes, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dims {
    /// All tensors have this shape.
    Fixed(Vec<u64>),
    /// All tensors have as many axes; at least one size differs from row to row.
    Ranked(Vec<Option<u64>>),
    /// Each tensor has its own number of axes.
    Unranked,
}

impl Dims {
    /// Of these sizes, `None` where a size is not known.
    pub(crate) fn ranked(sizes: Vec<Option<u64>>) -> Dims {
        match sizes.iter().copied().collect() {
            Some(fixed) => Dims::Fixed(fixed),
            None => Dims::Ranked(sizes),
        }
    }

    /// Of these sizes if the number of axes is known.
    pub(crate) fn of(sizes: Option<Vec<Option<u64>>>) -> Dims {
        sizes.map_or(Dims::Unranked, Dims::ranked)
    }

    /// The number of axes.
    pub(crate) fn rank(&self) -> Option<usize> {
        match self {
            Dims::Fixed(sizes) => Some(sizes.len()),
            Dims::Ranked(sizes) => Some(sizes.len()),
            Dims::Unranked => None,
        }
    }

    /// The size of each axis, if their number is known.
    pub(crate) fn sizes(&self) -> Option<Vec<Option<u64>>> {
        match self {
            Dims::Fixed(sizes) => Some(sizes.iter().copied().map(Some).collect()),
            Dims::Ranked(sizes) => Some(sizes.clone()),
            Dims::Unranked => None,
        }
    }

    /// Whether a tensor of this shape is one of them.
    pub(crate) fn holds(&self, shape: &[u64]) -> bool {
        match self {
            Dims::Fixed(sizes) => sizes == shape,
            Dims::Ranked(sizes) => {
                let fits = |(wanted, found): (&Option<u64>, &u64)| wanted.is_none_or(|size| size == *found);
                sizes.len() == shape.len() && sizes.iter().zip(shape).all(fits)
            }
            Dims::Unranked => true,
        }
    }
}

/// As numpy writes shapes, with `?` for sizes that differ: `(?, ?, 3)`; `(...)` if even their number does.
impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(sizes) = self.sizes() else { return f.write_str("(...)") };
        let sizes: Vec<String> =
            sizes.iter().map(|size| size.map_or("?".to_owned(), |size| size.to_string())).collect();
        f.write_str(&tuple(&sizes))
    }
}

/// A shape as numpy writes it: `(3,)`, `(4, 2)`.
pub(crate) fn shape_text(shape: &[u64]) -> String {
    tuple(&shape.iter().map(u64::to_string).collect::<Vec<_>>())
}

fn tuple(sizes: &[String]) -> String {
    match sizes {
        [only] => format!("({only},)"),
        _ => format!("({})", sizes.join(", ")),
    }
}

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TensorType {
    /// Of its elements.
    pub(crate) dtype: DType,
    /// Of its axes.
    pub(crate) dims: Dims,
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of shape {}", self.dtype, self.dims)
    }
}

impl TensorType {
    /// A number: a tensor without axes.
    pub(crate) fn number(dtype: DType) -> TensorType {
        TensorType { dtype, dims: Dims::Fixed(Vec::new()) }
    }

    /// The type of the tensors in a column. `None` if it holds none; plain numbers are none.
    pub(crate) fn of(field: &Field) -> Option<TensorType> {
        if let Some((_, mapping)) = Mapping::noted(field) {
            return TensorType::of_mapping(&mapping);
        }
        // Somebody else's tensors, by Arrow's own names.
        let metadata = field.metadata();
        let note =
            || -> Option<Json> { serde_json::from_str(metadata.get("ARROW:extension:metadata")?).ok() };
        // Only C order is read here: a tensor with other axes first is left alone.
        let in_order = |note: &Json| note.get("permutation").is_none_or(Json::is_null);
        match (metadata.get("ARROW:extension:name")?.as_str(), field.data_type()) {
            ("arrow.fixed_shape_tensor", DataType::FixedSizeList(item, size)) => {
                let note = note().filter(in_order)?;
                let shape: Vec<u64> = serde_json::from_value(note.get("shape")?.clone()).ok()?;
                let dtype = dtype_of(item.data_type())?;
                let count = shape.iter().try_fold(1u64, |count, size| count.checked_mul(*size))?;
                (count == u64::try_from(*size).ok()? && shape.len() <= MAX_RANK)
                    .then_some(TensorType { dtype, dims: Dims::Fixed(shape) })
            }
            ("arrow.variable_shape_tensor", DataType::Struct(fields)) if fields.len() == 2 => {
                let note = note().unwrap_or_default();
                let (data, shape) = (fields[0].data_type(), fields[1].data_type());
                let (DataType::List(item), DataType::FixedSizeList(_, rank)) = (data, shape) else {
                    return None;
                };
                let rank = usize::try_from(*rank).ok().filter(|rank| *rank <= MAX_RANK)?;
                let uniform = note.get("uniform_shape").cloned().unwrap_or_default();
                let sizes: Option<Vec<Option<u64>>> = serde_json::from_value(uniform).ok();
                let sizes = sizes.filter(|sizes| sizes.len() == rank).unwrap_or_else(|| vec![None; rank]);
                let names = fields[0].name() == "data" && fields[1].name() == "shape";
                (names && in_order(&note))
                    .then_some(TensorType { dtype: dtype_of(item.data_type())?, dims: Dims::Ranked(sizes) })
            }
            _ => None,
        }
    }

    fn of_mapping(mapping: &Mapping) -> Option<TensorType> {
        Some(match mapping {
            // Plain numbers, but for those that Arrow has no type for.
            Mapping::Number(DType::BF16) => TensorType::number(DType::BF16),
            Mapping::List(dtype) => TensorType { dtype: *dtype, dims: Dims::Ranked(vec![None]) },
            Mapping::Fixed { dtype, shape } => TensorType { dtype: *dtype, dims: Dims::Fixed(shape.clone()) },
            Mapping::Ragged { dtype, shape } => {
                TensorType { dtype: *dtype, dims: Dims::Ranked(shape.clone()) }
            }
            Mapping::Unranked(dtype) => TensorType { dtype: *dtype, dims: Dims::Unranked },
            _ => return None,
        })
    }

    /// The field of a column of such tensors: [`TensorType::of`] gives the type back, and `lacus_arrow` the column. Numbers
    /// that Arrow has a type for have a plain field. Fails for shapes of more elements than a list of Arrow's can have.
    pub(crate) fn field(&self, name: &str) -> Result<Field> {
        let (column, mapping) = self.column()?;
        Ok(match mapping {
            Mapping::Number(dtype) if dtype != DType::BF16 => Field::new(name, mapping.data_type(), true),
            _ => mapping.field(name, &column, None),
        })
    }

    /// How Arrow says such tensors.
    pub(crate) fn mapping(&self) -> Result<Mapping> {
        self.column().map(|(_, mapping)| mapping)
    }

    fn column(&self) -> Result<(Column, Mapping)> {
        let spec = ColumnSpec { dtype: Some(self.dtype), shape: self.dims.sizes(), ..ColumnSpec::default() };
        let column = Column::new(&spec).map_err(|error| DataFusionError::Plan(error.to_string()))?;
        let mapping = Mapping::of(&column, None).map_err(DataFusionError::Plan)?;
        Ok((column, mapping))
    }
}

/// The dtype of Arrow's numbers.
pub(crate) fn dtype_of(data_type: &DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Boolean => DType::Bool,
        DataType::Int8 => DType::I8,
        DataType::Int16 => DType::I16,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::UInt8 => DType::U8,
        DataType::UInt16 => DType::U16,
        DataType::UInt32 => DType::U32,
        DataType::UInt64 => DType::U64,
        DataType::Float16 => DType::F16,
        DataType::Float32 => DType::F32,
        DataType::Float64 => DType::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_says_its_type() {
        let check = |dtype: DType, dims: Dims| {
            let given = TensorType { dtype, dims };
            let field = given.field("x").unwrap();
            let is_plain = given.dims == Dims::Fixed(vec![]) && !dtype.is_complex() && dtype != DType::BF16;
            match is_plain {
                true => assert_eq!(field, Field::new("x", field.data_type().clone(), true)),
                false => assert_eq!(TensorType::of(&field), Some(given)),
            }
        };
        for dtype in DType::ALL {
            check(dtype, Dims::Fixed(vec![]));
            check(dtype, Dims::Fixed(vec![3]));
            check(dtype, Dims::Fixed(vec![0, 2]));
            check(dtype, Dims::Ranked(vec![None]));
            check(dtype, Dims::Ranked(vec![None, Some(3)]));
            check(dtype, Dims::Unranked);
        }
    }

    #[test]
    fn sizes_are_shown_as_numpy_does() {
        let check = |dims: Dims, text: &str| assert_eq!(dims.to_string(), text);
        check(Dims::Fixed(vec![]), "()");
        check(Dims::Fixed(vec![4]), "(4,)");
        check(Dims::Ranked(vec![None, Some(3)]), "(?, 3)");
        check(Dims::Unranked, "(...)");
    }
}
