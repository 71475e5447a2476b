//! A dataset and where the user stands in it.

use lacus_history::{CommitId, HistoryError, Resolved, State, Timeline};
use lacus_table::{At, ErrorKind, Table};

use crate::checkouts::{Detached, Position};
use crate::failure::Failure;

/// A dataset and where the user stands in it.
pub(crate) struct Place {
    /// As the user wrote it.
    pub url: String,
    pub timeline: Timeline,
    pub position: Position,
}

impl Place {
    /// The branch one stands on, or looked for a state on.
    pub(crate) fn branch(&self) -> &str {
        &self.position.branch
    }

    /// The branch to write to; a state that is only read is refused.
    pub(crate) fn writable(&self) -> Result<&str, Failure> {
        match self.position.detached {
            None => Ok(self.branch()),
            Some(at) => Err(Failure::invalid(format!("detached at {at}: nothing can be written here"))
                .hint(format!("`lacus checkout {} -b NAME` makes a branch of it", self.url))),
        }
    }

    /// The table of the branch to write to.
    pub(crate) async fn open_to_write(&self) -> Result<Table, Failure> {
        let branch = self.writable()?;
        let opened = self.timeline.open(branch, None).await.map_err(|error| self.explained(error))?;
        Ok(opened.table)
    }

    /// What is read: the state that `at` names, or where one stands.
    pub(crate) async fn open(&self, at: Option<&str>) -> Result<Table, Failure> {
        let branch = self.branch();
        let opened = match (at, self.position.detached) {
            (Some(text), _) => self.timeline.open(branch, Some(&self.revision(text))).await,
            (None, None) => self.timeline.open(branch, None).await,
            (None, Some(Detached::Commit(id))) => self.timeline.open(branch, Some(&id.to_string())).await,
            (None, Some(Detached::Version(version))) => {
                self.timeline.pinned(branch, At::Version(version)).await
            }
        };
        Ok(opened.map_err(|error| self.explained(error))?.table)
    }

    /// The revision that a text means here: `HEAD` is where one stands.
    pub(crate) fn revision(&self, text: &str) -> String {
        let Some(at) = self.position.detached else { return text.to_owned() };
        let rest = |word: &str| {
            text.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with(['~', '^']))
        };
        match rest("HEAD").or_else(|| rest("@")) {
            Some(rest) => format!("{}{rest}", in_full(at)),
            None => text.to_owned(),
        }
    }

    /// The state to compare with when nothing is said.
    pub(crate) fn here(&self) -> State {
        match self.position.detached {
            None => State::Newest,
            Some(at) => State::Revision(in_full(at)),
        }
    }

    pub(crate) async fn resolve(&self, text: &str) -> Result<Resolved, Failure> {
        let resolved = self.timeline.resolve(self.branch(), &self.revision(text)).await;
        resolved.map_err(|error| self.explained(error))
    }

    /// The commit that a text means; without one, the newest of where one stands.
    pub(crate) async fn commit(
        &self,
        text: Option<&str>,
    ) -> Result<(CommitId, std::sync::Arc<lacus_history::Commit>), Failure> {
        let text = self.revision(text.unwrap_or("HEAD"));
        let found = self.timeline.resolve_commit(self.branch(), &text).await;
        found.map_err(|error| self.explained(error))
    }

    /// An error with what helps here.
    pub(crate) fn explained(&self, error: HistoryError) -> Failure {
        match &error {
            // Versions are counted, so one that is not there is not found, whatever else the word may be.
            HistoryError::BadRevision { text, .. } if is_version(text) => {
                Failure::new(ErrorKind::NotFound, error.to_string())
                    .hint("`lacus history` lists the versions")
            }
            HistoryError::NoSuchRef { name, what: "branch", .. } if name == self.branch() => {
                Failure::from(error).hint(format!("`lacus checkout {} main` goes to main", self.url))
            }
            _ => error.into(),
        }
    }
}

fn in_full(at: Detached) -> String {
    match at {
        Detached::Commit(id) => id.to_string(),
        Detached::Version(version) => format!("@{version}"),
    }
}

fn is_version(text: &str) -> bool {
    let digits = text.strip_prefix('@').or_else(|| text.strip_prefix("version:")).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}
