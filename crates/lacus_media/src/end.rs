//! Whether a file is there to its end, told without decoding it.

use crate::error::{Cause, MediaError};
use crate::format::Format;

/// Bytes behind the end that some programs leave: padding, a few notes.
const SLACK: usize = 4 << 10;

/// Fails if a picture was cut off: its format has an end, and it is not there. Formats without such a mark pass.
///
/// ```
/// use lacus_media::{Format, check_end};
/// assert!(check_end(b"GIF89a \x3b", Format::Gif).is_ok());
/// assert!(check_end(b"GIF89a", Format::Gif).is_err());
/// ```
pub fn check_end(bytes: &[u8], format: Format) -> Result<(), MediaError> {
    let last = &bytes[bytes.len().saturating_sub(SLACK)..];
    let has = |mark: &[u8]| last.windows(mark.len()).any(|window| window == mark);
    let is_whole = match format {
        Format::Jpeg => has(&[0xff, 0xd9]),
        Format::Png => has(b"IEND"),
        Format::Gif => last.contains(&0x3b),
        Format::WebP => match bytes {
            [_, _, _, _, a, b, c, d, ..] => {
                let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
                length.checked_add(8).is_some_and(|end| end <= bytes.len())
            }
            _ => false,
        },
        _ => true,
    };
    match is_whole {
        true => Ok(()),
        false => Err(MediaError::new(format, Cause::malformed("cut off: the end of the file is missing"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_files_are_seen() {
        let png = [&b"\x89PNG data"[..], b"\0\0\0\0IEND\xae\x42\x60\x82", &[0; 100]].concat();
        assert!(check_end(&png, Format::Png).is_ok());
        assert!(check_end(&png[..9], Format::Png).is_err());
        let jpeg = [&[0xff, 0xd8][..], &[7; 9000], &[0xff, 0xd9]].concat();
        assert!(check_end(&jpeg, Format::Jpeg).is_ok());
        assert!(check_end(&jpeg[..9000], Format::Jpeg).is_err());
        let webp = [&b"RIFF\x10\0\0\0WEBP"[..], &[0; 12]].concat();
        assert!(check_end(&webp, Format::WebP).is_ok());
        assert!(check_end(&webp[..20], Format::WebP).is_err());
        assert!(check_end(b"", Format::Wav).is_ok());
    }
}
