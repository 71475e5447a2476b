//! From bytes to the code of their format. Whatever a decoder does with foreign bytes, it ends in an error
//! here: panics of other people's code are caught.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Cause, MediaError, quoted};
use crate::format::Format;
use crate::medium::Medium;
use crate::sniff::sniff;
use crate::{bmp, dicom, ffmpeg, flac, gif, jpeg, png, stream, tiff, wav, webp};

/// The format of `bytes`.
pub(crate) fn format_of(bytes: &[u8]) -> Result<Format, MediaError> {
    sniff(bytes).ok_or_else(|| {
        let known = Format::ALL.map(Format::name).join(", ");
        let found =
            if bytes.is_empty() { "no bytes".into() } else { format!("begins with {}", quoted(bytes)) };
        MediaError::of_no_format(Cause::Unknown(format!(
            "no known media format ({found}); known are {known}"
        )))
    })
}

/// Reads the header of `bytes`, which are of `format`.
pub(crate) fn open(format: Format, bytes: &[u8]) -> Result<Box<dyn Medium>, Cause> {
    Ok(match format {
        Format::Jpeg => Box::new(jpeg::open(bytes)?),
        Format::Png => Box::new(png::open(bytes)?),
        Format::WebP => Box::new(webp::open(bytes)?),
        Format::Gif => Box::new(gif::open(bytes)?),
        Format::Bmp => Box::new(bmp::open(bytes)?),
        Format::Tiff => Box::new(tiff::open(bytes)?),
        Format::Wav => Box::new(wav::open(bytes)?),
        Format::Flac => Box::new(flac::open(bytes)?),
        Format::Mp3 | Format::Ogg => Box::new(stream::open(bytes, format)?),
        Format::Mp4 | Format::WebM => Box::new(ffmpeg::open(bytes, format)?),
        Format::Dicom => Box::new(dicom::open(bytes)?),
    })
}

/// Runs `work` on media of `format`, and names the format if it fails. A panic is taken for broken media:
/// it is the last resort for decoders that were not written with every byte in mind.
pub(crate) fn guarded<T>(format: Format, work: impl FnOnce() -> Result<T, Cause>) -> Result<T, MediaError> {
    // What `work` borrows is either only read, or memory for pixels, of which every state is as good.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Cause::malformed(format!("the decoder gave up: {text}")))
    });
    result.map_err(|cause| MediaError::new(format, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_about_the_input() {
        let error = guarded::<()>(Format::Gif, || panic!("index {} out of range", 7)).unwrap_err();
        assert_eq!(error.to_string(), "gif: the decoder gave up: index 7 out of range");
        assert_eq!(error.kind(), lacus_tensor::ErrorKind::Invalid);
    }

    #[test]
    fn bytes_of_no_format_are_quoted() {
        let error = format_of(b"%PDF-1.7").unwrap_err();
        assert!(error.to_string().contains("begins with \"%PDF-1.7\""), "{error}");
        assert_eq!(error.format(), None);
        assert!(format_of(b"").unwrap_err().to_string().contains("no bytes"));
    }
}
