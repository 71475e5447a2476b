//! Branches come and go: made from any commit, listed with where they stand to each other, published.

use lacus_io::boxed;
use lacus_table::WriteOptions;

use crate::branches::{self, BranchRef, Held, directory_for};
use crate::commits::Commit;
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::tags::{self, Tag};
use crate::timeline::Timeline;
use crate::views::{self, SavedView};
use crate::walk::ahead_behind;

/// A branch, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchInfo {
    /// Its name.
    pub name: String,
    /// The directory of its table; empty for main.
    pub directory: String,
    /// Its newest commit.
    pub head: Option<CommitId>,
    /// The first line of that commit's message.
    pub summary: String,
    /// When it was made, milliseconds since 1970.
    pub time_millis: i64,
    /// Versions in its draft.
    pub draft: usize,
    /// Commits it has that the branch compared with has not, and the other way round; `None` without commits.
    pub ahead_behind: Option<(u64, u64)>,
    /// Files it borrows from other branches: none for one that any reader opens.
    pub borrowed_files: usize,
}

impl Timeline {
    /// Makes a branch from a commit. Only metadata is written, whatever the size of the data.
    #[boxed]
    pub async fn create_branch(&self, name: &str, from: (CommitId, &Commit)) -> Result<Held, HistoryError> {
        let (id, commit) = from;
        crate::names::check_new_name("branch", name)?;
        if tags::find(self.home(), name).await?.is_some() {
            return Err(HistoryError::NameTaken { what: "tag", name: name.to_owned() });
        }
        if branches::find(self.home(), name).await?.is_some() {
            return Err(HistoryError::NameTaken { what: "branch", name: name.to_owned() });
        }
        // A clean-up may have removed it since it was read.
        self.commits().read_stored(&id).await?;
        let state = self.state(&id, commit).await?;
        let mut taken: Vec<String> = branches::list_with_deleted(self.home())
            .await?
            .into_iter()
            .map(|held| held.branch().directory.clone())
            .collect();
        taken.extend(self.home().names("_branches").await?.into_iter().map(|d| format!("_branches/{d}")));
        // Commits may still name versions of tables that were removed.
        taken.extend(crate::marks::directories(self.home()).await?);
        let table = loop {
            let directory = directory_for(name, |directory| taken.iter().any(|t| t == directory));
            match state.fork(&directory).await {
                Ok(table) => break table,
                // Somebody else makes a branch there.
                Err(lacus_table::TableError::AlreadyExists { .. }) => taken.push(directory),
                Err(error) => return Err(error.into()),
            }
        };
        let branch = BranchRef {
            name: name.to_owned(),
            directory: table.directory().to_owned(),
            head: Some(id),
            version: table.version(),
            deleted: false,
            time_millis: self.world().now_millis(),
            from: Some(id),
        };
        let held = branches::create(self.home(), self.world(), branch).await?;
        self.make_durable(&id, &held)?;
        Ok(held)
    }

    /// Deletes a branch. Its commits stay as long as something else reaches them, its table until a clean-up. One with
    /// a draft, or with commits that no other branch or tag reaches, is refused unless `force`.
    #[boxed]
    pub async fn delete_branch(&self, name: &str, force: bool) -> Result<(), HistoryError> {
        let tip = self.tip(name).await?;
        if !force {
            tip.refuse_draft("delete branch")?;
            if let Some(head) = tip.head
                && !self.is_reached_without(&head, name).await?
            {
                let why = format!(
                    "commits of {name:?} are on no other branch or tag (its head is {}); merge it, tag it, or force",
                    head.short()
                );
                return Err(HistoryError::Refused { op: "delete branch", why });
            }
        }
        branches::delete(self.home(), self.world(), &tip.held).await?;
        Ok(())
    }

    /// Whether a commit is reached by a tag, a saved view or a branch other than `name`.
    async fn is_reached_without(&self, head: &CommitId, name: &str) -> Result<bool, HistoryError> {
        let mut others: Vec<CommitId> =
            tags::list(self.home()).await?.into_iter().map(|tag| tag.commit).collect();
        others.extend(views::list(self.home()).await?.into_iter().map(|view| view.commit));
        let branches = branches::list(self.home()).await?;
        others
            .extend(branches.iter().filter(|held| held.name() != name).filter_map(|held| held.branch().head));
        for other in others {
            if crate::walk::is_ancestor(self.commits(), head, &other).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives a branch another name. Its table stays where it is.
    #[boxed]
    pub async fn rename_branch(&self, from: &str, to: &str) -> Result<(), HistoryError> {
        crate::names::check_new_name("branch", to)?;
        if tags::find(self.home(), to).await?.is_some() {
            return Err(HistoryError::NameTaken { what: "tag", name: to.to_owned() });
        }
        let held = branches::get(self.home(), from).await?;
        branches::rename(self.home(), self.world(), &held, to).await?;
        Ok(())
    }

    /// All branches, sorted by name, each compared with `with`.
    #[boxed]
    pub async fn list_branches(&self, with: &str) -> Result<Vec<BranchInfo>, HistoryError> {
        let compared = self.tip(with).await?.head;
        let mut found = Vec::new();
        for held in branches::list(self.home()).await? {
            let tip = self.tip(held.name()).await?;
            let head = match tip.head {
                Some(id) => Some(self.commits().read_for(&id, || format!("branch {:?}", held.name())).await?),
                None => None,
            };
            let ahead_behind = match (tip.head, compared) {
                (Some(ours), Some(theirs)) => Some(ahead_behind(self.commits(), &ours, &theirs).await?),
                _ => None,
            };
            found.push(BranchInfo {
                name: held.name().to_owned(),
                directory: held.branch().directory.clone(),
                head: tip.head,
                summary: head.as_ref().map(|commit| commit.summary().to_owned()).unwrap_or_default(),
                time_millis: head.map_or(0, |commit| commit.time_millis),
                draft: tip.draft.len(),
                ahead_behind,
                borrowed_files: tip.table.borrowed_files().0,
            });
        }
        Ok(found)
    }

    /// Gives a commit a name that stays.
    #[boxed]
    pub async fn create_tag(
        &self,
        name: &str,
        commit: CommitId,
        author: Option<String>,
        message: String,
    ) -> Result<Tag, HistoryError> {
        crate::names::check_new_name("tag", name)?;
        if branches::find(self.home(), name).await?.is_some() {
            return Err(HistoryError::NameTaken { what: "branch", name: name.to_owned() });
        }
        // A clean-up may have removed it since it was read.
        self.commits().read_stored(&commit).await?;
        let author = author.unwrap_or_else(lacus_table::default_author);
        let tag = Tag { name: name.to_owned(), commit, author, time_millis: 0, message };
        let tag = tags::create(self.home(), self.world(), tag).await?;
        self.home().make_durable(&[tags::tag_path(name)])?;
        Ok(tag)
    }

    /// Saves rows and columns of a commit under a name. `view` says all but the time, and the author where it is empty.
    #[boxed]
    pub async fn save_view(&self, view: SavedView) -> Result<SavedView, HistoryError> {
        crate::names::check_name("view", &view.name)?;
        // A clean-up may have removed it since it was read.
        self.commits().read_stored(&view.commit).await?;
        let author = match view.author.is_empty() {
            true => lacus_table::default_author(),
            false => view.author.clone(),
        };
        let view = views::create(self.home(), self.world(), SavedView { author, ..view }).await?;
        self.home().make_durable(&[views::view_path(&view.name)])?;
        Ok(view)
    }

    /// The commit with the content of a version of a table; `None` while the version is a draft. `branch` is where to look.
    #[boxed]
    pub async fn commit_with(
        &self,
        branch: &str,
        directory: &str,
        version: u64,
    ) -> Result<Option<CommitId>, HistoryError> {
        let tip = self.tip(branch).await?;
        let Some(head) = tip.head else { return Ok(None) };
        if tip.draft.is_empty() && tip.table.directory() == directory && tip.table.version() == version {
            return Ok(Some(head));
        }
        // A version that a fast-forward made carries a commit of another table.
        let newest = tip.table.version();
        if tip.table.directory() == directory && version <= newest {
            let entries = tip.table.history(usize::try_from(newest - version + 1).ok()).await?;
            let carried =
                entries.iter().find(|entry| entry.version == version).and_then(|e| e.commit.as_deref());
            if let Some(id) = carried.and_then(CommitId::parse) {
                return Ok(Some(id));
            }
        }
        let mut next = Some(head);
        while let Some(id) = next {
            let commit = self.commits().read(&id).await?;
            if commit.directory == directory && commit.version == version {
                return Ok(Some(id));
            }
            next = commit.parents.first().copied();
        }
        Ok(None)
    }

    /// Gives a branch files of its own, so that any Delta reader opens it. Returns the table's directory and how many files
    /// it had borrowed.
    #[boxed]
    pub async fn publish(
        &self,
        branch: &str,
        options: &WriteOptions,
    ) -> Result<(String, usize), HistoryError> {
        let held = branches::get(self.home(), branch).await?;
        let mut table = self.newest(&held).await?;
        let files = table.own_files(options).await?;
        Ok((held.branch().directory.clone(), files))
    }
}
