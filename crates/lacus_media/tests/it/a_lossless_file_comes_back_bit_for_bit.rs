use lacus_media::{EncodeOptions, Family, Format, Limits, decode, decode_into, encode, probe, sniff};
use lacus_tensor::{Buffer, DType, Shape, Tensor, TensorRef};
use proptest::prelude::*;

use crate::samples::{files, lossless, tensor, videos};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn decode_undoes_encode(height in 1u64..40, width in 1u64..40, seed: u64) {
        for (format, dtype, channels) in lossless() {
            let original = tensor(format, dtype, channels, (height, width), seed);
            let options = EncodeOptions { sample_rate: 48000, ..EncodeOptions::default() };
            let bytes = encode(original.as_ref(), format, &options).unwrap();
            prop_assert_eq!(sniff(&bytes), Some(format));
            let facts = probe(&bytes).unwrap();
            prop_assert_eq!((facts.dtype, facts.shape.as_slice()), (dtype, original.shape().dims()));
            if format.family() == Family::Audio {
                prop_assert_eq!(facts.details["sample_rate"].as_u64(), Some(48000));
            }
            let decoded = decode(&bytes, &Limits::default()).unwrap();
            prop_assert!(decoded == original, "{format} {dtype} {:?}", original.shape());
        }
    }

    #[test]
    fn strides_do_not_matter(height in 1u64..20, width in 1u64..20, seed: u64) {
        for (format, dtype, channels) in lossless().into_iter().filter(|(_, _, channels)| *channels == 3) {
            let original = tensor(format, dtype, channels, (height, width), seed);
            let turned = original.as_ref().transpose(&[1, 0, 2]);
            let bytes = encode(turned.clone(), format, &EncodeOptions::default()).unwrap();
            prop_assert_eq!(decode(&bytes, &Limits::default()).unwrap(), turned.to_tensor());
        }
    }

    #[test]
    fn a_jpeg_comes_back_nearly(height in 1u64..40, width in 1u64..40, is_gray: bool) {
        let channels = if is_gray { 1 } else { 3 };
        let dims = if is_gray { vec![height, width] } else { vec![height, width, 3] };
        let pixel = |at: u64| (((at / channels) % width * 4 + at / (channels * width) * 2) % 256) as u8;
        let pixels: Vec<u8> = (0..height * width * channels).map(pixel).collect();
        let shape = Shape::new(dims).unwrap();
        let original = TensorRef::contiguous(DType::U8, &shape, &pixels).unwrap();
        let bytes = encode(original, Format::Jpeg, &EncodeOptions::default()).unwrap();
        let decoded = decode(&bytes, &Limits::default()).unwrap();
        prop_assert_eq!(decoded.shape(), &shape);
        let worst = decoded.bytes().iter().zip(&pixels).map(|(one, other)| one.abs_diff(*other)).max();
        prop_assert!(worst.unwrap() < 16, "{worst:?}");
    }
}

#[test]
fn facts_are_what_decoding_gives() {
    for (format, bytes) in files() {
        let facts = probe(&bytes).unwrap();
        let decoded = decode(&bytes, &Limits::default()).unwrap();
        assert_eq!(facts.format, format);
        assert_eq!(
            (facts.dtype, facts.shape.as_slice()),
            (decoded.dtype(), decoded.shape().dims()),
            "{format}"
        );

        let mut out = vec![0xaa; decoded.bytes().len()];
        decode_into(&bytes, &Limits::default(), &mut out).unwrap();
        assert_eq!(out, decoded.bytes(), "{format}");
        out.push(0);
        let error = decode_into(&bytes, &Limits::default(), &mut out).unwrap_err();
        assert_eq!(error.kind(), lacus_tensor::ErrorKind::Invalid);
    }
}

#[test]
fn details_are_told_by_family() {
    let expected = |family: Family| match family {
        Family::Image => &["bit_depth"][..],
        Family::Audio => &["sample_rate", "channels", "duration_secs"],
        Family::Video => &["duration_secs", "fps", "codec", "key_frames"],
        Family::Dicom => &["rows", "columns", "photometric_interpretation", "bits_allocated"],
    };
    let videos = videos().map(|(format, bytes)| (format, bytes.to_vec()));
    for (format, bytes) in files().into_iter().chain(videos) {
        let details = probe(&bytes).unwrap().details;
        for name in expected(format.family()) {
            assert!(details.contains_key(*name), "{format}: no {name} in {details:?}");
        }
    }
}

/// Pillow and soundfile read these files as well; the numbers are theirs.
#[test]
fn others_read_the_same() {
    let check = |bytes: &[u8], dtype: DType, shape: &[u64], sum: f64, tolerance: f64| {
        let decoded = decode(bytes, &Limits::default()).unwrap();
        assert_eq!((decoded.dtype(), decoded.shape().dims()), (dtype, shape));
        let found = sum_of(&decoded);
        assert!((found - sum).abs() <= tolerance, "{found} and not {sum}");
    };
    check(include_bytes!("../data/progressive.jpg"), DType::U8, &[11, 17, 3], 65820.0, 392.7);
    check(include_bytes!("../data/cmyk.jpg"), DType::U8, &[11, 17, 3], 65852.0, 841.5);
    check(include_bytes!("../data/lossy.webp"), DType::U8, &[11, 17, 3], 65913.0, 392.7);
    check(include_bytes!("../data/animated.webp"), DType::U8, &[11, 17, 4], 76011.0, 0.0);
    check(include_bytes!("../data/animated.gif"), DType::U8, &[11, 17, 3], 48768.0, 0.0);
    check(include_bytes!("../data/deflate.tif"), DType::U8, &[11, 17, 3], 65824.0, 0.0);
    check(include_bytes!("../data/interlaced.png"), DType::U8, &[11, 17, 3], 65824.0, 0.0);
    check(include_bytes!("../data/gray.dcm"), DType::U16, &[11, 17], 329120.0, 0.0);
    check(include_bytes!("../data/tone.flac"), DType::I16, &[2205, 2], 34495212.0, 0.0);
    check(include_bytes!("../data/tone.mp3"), DType::F32, &[5513, 1], 416.6127, 0.8332);
    check(include_bytes!("../data/tone.ogg"), DType::F32, &[5513, 1], 438.7141, 0.8774);
}

fn sum_of(tensor: &Tensor) -> f64 {
    let buffer: &Buffer = tensor.buffer();
    match tensor.dtype() {
        DType::U8 => buffer.iter().map(|&value| f64::from(value)).sum(),
        DType::U16 => buffer.cast::<u16>().iter().map(|&value| f64::from(value)).sum(),
        DType::I16 => buffer.cast::<i16>().iter().map(|&value| f64::from(value).abs()).sum(),
        DType::F32 => buffer.cast::<f32>().iter().map(|&value| f64::from(value).abs()).sum(),
        other => panic!("no sum of {other}"),
    }
}

#[test]
fn shorthands_for_one_channel_are_taken() {
    let one =
        |dims: &[u64]| Tensor::new(DType::U8, Shape::new(dims).unwrap(), Buffer::from_slice(&[1, 2, 3, 4]));
    let encoded = |dims: &[u64], format: Format| {
        encode(one(dims).unwrap().as_ref(), format, &EncodeOptions::default()).unwrap()
    };
    assert_eq!(probe(&encoded(&[2, 2, 1], Format::Png)).unwrap().shape, [2, 2]);
    assert_eq!(probe(&encoded(&[4], Format::Wav)).unwrap().shape, [4, 1]);
}
