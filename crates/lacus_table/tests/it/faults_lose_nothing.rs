//! A store that fails: what was acknowledged is there, what was not is absent or whole.

use std::sync::Arc;

use lacus_io::Store;
use lacus_layout::{Value, Wish};
use lacus_simulation::{Dice, Faults, FlakyStore, seeded_world};
use lacus_table::{At, Put, Table, WriteOptions};
use lacus_tensor::DType;
use object_store::memory::InMemory;

use crate::support::{assert_same, put, random_tensor, read};

fn store(inner: Arc<dyn object_store::ObjectStore>) -> Store {
    Store::over(url::Url::parse("memory:///flaky/").unwrap(), inner).unwrap()
}

async fn run(seed: u64, faults: Faults) {
    let dice = Dice::new(seed);
    let memory: Arc<dyn object_store::ObjectStore> = Arc::new(InMemory::new());
    Table::create(store(Arc::clone(&memory)), seeded_world(seed)).await.unwrap();
    let flaky = Arc::new(FlakyStore::new(Arc::clone(&memory), faults, seed));
    let mut acknowledged = Vec::new();
    let mut unsure = Vec::new();
    for i in 0..30 {
        let world = seeded_world(seed * 1000 + i + 1);
        let Ok(mut table) = Table::open(store(Arc::clone(&flaky) as _), world, At::Tip).await else {
            continue;
        };
        let name = format!("t{i}");
        let dims = [1 + dice.below(50), 40];
        let tensor = random_tensor(&dice, DType::I32, &dims, 1 + dice.below(4));
        match put(&mut table, &name, &tensor, Wish::default()).await {
            Ok(_) => acknowledged.push((name, tensor)),
            Err(_) => unsure.push((name, tensor)),
        }
    }
    let table = Table::open(store(memory), seeded_world(seed), At::Tip).await.unwrap();
    for (name, tensor) in &acknowledged {
        assert_same(&read(&table, name, &[]).await, tensor, &format!("seed {seed}: {name}"));
    }
    for (name, tensor) in &unsure {
        if table.contains(name) {
            assert_same(&read(&table, name, &[]).await, tensor, &format!("seed {seed}: {name}"));
        }
    }
    assert!(table.names().len() >= acknowledged.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn when_requests_fail() {
    for seed in 0..12 {
        run(seed, Faults { read: 40, put: 8, lost_answer: 8, ..Faults::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_process_dies() {
    for seed in 0..40 {
        run(seed, Faults { crash_at: 5 + seed * 7, ..Faults::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn when_a_retried_put_meets_itself_and_another_writer() {
    for seed in 0..6 {
        let memory: Arc<dyn object_store::ObjectStore> = Arc::new(InMemory::new());
        Table::create(store(Arc::clone(&memory)), seeded_world(seed)).await.unwrap();
        let mut writers = Vec::new();
        for w in 0..3u64 {
            let faults = Faults { refused_retry: 2, ..Faults::default() };
            let flaky = Arc::new(FlakyStore::new(Arc::clone(&memory), faults, seed * 10 + w));
            let world = seeded_world(seed * 100 + w + 1);
            let mut table = Table::open(store(flaky), world, At::Tip).await.unwrap();
            let runtime = tokio::runtime::Handle::current();
            writers.push(std::thread::spawn(move || {
                let dice = Dice::new(seed + w);
                runtime.block_on(async {
                    for i in 0..10 {
                        // Two tensors in one commit: another writer replaces one of them only.
                        let tensor = random_tensor(&dice, DType::I32, &[20, 30], 2);
                        let own = format!("own{w}-{i}");
                        let items = [own.as_str(), "shared"].map(|name| Put {
                            name: name.to_owned(),
                            value: Value::Dense(tensor.as_ref()),
                            wish: Wish::default(),
                            metadata: None,
                        });
                        let _ = table.put(items.into(), &WriteOptions::default()).await;
                        let _ = table.refresh().await;
                    }
                });
            }));
        }
        for writer in writers {
            writer.join().unwrap();
        }
        let table = Table::open(store(memory), seeded_world(seed), At::Tip).await.unwrap();
        assert!(table.version() > 5, "seed {seed}: hardly a commit got in");
        let report = table.doctor(&WriteOptions::default()).await.unwrap();
        assert_eq!(report.damage, [], "seed {seed}");
    }
}
