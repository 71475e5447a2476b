//! An array that is written piece by piece, in any order and by several threads, is the array that was written.

use lacus_layout::{Optimize, Wish};
use lacus_simulation::Dice;
use lacus_table::{ArrayWriter, Read, Table, TableError, WriteOptions};
use lacus_tensor::{DType, Index, SparseTensor, Tensor};

use crate::support::{Place, memory_table, random_tensor};

const DIMS: [u64; 2] = [37, 50];

async fn writer(table: &mut Table, tensor: &Tensor, chunks: [u64; 2], parts: usize) -> ArrayWriter {
    let wish = Wish { chunk_shape: Some(chunks.to_vec()), ..Wish::default() };
    let (dtype, shape) = (tensor.dtype(), tensor.shape().clone());
    let aside = std::env::temp_dir();
    table.array_writer("a", dtype, shape, &wish, None, parts, &aside).await.unwrap()
}

/// The boxes of a grid, in an order of their own.
fn boxes(dice: &Dice, sides: [u64; 2]) -> Vec<([u64; 2], [u64; 2])> {
    let mut all = Vec::new();
    for row in (0..DIMS[0]).step_by(sides[0] as usize) {
        for column in (0..DIMS[1]).step_by(sides[1] as usize) {
            let shape = [sides[0].min(DIMS[0] - row), sides[1].min(DIMS[1] - column)];
            all.push(([row, column], shape));
        }
    }
    for at in (1..all.len()).rev() {
        all.swap(at, (dice.roll() % (at as u64 + 1)) as usize);
    }
    all
}

async fn read(table: &Table) -> Tensor {
    let Read::Dense(found) = table.read("a", &[]).await.unwrap() else { panic!("a sparse array") };
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_of_any_shape_make_chunks_of_any_shape() {
    let dice = Dice::new(7);
    for (number, tiles) in [[37, 50], [10, 10], [4, 50], [37, 1]].into_iter().enumerate() {
        for (other, chunks) in [[10, 10], [37, 50], [7, 9], [20, 25]].into_iter().enumerate() {
            // Of chunks that are put together none, some or all fit memory.
            for parts in [0, 2000, 1 << 20] {
                let place = Place::new();
                let local = number % 2 == 0;
                let name = format!("pieces-{number}-{other}-{parts}");
                let mut table = if local { place.create().await } else { memory_table(&name, 1).await };
                let tensor = random_tensor(&dice, DType::F32, &DIMS, 3);
                let writer = writer(&mut table, &tensor, chunks, parts).await;
                std::thread::scope(|scope| {
                    let all = boxes(&dice, tiles);
                    for some in all.chunks(all.len().div_ceil(3)) {
                        let (writer, tensor, some) = (&writer, &tensor, some.to_vec());
                        scope.spawn(move || {
                            for (starts, shape) in some {
                                writer.write(&starts, tensor.as_ref().region(&starts, &shape)).unwrap();
                            }
                        });
                    }
                });
                let before = table.version();
                assert!(!table.contains("a"));
                table.keep_array(writer, &WriteOptions::default()).await.unwrap();
                assert_eq!(table.version(), before + 1);
                assert_eq!(read(&table).await.bytes(), tensor.bytes(), "{tiles:?} {chunks:?} {parts}");
                assert_eq!(table.tensor("a").unwrap().header.chunk_shape(), Some(&chunks[..]));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dropped_leaves_nothing_and_what_is_kept_replaces() {
    let (place, dice) = (Place::new(), Dice::new(3));
    let mut table = place.create().await;
    let files = || std::fs::read_dir(place.directory.path().join("ds/data")).map_or(0, Iterator::count);
    let tensor = random_tensor(&dice, DType::I64, &DIMS, 1);
    let dropped = writer(&mut table, &tensor, [10, 10], 0).await;
    tokio::task::block_in_place(|| dropped.write(&[0, 0], tensor.as_ref())).unwrap();
    assert_eq!(files(), 1);
    drop(dropped);
    assert_eq!((files(), table.contains("a")), (0, false));

    // In a transaction it is seen when that ends; pieces that never come are zeros.
    for (round, rows) in [37, 20].into_iter().enumerate() {
        table.begin().unwrap();
        let kept = writer(&mut table, &tensor, [10, 10], 0).await;
        let part = tensor.as_ref().region(&[0, 0], &[rows, 50]);
        tokio::task::block_in_place(|| kept.write(&[0, 0], part)).unwrap();
        table.keep_array(kept, &WriteOptions::default()).await.unwrap();
        assert_eq!(place.open().await.version(), round as u64);
        table.finish("RUN", serde_json::json!({}), None, &WriteOptions::default()).await.unwrap();
        let found = read(&place.open().await).await;
        let bytes = (rows * 50 * 8) as usize;
        assert_eq!(found.bytes()[..bytes], tensor.bytes()[..bytes]);
        assert!(found.bytes()[bytes..].iter().all(|&byte| byte == 0));
    }
    let bad = table
        .array_writer(
            "a//b",
            DType::I64,
            tensor.shape().clone(),
            &Wish::default(),
            None,
            0,
            place.directory.path(),
        )
        .await;
    assert!(matches!(bad.map(|_| ()).unwrap_err(), TableError::BadName { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_sparse_matrix_are_the_matrix() {
    let (place, dice) = (Place::new(), Dice::new(5));
    let mut table = place.create().await;
    let dense = random_tensor(&dice, DType::F64, &[900, 400], 4);
    let whole = SparseTensor::from_dense(&dense.as_ref());
    for cuts in [vec![0, 900], vec![0, 1, 2, 500, 500, 899, 900]] {
        let shape = whole.shape().clone();
        let writer = table.rows_writer("a", DType::F64, shape, Optimize::Slices, None).await.unwrap();
        for ends in cuts.windows(2) {
            let mut part = dense.clone();
            let row = 400 * 8;
            part.bytes_mut()[..ends[0] * row].fill(0);
            part.bytes_mut()[ends[1] * row..].fill(0);
            let encoded = writer.encode_rows(&SparseTensor::from_dense(&part.as_ref())).unwrap();
            tokio::task::block_in_place(|| writer.write_rows(encoded)).unwrap();
        }
        table.keep_array(writer, &WriteOptions::default()).await.unwrap();
        let info = table.tensor("a").unwrap();
        assert_eq!((info.header.layout.name(), info.header.nnz), ("CSR", Some(whole.nnz() as u64)));
        let Read::Sparse(found) = table.read("a", &[]).await.unwrap() else { panic!("a dense array") };
        assert_eq!(found, whole);
        let rows = Index::Slice { start: Some(450), stop: Some(600), step: None };
        let Read::Sparse(found) = table.read("a", &[rows]).await.unwrap() else { panic!("a dense array") };
        let expected = SparseTensor::from_dense(&dense.as_ref().region(&[450, 0], &[150, 400]));
        assert_eq!(found, expected);
    }
}
