//! A store whose reads fail is asked again; one that is gone for longer gives an error that names it, and the loop goes on when it is
//! back.

use std::sync::Arc;
use std::time::Duration;

use lacus_dataset::{Dataset, View};
use lacus_io::{Store, World};
use lacus_loader::{Loader, LoaderSpec, Settings};
use lacus_simulation::{Faults, FlakyStore};
use lacus_table::{At, Table};
use lacus_tensor::ErrorKind;
use object_store::memory::InMemory;

use crate::made::{block_on, epoch, filled, numbers, rest, settings, spec};

fn store(name: &str, inner: Arc<dyn object_store::ObjectStore>) -> Store {
    Store::over(url::Url::parse(&format!("memory:///{name}/")).unwrap(), inner).unwrap()
}

/// Data, and a view of it.
async fn calm(name: &str) -> (Arc<dyn object_store::ObjectStore>, View) {
    let memory: Arc<dyn object_store::ObjectStore> = Arc::new(InMemory::new());
    let view = filled(store(name, Arc::clone(&memory)), World::real(), 90).await;
    (memory, view)
}

/// The same data through a store with faults. Opening it is tried until it works.
async fn flaky(
    name: &str,
    memory: &Arc<dyn object_store::ObjectStore>,
    faults: Faults,
) -> (View, Arc<FlakyStore>) {
    let flaky = Arc::new(FlakyStore::new(Arc::clone(memory), faults, 7));
    for _ in 0..1000 {
        let store = store(name, Arc::clone(&flaky) as _);
        let Ok(table) = Table::open(store, World::real(), At::Tip).await else { continue };
        if let Ok(view) = View::all(Arc::new(Dataset::new(table)), None).await {
            return (view, flaky);
        }
    }
    panic!("it never opens");
}

fn small(view: &View, columns: &[&str], timeout: Duration) -> LoaderSpec {
    let settings = Settings { prefetch_bytes: 1 << 10, timeout, ..settings(4, 0, 1) };
    LoaderSpec { settings, ..spec(view, columns) }
}

#[test]
fn reads_that_fail_are_tried_again() {
    block_on(async {
        let (memory, calm) = calm("retried").await;
        let made = |view: &View| small(view, &["number", "vector", "text"], Duration::from_secs(60));
        let expected = epoch(&Loader::new(made(&calm)).await.unwrap(), 1, 0).await;
        let (view, store) = flaky("retried", &memory, Faults { read: 3, ..Faults::default() }).await;
        let loader = Loader::new(made(&view)).await.unwrap();
        assert_eq!(epoch(&loader, 1, 0).await, expected);
        assert!(loader.stats().retries > 0, "{} requests", store.requests());
    });
}

#[test]
fn a_store_that_comes_back_is_gone_on_with() {
    block_on(async {
        let (memory, _) = calm("back").await;
        let made = |view: &View| small(view, &["number", "vector"], Duration::from_millis(300));
        // How many requests it takes to open the dataset, and to load an epoch: the store goes away in between.
        let (view, counted) = flaky("back", &memory, Faults::default()).await;
        let opened = counted.requests();
        let expected = epoch(&Loader::new(made(&view)).await.unwrap(), 1, 0).await;
        let crash_at = opened + (counted.requests() - opened) / 2;
        assert!(crash_at > opened, "{opened} requests");
        let (view, store) = flaky("back", &memory, Faults { crash_at, ..Faults::default() }).await;
        let loader = Loader::new(made(&view)).await.unwrap();
        let mut batches = loader.batches(1, 0, 0).unwrap();
        let mut seen = Vec::new();
        let error = loop {
            match batches.next().await {
                Ok(Some(batch)) => seen.push(numbers(&batch)),
                Ok(None) => panic!("the store never failed: {} requests", store.requests()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(seen.len() < expected.len());
        store.calm_down();
        seen.extend(rest(&mut batches).await.unwrap());
        assert_eq!(seen, expected);
    });
}
