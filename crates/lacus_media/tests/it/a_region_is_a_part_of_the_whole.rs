use lacus_media::{EncodeOptions, Format, Limits, decode, decode_region, encode};
use lacus_tensor::{DType, ErrorKind, TensorRef};
use proptest::prelude::*;

use crate::samples::{files, lossless, tensor};

/// Two cuts of each axis, as fractions of its size, made into ranges.
fn region_of(whole: &TensorRef<'_>, cuts: &[(f64, f64)]) -> Vec<std::ops::Range<u64>> {
    let place = |cut: f64, size: u64| ((cut * (size + 1) as f64) as u64).min(size);
    let ranges = cuts.iter().zip(whole.shape().dims()).map(|(&(one, other), &size)| {
        let (one, other) = (place(one, size), place(other, size));
        one.min(other)..one.max(other)
    });
    ranges.collect()
}

fn check(format: Format, bytes: &[u8], cuts: &[(f64, f64)]) {
    let whole = decode(bytes, &Limits::default()).unwrap();
    let whole = whole.as_ref();
    let region = region_of(&whole, cuts);
    let (mut origin, mut extent) = (vec![0; whole.shape().rank()], whole.shape().dims().to_vec());
    for (axis, range) in region.iter().enumerate() {
        (origin[axis], extent[axis]) = (range.start, range.end - range.start);
    }
    let found = decode_region(bytes, &region, &Limits::default()).unwrap();
    assert_eq!(found.shape().dims(), extent, "{format} {region:?}");
    assert!(found == whole.region(&origin, &extent).to_tensor(), "{format} {region:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn of_files_we_write(
        sides in (1u64..40, 1u64..40),
        seed: u64,
        cuts in proptest::collection::vec((0.0..1.0f64, 0.0..1.0f64), 0..=3),
    ) {
        for (format, dtype, channels) in lossless() {
            let original = tensor(format, dtype, channels, sides, seed);
            let bytes = encode(original.as_ref(), format, &EncodeOptions::default()).unwrap();
            check(format, &bytes, &cuts);
        }
    }

    #[test]
    fn of_files_of_all_formats(cuts in proptest::collection::vec((0.0..1.0f64, 0.0..1.0f64), 0..=3)) {
        for (format, bytes) in files() {
            check(format, &bytes, &cuts);
        }
    }
}

#[test]
fn ranges_out_of_their_axis_are_refused() {
    let picture = tensor(Format::Png, DType::U8, 3, (5, 6), 1);
    let bytes = encode(picture.as_ref(), Format::Png, &EncodeOptions::default()).unwrap();
    let check = |region: &[std::ops::Range<u64>], expected: &str| {
        let error = decode_region(&bytes, region, &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(&[0..6], "0..6 reaches out of axis 0 of size 5");
    check(&[0..5, 7..7], "7..7 reaches out of axis 1 of size 6");
    #[expect(clippy::reversed_empty_ranges, reason = "such a range is what is refused")]
    check(&[3..2], "3..2 reaches out of axis 0");
    check(&[0..1, 0..1, 0..1, 0..1], "4 ranges in a tensor of 3 axes");
}
