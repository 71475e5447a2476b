//! All functions in a plain session of DataFusion, called from SQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::array_value_to_string;
use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use lacus_arrow::Mapping;
use lacus_media::{EncodeOptions, Format};
use lacus_sample::{Column, ColumnSpec};
use lacus_tensor::DType;

use super::all;
use crate::tensors::{Dims, TensorBuilder, TensorType, tensor_of};

/// Three rows: a number, a text, vectors, matrices of several sizes, pictures; all but the first two are null in the last row.
fn session() -> SessionContext {
    let tensors = |dtype: DType, dims: Dims, rows: [&[u64]; 2]| -> (Field, ArrayRef) {
        let tensor_type = TensorType { dtype, dims };
        let mut builder = TensorBuilder::new("test", &tensor_type, 3).unwrap();
        for (row, shape) in rows.iter().enumerate() {
            let count = shape.iter().product::<u64>();
            let values: Vec<f64> = (0..count).map(|at| (at + row as u64 * 10) as f64).collect();
            builder.push(&tensor_of(dtype, shape, &values).unwrap().as_ref()).unwrap();
        }
        builder.push_null();
        (tensor_type.field("").unwrap(), builder.finish().unwrap())
    };
    let picture = |shape: &[u64]| {
        let count = shape.iter().product::<u64>() as usize;
        let tensor = tensor_of(DType::U8, shape, &vec![9.0; count]).unwrap();
        lacus_media::encode(tensor.as_ref(), Format::Png, &EncodeOptions::default()).unwrap()
    };
    let images =
        Column::new(&ColumnSpec { htype: Some("image".to_owned()), ..ColumnSpec::default() }).unwrap();
    let (small, large) = (picture(&[2, 3, 3]), picture(&[4, 5, 3]));
    let image_field = Mapping::of(&images, None).unwrap().field("image", &images, None);
    let (vector_field, vectors) = tensors(DType::F32, Dims::Fixed(vec![3]), [&[3], &[3]]);
    let (matrix_field, matrices) = tensors(DType::U8, Dims::Ranked(vec![None, Some(2)]), [&[2, 2], &[3, 2]]);
    let columns: Vec<(Field, ArrayRef)> = vec![
        (Field::new("id", DataType::Int64, true), Arc::new(Int64Array::from(vec![1, 2, 3]))),
        (
            Field::new("name", DataType::Utf8, true),
            Arc::new(StringArray::from(vec!["a cat", "a dog", "an owl"])),
        ),
        (vector_field.with_name("v"), vectors),
        (matrix_field.with_name("m"), matrices),
        (image_field, Arc::new(BinaryArray::from(vec![Some(&small[..]), Some(&large[..]), None]))),
    ];
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let session = SessionContext::new();
    for udf in all() {
        session.register_udf(udf.as_ref().clone());
    }
    session.register_batch("t", batch).unwrap();
    session
}

/// The rows of an answer, columns joined by `|` and rows by `;`.
fn answer(query: &str) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let batches = runtime.block_on(async { session().sql(query).await?.collect().await })?;
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| array_value_to_string(column, row));
            rows.push(cells.collect::<Result<Vec<_>, _>>()?.join("|"));
        }
    }
    Ok(rows.join(";"))
}

#[track_caller]
fn check(query: &str, expected: &str) {
    match answer(query) {
        Ok(found) => assert_eq!(found, expected, "{query}"),
        Err(error) => panic!("{query}: {error}"),
    }
}

#[track_caller]
fn check_error(query: &str, part: &str) {
    match answer(query) {
        Ok(found) => panic!("{query} gave {found}"),
        Err(error) => assert!(error.to_string().contains(part), "{query}: {error}"),
    }
}

#[test]
fn tensors_in_expressions() {
    check("SELECT tensor_sum(v) FROM t", "3.0;33.0;");
    check("SELECT tensor_sum(m, axis => 0) FROM t", "[2, 4];[36, 39];");
    check("SELECT tensor_sum(m, 1) FROM t", "[1, 5];[21, 25, 29];");
    check("SELECT shape(m), ndim(m), dtype(m), size(m) FROM t", "[2, 2]|2|uint8|4;[3, 2]|2|uint8|6;|||");
    check("SELECT subscript(m, 'i,i', -1, 0) FROM t", "2;14;");
    check("SELECT subscript(v, 'i', id - 1) FROM t", "0.0;11.0;");
    check("SELECT tensor_max(tensor_multiply(subscript(m, 'a:b', 0, 2), 2)) FROM t", "6;26;");
    check("SELECT id FROM t WHERE tensor_sum(v) > 3", "2");
    check("SELECT id FROM t WHERE any(tensor_gt(m, 12))", "2");
    check("SELECT id FROM t WHERE all(tensor_lt(m, 12))", "1");
    check("SELECT sum(tensor_sum(m)), max(tensor_max(v)) FROM t", "81|12.0");
    check("SELECT tensor_where(tensor_gt(v, 10), v, -1) FROM t", "[-1.0, -1.0, -1.0];[-1.0, 11.0, 12.0];");
    check("SELECT tensor_add(v, id) FROM t WHERE id = 1", "[1.0, 2.0, 3.0]");
    check("SELECT where(tensor_gt(v, 10), v, -1) FROM t WHERE id = 2", "[-1.0, 11.0, 12.0]");
    check("SELECT astype([[1, 2], [3, 4]], 'int8')", "{data: [1, 2, 3, 4], shape: [2, 2]}");
    check("SELECT reshape(v, id, -1) FROM t WHERE id = 1", "{data: [0.0, 1.0, 2.0], shape: [1, 3]}");
}

#[test]
fn distances_rank() {
    check("SELECT id FROM t WHERE v IS NOT NULL ORDER BY l2_distance(v, [10, 11, 13]) LIMIT 1", "2");
    check("SELECT id FROM t ORDER BY cosine_similarity(v, [0.0, 1.0, 2.0]) DESC NULLS LAST LIMIT 1", "1");
    check("SELECT l2_norm(v, v), inner_product(v, [1, 1, 1]) FROM t", "0.0|3.0;0.0|33.0;|");
    check_error("SELECT l2_distance(v, [1, 2]) FROM t", "l2_distance: shapes (3,) and (2,) differ");
}

#[test]
fn files_are_tensors_where_one_is_wanted() {
    check(
        "SELECT width(image), height(image), channels(image), codec(image) FROM t",
        "3|2|3|png;5|4|3|png;|||",
    );
    check("SELECT shape(image, 0), tensor_mean(image) FROM t", "2|9.0;4|9.0;|");
    check("SELECT shape(subscript(image, 'a:b,:,i', 0, 1, 0)) FROM t", "[1, 3];[1, 5];");
    check("SELECT codec(image), count(*) FROM t WHERE image IS NOT NULL GROUP BY codec(image)", "png|2");
}

#[test]
fn plain_sql_stays_as_it_is() {
    check(
        "SELECT abs(-id), round(2.5), sqrt(4), log(100), floor(1.5), exp(0) FROM t LIMIT 1",
        "1|3.0|2.0|2.0|1.0|1.0",
    );
    check("SELECT concat(name, '!', id) FROM t", "a cat!1;a dog!2;an owl!3");
    check("SELECT id FROM t WHERE contains(name, 'ow')", "3");
    check("SELECT contains([1, 2, 3], 2), sum(id), max(name) FROM t", "true|6|an owl");
    check("SELECT round(id / 3.0, 2) FROM t", "0.33;0.67;1.0");
    check(
        "SELECT hash_random(1, id) = hash_random(1, id), hash_random(1, id) = hash_random(2, id) FROM t LIMIT 1",
        "true|false",
    );
}

#[test]
fn mistakes_are_named() {
    check_error("SELECT tensor_sum(id) FROM t", super::NOT_A_TENSOR);
    check_error(
        "SELECT tensor_add(v, [1, 2]) FROM t",
        "tensor_add: shapes (3,) and (2,) do not fit: 3 and 2 differ",
    );
    check_error(
        "SELECT subscript(v, 'i', 3) FROM t",
        "subscript: index 3 is out of bounds for axis 0 with size 3",
    );
    check_error(
        "SELECT subscript(m, 'i', id + 1) FROM t",
        "subscript: index 2 is out of bounds for axis 0 with size 2",
    );
    check_error(
        "SELECT tensor_sum(v, axis => 1) FROM t",
        "tensor_sum: axis 1 is out of bounds for a tensor with 1 axes",
    );
    check_error("SELECT shape() FROM t", "shape: expected 1 to 2 arguments, found 0");
}
