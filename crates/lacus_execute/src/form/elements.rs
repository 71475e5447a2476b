//! A formula over tiles: one element as a program of the register machine, and where its inputs are.

use super::{Bench, Reads, with_type};
use crate::error::ExecuteError;
use crate::region::{Located, Numbers, Walk, each_place, merge};
use crate::tile::Tile;
use crate::window::{Window, WindowMut};
use lacus_algebra::expr::{Affine, Element, ElementNode, Slot};
use lacus_algebra::{Made, Network, Operator, Scalar, random};
use lacus_tensor::kernels::csr::Pattern;
use lacus_tensor::kernels::formula::{Formula, FormulaBuilder, Lane, Register, Scratch};
use std::sync::Arc;

/// One element of an operator, compiled.
pub(crate) struct Elements {
    formula: Formula,
    inputs: Vec<Input>,
    size: usize,
    element: Element,
}

/// Where an input of a formula comes from.
#[derive(Clone, PartialEq)]
enum Input {
    /// A read of the operator, by its number.
    Read(usize),
    /// The value of a position.
    Position(Affine),
    /// A number that is known when the task runs.
    Known(Slot),
}

/// Inputs of a formula in a region: where each starts, and how one goes through it.
pub(crate) struct Sources {
    pub(crate) walks: Vec<Walk>,
    /// What the walks are through; `None` for positions.
    pub(super) firsts: Vec<Option<*const u8>>,
    pub(super) sizes: Vec<usize>,
    /// What keeps the memory alive.
    _located: Vec<Located>,
    #[expect(clippy::vec_box, reason = "lanes point at them, so they must not move")]
    _numbers: Vec<Box<[u8; 8]>>,
}

impl Elements {
    pub(crate) fn of(network: &Network, operator: &Operator, element: &Element) -> Elements {
        let mut build = Build {
            network,
            operator,
            builder: FormulaBuilder::new(),
            inputs: Vec::new(),
            registers: Vec::new(),
            size: 0,
        };
        let result = build.element(element);
        let result = build.builder.convert(result, element.dtype);
        Elements {
            formula: build.builder.finish(result),
            inputs: build.inputs,
            size: build.size.max(1),
            element: element.clone(),
        }
    }

    /// Operations for one element.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn formula(&self) -> &Formula {
        &self.formula
    }

    /// The inputs at the places of a pattern over two labels, each one after another, or one for all.
    pub(crate) fn gather(
        &self,
        bench: &Bench<'_>,
        reads: &Reads<'_>,
        pattern: &Pattern,
        labels: [usize; 2],
    ) -> Result<Vec<Window>, ExecuteError> {
        let numbers = Numbers { network: bench.network, known: bench.known };
        let nnz = pattern.nnz();
        let mut all = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            all.push(match input {
                Input::Known(slot) => {
                    let dtype = bench.network.value(*slot).dtype;
                    let value = bench.network.known(*slot, bench.known).unwrap_or(Scalar::I64(0));
                    let mut one = WindowMut::for_overwrite(dtype, &[1]);
                    crate::window::fill(&mut one, value);
                    one.freeze()
                }
                Input::Position(at) => {
                    let walk = Walk::of_position(at, reads.region, &numbers);
                    let mut values = WindowMut::for_overwrite(lacus_tensor::DType::I64, &[nnz]);
                    let to = values.slice_mut::<i64>().unwrap_or_default();
                    each_nonzero(pattern, &walk, labels, |place, at| to[place] = at);
                    values.freeze()
                }
                Input::Read(read) => match reads.tile(*read, bench) {
                    Some(Tile::Sparse(sparse)) => sparse.gather(pattern),
                    _ => {
                        let located = reads.locate(*read, bench);
                        let walk = reads.walk(*read, &located, bench);
                        let is_one = labels.iter().all(|&label| walk.steps[label] == 0);
                        let dtype = located.window.dtype();
                        let mut values = WindowMut::for_overwrite(dtype, &[if is_one { 1 } else { nnz }]);
                        with_type!(dtype, T => {
                            let to = values.slice_mut::<T>().unwrap_or_default();
                            let first = located.window.first().cast::<T>().as_ptr();
                            // SAFETY: the walk stays within the window of the region, whose elements are of this type.
                            unsafe {
                                match is_one {
                                    true => to[0] = *first.offset(walk.start as isize),
                                    false => each_nonzero(pattern, &walk, labels, |place, at| {
                                        to[place] = *first.offset(at as isize);
                                    }),
                                }
                            }
                        });
                        values.freeze()
                    }
                },
            });
        }
        Ok(all)
    }

    /// The read it is, when it is nothing else.
    pub(crate) fn as_read(&self) -> Option<usize> {
        match (&self.element.node, &self.inputs[..]) {
            (ElementNode::Read(..), [Input::Read(read)]) => Some(*read),
            _ => None,
        }
    }

    /// Finds the inputs in a region.
    pub(crate) fn sources(&self, bench: &Bench<'_>, reads: &Reads<'_>) -> Result<Sources, ExecuteError> {
        let numbers = Numbers { network: bench.network, known: bench.known };
        let mut sources = Sources {
            walks: Vec::new(),
            firsts: Vec::new(),
            sizes: Vec::new(),
            _located: Vec::new(),
            _numbers: Vec::new(),
        };
        for input in &self.inputs {
            match input {
                Input::Read(read) => {
                    let located = reads.locate(*read, bench);
                    sources.walks.push(reads.walk(*read, &located, bench));
                    sources.firsts.push(Some(located.window.first().as_ptr().cast_const()));
                    sources.sizes.push(located.window.dtype().size_bytes());
                    sources._located.push(located);
                }
                Input::Position(at) => {
                    sources.walks.push(Walk::of_position(at, reads.region, &numbers));
                    sources.firsts.push(None);
                    sources.sizes.push(8);
                }
                Input::Known(slot) => {
                    let dtype = bench.network.value(*slot).dtype;
                    let value =
                        bench.network.known(*slot, bench.known).unwrap_or(Scalar::I64(0)).convert(dtype);
                    let number = Box::new(crate::window::bits(value));
                    sources.walks.push(Walk::still(reads.region.starts.len()));
                    sources.firsts.push(Some(number.as_ptr()));
                    sources.sizes.push(dtype.size_bytes());
                    sources._numbers.push(number);
                }
            }
        }
        Ok(sources)
    }

    /// Runs for `n` elements: lanes from where the walks are, `steps` apart.
    ///
    /// # Safety
    /// `places` are places of the walks of `sources`, from which `n` steps stay inside; `out` is writable likewise.
    #[expect(clippy::too_many_arguments, reason = "a run is all of these")]
    pub(crate) unsafe fn lanes(
        &self,
        sources: &Sources,
        places: &[i64],
        steps: &[i64],
        n: usize,
        out: *mut u8,
        out_stride: isize,
        lanes: &mut Vec<Lane>,
        scratch: &mut Scratch,
    ) -> bool {
        lanes.clear();
        for (input, first) in sources.firsts.iter().enumerate() {
            lanes.push(match first {
                Some(first) => {
                    let offset = places[input] as isize * sources.sizes[input] as isize;
                    // SAFETY: the place lies within the window.
                    let first = unsafe { first.offset(offset) };
                    Lane::Strided { first, stride: steps[input] as isize }
                }
                None => Lane::Ramp { start: places[input], step: steps[input] },
            });
        }
        // SAFETY: lanes are of the types that the formula was built with, and within their windows; one that is in the memory
        // of the result is a tile that is finished in place, element by element.
        unsafe { self.formula.run(lanes, n, out, out_stride, scratch) }
    }

    /// All elements of a tile.
    pub(crate) fn run_into(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        out: &mut WindowMut,
    ) -> Result<(), ExecuteError> {
        let rank = out.window().strides().len();
        let labels: Vec<usize> = (0..rank).collect();
        self.run_over(bench, reads, out, &labels)
    }

    /// All elements over some of the labels, which are the axes of `out`.
    pub(crate) fn run_over(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        out: &mut WindowMut,
        labels: &[usize],
    ) -> Result<(), ExecuteError> {
        let sources = self.sources(bench, reads)?;
        let count = reads.region.counts.len();
        let mut walks = sources.walks.clone();
        walks.push(Walk::of_labels(out.window().strides(), labels, count));
        let counts: Vec<usize> = (0..count)
            .map(|label| if labels.contains(&label) { reads.region.counts[label] } else { 1 })
            .collect();
        let counts = merge(&counts, &mut walks);
        let (outer, n) = match counts.split_last() {
            Some((n, outer)) => (outer, *n),
            None => (&[][..], 1),
        };
        let steps: Vec<i64> = walks.iter().map(|walk| walk.steps.last().copied().unwrap_or(0)).collect();
        for walk in &mut walks {
            walk.steps.truncate(outer.len());
        }
        let size = out.window().dtype().size_bytes() as isize;
        let first = out.first().as_ptr();
        let (mut lanes, mut is_zero_met) = (Vec::new(), false);
        let own = walks.len() - 1;
        each_place(outer, &walks, |places| {
            // SAFETY: all places lie within the windows that the region was located in, and within `out`.
            is_zero_met |= unsafe {
                let out = first.offset(places[own] as isize * size);
                self.lanes(&sources, places, &steps, n, out, steps[own] as isize, &mut lanes, bench.scratch)
            };
        });
        if is_zero_met {
            self.look_for_zero(bench, reads, &counts_of(reads, labels))?;
        }
        Ok(())
    }

    /// Finds out whether a divisor of zero was really looked at, one element at a time.
    pub(crate) fn look_for_zero(
        &self,
        bench: &Bench<'_>,
        reads: &Reads<'_>,
        counts: &[usize],
    ) -> Result<(), ExecuteError> {
        let sources = self.sources(bench, reads)?;
        let numbers = Numbers { network: bench.network, known: bench.known };
        let mut found = None;
        let mut walks: Vec<Walk> = sources.walks.clone();
        // The labels themselves, to evaluate positions.
        for label in 0..counts.len() {
            let mut walk = Walk::still(counts.len());
            walk.start = reads.region.starts[label];
            walk.steps[label] = 1;
            walks.push(walk);
        }
        let inputs = self.inputs.len();
        each_place(counts, &walks, |places| {
            let indices = &places[inputs..];
            let read = |element: &Element| -> Option<Scalar> {
                let input = self.input_of(reads, element)?;
                let first = sources.firsts[input]?;
                let offset = places[input] as isize * sources.sizes[input] as isize;
                // SAFETY: the place lies within the window.
                Some(unsafe { crate::window::read(first.offset(offset), element.dtype) })
            };
            if found.is_none() && meets_zero(&self.element, indices, &numbers, &read).is_err() {
                found = Some(indices.to_vec());
            }
        });
        match found {
            None => Ok(()),
            Some(at) => bench.divided_by_zero(at),
        }
    }

    /// The same at the places of a pattern, for which the inputs were gathered.
    pub(super) fn look_for_zero_at(
        &self,
        bench: &Bench<'_>,
        reads: &Reads<'_>,
        pattern: &Pattern,
        labels: [usize; 2],
        gathered: &[Window],
    ) -> Result<(), ExecuteError> {
        let numbers = Numbers { network: bench.network, known: bench.known };
        let mut indices = reads.region.starts.clone();
        for row in 0..pattern.rows() {
            for (place, &column) in pattern.places(row).zip(pattern.row(row)) {
                for (label, at) in labels.into_iter().zip([row as i64, i64::from(column)]) {
                    indices[label] = reads.region.starts[label] + at;
                }
                let read = |element: &Element| -> Option<Scalar> {
                    let window = &gathered[self.input_of(reads, element)?];
                    let offset = if window.len() == 1 { 0 } else { place * window.dtype().size_bytes() };
                    // SAFETY: there is an element for each place, or one for all.
                    Some(unsafe { crate::window::read(window.first().as_ptr().add(offset), element.dtype) })
                };
                if meets_zero(&self.element, &indices, &numbers, &read).is_err() {
                    return bench.divided_by_zero(indices);
                }
            }
        }
        Ok(())
    }

    /// The input that an element reads.
    fn input_of(&self, reads: &Reads<'_>, element: &Element) -> Option<usize> {
        let ElementNode::Read(slot, at) = &element.node else { return None };
        self.inputs.iter().position(|input| match input {
            Input::Read(read) => {
                let read = &reads.operator.reads[*read];
                read.value == *slot && read.at == *at
            }
            Input::Known(known) => known == slot,
            Input::Position(_) => false,
        })
    }
}

fn counts_of(reads: &Reads<'_>, labels: &[usize]) -> Vec<usize> {
    let counts = &reads.region.counts;
    (0..counts.len()).map(|label| if labels.contains(&label) { counts[label] } else { 1 }).collect()
}

/// The value of an element as it is meant: the side of a `where` that is not taken is not looked at. Fails at a
/// remainder or quotient of integers by zero.
fn meets_zero(
    element: &Element,
    indices: &[i64],
    numbers: &Numbers<'_>,
    read: &dyn Fn(&Element) -> Option<Scalar>,
) -> Result<Scalar, ()> {
    let part = |part: &Element| meets_zero(part, indices, numbers, read);
    Ok(match &element.node {
        ElementNode::Constant(value) => *value,
        ElementNode::Position(at) => Scalar::I64(numbers.position(at, indices)),
        ElementNode::Random(seed, at) => Scalar::F64(random(*seed, numbers.position(at, indices) as u64)),
        ElementNode::Read(..) => read(element).unwrap_or(Scalar::I64(1).convert(element.dtype)),
        ElementNode::Convert(a) => part(a)?.convert(element.dtype),
        ElementNode::Unary(op, a) => part(a)?.unary(*op),
        ElementNode::Binary(op, a, b) => {
            let (a, b) = (part(a)?, part(b)?);
            if op.divides_whole() && b == Scalar::I64(0) {
                return Err(());
            }
            a.binary(*op, b)
        }
        ElementNode::Call(function, all) => {
            let all: Result<Vec<f64>, ()> = all.iter().map(|a| part(a).map(Scalar::to_f64)).collect();
            Scalar::F64(function.call(&all?)).convert(element.dtype)
        }
        ElementNode::Where(c, a, b) => {
            if part(c)?.is_true() {
                part(a)?
            } else {
                part(b)?
            }
        }
        ElementNode::Reduce(_) => Scalar::I64(1).convert(element.dtype),
    })
}

/// Calls with the place of every nonzero, and where a walk is there.
fn each_nonzero(pattern: &Pattern, walk: &Walk, labels: [usize; 2], mut call: impl FnMut(usize, i64)) {
    let [row_step, column_step] = labels.map(|label| walk.steps[label]);
    for row in 0..pattern.rows() {
        let start = walk.start + row as i64 * row_step;
        for (place, &column) in pattern.places(row).zip(pattern.row(row)) {
            call(place, start + i64::from(column) * column_step);
        }
    }
}

struct Build<'a> {
    network: &'a Network,
    operator: &'a Operator,
    builder: FormulaBuilder,
    inputs: Vec<Input>,
    registers: Vec<Register>,
    size: usize,
}

impl Build<'_> {
    fn input(&mut self, input: Input, dtype: lacus_tensor::DType) -> Register {
        if let Some(at) = self.inputs.iter().position(|other| *other == input) {
            return self.registers[at];
        }
        let register = self.builder.input(dtype);
        self.inputs.push(input);
        self.registers.push(register);
        register
    }

    fn element(&mut self, element: &Element) -> Register {
        if !element.parts().is_empty() {
            self.size += 1;
        }
        match &element.node {
            ElementNode::Constant(value) => self.builder.constant(*value),
            ElementNode::Position(at) => self.input(Input::Position(at.clone()), lacus_tensor::DType::I64),
            ElementNode::Read(slot, at) => {
                let value = self.network.value(*slot);
                if matches!(value.made, Made::Parameter(_) | Made::Counter(_)) {
                    return self.input(Input::Known(*slot), value.dtype);
                }
                let read = self.operator.reads.iter().position(|read| read.value == *slot && read.at == *at);
                debug_assert!(read.is_some(), "operators list what they read");
                self.input(Input::Read(read.unwrap_or(0)), value.dtype)
            }
            ElementNode::Random(seed, at) => {
                let position = self.input(Input::Position(at.clone()), lacus_tensor::DType::I64);
                let seed = *seed;
                let call = Arc::new(move |all: &[Scalar]| Scalar::F64(random(seed, all[0].to_i64() as u64)));
                self.builder.call(call, &[position], element.dtype)
            }
            ElementNode::Convert(a) => {
                let a = self.element(a);
                self.builder.convert(a, element.dtype)
            }
            ElementNode::Unary(op, a) => {
                let a = self.element(a);
                self.builder.unary(*op, a)
            }
            ElementNode::Binary(op, a, b) => {
                let (a, b) = (self.element(a), self.element(b));
                self.builder.binary(*op, a, b)
            }
            ElementNode::Call(function, all) => {
                let all: Vec<Register> = all.iter().map(|a| self.element(a)).collect();
                let function = function.clone();
                let call = Arc::new(move |all: &[Scalar]| {
                    let all: Vec<f64> = all.iter().map(|a| a.to_f64()).collect();
                    Scalar::F64(function.call(&all))
                });
                self.builder.call(call, &all, element.dtype)
            }
            ElementNode::Where(c, a, b) => {
                let (c, a, b) = (self.element(c), self.element(a), self.element(b));
                self.builder.select(c, a, b)
            }
            // Operators contain none.
            ElementNode::Reduce(_) => self.builder.constant(Scalar::F64(f64::NAN).convert(element.dtype)),
        }
    }
}
