//! What can go wrong when bytes move, sorted by what the caller can do about it.

use std::fmt;
use std::io;

use lacus_error::ErrorKind;

/// What kind of failure a store reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoErrorKind {
    /// The object, file or bucket is not there.
    NotFound,
    /// A conditional put found the object already there.
    AlreadyExists,
    /// The store refused: credentials, permissions, read-only file system.
    Refused,
    /// No space is left on the device, or a quota is used up.
    Full,
    /// The store could not be reached, or gave up after retries.
    Unavailable,
    /// The URL or an option is wrong, or the store lacks what is needed.
    Invalid,
    /// Fewer bytes came back than the object was said to hold.
    Truncated,
}

impl From<IoErrorKind> for ErrorKind {
    /// What the caller can do about it.
    fn from(kind: IoErrorKind) -> ErrorKind {
        match kind {
            IoErrorKind::NotFound => ErrorKind::NotFound,
            IoErrorKind::AlreadyExists => ErrorKind::Conflict,
            IoErrorKind::Invalid => ErrorKind::Invalid,
            IoErrorKind::Truncated => ErrorKind::Corrupt,
            IoErrorKind::Refused | IoErrorKind::Full | IoErrorKind::Unavailable => ErrorKind::Unavailable,
        }
    }
}

/// A failed operation on a store: what was tried, on what, what was found.
#[derive(Debug)]
pub struct IoError {
    kind: IoErrorKind,
    op: &'static str,
    path: String,
    message: String,
}

impl IoError {
    /// An error made by this crate's own checks.
    pub fn new(
        kind: IoErrorKind,
        op: &'static str,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        IoError { kind, op, path: path.into(), message: message.into() }
    }

    /// The kind, which decides what the caller does.
    pub fn kind(&self) -> IoErrorKind {
        self.kind
    }

    /// What went wrong, without saying where.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// True when a conditional put lost because the object exists.
    pub fn is_already_exists(&self) -> bool {
        self.kind == IoErrorKind::AlreadyExists
    }

    /// True when the object is not there.
    pub fn is_not_found(&self) -> bool {
        self.kind == IoErrorKind::NotFound
    }

    /// Wraps an operating system error.
    pub fn from_os(op: &'static str, path: impl Into<String>, error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => IoErrorKind::NotFound,
            io::ErrorKind::NotADirectory if is_look(op) => IoErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => IoErrorKind::AlreadyExists,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => IoErrorKind::Refused,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                IoErrorKind::Full
            }
            io::ErrorKind::UnexpectedEof => IoErrorKind::Truncated,
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => {
                IoErrorKind::Invalid
            }
            _ => IoErrorKind::Unavailable,
        };
        IoError::new(kind, op, path, error.to_string())
    }

    /// Wraps an `object_store` error.
    pub fn from_store(op: &'static str, path: impl Into<String>, error: object_store::Error) -> Self {
        use object_store::Error as E;
        let kind = match &error {
            E::NotFound { .. } => IoErrorKind::NotFound,
            E::AlreadyExists { .. } | E::Precondition { .. } => IoErrorKind::AlreadyExists,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => IoErrorKind::Refused,
            E::InvalidPath { .. }
            | E::NotSupported { .. }
            | E::NotImplemented { .. }
            | E::UnknownConfigurationKey { .. } => IoErrorKind::Invalid,
            _ => match os_error(&error) {
                Some(os) => IoError::from_os(op, "", os).kind,
                None => IoErrorKind::Unavailable,
            },
        };
        IoError::new(kind, op, path, innermost(&error))
    }
}

/// Whether an operation looks for something, so that it finds nothing below a file. All others cannot be done there.
fn is_look(op: &str) -> bool {
    matches!(op, "read" | "open" | "look" | "list" | "remove")
}

/// The operating system error hidden somewhere in the chain of causes.
fn os_error(error: &object_store::Error) -> Option<io::Error> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(e) = cause {
        if let Some(os) = e.downcast_ref::<io::Error>() {
            return os.raw_os_error().map(io::Error::from_raw_os_error);
        }
        cause = e.source();
    }
    None
}

/// The chain of causes in one line, each said once.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        let more = e.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = e.source();
    }
    text
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.op, self.message)?;
        if !self.path.is_empty() && !self.message.contains(&self.path) {
            write!(f, " ({})", self.path)?;
        }
        Ok(())
    }
}

impl std::error::Error for IoError {}
