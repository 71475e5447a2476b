//! A dataset's history: commits, branches, tags, differences, merges, clean-up. Values travel as JSON text.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lacus::history::{
    BranchInfo, Choice, Combined, Commit, CommitId, Conflict, FastForward, GcOptions, HistoryError, Lineage,
    Record, State, tags,
};
use lacus::table::{Content, Difference, Fate, HistoryEntry, Table, TensorDifference, WriteOptions};
use lacus::{At, Checkout, Error, Pinned, Place, Repository};
use pyo3::prelude::*;
use serde_json::{Value as Json, json};

use crate::convert::json as parse_json;
use crate::dataset::Dataset;
use crate::errors::invalid;
use crate::handle::{AtArguments, Handle, at};

/// What a commit says: message, author, metadata and lineage as JSON text.
type RecordArguments = (Option<String>, Option<String>, String, String);

/// How one tensor differs: name, whether it is a column, what became of it, whether its metadata differs, what became of
/// its content, chunks, and the ids of samples added, updated, cleared.
type TensorRow = (
    (String, Option<String>),
    bool,
    &'static str,
    bool,
    &'static str,
    Vec<Vec<i64>>,
    Vec<u64>,
    Vec<u64>,
    Vec<u64>,
);

/// What differs: metadata of the dataset, ids of rows added and deleted, tensors.
type DifferenceRow = (bool, Vec<u64>, Vec<u64>, Vec<TensorRow>);

/// Two states and what differs between them.
type ComparedRow = (Dataset, Dataset, DifferenceRow);

/// Where a branch stands: branch, head as JSON text, version, draft as JSON text, what the draft changed.
type StatusRow = (String, Option<String>, u64, String, DifferenceRow);

/// A tag: name, commit, author, time in milliseconds since 1970, message.
type TagRow = (String, String, String, i64, String);

/// The history of an open dataset.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct History {
    handle: Arc<Handle>,
}

impl History {
    pub(crate) fn new(handle: Arc<Handle>) -> History {
        History { handle }
    }

    /// Brings a commit's changes to this branch: a merge, a cherry-pick or a revert.
    fn combine(
        &self,
        py: Python<'_>,
        how: How,
        revision: &str,
        record: RecordArguments,
        decisions: Decisions,
    ) -> PyResult<(&'static str, Option<String>)> {
        let record = parsed(py, record)?;
        let mut decide = decisions.decide(py)?;
        let combined =
            self.handle.record(py, async |checkout: &mut Checkout, options: &WriteOptions| match how {
                How::Merge(forward) => checkout.merge(revision, &record, forward, &mut decide, options).await,
                How::CherryPick => checkout.cherry_pick(revision, &record, &mut decide, options).await,
                How::Revert(mainline) => {
                    checkout.revert(revision, mainline, &record, &mut decide, options).await
                }
            })?;
        Ok(match combined {
            Combined::UpToDate => ("up to date", None),
            Combined::FastForward(recorded) => ("fast-forward", Some(recorded.id.to_string())),
            Combined::Committed(recorded) => ("committed", Some(recorded.id.to_string())),
        })
    }
}

/// How a commit's changes come to a branch.
enum How {
    Merge(FastForward),
    CherryPick,
    /// Of a merge, with the parent that is gone back to.
    Revert(Option<u64>),
}

/// What was decided about conflicts: a choice for all, or for each by its text.
#[derive(FromPyObject)]
enum Decisions {
    All(String),
    Each(HashMap<String, String>),
}

impl Decisions {
    fn decide(self, py: Python<'_>) -> PyResult<impl FnMut(&Conflict) -> Choice + Send + use<>> {
        let (all, each) = match self {
            Decisions::All(all) => (choice(py, &all)?, HashMap::new()),
            Decisions::Each(each) => {
                let chosen = each.into_iter().map(|(conflict, text)| Ok((conflict, choice(py, &text)?)));
                (Choice::Stop, chosen.collect::<PyResult<HashMap<_, _>>>()?)
            }
        };
        Ok(move |conflict: &Conflict| match each.is_empty() {
            true => all,
            false => each.get(&conflict.to_string()).copied().unwrap_or(all),
        })
    }
}

fn choice(py: Python<'_>, text: &str) -> PyResult<Choice> {
    match text {
        "ours" => Ok(Choice::Ours),
        "theirs" => Ok(Choice::Theirs),
        "union" => Ok(Choice::Union),
        "stop" => Ok(Choice::Stop),
        other => {
            Err(invalid(py, format!("on_conflict: {other:?} is neither \"ours\", \"theirs\" nor \"union\"")))
        }
    }
}

fn parsed(py: Python<'_>, (message, author, metadata, lineage): RecordArguments) -> PyResult<Record> {
    let metadata = match parse_json(py, &metadata)? {
        Json::Object(metadata) => metadata,
        _ => return Err(invalid(py, "metadata must be a dict")),
    };
    let lineage: Vec<Lineage> =
        serde_json::from_str(&lineage).map_err(|error| invalid(py, format!("lineage: {error}")))?;
    Ok(Record { message: message.unwrap_or_default(), author, metadata, lineage })
}

/// A commit as JSON, with its id.
fn commit_json(id: &CommitId, commit: &Commit) -> Json {
    let mut json = serde_json::to_value(commit).unwrap_or_default();
    json["id"] = id.to_string().into();
    json
}

fn entry_json(entry: &HistoryEntry) -> Json {
    json!({
        "version": entry.version, "time_millis": entry.time_millis, "author": entry.author,
        "operation": entry.operation, "detail": entry.detail, "durable": entry.durable,
    })
}

fn tensor_row(tensor: TensorDifference) -> TensorRow {
    let fate = match tensor.fate {
        Fate::Kept => "changed",
        Fate::Added => "added",
        Fate::Dropped => "dropped",
        Fate::Retyped => "retyped",
    };
    let (mut chunks, mut samples) = (Vec::new(), (Vec::new(), Vec::new(), Vec::new()));
    let content = match tensor.content {
        Content::Same => "same",
        Content::Whole => "whole",
        Content::Chunks { changed } => {
            chunks = changed.iter().map(|coords| coords.to_vec()).collect();
            "chunks"
        }
        Content::Samples { added, updated, cleared } => {
            samples = (added, updated, cleared);
            "samples"
        }
    };
    let (added, updated, cleared) = samples;
    let (name, old) = (tensor.name, tensor.renamed_from);
    ((name, old), tensor.is_column, fate, tensor.metadata, content, chunks, added, updated, cleared)
}

fn difference_row(difference: Difference) -> DifferenceRow {
    let tensors = difference.tensors.into_iter().map(tensor_row).collect();
    (difference.metadata, difference.rows_added, difference.rows_deleted, tensors)
}

fn branch_json(info: &BranchInfo) -> Json {
    json!({
        "name": info.name, "directory": info.directory, "head": info.head.map(|id| id.to_string()),
        "summary": info.summary, "time_millis": info.time_millis, "draft": info.draft,
        "ahead": info.ahead_behind.map(|(ahead, _)| ahead), "behind": info.ahead_behind.map(|(_, behind)| behind),
        "borrowed_files": info.borrowed_files,
    })
}

/// One of two states to compare; `None` stands for `otherwise`.
async fn state(
    repository: &Repository,
    place: &Place,
    wanted: &Option<AtArguments>,
    otherwise: State,
) -> Result<(Table, Place), Error> {
    let found = match (wanted, place.commit()) {
        // One that stays at a commit is on top of nothing else.
        (None, Some(_)) => repository.look(place, &At::Here).await?,
        (None, None) => {
            let table = repository.timeline().state_of(&place.branch, &otherwise).await?;
            return Ok((table, Place::on(&place.branch)));
        }
        (Some(wanted), _) => repository.look(place, &at(wanted)).await?,
    };
    let place = found.place().clone();
    Ok((found.table().frozen(), place))
}

fn seconds(py: Python<'_>, what: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|e| invalid(py, format!("{what}: {value} seconds: {e}")))
}

#[pymethods]
impl History {
    /// The branch it is on or was on, whether it stays at a state, and at which commit.
    fn place(&self) -> (String, bool, Option<String>) {
        let place = self.handle.place();
        let commit = place.commit().map(|id| id.to_string());
        (place.branch, place.pinned.is_some(), commit)
    }

    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        self.handle.peek(py, Table::in_transaction)
    }

    #[pyo3(signature = (at, create, force))]
    fn checkout(&self, py: Python<'_>, at: AtArguments, create: Option<&str>, force: bool) -> PyResult<()> {
        self.handle.move_to(py, &at, create, force)
    }

    fn commit(&self, py: Python<'_>, record: RecordArguments, allow_empty: bool) -> PyResult<String> {
        let record = parsed(py, record)?;
        let recorded = self.handle.record(py, async |checkout: &mut Checkout, _: &WriteOptions| {
            checkout.commit(&record, allow_empty).await
        })?;
        Ok(recorded.id.to_string())
    }

    /// Begins a transaction.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.record(py, async |checkout: &mut Checkout, _: &WriteOptions| checkout.begin())
    }

    /// Ends it: everything in it is a commit, whose id is returned, or nothing was written.
    fn finish(&self, py: Python<'_>, record: RecordArguments) -> PyResult<Option<String>> {
        let record = parsed(py, record)?;
        let recorded = self.handle.record(py, async |checkout: &mut Checkout, options: &WriteOptions| {
            checkout.finish(&record, options).await
        })?;
        Ok(recorded.map(|recorded| recorded.id.to_string()))
    }

    /// Gives it up.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.record(py, async |checkout: &mut Checkout, _: &WriteOptions| checkout.abandon().await)
    }

    fn discard(&self, py: Python<'_>, force: bool) -> PyResult<usize> {
        self.handle.record(py, async |checkout: &mut Checkout, options: &WriteOptions| {
            checkout.discard(None, force, options).await
        })
    }

    fn restore(&self, py: Python<'_>, wanted: AtArguments) -> PyResult<u64> {
        self.handle.record(py, async |checkout: &mut Checkout, options: &WriteOptions| {
            checkout.restore(&at(&wanted), options).await
        })
    }

    /// What it came to, and the commit.
    fn merge(
        &self,
        py: Python<'_>,
        revision: &str,
        record: RecordArguments,
        forward: &str,
        decisions: Decisions,
    ) -> PyResult<(&'static str, Option<String>)> {
        let forward = match forward {
            "allowed" => FastForward::Allowed,
            "never" => FastForward::Never,
            _ => FastForward::Only,
        };
        self.combine(py, How::Merge(forward), revision, record, decisions)
    }

    fn cherry_pick(
        &self,
        py: Python<'_>,
        revision: &str,
        record: RecordArguments,
        decisions: Decisions,
    ) -> PyResult<(&'static str, Option<String>)> {
        self.combine(py, How::CherryPick, revision, record, decisions)
    }

    fn revert(
        &self,
        py: Python<'_>,
        revision: &str,
        mainline: Option<u64>,
        record: RecordArguments,
        decisions: Decisions,
    ) -> PyResult<(&'static str, Option<String>)> {
        self.combine(py, How::Revert(mainline), revision, record, decisions)
    }

    /// The commit that a revision means, as JSON text.
    fn resolve(&self, py: Python<'_>, revision: Option<&str>) -> PyResult<String> {
        let (id, commit) = self.handle.look(py, async |repository: &Repository, place: &Place| {
            repository.commit_at(place, revision).await
        })?;
        Ok(commit_json(&id, &commit).to_string())
    }

    /// Commits, newest first, each as JSON text. A branch without any has none.
    fn log(&self, py: Python<'_>, revision: Option<&str>, limit: Option<usize>) -> PyResult<Vec<String>> {
        let found = self.handle.look(py, async |repository: &Repository, place: &Place| {
            let (id, _) = match repository.commit_at(place, revision).await {
                Err(Error::History(HistoryError::NoCommitYet { .. })) => return Ok(Vec::new()),
                other => other?,
            };
            Ok(repository.timeline().log(&[id], limit.unwrap_or(usize::MAX)).await?)
        })?;
        Ok(found.iter().map(|(id, commit)| commit_json(id, commit).to_string()).collect())
    }

    fn status(&self, py: Python<'_>) -> PyResult<StatusRow> {
        let status = self.handle.look(py, async |repository: &Repository, place: &Place| {
            Ok(repository.timeline().status(&place.branch).await?)
        })?;
        let head = status.head.map(|(id, commit)| commit_json(&id, &commit).to_string());
        let draft = Json::Array(status.draft.iter().map(entry_json).collect()).to_string();
        Ok((status.branch, head, status.version, draft, difference_row(status.difference)))
    }

    /// What differs between two states. `None` stands for the newest commit and for what there is now.
    fn diff(
        &self,
        py: Python<'_>,
        before: Option<AtArguments>,
        after: Option<AtArguments>,
    ) -> PyResult<ComparedRow> {
        // What a transaction wrote, and what a handle is pinned to, is only seen here.
        let own = match after.is_none() {
            true => self
                .handle
                .peek(py, |table| (table.in_transaction() || table.is_read_only()).then(|| table.frozen()))?,
            false => None,
        };
        let (before, after, difference) =
            self.handle.look(py, async |repository: &Repository, place: &Place| {
                let before = state(repository, place, &before, State::Head).await?;
                let after = match own {
                    Some(table) => (table, place.clone()),
                    None => state(repository, place, &after, State::Newest).await?,
                };
                let difference = before.0.compare(&after.0).await?.shown();
                Ok((before, after, difference))
            })?;
        let opened = |(table, place)| Dataset::over(self.handle.beside(table, place));
        Ok((opened(before), opened(after), difference_row(difference)))
    }

    /// A commit as JSON text, and what it changed.
    fn show(&self, py: Python<'_>, revision: Option<&str>) -> PyResult<(String, ComparedRow)> {
        let (id, commit, compared) =
            self.handle.look(py, async |repository: &Repository, place: &Place| {
                let (id, commit) = repository.commit_at(place, revision).await?;
                let compared = repository.timeline().changes_of(&id, &commit).await?;
                Ok((id, commit, compared))
            })?;
        let place = Place::on(self.handle.place().branch);
        let before_place = commit.parents.first().map(|id| place.at(Pinned::Commit(*id)));
        let before = self.handle.beside(compared.before, before_place.unwrap_or_else(|| place.clone()));
        let after = self.handle.beside(compared.after, place.at(Pinned::Commit(id)));
        let (before, after) = (Dataset::over(before), Dataset::over(after));
        Ok((commit_json(&id, &commit).to_string(), (before, after, difference_row(compared.difference))))
    }

    /// Branches as JSON text, compared with the one this is on.
    fn branches(&self, py: Python<'_>) -> PyResult<String> {
        let found = self.handle.look(py, async |repository: &Repository, place: &Place| {
            Ok(repository.timeline().list_branches(&place.branch).await?)
        })?;
        Ok(Json::Array(found.iter().map(branch_json).collect()).to_string())
    }

    fn branch_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.handle.look(py, async |repository: &Repository, _: &Place| {
            let held = lacus::history::branches::list(repository.timeline().home()).await?;
            Ok(held.iter().map(|held| held.name().to_owned()).collect())
        })
    }

    fn create_branch(&self, py: Python<'_>, name: &str, revision: Option<&str>) -> PyResult<()> {
        self.handle.manage(py, true, async |repository: &Repository, place: &Place, _: &WriteOptions| {
            let (id, commit) = repository.commit_at(place, revision).await?;
            repository.timeline().create_branch(name, (id, &commit)).await?;
            Ok(())
        })
    }

    fn delete_branch(&self, py: Python<'_>, name: &str, force: bool) -> PyResult<()> {
        self.handle.manage(py, true, async |repository: &Repository, place: &Place, _: &WriteOptions| {
            if place.branch == name && place.pinned.is_none() {
                let why = format!("{name:?} is the branch this handle is on; check out another first");
                return Err(HistoryError::Refused { op: "delete branch", why }.into());
            }
            Ok(repository.timeline().delete_branch(name, force).await?)
        })
    }

    fn rename_branch(&self, py: Python<'_>, from_name: &str, to_name: &str) -> PyResult<()> {
        self.handle.manage(py, true, async |repository: &Repository, _: &Place, _: &WriteOptions| {
            Ok(repository.timeline().rename_branch(from_name, to_name).await?)
        })?;
        match self.handle.place().branch == from_name {
            true => self.handle.renamed(py, to_name),
            false => Ok(()),
        }
    }

    /// Tags: name, commit, author, time in milliseconds since 1970, message.
    fn tags(&self, py: Python<'_>) -> PyResult<Vec<TagRow>> {
        let found = self.handle.look(py, async |repository: &Repository, _: &Place| {
            Ok(tags::list(repository.timeline().home()).await?)
        })?;
        let row = |tag: lacus::history::Tag| {
            (tag.name, tag.commit.to_string(), tag.author, tag.time_millis, tag.message)
        };
        Ok(found.into_iter().map(row).collect())
    }

    fn create_tag(
        &self,
        py: Python<'_>,
        name: &str,
        revision: Option<&str>,
        message: String,
    ) -> PyResult<String> {
        self.handle.manage(py, true, async |repository: &Repository, place: &Place, _: &WriteOptions| {
            let (id, _) = repository.commit_at(place, revision).await?;
            let tag = repository.timeline().create_tag(name, id, None, message).await?;
            Ok(tag.commit.to_string())
        })
    }

    fn delete_tag(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.handle.manage(py, true, async |repository: &Repository, _: &Place, _: &WriteOptions| {
            Ok(tags::delete(repository.timeline().home(), name).await?)
        })
    }

    /// The directory of the branch's table.
    fn publish(&self, py: Python<'_>, branch: Option<&str>) -> PyResult<String> {
        self.handle.manage(
            py,
            true,
            async |repository: &Repository, place: &Place, options: &WriteOptions| {
                let branch = branch.unwrap_or(&place.branch);
                Ok(repository.timeline().publish(branch, options).await?.0)
            },
        )
    }

    /// Steps as JSON text: depth, tensor, commit, lineage.
    fn lineage(&self, py: Python<'_>, name: &str, revision: Option<&str>) -> PyResult<String> {
        let steps = self.handle.look(py, async |repository: &Repository, place: &Place| {
            let (id, _) = repository.commit_at(place, revision).await?;
            Ok(repository.timeline().lineage(id, name).await?)
        })?;
        let step = |step: &lacus::history::LineageStep| {
            json!({
                "depth": step.depth, "tensor": step.tensor, "commit": commit_json(&step.id, &step.commit),
                "lineage": step.lineage,
            })
        };
        Ok(Json::Array(steps.iter().map(step).collect()).to_string())
    }

    /// What a clean-up found, as JSON text.
    fn gc(&self, py: Python<'_>, dry_run: bool, grace: f64, retention: Option<f64>) -> PyResult<String> {
        let gc = GcOptions {
            dry_run,
            grace: seconds(py, "grace", grace)?,
            retention: retention.map(|value| seconds(py, "keep", value)).transpose()?,
        };
        let report = self.handle.manage(
            py,
            !dry_run,
            async |repository: &Repository, _: &Place, options: &WriteOptions| {
                Ok(repository.timeline().gc(&gc, options).await?)
            },
        )?;
        let removable = report.removable.iter().map(|r| json!([r.path, r.bytes, r.why]));
        let kept = report.kept.iter().map(|k| json!([k.reason, k.files, k.bytes]));
        let json = json!({
            "removed": report.removed, "removable": removable.collect::<Vec<_>>(), "kept": kept.collect::<Vec<_>>(),
        });
        Ok(json.to_string())
    }

    /// Branches, and how many of their versions expired.
    fn expire(&self, py: Python<'_>, older_than: f64, dry_run: bool) -> PyResult<Vec<(String, u64)>> {
        let older_than = seconds(py, "older_than", older_than)?;
        let report = self.handle.manage(
            py,
            !dry_run,
            async |repository: &Repository, _: &Place, _: &WriteOptions| {
                Ok(repository.timeline().expire(older_than, dry_run).await?)
            },
        )?;
        Ok(report.expired)
    }

    /// What a check saw, as JSON text.
    fn check(&self, py: Python<'_>, repair: bool) -> PyResult<String> {
        let report = self.handle.manage(
            py,
            repair,
            async |repository: &Repository, _: &Place, options: &WriteOptions| {
                Ok(repository.timeline().check(repair, options).await?)
            },
        )?;
        let listed = |findings: &[lacus::table::Finding]| -> Vec<Json> {
            findings.iter().map(|finding| json!([finding.what, finding.problem])).collect()
        };
        let json = json!({
            "branches": report.branches, "tags": report.tags, "commits": report.commits,
            "verified_bytes": report.verified_bytes, "damage": listed(&report.damage),
            "repairable": listed(&report.repairable), "repaired": listed(&report.repaired),
            "notes": listed(&report.notes),
        });
        Ok(json.to_string())
    }
}
