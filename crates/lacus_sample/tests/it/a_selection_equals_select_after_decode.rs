//! Reading a part of a sample is decoding all of it and selecting then, but cheaper.

use lacus_sample::{Sample, Value, encode, is_tiled, tiles_wanted};
use lacus_tensor::{DType, Index, Selection, Shape, Tensor, parse_indices};
use proptest::prelude::*;

use crate::support::{
    blob, column, compressed, config, filled, generic, indices, knobs, media, read, tensors, tile_refs,
    with_options,
};

/// What the indices select, or that numpy refuses them.
fn selected(tensor: &Tensor, indices: &[Index]) -> Option<Value> {
    let selection = Selection::resolve(tensor.shape(), indices).ok()?;
    Some(Value::Tensor(tensor.as_ref().select(&selection).unwrap()))
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn of_tensors(tensor in tensors(), knobs in knobs(), choice in 0usize..3) {
        let column = generic(tensor.dtype(), None, ["auto", "none", "zstd"][choice]);
        let stored = blob(encode(&column, Sample::Tensor(tensor.as_ref())).unwrap());
        let indices = indices(tensor.shape().dims(), &knobs);
        let found = read(&column, &stored, &indices);
        match selected(&tensor, &indices) {
            Some(expected) => prop_assert_eq!(found.unwrap(), expected, "{:?}", indices),
            None => prop_assert!(found.is_err()),
        }
    }

    #[test]
    fn of_pictures(height in 1u64..20, width in 1u64..20, channels in 1u64..5, seed in any::<u64>(), knobs in knobs(), choice in 0usize..3) {
        let column = compressed("image", ["auto", "zstd", "tiff"][choice]);
        prop_assume!(choice != 2 || channels != 2);
        let picture = filled(DType::U8, &[height, width, channels], seed);
        let stored = blob(encode(&column, Sample::Tensor(picture.as_ref())).unwrap());
        let indices = indices(picture.shape().dims(), &knobs);
        match selected(&picture, &indices) {
            Some(expected) => prop_assert_eq!(read(&column, &stored, &indices).unwrap(), expected),
            None => prop_assert!(read(&column, &stored, &indices).is_err()),
        }
    }

    #[test]
    fn of_sound(frames in 1u64..300, channels in 1u64..3, knobs in knobs()) {
        let column = with_options("audio", serde_json::json!({"sample_rate": 8000}));
        let sound = filled(DType::F32, &[frames, channels], 2);
        let stored = blob(encode(&column, Sample::Tensor(sound.as_ref())).unwrap());
        let indices = indices(sound.shape().dims(), &knobs);
        match selected(&sound, &indices) {
            Some(expected) => prop_assert_eq!(read(&column, &stored, &indices).unwrap(), expected),
            None => prop_assert!(read(&column, &stored, &indices).is_err()),
        }
    }
}

#[test]
fn a_slice_of_a_large_sample_wants_a_few_of_its_tiles() {
    let column = column("generic").settle(DType::U8);
    let shape = [6000, 6000, 3];
    let count =
        |text: &str| tiles_wanted(&column, &shape, &parse_indices(text).unwrap()).unwrap().unwrap().len();
    assert!(is_tiled(&column, &shape));
    assert_eq!(count("..."), 104);
    assert_eq!(count("100:110, 20:80"), 1);
    assert_eq!(count("[0, 5999]"), 2);
    assert_eq!(count("::3000"), 2);
    assert_eq!(count("5:5"), 0);
    assert_eq!(tiles_wanted(&column, &[10, 10, 3], &[]).unwrap(), None);
    let outside = tiles_wanted(&column, &shape, &parse_indices("6000").unwrap()).unwrap_err();
    assert!(outside.is_out_of_bounds());
    assert!(tiles_wanted(&column, &[10], &parse_indices("10").unwrap()).unwrap_err().is_out_of_bounds());
}

#[test]
fn the_first_index_of_a_sequence_picks_elements() {
    let column = column("sequence[image]");
    let pictures: Vec<Tensor> = (1..5).map(|k| filled(DType::U8, &[k + 3, 2 * k, 3], k)).collect();
    let sample = Sample::Sequence(pictures.iter().map(|picture| Sample::Tensor(picture.as_ref())).collect());
    let stored = blob(encode(&column, sample).unwrap());
    let at = |text: &str| read(&column, &stored, &parse_indices(text).unwrap());
    let whole = |k: usize| Value::Tensor(pictures[k].clone());
    let part = |k: usize, text: &str| selected(&pictures[k], &parse_indices(text).unwrap()).unwrap();
    assert_eq!(at("2").unwrap(), whole(2));
    assert_eq!(at("-1").unwrap(), whole(3));
    assert_eq!(at("...").unwrap(), Value::Sequence((0..4).map(whole).collect()));
    assert_eq!(at("1:3").unwrap(), Value::Sequence(vec![whole(1), whole(2)]));
    assert_eq!(at("::-2").unwrap(), Value::Sequence(vec![whole(3), whole(1)]));
    assert_eq!(at("[3, 0, 3]").unwrap(), Value::Sequence(vec![whole(3), whole(0), whole(3)]));
    assert_eq!(at("1, 2:4, :2").unwrap(), part(1, "2:4, :2"));
    assert_eq!(
        at(":2, 0, ..., 1").unwrap(),
        Value::Sequence(vec![part(0, "0, ..., 1"), part(1, "0, ..., 1")])
    );
    let mask = [Index::Mask { dims: vec![4], bits: vec![true, false, false, true] }];
    assert_eq!(read(&column, &stored, &mask).unwrap(), Value::Sequence(vec![whole(0), whole(3)]));
    assert!(at("4").unwrap_err().is_out_of_bounds());
    let error = at("0:2, 5, 9").unwrap_err();
    assert_eq!(
        error.to_string(),
        "element 0 of the sequence: index 5 is out of bounds for axis 0 with size 4"
    );
    for index in [Index::NewAxis, Index::List { dims: vec![1, 1], values: vec![0] }] {
        assert!(
            read(&column, &stored, &[index]).unwrap_err().to_string().starts_with("index: the first index")
        );
    }
}

#[test]
fn one_element_is_decoded_without_the_others() {
    let column = column("sequence[image]");
    let good = filled(DType::U8, &[4, 4, 3], 2);
    let sample = Sample::Sequence(vec![Sample::Tensor(good.as_ref()), Sample::Tensor(good.as_ref())]);
    let mut stored = blob(encode(&column, sample).unwrap());
    // The last bytes of the second picture.
    let bytes = stored.tiles[0].bytes.to_mut();
    let end = bytes.len();
    bytes[end - 40..].fill(0);
    assert_eq!(read(&column, &stored, &parse_indices("0").unwrap()).unwrap(), Value::Tensor(good.clone()));
    assert!(
        read(&column, &stored, &parse_indices("1").unwrap())
            .unwrap_err()
            .to_string()
            .starts_with("element 1")
    );
}

#[test]
fn the_first_index_of_polygons_picks_outlines() {
    let column = column("polygon");
    let outlines: Vec<Tensor> = (3..6).map(|count| filled(DType::F32, &[count, 2], count)).collect();
    let sample = Sample::Sequence(outlines.iter().map(|outline| Sample::Tensor(outline.as_ref())).collect());
    let stored = blob(encode(&column, sample).unwrap());
    let at = |text: &str| read(&column, &stored, &parse_indices(text).unwrap());
    let part = |k: usize, text: &str| selected(&outlines[k], &parse_indices(text).unwrap()).unwrap();
    assert_eq!(at("1").unwrap(), part(1, "..."));
    assert_eq!(at("1, ::2").unwrap(), part(1, "::2"));
    assert_eq!(at("1:, 0").unwrap(), Value::Sequence(vec![part(1, "0"), part(2, "0")]));
    assert!(at("3").unwrap_err().is_out_of_bounds());
}

#[test]
fn a_gray_file_has_an_axis_for_its_channel() {
    let gray = filled(DType::U8, &[6, 7], 2);
    let column = column("image");
    let stored =
        blob(encode(&column, Sample::Encoded(media(&gray, lacus_media::Format::Png).into())).unwrap());
    assert_eq!(stored.shape, [6, 7, 1]);
    let with_axis = Tensor::new(DType::U8, Shape::new([6, 7, 1]).unwrap(), gray.into_buffer()).unwrap();
    for text in ["...", "2:4", ":, 3, 0", "..., ::-1, :", "..., 0"] {
        let indices = parse_indices(text).unwrap();
        assert_eq!(
            read(&column, &stored, &indices).unwrap(),
            selected(&with_axis, &indices).unwrap(),
            "{text}"
        );
    }
    assert_eq!(tile_refs(&stored).len(), 1);
}
