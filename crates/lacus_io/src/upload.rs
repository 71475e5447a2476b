//! Writes one new file, front to back, to a directory or an object store.
//!
//! Writing is sync: encoders run on plain threads and append as they finish. To an object store
//! the bytes are gathered into parts, and a task sends them while the next part fills.

use async_recursion::async_recursion as boxed;
use std::fs::File;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{ObjectStoreExt, WriteMultipart};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::{IoError, IoErrorKind};
use crate::local::LocalRoot;
use crate::store::Store;

/// Bytes per uploaded part: 10,000 parts of it are 160 GB, and S3 wants at least 5 MiB.
const PART_BYTES: usize = 16 << 20;

/// Parts under way to an object store at once; with the one filling they bound the memory used.
const PARTS_IN_FLIGHT: usize = 4;

/// A file being written. Dropped without [`FileWriter::finish`], nothing of it stays.
pub struct FileWriter {
    store: Store,
    path: String,
    offset: u64,
    sink: Option<Sink>,
    /// Why the upload task gave up.
    failed: Arc<Mutex<Option<IoError>>>,
}

enum Sink {
    Local(Arc<File>),
    Remote { part: BytesMut, send: mpsc::Sender<Bytes>, task: JoinHandle<()> },
}

impl FileWriter {
    /// Starts a new file at `path`, which must not exist. `expected_bytes` (0 when unknown) lets a
    /// local file be allocated ahead. Must be called inside a tokio runtime.
    pub fn create(store: &Store, path: &str, expected_bytes: u64) -> Result<FileWriter, IoError> {
        let failed = Arc::new(Mutex::new(None));
        let sink = match store.local() {
            Some(local) => Sink::Local(Arc::new(local.create(path, expected_bytes)?)),
            None => {
                let location = Path::parse(path)
                    .map_err(|e| IoError::new(IoErrorKind::Invalid, "create", path, e.to_string()))?;
                let (send, receive) = mpsc::channel(1);
                let (store, failed) = (store.clone(), Arc::clone(&failed));
                let task = tokio::spawn(async move {
                    if let Err(error) = upload(store, location, receive).await {
                        failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                    }
                });
                Sink::Remote { part: BytesMut::new(), send, task }
            }
        };
        Ok(FileWriter { store: store.clone(), path: path.to_owned(), offset: 0, sink: Some(sink), failed })
    }

    /// Where the next byte goes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends bytes. Called from plain threads, never from inside a future.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        let at = self.offset;
        self.offset += bytes.len() as u64;
        match self.sink.as_mut() {
            Some(Sink::Local(file)) => local_of(&self.store).write_at(file, &self.path, at, bytes),
            Some(Sink::Remote { part, send, .. }) => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    if part.capacity() == 0 {
                        part.reserve(PART_BYTES);
                    }
                    let take = rest.len().min(PART_BYTES - part.len());
                    part.extend_from_slice(&rest[..take]);
                    rest = &rest[take..];
                    // A closed channel means that the upload failed.
                    if part.len() == PART_BYTES && send.blocking_send(std::mem::take(part).freeze()).is_err()
                    {
                        return Err(self.closed());
                    }
                }
                Ok(())
            }
            None => Err(self.closed()),
        }
    }

    /// Reserves the next `length` bytes of a local file to be written by [`Reserved::write`], from
    /// any thread and in any order. `None` for an object store, which takes bytes in order only.
    pub fn reserve(&mut self, length: u64) -> Option<Reserved> {
        let Some(Sink::Local(file)) = self.sink.as_ref() else { return None };
        let at = self.offset;
        self.offset += length;
        Some(Reserved {
            store: self.store.clone(),
            file: Arc::clone(file),
            path: self.path.clone(),
            at,
            length,
        })
    }

    fn closed(&self) -> IoError {
        if let Some(error) = self.failed.lock().unwrap_or_else(|e| e.into_inner()).take() {
            return error;
        }
        IoError::new(IoErrorKind::Unavailable, "upload", self.path.as_str(), "the upload was given up")
    }

    /// Completes the file and returns its size. With `durable`, a local file and its directory are
    /// synced; an object store is durable once it has answered.
    #[boxed]
    pub async fn finish(mut self, durable: bool) -> Result<u64, IoError> {
        match self.sink.take() {
            Some(Sink::Local(file)) => {
                let result = file
                    .set_len(self.offset)
                    .and_then(|()| if durable { file.sync_all() } else { Ok(()) })
                    .map_err(|e| IoError::from_os("finish", self.path.as_str(), e));
                if result.is_err() {
                    local_of(&self.store).remove(&self.path);
                }
                result.map(|()| self.offset)
            }
            Some(Sink::Remote { part, send, task }) => {
                let _ = send.send(part.freeze()).await;
                // An empty part marks the end of the file; a dropped sender, an aborted one.
                let _ = send.send(Bytes::new()).await;
                drop(send);
                let joined = task.await;
                match (joined, self.failed.lock().unwrap_or_else(|e| e.into_inner()).take()) {
                    (_, Some(error)) => Err(error),
                    (Ok(()), None) => Ok(self.offset),
                    (Err(e), None) => {
                        let path = self.path.as_str();
                        Err(IoError::new(IoErrorKind::Unavailable, "upload", path, e.to_string()))
                    }
                }
            }
            None => Err(self.closed()),
        }
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        if let Some(Sink::Local(_)) = self.sink.take() {
            local_of(&self.store).remove(&self.path);
        }
    }
}

/// A stretch of a local file that is somebody's to fill.
pub struct Reserved {
    store: Store,
    file: Arc<File>,
    path: String,
    at: u64,
    length: u64,
}

impl Reserved {
    /// Writes `parts` one after another; together they must have the reserved length.
    pub fn write(self, parts: &[&[u8]]) -> Result<(), IoError> {
        let total: usize = parts.iter().map(|p| p.len()).sum();
        if total as u64 != self.length {
            let message = format!("{total} bytes for a reservation of {}", self.length);
            return Err(IoError::new(IoErrorKind::Invalid, "write", self.path, message));
        }
        let mut at = self.at;
        for part in parts {
            local_of(&self.store).write_at(&self.file, &self.path, at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }
}

fn local_of(store: &Store) -> &LocalRoot {
    store.local().expect("a local sink exists only over a local store")
}

async fn upload(store: Store, location: Path, mut receive: mpsc::Receiver<Bytes>) -> Result<(), IoError> {
    let failed = |e| IoError::from_store("upload", location.to_string(), e);
    let objects = store.object_store();
    // A file of one part is one put: no multipart round trips for small commits.
    let Some(first) = receive.recv().await else { return Ok(()) };
    let Some(second) = receive.recv().await else { return Ok(()) };
    if second.is_empty() {
        return objects.put(&location, first.into()).await.map(|_| ()).map_err(failed);
    }
    let started = objects.put_multipart(&location).await.map_err(failed)?;
    let mut parts = WriteMultipart::new_with_chunk_size(started, PART_BYTES);
    let mut next = Some(first);
    let mut following = Some(second);
    while let Some(part) = next.take() {
        if part.is_empty() {
            return parts.finish().await.map(|_| ()).map_err(failed);
        }
        if let Err(error) = parts.wait_for_capacity(PARTS_IN_FLIGHT).await {
            // Parts of an upload that is not completed are kept, and charged for, until it is aborted.
            let _ = parts.abort().await;
            return Err(failed(error));
        }
        parts.put(part);
        next = match following.take() {
            Some(part) => Some(part),
            None => receive.recv().await,
        };
    }
    parts.abort().await.map_err(failed)
}
