//! decode(encode(sample)) is the sample, whatever its type, form, size and compression.

use std::borrow::Cow;

use lacus_sample::{
    Column, ColumnSpec, Form, Sample, Scalars, Stored, Value, decode_blob_into, decode_scalars, decode_text,
    encode, infer, is_tiled,
};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::support::{
    blob, column, config, filled, generic, round_trip, same, shapes, spec, tensor, tensors, tile_refs,
    with_options,
};

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn tensors_of_every_dtype_and_shape(tensor in tensors(), choice in 0usize..4) {
        let compression = ["auto", "none", "zstd", "zstd:3"][choice];
        let column = generic(tensor.dtype(), None, compression);
        let stored = blob(encode(&column, Sample::Tensor(tensor.as_ref())).unwrap());
        prop_assert_eq!(&stored.shape[..], tensor.shape().dims());
        prop_assert_eq!(is_tiled(&column, &stored.shape), tensor.bytes().len() > 2000);
        prop_assert_eq!(stored.tiles.len() > 1, is_tiled(&column, &stored.shape));
        for tile in &stored.tiles {
            prop_assert!(tile.bytes.len() <= 2000);
            prop_assert!(compression != "none" || tile.codec == "raw");
        }
        let mut out = vec![0xaa; tensor.bytes().len()];
        decode_blob_into(&column, &stored.shape, &tile_refs(&stored), &mut out).unwrap();
        prop_assert_eq!(&out[..], tensor.bytes());
        prop_assert_eq!(same(&column, Sample::Tensor(tensor.as_ref())), Value::Tensor(tensor));
    }

    /// Views of somebody's memory in another order.
    #[test]
    fn strided_tensors(tensor in tensors(), choice in 0usize..3) {
        let column = generic(tensor.dtype(), None, ["auto", "none", "zstd"][choice]);
        let axes: Vec<usize> = (0..tensor.shape().rank()).rev().collect();
        let turned = tensor.as_ref().transpose(&axes);
        prop_assert_eq!(same(&column, Sample::Tensor(turned.clone())), Value::Tensor(turned.to_tensor()));
    }

    #[test]
    fn scalars_of_every_dtype(dtype in crate::support::dtypes(), seed in any::<u64>()) {
        let column = generic(dtype, Some(vec![]), "auto");
        let scalar = filled(dtype, &[], seed);
        prop_assert_eq!(column.form() == Form::Blob, dtype.is_complex());
        prop_assert_eq!(same(&column, Sample::Tensor(scalar.as_ref())), Value::Tensor(scalar));
    }

    #[test]
    fn many_scalars_at_once(dtype in crate::support::dtypes(), seeds in proptest::collection::vec(any::<u64>(), 0..20)) {
        prop_assume!(!dtype.is_complex());
        let column = generic(dtype, Some(vec![]), "none");
        let samples: Vec<Tensor> = seeds.iter().map(|seed| filled(dtype, &[], *seed)).collect();
        let (mut ints, mut floats, mut reals) = (vec![], vec![], vec![]);
        for sample in &samples {
            match encode(&column, Sample::Tensor(sample.as_ref())).unwrap() {
                Stored::Int(value) => ints.push(value),
                Stored::Float(value) => floats.push(value),
                Stored::Real(value) => reals.push(value),
                other => panic!("{other:?}"),
            }
        }
        let all = match column.form() {
            Form::Int => decode_scalars(&column, Scalars::Int(&ints)),
            Form::Float => decode_scalars(&column, Scalars::Float(&floats)),
            _ => decode_scalars(&column, Scalars::Real(&reals)),
        };
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.bytes().to_vec()).collect();
        let expected = Tensor::new(dtype, Shape::new([seeds.len() as u64]).unwrap(), Buffer::from_slice(&bytes));
        prop_assert_eq!(all.unwrap(), expected.unwrap());
    }

    #[test]
    fn sequences_of_tensors(dtype in crate::support::dtypes(), all in proptest::collection::vec((shapes(), any::<u64>()), 0..6)) {
        let settled = column("sequence[generic]").settle(dtype);
        let tensors: Vec<Tensor> = all.iter().map(|(dims, seed)| filled(dtype, dims, *seed)).collect();
        let sample = Sample::Sequence(tensors.iter().map(|tensor| Sample::Tensor(tensor.as_ref())).collect());
        let stored = encode(&settled, sample.clone()).unwrap();
        prop_assert_eq!(blob(stored).shape, [tensors.len() as u64]);
        let expected = Value::Sequence(tensors.iter().cloned().map(Value::Tensor).collect());
        prop_assert_eq!(same(&settled, sample), expected);
    }

    #[test]
    fn polygons_of_every_dtype(choice in 0usize..5, counts in proptest::collection::vec(0u64..9, 0..6), width in 2u64..4, seed in any::<u64>()) {
        let dtype = [DType::F32, DType::F64, DType::F16, DType::I32, DType::I64][choice];
        let column = Column::new(&ColumnSpec { dtype: Some(dtype), ..spec("polygon") }).unwrap();
        let outlines: Vec<Tensor> = counts.iter().map(|count| filled(dtype, &[*count, width], seed)).collect();
        let sample = Sample::Sequence(outlines.iter().map(|outline| Sample::Tensor(outline.as_ref())).collect());
        let expected = Value::Sequence(outlines.iter().cloned().map(Value::Tensor).collect());
        prop_assert_eq!(same(&column, sample), expected);
    }

    #[test]
    fn texts(text in ".*", words in proptest::collection::vec(".{0,8}", 0..5)) {
        prop_assert_eq!(same(&column("text"), Sample::Text(Cow::Borrowed(&text))), Value::Text(text.clone()));
        prop_assert_eq!(same(&column("json"), Sample::Text(Cow::Borrowed(&text))), Value::Json(json!(text)));
        prop_assert_eq!(same(&column("tag"), Sample::Text(Cow::Borrowed(&text))), Value::Json(json!([text])));
        let sequence = || Sample::Sequence(words.iter().map(|word| Sample::Text(Cow::Borrowed(word))).collect());
        for htype in ["tag", "list", "json"] {
            prop_assert_eq!(same(&column(htype), sequence()), Value::Json(json!(words)));
        }
        let texts = Value::Sequence(words.iter().cloned().map(Value::Text).collect());
        prop_assert_eq!(same(&column("sequence[text]"), sequence()), texts.clone());
        prop_assert_eq!(same(&column("sequence[text]"), Sample::Json(json!(words))), texts);
    }

    #[test]
    fn numbers_inside_of_json(bits in any::<u64>(), integer in any::<i64>()) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        let value = json!({"a": [number, integer, null], "b": {"c": true}});
        prop_assert_eq!(same(&column("json"), Sample::Json(value.clone())), Value::Json(value));
    }
}

#[test]
fn a_missing_sample_stays_missing() {
    for htype in ["generic", "image", "text", "class_label", "sequence[image]", "link[image]", "polygon"] {
        assert_eq!(round_trip(&column(htype), Sample::Missing).unwrap(), None, "{htype}");
    }
}

#[test]
fn elements_that_are_stored_as_they_are_are_not_copied() {
    let values = filled(DType::F32, &[768], 2);
    let embedding = with_options("embedding", json!({"size": 768}));
    let Stored::Blob(stored) = encode(&embedding, Sample::Tensor(values.as_ref())).unwrap() else { panic!() };
    assert_eq!(stored.tiles[0].codec, "raw");
    assert!(
        matches!(&stored.tiles[0].bytes, Cow::Borrowed(bytes) if bytes.as_ptr() == values.bytes().as_ptr())
    );
    let large = filled(DType::F32, &[3, 1024, 1024], 2);
    let column = generic(DType::F32, None, "none").with_tiling(Default::default());
    let Stored::Blob(stored) = encode(&column, Sample::Tensor(large.as_ref())).unwrap() else { panic!() };
    assert_eq!(stored.tiles.len(), 12);
    assert!(
        stored.tiles.iter().all(|tile| matches!(tile.bytes, Cow::Borrowed(_)) && tile.bytes.len() == 1 << 20)
    );
}

#[test]
fn automatic_compression_takes_what_pays() {
    let auto = |dtype, tensor: &Tensor| {
        let column = generic(dtype, None, "auto").with_tiling(Default::default());
        blob(encode(&column, Sample::Tensor(tensor.as_ref())).unwrap()).tiles[0].codec
    };
    assert_eq!(auto(DType::U8, &filled(DType::U8, &[511], 0)), "raw");
    assert_eq!(auto(DType::U8, &filled(DType::U8, &[5000], 0)), "zstd");
    assert_eq!(auto(DType::U8, &filled(DType::U8, &[5000], 2)), "raw");
    assert_eq!(auto(DType::I32, &filled(DType::I32, &[5000], 1)), "shuffle4+zstd");
    let zeros = filled(DType::F32, &[5000], 2);
    let embedding = column("embedding");
    assert_eq!(blob(encode(&embedding, Sample::Tensor(zeros.as_ref())).unwrap()).tiles[0].codec, "raw");
}

#[test]
fn labels_come_as_numbers_or_names() {
    let labels = with_options("class_label", json!({"class_names": ["cat", "dog", "bird"]}));
    let two = Value::Tensor(tensor(DType::U32, &[], &[2u32]));
    for sample in [
        Sample::Text("bird".into()),
        Sample::Json(json!("bird")),
        Sample::Json(json!(2)),
        Sample::Tensor(tensor(DType::I64, &[], &[2i64]).as_ref()),
    ] {
        assert_eq!(encode(&labels, sample.clone()).unwrap(), Stored::Int(2));
        assert_eq!(same(&labels, sample), two);
    }
    let lists = Column::new(&ColumnSpec {
        shape: Some(vec![None]),
        options: crate::support::map(json!({"class_names": ["cat", "dog", "bird"]})),
        ..spec("class_label")
    })
    .unwrap();
    let both = Value::Tensor(tensor(DType::U32, &[2], &[1u32, 0]));
    for sample in [
        Sample::Sequence(vec![Sample::Text("dog".into()), Sample::Text("cat".into())]),
        Sample::Json(json!(["dog", "cat"])),
        Sample::Json(json!([1, 0])),
        Sample::Tensor(tensor(DType::U8, &[2], &[1u8, 0]).as_ref()),
    ] {
        assert_eq!(same(&lists, sample), both);
    }
    let none = Value::Tensor(tensor::<u32>(DType::U32, &[0], &[]));
    assert_eq!(same(&lists, Sample::Json(json!([]))), none);
    assert_eq!(same(&lists, Sample::Sequence(vec![])), none);
    let sequence = with_options("sequence[class_label]", json!({"class_names": ["cat", "dog"]}));
    let sample = Sample::Json(json!(["dog", 0]));
    let one = |value: u32| Value::Tensor(tensor(DType::U32, &[], &[value]));
    assert_eq!(same(&sequence, sample), Value::Sequence(vec![one(1), one(0)]));
}

#[test]
fn a_missing_axis_of_one_is_added() {
    let boxes = column("bbox");
    let f32s = |dims: &[u64], values: &[f32]| Value::Tensor(tensor(DType::F32, dims, values));
    let single = tensor(DType::F64, &[4], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(same(&boxes, Sample::Tensor(single.as_ref())), f32s(&[1, 4], &[1.0, 2.0, 3.0, 4.0]));
    let none = tensor::<f64>(DType::F64, &[0], &[]);
    assert_eq!(same(&boxes, Sample::Tensor(none.as_ref())), f32s(&[0, 4], &[]));
    assert_eq!(same(&boxes, Sample::Json(json!([]))), f32s(&[0, 4], &[]));
    assert_eq!(same(&column("point"), Sample::Json(json!([1, 2.5]))), f32s(&[1, 2], &[1.0, 2.5]));
    let declared = Column::new(&ColumnSpec { shape: Some(vec![Some(4)]), ..spec("bbox") }).unwrap();
    assert_eq!(same(&declared, Sample::Tensor(single.as_ref())), f32s(&[4], &[1.0, 2.0, 3.0, 4.0]));
}

#[test]
fn a_tensor_is_the_sequence_of_its_first_axis() {
    let stack = filled(DType::U8, &[3, 4, 5], 2);
    let sequence = column("sequence[generic]").settle(DType::U8);
    let expected: Vec<Value> = (0..3)
        .map(|k| {
            let slab = stack.as_ref().region(&[k, 0, 0], &[1, 4, 5]).to_tensor();
            Value::Tensor(Tensor::new(DType::U8, Shape::new([4, 5]).unwrap(), slab.into_buffer()).unwrap())
        })
        .collect();
    assert_eq!(same(&sequence, Sample::Tensor(stack.as_ref())), Value::Sequence(expected));
}

#[test]
fn polygons_come_as_tensors_and_as_lists() {
    let column = column("polygon");
    let outline = |values: &[f32]| Value::Tensor(tensor(DType::F32, &[values.len() as u64 / 2, 2], values));
    let triangle = outline(&[0.0, 0.0, 1.0, 0.0, 0.5, 1.0]);
    let ragged = json!([[[0, 0], [1, 0], [0.5, 1]], [[2, 2], [3, 3]]]);
    let both = Value::Sequence(vec![triangle.clone(), outline(&[2.0, 2.0, 3.0, 3.0])]);
    assert_eq!(same(&column, Sample::Json(ragged)), both);
    assert_eq!(
        same(&column, Sample::Json(json!([[0, 0], [1, 0], [0.5, 1]]))),
        Value::Sequence(vec![triangle])
    );
    let squares = filled(DType::F32, &[2, 4, 2], 0);
    let Value::Sequence(two) = same(&column, Sample::Tensor(squares.as_ref())) else { panic!() };
    assert_eq!(two.len(), 2);
    for empty in [Sample::Json(json!([])), Sample::Sequence(vec![])] {
        assert_eq!(same(&column, empty), Value::Sequence(vec![]));
    }
    let mixed = Sample::Sequence(vec![Sample::Json(json!([])), Sample::Json(json!([[1, 2, 3]]))]);
    let Value::Sequence(mixed) = same(&column, mixed) else { panic!() };
    assert_eq!(mixed[0], Value::Tensor(tensor::<f32>(DType::F32, &[0, 3], &[])));
}

#[test]
fn links_are_kept_as_urls() {
    let url = "s3://bucket/a b.jpg";
    for sample in [Sample::Link(url.into()), Sample::Text(url.into()), Sample::Json(json!(url))] {
        assert_eq!(encode(&column("link[image]"), sample.clone()).unwrap(), Stored::Text(url.into()));
        assert_eq!(same(&column("link[image]"), sample), Value::Link(url.into()));
    }
    let two = Sample::Sequence(vec![Sample::Link("a".into()), Sample::Link("b".into())]);
    let links = column("sequence[link[image]]");
    assert_eq!(encode(&links, two.clone()).unwrap(), Stored::Text(r#"["a","b"]"#.into()));
    assert_eq!(same(&links, two), Value::Sequence(vec![Value::Link("a".into()), Value::Link("b".into())]));
    assert_eq!(column("link[image]").resolved(), column("image"));
    assert_eq!(links.element(), column("link[image]"));
}

#[test]
fn the_first_sample_settles_an_open_dtype() {
    let picture = crate::support::png(&filled(DType::U16, &[4, 5], 2));
    let check = |sample: Sample<'_>, expected: Option<DType>| assert_eq!(infer(&sample), expected);
    check(Sample::Tensor(filled(DType::BF16, &[2], 0).as_ref()), Some(DType::BF16));
    check(Sample::Json(json!([1, 2])), Some(DType::I64));
    check(Sample::Json(json!(0.5)), Some(DType::F64));
    check(Sample::Json(json!({"a": 1})), None);
    check(Sample::Encoded(picture.into()), Some(DType::U16));
    check(Sample::Encoded(b"nothing".into()), None);
    check(Sample::Text("x".into()), None);
    check(Sample::Sequence(vec![Sample::Missing, Sample::Json(json!(true))]), Some(DType::Bool));
    let open = column("generic");
    let sample = || Sample::Json(json!([[1, 2], [3, 4]]));
    let error = encode(&open, sample()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "generic: the dtype of this column is open until its first sample: settle it first"
    );
    let settled = open.settle(infer(&sample()).unwrap());
    assert_eq!(same(&settled, sample()), Value::Tensor(tensor(DType::I64, &[2, 2], &[1i64, 2, 3, 4])));
}

#[test]
fn what_is_written_down_is_rounded_and_what_has_a_dtype_is_not() {
    let column = generic(DType::F32, Some(vec![]), "auto");
    let tenth = Value::Tensor(tensor(DType::F32, &[], &[0.1f32]));
    assert_eq!(same(&column, Sample::Json(json!(0.1))), tenth);
    assert!(encode(&column, Sample::Tensor(tensor(DType::F64, &[], &[0.1f64]).as_ref())).is_err());
    let seven = Value::Tensor(tensor(DType::F32, &[], &[7f32]));
    assert_eq!(same(&column, Sample::Tensor(tensor(DType::I64, &[], &[7i64]).as_ref())), seven);
    let nan = tensor(DType::F32, &[], &[0x7fc1_2345u32]);
    assert_eq!(same(&column, Sample::Tensor(nan.as_ref())), Value::Tensor(nan));
}

#[test]
fn json_too_deep_to_be_read_is_not_written() {
    let nested = |depth: usize| (0..depth).fold(Json::Null, |inner, _| json!([inner]));
    let column = column("json");
    assert_eq!(same(&column, Sample::Json(nested(100))), Value::Json(nested(100)));
    assert!(encode(&column, Sample::Json(nested(101))).is_err());
    assert!(decode_text(&column, &"[".repeat(100_000)).is_err());
}

#[test]
fn dates_times_and_decimals() {
    let check = |column: &Column, given: Sample<'_>, stored: Stored<'_>| {
        assert_eq!(encode(column, given).unwrap(), stored);
    };
    let text = |text: &'static str| Sample::Text(text.into());
    check(&column("date"), text("1970-01-02"), Stored::Int(1));
    check(&column("date"), Sample::Json(json!(-1)), Stored::Int(-1));
    check(&column("timestamp"), text("1970-01-01T00:00:01"), Stored::Int(1_000_000));
    let zoned = with_options("timestamp", json!({"unit": "s", "timezone": "Europe/Zurich"}));
    check(&zoned, text("1970-01-01T01:00:01+01:00"), Stored::Int(1));
    check(&column("time"), text("00:00:00.000001"), Stored::Int(1));
    check(&column("duration"), text("-PT1S"), Stored::Int(-1_000_000));
    let price = with_options("decimal", json!({"precision": 6, "scale": 2}));
    // A number is the value, however it is given.
    for five in [text("5"), text("5.00"), Sample::Json(json!(5)), Sample::Json(json!(5.0))] {
        check(&price, five, Stored::Int(500));
    }
    let tenth = tensor(DType::F32, &[], &[0.1f32]);
    check(&price, Sample::Tensor(tenth.as_ref()), Stored::Int(10));
    let found = lacus_sample::encode_scalars(&price, &tensor(DType::I16, &[2], &[5i16, -7]).as_ref());
    assert_eq!(
        found.into_iter().map(Result::unwrap).collect::<Vec<_>>(),
        [Stored::Int(500), Stored::Int(-700)]
    );
    let wide = with_options("decimal", json!({"precision": 38, "scale": 2}));
    assert_eq!((wide.form(), wide.dtype()), (Form::Text, None));
    check(&wide, text("12345678901234567890.5"), Stored::Text("12345678901234567890.50".into()));
    check(&wide, Sample::Json(json!(7)), Stored::Text("7.00".into()));
    assert_eq!(decode_text(&wide, "7.00").unwrap(), Value::Text("7.00".into()));
    // Sequences hold the integers, and texts of many digits.
    let days = column("sequence[date]");
    let both = Sample::Sequence(vec![text("1970-01-02"), text("1970-01-03")]);
    let day = |count: i32| Value::Tensor(tensor(DType::I32, &[], &[count]));
    assert_eq!(same(&days, both), Value::Sequence(vec![day(1), day(2)]));
    let several = with_options("sequence[decimal]", json!({"precision": 20, "scale": 1}));
    let stored = encode(&several, Sample::Sequence(vec![text("1.5"), Sample::Json(json!(2))])).unwrap();
    assert_eq!(stored, Stored::Text(r#"["1.5","2.0"]"#.into()));
}
