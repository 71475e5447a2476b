//! CSV files with odd headers and lines, Parquet files of other people, tars with gaps.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Float32Array, Int32Array, ListArray, RecordBatch, StringArray, StructArray,
    TimestampSecondArray,
};
use arrow::datatypes::{DataType, Field, Float32Type, Schema};
use lacus_dataset::Value;
use lacus_exchange::{ImportOptions, from_csv, from_parquet, from_webdataset};
use lacus_tensor::DType;
use serde_json::json;

use crate::support::{block_on, dataset, ints, png, put, reasons, skip, texts, values};

#[test]
fn odd_headers_and_lines() {
    let root = tempfile::tempdir().unwrap();
    let text = b"\xef\xbb\xbfid,,id, a/b \n1,x,2,3\n4,y\n5,z,6,7,8\n9,\xff,1,2\n,,,\n";
    let source = put(root.path(), "a.csv", text);
    block_on(async {
        let mut found = dataset().await;
        let report = from_csv(&mut found, &source, &skip()).await.unwrap();
        assert_eq!(report.columns, ["id", "column_2", "id_2", "a/b"]);
        assert_eq!((report.rows, report.skipped_total), (2, 3));
        let told = reasons(&report).join("\n");
        for reason in [
            "a.csv: line 3: 2 fields where the header has 4",
            "a.csv: line 4: 5 fields where the header has 4",
            "a.csv: line 5: field \"column_2\" is not UTF-8",
        ] {
            assert!(told.contains(reason), "{reason}\n{told}");
        }
        assert_eq!(ints(&values(&found, "id").await), [Some(1), None]);
        assert_eq!(texts(&values(&found, "column_2").await), [Some("x".to_owned()), None]);

        let empty = put(root.path(), "b.csv", "");
        let error = from_csv(&mut dataset().await, &empty, &skip()).await.unwrap_err();
        assert!(error.to_string().contains("no header line"), "{error}");
        let header = put(root.path(), "c.csv", "a,b\n");
        let mut none = dataset().await;
        assert_eq!(from_csv(&mut none, &header, &skip()).await.unwrap().rows, 0);
        assert_eq!(none.column_names(), ["a", "b"]);
        let semicolons = put(root.path(), "d.csv", "a;b\n1;2,5\n");
        let options = ImportOptions { delimiter: Some(b';'), ..ImportOptions::default() };
        let mut german = dataset().await;
        from_csv(&mut german, &semicolons, &options).await.unwrap();
        assert_eq!(texts(&values(&german, "b").await), [Some("2,5".to_owned())]);
    });
}

#[test]
fn parquet_of_other_people() {
    let root = tempfile::tempdir().unwrap();
    let (one, two) = (png(3, 4, 1), png(2, 2, 2));
    let files: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&one[..]), None, Some(b"broken")]));
    let paths: ArrayRef = Arc::new(StringArray::from(vec![Some("a.png"), None, None]));
    let inner: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&two[..]), Some(&two[..]), None]));
    let image = StructArray::from(vec![
        (Arc::new(Field::new("bytes", DataType::Binary, true)), inner),
        (Arc::new(Field::new("path", DataType::Utf8, true)), paths),
    ]);
    let lists = ListArray::from_iter_primitive::<Float32Type, _, _>(vec![
        Some(vec![Some(1.0), Some(2.0)]),
        Some(vec![]),
        None,
    ]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("label", Arc::new(Int32Array::from(vec![Some(1), None, Some(0)]))),
        ("score", Arc::new(Float32Array::from(vec![Some(0.5), None, Some(f32::NAN)]))),
        ("when", Arc::new(TimestampSecondArray::from(vec![Some(0), None, None]))),
        ("image", Arc::new(image)),
        ("raw", files),
        ("vector", Arc::new(lists)),
        ("junk", Arc::new(BinaryArray::from(vec![Some(&b"xyz"[..]), None, None]))),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let note = json!({"info": {"features": {"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}}});
    let schema = Schema::new(fields).with_metadata([("huggingface".to_owned(), note.to_string())].into());
    let batch = RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, array)| array).collect())
        .unwrap();
    let path = root.path().join("a.parquet");
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), batch.schema(), None)
            .unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    block_on(async {
        let mut found = dataset().await;
        let report = from_parquet(&mut found, &path, &skip()).await.unwrap();
        assert_eq!(report.columns, ["label", "score", "when", "image", "raw", "vector", "junk"]);
        assert_eq!((report.rows, report.skipped_total), (2, 1));
        let told = reasons(&report).join("\n");
        assert!(told.contains("a.parquet: row 2: column \"raw\""), "{told}");
        assert_eq!(found.column("label").unwrap().class_names(), ["cat", "dog"]);
        assert_eq!(ints(&values(&found, "label").await), [Some(1), None]);
        assert_eq!(found.column("score").unwrap().dtype(), Some(DType::F32));
        assert_eq!(found.column("when").unwrap().htype().to_string(), "timestamp");
        assert_eq!(ints(&values(&found, "when").await), [Some(0), None]);
        assert_eq!(found.shapes("image", &[0, 1]).await.unwrap(), [Some(vec![2, 2, 3]), Some(vec![2, 2, 3])]);
        assert_eq!(found.shapes("vector", &[0, 1]).await.unwrap(), [Some(vec![2]), Some(vec![0])]);
        let error = from_parquet(&mut dataset().await, &path, &ImportOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("raw"), "{error}");
        assert_eq!(found.column("junk").unwrap().htype().to_string(), "bytes");
        assert_eq!(values(&found, "junk").await, [Some(Value::Bytes(b"xyz".to_vec())), None]);
        let broken = put(root.path(), "b.parquet", "PAR1 or not");
        let error = from_parquet(&mut dataset().await, &broken, &skip()).await.unwrap_err();
        assert_eq!(error.kind(), lacus_exchange::ErrorKind::Invalid);
    });
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn tars_with_missing_and_broken_members() {
    let root = tempfile::tempdir().unwrap();
    let picture = png(3, 3, 1);
    let bytes = tar(&[
        ("./a.jpg", &picture),
        ("./a.cls", b"3\n"),
        ("b.cls", b"1"),
        ("b.xyz", b"?"),
        ("c.json", b"{"),
        ("c.cls", b"2"),
        ("README", b"hello"),
        ("d.jpg", b"no picture"),
        ("e.jpg", &picture),
    ]);
    let path = put(root.path(), "a.tar", bytes);
    block_on(async {
        let mut found = dataset().await;
        let report = from_webdataset(&mut found, &path, &skip()).await.unwrap();
        assert_eq!(report.columns, ["key", "label", "image", "json"]);
        let keys = texts(&values(&found, "key").await);
        assert_eq!(keys, ["a", "b", "e"].map(|key| Some(key.to_owned())));
        assert_eq!(ints(&values(&found, "label").await), [Some(3), Some(1), None]);
        let told = reasons(&report).join("\n");
        assert_eq!(report.skipped_total, 3, "{told}");
        assert!(told.contains("b.xyz: nothing is known of .xyz members (1 of them)"), "{told}");
        assert!(told.contains("a.tar: c: .json: it is not JSON"), "{told}");
        assert!(told.contains("a.tar: d: column \"image\""), "{told}");

        // Two pictures in one sample: called by their extensions.
        let both =
            put(root.path(), "b.tar", tar(&[("a.png", &picture), ("a.jpg", &picture), ("a.cls", b"cat")]));
        let mut found = dataset().await;
        let report = from_webdataset(&mut found, &both, &skip()).await.unwrap();
        assert_eq!(report.columns, ["key", "cls", "jpg", "png"]);
        assert_eq!(found.column("cls").unwrap().class_names(), ["cat"]);
        let half = std::fs::read(&both).unwrap();
        let cut = put(root.path(), "c.tar", &half[..700]);
        let error = from_webdataset(&mut dataset().await, &cut, &skip()).await.unwrap_err();
        assert_eq!(error.kind(), lacus_exchange::ErrorKind::Invalid, "{error}");
    });
}
