//! The tensors of an Arrow array, row by row, where they lie.
//!
//! Elements are not copied, with three exceptions: truth values, of which Arrow keeps eight in a byte, lists inside of lists, and
//! what is decoded from files.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, OffsetSizeTrait};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::cast as arrow_cast;
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::common::{DataFusionError, Result, exec_err};
use lacus_tensor::{DType, Index, Shape, Tensor, TensorRef};

use super::files::Files;
use super::kind::{Kind, list_type};
use super::tensor_type::{Dims, TensorType, shape_text};

/// The tensor of a row.
pub(crate) enum Row<'a> {
    /// Where it lies.
    Lent(TensorRef<'a>),
    /// Made for the caller.
    Made(Tensor),
}

impl Row<'_> {
    /// Its elements.
    pub(crate) fn view(&self) -> TensorRef<'_> {
        match self {
            Row::Lent(tensor) => tensor.clone(),
            Row::Made(tensor) => tensor.as_ref(),
        }
    }
}

/// The tensors of an array.
#[derive(Debug)]
pub(crate) struct TensorArray {
    function: &'static str,
    tensor_type: TensorType,
    nulls: Option<NullBuffer>,
    source: Source,
    /// Whether the first row stands for all rows.
    is_repeated: bool,
}

/// Where the elements are.
#[derive(Debug)]
enum Source {
    /// Every row is null.
    Nothing,
    /// Rows of one shape, one after the other.
    Even { shape: Shape, bytes: Bytes },
    /// Rows between offsets, which are in elements of Arrow.
    Lists { offsets: Vec<usize>, bytes: Bytes },
    /// The same, with a shape for each row.
    Shaped { offsets: Vec<usize>, bytes: Bytes, shapes: Vec<Option<Shape>> },
    /// Copied.
    Owned(Vec<Option<Tensor>>),
    /// Decoded when it is asked for.
    Files { files: Box<Files>, array: BinaryArray },
}

/// Bytes of elements.
#[derive(Debug)]
enum Bytes {
    /// Arrow's own.
    Shared(Buffer),
    /// Truth values, a byte for each.
    Unpacked(Vec<u8>),
}

impl Bytes {
    /// Of an array of numbers, from its own offset on.
    fn of(values: &ArrayRef) -> Result<Bytes> {
        if let Some(bits) = values.as_boolean_opt() {
            return Ok(Bytes::Unpacked(bits.values().iter().map(u8::from).collect()));
        }
        let data = values.to_data();
        let width = values.data_type().primitive_width().filter(|_| data.buffers().len() == 1);
        match width {
            Some(width) => Ok(Bytes::Shared(
                data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width),
            )),
            None => exec_err!("{} are no numbers", values.data_type()),
        }
    }

    fn range(&self, start: usize, end: usize) -> &[u8] {
        match self {
            Bytes::Shared(buffer) => &buffer.as_slice()[start..end],
            Bytes::Unpacked(bytes) => &bytes[start..end],
        }
    }
}

impl TensorArray {
    /// The type of what [`TensorArray::new`] makes of a field; `None` for what is no tensor, number, list of numbers or file.
    pub(crate) fn type_of(field: &Field) -> Option<TensorType> {
        match Kind::of(field) {
            Kind::Tensor(tensor) => Some(tensor),
            Kind::Media { column, .. } => Some(Files::new(&column).tensor_type()),
            Kind::Number(dtype) => Some(TensorType::number(dtype)),
            Kind::List => list_type(field.data_type()),
            Kind::Class(_) | Kind::Null | Kind::Other => None,
        }
    }

    /// The tensors of an array with this field. `function` is named in errors.
    pub(crate) fn new(function: &'static str, array: &ArrayRef, field: &Field) -> Result<TensorArray> {
        let nulls = array.logical_nulls();
        let made = |tensor_type: TensorType, source: Source| {
            Ok(TensorArray { function, tensor_type, nulls: nulls.clone(), source, is_repeated: false })
        };
        if array.data_type() == &DataType::Null {
            return made(TensorType::number(DType::F64), Source::Nothing);
        }
        match Kind::of(field) {
            Kind::Media { column, .. } => {
                let files = Files::new(&column);
                let array = arrow_cast(array, &DataType::Binary)?.as_binary::<i32>().clone();
                made(files.tensor_type(), Source::Files { files: Box::new(files), array })
            }
            Kind::Number(dtype) => {
                let source = Source::Even { shape: Shape::default(), bytes: Bytes::of(array)? };
                made(TensorType::number(dtype), source)
            }
            Kind::Tensor(tensor_type) => {
                let source = tensors(&tensor_type, array)?;
                made(tensor_type, source)
            }
            Kind::List => match list_type(field.data_type()) {
                Some(tensor_type) => {
                    let source = lists(function, &tensor_type, array)?;
                    made(tensor_type, source)
                }
                None => exec_err!("{function}: expected numbers, found {}", field.data_type()),
            },
            kind => exec_err!("{function}: expected a tensor, found {}", kind.describe(field)),
        }
    }

    /// Files that decode to another dtype; all others are as they were.
    pub(crate) fn decoding_to(mut self, dtype: DType) -> TensorArray {
        if let Source::Files { files, .. } = &mut self.source {
            **files = files.as_ref().clone().with_dtype(dtype);
            self.tensor_type.dtype = dtype;
        }
        self
    }

    /// What is known of all rows.
    pub(crate) fn tensor_type(&self) -> &TensorType {
        &self.tensor_type
    }

    /// With the first row for all rows.
    pub(crate) fn repeated(self) -> TensorArray {
        TensorArray { is_repeated: true, ..self }
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        let row = self.place(row);
        matches!(self.source, Source::Nothing) || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn place(&self, row: usize) -> usize {
        if self.is_repeated { 0 } else { row }
    }

    /// The tensor of a row; `None` where it is null.
    pub(crate) fn get(&self, row: usize) -> Result<Option<Row<'_>>> {
        self.select(row, &[])
    }

    /// The shape of a row's tensor; of files only the header is read.
    pub(crate) fn shape(&self, row: usize) -> Result<Option<Vec<u64>>> {
        if self.is_null(row) {
            return Ok(None);
        }
        let row = self.place(row);
        match &self.source {
            Source::Files { files, array } => Ok(Some(files.facts(self.function, array.value(row))?.shape)),
            _ => Ok(self.get(row)?.map(|tensor| tensor.view().shape().dims().to_vec())),
        }
    }

    /// What is selected of a row's tensor, everything without indices. Of files no more is decoded than the format demands.
    pub(crate) fn select(&self, row: usize, indices: &[Index]) -> Result<Option<Row<'_>>> {
        if self.is_null(row) {
            return Ok(None);
        }
        let row = self.place(row);
        let dtype = self.tensor_type.dtype;
        let fault = |error: lacus_tensor::TensorError| self.fault(error);
        let whole = match &self.source {
            Source::Nothing => return Ok(None),
            Source::Files { files, array } => {
                let tensor = files.decode(self.function, array.value(row), indices)?;
                return Ok(Some(Row::Made(tensor)));
            }
            Source::Owned(tensors) => match &tensors[row] {
                Some(tensor) => tensor.as_ref(),
                None => return Ok(None),
            },
            Source::Even { shape, bytes } => {
                let size = shape.byte_len(dtype).map_err(fault)?;
                TensorRef::contiguous(dtype, shape, bytes.range(row * size, (row + 1) * size))
                    .map_err(fault)?
            }
            Source::Lists { offsets, bytes } => {
                let (start, end) = (offsets[row], offsets[row + 1]);
                let shape = Shape::new([(end - start) as u64]).map_err(fault)?;
                let width = dtype.component_bytes();
                TensorRef::contiguous(dtype, &shape, bytes.range(start * width, end * width))
                    .map_err(fault)?
            }
            Source::Shaped { offsets, bytes, shapes } => {
                let Some(shape) = &shapes[row] else { return Ok(None) };
                let width = dtype.component_bytes();
                let bytes = bytes.range(offsets[row] * width, offsets[row + 1] * width);
                TensorRef::contiguous(dtype, shape, bytes).map_err(fault)?
            }
        };
        if indices.is_empty() {
            return Ok(Some(Row::Lent(whole)));
        }
        let selection = lacus_tensor::Selection::resolve(whole.shape(), indices).map_err(fault)?;
        whole.select(&selection).map(|tensor| Some(Row::Made(tensor))).map_err(fault)
    }

    /// The float32 elements of all rows, if each has as many and none is copied: for the inner loops of distances.
    pub(crate) fn singles(&self) -> Option<(usize, &[f32])> {
        let Source::Even { shape, bytes: Bytes::Shared(buffer) } = &self.source else { return None };
        if self.tensor_type.dtype != DType::F32 {
            return None;
        }
        Some((usize::try_from(shape.elements()?).ok()?, buffer.typed_data::<f32>()))
    }

    fn fault(&self, error: lacus_tensor::TensorError) -> DataFusionError {
        DataFusionError::Execution(format!("{}: {error}", self.function))
    }
}

/// The elements of an array of tensors.
fn tensors(tensor_type: &TensorType, array: &ArrayRef) -> Result<Source> {
    let complex = tensor_type.dtype.is_complex();
    match (&tensor_type.dims, array.data_type()) {
        (Dims::Fixed(shape), DataType::FixedSizeList(_, size)) => {
            let list = array.as_fixed_size_list();
            let values = list.values().slice(list.value_offset(0) as usize, array.len() * *size as usize);
            let shape =
                Shape::new(shape.clone()).map_err(|error| DataFusionError::Execution(error.to_string()))?;
            Ok(Source::Even { shape, bytes: Bytes::of(&values)? })
        }
        (Dims::Fixed(shape), other) if shape.is_empty() && other.is_primitive() => {
            Ok(Source::Even { shape: Shape::default(), bytes: Bytes::of(array)? })
        }
        (_, DataType::List(_) | DataType::LargeList(_)) => {
            let (offsets, values) = offsets(array)?;
            Ok(Source::Lists { offsets, bytes: Bytes::of(&values)? })
        }
        (_, DataType::Struct(_)) => {
            let parts = array.as_struct();
            let (offsets, values) = offsets(parts.column(0))?;
            let mut shapes = Vec::with_capacity(array.len());
            for row in 0..array.len() {
                if array.is_null(row) {
                    shapes.push(None);
                    continue;
                }
                let sizes = match parts.column(1).data_type() {
                    DataType::FixedSizeList(..) => parts.column(1).as_fixed_size_list().value(row),
                    DataType::LargeList(_) => parts.column(1).as_list::<i64>().value(row),
                    _ => parts.column(1).as_list::<i32>().value(row),
                };
                let sizes = arrow_cast(&sizes, &DataType::Int32)?;
                let sizes = sizes.as_primitive::<Int32Type>().values();
                let mut dims: Vec<u64> = sizes.iter().map(|size| u64::try_from(*size).unwrap_or(0)).collect();
                if complex {
                    dims.pop();
                }
                let shape = Shape::new(dims);
                shapes.push(Some(shape.map_err(|error| DataFusionError::Execution(error.to_string()))?));
            }
            Ok(Source::Shaped { offsets, bytes: Bytes::of(&values)?, shapes })
        }
        (_, other) => exec_err!("{other} does not hold tensors"),
    }
}

/// The offsets of a list's rows in its values.
fn offsets(array: &ArrayRef) -> Result<(Vec<usize>, ArrayRef)> {
    fn wide<O: OffsetSizeTrait>(array: &ArrayRef) -> (Vec<usize>, ArrayRef) {
        let list = array.as_list::<O>();
        (list.offsets().iter().map(|offset| offset.as_usize()).collect(), list.values().clone())
    }
    match array.data_type() {
        DataType::List(_) => Ok(wide::<i32>(array)),
        DataType::LargeList(_) => Ok(wide::<i64>(array)),
        DataType::FixedSizeList(_, size) => {
            let list = array.as_fixed_size_list();
            let size = *size as usize;
            let first = list.value_offset(0) as usize;
            Ok(((0..=array.len()).map(|row| first + row * size).collect(), list.values().clone()))
        }
        other => exec_err!("{other} is no list"),
    }
}

/// Lists of SQL, each as one tensor.
fn lists(function: &str, tensor_type: &TensorType, array: &ArrayRef) -> Result<Source> {
    let (offsets, values) = offsets(array)?;
    let is_flat = tensor_type.dims.rank() == Some(1) && values.data_type() != &DataType::Null;
    if is_flat && values.null_count() == 0 {
        return Ok(Source::Lists { offsets, bytes: Bytes::of(&values)? });
    }
    let mut tensors = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        if array.is_null(row) {
            tensors.push(None);
            continue;
        }
        let items = values.slice(offsets[row], offsets[row + 1] - offsets[row]);
        let mut bytes = Vec::new();
        let mut dims = nested(function, &items, &mut bytes)?;
        // The inner sizes of an empty list.
        dims.resize(tensor_type.dims.rank().unwrap_or(1), 0);
        let shape = Shape::new(dims);
        let tensor = shape.and_then(|shape| {
            Tensor::new(tensor_type.dtype, shape, lacus_tensor::Buffer::from_slice(&bytes))
        });
        tensors
            .push(Some(tensor.map_err(|error| DataFusionError::Execution(format!("{function}: {error}")))?));
    }
    Ok(Source::Owned(tensors))
}

/// The sizes of the items of a list, which all have the same; their elements are appended.
fn nested(function: &str, items: &ArrayRef, bytes: &mut Vec<u8>) -> Result<Vec<u64>> {
    if items.is_empty() {
        return Ok(vec![0]);
    }
    if items.null_count() > 0 || items.data_type() == &DataType::Null {
        return exec_err!("{function}: the list has a NULL among its numbers");
    }
    let mut dims = vec![items.len() as u64];
    if !matches!(items.data_type(), DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
    {
        let found = Bytes::of(items)?;
        match &found {
            Bytes::Shared(buffer) => bytes.extend_from_slice(buffer.as_slice()),
            Bytes::Unpacked(unpacked) => bytes.extend_from_slice(unpacked),
        }
        return Ok(dims);
    }
    let (offsets, values) = offsets(items)?;
    let mut inner: Option<Vec<u64>> = None;
    for row in 0..items.len() {
        let found = nested(function, &values.slice(offsets[row], offsets[row + 1] - offsets[row]), bytes)?;
        match &inner {
            Some(inner) if *inner != found => {
                let (first, other) = (shape_text(inner), shape_text(&found));
                return exec_err!(
                    "{function}: the lists in a list have different shapes: {first} and {other}"
                );
            }
            _ => inner = Some(found),
        }
    }
    dims.extend(inner.unwrap_or_default());
    Ok(dims)
}
