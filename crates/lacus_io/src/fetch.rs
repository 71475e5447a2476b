//! Fetches planned requests with many in flight, handing each to the caller as it arrives.

use bytes::Bytes;
use futures::StreamExt;

use crate::error::IoError;
use crate::read_plan::Request;
use crate::store::Store;

/// Requests in flight at once. Object stores answer a request in tens of milliseconds whatever
/// its size below a megabyte, so throughput comes from many at a time.
pub const IN_FLIGHT: usize = 128;

/// Fetches `requests` from `files` and calls `take` with each (the request's place in the list,
/// its bytes) in order of arrival. Stops at the first error. What is on its way, and not yet taken, is
/// bounded by the store's budget.
pub async fn fetch<E: From<IoError>>(
    store: &Store,
    files: &[String],
    requests: &[Request],
    mut take: impl FnMut(usize, Bytes) -> Result<(), E>,
) -> Result<(), E> {
    // By number: a closure over references would keep the future from being boxed.
    let mut arriving = futures::stream::iter(0..requests.len())
        .map(|i| {
            let request = &requests[i];
            async move {
                let reserved = store.memory().reserve(request.range.end - request.range.start).await;
                let bytes = store.read(&files[request.file], request.range.clone()).await?;
                Ok::<_, IoError>((i, bytes, reserved))
            }
        })
        .buffer_unordered(IN_FLIGHT);
    while let Some(next) = arriving.next().await {
        let (i, bytes, reserved) = next?;
        take(i, bytes)?;
        drop(reserved);
    }
    Ok(())
}
