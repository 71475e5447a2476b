//! An Arrow array of tensors, made row by row.

use std::sync::Arc;

use arrow::array::{
    ArrayData, ArrayRef, BooleanArray, FixedSizeListArray, Int32Array, ListArray, StructArray, make_array,
};
use arrow::buffer::{BooleanBuffer, MutableBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use lacus_arrow::Mapping;
use lacus_tensor::{DType, TensorRef};

use super::tensor_type::{TensorType, shape_text};

/// Takes tensors and gives the array of them.
pub(crate) struct TensorBuilder {
    function: &'static str,
    tensor_type: TensorType,
    mapping: Mapping,
    bytes: MutableBuffer,
    present: Vec<bool>,
    /// Arrow elements of each row, where rows differ.
    lengths: Vec<usize>,
    /// The sizes of all rows.
    sizes: Vec<i32>,
    /// How many each row has.
    ranks: Vec<usize>,
}

impl TensorBuilder {
    /// Of tensors of this type. `function` is named in errors.
    pub(crate) fn new(
        function: &'static str,
        tensor_type: &TensorType,
        rows: usize,
    ) -> Result<TensorBuilder> {
        let mapping = tensor_type.mapping()?;
        Ok(TensorBuilder {
            function,
            tensor_type: tensor_type.clone(),
            mapping,
            bytes: MutableBuffer::new(0),
            present: Vec::with_capacity(rows),
            lengths: Vec::with_capacity(rows),
            sizes: Vec::new(),
            ranks: Vec::with_capacity(rows),
        })
    }

    /// Appends a null.
    pub(crate) fn push_null(&mut self) {
        let gap = match &self.mapping {
            Mapping::Number(_) => 1,
            Mapping::Fixed { shape, .. } => shape.iter().product::<u64>() as usize,
            _ => 0,
        };
        self.bytes.extend_zeros(gap * self.tensor_type.dtype.size_bytes());
        self.present.push(false);
        self.lengths.push(0);
        let rank = match &self.mapping {
            Mapping::Ragged { shape, .. } => shape.len() + usize::from(self.tensor_type.dtype.is_complex()),
            _ => 0,
        };
        self.sizes.extend(std::iter::repeat_n(0, rank));
        self.ranks.push(rank);
    }

    /// Appends a tensor. Fails if it is none of the type.
    pub(crate) fn push(&mut self, tensor: &TensorRef<'_>) -> Result<()> {
        let (dtype, dims) = (tensor.dtype(), tensor.shape().dims());
        let wanted = &self.tensor_type;
        if dtype != wanted.dtype {
            return internal_err!("{}: made {dtype} where {} belongs", self.function, wanted.dtype);
        }
        if !wanted.dims.holds(dims) {
            let (function, found, wanted) = (self.function, shape_text(dims), &wanted.dims);
            return exec_err!("{function}: a tensor of shape {found} where all have shape {wanted}");
        }
        let before = self.bytes.len();
        match tensor.contiguous_bytes() {
            Some(bytes) => self.bytes.extend_from_slice(bytes),
            None => self.bytes.extend_from_slice(tensor.to_tensor().bytes()),
        }
        self.present.push(true);
        self.lengths.push((self.bytes.len() - before) / dtype.component_bytes());
        if matches!(self.mapping, Mapping::Ragged { .. } | Mapping::Unranked(_)) {
            let start = self.sizes.len();
            for size in dims {
                self.sizes.push(i32::try_from(*size).map_err(|_| self.too_large())?);
            }
            self.sizes.extend(dtype.is_complex().then_some(2));
            self.ranks.push(self.sizes.len() - start);
        }
        Ok(())
    }

    /// Appends what there is.
    pub(crate) fn push_option(&mut self, tensor: Option<TensorRef<'_>>) -> Result<()> {
        match tensor {
            Some(tensor) => self.push(&tensor),
            None => {
                self.push_null();
                Ok(())
            }
        }
    }

    /// The array.
    pub(crate) fn finish(self) -> Result<ArrayRef> {
        let rows = self.present.len();
        let nulls = self.present.contains(&false).then(|| NullBuffer::from(self.present.clone()));
        let dtype = self.tensor_type.dtype;
        let data_type = self.mapping.data_type();
        if self.lengths.iter().sum::<usize>() > i32::MAX as usize
            && !matches!(self.mapping, Mapping::Fixed { .. })
        {
            return Err(self.too_large());
        }
        match (&self.mapping, &data_type) {
            (Mapping::Number(_), _) => numbers(dtype, data_type.clone(), self.bytes, nulls),
            (Mapping::Fixed { .. }, DataType::FixedSizeList(item, size)) => {
                let values = numbers(dtype, item.data_type().clone(), self.bytes, None)?;
                let array =
                    FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, values, nulls, rows)?;
                Ok(Arc::new(array))
            }
            (Mapping::List(_), DataType::List(item)) => list(dtype, item, self.bytes, &self.lengths, nulls),
            (_, DataType::Struct(fields)) => {
                let (DataType::List(item), shape) = (fields[0].data_type(), fields[1].data_type()) else {
                    return internal_err!("{data_type} holds no tensors");
                };
                let data = list(dtype, item, self.bytes, &self.lengths, None)?;
                let sizes: ArrayRef = Arc::new(Int32Array::from(self.sizes));
                let shapes: ArrayRef = match shape {
                    DataType::FixedSizeList(item, rank) => {
                        let item = Arc::clone(item);
                        Arc::new(FixedSizeListArray::try_new_with_length(item, *rank, sizes, None, rows)?)
                    }
                    DataType::List(item) => {
                        let offsets = OffsetBuffer::from_lengths(self.ranks);
                        Arc::new(ListArray::try_new(Arc::clone(item), offsets, sizes, None)?)
                    }
                    other => return internal_err!("{other} holds no shapes"),
                };
                Ok(Arc::new(StructArray::try_new(fields.clone(), vec![data, shapes], nulls)?))
            }
            _ => internal_err!("{data_type} holds no tensors"),
        }
    }

    fn too_large(&self) -> DataFusionError {
        let function = self.function;
        DataFusionError::Execution(format!(
            "{function}: more than 2147483647 elements do not fit into one array"
        ))
    }
}

fn list(
    dtype: DType,
    item: &FieldRef,
    bytes: MutableBuffer,
    lengths: &[usize],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let values = numbers(dtype, item.data_type().clone(), bytes, None)?;
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
}

/// Elements as an array of the Arrow type that holds the same bits.
fn numbers(
    dtype: DType,
    data_type: DataType,
    bytes: MutableBuffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    if dtype == DType::Bool {
        let bits = BooleanBuffer::collect_bool(bytes.len(), |at| bytes.as_slice()[at] != 0);
        return Ok(Arc::new(BooleanArray::new(bits, nulls)));
    }
    let len = bytes.len() / data_type.primitive_width().unwrap_or(1);
    Ok(make_array(ArrayData::builder(data_type).len(len).nulls(nulls).add_buffer(bytes.into()).build()?))
}

#[cfg(test)]
mod tests {
    use arrow::array::Array;

    use super::super::elements::tensor_of;
    use super::super::tensor_array::TensorArray;
    use super::super::tensor_type::Dims;
    use super::*;

    /// What is pushed comes out again, also from slices.
    fn check(dtype: DType, dims: Dims, rows: &[Option<&[u64]>]) {
        let tensor_type = TensorType { dtype, dims };
        let mut builder = TensorBuilder::new("test", &tensor_type, rows.len()).unwrap();
        let tensors: Vec<_> = rows
            .iter()
            .enumerate()
            .map(|(row, shape)| {
                let shape = (*shape)?;
                let count = shape.iter().product::<u64>() as usize;
                Some(tensor_of(dtype, shape, &vec![row as f64 + 1.0; count]).unwrap())
            })
            .collect();
        for tensor in &tensors {
            builder.push_option(tensor.as_ref().map(|tensor| tensor.as_ref())).unwrap();
        }
        let (array, field) = (builder.finish().unwrap(), tensor_type.field("x").unwrap());
        assert_eq!(array.data_type(), field.data_type());
        for start in 0..rows.len() {
            let read = TensorArray::new("test", &array.slice(start, rows.len() - start), &field).unwrap();
            for (row, expected) in tensors.iter().enumerate().skip(start) {
                let found = read.get(row - start).unwrap().map(|found| found.view().to_tensor());
                assert_eq!(found, *expected, "row {row} of {tensor_type} from {start}");
            }
        }
    }

    #[test]
    fn what_is_pushed_comes_out_again() {
        for dtype in DType::ALL {
            check(dtype, Dims::Fixed(vec![]), &[Some(&[]), None, Some(&[])]);
            check(dtype, Dims::Fixed(vec![2, 3]), &[Some(&[2, 3]), None, Some(&[2, 3])]);
            check(dtype, Dims::Fixed(vec![0]), &[Some(&[0]), None]);
            check(dtype, Dims::Ranked(vec![None]), &[Some(&[2]), None, Some(&[0]), Some(&[3])]);
            check(dtype, Dims::Ranked(vec![None, Some(3)]), &[Some(&[2, 3]), None, Some(&[1, 3])]);
            check(dtype, Dims::Unranked, &[Some(&[2, 3]), None, Some(&[]), Some(&[0, 4])]);
        }
    }

    #[test]
    fn a_wrong_shape_is_refused() {
        let tensor_type = TensorType { dtype: DType::U8, dims: Dims::Fixed(vec![2]) };
        let mut builder = TensorBuilder::new("test", &tensor_type, 1).unwrap();
        let tensor = tensor_of(DType::U8, &[3], &[1u64, 2, 3]).unwrap();
        let error = builder.push(&tensor.as_ref()).unwrap_err().to_string();
        assert!(error.contains("test: a tensor of shape (3,) where all have shape (2,)"), "{error}");
    }
}
