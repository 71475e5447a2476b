//! Boxes in pictures: how they overlap, how large they are, and the ways to write them.
//!
//! A column of boxes says how they are written (`LTRB`, `LTWH` or `CCWH`); where it does not, the format is given as text.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::{DataFusionError, Result, plan_err};
use lacus_arrow::Mapping;
use lacus_sample::{Base, Column, ColumnSpec};
use lacus_tensor::{DType, TensorRef};
use serde_json::json;

use super::function::{Body, Call, Function, Operand, Planned};
use super::promote::{meet, quotient_of};
use crate::tensors::{Dims, in_order, loaded, shape_text, tensor_of};

/// Which numbers a box consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Left, top, right, bottom.
    Ltrb,
    /// Left, top, width, height.
    Ltwh,
    /// Centre, width, height.
    Ccwh,
}

/// What is done with boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boxes {
    Iou,
    Area,
    To(Format),
    Normalize,
}

pub(super) fn functions() -> Vec<Function> {
    let to = |name, about, example, format| {
        Function::new(name, "boxes, format?", about, example, Boxes::To(format))
    };
    vec![
        Function::new(
            "iou",
            "a, b, format?",
            "The intersection of boxes, divided by their union: a matrix of shape (n, m) for boxes of shapes (n, 4) and (m, 4), a \
             number for (4,) and (4,). Boxes of no area have 0. The format is that of the column, or the one given.",
            "SELECT * FROM photos WHERE any(iou(boxes, predictions) > 0.5)",
            Boxes::Iou,
        ),
        Function::new(
            "box_area",
            "boxes, format?",
            "The area of each box.",
            "SELECT box_area(boxes) FROM photos",
            Boxes::Area,
        ),
        to(
            "to_ltrb",
            "Boxes as left, top, right, bottom.",
            "SELECT to_ltrb(boxes) FROM photos",
            Format::Ltrb,
        ),
        to(
            "to_ltwh",
            "Boxes as left, top, width, height.",
            "SELECT to_ltwh(boxes) FROM photos",
            Format::Ltwh,
        ),
        to(
            "to_ccwh",
            "Boxes as centre, width, height.",
            "SELECT to_ccwh(boxes, 'LTRB') FROM photos",
            Format::Ccwh,
        ),
        Function::new(
            "normalize_boxes",
            "boxes, window, format?",
            "Boxes as seen in a window of the picture, which is left, top, width, height: moved, and cut at its edges. A box outside \
             of it has no area.",
            "SELECT image[100:500, 100:500], normalize_boxes(boxes, [100, 100, 400, 400]) FROM photos",
            Boxes::Normalize,
        ),
    ]
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Ltrb => "LTRB",
            Format::Ltwh => "LTWH",
            Format::Ccwh => "CCWH",
        }
    }

    fn named(text: &str) -> Option<Format> {
        [Format::Ltrb, Format::Ltwh, Format::Ccwh]
            .into_iter()
            .find(|format| format.name().eq_ignore_ascii_case(text))
    }

    /// What a field says about its boxes.
    fn of(field: &Field) -> Option<Format> {
        let (column, _) = Mapping::noted(field).filter(|(column, _)| column.htype().base == Base::BBox)?;
        Format::named(column.options().get("coords")?.get("mode")?.as_str()?)
    }

    /// As left, top, right, bottom.
    fn corners(self, [a, b, c, d]: [f64; 4]) -> [f64; 4] {
        match self {
            Format::Ltrb => [a, b, c, d],
            Format::Ltwh => [a, b, a + c, b + d],
            Format::Ccwh => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
        }
    }

    /// From left, top, right, bottom.
    fn of_corners(self, [left, top, right, bottom]: [f64; 4]) -> [f64; 4] {
        match self {
            Format::Ltrb => [left, top, right, bottom],
            Format::Ltwh => [left, top, right - left, bottom - top],
            Format::Ccwh => [(left + right) / 2.0, (top + bottom) / 2.0, right - left, bottom - top],
        }
    }
}

impl Boxes {
    /// Where the format is given.
    fn format_at(self) -> usize {
        match self {
            Boxes::Iou | Boxes::Normalize => 2,
            Boxes::Area | Boxes::To(_) => 1,
        }
    }

    /// How many of the arguments are boxes.
    fn operands(self) -> usize {
        if self == Boxes::Iou { 2 } else { 1 }
    }

    /// The format of each argument that is boxes: the given one, that of its column, or that of the other.
    fn formats(
        self,
        fields: &[arrow::datatypes::FieldRef],
        given: Option<&str>,
    ) -> Result<Vec<Format>, String> {
        if let Some(text) = given {
            let format = Format::named(text);
            let format =
                format.ok_or_else(|| format!("unknown format '{text}': expected LTRB, LTWH or CCWH"))?;
            return Ok(vec![format; self.operands()]);
        }
        let own: Vec<Option<Format>> =
            fields[..self.operands()].iter().map(|field| Format::of(field)).collect();
        let any = own.iter().flatten().next().copied();
        let missing = "the column does not say how its boxes are written: add 'LTRB', 'LTWH' or 'CCWH'";
        own.into_iter().map(|format| format.or(any).ok_or_else(|| missing.to_owned())).collect()
    }
}

/// Fails unless the last axis may be four numbers.
fn check_boxes(call: &Planned<'_>, operand: &Operand) -> Result<()> {
    let fits = match operand.dims.sizes() {
        None => true,
        Some(sizes) => sizes.last().is_some_and(|size| size.is_none_or(|size| size == 4)),
    };
    match fits && !operand.dtype.is_complex() {
        true => Ok(()),
        false => plan_err!("{}: boxes have a last axis of 4 numbers, found {}", call.name, operand.dims),
    }
}

impl Body for Boxes {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let given = call.constant_text(self.format_at(), "the format")?;
        let formats = self.formats(call.fields, given.as_deref());
        let formats = formats.map_err(|why| DataFusionError::Plan(format!("{}: {why}", call.name)))?;
        let boxes = call.operand(0)?;
        check_boxes(call, &boxes)?;
        let front = |operand: &Operand| {
            operand.dims.sizes().map(|mut sizes| {
                sizes.pop();
                sizes
            })
        };
        match self {
            Boxes::Iou => {
                let others = call.operand(1)?;
                check_boxes(call, &others)?;
                for operand in [&boxes, &others] {
                    if operand.dims.rank().is_some_and(|rank| rank > 2) {
                        return plan_err!(
                            "{}: boxes have one axis or two, found shape {}",
                            call.name,
                            operand.dims
                        );
                    }
                }
                let dtype = match quotient_of(meet(&boxes, &others)) {
                    DType::F64 => DType::F64,
                    _ => DType::F32,
                };
                let dims = front(&boxes).zip(front(&others)).map(|(a, b)| [a, b].concat());
                call.field(dtype, Dims::of(dims))
            }
            Boxes::Area => call.field(boxes.dtype, Dims::of(front(&boxes))),
            Boxes::To(format) => {
                let halves = formats[0] == Format::Ccwh || *format == Format::Ccwh;
                let dtype =
                    if halves && formats[0] != *format { quotient_of(boxes.dtype) } else { boxes.dtype };
                written(call, dtype, boxes.dims, *format)
            }
            Boxes::Normalize => {
                let window = call.operand(1)?;
                check_boxes(call, &window)?;
                let halves = formats[0] == Format::Ccwh;
                let dtype = if halves { quotient_of(boxes.dtype) } else { boxes.dtype };
                written(call, dtype, boxes.dims, formats[0])
            }
        }
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let given = call.constant_text(self.format_at());
        let formats = self.formats(&call.fields, given.as_deref());
        let formats = formats.map_err(|why| DataFusionError::Execution(format!("{}: {why}", call.name)))?;
        let dtype = call.output_type()?.dtype;
        let boxes = call.tensors(0)?;
        let others =
            if matches!(self, Boxes::Iou | Boxes::Normalize) { Some(call.tensors(1)?) } else { None };
        call.build(|row| {
            let Some(found) = boxes.get(row)? else { return Ok(None) };
            let (mut dims, numbers) = corners(call, &found.view(), formats[0])?;
            let made = match self {
                Boxes::Iou => {
                    let Some(other) = others.as_ref().map(|others| others.get(row)).transpose()?.flatten()
                    else {
                        return Ok(None);
                    };
                    let (other_dims, other) = corners(call, &other.view(), formats[1])?;
                    dims.pop();
                    dims.extend_from_slice(&other_dims[..other_dims.len() - 1]);
                    numbers.iter().flat_map(|a| other.iter().map(|b| iou(a, b))).collect::<Vec<f64>>()
                }
                Boxes::Area => {
                    dims.pop();
                    numbers.iter().map(|[left, top, right, bottom]| (right - left) * (bottom - top)).collect()
                }
                Boxes::To(format) => numbers.iter().flat_map(|numbers| format.of_corners(*numbers)).collect(),
                Boxes::Normalize => {
                    let Some(window) = others.as_ref().map(|others| others.get(row)).transpose()?.flatten()
                    else {
                        return Ok(None);
                    };
                    let (_, window) = corners(call, &window.view(), Format::Ltwh)?;
                    let [window] = window[..] else { return call.fail("the window is one box") };
                    let cut = |numbers: &[f64; 4]| formats[0].of_corners(cut(numbers, &window));
                    numbers.iter().flat_map(cut).collect()
                }
            };
            tensor_of(dtype, &dims, &made).map(Some).map_err(|error| call.wrong(error))
        })
    }
}

/// The field of boxes that say how they are written.
fn written(call: &Planned<'_>, dtype: DType, dims: Dims, format: Format) -> Result<Field> {
    let mut spec = ColumnSpec {
        htype: Some("bbox".to_owned()),
        dtype: Some(dtype),
        shape: dims.sizes(),
        ..ColumnSpec::default()
    };
    let unit = Mapping::noted(&call.fields[0])
        .and_then(|(column, _)| column.options().get("coords")?.get("type").cloned())
        .unwrap_or(json!("pixel"));
    spec.options.insert("coords".to_owned(), json!({"type": unit, "mode": format.name()}));
    let is_matrix = dims.rank() == Some(2);
    let column = Column::new(&spec).ok().filter(|_| is_matrix);
    match column.and_then(|column| Mapping::of(&column, None).ok().map(|mapping| (column, mapping))) {
        Some((column, mapping)) => Ok(mapping.field(call.name, &column, None)),
        None => call.field(dtype, dims),
    }
}

/// The shape of boxes, and their corners.
fn corners(call: &Call, tensor: &TensorRef<'_>, format: Format) -> Result<(Vec<u64>, Vec<[f64; 4]>)> {
    let dims = tensor.shape().dims().to_vec();
    if dims.last() != Some(&4) {
        return call.fail(format!("boxes have a last axis of 4 numbers, found {}", shape_text(&dims)));
    }
    let numbers = loaded::<f64>(tensor.dtype(), &in_order(tensor));
    Ok((dims, numbers.as_chunks::<4>().0.iter().map(|numbers| format.corners(*numbers)).collect()))
}

fn iou(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let area = |[left, top, right, bottom]: [f64; 4]| (right - left).max(0.0) * (bottom - top).max(0.0);
    let common = area([a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])]);
    let union = area(*a) + area(*b) - common;
    if union > 0.0 { common / union } else { 0.0 }
}

/// A box in the coordinates of a window, cut at its edges.
fn cut(numbers: &[f64; 4], window: &[f64; 4]) -> [f64; 4] {
    let (width, height) = (window[2] - window[0], window[3] - window[1]);
    let x = |value: f64| (value - window[0]).clamp(0.0, width.max(0.0));
    let y = |value: f64| (value - window[1]).clamp(0.0, height.max(0.0));
    [x(numbers[0]), y(numbers[1]), x(numbers[2]), y(numbers[3])]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Value, check, check_error, column, constant_list, fixed, text};
    use super::*;
    use lacus_arrow::Cell;

    fn boxes(format: &str, values: &[f64]) -> Value {
        let mut spec = ColumnSpec { htype: Some("bbox".to_owned()), ..ColumnSpec::default() };
        spec.options.insert("coords".to_owned(), json!({"type": "pixel", "mode": format}));
        let shape = [values.len() as u64 / 4, 4];
        column(&spec, Cell::of_tensor(tensor_of(DType::F32, &shape, values).unwrap()))
    }

    #[test]
    fn boxes_overlap() {
        let two = || boxes("LTWH", &[0.0, 0.0, 2.0, 2.0, 4.0, 4.0, 2.0, 2.0]);
        check(
            "iou",
            &[two(), boxes("LTRB", &[1.0, 0.0, 3.0, 2.0])],
            "float32 (2, 1) [0.3333333432674408, 0]",
        );
        check("iou", &[two(), fixed(DType::F32, &[4], &[0.0, 0.0, 2.0, 2.0])], "float32 (2,) [1, 0]");
        check("iou", &[two(), constant_list(&[0.0, 0.0, 2.0, 2.0])], "float64 (2,) [1, 0]");
        let one = || fixed(DType::F64, &[4], &[0.0, 0.0, 2.0, 2.0]);
        check("iou", &[one(), one(), text("LTRB")], "1.0");
        check_error("iou", &[one(), one()], "iou: the column does not say how its boxes are written");
        check_error(
            "iou",
            &[fixed(DType::F64, &[3], &[0.0; 3]), one(), text("LTRB")],
            "iou: boxes have a last axis of 4 numbers, found (3,)",
        );
        check_error("iou", &[one(), one(), text("XYWH")], "iou: unknown format 'XYWH'");
    }

    #[test]
    fn boxes_are_written_otherwise() {
        let given = || boxes("LTWH", &[1.0, 2.0, 4.0, 2.0]);
        check("box_area", &[given()], "float32 (1,) [8]");
        check("to_ltrb", &[given()], "float32 (1, 4) [1, 2, 5, 4]");
        check("to_ltwh", &[given()], "float32 (1, 4) [1, 2, 4, 2]");
        check("to_ccwh", &[given()], "float32 (1, 4) [3, 3, 4, 2]");
        check(
            "to_ccwh",
            &[fixed(DType::I32, &[4], &[0.0, 0.0, 3.0, 2.0]), text("ltrb")],
            "float64 (4,) [1.5, 1, 3, 2]",
        );
        check(
            "normalize_boxes",
            &[given(), constant_list(&[2.0, 0.0, 2.0, 10.0])],
            "float32 (1, 4) [0, 2, 2, 2]",
        );
        check(
            "normalize_boxes",
            &[given(), constant_list(&[20.0, 0.0, 2.0, 10.0])],
            "float32 (1, 4) [0, 2, 0, 2]",
        );
    }
}
