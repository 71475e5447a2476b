//! Whatever a row holds, decoding ends in a value or in an error, and a few bytes take little memory.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use lacus_sample::{
    Column, Sample, Scalars, Stored, TileRef, Value, decode_blob, decode_blob_into, decode_scalar,
    decode_scalars, decode_text, encode, tiles_wanted,
};
use lacus_tensor::{DType, ErrorKind, parse_indices};
use proptest::prelude::*;

use crate::support::{blob, column, compressed, config, file, filled, generic, png, tile_refs};

/// Remembers the largest allocation of each thread.
struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    // A thread that ends has no place to note it in.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: hands everything to the system's allocator and only looks at sizes.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        note(memory.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(memory) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, memory) }
    }
    unsafe fn alloc_zeroed(&self, memory: Memory) -> *mut u8 {
        note(memory.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(memory) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, memory: Memory, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, memory, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

const MOST: usize = 64 << 20;

fn blob_columns() -> Vec<Column> {
    let names = [
        "image",
        "image.gray",
        "video",
        "audio",
        "bbox",
        "binary_mask",
        "polygon",
        "embedding",
        "sequence[image]",
        "sequence[polygon]",
        "sequence[class_label]",
        "sequence[generic]",
        "generic",
        "dicom",
    ];
    let mut columns: Vec<Column> = names.into_iter().map(|name| column(name).settle(DType::I16)).collect();
    columns.push(compressed("image", "zstd"));
    columns.push(generic(DType::F64, None, "auto"));
    columns
}

const CODECS: [&str; 14] = [
    "raw",
    "zstd",
    "shuffle2+zstd",
    "shuffle4+zstd",
    "shuffle8+zstd",
    "packed",
    "png",
    "jpeg",
    "wav",
    "dicom",
    "sequence",
    "polygon",
    "",
    "xyz",
];

fn shapes() -> impl Strategy<Value = Vec<u64>> {
    let dim = prop_oneof![4 => 0u64..6, 1 => any::<u64>(), 1 => (0u32..63).prop_map(|bits| 1 << bits)];
    proptest::collection::vec(dim, 0..5)
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn any_bytes(shape in shapes(), choice in 0usize..16, codec in 0usize..14, bytes in proptest::collection::vec(any::<u8>(), 0..60), coords in proptest::collection::vec(0u64..3, 0..3)) {
        let columns = blob_columns();
        let column = &columns[choice % columns.len()];
        let tiles = [TileRef { coords, codec: CODECS[codec], bytes: &bytes }];
        LARGEST.set(0);
        for text in ["...", "0", "1:2", "[0, 1]"] {
            let indices = parse_indices(text).unwrap();
            let _ = tiles_wanted(column, &shape, &indices);
            let _ = decode_blob(column, &shape, &indices, &tiles);
        }
        let _ = decode_blob(column, &shape, &[], &tiles);
        let _ = decode_blob_into(column, &shape, &tiles, &mut [0; 64]);
        prop_assert!(LARGEST.get() < MOST, "{} bytes", LARGEST.get());
    }
}

proptest! {
    #![proptest_config(config(1500))]

    /// What was written, with one byte changed, cut off, or read under another shape.
    #[test]
    fn damaged_samples(choice in 0usize..6, at in any::<usize>(), to in any::<u8>(), cut in any::<bool>(), axis in 0usize..3, size in 0u64..1000) {
        let picture = filled(DType::U8, &[8, 9, 3], 1);
        let numbers = filled(DType::I16, &[12, 50], 1);
        let (column, sample) = match choice {
            0 => (column("image"), Sample::Tensor(picture.as_ref())),
            1 => (compressed("generic", "zstd").settle(DType::I16), Sample::Tensor(numbers.as_ref())),
            2 => (column("sequence[image]"), Sample::Sequence(vec![Sample::Tensor(picture.as_ref()); 2])),
            3 => (column("polygon"), Sample::Json(serde_json::json!([[[1, 2], [3, 4]], [[5, 6]]]))),
            4 => (generic(DType::I16, None, "zstd"), Sample::Tensor(numbers.as_ref())),
            _ => (column("audio"), Sample::Encoded(file("tone.flac").into())),
        };
        let mut stored = blob(encode(&column, sample).unwrap());
        let bytes = stored.tiles[0].bytes.to_mut();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = to }
        LARGEST.set(0);
        let _ = decode_blob(&column, &stored.shape, &[], &tile_refs(&stored));
        let _ = decode_blob(&column, &stored.shape, &parse_indices("0").unwrap(), &tile_refs(&stored));
        if let Some(axis) = stored.shape.get_mut(axis) {
            *axis = size;
        }
        let _ = decode_blob(&column, &stored.shape, &[], &tile_refs(&stored));
        prop_assert!(LARGEST.get() < MOST);
    }

    #[test]
    fn any_text(text in ".{0,40}", choice in 0usize..6) {
        let name = ["text", "json", "list", "tag", "sequence[text]", "sequence[link[image]]"][choice];
        let _ = decode_text(&column(name), &text);
    }
}

fn corrupt(result: Result<Value, lacus_sample::SampleError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    error.to_string()
}

#[test]
fn tiles_that_are_missing_or_too_many_are_named() {
    let column = generic(DType::U8, None, "none");
    let sample = filled(DType::U8, &[100, 100], 2);
    let stored = blob(encode(&column, Sample::Tensor(sample.as_ref())).unwrap());
    let mut tiles = tile_refs(&stored);
    let lost = tiles.remove(3);
    let error = corrupt(decode_blob(&column, &stored.shape, &[], &tiles));
    assert_eq!(error, format!("tiles: there is none at {:?}", lost.coords));
    // What does not need it does not miss it.
    assert!(decode_blob(&column, &stored.shape, &parse_indices("0").unwrap(), &tiles).is_ok());
    let one = generic(DType::U8, None, "none");
    let both = [
        TileRef { coords: vec![], codec: "raw", bytes: &[1] },
        TileRef { coords: vec![], codec: "raw", bytes: &[1] },
    ];
    assert_eq!(corrupt(decode_blob(&one, &[1], &[], &both)), "tiles: 2 of them where one belongs");
    assert_eq!(corrupt(decode_blob(&one, &[1], &[], &[])), "tiles: 0 of them where one belongs");
}

#[test]
fn codecs_that_do_not_belong_are_named() {
    let check = |name: &str, codec: &str, expected: &str, kind: ErrorKind| {
        let tile = [TileRef { coords: vec![], codec, bytes: &[] }];
        let error = decode_blob(&column(name), &[0, 0, 3], &[], &tile).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.kind()), (expected, kind));
    };
    check("image", "flac", "sample: the codec \"flac\" in a column of image", ErrorKind::Corrupt);
    check("bbox", "png", "sample: the codec \"png\" in a column of bbox", ErrorKind::Corrupt);
    check("image", "sequence", "sample: the codec \"sequence\" in a column of image", ErrorKind::Corrupt);
    check(
        "sequence[image]",
        "png",
        "sample: the codec \"png\" in a column of sequence[image]",
        ErrorKind::Corrupt,
    );
    check("image", "packed", "sample: the codec \"packed\" in a column of image", ErrorKind::Corrupt);
    let unknown = "codec \"avif\" is unknown here: it was written by a newer format, or is no Lacus data";
    check("image", "avif", unknown, ErrorKind::Invalid);
}

#[test]
fn a_file_of_another_shape_than_its_row_is_corrupt() {
    let bytes = png(&filled(DType::U8, &[4, 5, 3], 2));
    let tile = [TileRef { coords: vec![], codec: "png", bytes: &bytes }];
    let error = corrupt(decode_blob(&column("image"), &[5, 4, 3], &[], &tile));
    assert_eq!(error, "media sample: a file of shape (4, 5, 3) where (5, 4, 3) belongs");
}

#[test]
fn forms_are_not_mixed_up() {
    let labels = column("class_label");
    let tile = [TileRef { coords: vec![], codec: "raw", bytes: &[] }];
    let message = |result: Result<Value, lacus_sample::SampleError>| result.unwrap_err().to_string();
    assert_eq!(
        message(decode_blob(&labels, &[], &[], &tile)),
        "class_label: rows hold this column as an integer, not as bytes"
    );
    assert_eq!(
        message(decode_text(&labels, "")),
        "class_label: rows hold this column as an integer, not as text"
    );
    assert!(decode_scalars(&labels, Scalars::Real(&[1])).is_err());
    assert!(decode_scalar(&labels, &Stored::Text("".into())).is_err());
    assert!(decode_scalars(&column("image"), Scalars::Int(&[1])).is_err());
    assert!(decode_blob_into(&column("polygon"), &[1], &tile, &mut []).is_err());
    let out_of_range = decode_scalars(&labels, Scalars::Int(&[0, -1, 5])).unwrap_err();
    assert_eq!(out_of_range.kind(), ErrorKind::Corrupt);
    let bytes = generic(DType::U8, Some(vec![]), "auto");
    assert_eq!(decode_scalars(&bytes, Scalars::Int(&[256])).unwrap_err().kind(), ErrorKind::Corrupt);
}
