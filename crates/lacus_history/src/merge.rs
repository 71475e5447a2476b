//! Plans merges: what to take over from another state, and what both sides changed differently. Pure.
//!
//! ```text
//!            base
//!   ours  ↙        ↘  theirs        what each side changed
//!      ours ──────► theirs          between: where the two differ
//! ```
//!
//! A place (a tensor's type, a sample, a row, a chunk, metadata) that only their side changed is taken over. It is in conflict if
//! both sides changed it and they differ there. With other bases the same plan is another operation:
//!
//! | | base | ours | theirs |
//! |---|---|---|---|
//! | merge | best common ancestor | our tip | their tip |
//! | cherry-pick of a commit | its parent | our tip | the commit |
//! | revert of a commit | the commit | our tip | its parent |

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use lacus_table::{Content, Coords, Difference, Fate, Graft, TensorDifference};
use serde::{Serialize, Serializer};

/// The three differences that a merge is planned from.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// From the base to ours.
    pub ours: &'a Difference,
    /// From the base to theirs.
    pub theirs: &'a Difference,
    /// From ours to theirs.
    pub between: &'a Difference,
}

/// One of two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The state that is merged into.
    Ours,
    /// The state that is merged.
    Theirs,
}

/// What both sides changed differently. Sorted, what concerns more comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "conflict", rename_all = "snake_case")]
pub enum Conflict {
    /// Metadata.
    Metadata {
        /// Of this tensor; of the dataset, if none.
        tensor: Option<String>,
    },
    /// A tensor as a whole.
    Tensor {
        /// Its name.
        name: String,
        /// What became of it.
        #[serde(flatten)]
        kind: TensorConflict,
    },
    /// A row that one side changed and the other deleted.
    Row {
        /// Its id.
        id: u64,
        /// Who changed it.
        changed_in: Side,
        /// The columns in which it was changed.
        columns: Vec<String>,
    },
    /// A sample.
    Sample {
        /// Its column.
        column: String,
        /// The id of its row.
        id: u64,
    },
    /// A chunk.
    Chunk {
        /// Its array.
        array: String,
        /// Where it is in the array's grid.
        #[serde(serialize_with = "numbers")]
        coords: Coords,
    },
}

/// What became of a tensor that is in conflict as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TensorConflict {
    /// Both sides added one of this name.
    BothAdded {
        /// Whether both are columns of the same type without a sample in the same row, so that there is a union.
        joins: bool,
    },
    /// Both changed its type, shape or parameters.
    BothRetyped,
    /// Both changed its content, which cannot be compared piece by piece.
    BothChanged,
    /// One side dropped it, the other changed it.
    DroppedAndChanged {
        /// Who dropped it.
        dropped_by: Side,
    },
    /// One side changed its type, shape or parameters, the other its content.
    RetypedAndChanged {
        /// Who changed the type.
        retyped_by: Side,
    },
}

/// What to do about a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It stays as we have it.
    Ours,
    /// It becomes what they have.
    Theirs,
    /// Both changes, where that has a meaning: see [`Conflict::has_union`].
    Union,
    /// Nothing is merged.
    Stop,
}

/// Whose metadata is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// What to take over, conflicts left out. All of it, when there are none.
    pub graft: Graft,
    /// Metadata that taking the graft does not set as it should be, sorted: of tensors by name, of the dataset if
    /// `None`. The caller sets it in the same version.
    pub metadata: Vec<(Option<String>, MetadataFrom)>,
    /// Sorted.
    pub conflicts: Vec<Conflict>,
}

/// A merge whose conflicts are resolved: as [`MergePlan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// What to take over.
    pub graft: Graft,
    /// Metadata that taking the graft does not set as it should be.
    pub metadata: Vec<(Option<String>, MetadataFrom)>,
}

/// Why a merge cannot be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unresolved {
    /// Conflicts that nobody resolved.
    pub stopped: Vec<Conflict>,
    /// Conflicts for which a union was wished and has no meaning.
    pub without_union: Vec<Conflict>,
}

impl Conflict {
    /// Whether [`Choice::Union`] has a meaning: a row or tensor that one side dropped stays, with the other's changes; a
    /// column that both added gets the samples of both; metadata is merged by the caller.
    pub fn has_union(&self) -> bool {
        match self {
            Conflict::Metadata { .. } | Conflict::Row { .. } => true,
            Conflict::Tensor { kind, .. } => match kind {
                TensorConflict::BothAdded { joins } => *joins,
                TensorConflict::DroppedAndChanged { .. } => true,
                TensorConflict::BothRetyped
                | TensorConflict::BothChanged
                | TensorConflict::RetypedAndChanged { .. } => false,
            },
            Conflict::Sample { .. } | Conflict::Chunk { .. } => false,
        }
    }
}

/// Plans what to take over from theirs.
///
/// A taken tensor has no samples for rows that the merged dataset does not have: who carries out the graft leaves them out.
pub fn plan(sides: &Sides<'_>) -> MergePlan {
    let mut planning = Planning::new(sides);
    planning.dataset();
    planning.rows();
    let names: BTreeSet<&str> = planning.theirs.keys().chain(planning.between.keys()).copied().collect();
    names.into_iter().for_each(|name| planning.tensor(name));
    let (graft, metadata) = planning.parts.finish(&planning.between, &sides.between.rows_added);
    MergePlan { graft, metadata, conflicts: planning.conflicts.into_iter().collect() }
}

/// Resolves the conflicts of a plan, in their order, as `choice` says. The differences are those it was made from.
pub fn resolve(
    plan: &MergePlan,
    sides: &Sides<'_>,
    mut choice: impl FnMut(&Conflict) -> Choice,
) -> Result<Merged, Unresolved> {
    let mut unresolved = Unresolved::default();
    let mut chosen = Vec::new();
    for conflict in &plan.conflicts {
        match choice(conflict) {
            Choice::Stop => unresolved.stopped.push(conflict.clone()),
            Choice::Union if !conflict.has_union() => unresolved.without_union.push(conflict.clone()),
            choice => chosen.push((conflict, choice)),
        }
    }
    if unresolved != Unresolved::default() {
        return Err(unresolved);
    }
    let between = by_name(sides.between);
    let mut parts = Parts::of(plan);
    let mut settled: BTreeSet<&str> = BTreeSet::new();
    let mut joined: Vec<&TensorDifference> = Vec::new();
    let mut returned: BTreeSet<u64> = BTreeSet::new();
    // What is taken of whole tensors comes first in the order of conflicts, and decides about samples of rows.
    for (conflict, choice) in chosen {
        match conflict {
            Conflict::Metadata { tensor } => {
                let from = match choice {
                    Choice::Theirs => MetadataFrom::Theirs,
                    Choice::Union => MetadataFrom::Both,
                    _ => MetadataFrom::Ours,
                };
                parts.metadata.insert(tensor.clone(), from);
            }
            Conflict::Tensor { name, kind } => {
                settled.insert(name);
                match (kind, choice) {
                    (TensorConflict::DroppedAndChanged { dropped_by: Side::Theirs }, Choice::Theirs) => {
                        parts.drop.insert(name.clone());
                    }
                    (TensorConflict::DroppedAndChanged { dropped_by: Side::Theirs }, _) => {}
                    (TensorConflict::BothAdded { .. }, Choice::Union) => {
                        joined.extend(between.get(name.as_str()))
                    }
                    (_, Choice::Theirs | Choice::Union) => {
                        parts.whole.insert(name.clone());
                    }
                    _ => {}
                }
            }
            Conflict::Row { id, changed_in: Side::Ours, .. } => {
                if choice == Choice::Theirs {
                    parts.rows_deleted.insert(*id);
                }
            }
            Conflict::Row { id, changed_in: Side::Theirs, .. } => {
                if choice != Choice::Ours {
                    returned.insert(*id);
                }
            }
            Conflict::Sample { column, id } => {
                if choice == Choice::Theirs {
                    parts.samples.entry(column.clone()).or_default().insert(*id);
                }
            }
            Conflict::Chunk { array, coords } => {
                if choice == Choice::Theirs {
                    parts.chunks.entry(array.clone()).or_default().insert(*coords);
                }
            }
        }
    }
    // A row that comes back does so with all its samples, changed or not.
    for tensor in
        between.values().filter(|tensor| tensor.is_column && !settled.contains(tensor.name.as_str()))
    {
        let is_same_type = match tensor.fate {
            Fate::Kept => true,
            Fate::Retyped => parts.headers.contains(&tensor.name),
            Fate::Added | Fate::Dropped => false,
        };
        if !is_same_type || parts.whole.contains(&tensor.name) {
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
        parts.take_samples(&tensor.name, ids);
    }
    parts.rows_added.extend(returned);
    let foreign: HashSet<u64> = sides.between.rows_added.iter().copied().collect();
    for tensor in joined {
        if let Content::Samples { added, .. } = &tensor.content {
            let has_row = |id: &u64| !foreign.contains(id) || parts.rows_added.contains(id);
            let ids: Vec<u64> = added.iter().copied().filter(has_row).collect();
            parts.take_samples(&tensor.name, ids);
        }
        if tensor.metadata {
            parts.metadata.insert(Some(tensor.name.clone()), MetadataFrom::Both);
        }
    }
    let (graft, metadata) = parts.finish(&between, &sides.between.rows_added);
    Ok(Merged { graft, metadata })
}

type ByName<'a> = BTreeMap<&'a str, &'a TensorDifference>;

fn by_name(difference: &Difference) -> ByName<'_> {
    difference.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect()
}

/// A graft that is being put together.
#[derive(Default)]
struct Parts {
    drop: BTreeSet<String>,
    whole: BTreeSet<String>,
    headers: BTreeSet<String>,
    chunks: BTreeMap<String, BTreeSet<Coords>>,
    samples: BTreeMap<String, BTreeSet<u64>>,
    rows_added: BTreeSet<u64>,
    rows_deleted: BTreeSet<u64>,
    rows_return: bool,
    /// Whose metadata is wanted, where it was changed.
    metadata: BTreeMap<Option<String>, MetadataFrom>,
}

impl Parts {
    fn of(plan: &MergePlan) -> Parts {
        let graft = &plan.graft;
        let mut metadata: BTreeMap<_, _> = plan.metadata.iter().cloned().collect();
        if graft.metadata {
            metadata.insert(None, MetadataFrom::Theirs);
        }
        Parts {
            drop: graft.drop.iter().cloned().collect(),
            whole: graft.whole.iter().cloned().collect(),
            headers: graft.headers.iter().cloned().collect(),
            chunks: graft
                .chunks
                .iter()
                .map(|(name, list)| (name.clone(), list.iter().copied().collect()))
                .collect(),
            samples: graft
                .samples
                .iter()
                .map(|(name, ids)| (name.clone(), ids.iter().copied().collect()))
                .collect(),
            rows_added: graft.rows_added.iter().copied().collect(),
            rows_deleted: graft.rows_deleted.iter().copied().collect(),
            rows_return: graft.rows_return,
            metadata,
        }
    }

    fn take_samples(&mut self, column: &str, ids: Vec<u64>) {
        if !ids.is_empty() {
            self.samples.entry(column.to_owned()).or_default().extend(ids);
        }
    }

    /// The graft, and the metadata that it does not set. `order` is that of their rows.
    fn finish(mut self, between: &ByName<'_>, order: &[u64]) -> (Graft, Vec<(Option<String>, MetadataFrom)>) {
        let mut own_metadata = false;
        let mut unset = Vec::new();
        for (tensor, from) in self.metadata {
            let Some(name) = &tensor else {
                match from {
                    MetadataFrom::Ours => {}
                    MetadataFrom::Theirs => own_metadata = true,
                    MetadataFrom::Both => unset.push((tensor, from)),
                }
                continue;
            };
            // Metadata is in the header, next to the type.
            let is_taken = self.whole.contains(name) || self.headers.contains(name);
            let is_same_type = between.get(name.as_str()).is_some_and(|tensor| tensor.fate == Fate::Kept);
            match from {
                MetadataFrom::Ours if !is_taken => {}
                MetadataFrom::Theirs if is_taken => {}
                MetadataFrom::Theirs if is_same_type => {
                    self.headers.insert(name.clone());
                }
                _ => unset.push((tensor, from)),
            }
        }
        let samples = self.samples.into_iter().filter(|(_, ids)| !ids.is_empty());
        let chunks = self.chunks.into_iter().filter(|(_, list)| !list.is_empty());
        let graft = Graft {
            drop: self.drop.into_iter().collect(),
            whole: self.whole.into_iter().collect(),
            headers: self.headers.into_iter().collect(),
            chunks: chunks.map(|(name, list)| (name, list.into_iter().collect())).collect(),
            samples: samples.map(|(name, ids)| (name, ids.into_iter().collect())).collect(),
            rows_added: order.iter().copied().filter(|id| self.rows_added.contains(id)).collect(),
            rows_return: self.rows_return,
            rows_deleted: self.rows_deleted.into_iter().collect(),
            metadata: own_metadata,
        };
        (graft, unset)
    }
}

struct Planning<'a> {
    sides: Sides<'a>,
    ours: ByName<'a>,
    theirs: ByName<'a>,
    between: ByName<'a>,
    /// Rows that ours deleted, and that it did not get back.
    deleted_by_ours: HashSet<u64>,
    added_by_both: HashSet<u64>,
    parts: Parts,
    conflicts: BTreeSet<Conflict>,
}

impl<'a> Planning<'a> {
    fn new(sides: &Sides<'a>) -> Planning<'a> {
        let added_by_ours: HashSet<u64> = sides.ours.rows_added.iter().copied().collect();
        let both = sides.theirs.rows_added.iter().copied().filter(|id| added_by_ours.contains(id));
        Planning {
            sides: *sides,
            ours: by_name(sides.ours),
            theirs: by_name(sides.theirs),
            between: by_name(sides.between),
            deleted_by_ours: sides.ours.rows_deleted.iter().copied().collect(),
            added_by_both: both.collect(),
            parts: Parts::default(),
            conflicts: BTreeSet::new(),
        }
    }

    fn dataset(&mut self) {
        self.metadata(
            None,
            self.sides.ours.metadata,
            self.sides.theirs.metadata,
            self.sides.between.metadata,
        );
    }

    fn metadata(&mut self, tensor: Option<&str>, ours: bool, theirs: bool, differs: bool) {
        let tensor = tensor.map(str::to_owned);
        match (ours, theirs) {
            (_, _) if !differs => {}
            (true, true) => drop(self.conflicts.insert(Conflict::Metadata { tensor })),
            (true, false) => drop(self.parts.metadata.insert(tensor, MetadataFrom::Ours)),
            (false, true) => drop(self.parts.metadata.insert(tensor, MetadataFrom::Theirs)),
            (false, false) => {}
        }
    }

    fn rows(&mut self) {
        let sides = self.sides;
        let deleted_by_theirs: HashSet<u64> = sides.theirs.rows_deleted.iter().copied().collect();
        let only_theirs: BTreeSet<u64> =
            deleted_by_theirs.difference(&self.deleted_by_ours).copied().collect();
        let only_ours: BTreeSet<u64> = self.deleted_by_ours.difference(&deleted_by_theirs).copied().collect();
        let changed = changed_columns(&self.ours, &only_theirs);
        self.parts.rows_deleted = only_theirs.into_iter().filter(|id| !changed.contains_key(id)).collect();
        for (id, columns) in changed {
            self.conflicts.insert(Conflict::Row { id, changed_in: Side::Ours, columns });
        }
        for (id, columns) in changed_columns(&self.theirs, &only_ours) {
            self.conflicts.insert(Conflict::Row { id, changed_in: Side::Theirs, columns });
        }
        let added = sides.theirs.rows_added.iter().copied();
        self.parts.rows_added = added.filter(|id| !self.added_by_both.contains(id)).collect();
    }

    fn tensor(&mut self, name: &str) {
        // Where ours and theirs are the same there is nothing to take and nothing to ask.
        let Some(between) = self.between.get(name).copied() else { return };
        let ours = self.ours.get(name).copied();
        if let Some(theirs) = self.theirs.get(name).copied()
            && let Some(kind) = self.tensor_of_both(name, ours, theirs, between)
        {
            self.conflicts.insert(Conflict::Tensor { name: name.to_owned(), kind });
            return;
        }
        if self.added_by_both.is_empty() || self.parts.whole.contains(name) {
            return;
        }
        // A row that both added (the same commit was picked twice) is changed by both in every column, also where one
        // has no sample.
        for id in listed(&between.content).filter(|id| self.added_by_both.contains(id)) {
            if let Some(ids) = self.parts.samples.get_mut(name) {
                ids.remove(&id);
            }
            self.conflicts.insert(Conflict::Sample { column: name.to_owned(), id });
        }
    }

    /// Takes what only theirs changed of a tensor; says so if the tensor is in conflict as a whole.
    fn tensor_of_both(
        &mut self,
        name: &str,
        ours: Option<&TensorDifference>,
        theirs: &TensorDifference,
        between: &TensorDifference,
    ) -> Option<TensorConflict> {
        let Some(ours) = ours else {
            self.take(name, theirs);
            self.metadata(Some(name), false, theirs.metadata, between.metadata);
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
            (_, Fate::Dropped) => {
                return Some(TensorConflict::DroppedAndChanged { dropped_by: Side::Theirs });
            }
            (Fate::Dropped, _) => return Some(TensorConflict::DroppedAndChanged { dropped_by: Side::Ours }),
            (Fate::Retyped, Fate::Retyped) if between.fate == Fate::Retyped => {
                return Some(TensorConflict::BothRetyped);
            }
            (Fate::Kept, Fate::Retyped) if ours.content == Content::Same => self.take(name, theirs),
            (Fate::Kept, Fate::Retyped) => {
                return Some(TensorConflict::RetypedAndChanged { retyped_by: Side::Theirs });
            }
            (Fate::Retyped, Fate::Kept) if theirs.content == Content::Same => {}
            (Fate::Retyped, Fate::Kept) => {
                return Some(TensorConflict::RetypedAndChanged { retyped_by: Side::Ours });
            }
            _ => {
                if let Some(kind) = self.content_of_both(name, ours, theirs, between) {
                    return Some(kind);
                }
            }
        }
        // Metadata that came with a tensor was changed by who added it.
        let added = ours.fate == Fate::Added;
        self.metadata(Some(name), ours.metadata || added, theirs.metadata || added, between.metadata);
        None
    }

    /// As [`Planning::tensor_of_both`] for tensors of the same type on all sides.
    fn content_of_both(
        &mut self,
        name: &str,
        ours: &TensorDifference,
        theirs: &TensorDifference,
        between: &TensorDifference,
    ) -> Option<TensorConflict> {
        match (&ours.content, &theirs.content, &between.content) {
            (_, Content::Same, _) | (_, _, Content::Same) => {}
            (Content::Same, _, _) => self.take_content(name, theirs),
            (
                Content::Chunks { changed: by_ours },
                Content::Chunks { changed: by_theirs },
                Content::Chunks { changed: differ },
            ) => {
                let by_ours: HashSet<&Coords> = by_ours.iter().collect();
                let differ: HashSet<&Coords> = differ.iter().collect();
                for coords in by_theirs.iter().filter(|coords| differ.contains(coords)) {
                    if by_ours.contains(coords) {
                        self.conflicts.insert(Conflict::Chunk { array: name.to_owned(), coords: *coords });
                    } else {
                        self.parts.chunks.entry(name.to_owned()).or_default().insert(*coords);
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
                            self.conflicts.insert(Conflict::Sample { column: name.to_owned(), id });
                        }
                        (false, false) => taken.push(id),
                    }
                }
                self.parts.take_samples(name, taken);
            }
            _ => return Some(TensorConflict::BothChanged),
        }
        None
    }

    /// Takes a tensor whose type or content only theirs changed.
    fn take(&mut self, name: &str, theirs: &TensorDifference) {
        match theirs.fate {
            Fate::Added => drop(self.parts.whole.insert(name.to_owned())),
            Fate::Dropped => drop(self.parts.drop.insert(name.to_owned())),
            Fate::Kept => self.take_content(name, theirs),
            Fate::Retyped => {
                if theirs.content != Content::Whole {
                    self.parts.headers.insert(name.to_owned());
                }
                self.take_content(name, theirs);
            }
        }
    }

    fn take_content(&mut self, name: &str, theirs: &TensorDifference) {
        match &theirs.content {
            Content::Same => {}
            Content::Whole => drop(self.parts.whole.insert(name.to_owned())),
            Content::Chunks { changed } => {
                self.parts.chunks.entry(name.to_owned()).or_default().extend(changed);
            }
            Content::Samples { .. } => {
                let there = |id: &u64| !self.deleted_by_ours.contains(id);
                let ids: Vec<u64> = listed(&theirs.content).filter(there).collect();
                self.parts.take_samples(name, ids);
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
fn changed_columns(tensors: &ByName<'_>, rows: &BTreeSet<u64>) -> BTreeMap<u64, Vec<String>> {
    let mut changed: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (name, tensor) in tensors {
        for id in listed(&tensor.content).filter(|id| rows.contains(id)) {
            changed.entry(id).or_default().push((*name).to_owned());
        }
    }
    changed
}

fn numbers<S: Serializer>(coords: &Coords, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(coords.iter())
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Ours => "ours",
            Side::Theirs => "theirs",
        })
    }
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Ours => Side::Theirs,
            Side::Theirs => Side::Ours,
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conflict::Metadata { tensor: None } => {
                write!(f, "metadata of the dataset: changed on both sides")
            }
            Conflict::Metadata { tensor: Some(name) } => {
                write!(f, "metadata of {name:?}: changed on both sides")
            }
            Conflict::Tensor { name, kind } => write!(f, "{name:?}: {kind}"),
            Conflict::Row { id, changed_in, columns } => {
                let names: Vec<String> = columns.iter().map(|name| format!("{name:?}")).collect();
                let (columns, by) = (names.join(", "), changed_in.other());
                write!(f, "row with id {id}: changed in {changed_in} ({columns}), deleted in {by}")
            }
            Conflict::Sample { column, id } => {
                write!(f, "{column:?}, row with id {id}: changed on both sides")
            }
            Conflict::Chunk { array, coords } => {
                write!(f, "{array:?}, chunk {:?}: changed on both sides", &coords[..])
            }
        }
    }
}

impl fmt::Display for TensorConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorConflict::BothAdded { .. } => write!(f, "added on both sides, differently"),
            TensorConflict::BothRetyped => write!(f, "type or shape changed on both sides, differently"),
            TensorConflict::BothChanged => write!(f, "content changed on both sides"),
            TensorConflict::DroppedAndChanged { dropped_by } => {
                write!(f, "changed in {}, dropped in {dropped_by}", dropped_by.other())
            }
            TensorConflict::RetypedAndChanged { retyped_by } => {
                write!(f, "content changed in {}, type or shape changed in {retyped_by}", retyped_by.other())
            }
        }
    }
}

#[cfg(test)]
mod tests;
