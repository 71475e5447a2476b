//! Datasets to load.

use std::sync::Arc;

use lacus_dataset::{ColumnSpec, Dataset, Extend, Sample, View};
use lacus_io::{Pool, Store, World};
use lacus_loader::order::{Draws, Ranks, Tail};
use lacus_loader::{
    Batches, ColumnBatch, ColumnPlan, LoadedBatch, Loader, LoaderError, LoaderSpec, Settings, ShuffleWish,
};
use lacus_table::{Table, WriteOptions};
use lacus_tensor::{Buffer, DType, Shape, Tensor};

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work)
}

/// `rows` rows: `number` is the row's own, `vector` has it three times, `ragged` has `row % 5` elements and is missing in every seventh
/// row, `text` says it.
pub(crate) async fn view(name: &str, rows: u64, threads: usize) -> View {
    let store = Store::open(&format!("memory://{name}"), &Default::default()).unwrap();
    let world = World::real().with_pool(Pool::new(threads));
    filled(store, world, rows).await
}

/// The same in a store.
pub(crate) async fn filled(store: Store, world: World, rows: u64) -> View {
    let mut dataset = Dataset::new(Table::create(store, world).await.unwrap());
    let options = WriteOptions::default();
    let spec = |htype: &str, dtype: Option<DType>, shape: Option<Vec<Option<u64>>>| ColumnSpec {
        htype: Some(htype.into()),
        dtype,
        shape,
        ..ColumnSpec::default()
    };
    for (name, spec) in [
        ("number", spec("class_label", Some(DType::U32), None)),
        ("vector", spec("generic", Some(DType::F32), Some(vec![Some(3)]))),
        ("ragged", spec("generic", Some(DType::I64), Some(vec![None]))),
        ("text", spec("text", None, None)),
    ] {
        dataset.add_column(name, &spec, None, None, &options).await.unwrap();
    }
    // Several files, as appended data has.
    for part in (0..rows).collect::<Vec<_>>().chunks(rows.div_ceil(3).max(1) as usize) {
        let tensors: Vec<(Tensor, Option<Tensor>)> = part
            .iter()
            .map(|row| {
                let vector = tensor(DType::F32, &[3], Buffer::from_elements(&[*row as f32; 3]));
                let ragged = vec![*row as i64; (row % 5) as usize];
                let ragged = tensor(DType::I64, &[row % 5], Buffer::from_elements(&ragged));
                (vector, (row % 7 != 3).then_some(ragged))
            })
            .collect();
        let columns = vec![
            (
                "number".to_owned(),
                part.iter().map(|row| Sample::Json((*row).into())).collect::<Vec<_>>().into(),
            ),
            (
                "vector".to_owned(),
                tensors.iter().map(|(vector, _)| Sample::Tensor(vector.as_ref())).collect::<Vec<_>>().into(),
            ),
            (
                "ragged".to_owned(),
                tensors
                    .iter()
                    .map(|(_, ragged)| {
                        ragged.as_ref().map_or(Sample::Missing, |r| Sample::Tensor(r.as_ref()))
                    })
                    .collect::<Vec<_>>()
                    .into(),
            ),
            (
                "text".to_owned(),
                part.iter().map(|row| Sample::Text(format!("row {row}").into())).collect::<Vec<_>>().into(),
            ),
        ];
        dataset.extend(Extend { columns, ..Extend::default() }, &options).await.unwrap();
    }
    View::all(Arc::new(dataset.frozen()), None).await.unwrap()
}

fn tensor(dtype: DType, shape: &[u64], buffer: Buffer) -> Tensor {
    Tensor::new(dtype, Shape::new(shape).unwrap(), buffer).unwrap()
}

/// What most tests change something of.
pub(crate) fn spec(view: &View, columns: &[&str]) -> LoaderSpec {
    LoaderSpec {
        views: vec![view.clone()],
        columns: columns.iter().map(|name| ColumnPlan::new(*name)).collect(),
        required: Vec::new(),
        shuffle: ShuffleWish::Blocks { bytes: 64 << 20 },
        draws: Draws::All,
        bucket_by: None,
        settings: settings(4, 0, 1),
    }
}

pub(crate) fn settings(batch_size: u64, rank: u64, world: u64) -> Settings {
    Settings { batch_size, ranks: Ranks { rank, world }, tail: Tail::Split, ..Settings::default() }
}

/// The numbers of all batches that are left.
pub(crate) async fn rest(batches: &mut Batches) -> Result<Vec<Vec<u64>>, LoaderError> {
    let mut found = Vec::new();
    while let Some(batch) = batches.next().await? {
        found.push(numbers(&batch));
    }
    Ok(found)
}

pub(crate) async fn epoch(loader: &Loader, seed: u64, epoch: u64) -> Vec<Vec<u64>> {
    rest(&mut loader.batches(seed, epoch, 0).unwrap()).await.unwrap()
}

/// The rows of a batch, by what its first column says; checked against what the batch says itself.
pub(crate) fn numbers(batch: &LoadedBatch) -> Vec<u64> {
    let ColumnBatch::Stacked(tensor) = &batch.columns[0].1 else { panic!("{:?}", batch.columns[0]) };
    let numbers: Vec<u64> = match tensor.dtype() {
        DType::U32 => tensor
            .bytes()
            .chunks_exact(4)
            .map(|b| u64::from(u32::from_le_bytes(b.try_into().unwrap())))
            .collect(),
        other => panic!("{other}"),
    };
    let places: Vec<u64> = batch.rows.iter().map(|row| row.place).collect();
    assert_eq!(numbers.len(), places.len());
    numbers
}
