//! Fetches planned requests with many in flight, handing each to the caller as it arrives.

use bytes::Bytes;
use futures::StreamExt;

use crate::error::IoError;
use crate::read_plan::Request;
use crate::store::Store;

/// Requests in flight at once. Object stores answer a request in tens of milliseconds whatever
/// its size below a megabyte, so throughput comes from many at a time.
const IN_FLIGHT: usize = 64;

/// Bytes in flight at once, so that large requests do not fill memory: at 8 MiB a request this
/// still keeps 32 under way.
const IN_FLIGHT_BYTES: u64 = 256 << 20;

/// Fetches `requests` from `files` and calls `take` with each (the request's place in the list,
/// its bytes) in order of arrival. Stops at the first error.
pub async fn fetch<E: From<IoError>>(
    store: &Store,
    files: &[String],
    requests: &[Request],
    mut take: impl FnMut(usize, Bytes) -> Result<(), E>,
) -> Result<(), E> {
    let largest = requests.iter().map(|r| r.range.end - r.range.start).max().unwrap_or(0);
    let in_flight = (IN_FLIGHT_BYTES / largest.max(1)).clamp(1, IN_FLIGHT as u64) as usize;
    // By number: a closure over references would keep the future from being boxed.
    let mut arriving = futures::stream::iter(0..requests.len())
        .map(|i| {
            let request = &requests[i];
            async move {
                let bytes = store.read(&files[request.file], request.range.clone()).await?;
                Ok::<_, IoError>((i, bytes))
            }
        })
        .buffer_unordered(in_flight);
    while let Some(next) = arriving.next().await {
        let (i, bytes) = next?;
        take(i, bytes)?;
    }
    Ok(())
}
