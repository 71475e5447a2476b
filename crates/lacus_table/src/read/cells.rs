//! Cells in runs: read, verified, ready to be made a tensor or to be copied.

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::compute::filter_record_batch;
use lacus_io::Store;
use lacus_layout::{CellColumn, Header, cell_column};

use crate::error::TableError;
use crate::files::checks::{digest, overlapping, widened};
use crate::files::file_index::FileIndex;
use crate::read::tensor_index::long_column;
use crate::schema::{column, coordinate};

/// The column that holds the values of cells of a tensor.
pub(crate) fn value_column(header: &Header) -> &'static str {
    match cell_column(header.dtype) {
        CellColumn::Int => column::INT,
        CellColumn::Float => column::FLOAT,
        CellColumn::Real => column::REAL,
        CellColumn::Data => column::DATA,
    }
}

/// Cells that were read and verified.
pub(crate) struct Cells {
    batch: RecordBatch,
    coordinates: Vec<String>,
    value_column: &'static str,
}

impl Cells {
    /// Coordinates, axis by axis.
    pub(crate) fn axes(&self) -> Vec<&[i64]> {
        self.coordinates.iter().map(|name| long_column(&self.batch, name).unwrap_or_default()).collect()
    }

    /// The values.
    pub(crate) fn values(&self) -> (&'static str, ArrayRef) {
        let at = self.batch.schema().index_of(self.value_column).unwrap_or_default();
        (self.value_column, self.batch.column(at).clone())
    }
}

/// Reads the cells of `runs`, widened to the borders of checksums, and verifies them.
pub(crate) async fn read_cells(
    store: &Store,
    file: &FileIndex,
    header: &Header,
    runs: &[(u64, u64)],
) -> Result<Cells, TableError> {
    let coordinates: Vec<String> = (0..header.shape.rank()).map(coordinate).collect();
    let value_column = value_column(header);
    let keys: Vec<&str> = coordinates.iter().map(String::as_str).collect();
    let batch = read_verified(store, file, &keys, Some(value_column), runs).await?;
    Ok(Cells { batch, coordinates, value_column })
}

/// Reads columns of longs and a column of values of the rows in `runs`, and verifies their checksums.
pub(crate) async fn read_verified(
    store: &Store,
    file: &FileIndex,
    keys: &[&str],
    value: Option<&str>,
    runs: &[(u64, u64)],
) -> Result<RecordBatch, TableError> {
    let checks = file.checks();
    let wanted = runs;
    let runs = widened(wanted, checks);
    let names: Vec<&str> = keys.iter().copied().chain(value).collect();
    let batch = file.columns(store, &runs, &names).await?;
    let bad = |what: &str| TableError::corrupt(&file.path, format!("cells: {what}"));
    for name in &names {
        let column = batch.column_by_name(name).ok_or_else(|| bad(&format!("no column {name:?}")))?;
        if column.null_count() > 0 {
            return Err(bad(&format!("column {name:?} has nulls")));
        }
    }
    let axes: Vec<&[i64]> = keys.iter().map(|name| long_column(&batch, name).unwrap_or_default()).collect();
    let values = value.and_then(|name| batch.column_by_name(name));
    let mut at = 0;
    for &(first, count) in &runs {
        for check in overlapping(checks, first, count) {
            let from = at + (check.first - first) as usize;
            let rows = check.rows as usize;
            let part: Vec<&[i64]> = axes.iter().map(|axis| &axis[from..from + rows]).collect();
            if digest(&part, values.map(|values| values.slice(from, rows)).as_ref()) != check.crc {
                return Err(bad(&format!(
                    "rows from {} on do not have the checksum they were written with",
                    check.first
                )));
            }
        }
        at += count as usize;
    }
    if runs == wanted {
        return Ok(batch);
    }
    // Rows beside the wanted ones were read for their checksum only.
    let kept = places(wanted, &runs);
    if let [(from, count)] = kept[..] {
        return Ok(batch.slice(from, count));
    }
    let mut keep = BooleanBufferBuilder::new(batch.num_rows());
    for (from, count) in kept {
        keep.append_n(from - keep.len(), false);
        keep.append_n(count, true);
    }
    keep.append_n(batch.num_rows() - keep.len(), false);
    let keep = BooleanArray::new(keep.finish(), None);
    filter_record_batch(&batch, &keep).map_err(|e| bad(&e.to_string()))
}

/// Where runs lie among the rows of other runs, which hold them all; both ascend.
fn places(wanted: &[(u64, u64)], runs: &[(u64, u64)]) -> Vec<(usize, usize)> {
    let mut places = Vec::with_capacity(wanted.len());
    let mut runs = runs.iter();
    let (mut run, mut before) = (runs.next(), 0);
    for &(first, count) in wanted {
        while let Some(&(start, length)) = run
            && start + length <= first
        {
            before += length;
            run = runs.next();
        }
        let start = run.map_or(first, |(start, _)| *start);
        places.push(((before + first - start) as usize, count as usize));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_among_wider_ones() {
        let runs = [(10, 20), (50, 10)];
        assert_eq!(places(&[(10, 20), (50, 10)], &runs), [(0, 20), (20, 10)]);
        assert_eq!(places(&[(12, 3), (15, 1), (29, 1), (51, 2)], &runs), [(2, 3), (5, 1), (19, 1), (21, 2)]);
        assert_eq!(places(&[(59, 1)], &runs), [(29, 1)]);
        assert_eq!(places(&[], &runs), []);
    }
}
