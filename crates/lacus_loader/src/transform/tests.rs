//! Fused work equals work step by step; what comes out has the shape and dtype that were said before; the same key, the same bits.

use lacus_media::{EncodeOptions, Format, encode};
use lacus_tensor::{Buffer, DType, Shape, Tensor};

use super::*;
use crate::sample_transform::SampleKey;

const KEY: SampleKey = SampleKey { seed: 5, epoch: 1, row: 77 };

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn picture(height: u64, width: u64, channels: u64) -> Tensor {
    let shape = Shape::new([height, width, channels]).unwrap();
    let bytes = noise((height * width * channels) as usize, height * 31 + width);
    Tensor::new(DType::U8, shape, Buffer::from_slice(&bytes)).unwrap()
}

fn pipeline(steps: &str) -> Pipeline {
    Pipeline::from_json(&format!("{{\"steps\": [{steps}]}}")).unwrap()
}

const LISTS: [&str; 9] = [
    r#"{"step": "Resize", "size": [40]}, {"step": "CenterCrop", "size": [32, 24]}, {"step": "RandomHorizontalFlip", "p": 0.5},
       {"step": "RandomVerticalFlip", "p": 0.5}"#,
    r#"{"step": "RandomResizedCrop", "size": [24, 24], "scale": [0.08, 1.0], "ratio": [0.75, 1.333]},
       {"step": "RandomHorizontalFlip", "p": 0.5}, {"step": "RandomCrop", "size": [20, 12]}"#,
    r#"{"step": "RandomHorizontalFlip", "p": 0.5}, {"step": "RandomCrop", "size": [30, 30], "padding": [4, 3, 2, 1]},
       {"step": "RandomVerticalFlip", "p": 0.5}, {"step": "RandomCrop", "size": [11, 29]}"#,
    r#"{"step": "RandomVerticalFlip", "p": 1.0}, {"step": "Resize", "size": [50, 20], "interpolation": "lanczos"},
       {"step": "Resize", "size": [20, 50], "interpolation": "bicubic"}"#,
    r#"{"step": "Pad", "padding": [3, 2, 1, 0], "fill": [9], "padding_mode": "constant"}, {"step": "CenterCrop", "size": [64, 8]}"#,
    r#"{"step": "ColorJitter", "brightness": [0.5, 1.5], "contrast": [0.5, 1.5], "saturation": [0.5, 1.5], "hue": [-0.1, 0.1]},
       {"step": "RandomResizedCrop", "size": [16, 16], "scale": [0.3, 1.0], "ratio": [0.75, 1.333], "interpolation": "box"}"#,
    r#"{"step": "Grayscale", "num_output_channels": 3}, {"step": "Pad", "padding": [5, 5, 5, 5], "padding_mode": "reflect"}"#,
    r#"{"step": "Pad", "padding": [5, 5, 5, 5], "padding_mode": "symmetric"}, {"step": "Grayscale", "num_output_channels": 1}"#,
    r#"{"step": "Resize", "size": [17, 19], "interpolation": "nearest"}, {"step": "Pad", "padding": [1, 1, 1, 1], "padding_mode": "edge"}"#,
];

#[test]
fn fused_equals_step_by_step() {
    for list in LISTS {
        let whole = pipeline(list);
        for (height, width) in [(48, 37), (33, 61)] {
            for row in 0..6 {
                let key = SampleKey { row, ..KEY };
                let old = picture(height, width, 3);
                let fused = whole.apply_to_tensor(&old.as_ref(), key).unwrap();
                // One step after the other, each with the random numbers of its place.
                let (mut current, count) = (old, whole.steps().len());
                for place in 0..count {
                    let mut steps: Vec<Step> =
                        (0..place).map(|_| Step::RandomHorizontalFlip { p: 0.0 }).collect();
                    steps.push(whole.steps()[place].clone());
                    let alone = Pipeline::new(steps, false).unwrap();
                    current = alone.apply_to_tensor(&current.as_ref(), key).unwrap();
                }
                assert_eq!(fused, current, "{list} row {row}");
            }
        }
    }
}

#[test]
fn shapes_are_known_before_a_sample_is_seen() {
    for list in LISTS {
        for finish in ["", r#", {"step": "ToImage"}, {"step": "ToDtype", "dtype": "float16", "scale": true}"#]
        {
            let steps = pipeline(&format!("{list}{finish}"));
            let old = picture(48, 37, 3);
            let new = steps.apply_to_tensor(&old.as_ref(), KEY).unwrap();
            let known = steps.fixed_shape(&[Some(48), Some(37), Some(3)]);
            assert_eq!(known.as_deref(), Some(new.shape().dims()), "{list}");
            assert_eq!(steps.dtype(), new.dtype());
            if let Some(shape) = steps.fixed_shape(&[None, None, Some(3)]) {
                assert_eq!(shape, new.shape().dims());
            }
        }
    }
}

#[test]
fn the_key_alone_decides() {
    let steps = pipeline(LISTS[1]);
    let old = picture(48, 37, 3);
    let of = |key| steps.apply_to_tensor(&old.as_ref(), key).unwrap();
    let expected = of(KEY);
    // Whatever other rows a thread worked on before, and in which order.
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (of, expected) = (&of, &expected);
            scope.spawn(move || {
                for step in 0..8 {
                    let row = 70 + (step * 3 + first) % 8;
                    let made = of(SampleKey { row, ..KEY });
                    assert_eq!(made == *expected, row == KEY.row);
                }
            });
        }
    });
    for key in [SampleKey { seed: 6, ..KEY }, SampleKey { epoch: 2, ..KEY }, SampleKey { row: 78, ..KEY }] {
        assert_ne!(of(key), expected, "{key:?}");
    }
}

#[test]
fn a_picture_of_one_color_keeps_it() {
    for filter in ["nearest", "box", "bilinear", "bicubic", "lanczos"] {
        for (height, width) in [(1, 1), (7, 90), (100, 3)] {
            for channels in 1..=4 {
                let shape = Shape::new([31, 45, channels]).unwrap();
                let bytes: Vec<u8> =
                    (0..31 * 45 * channels).map(|at| 251 - (at % channels) as u8 * 80).collect();
                let old = Tensor::new(DType::U8, shape, Buffer::from_slice(&bytes)).unwrap();
                let steps = pipeline(&format!(
                    r#"{{"step": "Resize", "size": [{height}, {width}], "interpolation": "{filter}"}}"#
                ));
                let new = steps.apply_to_tensor(&old.as_ref(), KEY).unwrap();
                for (at, &byte) in new.bytes().iter().enumerate() {
                    assert_eq!(
                        byte,
                        251 - (at as u64 % channels) as u8 * 80,
                        "{filter} {height} {width} {channels}"
                    );
                }
            }
        }
    }
}

/// Rows of a smooth picture, which a JPEG keeps well.
fn smooth(height: u64, width: u64) -> Tensor {
    let shape = Shape::new([height, width, 3]).unwrap();
    let bytes: Vec<u8> = (0..height * width * 3)
        .map(|at| {
            let (y, x, channel) = (at / 3 / width, at / 3 % width, at % 3);
            (127.0 + 100.0 * ((y as f64 / 40.0 + channel as f64).sin() * (x as f64 / 55.0).cos())) as u8
        })
        .collect();
    Tensor::new(DType::U8, shape, Buffer::from_slice(&bytes)).unwrap()
}

#[test]
fn a_file_gives_what_its_pixels_give() {
    let old = smooth(240, 322);
    for format in [Format::Png, Format::Jpeg] {
        let file = encode(old.as_ref(), format, &EncodeOptions::default()).unwrap();
        let pixels = lacus_media::decode(&file, &lacus_media::Limits::default()).unwrap();
        for list in LISTS {
            for row in 0..4 {
                let key = SampleKey { row, ..KEY };
                let text = format!("{{\"steps\": [{list}], \"exact\": true}}");
                let exact = Pipeline::from_json(&text).unwrap();
                let expected = exact.apply_to_tensor(&pixels.as_ref(), key).unwrap();
                assert_eq!(exact.apply_to_file(&file, key).unwrap(), expected, "{format} {list}");
                // Reduced while it is decoded: the same picture, not the same bits.
                let quick = pipeline(list).apply_to_file(&file, key).unwrap();
                assert_eq!(quick.shape(), expected.shape());
                let far =
                    quick.bytes().iter().zip(expected.bytes()).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
                assert!(far <= 24, "{format} {list}: {far}");
            }
        }
    }
}

#[test]
fn floats_are_torchs() {
    let steps = pipeline(
        r#"{"step": "ToImage"}, {"step": "ToDtype", "dtype": "float32", "scale": true},
           {"step": "Normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}"#,
    );
    let old = picture(5, 7, 3);
    let new = steps.apply_to_tensor(&old.as_ref(), KEY).unwrap();
    assert_eq!(new.shape().dims(), [3, 5, 7]);
    let (mean, std) = ([0.485f32, 0.456, 0.406], [0.229f32, 0.224, 0.225]);
    for (at, number) in new.bytes().as_chunks::<4>().0.iter().enumerate() {
        let (channel, pixel) = (at / 35, at % 35);
        let expected =
            (f32::from(old.bytes()[pixel * 3 + channel]) * (1.0 / 255.0) - mean[channel]) / std[channel];
        assert_eq!(f32::from_le_bytes(*number), expected);
    }
}

#[test]
fn impossible_lists_name_the_step() {
    let check = |steps: &str, expected: &str| {
        let error = Pipeline::from_json(&format!("{{\"steps\": [{steps}]}}")).unwrap_err();
        assert_eq!(error.kind(), lacus_tensor::ErrorKind::Invalid);
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(
        r#"{"step": "ToImage"}, {"step": "Resize", "size": [0, 5]}"#,
        "step 2 (Resize): sides go from 1 to 65535",
    );
    check(r#"{"step": "Resize", "size": [1, 2, 3]}"#, "found 3 numbers");
    check(r#"{"step": "Normalize", "mean": [0.5], "std": [0.5]}"#, "step 1 (Normalize): takes floats");
    check(
        r#"{"step": "Grayscale", "num_output_channels": 1}, {"step": "ToDtype", "dtype": "float32", "scale": true},
           {"step": "Normalize", "mean": [0, 0, 0], "std": [1, 1, 1]}"#,
        "step 3 (Normalize): mean has 3 numbers, what comes in 1 channels",
    );
    check(
        r#"{"step": "ToDtype", "dtype": "float32", "scale": true}, {"step": "Resize", "size": [5]}"#,
        "step 2 (Resize): works on bytes",
    );
    check(r#"{"step": "ToMono"}, {"step": "Resize", "size": [5]}"#, "step 2 (Resize): is for pictures");
    check(r#"{"step": "RandomHorizontalFlip", "p": 1.5}"#, "probability");
    check(r#"{"step": "Rotate"}"#, "unknown variant `Rotate`");
    check(r#"{"step": "CenterCrop", "size": [5, 5], "colour": 1}"#, "unknown field `colour`");
    check(r#"{"step": "ColorJitter", "hue": [-0.7, 0.7]}"#, "hue goes from low to high within -0.5 and 0.5");
}

#[test]
fn samples_that_do_not_go_with_the_steps_are_named() {
    let steps = pipeline(
        r#"{"step": "ToDtype", "dtype": "float32", "scale": true}, {"step": "Normalize", "mean": [0, 0, 0], "std": [1, 1, 1]}"#,
    );
    let error = steps.apply_to_tensor(&picture(4, 4, 1).as_ref(), KEY).unwrap_err().to_string();
    assert_eq!(
        error,
        "Normalize: mean has 3 numbers, the picture 1 channels; put RGB() or Grayscale() before it"
    );
    let words = Tensor::new(DType::F32, Shape::new([4]).unwrap(), Buffer::zeroed(16)).unwrap();
    assert!(steps.apply_to_tensor(&words.as_ref(), KEY).is_err());
    assert!(steps.apply_to_file(b"no picture", KEY).is_err());
    let work = pipeline(r#"{"step": "RGB"}"#);
    assert!(work.apply_to_tensor(&picture(0, 4, 3).as_ref(), KEY).is_err());
}

#[test]
fn sound_is_cut_mixed_and_resampled() {
    let shape = Shape::new([800, 2]).unwrap();
    let frames: Vec<u8> =
        (0..1600i32).flat_map(|at| ((at * 37 % 2000 - 1000) as i16).to_le_bytes()).collect();
    let sound = Tensor::new(DType::I16, shape, Buffer::from_slice(&frames)).unwrap();
    let options = EncodeOptions { sample_rate: 8000, ..EncodeOptions::default() };
    let file = encode(sound.as_ref(), Format::Wav, &options).unwrap();
    let steps = pipeline(
        r#"{"step": "RandomAudioCrop", "length": 400}, {"step": "ToMono"},
           {"step": "Resample", "new_freq": 16000, "lowpass_filter_width": 6, "rolloff": 0.99}, {"step": "ToImage"},
           {"step": "Crop", "length": 1000}"#,
    );
    let new = steps.apply_to_file(&file, KEY).unwrap();
    assert_eq!((new.dtype(), new.shape().dims()), (DType::F32, &[1, 1000][..]));
    assert_eq!(steps.fixed_shape(&[None, None]), Some(vec![1, 1000]));
    assert!(new.bytes()[800 * 4..].iter().all(|&byte| byte == 0));
    assert_eq!(new, steps.apply_to_file(&file, KEY).unwrap());
    let error = steps.apply_to_tensor(&sound.as_ref(), KEY).unwrap_err().to_string();
    assert!(error.starts_with("Resample: the rate of the sound is not known"), "{error}");
    let plain = pipeline(r#"{"step": "RandomAudioCrop", "length": 400}"#);
    assert_eq!(
        plain.apply_to_tensor(&sound.as_ref(), KEY).unwrap(),
        plain.apply_to_file(&file, KEY).unwrap()
    );
}
