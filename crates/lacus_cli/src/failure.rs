//! Why a command ended early: what to tell, and the exit code.

use std::io;

use lacus::dataset::DatasetError;
use lacus::exchange::ExchangeError;
use lacus::files::FileError;
use lacus::history::HistoryError;
use lacus::io::IoError;
use lacus::table::{ErrorKind, TableError};
use lacus::tensor::TensorError;
use lacus::{Error, Hint};
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

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if error.is_cancelled() {
            return Failure::stopped();
        }
        let failure = Failure::new(error.kind(), error.to_string());
        let failure = match error.hint() {
            Some(hint) => match told(&hint) {
                Some(words) => failure.hint(words),
                None => failure,
            },
            None => failure,
        };
        match error {
            Error::History(HistoryError::Ambiguous { candidates, .. }) => {
                failure.details(json!({"candidates": candidates}))
            }
            Error::History(HistoryError::Conflicts { conflicts, without_union }) => {
                failure.details(json!({"conflicts": conflicts, "without_union": without_union}))
            }
            _ => failure,
        }
    }
}

/// What helps, as commands.
fn told(hint: &Hint) -> Option<String> {
    let words = match hint {
        Hint::Create { url } => return Some(format!("`lacus create {url}` creates one")),
        Hint::EmptyPlace => "choose an empty location",
        Hint::ListTensors => "`lacus ls` lists the tensors",
        Hint::ListColumns => "`lacus info` lists the columns",
        Hint::ListVersions => "`lacus history` lists the versions",
        Hint::ListRefs => {
            "`lacus branch` and `lacus tag` list names, `lacus log` commits, `lacus history` versions"
        }
        Hint::OtherBranch => "`lacus branch` lists them",
        Hint::ListViews => "`lacus views` lists the saved views",
        Hint::ReadRows => "`lacus head` shows rows, `lacus export` writes them to files",
        Hint::Credentials => "check permissions and credentials (the environment, or --storage-option)",
        Hint::Doctor => "`lacus doctor` checks the whole dataset",
        Hint::Check => "`lacus check` checks the whole history",
        Hint::FirstCommit => "`lacus commit -m MESSAGE` creates the first",
        Hint::CleanedUp => "a clean-up (`lacus gc --keep`) removed what was old",
        Hint::MoreDigits => "give more digits",
        Hint::DecideConflicts => "choose with -X ours, -X theirs or -X union",
        Hint::SkipErrors => "--on-error skip leaves these out and lists them",
        Hint::Kind => "specify the format with --as",
        Hint::SumDuplicates => "--sum-duplicates adds their values",
        Hint::DiscardOthers => "--force discards them as well",
        // The message names the commands already.
        _ => return None,
    };
    Some(words.to_owned())
}

/// Errors of the parts, on the way to the one above.
macro_rules! failures {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Error::from(error).into()
            }
        }
    )*};
}

failures!(TableError, DatasetError, ExchangeError, HistoryError, IoError, TensorError, FileError);

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
