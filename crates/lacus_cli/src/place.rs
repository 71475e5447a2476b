//! A dataset and where the user stands in it.

use std::sync::Arc;

use lacus::history::{Commit, CommitId, Resolved, State, Timeline};
use lacus::table::Table;
use lacus::{At, Checkout, Error, Hint, Place, Repository};

use crate::failure::Failure;

/// A dataset and where the user stands in it.
pub(crate) struct Standing {
    pub repository: Repository,
    pub place: Place,
}

impl Standing {
    /// As the user wrote it.
    pub(crate) fn url(&self) -> &str {
        self.repository.url()
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        self.repository.timeline()
    }

    /// The branch one stands on, or looked for a state on.
    pub(crate) fn branch(&self) -> &str {
        &self.place.branch
    }

    /// The branch to write to; a state that is only read is refused.
    pub(crate) fn writable(&self) -> Result<&str, Failure> {
        match self.place.pinned {
            None => Ok(self.branch()),
            Some(at) => Err(Failure::invalid(format!("detached at {at}: nothing can be written here"))
                .hint(format!("`lacus checkout {} -b NAME` makes a branch of it", self.url()))),
        }
    }

    /// The branch to write to, checked out.
    pub(crate) async fn checkout(&self) -> Result<Checkout, Failure> {
        let branch = self.writable()?;
        self.repository.checkout(branch).await.map_err(|error| self.explained(error))
    }

    /// What is read: the state that `at` names, or where one stands.
    pub(crate) async fn open(&self, at: Option<&str>) -> Result<Table, Failure> {
        let at = at.map_or(At::Here, At::from);
        let opened = match (&at, self.place.pinned) {
            (At::Here, None) => self.repository.open(&self.place, &at).await,
            _ => self.repository.look(&self.place, &at).await,
        };
        Ok(opened.map_err(|error| self.explained(error))?.into_dataset().into_table())
    }

    /// The state to compare with when nothing is said.
    pub(crate) fn here(&self) -> State {
        match self.place.pinned {
            None => State::Newest,
            Some(at) => State::Revision(at.in_full()),
        }
    }

    pub(crate) async fn resolve(&self, text: &str) -> Result<Resolved, Failure> {
        self.repository.resolve(&self.place, text).await.map_err(|error| self.explained(error))
    }

    /// The commit that a text means; without one, where one stands.
    pub(crate) async fn commit(&self, text: Option<&str>) -> Result<(CommitId, Arc<Commit>), Failure> {
        let found = self.repository.commit_at(&self.place, Some(text.unwrap_or("HEAD"))).await;
        found.map_err(|error| self.explained(error))
    }

    /// An error with what helps here: if it is the branch one stands on that is gone, there is another.
    pub(crate) fn explained(&self, error: impl Into<Error>) -> Failure {
        let error = error.into();
        let stood = match (&error, error.hint()) {
            (
                Error::History(lacus::history::HistoryError::NoSuchRef { name, .. }),
                Some(Hint::OtherBranch),
            ) => name == self.branch(),
            _ => false,
        };
        match stood {
            true => Failure::from(error).hint(format!("`lacus checkout {} main` goes to main", self.url())),
            false => error.into(),
        }
    }
}
