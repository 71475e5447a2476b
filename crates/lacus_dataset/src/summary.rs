//! What a dataset holds, column by column, and what would make it faster.

use lacus_io::boxed;
use lacus_sample::Form;
use lacus_table::Table;

use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::rows_read::stored_shape;

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSummary {
    /// Its name.
    pub name: String,
    /// Its type.
    pub htype: String,
    /// numpy's name of its dtype; empty while it is open, `string` for texts, `by file` where each file has its own and
    /// there are no arrays.
    pub dtype: String,
    /// How many rows have a sample.
    pub samples: u64,
    /// The least and the greatest size of each axis; `None` when there is no sample or ranks differ.
    pub shape_range: Option<(Vec<u64>, Vec<u64>)>,
    /// How samples are kept.
    pub compression: String,
    /// Bytes they take.
    pub stored_bytes: u64,
}

/// What a dataset holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Rows.
    pub rows: u64,
    /// Columns, in the order in which they were added.
    pub columns: Vec<ColumnSummary>,
    /// Data files, and their bytes.
    pub files: (usize, u64),
    /// What would make reading faster, for people.
    pub advice: Vec<String>,
}

/// Rows whose shapes are looked at together.
const AT_ONCE: u64 = 64 << 10;

/// More files than this, and smaller on average than this: joining them pays.
const MANY_FILES: usize = 16;
const SMALL_BYTES: u64 = 16 << 20;

impl Dataset {
    /// What the dataset holds. Shapes are read from the index, samples are not.
    #[boxed]
    pub async fn summary(&self) -> Result<Summary, DatasetError> {
        let axis = self.table().rows().await?;
        let mut columns = Vec::new();
        for facts in self.columns()? {
            let column = &facts.column;
            let (mut samples, mut range, mut same_rank) = (0, None::<(Vec<u64>, Vec<u64>)>, true);
            if column.form() == Form::Blob {
                let mut from = 0;
                while from < axis.len() {
                    let to = (from + AT_ONCE).min(axis.len());
                    let runs = axis.id_runs(from..to);
                    let ids: Vec<u64> =
                        runs.into_iter().flat_map(|(first, count)| first..first + count).collect();
                    let located = self.table().locate(&facts.name, &ids).await?;
                    for shape in (0..ids.len()).filter_map(|i| stored_shape(column, &located, i)) {
                        samples += 1;
                        match &mut range {
                            None => range = Some((shape.clone(), shape)),
                            Some((low, high)) if low.len() == shape.len() => {
                                for (k, size) in shape.iter().enumerate() {
                                    low[k] = low[k].min(*size);
                                    high[k] = high[k].max(*size);
                                }
                            }
                            Some(_) => same_rank = false,
                        }
                    }
                    from = to;
                }
            } else {
                samples = self.table().sample_rows(&facts.name).await?;
                range = (samples > 0).then(Default::default);
            }
            let header = column.header();
            columns.push(ColumnSummary {
                name: facts.name,
                htype: header.htype,
                dtype: match column.files_keep_dtype() && column.dtype().is_none() {
                    true => "by file".to_owned(),
                    false => header.dtype,
                },
                samples,
                shape_range: range.filter(|_| same_rank),
                compression: column.compression().to_string(),
                stored_bytes: facts.stored_bytes,
            });
        }
        let files = self.table().files();
        Ok(Summary { rows: axis.len(), columns, files, advice: advice(self.table()) })
    }
}

/// What would make reading faster.
fn advice(table: &Table) -> Vec<String> {
    let mut advice = Vec::new();
    let (files, bytes) = table.files();
    if files > MANY_FILES && bytes / (files as u64) < SMALL_BYTES {
        advice.push(format!(
            "{files} small files: `compact` joins them, and rows that were written apart lie together"
        ));
    }
    let (dead, rows) = table.dead_rows();
    if dead > 0 && dead * 10 > rows {
        advice.push(format!("{dead} of {rows} stored rows were replaced or deleted: `compact` drops them"));
    }
    advice
}
