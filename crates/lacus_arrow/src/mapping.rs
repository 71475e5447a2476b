//! Which Arrow type a column has. The one place that decides it, for scans and for what our own import takes back.
//!
//! The table of types is on the page of the crate.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use lacus_media::Format;
use lacus_sample::{Base, Column, Compression};
use lacus_tensor::DType;
use serde_json::{Value as Json, json};

use crate::counts::type_of;
use crate::logical::{self, Dialect};
use crate::note::{FIELD_KEY, came_as, describe};
use crate::numbers::arrow_type;

/// The name of Arrow's type for tensors of one shape.
pub(crate) const FIXED_SHAPE: &str = "arrow.fixed_shape_tensor";

/// The name of Arrow's type for tensors of as many axes, each of its own shape.
pub(crate) const VARIABLE_SHAPE: &str = "arrow.variable_shape_tensor";

/// The name of Arrow's type for JSON.
pub(crate) const JSON: &str = "arrow.json";

pub(crate) const EXTENSION_NAME: &str = "ARROW:extension:name";
pub(crate) const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// How the samples of a column are said in Arrow.
#[derive(Clone, Debug, PartialEq)]
pub enum Mapping {
    /// Nothing yet: the column has no dtype, and so no sample.
    Nothing,
    /// A number.
    Number(DType),
    /// The name of a class, from a dictionary of all names.
    Class {
        /// The dtype of its number.
        dtype: DType,
        /// All names; the place of one is its number.
        names: Vec<String>,
    },
    /// Text.
    Text,
    /// JSON, as text.
    Json,
    /// A media file, or bytes of any meaning.
    Bytes,
    /// Tensors of one axis, each of its own length.
    List(DType),
    /// Tensors of one shape.
    Fixed {
        /// Their dtype.
        dtype: DType,
        /// Their shape.
        shape: Vec<u64>,
    },
    /// Tensors of as many axes.
    Ragged {
        /// Their dtype.
        dtype: DType,
        /// The size of each axis, where all tensors share it.
        shape: Vec<Option<u64>>,
    },
    /// Tensors of any number of axes.
    Unranked(DType),
    /// Outlines: lists of points, which are lists of numbers.
    Polygons(DType),
    /// Several samples of a row.
    Sequence(Box<Mapping>),
    /// The Arrow type that dates, times and decimals have, or that the values came as.
    Logical(DataType),
}

impl Mapping {
    /// How a column with this metadata is said in Arrow. Fails with why it cannot.
    pub fn of(column: &Column, metadata: Option<&Json>) -> Result<Mapping, String> {
        if column.logical().is_none()
            && let Some(data_type) = came_as(metadata)
            && logical::fits(column, &data_type, Dialect::Parquet)
        {
            return Ok(Mapping::Logical(data_type));
        }
        let one = Mapping::of_one(column)?;
        Ok(if column.htype().sequence { Mapping::Sequence(Box::new(one)) } else { one })
    }

    /// One sample, or one element of a sequence.
    fn of_one(column: &Column) -> Result<Mapping, String> {
        if let Some(logical) = column.logical() {
            return Ok(Mapping::Logical(type_of(logical)));
        }
        match column.htype().base {
            Base::Text => return Ok(Mapping::Text),
            Base::Json | Base::List | Base::Tag => return Ok(Mapping::Json),
            Base::Bytes => return Ok(Mapping::Bytes),
            _ if is_files(column) => return Ok(Mapping::Bytes),
            _ => {}
        }
        let Some(dtype) = column.dtype() else { return Ok(Mapping::Nothing) };
        if column.htype().base == Base::Polygon {
            return Ok(Mapping::Polygons(dtype));
        }
        let Some(shape) = column.shape() else { return Ok(Mapping::Unranked(dtype)) };
        let names = column.class_names();
        Ok(match (shape, shape.iter().copied().collect::<Option<Vec<u64>>>()) {
            ([], _) if column.htype().base == Base::ClassLabel && !names.is_empty() => {
                Mapping::Class { dtype, names: names.to_vec() }
            }
            ([], _) if !dtype.is_complex() => Mapping::Number(dtype),
            ([None], _) if !dtype.is_complex() => Mapping::List(dtype),
            (_, Some(shape)) => {
                list_size(dtype, &shape)?;
                Mapping::Fixed { dtype, shape }
            }
            (shape, None) => Mapping::Ragged { dtype, shape: shape.to_vec() },
        })
    }

    /// The Arrow type.
    pub fn data_type(&self) -> DataType {
        match self {
            Mapping::Nothing => DataType::Null,
            Mapping::Number(dtype) => stored_type(*dtype),
            Mapping::Class { .. } => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
            Mapping::Text | Mapping::Json => DataType::Utf8,
            Mapping::Bytes => DataType::Binary,
            Mapping::List(dtype) => DataType::List(item(*dtype)),
            Mapping::Fixed { dtype, shape } => {
                // Whoever makes one has asked.
                DataType::FixedSizeList(item(*dtype), list_size(*dtype, shape).unwrap_or(0))
            }
            Mapping::Ragged { dtype, shape } => {
                let axes = shape.len() + usize::from(dtype.is_complex());
                let size = Arc::new(Field::new("item", DataType::Int32, false));
                DataType::Struct(tensor_fields(*dtype, DataType::FixedSizeList(size, axes as i32)))
            }
            Mapping::Unranked(dtype) => {
                let size = Arc::new(Field::new("item", DataType::Int32, false));
                DataType::Struct(tensor_fields(*dtype, DataType::List(size)))
            }
            Mapping::Polygons(dtype) => {
                let list = |of: DataType| DataType::List(Arc::new(Field::new("item", of, false)));
                list(list(DataType::List(item(*dtype))))
            }
            Mapping::Sequence(of) => DataType::List(of.element()),
            Mapping::Logical(data_type) => data_type.clone(),
        }
    }

    /// The field of one element of a sequence.
    pub(crate) fn element(&self) -> FieldRef {
        Arc::new(Field::new("element", self.data_type(), true).with_metadata(self.extension()))
    }

    /// What the metadata of a field says of Arrow's own extension types.
    fn extension(&self) -> HashMap<String, String> {
        let with_parts = |dtype: &DType, mut shape: Vec<Option<u64>>| {
            shape.extend(dtype.is_complex().then_some(Some(2)));
            shape
        };
        let (name, metadata) = match self {
            Mapping::Json => (JSON, String::new()),
            Mapping::Fixed { dtype, shape } => {
                let shape = with_parts(dtype, shape.iter().copied().map(Some).collect());
                (FIXED_SHAPE, json!({"shape": shape}).to_string())
            }
            Mapping::Ragged { dtype, shape } => {
                let shape = with_parts(dtype, shape.clone());
                let note = match shape.iter().any(Option::is_some) {
                    true => json!({"uniform_shape": shape}),
                    false => json!({}),
                };
                (VARIABLE_SHAPE, note.to_string())
            }
            _ => return HashMap::new(),
        };
        [(EXTENSION_NAME.to_owned(), name.to_owned()), (EXTENSION_METADATA.to_owned(), metadata)].into()
    }

    /// The field of a column: its type, and in the metadata what our own import needs to make the same column of it.
    pub fn field(&self, name: &str, column: &Column, metadata: Option<&Json>) -> Field {
        let mut notes = self.extension();
        notes.insert(FIELD_KEY.to_owned(), describe(column, metadata, None).to_string());
        Field::new(name, self.data_type(), true).with_metadata(notes)
    }
}

/// Whether the rows of a column hold media files, or lead to some.
pub fn is_files(column: &Column) -> bool {
    let is_media = matches!(
        column.htype().base,
        Base::Image | Base::ImageGray | Base::Video | Base::Audio | Base::Dicom
    );
    let as_files = matches!(column.compression(), Compression::Auto | Compression::Media(_));
    is_media && (column.htype().link || as_files)
}

/// Whether a codec of stored bytes is that of a media file.
pub fn is_file_codec(codec: &str) -> bool {
    Format::ALL.into_iter().any(|format| format.name() == codec)
}

/// The Arrow type whose buffers hold the same bits: bfloat16 as uint16, complex numbers as their two parts.
pub(crate) fn stored_type(dtype: DType) -> DataType {
    match dtype {
        DType::BF16 => DataType::UInt16,
        DType::C64 => DataType::Float32,
        DType::C128 => DataType::Float64,
        other => arrow_type(other),
    }
}

/// The field of a tensor's elements. Items are called and counted as other libraries do it for tensors.
pub(crate) fn item(dtype: DType) -> FieldRef {
    Arc::new(Field::new("item", stored_type(dtype), false))
}

pub(crate) fn tensor_fields(dtype: DType, shape: DataType) -> Fields {
    vec![Field::new("data", DataType::List(item(dtype)), false), Field::new("shape", shape, false)].into()
}

/// How many Arrow elements a tensor has. Fails for more than a list of fixed size can have.
pub(crate) fn list_size(dtype: DType, shape: &[u64]) -> Result<i32, String> {
    let parts = if dtype.is_complex() { 2u64 } else { 1 };
    let count = shape.iter().try_fold(parts, |count, size| count.checked_mul(*size));
    let count = count.and_then(|count| i32::try_from(count).ok());
    count.ok_or_else(|| format!("tensors of shape {shape:?} have more elements than an Arrow list can hold"))
}
