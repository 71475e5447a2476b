//! Samples on their way in: read on one thread, gathered by bytes, written by another, a version per batch.
//!
//! ```text
//! source ─Feed, on a thread that may block→ batches of some 64 MiB ─at most one waits→ Dataset::extend
//! ```
//!
//! When it fails or is cancelled, what earlier batches wrote is taken back: rows are deleted, columns dropped.

use lacus_arrow::Cell;
use lacus_dataset::{ColumnSpec, Dataset, DatasetError, Extend, OnError};
use lacus_table::{RowChange, WriteOptions};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::error::ExchangeError;
use crate::options::{ImportOptions, MOST_SKIPPED, Progress, Report, check_cancel};

/// Samples are written when they take this much. One batch is filled, one waits and one is written: three times as
/// much is the most an import takes.
const BATCH_BYTES: u64 = 64 << 20;

/// Samples in a batch, however small: each takes some 300 bytes while it is encoded.
const BATCH_CELLS: usize = 512 << 10;

/// A column to be made.
#[derive(Clone, Debug)]
pub(crate) struct NewColumn {
    pub name: String,
    pub spec: ColumnSpec,
    /// What exports need to know beyond the type.
    pub metadata: Option<Json>,
}

impl NewColumn {
    pub(crate) fn new(name: impl Into<String>, spec: ColumnSpec) -> NewColumn {
        NewColumn { name: name.into(), spec, metadata: None }
    }

    pub(crate) fn with_metadata(self, metadata: Option<Json>) -> NewColumn {
        NewColumn { metadata, ..self }
    }

    /// A column of this type, with nothing else asked for.
    pub(crate) fn of(name: impl Into<String>, htype: &str) -> NewColumn {
        NewColumn::new(name, ColumnSpec { htype: Some(htype.to_owned()), ..ColumnSpec::default() })
    }
}

/// Rows that are written together.
#[derive(Default)]
struct Batch {
    places: Vec<String>,
    columns: Vec<Vec<Cell>>,
    bytes: u64,
    cells: usize,
}

enum Message {
    Columns(Vec<NewColumn>, Option<u64>),
    Rows(Batch),
    /// The source has come to its end.
    End,
}

/// Where a source puts what it reads.
pub(crate) struct Feed {
    sender: Sender<Message>,
    options: ImportOptions,
    width: usize,
    batch: Batch,
    report: Report,
}

impl Feed {
    pub(crate) fn options(&self) -> &ImportOptions {
        &self.options
    }

    /// Says what the cells of each row are. Comes first.
    pub(crate) fn columns(
        &mut self,
        columns: Vec<NewColumn>,
        total: Option<u64>,
    ) -> Result<(), ExchangeError> {
        self.width = columns.len();
        self.batch = self.empty();
        self.send(Message::Columns(columns, total))
    }

    /// A row, from a place that can be told.
    pub(crate) fn row(&mut self, place: String, cells: Vec<Cell>) -> Result<(), ExchangeError> {
        debug_assert_eq!(cells.len(), self.width);
        self.batch.bytes += cells.iter().map(Cell::bytes).sum::<u64>();
        self.batch.cells += cells.iter().map(Cell::count).sum::<usize>();
        self.batch.places.push(place);
        for (column, cell) in self.batch.columns.iter_mut().zip(cells) {
            column.push(cell);
        }
        match self.batch.bytes >= BATCH_BYTES || self.batch.cells >= BATCH_CELLS {
            true => self.flush(),
            false => self.check(),
        }
    }

    /// Something that cannot be taken.
    pub(crate) fn bad(
        &mut self,
        place: impl Into<String>,
        why: impl Into<String>,
    ) -> Result<(), ExchangeError> {
        self.report.skip(self.options.on_error, place.into(), why.into())
    }

    /// Fails if the caller cancelled.
    pub(crate) fn check(&self) -> Result<(), ExchangeError> {
        check_cancel(self.options.cancel.as_ref())
    }

    fn empty(&self) -> Batch {
        Batch { columns: vec![Vec::new(); self.width], ..Batch::default() }
    }

    fn flush(&mut self) -> Result<(), ExchangeError> {
        self.check()?;
        let empty = self.empty();
        let batch = std::mem::replace(&mut self.batch, empty);
        self.send(Message::Rows(batch))
    }

    fn send(&self, message: Message) -> Result<(), ExchangeError> {
        // Whoever writes has stopped, and has the reason.
        self.sender.blocking_send(message).map_err(|_| ExchangeError::Cancelled)
    }

    fn finish(mut self) -> Result<Report, ExchangeError> {
        if !self.batch.places.is_empty() {
            self.flush()?;
        }
        self.send(Message::End)?;
        Ok(self.report)
    }
}

/// Writes what `source` reads.
pub(crate) async fn import(
    dataset: &mut Dataset,
    options: &ImportOptions,
    source: impl FnOnce(&mut Feed) -> Result<(), ExchangeError> + Send + 'static,
) -> Result<Report, ExchangeError> {
    let (sender, receiver) = channel(1);
    let mut feed = Feed {
        sender,
        options: options.clone(),
        width: 0,
        batch: Batch::default(),
        report: Report::default(),
    };
    let reading = tokio::task::spawn_blocking(move || {
        source(&mut feed)?;
        feed.finish()
    });
    let mut writer = Writer::new(dataset, options);
    let written = writer.run(receiver).await;
    let read = reading.await.map_err(|error| ExchangeError::Fault(format!("import: {error}")));
    // What stopped the writer is the reason why the reader ended early.
    let ended = match (written, read) {
        (Err(error), _) => Err(error),
        (Ok(()), Ok(Ok(report))) => Ok(report),
        (Ok(()), Ok(Err(error)) | Err(error)) => Err(error),
    };
    match ended {
        Ok(read) => Ok(writer.report_with(read)),
        Err(error) => {
            writer.undo().await;
            Err(error)
        }
    }
}

struct Writer<'a> {
    dataset: &'a mut Dataset,
    options: &'a ImportOptions,
    names: Vec<String>,
    specs: Vec<(ColumnSpec, Option<Json>)>,
    total: Option<u64>,
    /// What is to be taken back if it fails.
    made: Vec<String>,
    appended: Vec<(u64, u64)>,
    report: Report,
}

impl<'a> Writer<'a> {
    fn new(dataset: &'a mut Dataset, options: &'a ImportOptions) -> Writer<'a> {
        Writer {
            dataset,
            options,
            names: Vec::new(),
            specs: Vec::new(),
            total: None,
            made: Vec::new(),
            appended: Vec::new(),
            report: Report::default(),
        }
    }

    /// Writes what comes. Ends early, without an error, when the source does.
    async fn run(&mut self, mut receiver: Receiver<Message>) -> Result<(), ExchangeError> {
        // The first batch waits for the second, or for the end: where one holds all there is, an error of the
        // source comes before anything is written.
        let mut first: Option<Batch> = None;
        let mut several = false;
        while let Some(message) = receiver.recv().await {
            match message {
                Message::Columns(columns, total) => self.expect(columns, total)?,
                Message::Rows(batch) if !several && first.is_none() => first = Some(batch),
                Message::Rows(batch) => {
                    several = true;
                    if let Some(first) = first.take() {
                        self.write(first).await?;
                    }
                    self.write(batch).await?;
                }
                Message::End => {
                    match first.take() {
                        Some(first) => self.write(first).await?,
                        None => self.make_columns().await?,
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Notes the columns, and checks that they can be made.
    fn expect(&mut self, columns: Vec<NewColumn>, total: Option<u64>) -> Result<(), ExchangeError> {
        let group = self.options.prefix.as_deref().map(|group| group.trim_end_matches('/'));
        for NewColumn { name, spec, metadata } in columns {
            let name = match group {
                Some(group) => format!("{group}/{name}"),
                None => name,
            };
            let table = self.dataset.table();
            if table.contains(&name) && !(self.options.append && table.is_column(&name)) {
                return Err(DatasetError::NameTaken { name }.into());
            }
            if table.is_column(&name) {
                let found = self.dataset.column(&name)?.htype().to_string();
                let wanted = spec.htype.as_deref().unwrap_or("generic");
                if found != wanted {
                    let why = format!("it holds {found}, not {wanted}");
                    return Err(ExchangeError::bad(format!("column {name:?}"), why));
                }
            }
            self.names.push(name);
            self.specs.push((spec, metadata));
        }
        self.total = total;
        Ok(())
    }

    async fn make_columns(&mut self) -> Result<(), ExchangeError> {
        let options = self.write_options();
        for (name, (spec, metadata)) in self.names.iter().zip(std::mem::take(&mut self.specs)) {
            if !self.dataset.table().contains(name) {
                self.dataset.add_column(name, &spec, None, metadata, &options).await?;
                self.made.push(name.clone());
                continue;
            }
            if let Some(serde_json::Value::Array(classes)) = spec.options.get("class_names") {
                let classes: Vec<String> =
                    classes.iter().filter_map(|class| class.as_str().map(str::to_owned)).collect();
                self.dataset.add_class_names(name, &classes, &options).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, batch: Batch) -> Result<(), ExchangeError> {
        self.make_columns().await?;
        let mut columns = Vec::with_capacity(self.names.len());
        for (name, cells) in self.names.iter().zip(&batch.columns) {
            let samples = cells.iter().map(Cell::sample).collect::<Result<Vec<_>, _>>();
            columns.push((name.clone(), samples.map_err(DatasetError::from)?.into()));
        }
        let on_error = self.options.on_error;
        let options = self.write_options();
        let extended = self.dataset.extend(Extend { columns, on_error }, &options).await;
        let place = |row: u64| batch.places.get(row as usize).cloned().unwrap_or_default();
        let extended = extended.map_err(|error| match error {
            DatasetError::Sample { column, row, source } if on_error == OnError::Raise => {
                ExchangeError::Bad { place: place(row), why: format!("column {column:?}: {source}") }
            }
            other => other.into(),
        })?;
        if extended.rows > 0 {
            let axis = self.dataset.table().rows().await?;
            self.appended.extend(axis.id_runs(axis.len().saturating_sub(extended.rows)..axis.len()));
        }
        let mut bytes = batch.bytes;
        for skipped in extended.skipped {
            let row = skipped.row as usize;
            let cells = batch.columns.iter().filter_map(|column| column.get(row));
            bytes = bytes.saturating_sub(cells.map(Cell::bytes).sum());
            let why = match skipped.error {
                DatasetError::Sample { column, source, .. } => format!("column {column:?}: {source}"),
                other => other.to_string(),
            };
            self.report.skip(OnError::Skip, place(skipped.row), why)?;
        }
        self.report.rows += extended.rows;
        self.report.bytes += bytes;
        if let Some(progress) = &self.options.progress {
            let Report { rows: items, bytes, .. } = self.report;
            progress(Progress { items, bytes, total_items: self.total });
        }
        Ok(())
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions {
            durable: self.options.durable,
            author: self.options.author.clone(),
            cancel: self.options.cancel.clone(),
            ..WriteOptions::default()
        }
    }

    /// What was done, with what the source left out.
    fn report_with(self, read: Report) -> Report {
        let mut report = self.report;
        report.columns = self.names;
        report.skipped_total += read.skipped_total;
        report.skipped.splice(0..0, read.skipped);
        report.skipped.truncate(MOST_SKIPPED);
        report
    }

    /// Takes back what was written. The error that led here is the one to tell; a second one would hide it.
    async fn undo(&mut self) {
        let options = WriteOptions { author: self.options.author.clone(), ..WriteOptions::default() };
        if !self.appended.is_empty() {
            let mut ids: Vec<u64> =
                self.appended.iter().flat_map(|(first, count)| *first..first + count).collect();
            ids.sort_unstable();
            let detail = json!({"rows": ids.len()});
            let change = RowChange { op: "UNDO IMPORT", detail, delete: ids, ..RowChange::default() };
            let _ = self.dataset.table_mut().change_rows(change, &options).await;
        }
        if !self.made.is_empty() {
            let names: Vec<&str> = self.made.iter().map(String::as_str).collect();
            let _ = self.dataset.table_mut().remove(&names, &options).await;
        }
    }
}
