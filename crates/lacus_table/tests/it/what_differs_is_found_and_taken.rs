//! Two states of a dataset, each with a history of random changes, against models in memory: what differs is
//! found, and taking it over makes one the other.

use std::collections::{BTreeMap, BTreeSet};

use lacus_io::{Store, World};
use lacus_layout::Wish;
use lacus_simulation::Dice;
use lacus_table::{
    At, Content, Coords, Difference, Fate, Graft, RowChange, Table, TableError, ValueColumn, WriteOptions,
};
use lacus_tensor::{DType, Index, Shape, Tensor};
use serde_json::{Value as Json, json};

use crate::rows_do_what_a_model_does::{Cell, FORMS, header, random_cell, read_cell_column, write};
use crate::support::{Place, layout, put, random_tensor, read, slice};

const CHUNK: [u64; 2] = [4, 3];

#[derive(Clone, Debug, PartialEq)]
struct Column {
    form: ValueColumn,
    htype: String,
    cells: BTreeMap<u64, Cell>,
}

#[derive(Clone, Debug, Default)]
struct Model {
    rows: Vec<u64>,
    columns: BTreeMap<String, Column>,
    /// Layout and value.
    arrays: BTreeMap<String, (&'static str, Tensor)>,
    notes: BTreeMap<String, Json>,
    metadata: Json,
}

fn wish(name: &str) -> Wish {
    match name {
        "FTSF" => Wish { chunk_shape: Some(CHUNK.to_vec()), ..layout(name) },
        _ => layout(name),
    }
}

fn sorted_some(dice: &Dice, rows: &[u64]) -> Vec<u64> {
    let mut ids: Vec<u64> = rows.iter().copied().filter(|_| dice.one_in(5)).collect();
    ids.sort_unstable();
    ids
}

fn pick<'a, V>(
    dice: &Dice,
    map: &'a BTreeMap<String, V>,
    is_wanted: impl Fn(&V) -> bool,
) -> Option<&'a String> {
    let names: Vec<&String> = map.iter().filter(|(_, v)| is_wanted(v)).map(|(name, _)| name).collect();
    names.get(dice.below(names.len().max(1) as u64) as usize).copied()
}

async fn append(table: &mut Table, model: &mut Model, dice: &Dice, count: u64) {
    let ids: Vec<u64> = table.reserve_ids(count).await.unwrap().collect();
    let mut change = RowChange { op: "APPEND", append: ids.clone(), ..Default::default() };
    for (name, column) in &mut model.columns {
        let ids = ids.iter().filter(|_| dice.below(6) > 0);
        let new: Vec<(u64, Cell)> = ids.map(|id| (*id, random_cell(dice, column.form))).collect();
        change.writes.push(write(name, column.form, &new));
        column.cells.extend(new);
    }
    table.change_rows(change, &WriteOptions::default()).await.unwrap();
    model.rows.extend(ids);
}

async fn step(table: &mut Table, model: &mut Model, dice: &Dice) {
    let options = WriteOptions::default();
    match dice.below(16) {
        0 => {
            let (name, form) = (format!("c{}", dice.below(5)), FORMS[dice.below(5) as usize]);
            if model.columns.contains_key(&name) {
                return;
            }
            let headers = vec![(name.clone(), header(form))];
            let change = RowChange { op: "ADD COLUMN", headers, ..Default::default() };
            table.change_rows(change, &options).await.unwrap();
            model.columns.insert(name, Column { form, htype: "generic".into(), cells: BTreeMap::new() });
        }
        1..=3 => append(table, model, dice, [1, 7, 60][dice.below(3) as usize]).await,
        4 | 5 => {
            let ids = sorted_some(dice, &model.rows);
            let Some(name) = pick(dice, &model.columns, |_| true).cloned() else { return };
            let column = model.columns.get_mut(&name).unwrap();
            let new: Vec<(u64, Cell)> = ids.iter().map(|id| (*id, random_cell(dice, column.form))).collect();
            let writes = vec![write(&name, column.form, &new)];
            let change = RowChange { op: "UPDATE", writes, ..Default::default() };
            table.change_rows(change, &options).await.unwrap();
            column.cells.extend(new);
        }
        6 => {
            let ids = sorted_some(dice, &model.rows);
            let change = RowChange { op: "DELETE ROWS", delete: ids.clone(), ..Default::default() };
            table.change_rows(change, &options).await.unwrap();
            model.rows.retain(|id| !ids.contains(id));
            model.columns.values_mut().for_each(|column| column.cells.retain(|id, _| !ids.contains(id)));
        }
        7 => {
            let ids = sorted_some(dice, &model.rows);
            let Some(name) = pick(dice, &model.columns, |_| true).cloned() else { return };
            let clear = vec![(name.clone(), ids.clone())];
            let change = RowChange { op: "CLEAR", clear, ..Default::default() };
            table.change_rows(change, &options).await.unwrap();
            model.columns.get_mut(&name).unwrap().cells.retain(|id, _| !ids.contains(id));
        }
        8 if dice.one_in(3) => {
            let column = pick(dice, &model.columns, |_| true).cloned();
            let array = pick(dice, &model.arrays, |_| true).cloned();
            let Some(name) = (if dice.one_in(2) { column.or(array) } else { array }) else { return };
            table.remove(&[&name], &options).await.unwrap();
            model.columns.remove(&name);
            model.arrays.remove(&name);
            model.notes.remove(&name);
        }
        9 => {
            let Some(name) = pick(dice, &model.columns, |_| true).cloned() else { return };
            let column = model.columns.get_mut(&name).unwrap();
            column.htype = ["generic", "other", "third"][dice.below(3) as usize].into();
            let mut changed = header(column.form);
            changed.htype.clone_from(&column.htype);
            changed.metadata = model.notes.get(&name).cloned();
            let change = RowChange { op: "RETYPE", headers: vec![(name, changed)], ..Default::default() };
            table.change_rows(change, &options).await.unwrap();
        }
        10 if dice.one_in(2) => {
            table.compact(&options).await.unwrap();
        }
        11 => {
            let name = format!("a{}", dice.below(5));
            let kind = ["FTSF", "FTSF", "COO", "CSR", "BSGS"][dice.below(5) as usize];
            let rows = [9, 12][dice.below(2) as usize];
            let zeros = if kind == "FTSF" { 2 } else { 6 };
            let tensor = random_tensor(dice, DType::U16, &[rows, 7], zeros);
            put(table, &name, &tensor, wish(kind)).await.unwrap();
            model.notes.remove(&name);
            model.arrays.insert(name, (kind, tensor));
        }
        12 | 13 => {
            let Some(name) = pick(dice, &model.arrays, |(kind, _)| *kind == "FTSF").cloned() else { return };
            let tensor = &mut model.arrays.get_mut(&name).unwrap().1;
            let rows = tensor.shape().dims()[0];
            let (row, column) = (dice.below(rows) as i64, dice.below(6) as i64);
            let region = [slice(row, row + 1), slice(column, column + 2)];
            let zeros = if dice.one_in(4) { 1 << 40 } else { 1 };
            let values = random_tensor(dice, DType::U16, &[1, 2], zeros);
            table.write_region(&name, &region, values.as_ref(), &options).await.unwrap();
            let at = ((row * 7 + column) * 2) as usize;
            tensor.bytes_mut()[at..at + 4].copy_from_slice(values.bytes());
        }
        14 => {
            let Some(name) = pick(dice, &model.arrays, |_| true).cloned() else { return };
            let tensor = &mut model.arrays.get_mut(&name).unwrap().1;
            let rows = 1 + dice.below(14);
            table.resize(&name, rows, &options).await.unwrap();
            let mut resized = Tensor::zeros(DType::U16, Shape::new(vec![rows, 7]).unwrap()).unwrap();
            let kept = tensor.bytes().len().min(resized.bytes().len());
            resized.bytes_mut()[..kept].copy_from_slice(&tensor.bytes()[..kept]);
            *tensor = resized;
        }
        _ => {
            let note = json!({"n": dice.below(4)});
            let column = pick(dice, &model.columns, |_| true).cloned();
            match column.or(pick(dice, &model.arrays, |_| true).cloned()).filter(|_| dice.one_in(2)) {
                Some(name) => {
                    table.set_metadata(Some(&name), note.clone(), &options).await.unwrap();
                    model.notes.insert(name, note);
                }
                None => {
                    table.set_metadata(None, note.clone(), &options).await.unwrap();
                    model.metadata = note;
                }
            }
        }
    }
}

async fn check(table: &Table, model: &Model, what: &str) {
    let axis = table.rows().await.unwrap();
    let rows: Vec<u64> = (0..axis.len()).map(|position| axis.id(position).unwrap()).collect();
    assert_eq!(rows, model.rows, "{what}");
    let mut names: BTreeSet<&String> = model.columns.keys().collect();
    names.extend(model.arrays.keys());
    assert_eq!(table.names().iter().collect::<BTreeSet<_>>(), names, "{what}");
    for (name, column) in &model.columns {
        let expected: Vec<Option<Cell>> = rows.iter().map(|id| column.cells.get(id).cloned()).collect();
        assert_eq!(read_cell_column(table, name, column.form, &rows).await, expected, "{what}: {name}");
        let found = table.column(name).unwrap().header;
        assert_eq!(found.htype, column.htype, "{what}: {name}");
        assert_eq!(found.metadata.unwrap_or(json!({})), note(model, name), "{what}: {name}");
    }
    for (name, (_, tensor)) in &model.arrays {
        let found = read(table, name, &[Index::Ellipsis]).await;
        assert!(found.shape() == tensor.shape() && found.bytes() == tensor.bytes(), "{what}: {name}");
        assert_eq!(table.tensor(name).unwrap().metadata, note(model, name), "{what}: {name}");
    }
    assert_eq!(table.doctor(&WriteOptions::default()).await.unwrap().damage, [], "{what}");
}

fn note(model: &Model, name: &str) -> Json {
    model.notes.get(name).cloned().unwrap_or(json!({}))
}

/// The chunks of a dense array that are not zeros, with their extents.
fn chunks(tensor: &Tensor) -> BTreeMap<Coords, (u64, Vec<u8>)> {
    let rows = tensor.shape().dims()[0];
    let mut found = BTreeMap::new();
    for i in 0..rows.div_ceil(CHUNK[0]) {
        for j in 0..7_u64.div_ceil(CHUNK[1]) {
            let (to_row, to_column) = (((i + 1) * CHUNK[0]).min(rows), ((j + 1) * CHUNK[1]).min(7));
            let mut bytes = Vec::new();
            for row in i * CHUNK[0]..to_row {
                let at = |column: u64| ((row * 7 + column) * 2) as usize;
                bytes.extend_from_slice(&tensor.bytes()[at(j * CHUNK[1])..at(to_column)]);
            }
            if bytes.iter().any(|byte| *byte != 0) {
                let coords = Coords::new(&[i as i64, j as i64]).unwrap();
                found.insert(coords, (to_row - i * CHUNK[0], bytes));
            }
        }
    }
    found
}

fn check_difference(found: &Difference, old: &Model, new: &Model, what: &str) {
    let rows = |model: &Model| model.rows.iter().copied().collect::<BTreeSet<u64>>();
    let (old_rows, new_rows) = (rows(old), rows(new));
    let added: Vec<u64> = new.rows.iter().copied().filter(|id| !old_rows.contains(id)).collect();
    assert_eq!(found.rows_added, added, "{what}");
    assert_eq!(found.rows_deleted, (&old_rows - &new_rows).into_iter().collect::<Vec<_>>(), "{what}");
    assert_eq!(found.metadata, old.metadata != new.metadata, "{what}");
    let names = |model: &Model| -> BTreeSet<String> {
        model.columns.keys().chain(model.arrays.keys()).cloned().collect()
    };
    for name in &names(old) | &names(new) {
        let tensor = found.tensor(&name);
        let what = format!("{what}: {name}: {tensor:?}");
        match (names(old).contains(&name), names(new).contains(&name)) {
            (true, false) => {
                assert_eq!(tensor.unwrap().fate, Fate::Dropped, "{what}");
                continue;
            }
            (false, true) => {
                assert_eq!(tensor.unwrap().fate, Fate::Added, "{what}");
                continue;
            }
            _ => {}
        }
        let content = tensor.map_or(&Content::Same, |tensor| &tensor.content);
        let fate = tensor.map_or(Fate::Kept, |tensor| tensor.fate);
        assert_eq!(tensor.is_some_and(|t| t.metadata), note(old, &name) != note(new, &name), "{what}");
        match (old.columns.get(&name), new.columns.get(&name), old.arrays.get(&name), new.arrays.get(&name)) {
            (Some(a), Some(b), ..) if a.form == b.form => {
                assert_eq!(fate == Fate::Retyped, a.htype != b.htype, "{what}");
                let only = |x: &Column, y: &Column| -> Vec<u64> {
                    x.cells.keys().copied().filter(|id| !y.cells.contains_key(id)).collect()
                };
                let cleared: Vec<u64> = only(a, b).into_iter().filter(|id| new_rows.contains(id)).collect();
                let differ = |(id, cell): &(&u64, &Cell)| b.cells.get(id).is_some_and(|new| new != *cell);
                let expected: Vec<u64> = a.cells.iter().filter(differ).map(|(id, _)| *id).collect();
                let none = (Vec::new(), Vec::new(), Vec::new());
                let (found_added, found_updated, found_cleared) = match content {
                    Content::Samples { added, updated, cleared } => {
                        (added.clone(), updated.clone(), cleared.clone())
                    }
                    Content::Same => none,
                    other => panic!("{what}: {other:?}"),
                };
                assert_eq!((found_added, found_cleared), (only(b, a), cleared), "{what}");
                // A number or text that was written again may count as changed.
                match a.form {
                    ValueColumn::Data => assert_eq!(found_updated, expected, "{what}"),
                    _ => assert!(expected.iter().all(|id| found_updated.binary_search(id).is_ok()), "{what}"),
                }
            }
            (_, _, Some(("FTSF", a)), Some(("FTSF", b))) => {
                let (a_chunks, b_chunks) = (chunks(a), chunks(b));
                let all: BTreeSet<&Coords> = a_chunks.keys().chain(b_chunks.keys()).collect();
                let differ = all.into_iter().filter(|coords| a_chunks.get(coords) != b_chunks.get(coords));
                let changed: Vec<Coords> = differ.copied().collect();
                assert!(a.shape() == b.shape() || fate == Fate::Retyped, "{what}");
                match changed.is_empty() {
                    true => assert_eq!(*content, Content::Same, "{what}"),
                    false => assert_eq!(*content, Content::Chunks { changed }, "{what}"),
                }
            }
            (_, _, Some((kind, a)), Some((other, b))) if kind == other => {
                let same = a.shape() == b.shape() && a.bytes() == b.bytes();
                assert_eq!(*content == Content::Same, same, "{what}");
            }
            _ => assert_eq!((fate, content), (Fate::Retyped, &Content::Whole), "{what}"),
        }
    }
}

/// All of a difference, to be taken over.
fn all_of(difference: &Difference) -> Graft {
    let mut graft = Graft {
        rows_added: difference.rows_added.clone(),
        rows_deleted: difference.rows_deleted.clone(),
        metadata: difference.metadata,
        ..Graft::default()
    };
    for tensor in &difference.tensors {
        let name = tensor.name.clone();
        match (tensor.fate, &tensor.content) {
            (Fate::Dropped, _) => graft.drop.push(name),
            (Fate::Added, _) | (_, Content::Whole) => graft.whole.push(name),
            (fate, content) => {
                if fate == Fate::Retyped || tensor.metadata {
                    graft.headers.push(name.clone());
                }
                match content {
                    Content::Chunks { changed } => graft.chunks.push((name, changed.clone())),
                    Content::Samples { added, updated, cleared } => {
                        let mut ids = [&added[..], updated, cleared].concat();
                        ids.sort_unstable();
                        graft.samples.push((name, ids));
                    }
                    _ => {}
                }
            }
        }
    }
    graft
}

/// A branch: a table below the dataset's root whose log begins with the files there are, by paths that climb.
async fn fork(place: &Place, store: &Store) -> Table {
    let mut live: BTreeMap<String, Json> = BTreeMap::new();
    let (mut protocol, mut metadata) = (Json::Null, Json::Null);
    let log = place.directory.path().join("ds/_delta_log");
    let mut entries: Vec<_> = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    entries.sort();
    for entry in entries {
        for line in std::fs::read_to_string(entry).unwrap().lines() {
            let mut action: Json = serde_json::from_str(line).unwrap();
            if let Some(path) = action["remove"]["path"].as_str() {
                live.remove(path);
            }
            if let Some(path) = action["add"]["path"].as_str() {
                let path = path.to_owned();
                action["add"]["path"] = format!("../../{path}").into();
                if action["add"]["deletionVector"]["storageType"] == "u" {
                    let name = action["add"]["deletionVector"]["pathOrInlineDv"].as_str().unwrap();
                    action["add"]["deletionVector"]["pathOrInlineDv"] = format!("../..{name}").into();
                }
                live.insert(path, action.clone());
            }
            if action.get("protocol").is_some() {
                protocol = action.clone();
            }
            if action.get("metaData").is_some() {
                metadata = action;
            }
        }
    }
    let below = store.below("_branches/b").unwrap();
    let mut text = format!("{protocol}\n{metadata}\n");
    live.values().for_each(|add| text.push_str(&format!("{add}\n")));
    below.put_new("_delta_log/00000000000000000000.json", text.into()).await.unwrap();
    let mut table = Table::open(below, World::real(), At::Tip).await.unwrap();
    // Ids of the branch's rows are nobody else's.
    table.reserve_ids(1_000_000).await.unwrap();
    table
}

async fn history(seed: u64) {
    let dice = Dice::new(seed);
    let options = WriteOptions::default();
    let place = Place::new();
    let store = place.store();
    let mut ours = Table::create(store.clone(), World::real()).await.unwrap();
    let mut our_model = Model { metadata: json!({}), ..Model::default() };
    if seed % 2 == 1 {
        // Deleting from a file that is large turns the table to deletion vectors.
        let headers =
            vec![("big".to_owned(), header(ValueColumn::Data)), ("c1".to_owned(), header(ValueColumn::Int))];
        let change = RowChange { op: "ADD COLUMN", headers, ..Default::default() };
        ours.change_rows(change, &options).await.unwrap();
        for (name, form) in [("big", ValueColumn::Data), ("c1", ValueColumn::Int)] {
            let column = Column { form, htype: "generic".into(), cells: BTreeMap::new() };
            our_model.columns.insert(name.into(), column);
        }
        append(&mut ours, &mut our_model, &dice, 150).await;
        let gone = our_model.rows.remove(70);
        our_model.columns.values_mut().for_each(|column| drop(column.cells.remove(&gone)));
        let change = RowChange { op: "DELETE ROWS", delete: vec![gone], ..Default::default() };
        ours.change_rows(change, &options).await.unwrap();
    }
    for _ in 0..12 {
        step(&mut ours, &mut our_model, &dice).await;
    }
    let (base_model, base_version) = (our_model.clone(), ours.version());
    let mut theirs = fork(&place, &store).await;
    let mut their_model = our_model.clone();
    assert!(ours.compare(&theirs).await.unwrap().is_empty(), "seed {seed}: a fresh branch");
    for _ in 0..10 {
        step(&mut ours, &mut our_model, &dice).await;
        step(&mut theirs, &mut their_model, &dice).await;
    }
    let base = Table::open(store.clone(), World::real(), At::Version(base_version)).await.unwrap();
    let what = |text: &str| format!("seed {seed}: {text}");
    check_difference(&base.compare(&ours).await.unwrap(), &base_model, &our_model, &what("base to ours"));
    check_difference(
        &base.compare(&theirs).await.unwrap(),
        &base_model,
        &their_model,
        &what("base to theirs"),
    );
    let difference = ours.compare(&theirs).await.unwrap();
    check_difference(&difference, &our_model, &their_model, &what("ours to theirs"));

    let before = ours.version();
    let rows_return = seed.is_multiple_of(3);
    let graft = Graft { rows_return, ..all_of(&difference) };
    let version = ours.graft(&theirs, &graft, "MERGE", json!({}), &options).await.unwrap();
    if !rows_return {
        // What ours had deleted comes last, with what only theirs has.
        their_model.rows =
            our_model.rows.iter().copied().filter(|id| their_model.rows.contains(id)).collect();
        their_model.rows.extend(&difference.rows_added);
    }
    assert!(version <= before + 1, "{}", what("one version"));
    check(&ours, &their_model, &what("grafted")).await;
    let left = ours.compare(&theirs).await.unwrap();
    assert!(left.is_empty(), "{}: {left:?}", what("left"));
    let fresh = Table::open(store.clone(), World::real(), At::Tip).await.unwrap();
    check(&fresh, &their_model, &what("grafted, opened anew")).await;
    append(&mut ours, &mut their_model, &dice, 3).await;
    check(&ours, &their_model, &what("appended")).await;

    // Back to where both began, rows in their places, unless the merge moved their neighbours.
    let mut base_model = base_model;
    let difference = ours.compare(&base).await.unwrap();
    let graft = Graft { rows_return: true, ..all_of(&difference) };
    ours.graft(&base, &graft, "REVERT", json!({}), &options).await.unwrap();
    if !rows_return {
        let axis = ours.rows().await.unwrap();
        let found: Vec<u64> = (0..axis.len()).map(|position| axis.id(position).unwrap()).collect();
        let all = |rows: &[u64]| rows.iter().copied().collect::<BTreeSet<u64>>();
        assert_eq!(all(&found), all(&base_model.rows), "{}", what("rows reverted"));
        base_model.rows = found;
    }
    check(&ours, &base_model, &what("reverted")).await;
    let left = ours.compare(&base).await.unwrap();
    assert!(left.is_empty(), "{}: {left:?}", what("left"));
    let fresh = Table::open(store, World::real(), At::Tip).await.unwrap();
    check(&fresh, &base_model, &what("reverted, opened anew")).await;
}

#[test]
fn histories_that_diverge() {
    let next = std::sync::Mutex::new((1..=14).collect::<Vec<u64>>());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let runtime =
                    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
                let runtime = runtime.unwrap();
                while let Some(seed) = { next.lock().unwrap().pop() } {
                    runtime.block_on(history(seed));
                }
            });
        }
    });
}

/// A table with a column of labels.
async fn labels(place: &Place, values: Vec<i64>) -> (Table, Vec<u64>) {
    let mut table = place.create().await;
    let ids: Vec<u64> = table.reserve_ids(values.len() as u64).await.unwrap().collect();
    let cells: Vec<(u64, Cell)> = ids.iter().copied().zip(values.into_iter().map(Cell::Int)).collect();
    let change = RowChange {
        op: "APPEND",
        append: ids.clone(),
        writes: vec![write("labels", ValueColumn::Int, &cells)],
        headers: vec![("labels".into(), header(ValueColumn::Int))],
        ..Default::default()
    };
    table.change_rows(change, &WriteOptions::default()).await.unwrap();
    (table, ids)
}

async fn update(table: &mut Table, cells: &[(u64, Cell)]) -> Result<u64, TableError> {
    let writes = vec![write("labels", ValueColumn::Int, cells)];
    table
        .change_rows(RowChange { op: "UPDATE", writes, ..Default::default() }, &WriteOptions::default())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_the_same_again_is_no_change() {
    let place = Place::new();
    let (mut table, ids) = labels(&place, (0..100).collect()).await;
    let base = place.open().await;
    let same: Vec<(u64, Cell)> =
        ids[10..20].iter().map(|id| (*id, Cell::Int(*id as i64 - ids[0] as i64))).collect();
    update(&mut table, &same).await.unwrap();
    assert!(base.compare(&table).await.unwrap().is_empty());
    table.rename_column("labels", "other", &WriteOptions::default()).await.unwrap();
    table.rename_column("other", "labels", &WriteOptions::default()).await.unwrap();
    table.compact(&WriteOptions::default()).await.unwrap();
    assert!(base.compare(&table).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn comparing_reads_in_proportion_to_the_change() {
    for (is_spread, distinct) in [(true, 1000), (false, 1000), (true, 1), (false, 1)] {
        let place = Place::new();
        let dice = Dice::new(5);
        let (mut table, ids) =
            labels(&place, (0..1_000_000).map(|_| dice.below(distinct) as i64).collect()).await;
        let base_version = table.version();
        let chosen: Vec<u64> = match is_spread {
            true => ids.iter().copied().step_by(1000).collect(),
            false => ids[300_000..301_000].to_vec(),
        };
        let cells: Vec<(u64, Cell)> = chosen.iter().map(|id| (*id, Cell::Int(-1))).collect();
        let before = table.store().counts().written_bytes();
        update(&mut table, &cells).await.unwrap();
        let written = table.store().counts().written_bytes() - before;

        let (old_store, new_store) = (place.store(), place.store());
        let base = Table::open(old_store, World::real(), At::Version(base_version)).await.unwrap();
        let later = Table::open(new_store, World::real(), At::Tip).await.unwrap();
        let read = || base.store().counts().read_bytes() + later.store().counts().read_bytes();
        let opening = read();
        let difference = base.compare(&later).await.unwrap();
        let comparing = read() - opening;
        let expected = Content::Samples { added: vec![], updated: chosen, cleared: vec![] };
        assert_eq!(difference.tensor("labels").unwrap().content, expected);
        assert!(
            comparing <= 3 * written,
            "wrote {written}, read {opening} to open and {comparing} to compare"
        );
    }
}

/// Takes over all that `source` has and `table` has not.
async fn take_all(table: &mut Table, source: &Table, rows_return: bool) {
    let difference = table.compare(source).await.unwrap();
    let graft = Graft { rows_return, ..all_of(&difference) };
    table.graft(source, &graft, "MERGE", json!({}), &WriteOptions::default()).await.unwrap();
    assert!(table.compare(source).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_files_are_linked() {
    let place = Place::new();
    let store = place.store();
    let options = WriteOptions::default();
    let mut ours = Table::create(store.clone(), World::real()).await.unwrap();
    let headers = vec![("images".to_owned(), header(ValueColumn::Data))];
    ours.change_rows(RowChange { op: "ADD", headers, ..Default::default() }, &options).await.unwrap();
    let mut theirs = fork(&place, &store).await;
    let ids: Vec<u64> = theirs.reserve_ids(40).await.unwrap().collect();
    let cell = |id: u64| Cell::Blob(vec![2, 3], vec![(vec![], vec![id as u8; 100_000])]);
    let cells: Vec<(u64, Cell)> = ids.iter().map(|id| (*id, cell(*id))).collect();
    let writes = vec![write("images", ValueColumn::Data, &cells)];
    let change = RowChange { op: "APPEND", append: ids.clone(), writes, ..Default::default() };
    theirs.change_rows(change, &options).await.unwrap();

    let before = store.counts().written_bytes();
    take_all(&mut ours, &theirs, false).await;
    let written = store.counts().written_bytes() - before;
    assert!(written < 50_000, "{written} bytes for a linked file");
    let expected: Vec<Option<Cell>> = ids.iter().map(|id| Some(cell(*id))).collect();
    assert_eq!(read_cell_column(&ours, "images", ValueColumn::Data, &ids).await, expected);

    // Deleted, and brought back from the version before: the file is still there.
    let then = Table::open(store.clone(), World::real(), At::Version(ours.version())).await.unwrap();
    let delete = RowChange { op: "DELETE ROWS", delete: ids.clone(), ..Default::default() };
    ours.change_rows(delete, &options).await.unwrap();
    let data = || std::fs::read_dir(place.directory.path().join("ds/data")).unwrap().count();
    let (before, files) = (store.counts().written_bytes(), data());
    take_all(&mut ours, &then, true).await;
    assert!(store.counts().written_bytes() - before < 50_000);
    assert_eq!(data(), files + 1, "only the rows were written anew");
    assert_eq!(read_cell_column(&ours, "images", ValueColumn::Data, &ids).await, expected);
    assert_eq!(ours.doctor(&options).await.unwrap().damage, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn grafts_clash_only_where_they_overlap() {
    let place = Place::new();
    let (mut table, ids) = labels(&place, (0..100).collect()).await;
    let base = Table::open(place.store(), World::real(), At::Version(table.version())).await.unwrap();
    update(&mut table, &[(ids[1], Cell::Int(-1)), (ids[2], Cell::Int(-2))]).await.unwrap();
    let take = |id: u64| Graft { samples: vec![("labels".into(), vec![id])], ..Graft::default() };
    let mut slow = place.open().await;
    update(&mut table, &[(ids[2], Cell::Int(-3))]).await.unwrap();
    slow.graft(&base, &take(ids[1]), "REVERT", json!({}), &WriteOptions::default()).await.unwrap();
    let found = read_cell_column(&slow, "labels", ValueColumn::Int, &ids[1..3]).await;
    assert_eq!(found, [Some(Cell::Int(1)), Some(Cell::Int(-3))]);
    let mut slow = place.open().await;
    table.refresh().await.unwrap();
    update(&mut table, &[(ids[2], Cell::Int(-4))]).await.unwrap();
    let clash = slow.graft(&base, &take(ids[2]), "REVERT", json!({}), &WriteOptions::default()).await;
    assert!(matches!(clash, Err(TableError::Conflict { .. })), "{clash:?}");
    // Rows that are there cannot be added.
    table.refresh().await.unwrap();
    let twice = Graft { rows_added: vec![ids[5]], rows_return: true, ..Graft::default() };
    let clash = table.graft(&base, &twice, "REVERT", json!({}), &WriteOptions::default()).await;
    assert!(matches!(clash, Err(TableError::Conflict { .. })), "{clash:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn grafted_rows_keep_their_order_and_new_ones_come_last() {
    let place = Place::new();
    let (mut table, ids) = labels(&place, (0..20).collect()).await;
    let base = Table::open(place.store(), World::real(), At::Version(table.version())).await.unwrap();
    let gone = RowChange { op: "DELETE ROWS", delete: ids[5..15].to_vec(), ..Default::default() };
    table.change_rows(gone, &WriteOptions::default()).await.unwrap();
    // In an order that ids do not have.
    let mut rows_added: Vec<u64> = ids[5..15].to_vec();
    rows_added.reverse();
    let samples = vec![("labels".to_owned(), ids[5..15].to_vec())];
    let graft = Graft { rows_added: rows_added.clone(), samples, ..Graft::default() };
    table.graft(&base, &graft, "MERGE", json!({}), &WriteOptions::default()).await.unwrap();
    let mut model = Model { rows: [&ids[..5], &ids[15..], &rows_added].concat(), ..Model::default() };
    append(&mut table, &mut model, &Dice::new(1), 2).await;
    append(&mut table, &mut model, &Dice::new(1), 2).await;
    table.compact(&WriteOptions::default()).await.unwrap();
    append(&mut table, &mut model, &Dice::new(1), 1).await;
    for table in [table, place.open().await] {
        let axis = table.rows().await.unwrap();
        let found: Vec<u64> = (0..axis.len()).map(|position| axis.id(position).unwrap()).collect();
        assert_eq!(found, model.rows);
    }
}
