//! A matrix as MatrixMarket text.

use std::io::Write;

use lacus_tensor::{DType, Shape, SparseTensor, TensorRef};

use crate::error::Fault;
use crate::note::Note;
use crate::numbers::{write_unsigned, write_value};
use crate::value::{FileValue, for_each_block};

const FLUSH_BYTES: usize = 1 << 16;

/// Writes a whole file: a sparse matrix as `coordinate`, a dense one as `array`.
pub(crate) fn write(out: &mut dyn Write, value: &FileValue<'_>) -> Result<(), Fault> {
    if value.shape().rank() != 2 {
        return Err(Fault::unsupported(format!(
            "mtx holds matrices; a tensor of shape {} goes into a .tns, .npy or .npz file",
            value.shape()
        )));
    }
    match value {
        FileValue::Sparse(tensor) => write_sparse(out, tensor),
        FileValue::Dense(tensor) => write_array(out, tensor),
    }
}

fn write_sparse(out: &mut dyn Write, tensor: &SparseTensor) -> Result<(), Fault> {
    let fault = Fault::io("write");
    let dtype = tensor.dtype();
    // True is what a pattern says without words; a stored false needs one.
    let pattern = dtype == DType::Bool && tensor.values().iter().all(|&value| value == 1);
    let field = if pattern { "pattern" } else { field(dtype, tensor.values()) };
    let mut text = begin("coordinate", field, dtype, tensor.shape());
    text.push(b' ');
    write_unsigned(&mut text, tensor.nnz() as u64);
    text.push(b'\n');
    let items = tensor.values().chunks_exact(dtype.size_bytes());
    for ((&row, &column), item) in tensor.axis(0).iter().zip(tensor.axis(1)).zip(items) {
        write_unsigned(&mut text, row as u64 + 1);
        text.push(b' ');
        write_unsigned(&mut text, column as u64 + 1);
        if !pattern {
            text.push(b' ');
            write_value(&mut text, dtype, item);
        }
        text.push(b'\n');
        if text.len() >= FLUSH_BYTES {
            out.write_all(&text).map_err(&fault)?;
            text.clear();
        }
    }
    out.write_all(&text).map_err(&fault)
}

fn write_array(out: &mut dyn Write, tensor: &TensorRef<'_>) -> Result<(), Fault> {
    let fault = Fault::io("write");
    let dtype = tensor.dtype();
    let columns = tensor.transpose(&[1, 0]);
    let mut field_name = field(dtype, &[]);
    if dtype == DType::U64 {
        for_each_block(&columns, |block| {
            if field(dtype, block) != field_name {
                field_name = field(dtype, block);
            }
            Ok::<(), Fault>(())
        })?;
    }
    let mut text = begin("array", field_name, dtype, tensor.shape());
    text.push(b'\n');
    for_each_block(&columns, |block| {
        for item in block.chunks_exact(dtype.size_bytes()) {
            write_value(&mut text, dtype, item);
            text.push(b'\n');
            if text.len() >= FLUSH_BYTES {
                out.write_all(&text)?;
                text.clear();
            }
        }
        Ok(())
    })
    .map_err(&fault)?;
    out.write_all(&text).map_err(&fault)
}

/// The header, the note and the sizes, up to the last column's.
fn begin(layout: &str, field: &str, dtype: DType, shape: &Shape) -> Vec<u8> {
    let mut text = format!("%%MatrixMarket matrix {layout} {field} general\n").into_bytes();
    text.extend_from_slice(&Note::line('%', dtype, None));
    write_unsigned(&mut text, shape.dims()[0]);
    text.push(b' ');
    write_unsigned(&mut text, shape.dims()[1]);
    text
}

/// The word for a dtype. `unsigned-integer` is not in the standard, so it is only used for what no
/// other program could read as `integer`.
fn field(dtype: DType, values: &[u8]) -> &'static str {
    let above_signed = || values.chunks_exact(8).any(|item| item[7] >= 0x80);
    match dtype {
        DType::C64 | DType::C128 => "complex",
        dtype if dtype.is_float() => "real",
        DType::U64 if above_signed() => "unsigned-integer",
        _ => "integer",
    }
}
