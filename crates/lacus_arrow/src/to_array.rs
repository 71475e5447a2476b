//! Samples as Arrow arrays, the way [`Mapping`] says.
//!
//! Numbers that lie one after the other already become an array without being copied; those of single samples are copied
//! once, sample by sample, into the buffer of the array.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeListArray, Int32Array, ListArray,
    StringArray, StructArray, make_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use lacus_tensor::{Buffer as TensorBuffer, DType, Tensor};

use crate::cell::Cell;
use crate::counts;
use crate::logical;
use crate::mapping::{Mapping, item, list_size, stored_type, tensor_fields};

/// Why samples are no Arrow array.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfit {
    /// They are too large together for the 32-bit offsets of one array: fewer may fit.
    TooLarge,
    /// One of them does not fit the type: its place among them, and why.
    Sample(usize, String),
    /// Something is wrong with all of them.
    All(String),
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unfit::TooLarge => {
                f.write_str("more than 2147483647 elements or bytes do not fit into one array")
            }
            Unfit::Sample(_, why) | Unfit::All(why) => f.write_str(why),
        }
    }
}

impl Mapping {
    /// The array of some samples, one per row. Fails with which of them does not fit, and why.
    pub fn array(&self, cells: &[Cell]) -> Result<ArrayRef, Unfit> {
        if let Mapping::Logical(data_type) = self {
            return logical::array(data_type, cells).map_err(|(row, why)| match cells.get(row) {
                Some(Cell::Text(_)) => {
                    Unfit::Sample(row, format!("it came as {data_type} and is none any more: {why}"))
                }
                _ => Unfit::Sample(row, why),
            });
        }
        build(self, &cells.iter().collect::<Vec<_>>())
    }

    /// The array of samples that lie along the first axis of a tensor, which is not copied. `present` says which rows have
    /// one; all have if there is none. `None` if these samples are said in Arrow otherwise.
    pub fn array_of_rows(&self, tensor: Tensor, present: Option<&[bool]>) -> Result<Option<ArrayRef>, Unfit> {
        let rows = tensor.shape().dims().first().map_or(0, |rows| *rows as usize);
        let dtype = match self {
            Mapping::Number(dtype) | Mapping::Fixed { dtype, .. } | Mapping::Class { dtype, .. } => *dtype,
            Mapping::Logical(data_type) if counts::dtype_of(data_type) == Some(tensor.dtype()) => {
                let nulls = present.filter(|some| some.contains(&false)).map(|some| some.to_vec().into());
                let (dtype, numbers) = (tensor.dtype(), tensor.into_buffer());
                let counted = counts::of_numbers(data_type, &straight(dtype, numbers, nulls)?);
                return counted.map(Some).map_err(Unfit::All);
            }
            _ => return Ok(None),
        };
        if tensor.dtype() != dtype {
            return Err(Unfit::All(format!("they are of {} where {dtype} belongs", tensor.dtype())));
        }
        let nulls = present.filter(|present| present.contains(&false)).map(|some| some.to_vec().into());
        Ok(Some(match self {
            Mapping::Number(_) => straight(dtype, tensor.into_buffer(), nulls)?,
            Mapping::Class { names, .. } => {
                if let Some(keys) = keys(dtype, &tensor, names.len()) {
                    return Ok(Some(named(names, &[], Int32Array::new(keys.into(), nulls))?));
                }
                let width = dtype.size_bytes();
                let labels = tensor.bytes().chunks_exact(width).enumerate().map(|(row, bytes)| {
                    let is_present = present.is_none_or(|present| present[row]);
                    is_present.then(|| Cell::scalar(dtype, bytes).as_int()).flatten()
                });
                classes(names, labels)?
            }
            Mapping::Fixed { shape, .. } => {
                fixed(dtype, shape, straight(dtype, tensor.into_buffer(), None)?, nulls, rows)?
            }
            _ => return Ok(None),
        }))
    }
}

fn build(mapping: &Mapping, cells: &[&Cell]) -> Result<ArrayRef, Unfit> {
    let nulls = || {
        let present: Vec<bool> = cells.iter().map(|cell| !matches!(cell, Cell::Missing)).collect();
        present.contains(&false).then(|| NullBuffer::from(present))
    };
    Ok(match mapping {
        Mapping::Nothing => new_null_array(&DataType::Null, cells.len()),
        Mapping::Number(dtype) => {
            let elements = gathered(*dtype, cells, 1, <[u64]>::is_empty)?;
            straight(*dtype, elements.bytes, nulls())?
        }
        Mapping::Class { names, .. } => {
            let mut labels = Vec::with_capacity(cells.len());
            for (row, cell) in cells.iter().enumerate() {
                labels.push(match cell {
                    Cell::Missing => None,
                    other => Some(other.as_int().ok_or_else(|| wrong(row, "a number of a class"))?),
                });
            }
            classes(names, labels.into_iter())?
        }
        Mapping::Text | Mapping::Json => {
            let mut texts = Vec::with_capacity(cells.len());
            for (row, cell) in cells.iter().enumerate() {
                texts.push(match (cell, mapping) {
                    (Cell::Missing, _) => None,
                    (Cell::Text(text), Mapping::Text) => Some(std::borrow::Cow::Borrowed(text.as_str())),
                    (Cell::Json(value), Mapping::Json) => Some(std::borrow::Cow::Owned(value.to_string())),
                    _ => return Err(wrong(row, "text")),
                });
            }
            fits(texts.iter().flatten().map(|text| text.len()))?;
            Arc::new(StringArray::from_iter(texts))
        }
        Mapping::Bytes => {
            let mut files = Vec::with_capacity(cells.len());
            for (row, cell) in cells.iter().enumerate() {
                files.push(match cell {
                    Cell::Missing => None,
                    Cell::Media(bytes) => Some(bytes),
                    _ => return Err(wrong(row, "bytes")),
                });
            }
            fits(files.iter().flatten().map(|bytes| bytes.len()))?;
            Arc::new(BinaryArray::from_iter(files))
        }
        Mapping::List(dtype) => {
            let elements = gathered(*dtype, cells, 0, |dims| dims.len() == 1)?;
            let values = straight(*dtype, elements.bytes, None)?;
            lists(item(*dtype), &elements.lengths, values, nulls())?
        }
        Mapping::Fixed { dtype, shape } => {
            let size = list_size(*dtype, shape).map_err(Unfit::All)? as usize / parts(*dtype);
            let elements = gathered(*dtype, cells, size, |dims| dims == shape)?;
            fixed(*dtype, shape, straight(*dtype, elements.bytes, None)?, nulls(), cells.len())?
        }
        Mapping::Ragged { dtype, shape } => {
            let fits = |dims: &[u64]| {
                let same = |(size, wanted): (&u64, &Option<u64>)| wanted.is_none_or(|wanted| wanted == *size);
                dims.len() == shape.len() && dims.iter().zip(shape).all(same)
            };
            let elements = gathered(*dtype, cells, 0, fits)?;
            let axes = shape.len() + parts(*dtype) - 1;
            let sizes = Arc::new(Int32Array::from(shapes(*dtype, cells, Some(shape.len()))?.0));
            let field: FieldRef = Arc::new(Field::new("item", DataType::Int32, false));
            let sizes = FixedSizeListArray::try_new_with_length(field, axes as i32, sizes, None, cells.len());
            tensors(*dtype, elements, Arc::new(sizes.map_err(fault)?), nulls())?
        }
        Mapping::Unranked(dtype) => {
            let elements = gathered(*dtype, cells, 0, |_| true)?;
            let (sizes, ranks) = shapes(*dtype, cells, None)?;
            let field: FieldRef = Arc::new(Field::new("item", DataType::Int32, false));
            let sizes = lists(field, &ranks, Arc::new(Int32Array::from(sizes)), None)?;
            tensors(*dtype, elements, sizes, nulls())?
        }
        Mapping::Polygons(dtype) => polygons(*dtype, cells, nulls())?,
        Mapping::Sequence(of) => {
            let (mut inner, mut lengths) = (Vec::new(), Vec::with_capacity(cells.len()));
            for (row, cell) in cells.iter().enumerate() {
                match cell {
                    Cell::Missing => lengths.push(0),
                    Cell::List(items) => {
                        lengths.push(items.len());
                        inner.extend(items);
                    }
                    _ => return Err(wrong(row, "a list")),
                }
            }
            let values = build(of, &inner).map_err(|unfit| match unfit {
                // The place of the row it is in.
                Unfit::Sample(place, why) => {
                    let mut end = 0;
                    let row = lengths.iter().position(|length| {
                        end += length;
                        place < end
                    });
                    Unfit::Sample(row.unwrap_or(0), why)
                }
                other => other,
            })?;
            lists(of.element(), &lengths, values, nulls())?
        }
        Mapping::Logical(data_type) => {
            let owned: Vec<Cell> = cells.iter().map(|cell| (*cell).clone()).collect();
            logical::array(data_type, &owned).map_err(|(row, why)| Unfit::Sample(row, why))?
        }
    })
}

fn wrong(row: usize, wanted: &str) -> Unfit {
    Unfit::Sample(row, format!("it is no {}", wanted.trim_start_matches("a ")))
}

fn fault(error: arrow::error::ArrowError) -> Unfit {
    Unfit::All(error.to_string())
}

/// Whether offsets of 32 bits reach the end of all.
fn fits(mut lengths: impl Iterator<Item = usize>) -> Result<(), Unfit> {
    let total = lengths.try_fold(0usize, |total, length| total.checked_add(length));
    match total.is_some_and(|total| i32::try_from(total).is_ok()) {
        true => Ok(()),
        false => Err(Unfit::TooLarge),
    }
}

/// How many Arrow elements one element is.
fn parts(dtype: DType) -> usize {
    if dtype.is_complex() { 2 } else { 1 }
}

/// Elements of samples, one after the other.
struct Elements {
    bytes: TensorBuffer,
    /// Arrow elements of each sample.
    lengths: Vec<usize>,
}

/// The elements of all samples, and room for `gap` elements where one is missing. Fails for a shape that does not fit.
fn gathered(
    dtype: DType,
    cells: &[&Cell],
    gap: usize,
    fits: impl Fn(&[u64]) -> bool,
) -> Result<Elements, Unfit> {
    let width = dtype.size_bytes();
    let mut found: Vec<Option<&[u8]>> = Vec::with_capacity(cells.len());
    for (row, cell) in cells.iter().enumerate() {
        if matches!(cell, Cell::Missing) {
            found.push(None);
            continue;
        }
        let (of, dims, bytes) = cell.elements().ok_or_else(|| wrong(row, "tensor"))?;
        if of != dtype || !fits(dims) {
            return Err(Unfit::Sample(row, format!("{of} of shape {dims:?} does not fit")));
        }
        found.push(Some(bytes));
    }
    let gap = gap.checked_mul(width).ok_or(Unfit::TooLarge)?;
    let length = |bytes: &Option<&[u8]>| bytes.map_or(gap, <[u8]>::len);
    let total = found.iter().try_fold(0usize, |total, bytes| total.checked_add(length(bytes)));
    let memory = |error: lacus_tensor::TensorError| Unfit::All(error.to_string());
    let mut bytes = TensorBuffer::try_for_overwrite(total.ok_or(Unfit::TooLarge)?).map_err(memory)?;
    let (mut at, mut lengths) = (0, Vec::with_capacity(found.len()));
    for one in &found {
        let out = &mut bytes[at..at + length(one)];
        match one {
            Some(one) => out.copy_from_slice(one),
            None => out.fill(0),
        }
        at += out.len();
        lengths.push(out.len() / width * parts(dtype));
    }
    Ok(Elements { bytes, lengths })
}

/// An array over a tensor's own memory.
fn straight(dtype: DType, buffer: TensorBuffer, nulls: Option<NullBuffer>) -> Result<ArrayRef, Unfit> {
    struct Owner(TensorBuffer);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    if dtype == DType::Bool {
        let bits = BooleanBuffer::collect_bool(buffer.len(), |i| buffer[i] != 0);
        return Ok(Arc::new(BooleanArray::new(bits, nulls)));
    }
    let data_type = stored_type(dtype);
    let length = buffer.len() / data_type.primitive_width().unwrap_or(1);
    let memory = match buffer.is_empty() {
        true => Buffer::from_vec(Vec::<u64>::new()),
        false => Buffer::from(bytes::Bytes::from_owner(Owner(buffer))),
    };
    let data = arrow::array::ArrayData::builder(data_type).len(length).nulls(nulls).add_buffer(memory);
    data.build().map(make_array).map_err(fault)
}

fn fixed(
    dtype: DType,
    shape: &[u64],
    values: ArrayRef,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> Result<ArrayRef, Unfit> {
    let size = list_size(dtype, shape).map_err(Unfit::All)?;
    let lists = FixedSizeListArray::try_new_with_length(item(dtype), size, values, nulls, rows);
    Ok(Arc::new(lists.map_err(fault)?))
}

fn lists(
    field: FieldRef,
    lengths: &[usize],
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Unfit> {
    fits(lengths.iter().copied())?;
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    Ok(Arc::new(ListArray::try_new(field, offsets, values, nulls).map_err(fault)?))
}

fn tensors(
    dtype: DType,
    elements: Elements,
    shapes: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Unfit> {
    let values = straight(dtype, elements.bytes, None)?;
    let data = lists(item(dtype), &elements.lengths, values, None)?;
    let fields = tensor_fields(dtype, shapes.data_type().clone());
    Ok(Arc::new(StructArray::try_new(fields, vec![data, shapes], nulls).map_err(fault)?))
}

/// The sizes of all samples one after the other, and how many each has. Missing ones have `rank` zeros.
fn shapes(dtype: DType, cells: &[&Cell], rank: Option<usize>) -> Result<(Vec<i32>, Vec<usize>), Unfit> {
    let (mut sizes, mut ranks) = (Vec::new(), Vec::with_capacity(cells.len()));
    for (row, cell) in cells.iter().enumerate() {
        let before = sizes.len();
        match cell.elements() {
            Some((_, dims, _)) => {
                for size in dims {
                    let size = i32::try_from(*size).map_err(|_| {
                        Unfit::Sample(row, format!("an axis of {size} is too long for Arrow"))
                    })?;
                    sizes.push(size);
                }
                sizes.extend(dtype.is_complex().then_some(2));
            }
            None => sizes.extend(std::iter::repeat_n(0, rank.map_or(0, |rank| rank + parts(dtype) - 1))),
        }
        ranks.push(sizes.len() - before);
    }
    Ok((sizes, ranks))
}

/// Names by number. A number that has no name stands for itself.
fn classes(names: &[String], labels: impl Iterator<Item = Option<i64>>) -> Result<ArrayRef, Unfit> {
    let mut others: Vec<i64> = Vec::new();
    let mut keys = Vec::new();
    for label in labels {
        keys.push(match label {
            None => None,
            Some(number) => match usize::try_from(number).ok().filter(|place| *place < names.len()) {
                Some(place) => i32::try_from(place).ok(),
                None => {
                    let at = others.iter().position(|other| *other == number);
                    let at = at.unwrap_or_else(|| {
                        others.push(number);
                        others.len() - 1
                    });
                    i32::try_from(names.len() + at).ok()
                }
            },
        });
    }
    named(names, &others, Int32Array::from(keys))
}

fn named(names: &[String], others: &[i64], keys: Int32Array) -> Result<ArrayRef, Unfit> {
    let all = names.iter().cloned().chain(others.iter().map(i64::to_string));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(all));
    Ok(Arc::new(DictionaryArray::try_new(keys, values).map_err(fault)?))
}

/// Labels as keys into so many names; `None` if one has no name, or if they are of a dtype that labels seldom have.
fn keys(dtype: DType, labels: &Tensor, names: usize) -> Option<Vec<i32>> {
    let bytes = labels.bytes();
    let most = u64::try_from(names).ok().filter(|names| *names > 0 && *names <= i32::MAX as u64)? - 1;
    // Two passes without branches, which the compiler makes vectors of. Missing labels are zeros.
    macro_rules! of {
        ($number:ty) => {{
            let labels = bytes.as_chunks::<{ size_of::<$number>() }>().0;
            // A negative number is a great one here.
            let greatest = labels.iter().map(|label| <$number>::from_le_bytes(*label)).max().unwrap_or(0);
            (u64::from(greatest) <= most)
                .then(|| labels.iter().map(|label| <$number>::from_le_bytes(*label) as i32).collect())
        }};
    }
    match dtype {
        DType::U8 => of!(u8),
        DType::U16 => of!(u16),
        DType::U32 | DType::I32 => of!(u32),
        DType::U64 | DType::I64 => of!(u64),
        _ => None,
    }
}

fn polygons(dtype: DType, cells: &[&Cell], nulls: Option<NullBuffer>) -> Result<ArrayRef, Unfit> {
    let (mut all, mut outlines): (Vec<&Cell>, Vec<usize>) = (Vec::new(), Vec::with_capacity(cells.len()));
    let (mut points, mut coordinates) = (Vec::new(), Vec::new());
    for (row, cell) in cells.iter().enumerate() {
        let items: &[Cell] = match cell {
            Cell::Missing => &[],
            Cell::List(items) => items,
            _ => return Err(wrong(row, "a list of outlines")),
        };
        outlines.push(items.len());
        for outline in items {
            let Some((_, &[count, width], _)) = outline.elements() else {
                return Err(wrong(row, "a list of outlines"));
            };
            points.push(count as usize);
            coordinates.extend(std::iter::repeat_n(width as usize, count as usize));
            all.push(outline);
        }
    }
    let values = straight(dtype, gathered(dtype, &all, 0, |_| true)?.bytes, None)?;
    let field = |of: &ArrayRef| Arc::new(Field::new("item", of.data_type().clone(), false));
    let values = lists(item(dtype), &coordinates, values, None)?;
    let values = lists(field(&values), &points, values, None)?;
    lists(field(&values), &outlines, values, nulls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_offsets_do_not_reach_is_too_large() {
        let most = i32::MAX as usize;
        assert_eq!(fits([most - 1, 1].into_iter()), Ok(()));
        assert_eq!(fits([most, 1].into_iter()), Err(Unfit::TooLarge));
        assert_eq!(fits([usize::MAX, 1].into_iter()), Err(Unfit::TooLarge));
    }

    #[test]
    fn samples_that_do_not_fit_are_named() {
        let check = |mapping: Mapping, cell: Cell, why: &str| {
            let unfit = mapping.array(&[Cell::Missing, cell]).unwrap_err();
            assert_eq!(unfit, Unfit::Sample(1, why.to_owned()));
        };
        check(Mapping::Number(DType::U8), Cell::text("7"), "it is no tensor");
        check(Mapping::Number(DType::U8), Cell::int(7), "int64 of shape [] does not fit");
        check(Mapping::Text, Cell::int(7), "it is no text");
        let several = Mapping::Sequence(Box::new(Mapping::Text));
        check(several, Cell::List(vec![Cell::text("a"), Cell::int(7)]), "it is no text");
        let tensor = Cell::tensor(DType::F32, &[2], &[0; 8]).unwrap();
        check(
            Mapping::Fixed { dtype: DType::F32, shape: vec![3] },
            tensor,
            "float32 of shape [2] does not fit",
        );
    }
}
