//! A sparse matrix that comes in panels of rows, and where it goes: to the caller's memory, or row by row to a file of the
//! dataset.

use crate::error::ExecuteError;
use crate::in_order::in_order;
use crate::input::stored;
use lacus_layout::{Optimize, Wish};
use lacus_table::{Table, TableError, WriteOptions};
use lacus_tensor::{Buffer, DType, Shape, SparseTensor};
use lacus_threads::Team;
use serde_json::Value as Json;
use std::ops::Range;
use std::sync::Mutex;
use tokio::runtime::Handle;

/// Nonzeros of a panel, at most, unless a row has more: some milliseconds of one core, which is worth a turn.
const PANEL_NONZEROS: u64 = 1 << 20;

/// What encoding takes beside the rows that are encoded and what they become. Workers are counted by it; one there always is.
const ENCODER_BYTES: u64 = 4 << 20;

/// Rows of a sparse matrix, of which it is known how many nonzeros they have.
pub(crate) trait Panels: Sync {
    /// The type of the elements.
    fn dtype(&self) -> DType;
    /// The shape of the whole matrix.
    fn shape(&self) -> &Shape;
    /// The panels, and the nonzeros of each.
    fn panels(&self) -> &[(Range<usize>, usize)];
    /// Writes the coordinates in the whole matrix and the elements of a panel.
    fn fill(&self, panel: usize, at: [&mut [i64]; 2], values: &mut [u8]) -> Result<(), ExecuteError>;
}

/// Where a sparse result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To the caller, all of it.
    Back,
    /// To the dataset, put together first.
    Whole,
    /// To the dataset, row by row.
    Rows,
}

impl Way {
    /// The way of a result with so many nonzeros. Small ones get the layout that suits them.
    pub(crate) fn of(wish: Option<&Wish>, dtype: DType, nnz: u64, small_bytes: u64) -> Way {
        match wish {
            None => Way::Back,
            Some(wish) if coordinate_bytes(dtype, nnz) > small_bytes && comes_by_rows(wish) => Way::Rows,
            Some(_) => Way::Whole,
        }
    }

    /// What a result takes beside its panels.
    pub(crate) fn bytes(self, wish: Option<&Wish>, dtype: DType, shape: &Shape, nnz: u64) -> u64 {
        let whole = coordinate_bytes(dtype, nnz);
        match self {
            Way::Back => whole,
            Way::Rows => 0,
            // Other layouts have another order, which is two numbers for each; a dense one has all elements.
            Way::Whole => match wish.and_then(|wish| wish.layout.as_deref()).map(str::to_ascii_lowercase) {
                Some(name) if name == "dense" || name == "ftsf" => {
                    whole.saturating_add(shape.byte_len(dtype).map_or(u64::MAX, |bytes| bytes as u64))
                }
                _ => whole.saturating_add(nnz.saturating_mul(16)),
            },
        }
    }

    /// What each nonzero takes while its panel is made: its column and element, and where it is encoded, its place twice.
    fn of_one(self, dtype: DType) -> u64 {
        let size = dtype.size_bytes() as u64;
        4 + size + if self == Way::Rows { 2 * (16 + size) } else { 0 }
    }

    /// What one worker takes, at least, if the longest row has so many nonzeros. `line` is what it takes for any row.
    pub(crate) fn least(self, dtype: DType, line: u64, longest: u64) -> u64 {
        line + longest * self.of_one(dtype)
    }

    /// As many of a team's threads as there is room for, and the panels for so many.
    pub(crate) fn cut<'t>(
        self,
        dtype: DType,
        counts: &[u32],
        (room, line): (u64, u64),
        team: Team<'t>,
    ) -> (Team<'t>, Vec<(Range<usize>, usize)>) {
        let line = line + if self == Way::Rows { ENCODER_BYTES } else { 0 };
        let longest = counts.iter().copied().max().map_or(0, u64::from);
        let least = self.least(dtype, line, longest).max(1);
        let workers = (room / least).clamp(1, team.threads() as u64);
        let left = (room / workers).saturating_sub(line);
        let panels = cut(counts, (left / self.of_one(dtype)).min(PANEL_NONZEROS));
        (team.at_most((workers as usize).min(panels.len())), panels)
    }

    /// For messages: what becomes of it.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Way::Back => ", which go back to the caller,",
            Way::Whole => ", which are stored in a layout that takes all of them at once,",
            Way::Rows => ", which are stored row by row,",
        }
    }
}

/// What all coordinates and elements take.
fn coordinate_bytes(dtype: DType, nnz: u64) -> u64 {
    nnz.saturating_mul(16 + dtype.size_bytes() as u64)
}

/// Whether a wish leaves it to us how a matrix is stored, or wants what can be written row by row.
fn comes_by_rows(wish: &Wish) -> bool {
    let layout = wish.layout.as_deref().unwrap_or("auto").to_ascii_lowercase();
    let plain = Wish {
        layout: wish.layout.clone(),
        optimize: wish.optimize,
        split: wish.split.filter(|&split| split == 1),
        ..Wish::default()
    };
    ["auto", "sparse", "csr"].contains(&&layout[..]) && *wish == plain
}

/// Rows that go together: as many as have so many nonzeros, or one.
fn cut(counts: &[u32], most: u64) -> Vec<(Range<usize>, usize)> {
    let mut all = Vec::new();
    let (mut first, mut nnz) = (0, 0u64);
    for (row, &count) in counts.iter().enumerate() {
        if row > first && nnz + u64::from(count) > most {
            all.push((first..row, nnz as usize));
            (first, nnz) = (row, 0);
        }
        nnz += u64::from(count);
    }
    if first < counts.len() {
        all.push((first..counts.len(), nnz as usize));
    }
    all
}

/// All of a matrix.
pub(crate) fn whole(from: &dyn Panels, team: Team<'_>) -> Result<SparseTensor, ExecuteError> {
    let nnz: usize = from.panels().iter().map(|(_, nnz)| nnz).sum();
    let size = from.dtype().size_bytes();
    let mut coords = Buffer::try_for_overwrite(16 * nnz)?;
    let mut values = Buffer::try_for_overwrite(nnz * size)?;
    {
        let (mut rows, mut columns) = coords.cast_mut::<i64>().split_at_mut(nnz);
        let mut elements = &mut values[..];
        let mut places = Vec::with_capacity(from.panels().len());
        for (_, nnz) in from.panels() {
            let (own_rows, own_columns, own);
            (own_rows, rows) = rows.split_at_mut(*nnz);
            (own_columns, columns) = columns.split_at_mut(*nnz);
            (own, elements) = elements.split_at_mut(nnz * size);
            places.push(Mutex::new((own_rows, own_columns, own)));
        }
        let one = |at: usize| {
            let mut place = places[at].lock().unwrap_or_else(|e| e.into_inner());
            let (rows, columns, values) = &mut *place;
            from.fill(at, [rows, columns], values)
        };
        in_order(team, places.len(), one, |_, ()| Ok(()))?;
    }
    Ok(SparseTensor::from_sorted(from.dtype(), from.shape().clone(), coords, values))
}

/// One panel, at its place in the whole matrix.
fn panel(from: &dyn Panels, at: usize) -> Result<SparseTensor, ExecuteError> {
    let nnz = from.panels()[at].1;
    let mut coords = Buffer::try_for_overwrite(16 * nnz)?;
    let mut values = Buffer::try_for_overwrite(nnz * from.dtype().size_bytes())?;
    let (rows, columns) = coords.cast_mut::<i64>().split_at_mut(nnz);
    from.fill(at, [rows, columns], &mut values)?;
    Ok(SparseTensor::from_sorted(from.dtype(), from.shape().clone(), coords, values))
}

/// Stores a matrix row by row, in the open transaction of a table.
pub(crate) fn store_rows(
    from: &dyn Panels,
    (table, options): (&mut Table, &WriteOptions),
    (name, optimize, metadata): (&str, Optimize, Option<Json>),
    runtime: &Handle,
    team: Team<'_>,
) -> Result<(), ExecuteError> {
    let (dtype, shape) = (from.dtype(), from.shape().clone());
    let writer =
        runtime.block_on(table.rows_writer(name, dtype, shape, optimize, metadata)).map_err(stored)?;
    let encoded = |at: usize| writer.encode_rows(&panel(from, at)?).map_err(stored);
    in_order(team, from.panels().len(), encoded, |_, rows| writer.write_rows(rows).map_err(stored))?;
    let kept: Result<u64, TableError> = runtime.block_on(table.keep_array(writer, options));
    kept.map_err(stored).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_by_their_nonzeros() {
        let lengths = |counts: &[u32], most| -> Vec<(Range<usize>, usize)> { cut(counts, most) };
        assert_eq!(lengths(&[3, 3, 9, 0, 1], 6), [(0..2, 6), (2..3, 9), (3..5, 1)]);
        assert_eq!(lengths(&[], 6), []);
        assert_eq!(lengths(&[0, 0], 0), [(0..2, 0)]);
    }

    #[test]
    fn only_wishes_for_rows_are_stored_by_rows() {
        let wish = |layout: &str| Wish { layout: Some(layout.to_owned()), ..Wish::default() };
        let way = |wish: Option<&Wish>, nnz| Way::of(wish, DType::F64, nnz, 24_000);
        assert_eq!(way(None, 1 << 40), Way::Back);
        assert_eq!(
            (way(Some(&Wish::default()), 1000), way(Some(&Wish::default()), 1001)),
            (Way::Whole, Way::Rows)
        );
        assert_eq!((way(Some(&wish("CSR")), 1001), way(Some(&wish("COO")), 1001)), (Way::Rows, Way::Whole));
        let odd = Wish { split: Some(2), ..wish("csr") };
        assert_eq!(way(Some(&odd), 1001), Way::Whole);
    }
}
