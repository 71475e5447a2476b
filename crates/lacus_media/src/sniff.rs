//! Which format bytes have: their first ones say, whatever the file is called.

use std::str::FromStr;

use crate::error::{Cause, MediaError};
use crate::fields::{part, u16_be, u32_be, u32_le};
use crate::format::Format;

/// The format that `bytes` begin with. The first 4 KiB are enough, except for an MP3 behind a larger
/// ID3 tag, which is then believed to be one.
///
/// HEIC and AVIF pictures, which share MP4's outer form, are not taken for videos.
pub fn sniff(bytes: &[u8]) -> Option<Format> {
    let begins = |magic: &[u8]| bytes.starts_with(magic);
    let at = |place: usize, magic: &[u8]| part(bytes, place, magic.len()) == Some(magic);
    // First, because scanners like to begin a DICOM file with a little TIFF header.
    if at(128, b"DICM") {
        return Some(Format::Dicom);
    }
    if begins(b"\xff\xd8\xff") {
        return Some(Format::Jpeg);
    }
    if begins(b"\x89PNG\r\n\x1a\n") {
        return Some(Format::Png);
    }
    if begins(b"RIFF") {
        return match part(bytes, 8, 4)? {
            b"WEBP" => Some(Format::WebP),
            b"WAVE" => Some(Format::Wav),
            _ => None,
        };
    }
    if begins(b"GIF87a") || begins(b"GIF89a") {
        return Some(Format::Gif);
    }
    if begins(b"II*\0") || begins(b"MM\0*") || begins(b"II+\0\x08\0") || begins(b"MM\0+\0\x08") {
        return Some(Format::Tiff);
    }
    if begins(b"fLaC") {
        return Some(Format::Flac);
    }
    if begins(b"OggS") {
        return Some(Format::Ogg);
    }
    if begins(b"\x1a\x45\xdf\xa3") {
        return Some(Format::WebM);
    }
    if at(4, b"ftyp") {
        let picture = [b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1", b"avif", b"avis"];
        return (!picture.iter().any(|brand| at(8, *brand))).then_some(Format::Mp4);
    }
    // QuickTime files from before there were brands.
    if (at(4, b"moov") || at(4, b"mdat") || at(4, b"wide")) && u32_be(bytes, 0)? >= 8 {
        return Some(Format::Mp4);
    }
    if begins(b"BM") && matches!(u32_le(bytes, 14)?, 12 | 40 | 52 | 56 | 64 | 108 | 124) {
        return Some(Format::Bmp);
    }
    let audio = skip_id3(bytes);
    if audio.starts_with(b"fLaC") {
        return Some(Format::Flac);
    }
    if is_layer_three(audio) || (begins(b"ID3") && audio.is_empty()) {
        return Some(Format::Mp3);
    }
    None
}

impl FromStr for Format {
    type Err = MediaError;

    /// Takes the names of [`Format::name`], and `jpg`.
    fn from_str(name: &str) -> Result<Format, MediaError> {
        let wanted = if name == "jpg" { "jpeg" } else { name };
        Format::ALL.into_iter().find(|format| format.name() == wanted).ok_or_else(|| {
            let known = Format::ALL.map(Format::name).join(", ");
            MediaError::of_no_format(Cause::Unknown(format!(
                "unknown media format {name:?}: expected one of {known}"
            )))
        })
    }
}

/// What follows the ID3v2 tags in front of a stream.
pub(crate) fn skip_id3(mut bytes: &[u8]) -> &[u8] {
    while let Some(header) = part(bytes, 0, 10).filter(|header| header.starts_with(b"ID3")) {
        // The size has seven bits per byte, so that no frame begins inside of it.
        let size = header[6..10].iter().fold(0, |size, &byte| size << 7 | usize::from(byte & 0x7f));
        let footer = if header[5] & 0x10 != 0 { 10 } else { 0 };
        bytes = bytes.get(10 + size + footer..).unwrap_or_default();
    }
    bytes
}

/// Whether MPEG audio layer III begins here: a frame header, and another one where the frame ends if the
/// bytes reach that far.
fn is_layer_three(bytes: &[u8]) -> bool {
    match frame_bytes(bytes) {
        None => false,
        Some(length) => bytes.len() < length + 4 || frame_bytes(&bytes[length..]).is_some(),
    }
}

/// The length of the layer III frame whose header comes first.
fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    const MPEG_1: [usize; 14] = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    const MPEG_2: [usize; 14] = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
    const RATES: [usize; 3] = [44100, 48000, 32000];
    let word = u16_be(bytes, 0)?;
    let (version, layer) = (word >> 3 & 3, word >> 1 & 3);
    if word >> 5 != 0x7ff || version == 1 || layer != 1 {
        return None;
    }
    let third = usize::from(*bytes.get(2)?);
    let kilobits = if version == 3 { &MPEG_1 } else { &MPEG_2 }.get((third >> 4).checked_sub(1)?)?;
    let rate = RATES.get(third >> 2 & 3)? / [4, 1, 2, 1][usize::from(version)];
    let per_frame = if version == 3 { 144_000 } else { 72_000 };
    Some(per_frame * kilobits / rate + (third >> 1 & 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_say_the_format() {
        let check = |bytes: &[u8], expected: Option<Format>| {
            assert_eq!(sniff(bytes), expected, "{}", bytes.escape_ascii());
        };
        check(b"\xff\xd8\xff\xe0", Some(Format::Jpeg));
        check(b"\x89PNG\r\n\x1a\n", Some(Format::Png));
        check(b"RIFF\0\0\0\0WEBPVP8 ", Some(Format::WebP));
        check(b"RIFF\0\0\0\0WAVEfmt ", Some(Format::Wav));
        check(b"RIFF\0\0\0\0AVI LIST", None);
        check(b"RIFF", None);
        check(b"GIF89a", Some(Format::Gif));
        check(b"MM\0*", Some(Format::Tiff));
        check(b"II+\0\x08\0\0\0", Some(Format::Tiff));
        check(b"fLaC", Some(Format::Flac));
        check(b"OggS", Some(Format::Ogg));
        check(b"\x1a\x45\xdf\xa3", Some(Format::WebM));
        check(b"\0\0\0\x18ftypisom", Some(Format::Mp4));
        check(b"\0\0\0\x18ftypheic", None);
        check(b"\0\0\0\x18ftypavif", None);
        check(b"\0\0\0\x08wide\0\0\0\x08mdat", Some(Format::Mp4));
        check(b"BM\0\0\0\0\0\0\0\0\0\0\0\0\x28\0\0\0", Some(Format::Bmp));
        check(b"BMW is a car maker in Bavaria", None);
        check(&[&[0; 128][..], b"DICM"].concat(), Some(Format::Dicom));
        check(&[b"II*\0", &[0; 124][..], b"DICM"].concat(), Some(Format::Dicom));
        check(b"ID3\x04\0\0\0\0\0\x02\0\0\xff\xfb\x90\0", Some(Format::Mp3));
        check(b"ID3\x04\0\0\0\0\0\x02\0\0fLaC", Some(Format::Flac));
        check(b"\xff\xfb\x90\0", Some(Format::Mp3));
        check(b"\xff\xfb\xf0\0", None);
        check(b"\xff\xfe\x90\0", None);
        check(&[b"\xff\xfb\x90\0".as_slice(), &[0; 1000]].concat(), None);
        check(b"", None);
        check(b"hello, world", None);
    }

    #[test]
    fn names_go_both_ways() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
        assert_eq!("jpg".parse::<Format>().unwrap(), Format::Jpeg);
        let error = "heic".parse::<Format>().unwrap_err();
        assert!(error.to_string().starts_with("unknown media format \"heic\": expected one of jpeg, "));
        assert_eq!(error.kind(), lacus_tensor::ErrorKind::Invalid);
    }
}
