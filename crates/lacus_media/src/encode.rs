//! From a tensor to bytes.

use lacus_tensor::TensorRef;

use crate::error::{Cause, MediaError};
use crate::format::Format;
use crate::open::guarded;
use crate::{bmp, flac, gif, jpeg, png, tiff, wav, webp};

/// What an encoder needs to know besides the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeOptions {
    /// For JPEG, from 1 to 100.
    pub quality: u8,
    /// For sound, in frames per second.
    pub sample_rate: u32,
}

impl Default for EncodeOptions {
    /// Quality 90, where JPEG still keeps colors at full resolution, and the rate of a compact disc.
    fn default() -> EncodeOptions {
        EncodeOptions { quality: 90, sample_rate: 44100 }
    }
}

/// Encodes `tensor`. What comes back from [`decode`](crate::decode) has the same bits, except for JPEG.
///
/// | format | dtypes | shapes |
/// |---|---|---|
/// | jpeg | uint8 | gray, RGB |
/// | png | uint8, uint16 | gray, gray with alpha, RGB, RGBA |
/// | webp (lossless) | uint8 | RGB, RGBA |
/// | gif | uint8 | RGB of at most 256 colors |
/// | bmp | uint8 | gray, RGB, RGBA |
/// | tiff (uncompressed) | unsigned, float32, float64; for gray also signed | gray, RGB, RGBA |
/// | wav | uint8, int16, int32, float32, float64 | `(frames, channels)` |
/// | flac | int16; int32 of 24 bits | `(frames, channels)`, up to 8 channels |
///
/// Gray is `(height, width)`. As a convenience `(height, width, 1)` is taken for it, and `(frames,)` for one
/// channel; they come back as `(height, width)` and `(frames, 1)`.
///
/// Fails with kind `Invalid` for any other tensor or format.
pub fn encode(tensor: TensorRef<'_>, format: Format, options: &EncodeOptions) -> Result<Vec<u8>, MediaError> {
    guarded(format, || match format {
        Format::Jpeg => jpeg::encode(&tensor, options.quality),
        Format::Png => png::encode(&tensor),
        Format::WebP => webp::encode(&tensor),
        Format::Gif => gif::encode(&tensor),
        Format::Bmp => bmp::encode(&tensor),
        Format::Tiff => tiff::encode(&tensor),
        Format::Wav => wav::encode(&tensor, options.sample_rate),
        Format::Flac => flac::encode(&tensor, options.sample_rate),
        Format::Mp3 | Format::Ogg | Format::Mp4 | Format::WebM | Format::Dicom => Err(Cause::unsupported(
            "cannot be encoded; what can are jpeg, png, webp, gif, bmp, tiff, wav and flac",
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_tensor::{DType, Shape};

    #[test]
    fn formats_that_cannot_be_written_say_which_can() {
        let shape = Shape::new([1, 1]).unwrap();
        let tensor = TensorRef::contiguous(DType::U8, &shape, &[0]).unwrap();
        for format in [Format::Mp3, Format::Ogg, Format::Mp4, Format::WebM, Format::Dicom] {
            let error = encode(tensor.clone(), format, &EncodeOptions::default()).unwrap_err();
            assert_eq!(error.kind(), lacus_tensor::ErrorKind::Invalid);
            assert!(error.to_string().contains("wav and flac"), "{error}");
        }
    }

    #[test]
    fn a_tensor_that_does_not_fit_is_told_what_would() {
        let shape = Shape::new([2, 2, 2]).unwrap();
        let tensor = TensorRef::contiguous(DType::U8, &shape, &[0; 8]).unwrap();
        let error = encode(tensor, Format::Jpeg, &EncodeOptions::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "jpeg: takes uint8 of shape (height, width) or (height, width, 3) with sides of 1 to 65535, found \
             uint8 of shape (2, 2, 2)"
        );
    }
}
