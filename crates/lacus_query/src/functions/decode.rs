//! `decode`: the pixels and samples of media files.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::{Result, plan_err};
use datafusion::functions::encoding;
use lacus_tensor::DType;

use super::function::{Body, Call, Function, Planned};
use crate::tensors::{TensorArray, TensorBuilder, cast};

#[derive(Debug)]
struct Decode;

pub(super) fn functions() -> Vec<Function> {
    vec![Function::new(
        "decode",
        "file, dtype?",
        "The tensor in a media file. With a dtype, every file is converted to it. Tensors stay as they are.",
        "SELECT decode(image) FROM photos",
        Decode,
    )
    // SQL's own, of texts in hex and base64.
    .plain(encoding::decode)]
}

/// A dtype by its name.
pub(super) fn dtype_named(call: &Planned<'_>, at: usize) -> Result<Option<DType>> {
    match call.constant_text(at, "the dtype")? {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(dtype) => Ok(Some(dtype)),
            Err(error) => plan_err!("{}: {error}", call.name),
        },
    }
}

impl Body for Decode {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let operand = call.operand(0)?;
        call.field(dtype_named(call, 1)?.unwrap_or(operand.dtype), operand.dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let wanted = call.output_type()?;
        let tensors: TensorArray = call.tensors(0)?;
        let tensors = match call.count() {
            2 => tensors.decoding_to(wanted.dtype),
            _ => tensors,
        };
        let mut builder = TensorBuilder::new(call.name, &wanted, call.rows)?;
        for row in 0..call.rows {
            match tensors.get(row)? {
                None => builder.push_null(),
                Some(found) if found.view().dtype() == wanted.dtype => builder.push(&found.view())?,
                Some(found) => {
                    let found = cast(&found.view(), wanted.dtype).map_err(|error| call.wrong(error))?;
                    builder.push(&found.as_ref())?;
                }
            }
        }
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, fixed, image, text};
    use lacus_tensor::DType;

    #[test]
    fn files_become_tensors() {
        let pixels: Vec<f64> = (0..12).map(f64::from).collect();
        let picture = image(&[2, 2, 3], &pixels);
        check(
            "decode",
            std::slice::from_ref(&picture),
            "uint8 (2, 2, 3) [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]",
        );
        check(
            "decode",
            &[picture.clone(), text("float32")],
            "float32 (2, 2, 3) [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]",
        );
        check("decode", &[fixed(DType::I16, &[2], &[1.0, 2.0])], "int16 (2,) [1, 2]");
        check("tensor_max", std::slice::from_ref(&picture), "11");
        check("shape", std::slice::from_ref(&picture), "int64 (3,) [2, 2, 3]");
        check_error("decode", &[picture, text("float")], "decode: unknown dtype 'float'");
    }
}
