//! A column survives the row that describes it; what is no such row is an error.

use lacus_sample::{Base, Column, ColumnHeader, ColumnSpec, HType, Tiling};
use lacus_tensor::{DType, ErrorKind};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{column, config, map, spec};

fn columns() -> Vec<Column> {
    let mut columns = Vec::new();
    for base in Base::ALL {
        for (sequence, link) in [(false, false), (true, false), (false, true), (true, true)] {
            let htype = HType { base, sequence, link }.to_string();
            // Not every type is linked to.
            columns.extend(Column::new(&spec(&htype)));
        }
    }
    let more = [
        ColumnSpec { dtype: Some(DType::BF16), shape: Some(vec![]), ..spec("generic") },
        ColumnSpec { dtype: Some(DType::U8), shape: Some(vec![Some(0), None]), ..spec("generic") },
        ColumnSpec { compression: Some("zstd:7".into()), ..spec("generic") },
        ColumnSpec {
            compression: Some("jpeg".into()),
            options: map(json!({"quality": 80})),
            ..spec("image")
        },
        ColumnSpec {
            shape: Some(vec![Some(32), Some(32), Some(3)]),
            dtype: Some(DType::U16),
            ..spec("image")
        },
        ColumnSpec { options: map(json!({"class_names": ["a", "ä \" b"]})), ..spec("class_label") },
        ColumnSpec { shape: Some(vec![None]), dtype: Some(DType::I8), ..spec("class_label") },
        ColumnSpec { options: map(json!({"format": "ltrb", "bbox_type": "fractional"})), ..spec("bbox") },
        ColumnSpec {
            options: map(json!({"keypoints": ["nose"], "connections": [[0, 0]]})),
            ..spec("keypoints")
        },
        ColumnSpec { options: map(json!({"size": 5})), dtype: Some(DType::F16), ..spec("embedding") },
        ColumnSpec { options: map(json!({"sample_rate": 16000})), shape: Some(vec![None]), ..spec("audio") },
        ColumnSpec {
            dtype: Some(DType::U16),
            shape: Some(vec![None, Some(9), Some(3)]),
            ..spec("link[image]")
        },
        ColumnSpec { options: map(json!({"unit": "ns", "timezone": "Europe/Zurich"})), ..spec("timestamp") },
        ColumnSpec { options: map(json!({"precision": 30, "scale": 30})), ..spec("decimal") },
        ColumnSpec { options: map(json!({"precision": 30, "scale": 0})), ..spec("sequence[decimal]") },
    ];
    columns.extend(more.iter().map(|spec| Column::new(spec).unwrap()));
    columns.push(columns[0].with_tiling(Tiling::new(100, 10).unwrap()));
    columns.push(columns[0].settle(DType::C64));
    columns
}

#[test]
fn every_column_comes_back() {
    for column in columns() {
        let header = column.header();
        assert_eq!(Column::from_header(&header).unwrap(), column, "{header:?}");
    }
}

#[test]
fn the_fields_are_these() {
    let check = |spec: ColumnSpec, dtype: &str, shape: &[i64], parameters: &str| {
        let header = Column::new(&spec).unwrap().header();
        let found = (header.dtype.as_str(), &header.shape[..], header.parameters.as_str());
        assert_eq!(found, (dtype, shape, parameters));
    };
    check(spec("generic"), "", &[], r#"{"compression":"auto","unranked":true,"tiling":[4194304,1048576]}"#);
    check(spec("image"), "uint8", &[-1, -1, -1], r#"{"compression":"auto","tiling":[4194304,1048576]}"#);
    check(
        ColumnSpec { options: map(json!({"class_names": ["a"]})), ..spec("class_label") },
        "uint32",
        &[],
        r#"{"compression":"auto","options":{"class_names":["a"]}}"#,
    );
    check(spec("text"), "string", &[], r#"{"compression":"auto"}"#);
    check(spec("date"), "int32", &[], r#"{"compression":"auto"}"#);
    check(spec("timestamp"), "int64", &[], r#"{"compression":"auto","options":{"unit":"us"}}"#);
    check(spec("decimal"), "int64", &[], r#"{"compression":"auto","options":{"precision":18,"scale":3}}"#);
    check(
        ColumnSpec { options: map(json!({"precision": 19})), ..spec("decimal") },
        "string",
        &[],
        r#"{"compression":"auto","options":{"precision":19,"scale":3}}"#,
    );
    check(
        ColumnSpec { dtype: Some(DType::U16), ..spec("image") },
        "uint16",
        &[-1, -1, -1],
        r#"{"compression":"auto","dtype_declared":true,"tiling":[4194304,1048576]}"#,
    );
    check(spec("dicom"), "", &[], r#"{"compression":"auto","unranked":true,"tiling":[4194304,1048576]}"#);
    check(spec("bytes"), "uint8", &[-1], r#"{"compression":"auto","tiling":[4194304,1048576]}"#);
    check(spec("link[image]"), "string", &[-1, -1, -1], r#"{"compression":"auto","dtype":"uint8"}"#);
}

#[test]
fn a_dtype_of_older_headers_binds_no_files() {
    let older = |htype: &str, dtype: &str| {
        let mut header = column(htype).header();
        header.dtype = dtype.to_owned();
        Column::from_header(&header).unwrap()
    };
    let image = older("image", "uint16");
    assert!(image.files_keep_dtype() && image.dtype() == Some(DType::U16));
    // That of the first file.
    let dicom = older("dicom", "int16");
    assert!(dicom.files_keep_dtype() && dicom.dtype().is_none() && !dicom.is_open());
    assert!(!older("audio", "int16").files_keep_dtype());
}

#[test]
fn contradictions_are_errors() {
    use ErrorKind::{Corrupt, Invalid};
    let cases: [(&str, &str, &[i64], &str, ErrorKind); 25] = [
        ("imago", "uint8", &[-1, -1, -1], "{}", Invalid),
        ("image", "uint7", &[-1, -1, -1], "{}", Invalid),
        ("image", "uint8", &[-1, -1, -1], r#"{"tilt":2}"#, Invalid),
        ("image", "uint8", &[-1, -1, -1], r#"{"compression":"lzma"}"#, Corrupt),
        ("image", "uint8", &[-1, -1, -1], r#"{"compression":5}"#, Corrupt),
        ("image", "uint8", &[-1, -1, -1], "", Corrupt),
        ("image", "uint8", &[-1, -1, -1], "[1", Corrupt),
        ("image", "uint8", &[-1, -1, -1], "null", Corrupt),
        ("image", "uint8", &[-1, -1, -1], r#"{"tiling":[0,0]}"#, Corrupt),
        ("image", "uint8", &[-1, -1, -1], r#"{"tiling":[1,2]}"#, Corrupt),
        ("image", "uint8", &[-1, -1, -1], r#"{"tiling":[-1]}"#, Corrupt),
        ("image", "uint8", &[-1, -1, -1], r#"{"dtype":"uint8"}"#, Corrupt),
        ("image", "uint8", &[-1, -1, -1], r#"{"options":{"quality":1000}}"#, Corrupt),
        ("image", "uint8", &[-1, -1, -1], r#"{"options":{"x":1}}"#, Corrupt),
        ("image", "uint8", &[-1, -1, -1], r#"{"unranked":true}"#, Corrupt),
        ("image", "float32", &[-1, -1, -1], "{}", Corrupt),
        ("image", "", &[-1, -1, -1], "{}", Corrupt),
        ("image", "string", &[-1, -1, -1], "{}", Corrupt),
        ("image", "uint8", &[], "{}", Corrupt),
        ("image", "uint8", &[-2, -1, -1], "{}", Corrupt),
        ("generic", "uint8", &[i64::MIN], "{}", Corrupt),
        ("generic", "uint8", &[1; 17], "{}", Corrupt),
        ("text", "uint8", &[], "{}", Corrupt),
        ("text", "string", &[3], "{}", Corrupt),
        ("polygon", "float32", &[4], "{}", Corrupt),
    ];
    for (htype, dtype, shape, parameters, kind) in cases {
        let header = ColumnHeader {
            htype: htype.into(),
            dtype: dtype.into(),
            shape: shape.to_vec(),
            parameters: parameters.into(),
        };
        let result = Column::from_header(&header);
        assert_eq!(result.as_ref().map_err(|error| error.kind()), Err(kind), "{header:?}: {result:?}");
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn any_text_is_a_column_or_an_error(htype in "[a-z_.\\[\\]3]{0,12}", dtype in "[a-z0-9]{0,7}", shape in proptest::collection::vec(any::<i64>(), 0..20), parameters in ".{0,30}", choice in 0usize..50) {
        let known = columns();
        let mut header = known[choice % known.len()].header();
        match choice % 4 {
            0 => header.htype = htype,
            1 => header.dtype = dtype,
            2 => header.shape = shape,
            _ => header.parameters = parameters,
        }
        let _ = Column::from_header(&header);
    }
}
