//! Tensors and files that the tests share.

use lacus_media::{EncodeOptions, Format, encode};
use lacus_tensor::{Buffer, DType, Shape, Tensor};

/// Every format that is written without loss, with every dtype and number of channels it takes. Sound has
/// no number of channels that would mean something else, so 2 stands for all.
pub(crate) fn lossless() -> Vec<(Format, DType, u64)> {
    use DType::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let mut all = Vec::new();
    let mut add = |format: Format, dtypes: &[DType], channels: &[u64]| {
        for &dtype in dtypes {
            all.extend(channels.iter().map(|&channels| (format, dtype, channels)));
        }
    };
    add(Format::Png, &[U8, U16], &[1, 2, 3, 4]);
    add(Format::WebP, &[U8], &[3, 4]);
    add(Format::Bmp, &[U8], &[1, 3, 4]);
    add(Format::Tiff, &[U8, U16, U32, U64, F32, F64], &[1, 3, 4]);
    add(Format::Tiff, &[I8, I16, I32, I64], &[1]);
    add(Format::Wav, &[U8, I16, I32, F32, F64], &[1, 2, 5]);
    add(Format::Flac, &[I16, I32], &[1, 2, 6]);
    add(Format::Gif, &[U8], &[3]);
    all
}

/// A tensor with elements from `seed`, such that `format` can hold them.
pub(crate) fn tensor(format: Format, dtype: DType, channels: u64, sides: (u64, u64), seed: u64) -> Tensor {
    let dims = match (format, channels) {
        (Format::Wav | Format::Flac, channels) => vec![sides.0 * sides.1, channels],
        (_, 1) => vec![sides.0, sides.1],
        (_, channels) => vec![sides.0, sides.1, channels],
    };
    let shape = Shape::new(dims).unwrap();
    let mut bytes = noise(shape.byte_len(dtype).unwrap(), seed);
    match (format, dtype) {
        // At most 256 colors.
        (Format::Gif, _) => bytes.as_chunks_mut::<3>().0.iter_mut().for_each(|color| {
            *color = [color[0], color[0] / 2, 255 - color[0]];
        }),
        // Of 32 bits the lower eight do not fit.
        (Format::Flac, DType::I32) => bytes.iter_mut().step_by(4).for_each(|byte| *byte = 0),
        _ => {}
    }
    Tensor::new(dtype, shape, Buffer::from_slice(&bytes)).unwrap()
}

/// Bytes that look random: half of the time runs, so that compression has something to do.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut last = 0;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state & 1 == 0 {
            last = (state >> 32) as u8;
        }
        last
    };
    (0..length).map(|_| next()).collect()
}

/// One file of each format that needs no other program, small enough to try every byte of.
pub(crate) fn files() -> Vec<(Format, Vec<u8>)> {
    let written = [
        (Format::Jpeg, DType::U8, 3),
        (Format::Jpeg, DType::U8, 1),
        (Format::Png, DType::U16, 4),
        (Format::Png, DType::U8, 3),
        (Format::WebP, DType::U8, 4),
        (Format::WebP, DType::U8, 3),
        (Format::Gif, DType::U8, 3),
        (Format::Bmp, DType::U8, 1),
        (Format::Bmp, DType::U8, 4),
        (Format::Tiff, DType::F32, 3),
        (Format::Tiff, DType::U8, 1),
        (Format::Wav, DType::I16, 2),
        (Format::Flac, DType::I16, 2),
    ];
    let written = written.map(|(format, dtype, channels)| {
        let tensor = tensor(format, dtype, channels, (13, 9), 7);
        (format, encode(tensor.as_ref(), format, &EncodeOptions::default()).unwrap())
    });
    let found = [
        (Format::Mp3, include_bytes!("../data/tone.mp3").to_vec()),
        (Format::Mp3, include_bytes!("../data/tone_without_xing.mp3").to_vec()),
        (Format::Ogg, include_bytes!("../data/tone.ogg").to_vec()),
        (Format::Flac, include_bytes!("../data/tone.flac").to_vec()),
        (Format::Jpeg, include_bytes!("../data/progressive.jpg").to_vec()),
        (Format::Jpeg, include_bytes!("../data/cmyk.jpg").to_vec()),
        (Format::Png, include_bytes!("../data/interlaced.png").to_vec()),
        (Format::WebP, include_bytes!("../data/lossy.webp").to_vec()),
        (Format::WebP, include_bytes!("../data/animated.webp").to_vec()),
        (Format::Gif, include_bytes!("../data/animated.gif").to_vec()),
        (Format::Tiff, include_bytes!("../data/deflate.tif").to_vec()),
        (Format::Dicom, include_bytes!("../data/gray.dcm").to_vec()),
    ];
    written.into_iter().chain(found).collect()
}

/// Videos, of which containers are read without ffmpeg.
pub(crate) fn videos() -> [(Format, &'static [u8]); 2] {
    [(Format::Mp4, include_bytes!("../data/test.mp4")), (Format::WebM, include_bytes!("../data/test.webm"))]
}
