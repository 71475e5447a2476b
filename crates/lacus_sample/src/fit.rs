//! A tensor is fitted to its column: a missing axis of one added, shape and dtype checked, values looked at.

use lacus_tensor::DType;

use crate::column::{AddedAxis, Column};
use crate::elements::{Casts, Elements, Refused, doubles};
use crate::error::SampleError;
use crate::htype::Base;
use crate::options::BoxMode;

/// The elements as the column holds them. `literal` ones were written without a dtype, so they are rounded.
///
/// Fails with what was expected and what was found.
pub(crate) fn fit<'a>(
    column: &Column,
    elements: Elements<'a>,
    literal: bool,
) -> Result<Elements<'a>, SampleError> {
    let dtype = column.known_dtype()?;
    let found = || format!("{} of shape {}", elements.dtype, elements.shape);
    let dims = with_added_axis(column, elements.shape.dims());
    if !shape_fits(column, &dims) {
        return Err(column.misfit(column.expected(), found()));
    }
    let rules = column.rules();
    let casts = Casts { rounds: rules.rounds || literal, to_bool: column.htype().base == Base::BinaryMask };
    // The description is made before the elements go, but only where a cast may fail.
    let description = (elements.dtype != dtype).then(&found);
    let elements = if dims == elements.shape.dims() { elements } else { elements.reshape(&dims)? };
    let elements = elements.cast(dtype, casts).map_err(|refused| {
        let found = match refused {
            Refused::Value(value) => format!("the value {value}"),
            Refused::DType => description.unwrap_or_default(),
        };
        column.misfit(column.expected(), found)
    })?;
    check_values(column, &elements)?;
    Ok(elements)
}

/// The elements of many rows as a column of scalars holds them; `None` if there is one that does not fit.
pub(crate) fn fit_scalars<'a>(
    column: &Column,
    elements: &Elements<'a>,
    literal: bool,
) -> Option<Elements<'a>> {
    let casts = Casts { rounds: column.rules().rounds || literal, to_bool: false };
    let fitted = elements.clone().cast(column.dtype()?, casts).ok()?;
    check_values(column, &fitted).ok()?;
    Some(fitted)
}

/// Whether a sample of this shape may be in the column.
pub(crate) fn shape_fits(column: &Column, dims: &[u64]) -> bool {
    let rules = column.rules();
    let declared = match column.shape() {
        Some(shape) => {
            shape.len() == dims.len()
                && shape.iter().zip(dims).all(|(declared, size)| declared.is_none_or(|d| d == *size))
        }
        None => rules.axes.is_empty() || rules.axes.iter().any(|axes| axes.len() == dims.len()),
    };
    let last = dims.last().is_none_or(|last| rules.last.is_empty() || rules.last.contains(last));
    declared && last
}

/// The shape with the axis of size one that some types let one leave out.
pub(crate) fn with_added_axis(column: &Column, dims: &[u64]) -> Vec<u64> {
    let rank = column.shape().map(<[_]>::len);
    let mut dims = dims.to_vec();
    if rank != Some(dims.len() + 1) {
        return dims;
    }
    match column.htype().base.added_axis() {
        Some(AddedAxis::Last) => dims.push(1),
        // An empty list is a list of no boxes, not one box of no numbers.
        Some(AddedAxis::First) if dims == [0] => {
            let declared = column.shape().and_then(|shape| shape.last().copied().flatten());
            dims.extend(declared.or(column.rules().last.first().copied()));
        }
        Some(AddedAxis::First) => dims.insert(0, 1),
        None => {}
    }
    dims
}

fn check_values(column: &Column, elements: &Elements<'_>) -> Result<(), SampleError> {
    match column.htype().base {
        Base::ClassLabel => check_classes(column, elements),
        Base::BBox => check_boxes(column, elements),
        Base::BBox3d => check_boxes_3d(column, elements),
        Base::Keypoints => check_keypoints(column, elements.shape.dims()),
        Base::Time => check_times(column, elements),
        _ if elements.dtype == DType::Bool => check_bools(column, elements),
        _ => Ok(()),
    }
}

fn check_bools(column: &Column, elements: &Elements<'_>) -> Result<(), SampleError> {
    match elements.bytes.iter().find(|byte| **byte > 1) {
        Some(byte) => Err(column.misfit("bools of 0 and 1", format!("the value {byte}"))),
        None => Ok(()),
    }
}

fn check_times(column: &Column, elements: &Elements<'_>) -> Result<(), SampleError> {
    let Some(logical) = column.logical() else { return Ok(()) };
    let counts = elements.bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
    match counts.into_iter().find(|count| !logical.holds(*count)) {
        Some(count) => Err(column.misfit(logical.expected(), count.to_string())),
        None => Ok(()),
    }
}

fn check_classes(column: &Column, elements: &Elements<'_>) -> Result<(), SampleError> {
    let count = column.class_names().len();
    let signed = matches!(elements.dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    if count == 0 && !signed {
        return Ok(());
    }
    let outside = |number: &f64| *number < 0.0 || count > 0 && *number >= count as f64;
    match doubles(elements.dtype, &elements.bytes).find(outside) {
        None => Ok(()),
        Some(number) if count == 0 => Err(column.misfit("a number of at least 0", number.to_string())),
        Some(number) => Err(column.misfit(format!("a class from 0 to {}", count - 1), number.to_string())),
    }
}

fn check_boxes(column: &Column, elements: &Elements<'_>) -> Result<(), SampleError> {
    let settings = column.settings();
    let numbers: Vec<f64> = doubles(elements.dtype, &elements.bytes).collect();
    for (place, &[a, b, c, d]) in numbers.as_chunks::<4>().0.iter().enumerate() {
        let found = || format!("box {place} of [{a}, {b}, {c}, {d}]");
        if ![a, b, c, d].iter().all(|number| number.is_finite()) {
            return Err(column.misfit("boxes of finite numbers", found()));
        }
        let (width, height, how) = match settings.box_mode {
            BoxMode::Ltrb => (c - a, d - b, "left ≤ right and top ≤ bottom"),
            BoxMode::Ltwh => (c, d, "left, top, and a width and height of at least 0"),
            BoxMode::Ccwh => (c, d, "a centre, and a width and height of at least 0"),
        };
        if width < 0.0 || height < 0.0 {
            return Err(column.misfit(format!("boxes with {how}"), found()));
        }
        if settings.fractional && ![a, b, c, d].iter().all(|number| (0.0..=1.0).contains(number)) {
            return Err(column.misfit("boxes of fractions from 0 to 1", found()));
        }
    }
    Ok(())
}

/// Centre, three sizes, and what else there is: an angle, or an angle and one more number.
fn check_boxes_3d(column: &Column, elements: &Elements<'_>) -> Result<(), SampleError> {
    let numbers: Vec<f64> = doubles(elements.dtype, &elements.bytes).collect();
    let width = elements.shape.dims().last().map_or(1, |last| *last as usize).max(1);
    for (place, numbers) in numbers.chunks_exact(width).enumerate() {
        let found = || format!("box {place} of {numbers:?}");
        if !numbers.iter().all(|number| number.is_finite()) {
            return Err(column.misfit("boxes of finite numbers", found()));
        }
        if numbers.iter().skip(3).take(3).any(|size| *size < 0.0) {
            return Err(column.misfit("boxes with a centre and three sizes of at least 0", found()));
        }
    }
    Ok(())
}

/// COCO's way: two or three numbers (x, y, and whether it is visible) per point, one column per thing. Where points have
/// names, there are as many as names.
fn check_keypoints(column: &Column, dims: &[u64]) -> Result<(), SampleError> {
    let names = column.settings().keypoints as u64;
    let numbers = dims.first().copied().unwrap_or(0);
    let fits = match names {
        0 => numbers % 2 == 0 || numbers % 3 == 0,
        names => numbers == 2 * names || numbers == 3 * names,
    };
    if fits {
        return Ok(());
    }
    let expected = match names {
        0 => "x, y and visibility (3 numbers) or x and y (2 numbers) for each keypoint".to_owned(),
        names => format!("{names} keypoints ({} numbers, or {} without visibility)", 3 * names, 2 * names),
    };
    Err(column.misfit(expected, format!("{numbers} numbers")))
}
