//! The rows for which a filter is true.
//!
//! ```text
//! filter ─bind→ tests ─zones of files, then of runs→ ids that may match ─read the columns→ ids that do
//! ```

use futures::future::BoxFuture;
use lacus_io::boxed;
use lacus_sample::{Base, Column, Form, Logical, Scaled, decode_scalar_memory};
use lacus_tensor::{DType, Tensor};

use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::filter::{Bounds, Compare, Constant, Filter};
use crate::id_runs::{IdRuns, IdSet, ids_of, runs_of};
use crate::rows_read::stored_shape;

/// Rows that are looked at together: a few megabytes of numbers.
pub(crate) const WINDOW_ROWS: u64 = 128 << 10;

/// A filter whose columns are known: constants are of their kind, names of classes are numbers.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Compare(Tested, Compare, Constant),
    In(Tested, Vec<Constant>),
    Size(String, usize, Compare, Constant),
    Missing(String),
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    /// Neither true nor false of missing samples, else this.
    Always(String, bool),
}

/// A column that is compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tested {
    name: String,
    dtype: Option<DType>,
}

impl Dataset {
    /// Those of some rows, in their order, for which a filter is true. Rows that the zones of files, and of runs in files, rule
    /// out are not read.
    ///
    /// Fails for columns that there are not, or that hold neither numbers nor text, and for constants of another kind.
    #[boxed]
    pub async fn matching(
        &self,
        ids: &[(u64, u64)],
        filter: &Filter,
    ) -> Result<Vec<(u64, u64)>, DatasetError> {
        let test = self.bind(filter)?;
        let mut rest = IdRuns::new(self.possible(ids, &test).await?);
        let mut found: Vec<(u64, u64)> = Vec::new();
        loop {
            let some = rest.take(WINDOW_ROWS);
            if some.is_empty() {
                return Ok(found);
            }
            found.extend(self.passing(&some, &test).await?);
        }
    }

    /// A filter for the columns of this dataset.
    pub(crate) fn bind(&self, filter: &Filter) -> Result<Test, DatasetError> {
        let all = |parts: &[Filter]| parts.iter().map(|part| self.bind(part)).collect::<Result<Vec<_>, _>>();
        Ok(match filter {
            Filter::Compare(name, how, constant) => {
                let column = self.column(name)?;
                match number_of(name, &column, constant, *how)? {
                    Some(constant) => Test::Compare(tested(name, &column)?, *how, constant),
                    // A name that no class has.
                    None => Test::Always(name.clone(), *how == Compare::Unequal),
                }
            }
            Filter::In(name, constants) => {
                let column = self.column(name)?;
                let known = constants.iter().map(|one| number_of(name, &column, one, Compare::Equal));
                let known: Vec<Option<Constant>> = known.collect::<Result<_, _>>()?;
                Test::In(tested(name, &column)?, known.into_iter().flatten().collect())
            }
            Filter::Size(name, axis, how, size) => {
                let column = self.column(name)?;
                if column.form() != Form::Blob {
                    let why = format!("the samples of {name:?} are {}, which have no axes", column.htype());
                    return Err(DatasetError::refused("filter", why));
                }
                Test::Size(name.clone(), *axis, *how, Constant::from(*size))
            }
            Filter::Missing(name) => {
                self.column(name)?;
                Test::Missing(name.clone())
            }
            Filter::All(parts) => Test::All(all(parts)?),
            Filter::Any(parts) => Test::Any(all(parts)?),
            Filter::Not(part) => Test::Not(Box::new(self.bind(part)?)),
        })
    }

    /// Those of some rows, in their order, that may pass. No sample is read.
    pub(crate) async fn possible(
        &self,
        ids: &[(u64, u64)],
        test: &Test,
    ) -> Result<Vec<(u64, u64)>, DatasetError> {
        Ok(self.candidate_set(ids, test).await?.among(ids))
    }

    /// The same as a set.
    pub(crate) async fn candidate_set(&self, ids: &[(u64, u64)], test: &Test) -> Result<IdSet, DatasetError> {
        let all = IdSet::of(ids.to_vec());
        self.candidates(&all, test, true).await
    }

    /// The rows of which a test may be true, or false if that is `wanted`.
    fn candidates<'a>(
        &'a self,
        all: &'a IdSet,
        test: &'a Test,
        wanted: bool,
    ) -> BoxFuture<'a, Result<IdSet, DatasetError>> {
        Box::pin(async move {
            let table = self.table();
            Ok(match test {
                Test::Compare(of, how, constant) => {
                    let may = |zone: &_| Bounds::of(zone, of.dtype).may(*how, constant, wanted);
                    IdSet::of(table.may_hold(&of.name, &may).await?)
                }
                Test::In(of, constants) => {
                    let may = |zone: &_| {
                        let bounds = Bounds::of(zone, of.dtype);
                        let mut each = constants.iter().map(|one| bounds.may(Compare::Equal, one, wanted));
                        if wanted { each.any(|may| may) } else { each.all(|may| may) }
                    };
                    IdSet::of(table.may_hold(&of.name, &may).await?)
                }
                Test::Size(name, axis, how, size) => {
                    let may = |zone: &_| Bounds::sizes(zone, *axis).may(*how, size, wanted);
                    IdSet::of(table.may_hold(name, &may).await?)
                }
                Test::Missing(name) => {
                    let present = IdSet::of(table.present(name).await?);
                    if wanted { all.without(&present) } else { present }
                }
                Test::Always(name, is) => match *is == wanted {
                    true => IdSet::of(table.present(name).await?),
                    false => IdSet::default(),
                },
                Test::Not(part) => self.candidates(all, part, !wanted).await?,
                // All are true, or one is false.
                Test::All(parts) if wanted => self.in_each(all, parts, wanted).await?,
                Test::Any(parts) if !wanted => self.in_each(all, parts, wanted).await?,
                Test::All(parts) | Test::Any(parts) => {
                    let mut some = IdSet::default();
                    for part in parts {
                        some = some.or(self.candidates(all, part, wanted).await?);
                    }
                    some
                }
            })
        })
    }

    async fn in_each(&self, all: &IdSet, parts: &[Test], wanted: bool) -> Result<IdSet, DatasetError> {
        let mut left = all.clone();
        for part in parts {
            left = left.and(&self.candidates(all, part, wanted).await?);
        }
        Ok(left)
    }

    /// Those of a few rows, in their order, that pass. Their samples are read.
    pub(crate) async fn passing(
        &self,
        ids: &[(u64, u64)],
        test: &Test,
    ) -> Result<Vec<(u64, u64)>, DatasetError> {
        let all = ids_of(ids);
        let verdicts = self.verdicts(ids, &all, test).await?;
        Ok(runs_of(all.iter().zip(verdicts).filter(|(_, is)| *is == Some(true)).map(|(id, _)| *id)))
    }

    /// Of each row whether the test is true; `None` where it is neither true nor false.
    fn verdicts<'a>(
        &'a self,
        runs: &'a [(u64, u64)],
        ids: &'a [u64],
        test: &'a Test,
    ) -> BoxFuture<'a, Result<Vec<Option<bool>>, DatasetError>> {
        Box::pin(async move {
            Ok(match test {
                Test::Compare(of, how, constant) => {
                    let is = |value: &Constant| how.accepts(constant.order_of(value));
                    self.judged(runs, ids, of, &is).await?
                }
                Test::In(of, constants) => {
                    let is = |value: &Constant| {
                        constants.iter().any(|one| one.order_of(value).is_some_and(|order| order.is_eq()))
                    };
                    self.judged(runs, ids, of, &is).await?
                }
                Test::Size(name, axis, how, size) => {
                    let column = self.column(name)?;
                    // Shapes are in the index: no sample is read.
                    let samples = self.table().locate(name, ids).await?;
                    let is = |i: usize| {
                        let found = *stored_shape(&column, &samples, i)?.get(*axis)?;
                        Some(how.accepts(size.order_of(&Constant::from(found))))
                    };
                    (0..ids.len()).map(is).collect()
                }
                Test::Missing(name) => {
                    let present = IdSet::of(self.table().present(name).await?);
                    ids.iter().map(|id| Some(!present.contains(*id))).collect()
                }
                Test::Always(name, is) => {
                    let present = IdSet::of(self.table().present(name).await?);
                    ids.iter().map(|id| present.contains(*id).then_some(*is)).collect()
                }
                Test::Not(part) => {
                    let verdicts = self.verdicts(runs, ids, part).await?;
                    verdicts.into_iter().map(|is| is.map(|is| !is)).collect()
                }
                Test::All(parts) | Test::Any(parts) => {
                    // One of these decides, whatever the others are.
                    let decides = matches!(test, Test::Any(_));
                    let mut joined = vec![Some(!decides); ids.len()];
                    for part in parts {
                        let verdicts = self.verdicts(runs, ids, part).await?;
                        for (one, other) in joined.iter_mut().zip(verdicts) {
                            *one = match (*one, other) {
                                (Some(is), _) | (_, Some(is)) if is == decides => Some(decides),
                                (Some(_), Some(_)) => Some(!decides),
                                _ => None,
                            };
                        }
                    }
                    joined
                }
            })
        })
    }

    async fn judged(
        &self,
        runs: &[(u64, u64)],
        ids: &[u64],
        of: &Tested,
        is: &(dyn Fn(&Constant) -> bool + Sync),
    ) -> Result<Vec<Option<bool>>, DatasetError> {
        let column = self.column(&of.name)?;
        if column.form() == Form::Text {
            let texts = self.table().read_texts(&of.name, ids).await?;
            return Ok(texts.into_iter().map(|text| text.map(|text| is(&Constant::Text(text)))).collect());
        }
        if column.form() == Form::Blob {
            // A column that has no sample yet.
            return Ok(vec![None; ids.len()]);
        }
        let read = self.table().read_numbers(&of.name, runs).await?;
        let present = read.present;
        let values = decode_scalar_memory(&column, column.form(), read.values)
            .map_err(DatasetError::column(&of.name))?;
        let is_here = |row: usize| present.as_ref().is_none_or(|present| present[row]);
        Ok(constants(&values).enumerate().map(|(row, value)| is_here(row).then(|| is(&value))).collect())
    }
}

/// Numbers as constants, each exactly.
fn constants(values: &Tensor) -> impl Iterator<Item = Constant> {
    let (dtype, width) = (values.dtype(), values.dtype().size_bytes());
    values.bytes().chunks_exact(width).map(move |bytes| match dtype {
        DType::I64 => Constant::Int(i64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8])).into()),
        DType::U64 => Constant::Int(u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8])).into()),
        dtype => {
            let value = lacus_arrow::double(dtype, bytes).unwrap_or(f64::NAN);
            match dtype.is_integer() || dtype == DType::Bool {
                true => Constant::Int(value as i128),
                false => Constant::Float(value),
            }
        }
    })
}

/// A column that can be compared: one number or text for each row.
fn tested(name: &str, column: &Column) -> Result<Tested, DatasetError> {
    let is_text = column.htype().base == Base::Text && !column.htype().sequence && !column.htype().link;
    match column.form() {
        Form::Int | Form::Float | Form::Real => {}
        Form::Text if is_text => {}
        // No sample has come yet.
        Form::Blob if column.is_open() => {}
        _ => {
            let why = format!("the samples of {name:?} are {}, not one number or text each", column.htype());
            return Err(DatasetError::refused("filter", why));
        }
    }
    Ok(Tested { name: name.to_owned(), dtype: column.dtype() })
}

/// A constant as the column has its values; `None` for a name that no class has.
fn number_of(
    name: &str,
    column: &Column,
    constant: &Constant,
    how: Compare,
) -> Result<Option<Constant>, DatasetError> {
    let refused = |why: String| Err(DatasetError::refused("filter", why));
    let is_text = column.form() == Form::Text;
    if let Some(logical) = column.logical() {
        return counted(name, logical, constant).map(Some);
    }
    match constant {
        Constant::Text(text) if column.htype().base == Base::ClassLabel => {
            if !matches!(how, Compare::Equal | Compare::Unequal) {
                return refused(format!("the classes of {name:?} have no order: compare them with = or !="));
            }
            let place = column.class_names().iter().position(|class| class == text);
            Ok(place.map(|place| Constant::Int(place as i128)))
        }
        Constant::Text(text) if !is_text => refused(format!("{name:?} holds numbers, which {text:?} is not")),
        Constant::Int(_) | Constant::Float(_) if is_text => {
            refused(format!("{name:?} holds text: compare it with text"))
        }
        other => Ok(Some(other.clone())),
    }
}

/// A constant as the integers of a column of dates, times or decimals have it. For decimals a number is the value; for the others an
/// integer is the count itself.
fn counted(name: &str, logical: &Logical, constant: &Constant) -> Result<Constant, DatasetError> {
    let refused = |why: String| DatasetError::refused("filter", format!("{name:?}: {why}"));
    let text = match (constant, logical) {
        (Constant::Int(count), Logical::Decimal { .. }) => count.to_string(),
        (Constant::Float(number), Logical::Decimal { .. }) => number.to_string(),
        (Constant::Int(count), _) => return Ok(Constant::Int(*count)),
        (Constant::Float(number), _) => {
            return Err(refused(format!("it holds dates or times: compare it with text, not with {number}")));
        }
        (Constant::Text(text), Logical::Decimal { .. }) => text.clone(),
        (Constant::Text(text), _) => {
            let count = logical.count(text);
            return count
                .map(Constant::from)
                .map_err(|expected| refused(format!("expected {expected}, found {text:?}")));
        }
    };
    match logical.scaled(&text) {
        Some(Scaled::Exactly(unscaled)) => Ok(Constant::Int(unscaled)),
        // Between two steps: whatever lies between compares with all integers alike. Beyond 2^52 a double is no such number.
        Some(Scaled::Above(unscaled)) if unscaled.abs() < 1 << 52 => {
            Ok(Constant::Float(unscaled as f64 + 0.5))
        }
        _ => Err(refused(format!("it holds decimals, and {text:?} is none that they can be compared with"))),
    }
}
