//! Each type takes what it holds and refuses the rest, with what was expected and what came.

use lacus_sample::{Column, ColumnSpec, Sample, encode};
use lacus_tensor::{DType, Element, ErrorKind, Tensor};
use serde_json::{Value as Json, json};

use crate::support::{column, compressed, file, filled, media, png, spec, tensor, with_options};

#[track_caller]
fn good(column: &Column, sample: Sample<'_>) {
    if let Err(error) = encode(column, sample) {
        panic!("{error}");
    }
}

#[track_caller]
fn bad(column: &Column, sample: Sample<'_>, expected: &str) {
    let error = encode(column, sample).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

fn of<T: Element>(dtype: DType, dims: &[u64], values: &[T]) -> Tensor {
    tensor(dtype, dims, values)
}

fn zeros(dtype: DType, dims: &[u64]) -> Tensor {
    Tensor::zeros(dtype, lacus_tensor::Shape::new(dims).unwrap()).unwrap()
}

fn text(text: &str) -> Sample<'_> {
    Sample::Text(text.into())
}

#[test]
fn generic() {
    let column = column("generic").settle(DType::F32);
    good(&column, Sample::Tensor(filled(DType::F32, &[2, 3], 1).as_ref()));
    good(&column, Sample::Tensor(zeros(DType::F16, &[2]).as_ref()));
    good(&column, Sample::Json(json!([0.1, 2])));
    let double = zeros(DType::F64, &[2, 3]);
    bad(
        &column,
        Sample::Tensor(double.as_ref()),
        "generic: expected float32 of any shape, found float64 of shape (2, 3)",
    );
    let odd = of(DType::I64, &[1], &[16_777_217i64]);
    bad(
        &column,
        Sample::Tensor(odd.as_ref()),
        "generic: expected float32 of any shape, found the value 16777217",
    );
    bad(&column, text("x"), "generic: expected float32 of any shape, found text");
    bad(&column, Sample::Json(json!([1, "a"])), "generic: expected float32 of any shape, found text");
    bad(
        &column,
        Sample::Json(json!([[1], [1, 2]])),
        "generic: expected float32 of any shape, found lists of different lengths",
    );
    bad(&column, Sample::Link("u".into()), "generic: expected float32 of any shape, found a link");
    bad(&column, Sample::Sequence(vec![]), "generic: expected float32 of any shape, found a sequence of 0");
    let error = encode(&column, Sample::Encoded(b"xyz".into())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn declared_shapes() {
    let spec =
        ColumnSpec { dtype: Some(DType::U8), shape: Some(vec![Some(2), None]), ..ColumnSpec::default() };
    let column = Column::new(&spec).unwrap();
    good(&column, Sample::Tensor(zeros(DType::U8, &[2, 7]).as_ref()));
    good(&column, Sample::Tensor(zeros(DType::U8, &[2, 0]).as_ref()));
    for dims in [&[3, 7][..], &[2], &[2, 7, 1], &[]] {
        let wrong = zeros(DType::U8, dims);
        let found =
            format!("generic: expected uint8 of shape (2, any), found uint8 of shape {}", wrong.shape());
        bad(&column, Sample::Tensor(wrong.as_ref()), &found);
    }
    let scalar =
        Column::new(&ColumnSpec { dtype: Some(DType::U8), shape: Some(vec![]), ..ColumnSpec::default() })
            .unwrap();
    good(&scalar, Sample::Json(json!(255)));
    bad(&scalar, Sample::Json(json!(256)), "generic: expected uint8 of shape (), found the value 256");
    bad(&scalar, Sample::Json(json!(-1)), "generic: expected uint8 of shape (), found the value -1");
    bad(&scalar, Sample::Json(json!(1.5)), "generic: expected uint8 of shape (), found float64 of shape ()");
    bad(&scalar, Sample::Json(json!(true)), "generic: expected uint8 of shape (), found bool of shape ()");
    let flag =
        Column::new(&ColumnSpec { dtype: Some(DType::Bool), shape: Some(vec![]), ..ColumnSpec::default() })
            .unwrap();
    good(&flag, Sample::Json(json!(true)));
    bad(&flag, Sample::Json(json!(1)), "generic: expected bool of shape (), found int64 of shape ()");
    bad(
        &flag,
        Sample::Tensor(of(DType::Bool, &[], &[2u8]).as_ref()),
        "generic: expected bools of 0 and 1, found the value 2",
    );
}

#[test]
fn image() {
    let image = column("image");
    let expected = "image: expected uint8 of shape (height, width, channels)";
    good(&image, Sample::Tensor(zeros(DType::U8, &[4, 5, 3]).as_ref()));
    good(&image, Sample::Tensor(of(DType::I64, &[1, 1, 1], &[255i64]).as_ref()));
    let check = |tensor: Tensor, found: &str| {
        bad(&image, Sample::Tensor(tensor.as_ref()), &format!("{expected}, found {found}"))
    };
    check(zeros(DType::U8, &[4, 5, 5]), "uint8 of shape (4, 5, 5)");
    check(zeros(DType::U8, &[4]), "uint8 of shape (4,)");
    check(zeros(DType::U8, &[1, 4, 5, 3]), "uint8 of shape (1, 4, 5, 3)");
    check(zeros(DType::F32, &[4, 5, 3]), "float32 of shape (4, 5, 3)");
    check(of(DType::I64, &[1, 1, 1], &[256i64]), "the value 256");
    bad(&image, text("a.jpg"), &format!("{expected}, or an image file, found text"));
    bad(
        &image,
        Sample::Encoded(file("tone.flac").into()),
        "image: expected an image file, found a flac file",
    );
    let deep = png(&filled(DType::U16, &[4, 5, 3], 2));
    good(&image, Sample::Encoded((&deep[..]).into()));
    let declared = Column::new(&ColumnSpec { dtype: Some(DType::U8), ..spec("image") }).unwrap();
    bad(
        &declared,
        Sample::Encoded(deep.into()),
        &format!("{expected}, found a png file of uint16 of shape (4, 5, 3)"),
    );
    let gray = column("image.gray");
    let colours = png(&filled(DType::U8, &[4, 5, 3], 2));
    let expected = "image.gray: expected uint8 of shape (height, width)";
    bad(
        &gray,
        Sample::Encoded((&colours[..]).into()),
        "image.gray: expected a file of any dtype of shape (height, width), found a png file of uint8 of shape (4, 5, 3)",
    );
    bad(
        &gray,
        Sample::Tensor(zeros(DType::U8, &[4, 5, 3]).as_ref()),
        &format!("{expected}, found uint8 of shape (4, 5, 3)"),
    );
    good(&gray, Sample::Encoded(png(&filled(DType::U8, &[4, 5], 2)).into()));
    let fixed =
        Column::new(&ColumnSpec { shape: Some(vec![Some(4), Some(4), Some(3)]), ..spec("image") }).unwrap();
    bad(
        &fixed,
        Sample::Encoded(colours.into()),
        "image: expected a file of any dtype of shape (4, 4, 3), found a png file of uint8 of shape (4, 5, 3)",
    );
}

#[test]
fn broken_files() {
    let whole = png(&filled(DType::U8, &[40, 50, 3], 2));
    let error = encode(&column("image"), Sample::Encoded((&whole[..20]).into())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().starts_with("png: "), "{error}");
    let error = encode(&column("image"), Sample::Encoded(b"no picture at all".into())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    // A bomb is refused by its header.
    let mut bomb = whole;
    bomb[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let error = encode(&column("image"), Sample::Encoded(bomb.into())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn video_and_dicom() {
    let video = column("video");
    good(&video, Sample::Encoded(file("test.mp4").into()));
    bad(
        &video,
        Sample::Tensor(zeros(DType::U8, &[2, 4, 5, 3]).as_ref()),
        "video: expected the bytes of a video file, found uint8 of shape (2, 4, 5, 3)",
    );
    bad(&video, Sample::Encoded(file("tone.mp3").into()), "video: expected a video file, found an mp3 file");
    let only = compressed("video", "mp4");
    bad(&only, Sample::Encoded(file("test.webm").into()), "video: expected an mp4 file, found a webm file");
    let dicom = Column::new(&ColumnSpec { dtype: Some(DType::F64), ..spec("dicom") }).unwrap();
    let error = encode(&dicom, Sample::Encoded(file("gray.dcm").into())).unwrap_err().to_string();
    assert!(error.starts_with("dicom: expected float64 of shape (height, width) or "), "{error}");
    let tensor = zeros(DType::F64, &[4, 5]);
    bad(
        &dicom,
        Sample::Tensor(tensor.as_ref()),
        "dicom: expected the bytes of a DICOM file, found float64 of shape (4, 5)",
    );
}

#[test]
fn audio() {
    let audio = with_options("audio", json!({"sample_rate": 8000}));
    good(&audio, Sample::Tensor(zeros(DType::F32, &[10, 2]).as_ref()));
    good(&audio, Sample::Tensor(zeros(DType::F32, &[10]).as_ref()));
    let expected = "audio: expected float32 of shape (frames, channels)";
    bad(
        &audio,
        Sample::Tensor(zeros(DType::F32, &[1, 2, 3]).as_ref()),
        &format!("{expected}, found float32 of shape (1, 2, 3)"),
    );
    bad(
        &audio,
        Sample::Tensor(zeros(DType::F64, &[1, 2]).as_ref()),
        &format!("{expected}, found float64 of shape (1, 2)"),
    );
    let picture = media(&zeros(DType::U8, &[4, 4]), lacus_media::Format::Png);
    bad(&audio, Sample::Encoded(picture.into()), "audio: expected an audio file, found a png file");
    bad(&audio, text("la"), &format!("{expected}, or an audio file, found text"));
}

#[test]
fn class_label() {
    let labels = with_options("class_label", json!({"class_names": ["cat", "dog", "bird"]}));
    good(&labels, text("dog"));
    good(&labels, Sample::Json(json!(2)));
    bad(&labels, text("cow"), "class_label: expected one of the class_names cat, dog, bird, found \"cow\"");
    bad(
        &labels,
        text("birds"),
        "class_label: expected one of the class_names cat, dog, bird, found \"birds\" (did you mean bird?)",
    );
    bad(&labels, Sample::Json(json!(3)), "class_label: expected a class from 0 to 2, found 3");
    bad(&labels, Sample::Json(json!(-1)), "class_label: expected uint32 of shape (), found the value -1");
    bad(
        &labels,
        Sample::Json(json!(0.5)),
        "class_label: expected uint32 of shape (), found float64 of shape ()",
    );
    bad(
        &labels,
        Sample::Json(json!([1, 2])),
        "class_label: expected uint32 of shape (), found int64 of shape (2,)",
    );
    bad(
        &labels,
        Sample::Json(json!(["cat"])),
        "class_label: expected uint32 of shape (), found uint64 of shape (1,)",
    );
    bad(
        &labels,
        Sample::Sequence(vec![Sample::Missing]),
        "class_label: expected uint32 of shape (), found a sequence of 1",
    );
    let unnamed = column("class_label");
    good(&unnamed, Sample::Json(json!(4_000_000_000u32)));
    bad(
        &unnamed,
        text("cat"),
        "class_label: expected a number, since the column has no class_names, found \"cat\"",
    );
    let signed = Column::new(&ColumnSpec { dtype: Some(DType::I16), ..spec("class_label") }).unwrap();
    bad(&signed, Sample::Json(json!(-1)), "class_label: expected a number of at least 0, found -1");
    let names: Vec<String> = (0..1000).map(|i| format!("class {i}")).collect();
    let many = with_options("class_label", json!({"class_names": names}));
    let error = encode(&many, text("klass 7")).unwrap_err().to_string();
    assert!(
        error.contains("one of 1000 class_names (class 0, ") && error.contains("did you mean class 7"),
        "{error}"
    );
    let lists = Column::new(&ColumnSpec { shape: Some(vec![None]), ..spec("class_label") }).unwrap();
    good(&lists, Sample::Json(json!([1, 2])));
    bad(
        &lists,
        Sample::Json(json!(1)),
        "class_label: expected uint32 of shape (labels,), found int64 of shape ()",
    );
}

#[test]
fn texts() {
    good(&column("text"), text("x"));
    let word = zeros(DType::U8, &[3]);
    bad(&column("text"), Sample::Tensor(word.as_ref()), "text: expected text, found uint8 of shape (3,)");
    bad(&column("text"), Sample::Json(json!(5)), "text: expected text, found the number 5");
    bad(&column("text"), Sample::Link("x".into()), "text: expected text, found a link");
    good(&column("json"), Sample::Json(Json::Null));
    bad(
        &column("json"),
        Sample::Encoded(b"{}".into()),
        "json: expected a JSON value, found 2 bytes of no known media format",
    );
    good(&column("list"), Sample::Json(json!([1, "a", null])));
    bad(&column("list"), Sample::Json(json!({"a": 1})), "list: expected a list, found an object");
    bad(&column("list"), text("abc"), "list: expected a list, found text");
    good(&column("tag"), Sample::Json(json!(["a", "b"])));
    bad(
        &column("tag"),
        Sample::Json(json!(["a", 1])),
        "tag: expected words, or a list of words, found [\"a\",1]",
    );
    bad(
        &column("tag"),
        Sample::Json(json!(true)),
        "tag: expected words, or a list of words, found true or false",
    );
    let texts = column("sequence[text]");
    bad(&texts, text("a"), "sequence[text]: expected a sequence, found text");
    bad(
        &texts,
        Sample::Json(json!(["a", 2])),
        "element 1 of the sequence: sequence[text]: expected text, found the number 2",
    );
}

#[test]
fn links() {
    let link = column("link[image]");
    good(&link, Sample::Link("s3://bucket/a.jpg".into()));
    bad(&link, Sample::Link(String::new()), "link[image]: expected a link, found \"\"");
    bad(&link, text("a\nb"), "link[image]: expected a link, found \"a\\nb\"");
    let picture = zeros(DType::U8, &[4, 4, 3]);
    bad(
        &link,
        Sample::Tensor(picture.as_ref()),
        "link[image]: expected a link, found uint8 of shape (4, 4, 3)",
    );
    bad(&link, Sample::Encoded(png(&picture).into()), "link[image]: expected a link, found a png file");
    bad(
        &column("sequence[link[image]]"),
        Sample::Link("a".into()),
        "sequence[link[image]]: expected a sequence, found a link",
    );
}

#[test]
fn bbox() {
    let check = |options: Json, numbers: [f64; 4], expected: &str| {
        let column = with_options("bbox", options);
        let sample = of(DType::F64, &[1, 4], &numbers);
        match expected {
            "" => good(&column, Sample::Tensor(sample.as_ref())),
            expected => {
                bad(&column, Sample::Tensor(sample.as_ref()), &format!("bbox: expected boxes {expected}"))
            }
        }
    };
    check(json!({}), [5.0, 5.0, 2.0, 0.0], "");
    check(json!({}), [-5.0, 5.0, 2.0, 2.0], "");
    check(
        json!({}),
        [5.0, 5.0, -2.0, 2.0],
        "with left, top, and a width and height of at least 0, found box 0 of [5, 5, -2, 2]",
    );
    check(
        json!({"format": "ccwh"}),
        [5.0, 5.0, 2.0, -2.0],
        "with a centre, and a width and height of at least 0, found box 0 of [5, 5, 2, -2]",
    );
    check(json!({"format": "ltrb"}), [5.0, 5.0, 6.0, 6.0], "");
    check(
        json!({"format": "ltrb"}),
        [5.0, 5.0, 4.0, 6.0],
        "with left ≤ right and top ≤ bottom, found box 0 of [5, 5, 4, 6]",
    );
    check(json!({}), [f64::NAN, 5.0, 4.0, 6.0], "of finite numbers, found box 0 of [NaN, 5, 4, 6]");
    check(json!({}), [0.0, f64::INFINITY, 4.0, 6.0], "of finite numbers, found box 0 of [0, inf, 4, 6]");
    check(json!({"bbox_type": "fractional"}), [0.0, 0.5, 1.0, 0.5], "");
    check(
        json!({"bbox_type": "fractional"}),
        [0.0, 0.5, 1.5, 0.5],
        "of fractions from 0 to 1, found box 0 of [0, 0.5, 1.5, 0.5]",
    );
    let boxes = column("bbox");
    good(&boxes, Sample::Tensor(of(DType::I64, &[2, 4], &[1i64, 2, 3, 4, 5, 6, 7, 8]).as_ref()));
    good(&boxes, Sample::Tensor(zeros(DType::F32, &[0, 4]).as_ref()));
    let expected = "bbox: expected float32 of shape (boxes, 4)";
    bad(
        &boxes,
        Sample::Tensor(zeros(DType::F32, &[2, 5]).as_ref()),
        &format!("{expected}, found float32 of shape (2, 5)"),
    );
    bad(
        &boxes,
        Sample::Tensor(zeros(DType::F32, &[5]).as_ref()),
        &format!("{expected}, found float32 of shape (5,)"),
    );
    bad(
        &boxes,
        Sample::Tensor(zeros(DType::Bool, &[2, 4]).as_ref()),
        &format!("{expected}, found bool of shape (2, 4)"),
    );
    bad(
        &boxes,
        Sample::Tensor(of(DType::F64, &[4], &[1e300, 0.0, 1.0, 1.0]).as_ref()),
        &format!("{expected}, found the value 1e300"),
    );
}

#[test]
fn bbox_3d() {
    let boxes = column("bbox.3d");
    good(&boxes, Sample::Tensor(zeros(DType::F64, &[3, 7]).as_ref()));
    good(&boxes, Sample::Tensor(zeros(DType::F64, &[3, 8]).as_ref()));
    let expected = "bbox.3d: expected float32 of shape (boxes, 7 or 8)";
    bad(
        &boxes,
        Sample::Tensor(zeros(DType::F64, &[3, 4]).as_ref()),
        &format!("{expected}, found float64 of shape (3, 4)"),
    );
    bad(
        &boxes,
        Sample::Json(json!([[0, 0, 0, 1, -1, 1, 0]])),
        "bbox.3d: expected boxes with a centre and three sizes of at least 0, found box 0 of [0.0, 0.0, 0.0, 1.0, -1.0, 1.0, 0.0]",
    );
}

#[test]
fn masks() {
    let binary = column("binary_mask");
    let expected = "binary_mask: expected bool of shape (height, width) or (height, width, masks)";
    good(&binary, Sample::Tensor(zeros(DType::Bool, &[3, 4]).as_ref()));
    good(&binary, Sample::Tensor(zeros(DType::Bool, &[3, 4, 2]).as_ref()));
    bad(
        &binary,
        Sample::Tensor(zeros(DType::Bool, &[3]).as_ref()),
        &format!("{expected}, found bool of shape (3,)"),
    );
    bad(
        &binary,
        Sample::Tensor(of(DType::U8, &[1, 1], &[255u8]).as_ref()),
        &format!("{expected}, found the value 255"),
    );
    bad(
        &binary,
        Sample::Tensor(zeros(DType::F32, &[3, 4]).as_ref()),
        &format!("{expected}, found float32 of shape (3, 4)"),
    );
    let segments = column("segment_mask");
    let expected = "segment_mask: expected uint32 of shape (height, width)";
    good(&segments, Sample::Tensor(zeros(DType::I64, &[3, 4]).as_ref()));
    bad(
        &segments,
        Sample::Tensor(zeros(DType::U32, &[3, 4, 1]).as_ref()),
        &format!("{expected}, found uint32 of shape (3, 4, 1)"),
    );
    bad(
        &segments,
        Sample::Tensor(of(DType::I32, &[1, 1], &[-1i32]).as_ref()),
        &format!("{expected}, found the value -1"),
    );
    bad(
        &segments,
        Sample::Tensor(zeros(DType::Bool, &[3, 4]).as_ref()),
        &format!("{expected}, found bool of shape (3, 4)"),
    );
    let instances = column("instance_label");
    good(&instances, Sample::Tensor(zeros(DType::U8, &[3, 4, 5]).as_ref()));
    bad(
        &instances,
        Sample::Tensor(zeros(DType::F32, &[3]).as_ref()),
        "instance_label: expected uint32 of any shape, found float32 of shape (3,)",
    );
}

#[test]
fn keypoints_and_points() {
    let keypoints = with_options("keypoints", json!({"keypoints": ["nose", "ear"], "connections": [[0, 1]]}));
    good(&keypoints, Sample::Tensor(zeros(DType::I64, &[6, 5]).as_ref()));
    good(&keypoints, Sample::Tensor(zeros(DType::I64, &[4, 5]).as_ref()));
    bad(
        &keypoints,
        Sample::Tensor(zeros(DType::I64, &[5, 5]).as_ref()),
        "keypoints: expected 2 keypoints (6 numbers, or 4 without visibility), found 5 numbers",
    );
    bad(
        &keypoints,
        Sample::Tensor(zeros(DType::I64, &[6]).as_ref()),
        "keypoints: expected int32 of shape (numbers, things), found int64 of shape (6,)",
    );
    bad(
        &keypoints,
        Sample::Tensor(zeros(DType::F64, &[6, 1]).as_ref()),
        "keypoints: expected int32 of shape (numbers, things), found float64 of shape (6, 1)",
    );
    let floats = Column::new(&ColumnSpec { dtype: Some(DType::F32), ..spec("keypoints") }).unwrap();
    good(&floats, Sample::Tensor(zeros(DType::F64, &[9, 1]).as_ref()));
    bad(
        &floats,
        Sample::Tensor(zeros(DType::F64, &[7, 1]).as_ref()),
        "keypoints: expected x, y and visibility (3 numbers) or x and y (2 numbers) for each keypoint, found 7 numbers",
    );
    let points = column("point");
    good(&points, Sample::Json(json!([[1, 2], [3.5, 4]])));
    good(&points, Sample::Json(json!([[1, 2, 3]])));
    bad(
        &points,
        Sample::Json(json!([[1], [2]])),
        "point: expected float32 of shape (points, 2 or 3), found int64 of shape (2, 1)",
    );
}

#[test]
fn embedding() {
    let embedding = with_options("embedding", json!({"size": 3}));
    good(&embedding, Sample::Json(json!([0.1, 0.2, 0.3])));
    good(&embedding, Sample::Tensor(zeros(DType::F64, &[3]).as_ref()));
    let expected = "embedding: expected float32 of shape (3,)";
    bad(
        &embedding,
        Sample::Tensor(zeros(DType::F32, &[4]).as_ref()),
        &format!("{expected}, found float32 of shape (4,)"),
    );
    bad(
        &embedding,
        Sample::Tensor(zeros(DType::F32, &[1, 3]).as_ref()),
        &format!("{expected}, found float32 of shape (1, 3)"),
    );
    bad(
        &embedding,
        Sample::Tensor(zeros(DType::C64, &[3]).as_ref()),
        &format!("{expected}, found complex64 of shape (3,)"),
    );
}

#[test]
fn polygon() {
    let polygon = column("polygon");
    good(&polygon, Sample::Json(json!([[[0, 0], [1, 1]]])));
    let expected = "polygon: expected lists of points of 2 or 3 numbers";
    bad(&polygon, text("x"), &format!("{expected}, found text"));
    bad(&polygon, Sample::Json(json!({})), &format!("{expected}, found {{}}"));
    bad(&polygon, Sample::Json(json!([1, 2])), &format!("{expected}, found int64 of shape (2,)"));
    bad(
        &polygon,
        Sample::Tensor(zeros(DType::F32, &[2, 3, 4]).as_ref()),
        &format!("{expected}, found float32 of shape (2, 3, 4)"),
    );
    bad(
        &polygon,
        Sample::Json(json!([[[0, 0]], [[1, 1], [2]]])),
        &format!("element 1 of the sequence: {expected}, found lists of different lengths"),
    );
    bad(
        &polygon,
        Sample::Json(json!([[[0, 0]], [[1, 1, 1], [1, 1, 1]]])),
        "element 1 of the sequence: polygon: expected points of 2 numbers, as before, found int64 of shape (2, 3)",
    );
    let whole = Column::new(&ColumnSpec { dtype: Some(DType::I32), ..spec("polygon") }).unwrap();
    bad(
        &whole,
        Sample::Json(json!([[[0.5, 0]]])),
        "element 0 of the sequence: polygon: expected points of int32, found float64 of shape (1, 2)",
    );
}

#[test]
fn sequences() {
    let images = column("sequence[image]");
    let one = zeros(DType::U8, &[4, 5, 3]);
    good(&images, Sample::Sequence(vec![Sample::Tensor(one.as_ref())]));
    good(&images, Sample::Sequence(vec![]));
    bad(&images, Sample::Encoded(png(&one).into()), "sequence[image]: expected a sequence, found a png file");
    let sample = Sample::Sequence(vec![Sample::Tensor(one.as_ref()), Sample::Missing]);
    bad(
        &images,
        sample,
        "element 1 of the sequence: sequence[image]: expected uint8 of shape (height, width, channels), or an image file, found nothing",
    );
    let nested = Sample::Sequence(vec![Sample::Sequence(vec![])]);
    bad(
        &column("sequence[generic]").settle(DType::U8),
        nested,
        "element 0 of the sequence: sequence[generic]: expected uint8 of any shape, found a sequence of 0",
    );
    let error = encode(&column("sequence[generic]"), Sample::Sequence(vec![])).unwrap_err();
    assert!(error.to_string().contains("is open until its first sample"), "{error}");
}

#[test]
fn dates_times_and_decimals() {
    bad(&column("date"), text("soon"), "date: expected a date such as 2026-01-31, found \"soon\"");
    let day = "date: expected a date such as 2026-01-31, found ";
    bad(&column("date"), Sample::Json(json!(1.5)), &format!("{day}the number 1.5"));
    bad(&column("date"), Sample::Json(json!(i64::MAX)), &format!("{day}{}", i64::MAX));
    let naive = "timestamp: expected a time in us such as 2026-01-31T08:30:00.000250: the column has no time zone, found \"2026-01-31T08:30:00Z\"";
    bad(&column("timestamp"), text("2026-01-31T08:30:00Z"), naive);
    let time = "time: expected a time of day in s such as 08:30:00, found 86400";
    let seconds = with_options("time", json!({"unit": "s"}));
    bad(&seconds, Sample::Json(json!(86400)), time);
    let rows = of(DType::I64, &[2], &[86399i64, 86400]);
    let found = lacus_sample::encode_scalars(&seconds, &rows.as_ref());
    assert!(found[0].is_ok());
    assert_eq!(found[1].as_ref().unwrap_err().to_string(), time);
    let price = with_options("decimal", json!({"precision": 4, "scale": 2}));
    let expected =
        "decimal: expected a decimal number of at most 4 digits, 2 of them behind the point, found ";
    bad(&price, text("100.00"), &format!("{expected}\"100.00\""));
    bad(&price, text("1.005"), &format!("{expected}\"1.005\""));
    bad(&price, Sample::Json(json!(1.005)), &format!("{expected}1.005"));
    bad(&price, Sample::Json(json!(true)), &format!("{expected}true or false"));
    let wide = with_options("decimal", json!({"precision": 20, "scale": 0}));
    bad(
        &wide,
        text("x"),
        "decimal: expected a decimal number of at most 20 digits, 0 of them behind the point, found \"x\"",
    );
    let spec = ColumnSpec { dtype: Some(DType::I64), options: wide.options().clone(), ..spec("decimal") };
    let error = Column::new(&spec).unwrap_err().to_string();
    assert_eq!(error, "dtype: a decimal of more than 18 digits is kept as text and has none");
}
