//! Which formats there are, and what they are called.
//!
//! | family | formats | a decoded one has shape |
//! |---|---|---|
//! | image | jpeg, png, webp, gif, bmp, tiff | `(height, width)` or `(height, width, channels)` |
//! | audio | wav, flac, mp3, ogg | `(frames, channels)` |
//! | video | mp4, webm | `(frames, height, width, 3)` |
//! | dicom | dicom | `(height, width)`, `(height, width, 3)`, or with `frames` in front |

use std::fmt;

/// A format that media files have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// JPEG: baseline and progressive, 8 bits.
    Jpeg,
    /// PNG, of an animated one the still image.
    Png,
    /// WebP, lossy and lossless, of an animated one the first frame.
    WebP,
    /// GIF, of an animated one the first frame.
    Gif,
    /// Windows bitmap, not run-length encoded.
    Bmp,
    /// TIFF, the first page.
    Tiff,
    /// RIFF WAVE with plain integer or float samples.
    Wav,
    /// Free Lossless Audio Codec.
    Flac,
    /// MPEG audio layer III.
    Mp3,
    /// Ogg with Vorbis or FLAC inside.
    Ogg,
    /// MP4 and QuickTime, plain or fragmented.
    Mp4,
    /// WebM and Matroska.
    WebM,
    /// DICOM part 10 file.
    Dicom,
}

/// What kind of thing a format holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// One picture.
    Image,
    /// Samples over time.
    Audio,
    /// Pictures over time.
    Video,
    /// Medical pictures with their own tags.
    Dicom,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 13] = [
        Format::Jpeg,
        Format::Png,
        Format::WebP,
        Format::Gif,
        Format::Bmp,
        Format::Tiff,
        Format::Wav,
        Format::Flac,
        Format::Mp3,
        Format::Ogg,
        Format::Mp4,
        Format::WebM,
        Format::Dicom,
    ];

    /// The name that [`Display`](fmt::Display) and [`FromStr`](std::str::FromStr) use.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Jpeg => "jpeg",
            Format::Png => "png",
            Format::WebP => "webp",
            Format::Gif => "gif",
            Format::Bmp => "bmp",
            Format::Tiff => "tiff",
            Format::Wav => "wav",
            Format::Flac => "flac",
            Format::Mp3 => "mp3",
            Format::Ogg => "ogg",
            Format::Mp4 => "mp4",
            Format::WebM => "webm",
            Format::Dicom => "dicom",
        }
    }

    /// What kind of thing it holds.
    pub const fn family(self) -> Family {
        match self {
            Format::Jpeg | Format::Png | Format::WebP | Format::Gif | Format::Bmp | Format::Tiff => {
                Family::Image
            }
            Format::Wav | Format::Flac | Format::Mp3 | Format::Ogg => Family::Audio,
            Format::Mp4 | Format::WebM => Family::Video,
            Format::Dicom => Family::Dicom,
        }
    }

    /// The media type, as in a `Content-Type` header.
    pub const fn mime(self) -> &'static str {
        match self {
            Format::Jpeg => "image/jpeg",
            Format::Png => "image/png",
            Format::WebP => "image/webp",
            Format::Gif => "image/gif",
            Format::Bmp => "image/bmp",
            Format::Tiff => "image/tiff",
            Format::Wav => "audio/wav",
            Format::Flac => "audio/flac",
            Format::Mp3 => "audio/mpeg",
            Format::Ogg => "audio/ogg",
            Format::Mp4 => "video/mp4",
            Format::WebM => "video/webm",
            Format::Dicom => "application/dicom",
        }
    }

    /// The usual file extension, without a dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Format::Jpeg => "jpg",
            Format::Dicom => "dcm",
            other => other.name(),
        }
    }

    /// The format that a file extension (without its dot, in any case) usually means. Only a hint:
    /// [`sniff`](crate::sniff) looks at the bytes.
    pub fn from_extension(extension: &str) -> Option<Format> {
        let lower = extension.to_ascii_lowercase();
        Some(match lower.as_str() {
            "jpg" | "jpe" | "jfif" => Format::Jpeg,
            "apng" => Format::Png,
            "dib" => Format::Bmp,
            "tif" => Format::Tiff,
            "wave" => Format::Wav,
            "oga" => Format::Ogg,
            "m4v" | "mov" => Format::Mp4,
            "mkv" => Format::WebM,
            "dcm" => Format::Dicom,
            name => return Format::ALL.into_iter().find(|format| format.name() == name),
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::Image => "image",
            Family::Audio => "audio",
            Family::Video => "video",
            Family::Dicom => "dicom",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_lead_back_to_their_format() {
        for format in Format::ALL {
            assert_eq!(Format::from_extension(format.extension()), Some(format));
            assert_eq!(Format::from_extension(&format.name().to_uppercase()), Some(format));
        }
        assert_eq!(Format::from_extension("TIF"), Some(Format::Tiff));
        assert_eq!(Format::from_extension("mkv"), Some(Format::WebM));
        assert_eq!(Format::from_extension("npy"), None);
        assert_eq!(Format::from_extension(""), None);
    }

    #[test]
    fn media_types_begin_with_the_family() {
        for format in Format::ALL {
            if format.family() != Family::Dicom {
                let begins = format!("{}/", format.family());
                assert!(format.mime().starts_with(&begins), "{format}: {}", format.mime());
            }
        }
    }
}
