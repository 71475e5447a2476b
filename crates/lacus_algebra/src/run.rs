//! The plain interpreter of plans: runs the tasks of every part of a program in the order of their schedule, on tiles,
//! with nothing but what each task says it reads. It says what tasks mean; engines are compared with it, and it is
//! compared with [`interpret`](crate::interpret).

use crate::array::Array;
use crate::error::AlgebraError;
use crate::expr::{Affine, Element, ElementNode, ReduceOp, Slot, Symbol};
use crate::interpret::{Limits, random};
use crate::network::{FlowNode, Known, Made, Operator, Until};
use crate::plan::ProgramPlan;
use crate::schedule::schedule;
use crate::task_graph::{Task, TaskGraph, TaskKind};
use crate::tiling::{Tiles, each_of};
use crate::touch::Tiled;
use lacus_tensor::Scalar;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Runs a plan on the tensors that it loads, and returns what it saves. Fails if one is missing or does not fit, or
/// after more rounds than `limits` allows.
pub fn run(
    plan: &ProgramPlan,
    inputs: &BTreeMap<String, Array>,
    limits: Limits,
) -> Result<BTreeMap<String, Array>, AlgebraError> {
    for (slot, name) in plan.loads() {
        let given = inputs.get(name).ok_or_else(|| AlgebraError::MissingInput { name: name.to_owned() })?;
        let dims: Vec<usize> = plan.network.value(slot).dims.iter().map(|&n| n as usize).collect();
        if given.dims() != dims {
            let what = format!("input '{name}'");
            return Err(AlgebraError::TileShapes { what, shapes: vec![dims, given.dims().to_vec()] });
        }
    }
    let mut runner =
        Runner { plan, inputs, store: HashMap::new(), saved: BTreeMap::new(), rounds: limits.rounds };
    runner.flow(&plan.network.flow, &mut Known::new())?;
    Ok(runner.saved)
}

struct Runner<'a> {
    plan: &'a ProgramPlan,
    inputs: &'a BTreeMap<String, Array>,
    /// Tiles that were outputs of a part.
    store: HashMap<(Slot, u32), Arc<Array>>,
    saved: BTreeMap<String, Array>,
    rounds: u64,
}

impl Runner<'_> {
    fn flow(&mut self, flow: &[FlowNode], known: &mut Known) -> Result<(), AlgebraError> {
        let mut rest = flow;
        while !rest.is_empty() {
            let end = rest.iter().position(|node| matches!(node, FlowNode::Loop(_))).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            self.part(part, known)?;
            rest = after;
            if let [FlowNode::Loop(of), next @ ..] = rest {
                self.rounds(*of, known)?;
                rest = next;
            }
        }
        Ok(())
    }

    fn rounds(&mut self, of: usize, known: &mut Known) -> Result<(), AlgebraError> {
        let plan = self.plan;
        let node = &plan.network.loops[of];
        node.carried.iter().for_each(|carried| self.carry(carried.enter, carried.inside));
        let numbers = match &node.until {
            Until::Counted(_, from, to) => {
                let of = |at| plan.network.position(at, known).unwrap_or(0);
                of(from)..of(to)
            }
            Until::Is(..) => 0..i64::MAX,
        };
        for n in numbers {
            let left = self.rounds.checked_sub(1).ok_or_else(|| AlgebraError::Argument {
                what: "running a plan",
                expected: "done within the rounds allowed",
                found: "a loop that goes on".to_owned(),
            });
            self.rounds = left?;
            if let Until::Counted(counter, ..) = node.until {
                known.insert(counter, n);
            }
            self.flow(&node.before, known)?;
            if let Until::Is(condition, ends_when) = node.until {
                let truth = self.store.get(&(condition, 0)).is_some_and(|tile| tile.at(&[]).is_true());
                if truth == ends_when {
                    break;
                }
                self.flow(&node.after, known)?;
            }
            // All at once: one may become what another was.
            let next: Vec<_> =
                node.carried.iter().map(|carried| (carried.inside, self.tiles_of(carried.next))).collect();
            for (inside, tiles) in next {
                tiles.into_iter().enumerate().for_each(|(at, tile)| {
                    self.store.insert((inside, at as u32), tile);
                });
            }
        }
        if let Until::Counted(counter, ..) = node.until {
            known.remove(&counter);
        }
        Ok(())
    }

    fn tiles_of(&self, value: Slot) -> Vec<Arc<Array>> {
        let count = self.plan.tiles(value).len();
        (0..count as u32).filter_map(|tile| self.given(value, tile)).collect()
    }

    fn carry(&mut self, from: Slot, to: Slot) {
        for (at, tile) in self.tiles_of(from).into_iter().enumerate() {
            self.store.insert((to, at as u32), tile);
        }
    }

    /// A tile that is loaded or was an output before.
    fn given(&self, value: Slot, tile: u32) -> Option<Arc<Array>> {
        if let Made::Load(name) = &self.plan.network.value(value).made {
            let tiles = self.plan.tiles(value);
            let at = tiles.coordinates(tile as usize);
            let shape: Vec<usize> = tiles.shape(&at).iter().map(|&n| n as usize).collect();
            let dtype = self.plan.network.value(value).dtype;
            let tensor = self.inputs.get(name)?;
            return Some(Arc::new(Array::from_fn(dtype, &shape, |inner| {
                let position = inner.iter().zip(&at).zip(&tiles.blocks);
                let position: Vec<usize> =
                    position.map(|((inner, at), block)| inner + (at * block) as usize).collect();
                tensor.at(&position).convert(dtype)
            })));
        }
        self.store.get(&(value, tile)).map(Arc::clone)
    }

    fn part(&mut self, part: &[FlowNode], known: &Known) -> Result<(), AlgebraError> {
        let plan = self.plan;
        let graph = TaskGraph::of_part(plan, part, known)?;
        let order = schedule(&graph, plan.options.sites).order;
        let mut made: Vec<Option<Arc<Array>>> = vec![None; graph.len()];
        for id in order {
            let Some(task) = graph.task(id) else { continue };
            let tile = match task.kind {
                TaskKind::Load | TaskKind::Given => self.given(task.value, task.tile),
                TaskKind::Carry => made[task.inputs[0] as usize].clone(),
                _ => Some(Arc::new(self.compute(&graph, &task, &made)?)),
            };
            made[id as usize] = tile;
        }
        for output in graph.outputs() {
            for (tile, task) in &output.tiles {
                if let Some(array) = &made[*task as usize] {
                    self.store.insert((output.value, *tile), Arc::clone(array));
                }
            }
            if let Some(name) = &output.name {
                let whole = self.whole(output.value);
                self.saved.insert(name.clone(), whole);
            }
        }
        Ok(())
    }

    fn whole(&self, value: Slot) -> Array {
        let tiles = self.plan.tiles(value);
        let dims: Vec<usize> = tiles.dims.iter().map(|&n| n as usize).collect();
        let parts = self.tiles_of(value);
        Array::from_fn(self.plan.network.value(value).dtype, &dims, |at| {
            read_tile(&tiles, at, |tile| parts.get(tile).cloned())
        })
    }

    fn compute(
        &self,
        graph: &TaskGraph,
        task: &Task<'_>,
        made: &[Option<Arc<Array>>],
    ) -> Result<Array, AlgebraError> {
        let plan = self.plan;
        let value = plan.network.value(task.value);
        let tiles = plan.tiles(task.value);
        let at = tiles.coordinates(task.tile as usize);
        let shape: Vec<usize> = tiles.shape(&at).iter().map(|&n| n as usize).collect();
        let Made::Operator(number) = value.made else { return Array::new(value.dtype, shape, Vec::new()) };
        let operator = &plan.network.operators[number];
        let mut inputs: HashMap<(Slot, u32), Arc<Array>> = HashMap::new();
        for &input in task.inputs {
            if let (Some(from), Some(array)) = (graph.task(input), &made[input as usize]) {
                inputs.insert((from.value, from.tile), Arc::clone(array));
            }
        }
        if task.kind == TaskKind::Reduce {
            let parts: Vec<&Array> =
                task.inputs.iter().filter_map(|&input| made[input as usize].as_deref()).collect();
            return Ok(Array::from_fn(value.dtype, &shape, |at| {
                let mut items = parts.iter().map(|part| part.at(at));
                let first = items.next().unwrap_or(Scalar::I64(0).convert(value.dtype));
                items.fold(first, |a, b| combine(operator, a, b))
            }));
        }
        let kernel = Kernel { plan, known: graph.known(task.round), inputs };
        let tiled = Tiled::new(&plan.network, &plan.tiling, operator);
        let starts: Vec<i64> = at.iter().zip(&tiles.blocks).map(|(at, block)| (at * block) as i64).collect();
        let steps = plan.steps(number, &at, task.site, kernel.known);
        Ok(Array::from_fn(value.dtype, &shape, |inner| {
            let mut indices: Vec<i64> =
                inner.iter().zip(&starts).map(|(at, start)| *at as i64 + start).collect();
            let Some(fold) = &operator.fold else { return kernel.element(&operator.body, &indices) };
            let rank = indices.len();
            let mut result =
                fold.op.identity(value.dtype).unwrap_or(Scalar::F64(f64::NAN).convert(value.dtype));
            for step in &steps {
                let ranges: Vec<(i64, i64)> =
                    (rank..step.len()).map(|label| tiled.labels.range(label, step[label])).collect();
                let counts: Vec<u64> = ranges.iter().map(|(first, last)| (last - first + 1) as u64).collect();
                each_of(&counts, &mut |folded| {
                    indices.truncate(rank);
                    indices.extend(folded.iter().zip(&ranges).map(|(&at, (first, _))| at as i64 + first));
                    let counts =
                        fold.guard.as_ref().is_none_or(|guard| kernel.element(guard, &indices).is_true());
                    if counts {
                        result = combine(operator, result, kernel.element(&operator.body, &indices));
                    }
                });
            }
            result
        }))
    }
}

fn combine(operator: &Operator, a: Scalar, b: Scalar) -> Scalar {
    match operator.fold.as_ref().map(|fold| &fold.op) {
        Some(ReduceOp::Op(op)) => a.binary(*op, b),
        Some(ReduceOp::Function(function)) => {
            Scalar::F64(function.call(&[a.to_f64(), b.to_f64()])).convert(a.dtype())
        }
        None => b,
    }
}

/// An element of a tensor of which there are tiles; not a number where there is none.
fn read_tile(tiles: &Tiles, at: &[usize], tile: impl Fn(usize) -> Option<Arc<Array>>) -> Scalar {
    let coordinates: Vec<u64> = at.iter().zip(&tiles.blocks).map(|(&at, block)| at as u64 / block).collect();
    let inner: Vec<usize> = at.iter().zip(&tiles.blocks).map(|(&at, &block)| at % block as usize).collect();
    tile(tiles.number(&coordinates)).map_or(Scalar::F64(f64::NAN), |array| array.at(&inner))
}

/// Elements of one task.
struct Kernel<'a> {
    plan: &'a ProgramPlan,
    known: &'a Known,
    inputs: HashMap<(Slot, u32), Arc<Array>>,
}

impl Kernel<'_> {
    fn position(&self, at: &Affine, indices: &[i64]) -> i64 {
        at.value(|symbol| match symbol {
            Symbol::Index(index) => indices[index.0 as usize],
            Symbol::Slot(slot) => self.plan.network.known(slot, self.known).map_or(0, Scalar::to_i64),
        })
    }

    fn element(&self, element: &Element, indices: &[i64]) -> Scalar {
        let part = |part: &Element| self.element(part, indices);
        match &element.node {
            ElementNode::Constant(value) => *value,
            ElementNode::Position(at) => Scalar::I64(self.position(at, indices)),
            ElementNode::Read(slot, at) => {
                if let Some(known) = self.plan.network.known(*slot, self.known) {
                    return known;
                }
                let at: Vec<usize> = at.iter().map(|at| self.position(at, indices) as usize).collect();
                let tile = |tile| self.inputs.get(&(*slot, tile as u32)).cloned();
                read_tile(&self.plan.tiles(*slot), &at, tile)
            }
            ElementNode::Random(seed, at) => Scalar::F64(random(*seed, self.position(at, indices) as u64)),
            ElementNode::Convert(a) => part(a).convert(element.dtype),
            ElementNode::Unary(op, a) => part(a).unary(*op),
            ElementNode::Binary(op, a, b) => part(a).binary(*op, part(b)),
            ElementNode::Call(function, all) => {
                let all: Vec<f64> = all.iter().map(|a| part(a).to_f64()).collect();
                Scalar::F64(function.call(&all)).convert(element.dtype)
            }
            ElementNode::Where(c, a, b) => {
                if part(c).is_true() {
                    part(a)
                } else {
                    part(b)
                }
            }
            // Operators contain none.
            ElementNode::Reduce(_) => Scalar::F64(f64::NAN).convert(element.dtype),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
