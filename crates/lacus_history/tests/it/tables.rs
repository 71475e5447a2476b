//! Small tables and what tests do to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use lacus_history::{Choice, Combined, Conflict, FastForward, HistoryError, Record, Timeline, merge_message};
use lacus_io::Store;
use lacus_layout::{Value, Wish};
use lacus_table::{
    ColumnRow, ColumnValues, ColumnWrite, Put, Read, RowChange, ScalarBits, Table, TableError, ValueColumn,
    WriteOptions,
};
use lacus_tensor::{DType, Index, Shape, Tensor};
use object_store::ObjectStore;

pub(crate) const LABELS: &str = "label";

pub(crate) fn options() -> WriteOptions {
    WriteOptions { author: Some("ada".into()), ..WriteOptions::default() }
}

pub(crate) fn record(message: &str) -> Record {
    Record { message: message.into(), author: Some("ada".into()), ..Record::default() }
}

pub(crate) fn store_over(objects: Arc<dyn ObjectStore>) -> Store {
    Store::over(url::Url::parse("memory:///dataset/").unwrap(), objects).unwrap()
}

fn numbers(values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut tensor = Tensor::zeros(DType::I64, Shape::new(vec![values.len() as u64]).unwrap()).unwrap();
    tensor.bytes_mut().copy_from_slice(&bytes);
    tensor
}

/// Puts an array in chunks of two elements.
pub(crate) async fn put(table: &mut Table, name: &str, values: &[i64]) -> Result<(), TableError> {
    let tensor = numbers(values);
    let wish = Wish { chunk_shape: Some(vec![2]), layout: Some("FTSF".into()), ..Wish::default() };
    let value = Value::Dense(tensor.as_ref());
    table.put(vec![Put { name: name.into(), value, wish, metadata: None }], &options()).await.map(drop)
}

/// Writes one element.
pub(crate) async fn write(table: &mut Table, name: &str, at: usize, value: i64) -> Result<(), TableError> {
    let values = numbers(&[value]);
    let at = at as i64;
    let index = [Index::Slice { start: Some(at), stop: Some(at + 1), step: None }];
    table.write_region(name, &index, values.as_ref(), &options()).await.map(drop)
}

pub(crate) async fn get(table: &Table, name: &str) -> Vec<i64> {
    let Read::Dense(tensor) = table.read(name, &[]).await.unwrap() else { panic!("{name} is sparse") };
    tensor.bytes().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Makes the column of labels.
pub(crate) async fn add_labels(table: &mut Table) -> Result<(), TableError> {
    let header = ColumnRow {
        htype: "class_label".into(),
        dtype: "int64".into(),
        shape: Vec::new(),
        form: ValueColumn::Int,
        parameters: Default::default(),
        metadata: None,
    };
    let change =
        RowChange { op: "ADD COLUMN", headers: vec![(LABELS.into(), header)], ..RowChange::default() };
    table.change_rows(change, &options()).await.map(drop)
}

fn label_write(ids: Vec<u64>, values: Vec<i64>) -> ColumnWrite<'static> {
    ColumnWrite { name: LABELS.into(), ids, values: ColumnValues::Scalars(ScalarBits::Int(values)) }
}

/// Appends rows with labels; their ids.
pub(crate) async fn append(table: &mut Table, values: &[i64]) -> Result<Vec<u64>, TableError> {
    let ids: Vec<u64> = table.reserve_ids(values.len() as u64).await?.collect();
    let writes = vec![label_write(ids.clone(), values.to_vec())];
    let change = RowChange { op: "APPEND", append: ids.clone(), writes, ..RowChange::default() };
    table.change_rows(change, &options()).await?;
    Ok(ids)
}

pub(crate) async fn relabel(table: &mut Table, id: u64, value: i64) -> Result<(), TableError> {
    let writes = vec![label_write(vec![id], vec![value])];
    let change = RowChange { op: "UPDATE", writes, ..RowChange::default() };
    table.change_rows(change, &options()).await.map(drop)
}

pub(crate) async fn delete_row(table: &mut Table, id: u64) -> Result<(), TableError> {
    let change = RowChange { op: "DELETE", delete: vec![id], ..RowChange::default() };
    table.change_rows(change, &options()).await.map(drop)
}

/// Everything a table holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) arrays: BTreeMap<String, Vec<i64>>,
    /// Ids and labels, in the order of rows.
    pub(crate) rows: Vec<(u64, Option<i64>)>,
}

pub(crate) async fn content(table: &Table) -> Content {
    let mut arrays = BTreeMap::new();
    for name in table.names().into_iter().filter(|name| !table.is_column(name)) {
        let values = get(table, &name).await;
        arrays.insert(name, values);
    }
    let axis = table.rows().await.unwrap();
    let runs = axis.id_runs(0..axis.len());
    let ids: Vec<u64> = runs.iter().flat_map(|&(first, count)| first..first + count).collect();
    let labels = match table.is_column(LABELS) {
        true => {
            let read = table.read_scalars(LABELS, &runs).await.unwrap();
            let ScalarBits::Int(values) = read.values else { panic!("labels are integers") };
            read.present.iter().zip(values).map(|(there, value)| there.then_some(value)).collect()
        }
        false => vec![None; ids.len()],
    };
    Content { arrays, rows: ids.into_iter().zip(labels).collect() }
}

pub(crate) fn stop(_: &Conflict) -> Choice {
    Choice::Stop
}

pub(crate) async fn branch(timeline: &Timeline, name: &str, from: &str) -> Result<Table, HistoryError> {
    let (id, commit) = timeline.resolve_commit("main", from).await?;
    timeline.create_branch(name, (id, &commit)).await?;
    Ok(timeline.open(name, None).await?.table)
}

pub(crate) async fn merge(
    timeline: &Timeline,
    into: &str,
    table: &mut Table,
    theirs: &str,
    decide: &mut (dyn FnMut(&Conflict) -> Choice + Send),
) -> Result<Combined, HistoryError> {
    let (id, commit) = timeline.resolve_commit(into, theirs).await?;
    let record = record(&merge_message(theirs, into));
    timeline.merge(table, (id, &commit), &record, FastForward::Allowed, decide, &options()).await
}
