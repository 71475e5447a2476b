//! Does this endpoint really honour conditional puts?
//!
//! Commits rest on one promise: of several puts that say "only if absent", exactly one succeeds.
//! Some servers ignore the header, others check and then write in two steps, which only shows when
//! puts race. So an endpoint that is not known is asked with racing puts before the first write.

use async_recursion::async_recursion as boxed;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{LazyLock, Mutex};

use bytes::Bytes;
use futures::future::join_all;

use crate::error::{IoError, IoErrorKind};
use crate::store::Store;
use crate::world::World;

/// Racing puts per key, and keys. A server that checks and writes in two steps had several winners
/// on 57 of 60 keys with 12 racing puts, so 12 keys miss it about once in 10^15.
const RACERS: usize = 12;
const KEYS: usize = 12;

/// Endpoints that passed, for this process.
static PROVEN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Default::default);

/// Makes sure that the store honours conditional puts, probing it once per process when it is an
/// endpoint that is not known to. An endpoint that fails is refused with an `Invalid` error.
#[boxed]
pub async fn ensure_conditional_put(store: &Store, world: &World) -> Result<(), IoError> {
    let Some(endpoint) = store.unproven_endpoint() else { return Ok(()) };
    if store.proven().load(Ordering::Acquire) {
        return Ok(());
    }
    let known = PROVEN.lock().unwrap_or_else(|e| e.into_inner()).contains(endpoint);
    if !known {
        race(store, world, endpoint).await?;
        PROVEN.lock().unwrap_or_else(|e| e.into_inner()).insert(endpoint.to_owned());
    }
    store.proven().store(true, Ordering::Release);
    Ok(())
}

/// Why commits to this store are safe, for people. Fails as [`ensure_conditional_put`] does.
#[boxed]
pub async fn commit_safety(store: &Store, world: &World) -> Result<&'static str, IoError> {
    if store.local().is_some() {
        return Ok("safe: files are created exclusively");
    }
    ensure_conditional_put(store, world).await?;
    Ok("safe: the store honours conditional puts")
}

async fn race(store: &Store, world: &World, endpoint: &str) -> Result<(), IoError> {
    let keys: Vec<String> = (0..KEYS).map(|_| format!("_lacus/probe/{}", world.uuid())).collect();
    let mut verdict = Ok(());
    for key in &keys {
        let puts = (0..RACERS).map(|i| store.put_new(key, Bytes::from(vec![i as u8; 16])));
        let mut winners = 0;
        for put in join_all(puts).await {
            match put {
                Ok(()) => winners += 1,
                Err(e) if e.is_already_exists() => {}
                Err(e) => verdict = Err(e),
            }
        }
        if verdict.is_ok() && winners != 1 {
            let message = format!(
                "this endpoint does not honour conditional puts: {winners} of {RACERS} racing puts of one new \
                 key succeeded, so commits would be lost; use a server that does (those of Amazon, Google and Microsoft, MinIO, …)"
            );
            verdict = Err(IoError::new(IoErrorKind::Invalid, "probe", endpoint, message));
        }
        if verdict.is_err() {
            break;
        }
    }
    // The probe's own leavings are no reason to refuse a store.
    let _ = store.remove(keys).await;
    verdict
}
