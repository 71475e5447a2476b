//! Polygons: outlines of any number of points, all in the bytes of one row.

use std::borrow::Cow;

use lacus_tensor::{Buffer, Shape, Tensor, TensorRef};
use serde_json::Value as Json;

use crate::column::Column;
use crate::elements::{Casts, Elements, Refused};
use crate::error::SampleError;
use crate::frames::{self, POLYGON};
use crate::literal;
use crate::options::brief;
use crate::pack::Piece;
use crate::sample::{Sample, describe};

const EXPECTED: &str = "lists of points of 2 or 3 numbers";

/// Encodes a list of outlines, or a single one.
pub(crate) fn encode_polygons(column: &Column, sample: Sample<'_>) -> Result<Piece<'static>, SampleError> {
    let dtype = column.known_dtype()?;
    let mut points = Vec::new();
    let mut numbers = Vec::new();
    let mut width = None;
    for (index, outline) in outlines(column, sample)?.into_iter().enumerate() {
        let place = |source| SampleError::Element { index, source: Box::new(source) };
        let found = format!("{} of shape {}", outline.dtype, outline.shape);
        let count = match *outline.shape.dims() {
            // An empty list says nothing about its points.
            [0] => 0,
            [count, each @ (2 | 3)] if *width.get_or_insert(each) == each => count,
            [_, 2 | 3] => {
                let expected = format!("points of {} numbers, as before", width.unwrap_or_default());
                return Err(place(column.misfit(expected, found)));
            }
            _ => return Err(place(column.misfit(EXPECTED, found))),
        };
        let casts = Casts { rounds: true, to_bool: false };
        let outline = outline.cast(dtype, casts).map_err(|refused| {
            let found = match refused {
                Refused::Value(value) => format!("the value {value}"),
                Refused::DType => found,
            };
            place(column.misfit(format!("points of {dtype}"), found))
        })?;
        points.push(count);
        numbers.extend_from_slice(&outline.bytes);
    }
    let bytes = frames::polygons(&points, width.unwrap_or(2), &numbers);
    Ok(Piece { shape: vec![points.len() as u64], codec: POLYGON, bytes: Cow::Owned(bytes) })
}

/// Decodes the outlines at `places`.
pub(crate) fn decode_polygons(
    column: &Column,
    bytes: &[u8],
    count: u64,
    places: impl IntoIterator<Item = u64>,
) -> Result<Vec<Tensor>, SampleError> {
    let dtype = column.known_dtype()?;
    let found = frames::read_polygons(bytes, dtype)?;
    if found.each.len() as u64 != count {
        let detail = format!("{} of them where {count} belong", found.each.len());
        return Err(SampleError::corrupt("polygons", detail));
    }
    let outline = |place: u64| {
        let (points, range) = found.each[place as usize].clone();
        let shape = Shape::new([points, found.width])?;
        Ok(Tensor::new(dtype, shape, Buffer::from_slice(&found.numbers[range]))?)
    };
    places.into_iter().map(outline).collect()
}

fn outlines<'a>(column: &Column, sample: Sample<'a>) -> Result<Vec<Elements<'a>>, SampleError> {
    let owned = |value: &Json| literal::tensor_of(value).map(|tensor| Elements::owned(&tensor));
    let samples = match sample {
        Sample::Tensor(tensor) => return split(column, &tensor),
        Sample::Sequence(samples) => samples,
        Sample::Json(value) => match (literal::tensor_of(&value), value) {
            (Ok(tensor), _) => return split(column, &tensor.as_ref()),
            // Outlines of different lengths are no tensor.
            (_, Json::Array(values)) => values.into_iter().map(Sample::Json).collect(),
            (_, value) => return Err(column.misfit(EXPECTED, brief(&value))),
        },
        other => return Err(column.misfit(EXPECTED, other.describe())),
    };
    let outline = |(index, sample): (usize, Sample<'a>)| {
        let outline = match sample {
            Sample::Tensor(tensor) => Ok(Elements::of(&tensor)),
            Sample::Json(value) => owned(&value),
            other => Err(other.describe()),
        };
        outline
            .map_err(|found| SampleError::Element { index, source: Box::new(column.misfit(EXPECTED, found)) })
    };
    samples.into_iter().enumerate().map(outline).collect()
}

/// The outlines of a tensor: `(polygons, points, 2 or 3)`, or one of `(points, 2 or 3)`.
fn split(column: &Column, tensor: &TensorRef<'_>) -> Result<Vec<Elements<'static>>, SampleError> {
    let elements = Elements::of(tensor);
    let one = |dims: [u64; 2], bytes: &[u8]| -> Result<Elements<'static>, SampleError> {
        Ok(Elements { dtype: elements.dtype, shape: Shape::new(dims)?, bytes: Cow::Owned(bytes.to_vec()) })
    };
    match *elements.shape.dims() {
        [0] => Ok(Vec::new()),
        [points, width] => Ok(vec![one([points, width], &elements.bytes)?]),
        [count, points, width @ (2 | 3)] => {
            let length = (points * width) as usize * elements.dtype.size_bytes();
            let outline =
                |index: u64| one([points, width], &elements.bytes[index as usize * length..][..length]);
            (0..count).map(outline).collect()
        }
        _ => Err(column.misfit(EXPECTED, describe(tensor))),
    }
}
