//! The tensors that a merge is about, each with its names on all sides and with what became of it.
//!
//! A tensor may be called otherwise in the base, in ours and in theirs. The differences say which are the same.

use std::collections::{BTreeMap, BTreeSet};

use lacus_table::{Content, Coords, Difference, Fate, TensorDifference};

use super::conflict::{Conflict, NameConflict};

/// A tensor of which somebody changed something.
#[derive(Clone, Debug)]
pub(super) struct Entity<'a> {
    /// Its names, where it is there.
    pub base: Option<&'a str>,
    pub ours: Option<&'a str>,
    pub theirs: Option<&'a str>,
    /// What each side changed, and where the two differ.
    pub by_ours: Option<&'a TensorDifference>,
    pub by_theirs: Option<&'a TensorDifference>,
    pub between: Option<&'a TensorDifference>,
    /// Whether the base does not know its name: two bases were merged that call it differently.
    pub is_nameless: bool,
}

impl Entity<'_> {
    /// What it is called in messages.
    pub(super) fn name(&self) -> &str {
        self.ours.or(self.theirs).or(self.base).unwrap_or_default()
    }
}

/// The differences of a merge, made to fit each other.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    pub ours: Difference,
    pub theirs: Difference,
    pub between: Difference,
    /// Names of the base that count for nothing.
    nameless: BTreeSet<String>,
    /// Stands for a comparison that was not made.
    unknown: TensorDifference,
}

impl Fitted {
    pub(super) fn new(
        ours: &Difference,
        theirs: &Difference,
        between: &Difference,
        unsettled: &[Conflict],
    ) -> Fitted {
        let unknown = TensorDifference { content: Content::Whole, fate: Fate::Retyped, ..kept("", false) };
        let mut fitted = Fitted {
            ours: ours.clone(),
            theirs: theirs.clone(),
            between: between.clone(),
            nameless: BTreeSet::new(),
            unknown,
        };
        let renamed = |difference: &Difference| -> BTreeSet<String> {
            difference.tensors.iter().filter_map(|tensor| tensor.renamed_from.clone()).collect()
        };
        // Another tensor took the name of one that the other side calls something else now: these are two.
        split(&mut fitted.ours, &renamed(theirs));
        split(&mut fitted.theirs, &renamed(ours));
        for conflict in unsettled {
            if let Conflict::Name { name, kind: NameConflict::BothRenamed { .. } } = conflict {
                fitted.nameless.insert(name.clone());
            }
            unsettle(&mut fitted.ours, conflict);
            unsettle(&mut fitted.theirs, conflict);
        }
        fitted
    }

    /// The tensors, in an order that depends on nothing but their names.
    pub(super) fn entities(&self) -> Vec<Entity<'_>> {
        let (ours, theirs) = (ByName::new(&self.ours), ByName::new(&self.theirs));
        let between = ByName::new(&self.between);
        let mut found: Vec<Entity<'_>> = Vec::new();
        let known: BTreeSet<&str> = ours.before.keys().chain(theirs.before.keys()).copied().collect();
        for base in known {
            found.push(Entity {
                base: Some(base),
                ours: ours.name_of(base),
                theirs: theirs.name_of(base),
                by_ours: ours.before.get(base).copied(),
                by_theirs: theirs.before.get(base).copied(),
                between: None,
                is_nameless: self.nameless.contains(base),
            });
        }
        // Those that the base does not have: both sides may have the same one.
        let is_new = |side: &ByName<'_>, name: &str| {
            side.after.get(name).is_some_and(|tensor| tensor.fate == Fate::Added)
        };
        let mut paired: BTreeSet<&str> = BTreeSet::new();
        for (name, by_theirs) in theirs.after.iter().filter(|(_, tensor)| tensor.fate == Fate::Added) {
            let same = match between.after.get(name) {
                Some(pair) => pair.before(),
                None => Some(*name),
            };
            let same = same.filter(|name| is_new(&ours, name));
            paired.extend(same);
            found.push(Entity {
                base: None,
                ours: same,
                theirs: Some(name),
                by_ours: same.and_then(|name| ours.after.get(name).copied()),
                by_theirs: Some(by_theirs),
                between: None,
                is_nameless: false,
            });
        }
        for (name, by_ours) in ours.after.iter().filter(|(_, tensor)| tensor.fate == Fate::Added) {
            if !paired.contains(name) {
                found.push(Entity {
                    base: None,
                    ours: Some(name),
                    theirs: None,
                    by_ours: Some(by_ours),
                    by_theirs: None,
                    between: None,
                    is_nameless: false,
                });
            }
        }
        // Those that neither side is known to have changed, and that differ all the same.
        let seen: BTreeSet<&str> = found.iter().filter_map(|entity| entity.theirs).collect();
        for (name, pair) in &between.after {
            if let Some(before) = pair.before().filter(|_| !seen.contains(name)) {
                found.push(Entity {
                    base: Some(before),
                    ours: Some(before),
                    theirs: Some(name),
                    by_ours: None,
                    by_theirs: None,
                    between: None,
                    is_nameless: false,
                });
            }
        }
        for entity in &mut found {
            let (Some(here), Some(there)) = (entity.ours, entity.theirs) else { continue };
            entity.between = match (between.before.get(here), between.after.get(there)) {
                (Some(pair), _) if pair.after() == Some(there) => Some(pair),
                (None, None) if here == there => None,
                // The two were not compared with each other: nothing is known of how they differ.
                _ => Some(&self.unknown),
            };
        }
        found.sort_by_key(|entity| (entity.ours, entity.theirs, entity.base));
        found
    }
}

/// The tensors of a difference by their earlier and by their later names.
struct ByName<'a> {
    before: BTreeMap<&'a str, &'a TensorDifference>,
    after: BTreeMap<&'a str, &'a TensorDifference>,
}

impl<'a> ByName<'a> {
    fn new(difference: &'a Difference) -> ByName<'a> {
        let named = |name: fn(&'a TensorDifference) -> Option<&'a str>| {
            difference.tensors.iter().filter_map(move |tensor| Some((name(tensor)?, tensor))).collect()
        };
        ByName { before: named(TensorDifference::before), after: named(TensorDifference::after) }
    }

    /// What a tensor of the earlier state is called later; what is not listed did not change.
    fn name_of(&self, before: &'a str) -> Option<&'a str> {
        self.before.get(before).map_or(Some(before), |tensor| tensor.after())
    }
}

fn kept(name: &str, is_column: bool) -> TensorDifference {
    TensorDifference {
        name: name.to_owned(),
        renamed_from: None,
        is_successor: false,
        is_column,
        fate: Fate::Kept,
        metadata: false,
        content: Content::Same,
    }
}

/// Takes tensors that have but the name of one of the base in common with it apart from that.
fn split(difference: &mut Difference, renamed: &BTreeSet<String>) {
    let is_two = |tensor: &TensorDifference| tensor.is_successor && renamed.contains(&tensor.name);
    let two: Vec<TensorDifference> = difference.tensors.extract_if(.., |tensor| is_two(tensor)).collect();
    for tensor in two {
        for fate in [Fate::Added, Fate::Dropped] {
            difference.tensors.push(TensorDifference { fate, ..kept(&tensor.name, tensor.is_column) });
        }
    }
}

/// Notes what has no value in the base, because two bases disagree on it, as changed.
fn unsettle(difference: &mut Difference, conflict: &Conflict) {
    match conflict {
        Conflict::Metadata { tensor: None } => difference.metadata = true,
        Conflict::Metadata { tensor: Some(name) } => {
            if let Some(tensor) = changed(difference, name, false) {
                tensor.metadata = true;
            }
        }
        Conflict::Tensor { name, .. } => {
            if let Some(tensor) = changed(difference, name, false) {
                (tensor.fate, tensor.content) = (Fate::Retyped, Content::Whole);
            }
        }
        Conflict::Name { .. } => {}
        Conflict::Row { id, columns, .. } => {
            columns.iter().for_each(|column| unsettle_sample(difference, column, *id));
        }
        Conflict::Sample { column, id } => unsettle_sample(difference, column, *id),
        Conflict::Chunk { array, coords } => {
            if let Some(tensor) = changed(difference, array, false) {
                unsettle_chunk(&mut tensor.content, *coords);
            }
        }
    }
}

/// The difference of a tensor that is there still, by its earlier name.
fn changed<'a>(
    difference: &'a mut Difference,
    name: &str,
    is_column: bool,
) -> Option<&'a mut TensorDifference> {
    let at = difference.tensors.iter().position(|tensor| tensor.before() == Some(name));
    let at = at.unwrap_or_else(|| {
        difference.tensors.push(kept(name, is_column));
        difference.tensors.len() - 1
    });
    difference.tensors.get_mut(at).filter(|tensor| tensor.fate != Fate::Dropped)
}

fn unsettle_sample(difference: &mut Difference, column: &str, id: u64) {
    if difference.rows_deleted.contains(&id) {
        return;
    }
    let Some(tensor) = changed(difference, column, true) else { return };
    match &mut tensor.content {
        Content::Same => {
            tensor.content = Content::Samples { added: Vec::new(), updated: vec![id], cleared: Vec::new() };
        }
        Content::Samples { added, updated, cleared } => {
            if ![&*added, updated, cleared].iter().any(|list| list.contains(&id)) {
                updated.push(id);
                updated.sort_unstable();
            }
        }
        Content::Whole | Content::Chunks { .. } => {}
    }
}

fn unsettle_chunk(content: &mut Content, coords: Coords) {
    match content {
        Content::Same => *content = Content::Chunks { changed: vec![coords] },
        Content::Chunks { changed } => {
            if let Err(at) = changed.binary_search(&coords) {
                changed.insert(at, coords);
            }
        }
        Content::Whole | Content::Samples { .. } => {}
    }
}
