//! A branch that one writes to, or a state that one looks at.

use std::sync::Arc;

use futures::future::BoxFuture;
use lacus_dataset::{Dataset, View};
use lacus_history::{
    Combined, Compared, Decide, FastForward, HistoryError, Record, Recorded, State, Status, merge_message,
    revert_message,
};
use lacus_io::boxed;
use lacus_table::{Table, TableError, WriteOptions};

use crate::error::Error;
use crate::place::{At, Pinned, Place};
use crate::repository::Repository;

/// A branch that one writes to: tensors, rows, transactions, commits, merges; or a state that one looks at, which refuses all
/// writes. Got by [`Repository::checkout`] and [`Repository::look`].
///
/// It stays at the version it saw until its own next write or [`Table::refresh`].
#[derive(Debug)]
pub struct Checkout {
    repository: Repository,
    dataset: Dataset,
    place: Place,
}

impl Checkout {
    pub(crate) fn new(repository: Repository, mut table: Table, place: Place) -> Checkout {
        if place.pinned.is_some() {
            table.set_read_only();
        }
        Checkout { repository, dataset: Dataset::new(table), place }
    }

    /// A checkout of what this one sees, which stays there.
    pub fn frozen(&self) -> Checkout {
        let place = match self.place.pinned {
            Some(_) => self.place.clone(),
            None => self.place.at(Pinned::Version(self.table().version())),
        };
        Checkout { repository: self.repository.clone(), dataset: self.dataset.frozen(), place }
    }

    /// Refuses writes from now on, and stays.
    pub fn pin(&mut self) {
        self.dataset.table_mut().set_read_only();
        if self.place.pinned.is_none() {
            self.place = self.place.at(Pinned::Version(self.table().version()));
        }
    }

    /// The dataset it is of.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Where it stands.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its rows, columns and arrays.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The same, to write to.
    pub fn dataset_mut(&mut self) -> &mut Dataset {
        &mut self.dataset
    }

    /// Its rows, columns and arrays alone, at the state it is at.
    pub fn into_dataset(self) -> Dataset {
        self.dataset
    }

    /// Its arrays and versions.
    pub fn table(&self) -> &Table {
        self.dataset.table()
    }

    /// The same, to write to.
    pub fn table_mut(&mut self) -> &mut Table {
        self.dataset.table_mut()
    }

    /// All rows and columns of what it sees, the writes of a transaction included.
    #[boxed]
    pub async fn view(&self) -> Result<View, Error> {
        let commit = self.place.commit().map(|id| id.to_string());
        Ok(View::all(Arc::new(self.dataset.frozen()), commit).await?)
    }

    /// Gives the newest version of the branch the name of a commit, and makes it safe against power loss. Without a draft
    /// it is refused unless `allow_empty`.
    #[boxed]
    pub async fn commit(&mut self, record: &Record, allow_empty: bool) -> Result<Recorded, Error> {
        self.refuse_transaction("commit")?;
        let done = self.repository.timeline().commit(self.dataset.table_mut(), record, allow_empty).await;
        self.done(done).await
    }

    /// Begins a transaction: nothing is visible to others until [`Checkout::finish`].
    pub fn begin(&mut self) -> Result<(), Error> {
        self.refuse_transaction("transaction")?;
        Ok(self.dataset.table_mut().begin()?)
    }

    /// Ends the transaction: everything in it is one commit, or nothing was written.
    #[boxed]
    pub async fn finish(
        &mut self,
        record: &Record,
        options: &WriteOptions,
    ) -> Result<Option<Recorded>, Error> {
        self.ask_transaction()?;
        let timeline = self.repository.timeline();
        let done = timeline.commit_transaction(self.dataset.table_mut(), record, options).await;
        self.done(done).await
    }

    /// Gives the transaction up.
    #[boxed]
    pub async fn abandon(&mut self) -> Result<(), Error> {
        self.ask_transaction()?;
        self.dataset.table_mut().abandon().await;
        self.dataset.forget_columns();
        Ok(())
    }

    /// Throws the draft away: the newest version gets the content of the newest commit. Versions of others than `author` are
    /// refused unless `force`. Returns how many there were.
    #[boxed]
    pub async fn discard(
        &mut self,
        author: Option<&str>,
        force: bool,
        options: &WriteOptions,
    ) -> Result<usize, Error> {
        self.refuse_transaction("discard")?;
        let timeline = self.repository.timeline();
        let done = timeline.discard(self.dataset.table_mut(), author, force, options).await;
        self.done(done).await
    }

    /// Makes the newest version what the dataset was at another state: a draft, to be committed or discarded.
    #[boxed]
    pub async fn restore(&mut self, at: &At, options: &WriteOptions) -> Result<u64, Error> {
        self.refuse_transaction("restore")?;
        let state = self.repository.look(&self.place, at).await?;
        let timeline = self.repository.timeline();
        let done = timeline.restore(self.dataset.table_mut(), state.table(), options).await;
        self.done(done).await
    }

    /// Merges the commit that a revision means. A record without a message gets one that says what was merged.
    pub fn merge<'a>(
        &'a mut self,
        revision: &'a str,
        record: &'a Record,
        fast_forward: FastForward,
        decide: Decide<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Combined, Error>> {
        Box::pin(async move {
            self.refuse_transaction("merge")?;
            let (id, commit) = self.repository.commit_at(&self.place, Some(revision)).await?;
            let record = with_message(record, || merge_message(revision, &self.place.branch));
            let (timeline, table) = (self.repository.timeline(), self.dataset.table_mut());
            let done = timeline.merge(table, (id, &commit), &record, fast_forward, decide, options).await;
            self.done(done).await
        })
    }

    /// Makes the changes of one commit here as well. A record without a message gets the commit's.
    pub fn cherry_pick<'a>(
        &'a mut self,
        revision: &'a str,
        record: &'a Record,
        decide: Decide<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Combined, Error>> {
        Box::pin(async move {
            self.refuse_transaction("cherry-pick")?;
            let (id, commit) = self.repository.commit_at(&self.place, Some(revision)).await?;
            let record = with_message(record, || commit.message.clone());
            let (timeline, table) = (self.repository.timeline(), self.dataset.table_mut());
            let done = timeline.cherry_pick(table, (id, &commit), &record, decide, options).await;
            self.done(done).await
        })
    }

    /// Undoes the changes of one commit. For a merge, and only then, `mainline` says which of its parents is gone back to, from 1
    /// on. A record without a message gets one that says what was undone.
    pub fn revert<'a>(
        &'a mut self,
        revision: &'a str,
        mainline: Option<u64>,
        record: &'a Record,
        decide: Decide<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Combined, Error>> {
        Box::pin(async move {
            self.refuse_transaction("revert")?;
            let (id, commit) = self.repository.commit_at(&self.place, Some(revision)).await?;
            let record = with_message(record, || revert_message(&id, &commit, mainline));
            let (timeline, table) = (self.repository.timeline(), self.dataset.table_mut());
            let reverted = (id, &*commit);
            let done = timeline.revert_along(table, reverted, mainline, &record, decide, options).await;
            self.done(done).await
        })
    }

    /// Looks at another state from now on. A draft must not be left behind unless `force`.
    #[boxed]
    pub async fn switch(&mut self, at: &At, force: bool) -> Result<(), Error> {
        self.refuse_open_transaction("checkout")?;
        let to = self.repository.open(&self.place, at).await?;
        let stays = to.place == Place::on(&self.place.branch);
        if !stays && !force {
            self.refuse_draft().await?;
        }
        self.become_(to);
        Ok(())
    }

    /// Makes a branch of the commit that `from` means, or of where one stands, and goes there.
    #[boxed]
    pub async fn switch_to_new(&mut self, name: &str, from: Option<&str>, force: bool) -> Result<(), Error> {
        self.refuse_open_transaction("checkout")?;
        if !force {
            self.refuse_draft().await?;
        }
        let (id, commit) = self.repository.commit_at(&self.place, from).await?;
        self.repository.timeline().create_branch(name, (id, &commit)).await?;
        let to = self.repository.checkout(name).await?;
        self.become_(to);
        Ok(())
    }

    /// Goes by another name from now on: the branch was renamed.
    pub fn renamed(&mut self, branch: &str) {
        self.place.branch = branch.to_owned();
        self.dataset.table_mut().set_label(branch);
    }

    /// Where the branch stands, and what is in its draft.
    #[boxed]
    pub async fn status(&self) -> Result<Status, Error> {
        Ok(self.repository.timeline().status(&self.place.branch).await?)
    }

    /// What differs between two states; without them, between the newest commit and what there is now.
    #[boxed]
    pub async fn diff(&self, before: &State, after: &State) -> Result<Compared, Error> {
        Ok(self.repository.timeline().diff(&self.place.branch, before, after).await?)
    }

    fn become_(&mut self, to: Checkout) {
        // Where links may lead stays.
        self.dataset.replace_table(to.dataset.into_table());
        self.place = to.place;
    }

    /// Refuses to leave a draft behind.
    async fn refuse_draft(&self) -> Result<(), Error> {
        match self.place.pinned {
            Some(_) => Ok(()),
            None => {
                let tip = self.repository.timeline().tip_of(self.dataset.table()).await?;
                Ok(tip.refuse_draft("checkout")?)
            }
        }
    }

    /// Refuses what is done before or after a transaction, and everything at a state that is only looked at.
    fn refuse_transaction(&self, op: &'static str) -> Result<(), Error> {
        if self.place.pinned.is_some() {
            return Err(TableError::ReadOnly { version: self.table().version() }.into());
        }
        self.refuse_open_transaction(op)
    }

    fn refuse_open_transaction(&self, op: &'static str) -> Result<(), Error> {
        match self.table().in_transaction() {
            false => Ok(()),
            true => {
                let why = "a transaction is open; this is done before or after it".to_owned();
                Err(HistoryError::Refused { op, why }.into())
            }
        }
    }

    fn ask_transaction(&self) -> Result<(), Error> {
        match self.table().in_transaction() {
            true => Ok(()),
            false => {
                let why = "no transaction is open".to_owned();
                Err(HistoryError::Refused { op: "transaction", why }.into())
            }
        }
    }

    /// After a change of the history. Whatever went wrong, no transaction outlives it.
    async fn done<T>(&mut self, done: Result<T, HistoryError>) -> Result<T, Error> {
        let table = self.dataset.table_mut();
        if done.is_err() && table.in_transaction() {
            table.abandon().await;
        }
        self.dataset.forget_columns();
        Ok(done?)
    }
}

fn with_message(record: &Record, message: impl FnOnce() -> String) -> Record {
    match record.message.is_empty() {
        true => Record { message: message(), ..record.clone() },
        false => record.clone(),
    }
}
