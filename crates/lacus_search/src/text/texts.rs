//! Reads the texts of a column, in windows.

use arrow::array::{Array, StringArray};
use lacus_dataset::{Base, Dataset, DatasetError};
use lacus_io::boxed;
use lacus_table::Whereabouts;

/// Rows that are read together at most.
const WINDOW_ROWS: u64 = 64 << 10;

/// Texts of some rows.
pub(crate) struct Texts {
    /// Runs of ids: first and count.
    pub runs: Vec<(u64, u64)>,
    pub texts: StringArray,
}

impl Texts {
    /// The text of each row, with its id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Option<&str>)> {
        let ids = self.runs.iter().flat_map(|(first, count)| *first..first + count);
        ids.zip((0..self.texts.len()).map(|at| self.texts.is_valid(at).then(|| self.texts.value(at))))
    }
}

/// Refuses a column that does not hold texts.
pub(crate) fn check_column(dataset: &Dataset, name: &str, op: &'static str) -> Result<(), DatasetError> {
    let column = dataset.column(name)?;
    let htype = column.htype();
    if htype.base == Base::Text && !htype.sequence && !htype.link {
        return Ok(());
    }
    let why = format!("column {name:?} holds {htype}; text search needs a column of type text");
    Err(DatasetError::Refused { op, why })
}

/// Rows that are still to be read.
pub(crate) struct Windows<'a> {
    dataset: &'a Dataset,
    name: &'a str,
    /// The next last.
    rest: Vec<(u64, u64)>,
    most: u64,
}

impl<'a> Windows<'a> {
    pub(crate) fn new(dataset: &'a Dataset, name: &'a str, samples: &[Whereabouts]) -> Windows<'a> {
        let mut rest: Vec<(u64, u64)> = Vec::new();
        for sample in samples {
            match rest.last_mut() {
                Some((first, count)) if *first + *count == sample.id => *count += sample.count,
                _ => rest.push((sample.id, sample.count)),
            }
        }
        rest.reverse();
        Windows { dataset, name, rest, most: WINDOW_ROWS }
    }

    /// The next texts, until there are none.
    #[boxed]
    pub(crate) async fn next(&mut self) -> Result<Option<Texts>, DatasetError> {
        loop {
            let runs = self.take(self.most);
            if runs.is_empty() {
                return Ok(None);
            }
            if let Some(texts) = self.dataset.table().read_text_array(self.name, &runs).await? {
                return Ok(Some(Texts { runs, texts }));
            }
            // Too large for one array: fewer from now on.
            if self.most == 1 {
                let why = format!("column {:?}: one text is too large to be searched", self.name);
                return Err(DatasetError::Refused { op: "search", why });
            }
            self.most = (self.most / 2).max(1);
            self.rest.extend(runs.into_iter().rev());
        }
    }

    fn take(&mut self, mut most: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        while most > 0
            && let Some((first, count)) = self.rest.pop()
        {
            let some = count.min(most);
            taken.push((first, some));
            most -= some;
            if some < count {
                self.rest.push((first + some, count - some));
            }
        }
        taken
    }
}
