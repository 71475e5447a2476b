//! Makes batches of what was decoded: leaves out what failed, or puts zeros there, and gives the memory to tensors.

use lacus_sample::Value;
use lacus_tensor::{Buffer, DType, ErrorKind, Shape, Tensor};

use crate::batch::{ColumnBatch, Failure, LoadedBatch};
use crate::error::LoaderError;
use crate::job::{Job, bytes_of};
use crate::layout::Layout;
use crate::order::Cut;
use crate::settings::OnError;
use crate::stretch::BatchRows;

/// One column of one batch on its way.
pub(crate) struct Part {
    pub(crate) layout: Layout,
    /// The elements, for every layout but a list.
    pub(crate) buffer: Buffer,
    /// Where each sample begins, in elements of the first axis: for nested ones.
    pub(crate) offsets: Vec<i64>,
    /// Whether there is a sample, for stacked ones.
    pub(crate) present: Vec<bool>,
    /// Shapes, for padded ones; `None` where there is no sample.
    pub(crate) shapes: Vec<Option<Vec<u64>>>,
    /// Values, for a list.
    pub(crate) values: Vec<Option<Value>>,
    /// Rows that failed.
    pub(crate) failures: Vec<(usize, ErrorKind, String)>,
}

/// The batch whose columns are `parts`.
pub(crate) fn assembled(
    job: &Job,
    cut: &Cut,
    batch: &BatchRows,
    parts: Vec<Part>,
) -> Result<LoadedBatch, LoaderError> {
    let count = batch.rows.len();
    let mut is_bad = vec![false; count];
    let mut failures = Vec::new();
    for (plan, part) in job.columns.iter().zip(&parts) {
        for (row, kind, why) in &part.failures {
            is_bad[*row] = true;
            let (column, row) = (plan.name.clone(), batch.rows[*row]);
            failures.push(Failure { column, row, kind: *kind, why: why.clone() });
        }
    }
    let on_error = job.settings.on_error;
    if let Some(first) = failures.first()
        && (on_error == OnError::Raise || (on_error == OnError::Skip && is_bad.iter().all(|bad| *bad)))
    {
        let Failure { column, row, kind, why } = first.clone();
        return Err(LoaderError::Sample { column, place: row.place, id: row.id, kind, why });
    }
    let kept: Vec<usize> = (0..count).filter(|row| on_error != OnError::Skip || !is_bad[*row]).collect();
    let mut columns = Vec::with_capacity(parts.len());
    for (plan, mut part) in job.columns.iter().zip(parts) {
        part.blank_failures();
        columns.push((plan.name.clone(), part.finished(count, &kept)?));
    }
    Ok(LoadedBatch {
        number: batch.number,
        rows: kept.iter().map(|row| batch.rows[*row]).collect(),
        columns,
        failures,
        repeated: batch.repeated,
        consumed: cut.consumed(batch.number + 1),
        bytes: batch.bytes,
    })
}

impl Part {
    /// Puts zeros where a sample failed.
    fn blank_failures(&mut self) {
        for (row, ..) in &self.failures {
            let range = match &self.layout {
                Layout::Stack { dtype, shape } | Layout::Pad { dtype, shape, .. } => {
                    let item = bytes_of(*dtype, shape) as usize;
                    row * item..(row + 1) * item
                }
                Layout::Nested { dtype, rest } => {
                    let item = bytes_of(*dtype, rest) as usize;
                    let place = |at: usize| self.offsets[at].unsigned_abs() as usize * item;
                    place(*row)..place(row + 1)
                }
                Layout::List => continue,
            };
            self.buffer[range].fill(0);
            if let Some(shape) = self.shapes.get_mut(*row) {
                *shape = None;
            }
        }
    }

    /// The column, with the rows that are kept.
    fn finished(self, count: usize, kept: &[usize]) -> Result<ColumnBatch, LoaderError> {
        let Part { layout, buffer, offsets, shapes, mut values, .. } = self;
        let whole = |shape: &[u64]| -> Vec<u64> {
            std::iter::once(kept.len() as u64).chain(shape.iter().copied()).collect()
        };
        Ok(match layout {
            Layout::Stack { dtype, shape } => {
                let buffer = only(buffer, bytes_of(dtype, &shape) as usize, count, kept);
                ColumnBatch::Stacked(Tensor::new(dtype, Shape::new(whole(&shape))?, buffer)?)
            }
            Layout::Pad { dtype, shape, mask_rank } => {
                let buffer = only(buffer, bytes_of(dtype, &shape) as usize, count, kept);
                let axes = &shape[..mask_rank];
                let mut mask = Vec::with_capacity(kept.len() * axes.iter().product::<u64>() as usize);
                kept.iter().for_each(|row| push_mask(&mut mask, axes, shapes[*row].as_deref()));
                let mask = Tensor::new(DType::Bool, Shape::new(whole(axes))?, Buffer::from_slice(&mask))?;
                let values = Tensor::new(dtype, Shape::new(whole(&shape))?, buffer)?;
                ColumnBatch::Padded { values, mask }
            }
            Layout::Nested { dtype, rest } => {
                let item = bytes_of(dtype, &rest) as usize;
                let (buffer, offsets) = match kept.len() == count {
                    true => (buffer, offsets),
                    false => {
                        let (mut bytes, mut starts) = (Vec::new(), vec![0i64]);
                        for row in kept {
                            let place = |at: usize| offsets[at].unsigned_abs() as usize * item;
                            bytes.extend_from_slice(&buffer[place(*row)..place(row + 1)]);
                            starts.push(starts[starts.len() - 1] + offsets[row + 1] - offsets[*row]);
                        }
                        (Buffer::from_slice(&bytes), starts)
                    }
                };
                let length = offsets.last().map_or(0, |end| end.unsigned_abs());
                let shape: Vec<u64> = std::iter::once(length).chain(rest).collect();
                ColumnBatch::Nested { values: Tensor::new(dtype, Shape::new(shape)?, buffer)?, offsets }
            }
            Layout::List => ColumnBatch::Values(kept.iter().map(|row| values[*row].take()).collect()),
        })
    }
}

/// The items of memory that are kept.
fn only(buffer: Buffer, item: usize, count: usize, kept: &[usize]) -> Buffer {
    if kept.len() == count {
        return buffer;
    }
    let mut some = Buffer::for_overwrite(item * kept.len());
    for (to, from) in kept.iter().enumerate() {
        some[to * item..(to + 1) * item].copy_from_slice(&buffer[from * item..(from + 1) * item]);
    }
    some
}

/// Adds the mask of a sample: true where every index is within its shape.
fn push_mask(mask: &mut Vec<u8>, axes: &[u64], shape: Option<&[u64]>) {
    let [size, axes @ ..] = axes else {
        mask.push(u8::from(shape.is_some()));
        return;
    };
    let own = shape.map_or(0, |shape| shape[0]);
    for at in 0..*size {
        push_mask(mask, axes, shape.filter(|_| at < own).map(|shape| &shape[1..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_true_within_the_sample() {
        let mut mask = Vec::new();
        push_mask(&mut mask, &[3, 2], Some(&[2, 1]));
        assert_eq!(mask, [1, 0, 1, 0, 0, 0]);
        mask.clear();
        push_mask(&mut mask, &[2], Some(&[1, 5]));
        push_mask(&mut mask, &[2], None);
        assert_eq!(mask, [1, 0, 0, 0]);
    }
}
