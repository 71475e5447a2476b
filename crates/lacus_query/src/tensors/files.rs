//! Media files as tensors: what they decode to, and the decoding itself.

use datafusion::common::{DataFusionError, Result, exec_err};
use lacus_media::Facts;
use lacus_sample::{Base, Column, TileRef, Value, decode_blob};
use lacus_tensor::{DType, Index, Tensor};

use super::elements::cast;
use super::tensor_type::{Dims, TensorType};

/// Decodes the files of a column.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    column: Column,
    dtype: DType,
    /// Whether the caller asked for the dtype, and takes what casts do.
    is_forced: bool,
}

impl Files {
    /// `column` holds media files.
    pub(crate) fn new(column: &Column) -> Files {
        let column = column.resolved().element();
        let dtype = match (column.dtype(), column.htype().base) {
            (Some(dtype), _) => dtype,
            // Holds every kind of pixels that DICOM files usually have.
            (None, Base::Dicom) => DType::I32,
            (None, Base::Audio) => DType::F32,
            (None, _) => DType::U8,
        };
        Files { column, dtype, is_forced: false }
    }

    /// The type of what they decode to.
    pub(crate) fn tensor_type(&self) -> TensorType {
        TensorType { dtype: self.dtype, dims: Dims::of(self.column.shape().map(<[_]>::to_vec)) }
    }

    /// The same files, decoded to another dtype.
    pub(crate) fn with_dtype(self, dtype: DType) -> Files {
        Files { dtype, is_forced: true, ..self }
    }

    /// What the header of a file says. The shape is that of what it decodes to.
    pub(crate) fn facts(&self, function: &str, bytes: &[u8]) -> Result<Facts> {
        let mut facts = lacus_media::probe(bytes).map_err(|error| failed(function, &error))?;
        let rank = self.column.shape().map(<[_]>::len);
        match facts.shape[..] {
            [frames, 1] if rank == Some(1) => facts.shape = vec![frames],
            // Pictures in grays have an axis of one channel where others have more.
            _ if rank == Some(facts.shape.len() + 1) => facts.shape.push(1),
            _ => {}
        }
        Ok(facts)
    }

    /// Decodes a file, or what is selected of it. Fails if it is damaged, or holds numbers that the dtype cannot hold.
    pub(crate) fn decode(&self, function: &str, bytes: &[u8], indices: &[Index]) -> Result<Tensor> {
        let facts = self.facts(function, bytes)?;
        let tile = TileRef { coords: Vec::new(), codec: facts.format.name(), bytes };
        let value = decode_blob(&self.column, &facts.shape, indices, &[tile]);
        let tensor = match value.map_err(|error| failed(function, &error))? {
            Value::Tensor(tensor) => tensor,
            _ => return Err(DataFusionError::Execution(format!("{function}: the file holds no tensor"))),
        };
        if tensor.dtype() == self.dtype {
            return Ok(tensor);
        }
        if !self.is_forced && !holds(self.dtype, tensor.dtype()) {
            let (found, wanted) = (tensor.dtype(), self.dtype);
            return exec_err!(
                "{function}: the file holds {found} where the column's files are taken to hold {wanted}; \
                 decode it with decode(file, '{found}')"
            );
        }
        cast(&tensor.as_ref(), self.dtype).map_err(|error| failed(function, &error))
    }
}

/// Whether every number of one dtype is one of another: for the dtypes that files have.
fn holds(wide: DType, narrow: DType) -> bool {
    match (wide, narrow) {
        (DType::F64, _) => !narrow.is_complex() && narrow.size_bytes() < 8,
        (DType::F32, DType::U8 | DType::I8 | DType::U16 | DType::I16) => true,
        (DType::I64, _) => narrow.is_integer() && narrow.size_bytes() < 8,
        (DType::I32, DType::U8 | DType::I8 | DType::U16 | DType::I16) => true,
        (DType::U16 | DType::I16, DType::U8) => true,
        (_, DType::Bool) => true,
        _ => false,
    }
}

fn failed(function: &str, error: &dyn std::error::Error) -> DataFusionError {
    DataFusionError::Execution(format!("{function}: {error}"))
}
