//! Brings changes from one line of history to another: merge, cherry-pick, revert, restore.
//!
//! ```text
//! base ── ours                three differences ─plan→ what to take, what is in conflict
//!    └─── theirs              ─choice→ graft ─one version→ merge commit with both parents
//! ```

use futures::future::BoxFuture;
use lacus_io::boxed;
use std::borrow::Cow;

use lacus_table::{ColumnRow, ColumnWrite, NameVersion, RowChange, Table, TableError, WriteOptions};
use serde_json::{Value as Json, json};

use crate::base::{Base, JoinedColumn};
use crate::commit::{Record, Recorded};
use crate::commits::Commit;
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::merge_plan::{Choice, Conflict, Merged, MetadataFrom, plan, resolve};
use crate::timeline::{Timeline, Tip, durable, stand_still};
use crate::walk::{is_ancestor, merge_bases};

/// Whether a branch that only lags behind simply moves on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastForward {
    /// When it can.
    #[default]
    Allowed,
    /// Never: there is always a commit with two parents.
    Never,
    /// Or nothing is done.
    Only,
}

/// What a merge came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combined {
    /// Everything was there already.
    UpToDate,
    /// The branch moved on to their commit.
    FastForward(Recorded),
    /// There is a new commit.
    Committed(Recorded),
}

/// Decides what becomes of a conflict.
pub type Decide<'a> = &'a mut (dyn FnMut(&Conflict) -> Choice + Send);

impl Timeline {
    /// Merges a commit into a branch, whose table is moved on. A branch with a draft is refused; conflicts that
    /// `decide` does not settle are an error, and nothing is changed.
    pub fn merge<'a>(
        &'a self,
        table: &'a mut Table,
        theirs: (CommitId, &'a Commit),
        record: &'a Record,
        fast_forward: FastForward,
        decide: Decide<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Combined, HistoryError>> {
        Box::pin(async move {
            let tip = self.tip_of(table).await?;
            tip.refuse_draft("merge")?;
            let ours = tip.head()?;
            if is_ancestor(self.commits(), &theirs.0, &ours).await? {
                return Ok(Combined::UpToDate);
            }
            let bases = merge_bases(self.commits(), &[ours], &theirs.0).await?;
            if bases.is_empty() {
                return Err(HistoryError::Unrelated { ours, theirs: theirs.0 });
            }
            if bases[0].0 == ours && fast_forward != FastForward::Never {
                return self.fast_forward(table, &tip, theirs, options).await.map(Combined::FastForward);
            }
            if fast_forward == FastForward::Only {
                let why =
                    format!("branch {:?} has commits that {} has not", tip.held.name(), theirs.0.short());
                return Err(HistoryError::Refused { op: "fast-forward", why });
            }
            let state = self.state(&theirs.0, theirs.1).await?;
            let base = self.base_of(bases, options).await?;
            let detail = json!({"merged": theirs.0.to_string()});
            let change = Change { base, theirs: &state, returns: false, op: "MERGE", detail };
            let recorded = self.carry_over(table, &tip, change, record, &[theirs.0], decide, options).await?;
            Ok(Combined::Committed(recorded))
        })
    }

    /// Makes the changes of one commit on a branch as well.
    pub fn cherry_pick<'a>(
        &'a self,
        table: &'a mut Table,
        picked: (CommitId, &'a Commit),
        record: &'a Record,
        decide: Decide<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Combined, HistoryError>> {
        Box::pin(async move {
            let (id, commit) = picked;
            let tip = self.tip_of(table).await?;
            tip.refuse_draft("cherry-pick")?;
            let (base, theirs) = self.around(&id, commit, "cherry-pick").await?;
            let detail = json!({"picked": id.to_string()});
            let change =
                Change { base: Base::new(base), theirs: &theirs, returns: false, op: "CHERRY PICK", detail };
            let recorded = self.carry_over(table, &tip, change, record, &[], decide, options).await?;
            Ok(Combined::Committed(recorded))
        })
    }

    /// Undoes the changes of one commit that is no merge.
    pub fn revert<'a>(
        &'a self,
        table: &'a mut Table,
        reverted: (CommitId, &'a Commit),
        record: &'a Record,
        decide: Decide<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Combined, HistoryError>> {
        Box::pin(async move { self.revert_along(table, reverted, None, record, decide, options).await })
    }

    /// Undoes the changes of one commit. For a merge, and only then, `mainline` says which of its parents is gone back to, from 1
    /// on: what came in from the others is undone.
    pub fn revert_along<'a>(
        &'a self,
        table: &'a mut Table,
        reverted: (CommitId, &'a Commit),
        mainline: Option<u64>,
        record: &'a Record,
        decide: Decide<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Combined, HistoryError>> {
        Box::pin(async move {
            let (id, commit) = reverted;
            let tip = self.tip_of(table).await?;
            tip.refuse_draft("revert")?;
            let parent = self.mainline(&id, commit, mainline).await?;
            let (before, after) = self.between(&id, commit, parent).await?;
            let detail = json!({"reverted": id.to_string()});
            let change =
                Change { base: Base::new(after), theirs: &before, returns: true, op: "REVERT", detail };
            let recorded = self.carry_over(table, &tip, change, record, &[], decide, options).await?;
            Ok(Combined::Committed(recorded))
        })
    }

    /// Makes the newest version of a branch what the dataset was at another state: a version of the draft, to be committed
    /// or discarded.
    #[boxed]
    pub async fn restore(
        &self,
        table: &mut Table,
        state: &Table,
        options: &WriteOptions,
    ) -> Result<u64, HistoryError> {
        let tip = self.tip_of(table).await?;
        tip.refuse_draft("restore")?;
        stand_still(table, &tip).await?;
        Ok(table.restore(state, options).await?)
    }

    /// The states before and after a commit.
    async fn around(
        &self,
        id: &CommitId,
        commit: &Commit,
        op: &'static str,
    ) -> Result<(Table, Table), HistoryError> {
        let refused = |why: String| HistoryError::Refused { op, why };
        let parent = match commit.parents.as_slice() {
            [parent] => *parent,
            [] => return Err(refused(format!("commit {} is the first: nothing was before it", id.short()))),
            _ => {
                let why =
                    format!("commit {} is a merge: which of its parents counts is not known", id.short());
                return Err(refused(why));
            }
        };
        self.between(id, commit, parent).await
    }

    /// The parent that a revert goes back to.
    async fn mainline(
        &self,
        id: &CommitId,
        commit: &Commit,
        mainline: Option<u64>,
    ) -> Result<CommitId, HistoryError> {
        let refused = |why: String| Err(HistoryError::Refused { op: "revert", why });
        let short = id.short();
        let (parents, number) = match (commit.parents.as_slice(), mainline) {
            ([], _) => return refused(format!("commit {short} is the first: nothing was before it")),
            ([parent], None) => return Ok(*parent),
            ([_], Some(_)) => {
                return refused(format!("commit {short} is not a merge, so mainline does not apply"));
            }
            (parents, number) => (parents, number),
        };
        let at = number.and_then(|number| usize::try_from(number.checked_sub(1)?).ok());
        if let Some(parent) = at.and_then(|at| parents.get(at)) {
            return Ok(*parent);
        }
        let mut choices = Vec::with_capacity(parents.len());
        for (number, parent) in (1..).zip(parents) {
            let commit = self.commits().read_for(parent, || format!("commit {short}")).await?;
            let role = if number == 1 { "the branch it was made on" } else { "what was merged" };
            choices.push(format!("{number} goes back to {} {:?}, {role}", parent.short(), commit.summary()));
        }
        let asked = match number {
            Some(number) => format!("mainline {number} is no parent of commit {short}"),
            None => {
                format!("commit {short} is a merge, and mainline says which of its parents to go back to")
            }
        };
        refused(format!("{asked}: {}", choices.join("; ")))
    }

    /// The states before and after a commit, as seen from one of its parents.
    async fn between(
        &self,
        id: &CommitId,
        commit: &Commit,
        parent: CommitId,
    ) -> Result<(Table, Table), HistoryError> {
        let before = self.commits().read_for(&parent, || format!("commit {}", id.short())).await?;
        Ok((self.state(&parent, &before).await?, self.state(id, commit).await?))
    }

    /// Makes what theirs changed since the base one commit on a branch.
    #[expect(
        clippy::too_many_arguments,
        reason = "the states, the change and how to decide; used here alone"
    )]
    async fn carry_over(
        &self,
        table: &mut Table,
        tip: &Tip,
        change: Change<'_>,
        record: &Record,
        others: &[CommitId],
        decide: Decide<'_>,
        options: &WriteOptions,
    ) -> Result<Recorded, HistoryError> {
        stand_still(table, tip).await?;
        let Change { base, theirs, returns, op, detail } = change;
        let weighed = self.weigh(&base, &tip.table, theirs).await;
        base.release().await;
        let weighed = weighed?;
        let sides = weighed.sides();
        let planned = plan(&sides);
        let mut merged = match planned.conflicts.is_empty() {
            true => planned.merged,
            false => resolve(&planned, &sides, decide).map_err(|unresolved| HistoryError::Conflicts {
                conflicts: unresolved.stopped,
                without_union: unresolved.without_union,
            })?,
        };
        merged.graft.rows_return = returns;
        table.begin()?;
        let taken = self.take(table, theirs, &merged, &weighed.joined, op, options).await;
        if let Err(error) = taken {
            table.abandon().await;
            return Err(error);
        }
        if !table.has_writes() {
            table.abandon().await;
            if others.is_empty() {
                return Err(HistoryError::NothingToCommit { branch: tip.held.name().to_owned() });
            }
            // Ours is what is wanted: a commit with both parents says so.
            return self.commit_as(table, record, true, others).await;
        }
        self.finish(table, op, detail, record, others, options).await
    }

    /// Makes a merge part of the transaction that is open.
    pub(crate) async fn take(
        &self,
        table: &mut Table,
        theirs: &Table,
        merged: &Merged,
        joined_columns: &[JoinedColumn],
        op: &'static str,
        options: &WriteOptions,
    ) -> Result<(), HistoryError> {
        // What ours says is asked before anything of theirs is taken.
        let mut metadata: Vec<(Option<&str>, Json)> = Vec::with_capacity(merged.metadata.len());
        for (name, from) in &merged.metadata {
            let name = name.as_deref();
            let (here, there) =
                (name.map(|name| merged.in_ours(name)), name.map(|name| merged.graft.there(name)));
            let joined = match from {
                MetadataFrom::Ours => table.metadata_of(here),
                MetadataFrom::Theirs => theirs.metadata_of(there),
                MetadataFrom::Both => joined(table.metadata_of(here), theirs.metadata_of(there)),
            };
            metadata.push((name, joined));
        }
        let mut graft = Cow::Borrowed(&merged.graft);
        if !merged.renames.is_empty() {
            // Names that are dropped are free for those that are given.
            let dropped: Vec<String> = std::mem::take(&mut graft.to_mut().drop);
            if !dropped.is_empty() {
                let dropped: Vec<&str> = dropped.iter().map(String::as_str).collect();
                table.remove(&dropped, options).await?;
            }
            table.rename_all(&merged.renames, options).await?;
        }
        if !graft.is_empty() {
            table.graft(theirs, &graft, op, json!({}), options).await?;
        }
        for (name, json) in metadata {
            table.set_metadata(name, json, options).await?;
        }
        for column in joined_columns {
            self.join_column(table, theirs, merged, column, op, options).await?;
        }
        Ok(())
    }

    /// Gives a column the type that its types on both sides became, and makes samples that came from theirs fit it.
    async fn join_column(
        &self,
        table: &mut Table,
        theirs: &Table,
        merged: &Merged,
        column: &JoinedColumn,
        op: &'static str,
        options: &WriteOptions,
    ) -> Result<(), HistoryError> {
        let renamed = merged.renames.iter().find(|(from, _)| *from == column.ours);
        let name = renamed.map_or(&column.ours, |(_, to)| to);
        if merged.graft.whole.contains(name) || !table.is_column(name) {
            return Ok(());
        }
        let now = table.column(name)?.header;
        let header = ColumnRow { metadata: now.metadata.clone(), ..column.header.clone() };
        let mut change = RowChange { op, ..RowChange::default() };
        if header != now {
            change.headers.push((name.clone(), header));
        }
        let taken = merged.graft.samples.iter().find(|(of, _)| of == name);
        if let (Some((_, ids)), Some(types), true) = (taken, self.types(), column.rewrites) {
            let rows = table.rows().await?;
            let there = ids.iter().copied().filter(|id| rows.position(*id).is_some()).collect();
            let rewritten = types.rewritten(theirs, &column.theirs, &column.header, there).await?;
            change.writes.push(ColumnWrite { name: name.clone(), ..rewritten });
        }
        if !(change.headers.is_empty() && change.writes.is_empty()) {
            table.change_rows(change, options).await?;
        }
        Ok(())
    }

    /// Makes the content of a branch, which only lags behind, that of their commit.
    async fn fast_forward(
        &self,
        table: &mut Table,
        tip: &Tip,
        theirs: (CommitId, &Commit),
        options: &WriteOptions,
    ) -> Result<Recorded, HistoryError> {
        let state = self.state(&theirs.0, theirs.1).await?;
        stand_still(table, tip).await?;
        table.begin()?;
        if let Err(error) = table.restore(&state, options).await {
            table.abandon().await;
            return Err(error.into());
        }
        let id = theirs.0;
        let ours = tip.head()?;
        let name = |_: u64| -> futures::future::BoxFuture<'_, Result<String, TableError>> {
            Box::pin(async move {
                // A commit writes no log entry: it is seen here, or not at all.
                self.head_is_still(tip.held.name(), ours).await?;
                Ok(id.to_string())
            })
        };
        let detail = json!({"merged": id.to_string()});
        let name = Some(&name as &NameVersion<'_>);
        let version = table.finish("FAST FORWARD", detail, name, &durable(options)).await?;
        let tip = self.tip_of(table).await?;
        self.make_durable(&id, &tip.held)?;
        Ok(Recorded { id, version })
    }
}

/// What is to be carried over.
struct Change<'a> {
    base: Base,
    theirs: &'a Table,
    /// Whether rows go back to the places they had.
    returns: bool,
    op: &'static str,
    detail: Json,
}

/// Metadata of both, key by key; where both say something else, ours counts.
fn joined(ours: Json, theirs: Json) -> Json {
    match (ours, theirs) {
        (Json::Object(mut ours), Json::Object(theirs)) => {
            for (key, value) in theirs {
                let value = match ours.remove(&key) {
                    Some(own) => joined(own, value),
                    None => value,
                };
                ours.insert(key, value);
            }
            Json::Object(ours)
        }
        (ours, _) => ours,
    }
}

/// What a merge of this revision says, when nobody says anything else.
pub fn merge_message(theirs: &str, branch: &str) -> String {
    format!("Merge {theirs} into {branch}")
}

/// What a revert says, when nobody says anything else.
pub fn revert_message(id: &CommitId, commit: &Commit, mainline: Option<u64>) -> String {
    let at = mainline.and_then(|number| usize::try_from(number.checked_sub(1)?).ok());
    let back = at.and_then(|at| commit.parents.get(at)).map(|parent| format!(" and goes back to {parent}"));
    format!("Revert \"{}\"\n\nThis undoes commit {id}{}.", commit.summary(), back.unwrap_or_default())
}
