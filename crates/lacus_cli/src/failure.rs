//! Why a command ended early: what to tell, and the exit code.

use std::io;

use lacus_dataset::DatasetError;
use lacus_exchange::ExchangeError;
use lacus_files::FileError;
use lacus_history::HistoryError;
use lacus_io::{IoError, IoErrorKind};
use lacus_table::{ErrorKind, TableError};
use lacus_tensor::TensorError;
use serde_json::{Value as Json, json};

/// A command that did not reach its end.
#[derive(Debug)]
pub(crate) struct Failure {
    cause: Cause,
    message: String,
    hint: Option<String>,
    /// More for programs: named values beside the message.
    details: Option<Box<Json>>,
}

#[derive(Debug, PartialEq)]
enum Cause {
    Kind(ErrorKind),
    /// Ctrl-C.
    Stopped,
    /// Whoever read our output has enough: no failure of ours.
    PipeClosed,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure { cause: Cause::Kind(kind), message: message.into(), hint: None, details: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn stopped() -> Failure {
        let message = "stopped; nothing was written".into();
        Failure { cause: Cause::Stopped, message, hint: None, details: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// The same with named values for programs, an object.
    pub(crate) fn details(self, details: Json) -> Failure {
        Failure { details: Some(Box::new(details)), ..self }
    }

    /// The same with what it is about in front.
    pub(crate) fn about(self, what: impl std::fmt::Display) -> Failure {
        Failure { message: format!("{what}: {}", self.message), ..self }
    }

    /// What happened, without a hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The code the process ends with.
    pub(crate) fn exit_code(&self) -> i32 {
        match &self.cause {
            Cause::Kind(kind) => kind.exit_code(),
            // What a shell reports for a process that SIGINT ended.
            Cause::Stopped => 130,
            Cause::PipeClosed => 0,
        }
    }

    /// The lines for people, or `None` when there is nothing to say.
    pub(crate) fn text(&self) -> Option<String> {
        if self.cause == Cause::PipeClosed {
            return None;
        }
        let hint = self.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        Some(format!("lacus: {}{hint}", self.message))
    }

    /// The object for programs, or `None` when there is nothing to say.
    pub(crate) fn json(&self) -> Option<Json> {
        let kind = match &self.cause {
            Cause::Kind(kind) => kind.to_string().replace(' ', "_"),
            Cause::Stopped => "stopped".to_owned(),
            Cause::PipeClosed => return None,
        };
        let mut error = json!({"kind": kind, "message": self.message});
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        for (name, value) in self.details.iter().filter_map(|details| details.as_object()).flatten() {
            error[name] = value.clone();
        }
        Some(json!({"error": error}))
    }

    /// An error met while writing results to stdout.
    pub(crate) fn stdout(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => {
                Failure { cause: Cause::PipeClosed, message: String::new(), hint: None, details: None }
            }
            _ => Failure::new(ErrorKind::Unavailable, format!("write to stdout: {error}")),
        }
    }

    /// An error of the operating system on a file of the caller's.
    pub(crate) fn file(doing: &str, path: &std::path::Path, error: &io::Error) -> Failure {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        };
        Failure::new(kind, format!("{}: {doing}: {error}", path.display()))
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Failure {
        if matches!(error, TableError::Cancelled) {
            return Failure::stopped();
        }
        let failure = Failure::new(error.kind(), error.to_string());
        match error {
            TableError::NotADataset { url, .. } => failure.hint(format!("`lacus create {url}` makes one")),
            TableError::AlreadyExists { .. } => failure.hint("a dataset is made where nothing is yet"),
            TableError::NoSuchTensor { close, .. } if close.is_empty() => {
                failure.hint("`lacus ls` lists the tensors")
            }
            TableError::IsColumn { .. } => {
                failure.hint("`lacus head` shows rows, `lacus export` writes them to files")
            }
            TableError::NoSuchVersion { .. } => failure.hint("`lacus history` lists the versions"),
            TableError::Io(error) if error.kind() == IoErrorKind::Refused => {
                failure.hint("check permissions and credentials (the environment, or --storage-option)")
            }
            TableError::Corrupt { .. } => failure.hint("`lacus doctor` looks the whole dataset over"),
            _ => failure,
        }
    }
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Failure {
        let failure = Failure::new(error.kind(), error.to_string());
        match error {
            DatasetError::Table(error) => error.into(),
            DatasetError::NoSuchColumn { close, .. } if close.is_empty() => {
                failure.hint("`lacus info` lists the columns")
            }
            _ => failure,
        }
    }
}

impl From<ExchangeError> for Failure {
    fn from(error: ExchangeError) -> Failure {
        let failure = Failure::new(error.kind(), error.to_string());
        match error {
            ExchangeError::Cancelled => Failure::stopped(),
            ExchangeError::Dataset(error) => error.into(),
            ExchangeError::File(error) => error.into(),
            ExchangeError::Bad { .. } => {
                failure.hint("--on-error skip leaves such things out and tells them")
            }
            ExchangeError::Taken { .. } => failure.hint("it is written where nothing is yet"),
            _ => failure,
        }
    }
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Failure {
        let failure = Failure::new(error.kind(), error.to_string());
        match error {
            HistoryError::Io(error) => error.into(),
            HistoryError::Table(error) => error.into(),
            HistoryError::NoSuchRef { close, .. } if close.is_empty() => failure.hint(
                "`lacus branch` and `lacus tag` list names, `lacus log` commits, `lacus history` versions",
            ),
            HistoryError::NoCommitYet { .. } => failure.hint("`lacus commit -m MESSAGE` makes the first"),
            HistoryError::Gone { .. } => failure.hint("a clean-up (`lacus gc --keep`) removed what was old"),
            HistoryError::Corrupt { .. } => failure.hint("`lacus check` looks the whole history over"),
            HistoryError::Ambiguous { candidates, .. } => {
                failure.hint("give more digits").details(json!({"candidates": candidates}))
            }
            HistoryError::Conflicts { conflicts, without_union } => failure
                .hint("-X ours, -X theirs or -X union says what counts")
                .details(json!({"conflicts": conflicts, "without_union": without_union})),
            _ => failure,
        }
    }
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Failure {
        TableError::from(error).into()
    }
}

impl From<TensorError> for Failure {
    fn from(error: TensorError) -> Failure {
        Failure::new(error.kind(), error.to_string())
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        let failure = Failure::new(error.kind(), error.to_string());
        match failure.message.contains("more than once") {
            true => failure.hint("--sum-duplicates adds their values"),
            false => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_programs_are_told_the_same() {
        let failure = Failure::invalid("no").about("x.npy").hint("try y");
        assert_eq!(failure.text().as_deref(), Some("lacus: x.npy: no\nhint: try y"));
        assert_eq!(
            failure.json(),
            Some(json!({"error": {"kind": "invalid", "message": "x.npy: no", "hint": "try y"}}))
        );
        assert_eq!(failure.exit_code(), 2);
    }

    #[test]
    fn a_closed_pipe_is_quiet() {
        let failure = Failure::stdout(io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.text(), failure.json(), failure.exit_code()), (None, None, 0));
    }

    #[test]
    fn a_stop_is_no_kind_of_error() {
        let failure = Failure::from(TableError::Cancelled);
        assert_eq!(failure.exit_code(), 130);
        assert_eq!(failure.json().unwrap()["error"]["kind"], "stopped");
    }
}
