//! What went wrong with a file: which file, where in it, and what was found there.
//!
//! ```text
//! uber.tns: line 17: coordinate 0 in column 2, tns coordinates start at 1
//! └ path    └ place  └ cause
//! ```
//!
//! Parsers know neither the path nor, often, the place; they return a [`Fault`] and the door to the
//! file ([`crate::open`], [`crate::write`]) adds the path once.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use lacus_tensor::{ErrorKind, TensorError};

/// A file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {place}{cause}", path.display())]
pub struct FileError {
    path: PathBuf,
    place: Place,
    #[source]
    cause: Cause,
}

impl FileError {
    /// The file that was read or written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where in the file.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What was found there.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Whether values at the same place are what is wrong: adding them up would help.
    pub fn has_duplicates(&self) -> bool {
        match &self.cause {
            Cause::Duplicates { .. } => true,
            Cause::Tensor(error) => matches!(**error, TensorError::DuplicateCoordinates { .. }),
            _ => false,
        }
    }

    /// What the caller should do about it. A malformed file is [`ErrorKind::Invalid`]: it is the
    /// caller's input, not our stored data.
    pub fn kind(&self) -> ErrorKind {
        match &self.cause {
            Cause::Malformed(_) | Cause::Unsupported(_) | Cause::Duplicates { .. } => ErrorKind::Invalid,
            Cause::Absent(_) => ErrorKind::NotFound,
            Cause::Tensor(error) => error.kind(),
            Cause::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::PermissionDenied
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::InvalidFilename
                | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Invalid,
                _ => ErrorKind::Unavailable,
            },
        }
    }
}

/// A place inside a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// A line of a text file, counted from 1.
    Line(u64),
    /// A named tensor or archive member.
    Member(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Whole => Ok(()),
            Place::Line(line) => write!(f, "line {line}: "),
            Place::Member(name) => write!(f, "{name:?}: "),
        }
    }
}

/// What was found.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The operating system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried: "open", "read", "write".
        doing: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// The content breaks the rules of its format.
    #[error("{0}")]
    Malformed(String),
    /// The content is fine, but has no counterpart: in a tensor when reading, in the format when writing.
    #[error("{0}")]
    Unsupported(String),
    /// A tensor asked for by name is not in the file.
    #[error("{0}")]
    Absent(String),
    /// Two values are at the same place, and nobody said that they are to be added up.
    #[error("the coordinates {at} occur more than once; they can be summed")]
    Duplicates {
        /// The coordinates, as the file counts them.
        at: String,
    },
    /// The content does not make a tensor.
    #[error(transparent)]
    Tensor(Box<TensorError>),
}

/// An error that does not know its file yet.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) cause: Cause,
}

impl Fault {
    pub(crate) fn malformed(found: impl Into<String>) -> Fault {
        Fault { place: Place::Whole, cause: Cause::Malformed(found.into()) }
    }

    pub(crate) fn unsupported(found: impl Into<String>) -> Fault {
        Fault { place: Place::Whole, cause: Cause::Unsupported(found.into()) }
    }

    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Fault {
        move |source| Fault { place: Place::Whole, cause: Cause::Io { doing, source } }
    }

    pub(crate) fn on_line(self, line: u64) -> Fault {
        Fault { place: Place::Line(line), ..self }
    }

    pub(crate) fn in_member(self, name: &str) -> Fault {
        Fault { place: Place::Member(name.to_owned()), ..self }
    }

    pub(crate) fn in_file(self, path: &Path) -> FileError {
        FileError { path: path.to_owned(), place: self.place, cause: self.cause }
    }
}

impl From<TensorError> for Fault {
    fn from(error: TensorError) -> Fault {
        Fault { place: Place::Whole, cause: Cause::Tensor(Box::new(error)) }
    }
}

/// Foreign text quoted in an error: short, and printable whatever it was.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const LONGEST: usize = 60;
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    if bytes.len() > LONGEST { format!("{shown:?}…") } else { format!("{shown:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_file_the_place_and_what_was_found() {
        let error = Fault::malformed("coordinate 0 in column 2").on_line(17).in_file(Path::new("uber.tns"));
        assert_eq!(error.to_string(), "uber.tns: line 17: coordinate 0 in column 2");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let error = Fault::unsupported("text").in_member("a/b").in_file(Path::new("x.npz"));
        assert_eq!(error.to_string(), "x.npz: \"a/b\": text");
    }

    #[test]
    fn kinds_follow_the_operating_system() {
        let check = |kind: io::ErrorKind, expected: ErrorKind| {
            assert_eq!(Fault::io("open")(kind.into()).in_file(Path::new("x")).kind(), expected, "{kind:?}");
        };
        check(io::ErrorKind::NotFound, ErrorKind::NotFound);
        check(io::ErrorKind::PermissionDenied, ErrorKind::Invalid);
        check(io::ErrorKind::StorageFull, ErrorKind::Unavailable);
    }

    #[test]
    fn quotes_are_short_and_printable() {
        assert_eq!(quoted(b"a\xff\n"), "\"a\u{fffd}\\n\"");
        assert!(quoted(&[b'x'; 1000]).len() < 70);
    }
}
