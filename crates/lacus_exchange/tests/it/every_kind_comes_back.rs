//! What comes in, goes out and comes in again is the same.

use lacus_dataset::{ColumnSpec, Sample};
use lacus_exchange::{
    ExportOptions, ImportOptions, from_csv, from_folder, from_parquet, from_safetensors, from_webdataset,
    to_csv, to_folder, to_parquet, to_safetensors, to_webdataset,
};
use lacus_media::Format;
use lacus_table::{Put, Value, Wish, WriteOptions};
use lacus_tensor::{DType, Shape, TensorRef};
use serde_json::json;

use crate::support::{
    block_on, bytes, bytes as bytes_of, dataset, everything, filled, ints, picture, png, put, spec, texts,
    tree, values, wav,
};

#[test]
fn a_folder_of_classes() {
    let root = tempfile::tempdir().unwrap();
    for (i, name) in
        ["in/dog/b.png", "in/cat/1.jpg", "in/cat/deep/2.png", "in/cat/.hidden"].iter().enumerate()
    {
        let format = if name.ends_with("jpg") { Format::Jpeg } else { Format::Png };
        put(root.path(), name, picture(4 + i as u64, 5, 7, format));
    }
    block_on(async {
        let mut first = dataset().await;
        let report =
            from_folder(&mut first, &root.path().join("in"), &ImportOptions::default()).await.unwrap();
        assert_eq!((report.rows, report.skipped_total), (3, 0));
        assert_eq!(report.columns, ["image", "label", "file_name"]);
        assert_eq!(first.column("label").unwrap().class_names(), ["cat", "dog"]);
        assert_eq!(ints(&values(&first, "label").await), [Some(0), Some(0), Some(1)]);
        let jpeg = std::fs::read(root.path().join("in/cat/1.jpg")).unwrap();
        assert_eq!(bytes(&first, "image").await[0].as_deref(), Some(&jpeg[..]));
        let names = texts(&values(&first, "file_name").await);
        assert_eq!(names, ["1.jpg", "deep/2.png", "b.png"].map(|name| Some(name.to_owned())));
        let media = bytes(&first, "image").await.iter().flatten().map(Vec::len).sum::<usize>();
        let words = ["cat", "cat", "dog", "1.jpg", "deep/2.png", "b.png"].map(str::len).iter().sum::<usize>();
        assert_eq!(report.bytes as usize, media + words);

        let out = root.path().join("out");
        let report = to_folder(&first, &out, &ExportOptions::default()).await.unwrap();
        assert_eq!((report.rows, report.skipped_total), (3, 0));
        assert_eq!(std::fs::read(out.join("cat/1.jpg")).unwrap(), jpeg);
        let mut expected = tree(&root.path().join("in"));
        expected.retain(|(name, _)| !name.contains(".hidden"));
        assert_eq!(tree(&out), expected);
        let mut second = dataset().await;
        from_folder(&mut second, &out, &ImportOptions::default()).await.unwrap();
        assert_eq!(everything(&first).await, everything(&second).await);
        assert_eq!(bytes(&first, "image").await, bytes(&second, "image").await);
        // A second export does not touch the first.
        let error = to_folder(&first, &out, &ExportOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), lacus_exchange::ErrorKind::Conflict);
    });
}

#[test]
fn a_folder_of_splits_and_of_sound() {
    let root = tempfile::tempdir().unwrap();
    for name in ["in/train/one/a.wav", "in/val/one/b.wav", "in/val/two/c.wav"] {
        put(root.path(), name, wav(10));
    }
    block_on(async {
        let mut found = dataset().await;
        let options = ImportOptions {
            split_column: Some("split".into()),
            prefix: Some("digits/".into()),
            ..ImportOptions::default()
        };
        let report = from_folder(&mut found, &root.path().join("in"), &options).await.unwrap();
        assert_eq!(report.columns, ["digits/audio", "digits/label", "digits/split", "digits/file_name"]);
        assert_eq!(found.column("digits/split").unwrap().class_names(), ["train", "val"]);
        assert_eq!(ints(&values(&found, "digits/split").await), [Some(0), Some(1), Some(1)]);
        assert_eq!(ints(&values(&found, "digits/label").await), [Some(0), Some(0), Some(1)]);
        let out = root.path().join("out");
        to_folder(&found, &out, &ExportOptions::default()).await.unwrap();
        assert_eq!(tree(&out), tree(&root.path().join("in")));
    });
}

#[test]
fn names_of_files_stay_inside_and_apart() {
    let root = tempfile::tempdir().unwrap();
    let names =
        ["a.png", "a.png", "../up.png", "/etc/abs.png", "x/../../y.png", "a.png/b.png", "sp: ace?.png"];
    block_on(async {
        let pictures: Vec<Vec<u8>> = (0..=names.len()).map(|i| png(2, 2, i as u8)).collect();
        let samples = pictures.iter().map(|bytes| Sample::Encoded(bytes.clone().into())).collect();
        let texts = names.iter().map(|name| Sample::Text((*name).into())).chain([Sample::Missing]).collect();
        let found = filled(vec![
            ("image", spec("image", json!({})), samples),
            ("file_name", spec("text", json!({})), texts),
        ])
        .await;
        let out = root.path().join("out");
        to_folder(&found, &out, &ExportOptions::default()).await.unwrap();
        let mut expected: Vec<(String, Vec<u8>)> = [
            "a.png",
            "a_2.png",
            "_../up.png",
            "etc/abs.png",
            "x/_../_../y.png",
            "a_3.png/b.png",
            "sp: ace?.png",
            "00000007.png",
        ]
        .into_iter()
        .map(str::to_owned)
        .zip(pictures)
        .collect();
        expected.sort();
        assert_eq!(tree(&out), expected);
        // Nothing but the folder was made.
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
        // A column that keeps files of another format gives them its extension.
        let jpegs = ColumnSpec { compression: Some("jpeg".into()), ..spec("image", json!({})) };
        let again = filled(vec![
            ("image", jpegs, vec![Sample::Encoded(png(2, 2, 1).into())]),
            ("file_name", spec("text", json!({})), vec![Sample::Text("a.png".into())]),
        ])
        .await;
        let out = root.path().join("jpegs");
        to_folder(&again, &out, &ExportOptions::default()).await.unwrap();
        assert!(out.join("a.jpg").is_file());
    });
}

#[test]
fn a_second_import_is_appended_when_asked() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "a/cat/1.png", png(3, 3, 1));
    put(root.path(), "b/ant/1.png", png(3, 3, 2));
    put(root.path(), "b/cat/1.png", png(3, 3, 3));
    block_on(async {
        let mut found = dataset().await;
        from_folder(&mut found, &root.path().join("a"), &ImportOptions::default()).await.unwrap();
        let again = from_folder(&mut found, &root.path().join("b"), &ImportOptions::default()).await;
        assert_eq!(again.unwrap_err().kind(), lacus_exchange::ErrorKind::Conflict);
        assert_eq!(found.len().await.unwrap(), 1);
        let options = ImportOptions { append: true, ..ImportOptions::default() };
        from_folder(&mut found, &root.path().join("b"), &options).await.unwrap();
        assert_eq!(found.column("label").unwrap().class_names(), ["cat", "ant"]);
        assert_eq!(ints(&values(&found, "label").await), [Some(0), Some(1), Some(0)]);
    });
}

#[test]
fn csv() {
    let root = tempfile::tempdir().unwrap();
    let text = "name,age,height,member,note\nAda,36,1.65,true,\"a, \"\"b\"\"\"\nAlan,,1.8,false,\n\"Grüße\n2\",-7,NaN,,x\n";
    let source = put(root.path(), "a.csv", text);
    block_on(async {
        let mut first = dataset().await;
        let report = from_csv(&mut first, &source, &ImportOptions::default()).await.unwrap();
        assert_eq!((report.rows, report.skipped_total), (3, 0));
        assert_eq!(report.columns, ["name", "age", "height", "member", "note"]);
        assert_eq!(first.column("age").unwrap().dtype(), Some(DType::I64));
        assert_eq!(first.column("height").unwrap().dtype(), Some(DType::F64));
        assert_eq!(first.column("member").unwrap().dtype(), Some(DType::Bool));
        assert_eq!(ints(&values(&first, "age").await), [Some(36), None, Some(-7)]);
        let notes = texts(&values(&first, "note").await);
        assert_eq!(notes, [Some("a, \"b\"".to_owned()), None, Some("x".to_owned())]);

        let out = root.path().join("b.tsv");
        let columns = Some(report.columns.clone());
        let report =
            to_csv(&first, &out, &ExportOptions { columns, ..ExportOptions::default() }).await.unwrap();
        assert_eq!(report.rows, 3);
        assert!(std::fs::read_to_string(&out).unwrap().starts_with("name\tage\t"));
        let mut second = dataset().await;
        from_csv(&mut second, &out, &ImportOptions::default()).await.unwrap();
        let (a, b) = (format!("{:?}", everything(&first).await), format!("{:?}", everything(&second).await));
        assert_eq!(a, b);
    });
}

#[test]
fn parquet_with_every_type() {
    let root = tempfile::tempdir().unwrap();
    let pictures = [png(3, 4, 1), png(5, 2, 3)];
    let sound = wav(20);
    let shapes = [Shape::new([2, 3]).unwrap(), Shape::new([1, 1]).unwrap()];
    let numbers: Vec<u8> = (0..12u16).flat_map(u16::to_le_bytes).collect();
    let tensor = |i: usize, bytes: usize| {
        Sample::Tensor(TensorRef::contiguous(DType::U16, &shapes[i], &numbers[..bytes]).unwrap())
    };
    let halves: Vec<u8> = [0x3c00u16, 0x4000, 0xbc00].iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let three = Shape::new([3]).unwrap();
    let two = Shape::new([3, 2]).unwrap();
    let points: Vec<u8> = [0f32, 0.0, 2.0, 0.5, 1.0, 3.0].iter().flat_map(|n| n.to_le_bytes()).collect();
    let outline = || Sample::Tensor(TensorRef::contiguous(DType::F32, &two, &points).unwrap());
    let fixed = |dtype: DType, shape: Vec<Option<u64>>| ColumnSpec {
        dtype: Some(dtype),
        shape: Some(shape),
        ..ColumnSpec::default()
    };
    block_on(async {
        let encoded = |bytes: &Vec<u8>| Sample::Encoded(bytes.clone().into());
        let first = filled(vec![
            (
                "train/image",
                spec("image", json!({})),
                vec![encoded(&pictures[0]), encoded(&pictures[1]), Sample::Missing],
            ),
            ("audio", spec("audio", json!({})), vec![encoded(&sound), Sample::Missing, Sample::Missing]),
            (
                "label",
                spec("class_label", json!({"class_names": ["cat", "dog"]})),
                vec![Sample::Text("dog".into()), Sample::Missing, Sample::Text("cat".into())],
            ),
            (
                "boxes",
                spec("bbox", json!({"coords": {"type": "fractional", "mode": "CCWH"}})),
                vec![
                    Sample::Json(json!([[0.5, 0.5, 0.25, 0.125]])),
                    Sample::Json(json!([])),
                    Sample::Missing,
                ],
            ),
            (
                "ragged",
                fixed(DType::U16, vec![None, None]),
                vec![tensor(0, 12), tensor(1, 2), Sample::Missing],
            ),
            (
                "half",
                fixed(DType::F16, vec![Some(3)]),
                vec![
                    Sample::Tensor(TensorRef::contiguous(DType::F16, &three, &halves).unwrap()),
                    Sample::Missing,
                    Sample::Missing,
                ],
            ),
            (
                "brain",
                fixed(DType::BF16, vec![None]),
                vec![
                    Sample::Tensor(TensorRef::contiguous(DType::BF16, &three, &halves).unwrap()),
                    Sample::Missing,
                    Sample::Missing,
                ],
            ),
            (
                "big",
                fixed(DType::U64, vec![]),
                vec![Sample::Json(json!(u64::MAX)), Sample::Json(json!(0)), Sample::Missing],
            ),
            (
                "flag",
                fixed(DType::Bool, vec![]),
                vec![Sample::Json(json!(true)), Sample::Missing, Sample::Json(json!(false))],
            ),
            (
                "flags",
                fixed(DType::Bool, vec![None]),
                vec![Sample::Json(json!([true, false])), Sample::Missing, Sample::Missing],
            ),
            (
                "text",
                spec("text", json!({})),
                vec![Sample::Text("ü".into()), Sample::Missing, Sample::Text("".into())],
            ),
            (
                "json",
                spec("json", json!({})),
                vec![Sample::Json(json!({"a": [1]})), Sample::Json(json!(null)), Sample::Missing],
            ),
            (
                "tag",
                spec("tag", json!({})),
                vec![Sample::Json(json!(["x", "y"])), Sample::Missing, Sample::Missing],
            ),
            (
                "captions",
                spec("sequence[text]", json!({})),
                vec![
                    Sample::Sequence(vec![Sample::Text("a".into()), Sample::Text("b".into())]),
                    Sample::Sequence(vec![]),
                    Sample::Missing,
                ],
            ),
            (
                "polygons",
                spec("polygon", json!({})),
                vec![Sample::Sequence(vec![outline(), outline()]), Sample::Sequence(vec![]), Sample::Missing],
            ),
        ])
        .await;
        let out = root.path().join("a.parquet");
        let report = to_parquet(&first, &out, &ExportOptions::default()).await.unwrap();
        assert_eq!((report.rows, report.columns.len(), report.skipped_total), (3, 15, 0));
        let mut second = dataset().await;
        let report = from_parquet(&mut second, &out, &ImportOptions::default()).await.unwrap();
        assert_eq!((report.rows, report.columns.len(), report.skipped_total), (3, 15, 0));
        assert_eq!(everything(&first).await, everything(&second).await);
        assert_eq!(bytes(&first, "train/image").await, bytes(&second, "train/image").await);
        assert_eq!(bytes(&first, "audio").await, bytes(&second, "audio").await);
    });
}

#[test]
fn webdataset() {
    let root = tempfile::tempdir().unwrap();
    let shape = Shape::new([2, 2]).unwrap();
    let numbers: Vec<u8> = [1i32, -2, 3, 4].iter().flat_map(|n| n.to_le_bytes()).collect();
    let array = || Sample::Tensor(TensorRef::contiguous(DType::I32, &shape, &numbers).unwrap());
    block_on(async {
        let encoded = |bytes: Vec<u8>| Sample::Encoded(bytes.into());
        let names = json!({"class_names": ["cat", "dog"]});
        let first = filled(vec![
            ("key", spec("text", json!({})), vec![Sample::Text("a/1".into()), Sample::Text("a/2".into())]),
            (
                "image",
                spec("image", json!({})),
                vec![encoded(png(3, 4, 1)), encoded(picture(5, 5, 2, Format::Jpeg))],
            ),
            ("seg", spec("image", json!({})), vec![encoded(png(3, 4, 9)), Sample::Missing]),
            (
                "label",
                spec("class_label", names),
                vec![Sample::Text("dog".into()), Sample::Text("cat".into())],
            ),
            ("text", spec("text", json!({})), vec![Sample::Missing, Sample::Text("two\nlines".into())]),
            ("json", spec("json", json!({})), vec![Sample::Json(json!({"a": 1})), Sample::Json(json!([2]))]),
            ("npy", ColumnSpec::default(), vec![array(), Sample::Missing]),
            ("audio", spec("audio", json!({})), vec![encoded(wav(9)), encoded(wav(11))]),
        ])
        .await;
        for name in ["a.tar"] {
            let out = root.path().join(name);
            let report = to_webdataset(&first, &out, &ExportOptions::default()).await.unwrap();
            assert_eq!((report.rows, report.skipped_total), (2, 0));
            let mut second = dataset().await;
            let report = from_webdataset(&mut second, &out, &ImportOptions::default()).await.unwrap();
            assert_eq!((report.rows, report.skipped_total), (2, 0));
            // Files of a sample are sorted by their extension, so the columns come back in that order.
            let by_name = |mut all: Vec<(String, String, Vec<_>)>| {
                all.sort_by(|a, b| a.0.cmp(&b.0));
                all
            };
            assert_eq!(by_name(everything(&first).await), by_name(everything(&second).await));
            assert_eq!(bytes(&first, "image").await, bytes(&second, "image").await);
        }
        // The same, packed and in several files.
        let tar = std::fs::read(root.path().join("a.tar")).unwrap();
        put(root.path(), "shards/s-08.tar.zst", zstd::encode_all(&tar[..], 1).unwrap());
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &tar).unwrap();
        put(root.path(), "shards/s-09.tar.gz", packed.finish().unwrap());
        let mut third = dataset().await;
        let shards = root.path().join("shards");
        assert_eq!(from_webdataset(&mut third, &shards, &ImportOptions::default()).await.unwrap().rows, 4);
        put(root.path(), "p/s-09.tar", &tar);
        put(root.path(), "p/s-10.tar", &tar);
        let pattern = root.path().join("p/s-{09..10}.tar");
        let mut fourth = dataset().await;
        assert_eq!(from_webdataset(&mut fourth, &pattern, &ImportOptions::default()).await.unwrap().rows, 4);
    });
}

#[test]
fn safetensors() {
    let root = tempfile::tempdir().unwrap();
    let shape = Shape::new([2, 3]).unwrap();
    block_on(async {
        let mut first = dataset().await;
        let value = TensorRef::contiguous(DType::U8, &shape, &[1, 2, 3, 4, 5, 6]).unwrap();
        let item = |name: &str| Put {
            name: name.into(),
            value: Value::Dense(value.clone()),
            wish: Wish::default(),
            metadata: Some(json!({"format": "pt"})),
        };
        first.table_mut().put(vec![item("w"), item("g/b")], &WriteOptions::default()).await.unwrap();
        let out = root.path().join("a.safetensors");
        let report = to_safetensors(&first, &out, &ExportOptions::default()).await.unwrap();
        assert_eq!((report.rows, report.bytes), (2, 12));
        let mut second = dataset().await;
        let report = from_safetensors(&mut second, &out, &ImportOptions::default()).await.unwrap();
        assert_eq!((report.rows, report.bytes), (2, 12));
        assert_eq!(second.table().names(), ["g/b", "w"]);
        let lacus_table::Read::Dense(found) = second.table().read("g/b", &[]).await.unwrap() else {
            panic!()
        };
        assert_eq!(found.bytes(), [1, 2, 3, 4, 5, 6]);
        let again = from_safetensors(&mut second, &out, &ImportOptions::default()).await.unwrap_err();
        assert_eq!(again.kind(), lacus_exchange::ErrorKind::Conflict);
    });
}

#[test]
fn links_and_elements_go_out_as_files() {
    let root = tempfile::tempdir().unwrap();
    let file = put(root.path(), "elsewhere/a.png", png(3, 4, 1));
    let shape = Shape::new([2, 2, 3]).unwrap();
    let pixels: Vec<u8> = (0..12).collect();
    block_on(async {
        let packed = ColumnSpec { compression: Some("zstd".into()), ..spec("image", json!({})) };
        let pixels = TensorRef::contiguous(DType::U8, &shape, &pixels).unwrap();
        let mut found = filled(vec![("packed", packed, vec![Sample::Tensor(pixels.clone())])]).await;
        let folder = root.path().join("packed");
        to_folder(&found, &folder, &ExportOptions::default()).await.unwrap();
        let bytes = std::fs::read(folder.join("00000000.png")).unwrap();
        let decoded = lacus_media::decode(&bytes, &lacus_media::Limits::default()).unwrap();
        assert_eq!(decoded.bytes(), pixels.contiguous_bytes().unwrap());

        found.allow_links(root.path().join("elsewhere").to_str().unwrap(), &Default::default()).unwrap();
        found
            .add_column("linked", &spec("link[image]", json!({})), None, None, &WriteOptions::default())
            .await
            .unwrap();
        let link = Sample::Link(file.to_str().unwrap().to_owned());
        found.update("linked", &[0], vec![link], false, &WriteOptions::default()).await.unwrap();
        let out = root.path().join("a.parquet");
        to_parquet(&found, &out, &ExportOptions::default()).await.unwrap();
        let mut second = dataset().await;
        from_parquet(&mut second, &out, &ImportOptions::default()).await.unwrap();
        assert_eq!(bytes_of(&second, "linked").await, [Some(png(3, 4, 1))]);
        assert_eq!(values(&second, "packed").await, values(&found, "packed").await);
    });
}
