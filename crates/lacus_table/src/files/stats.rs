//! The statistics a file carries in the log, by which any Delta reader skips it.

use lacus_tensor::MAX_RANK;
use serde_json::{Map, Value as Json, json};

use crate::schema::{column, coordinate};

/// Row count and ranges of the columns files are skipped by.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileStats {
    rows: u64,
    names: Option<(String, String)>,
    ids: Option<(u64, u64)>,
    with_id: u64,
    ranges: [Option<(i64, i64)>; MAX_RANK],
    filled: [u64; MAX_RANK],
}

impl FileStats {
    /// Counts one row.
    pub(crate) fn add(&mut self, name: &str, coords: &[i64]) {
        self.add_name(name, 1);
        for (k, &c) in coords.iter().enumerate() {
            self.add_range(k, c, c, 1);
        }
    }

    /// Counts `rows` rows of one tensor; their coordinates come by [`FileStats::add_range`].
    pub(crate) fn add_name(&mut self, name: &str, rows: u64) {
        self.rows += rows;
        match &mut self.names {
            None => self.names = Some((name.to_owned(), name.to_owned())),
            Some((low, high)) => {
                if name < low.as_str() {
                    *low = name.to_owned();
                }
                if name > high.as_str() {
                    *high = name.to_owned();
                }
            }
        }
    }

    /// Counts the ids of samples among the rows.
    pub(crate) fn add_ids(&mut self, ids: &[u64]) {
        self.with_id += ids.len() as u64;
        for &id in ids {
            let (low, high) = self.ids.unwrap_or((id, id));
            self.ids = Some((low.min(id), high.max(id)));
        }
    }

    /// Counts `rows` values of coordinate `k` between `low` and `high`.
    pub(crate) fn add_range(&mut self, k: usize, low: i64, high: i64, rows: u64) {
        self.filled[k] += rows;
        let (l, h) = self.ranges[k].unwrap_or((low, high));
        self.ranges[k] = Some((l.min(low), h.max(high)));
    }

    /// The statistics as the `stats` field of an `add` action.
    pub(crate) fn render(&self) -> String {
        let (mut low, mut high, mut nulls) = (Map::new(), Map::new(), Map::new());
        if let Some((first, last)) = &self.names {
            low.insert(column::TENSOR.into(), json!(first));
            high.insert(column::TENSOR.into(), json!(last));
            nulls.insert(column::TENSOR.into(), json!(0));
        }
        if let Some((first, last)) = self.ids {
            low.insert(column::ROW.into(), json!(first));
            high.insert(column::ROW.into(), json!(last));
        }
        nulls.insert(column::ROW.into(), json!(self.rows - self.with_id));
        for k in 0..MAX_RANK {
            if let Some((l, h)) = self.ranges[k] {
                low.insert(coordinate(k), json!(l));
                high.insert(coordinate(k), json!(h));
            }
            nulls.insert(coordinate(k), json!(self.rows - self.filled[k]));
        }
        render(self.rows, low, high, nulls, true)
    }
}

fn render(
    rows: u64,
    low: Map<String, Json>,
    high: Map<String, Json>,
    nulls: Map<String, Json>,
    tight: bool,
) -> String {
    json!({"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": nulls, "tightBounds": tight})
        .to_string()
}

/// The same statistics once some rows are deleted: still bounds, no longer tight.
pub(crate) fn loosened(stats: &str) -> String {
    match serde_json::from_str::<Json>(stats) {
        Ok(mut parsed) => {
            parsed["tightBounds"] = json!(false);
            parsed.to_string()
        }
        Err(_) => stats.to_owned(),
    }
}
