//! A view: some rows and columns of one state, as a value.
//!
//! ```text
//! Dataset ─frozen→ View ─every, take, concat, select, shuffled, split, sampled, sorted_by→ View ─read→ samples
//!                    └─data→ ViewData (JSON, a few hundred bytes) ─(a repository opens the state)→ View
//! ```
//!
//! Nothing is read until samples are asked for. What is written to the dataset since changes nothing of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use lacus_io::boxed;
use lacus_sample::{Column, Form, Value};
use lacus_tensor::{DType, Index, Tensor};
use serde::{Deserialize, Serialize};

use crate::chance;
use crate::dataset::Dataset;
use crate::draw::{Draw, drawn};
use crate::error::DatasetError;
use crate::links::LinkRoots;
use crate::row_set::RowSet;
use crate::rows_read::{Batch, RowsRead};
use crate::scan::{Scan, ScanOptions};

/// The form of [`ViewData`] that this version writes, and the highest that it reads.
pub const VIEW_FORMAT: u32 = 2;

/// The form of views without computed columns, which older versions read, too.
const PLAIN_FORMAT: u32 = 1;

/// A state: what can be read, for ever the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateId {
    /// The id of the dataset, which a copy at another place has too.
    pub dataset: String,
    /// The directory of the table; `""` is the dataset's root.
    pub directory: String,
    /// The version of the table.
    pub version: u64,
    /// The commit whose content this is, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A view as plain data, to be stored or sent. A repository makes a [`View`] of it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewData {
    /// [`VIEW_FORMAT`] when it was made.
    pub format: u32,
    /// The state.
    pub state: StateId,
    /// The rows: [`RowSet::to_bytes`] as Z85 text.
    pub rows: String,
    /// The columns, in order; all of the state's if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Columns that are computed when they are read: an expression of SQL by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub computed: BTreeMap<String, String>,
}

/// Some rows and columns of one state of a dataset: read-only, cheap to clone, free to be sent to other threads.
#[derive(Clone)]
pub struct View {
    source: Arc<Dataset>,
    commit: Option<String>,
    rows: Arc<RowSet>,
    /// All, if `None`.
    columns: Option<Arc<[String]>>,
    /// Those of them that are expressions.
    computed: Arc<BTreeMap<String, String>>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rows, columns) = (self.len(), self.columns());
        f.debug_struct("View")
            .field("state", &self.state())
            .field("rows", &rows)
            .field("columns", &columns)
            .finish_non_exhaustive()
    }
}

impl View {
    /// All rows and columns of a dataset that nobody writes to: [`Dataset::frozen`]. `commit` says whose content it is, where that
    /// is known.
    #[boxed]
    pub async fn all(source: Arc<Dataset>, commit: Option<String>) -> Result<View, DatasetError> {
        let axis = source.table().rows().await?;
        let rows = Arc::new(RowSet::from_runs(axis.id_runs(0..axis.len())));
        Ok(View { source, commit, rows, columns: None, computed: Arc::default() })
    }

    /// The view that `data` describes, on the state it names.
    #[boxed]
    pub async fn from_data(source: Arc<Dataset>, data: &ViewData) -> Result<View, DatasetError> {
        if data.format > VIEW_FORMAT {
            let why = format!(
                "it has form {}, and this version of lacus knows forms up to {VIEW_FORMAT}; use a newer one",
                data.format
            );
            return Err(DatasetError::refused("view", why));
        }
        if data.state.dataset != source.table().dataset_id() {
            let why = format!(
                "this view belongs to dataset {}, but the dataset here is {}",
                data.state.dataset,
                source.table().dataset_id()
            );
            return Err(DatasetError::refused("view", why));
        }
        let unreadable = |why: String| DatasetError::refused("view", why);
        let rows = z85::decode(&data.rows).map_err(|error| unreadable(format!("its rows: {error}")))?;
        let rows = unpad(&rows).ok_or_else(|| unreadable("its rows are cut off".to_owned()))?;
        let rows = RowSet::from_bytes(rows).map_err(|error| unreadable(error.to_string()))?;
        let axis = source.table().rows().await?;
        if let Some(id) = rows.first_outside(&axis.id_runs(0..axis.len())) {
            return Err(DatasetError::NoSuchRow { id, version: source.table().version() });
        }
        let commit = data.state.commit.clone();
        let view = View { source, commit, rows: Arc::new(rows), columns: None, computed: Arc::default() };
        match &data.columns {
            Some(columns) => view.with_columns(columns, &data.computed),
            None => Ok(view),
        }
    }

    /// The view as plain data.
    pub fn data(&self) -> ViewData {
        ViewData {
            format: if self.computed.is_empty() { PLAIN_FORMAT } else { VIEW_FORMAT },
            state: self.state(),
            rows: z85::encode(pad(self.rows.to_bytes())),
            columns: self.columns.as_ref().map(|columns| columns.to_vec()),
            computed: (*self.computed).clone(),
        }
    }

    /// The same view, whose links may lead where `links` says.
    pub fn following(&self, links: LinkRoots) -> View {
        View { source: Arc::new(self.source.following(links)), ..self.clone() }
    }

    /// Whether both are the same rows, in the same order, and columns of the same state.
    pub fn is_same_as(&self, other: &View) -> bool {
        let (ours, theirs) = (self.state(), other.state());
        (&ours.dataset, &ours.directory, ours.version) == (&theirs.dataset, &theirs.directory, theirs.version)
            && self.columns() == other.columns()
            && self.computed == other.computed
            && self.len() == other.len()
            && (self.rows == other.rows || self.rows.iter().eq(other.rows.iter()))
    }

    /// The state it is of.
    pub fn state(&self) -> StateId {
        let table = self.source.table();
        StateId {
            dataset: table.dataset_id().to_owned(),
            directory: table.directory().to_owned(),
            version: table.version(),
            commit: self.commit.clone(),
        }
    }

    /// The dataset at its state.
    pub fn source(&self) -> &Arc<Dataset> {
        &self.source
    }

    /// Its rows.
    pub fn rows(&self) -> &Arc<RowSet> {
        &self.rows
    }

    /// How many rows it has, repeats counted.
    pub fn len(&self) -> u64 {
        self.rows.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The names of its columns, in order.
    pub fn columns(&self) -> Vec<String> {
        match &self.columns {
            Some(columns) => columns.to_vec(),
            None => self.source.column_names(),
        }
    }

    /// The same view of other rows.
    fn with_rows(&self, rows: RowSet) -> View {
        View { rows: Arc::new(rows), ..self.clone() }
    }

    /// The rows at `count` places, from `start` on in steps of `step`.
    pub fn every(&self, start: u64, step: i64, count: u64) -> Result<View, DatasetError> {
        let last = i128::from(start) + i128::from(step) * (i128::from(count) - 1);
        if count > 0 && (start >= self.len() || !(0..i128::from(self.len())).contains(&last)) {
            let row = i64::try_from(last.max(i128::from(start))).unwrap_or(i64::MAX);
            return Err(DatasetError::OutOfBounds { row, rows: self.len() });
        }
        Ok(self.with_rows(self.rows.every(start, step, count)))
    }

    /// The rows at some places, in their order; a place may come more than once.
    pub fn take(&self, places: &[u64]) -> Result<View, DatasetError> {
        match self.rows.take(places.iter().copied()) {
            Some(rows) => Ok(self.with_rows(rows)),
            None => {
                let row = places.iter().copied().find(|place| *place >= self.len()).unwrap_or(u64::MAX);
                let row = i64::try_from(row).unwrap_or(i64::MAX);
                Err(DatasetError::OutOfBounds { row, rows: self.len() })
            }
        }
    }

    /// The rows for which `mask` is true.
    pub fn masked(&self, mask: &[bool]) -> Result<View, DatasetError> {
        if mask.len() as u64 != self.len() {
            let why = format!("a mask of {} for {} rows", mask.len(), self.len());
            return Err(DatasetError::refused("where", why));
        }
        let kept = self.rows.iter().zip(mask).filter(|(_, keep)| **keep);
        Ok(self.with_rows(kept.map(|(id, _)| id).collect()))
    }

    /// Fewer columns, or the same in another order.
    pub fn select<S: AsRef<str>>(&self, columns: &[S]) -> Result<View, DatasetError> {
        let known = self.columns();
        let mut seen = HashSet::new();
        for name in columns.iter().map(AsRef::as_ref) {
            if !known.iter().any(|known| known == name) {
                // Says what it is, if it is no column.
                self.source.column(name)?;
                let why = format!("{name:?} is not one of the columns of this view: {}", known.join(", "));
                return Err(DatasetError::refused("select", why));
            }
            if !seen.insert(name) {
                return Err(DatasetError::refused("select", format!("{name:?} is named twice")));
            }
        }
        let used = self.computed.iter().filter(|(name, _)| seen.contains(name.as_str()));
        let computed = Arc::new(used.map(|(name, text)| (name.clone(), text.clone())).collect());
        let columns = columns.iter().map(|name| name.as_ref().to_owned()).collect();
        Ok(View { columns: Some(columns), computed, ..self.clone() })
    }

    /// Refuses columns that only a query can compute.
    fn refuse_computed(&self, op: &'static str, name: &str) -> Result<(), DatasetError> {
        match self.computed.get(name) {
            None => Ok(()),
            Some(text) => {
                let why = format!("{name:?} is computed: {text}; ask the view for it with a query");
                Err(DatasetError::refused(op, why))
            }
        }
    }

    /// Other columns: stored ones of the dataset, and those that `computed` has an expression for. Whether an expression can be
    /// computed is found out by whoever reads it.
    pub fn with_columns(
        &self,
        columns: &[String],
        computed: &BTreeMap<String, String>,
    ) -> Result<View, DatasetError> {
        let mut seen = HashSet::new();
        for name in columns {
            if !computed.contains_key(name) {
                self.source.column(name)?;
            }
            if !seen.insert(name) {
                return Err(DatasetError::refused("select", format!("{name:?} is named twice")));
            }
        }
        let used = computed.iter().filter(|(name, _)| seen.contains(name));
        let computed = used.map(|(name, expression)| (name.clone(), expression.clone())).collect();
        Ok(View { columns: Some(columns.into()), computed: Arc::new(computed), ..self.clone() })
    }

    /// The columns that are computed when they are read: an expression of SQL by name.
    pub fn computed(&self) -> &BTreeMap<String, String> {
        &self.computed
    }

    /// These rows, then those of another view of the same state. Columns are this view's.
    pub fn concat(&self, other: &View) -> Result<View, DatasetError> {
        let (ours, theirs) = (self.state(), other.state());
        let is_same = |a: &StateId, b: &StateId| {
            (&a.dataset, &a.directory, a.version) == (&b.dataset, &b.directory, b.version)
        };
        if !is_same(&ours, &theirs) {
            let why = format!(
                "the views are of different states: version {} and version {}{}",
                ours.version,
                theirs.version,
                if ours.dataset == theirs.dataset { "" } else { " of another dataset" }
            );
            return Err(DatasetError::refused("concat", why));
        }
        Ok(self.with_rows(self.rows.concat(&other.rows)))
    }

    /// The rows in an order that `seed` decides.
    pub fn shuffled(&self, seed: u64) -> View {
        let order = chance::shuffled(self.len(), seed);
        self.with_rows(self.rows.take(order).unwrap_or_default())
    }

    /// Parts of the view, each of its places in one of them, by the share of rows that each gets; with a seed of rows in random order,
    /// otherwise in the order of the view. Shares are above zero and sum up to one at most.
    pub fn split(&self, shares: &[f64], seed: Option<u64>) -> Result<Vec<View>, DatasetError> {
        let refused = |why: String| Err(DatasetError::refused("split", why));
        if shares.is_empty() {
            return refused("no shares are given; two parts are [0.8, 0.2]".to_owned());
        }
        if let Some(share) = shares.iter().find(|share| !(share.is_finite() && **share > 0.0)) {
            return refused(format!("invalid share {share}: must be above 0"));
        }
        let sum: f64 = shares.iter().sum();
        if sum > 1.0 + 1e-9 {
            return refused(format!("the shares add up to {sum}, which is more than 1"));
        }
        let all = match seed {
            Some(seed) => self.shuffled(seed),
            None => self.clone(),
        };
        let (mut parts, mut before, mut from) = (Vec::with_capacity(shares.len()), 0.0, 0u64);
        for share in shares {
            before += share;
            // Rounded together, so that no row is lost between parts.
            let to = ((before * all.len() as f64).round() as u64).min(all.len());
            parts.push(all.every(from, 1, to - from)?);
            from = to;
        }
        Ok(parts)
    }

    /// Some rows at random.
    pub fn sampled(&self, draw: Draw<'_>) -> Result<View, DatasetError> {
        self.take(&drawn(self.len(), draw)?)
    }

    /// The rows in the order of a column of numbers or texts: equal ones keep their order, missing ones and NaN come last.
    #[boxed]
    pub async fn sorted_by(&self, name: &str, descending: bool) -> Result<View, DatasetError> {
        self.refuse_computed("sort_by", name)?;
        let column = self.source.column(name)?;
        let is_link = column.htype().link;
        let is_complex = matches!(column.dtype(), Some(DType::C64 | DType::C128));
        if column.form() == Form::Blob || is_link || is_complex || column.htype().sequence {
            let why = format!("{name:?} holds {}, which have no order", column.htype());
            return Err(DatasetError::refused("sort_by", why));
        }
        let places: Vec<u64> = (0..self.len()).collect();
        let keys = keys(&column, self.read(name, &places, &[]).await?);
        let mut order = places;
        let key = |place: &u64| &keys[*place as usize];
        order.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            match (a.is_last(), b.is_last()) {
                (false, false) if descending => b.compare(a),
                (false, false) => a.compare(b),
                (a, b) => a.cmp(&b),
            }
        });
        self.take(&order)
    }

    /// The positions in the dataset of the rows at some places.
    #[boxed]
    pub async fn positions(&self, places: &[u64]) -> Result<Vec<u64>, DatasetError> {
        let axis = self.source.table().rows().await?;
        let position = |place: &u64| {
            let row = i64::try_from(*place).unwrap_or(i64::MAX);
            let id = self.rows.get(*place).ok_or(DatasetError::OutOfBounds { row, rows: self.len() })?;
            axis.position(id)
                .ok_or_else(|| DatasetError::NoSuchRow { id, version: self.source.table().version() })
        };
        places.iter().map(position).collect()
    }

    /// Its rows as Arrow record batches, cut by bytes: of these columns, or of all of its own. Drive it with
    /// [`Scan::next`] and [`View::source`].
    #[boxed]
    pub async fn scan(&self, columns: Option<&[String]>, options: ScanOptions) -> Result<Scan, DatasetError> {
        let columns = match columns {
            Some(columns) => self.select(columns)?.columns(),
            None => self.columns(),
        };
        columns.iter().try_for_each(|name| self.refuse_computed("scan", name))?;
        self.source.scan(self.rows.runs(), &columns, options).await
    }

    /// The samples of a column at some places, as [`Dataset::read`] gives them.
    #[boxed]
    pub async fn read(&self, name: &str, places: &[u64], indices: &[Index]) -> Result<Batch, DatasetError> {
        self.plan(name, places, indices).await?.fetch().await?.decode_aside()
    }

    /// Plans to read the samples of a column at some places: the first of three steps, so that you can fetch the next samples while
    /// you decode these. Waits only for indexes that are not known yet; no sample is read.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    /// # runtime.block_on(async {
    /// # use std::sync::Arc;
    /// # use lacus_dataset::{Batch, ColumnSpec, Dataset, Extend, Sample, View};
    /// # use lacus_io::{Store, World};
    /// # use lacus_table::{Table, WriteOptions};
    /// # let store = Store::open("memory://view-plan-example", &Default::default())?;
    /// # let mut dataset = Dataset::new(Table::create(store, World::real()).await?);
    /// # let spec = ColumnSpec { htype: Some("embedding".into()), ..ColumnSpec::default() };
    /// # dataset.add_column("vector", &spec, None, None, &WriteOptions::default()).await?;
    /// # let samples: Vec<Sample> = (0..4).map(|n| Sample::Json(serde_json::json!([n, n]))).collect();
    /// # let rows = Extend { columns: vec![("vector".into(), samples.into())], ..Extend::default() };
    /// # dataset.extend(rows, &WriteOptions::default()).await?;
    /// let view = View::all(Arc::new(dataset), None).await?.every(1, 2, 2)?;    // rows 1 and 3
    /// let read = view.plan("vector", &[0, 1], &[]).await?;    // which bytes, and how to decode them
    /// assert!(read.bytes() > 0);
    /// let fetched = read.fetch().await?;                      // the bytes, within the budget
    /// let Batch::Values(found) = fetched.decode()? else { unreachable!() };    // on the pool
    /// assert_eq!(found.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[boxed]
    pub async fn plan<'a>(
        &'a self,
        name: &'a str,
        places: &'a [u64],
        indices: &'a [Index],
    ) -> Result<RowsRead<'a>, DatasetError> {
        self.refuse_computed("read", name)?;
        if let Some(columns) = &self.columns
            && !columns.iter().any(|column| column == name)
        {
            self.source.column(name)?;
            let why = format!("{name:?} is not one of the columns of this view: {}", columns.join(", "));
            return Err(DatasetError::refused("read", why));
        }
        self.source.plan_at(name, Cow::Owned(self.positions(places).await?), indices).await
    }
}

/// What a row is sorted by.
enum Key {
    Missing,
    Int(i128),
    Real(f64),
    Text(String),
}

impl Key {
    fn is_last(&self) -> bool {
        match self {
            Key::Missing => true,
            Key::Real(value) => value.is_nan(),
            _ => false,
        }
    }

    fn compare(&self, other: &Key) -> std::cmp::Ordering {
        match (self, other) {
            (Key::Int(a), Key::Int(b)) => a.cmp(b),
            (Key::Real(a), Key::Real(b)) => a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal),
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            // A column has one form.
            _ => std::cmp::Ordering::Equal,
        }
    }
}

fn keys(column: &Column, batch: Batch) -> Vec<Key> {
    match batch {
        Batch::Stacked(tensor) => numbers(&tensor),
        Batch::Values(values) => values
            .into_iter()
            .map(|value| match value {
                Some(Value::Tensor(tensor)) => numbers(&tensor).pop().unwrap_or(Key::Missing),
                Some(Value::Text(text)) => match column.logical() {
                    // A decimal of many digits.
                    Some(logical) => logical.unscaled(&text).map_or(Key::Missing, Key::Int),
                    None => Key::Text(text),
                },
                Some(Value::Json(json)) => Key::Text(json.to_string()),
                _ => Key::Missing,
            })
            .collect(),
    }
}

fn numbers(tensor: &Tensor) -> Vec<Key> {
    let dtype = tensor.dtype();
    let key = |bytes: &[u8]| number(dtype, bytes).unwrap_or(Key::Missing);
    tensor.bytes().chunks_exact(dtype.size_bytes()).map(key).collect()
}

fn number(dtype: DType, bytes: &[u8]) -> Option<Key> {
    macro_rules! as_int {
        ($type:ty) => {
            Key::Int(i128::from(<$type>::from_le_bytes(bytes.try_into().ok()?)))
        };
    }
    Some(match dtype {
        DType::Bool | DType::U8 => as_int!(u8),
        DType::I8 => as_int!(i8),
        DType::I16 => as_int!(i16),
        DType::I32 => as_int!(i32),
        DType::I64 => as_int!(i64),
        DType::U16 => as_int!(u16),
        DType::U32 => as_int!(u32),
        DType::U64 => as_int!(u64),
        DType::F16 => Key::Real(half::f16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        DType::BF16 => Key::Real(half::bf16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        DType::F32 => Key::Real(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        DType::F64 => Key::Real(f64::from_le_bytes(bytes.try_into().ok()?)),
        // Complex numbers have no order.
        DType::C64 | DType::C128 => return None,
    })
}

/// Z85 takes bytes by four: as many are added as the first byte says.
fn pad(bytes: Vec<u8>) -> Vec<u8> {
    let added = (4 - (bytes.len() + 1) % 4) % 4;
    let mut padded = vec![added as u8];
    padded.extend(bytes);
    padded.resize(padded.len() + added, 0);
    padded
}

fn unpad(bytes: &[u8]) -> Option<&[u8]> {
    let (added, rest) = bytes.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*added).min(3))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_comes_off_again() {
        for length in 0..9u8 {
            let bytes: Vec<u8> = (1..=length).collect();
            let padded = pad(bytes.clone());
            assert_eq!(padded.len() % 4, 0);
            assert_eq!(unpad(&padded), Some(&bytes[..]));
        }
        assert_eq!(unpad(&[]), None);
    }
}
