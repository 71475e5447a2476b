//! Decodes the samples of some batches together, straight into the memory of each batch.
//!
//! ```text
//! facts ─layout→ memory of each column of each batch ─one task per sample, dearest first→ elements in place ─assemble→ batches
//! ```
//!
//! Tasks of several batches are shared out together, so that one slow sample holds up one thread and not a batch.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use lacus_dataset::{DatasetError, FetchedIds};
use lacus_sample::Value;
use lacus_tensor::{Buffer, DType, ErrorKind, Shape, Tensor};
use lacus_threads::Pool;

use crate::assemble::{Part, assembled};
use crate::batch::{BatchRow, LoadedBatch};
use crate::error::LoaderError;
use crate::job::{Job, bytes_of};
use crate::layout::{Fact, Layout, element, fill, layout};
use crate::order::{Cut, mixed};
use crate::sample_transform::{SampleInput, SampleKey, TransformFailure};
use crate::settings::{ColumnPlan, Missing};
use crate::stretch::{BatchRows, Stretch};

/// Handing work to another thread costs about as much as decoding this many bytes.
const WORTH_A_THREAD: u64 = 64 << 10;

/// What decoding needs beside what was fetched.
pub(crate) struct Decoding<'a> {
    pub(crate) job: &'a Job,
    pub(crate) stretch: &'a Stretch,
    pub(crate) cut: &'a Cut,
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    pub(crate) pool: &'a Pool,
    /// Set when nobody waits for the result any more.
    pub(crate) stop: &'a AtomicBool,
}

/// A sample to decode.
struct Task<'m> {
    batch: usize,
    column: usize,
    row: usize,
    cost: u64,
    /// Where its elements go; `None` for a list.
    out: Option<Slot<'m>>,
}

/// Memory for one sample.
struct Slot<'m> {
    out: &'m mut [u8],
    /// Its shape and that of the memory, where the latter is larger.
    padded: Option<(Vec<u64>, Vec<u64>)>,
}

type Failed = (ErrorKind, String);

impl Decoding<'_> {
    /// The batches, each of which may fail alone.
    pub(crate) fn batches(&self, batches: &[BatchRows]) -> Vec<Result<LoadedBatch, LoaderError>> {
        let mut parts: Vec<Result<Vec<Part>, LoaderError>> = batches
            .iter()
            .map(|batch| (0..self.job.columns.len()).map(|c| self.part(batch, c)).collect())
            .collect();
        self.fill_all(batches, &mut parts);
        let assemble = |(batch, parts): (&BatchRows, Result<Vec<Part>, LoaderError>)| {
            assembled(self.job, self.cut, batch, parts?)
        };
        batches.iter().zip(parts).map(assemble).collect()
    }

    fn key(&self, row: &BatchRow) -> SampleKey {
        let seed = match self.job.order.repeats() {
            true => mixed(&[self.seed, row.position]),
            false => self.seed,
        };
        SampleKey { seed, epoch: self.epoch, row: row.id }
    }

    /// Decides where the samples of a column go, and takes memory for them.
    fn part(&self, batch: &BatchRows, column: usize) -> Result<Part, LoaderError> {
        let plan = &self.job.columns[column];
        let output = self.job.outputs[column].as_ref();
        let facts: Vec<Fact<'_>> =
            batch.rows.iter().zip(&batch.at).map(|(row, at)| self.fact(column, row, *at as usize)).collect();
        let found = batch.rows.first().and_then(|row| self.stretch.fetched(column, row));
        let stored = found.map(FetchedIds::column);
        let fixed = match output {
            Some(output) => output.shape.clone().map(|shape| (output.dtype, shape)),
            None => stored.and_then(|column| column.dtype().zip(column.fixed_shape())),
        };
        let declared = stored.filter(|_| output.is_none()).and_then(|column| column.shape());
        let layout = layout(plan, &batch.rows, &facts, fixed, declared)?;
        let count = facts.len();
        let mut part = Part {
            buffer: Buffer::default(),
            offsets: Vec::new(),
            present: Vec::new(),
            shapes: Vec::new(),
            values: Vec::new(),
            failures: Vec::new(),
            layout,
        };
        for (i, fact) in facts.iter().enumerate() {
            if let Fact::Failed { kind, why } = fact {
                part.failures.push((i, *kind, why.clone()));
            }
        }
        let shape = |i: usize| match &facts[i] {
            Fact::Tensor { shape, .. } => Some(shape.to_vec()),
            _ => None,
        };
        let length = match &part.layout {
            Layout::Stack { dtype, shape } | Layout::Pad { dtype, shape, .. } => {
                bytes_of(*dtype, shape).checked_mul(count as u64)
            }
            Layout::Nested { dtype, rest } => {
                let mut next = 0i64;
                part.offsets.push(0);
                for i in 0..count {
                    next += shape(i).map_or(0, |shape| i64::try_from(shape[0]).unwrap_or(0));
                    part.offsets.push(next);
                }
                bytes_of(*dtype, rest).checked_mul(next.unsigned_abs())
            }
            Layout::List => Some(0),
        };
        let length = length.and_then(|length| usize::try_from(length).ok()).ok_or_else(|| {
            LoaderError::refused(format!("a batch of {count} samples of column {:?} is too large", plan.name))
        })?;
        let named = |error: lacus_tensor::TensorError| {
            error.for_what(format!("{count} samples of column {:?}", plan.name))
        };
        part.buffer = Buffer::try_for_overwrite(length).map_err(named)?;
        match part.layout {
            Layout::Stack { .. } => {
                part.present = facts.iter().map(|fact| matches!(fact, Fact::Tensor { .. })).collect();
            }
            Layout::Pad { .. } => part.shapes = (0..count).map(shape).collect(),
            Layout::Nested { .. } => {}
            Layout::List => part.values = facts.iter().map(|fact| self.missing_value(plan, fact)).collect(),
        }
        Ok(part)
    }

    /// What stands in a list for a sample that is missing.
    fn missing_value(&self, plan: &ColumnPlan, fact: &Fact<'_>) -> Option<Value> {
        match (fact, &plan.missing) {
            (Fact::Missing, Missing::Text(text)) => Some(Value::Text(text.clone())),
            (Fact::Missing, Missing::Number(number)) => {
                let buffer = Buffer::from_slice(&number.to_le_bytes());
                Tensor::new(DType::F64, Shape::default(), buffer).ok().map(Value::Tensor)
            }
            _ => None,
        }
    }

    fn fact<'s>(&'s self, column: usize, row: &BatchRow, at: usize) -> Fact<'s> {
        let failed = |error: DatasetError| Fact::Failed { kind: error.kind(), why: told(error) };
        let Some(fetched) = self.stretch.fetched(column, row) else { return Fact::Missing };
        if fetched.is_missing(at) {
            return Fact::Missing;
        }
        let Some(transform) = &self.job.columns[column].transform else {
            if !fetched.is_tensors() {
                return Fact::Other;
            }
            return match (fetched.dtype(at), fetched.shape(at)) {
                (Ok(dtype), Some(shape)) => Fact::Tensor { dtype, shape: Cow::Borrowed(shape) },
                (Ok(_), None) => Fact::Other,
                (Err(error), _) => failed(error),
            };
        };
        let Some(output) = &self.job.outputs[column] else { return Fact::Other };
        if let Some(shape) = &output.shape {
            return Fact::Tensor { dtype: output.dtype, shape: Cow::Borrowed(shape) };
        }
        let shape = with_input(fetched, at, |input| transform.output_shape(input, self.key(row)));
        match shape {
            Ok(shape) => Fact::Tensor { dtype: output.dtype, shape: Cow::Owned(shape) },
            Err((kind, why)) => Fact::Failed { kind, why },
        }
    }

    /// Decodes all samples of some batches into their memory.
    fn fill_all(&self, batches: &[BatchRows], parts: &mut [Result<Vec<Part>, LoaderError>]) {
        let mut tasks = Vec::new();
        for (b, (batch, parts)) in batches.iter().zip(parts.iter_mut()).enumerate() {
            let Ok(parts) = parts else { continue };
            for (c, part) in parts.iter_mut().enumerate() {
                self.tasks(b, c, batch, part, &mut tasks);
            }
        }
        // The dearest first: whoever comes last has little left to wait for.
        tasks.sort_by_key(|task: &Task<'_>| std::cmp::Reverse(task.cost));
        let places: Vec<(usize, usize, usize)> = tasks.iter().map(|t| (t.batch, t.column, t.row)).collect();
        let cost: u64 = tasks.iter().map(|task| task.cost).sum();
        let team = self.pool.team(usize::try_from(cost / WORTH_A_THREAD).unwrap_or(usize::MAX));
        let done = team.map(tasks, |task| self.run(batches, task));
        for ((b, c, r), done) in places.into_iter().zip(done) {
            let Ok(parts) = &mut parts[b] else { continue };
            match done {
                Ok(None) => {}
                Ok(value) => parts[c].values[r] = value,
                Err((kind, why)) => parts[c].failures.push((r, kind, why)),
            }
        }
    }

    /// Shares out the memory of a column of a batch; fills what no sample is decoded into.
    fn tasks<'m>(
        &self,
        b: usize,
        c: usize,
        batch: &BatchRows,
        part: &'m mut Part,
        tasks: &mut Vec<Task<'m>>,
    ) {
        let plan = &self.job.columns[c];
        let Part { layout, buffer, offsets, present, shapes, failures, .. } = part;
        let is_bad = |row: usize| failures.iter().any(|(bad, ..)| *bad == row);
        let fetched = |row: usize| self.stretch.fetched(c, &batch.rows[row]);
        // What is stored as a file takes its time; elements are copied, or unpacked nearly as fast.
        let cost = |row: usize, out: u64| match fetched(row) {
            Some(of) if of.column().holds_files() => out + 8 * of.stored_bytes(batch.at[row] as usize),
            _ => out,
        };
        let missing = |dtype: DType| match plan.missing {
            Missing::Number(number) => element(dtype, number),
            _ => element(dtype, 0.0),
        };
        match layout {
            Layout::Stack { dtype, shape } => {
                let item = bytes_of(*dtype, shape) as usize;
                let blank = missing(*dtype);
                let mut rest: &'m mut [u8] = buffer;
                for row in 0..batch.rows.len() {
                    let (out, after) = rest.split_at_mut(item);
                    rest = after;
                    if !present[row] {
                        fill(out, if is_bad(row) { &[0] } else { &blank });
                    } else if plan.transform.is_none() && shape.is_empty() {
                        // A number: copied sooner than handed over.
                        let copied = fetched(row).map(|f| f.decode_into(batch.at[row] as usize, out));
                        if copied.is_none_or(|copied| copied.is_err()) {
                            out.fill(0);
                        }
                    } else {
                        let cost = cost(row, item as u64);
                        tasks.push(Task {
                            batch: b,
                            column: c,
                            row,
                            cost,
                            out: Some(Slot { out, padded: None }),
                        });
                    }
                }
            }
            Layout::Pad { dtype, shape, .. } => {
                let item = bytes_of(*dtype, shape) as usize;
                let blank = missing(*dtype);
                let pad = element(*dtype, plan.pad_value);
                let mut rest: &'m mut [u8] = buffer;
                for row in 0..batch.rows.len() {
                    let (out, after) = rest.split_at_mut(item);
                    rest = after;
                    match &shapes[row] {
                        Some(own) => {
                            fill(out, &pad);
                            let cost = cost(row, 2 * item as u64);
                            let padded = (own != shape).then(|| (own.clone(), shape.clone()));
                            tasks.push(Task {
                                batch: b,
                                column: c,
                                row,
                                cost,
                                out: Some(Slot { out, padded }),
                            });
                        }
                        None if is_bad(row) || plan.missing == Missing::Keep => fill(out, &pad),
                        None => fill(out, &blank),
                    }
                }
            }
            Layout::Nested { dtype, rest: tail } => {
                let item = bytes_of(*dtype, tail);
                let mut rest: &'m mut [u8] = buffer;
                for row in 0..batch.rows.len() {
                    let length = (offsets[row + 1] - offsets[row]).unsigned_abs();
                    let (out, after) = rest.split_at_mut((length * item) as usize);
                    rest = after;
                    if !is_bad(row) && fetched(row).is_some_and(|f| !f.is_missing(batch.at[row] as usize)) {
                        let cost = cost(row, length * item);
                        tasks.push(Task {
                            batch: b,
                            column: c,
                            row,
                            cost,
                            out: Some(Slot { out, padded: None }),
                        });
                    }
                }
            }
            Layout::List => {
                for row in 0..batch.rows.len() {
                    let there = fetched(row).is_some_and(|f| !f.is_missing(batch.at[row] as usize));
                    if there && !is_bad(row) {
                        tasks.push(Task { batch: b, column: c, row, cost: cost(row, 256), out: None });
                    }
                }
            }
        }
    }

    /// Decodes one sample, and transforms it.
    fn run(&self, batches: &[BatchRows], task: Task<'_>) -> Result<Option<Value>, Failed> {
        if self.stop.load(Ordering::Relaxed) {
            return Err((ErrorKind::Unavailable, "the loader was dropped".to_owned()));
        }
        let batch = &batches[task.batch];
        let (row, at) = (&batch.rows[task.row], batch.at[task.row] as usize);
        let plan = &self.job.columns[task.column];
        let Some(fetched) = self.stretch.fetched(task.column, row) else { return Ok(None) };
        let wrong = |error: DatasetError| (error.kind(), told(error));
        match (&plan.transform, task.out) {
            (None, None) => fetched.decode(at).map_err(wrong),
            (None, Some(slot)) => {
                let decode = |out: &mut [u8]| fetched.decode_into(at, out).map_err(wrong);
                slot.write(|| fetched.dtype(at).map_err(wrong), decode)
            }
            (Some(transform), out) => {
                let key = self.key(row);
                let Some(output) = &self.job.outputs[task.column] else { return Ok(None) };
                let apply =
                    |out: &mut [u8]| with_input(fetched, at, |input| transform.apply(input, key, out));
                if let Some(slot) = out {
                    return slot.write(|| Ok(output.dtype), apply);
                }
                let shape = match &output.shape {
                    Some(shape) => shape.clone(),
                    None => with_input(fetched, at, |input| transform.output_shape(input, key))?,
                };
                let mut buffer = memory(bytes_of(output.dtype, &shape))?;
                apply(&mut buffer)?;
                let made = Shape::new(shape).and_then(|shape| Tensor::new(output.dtype, shape, buffer));
                made.map(|made| Some(Value::Tensor(made))).map_err(no_memory)
            }
        }
    }
}

fn no_memory(error: lacus_tensor::TensorError) -> Failed {
    (error.kind(), error.to_string())
}

fn memory(bytes: u64) -> Result<Buffer, Failed> {
    Buffer::try_for_overwrite(usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(no_memory)
}

/// What an error says of one sample, whose column and row are said elsewhere.
fn told(error: DatasetError) -> String {
    match error {
        DatasetError::Sample { source, .. } => source.to_string(),
        DatasetError::InRow { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

/// Calls a transform with a sample: with the file, if it is one, else with its elements.
fn with_input<T>(
    fetched: &FetchedIds,
    at: usize,
    call: impl FnOnce(&SampleInput<'_>) -> Result<T, TransformFailure>,
) -> Result<T, Failed> {
    let wrong = |error: DatasetError| (error.kind(), told(error));
    let called = match fetched.file(at).map_err(wrong)? {
        Some((bytes, shape)) => call(&SampleInput::File { column: fetched.column(), shape, bytes }),
        None => match fetched.decode(at).map_err(wrong)? {
            Some(Value::Tensor(tensor)) => call(&SampleInput::Tensor(tensor.as_ref())),
            _ => return Err((ErrorKind::Invalid, "a transform needs files or tensors".to_owned())),
        },
    };
    called.map_err(|failure| (failure.kind, failure.why))
}

impl Slot<'_> {
    /// Writes a sample where it belongs: elsewhere first, if its rows are shorter than those of the memory.
    fn write(
        self,
        dtype: impl FnOnce() -> Result<DType, Failed>,
        decode: impl FnOnce(&mut [u8]) -> Result<(), Failed>,
    ) -> Result<Option<Value>, Failed> {
        let Some((own, whole)) = self.padded else { return decode(self.out).map(|()| None) };
        let dtype = dtype()?;
        let length = bytes_of(dtype, &own) as usize;
        if own[1..] == whole[1..] {
            return decode(&mut self.out[..length]).map(|()| None);
        }
        let mut buffer = memory(length as u64)?;
        decode(&mut buffer)?;
        copy_box(&buffer, &own, self.out, &whole, dtype.size_bytes());
        Ok(None)
    }
}

/// Copies elements to the corner of a larger box.
fn copy_box(from: &[u8], own: &[u64], to: &mut [u8], whole: &[u64], item: usize) {
    let ([first, own @ ..], [_, whole @ ..]) = (own, whole) else {
        to[..item].copy_from_slice(&from[..item]);
        return;
    };
    let bytes = |shape: &[u64]| item * shape.iter().product::<u64>() as usize;
    let (step, stride) = (bytes(own), bytes(whole));
    for at in 0..*first as usize {
        let (from, to) = (&from[at * step..(at + 1) * step], &mut to[at * stride..(at + 1) * stride]);
        match own == whole {
            true => to.copy_from_slice(from),
            false => copy_box(from, own, to, whole, item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_box_goes_into_the_corner_of_a_large_one() {
        let mut to = [0u8; 12];
        copy_box(&[1, 2, 3, 4], &[2, 2], &mut to, &[3, 4], 1);
        assert_eq!(to, [1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0]);
        let mut to = [0u8; 12];
        copy_box(&[1, 2, 3, 4], &[1, 2], &mut to, &[2, 3], 2);
        assert_eq!(to, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
