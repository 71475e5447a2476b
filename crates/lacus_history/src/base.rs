//! What a merge begins from: the state that two sides have in common, and what each changed since.
//!
//! ```text
//! a ── m ── …          Branches that were merged into each other crosswise have two best common ancestors, a and b. The state
//!   ╲ ╱                they have in common is a merge of those, made the same way, all the way down. It is tried out and
//!    ╳                 thrown away.
//!   ╱ ╲                Where a and b disagree there is no common value: what the sides have there counts as changed
//! b ── n ── …          by both, so that nothing is settled silently.
//! ```

use std::collections::{BTreeSet, HashSet};

use futures::future::{BoxFuture, FutureExt};
use lacus_table::{
    At, ColumnRow, ColumnValues, ColumnWrite, Content, Difference, Fate, Join, Table, TensorDifference,
    WriteOptions,
};

use crate::error::HistoryError;
use crate::merge_plan::{Choice, Conflict, Merged, Side, Sides, plan, resolve};
use crate::timeline::Timeline;
use crate::walk::{Found, merge_bases};

/// What two sides have in common.
pub(crate) struct Base {
    pub table: Table,
    /// Where it has no value.
    pub unsettled: Vec<Conflict>,
}

impl Base {
    pub(crate) fn new(table: Table) -> Base {
        Base { table, unsettled: Vec::new() }
    }

    /// Removes what was written to try things out.
    pub(crate) async fn release(mut self) {
        self.table.abandon().await;
    }
}

/// The three differences of a merge, and the columns whose types both changed and that fit together.
pub(crate) struct Weighed {
    ours: Difference,
    theirs: Difference,
    between: Difference,
    unsettled: Vec<Conflict>,
    retyped_in: Vec<(String, &'static str)>,
    pub joined: Vec<JoinedColumn>,
}

/// A column whose types fit together.
pub(crate) struct JoinedColumn {
    pub ours: String,
    pub theirs: String,
    pub header: ColumnRow,
    /// Whether samples that come from theirs have to be rewritten.
    pub rewrites: bool,
}

impl Weighed {
    pub(crate) fn sides(&self) -> Sides<'_> {
        let Weighed { ours, theirs, between, unsettled, retyped_in, .. } = self;
        Sides { ours, theirs, between, unsettled, retyped_in }
    }
}

impl Timeline {
    /// What the descendants of some best common ancestors have in common.
    pub(crate) fn base_of<'a>(
        &'a self,
        bases: Vec<Found>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Base, HistoryError>> {
        async move {
            let mut bases = bases.into_iter();
            let Some((first, commit)) = bases.next() else {
                // Histories that began apart have the empty dataset in common.
                return Ok(Base::new(self.table("", At::Version(0)).await?));
            };
            let mut base = Base::new(self.state(&first, &commit).await?);
            let mut joined = vec![first];
            for (id, commit) in bases {
                if !base.table.in_transaction() {
                    base.table = base.table.scratch()?;
                }
                let theirs = self.state(&id, &commit).await?;
                let below = self.base_of(merge_bases(self.commits(), &joined, &id).await?, options).await?;
                let merged = self.merge_into(&mut base, &theirs, &below, options).await;
                below.release().await;
                if let Err(error) = merged {
                    base.release().await;
                    return Err(error);
                }
                joined.push(id);
            }
            Ok(base)
        }
        .boxed()
    }

    /// Merges a state into a base that is being made, whatever is in conflict.
    async fn merge_into(
        &self,
        base: &mut Base,
        theirs: &Table,
        below: &Base,
        options: &WriteOptions,
    ) -> Result<(), HistoryError> {
        let weighed = self.weigh(below, &base.table, theirs).await?;
        let sides = weighed.sides();
        let planned = plan(&sides);
        // What one side deleted stays, so that there is something that can be in conflict.
        let kept = resolve(&planned, &sides, |conflict| match conflict.has_union() {
            true => Choice::Union,
            false => Choice::Ours,
        });
        let merged = match kept {
            Ok(merged) => merged,
            Err(_) => resolve(&planned, &sides, |_| Choice::Ours).map_err(|unresolved| {
                HistoryError::Conflicts { conflicts: unresolved.stopped, without_union: Vec::new() }
            })?,
        };
        self.take(&mut base.table, theirs, &merged, &weighed.joined, "MERGE", options).await?;
        let known = std::mem::take(&mut base.unsettled).into_iter().chain(planned.conflicts);
        base.unsettled = known.map(|conflict| renamed(conflict, &merged)).collect();
        for conflict in &mut base.unsettled {
            // From here on this is the base's own row, in the base's own names.
            if let Conflict::Row { changed_in, .. } = conflict {
                *changed_in = Side::Ours;
            }
        }
        Ok(())
    }

    /// What ours and theirs changed since the base.
    pub(crate) async fn weigh(
        &self,
        base: &Base,
        ours: &Table,
        theirs: &Table,
    ) -> Result<Weighed, HistoryError> {
        let mut weighed = Weighed {
            ours: base.table.compare(ours).await?,
            theirs: base.table.compare(theirs).await?,
            between: ours.compare(theirs).await?,
            unsettled: base.unsettled.clone(),
            retyped_in: Vec::new(),
            joined: Vec::new(),
        };
        if let Some(types) = self.types() {
            for at in 0..weighed.between.tensors.len() {
                let Some(both) = Retyped::of(&weighed, at) else { continue };
                let Retyped { base: old, ours: here, theirs: there, .. } = &both;
                let (Ok(mine), Ok(other)) = (ours.column(here), theirs.column(there)) else { continue };
                let before = base.table.column(old).ok().map(|column| column.header);
                match types.join(before.as_ref(), &mine.header, &other.header) {
                    Join::Apart { what } => {
                        weighed.retyped_in.extend(what.map(|what| (here.clone(), what)));
                    }
                    Join::One { header, rewrites } => {
                        let joined = JoinedColumn {
                            ours: here.clone(),
                            theirs: there.clone(),
                            header: *header,
                            rewrites,
                        };
                        let unlike = match rewrites {
                            true => {
                                let ids = both.changed_by_both(&weighed);
                                let mine = types.rewritten(ours, here, &joined.header, ids.clone()).await?;
                                let other =
                                    types.rewritten(theirs, there, &joined.header, ids.clone()).await?;
                                Some((unlike(&mine, &other, &ids), ids))
                            }
                            false => None,
                        };
                        both.settle(&mut weighed, at, unlike);
                        weighed.joined.push(joined);
                    }
                }
            }
        }
        Ok(weighed)
    }
}

/// A column that both sides have and changed, and whose types differ.
struct Retyped {
    base: String,
    ours: String,
    theirs: String,
    by_ours: usize,
    by_theirs: usize,
}

impl Retyped {
    fn of(weighed: &Weighed, at: usize) -> Option<Retyped> {
        let between = &weighed.between.tensors[at];
        let (ours, theirs) = (between.before()?, between.after()?);
        if between.fate != Fate::Retyped || !between.is_column {
            return None;
        }
        let changed = |difference: &Difference, name: &str| {
            difference.tensors.iter().position(|tensor| tensor.after() == Some(name))
        };
        let (by_ours, by_theirs) = (changed(&weighed.ours, ours)?, changed(&weighed.theirs, theirs)?);
        let base = weighed.ours.tensors[by_ours].before()?;
        if weighed.theirs.tensors[by_theirs].before() != Some(base) {
            return None;
        }
        let [base, ours, theirs] = [base, ours, theirs].map(str::to_owned);
        Some(Retyped { base, ours, theirs, by_ours, by_theirs })
    }

    /// Ids of the rows whose samples both changed, sorted.
    fn changed_by_both(&self, weighed: &Weighed) -> Vec<u64> {
        let ours: HashSet<u64> = samples(&weighed.ours.tensors[self.by_ours]).collect();
        let theirs = samples(&weighed.theirs.tensors[self.by_theirs]);
        let both: BTreeSet<u64> = theirs.filter(|id| ours.contains(id)).collect();
        both.into_iter().collect()
    }

    /// Takes the types for the same. Of the rows both changed (the second list), the first says which differ.
    fn settle(&self, weighed: &mut Weighed, at: usize, unlike: Option<(BTreeSet<u64>, Vec<u64>)>) {
        weighed.ours.tensors[self.by_ours].fate = Fate::Kept;
        weighed.theirs.tensors[self.by_theirs].fate = Fate::Kept;
        let between = &mut weighed.between.tensors[at];
        between.fate = Fate::Kept;
        let Some((unlike, both)) = unlike else { return };
        if between.content == Content::Same {
            between.content =
                Content::Samples { added: Vec::new(), updated: Vec::new(), cleared: Vec::new() };
        }
        if let Content::Samples { added, updated, cleared } = &mut between.content {
            let both: HashSet<u64> = both.into_iter().collect();
            updated.retain(|id| !both.contains(id));
            updated.extend(unlike.iter().filter(|id| !added.contains(id) && !cleared.contains(id)));
            updated.sort_unstable();
        }
    }
}

/// The samples that a difference lists.
fn samples(tensor: &TensorDifference) -> impl Iterator<Item = u64> {
    let lists: [&[u64]; 3] = match &tensor.content {
        Content::Samples { added, updated, cleared } => [added, updated, cleared],
        _ => [&[], &[], &[]],
    };
    lists.into_iter().flatten().copied()
}

/// Those of `ids` whose samples differ.
fn unlike(ours: &ColumnWrite<'_>, theirs: &ColumnWrite<'_>, ids: &[u64]) -> BTreeSet<u64> {
    let of = |write: &ColumnWrite<'_>, id: &u64| write.ids.binary_search(id).ok();
    let is_same = |id: &u64| match (of(ours, id), of(theirs, id)) {
        (None, None) => true,
        (Some(a), Some(b)) => is_same_value(&ours.values, a, &theirs.values, b),
        _ => false,
    };
    ids.iter().copied().filter(|id| !is_same(id)).collect()
}

fn is_same_value(ours: &ColumnValues<'_>, a: usize, theirs: &ColumnValues<'_>, b: usize) -> bool {
    use lacus_table::ScalarBits::Int;
    match (ours, theirs) {
        (ColumnValues::Scalars(Int(ours)), ColumnValues::Scalars(Int(theirs))) => {
            ours.get(a) == theirs.get(b)
        }
        (ColumnValues::Blobs(ours), ColumnValues::Blobs(theirs)) => match (ours.get(a), theirs.get(b)) {
            (Some(ours), Some(theirs)) => {
                ours.shape == theirs.shape
                    && ours.tiles.len() == theirs.tiles.len()
                    && ours
                        .tiles
                        .iter()
                        .zip(&theirs.tiles)
                        .all(|(a, b)| (&a.coords, &a.codec, &a.bytes) == (&b.coords, &b.codec, &b.bytes))
            }
            _ => false,
        },
        _ => false,
    }
}

/// A conflict in the names that tensors have after a merge.
fn renamed(mut conflict: Conflict, merged: &Merged) -> Conflict {
    let rename = |name: &mut String| {
        if let Some((_, to)) = merged.renames.iter().find(|(from, _)| from == name) {
            *name = to.clone();
        }
    };
    match &mut conflict {
        Conflict::Metadata { tensor } => tensor.iter_mut().for_each(rename),
        Conflict::Tensor { name, .. } | Conflict::Name { name, .. } => rename(name),
        // Columns are called what the side that changed them calls them.
        Conflict::Row { columns, changed_in: Side::Theirs, .. } => columns.iter_mut().for_each(|name| {
            if let Some((here, _)) = merged.graft.names.iter().find(|(_, there)| there == name) {
                *name = here.clone();
            }
        }),
        Conflict::Row { columns, .. } => columns.iter_mut().for_each(rename),
        Conflict::Sample { column, .. } => rename(column),
        Conflict::Chunk { array, .. } => rename(array),
    }
    conflict
}
