//! A file that fits the column is stored without being decoded; others are made to fit, or refused.

use std::borrow::Cow;

use lacus_media::{EncodeOptions, Format, Limits};
use lacus_sample::{
    Column, ColumnSpec, Sample, Stored, TileRef, Value, decode_blob, decode_blob_into, encode, sample_dtype,
};
use lacus_tensor::{DType, Shape, Tensor};
use serde_json::json;

use crate::support::{
    blob, column, compressed, file, filled, map, media, png, read, same, spec, tensor, tile_refs,
    with_options,
};

fn decoded(bytes: &[u8]) -> Tensor {
    lacus_media::decode(bytes, &Limits::default()).unwrap()
}

/// What is stored of a file: its codec, and whether it is the caller's own memory.
fn stored(column: &Column, bytes: &[u8]) -> (&'static str, bool) {
    let blob = blob(encode(column, Sample::Encoded(Cow::Borrowed(bytes))).unwrap());
    let [tile] = &blob.tiles[..] else { panic!("{} tiles", blob.tiles.len()) };
    assert!(tile.coords.is_empty());
    (tile.codec, matches!(&tile.bytes, Cow::Borrowed(kept) if kept.as_ptr() == bytes.as_ptr()))
}

#[test]
fn files_of_the_columns_compression_are_not_touched() {
    let picture = filled(DType::U8, &[16, 8, 3], 0);
    let (jpeg, png) = (media(&picture, Format::Jpeg), png(&picture));
    let check = |column: &Column, bytes: &[u8], expected: (&str, bool)| {
        assert_eq!(stored(column, bytes), expected, "{}", column.compression());
    };
    for name in ["auto", "jpeg", "jpg"] {
        check(&compressed("image", name), &jpeg, ("jpeg", true));
    }
    check(&column("image"), &png, ("png", true));
    check(&compressed("image", "png"), &png, ("png", true));
    check(&compressed("image", "jpeg"), &png, ("jpeg", false));
    check(&compressed("image", "png"), &jpeg, ("png", false));
    check(&compressed("image", "none"), &png, ("raw", false));
    check(
        &compressed("image", "zstd"),
        &media(&filled(DType::U8, &[40, 40, 3], 0), Format::Png),
        ("zstd", false),
    );
    check(&column("video"), &file("test.mp4"), ("mp4", true));
    check(&column("video"), &file("test.webm"), ("webm", true));
    check(&column("audio"), &file("tone.flac"), ("flac", true));
    check(&column("audio"), &file("tone.mp3"), ("mp3", true));
    let dicom = file("gray.dcm");
    let settled = column("dicom").settle(lacus_sample::infer(&Sample::Encoded((&dicom[..]).into())).unwrap());
    check(&settled, &dicom, ("dicom", true));
}

#[test]
fn pictures_come_back_bit_for_bit() {
    let picture = filled(DType::U8, &[16, 8, 3], 2);
    for compression in ["auto", "png", "webp", "bmp", "tiff", "none", "zstd"] {
        let column = compressed("image", compression);
        let expected = Value::Tensor(picture.clone());
        assert_eq!(same(&column, Sample::Tensor(picture.as_ref())), expected, "{compression}");
        assert_eq!(same(&column, Sample::Encoded(png(&picture).into())), expected, "{compression}");
    }
    let jpeg = media(&picture, Format::Jpeg);
    assert_eq!(same(&column("image"), Sample::Encoded(jpeg.clone().into())), Value::Tensor(decoded(&jpeg)));
    let gray = filled(DType::U8, &[5, 9], 2);
    let with_axis =
        Tensor::new(DType::U8, Shape::new([5, 9, 1]).unwrap(), gray.clone().into_buffer()).unwrap();
    for sample in [
        Sample::Tensor(gray.as_ref()),
        Sample::Tensor(with_axis.as_ref()),
        Sample::Encoded(png(&gray).into()),
    ] {
        assert_eq!(same(&column("image"), sample), Value::Tensor(with_axis.clone()));
    }
    assert_eq!(same(&column("image.gray"), Sample::Tensor(gray.as_ref())), Value::Tensor(gray.clone()));
    let wide = Column::new(&ColumnSpec { dtype: Some(DType::U16), ..spec("image.gray") }).unwrap();
    let deep = filled(DType::U16, &[5, 9], 2);
    assert_eq!(same(&wide, Sample::Encoded(png(&deep).into())), Value::Tensor(deep));
    for dims in [[0, 9, 3], [5, 0, 1]] {
        let empty = filled(DType::U8, &dims, 0);
        assert_eq!(same(&column("image"), Sample::Tensor(empty.as_ref())), Value::Tensor(empty));
    }
}

#[test]
fn quality_is_that_of_the_column() {
    let picture = filled(DType::U8, &[64, 64, 3], 2);
    let size = |quality: u8| {
        let spec = ColumnSpec {
            compression: Some("jpeg".into()),
            options: map(json!({"quality": quality})),
            ..spec("image")
        };
        let column = Column::new(&spec).unwrap();
        blob(encode(&column, Sample::Tensor(picture.as_ref())).unwrap()).tiles[0].bytes.len()
    };
    assert!(size(20) < size(90));
    let default = blob(encode(&compressed("image", "jpeg"), Sample::Tensor(picture.as_ref())).unwrap()).tiles
        [0]
    .bytes
    .len();
    assert_eq!(default, size(EncodeOptions::default().quality));
}

#[test]
fn batches_are_decoded_in_place() {
    let spec = ColumnSpec { shape: Some(vec![Some(16), Some(8), Some(3)]), ..spec("image") };
    let column = Column::new(&spec).unwrap();
    let picture = filled(DType::U8, &[16, 8, 3], 2);
    let mut batch = vec![0; 2 * picture.bytes().len()];
    for out in batch.chunks_exact_mut(picture.bytes().len()) {
        let stored = blob(encode(&column, Sample::Encoded(png(&picture).into())).unwrap());
        decode_blob_into(&column, &stored.shape, &tile_refs(&stored), out).unwrap();
        assert_eq!(out, picture.bytes());
        assert!(decode_blob_into(&column, &stored.shape, &tile_refs(&stored), &mut out[1..]).is_err());
    }
}

#[test]
fn sound_has_the_dtype_of_the_column_whatever_the_file_has() {
    let flac = file("tone.flac");
    let file_tensor = decoded(&flac);
    assert_eq!(file_tensor.dtype(), DType::I16);
    let Value::Tensor(found) = same(&column("audio"), Sample::Encoded((&flac[..]).into())) else { panic!() };
    assert_eq!((found.dtype(), found.shape()), (DType::F32, file_tensor.shape()));
    let halves: Vec<f32> =
        file_tensor.buffer().cast::<i16>().iter().map(|s| f32::from(*s) / 32768.0).collect();
    assert_eq!(found.buffer().cast::<f32>(), halves);
    let exact = Column::new(&ColumnSpec { dtype: Some(DType::I16), ..spec("audio") }).unwrap();
    assert_eq!(same(&exact, Sample::Encoded((&flac[..]).into())), Value::Tensor(file_tensor.clone()));
    let stored = blob(encode(&column("audio"), Sample::Encoded((&flac[..]).into())).unwrap());
    let indices = lacus_tensor::parse_indices("100:200:3").unwrap();
    let selection = lacus_tensor::Selection::resolve(found.shape(), &indices).unwrap();
    let part = found.as_ref().select(&selection).unwrap();
    assert_eq!(read(&column("audio"), &stored, &indices).unwrap(), Value::Tensor(part));
    let mut out = vec![0; found.bytes().len()];
    decode_blob_into(&column("audio"), &stored.shape, &tile_refs(&stored), &mut out).unwrap();
    assert_eq!(out, found.bytes());
}

#[test]
fn sound_given_as_elements_becomes_a_file() {
    let column = with_options("audio", json!({"sample_rate": 16000}));
    let sound = filled(DType::F32, &[100, 2], 0);
    let stored = encode(&column, Sample::Tensor(sound.as_ref())).unwrap();
    let Stored::Blob(stored) = stored else { panic!() };
    assert_eq!(stored.tiles[0].codec, "wav");
    let facts = lacus_media::probe(&stored.tiles[0].bytes).unwrap();
    assert_eq!(facts.details["sample_rate"], json!(16000));
    assert_eq!(same(&column, Sample::Tensor(sound.as_ref())), Value::Tensor(sound));
    let mono = filled(DType::F32, &[100], 0);
    let Value::Tensor(found) = same(&column, Sample::Tensor(mono.as_ref())) else { panic!() };
    assert_eq!((found.shape().dims(), found.bytes()), (&[100, 1][..], mono.bytes()));
    let flat = ColumnSpec {
        shape: Some(vec![None]),
        options: map(json!({"sample_rate": 8000})),
        dtype: Some(DType::I16),
        compression: Some("flac".into()),
        ..spec("audio")
    };
    let flat = Column::new(&flat).unwrap();
    let mono = filled(DType::I16, &[100], 0);
    assert_eq!(same(&flat, Sample::Tensor(mono.as_ref())), Value::Tensor(mono));
    let error = encode(&crate::support::column("audio"), Sample::Tensor(sound_of(3).as_ref())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sample_rate: the column needs this option to keep sound that is given as elements, not as a file"
    );
    // A file that is encoded anew keeps its own rate.
    let mp3 = file("tone.mp3");
    let again = compressed("audio", "wav");
    let stored = blob(encode(&again, Sample::Encoded((&mp3[..]).into())).unwrap());
    let facts = lacus_media::probe(&stored.tiles[0].bytes).unwrap();
    assert_eq!(facts.details["sample_rate"], lacus_media::probe(&mp3).unwrap().details["sample_rate"]);
}

#[test]
fn integers_given_as_elements_have_the_scale_of_files() {
    let least_and_half = |dtype: DType| match dtype {
        DType::U8 => tensor(dtype, &[3, 1], &[0u8, 128, 192]),
        DType::I16 => tensor(dtype, &[3, 1], &[i16::MIN, 0, 1 << 14]),
        _ => tensor(dtype, &[3, 1], &[i32::MIN, 0, 1 << 30]),
    };
    let options = lacus_media::EncodeOptions { sample_rate: 8000, ..Default::default() };
    for compression in ["auto", "wav", "none", "zstd"] {
        for to in [DType::F32, DType::F64, DType::I16, DType::I32, DType::U8] {
            let spec = ColumnSpec {
                dtype: Some(to),
                compression: Some(compression.into()),
                options: map(json!({"sample_rate": 8000})),
                ..spec("audio")
            };
            let column = Column::new(&spec).unwrap();
            for from in [DType::U8, DType::I16, DType::I32] {
                let sound = least_and_half(from);
                let wav = lacus_media::encode(sound.as_ref(), Format::Wav, &options).unwrap();
                let as_file = same(&column, Sample::Encoded(wav.into()));
                let as_array = same(&column, Sample::Tensor(sound.as_ref()));
                assert_eq!(as_array, as_file, "{from} in a column of {to}, {compression}");
                if to == DType::F32 {
                    assert_eq!(as_array, Value::Tensor(tensor(to, &[3, 1], &[-1f32, 0.0, 0.5])));
                }
            }
        }
    }
    let column = with_options("audio", json!({"sample_rate": 8000}));
    let error = encode(&column, Sample::Tensor(filled(DType::I64, &[3, 1], 0).as_ref())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "audio: expected float32, uint8, int16 or int32 samples, found int64 of shape (3, 1), which no sound file has"
    );
}

fn sound_of(frames: u64) -> Tensor {
    filled(DType::F32, &[frames, 1], 0)
}

#[test]
fn the_shape_of_a_video_is_known_without_decoding() {
    let stored = blob(encode(&column("video"), Sample::Encoded(file("test.mp4").into())).unwrap());
    let [_, _, _, 3] = stored.shape[..] else { panic!("{:?}", stored.shape) };
}

#[test]
fn dicom_is_kept_with_its_own_dtype() {
    let bytes = file("gray.dcm");
    let tensor = decoded(&bytes);
    let column = column("dicom");
    assert!(!column.is_open() && column.dtype().is_none() && column.files_keep_dtype());
    assert_eq!(same(&column, Sample::Encoded((&bytes[..]).into())), Value::Tensor(tensor));
}

#[test]
fn pictures_are_kept_with_their_own_dtype() {
    let column = column("image");
    for dtype in [DType::U8, DType::U16, DType::F32] {
        let picture = filled(dtype, &[4, 5, 3], 2);
        let format = if dtype == DType::F32 { Format::Tiff } else { Format::Png };
        let bytes = media(&picture, format);
        assert_eq!(same(&column, Sample::Encoded(bytes.clone().into())), Value::Tensor(picture.clone()));
        let stored = blob(encode(&column, Sample::Encoded(bytes.into())).unwrap());
        assert_eq!(sample_dtype(&column, &tile_refs(&stored)).unwrap(), dtype);
        let mut out = vec![0; picture.bytes().len()];
        decode_blob_into(&column, &stored.shape, &tile_refs(&stored), &mut out).unwrap();
        assert_eq!(out, picture.bytes());
        let indices = lacus_tensor::parse_indices("1:3, 4, 3:3").unwrap();
        let part = decode_blob(&column, &stored.shape, &indices, &tile_refs(&stored)).unwrap();
        assert!(
            matches!(part, Value::Tensor(part) if part.dtype() == dtype && part.shape().dims() == [2, 0])
        );
    }
}

#[test]
fn inks_of_older_rows_are_read_as_they_were() {
    // A page of 1 × 1 pixel of CMYK.
    let tags: [[u16; 4]; 9] = [
        [256, 3, 1, 1],
        [257, 3, 1, 1],
        [258, 3, 4, 122],
        [259, 3, 1, 1],
        [262, 3, 1, 5],
        [273, 4, 1, 130],
        [277, 3, 1, 4],
        [278, 3, 1, 1],
        [279, 4, 1, 4],
    ];
    let mut bytes = b"II*\0\x08\0\0\0\x09\0".to_vec();
    for [tag, kind, count, value] in tags {
        bytes.extend([tag, kind].iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend([count, value].iter().flat_map(|n| u32::from(*n).to_le_bytes()));
    }
    bytes.extend([0; 4]);
    assert_eq!(bytes.len(), 122);
    bytes.extend([8u16; 4].iter().flat_map(|bits| bits.to_le_bytes()));
    bytes.extend([0, 255, 0, 0]);
    let column = column("image");
    let rgb = tensor(DType::U8, &[1, 1, 3], &[255u8, 0, 255]);
    assert_eq!(same(&column, Sample::Encoded((&bytes[..]).into())), Value::Tensor(rgb));
    let older = [TileRef { coords: vec![], codec: "tiff", bytes: &bytes }];
    let inks = [0u8, 255, 0, 0];
    let found = decode_blob(&column, &[1, 1, 4], &[], &older).unwrap();
    assert_eq!(found, Value::Tensor(tensor(DType::U8, &[1, 1, 4], &inks)));
    let mut out = [7; 4];
    decode_blob_into(&column, &[1, 1, 4], &older, &mut out).unwrap();
    assert_eq!(out, inks);
}

#[test]
fn masks_are_made_from_files() {
    let mask = filled(DType::U8, &[6, 7], 0);
    let numbers: Vec<u32> = mask.bytes().iter().map(|byte| u32::from(*byte)).collect();
    let expected = Value::Tensor(tensor(DType::U32, &[6, 7], &numbers));
    assert_eq!(same(&column("segment_mask"), Sample::Encoded(png(&mask).into())), expected);
    let bits: Vec<u8> = mask.bytes().iter().map(|byte| byte & 1).collect();
    let black = tensor(DType::U8, &[6, 7], &bits);
    let expected = Value::Tensor(tensor(DType::Bool, &[6, 7], &bits));
    assert_eq!(same(&column("binary_mask"), Sample::Encoded(png(&black).into())), expected);
    assert_eq!(same(&column("binary_mask"), Sample::Tensor(black.as_ref())), expected);
    let picture = filled(DType::U8, &[6, 7, 3], 0);
    let generic = column("generic").settle(DType::U8);
    assert_eq!(same(&generic, Sample::Encoded(png(&picture).into())), Value::Tensor(picture));
}

#[test]
fn sequences_of_files_keep_each_as_it_is() {
    let (a, b) = (filled(DType::U8, &[4, 4, 3], 0), filled(DType::U8, &[5, 6, 3], 2));
    let jpeg = media(&b, Format::Jpeg);
    let sample = Sample::Sequence(vec![Sample::Encoded(png(&a).into()), Sample::Encoded((&jpeg[..]).into())]);
    let expected = Value::Sequence(vec![Value::Tensor(a), Value::Tensor(decoded(&jpeg))]);
    let column = column("sequence[image]");
    let stored = blob(encode(&column, sample.clone()).unwrap());
    assert_eq!((stored.tiles[0].codec, &stored.shape[..]), ("sequence", &[2][..]));
    assert!(stored.tiles[0].bytes.ends_with(&jpeg));
    assert_eq!(same(&column, sample), expected);
}
