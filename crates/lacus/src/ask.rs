//! Questions in SQL, asked of views: which datasets a query names, and where they are.

use async_trait::async_trait;
use lacus_dataset::View;
use lacus_query::{Answer, Named, QueryError, Question, Sources};

use crate::error::Error;
use crate::place::{At, Place};
use crate::repository::{Repository, StorageOptions};

/// What a question may read.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// What `dataset` is, and what is read without FROM.
    pub dataset: Option<View>,
    /// The repository that `dataset` is of: other states of it are opened there.
    pub repository: Option<Repository>,
    /// Where one stands in it: `dataset@"HEAD"`.
    pub place: Place,
    /// Other views, by name.
    pub others: Vec<(String, View)>,
    /// For datasets that are named by their URL.
    pub storage_options: StorageOptions,
}

impl Asked {
    /// Of a view alone.
    pub fn of(view: View) -> Asked {
        Asked { dataset: Some(view), ..Asked::default() }
    }
}

/// Answers a question.
pub async fn ask(question: &Question, asked: &Asked) -> Result<Answer, Error> {
    Ok(lacus_query::ask(question, asked).await?)
}

/// How a question would be answered; if `analyze`, it is answered, and the explanation says what was read.
pub async fn explain(question: &Question, asked: &Asked, analyze: bool) -> Result<String, Error> {
    Ok(lacus_query::explain(question, asked, analyze).await?)
}

#[async_trait]
impl Sources for Asked {
    fn has_default(&self) -> bool {
        self.dataset.is_some()
    }

    fn names(&self) -> Vec<String> {
        let dataset = self.dataset.iter().map(|_| "dataset".to_owned());
        dataset.chain(self.others.iter().map(|(name, _)| name.clone())).collect()
    }

    async fn open(&self, named: &Named) -> Result<Option<View>, QueryError> {
        let known = self.others.iter().find(|(name, _)| *name == named.name);
        if let (Some((_, view)), None) = (known, &named.at) {
            return Ok(Some(view.clone()));
        }
        if let Some((name, _)) = known {
            let why = format!(
                "{name:?} is a view, which has one state; name the dataset by its URL to read another"
            );
            return Err(QueryError::text(why));
        }
        if named.name == "dataset" && self.dataset.is_some() {
            let Some(at) = &named.at else { return Ok(self.dataset.clone()) };
            let Some(repository) = &self.repository else {
                return Err(QueryError::text("a view has one state: ask the dataset for another"));
            };
            let at = At::from(at.as_str());
            let opened = repository.look(&self.place, &at).await.map_err(unreadable)?;
            return Ok(Some(opened.view().await.map_err(unreadable)?));
        }
        if !named.name.contains('/') {
            return Ok(None);
        }
        let repository = Repository::at(&named.name, &self.storage_options).map_err(unreadable)?;
        let at = named.at.as_deref().map_or(At::Here, At::from);
        let opened = repository.look(&Place::main(), &at).await.map_err(unreadable)?;
        Ok(Some(opened.view().await.map_err(unreadable)?))
    }
}

/// A dataset that cannot be opened, with what its own error says.
fn unreadable(error: Error) -> QueryError {
    match error {
        Error::Dataset(error) => error.into(),
        Error::Table(error) => lacus_dataset::DatasetError::from(error).into(),
        other => QueryError::text(other.to_string()),
    }
}
