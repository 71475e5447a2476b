//! A part of a JPEG equals the same part of the whole, at every size; a reduced JPEG looks like the picture; damage never panics.

use lacus_media::{
    EncodeOptions, Format, Limits, MediaError, Part, PictureFacts, decode, decode_part, encode,
};
use lacus_tensor::{Buffer, DType, Shape, Tensor};

use crate::samples::{files, noise};

/// Waves of several lengths, with a bit of noise: all coefficients have something to say.
fn picture(height: u64, width: u64, channels: u64) -> Tensor {
    let grain = noise((height * width * channels) as usize, 5);
    let bytes: Vec<u8> = (0..height * width * channels)
        .map(|at| {
            let (y, x, channel) = (at / channels / width, at / channels % width, at % channels);
            let wave = (y as f64 / 9.0 + channel as f64).sin() + (x as f64 / 7.0).cos();
            (127.0 + 50.0 * wave) as u8 ^ (grain[at as usize] & 7)
        })
        .collect();
    let shape = if channels == 1 { vec![height, width] } else { vec![height, width, channels] };
    Tensor::new(DType::U8, Shape::new(shape).unwrap(), Buffer::from_slice(&bytes)).unwrap()
}

fn jpeg(height: u64, width: u64, channels: u64, quality: u8) -> Vec<u8> {
    let options = EncodeOptions { quality, ..EncodeOptions::default() };
    encode(picture(height, width, channels).as_ref(), Format::Jpeg, &options).unwrap()
}

fn part_of(bytes: &[u8], part: &Part) -> Result<(PictureFacts, Part, Vec<u8>), MediaError> {
    let mut memory = Vec::new();
    let (facts, found) =
        decode_part(bytes, &Limits::default(), &mut memory, |_| Ok::<_, MediaError>(part.clone()))?;
    Ok((facts, found, memory))
}

#[test]
fn a_part_equals_the_part_of_the_whole() {
    // Quality 80 keeps color at half the resolution, 95 at all of it.
    for (height, width, channels, quality) in
        [(61, 83, 3, 80), (64, 64, 3, 95), (17, 100, 1, 80), (5, 3, 3, 80), (1, 1, 3, 80), (33, 2, 3, 80)]
    {
        let bytes = jpeg(height, width, channels, quality);
        for reduction in [1u8, 2, 4, 8] {
            let side = |full: u64| (full as usize).div_ceil(reduction.into());
            let (high, wide) = (side(height), side(width));
            let all = Part { reduction, rows: 0..high, columns: 0..wide };
            let (_, found, whole) = part_of(&bytes, &all).unwrap();
            assert_eq!(found, all);
            if reduction == 1 {
                assert_eq!(decode(&bytes, &Limits::default()).unwrap().bytes(), whole);
            }
            for seed in 0..40u64 {
                let pick = noise(8, seed * 977 + u64::from(reduction));
                let range = |a: u8, b: u8, side: usize| {
                    let start = usize::from(a) * side / 256;
                    start..start + 1 + usize::from(b) * (side - start - 1) / 255
                };
                let part = Part {
                    reduction,
                    rows: range(pick[1], pick[3], high),
                    columns: range(pick[5], pick[7], wide),
                };
                let (_, found, bytes) = part_of(&bytes, &part).unwrap();
                assert_eq!(found, part);
                let length = channels as usize;
                let mut expected: Vec<u8> = Vec::new();
                for row in part.rows.clone() {
                    expected.extend(
                        &whole[(row * wide + part.columns.start) * length
                            ..(row * wide + part.columns.end) * length],
                    );
                }
                assert!(bytes == expected, "{height} × {width} × {channels} at quality {quality}: {part:?}");
            }
        }
    }
}

#[test]
fn a_reduced_picture_looks_like_the_picture() {
    for quality in [80, 95] {
        let bytes = jpeg(64, 96, 3, quality);
        let whole = decode(&bytes, &Limits::default()).unwrap();
        for reduction in [2usize, 4, 8] {
            let part =
                Part { reduction: reduction as u8, rows: 0..64 / reduction, columns: 0..96 / reduction };
            let (_, _, reduced) = part_of(&bytes, &part).unwrap();
            for (at, &number) in reduced.iter().enumerate() {
                let (y, x, channel) = (at / 3 / part.columns.len(), at / 3 % part.columns.len(), at % 3);
                let (mut sum, count) = (0u64, (reduction * reduction) as u64);
                for row in y * reduction..(y + 1) * reduction {
                    for column in x * reduction..(x + 1) * reduction {
                        sum += u64::from(whole.bytes()[(row * 96 + column) * 3 + channel]);
                    }
                }
                // Not the mean, but close to it.
                let mean = (sum / count) as u8;
                assert!(number.abs_diff(mean) < 30, "1/{reduction} at {y}, {x}: {number} and {mean}");
            }
        }
    }
}

#[test]
fn other_files_come_whole() {
    for (format, bytes) in files() {
        let wanted = Part { reduction: 2, rows: 0..2, columns: 1..2 };
        match part_of(&bytes, &wanted) {
            Ok((facts, part, memory)) if part.reduction == 1 => {
                assert_eq!((part.rows.len(), part.columns.len()), (facts.height, facts.width));
                assert_eq!(decode(&bytes, &Limits::default()).unwrap().bytes(), memory, "{format}");
            }
            Ok((_, part, _)) => assert_eq!((format, part), (Format::Jpeg, wanted)),
            Err(error) => assert!(
                error.to_string().contains("not a picture") || error.to_string().contains("not one"),
                "{error}"
            ),
        }
    }
}

#[test]
fn parts_outside_are_refused() {
    let bytes = jpeg(20, 30, 3, 80);
    for part in [
        Part { reduction: 3, rows: 0..1, columns: 0..1 },
        Part { reduction: 2, rows: 0..11, columns: 0..15 },
        Part { reduction: 1, rows: 0..20, columns: 30..31 },
        Part { reduction: 1, rows: 4..4, columns: 0..1 },
    ] {
        let error = part_of(&bytes, &part).unwrap_err();
        assert_eq!(error.kind(), lacus_tensor::ErrorKind::Invalid, "{error}");
    }
}

#[test]
fn damage_does_no_harm_in_parts() {
    let whole = jpeg(40, 56, 3, 80);
    let part = Part { reduction: 2, rows: 3..18, columns: 5..20 };
    for at in 0..whole.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut flipped = whole.clone();
            flipped[at] ^= change;
            let mut memory = Vec::new();
            let limits = Limits { pixels: 1 << 17, bytes: 1 << 19 };
            // An error, or pixels.
            let _ = decode_part(&flipped, &limits, &mut memory, |_| Ok::<_, MediaError>(part.clone()));
        }
        let _ = part_of(&whole[..at], &part);
    }
}
