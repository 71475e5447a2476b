//! Random changes of rows and columns against a model in memory; the order of rows, every sample and
//! every hole are compared after each.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lacus_io::World;
use lacus_simulation::Dice;
use lacus_table::{
    At, BlobSample, BlobTile, ColumnRow, ColumnValues, ColumnWrite, RowChange, ScalarBits, Table,
    ValueColumn, WriteOptions,
};

use crate::support::Place;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Int(i64),
    Float(u32),
    Real(u64),
    Text(String),
    Blob(Vec<i64>, Vec<(Vec<i64>, Vec<u8>)>),
}

#[derive(Clone, Debug, Default)]
struct Model {
    seed: u64,
    rows: Vec<u64>,
    columns: BTreeMap<String, (ValueColumn, BTreeMap<u64, Cell>)>,
    /// The names of the columns, in the order in which they were added.
    order: Vec<String>,
}

pub(crate) fn header(form: ValueColumn) -> ColumnRow {
    ColumnRow {
        htype: "generic".into(),
        dtype: "int64".into(),
        shape: vec![-1, 3],
        form,
        parameters: serde_json::Map::from_iter([("note".to_owned(), "kept".into())]),
        metadata: None,
    }
}

pub(crate) const FORMS: [ValueColumn; 5] =
    [ValueColumn::Int, ValueColumn::Float, ValueColumn::Real, ValueColumn::Text, ValueColumn::Data];

pub(crate) fn random_cell(dice: &Dice, form: ValueColumn) -> Cell {
    match form {
        ValueColumn::Int => Cell::Int(dice.below(1 << 40) as i64 - 7),
        ValueColumn::Float => Cell::Float(dice.below(u64::from(u32::MAX)) as u32),
        ValueColumn::Real => Cell::Real(dice.below(u64::MAX)),
        ValueColumn::Text => Cell::Text("héé ".repeat(dice.below(40) as usize)),
        ValueColumn::Data => {
            let size = [0, 3, 900, 70_000][dice.below(4) as usize];
            let bytes = |seed: u64| (0..size as u64).map(|i| (i.wrapping_mul(seed) >> 3) as u8).collect();
            match dice.below(5) {
                0 => Cell::Blob(
                    vec![2, 1],
                    vec![(vec![0, 0], bytes(dice.below(99))), (vec![1, 0], bytes(dice.below(99)))],
                ),
                1 => Cell::Blob(vec![], vec![(vec![], bytes(dice.below(99)))]),
                _ => Cell::Blob(vec![size, 4], vec![(vec![], bytes(dice.below(99)))]),
            }
        }
    }
}

pub(crate) fn write(name: &str, form: ValueColumn, cells: &[(u64, Cell)]) -> ColumnWrite<'static> {
    let ids = cells.iter().map(|(id, _)| *id).collect();
    let values = match form {
        ValueColumn::Int => ColumnValues::Scalars(ScalarBits::Int(
            cells.iter().map(|(_, c)| if let Cell::Int(v) = c { *v } else { panic!() }).collect(),
        )),
        ValueColumn::Float => ColumnValues::Scalars(ScalarBits::Float(
            cells.iter().map(|(_, c)| if let Cell::Float(v) = c { *v } else { panic!() }).collect(),
        )),
        ValueColumn::Real => ColumnValues::Scalars(ScalarBits::Real(
            cells.iter().map(|(_, c)| if let Cell::Real(v) = c { *v } else { panic!() }).collect(),
        )),
        ValueColumn::Text => ColumnValues::Texts(
            cells
                .iter()
                .map(|(_, c)| if let Cell::Text(v) = c { Cow::Owned(v.clone()) } else { panic!() })
                .collect(),
        ),
        ValueColumn::Data => ColumnValues::Blobs(
            cells
                .iter()
                .map(|(_, c)| {
                    let Cell::Blob(shape, tiles) = c else { panic!() };
                    let tile = |(coords, bytes): &(Vec<i64>, Vec<u8>)| BlobTile {
                        coords: coords.clone(),
                        codec: if bytes.len() % 2 == 0 { "raw" } else { "jpeg" }.into(),
                        bytes: Cow::Owned(bytes.clone()),
                    };
                    BlobSample {
                        shape: (!shape.is_empty()).then(|| shape.clone()),
                        tiles: tiles.iter().map(tile).collect(),
                    }
                })
                .collect(),
        ),
    };
    ColumnWrite { name: name.to_owned(), ids, values }
}

pub(crate) async fn read_cell_column(
    table: &Table,
    name: &str,
    form: ValueColumn,
    ids: &[u64],
) -> Vec<Option<Cell>> {
    if form == ValueColumn::Text {
        let texts = table.read_texts(name, ids).await.unwrap();
        return texts.into_iter().map(|text| text.map(Cell::Text)).collect();
    }
    if form == ValueColumn::Data {
        let samples = table.locate(name, ids).await.unwrap();
        let tiles: Vec<usize> = (0..ids.len()).flat_map(|i| samples.tiles(i)).collect();
        let bytes = table.fetch(&samples, &tiles).await.unwrap();
        return (0..ids.len())
            .map(|i| {
                let range = samples.tiles(i);
                (!range.is_empty()).then(|| {
                    let tiles = range.map(|tile| {
                        let (coords, codec, length) = samples.tile(tile);
                        let bytes = bytes[tile].to_vec();
                        assert_eq!(length, bytes.len() as u64);
                        assert_eq!(codec, if bytes.len() % 2 == 0 { "raw" } else { "jpeg" });
                        (coords, bytes)
                    });
                    Cell::Blob(samples.shape(i).unwrap_or_default().to_vec(), tiles.collect())
                })
            })
            .collect();
    }
    let runs: Vec<(u64, u64)> = ids.iter().map(|id| (*id, 1)).collect();
    let read = table.read_scalars(name, &runs).await.unwrap();
    (0..ids.len())
        .map(|i| {
            read.present[i].then(|| match &read.values {
                ScalarBits::Int(values) => Cell::Int(values[i]),
                ScalarBits::Float(values) => Cell::Float(values[i]),
                ScalarBits::Real(values) => Cell::Real(values[i]),
            })
        })
        .collect()
}

async fn check(table: &Table, model: &Model, dice: &Dice) {
    let axis = table.rows().await.unwrap();
    let found: Vec<u64> = (0..axis.len()).map(|position| axis.id(position).unwrap()).collect();
    assert_eq!(found, model.rows, "seed {}", model.seed);
    let names: Vec<String> = table.columns().unwrap().into_iter().map(|column| column.name).collect();
    assert_eq!(names, model.order, "seed {}", model.seed);
    for (name, (form, cells)) in &model.columns {
        // In any order, with repetitions and rows that are not there.
        let mut ids = model.rows.clone();
        ids.extend((0..5).map(|_| dice.below(3000)));
        if dice.below(2) == 0 {
            ids.reverse();
        }
        let expected: Vec<Option<Cell>> = ids.iter().map(|id| cells.get(id).cloned()).collect();
        assert_eq!(
            read_cell_column(table, name, *form, &ids).await,
            expected,
            "seed {}, column {name}",
            model.seed
        );
    }
}

async fn step(table: &mut Table, model: &mut Model, dice: &Dice) {
    let options = WriteOptions::default();
    let some_rows = |model: &Model| -> Vec<u64> {
        let mut ids: Vec<u64> = model.rows.iter().copied().filter(|_| dice.below(4) == 0).collect();
        ids.sort_unstable();
        ids
    };
    match dice.below(12) {
        0 | 1 => {
            let name = format!("g{}/c{}", dice.below(2), dice.below(4));
            let form = FORMS[dice.below(5) as usize];
            if model.columns.contains_key(&name) {
                return;
            }
            let change = RowChange {
                op: "ADD COLUMN",
                headers: vec![(name.clone(), header(form))],
                ..Default::default()
            };
            table.change_rows(change, &options).await.unwrap();
            if !model.order.contains(&name) {
                model.order.push(name.clone());
            }
            model.columns.insert(name, (form, BTreeMap::new()));
        }
        2..=5 => {
            let count = [1, 1, 7, 200][dice.below(4) as usize];
            let ids: Vec<u64> = table.reserve_ids(count).await.unwrap().collect();
            let mut change = RowChange { op: "APPEND", append: ids.clone(), ..Default::default() };
            for (name, (form, cells)) in &mut model.columns {
                let new: Vec<(u64, Cell)> = ids
                    .iter()
                    .filter(|_| dice.below(5) > 0)
                    .map(|id| (*id, random_cell(dice, *form)))
                    .collect();
                change.writes.push(write(name, *form, &new));
                cells.extend(new);
            }
            table.change_rows(change, &options).await.unwrap();
            model.rows.extend(ids);
        }
        6 | 7 => {
            let ids = some_rows(model);
            let names: Vec<String> = model.columns.keys().cloned().collect();
            let Some(name) = names.get(dice.below(names.len().max(1) as u64) as usize) else { return };
            let (form, cells) = model.columns.get_mut(name).unwrap();
            let new: Vec<(u64, Cell)> = ids.iter().map(|id| (*id, random_cell(dice, *form))).collect();
            let change =
                RowChange { op: "UPDATE", writes: vec![write(name, *form, &new)], ..Default::default() };
            table.change_rows(change, &options).await.unwrap();
            cells.extend(new);
        }
        8 => {
            let ids = some_rows(model);
            let change = RowChange { op: "DELETE ROWS", delete: ids.clone(), ..Default::default() };
            table.change_rows(change, &options).await.unwrap();
            model.rows.retain(|id| !ids.contains(id));
            for (_, cells) in model.columns.values_mut() {
                cells.retain(|id, _| !ids.contains(id));
            }
        }
        9 => {
            let ids = some_rows(model);
            let Some(name) = model.columns.keys().next().cloned() else { return };
            let change =
                RowChange { op: "CLEAR", clear: vec![(name.clone(), ids.clone())], ..Default::default() };
            table.change_rows(change, &options).await.unwrap();
            model.columns.get_mut(&name).unwrap().1.retain(|id, _| !ids.contains(id));
        }
        10 => {
            let Some(name) = model.columns.keys().last().cloned() else { return };
            if dice.below(2) == 0 {
                table.remove(&[&name], &options).await.unwrap();
                model.columns.remove(&name);
                model.order.retain(|other| *other != name);
            } else if !model.columns.contains_key("renamed") {
                table.rename_column(&name, "renamed", &options).await.unwrap();
                let column = model.columns.remove(&name).unwrap();
                model.columns.insert("renamed".into(), column);
                let renamed = model.order.iter_mut().filter(|other| **other == name);
                renamed.for_each(|name| *name = "renamed".into());
            }
        }
        _ => {
            table.compact(&options).await.unwrap();
        }
    }
}

#[test]
fn rows_and_columns() {
    let seeds: Vec<u64> = (1..=12).collect();
    let next = std::sync::Mutex::new(seeds);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let runtime =
                    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
                let runtime = runtime.unwrap();
                loop {
                    let seed = next.lock().unwrap().pop();
                    let Some(seed) = seed else { return };
                    runtime.block_on(async {
                        let dice = Dice::new(seed);
                        let place = Place::new();
                        let mut table = place.create().await;
                        let mut model = Model { seed, ..Model::default() };
                        let mut old: Vec<(u64, Model)> = Vec::new();
                        for _ in 0..40 {
                            step(&mut table, &mut model, &dice).await;
                            check(&table, &model, &dice).await;
                            old.push((table.version(), model.clone()));
                        }
                        // A fresh handle sees the same, and old versions are what they were.
                        let fresh = Table::open(place.store(), World::real(), At::Tip).await.unwrap();
                        check(&fresh, &model, &dice).await;
                        for (version, model) in old.iter().step_by(9) {
                            let then = Table::open(place.store(), World::real(), At::Version(*version)).await;
                            check(&then.unwrap(), model, &dice).await;
                        }
                        let report = table.doctor(&WriteOptions::default()).await.unwrap();
                        assert_eq!(report.damage, []);
                    });
                }
            });
        }
    });
}

/// Writers that append at once: ids never meet, nothing is lost, and rows that were there keep their place.
#[test]
fn appending_at_once_renumbers_nothing() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut table = place.create().await;
        let headers = vec![("x".to_owned(), header(ValueColumn::Int))];
        let change = RowChange { op: "ADD COLUMN", headers, ..Default::default() };
        table.change_rows(change, &WriteOptions::default()).await.unwrap();
    });
    let seen: std::sync::Mutex<Vec<u64>> = Default::default();
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let (place, runtime, seen) = (&place, &runtime, &seen);
            scope.spawn(move || {
                let runtime = runtime.handle();
                let mut table = runtime.block_on(Table::open(place.store(), World::real(), At::Tip)).unwrap();
                for round in 0..10u64 {
                    let before = runtime.block_on(table.rows()).unwrap();
                    let before: Vec<u64> = (0..before.len()).map(|i| before.id(i).unwrap()).collect();
                    let ids: Vec<u64> = runtime.block_on(table.reserve_ids(3)).unwrap().collect();
                    let values = ids.iter().map(|_| (writer * 100 + round) as i64).collect();
                    let write = ColumnWrite {
                        name: "x".into(),
                        ids: ids.clone(),
                        values: ColumnValues::Scalars(ScalarBits::Int(values)),
                    };
                    let change = RowChange {
                        op: "APPEND",
                        append: ids.clone(),
                        writes: vec![write],
                        ..Default::default()
                    };
                    runtime.block_on(table.change_rows(change, &WriteOptions::default())).unwrap();
                    let after = runtime.block_on(table.rows()).unwrap();
                    let after: Vec<u64> = (0..after.len()).map(|i| after.id(i).unwrap()).collect();
                    assert_eq!(after[..before.len()], before, "a row changed its place");
                    seen.lock().unwrap().extend(ids);
                }
            });
        }
    });
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    let count = seen.len();
    seen.dedup();
    assert_eq!((count, seen.len()), (120, 120));
    runtime.block_on(async {
        let mut table = Table::open(place.store(), World::real(), At::Tip).await.unwrap();
        let before = table.rows().await.unwrap();
        assert_eq!(before.len(), 120);
        table.compact(&WriteOptions::default()).await.unwrap();
        let after = table.rows().await.unwrap();
        assert!((0..120).all(|i| before.id(i) == after.id(i)), "compaction changed the order");
    });
}
