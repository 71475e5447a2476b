//! The choice for sparse tensors: blocks or runs, and the order of axes, by packing a sample.

use lacus_tensor::SparseTensor;

use crate::choose::sample::Sample;
use crate::choose::{Choice, Named, Optimize, Wish, percent, with_commas};
use crate::compress::{Compression, DEFAULT_ZSTD_LEVEL};
use crate::error::LayoutError;
use crate::header::{Header, Layout, product, trimmed_cells};
use crate::levels::Levels;
use crate::order::key_axes;
use crate::packed::{Effort, Packer};

/// Chooses for a sparse value: a header, or [`Choice::Dense`] if a dense layout was asked for.
///
/// Fails with an invalid error if the wish cannot be fulfilled.
pub fn choose_sparse(tensor: &SparseTensor, wish: &Wish) -> Result<Choice, LayoutError> {
    let named = wish.named()?;
    if named == Named::Dense || tensor.shape().rank() == 0 {
        let reason = match named {
            Named::Dense => "dense layout asked for",
            _ => "dense: a tensor of rank 0 has no axis to be sparse on",
        };
        return Ok(Choice::Dense { reasons: vec![reason.to_string()] });
    }
    let chooser = Chooser { tensor, dims: tensor.shape().dims(), optimize: wish.optimize };
    let mut reasons = vec![chooser.density()];
    let layout = match named {
        Named::Coordinates => Layout::Coordinates,
        Named::Rows | Named::Columns => {
            let split = wish.split.unwrap_or_else(|| chooser.split());
            match named {
                Named::Rows => Layout::CompressedRows { split },
                _ => Layout::CompressedColumns { split },
            }
        }
        Named::Tree => Layout::FiberTree { axis_order: chooser.tree_order(wish, &mut reasons)? },
        Named::Blocks => chooser.blocks(wish, &mut reasons)?,
        _ => match wish.optimize {
            Optimize::Slices => chooser.for_slices(&mut reasons)?,
            Optimize::Size => chooser.for_size(&mut reasons)?,
        },
    };
    if !matches!(named, Named::Auto | Named::Sparse) {
        reasons.push(format!("{} asked for", layout.name()));
    }
    let header = Header {
        dtype: tensor.dtype(),
        shape: tensor.shape().clone(),
        layout,
        nnz: Some(tensor.nnz() as u64),
        compression: chooser.compression(),
        reasons,
    };
    header.check().map_err(|error| match error {
        // A wrong permutation in a wish is the caller's, not damage.
        LayoutError::Corrupt { detail, .. } => LayoutError::wish("axis_order", detail),
        other => other,
    })?;
    Ok(Choice::Header(header))
}

/// Nonzeros of a block: at least, aimed at, at most. A block of the aim decodes in about a third of a
/// millisecond; smaller ones lose more to describing their distribution than slices gain.
const BLOCK_LEAST: u64 = 4 << 10;
const BLOCK_AIM: u64 = 16 << 10;
const BLOCK_MOST: u64 = 64 << 10;

/// Nonzeros of a block when only size counts.
const SIZE_BLOCK_AIM: u64 = 128 << 10;

/// Nonzeros looked at for each candidate.
const SAMPLE: usize = 16 << 10;

/// Nonzeros that tell the orders of axes inside a block apart.
const ORDER_SAMPLE: usize = 3 << 10;

/// A tree of many levels takes about twice the time of a block to pack, and to unpack.
const TREE_IS_DEARER: f64 = 1.15;

/// Another order than C order inside a block has to be this much smaller: writing and decoding then have to
/// sort, which takes a third of their time.
const WORTH_SORTING: f64 = 0.8;

struct Chooser<'a> {
    tensor: &'a SparseTensor,
    dims: &'a [u64],
    optimize: Optimize,
}

impl Chooser<'_> {
    /// The level says how hard the arrays are packed.
    fn compression(&self) -> Compression {
        let level = match self.optimize {
            Optimize::Slices => DEFAULT_ZSTD_LEVEL,
            Optimize::Size => 9,
        };
        Compression::Zstd { level }
    }

    fn effort(&self) -> Effort {
        Effort::of(self.compression())
    }

    fn density(&self) -> String {
        let nnz = self.tensor.nnz() as u64;
        let cells: f64 = self.dims.iter().map(|dim| *dim as f64).product();
        format!("{} nonzeros, {} of the cells", with_commas(nnz), percent(nnz as f64 / cells.max(1.0)))
    }

    fn c_order(&self) -> Vec<usize> {
        (0..self.dims.len()).collect()
    }

    /// The first axis alone makes the rows, unless the columns could then not be counted.
    fn split(&self) -> usize {
        let countable = |dims: &[u64]| product(dims).is_some_and(|count| count <= i64::MAX as u64);
        let fits = |split: &usize| countable(&self.dims[..*split]) && countable(&self.dims[*split..]);
        (1..=self.dims.len()).find(fits).unwrap_or(1)
    }

    /// Blocks that cut the leading axes, in the order `order`, until they hold about `aim` nonzeros.
    fn block_shape(&self, order: &[usize], least: u64, aim: u64, most: u64) -> Vec<u64> {
        let mut sides = self.dims.iter().map(|dim| (*dim).max(1)).collect::<Vec<u64>>();
        let mut nonzeros = self.tensor.nnz() as u64;
        for axis in order {
            let dim = self.dims[*axis].max(1);
            let per_index = nonzeros / dim;
            if nonzeros <= most {
                break;
            }
            if per_index >= least {
                sides[*axis] = 1;
                nonzeros = per_index;
            } else {
                let pieces = nonzeros.div_ceil(aim).clamp(1, dim);
                sides[*axis] = dim.div_ceil(pieces);
                break;
            }
        }
        sides
    }

    fn blocks(&self, wish: &Wish, reasons: &mut Vec<String>) -> Result<Layout, LayoutError> {
        let block_shape = match &wish.block_shape {
            Some(block_shape) => block_shape.clone(),
            None => self.block_shape(&self.c_order(), BLOCK_LEAST, BLOCK_AIM, BLOCK_MOST),
        };
        let usable = block_shape.len() == self.dims.len()
            && trimmed_cells(&block_shape, self.tensor.shape()).is_some_and(|cells| cells <= i64::MAX as u64);
        let axis_order = match &wish.axis_order {
            Some(axis_order) => axis_order.clone(),
            // An impossible block shape is refused by the header's own check.
            None if !usable || block_shape.contains(&0) => self.c_order(),
            None => {
                let (sample, mut packer) = (self.block_sample(&block_shape), Packer::default());
                let value_bytes = sample.value_bytes(self.effort(), &mut packer)?;
                self.block_order(&block_shape, &sample, value_bytes, &mut packer, reasons)?.0
            }
        };
        Ok(Layout::SparseBlocks { block_shape, axis_order })
    }

    fn tree_order(&self, wish: &Wish, reasons: &mut Vec<String>) -> Result<Vec<usize>, LayoutError> {
        match (&wish.axis_order, self.optimize) {
            (Some(axis_order), _) => Ok(axis_order.clone()),
            (None, Optimize::Slices) => Ok(self.c_order()),
            (None, Optimize::Size) => {
                let best = self.best_orders()?;
                let order = best.into_iter().next().map_or_else(|| self.c_order(), |found| found.order);
                reasons.push(format!("axes in the order {order:?} take the fewest bytes on a sample"));
                Ok(order)
            }
        }
    }

    /// Slices of the first axis: blocks of few of its indices, or rows, whatever packs a sample better.
    fn for_slices(&self, reasons: &mut Vec<String>) -> Result<Layout, LayoutError> {
        let c_order = self.c_order();
        let block_shape = self.block_shape(&c_order, BLOCK_LEAST, BLOCK_AIM, BLOCK_MOST);
        let cells = trimmed_cells(&block_shape, self.tensor.shape());
        if cells.is_none_or(|cells| cells > i64::MAX as u64) {
            reasons.push("CSF: a block would have more than 2^63 cells".into());
            return Ok(Layout::FiberTree { axis_order: c_order });
        }
        let (sample, mut packer) = (self.block_sample(&block_shape), Packer::default());
        let mut why = Vec::new();
        let value_bytes = sample.value_bytes(self.effort(), &mut packer)?;
        let (axis_order, block_bytes) =
            self.block_order(&block_shape, &sample, value_bytes, &mut packer, &mut why)?;
        let tree = self.tree_levels(&c_order);
        let tree_bytes = sample.index_bytes(&tree, self.effort(), &mut packer)?;
        // A run holds several blocks' worth of nonzeros; what a slice reads in vain counts a little.
        let waste = |nonzeros: f64| {
            let wanted = (self.tensor.nnz() as f64 / self.dims[0].max(1) as f64).max(8192.0);
            1.0 + 0.05 * (nonzeros / wanted).log2().max(0.0)
        };
        let block_nnz = self.nonzeros_per_block(&block_shape);
        let run_nnz = (self.tensor.nnz() as f64).min(48.0 * 1024.0);
        let blocks_cost = (block_bytes + value_bytes) * waste(block_nnz);
        let tree_cost = (tree_bytes + value_bytes) * waste(run_nnz) * TREE_IS_DEARER;
        let stored = |bytes: f64| {
            let all = (bytes + value_bytes) / sample.len().max(1) as f64 * self.tensor.nnz() as f64;
            format!(
                "about {} bytes by a sample of {} nonzeros",
                with_commas(all as u64),
                with_commas(sample.len() as u64)
            )
        };
        if tree_cost < blocks_cost {
            let layout = match self.dims.len() {
                1 | 2 => Layout::CompressedRows { split: 1 },
                _ => Layout::FiberTree { axis_order: c_order },
            };
            reasons.push(format!("{}: {}", layout.name(), stored(tree_bytes)));
            return Ok(layout);
        }
        reasons.push(format!(
            "BSGS: a block holds about {} nonzeros and serves a slice of axis 0",
            with_commas(block_nnz as u64)
        ));
        reasons.append(&mut why);
        reasons.push(stored(block_bytes));
        Ok(Layout::SparseBlocks { block_shape, axis_order })
    }

    /// The fewest bytes: orders of axes ranked by their gaps, the best ones packed as blocks and as trees.
    fn for_size(&self, reasons: &mut Vec<String>) -> Result<Layout, LayoutError> {
        let best = self.best_orders()?;
        let Some(first) = best.first() else {
            return Ok(Layout::FiberTree { axis_order: self.c_order() });
        };
        let (order, rate, as_tree) = (first.order.clone(), first.rate, first.as_tree);
        reasons.push(format!(
            "axes in the order {order:?} take the fewest bytes on a sample: {:.2} per nonzero for coordinates",
            rate
        ));
        if as_tree {
            return Ok(match &order[..] {
                [0] | [0, 1] => Layout::CompressedRows { split: 1 },
                [1, 0] => Layout::CompressedColumns { split: 1 },
                _ => Layout::FiberTree { axis_order: order },
            });
        }
        let block_shape = self.block_shape(&order, SIZE_BLOCK_AIM / 2, SIZE_BLOCK_AIM, 2 * SIZE_BLOCK_AIM);
        Ok(Layout::SparseBlocks { block_shape, axis_order: order })
    }

    fn nonzeros_per_block(&self, block_shape: &[u64]) -> f64 {
        let blocks: f64 =
            self.dims.iter().zip(block_shape).map(|(dim, side)| dim.div_ceil(*side).max(1) as f64).product();
        (self.tensor.nnz() as f64 / blocks).max(1.0)
    }

    /// Nonzeros of whole blocks.
    fn block_sample(&self, block_shape: &[u64]) -> Sample {
        let cut = (0..self.dims.len()).filter(|axis| block_shape[*axis] < self.dims[*axis]);
        let axes: Vec<(usize, u64)> = cut.map(|axis| (axis, block_shape[axis])).collect();
        Sample::new(self.tensor, &axes, SAMPLE / 2)
    }

    /// The order of axes inside a block, and the bytes of the sample's index in it.
    fn block_order(
        &self,
        block_shape: &[u64],
        sample: &Sample,
        values: f64,
        packer: &mut Packer,
        reasons: &mut Vec<String>,
    ) -> Result<(Vec<usize>, f64), LayoutError> {
        let c_order = self.c_order();
        let wide: Vec<usize> =
            c_order.iter().copied().filter(|axis| block_shape[*axis].min(self.dims[*axis]) > 1).collect();
        let narrow: Vec<usize> = c_order.iter().copied().filter(|axis| !wide.contains(axis)).collect();
        let in_c_order = sample.index_bytes(&self.block_levels(&c_order), self.effort(), packer)?;
        let thinned: Vec<Option<Sample>> =
            wide.iter().map(|axis| sample.thinned(*axis, ORDER_SAMPLE)).collect();
        // Per nonzero, by as few of them as will do.
        let gap_bits = |order: &[usize]| {
            let outer = wide.iter().position(|axis| order.get(narrow.len()) == Some(axis));
            let sample = outer.and_then(|at| thinned[at].as_ref()).unwrap_or(sample);
            sample.gap_bits(order) / sample.len().max(1) as f64
        };
        let mut ranked: Vec<(f64, Vec<usize>)> = candidates(&wide)
            .into_iter()
            .map(|order| {
                // Among orders that pack alike, the one that decoding undoes by the shortest key.
                let dearer = 1.0 + 0.01 * key_axes(&order, &wide).len() as f64;
                let order = [&narrow[..], &order[..]].concat();
                (gap_bits(&order) * dearer, order)
            })
            .collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Packing it tells for sure, which is worth trying only for what looks close.
        let as_it_is = gap_bits(&[&narrow[..], &wide[..]].concat());
        let close = |bits: f64| bits < (WORTH_SORTING + 0.05) * as_it_is;
        let Some((_, best)) = ranked.into_iter().next().filter(|(bits, o)| *o != c_order && close(*bits))
        else {
            return Ok((c_order, in_c_order));
        };
        let reordered = sample.index_bytes(&self.block_levels(&best), self.effort(), packer)?;
        if (reordered + values) >= WORTH_SORTING * (in_c_order + values) {
            return Ok((c_order, in_c_order));
        }
        reasons.push(format!(
            "its cells are numbered by axes {best:?}: coordinates take {} of what they take in C order",
            percent(reordered / in_c_order)
        ));
        Ok((best, reordered))
    }

    /// Orders of all axes, best first, each packed on a sample of its own.
    fn best_orders(&self) -> Result<Vec<Ranked>, LayoutError> {
        let mut ranked: Vec<(f64, Vec<usize>, usize)> = Vec::new();
        let mut samples: Vec<Sample> = Vec::new();
        for outer in self.c_order() {
            // A contiguous piece of an order is what lies in a slab of its first axis.
            let sample = Sample::new(self.tensor, &[(outer, 1)], SAMPLE);
            if sample.len() > 6 * SAMPLE {
                // A slab is a large part of the tensor: an axis this short gains little in front.
                continue;
            }
            let inner: Vec<usize> = self.c_order().into_iter().filter(|axis| *axis != outer).collect();
            for rest in candidates(&inner) {
                let order = [&[outer][..], &rest[..]].concat();
                let bits = sample.gap_bits(&order) / sample.len().max(1) as f64;
                ranked.push((bits, order, samples.len()));
            }
            samples.push(sample);
        }
        if samples.is_empty() {
            ranked.push((0.0, self.c_order(), 0));
            samples.push(Sample::new(self.tensor, &[(0, 1)], SAMPLE));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.truncate(2);
        let (whole_fits, mut packer) = (self.whole_fits(), Packer::default());
        let mut best = Vec::new();
        for (_, order, sample) in ranked {
            let sample = &samples[sample];
            for as_tree in [false, true] {
                if !as_tree && !whole_fits {
                    continue;
                }
                let levels = if as_tree { self.tree_levels(&order) } else { self.block_levels(&order) };
                let bytes = sample.index_bytes(&levels, self.effort(), &mut packer)?;
                let rate = bytes / sample.len().max(1) as f64;
                best.push(Ranked { rate, order: order.clone(), as_tree });
            }
        }
        best.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        Ok(best)
    }

    /// Whether the cells of the tensor can be numbered.
    fn whole_fits(&self) -> bool {
        product(self.dims).is_some_and(|cells| cells <= i64::MAX as u64)
    }

    fn block_levels(&self, order: &[usize]) -> Levels {
        Levels { axes: vec![order.to_vec()], origin: vec![0; self.dims.len()], extent: self.dims.to_vec() }
    }

    fn tree_levels(&self, order: &[usize]) -> Levels {
        let axes = order.iter().map(|axis| vec![*axis]).collect();
        Levels { axes, origin: vec![0; self.dims.len()], extent: self.dims.to_vec() }
    }
}

/// An order of axes and how well it packs.
struct Ranked {
    /// Bytes of index per nonzero.
    rate: f64,
    order: Vec<usize>,
    as_tree: bool,
}

/// Orders worth looking at: all of up to three axes; of more, C order, its reverse, and those that move one
/// axis to the end.
fn candidates(axes: &[usize]) -> Vec<Vec<usize>> {
    if axes.len() <= 3 {
        return permutations(axes);
    }
    let mut orders = vec![axes.to_vec(), axes.iter().rev().copied().collect()];
    for axis in axes.iter().take(MOVED_AXES) {
        let others: Vec<usize> = axes.iter().copied().filter(|other| other != axis).collect();
        orders.push([&others[..], &[*axis][..]].concat());
    }
    orders
}

/// Bounds what a tensor of high rank costs.
const MOVED_AXES: usize = 4;

fn permutations(axes: &[usize]) -> Vec<Vec<usize>> {
    let [first, others @ ..] = axes else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for rest in permutations(others) {
        for at in 0..=rest.len() {
            let mut order = rest.clone();
            order.insert(at, *first);
            all.push(order);
        }
    }
    all
}
