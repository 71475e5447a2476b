//! The rows and columns of a view as a dataset of their own.
//!
//! Stored samples are copied as they are. Where columns are computed, all of them go through Arrow, whose fields say what each is.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures::channel::mpsc::{Receiver, channel};
use futures::{SinkExt, StreamExt};
use lacus_dataset::{Dataset, ScanOptions, View};
use lacus_exchange::{ImportOptions, from_arrow};
use lacus_history::{CommitId, Lineage, LineageInput, Record};
use lacus_io::{Store, boxed};
use lacus_query::Callee;
use lacus_table::{Table, WriteOptions};
use serde_json::json;

use crate::answer_scan::AnswerScan;
use crate::error::Error;
use crate::repository::{Repository, StorageOptions};

impl Repository {
    /// Copies the rows and columns of a view to an empty place, as a dataset of their own. Columns that are computed are stored with
    /// their values; they may use `functions` of the caller's. The first commit says where the rows came from.
    #[boxed]
    pub async fn materialize(
        &self,
        view: &View,
        url: &str,
        options: &StorageOptions,
        writing: &WriteOptions,
        functions: &[Arc<dyn Callee>],
    ) -> Result<Repository, Error> {
        let store = Store::open(url, options)?;
        let copy = match view.computed().is_empty() {
            true => view.materialize(store.clone(), self.world().clone(), writing).await?,
            false => self.computed_copy(view, &store, writing, functions).await?,
        };
        let commit = match view.state().commit.as_deref().and_then(CommitId::parse) {
            Some(id) => Some(id),
            None => self.commit_of(view).await.ok(),
        };
        let url_of = Some(self.url().to_owned());
        let stored = view.columns().into_iter().filter(|name| !view.computed().contains_key(name)).collect();
        let input = LineageInput { commit, url: url_of, tensors: stored };
        let mut parameters = json!({"rows": view.len(), "version": view.state().version});
        if !view.computed().is_empty() {
            parameters["computed"] = json!(view.computed());
        }
        let lineage = Lineage {
            outputs: view.columns(),
            function: Some("materialize".to_owned()),
            inputs: vec![input],
            parameters,
            ..Lineage::default()
        };
        let message = format!("Rows of a view of {}", self.url());
        let record = Record { message, lineage: vec![lineage], ..Record::default() };
        let made = Repository::over(url, store, self.world().clone());
        if let Err(error) = made.timeline().commit(&mut copy.into_table(), &record, true).await {
            // Nothing half is left; that this may fail too is not what the caller asked.
            let _ = Table::delete(made.store().clone(), made.world().clone()).await;
            return Err(error.into());
        }
        Ok(made)
    }

    /// Writes all columns of a view, those that are computed, too, all or nothing.
    async fn computed_copy(
        &self,
        view: &View,
        store: &Store,
        writing: &WriteOptions,
        functions: &[Arc<dyn Callee>],
    ) -> Result<Dataset, Error> {
        let mut scan = AnswerScan::of_view(view, None, ScanOptions::default(), functions).await?;
        let mut copy = Dataset::new(Table::create(store.clone(), self.world().clone()).await?);
        // One batch waits while another is written.
        let (mut sender, receiver) = channel(1);
        let batches = Batches { schema: Arc::clone(scan.schema()), receiver };
        let computing = async move {
            while let Some(batch) = scan.next().await? {
                if sender.send(batch).await.is_err() {
                    // The writer has ended, and says why.
                    break;
                }
            }
            Ok::<(), Error>(())
        };
        let options = ImportOptions { durable: writing.durable, ..ImportOptions::default() };
        let (computed, written) = futures::join!(computing, from_arrow(&mut copy, batches, &options));
        let done = match (computed, written) {
            (Err(error), _) => Err(error),
            (Ok(()), Err(error)) => Err(error.into()),
            (Ok(()), Ok(_)) => Ok(()),
        };
        if let Err(error) = done {
            drop(copy);
            let _ = Table::delete(store.clone(), self.world().clone()).await;
            return Err(error);
        }
        Ok(copy)
    }
}

/// Batches that are computed elsewhere, for whoever waits for them on a thread of its own.
struct Batches {
    schema: SchemaRef,
    receiver: Receiver<RecordBatch>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        futures::executor::block_on(self.receiver.next()).map(Ok)
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
