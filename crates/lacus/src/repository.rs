//! A dataset as a program holds it: its store, its history, and every state of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use lacus_dataset::{Dataset, SampleTypes, StateId, View, ViewData};
use lacus_history::{Commit, CommitId, HistoryError, Resolved, SavedView, Timeline, views};
use lacus_io::{Store, World, boxed};
use lacus_table::{At as TableAt, Table};

use crate::checkout::Checkout;
use crate::error::Error;
use crate::place::{At, Pinned, Place};

/// Options of a store by name, such as `aws_region`.
pub type StorageOptions = BTreeMap<String, String>;

/// A dataset at a URL. Cheap to clone; nothing is read until something is asked for.
#[derive(Clone, Debug)]
pub struct Repository {
    url: Arc<str>,
    timeline: Timeline,
}

impl Repository {
    /// Makes an empty dataset, and is on main.
    #[boxed]
    pub async fn create(url: &str, options: &StorageOptions) -> Result<Checkout, Error> {
        Repository::create_in(url, Store::open(url, options)?, World::real()).await
    }

    /// The same in a store, with this clock and these dice. `url` is what messages call it.
    #[boxed]
    pub async fn create_in(url: &str, store: Store, world: World) -> Result<Checkout, Error> {
        let table = Table::create(store.clone(), world.clone()).await?;
        let repository = Repository::over(url, store, world);
        Ok(Checkout::new(repository, table, Place::main()))
    }

    /// The dataset at a URL. Whether there is one is found out by whoever asks for something.
    pub fn at(url: &str, options: &StorageOptions) -> Result<Repository, Error> {
        Ok(Repository::over(url, Store::open(url, options)?, World::real()))
    }

    /// The same in a store, with this clock and these dice.
    pub fn over(url: &str, store: Store, world: World) -> Repository {
        // Merges ask what types of columns mean.
        let timeline = Timeline::new(store, world).with_types(Arc::new(SampleTypes));
        Repository { url: url.into(), timeline }
    }

    /// Whether there is a dataset at a URL.
    #[boxed]
    pub async fn exists(url: &str, options: &StorageOptions) -> Result<bool, Error> {
        Ok(Table::exists(&Store::open(url, options)?).await?)
    }

    /// Removes a dataset with its whole history, for good.
    #[boxed]
    pub async fn delete(url: &str, options: &StorageOptions) -> Result<(), Error> {
        Ok(Table::delete(Store::open(url, options)?, World::real()).await?)
    }

    /// Where it is, as the caller wrote it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        self.timeline.home()
    }

    /// Its clock and dice.
    pub fn world(&self) -> &World {
        self.timeline.world()
    }

    /// Its history: commits, branches, tags, clean-up.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// A branch, to write to.
    #[boxed]
    pub async fn checkout(&self, branch: &str) -> Result<Checkout, Error> {
        self.open(&Place::on(branch), &At::Here).await
    }

    /// What `at` means to somebody at `place`: the tip of a branch, which can be written to and moves, or a state, which stays.
    #[boxed]
    pub async fn open(&self, place: &Place, at: &At) -> Result<Checkout, Error> {
        match self.opened(place, at).await {
            Ok((table, place)) => Ok(Checkout::new(self.clone(), table, place)),
            // Nothing is called anything where there is no dataset.
            Err(error @ Error::History(_)) if !Table::exists(self.store()).await? => {
                let opened = Table::open(self.store().clone(), self.world().clone(), TableAt::Tip).await;
                Err(opened.err().map_or(error, Error::from))
            }
            Err(error) => Err(error),
        }
    }

    /// The same, only to be read, even if it is the tip of a branch.
    #[boxed]
    pub async fn look(&self, place: &Place, at: &At) -> Result<Checkout, Error> {
        let mut found = self.open(place, at).await?;
        found.pin();
        Ok(found)
    }

    /// A checkout of a table of this dataset that is open already, to look at.
    pub fn around(&self, mut table: Table, place: Place) -> Checkout {
        let pinned = place.pinned.unwrap_or(Pinned::Version(table.version()));
        table.set_read_only();
        Checkout::new(self.clone(), table, place.at(pinned))
    }

    async fn opened(&self, place: &Place, at: &At) -> Result<(Table, Place), Error> {
        let timeline = &self.timeline;
        let version = match at {
            At::Here => match place.pinned {
                None => return Ok((timeline.open(&place.branch, None).await?.table, place.clone())),
                Some(Pinned::Commit(id)) => {
                    let commit = timeline.commits().read(&id).await?;
                    return Ok((timeline.state(&id, &commit).await?, place.clone()));
                }
                Some(Pinned::Version(version)) => TableAt::Version(version),
            },
            At::Text(text) | At::TextOrTime(text, _) => match (self.resolve(place, text).await, at) {
                (Ok(Resolved::Branch(held)), _) => {
                    let table = timeline.open(held.name(), None).await?.table;
                    return Ok((table, Place::on(held.name())));
                }
                (Ok(Resolved::Commit(id, commit)), _) => {
                    return Ok((timeline.state(&id, &commit).await?, place.at(Pinned::Commit(id))));
                }
                (Ok(Resolved::Version(version)), _) => TableAt::Version(version),
                (Ok(Resolved::Time(time)), _) => TableAt::Time(time),
                (
                    Err(Error::History(HistoryError::NoSuchRef { .. } | HistoryError::BadRevision { .. })),
                    At::TextOrTime(_, time),
                ) => TableAt::Time(*time),
                (Err(error), _) => return Err(error),
            },
            At::Version(version) => TableAt::Version(*version),
            At::Time(time) => TableAt::Time(*time),
        };
        let table = timeline.pinned(&place.branch, version).await?.table;
        let place = place.at(Pinned::Version(table.version()));
        Ok((table, place))
    }

    /// What a text means to somebody at `place`.
    #[boxed]
    pub async fn resolve(&self, place: &Place, text: &str) -> Result<Resolved, Error> {
        Ok(self.timeline.resolve(&place.branch, &place.revision(text)).await?)
    }

    /// The commit that a text means to somebody at `place`; without one, where they stand.
    #[boxed]
    pub async fn commit_at(
        &self,
        place: &Place,
        text: Option<&str>,
    ) -> Result<(CommitId, Arc<Commit>), Error> {
        match (text, place.commit()) {
            // A version has no name among commits: there, `HEAD` is the branch's.
            (Some(text), None) => Ok(self.timeline.resolve_commit(&place.branch, text).await?),
            (Some(text), Some(_)) => {
                Ok(self.timeline.resolve_commit(&place.branch, &place.revision(text)).await?)
            }
            (None, Some(id)) => Ok((id, self.timeline.commits().read(&id).await?)),
            (None, None) => Ok(self.timeline.resolve_commit(&place.branch, "HEAD").await?),
        }
    }

    /// All rows and columns of a state: `main`, a tag, a commit, `main~2`, a time.
    #[boxed]
    pub async fn view(&self, at: &str) -> Result<View, Error> {
        self.look(&Place::main(), &At::from(at)).await?.view().await
    }

    /// The view that `data` describes. Its state may have been cleaned up, which is an error.
    #[boxed]
    pub async fn view_of(&self, data: &ViewData) -> Result<View, Error> {
        let table = self.state_of(&data.state).await?;
        Ok(View::from_data(Arc::new(Dataset::new(table)), data).await?)
    }

    fn state_of<'a>(&'a self, state: &'a StateId) -> BoxFuture<'a, Result<Table, Error>> {
        Box::pin(async move {
            if let Some(id) = state.commit.as_deref().and_then(CommitId::parse) {
                let commit = match self.timeline.commits().read(&id).await {
                    // A dataset that moved or was deleted has no commits either, and that is what the caller has to know.
                    Err(error @ HistoryError::NoSuchCommit { .. }) => {
                        Table::open(self.store().clone(), self.world().clone(), TableAt::Tip).await?;
                        return Err(error.into());
                    }
                    found => found?,
                };
                return Ok(self.timeline.state(&id, &commit).await?);
            }
            Ok(self.timeline.version_of(&state.directory, state.version).await?)
        })
    }

    /// Saves a view under a name that nobody uses yet. Its rows must be a commit's: a draft changes, a commit stays. `query` is the
    /// text of the query it answers, if it came from one.
    #[boxed]
    pub async fn save_view(
        &self,
        name: &str,
        view: &View,
        message: &str,
        query: Option<String>,
    ) -> Result<SavedView, Error> {
        let state = view.state();
        let known = state.commit.as_deref().and_then(CommitId::parse);
        let commit = match known {
            Some(id) => id,
            None => self.commit_of(view).await?,
        };
        let mut data = view.data();
        data.state.commit = Some(commit.to_string());
        let fault = |e: serde_json::Error| HistoryError::Fault { what: format!("a view as JSON: {e}") };
        let saved = SavedView {
            name: name.to_owned(),
            commit,
            author: String::new(),
            time_millis: 0,
            message: message.to_owned(),
            query,
            rows: view.len(),
            view: serde_json::to_value(&data).map_err(fault)?,
        };
        Ok(self.timeline.save_view(saved).await?)
    }

    /// The commit whose content a view is of.
    pub(crate) async fn commit_of(&self, view: &View) -> Result<CommitId, Error> {
        let state = view.state();
        let branch = self.timeline.branch_in(&state.directory).await?;
        let found = self.timeline.commit_with(&branch, &state.directory, state.version).await?;
        match found {
            Some(id) => Ok(id),
            None => {
                let count = self.timeline.tip(&branch).await?.draft.len();
                Err(match count {
                    0 => {
                        let version = state.version;
                        let why = format!(
                            "no commit has what version {version} of {branch:?} had; take the view again"
                        );
                        HistoryError::Refused { op: "save a view", why }
                    }
                    count => HistoryError::Draft { op: "save a view", branch, count },
                }
                .into())
            }
        }
    }

    /// The views that were saved, sorted by name.
    #[boxed]
    pub async fn views(&self) -> Result<Vec<SavedView>, Error> {
        Ok(views::list(self.store()).await?)
    }

    /// The saved view of this name.
    #[boxed]
    pub async fn saved_view(&self, name: &str) -> Result<(SavedView, View), Error> {
        let saved = views::get(self.store(), name).await?;
        let data: ViewData = serde_json::from_value(saved.view.clone()).map_err(|error| {
            let why = format!("the saved view {name:?} cannot be read by this version of lacus: {error}");
            HistoryError::Refused { op: "open a view", why }
        })?;
        let view = self.view_of(&data).await?;
        Ok((saved, view))
    }

    /// Deletes a saved view. Its commit stays.
    #[boxed]
    pub async fn delete_view(&self, name: &str) -> Result<(), Error> {
        Ok(views::delete(self.store(), name).await?)
    }
}
