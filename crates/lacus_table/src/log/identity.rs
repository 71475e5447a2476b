//! Who a tensor is, whatever it is called.
//!
//! A tensor gets an id when it is made. Writes, renames, branches and merges keep it, so that a merge recognises a tensor
//! that was renamed, and columns are listed in the order in which they were added:
//!
//! ```text
//! 0199c2a4f3b1 0003 5d0c7b1e9a4f2286
//! milliseconds │    └ 64 bits of chance
//!              └ place within the write
//! ```
//!
//! A tensor of a version of Lacus that gave no ids is who its name says: its id is sixteen zeros and that name. It sorts before all
//! others, and is written out when the tensor is renamed or written again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use lacus_io::World;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::log::snapshot::{HeaderRow, Snapshot};

/// The key of a header row's parameters that says the id.
pub(crate) const KEY: &str = "id";

/// What stands for time and place where they are not known.
const LONG_AGO: &str = "0000000000000000";

/// The most that 48 bits count.
const MAX_MILLIS: u64 = (1 << 48) - 1;

/// The id that a header row says.
fn written(header: &HeaderRow) -> Option<String> {
    #[derive(Deserialize)]
    struct Known<'a> {
        #[serde(borrow, default)]
        id: Option<Cow<'a, str>>,
    }
    serde_json::from_str::<Known<'_>>(&header.parameters).ok()?.id.map(Cow::into_owned)
}

/// Who a tensor of this name is.
pub(crate) fn identity(name: &str, header: &HeaderRow) -> String {
    written(header).unwrap_or_else(|| format!("{LONG_AGO}{name}"))
}

/// The same header row, with the id written in it.
pub(crate) fn identified(header: HeaderRow, id: &str) -> HeaderRow {
    if written(&header).as_deref() == Some(id) {
        return header;
    }
    // Parameters that are no object are damage, which is for others to find.
    let Ok(mut parameters) = serde_json::from_str::<Map<String, Json>>(&header.parameters) else {
        return header;
    };
    parameters.insert(KEY.to_owned(), id.into());
    HeaderRow { parameters: Json::Object(parameters).to_string(), ..header }
}

/// Says who the tensors of one write are: those of the snapshot stay who they are, new ones get ids that sort after all
/// that there are.
pub(crate) struct Identities<'a> {
    snapshot: &'a Snapshot,
    world: &'a World,
    /// Time and place of the next new one, once one was asked for.
    next: Option<(u64, u16)>,
}

impl<'a> Identities<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, world: &'a World) -> Identities<'a> {
        Identities { snapshot, world, next: None }
    }

    /// The header row of the tensor of this name, with its id.
    pub(crate) fn give(&mut self, name: &str, header: HeaderRow) -> HeaderRow {
        let id = match self.snapshot.tensor(name) {
            Some(state) => identity(name, &state.header),
            None => self.fresh(),
        };
        identified(header, &id)
    }

    fn fresh(&mut self) -> String {
        let (millis, place) = self.next.unwrap_or_else(|| (self.now(), 0));
        self.next = Some(match place.checked_add(1) {
            Some(place) => (millis, place),
            None => ((millis + 1).min(MAX_MILLIS), 0),
        });
        let (high, low) = self.world.uuid().as_u64_pair();
        format!("{millis:012x}{place:04x}{:016x}", high ^ low)
    }

    /// The time, or one more than that of the newest tensor if that is more: clocks differ, and a millisecond is long.
    fn now(&self) -> u64 {
        let now = u64::try_from(self.world.now_millis()).unwrap_or(0).max(1);
        let millis = |id: String| u64::from_str_radix(id.get(..12)?, 16).ok();
        let known = self.snapshot.tensors().filter_map(|(_, state)| written(&state.header).and_then(millis));
        known.max().map_or(now, |newest| now.max(newest.saturating_add(1))).min(MAX_MILLIS)
    }
}

/// Which tensors of two states are the same, as pairs of their names: those with the same id, and of the others those with
/// the same name. What is left is in one state only. Sorted by the later name, or the earlier where there is none.
pub(crate) fn pairs<'a>(before: &'a Snapshot, after: &'a Snapshot) -> Vec<Pair<'a>> {
    let before: Vec<(&str, String)> =
        before.tensors().map(|(name, state)| (name.as_str(), identity(name, &state.header))).collect();
    let after: Vec<(&str, String)> =
        after.tensors().map(|(name, state)| (name.as_str(), identity(name, &state.header))).collect();
    pair(&before, &after)
}

/// A tensor of two states: its name in each, where it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair<'a> {
    pub before: Option<&'a str>,
    pub after: Option<&'a str>,
    /// Whether the ids differ: one was dropped, and another that was made since has its name.
    pub by_name: bool,
}

fn pair<'a>(before: &[(&'a str, String)], after: &[(&'a str, String)]) -> Vec<Pair<'a>> {
    // An id that two tensors have (only writers that know nothing of ids could bring that about) tells nobody apart.
    let by_id = |side: &[(&'a str, String)]| {
        let mut found: BTreeMap<String, Option<&'a str>> = BTreeMap::new();
        for (name, id) in side {
            found.entry(id.clone()).and_modify(|name| *name = None).or_insert(Some(name));
        }
        found
    };
    let (old, new) = (by_id(before), by_id(after));
    let mut pairs: Vec<Pair<'a>> = Vec::with_capacity(after.len());
    let (mut old_left, mut new_left): (BTreeSet<&str>, BTreeSet<&str>) =
        (before.iter().map(|(name, _)| *name).collect(), after.iter().map(|(name, _)| *name).collect());
    for (id, name) in &old {
        if let (Some(name), Some(Some(other))) = (name, new.get(id)) {
            old_left.remove(name);
            new_left.remove(other);
            pairs.push(Pair { before: Some(name), after: Some(other), by_name: false });
        }
    }
    for name in &old_left {
        let after = new_left.take(name);
        pairs.push(Pair { before: Some(name), after, by_name: after.is_some() });
    }
    pairs.extend(new_left.into_iter().map(|name| Pair { before: None, after: Some(name), by_name: false }));
    pairs.sort_by_key(|pair| (pair.after.or(pair.before), pair.after.is_none()));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &[(&'static str, &str)], after: &[(&'static str, &str)], expected: &str) {
        let listed = |side: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
            side.iter().map(|(name, id)| (*name, (*id).to_owned())).collect()
        };
        let (before, after) = (listed(before), listed(after));
        let found: Vec<String> = pair(&before, &after)
            .iter()
            .map(|pair| {
                let name = |name: Option<&str>| name.unwrap_or("-").to_owned();
                let mark = if pair.by_name { "~" } else { ">" };
                format!("{}{mark}{}", name(pair.before), name(pair.after))
            })
            .collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn tensors_are_the_same_by_id_then_by_name() {
        check(&[("a", "1"), ("b", "2")], &[("a", "1"), ("b", "2")], "a>a b>b");
        check(&[("a", "1"), ("b", "2")], &[("a", "2"), ("b", "1")], "b>a a>b");
        check(&[("a", "1")], &[("b", "1"), ("a", "2")], "->a a>b");
        check(&[("a", "1")], &[("a", "2")], "a~a");
        check(&[("a", "1"), ("b", "2")], &[("b", "1")], "a>b b>-");
        check(&[("a", "1")], &[("b", "3")], "a>- ->b");
        check(&[("a", "1"), ("b", "1")], &[("a", "1"), ("b", "1")], "a~a b~b");
    }
}
