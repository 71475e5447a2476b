//! What reading, opening and changing cost, counted in requests and bytes.

use lacus_io::World;
use lacus_layout::{CompressionWish, Value, Wish};
use lacus_simulation::Dice;
use lacus_table::{At, Put, Table, WriteOptions};
use lacus_tensor::{DType, Index};

use crate::support::{Place, layout, put, random_tensor, read, slice};

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_slice_of_one_chunk_is_one_request() {
    let place = Place::new();
    let mut table = place.create().await;
    let tensor = random_tensor(&Dice::new(1), DType::U8, &[64, 100_000], 1);
    let wish =
        Wish { chunk_shape: Some(vec![1, 100_000]), compression: CompressionWish::None, ..layout("FTSF") };
    put(&mut table, "x", &tensor, wish).await.unwrap();
    let counts = |t: &Table| (t.store().counts().reads(), t.store().counts().read_bytes());
    read(&table, "x", &[Index::At(0)]).await;
    let before = counts(&table);
    read(&table, "x", &[Index::At(17)]).await;
    let after = counts(&table);
    assert_eq!(after.0 - before.0, 1);
    // The page is the chunk and a few bytes that describe it.
    assert!(after.1 - before.1 < 100_000 + 100, "{}", after.1 - before.1);

    // A slice fetches at most 1.2 times the stored bytes of the pages its chunks lie in.
    let before = counts(&table);
    read(&table, "x", &[slice(10, 30), slice(5, 9)]).await;
    assert!(counts(&table).1 - before.1 <= 20 * 100_000 * 12 / 10);

    // From an object store, neighbouring pages are merged.
    let mut remote = crate::support::memory_table("requests", 1).await;
    let wish =
        Wish { chunk_shape: Some(vec![1, 100_000]), compression: CompressionWish::None, ..layout("FTSF") };
    put(&mut remote, "x", &tensor, wish).await.unwrap();
    read(&remote, "x", &[Index::At(0)]).await;
    let before = counts(&remote);
    read(&remote, "x", &[Index::At(3)]).await;
    assert_eq!(counts(&remote).0 - before.0, 1);
    let before = counts(&remote);
    read(&remote, "x", &[slice(20, 40)]).await;
    let after = counts(&remote);
    assert!(after.0 - before.0 <= 2 && after.1 - before.1 <= 20 * 100_000 * 12 / 10);
}

async fn many(place: &Place, count: usize) {
    let mut table = place.create().await;
    let tensor = random_tensor(&Dice::new(2), DType::F32, &[8], 1);
    let items = (0..count)
        .map(|i| Put {
            name: format!("layer{i}/weight"),
            value: Value::Dense(tensor.as_ref()),
            wish: Wish::default(),
            metadata: None,
        })
        .collect();
    table.put(items, &WriteOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_costs_the_same_for_ten_and_a_thousand_tensors() {
    let mut requests = Vec::new();
    for count in [10, 1000] {
        let place = Place::new();
        many(&place, count).await;
        let table = place.open().await;
        assert_eq!(table.names().len(), count);
        assert_eq!(table.tensor("layer9/weight").unwrap().header.dtype, DType::F32);
        requests.push(table.store().counts().requests());
    }
    assert!(requests[1] <= requests[0], "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_stays_cheap_after_many_versions() {
    let place = Place::new();
    let mut table = place.create().await;
    let tensor = random_tensor(&Dice::new(3), DType::F32, &[8], 1);
    let mut requests = Vec::new();
    for i in 0..105 {
        put(&mut table, &format!("t{i}"), &tensor, Wish::default()).await.unwrap();
        if i + 1 == 25 || i + 1 == 105 {
            let opened = place.open().await;
            assert_eq!(opened.names().len(), i + 1);
            requests.push(opened.store().counts().requests());
        }
    }
    // The newest log checkpoint and the few entries since, however many versions there are.
    assert!(requests[1] <= requests[0], "{requests:?}");
    for version in [19, 20, 21, 100] {
        let at = Table::open(place.store(), World::real(), At::Version(version)).await.unwrap();
        assert_eq!(at.names().len() as u64, version);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rewriting_a_chunk_writes_the_chunk() {
    let place = Place::new();
    let mut table = place.create().await;
    let wish =
        Wish { chunk_shape: Some(vec![1, 1 << 20]), compression: CompressionWish::None, ..layout("FTSF") };
    let shape = lacus_tensor::Shape::new(vec![1024, 1 << 20]).unwrap();
    table.create_array("x", DType::U8, shape, &wish, None, &WriteOptions::default()).await.unwrap();
    // 64 of the 1024 chunks of a 1 GiB array hold something; the others are zeros that take no room.
    let dice = Dice::new(4);
    let filled = random_tensor(&dice, DType::U8, &[64, 1 << 20], 1);
    table.write_region("x", &[slice(0, 64)], filled.as_ref(), &WriteOptions::default()).await.unwrap();
    let chunk = random_tensor(&dice, DType::U8, &[1 << 20], 1);
    let before = table.store().counts().written_bytes();
    table.write_region("x", &[Index::At(5)], chunk.as_ref(), &WriteOptions::default()).await.unwrap();
    let written = table.store().counts().written_bytes() - before;
    assert!(written < 2 << 20, "{written}");
    assert_eq!(read(&table, "x", &[Index::At(5)]).await.bytes(), chunk.bytes());
    assert_eq!(read(&table, "x", &[Index::At(6)]).await.bytes(), &filled.bytes()[6 << 20..7 << 20]);
    assert!(read(&table, "x", &[Index::At(1000)]).await.bytes().iter().all(|b| *b == 0));
}
