//! What the caller can do about an error.

use std::fmt;

/// What the caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// Nothing of that name exists: check the name.
    NotFound,
    /// The input cannot be right: fix it.
    Invalid,
    /// Somebody else was faster: reload and try again.
    Conflict,
    /// A service or a resource is away: wait and try again.
    Unavailable,
    /// Stored bytes are not what was written: stop and keep the evidence.
    Corrupt,
    /// It does not fit the memory that is left: ask for less.
    OutOfMemory,
    /// A bug of ours.
    Internal,
}

impl ErrorKind {
    /// The exit code of the command line for this kind.
    pub fn exit_code(self) -> i32 {
        match self {
            ErrorKind::NotFound => 3,
            ErrorKind::Invalid => 2,
            ErrorKind::Conflict => 4,
            ErrorKind::Unavailable => 5,
            ErrorKind::Corrupt => 6,
            ErrorKind::OutOfMemory => 7,
            ErrorKind::Internal => 70,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::NotFound => "not found",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::OutOfMemory => "out of memory",
            ErrorKind::Internal => "internal",
        })
    }
}
