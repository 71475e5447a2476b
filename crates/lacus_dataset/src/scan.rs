//! Rows as Arrow record batches, cut by bytes.
//!
//! ```text
//! ids ─next window→ stored sizes, texts ─cut by bytes→ ids of a batch ─read and decode each column→ RecordBatch
//! ```
//!
//! A scan is plain data and borrows nothing: whoever drives it hands in the dataset each time.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use futures::stream::{BoxStream, StreamExt, try_unfold};
use lacus_arrow::Unfit;
use lacus_io::boxed;
use lacus_sample::Form;

use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::filter::Filter;
use crate::id_runs::{IdRuns, ids_of};
use crate::matching::{Test, WINDOW_ROWS};
use crate::scan_column::{ScanColumn, fixed_bytes, mapping, position};

/// The bytes of a record batch, unless somebody asks for others: large enough that what a batch costs by itself does not count,
/// small enough that several fit into a processor's memory.
pub const DEFAULT_BATCH_BYTES: u64 = 16 << 20;

/// Rows of a batch at most, however small they are.
const MOST_ROWS: u64 = 1 << 20;

/// What is asked of a scan.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// About the bytes of each batch. A batch has one row at least, so that one large sample makes a larger batch.
    pub batch_bytes: u64,
    /// Which rows are wanted; all if there is none. Rows that zones rule out are not read.
    pub filter: Option<Filter>,
}

impl Default for ScanOptions {
    fn default() -> ScanOptions {
        ScanOptions { batch_bytes: DEFAULT_BATCH_BYTES, filter: None }
    }
}

/// A scan on its way: rows that are still to come, and how their columns are said in Arrow.
#[derive(Debug)]
pub struct Scan {
    schema: SchemaRef,
    columns: Vec<ScanColumn>,
    batch_bytes: u64,
    /// What rows must pass.
    test: Option<Test>,
    /// Rows that may.
    rest: IdRuns,
    /// Rows that do, if there is something to pass.
    passed: IdRuns,
    /// Batches whose sizes are known.
    cut: VecDeque<Cut>,
    /// Set while a batch is read: one that failed, or that nobody waited for, may have taken rows with it.
    is_broken: bool,
}

/// The rows of one batch.
#[derive(Debug)]
struct Cut {
    runs: Vec<(u64, u64)>,
    /// For each column, its texts if it is one of texts.
    texts: Vec<Option<StringArray>>,
}

impl Dataset {
    /// The Arrow schema of some columns; nothing is read for it. The metadata of each field says what the column is, so that
    /// an import of the batches makes the same columns.
    ///
    /// Fails if there is no such column, or if it has no Arrow form.
    pub fn arrow_schema(&self, columns: &[impl AsRef<str>]) -> Result<SchemaRef, DatasetError> {
        let mut fields = Vec::with_capacity(columns.len());
        for name in columns {
            let facts = self.column_facts(name.as_ref())?;
            fields.push(mapping(&facts)?.field(name.as_ref(), &facts.column, facts.metadata.as_ref()));
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    /// A scan of the rows with these ids (runs of first id and count, in any order, also repeated) and of these columns. Nothing is
    /// read yet. Missing samples are null.
    ///
    /// Fails as [`Dataset::arrow_schema`] does.
    #[boxed]
    pub async fn scan(
        &self,
        ids: Vec<(u64, u64)>,
        columns: &[String],
        options: ScanOptions,
    ) -> Result<Scan, DatasetError> {
        let axis = self.table().rows().await?;
        if let Some(id) = ids.iter().find_map(|&(first, count)| axis.absent(first, count)) {
            return Err(DatasetError::NoSuchRow { id, version: self.table().version() });
        }
        let columns_of = columns.iter().map(|name| ScanColumn::new(self.column_facts(name)?, axis.len()));
        let all = columns_of.collect::<Result<_, _>>()?;
        let schema = self.arrow_schema(columns)?;
        let test = options.filter.as_ref().map(|filter| self.bind(filter)).transpose()?;
        let rest = match &test {
            Some(test) => self.possible(&ids, test).await?,
            None => ids,
        };
        Ok(Scan {
            schema,
            columns: all,
            batch_bytes: options.batch_bytes,
            test,
            rest: IdRuns::new(rest),
            passed: IdRuns::default(),
            cut: VecDeque::new(),
            is_broken: false,
        })
    }
}

impl Scan {
    /// The schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows are still to come; at most, if there is a filter.
    pub fn rows_left(&self) -> u64 {
        let cut = self.cut.iter().flat_map(|cut| &cut.runs).map(|(_, count)| count).sum::<u64>();
        cut + self.passed.len() + self.rest.len()
    }

    /// The next batch, of the dataset that the scan was made of; `None` at the end.
    ///
    /// Fails as reading the samples does, and if one of them is not what the Arrow type of its column can say.
    #[boxed]
    pub async fn next(&mut self, dataset: &Dataset) -> Result<Option<RecordBatch>, DatasetError> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(DatasetError::refused("scan", "a batch before this one failed".to_owned()));
        }
        let batch = self.read_next(dataset).await?;
        self.is_broken = false;
        Ok(batch)
    }

    async fn read_next(&mut self, dataset: &Dataset) -> Result<Option<RecordBatch>, DatasetError> {
        loop {
            let Some(cut) = self.cut.pop_front() else {
                if !self.look_ahead(dataset).await? {
                    return Ok(None);
                }
                continue;
            };
            let rows: u64 = cut.runs.iter().map(|(_, count)| count).sum();
            let mut arrays = Vec::with_capacity(self.columns.len());
            let mut is_too_large = false;
            for (column, texts) in self.columns.iter().zip(&cut.texts) {
                match column.array(dataset, &cut.runs, texts.as_ref()).await? {
                    Some(array) => arrays.push(array),
                    None if rows > 1 => {
                        is_too_large = true;
                        break;
                    }
                    None => {
                        let axis = dataset.table().rows().await?;
                        let position = position(&axis, cut.runs[0].0);
                        return Err(column.wrong(Some(position), Unfit::TooLarge.to_string()));
                    }
                }
            }
            if is_too_large {
                // What was stored said less than it came to.
                let (front, back) = cut.halved();
                self.cut.push_front(back);
                self.cut.push_front(front);
                continue;
            }
            let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
            return batch.map(Some).map_err(|error| DatasetError::refused("scan", error.to_string()));
        }
    }

    /// All batches from here on.
    pub fn stream<'a, D>(self, dataset: D) -> BoxStream<'a, Result<RecordBatch, DatasetError>>
    where
        D: Deref<Target = Dataset> + Send + Sync + 'a,
    {
        let next = |(mut scan, dataset): (Scan, D)| async move {
            let batch = scan.next(&dataset).await?;
            Ok(batch.map(|batch| (batch, (scan, dataset))))
        };
        try_unfold((self, dataset), next).boxed()
    }

    /// Finds out how large the next rows are, and cuts them into batches. False if there are no more.
    async fn look_ahead(&mut self, dataset: &Dataset) -> Result<bool, DatasetError> {
        let wanted = self.batch_bytes.max(1);
        let usual: u64 = self.columns.iter().map(|column| column.usual_bytes).sum();
        let mut most = (wanted / usual.max(1)).clamp(1, MOST_ROWS);
        loop {
            let runs = self.next_rows(dataset, most).await?;
            if runs.is_empty() {
                return Ok(false);
            }
            let rows = runs.iter().map(|(_, count)| *count as usize).sum::<usize>();
            let Some(sizes) = self.sizes(dataset, &runs, rows).await? else {
                if rows == 1 {
                    let why = Unfit::TooLarge.to_string();
                    return Err(DatasetError::refused("scan", why));
                }
                // Texts that are much longer than others: fewer at a time.
                most = rows as u64 / 2;
                if self.test.is_some() { &mut self.passed } else { &mut self.rest }.put_back(runs);
                continue;
            };
            self.cut_up(IdRuns::new(runs), rows, &sizes, wanted);
            return Ok(true);
        }
    }

    /// Up to `most` of the next rows that pass; none at the end.
    async fn next_rows(&mut self, dataset: &Dataset, most: u64) -> Result<Vec<(u64, u64)>, DatasetError> {
        let Some(test) = &self.test else { return Ok(self.rest.take(most)) };
        loop {
            let runs = self.passed.take(most);
            let some = if runs.is_empty() { self.rest.take(WINDOW_ROWS) } else { Vec::new() };
            if some.is_empty() {
                return Ok(runs);
            }
            self.passed = IdRuns::new(dataset.passing(&some, test).await?);
        }
    }

    /// How large rows are, and the texts that had to be read for it. `None` if there are more texts than one array can hold.
    async fn sizes(
        &self,
        dataset: &Dataset,
        runs: &[(u64, u64)],
        rows: usize,
    ) -> Result<Option<Sizes>, DatasetError> {
        let mut sizes = Sizes { each: 0, more: Vec::new(), texts: Vec::with_capacity(self.columns.len()) };
        for column in &self.columns {
            sizes.texts.push(None);
            match (fixed_bytes(&column.mapping), column.column.form()) {
                (Some(bytes), _) => sizes.each = sizes.each.saturating_add(bytes),
                (None, Form::Int | Form::Float | Form::Real) => sizes.each = sizes.each.saturating_add(8),
                (None, Form::Text) => {
                    let read = dataset.table().read_text_array(&column.name, runs).await?;
                    let Some(texts) = read else { return Ok(None) };
                    sizes.each = sizes.each.saturating_add(4);
                    sizes.more.resize(rows, 0);
                    for (size, ends) in sizes.more.iter_mut().zip(texts.value_offsets().windows(2)) {
                        *size = size.saturating_add((ends[1] - ends[0]) as u64);
                    }
                    sizes.texts.pop();
                    sizes.texts.push(Some(texts));
                }
                (None, Form::Blob) => {
                    let samples = dataset.table().locate(&column.name, &ids_of(runs)).await?;
                    sizes.more.resize(rows, 0);
                    for (i, size) in sizes.more.iter_mut().enumerate() {
                        *size = size.saturating_add(column.bytes(&samples, i));
                    }
                }
            }
        }
        Ok(Some(sizes))
    }

    /// Cuts rows into batches of about `wanted` bytes.
    fn cut_up(&mut self, mut runs: IdRuns, rows: usize, sizes: &Sizes, wanted: u64) {
        let mut from = 0;
        while from < rows {
            let to = match sizes.more.is_empty() {
                true => rows
                    .min(from + usize::try_from(wanted / sizes.each.max(1)).unwrap_or(rows).clamp(1, rows)),
                false => {
                    let size = |row: usize| sizes.each.saturating_add(sizes.more[row]);
                    let (mut to, mut bytes) = (from, 0u64);
                    while to < rows && (to == from || bytes.saturating_add(size(to)) <= wanted) {
                        bytes = bytes.saturating_add(size(to));
                        to += 1;
                    }
                    to
                }
            };
            let part = |texts: &Option<StringArray>| texts.as_ref().map(|texts| texts.slice(from, to - from));
            let texts = sizes.texts.iter().map(part).collect();
            self.cut.push_back(Cut { runs: runs.take((to - from) as u64), texts });
            from = to;
        }
    }
}

/// The bytes of some rows.
struct Sizes {
    /// What every row takes.
    each: u64,
    /// What a row takes beyond that; empty if none does.
    more: Vec<u64>,
    /// For each column, its texts if it is one of texts.
    texts: Vec<Option<StringArray>>,
}

impl Cut {
    /// The first half of the rows, and the second.
    fn halved(self) -> (Cut, Cut) {
        let rows: u64 = self.runs.iter().map(|(_, count)| count).sum();
        let half = rows / 2;
        let mut runs = IdRuns::new(self.runs);
        let front: Vec<(u64, u64)> = runs.take(half);
        let part = |from: u64, count: u64| {
            let slice = |texts: &Option<StringArray>| {
                texts.as_ref().map(|texts| texts.slice(from as usize, count as usize))
            };
            self.texts.iter().map(slice).collect()
        };
        let back = runs.take(rows - half);
        (Cut { runs: front, texts: part(0, half) }, Cut { runs: back, texts: part(half, rows - half) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_all_rows_and_texts() {
        let texts = vec![None, Some(StringArray::from(vec![Some("a"), None, Some("c")]))];
        let (front, back) = Cut { runs: vec![(5, 2), (1, 1)], texts }.halved();
        let text = |texts: &[Option<&str>]| vec![None, Some(StringArray::from(texts.to_vec()))];
        assert_eq!((front.runs, front.texts), (vec![(5, 1)], text(&[Some("a")])));
        assert_eq!((back.runs, back.texts), (vec![(6, 1), (1, 1)], text(&[None, Some("c")])));
    }
}
