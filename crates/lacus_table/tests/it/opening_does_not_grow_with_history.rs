//! Opening and log checkpoints cost the same after ten and after ten thousand versions.

use std::sync::Arc;

use lacus_io::Store;
use lacus_layout::Wish;
use lacus_simulation::{Dice, seeded_world};
use lacus_table::{At, Table};
use lacus_tensor::DType;
use object_store::memory::InMemory;
use serde_json::Value as Json;

use crate::support::{assert_same, put, random_tensor, read};

/// What something cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    requests: u64,
    lists: u64,
    read_bytes: u64,
    written_bytes: u64,
}

fn cost(store: &Store) -> Cost {
    let counts = store.counts();
    Cost {
        requests: counts.requests(),
        lists: counts.lists(),
        read_bytes: counts.read_bytes(),
        written_bytes: counts.written_bytes(),
    }
}

struct History {
    memory: Arc<InMemory>,
    dice: Dice,
}

impl History {
    /// A handle on the same memory whose traffic is counted anew.
    fn store(&self) -> Store {
        let url = url::Url::parse("memory:///long/").unwrap();
        Store::over(url, Arc::clone(&self.memory) as _).unwrap()
    }

    async fn open(&self) -> (Table, Cost) {
        let store = self.store();
        let table = Table::open(store.clone(), seeded_world(self.dice.roll()), At::Tip).await.unwrap();
        let cost = cost(&store);
        (table, cost)
    }

    /// Makes versions up to `end` that each replace the one tensor, the last of them for real. Those
    /// before it are copies of the entry before them with other file names, which is quicker.
    async fn grow(&self, end: u64) -> Cost {
        let store = self.store();
        let (mut table, _) = self.open().await;
        let path = |version: u64| format!("_delta_log/{version:020}.json");
        let mut text =
            String::from_utf8(store.read_all(&path(table.version())).await.unwrap().to_vec()).unwrap();
        // A copy with other names would not have the checksum of the original.
        text = text.replace("\"crc32c\":", "\"original\":");
        for version in table.version() + 1..end {
            let action = |kind: &str| {
                let mut lines = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
                lines.find_map(|line| line[kind]["path"].as_str().map(str::to_owned)).unwrap()
            };
            let (removed, added) = (action("remove"), action("add"));
            let new =
                format!("data/{:032x}.parquet", u128::from(self.dice.roll()) << 64 | u128::from(version));
            text =
                text.replace(&added, "new").replace(&removed, &added).replace("\"new\"", &format!("{new:?}"));
            store.put_new(&path(version), text.clone().into()).await.unwrap();
        }
        table.refresh().await.unwrap();
        let before = cost(table.store());
        let tensor = random_tensor(&self.dice, DType::F32, &[8], 1);
        assert_eq!(put(&mut table, "x", &tensor, Wish::default()).await.unwrap(), end);
        let after = cost(table.store());
        assert_same(&read(&self.open().await.0, "x", &[]).await, &tensor, &format!("version {end}"));
        Cost {
            requests: after.requests - before.requests,
            lists: after.lists - before.lists,
            read_bytes: after.read_bytes - before.read_bytes,
            written_bytes: after.written_bytes - before.written_bytes,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_ten_thousand_versions_of_one_tensor() {
    let history = History { memory: Arc::new(InMemory::new()), dice: Dice::new(1) };
    let mut table = Table::create(history.store(), seeded_world(1)).await.unwrap();
    for _ in 0..10 {
        let tensor = random_tensor(&history.dice, DType::F32, &[8], 1);
        put(&mut table, "x", &tensor, Wish::default()).await.unwrap();
    }
    let (_, after_10) = history.open().await;
    history.grow(100).await;
    let early_checkpoint = history.grow(200).await;
    let mut last_checkpoint = early_checkpoint;
    for hundreds in 3..=100 {
        last_checkpoint = history.grow(hundreds * 100).await;
    }
    let (table, after_10_000) = history.open().await;
    assert_eq!((table.version(), table.files().0), (10_000, 1));
    let what = format!("{after_10:?} {after_10_000:?}");
    assert_eq!((after_10.lists, after_10_000.lists), (0, 0), "{what}");
    assert!(after_10_000.requests <= after_10.requests, "{what}");
    assert!(after_10_000.read_bytes * 2 <= after_10.read_bytes * 3, "{what}");

    // As many entries after the log checkpoint as there are from the beginning at version ten.
    history.grow(10_010).await;
    let (_, after_10_010) = history.open().await;
    let what = format!("{after_10:?} {after_10_010:?}");
    assert!(after_10_010.requests <= after_10.requests + 1, "{what}");
    assert!(after_10_010.read_bytes * 2 <= after_10.read_bytes * 3, "{what}");

    let what = format!("{early_checkpoint:?} {last_checkpoint:?}");
    assert_eq!(last_checkpoint.requests, early_checkpoint.requests, "{what}");
    assert!(last_checkpoint.read_bytes * 10 <= early_checkpoint.read_bytes * 11, "{what}");
    assert!(last_checkpoint.written_bytes * 10 <= early_checkpoint.written_bytes * 11, "{what}");
    assert_eq!(last_checkpoint.lists, 0, "{what}");
}
