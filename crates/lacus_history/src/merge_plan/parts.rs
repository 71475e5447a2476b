//! A merge that is being put together: whose content each tensor gets, what it is called in the end, and what is to be done for that.

use std::collections::{BTreeMap, BTreeSet};

use lacus_table::{Coords, Fate, Graft};

use super::conflict::{Conflict, NameConflict, Side};
use super::entities::Entity;
use super::{Merged, MetadataFrom};

/// A merge that is being put together. Tensors are numbered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub drop: BTreeSet<usize>,
    pub whole: BTreeSet<usize>,
    pub headers: BTreeSet<usize>,
    pub chunks: BTreeMap<usize, BTreeSet<Coords>>,
    pub samples: BTreeMap<usize, BTreeSet<u64>>,
    pub rows_added: BTreeSet<u64>,
    pub rows_deleted: BTreeSet<u64>,
    /// Whose metadata is wanted, where it was changed.
    pub metadata: BTreeMap<Option<usize>, MetadataFrom>,
    /// Whose name counts, for tensors that both have and call differently.
    pub names: BTreeMap<usize, Side>,
}

impl Parts {
    pub(super) fn take_samples(&mut self, column: usize, ids: Vec<u64>) {
        if !ids.is_empty() {
            self.samples.entry(column).or_default().extend(ids);
        }
    }

    /// What a tensor is called in the end, if it is there.
    pub(super) fn name<'a>(&self, at: usize, entity: &Entity<'a>) -> Option<&'a str> {
        match (entity.ours, entity.theirs) {
            (Some(_), _) if self.drop.contains(&at) => None,
            (Some(ours), Some(theirs)) => match self.names.get(&at) {
                Some(Side::Theirs) => Some(theirs),
                _ => Some(ours),
            },
            (Some(ours), None) => Some(ours),
            (None, theirs) => theirs.filter(|_| self.whole.contains(&at)),
        }
    }

    /// Which tensors are to have a name.
    pub(super) fn wanted<'a>(&self, entities: &[Entity<'a>]) -> BTreeMap<&'a str, Vec<usize>> {
        let mut wanted: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, entity) in entities.iter().enumerate() {
            if let Some(name) = self.name(at, entity) {
                wanted.entry(name).or_default().push(at);
            }
        }
        wanted
    }

    /// What is to be done. `order` is that of their rows.
    pub(super) fn finish(mut self, entities: &[Entity<'_>], order: &[u64]) -> Merged {
        let mut own_metadata = false;
        let mut metadata = Vec::new();
        let name_of: Vec<Option<&str>> =
            entities.iter().enumerate().map(|(at, entity)| self.name(at, entity)).collect();
        let named = |at: &usize| name_of[*at].map(str::to_owned);
        for (tensor, from) in &self.metadata {
            let Some(at) = tensor else {
                match from {
                    MetadataFrom::Ours => {}
                    MetadataFrom::Theirs => own_metadata = true,
                    MetadataFrom::Both => metadata.push((None, *from)),
                }
                continue;
            };
            // Metadata is in the header, next to the type.
            let is_taken = self.whole.contains(at) || self.headers.contains(at);
            let is_same_type = entities[*at].between.is_some_and(|tensor| tensor.fate == Fate::Kept);
            match from {
                MetadataFrom::Ours if !is_taken => {}
                MetadataFrom::Theirs if is_taken => {}
                MetadataFrom::Theirs if is_same_type => {
                    self.headers.insert(*at);
                }
                _ => metadata.extend(named(at).map(|name| (Some(name), *from))),
            }
        }
        metadata.sort();
        let (mut renames, mut names, mut drop) = (Vec::new(), Vec::new(), Vec::new());
        for (at, entity) in entities.iter().enumerate() {
            match (entity.ours, name_of[at]) {
                (Some(ours), None) => drop.push(ours.to_owned()),
                // What is replaced need not be copied under its new name first.
                (Some(ours), Some(name)) if ours != name && self.whole.contains(&at) => {
                    drop.push(ours.to_owned());
                }
                (Some(ours), Some(name)) if ours != name => renames.push((ours.to_owned(), name.to_owned())),
                _ => {}
            }
            if let (Some(theirs), Some(name)) = (entity.theirs, name_of[at])
                && theirs != name
            {
                names.push((name.to_owned(), theirs.to_owned()));
            }
        }
        [&mut renames, &mut names].into_iter().for_each(|list| list.sort());
        drop.sort();
        let sorted = |list: BTreeSet<usize>| {
            let mut names: Vec<String> = list.iter().filter_map(named).collect();
            names.sort();
            names
        };
        let mut chunks: Vec<(String, Vec<Coords>)> = Vec::new();
        for (at, list) in self.chunks.into_iter().filter(|(_, list)| !list.is_empty()) {
            chunks.extend(named(&at).map(|name| (name, list.into_iter().collect())));
        }
        let mut samples: Vec<(String, Vec<u64>)> = Vec::new();
        for (at, ids) in self.samples.into_iter().filter(|(_, ids)| !ids.is_empty()) {
            samples.extend(named(&at).map(|name| (name, ids.into_iter().collect())));
        }
        chunks.sort_by(|a, b| a.0.cmp(&b.0));
        samples.sort_by(|a, b| a.0.cmp(&b.0));
        let graft = Graft {
            names,
            drop,
            whole: sorted(self.whole),
            headers: sorted(self.headers),
            chunks,
            samples,
            rows_added: order.iter().copied().filter(|id| self.rows_added.contains(id)).collect(),
            rows_return: false,
            rows_deleted: self.rows_deleted.into_iter().collect(),
            metadata: own_metadata,
        };
        Merged { renames, graft, metadata }
    }
}

/// The conflict of tensors that want the same name.
pub(super) fn taken(name: &str, wanted_by: &[usize], entities: &[Entity<'_>]) -> Conflict {
    let of = |is_it: fn(&Entity<'_>, &str) -> bool| {
        wanted_by.iter().map(|at| &entities[*at]).find(|entity| is_it(entity, name))
    };
    let (ours, theirs) =
        (of(|entity, name| entity.ours == Some(name)), of(|entity, name| entity.theirs == Some(name)));
    let in_ours = theirs.and_then(|entity| entity.ours).map(str::to_owned);
    let in_theirs = ours.and_then(|entity| entity.theirs).map(str::to_owned);
    Conflict::Name { name: name.to_owned(), kind: NameConflict::Taken { in_ours, in_theirs } }
}
