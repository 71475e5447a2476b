//! Files are written by the dicom crates and read by ours.

use super::*;
use dicom_core::value::{DataSetSequence, PixelFragmentSequence};
use dicom_core::{DataElement, Length, PrimitiveValue, VR};
use dicom_object::{FileMetaTableBuilder, InMemDicomObject};
use lacus_tensor::{Shape, TensorRef};

const PIXEL_DATA: Tag = (0x7fe0, 0x0010);
const PLAIN: &str = "1.2.840.10008.1.2.1";
const PLAIN_IMPLICIT: &str = "1.2.840.10008.1.2";
const PLAIN_BIG_ENDIAN: &str = "1.2.840.10008.1.2.2";
const RLE: &str = "1.2.840.10008.1.2.5";
const JPEG: &str = "1.2.840.10008.1.2.4.50";

struct Picture<'a> {
    syntax: &'a str,
    frames: u32,
    samples: u16,
    bits: u16,
    is_signed: bool,
    is_planar: bool,
}

const GRAY: Picture<'static> =
    Picture { syntax: PLAIN, frames: 1, samples: 1, bits: 16, is_signed: false, is_planar: false };

fn element(
    (group, number): Tag,
    vr: VR,
    value: impl Into<dicom_core::value::Value<InMemDicomObject, Vec<u8>>>,
) -> DataElement<InMemDicomObject, Vec<u8>> {
    DataElement::new(dicom_core::Tag(group, number), vr, value)
}

/// A file of 2 rows and 3 columns, with a patient and a sequence in a sequence before the pixels.
fn file(picture: &Picture<'_>, pixels: impl FnOnce(&mut InMemDicomObject)) -> Vec<u8> {
    let short = |tag: Tag, value: u16| element(tag, VR::US, PrimitiveValue::from(value));
    let text = |tag: Tag, vr: VR, value: &str| element(tag, vr, PrimitiveValue::from(value));
    let mut object = InMemDicomObject::from_element_iter([
        text((0x0008, 0x0016), VR::UI, "1.2.840.10008.5.1.4.1.1.7"),
        text((0x0008, 0x0018), VR::UI, "1.2.3"),
        text(MODALITY, VR::CS, "CT"),
        text((0x0010, 0x0010), VR::PN, "Doe^Jane"),
        short(SAMPLES, picture.samples),
        text(PHOTOMETRIC, VR::CS, if picture.samples == 3 { "RGB" } else { "MONOCHROME2" }),
        short(PLANAR, picture.is_planar.into()),
        text(FRAMES, VR::IS, &picture.frames.to_string()),
        short(ROWS, 2),
        short(COLUMNS, 3),
        short(BITS_ALLOCATED, picture.bits),
        short(BITS_STORED, picture.bits),
        short(REPRESENTATION, picture.is_signed.into()),
        text((0x0028, 0x1052), VR::DS, "-1024"),
    ]);
    // Rows of another picture, which are not this one's.
    let inner = InMemDicomObject::from_element_iter([short(ROWS, 999)]);
    let inner = DataSetSequence::new(vec![inner], Length::UNDEFINED);
    let outer = InMemDicomObject::from_element_iter([element((0x0008, 0x1140), VR::SQ, inner)]);
    let outer = DataSetSequence::new(vec![outer.clone(), outer], Length::UNDEFINED);
    object.put(element((0x0008, 0x1115), VR::SQ, outer));
    pixels(&mut object);
    let meta = FileMetaTableBuilder::new().transfer_syntax(picture.syntax);
    let mut out = Vec::new();
    object.with_meta(meta).unwrap().write_all(&mut out).unwrap();
    out
}

fn shorts(values: &[u16]) -> impl FnOnce(&mut InMemDicomObject) {
    let value = PrimitiveValue::U16(values.into());
    move |object| _ = object.put(element(PIXEL_DATA, VR::OW, value))
}

fn bytes(values: &[u8]) -> impl FnOnce(&mut InMemDicomObject) {
    let value = PrimitiveValue::from(values.to_vec());
    move |object| _ = object.put(element(PIXEL_DATA, VR::OB, value))
}

fn fragments(fragments: Vec<Vec<u8>>) -> impl FnOnce(&mut InMemDicomObject) {
    let value = PixelFragmentSequence::new_fragments(fragments);
    move |object| _ = object.put(element(PIXEL_DATA, VR::OB, value))
}

fn decoded(bytes: &[u8]) -> Result<(DType, Vec<u64>, Vec<u8>), Cause> {
    let dicom = open(bytes)?;
    let layout = dicom.layout();
    let mut out = vec![0; layout.bytes() as usize];
    dicom.decode(bytes, 0..layout.rows(), &mut out)?;
    Ok((layout.dtype, layout.shape, out))
}

#[test]
fn plain_pixels_come_as_stored_in_either_byte_order() {
    let values = [1, 2, 3, 256, 512, 65535];
    let expected: Vec<u8> = values.iter().flat_map(|value: &u16| value.to_le_bytes()).collect();
    for syntax in [PLAIN, PLAIN_IMPLICIT, PLAIN_BIG_ENDIAN] {
        let bytes = file(&Picture { syntax, ..GRAY }, shorts(&values));
        assert_eq!(decoded(&bytes).unwrap(), (DType::U16, vec![2, 3], expected.clone()), "{syntax}");
    }
    let bytes = file(&Picture { is_signed: true, ..GRAY }, shorts(&values));
    assert_eq!(decoded(&bytes).unwrap().0, DType::I16);
}

#[test]
fn details_describe_the_picture_and_not_the_patient() {
    let dicom = open(&file(&GRAY, shorts(&[0; 6]))).unwrap();
    let mut details = Details::new();
    dicom.details(&mut details);
    let text = serde_json::to_string(&details).unwrap();
    assert!(!text.contains("Doe"), "{text}");
    assert_eq!(details["modality"], "CT");
    assert_eq!(details["photometric_interpretation"], "MONOCHROME2");
    assert_eq!(details["rescale_intercept"], -1024.0);
    assert_eq!((&details["rows"], &details["columns"]), (&2.into(), &3.into()));
    assert_eq!(details["bits_allocated"], 16);
}

#[test]
fn planes_are_interleaved() {
    let picture = Picture { samples: 3, bits: 8, is_planar: true, frames: 2, ..GRAY };
    let stored: Vec<u8> = (0..36).collect();
    let (dtype, shape, pixels) = decoded(&file(&picture, bytes(&stored))).unwrap();
    assert_eq!((dtype, shape), (DType::U8, vec![2, 2, 3, 3]));
    assert_eq!(pixels[..6], [0, 6, 12, 1, 7, 13]);
    assert_eq!(pixels[18..21], [18, 24, 30]);
    let plain = Picture { is_planar: false, ..picture };
    assert_eq!(decoded(&file(&plain, bytes(&stored))).unwrap().2, stored);
}

#[test]
fn masks_are_zeros_and_ones() {
    let picture = Picture { bits: 1, frames: 2, ..GRAY };
    let (dtype, shape, pixels) = decoded(&file(&picture, bytes(&[0b0110_0101, 0b0000_1000]))).unwrap();
    assert_eq!((dtype, shape), (DType::U8, vec![2, 2, 3]));
    assert_eq!(pixels, [1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1]);
}

#[test]
fn bytes_in_words_are_swapped_in_big_endian_files() {
    let picture = Picture { bits: 8, syntax: PLAIN_BIG_ENDIAN, ..GRAY };
    let words = file(&picture, shorts(&[0x0201, 0x0403, 0x0605]));
    assert_eq!(decoded(&words).unwrap().2, [1, 2, 3, 4, 5, 6]);
    assert_eq!(decoded(&file(&picture, bytes(&[1, 2, 3, 4, 5, 6]))).unwrap().2, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn colors_of_a_jpeg_are_what_the_tags_say() {
    // Components without a marker: taken for RGB if the tag says so, else for YCbCr.
    let shape = Shape::new([2, 3, 3]).unwrap();
    let pixels = [200, 30, 90].repeat(6);
    let jpeg = crate::jpeg::encode(&TensorRef::contiguous(DType::U8, &shape, &pixels).unwrap(), 100).unwrap();
    let picture = Picture { syntax: JPEG, bits: 8, samples: 3, ..GRAY };
    let (_, _, as_rgb) = decoded(&file(&picture, fragments(vec![jpeg.clone()]))).unwrap();
    let ycbcr = |object: &mut InMemDicomObject| {
        object.put(element(PHOTOMETRIC, VR::CS, PrimitiveValue::from("YBR_FULL")));
        fragments(vec![jpeg])(object);
    };
    let (_, _, as_ycbcr) = decoded(&file(&picture, ycbcr)).unwrap();
    assert!(as_ycbcr.iter().zip(&pixels).all(|(one, other)| one.abs_diff(*other) < 4), "{as_ycbcr:?}");
    assert!(as_rgb[0].abs_diff(88) < 4, "the luminance, as stored: {as_rgb:?}");
}

#[test]
fn runs_are_decoded() {
    // High bytes: six times 1. Low bytes: 1 2 3 as they are, then three times 9.
    let mut fragment = vec![0; 64];
    fragment[0] = 2;
    fragment[4] = 64;
    fragment[8] = 66;
    fragment.extend([0xfb, 1, 2, 1, 2, 3, 0xfe, 9]);
    let picture = Picture { syntax: RLE, ..GRAY };
    let (_, shape, pixels) = decoded(&file(&picture, fragments(vec![fragment.clone()]))).unwrap();
    assert_eq!((shape, pixels), (vec![2, 3], vec![1, 1, 2, 1, 3, 1, 9, 1, 9, 1, 9, 1]));
    // A header that asks for four billion segments, and one whose runs end too early.
    let mut greedy = fragment.clone();
    greedy[..4].fill(0xff);
    assert!(decoded(&file(&picture, fragments(vec![greedy]))).is_err());
    fragment.truncate(68);
    assert!(decoded(&file(&picture, fragments(vec![fragment]))).is_err());
}

#[test]
fn jpegs_are_decoded_frame_by_frame_and_none_may_be_missing() {
    let jpeg = |gray: u8, height: u64| {
        let shape = Shape::new([height, 3]).unwrap();
        let pixels = vec![gray; 3 * height as usize];
        let mut jpeg =
            crate::jpeg::encode(&TensorRef::contiguous(DType::U8, &shape, &pixels).unwrap(), 100).unwrap();
        jpeg.resize(jpeg.len().next_multiple_of(2), 0);
        jpeg
    };
    let picture = Picture { syntax: JPEG, bits: 8, frames: 2, ..GRAY };
    let (first, second) = (jpeg(40, 2), jpeg(200, 2));
    let split = second.len() / 4 * 2;
    let parts = vec![first.clone(), second[..split].to_vec(), second[split..].to_vec()];
    let (_, shape, pixels) = decoded(&file(&picture, fragments(parts))).unwrap();
    assert_eq!(shape, [2, 2, 3]);
    assert!(pixels[..6].iter().all(|pixel| pixel.abs_diff(40) < 3), "{pixels:?}");
    assert!(pixels[6..].iter().all(|pixel| pixel.abs_diff(200) < 3), "{pixels:?}");

    let error = decoded(&file(&picture, fragments(vec![first.clone()]))).unwrap_err();
    assert!(error.to_string().contains("a frame is missing"), "{error}");
    let error = decoded(&file(&picture, fragments(vec![first, jpeg(9, 5000)]))).unwrap_err();
    assert!(error.to_string().contains("3 × 5000"), "{error}");
}

#[test]
fn other_compressions_are_refused_by_their_number() {
    let picture = Picture { syntax: "1.2.840.10008.1.2.4.90", ..GRAY };
    let error = decoded(&file(&picture, fragments(vec![vec![0; 8]]))).unwrap_err();
    assert!(error.to_string().contains("1.2.840.10008.1.2.4.90"), "{error}");
}

#[test]
fn too_few_pixels_are_an_error() {
    let error = decoded(&file(&GRAY, shorts(&[0; 5]))).unwrap_err();
    assert!(error.to_string().contains("should take 12 bytes and take 10"), "{error}");
}

#[test]
fn what_is_inside_of_an_unknown_type_has_no_types() {
    let bytes = file(&GRAY, shorts(&[7; 6]));
    let place = bytes.windows(4).position(|tag| tag == [0x28, 0, 0x02, 0]).unwrap();
    // A private element of unknown type, with an item of one untyped element of 2 bytes.
    let unknown = [
        &b"\x09\0\x10\x10UN\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\xff\xff\xff\xff"[..],
        b"\x09\0\x11\x10\x02\0\0\0ab",
        b"\xfe\xff\x0d\xe0\0\0\0\0\xfe\xff\xdd\xe0\0\0\0\0",
    ];
    let with_unknown = [&bytes[..place], &unknown.concat(), &bytes[place..]].concat();
    assert_eq!(decoded(&with_unknown).unwrap(), decoded(&bytes).unwrap());
}

#[test]
fn lengths_are_compared_with_the_file() {
    let bytes = file(&GRAY, shorts(&[0; 6]));
    // Every length, of whatever width, made as large as it goes.
    for at in 132..bytes.len() - 4 {
        let mut greedy = bytes.clone();
        greedy[at..at + 4].fill(0xfe);
        let _ = decoded(&greedy);
    }
    let mut nested = bytes[..bytes.len() - 24].to_vec();
    for _ in 0..1000 {
        nested.extend(b"\x08\0\x15\x11SQ\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\xff\xff\xff\xff");
    }
    let error = decoded(&nested).unwrap_err();
    assert!(error.to_string().contains("without end"), "{error}");
}
