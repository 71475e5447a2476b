//! Whether a file can be read, as far as that is seen without decoding it.
//!
//! | format | looked at |
//! |---|---|
//! | jpeg | the segments and the coded pixels, up to the end marker |
//! | png | the length of every chunk, the checksums of those that reading needs, the end chunk |
//! | webp | every chunk up to the length of the file |
//! | gif, wav, mp3, ogg | nothing more: [`probe`](crate::probe) walks them to their end |
//! | bmp, tiff | that rows, strips and tiles lie inside of the file |
//! | flac | the checksum of every packet, and that there are as many frames as the header says |
//! | mp4 | that every box lies inside of the file |
//! | dicom | that the pixels are there, in a coding that can be decoded |
//!
//! What is coded wrongly under a right checksum, or in a format without one, is only found by decoding it.

use crate::error::MediaError;
use crate::format::Format;
use crate::open::guarded;
use crate::{bmp, dicom, flac, jpeg, mp4, png, tiff, webp};

/// Fails with kind `Invalid` if a file whose header was read by [`probe`](crate::probe) is cut off or damaged.
///
/// ```
/// use lacus_media::{EncodeOptions, Format, encode, verify};
/// use lacus_tensor::{DType, Shape, Tensor};
///
/// let picture = Tensor::zeros(DType::U8, Shape::new([8, 8])?)?;
/// let mut bytes = encode(picture.as_ref(), Format::Png, &EncodeOptions::default())?;
/// assert!(verify(&bytes, Format::Png).is_ok());
/// let middle = bytes.len() / 2;
/// bytes[middle] ^= 1;
/// assert!(verify(&bytes, Format::Png).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(bytes: &[u8], format: Format) -> Result<(), MediaError> {
    guarded(format, || match format {
        Format::Jpeg => jpeg::verify(bytes),
        Format::Png => png::verify(bytes),
        Format::WebP => webp::verify(bytes),
        Format::Bmp => bmp::verify(bytes),
        Format::Tiff => tiff::verify(bytes),
        Format::Flac => flac::verify(bytes),
        Format::Mp4 => mp4::verify(bytes),
        Format::Dicom => dicom::verify(bytes),
        Format::Gif | Format::Wav | Format::Mp3 | Format::Ogg | Format::WebM => Ok(()),
    })
}
