//! A dense tensor on its way out, part by part, so that memory holds a part and not the whole.
//!
//! ```text
//! "0:1000, ::2" ─parts→ "0:96, ::2", "96:192, ::2", … ─read→ bytes ─→ the .npy file, in C order
//! ```

use lacus::files::npy_header;
use lacus::layout::Header;
use lacus::table::Table;
use lacus::tensor::{Group, Index, Selection};

use crate::failure::Failure;
use crate::output::Bar;

/// Large enough to keep all threads at work on chunks of a usual size, small against memory.
const PART_BYTES: u64 = 64 << 20;

/// Parts grow up to this, so that chunks larger than a part are not decoded again for each.
const LARGEST_PART_BYTES: u64 = 512 << 20;

/// Writes a selection of a dense tensor as an `.npy` file. `write` may fail in its own way.
pub(crate) async fn write_npy(
    table: &Table,
    name: &str,
    header: &Header,
    selection: &Selection,
    indices: &[Index],
    bar: &Bar,
    mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let item_bytes = header.dtype.size_bytes() as u64;
    let no_bfloat16 = || Failure::invalid("numpy files have no bfloat16; write a .safetensors file instead");
    write(&npy_header(header.dtype, selection.output_shape()).ok_or_else(no_bfloat16)?)?;
    let total = selection.output_shape().byte_len(header.dtype)? as u64;
    let parts = parts(selection, header.chunk_shape(), item_bytes).unwrap_or_else(|| vec![indices.to_vec()]);
    let mut buffer = Vec::new();
    let mut done = 0;
    for part in parts {
        let part_shape = Selection::resolve(&header.shape, &part)?;
        buffer.resize(part_shape.output_shape().byte_len(header.dtype)?, 0);
        table.read_into(name, &part, &mut buffer).await?;
        write(&buffer)?;
        done += buffer.len() as u64;
        bar.set(done, total);
        // Local reads never wait, and a stop would go unheard.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// What a selection takes of each axis, when its elements are in the order of the tensor's axes: `None` when
/// it has lists, or when numpy's rules about lists moved an axis to the front.
pub(crate) fn steps(selection: &Selection) -> Option<Vec<Steps>> {
    let steps: Vec<Steps> = selection.groups().iter().map(Steps::of).collect::<Option<_>>()?;
    steps.iter().filter_map(|steps| steps.out_axis).is_sorted().then_some(steps)
}

/// Selections that, one after the other, give the elements of `selection` in C order; `None` when it cannot
/// be cut.
fn parts(selection: &Selection, chunk_shape: Option<&[u64]>, item_bytes: u64) -> Option<Vec<Vec<Index>>> {
    let mut ranges = steps(selection)?;
    // Axes with one position do not disturb the order, so the first one with more is cut.
    let Some(cut) = ranges.iter().position(|range| range.len > 1) else {
        return Some(vec![ranges.iter().map(Steps::index).collect()]);
    };
    let whole = ranges[cut];
    let row_bytes = ranges[cut + 1..].iter().fold(item_bytes, |bytes, range| bytes.saturating_mul(range.len));
    let rows_in = |bytes: u64| (bytes / row_bytes.max(1)).max(1);
    let mut rows = rows_in(PART_BYTES);
    let chunk_rows = chunk_shape.map_or(1, |shape| shape[cut]).div_ceil(whole.step.unsigned_abs());
    if rows.next_multiple_of(chunk_rows) <= rows_in(LARGEST_PART_BYTES) {
        rows = rows.next_multiple_of(chunk_rows);
    }
    let mut parts = Vec::new();
    let mut from = 0;
    while from < whole.len {
        let len = rows.min(whole.len - from);
        ranges[cut] = Steps { start: whole.at(from), len, ..whole };
        parts.push(ranges.iter().map(Steps::index).collect());
        from += len;
    }
    Some(parts)
}

/// Positions of one axis at equal distances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub start: u64,
    pub step: i64,
    pub len: u64,
    /// The axis of the result; `None` when an integer dropped it.
    pub out_axis: Option<usize>,
}

impl Steps {
    fn of(group: &Group) -> Option<Steps> {
        match *group {
            Group::Range { start, step, len, out_axis, .. } => Some(Steps { start, step, len, out_axis }),
            Group::Gather { .. } => None,
        }
    }

    /// The position of a step, which is inside of the axis.
    pub(crate) fn at(&self, step: u64) -> u64 {
        (i128::from(self.start) + i128::from(self.step) * i128::from(step)) as u64
    }

    fn index(&self) -> Index {
        let long = |position: u64| i64::try_from(position).unwrap_or(i64::MAX);
        if self.out_axis.is_none() {
            return Index::At(long(self.start));
        }
        if self.len == 0 {
            return Index::Slice { start: Some(0), stop: Some(0), step: None };
        }
        let last = long(self.at(self.len - 1));
        let stop = if self.step > 0 { last.checked_add(1) } else { (last > 0).then(|| last - 1) };
        Index::Slice { start: Some(long(self.start)), stop, step: Some(self.step) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus::tensor::{Shape, parse_indices};

    /// Linear positions that a selection picks, in order.
    fn picked(shape: &Shape, indices: &[Index]) -> Vec<u64> {
        let selection = Selection::resolve(shape, indices).unwrap();
        let steps = steps(&selection).unwrap();
        let mut found = vec![0];
        for (steps, &dim) in steps.iter().zip(shape.dims()) {
            found = found
                .iter()
                .flat_map(|before| (0..steps.len).map(move |i| before * dim + steps.at(i)))
                .collect();
        }
        found
    }

    #[test]
    fn parts_are_the_whole_in_order() {
        let shape = Shape::new([7, 5, 4]).unwrap();
        for text in
            ["...", "2:6", "::-1", "::-2, 1:3", "3", "3, ::2", "None, 5:1:-3, -1", "0:0", ":, 0:0", "1,2,3"]
        {
            let indices = parse_indices(text).unwrap();
            let selection = Selection::resolve(&shape, &indices).unwrap();
            // Elements so large that a part is a row or two.
            for item_bytes in [1, PART_BYTES / 9, PART_BYTES] {
                for chunk_shape in [[1, 5, 4], [3, 1, 1]] {
                    let parts = parts(&selection, Some(&chunk_shape), item_bytes).unwrap();
                    let found: Vec<u64> = parts.iter().flat_map(|part| picked(&shape, part)).collect();
                    assert_eq!(found, picked(&shape, &indices), "{text} {item_bytes} {parts:?}");
                }
            }
        }
        for text in ["[1, 2, 6]", "0, :, [1, 2]"] {
            let uncut = Selection::resolve(&shape, &parse_indices(text).unwrap()).unwrap();
            assert!(parts(&uncut, None, 1).is_none(), "{text}");
        }
    }

    #[test]
    fn parts_are_small_and_whole_chunks() {
        let shape = Shape::new([1000, 1 << 20]).unwrap();
        let parts = parts(&Selection::all(&shape), Some(&[48, 1 << 20]), 1).unwrap();
        let slice = |start, stop| Index::Slice { start: Some(start), stop: Some(stop), step: Some(1) };
        assert_eq!(parts[0][0], slice(0, 96));
        assert_eq!(parts.last().unwrap()[0], slice(960, 1000));
    }
}
