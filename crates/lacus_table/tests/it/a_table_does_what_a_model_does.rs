//! Random operations on a table and on a map in memory end in the same state, on every layout, with
//! and without deletion vectors, through any handle.

use std::collections::BTreeMap;

use lacus_io::World;
use lacus_layout::{Value, Wish};
use lacus_simulation::Dice;
use lacus_table::{At, Table, WriteOptions};
use lacus_tensor::{DType, Index, Shape, Tensor};

use crate::support::{Place, assert_same, layout, put, random_tensor, read, selected, slice};

type Model = BTreeMap<String, Tensor>;

async fn check(table: &Table, model: &Model, dice: &Dice, what: &str) {
    assert_eq!(table.names(), model.keys().cloned().collect::<Vec<_>>(), "{what}");
    for (name, tensor) in model {
        assert_same(&read(table, name, &[]).await, tensor, &format!("{what}: {name}"));
        let rows = tensor.shape().dims()[0];
        if rows > 0 {
            let at = [Index::At(dice.below(rows) as i64)];
            assert_same(
                &read(table, name, &at).await,
                &selected(tensor, &at),
                &format!("{what}: {name}{at:?}"),
            );
        }
    }
}

fn resized(tensor: &Tensor, rows: u64) -> Tensor {
    let mut dims = tensor.shape().dims().to_vec();
    dims[0] = rows;
    let mut new = Tensor::zeros(tensor.dtype(), Shape::new(dims).unwrap()).unwrap();
    let common = new.bytes().len().min(tensor.bytes().len());
    new.bytes_mut()[..common].copy_from_slice(&tensor.bytes()[..common]);
    new
}

async fn run(seed: u64, deletion_vectors: bool) {
    let dice = Dice::new(seed);
    let place = Place::new();
    let options = WriteOptions::default();
    let mut handles = vec![place.create().await];
    let mut model = Model::new();
    if deletion_vectors {
        // A large array whose parts are changed makes the table use them.
        let big = random_tensor(&dice, DType::U8, &[40, 50_000], 1);
        put(&mut handles[0], "big", &big, layout("FTSF")).await.unwrap();
        model.insert("big".into(), big);
    }
    handles.push(place.open().await);
    for step in 0..60 {
        let h = dice.below(handles.len() as u64) as usize;
        handles[h].refresh().await.unwrap();
        let table = &mut handles[h];
        let names: Vec<String> = model.keys().cloned().collect();
        let old = names.get(dice.below(names.len().max(1) as u64) as usize).cloned();
        let is_dense = |name: &str| !table.tensor(name).unwrap().header.layout.is_sparse();
        match (dice.below(12), old) {
            (0..=3, _) | (_, None) => {
                let name = format!("t{}", dice.below(8));
                let dims = [1 + dice.below(12), 1 + dice.below(9)];
                let dtype = DType::ALL[dice.below(15) as usize];
                let tensor = random_tensor(&dice, dtype, &dims, 1 + dice.below(12));
                let kinds = ["auto", "FTSF", "COO", "CSR", "CSC", "CSF", "BSGS"];
                let mut wish = layout(kinds[dice.below(7) as usize]);
                if wish.layout.as_deref() == Some("FTSF") {
                    wish.chunk_shape = Some(vec![1 + dice.below(5), 1 + dice.below(5)]);
                }
                put(table, &name, &tensor, wish).await.unwrap();
                model.insert(name, tensor);
            }
            (4 | 5, Some(name)) if is_dense(&name) => {
                let tensor = model.get_mut(&name).unwrap();
                let dims = tensor.shape().dims().to_vec();
                let from = dice.below(dims[0]);
                let to = from + 1 + dice.below(dims[0] - from);
                let patch = random_tensor(&dice, tensor.dtype(), &[to - from, dims[1]], 2);
                let row = dims[1] as usize * tensor.dtype().size_bytes();
                tensor.bytes_mut()[from as usize * row..to as usize * row].copy_from_slice(patch.bytes());
                table
                    .write_region(&name, &[slice(from as i64, to as i64)], patch.as_ref(), &options)
                    .await
                    .unwrap();
            }
            (6, Some(name)) => {
                let tensor = model.get_mut(&name).unwrap();
                let dims = tensor.shape().dims().to_vec();
                let more = random_tensor(&dice, tensor.dtype(), &[1 + dice.below(4), dims[1]], 3);
                table.append(&name, Value::Dense(more.as_ref()), &options).await.unwrap();
                let mut new = resized(tensor, dims[0] + more.shape().dims()[0]);
                let start = tensor.bytes().len();
                new.bytes_mut()[start..].copy_from_slice(more.bytes());
                *tensor = new;
            }
            (7, Some(name)) => {
                let tensor = model.get_mut(&name).unwrap();
                let rows = 1 + dice.below(14);
                table.resize(&name, rows, &options).await.unwrap();
                *tensor = resized(tensor, rows);
            }
            (8, Some(name)) => {
                table.remove(&[&name], &options).await.unwrap();
                model.remove(&name);
            }
            (9, Some(name)) => {
                let to = format!("r{step}/x");
                table.rename(&name, &to, &options).await.unwrap();
                let tensor = model.remove(&name).unwrap();
                model.insert(to, tensor);
            }
            (10, _) => {
                let report = table.compact(&options).await.unwrap();
                assert_eq!(report.version, table.version());
            }
            (_, Some(name)) => {
                let metadata = serde_json::json!({"step": step});
                table.set_metadata(Some(&name), metadata.clone(), &options).await.unwrap();
                assert_eq!(table.tensor(&name).unwrap().metadata, metadata);
            }
        }
        let table = &handles[h];
        check(table, &model, &dice, &format!("seed {seed} step {step}")).await;
    }
    let fresh = Table::open(place.store(), World::real(), At::Tip).await.unwrap();
    check(&fresh, &model, &dice, &format!("seed {seed} reopened")).await;
    assert_eq!(fresh.doctor(&options).await.unwrap().damage, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_plain_tables() {
    for seed in 0..6 {
        run(seed, false).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_tables_with_deletion_vectors() {
    for seed in 100..104 {
        run(seed, true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wishes_are_remembered_by_the_header() {
    let place = Place::new();
    let mut table = place.create().await;
    let tensor = random_tensor(&Dice::new(1), DType::F32, &[10, 10], 1);
    let wish = Wish { chunk_shape: Some(vec![3, 10]), ..Wish::default() };
    put(&mut table, "x", &tensor, wish).await.unwrap();
    assert_eq!(table.tensor("x").unwrap().header.chunk_shape(), Some(&[3, 10][..]));
}
