//! Tensors for the eye, or as JSON.

use lacus::table::{Read, Table};
use lacus::tensor::{DType, SparseTensor, Tensor};
use serde_json::{Value as Json, json};

use super::Wanted;
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::number;
use crate::{numbers, preview};

/// Elements that are printed as JSON at most: a screen of megabytes helps nobody.
const MOST_JSON: u64 = 1_000_000;

pub(super) async fn show(
    context: &Context,
    table: &Table,
    wanted: &[Wanted],
    dense: bool,
) -> Result<(), Failure> {
    if context.output.json {
        let mut values = Vec::new();
        for tensor in wanted {
            values.push(json_of(table, tensor, dense).await?);
        }
        let all = if values.len() == 1 { values.remove(0) } else { Json::Array(values) };
        return context.output.stdout(&format!("{all}\n"));
    }
    for (number, tensor) in wanted.iter().enumerate() {
        let blank = if number > 0 { "\n" } else { "" };
        let text = text_of(table, tensor, dense).await?;
        context.output.stdout(&format!("{blank}{}\n{text}", title(tensor)))?;
    }
    Ok(())
}

fn title(wanted: &Wanted) -> String {
    format!("{}: {} {}", wanted.name(), wanted.header().dtype, wanted.selection.output_shape())
}

async fn text_of(table: &Table, wanted: &Wanted, dense: bool) -> Result<String, Failure> {
    let (name, header) = (wanted.name(), wanted.header());
    if !header.layout.is_sparse() {
        return preview::dense(table, name, header, &wanted.selection, &wanted.indices).await;
    }
    if wanted.selection.is_all() && !dense {
        let first = preview::first_nonzeros(table, name, header).await?;
        return Ok(preview::sparse(&first, header.nnz.unwrap_or(0)));
    }
    match table.read(name, &wanted.indices).await? {
        Read::Sparse(tensor) if !dense && tensor.shape().rank() > 0 => {
            Ok(preview::sparse(&tensor, tensor.nnz() as u64))
        }
        Read::Sparse(tensor) => Ok(preview::in_memory(&tensor.to_dense()?)),
        Read::Dense(tensor) => Ok(preview::in_memory(&tensor)),
    }
}

async fn json_of(table: &Table, wanted: &Wanted, dense: bool) -> Result<Json, Failure> {
    let header = wanted.header();
    let elements = match header.nnz {
        Some(nnz) if !dense => nnz.min(wanted.selection.output_elements()),
        _ => wanted.selection.output_elements(),
    };
    if elements > MOST_JSON {
        let message = format!("{} has {} elements, too many for JSON", title(wanted), number(elements));
        return Err(Failure::invalid(message).hint("-o writes it to a file, --slice takes a part"));
    }
    let mut json = json!({
        "name": wanted.name(),
        "dtype": header.dtype.name(),
        "shape": wanted.selection.output_shape().dims(),
    });
    match table.read(wanted.name(), &wanted.indices).await? {
        Read::Sparse(tensor) if !dense => {
            json["nnz"] = json!(tensor.nnz());
            json["indices"] = indices_of(&tensor);
            json["values"] = tensor
                .values()
                .chunks_exact(tensor.dtype().size_bytes())
                .map(|item| numbers::json(tensor.dtype(), item))
                .collect();
        }
        Read::Sparse(tensor) => json["values"] = values_of(&tensor.to_dense()?),
        Read::Dense(tensor) => json["values"] = values_of(&tensor),
    }
    Ok(json)
}

fn indices_of(tensor: &SparseTensor) -> Json {
    let of_row = |row: usize| (0..tensor.shape().rank()).map(|axis| json!(tensor.axis(axis)[row])).collect();
    (0..tensor.nnz()).map(of_row).collect::<Vec<Json>>().into()
}

/// Nested lists, one level per axis.
fn values_of(tensor: &Tensor) -> Json {
    fn nested(dtype: DType, dims: &[u64], bytes: &[u8]) -> Json {
        let Some((&len, inner)) = dims.split_first() else {
            return numbers::json(dtype, bytes);
        };
        let each = bytes.len() / usize::try_from(len).unwrap_or(usize::MAX).max(1);
        (0..len as usize).map(|i| nested(dtype, inner, &bytes[i * each..][..each])).collect()
    }
    nested(tensor.dtype(), tensor.shape().dims(), tensor.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus::tensor::{Buffer, Shape};

    #[test]
    fn lists_are_nested_like_axes() {
        let check = |dims: &[u64], bytes: &[u8], expected: Json| {
            let tensor =
                Tensor::new(DType::U8, Shape::new(dims).unwrap(), Buffer::from_slice(bytes)).unwrap();
            assert_eq!(values_of(&tensor), expected);
        };
        check(&[], &[7], json!(7));
        check(&[2, 3], &[1, 2, 3, 4, 5, 6], json!([[1, 2, 3], [4, 5, 6]]));
        check(&[2, 0], &[], json!([[], []]));
        check(&[0, 2], &[], json!([]));
    }
}
