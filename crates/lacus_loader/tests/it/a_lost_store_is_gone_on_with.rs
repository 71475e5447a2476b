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

/// A view of data whose samples are read with faults, and the same without.
async fn views(name: &str, faults: Faults) -> (View, View, Arc<FlakyStore>) {
    let memory: Arc<dyn object_store::ObjectStore> = Arc::new(InMemory::new());
    let calm = filled(store(name, Arc::clone(&memory)), World::real(), 90).await;
    let flaky = Arc::new(FlakyStore::new(Arc::clone(&memory), faults, 7));
    let table = loop {
        let opened = Table::open(store(name, Arc::clone(&flaky) as _), World::real(), At::Tip).await;
        if let Ok(table) = opened {
            break table;
        }
    };
    let dataset = Arc::new(Dataset::new(table));
    let view = loop {
        if let Ok(view) = View::all(Arc::clone(&dataset), None).await {
            break view;
        }
    };
    (calm, view, flaky)
}

#[test]
fn reads_that_fail_are_tried_again() {
    block_on(async {
        let (calm, flaky, store) = views("retried", Faults { read: 3, ..Faults::default() }).await;
        let made = |view: &View| {
            let settings = Settings { prefetch_bytes: 4 << 10, ..settings(4, 0, 1) };
            LoaderSpec { settings, ..spec(view, &["number", "vector", "text"]) }
        };
        let expected = epoch(&Loader::new(made(&calm)).await.unwrap(), 1, 0).await;
        let loader = Loader::new(made(&flaky)).await.unwrap();
        assert_eq!(epoch(&loader, 1, 0).await, expected);
        assert!(loader.stats().retries > 0, "{} requests", store.requests());
    });
}

#[test]
fn a_store_that_comes_back_is_gone_on_with() {
    block_on(async {
        let (calm, flaky, store) = views("back", Faults { crash_at: 60, ..Faults::default() }).await;
        let made = |view: &View| {
            let timeout = Duration::from_millis(300);
            let settings = Settings { prefetch_bytes: 1 << 10, timeout, ..settings(4, 0, 1) };
            LoaderSpec { settings, ..spec(view, &["number", "vector"]) }
        };
        let expected = epoch(&Loader::new(made(&calm)).await.unwrap(), 1, 0).await;
        let loader = Loader::new(made(&flaky)).await.unwrap();
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
