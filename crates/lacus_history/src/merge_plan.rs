//! Plans merges: what to take over from another state, and what both sides changed differently. Pure.
//!
//! ```text
//!            base
//!   ours  ↙        ↘  theirs        what each side changed
//!      ours ──────► theirs          between: where the two differ
//! ```
//!
//! A place (a tensor's type, a sample, a row, a chunk, metadata) that only their side changed is taken over. It is in conflict if
//! both sides changed it and they differ there. Tensors are followed by who they are, not by their names ([`entities`]): a tensor that
//! one side renamed gets the new name and the changes of both. With other bases the same plan is another operation:
//!
//! | | base | ours | theirs |
//! |---|---|---|---|
//! | merge | best common ancestor | our tip | their tip |
//! | cherry-pick of a commit | its parent | our tip | the commit |
//! | revert of a commit | the commit | our tip | its parent |

mod conflict;
mod entities;
mod parts;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use lacus_table::{Content, Coords, Difference, Fate, Graft, TensorDifference};

pub use conflict::{Choice, Conflict, NameConflict, Side, TensorConflict};
use entities::{Entity, Fitted};
use parts::{Parts, taken};

/// The three differences that a merge is planned from.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// From the base to ours.
    pub ours: &'a Difference,
    /// From the base to theirs.
    pub theirs: &'a Difference,
    /// From ours to theirs.
    pub between: &'a Difference,
    /// Places of the base that have no value, because it was merged from two that disagree there. Names are the base's.
    pub unsettled: &'a [Conflict],
    /// What it is of the types of tensors (by their names in ours) that both changed and that does not fit together.
    pub retyped_in: &'a [(String, &'static str)],
}

impl<'a> Sides<'a> {
    /// Of a base that is whole.
    pub fn new(ours: &'a Difference, theirs: &'a Difference, between: &'a Difference) -> Sides<'a> {
        Sides { ours, theirs, between, unsettled: &[], retyped_in: &[] }
    }
}

/// Whose metadata is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetadataFrom {
    /// Ours, though the tensor or its header is taken from theirs.
    Ours,
    /// Theirs, though the tensor's header stays ours.
    Theirs,
    /// Both, merged key by key.
    Both,
}

/// What theirs changed and ours did not, and what both changed differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePlan {
    /// What to do, conflicts left out. All of it, when there are none.
    pub merged: Merged,
    /// Sorted.
    pub conflicts: Vec<Conflict>,
    /// The tensors that the conflicts are about.
    about: Vec<Vec<usize>>,
    parts: Parts,
}

/// A merge whose conflicts are resolved. Renames come first, then the graft, then metadata, all in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Tensors of ours that get other names: those they have and those they get. What the graft drops goes before.
    pub renames: Vec<(String, String)>,
    /// What to take over. Names are those that tensors have after the renames.
    pub graft: Graft,
    /// Metadata that taking the graft does not set as it should be, sorted: of tensors by their names after the renames, of the
    /// dataset if `None`. The caller sets it in the same version.
    pub metadata: Vec<(Option<String>, MetadataFrom)>,
}

impl Merged {
    /// What ours calls a tensor before the renames.
    pub fn in_ours<'a>(&'a self, name: &'a str) -> &'a str {
        self.renames.iter().find(|(_, to)| to == name).map_or(name, |(from, _)| from)
    }
}

/// Why a merge cannot be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unresolved {
    /// Conflicts that nobody resolved.
    pub stopped: Vec<Conflict>,
    /// Conflicts for which a union was wished and has no meaning.
    pub without_union: Vec<Conflict>,
}

/// Plans what to take over from theirs.
///
/// A taken tensor has no samples for rows that the merged dataset does not have: who carries out the graft leaves them out.
pub fn plan(sides: &Sides<'_>) -> MergePlan {
    let fitted = Fitted::new(sides.ours, sides.theirs, sides.between, sides.unsettled);
    let entities = fitted.entities();
    let mut planning = Planning::new(&fitted, &entities, sides.retyped_in);
    planning.dataset();
    planning.rows();
    (0..entities.len()).for_each(|at| planning.entity(at));
    planning.names();
    let Planning { parts, conflicts, .. } = planning;
    let (conflicts, about) = conflicts.into_iter().unzip();
    let merged = parts.clone().finish(&entities, &sides.between.rows_added);
    MergePlan { merged, conflicts, about, parts }
}

/// Resolves the conflicts of a plan, in their order, as `choice` says. The differences are those it was made from.
pub fn resolve(
    plan: &MergePlan,
    sides: &Sides<'_>,
    mut choice: impl FnMut(&Conflict) -> Choice,
) -> Result<Merged, Unresolved> {
    let mut unresolved = Unresolved::default();
    let mut chosen = Vec::new();
    for (conflict, about) in plan.conflicts.iter().zip(&plan.about) {
        match choice(conflict) {
            Choice::Stop => unresolved.stopped.push(conflict.clone()),
            Choice::Union if !conflict.has_union() => unresolved.without_union.push(conflict.clone()),
            choice => chosen.push((conflict, about.as_slice(), choice)),
        }
    }
    if unresolved != Unresolved::default() {
        return Err(unresolved);
    }
    let fitted = Fitted::new(sides.ours, sides.theirs, sides.between, sides.unsettled);
    let entities = fitted.entities();
    let mut parts = plan.parts.clone();
    let mut settled: BTreeSet<usize> = BTreeSet::new();
    let mut joined: Vec<usize> = Vec::new();
    let mut returned: BTreeSet<u64> = BTreeSet::new();
    // What is taken of whole tensors comes first in the order of conflicts, and decides about samples of rows.
    for (conflict, about, choice) in chosen {
        match (conflict, about) {
            (Conflict::Metadata { .. }, about) => {
                let from = match choice {
                    Choice::Theirs => MetadataFrom::Theirs,
                    Choice::Union => MetadataFrom::Both,
                    _ => MetadataFrom::Ours,
                };
                parts.metadata.insert(about.first().copied(), from);
            }
            (Conflict::Tensor { kind, .. }, &[at]) => {
                settled.insert(at);
                use TensorConflict::{BothAdded, DroppedAndChanged, DroppedAndRenamed};
                match (kind, choice) {
                    (
                        DroppedAndChanged { dropped_by: Side::Theirs }
                        | DroppedAndRenamed { dropped_by: Side::Theirs },
                        Choice::Theirs,
                    ) => drop(parts.drop.insert(at)),
                    (
                        DroppedAndChanged { dropped_by: Side::Theirs }
                        | DroppedAndRenamed { dropped_by: Side::Theirs },
                        _,
                    ) => {}
                    (BothAdded { .. }, Choice::Union) => joined.push(at),
                    (_, Choice::Theirs | Choice::Union) => {
                        parts.whole.insert(at);
                    }
                    _ => {}
                }
            }
            (Conflict::Name { kind: NameConflict::BothRenamed { .. }, .. }, &[at]) => {
                let side = if choice == Choice::Theirs { Side::Theirs } else { Side::Ours };
                parts.names.insert(at, side);
            }
            (Conflict::Name { .. }, about) => about.iter().for_each(|at| {
                let entity = &entities[*at];
                match (choice, entity.ours, entity.theirs) {
                    (Choice::Theirs, _, Some(_)) => drop(parts.names.insert(*at, Side::Theirs)),
                    (Choice::Theirs, _, None) => drop(parts.drop.insert(*at)),
                    (_, Some(_), _) => drop(parts.names.insert(*at, Side::Ours)),
                    (_, None, _) => drop(parts.whole.remove(at)),
                }
            }),
            (Conflict::Row { id, changed_in: Side::Ours, .. }, _) => {
                if choice == Choice::Theirs {
                    parts.rows_deleted.insert(*id);
                }
            }
            (Conflict::Row { id, changed_in: Side::Theirs, .. }, _) => {
                if choice != Choice::Ours {
                    returned.insert(*id);
                }
            }
            (Conflict::Sample { id, .. }, &[at]) => {
                if choice == Choice::Theirs {
                    parts.samples.entry(at).or_default().insert(*id);
                }
            }
            (Conflict::Chunk { coords, .. }, &[at]) => {
                if choice == Choice::Theirs {
                    parts.chunks.entry(at).or_default().insert(*coords);
                }
            }
            (Conflict::Tensor { .. } | Conflict::Sample { .. } | Conflict::Chunk { .. }, _) => {}
        }
    }
    // A row that comes back does so with all its samples, changed or not.
    for (at, entity) in entities.iter().enumerate() {
        let Some(tensor) = entity.between.filter(|tensor| tensor.is_column) else { continue };
        let is_same_type = match tensor.fate {
            Fate::Kept => true,
            Fate::Retyped => parts.headers.contains(&at),
            Fate::Added | Fate::Dropped => false,
        };
        if !is_same_type || settled.contains(&at) || parts.whole.contains(&at) {
            continue;
        }
        let ids: Vec<u64> = match &tensor.content {
            Content::Samples { added, .. } => {
                added.iter().copied().filter(|id| returned.contains(id)).collect()
            }
            // Asking for one that is not there does no harm.
            Content::Whole => returned.iter().copied().collect(),
            Content::Same | Content::Chunks { .. } => Vec::new(),
        };
        parts.take_samples(at, ids);
    }
    parts.rows_added.extend(returned);
    let foreign: HashSet<u64> = sides.between.rows_added.iter().copied().collect();
    for at in joined {
        let Some(tensor) = entities[at].between else { continue };
        if let Content::Samples { added, .. } = &tensor.content {
            let has_row = |id: &u64| !foreign.contains(id) || parts.rows_added.contains(id);
            let ids: Vec<u64> = added.iter().copied().filter(has_row).collect();
            parts.take_samples(at, ids);
        }
        if tensor.metadata {
            parts.metadata.insert(Some(at), MetadataFrom::Both);
        }
    }
    // Choices that differ from name to name can leave one that two tensors want.
    for (name, wanted_by) in parts.wanted(&entities) {
        if wanted_by.len() > 1 {
            unresolved.stopped.push(taken(name, &wanted_by, &entities));
        }
    }
    if unresolved != Unresolved::default() {
        return Err(unresolved);
    }
    Ok(parts.finish(&entities, &sides.between.rows_added))
}

struct Planning<'a> {
    sides: &'a Fitted,
    entities: &'a [Entity<'a>],
    retyped_in: &'a [(String, &'static str)],
    /// Rows that ours deleted, and that it did not get back.
    deleted_by_ours: HashSet<u64>,
    added_by_both: HashSet<u64>,
    /// Tensors that one side dropped and that may stay all the same.
    open: BTreeSet<usize>,
    parts: Parts,
    /// With the tensors they are about.
    conflicts: BTreeMap<Conflict, Vec<usize>>,
}

impl<'a> Planning<'a> {
    fn new(
        sides: &'a Fitted,
        entities: &'a [Entity<'a>],
        retyped_in: &'a [(String, &'static str)],
    ) -> Planning<'a> {
        let added_by_ours: HashSet<u64> = sides.ours.rows_added.iter().copied().collect();
        let both = sides.theirs.rows_added.iter().copied().filter(|id| added_by_ours.contains(id));
        Planning {
            sides,
            entities,
            retyped_in,
            deleted_by_ours: sides.ours.rows_deleted.iter().copied().collect(),
            added_by_both: both.collect(),
            open: BTreeSet::new(),
            parts: Parts::default(),
            conflicts: BTreeMap::new(),
        }
    }

    fn conflict(&mut self, conflict: Conflict, about: usize) {
        self.conflicts.insert(conflict, vec![about]);
    }

    fn dataset(&mut self) {
        let Fitted { ours, theirs, between, .. } = self.sides;
        self.metadata(None, ours.metadata, theirs.metadata, between.metadata);
    }

    fn metadata(&mut self, at: Option<usize>, ours: bool, theirs: bool, differs: bool) {
        match (ours, theirs) {
            (_, _) if !differs => {}
            (true, true) => {
                let tensor = at.map(|at| self.entities[at].name().to_owned());
                self.conflicts.insert(Conflict::Metadata { tensor }, at.into_iter().collect());
            }
            (true, false) => drop(self.parts.metadata.insert(at, MetadataFrom::Ours)),
            (false, true) => drop(self.parts.metadata.insert(at, MetadataFrom::Theirs)),
            (false, false) => {}
        }
    }

    fn rows(&mut self) {
        let Fitted { ours, theirs, .. } = self.sides;
        let deleted_by_theirs: HashSet<u64> = theirs.rows_deleted.iter().copied().collect();
        let only_theirs: BTreeSet<u64> =
            deleted_by_theirs.difference(&self.deleted_by_ours).copied().collect();
        let only_ours: BTreeSet<u64> = self.deleted_by_ours.difference(&deleted_by_theirs).copied().collect();
        let changed = changed_columns(ours, &only_theirs);
        self.parts.rows_deleted = only_theirs.into_iter().filter(|id| !changed.contains_key(id)).collect();
        for (id, columns) in changed {
            self.conflicts.insert(Conflict::Row { id, changed_in: Side::Ours, columns }, Vec::new());
        }
        for (id, columns) in changed_columns(theirs, &only_ours) {
            self.conflicts.insert(Conflict::Row { id, changed_in: Side::Theirs, columns }, Vec::new());
        }
        let added = theirs.rows_added.iter().copied();
        self.parts.rows_added = added.filter(|id| !self.added_by_both.contains(id)).collect();
    }

    fn entity(&mut self, at: usize) {
        let entity = &self.entities[at];
        match (entity.ours, entity.theirs) {
            (Some(_), Some(_)) => {}
            (Some(_), None) | (None, Some(_)) => {
                if let Some(kind) = self.one_sided(at) {
                    self.open.insert(at);
                    self.conflict(Conflict::Tensor { name: entity.name().to_owned(), kind }, at);
                }
                return;
            }
            (None, None) => return,
        }
        // Where ours and theirs are the same there is nothing to take and nothing to ask.
        let Some(between) = entity.between else { return };
        if let Some(theirs) = entity.by_theirs
            && let Some(kind) = self.tensor_of_both(at, entity.by_ours, theirs, between)
        {
            self.conflict(Conflict::Tensor { name: entity.name().to_owned(), kind }, at);
            return;
        }
        if self.added_by_both.is_empty() || self.parts.whole.contains(&at) {
            return;
        }
        // A row that both added (the same commit was picked twice) is changed by both in every column, also where one
        // has no sample.
        let both: Vec<u64> = listed(&between.content).filter(|id| self.added_by_both.contains(id)).collect();
        for id in both {
            if let Some(ids) = self.parts.samples.get_mut(&at) {
                ids.remove(&id);
            }
            self.conflict(Conflict::Sample { column: entity.name().to_owned(), id }, at);
        }
    }

    /// A tensor that one side has.
    fn one_sided(&mut self, at: usize) -> Option<TensorConflict> {
        let entity = &self.entities[at];
        let is_dropped = entity.base.is_some();
        let (dropped_by, changed) = match entity.ours {
            Some(_) => (Side::Theirs, entity.by_ours),
            None => (Side::Ours, entity.by_theirs),
        };
        match (is_dropped, dropped_by, changed) {
            (false, Side::Ours, _) => drop(self.parts.whole.insert(at)),
            (false, Side::Theirs, _) => {}
            (true, Side::Theirs, None) => drop(self.parts.drop.insert(at)),
            (true, Side::Ours, None) => {}
            (true, dropped_by, Some(changed)) => {
                let is_name_only =
                    changed.fate == Fate::Kept && !changed.metadata && changed.content == Content::Same;
                return Some(match is_name_only {
                    true => TensorConflict::DroppedAndRenamed { dropped_by },
                    false => TensorConflict::DroppedAndChanged { dropped_by },
                });
            }
        }
        None
    }

    /// Decides what tensors are called that the two sides call differently, and finds names that two would have.
    fn names(&mut self) {
        let mut wanted: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (at, entity) in self.entities.iter().enumerate() {
            let (Some(ours), Some(theirs)) = (entity.ours, entity.theirs) else {
                let name = match self.open.contains(&at) {
                    true => entity.ours.or(entity.theirs),
                    false => self.parts.name(at, entity),
                };
                if let Some(name) = name {
                    wanted.entry(name).or_default().insert(at);
                }
                continue;
            };
            let side = match entity.base.filter(|_| !entity.is_nameless) {
                _ if ours == theirs => Some(Side::Ours),
                Some(base) if base == ours => Some(Side::Theirs),
                Some(base) if base == theirs => Some(Side::Ours),
                _ => None,
            };
            match side {
                Some(side) => {
                    self.parts.names.insert(at, side);
                    let name = if side == Side::Ours { ours } else { theirs };
                    wanted.entry(name).or_default().insert(at);
                }
                None => {
                    let from = entity.base.filter(|_| !entity.is_nameless).map(str::to_owned);
                    let theirs_name = theirs.to_owned();
                    let kind = NameConflict::BothRenamed { from, theirs: theirs_name };
                    self.conflicts.insert(Conflict::Name { name: ours.to_owned(), kind }, vec![at]);
                    for name in [ours, theirs] {
                        wanted.entry(name).or_default().insert(at);
                    }
                }
            }
        }
        for (name, wanted_by) in wanted.into_iter().filter(|(_, by)| by.len() > 1) {
            let wanted_by: Vec<usize> = wanted_by.into_iter().collect();
            self.conflicts.insert(taken(name, &wanted_by, self.entities), wanted_by);
        }
    }

    /// Takes what only theirs changed of a tensor that both have; says so if the tensor is in conflict as a whole.
    fn tensor_of_both(
        &mut self,
        at: usize,
        ours: Option<&TensorDifference>,
        theirs: &TensorDifference,
        between: &TensorDifference,
    ) -> Option<TensorConflict> {
        let Some(ours) = ours else {
            self.take(at, theirs);
            self.metadata(Some(at), false, theirs.metadata, between.metadata);
            return None;
        };
        match (ours.fate, theirs.fate) {
            (Fate::Added, Fate::Added) if between.fate == Fate::Kept && between.content == Content::Same => {}
            (Fate::Added, Fate::Added) => {
                let is_disjoint =
                    matches!(&between.content, Content::Samples { updated, .. } if updated.is_empty());
                let joins = between.is_column && between.fate == Fate::Kept && is_disjoint;
                return Some(TensorConflict::BothAdded { joins });
            }
            (Fate::Retyped, Fate::Retyped) if between.fate == Fate::Retyped => {
                let name = self.entities[at].ours;
                let what = self.retyped_in.iter().find(|(of, _)| Some(of.as_str()) == name);
                return Some(TensorConflict::BothRetyped { what: what.map(|(_, what)| *what) });
            }
            (Fate::Kept, Fate::Retyped) if ours.content == Content::Same => self.take(at, theirs),
            (Fate::Kept, Fate::Retyped) => {
                return Some(TensorConflict::RetypedAndChanged { retyped_by: Side::Theirs });
            }
            (Fate::Retyped, Fate::Kept) if theirs.content == Content::Same => {}
            (Fate::Retyped, Fate::Kept) => {
                return Some(TensorConflict::RetypedAndChanged { retyped_by: Side::Ours });
            }
            _ => {
                if let Some(kind) = self.content_of_both(at, ours, theirs, between) {
                    return Some(kind);
                }
            }
        }
        // Metadata that came with a tensor was changed by who added it.
        let added = ours.fate == Fate::Added;
        self.metadata(Some(at), ours.metadata || added, theirs.metadata || added, between.metadata);
        None
    }

    /// As [`Planning::tensor_of_both`] for tensors of the same type on all sides.
    fn content_of_both(
        &mut self,
        at: usize,
        ours: &TensorDifference,
        theirs: &TensorDifference,
        between: &TensorDifference,
    ) -> Option<TensorConflict> {
        let name = self.entities[at].name();
        match (&ours.content, &theirs.content, &between.content) {
            (_, Content::Same, _) | (_, _, Content::Same) => {}
            (Content::Same, _, _) => self.take_content(at, theirs),
            (
                Content::Chunks { changed: by_ours },
                Content::Chunks { changed: by_theirs },
                Content::Chunks { changed: differ },
            ) => {
                let by_ours: HashSet<&Coords> = by_ours.iter().collect();
                let differ: HashSet<&Coords> = differ.iter().collect();
                for coords in by_theirs.iter().filter(|coords| differ.contains(coords)) {
                    if by_ours.contains(coords) {
                        self.conflict(Conflict::Chunk { array: name.to_owned(), coords: *coords }, at);
                    } else {
                        self.parts.chunks.entry(at).or_default().insert(*coords);
                    }
                }
            }
            (Content::Samples { .. }, Content::Samples { .. }, Content::Samples { .. }) => {
                let by_ours: HashSet<u64> = listed(&ours.content).collect();
                let differ: HashSet<u64> = listed(&between.content).collect();
                let mut taken = Vec::new();
                for id in listed(&theirs.content).filter(|id| differ.contains(id)) {
                    match (self.deleted_by_ours.contains(&id), by_ours.contains(&id)) {
                        // A conflict of the row.
                        (true, _) => {}
                        (false, true) => {
                            self.conflict(Conflict::Sample { column: name.to_owned(), id }, at);
                        }
                        (false, false) => taken.push(id),
                    }
                }
                self.parts.take_samples(at, taken);
            }
            _ => return Some(TensorConflict::BothChanged),
        }
        None
    }

    /// Takes a tensor whose type or content only theirs changed.
    fn take(&mut self, at: usize, theirs: &TensorDifference) {
        match theirs.fate {
            Fate::Added => drop(self.parts.whole.insert(at)),
            Fate::Dropped => drop(self.parts.drop.insert(at)),
            Fate::Kept => self.take_content(at, theirs),
            Fate::Retyped => {
                if theirs.content != Content::Whole {
                    self.parts.headers.insert(at);
                }
                self.take_content(at, theirs);
            }
        }
    }

    fn take_content(&mut self, at: usize, theirs: &TensorDifference) {
        match &theirs.content {
            Content::Same => {}
            Content::Whole => drop(self.parts.whole.insert(at)),
            Content::Chunks { changed } => {
                self.parts.chunks.entry(at).or_default().extend(changed);
            }
            Content::Samples { .. } => {
                let there = |id: &u64| !self.deleted_by_ours.contains(id);
                let ids: Vec<u64> = listed(&theirs.content).filter(there).collect();
                self.parts.take_samples(at, ids);
            }
        }
    }
}

/// The samples that a content lists.
fn listed(content: &Content) -> impl Iterator<Item = u64> {
    let lists: [&[u64]; 3] = match content {
        Content::Samples { added, updated, cleared } => [added, updated, cleared],
        _ => [&[], &[], &[]],
    };
    lists.into_iter().flatten().copied()
}

/// The columns in which rows of `rows` were changed, for those that were.
fn changed_columns(difference: &Difference, rows: &BTreeSet<u64>) -> BTreeMap<u64, Vec<String>> {
    let mut changed: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for tensor in &difference.tensors {
        for id in listed(&tensor.content).filter(|id| rows.contains(id)) {
            changed.entry(id).or_default().push(tensor.name.clone());
        }
    }
    changed.values_mut().for_each(|columns| columns.sort());
    changed
}

#[cfg(test)]
mod tests;
