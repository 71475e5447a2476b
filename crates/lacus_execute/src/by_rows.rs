//! Products of sparse matrices that are loaded and only saved: done row by row, apart from the plan.
//!
//! ```text
//! A, B in memory ─count→ nonzeros of every row ─cut→ panels of rows ─multiply→ the result, or a file of the dataset
//! ```
//!
//! Tiles of such a product can differ in size by a factor of a hundred, because links of a graph gather at a few nodes, and
//! nobody knows by how much before it is computed. So it is counted first, which takes a fraction of the time of the
//! product. Everything that takes memory is known then: what does not fit is refused before it is allocated, and panels are
//! cut so that those in the making fit. A row has the same bits wherever it is cut.

use crate::error::ExecuteError;
use crate::in_order::in_order;
use crate::input::{Input, csr_of, stored};
use crate::output::{Made, Store, Target, WHOLE_BYTES};
use crate::panels::{Panels, Way, store_rows, whole};
use crate::report::Report;
use crate::sparsity::Densities;
use lacus_algebra::expr::{Affine, Slot};
use lacus_algebra::{BinaryOp, FlowNode, Made as MadeBy, Network, Operator, Until};
use lacus_layout::Value as StoredValue;
use lacus_table::{Put, Read};
use lacus_tensor::kernels::csr::{Csr, Value};
use lacus_tensor::{DType, Element, Index, Shape, SparseTensor, bytes_of};
use lacus_threads::Team;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;

/// Rows and columns of such a matrix, at most: they are counted by 32 bits, and where rows start is in memory.
const MOST_LINES: u64 = 1 << 31;

/// Nonzeros of stored factors that are read at once.
const READ_NONZEROS: u64 = 1 << 20;

/// Takes the products that are done by rows out of what is planned.
pub(crate) fn take_out(
    network: &mut Network,
    sparse: &Densities,
    inputs: &BTreeMap<String, Input<'_>>,
    budget: u64,
) -> Result<(), ExecuteError> {
    for at in network.running() {
        let Some(name) = saved_alone(network, at) else { continue };
        let Some(factors) = factors(network, at, sparse) else { continue };
        let mut bytes = 0u64;
        for factor in &factors {
            bytes = bytes.saturating_add(factor_bytes(network, factor.value, inputs)?);
        }
        if bytes > budget / 2 {
            continue;
        }
        let output = network.operators[at].output;
        let is_part = |node: &FlowNode| match node {
            FlowNode::Operator(other) => *other == at,
            FlowNode::Save(slot, _) => *slot == output,
            FlowNode::Loop(_) => false,
        };
        network.flow.retain(|node| !is_part(node));
        network.apart.push((at, name));
    }
    Ok(())
}

/// The name that the value of an operator is saved as, if that is all that happens to it.
fn saved_alone(network: &Network, at: usize) -> Option<String> {
    let operator = &network.operators[at];
    let output = operator.output;
    let is_top = operator.scope == 0 && network.flow.contains(&FlowNode::Operator(at));
    let saves = network.saves();
    let [name] =
        &saves.iter().filter(|(_, slot)| *slot == output).map(|(name, _)| name).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let is_saved_here = network.flow.contains(&FlowNode::Save(output, (*name).clone()));
    let is_once = saves.iter().filter(|(other, _)| other == *name).count() == 1;
    let reads = |other: usize| network.operators[other].reads.iter().any(|read| read.value == output);
    let is_carried = network.loops.iter().any(|node| {
        let carried = node.carried.iter().any(|each| [each.enter, each.inside, each.next].contains(&output));
        carried || matches!(node.until, Until::Is(slot, _) if slot == output)
    });
    let is_read = network.running().into_iter().any(reads);
    (is_top && is_saved_here && is_once && !is_carried && !is_read).then(|| (*name).clone())
}

/// A factor: what is loaded, and whether its axes are the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Factor {
    value: Slot,
    is_turned: bool,
}

/// The factor that has the rows of the result, and the one that has its columns. `None` if it is not a product of two sparse
/// matrices that are loaded.
fn factors(network: &Network, at: usize, sparse: &Densities) -> Option<[Factor; 2]> {
    let operator = &network.operators[at];
    if operator.semiring()? != (BinaryOp::Add, BinaryOp::Mul) || !sparse.contains_key(&operator.output) {
        return None;
    }
    let [a, b] = &operator.reads[..] else { return None };
    let labels = operator.labels();
    let dtype = network.value(operator.output).dtype;
    let of = |read: &lacus_algebra::Read| -> Option<(Factor, usize)> {
        let value = network.value(read.value);
        let [first, second] = &read.at[..] else { return None };
        let label = |at: &Affine, extent: u64| {
            let index = at.as_index()?.0 as usize;
            (labels.get(index)?.extent == extent).then_some(index)
        };
        let own = [label(first, value.dims[0])?, label(second, value.dims[1])?];
        let is_fit = matches!(value.made, MadeBy::Load(_))
            && value.dtype == dtype
            && sparse.contains_key(&read.value)
            && value.dims.iter().all(|&extent| extent <= MOST_LINES);
        // The left one is turned if its rows are folded, the right one if its columns are.
        let found = match own {
            [0, 2] => (false, 0),
            [2, 0] => (true, 0),
            [2, 1] => (false, 1),
            [1, 2] => (true, 1),
            _ => return None,
        };
        is_fit.then_some((Factor { value: read.value, is_turned: found.0 }, found.1))
    };
    if operator.axes.len() != 2 || labels.len() != 3 || !read_once(operator) {
        return None;
    }
    match (of(a)?, of(b)?) {
        ((a, 0), (b, 1)) | ((b, 1), (a, 0)) => Some([a, b]),
        _ => None,
    }
}

/// Whether nothing decides where it reads.
fn read_once(operator: &Operator) -> bool {
    operator.reads.iter().all(|read| read.under.is_empty())
}

/// What a factor takes in memory, at most.
fn factor_bytes(
    network: &Network,
    slot: Slot,
    inputs: &BTreeMap<String, Input<'_>>,
) -> Result<u64, ExecuteError> {
    let value = network.value(slot);
    let MadeBy::Load(name) = &value.made else { return Ok(u64::MAX) };
    let nnz = match inputs.get(name).map(Input::describe).transpose()? {
        Some((.., Some(nnz))) => nnz,
        _ => return Ok(u64::MAX),
    };
    let lines: u64 = value.dims.iter().fold(2, |all, &extent| all.saturating_add(extent));
    Ok(nnz.saturating_mul(4 + value.dtype.size_bytes() as u64).saturating_add(8 * lines))
}

/// What a product by rows needs.
pub(crate) struct ByRows<'a, 'i> {
    pub(crate) network: &'a Network,
    pub(crate) inputs: &'a BTreeMap<String, Input<'i>>,
    pub(crate) runtime: Option<Handle>,
    /// Bytes that are allowed in all, and that other results take of them.
    pub(crate) budget: u64,
    pub(crate) taken: u64,
    pub(crate) team: Team<'a>,
    pub(crate) cancel: Option<&'a AtomicBool>,
}

impl ByRows<'_, '_> {
    /// Computes a product. What is stored goes to the open transaction, what is not comes back.
    pub(crate) fn run(
        &self,
        (at, name): &(usize, String),
        store: Option<&mut Store<'_>>,
        report: &mut Report,
    ) -> Result<Option<Made>, ExecuteError> {
        match self.network.value(self.network.operators[*at].output).dtype {
            DType::I64 => self.run_of::<i64>(*at, name, store, report),
            DType::F32 => self.run_of::<f32>(*at, name, store, report),
            _ => self.run_of::<f64>(*at, name, store, report),
        }
    }

    fn run_of<T: Value + Element>(
        &self,
        at: usize,
        name: &str,
        store: Option<&mut Store<'_>>,
        report: &mut Report,
    ) -> Result<Option<Made>, ExecuteError> {
        let value = self.network.value(self.network.operators[at].output);
        // Every load is sparse: that was seen before it was taken out.
        let sparse: Densities = (0..self.network.values.len()).map(|slot| (Slot(slot), 0.0)).collect();
        let Some([left, right]) = factors(self.network, at, &sparse) else {
            return Err(ExecuteError::Internal { what: format!("'{}' is no product", value.name) });
        };
        let a = Arc::new(self.load::<T>(left)?);
        let b = if left == right { Arc::clone(&a) } else { Arc::new(self.load::<T>(right)?) };
        let factors = a.size_bytes() as u64 + if left == right { 0 } else { b.size_bytes() as u64 };
        let counts = self.count(&a, &b)?;
        let nnz: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let terms: u64 = a.pattern().indices().iter().map(|&k| b.row(k as usize).0.len() as u64).sum();
        let (dtype, shape) = (value.dtype, Shape::new(value.dims.clone())?);
        let target = store.as_ref().and_then(|store| store.targets.get(name)).cloned();
        let wish = target.as_ref().map(|target| &target.wish);
        let way = Way::of(wish, dtype, nnz, WHOLE_BYTES.min(self.budget / 8));
        let fixed = (self.taken + factors + 4 * counts.len() as u64)
            .saturating_add(way.bytes(wish, dtype, &shape, nnz));
        let longest = counts.iter().copied().max().map_or(0, u64::from);
        let line = b.columns() as u64 * (size_of::<T>() as u64 + 1);
        let needed = fixed.saturating_add(way.least(dtype, line, longest));
        if needed > self.budget {
            let what = format!("the product {name:?} with {nnz} nonzeros{}", way.told());
            return Err(ExecuteError::Budget { what, needed, budget: self.budget });
        }
        let (team, panels) = way.cut(dtype, &counts, (self.budget - fixed, line), self.team);
        drop(counts);
        report.operations += 2.0 * terms as f64;
        report.peak_bytes = report.peak_bytes.max(needed);
        report.planned += panels.len() as u64;
        report.done += panels.len() as u64;
        let product = Product { a, b, panels, cancel: self.cancel, dtype, shape };
        let (Some(target), Some(store)) = (target, store) else {
            return Ok(Some(Made::Sparse(whole(&product, team)?)));
        };
        let Store { table, options, .. } = store;
        report.written_bytes += nnz * (16 + size_of::<T>() as u64);
        let runtime = self.runtime()?;
        let Target { name, wish, metadata } = target;
        if way == Way::Rows {
            let stored_as = (&name[..], wish.optimize, metadata);
            store_rows(&product, (table, options), stored_as, runtime, team)?;
            return Ok(None);
        }
        let made = whole(&product, team)?;
        drop(product);
        let put = Put { name, value: StoredValue::Sparse(&made), wish, metadata };
        runtime.block_on(table.put(vec![put], options)).map_err(stored)?;
        Ok(None)
    }

    fn runtime(&self) -> Result<&Handle, ExecuteError> {
        let what = "stored tensors are read and written within a runtime";
        self.runtime.as_ref().ok_or_else(|| ExecuteError::Internal { what: what.to_owned() })
    }

    /// A factor, its rows being what is multiplied.
    fn load<T: Value + Element>(&self, factor: Factor) -> Result<Csr<T>, ExecuteError> {
        let value = self.network.value(factor.value);
        let shape = [value.dims[0] as usize, value.dims[1] as usize];
        let MadeBy::Load(name) = &value.made else {
            return Err(ExecuteError::Internal { what: format!("'{}' is not loaded", value.name) });
        };
        let no_input = || ExecuteError::NoInput { name: name.clone(), known: String::new() };
        let csr = match self.inputs.get(name).ok_or_else(no_input)? {
            Input::Sparse(tensor) => csr_of::<T>(tensor, value.dtype, shape)?,
            Input::Stored(table, stored_as) => {
                let (.., nnz) = self.inputs[name].describe()?;
                let bands = nnz.unwrap_or(0).div_ceil(READ_NONZEROS).max(1);
                let height = value.dims[0].div_ceil(bands).max(1);
                let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::<T>::new());
                for first in (0..value.dims[0]).step_by(height as usize) {
                    self.check_cancel()?;
                    let last = (first + height).min(value.dims[0]);
                    let rows =
                        Index::Slice { start: Some(first as i64), stop: Some(last as i64), step: None };
                    let band =
                        match self.runtime()?.block_on(table.read(stored_as, &[rows])).map_err(stored)? {
                            Read::Sparse(band) => band,
                            Read::Dense(band) => SparseTensor::from_dense(&band.as_ref()),
                        };
                    let band = csr_of::<T>(&band, value.dtype, [(last - first) as usize, shape[1]])?;
                    let before = indices.len();
                    starts.extend(band.pattern().starts()[1..].iter().map(|start| before + start));
                    indices.extend_from_slice(band.pattern().indices());
                    values.extend_from_slice(band.values());
                }
                Csr::new(shape[0], shape[1], starts, indices, values)?
            }
            Input::Dense(_) => {
                return Err(ExecuteError::Internal { what: format!("'{}' is not sparse", value.name) });
            }
        };
        Ok(if factor.is_turned { csr.transpose() } else { csr })
    }

    fn check_cancel(&self) -> Result<(), ExecuteError> {
        match self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            true => Err(ExecuteError::Cancelled),
            false => Ok(()),
        }
    }

    /// Nonzeros of every row of the product.
    fn count<T: Value>(&self, a: &Csr<T>, b: &Csr<T>) -> Result<Vec<u32>, ExecuteError> {
        let parts: Vec<Range<usize>> = a.even_rows(4 * self.team.threads());
        let mut all = Vec::with_capacity(a.rows());
        let count = |at: usize| {
            self.check_cancel()?;
            Ok(a.count_product(parts[at].clone(), b))
        };
        in_order(self.team, parts.len(), count, |_, counts| {
            all.extend(counts);
            Ok(())
        })?;
        Ok(all)
    }
}

/// A product, cut into panels of rows with known nonzeros.
struct Product<'a, T> {
    a: Arc<Csr<T>>,
    b: Arc<Csr<T>>,
    panels: Vec<(Range<usize>, usize)>,
    cancel: Option<&'a AtomicBool>,
    dtype: DType,
    shape: Shape,
}

impl<T: Value + Element> Panels for Product<'_, T> {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn panels(&self) -> &[(Range<usize>, usize)] {
        &self.panels
    }

    fn fill(
        &self,
        panel: usize,
        [rows, columns]: [&mut [i64]; 2],
        values: &mut [u8],
    ) -> Result<(), ExecuteError> {
        if self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(ExecuteError::Cancelled);
        }
        let (wanted, nnz) = &self.panels[panel];
        let product = self.a.multiply_rows(wanted.clone(), &self.b, *nnz);
        for row in 0..product.rows() {
            rows[product.pattern().places(row)].fill((wanted.start + row) as i64);
        }
        columns.iter_mut().zip(product.pattern().indices()).for_each(|(to, &from)| *to = i64::from(from));
        values.copy_from_slice(bytes_of(product.values()));
        Ok(())
    }
}
