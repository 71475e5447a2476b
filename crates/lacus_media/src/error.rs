//! What went wrong with a media file: its format, what was expected, what was found.
//!
//! ```text
//! png: cut off: the chunk IDAT takes 812 bytes, 90 are left
//! └ format  └ cause
//! ```
//!
//! The code of one format returns a [`Cause`]; the doors of the crate add the format once.

use std::fmt;
use std::io;

use lacus_tensor::{ErrorKind, TensorError};

use crate::format::Format;

/// Media bytes could not be probed, decoded or encoded.
#[derive(Debug)]
pub struct MediaError {
    format: Option<Format>,
    cause: Cause,
}

impl MediaError {
    pub(crate) fn new(format: Format, cause: Cause) -> MediaError {
        MediaError { format: Some(format), cause }
    }

    pub(crate) fn of_no_format(cause: Cause) -> MediaError {
        MediaError { format: None, cause }
    }

    /// The format, if the bytes have one that is known.
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// What was found.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// What the caller should do about it. Broken media are [`ErrorKind::Invalid`]: they are the
    /// caller's input, and the caller can replace them.
    pub fn kind(&self) -> ErrorKind {
        match &self.cause {
            Cause::Unknown(_)
            | Cause::Malformed(_)
            | Cause::Unsupported(_)
            | Cause::TooLarge { .. }
            | Cause::Request(_) => ErrorKind::Invalid,
            Cause::Missing(_) | Cause::Io { .. } => ErrorKind::Unavailable,
            Cause::Tensor(error) => error.kind(),
        }
    }
}

impl fmt::Display for MediaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            Some(format) => write!(f, "{format}: {}", self.cause),
            None => write!(f, "{}", self.cause),
        }
    }
}

impl std::error::Error for MediaError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// What was found.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// A name or bytes that belong to no known format.
    #[error("{0}")]
    Unknown(String),
    /// The content breaks the rules of its format.
    #[error("{0}")]
    Malformed(String),
    /// The content is fine, but this crate cannot read it or has no way to write it.
    #[error("{0}")]
    Unsupported(String),
    /// Decoded, the content would be larger than the caller allows.
    #[error(
        "decodes to {pixels} {unit} and {bytes} bytes; the limits are {pixels_limit} {unit} and \
         {bytes_limit} bytes"
    )]
    TooLarge {
        /// "pixels", or "samples" for audio.
        unit: &'static str,
        /// What the header asks for.
        pixels: u64,
        /// Bytes that takes.
        bytes: u64,
        /// What the caller allows.
        pixels_limit: u64,
        /// Bytes the caller allows.
        bytes_limit: u64,
    },
    /// The caller asked for something that does not fit the file or the tensor.
    #[error("{0}")]
    Request(String),
    /// A program that is needed is not installed.
    #[error("{0}")]
    Missing(String),
    /// The operating system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// The content does not make a tensor.
    #[error(transparent)]
    Tensor(Box<TensorError>),
}

impl Cause {
    pub(crate) fn malformed(found: impl Into<String>) -> Cause {
        Cause::Malformed(found.into())
    }

    pub(crate) fn unsupported(found: impl Into<String>) -> Cause {
        Cause::Unsupported(found.into())
    }

    pub(crate) fn request(found: impl Into<String>) -> Cause {
        Cause::Request(found.into())
    }

    /// The file ends before `what` does.
    pub(crate) fn cut_off(what: &str) -> Cause {
        Cause::Malformed(format!("cut off: the file ends inside of {what}"))
    }

    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Cause {
        move |source| Cause::Io { doing, source }
    }
}

impl From<TensorError> for Cause {
    fn from(error: TensorError) -> Cause {
        Cause::Tensor(Box::new(error))
    }
}

/// Foreign bytes quoted in an error: short, and printable whatever they were.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const LONGEST: usize = 16;
    let shown = bytes[..bytes.len().min(LONGEST)].escape_ascii();
    if bytes.len() > LONGEST { format!("\"{shown}\"…") } else { format!("\"{shown}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_format_and_what_was_found() {
        let error = MediaError::new(Format::Png, Cause::cut_off("the header"));
        assert_eq!(error.to_string(), "png: cut off: the file ends inside of the header");
        assert_eq!((error.kind(), error.format()), (ErrorKind::Invalid, Some(Format::Png)));
        let error = MediaError::of_no_format(Cause::Missing("no ffmpeg".into()));
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Unavailable, "no ffmpeg"));
    }

    #[test]
    fn a_refused_bomb_names_both_figures() {
        let cause =
            Cause::TooLarge { unit: "pixels", pixels: 7, bytes: 21, pixels_limit: 5, bytes_limit: 20 };
        let error = MediaError::new(Format::Jpeg, cause);
        assert_eq!(
            error.to_string(),
            "jpeg: decodes to 7 pixels and 21 bytes; the limits are 5 pixels and 20 bytes"
        );
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn quotes_are_short_and_printable() {
        assert_eq!(quoted(b"a\xff\n"), "\"a\\xff\\n\"");
        assert!(quoted(&[b'x'; 1000]).len() < 30);
    }
}
