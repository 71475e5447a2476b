//! Plans by hand, and against a model: a dataset as maps, merged place by place.

use lacus_simulation::Dice;

use super::*;

fn tensor(name: &str, fate: Fate, content: Content) -> TensorDifference {
    let is_column = name.starts_with('x');
    TensorDifference {
        name: name.to_owned(),
        renamed_from: None,
        is_successor: false,
        is_column,
        fate,
        metadata: false,
        content,
    }
}

fn samples(added: &[u64], updated: &[u64], cleared: &[u64]) -> Content {
    Content::Samples { added: added.to_vec(), updated: updated.to_vec(), cleared: cleared.to_vec() }
}

fn chunks(places: &[i64]) -> Content {
    Content::Chunks { changed: places.iter().map(|place| Coords::new(&[*place]).unwrap()).collect() }
}

fn of(tensors: Vec<TensorDifference>) -> Difference {
    Difference { tensors, ..Difference::default() }
}

/// Plans and resolves all conflicts one way; gives the conflicts as text, and the graft.
fn check(
    (ours, theirs, between): (Difference, Difference, Difference),
    choice: Choice,
    conflicts: &[&str],
    expected: Graft,
) {
    let sides = Sides::new(&ours, &theirs, &between);
    let plan = plan(&sides);
    let found: Vec<String> = plan.conflicts.iter().map(Conflict::to_string).collect();
    assert_eq!(found, conflicts);
    let merged = resolve(&plan, &sides, |_| choice).unwrap();
    assert_eq!(merged.graft, expected);
}

#[test]
fn the_same_sample_changed_twice() {
    let case = || {
        let ours = of(vec![tensor("x", Fate::Kept, samples(&[], &[1, 2], &[]))]);
        let theirs = of(vec![tensor("x", Fate::Kept, samples(&[], &[2, 3], &[]))]);
        let between = of(vec![tensor("x", Fate::Kept, samples(&[], &[1, 2, 3], &[]))]);
        (ours, theirs, between)
    };
    let conflicts = ["\"x\", row with id 2: changed on both sides"];
    let taken = |ids: &[u64]| Graft { samples: vec![("x".to_owned(), ids.to_vec())], ..Graft::default() };
    check(case(), Choice::Ours, &conflicts, taken(&[3]));
    check(case(), Choice::Theirs, &conflicts, taken(&[2, 3]));
    let (ours, theirs, between) = case();
    let sides = Sides::new(&ours, &theirs, &between);
    let planned = plan(&sides);
    assert_eq!(planned.merged.graft, taken(&[3]));
    let stopped = resolve(&planned, &sides, |_| Choice::Stop).unwrap_err();
    assert_eq!((stopped.stopped.len(), stopped.without_union.len()), (1, 0));
    let no_union = resolve(&planned, &sides, |_| Choice::Union).unwrap_err();
    assert_eq!((no_union.stopped.len(), no_union.without_union.len()), (0, 1));
}

#[test]
fn the_same_change_twice_is_none() {
    let same = || {
        of(vec![tensor("x", Fate::Kept, samples(&[], &[1], &[])), tensor("y", Fate::Added, Content::Same)])
    };
    check((same(), same(), Difference::default()), Choice::Stop, &[], Graft::default());
}

#[test]
fn a_row_changed_here_and_deleted_there() {
    let changed = || of(vec![tensor("x", Fate::Kept, samples(&[], &[5], &[]))]);
    let deleted = || Difference { rows_deleted: vec![5, 6], ..Difference::default() };
    // Between: the row is only in one of them.
    let ours_has = || Difference { rows_deleted: vec![5, 6], ..Difference::default() };
    let conflicts = ["row with id 5: changed in ours (\"x\"), deleted in theirs"];
    let expected = |ids: &[u64]| Graft { rows_deleted: ids.to_vec(), ..Graft::default() };
    check((changed(), deleted(), ours_has()), Choice::Ours, &conflicts, expected(&[6]));
    check((changed(), deleted(), ours_has()), Choice::Union, &conflicts, expected(&[6]));
    check((changed(), deleted(), ours_has()), Choice::Theirs, &conflicts, expected(&[5, 6]));

    // The row comes back with all its samples.
    let theirs_has = || Difference {
        rows_added: vec![5, 6],
        ..of(vec![
            tensor("x", Fate::Kept, samples(&[5, 6], &[], &[])),
            tensor("x2", Fate::Kept, samples(&[5, 6], &[], &[])),
        ])
    };
    let conflicts = ["row with id 5: changed in theirs (\"x\"), deleted in ours"];
    let back = || Graft {
        rows_added: vec![5],
        samples: vec![("x".to_owned(), vec![5]), ("x2".to_owned(), vec![5])],
        ..Graft::default()
    };
    check((deleted(), changed(), theirs_has()), Choice::Ours, &conflicts, Graft::default());
    check((deleted(), changed(), theirs_has()), Choice::Union, &conflicts, back());
    check((deleted(), changed(), theirs_has()), Choice::Theirs, &conflicts, back());
}

#[test]
fn new_rows_come_with_their_samples_in_their_order() {
    let theirs = || Difference {
        rows_added: vec![9, 7],
        ..of(vec![tensor("x", Fate::Kept, samples(&[7, 9], &[], &[]))])
    };
    let ours = of(vec![tensor("x2", Fate::Added, Content::Same)]);
    let between = Difference {
        rows_added: vec![9, 7],
        ..of(vec![
            tensor("x", Fate::Kept, samples(&[7, 9], &[], &[])),
            tensor("x2", Fate::Dropped, Content::Same),
        ])
    };
    let expected =
        Graft { rows_added: vec![9, 7], samples: vec![("x".to_owned(), vec![7, 9])], ..Graft::default() };
    check((ours, theirs(), between), Choice::Stop, &[], expected);

    let dropped = of(vec![tensor("x", Fate::Dropped, Content::Same)]);
    let between =
        || Difference { rows_added: vec![9, 7], ..of(vec![tensor("x", Fate::Added, Content::Same)]) };
    let conflicts = ["\"x\": changed in theirs, dropped in ours"];
    let rows = || Graft { rows_added: vec![9, 7], ..Graft::default() };
    check((dropped.clone(), theirs(), between()), Choice::Ours, &conflicts, rows());
    let whole = || Graft { whole: vec!["x".to_owned()], ..rows() };
    check((dropped.clone(), theirs(), between()), Choice::Theirs, &conflicts, whole());
    check((dropped, theirs(), between()), Choice::Union, &conflicts, whole());
}

#[test]
fn chunks_of_arrays() {
    let case = || {
        let ours = of(vec![tensor("a", Fate::Kept, chunks(&[0, 1, 2]))]);
        let theirs = of(vec![tensor("a", Fate::Kept, chunks(&[1, 2, 3]))]);
        // Both wrote the same into 2.
        let between = of(vec![tensor("a", Fate::Kept, chunks(&[0, 1, 3]))]);
        (ours, theirs, between)
    };
    let conflicts = ["\"a\", chunk [1]: changed on both sides"];
    let taken = |places: &[i64]| {
        let list = places.iter().map(|place| Coords::new(&[*place]).unwrap()).collect();
        Graft { chunks: vec![("a".to_owned(), list)], ..Graft::default() }
    };
    check(case(), Choice::Ours, &conflicts, taken(&[3]));
    check(case(), Choice::Theirs, &conflicts, taken(&[1, 3]));
}

#[test]
fn tensors_as_wholes() {
    let one = |fate, content| of(vec![tensor("a", fate, content)]);
    let whole = || Graft { whole: vec!["a".to_owned()], ..Graft::default() };
    let drop = || Graft { drop: vec!["a".to_owned()], ..Graft::default() };
    let cases = [
        (
            one(Fate::Added, Content::Same),
            one(Fate::Added, Content::Same),
            one(Fate::Retyped, Content::Whole),
            "\"a\": added on both sides, differently",
            whole(),
        ),
        (
            one(Fate::Retyped, Content::Whole),
            one(Fate::Retyped, Content::Whole),
            one(Fate::Retyped, Content::Whole),
            "\"a\": type or shape changed on both sides, differently",
            whole(),
        ),
        (
            one(Fate::Kept, Content::Whole),
            one(Fate::Kept, Content::Whole),
            one(Fate::Kept, Content::Whole),
            "\"a\": content changed on both sides",
            whole(),
        ),
        (
            one(Fate::Kept, chunks(&[1])),
            one(Fate::Retyped, Content::Whole),
            one(Fate::Retyped, Content::Whole),
            "\"a\": content changed in ours, type or shape changed in theirs",
            whole(),
        ),
        (
            one(Fate::Retyped, chunks(&[1])),
            one(Fate::Kept, chunks(&[1])),
            one(Fate::Retyped, chunks(&[1])),
            "\"a\": content changed in theirs, type or shape changed in ours",
            whole(),
        ),
        (
            one(Fate::Kept, chunks(&[1])),
            one(Fate::Dropped, Content::Same),
            one(Fate::Dropped, Content::Same),
            "\"a\": changed in ours, dropped in theirs",
            drop(),
        ),
    ];
    for (ours, theirs, between, conflict, taken) in cases {
        let case = || (ours.clone(), theirs.clone(), between.clone());
        check(case(), Choice::Ours, &[conflict], Graft::default());
        check(case(), Choice::Theirs, &[conflict], taken);
    }
}

#[test]
fn what_only_theirs_did_to_tensors() {
    let cases = [
        (Fate::Added, Content::Same, Graft { whole: vec!["a".to_owned()], ..Graft::default() }),
        (Fate::Dropped, Content::Same, Graft { drop: vec!["a".to_owned()], ..Graft::default() }),
        (Fate::Retyped, Content::Same, Graft { headers: vec!["a".to_owned()], ..Graft::default() }),
        (Fate::Retyped, Content::Whole, Graft { whole: vec!["a".to_owned()], ..Graft::default() }),
        (
            Fate::Retyped,
            chunks(&[4]),
            Graft {
                headers: vec!["a".to_owned()],
                chunks: vec![("a".to_owned(), vec![Coords::new(&[4]).unwrap()])],
                ..Graft::default()
            },
        ),
    ];
    for (fate, content, expected) in cases {
        let theirs = of(vec![tensor("a", fate, content)]);
        check((Difference::default(), theirs.clone(), theirs), Choice::Stop, &[], expected);
    }
}

#[test]
fn a_column_added_twice_is_joined() {
    let added = of(vec![tensor("x", Fate::Added, Content::Same)]);
    let ours = Difference { rows_deleted: vec![4], ..added.clone() };
    let theirs = Difference { rows_added: vec![8], ..added };
    // Row 4 is no longer in ours, row 8 not yet.
    let content = samples(&[2, 4, 8], &[], &[1]);
    let between = Difference { rows_added: vec![4, 8], ..of(vec![tensor("x", Fate::Kept, content)]) };
    let expected =
        Graft { rows_added: vec![8], samples: vec![("x".to_owned(), vec![2, 8])], ..Graft::default() };
    let conflicts = ["\"x\": added on both sides, differently"];
    check((ours.clone(), theirs.clone(), between), Choice::Union, &conflicts, expected);
    let between = of(vec![tensor("x", Fate::Kept, samples(&[2], &[3], &[]))]);
    let sides = Sides::new(&ours, &theirs, &between);
    assert_eq!(resolve(&plan(&sides), &sides, |_| Choice::Union).unwrap_err().without_union.len(), 1);
}

#[test]
fn metadata_goes_with_headers_or_is_left_to_the_caller() {
    let meta = |fate, content| of(vec![TensorDifference { metadata: true, ..tensor("a", fate, content) }]);
    let plain = |fate, content| of(vec![tensor("a", fate, content)]);
    let run = |ours: &Difference, theirs: &Difference, between: &Difference, choice| {
        let sides = Sides::new(ours, theirs, between);
        let plan = plan(&sides);
        let merged = resolve(&plan, &sides, |_| choice).unwrap();
        (plan.conflicts.len(), merged.graft.headers, merged.metadata)
    };
    let a = || vec!["a".to_owned()];
    let set = |from| vec![(Some("a".to_owned()), from)];
    let kept = meta(Fate::Kept, Content::Same);
    let retyped = plain(Fate::Retyped, Content::Same);
    let both = meta(Fate::Retyped, Content::Same);
    let none = Difference::default();
    assert_eq!(run(&none, &kept, &kept, Choice::Stop), (0, a(), vec![]));
    assert_eq!(run(&kept, &none, &kept, Choice::Stop), (0, vec![], vec![]));
    assert_eq!(run(&kept, &kept, &kept, Choice::Ours), (1, vec![], vec![]));
    assert_eq!(run(&kept, &kept, &kept, Choice::Theirs), (1, a(), vec![]));
    assert_eq!(run(&kept, &kept, &kept, Choice::Union), (1, vec![], set(MetadataFrom::Both)));
    assert_eq!(run(&retyped, &kept, &both, Choice::Stop), (0, vec![], set(MetadataFrom::Theirs)));
    assert_eq!(run(&kept, &retyped, &both, Choice::Stop), (0, a(), set(MetadataFrom::Ours)));
    let own = Difference { metadata: true, ..Difference::default() };
    let sides = Sides::new(&own, &own, &own);
    assert_eq!(plan(&sides).conflicts, [Conflict::Metadata { tensor: None }]);
    assert!(resolve(&plan(&sides), &sides, |_| Choice::Theirs).unwrap().graft.metadata);
    assert!(resolve(&plan(&sides), &sides, |_| Choice::Ours).unwrap().graft.is_empty());
}

#[test]
fn conflicts_as_json() {
    let check = |conflict: Conflict, expected: &str| {
        assert_eq!(serde_json::to_string(&conflict).unwrap(), expected);
    };
    check(Conflict::Metadata { tensor: None }, r#"{"conflict":"metadata","tensor":null}"#);
    check(
        Conflict::Tensor {
            name: "a".to_owned(),
            kind: TensorConflict::DroppedAndChanged { dropped_by: Side::Ours },
        },
        r#"{"conflict":"tensor","name":"a","kind":"dropped_and_changed","dropped_by":"ours"}"#,
    );
    check(
        Conflict::Row { id: 3, changed_in: Side::Theirs, columns: vec!["x".to_owned()] },
        r#"{"conflict":"row","id":3,"changed_in":"theirs","columns":["x"]}"#,
    );
    check(Conflict::Sample { column: "x".to_owned(), id: 1 }, r#"{"conflict":"sample","column":"x","id":1}"#);
    check(
        Conflict::Chunk { array: "a".to_owned(), coords: Coords::new(&[0, 2]).unwrap() },
        r#"{"conflict":"chunk","array":"a","coords":[0,2]}"#,
    );
}

/// A dataset as maps.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    meta: u64,
    rows: BTreeSet<u64>,
    tensors: BTreeMap<&'static str, Model>,
}

#[derive(Clone, Debug, PartialEq)]
struct Model {
    is_column: bool,
    /// The type. What is of type 3 cannot be compared piece by piece.
    kind: u64,
    meta: u64,
    cells: BTreeMap<u64, u64>,
}

const NAMES: [&str; 5] = ["a", "b", "either", "x", "y"];
const PLACES: u64 = 6;
const MERGED_METADATA: u64 = 99;

fn fate_of(a: &Model, b: &Model) -> Fate {
    match (a.is_column, a.kind) == (b.is_column, b.kind) {
        true => Fate::Kept,
        false => Fate::Retyped,
    }
}

fn content_of(from: &State, a: &Model, to: &State, b: &Model) -> Content {
    if a.is_column != b.is_column {
        return Content::Whole;
    }
    let (mut added, mut updated, mut cleared) = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..PLACES {
        let later_only = a.is_column && !from.rows.contains(&place);
        match (a.cells.get(&place), b.cells.get(&place)) {
            (None, Some(_)) => added.push(place),
            (Some(_), None) if !a.is_column || to.rows.contains(&place) => cleared.push(place),
            (Some(old), Some(new)) if old != new && !later_only => updated.push(place),
            _ => {}
        }
    }
    if added.is_empty() && updated.is_empty() && cleared.is_empty() {
        return Content::Same;
    }
    if a.kind == 3 || b.kind == 3 {
        return Content::Whole;
    }
    match a.is_column {
        true => Content::Samples { added, updated, cleared },
        false => {
            let mut places = [added, updated, cleared].concat();
            places.sort_unstable();
            chunks(&places.into_iter().map(|place| place as i64).collect::<Vec<_>>())
        }
    }
}

fn diff(from: &State, to: &State) -> Difference {
    let mut tensors = Vec::new();
    for name in NAMES {
        let (is_column, fate, metadata, content) = match (from.tensors.get(name), to.tensors.get(name)) {
            (None, None) => continue,
            (None, Some(b)) => (b.is_column, Fate::Added, false, Content::Same),
            (Some(a), None) => (a.is_column, Fate::Dropped, false, Content::Same),
            (Some(a), Some(b)) => (b.is_column, fate_of(a, b), a.meta != b.meta, content_of(from, a, to, b)),
        };
        if fate != Fate::Kept || metadata || content != Content::Same {
            tensors.push(TensorDifference { is_column, metadata, ..tensor(name, fate, content) });
        }
    }
    Difference {
        tensors,
        rows_added: to.rows.difference(&from.rows).copied().collect(),
        rows_deleted: from.rows.difference(&to.rows).copied().collect(),
        metadata: from.meta != to.meta,
    }
}

fn random_model(dice: &Dice, name: &str, rows: &BTreeSet<u64>) -> Model {
    let is_column = match name {
        "a" | "b" => false,
        "either" => dice.one_in(2),
        _ => true,
    };
    let mut cells: BTreeMap<u64, u64> =
        (0..PLACES).filter(|_| dice.one_in(2)).map(|place| (place, dice.below(3))).collect();
    cells.retain(|place, _| !is_column || rows.contains(place));
    Model { is_column, kind: dice.below(4), meta: dice.below(2), cells }
}

fn random_change(dice: &Dice, state: &mut State) {
    let name = NAMES[dice.below(NAMES.len() as u64) as usize];
    let place = dice.below(PLACES);
    match dice.below(12) {
        0 => state.meta = dice.below(3),
        1 => drop(state.rows.insert(place)),
        2 => {
            state.rows.remove(&place);
            for model in state.tensors.values_mut().filter(|model| model.is_column) {
                model.cells.remove(&place);
            }
        }
        3 => drop(state.tensors.remove(name)),
        4 => {
            let model = random_model(dice, name, &state.rows);
            state.tensors.entry(name).or_insert(model);
        }
        5 => {
            let model = random_model(dice, name, &state.rows);
            if let Some(old) = state.tensors.get_mut(name) {
                match dice.one_in(2) {
                    true => *old = model,
                    false => old.kind = model.kind,
                }
            }
        }
        6 => {
            if let Some(model) = state.tensors.get_mut(name) {
                model.meta = dice.below(3);
            }
        }
        _ => {
            let value = (!dice.one_in(4)).then(|| dice.below(3));
            let has_row = state.rows.contains(&place);
            if let Some(model) = state.tensors.get_mut(name).filter(|model| !model.is_column || has_row) {
                match value {
                    Some(value) => drop(model.cells.insert(place, value)),
                    None => drop(model.cells.remove(&place)),
                }
            }
        }
    }
}

/// Carries out a graft, as a table should.
fn apply(ours: &State, theirs: &State, merged: &Merged) -> State {
    let graft = &merged.graft;
    let mut state = ours.clone();
    for id in &graft.rows_deleted {
        assert!(state.rows.remove(id), "row {id} is there to be deleted");
        for model in state.tensors.values_mut().filter(|model| model.is_column) {
            model.cells.remove(id);
        }
    }
    for id in &graft.rows_added {
        assert!(theirs.rows.contains(id) && state.rows.insert(*id), "row {id} is new");
    }
    for name in &graft.drop {
        assert!(state.tensors.remove(name.as_str()).is_some(), "{name} is there to be dropped");
    }
    for name in &graft.whole {
        let (key, model) = theirs.tensors.get_key_value(name.as_str()).unwrap();
        let mut model = model.clone();
        model.cells.retain(|place, _| !model.is_column || state.rows.contains(place));
        state.tensors.insert(key, model);
    }
    for name in &graft.headers {
        let (header, model) = (&theirs.tensors[name.as_str()], state.tensors.get_mut(name.as_str()).unwrap());
        assert!(!graft.whole.contains(name));
        (model.is_column, model.kind, model.meta) = (header.is_column, header.kind, header.meta);
    }
    let arrays = graft.chunks.iter().flat_map(|(name, list)| list.iter().map(move |at| (name, at[0] as u64)));
    let columns = graft.samples.iter().flat_map(|(name, ids)| ids.iter().map(move |id| (name, *id)));
    for (name, place) in arrays.chain(columns) {
        let (from, to) = (&theirs.tensors[name.as_str()], state.tensors.get_mut(name.as_str()).unwrap());
        assert!(!graft.whole.contains(name));
        assert!(!to.is_column || state.rows.contains(&place), "{name}: row {place} is there");
        match from.cells.get(&place) {
            Some(value) => {
                assert_eq!(fate_of(from, to), Fate::Kept, "{name}: stored as the header says");
                to.cells.insert(place, *value);
            }
            None => drop(to.cells.remove(&place)),
        }
    }
    if graft.metadata {
        state.meta = theirs.meta;
    }
    for (name, from) in &merged.metadata {
        let of = |state: &State| name.as_ref().map_or(state.meta, |name| state.tensors[name.as_str()].meta);
        let meta = match from {
            MetadataFrom::Ours => of(ours),
            MetadataFrom::Theirs => of(theirs),
            MetadataFrom::Both => MERGED_METADATA,
        };
        match name {
            Some(name) => state.tensors.get_mut(name.as_str()).unwrap().meta = meta,
            None => state.meta = meta,
        }
    }
    state
}

/// What a conflict is about.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Metadata(Option<String>),
    Tensor(String),
    Row(u64, Side),
    Cell(String, u64),
}

fn about(conflict: &Conflict) -> About {
    match conflict {
        Conflict::Metadata { tensor } => About::Metadata(tensor.clone()),
        Conflict::Tensor { name, .. } => About::Tensor(name.clone()),
        Conflict::Name { name, .. } => panic!("nothing is renamed here, and {name:?} is in conflict"),
        Conflict::Row { id, changed_in, .. } => About::Row(*id, *changed_in),
        Conflict::Sample { column, id } => About::Cell(column.clone(), *id),
        Conflict::Chunk { array, coords } => About::Cell(array.clone(), coords[0] as u64),
    }
}

/// The merge as it should be, place by place, with conflicts resolved one way.
struct Oracle<'a> {
    base: &'a State,
    ours: &'a State,
    theirs: &'a State,
    prefer: Side,
    conflicts: BTreeSet<About>,
}

impl Oracle<'_> {
    fn three_way<T: PartialEq>(&mut self, base: T, ours: T, theirs: T, about: impl FnOnce() -> About) -> T {
        if ours == theirs || theirs == base {
            return ours;
        }
        if ours == base {
            return theirs;
        }
        self.conflicts.insert(about());
        match self.prefer {
            Side::Ours => ours,
            Side::Theirs => theirs,
        }
    }

    fn has_changed(&self, side: &State, row: u64) -> bool {
        NAMES.iter().any(|name| match (self.base.tensors.get(name), side.tensors.get(name)) {
            (Some(a), Some(b)) => listed(&content_of(self.base, a, side, b)).any(|id| id == row),
            _ => false,
        })
    }

    fn merge(&mut self) -> State {
        let (base, ours, theirs) = (self.base, self.ours, self.theirs);
        let meta = self.three_way(base.meta, ours.meta, theirs.meta, || About::Metadata(None));
        let mut merged = State { meta, ..State::default() };
        for row in 0..PLACES {
            let has = |state: &State| state.rows.contains(&row);
            let stays = match (has(base), has(ours), has(theirs)) {
                (false, ours, theirs) => ours || theirs,
                (true, true, false) if self.has_changed(ours, row) => {
                    self.conflicts.insert(About::Row(row, Side::Ours));
                    self.prefer == Side::Ours
                }
                (true, false, true) if self.has_changed(theirs, row) => {
                    self.conflicts.insert(About::Row(row, Side::Theirs));
                    self.prefer == Side::Theirs
                }
                (true, ours, theirs) => ours && theirs,
            };
            if stays {
                merged.rows.insert(row);
            }
        }
        for name in NAMES {
            if let Some(mut model) = self.tensor(name, &merged.rows) {
                model.cells.retain(|place, _| !model.is_column || merged.rows.contains(place));
                merged.tensors.insert(name, model);
            }
        }
        merged
    }

    fn tensor(&mut self, name: &'static str, rows: &BTreeSet<u64>) -> Option<Model> {
        let (b, o, t) =
            (self.base.tensors.get(name), self.ours.tensors.get(name), self.theirs.tensors.get(name));
        let changed = |from: &State, to: &State| diff(from, to).tensor(name).cloned();
        let by_ours = changed(self.base, self.ours);
        let by_theirs = changed(self.base, self.theirs);
        let Some(between) = changed(self.ours, self.theirs) else { return o.cloned() };
        let whole = |oracle: &mut Self| {
            oracle.conflicts.insert(About::Tensor(name.to_owned()));
            match oracle.prefer {
                Side::Ours => o.cloned(),
                Side::Theirs => t.cloned(),
            }
        };
        let (Some(o), Some(t)) = (o, t) else {
            return match (by_ours, by_theirs) {
                (Some(_), Some(_)) => whole(self),
                (None, _) => t.cloned(),
                (_, None) => o.cloned(),
            };
        };
        // Both have it, and they differ.
        let (ours_content, theirs_content) = match b {
            Some(b) => (content_of(self.base, b, self.ours, o), content_of(self.base, b, self.theirs, t)),
            None if between.fate == Fate::Kept && between.content == Content::Same => {
                (Content::Same, Content::Same)
            }
            None => return whole(self),
        };
        let is_retyped = |model: &Model| b.is_some_and(|b| fate_of(b, model) == Fate::Retyped);
        let clash = match (is_retyped(o), is_retyped(t)) {
            (true, true) if between.fate == Fate::Retyped => true,
            (false, true) => ours_content != Content::Same,
            (true, false) => theirs_content != Content::Same,
            _ => {
                let contents = [&ours_content, &theirs_content, &between.content];
                !contents.contains(&&Content::Same) && contents.contains(&&Content::Whole)
            }
        };
        if clash {
            return whole(self);
        }
        let mut model = match is_retyped(t) {
            true => t.clone(),
            false => o.clone(),
        };
        let metadata = || About::Metadata(Some(name.to_owned()));
        model.meta = self.three_way(b.map(|b| b.meta), Some(o.meta), Some(t.meta), metadata).unwrap();
        // Content that only theirs changed and that is one piece is theirs.
        if theirs_content == Content::Whole && ours_content == Content::Same {
            model.cells = t.cells.clone();
            return Some(model);
        }
        model.cells = o.cells.clone();
        if between.content == Content::Whole && theirs_content == Content::Same {
            // Of a row that comes back, a sample of a type that is no longer there cannot.
            if fate_of(&model, t) == Fate::Kept {
                for row in rows.difference(&self.ours.rows).filter(|_| model.is_column) {
                    model.cells.extend(t.cells.get(row).map(|value| (*row, *value)));
                }
            }
            return Some(model);
        }
        for place in 0..PLACES {
            let has_row = |state: &State| !model.is_column || state.rows.contains(&place);
            let value = match (has_row(self.ours), has_row(self.theirs)) {
                (false, false) => None,
                (true, false) => o.cells.get(&place).copied(),
                (false, true) => t.cells.get(&place).copied().filter(|_| fate_of(&model, t) == Fate::Kept),
                (true, true) => {
                    let base = has_row(self.base).then(|| b.and_then(|b| b.cells.get(&place)));
                    let (ours, theirs) = (Some(o.cells.get(&place)), Some(t.cells.get(&place)));
                    let about = || About::Cell(name.to_owned(), place);
                    self.three_way(base, ours, theirs, about).flatten().copied()
                }
            };
            match value {
                Some(value) => drop(model.cells.insert(place, value)),
                None => drop(model.cells.remove(&place)),
            }
        }
        Some(model)
    }
}

fn shuffle<T>(dice: &Dice, list: &mut [T]) {
    for i in (1..list.len()).rev() {
        list.swap(i, dice.below(i as u64 + 1) as usize);
    }
}

/// The same difference, its lists in another order.
fn shuffled(dice: &Dice, difference: &Difference) -> Difference {
    let mut other = difference.clone();
    shuffle(dice, &mut other.tensors);
    shuffle(dice, &mut other.rows_deleted);
    for tensor in &mut other.tensors {
        match &mut tensor.content {
            Content::Chunks { changed } => shuffle(dice, changed),
            Content::Samples { added, updated, cleared } => {
                [added, updated, cleared].into_iter().for_each(|list| shuffle(dice, list));
            }
            Content::Same | Content::Whole => {}
        }
    }
    other
}

#[test]
fn merges_do_what_a_model_does() {
    let (mut clean, mut in_conflict) = (0, 0);
    for seed in 0..30_000 {
        let dice = Dice::new(seed);
        let mut base = State::default();
        (0..50).for_each(|_| random_change(&dice, &mut base));
        let (mut ours, mut theirs) = (base.clone(), base.clone());
        (0..1 + dice.below(12)).for_each(|_| random_change(&dice, &mut ours));
        (0..1 + dice.below(12)).for_each(|_| random_change(&dice, &mut theirs));
        let (to_ours, to_theirs, to_each_other) =
            (diff(&base, &ours), diff(&base, &theirs), diff(&ours, &theirs));
        let sides = Sides::new(&to_ours, &to_theirs, &to_each_other);
        let found = plan(&sides);
        let context = || format!("seed {seed}\nbase {base:?}\nours {ours:?}\ntheirs {theirs:?}\n{found:?}");
        for (prefer, choice) in [(Side::Ours, Choice::Ours), (Side::Theirs, Choice::Theirs)] {
            let (base, ours, theirs) = (&base, &ours, &theirs);
            let mut oracle = Oracle { base, ours, theirs, prefer, conflicts: BTreeSet::new() };
            let expected = oracle.merge();
            let merged = resolve(&found, &sides, |_| choice).unwrap();
            assert_eq!(apply(ours, theirs, &merged), expected, "{prefer}, {}", context());
            let listed: BTreeSet<About> = found.conflicts.iter().map(about).collect();
            assert_eq!(listed, oracle.conflicts, "{}", context());
            assert_eq!(listed.len(), found.conflicts.len(), "{}", context());
        }
        let union = resolve(&found, &sides, |conflict| match conflict.has_union() {
            true => Choice::Union,
            false => Choice::Ours,
        });
        apply(&ours, &theirs, &union.unwrap());
        let (o, t, x) =
            (shuffled(&dice, &to_ours), shuffled(&dice, &to_theirs), shuffled(&dice, &to_each_other));
        let other = plan(&Sides::new(&o, &t, &x));
        assert_eq!(other, found, "{}", context());
        match found.conflicts.is_empty() {
            true => clean += 1,
            false => in_conflict += 1,
        }
    }
    assert!(clean > 5_000 && in_conflict > 5_000, "{clean} {in_conflict}");
}
