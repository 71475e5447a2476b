//! Rows put together into sequences, and sequences taken apart into rows.
//!
//! ```text
//! label  image          label  image                       boxes (2, 4), (1, 4)          boxes (4,), (4,), (4,)
//! cat    a              cat    [a, c]                      name  x,      y               name  x,    x,    y
//! dog    b       ──→    dog    [b]                                            ──→
//! cat    c              GROUP BY label                                              UNGROUP BY boxes
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, UInt64Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Schema};
use arrow::row::{RowConverter, SortField};
use lacus_arrow::Mapping;

use crate::tensors::{Dims, Kind, TensorArray, TensorBuilder, TensorType};

/// Rows by groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The places of all rows, group after group. Groups come in the order of their first rows, rows in their own.
    pub order: Vec<u64>,
    /// Where each group ends in the order.
    pub ends: Vec<usize>,
}

/// Groups of rows with equal keys. Missing values are equal to each other, and so are NaNs and zeros of either sign.
pub(crate) fn groups(keys: &[ArrayRef]) -> Result<Groups, String> {
    let wrong = |error: arrow::error::ArrowError| error.to_string();
    let keys: Vec<ArrayRef> = keys.iter().map(with_one_zero).collect();
    let fields = keys.iter().map(|key| SortField::new(key.data_type().clone())).collect();
    let rows = RowConverter::new(fields).map_err(wrong)?.convert_columns(&keys).map_err(wrong)?;
    let mut members: Vec<Vec<u64>> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for (place, row) in rows.iter().enumerate() {
        let group = *known.entry(row.data().to_vec()).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        members[group].push(place as u64);
    }
    let mut ends = Vec::with_capacity(members.len());
    let mut order = Vec::with_capacity(rows.num_rows());
    for group in members {
        order.extend(group);
        ends.push(order.len());
    }
    Ok(Groups { order, ends })
}

/// Numbers without zeros that have a sign.
fn with_one_zero(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|value| value + 0.0))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| value + 0.0))
        }
        _ => Arc::clone(array),
    }
}

/// A row for each group, of rows that lie group after group: columns that are the same throughout a group have its first value, the
/// others become sequences.
pub(crate) fn stack(
    rows: &RecordBatch,
    ends: &[usize],
    is_same: &dyn Fn(&str) -> bool,
) -> Result<RecordBatch, String> {
    let wrong = |error: arrow::error::ArrowError| error.to_string();
    let firsts = || UInt64Array::from_iter_values(starts(ends).map(|start| start as u64));
    let offset =
        |end: &usize| i32::try_from(*end).map_err(|_| "more rows than a sequence can have".to_owned());
    let offsets = std::iter::once(Ok(0)).chain(ends.iter().map(offset)).collect::<Result<Vec<i32>, _>>()?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let (mut fields, mut arrays): (Vec<FieldRef>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        if is_same(field.name()) {
            fields.push(Arc::clone(field));
            arrays.push(take(array, &firsts(), None).map_err(wrong)?);
            continue;
        }
        let element = Arc::new(field.as_ref().clone().with_name("element").with_nullable(true));
        let list = ListArray::try_new(element, offsets.clone(), Arc::clone(array), None).map_err(wrong)?;
        fields.push(Arc::new(Field::new(field.name(), list.data_type().clone(), true)));
        arrays.push(Arc::new(list));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(wrong)
}

fn starts(ends: &[usize]) -> impl Iterator<Item = usize> + '_ {
    std::iter::once(0).chain(ends.iter().copied()).take(ends.len())
}

/// The elements of a column of sequences, one after the other.
pub(crate) struct Elements {
    /// How many each row has; a row without a sequence has none.
    pub counts: Vec<usize>,
    /// What they are.
    pub field: Field,
    /// All of them.
    pub array: ArrayRef,
}

/// Takes the sequences of a column apart: those of `sequence[…]`, lists, and tensors along their first axis.
pub(crate) fn elements(field: &Field, array: &ArrayRef) -> Result<Elements, String> {
    match Kind::of(field) {
        Kind::List => of_lists(field, array),
        Kind::Tensor(of) => of_tensors(&of, field, array).map_err(|error| error.strip_backtrace()),
        kind => Err(format!(
            "{:?} holds {}, which is no sequence; sequences, lists and tensors can be taken apart",
            field.name(),
            kind.describe(field)
        )),
    }
}

fn of_lists(field: &Field, array: &ArrayRef) -> Result<Elements, String> {
    let wrong = |error: arrow::error::ArrowError| error.to_string();
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
        field.data_type()
    else {
        return Err(format!("{:?} is no list", field.name()));
    };
    let list = cast(array, &DataType::List(Arc::clone(item))).map_err(wrong)?;
    let list = list.as_list::<i32>();
    let (mut counts, mut places) = (Vec::with_capacity(list.len()), Vec::new());
    for row in 0..list.len() {
        let range = match list.is_null(row) {
            true => 0..0,
            false => list.value_offsets()[row] as u64..list.value_offsets()[row + 1] as u64,
        };
        counts.push((range.end - range.start) as usize);
        places.extend(range);
    }
    let array = take(list.values(), &UInt64Array::from(places), None).map_err(wrong)?;
    Ok(Elements { counts, field: element_of(field, item), array })
}

/// The field of one element of a list: that of a stored sequence has all that the column says of it.
fn element_of(field: &Field, item: &FieldRef) -> Field {
    if let Some((column, Mapping::Sequence(of))) = Mapping::noted(field) {
        let noted = of.field(field.name(), &column.element(), None);
        if noted.data_type() == item.data_type() {
            return noted;
        }
    }
    item.as_ref().clone().with_name(field.name()).with_nullable(true)
}

fn of_tensors(of: &TensorType, field: &Field, array: &ArrayRef) -> datafusion::common::Result<Elements> {
    let dims = match &of.dims {
        Dims::Unranked => Dims::Unranked,
        dims => Dims::of(dims.sizes().map(|sizes| sizes.get(1..).unwrap_or_default().to_vec())),
    };
    let inner = TensorType { dtype: of.dtype, dims };
    let tensors = TensorArray::new("ungroup by", array, field)?;
    let mut builder = TensorBuilder::new("ungroup by", &inner, array.len())?;
    let mut counts = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        let Some(tensor) = tensors.get(row)? else {
            counts.push(0);
            continue;
        };
        let tensor = tensor.view();
        let count = tensor.shape().dims().first().copied().unwrap_or(0);
        for at in 0..count {
            builder.push(&tensor.row(at))?;
        }
        counts.push(count as usize);
    }
    Ok(Elements { counts, field: inner.field(field.name())?, array: builder.finish()? })
}

/// The rows with each repeated as often as its sequences are long. Columns that `taken_apart` has are replaced by their elements.
pub(crate) fn unstack(
    rows: &RecordBatch,
    counts: &[usize],
    taken_apart: &dyn Fn(&str) -> Option<(Field, ArrayRef)>,
) -> Result<RecordBatch, String> {
    let wrong = |error: arrow::error::ArrowError| error.to_string();
    let places = counts.iter().enumerate().flat_map(|(row, count)| std::iter::repeat_n(row as u64, *count));
    let places = UInt64Array::from_iter_values(places);
    let (mut fields, mut arrays): (Vec<FieldRef>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        match taken_apart(field.name()) {
            Some((field, array)) => {
                fields.push(Arc::new(field));
                arrays.push(array);
            }
            None => {
                fields.push(Arc::clone(field));
                arrays.push(take(array, &places, None).map_err(wrong)?);
            }
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
            .unwrap()
    }

    #[test]
    fn groups_come_in_the_order_of_their_first_rows() {
        let labels: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("a"), None, Some("b"), None]));
        let found = groups(&[Arc::clone(&labels)]).unwrap();
        assert_eq!(found, Groups { order: vec![0, 3, 1, 2, 4], ends: vec![2, 3, 5] });
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 1.0, f64::NAN, 1.0, 2.0]));
        assert_eq!(groups(&[numbers]).unwrap().ends, [2, 4, 5]);
        let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
        assert_eq!(groups(&[none]).unwrap(), Groups { order: vec![], ends: vec![] });
    }

    #[test]
    fn what_was_stacked_comes_apart_again() {
        let rows = batch(vec![
            ("label", Arc::new(StringArray::from(vec!["b", "b", "a"])) as ArrayRef),
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
        ]);
        let stacked = stack(&rows, &[2, 3], &|name| name == "label").unwrap();
        assert_eq!(stacked.num_rows(), 2);
        let schema = stacked.schema();
        let apart = elements(schema.field(1), stacked.column(1)).unwrap();
        assert_eq!(apart.counts, [2, 1]);
        let again = unstack(&stacked, &apart.counts, &|name| {
            (name == "n").then(|| (apart.field.clone(), Arc::clone(&apart.array)))
        });
        assert_eq!(again.unwrap(), rows);
    }

    #[test]
    fn rows_without_a_sequence_give_no_rows() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![]),
            Some(vec![Some(3)]),
        ]);
        let field = Field::new("x", lists.data_type().clone(), true);
        let found = elements(&field, &(Arc::new(lists) as ArrayRef)).unwrap();
        assert_eq!(found.counts, [2, 0, 0, 1]);
        assert_eq!(found.array.as_ref(), &Int64Array::from(vec![1, 2, 3]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let error = elements(&Field::new("x", DataType::Utf8, true), &text).err().unwrap();
        assert_eq!(
            error,
            "\"x\" holds text, which is no sequence; sequences, lists and tensors can be taken apart"
        );
    }
}
