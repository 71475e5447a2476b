//! Several writers at once: what does not overlap all gets in, what does is a conflict.

use lacus_layout::Wish;
use lacus_simulation::Dice;
use lacus_table::{ErrorKind, WriteOptions};
use lacus_tensor::{DType, Index};

use crate::support::{Place, assert_same, layout, put, random_tensor, read, slice};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn different_tensors_all_get_in() {
    let place = Place::new();
    drop(place.create().await);
    let tensor = random_tensor(&Dice::new(1), DType::F32, &[100], 1);
    let mut writers = Vec::new();
    for w in 0..6 {
        let mut table = place.open().await;
        let tensor = tensor.as_ref().to_tensor();
        let runtime = tokio::runtime::Handle::current();
        writers.push(std::thread::spawn(move || {
            runtime.block_on(async move {
                for i in 0..8 {
                    put(&mut table, &format!("w{w}/{i}"), &tensor, Wish::default()).await.unwrap();
                }
            });
        }));
    }
    for writer in writers {
        writer.join().unwrap();
    }
    let table = place.open().await;
    assert_eq!(table.names().len(), 48);
    assert_eq!(table.version(), 48);
    for name in table.names() {
        assert_same(&read(&table, &name, &[]).await, &tensor, &name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_new_name_is_a_conflict() {
    let place = Place::new();
    let mut a = place.create().await;
    let mut b = place.open().await;
    let tensor = random_tensor(&Dice::new(2), DType::F32, &[10], 1);
    put(&mut a, "x", &tensor, Wish::default()).await.unwrap();
    let error = put(&mut b, "x", &tensor, Wish::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("\"x\""), "{error}");
    // The loser's files are gone, and after a refresh it may replace what is there.
    assert_eq!(std::fs::read_dir(place.directory.path().join("ds/data")).unwrap().count(), 1);
    b.refresh().await.unwrap();
    put(&mut b, "x", &tensor, Wish::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn disjoint_regions_are_united() {
    let place = Place::new();
    let options = WriteOptions::default();
    let dice = Dice::new(3);
    let mut a = place.create().await;
    let whole = random_tensor(&dice, DType::U8, &[16, 200_000], 1);
    let wish = Wish { chunk_shape: Some(vec![1, 200_000]), ..layout("FTSF") };
    put(&mut a, "x", &whole, wish).await.unwrap();
    let mut b = place.open().await;
    let mut c = place.open().await;
    let patch = random_tensor(&dice, DType::U8, &[2, 200_000], 1);
    a.write_region("x", &[slice(0, 2)], patch.as_ref(), &options).await.unwrap();
    // Both other handles still see the first version.
    b.write_region("x", &[slice(4, 6)], patch.as_ref(), &options).await.unwrap();
    let error = c.write_region("x", &[slice(5, 7)], patch.as_ref(), &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    // A compaction that moved the rows is no conflict, the rows are found where they went.
    let mut d = place.open().await;
    let mut e = place.open().await;
    d.compact(&options).await.unwrap();
    e.write_region("x", &[slice(8, 10)], patch.as_ref(), &options).await.unwrap();
    let table = place.open().await;
    let row = 200_000;
    let mut expected = whole.bytes().to_vec();
    for start in [0, 4, 8] {
        expected[start * row..(start + 2) * row].copy_from_slice(patch.bytes());
    }
    assert!(read(&table, "x", &[Index::Ellipsis]).await.bytes() == expected);
}
