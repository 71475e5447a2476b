//! Wide tables are read by others, who know nothing of Lacus.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal128Type, Float32Type, Int64Type};
use lacus_dataset::{ColumnSpec, Sample};
use lacus_exchange::{ExportOptions, to_delta};
use lacus_tensor::{DType, Shape, TensorRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value as Json, json};

use crate::support::{block_on, filled, png, skip_out, spec};

#[test]
fn a_delta_table_of_sql_columns() {
    let root = tempfile::tempdir().unwrap();
    let dest = root.path().join("wide");
    let shape = Shape::new([2, 2]).unwrap();
    let numbers: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|n| n.to_le_bytes()).collect();
    block_on(async {
        let found = filled(vec![
            ("image", spec("image", json!({})), vec![Sample::Encoded(png(3, 4, 1).into()), Sample::Missing]),
            (
                "label",
                spec("class_label", json!({"class_names": ["cat", "dog"]})),
                vec![Sample::Text("dog".into()), Sample::Missing],
            ),
            (
                "big number",
                ColumnSpec { dtype: Some(DType::U64), shape: Some(vec![]), ..ColumnSpec::default() },
                vec![Sample::Json(json!(u64::MAX)), Sample::Missing],
            ),
            (
                "matrix",
                ColumnSpec {
                    dtype: Some(DType::F32),
                    shape: Some(vec![None, None]),
                    ..ColumnSpec::default()
                },
                vec![
                    Sample::Tensor(TensorRef::contiguous(DType::F32, &shape, &numbers).unwrap()),
                    Sample::Missing,
                ],
            ),
            ("steps", spec("sequence[generic]", json!({})), vec![Sample::Missing, Sample::Missing]),
        ])
        .await;
        let error = to_delta(&found, &dest, &ExportOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("column \"steps\""), "{error}");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        let report = to_delta(&found, &dest, &skip_out()).await.unwrap();
        assert_eq!((report.rows, report.skipped_total), (2, 1));

        // Other readers open such tables in `python/tests`; here it is what the log says.
        let log = std::fs::read_dir(dest.join("_delta_log")).unwrap().count();
        let entry = std::fs::read_to_string(dest.join("_delta_log/00000000000000000000.json")).unwrap();
        let actions: Vec<Json> = entry.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let metadata = actions.iter().find(|action| action["metaData"].is_object()).unwrap();
        let schema: Json =
            serde_json::from_str(metadata["metaData"]["schemaString"].as_str().unwrap()).unwrap();
        let names: Vec<&str> = schema["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| field["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            (log, names),
            (1, vec!["image", "label", "label_name", "big_number", "matrix", "matrix_shape"])
        );

        let file =
            std::fs::read_dir(&dest).unwrap().map(|e| e.unwrap().path()).find(|p| p.is_file()).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(file).unwrap()).unwrap();
        let batch = reader.build().unwrap().next().unwrap().unwrap();
        let column = |name: &str| batch.column_by_name(name).unwrap();
        assert_eq!(column("big_number").as_primitive::<Decimal128Type>().value(0), i128::from(u64::MAX));
        assert!(column("big_number").is_null(1) && column("image").is_null(1));
        assert_eq!(column("label").as_primitive::<Int64Type>().value(0), 1);
        assert_eq!(column("label_name").as_string::<i32>().value(0), "dog");
        let matrix = column("matrix").as_list::<i32>().value(0);
        assert_eq!(matrix.as_primitive::<Float32Type>().values(), &[1.0, 2.0, 3.0, 4.0]);
        let dims = column("matrix_shape").as_list::<i32>().value(0);
        assert_eq!(dims.as_primitive::<Int64Type>().values(), &[2, 2]);
        assert_eq!(column("image").as_binary::<i32>().value(0), png(3, 4, 1));
    });
}
