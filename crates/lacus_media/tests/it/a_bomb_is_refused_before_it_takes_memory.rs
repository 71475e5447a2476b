//! Files of a few bytes that ask for gigabytes. Memory is counted: what is not asked for is not taken.

use lacus_media::{EncodeOptions, Format, Limits, decode, decode_into, decode_region, encode};
use lacus_tensor::{Buffer, DType, ErrorKind, Shape, Tensor};

use crate::memory::largest_allocation;
use crate::samples::{files, tensor};

fn refused(bytes: &[u8], pixels: &str) {
    let taken = largest_allocation(|| {
        let error = decode(bytes, &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.contains(pixels) && text.contains("268435456"), "{text}");
    });
    assert!(taken < 1 << 20, "{taken} bytes");
}

/// A small file with other sides written into its header.
fn with_sides(format: Format, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let small = tensor(format, DType::U8, 3, (2, 2), 1);
    let mut bytes = encode(small.as_ref(), format, &EncodeOptions::default()).unwrap();
    change(&mut bytes);
    bytes
}

#[test]
fn a_png_of_a_trillion_pixels() {
    let bytes = with_sides(Format::Png, |bytes| {
        bytes[16..24].copy_from_slice(&[0, 0x10, 0, 0, 0, 0x10, 0, 0]);
    });
    refused(&bytes, "1099511627776 pixels");
}

#[test]
fn a_jpeg_of_all_the_pixels_it_can_say() {
    let bytes = with_sides(Format::Jpeg, |bytes| {
        let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
        bytes[frame + 5..frame + 9].fill(0xff);
    });
    refused(&bytes, "4294836225 pixels");
}

#[test]
fn a_gif_of_all_the_pixels_it_can_say() {
    let bytes = with_sides(Format::Gif, |bytes| bytes[6..10].fill(0xff));
    refused(&bytes, "4294836225 pixels");
}

#[test]
fn a_bmp_of_a_quintillion_pixels() {
    let bytes =
        with_sides(Format::Bmp, |bytes| bytes[18..26].copy_from_slice(&[0, 0, 0, 0x40, 0, 0, 0, 0x40]));
    refused(&bytes, "1152921504606846976 pixels");
}

#[test]
fn a_flac_of_two_years() {
    let sound = tensor(Format::Flac, DType::I16, 2, (10, 10), 1);
    let mut bytes = encode(sound.as_ref(), Format::Flac, &EncodeOptions::default()).unwrap();
    bytes[21] |= 0x0f;
    bytes[22..26].fill(0xff);
    refused(&bytes, "137438953470 samples");
}

#[test]
fn a_real_bomb_inflates_no_further_than_the_limit() {
    // 64 megapixels of zeros in 64 KB or so.
    let zeros = Tensor::new(DType::U8, Shape::new([8192, 8192]).unwrap(), Buffer::zeroed(1 << 26)).unwrap();
    let bytes = encode(zeros.as_ref(), Format::Png, &EncodeOptions::default()).unwrap();
    assert!(bytes.len() < 1 << 20, "{}", bytes.len());
    let limits = Limits { pixels: 1 << 20, ..Limits::default() };
    let taken = largest_allocation(|| {
        assert!(decode(&bytes, &limits).unwrap_err().to_string().contains("67108864 pixels"));
        assert!(decode_into(&bytes, &limits, &mut []).is_err());
        // A few rows of it are within the limits, and are all that is held.
        let rows = decode_region(&bytes, &[100..104], &limits).unwrap();
        assert_eq!(rows.shape().dims(), [4, 8192]);
    });
    assert!(taken < 1 << 20, "{taken} bytes");
}

#[test]
fn both_limits_hold_for_every_format() {
    for (format, bytes) in files() {
        for limits in [Limits { pixels: 3, bytes: 1 << 20 }, Limits { pixels: 1 << 20, bytes: 3 }] {
            let error = decode(&bytes, &limits).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{format}");
            let text = error.to_string();
            assert!(text.contains("decodes to") && text.contains("limits are"), "{text}");
        }
    }
}
