//! Threads, memory and caches belong to the process: many handles and many calls use no more of them than one. Counted,
//! never timed.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lacus_dataset::{Batch, Dataset, Sample};
use lacus_io::{Memory, Pool, Store, World};
use lacus_simulation::{RoundsStore, seeded_world};
use lacus_table::{At, Table};
use lacus_tensor::{Buffer, DType, Index, Shape, Tensor};
use object_store::memory::InMemory;

use crate::support::{Place, extend, fixed, numbers, options, spec};

const MIB: u64 = 1 << 20;

/// A tensor of `bytes` bytes that says which row it is of and does not compress.
fn noise(row: u64, bytes: u64) -> Tensor {
    let mut state = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let elements: Vec<u8> = (0..bytes).map(|_| next()).collect();
    Tensor::new(DType::U8, Shape::new(vec![bytes]).unwrap(), Buffer::from_slice(&elements)).unwrap()
}

fn number(value: i64) -> Tensor {
    Tensor::new(DType::I64, Shape::default(), Buffer::from_elements(&[value])).unwrap()
}

/// Columns `label`, `name` and `image`.
async fn columns(dataset: &mut Dataset, image_bytes: u64) {
    let image = fixed(DType::U8, &[image_bytes]);
    dataset.add_column("label", &fixed(DType::I64, &[]), None, None, &options()).await.unwrap();
    dataset.add_column("name", &spec("text"), None, None, &options()).await.unwrap();
    dataset.add_column("image", &image, None, None, &options()).await.unwrap();
}

/// Rows of all three columns, in one version.
async fn append(dataset: &mut Dataset, rows: std::ops::Range<u64>, image_bytes: u64) {
    let labels: Vec<Tensor> = rows.clone().map(|row| number(row as i64)).collect();
    let images: Vec<Tensor> = rows.clone().map(|row| noise(row, image_bytes)).collect();
    let names = rows.map(|row| Sample::Text(Cow::Owned(format!("row {row}"))));
    let columns = vec![
        ("label", labels.iter().map(|label| Sample::Tensor(label.as_ref())).collect()),
        ("name", names.collect()),
        ("image", images.iter().map(|image| Sample::Tensor(image.as_ref())).collect()),
    ];
    extend(dataset, columns).await;
}

/// Reads everything and compares it.
async fn check_all(dataset: &Dataset, rows: u64, image_bytes: u64) {
    let positions: Vec<u64> = (0..rows).collect();
    assert_eq!(numbers(dataset, "label", &positions).await, (0..rows as i64).collect::<Vec<_>>());
    let Batch::Values(names) = dataset.read("name", &positions, &[]).await.unwrap() else { panic!() };
    assert_eq!(names.len() as u64, rows);
    check_images(dataset, &positions, image_bytes).await;
}

async fn check_images(dataset: &Dataset, positions: &[u64], image_bytes: u64) {
    let Batch::Stacked(images) = dataset.read("image", positions, &[]).await.unwrap() else { panic!() };
    for (position, image) in positions.iter().zip(images.bytes().chunks_exact(image_bytes as usize)) {
        assert!(image == noise(*position, image_bytes).bytes(), "row {position}");
    }
}

/// A hundred versions of one row each, with a text of about `text_bytes` bytes that does not compress well; then each column
/// is read by a handle that knows nothing yet, and what it took is returned: rounds and requests.
async fn read_a_hundred_files(text_bytes: u64) -> Vec<(&'static str, u64, u64)> {
    let objects = Arc::new(InMemory::new());
    let url = url::Url::parse("memory:///hundred/").unwrap();
    let plain = Store::over(url.clone(), Arc::clone(&objects) as _).unwrap();
    let mut dataset = Dataset::new(Table::create(plain, World::real()).await.unwrap());
    columns(&mut dataset, 3000).await;
    for row in 0..100 {
        let (label, image) = (number(row as i64), noise(row, 3000));
        let text: String =
            noise(row, text_bytes / 2).bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let rows = vec![
            ("label", vec![Sample::Tensor(label.as_ref())]),
            ("name", vec![Sample::Text(Cow::Owned(text))]),
            ("image", vec![Sample::Tensor(image.as_ref())]),
        ];
        extend(&mut dataset, rows).await;
    }
    let every: Vec<u64> = (0..100).collect();
    let mut taken = Vec::new();
    for column in ["image", "label", "name"] {
        let counted = RoundsStore::new(Arc::clone(&objects) as _);
        let rounds = counted.rounds();
        let store = Store::over(url.clone(), Arc::new(counted)).unwrap();
        let cold = Dataset::new(Table::open(store, World::real(), At::Tip).await.unwrap());
        assert!(cold.table().files().0 >= 200, "blobs and cells of each row lie in files of their own");
        let before = (rounds.load(Ordering::SeqCst), cold.table().store().counts().reads());
        cold.read(column, &every, &[]).await.unwrap();
        let after = (rounds.load(Ordering::SeqCst), cold.table().store().counts().reads());
        taken.push((column, after.0 - before.0, after.1 - before.1));
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_files_take_no_more_than_three_round_trips() {
    // Three are promised. The requests show that every file was asked, so that no round escaped the count: the ends of all
    // files, then what is wanted of them. What is in a file of a few kilobytes comes with its end.
    assert_eq!(read_a_hundred_files(20).await, [("image", 2, 200), ("label", 1, 100), ("name", 1, 100)]);
    assert_eq!(read_a_hundred_files(60_000).await, [("image", 2, 200), ("label", 2, 200), ("name", 2, 200)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_handles_hold_one_set_of_caches() {
    let place = Place::new();
    let mut dataset = place.create().await;
    columns(&mut dataset, 2000).await;
    for part in 0..5 {
        append(&mut dataset, part * 20..part * 20 + 20, 2000).await;
    }
    drop(dataset);
    let memory = Memory::new(64 * MIB);
    let mut handles = Vec::new();
    let (mut loads, mut cached) = (0, 0);
    for number in 0..10 {
        let store = place.store("ds").within(&memory);
        let table = Table::open(store, World::real(), At::Tip).await.unwrap();
        let more = [table.frozen(), table.twin()];
        for table in more.into_iter().chain([table]) {
            let handle = Dataset::new(table);
            check_all(&handle, 100, 2000).await;
            handles.push(handle);
        }
        if number == 0 {
            (loads, cached) = (memory.loads(), memory.cached());
            assert!(loads > 10 && cached > 1000, "{loads} loads, {cached} bytes");
        }
        assert_eq!((memory.loads(), memory.cached()), (loads, cached), "after handle {number}");
    }
    handles.truncate(1);
    assert_eq!(memory.cached(), cached);
    handles.clear();
    assert_eq!(memory.cached(), 0, "nobody is left to use it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_smaller_than_one_sample_still_reads_it() {
    let store = Store::open("memory://small-budget", &Default::default()).unwrap();
    let memory = Memory::new(64 << 10);
    let mut dataset = Dataset::new(Table::create(store.within(&memory), World::real()).await.unwrap());
    columns(&mut dataset, MIB).await;
    for part in 0..3 {
        append(&mut dataset, part * 2..part * 2 + 2, MIB).await;
    }
    for _ in 0..2 {
        check_all(&dataset, 6, MIB).await;
        assert!(memory.cached() <= 32 << 10, "{} bytes cached", memory.cached());
    }
    // One request at a time, and none of them is for more than two neighbours.
    assert!(memory.most_in_flight() <= 2 * MIB + (64 << 10), "{} bytes", memory.most_in_flight());
    assert_eq!(memory.in_flight(), 0);
}

/// Eight threads read everything at once, each by the handle that `handle` gives it.
fn read_by_eight<'h>(handle: impl Fn(usize) -> &'h Dataset + Sync) {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (runtime, handle) = (&runtime, &handle);
                scope.spawn(move || runtime.block_on(check_all(handle(thread), 48, MIB / 4)));
            }
        });
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_readers_share_few_workers_and_little_memory() {
    let (pool, memory) = (Pool::new(3), Memory::new(8 * MIB));
    let world = World::real().with_pool(pool.clone());
    let local = Place::new();
    let remote = Store::open("memory://eight-readers", &Default::default()).unwrap();
    for store in [remote, local.store("ds")] {
        let open = || Table::open(store.within(&memory), world.clone(), At::Tip);
        let mut one = Dataset::new(Table::create(store.within(&memory), world.clone()).await.unwrap());
        columns(&mut one, MIB / 4).await;
        append(&mut one, 0..48, MIB / 4).await;
        read_by_eight(|_| &one);
        let mut eight = Vec::new();
        for _ in 0..8 {
            eight.push(Dataset::new(open().await.unwrap()));
        }
        read_by_eight(|thread| &eight[thread]);
        let most = pool.most_workers();
        assert!((1..=2).contains(&most), "{most} workers where two are allowed and some are needed");
    }
    // A merged request is up to 8 MiB and goes alone; none goes beside it.
    let most = memory.most_in_flight();
    assert!(most > 0 && most <= 8 * MIB + (64 << 10), "{most} bytes in flight");
    assert_eq!(memory.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_reads_stay_on_the_thread_that_asks() {
    let pool = Pool::new(4);
    let place = Place::new();
    let mut dataset = place.create().await;
    columns(&mut dataset, 10_000).await;
    append(&mut dataset, 0..10, 10_000).await;
    let world = World::real().with_pool(pool.clone());
    let dataset = Dataset::new(Table::open(place.store("ds"), world, At::Tip).await.unwrap());
    check_all(&dataset, 10, 10_000).await;
    let part = [Index::Slice { start: Some(5), stop: Some(9), step: None }];
    dataset.read("image", &[3], &part).await.unwrap();
    assert_eq!(pool.most_workers(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_again_at_the_same_place_is_not_what_was_there() {
    let open = || Store::open("memory://made-again", &Default::default()).unwrap();
    // The same dice give both datasets the same names of files.
    let mut old = Dataset::new(Table::create(open(), seeded_world(5)).await.unwrap());
    columns(&mut old, 100).await;
    append(&mut old, 0..5, 100).await;
    check_all(&old, 5, 100).await;
    Table::delete(open(), World::real()).await.unwrap();
    let mut new = Dataset::new(Table::create(open(), seeded_world(5)).await.unwrap());
    columns(&mut new, 100).await;
    let labels: Vec<Tensor> = (0..5).map(|row| number(70 + row)).collect();
    let images: Vec<Tensor> = (0..5).map(|row| noise(70 + row, 100)).collect();
    let names = (0..5).map(|row| Sample::Text(Cow::Owned(format!("row {row}"))));
    let rows = vec![
        ("label", labels.iter().map(|label| Sample::Tensor(label.as_ref())).collect()),
        ("name", names.collect()),
        ("image", images.iter().map(|image| Sample::Tensor(image.as_ref())).collect()),
    ];
    extend(&mut new, rows).await;
    assert_eq!(numbers(&new, "label", &[0, 1, 2, 3, 4]).await, [70, 71, 72, 73, 74]);
    let Batch::Stacked(found) = new.read("image", &[4], &[]).await.unwrap() else { panic!() };
    assert_eq!(found.bytes(), noise(74, 100).bytes());
}
