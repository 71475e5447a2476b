//! Where the tensors that a program loads come from: memory of the caller, or a table that stays at one version.

use crate::engine::Loads;
use crate::error::ExecuteError;
use crate::sparsity::Densities;
use crate::tile::{SparseTile, Tile};
use crate::window::{Window, WindowMut};
use lacus_algebra::expr::Slot;
use lacus_algebra::{ProgramPlan, Tiles, compute_dtype};
use lacus_layout::Header;
use lacus_table::{Read, Table, TableError};
use lacus_tensor::kernels::csr::{Csr, Value};
use lacus_tensor::{DType, Element, Index, Selection, Shape, SparseTensor, TensorRef};
use lacus_threads::Team;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use tokio::runtime::Handle;

/// A tensor that a program loads.
#[derive(Clone)]
pub enum Input<'a> {
    /// Of the caller's, wherever and however it lies in memory.
    Dense(Box<TensorRef<'a>>),
    /// Its nonzeros.
    Sparse(Arc<SparseTensor>),
    /// A tensor of a table that stays at one version, by its name there.
    Stored(Arc<Table>, String),
}

impl<'a> From<TensorRef<'a>> for Input<'a> {
    fn from(tensor: TensorRef<'a>) -> Input<'a> {
        Input::Dense(Box::new(tensor))
    }
}

/// Tiles with fewer nonzeros than this part of their elements are sparse.
pub(crate) const SPARSE_BELOW: f64 = 0.1;

impl Input<'_> {
    /// The type of its elements, its shape, and how many of them are stored if it is sparse.
    pub fn describe(&self) -> Result<(DType, Shape, Option<u64>), ExecuteError> {
        Ok(match self {
            Input::Dense(tensor) => (tensor.dtype(), tensor.shape().clone(), None),
            Input::Sparse(tensor) => (tensor.dtype(), tensor.shape().clone(), Some(tensor.nnz() as u64)),
            Input::Stored(table, name) => {
                let Header { dtype, shape, layout, nnz, .. } = table.tensor(name).map_err(stored)?.header;
                (dtype, shape, layout.is_sparse().then_some(nnz.unwrap_or(0)))
            }
        })
    }
}

pub(crate) fn stored(error: TableError) -> ExecuteError {
    match error {
        TableError::Cancelled => ExecuteError::Cancelled,
        error => ExecuteError::Storage { kind: error.kind(), what: error.to_string() },
    }
}

/// The loads of a plan.
pub(crate) struct InputTiles<'a> {
    by_value: HashMap<Slot, Loaded<'a>>,
    runtime: Option<Handle>,
}

struct Loaded<'a> {
    input: Input<'a>,
    tiles: Tiles,
    /// The type that is computed with.
    dtype: DType,
    /// All of it, where it can be looked at as it is.
    window: Option<Window>,
    /// Tiles of a sparse tensor in memory.
    resident: Option<Vec<Tile>>,
    /// Whether it is stored by its nonzeros.
    is_sparse: bool,
    /// How dense it is, if its tiles may be sparse.
    density: Option<f64>,
}

impl<'a> InputTiles<'a> {
    /// The loads of a plan. Inputs are what the program was checked with.
    pub(crate) fn new(
        plan: &ProgramPlan,
        inputs: &std::collections::BTreeMap<String, Input<'a>>,
        runtime: Option<Handle>,
        sparse: &Densities,
        team: Team<'_>,
    ) -> Result<InputTiles<'a>, ExecuteError> {
        let mut by_value = HashMap::new();
        for (slot, name) in plan.loads() {
            let no_input = || ExecuteError::NoInput { name: name.to_owned(), known: String::new() };
            let input = inputs.get(name).ok_or_else(no_input)?;
            let (found, shape, nnz) = input.describe()?;
            let value = plan.network.value(slot);
            if shape.dims() != value.dims || compute_dtype(found) != Some(value.dtype) {
                let what = format!("it is {found} {shape}, and was {} {:?}", value.dtype, value.dims);
                return Err(ExecuteError::BadInput { name: name.to_owned(), what });
            }
            let tiles = plan.tiles(slot);
            let window = match input {
                Input::Dense(tensor) if found == value.dtype => as_window(tensor),
                _ => None,
            };
            let density = sparse.get(&slot).copied();
            let resident = match (input, density) {
                (Input::Sparse(tensor), Some(_)) if is_light(tensor, &tiles) => {
                    Some(sparse_tiles(tensor, &tiles, value.dtype, team)?)
                }
                _ => None,
            };
            let dtype = value.dtype;
            let loaded = Loaded {
                input: input.clone(),
                tiles,
                dtype,
                window,
                resident,
                is_sparse: nnz.is_some(),
                density,
            };
            by_value.insert(slot, loaded);
        }
        Ok(InputTiles { by_value, runtime })
    }

    fn get(&self, value: Slot) -> Result<&Loaded<'a>, ExecuteError> {
        self.by_value
            .get(&value)
            .ok_or_else(|| ExecuteError::Internal { what: format!("value {} is not loaded", value.0) })
    }
}

impl Loaded<'_> {
    fn bounds(&self, tile: u32) -> (Vec<usize>, Vec<usize>) {
        let at = self.tiles.coordinates(tile as usize);
        let starts = at.iter().zip(&self.tiles.blocks).map(|(at, block)| (at * block) as usize).collect();
        (starts, self.tiles.shape(&at).iter().map(|&n| n as usize).collect())
    }
}

impl Loads for InputTiles<'_> {
    fn resident(&self, value: Slot, tile: u32) -> Option<Tile> {
        let loaded = self.by_value.get(&value)?;
        if let Some(tiles) = &loaded.resident {
            return tiles.get(tile as usize).cloned();
        }
        let (starts, shape) = loaded.bounds(tile);
        Some(Tile::Dense(loaded.window.as_ref()?.part(&starts, &shape)))
    }

    fn load(&self, value: Slot, tile: u32) -> Result<Tile, ExecuteError> {
        let loaded = self.get(value)?;
        let (starts, shape) = loaded.bounds(tile);
        let slices = || -> Vec<Index> {
            let of = |(&start, &count): (&usize, &usize)| Index::Slice {
                start: Some(start as i64),
                stop: Some((start + count) as i64),
                step: None,
            };
            starts.iter().zip(&shape).map(of).collect()
        };
        match &loaded.input {
            Input::Dense(tensor) => {
                let wide = |all: &[usize]| all.iter().map(|&n| n as u64).collect::<Vec<_>>();
                let part = tensor.region(&wide(&starts), &wide(&shape)).to_tensor();
                converted(&part.as_ref(), loaded.dtype, &shape)
            }
            Input::Sparse(tensor) => {
                let part = tensor.select(&Selection::resolve(tensor.shape(), &slices())?);
                sparse_tile(&part, loaded.dtype, &shape, loaded.density.is_some())
            }
            Input::Stored(table, name) => {
                let runtime = self.runtime.as_ref().ok_or_else(|| ExecuteError::Internal {
                    what: "stored tensors are read within a runtime".to_owned(),
                })?;
                let is_plain =
                    !loaded.is_sparse && table.tensor(name).map_err(stored)?.header.dtype == loaded.dtype;
                if is_plain {
                    let mut window = WindowMut::for_overwrite(loaded.dtype, &shape);
                    let bytes = window.bytes_mut().unwrap_or_default();
                    runtime.block_on(table.read_into(name, &slices(), bytes)).map_err(stored)?;
                    return Ok(Tile::Dense(window.freeze()));
                }
                match runtime.block_on(table.read(name, &slices())).map_err(stored)? {
                    Read::Dense(part) => converted(&part.as_ref(), loaded.dtype, &shape),
                    Read::Sparse(part) => sparse_tile(&part, loaded.dtype, &shape, loaded.density.is_some()),
                }
            }
        }
    }

    fn waits(&self, value: Slot) -> bool {
        self.by_value.get(&value).is_some_and(|loaded| matches!(loaded.input, Input::Stored(..)))
    }

    fn bytes(&self, value: Slot, tile: u32) -> u64 {
        let Some(loaded) = self.by_value.get(&value) else { return 0 };
        let (_, shape) = loaded.bounds(tile);
        let size = loaded.dtype.size_bytes();
        let all = shape.iter().product::<usize>();
        match loaded.density {
            // Nonzeros are not spread evenly.
            Some(density) => {
                (2.0 * all as f64 * density * (size + 8) as f64) as u64 + 8 * shape[0] as u64 + 64
            }
            None => (all * size) as u64,
        }
    }
}

/// Memory of the caller, as it is, if it is aligned.
fn as_window(tensor: &TensorRef<'_>) -> Option<Window> {
    let size = tensor.dtype().size_bytes();
    let shape: Vec<usize> = tensor.shape().dims().iter().map(|&n| n as usize).collect();
    let strides: Vec<isize> = tensor.strides().iter().map(|&bytes| bytes as isize / size as isize).collect();
    let is_even = tensor.strides().iter().all(|&bytes| bytes % size as i64 == 0);
    let first = NonNull::new(tensor.first().cast_mut())?;
    let is_aligned = first.as_ptr().addr().is_multiple_of(size.min(8));
    // SAFETY: the tensor is borrowed for as long as the run, and windows do not outlive it.
    (is_even && is_aligned)
        .then(|| unsafe { Window::foreign(first, tensor.dtype(), shape, strides, Arc::new(())) })
}

/// Elements in the type that is computed with.
fn converted(part: &TensorRef<'_>, dtype: DType, shape: &[usize]) -> Result<Tile, ExecuteError> {
    let bytes = match part.contiguous_bytes() {
        Some(bytes) => bytes.to_vec(),
        None => part.to_tensor().bytes().to_vec(),
    };
    let mut out = WindowMut::for_overwrite(dtype, shape);
    convert_bytes(part.dtype(), &bytes, &mut out)?;
    Ok(Tile::Dense(out.freeze()))
}

fn convert_bytes(from: DType, bytes: &[u8], out: &mut WindowMut) -> Result<(), ExecuteError> {
    macro_rules! widen {
        ($t:ty) => {{
            let to = out.slice_mut::<i64>().unwrap_or_default();
            let items = bytes.as_chunks::<{ size_of::<$t>() }>().0;
            to.iter_mut().zip(items).for_each(|(to, item)| *to = i64::from(<$t>::from_le_bytes(*item)));
        }};
    }
    match from {
        DType::Bool | DType::I64 | DType::F32 | DType::F64 => {
            out.bytes_mut().unwrap_or_default().copy_from_slice(bytes);
        }
        DType::I8 => widen!(i8),
        DType::I16 => widen!(i16),
        DType::I32 => widen!(i32),
        DType::U8 => widen!(u8),
        DType::U16 => widen!(u16),
        DType::U32 => widen!(u32),
        other => return Err(ExecuteError::Internal { what: format!("{other} is not computed with") }),
    }
    Ok(())
}

/// The nonzeros of one tile, as a sparse matrix if there are few.
fn sparse_tile(
    part: &SparseTensor,
    dtype: DType,
    shape: &[usize],
    may_be_sparse: bool,
) -> Result<Tile, ExecuteError> {
    let all = shape.iter().product::<usize>();
    let is_few = (part.nnz() as f64) < all as f64 * SPARSE_BELOW;
    if !is_few || !may_be_sparse {
        return converted(&part.to_dense()?.as_ref(), dtype, shape);
    }
    let shape = [shape[0], shape[1]];
    Ok(Tile::Sparse(match dtype {
        DType::I64 => SparseTile::I64(Arc::new(csr_of(part, dtype, shape)?)),
        DType::F32 => SparseTile::F32(Arc::new(csr_of(part, dtype, shape)?)),
        _ => SparseTile::F64(Arc::new(csr_of(part, dtype, shape)?)),
    }))
}

/// A sparse matrix in the type that is computed with, which is `T`.
pub(crate) fn csr_of<T: Value + Element>(
    part: &SparseTensor,
    dtype: DType,
    shape: [usize; 2],
) -> Result<Csr<T>, ExecuteError> {
    let mut values = WindowMut::for_overwrite(dtype, &[part.nnz()]);
    convert_bytes(part.dtype(), part.values(), &mut values)?;
    let values = values.window().slice::<T>().unwrap_or_default().to_vec();
    Ok(Csr::from_coordinates(shape[0], shape[1], [part.axis(0), part.axis(1)], values)?)
}

/// What starts of rows may take of all tiles of a sparse matrix of the caller's, or as much as its nonzeros.
const STARTS_BYTES: u64 = 64 << 20;

/// Whether all tiles of a matrix can be in memory beside it. If there are many more rows than nonzeros, tiles are made when
/// they are needed, within the budget.
fn is_light(tensor: &SparseTensor, tiles: &Tiles) -> bool {
    let starts = 8u64.saturating_mul(tiles.dims[0]).saturating_mul(tiles.counts[1]);
    starts <= STARTS_BYTES.max(16 * tensor.nnz() as u64)
}

/// Nonzeros up to which one thread makes all tiles: another one would take longer to begin.
const FEW_NONZEROS: usize = 1 << 16;

/// All tiles of a sparse matrix in memory, each sparse or dense. Rows of tiles are shared among the threads of a team.
fn sparse_tiles(
    tensor: &SparseTensor,
    tiles: &Tiles,
    dtype: DType,
    team: Team<'_>,
) -> Result<Vec<Tile>, ExecuteError> {
    let team = if tensor.nnz() > FEW_NONZEROS { team } else { Team::alone() };
    let rows = team.map((0..tiles.counts[0]).collect(), |row| row_of_tiles(tensor, tiles, dtype, row));
    let rows: Vec<Vec<Tile>> = rows.into_iter().collect::<Result<_, _>>()?;
    Ok(rows.into_iter().flatten().collect())
}

fn row_of_tiles(
    tensor: &SparseTensor,
    tiles: &Tiles,
    dtype: DType,
    row: u64,
) -> Result<Vec<Tile>, ExecuteError> {
    let size = tensor.dtype().size_bytes();
    let (first, last) = tiles.range(0, row);
    let rows = tensor.axis(0);
    let band = rows.partition_point(|&at| at < first)..rows.partition_point(|&at| at <= last);
    let mut values = WindowMut::for_overwrite(dtype, &[band.len()]);
    convert_bytes(tensor.dtype(), &tensor.values()[band.start * size..band.end * size], &mut values)?;
    let values = values.freeze();
    let mut found: Vec<SparseTile> = Vec::with_capacity(tiles.counts[1] as usize);
    match dtype {
        DType::I64 => found.extend(cut(tensor, band, row, tiles, &values)?.into_iter().map(SparseTile::I64)),
        DType::F32 => found.extend(cut(tensor, band, row, tiles, &values)?.into_iter().map(SparseTile::F32)),
        _ => found.extend(cut(tensor, band, row, tiles, &values)?.into_iter().map(SparseTile::F64)),
    }
    let of = |tile: SparseTile| {
        let places = tile.shape().iter().product::<usize>();
        match (tile.nnz() as f64) < places as f64 * SPARSE_BELOW {
            true => Tile::Sparse(tile),
            false => Tile::Dense(tile.to_dense()),
        }
    };
    Ok(found.into_iter().map(of).collect())
}

/// A row of tiles, whose nonzeros are `band`.
fn cut<T: Value + Element>(
    tensor: &SparseTensor,
    band: std::ops::Range<usize>,
    row: u64,
    tiles: &Tiles,
    values: &Window,
) -> Result<Vec<Arc<Csr<T>>>, ExecuteError> {
    let (top, bottom) = tiles.range(0, row);
    let height = (bottom + 1 - top) as usize;
    let width = tiles.blocks[1] as i64;
    // Where rows start, columns, and values, of each tile.
    let mut parts = Vec::new();
    let expected = band.len() / tiles.counts[1].max(1) as usize;
    parts.resize_with(tiles.counts[1] as usize, || {
        (vec![0; height + 1], Vec::with_capacity(expected), Vec::with_capacity(expected))
    });
    let (mut now, mut part, mut end) = (top, 0, width);
    let places = tensor.axis(0)[band.clone()].iter().zip(&tensor.axis(1)[band]);
    for ((&row, &column), &value) in places.zip(values.slice::<T>().unwrap_or_default()) {
        if row != now {
            (now, part, end) = (row, 0, width);
        }
        while column >= end {
            (part, end) = (part + 1, end + width);
        }
        let (starts, indices, values) = &mut parts[part];
        starts[(row - top) as usize + 1] += 1;
        indices.push((column - (end - width)) as u32);
        values.push(value);
    }
    let mut all = Vec::with_capacity(parts.len());
    for (at, (mut starts, indices, values)) in parts.into_iter().enumerate() {
        for row in 0..height {
            starts[row + 1] += starts[row];
        }
        let (left, right) = tiles.range(1, at as u64);
        all.push(Arc::new(Csr::new(height, (right + 1 - left) as usize, starts, indices, values)?));
    }
    Ok(all)
}
