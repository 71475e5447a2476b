//! Units: the steps of tasks, each of which one worker does at a stretch, in the order in which they are best done.
//!
//! ```text
//! C[0,0] = Σ A[0,k] B[k,0]      unit 0: A[0,0] B[0,0]   unit 1: A[0,1] B[1,0]   …   then the result is handed out
//! ```
//!
//! A unit follows the one before it of the same task, and those that make what it reads. The order is one walk, depth
//! first from what is asked for: what is started is finished soon, what is read is read again soon.

use crate::fuse::{Fused, Fusing};
use crate::region::labels_of;
use lacus_algebra::expr::{Affine, Element, ElementNode, Slot, Symbol};
use lacus_algebra::{
    AlgebraError, FlowNode, Known, Made, Operator, ProgramPlan, Task, TaskGraph, TaskId, TaskKind, Tiles,
};
use std::collections::HashMap;

/// What a unit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Makes a tile from others.
    Apply,
    /// Folds one step into a tile.
    Accumulate,
    /// Folds one contribution into a tile.
    Combine,
    /// Takes a tile that is there under another name.
    Carry,
    /// Hands a tile out as part of a result.
    Emit(u32),
}

/// One thing for one worker.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) doing: Doing,
    /// The task whose tile it makes, or hands out.
    pub(crate) task: TaskId,
    /// The first and the last one of its task: the tile is begun, the tile is done.
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    /// Coordinates along all labels of the operator.
    pub(crate) step: Vec<u64>,
    /// The tasks whose tiles it reads.
    pub(crate) inputs: Vec<TaskId>,
    /// Formulas that finish the tile in place, see [`Fused`]. The last of the inputs are what they read.
    pub(crate) then: Vec<TaskId>,
    pub(crate) read_by_then: usize,
}

impl Unit {
    /// What it reads by itself, and what the formulas that finish it read: each tile once.
    pub(crate) fn reads(&self) -> (Vec<TaskId>, Vec<TaskId>) {
        let (own, then) = self.inputs.split_at(self.inputs.len() - self.read_by_then);
        let (mut own, mut then) = (own.to_vec(), then.to_vec());
        own.sort_unstable();
        own.dedup();
        then.sort_unstable();
        then.dedup();
        then.retain(|task| own.binary_search(task).is_err());
        (own, then)
    }

    /// Bytes that it needs, if tiles take so many.
    pub(crate) fn need(&self, beside: Beside, mut bytes: impl FnMut(TaskId) -> u64) -> u64 {
        let (own, then) = self.reads();
        let mut of = |all: Vec<TaskId>| -> u64 { all.into_iter().map(&mut bytes).sum() };
        let (mut need, then) = (of(own), of(then));
        if !matches!(self.doing, Doing::Emit(_)) {
            // What is put together from several tiles, or computed before it is multiplied.
            if !beside.is_plain {
                need *= 2;
            }
            need += bytes(self.task) + beside.bytes;
        }
        need + then
    }
}

/// The units of a graph in order, and what they wait for.
pub(crate) struct Units {
    pub(crate) all: Vec<Unit>,
    /// Units that each unit waits for, counted.
    pub(crate) waits: Vec<u32>,
    /// Units that wait for each unit.
    pub(crate) followers: Vec<Vec<u32>>,
    /// Where in the order each task's tile is used.
    pub(crate) uses: Vec<Vec<u32>>,
    /// Tasks that are done at one go.
    pub(crate) fused: Fused,
}

/// Which tiles the reads of an operator need, without looking for them.
fn reads_one_tile_each(plan: &ProgramPlan, operator: &Operator) -> bool {
    let labels = plan.label_tiles(operator);
    operator.reads.iter().all(|read| {
        let dims = &plan.network.value(read.value).dims;
        let own = |(at, extent): (&Affine, &u64)| {
            at.as_index().is_some_and(|index| labels.dims[index.0 as usize] == *extent)
        };
        read.under.is_empty() && read.at.iter().zip(dims).all(own)
    })
}

/// What a unit needs beside the tiles that it reads and makes.
#[derive(Clone, Copy)]
pub(crate) struct Beside {
    /// Each of its reads needs one tile, as it is.
    is_plain: bool,
    /// Bytes of reads that go beyond their tensors, see [`locate`](crate::region::locate).
    bytes: u64,
}

impl Beside {
    /// Of units that only hand on.
    pub(crate) const NOTHING: Beside = Beside { is_plain: true, bytes: 0 };

    /// Of units of an operator.
    pub(crate) fn of(plan: &ProgramPlan, operator: &Operator) -> Beside {
        let labels = plan.label_tiles(operator);
        let beyond = operator.reads.iter().filter(|read| {
            let dims = &plan.network.value(read.value).dims;
            let is_short = |(at, &extent): (&Affine, &u64)| {
                let ends = at.range(|symbol| match symbol {
                    Symbol::Index(index) => (0, labels.dims[index.0 as usize].max(1) as i64 - 1),
                    Symbol::Slot(_) => (0, 0),
                });
                ends.1 - ends.0 >= i128::from(extent)
            };
            !read.under.is_empty() && read.at.iter().zip(dims).any(is_short)
        });
        let bytes = beyond.map(|read| {
            let places: u64 = labels_of(&read.at).iter().map(|&label| labels.blocks[label]).product();
            2 * places.saturating_add(512) * plan.network.value(read.value).dtype.size_bytes() as u64
        });
        Beside { is_plain: reads_one_tile_each(plan, operator), bytes: bytes.sum() }
    }
}

/// True when what is read or left out depends on counters, so that every round has units of its own.
pub(crate) fn depends_on_counters(plan: &ProgramPlan, part: &[FlowNode]) -> bool {
    let has_slots = |at: &Affine| at.factors().any(|(symbol, _)| matches!(symbol, Symbol::Slot(_)));
    fn within(element: &Element, has: &dyn Fn(&Affine) -> bool) -> bool {
        element.positions().iter().any(has)
            || matches!(element.node, ElementNode::Read(..))
            || element.parts().into_iter().any(|part| within(part, has))
    }
    part.iter().any(|node| match node {
        FlowNode::Operator(at) => {
            let operator = &plan.network.operators[*at];
            let guard = operator.fold.as_ref().and_then(|fold| fold.guard.as_ref());
            operator.reads.iter().any(|read| {
                read.at.iter().any(has_slots)
                    || read.under.iter().any(|(condition, _)| within(condition, &has_slots))
            }) || guard.is_some_and(|guard| within(guard, &has_slots))
        }
        _ => false,
    })
}

impl Units {
    /// The units of a graph. Tasks are done at one go only if the tiles of all of them are not too much at once.
    pub(crate) fn that_fit(
        plan: &ProgramPlan,
        graph: &TaskGraph,
        fusing: &Fusing<'_>,
        fits: impl Fn(&Unit) -> bool,
    ) -> Result<Units, AlgebraError> {
        let units = Units::of(plan, graph, fusing)?;
        if units.all.iter().filter(|unit| !unit.then.is_empty()).all(fits) {
            return Ok(units);
        }
        Units::of(plan, graph, &Fusing { is_off: true, ..*fusing })
    }

    /// The units of a graph.
    pub(crate) fn of(
        plan: &ProgramPlan,
        graph: &TaskGraph,
        fusing: &Fusing<'_>,
    ) -> Result<Units, AlgebraError> {
        let mut builder = Builder {
            plan,
            graph,
            labels: HashMap::new(),
            units: Units {
                all: Vec::new(),
                waits: Vec::new(),
                followers: Vec::new(),
                uses: vec![Vec::new(); graph.len()],
                fused: Fused::of(plan, graph, fusing),
            },
            last: vec![NONE; graph.len()],
            is_begun: vec![false; graph.len()],
        };
        for (output, found) in graph.outputs().iter().enumerate() {
            for &(_, task) in &found.tiles {
                builder.task(task)?;
                if found.name.is_some() {
                    let doing = Doing::Emit(output as u32);
                    builder.push(Unit {
                        doing,
                        task,
                        is_first: true,
                        is_last: true,
                        step: Vec::new(),
                        inputs: vec![task],
                        then: Vec::new(),
                        read_by_then: 0,
                    });
                }
            }
        }
        // What a loop carries on may be read by nobody yet.
        for task in 0..graph.len() as TaskId {
            builder.task(task)?;
        }
        Ok(builder.units)
    }
}

const NONE: u32 = u32::MAX;

struct Builder<'a> {
    plan: &'a ProgramPlan,
    graph: &'a TaskGraph,
    /// Per operator: the tiles of its labels, and whether each read needs one tile.
    labels: HashMap<Slot, (usize, Tiles, bool)>,
    units: Units,
    /// The unit that finishes each task.
    last: Vec<u32>,
    is_begun: Vec<bool>,
}

struct Frame {
    steps: Vec<Unit>,
    /// The next step, and the next of its inputs.
    step: usize,
    input: usize,
}

impl Builder<'_> {
    fn push(&mut self, unit: Unit) {
        let position = self.units.all.len() as u32;
        let mut before: Vec<u32> = Vec::with_capacity(unit.inputs.len() + 1);
        for &input in &unit.inputs {
            self.units.uses[input as usize].push(position);
            let maker = self.last[input as usize];
            if maker != NONE && !before.contains(&maker) {
                before.push(maker);
            }
        }
        if !unit.is_first {
            // The step before it, which is not the last of its task yet.
            let own = self.last[unit.task as usize];
            if !before.contains(&own) {
                before.push(own);
            }
        }
        if !matches!(unit.doing, Doing::Emit(_)) {
            for &task in unit.then.iter().chain([&unit.task]) {
                self.last[task as usize] = position;
            }
        }
        self.units.waits.push(before.len() as u32);
        self.units.followers.push(Vec::new());
        for unit in before {
            self.units.followers[unit as usize].push(position);
        }
        self.units.all.push(unit);
    }

    /// A task and all that it needs.
    fn task(&mut self, root: TaskId) -> Result<(), AlgebraError> {
        let mut open = Vec::new();
        self.open(root, &mut open)?;
        while let Some(frame) = open.last_mut() {
            let Some(step) = frame.steps.get(frame.step) else {
                open.pop();
                continue;
            };
            if let Some(&input) = step.inputs.get(frame.input) {
                frame.input += 1;
                self.open(input, &mut open)?;
                continue;
            }
            let unit = step.clone();
            (frame.step, frame.input) = (frame.step + 1, 0);
            self.push(unit);
        }
        Ok(())
    }

    fn open(&mut self, id: TaskId, open: &mut Vec<Frame>) -> Result<(), AlgebraError> {
        if std::mem::replace(&mut self.is_begun[id as usize], true) {
            return Ok(());
        }
        let head = self.units.fused.head(id);
        if head != id {
            return self.open(head, open);
        }
        if let Some(task) = self.graph.task(id) {
            let mut steps = self.steps(id, &task)?;
            if let Some(last) = steps.last_mut() {
                self.finish(id, last);
            }
            if !steps.is_empty() {
                open.push(Frame { steps, step: 0, input: 0 });
            }
        }
        Ok(())
    }

    /// The formulas that finish what a task makes, and what they read.
    fn finish(&mut self, id: TaskId, last: &mut Unit) {
        let mut own = id;
        for then in self.units.fused.after(id) {
            self.is_begun[then as usize] = true;
            if let Some(task) = self.graph.task(then) {
                let before = last.inputs.len();
                last.inputs.extend(task.inputs.iter().filter(|&&input| input != own));
                last.read_by_then += last.inputs.len() - before;
            }
            last.then.push(then);
            own = then;
        }
    }

    fn steps(&mut self, id: TaskId, task: &Task<'_>) -> Result<Vec<Unit>, AlgebraError> {
        let unit = |doing, step, inputs: Vec<TaskId>| Unit {
            doing,
            task: id,
            is_first: false,
            is_last: false,
            step,
            inputs,
            then: Vec::new(),
            read_by_then: 0,
        };
        let mut all = match task.kind {
            TaskKind::Load | TaskKind::Given => Vec::new(),
            TaskKind::Carry => vec![unit(Doing::Carry, Vec::new(), task.inputs.to_vec())],
            TaskKind::Apply => {
                let coordinates = self.plan.tiles(task.value).coordinates(task.tile as usize);
                vec![unit(Doing::Apply, coordinates, task.inputs.to_vec())]
            }
            TaskKind::Reduce => {
                task.inputs.iter().map(|&input| unit(Doing::Combine, Vec::new(), vec![input])).collect()
            }
            TaskKind::Accumulate => self.accumulation(id, task),
        };
        if let Some(first) = all.first_mut() {
            first.is_first = true;
        }
        if let Some(last) = all.last_mut() {
            last.is_last = true;
        }
        Ok(all)
    }

    fn accumulation(&mut self, id: TaskId, task: &Task<'_>) -> Vec<Unit> {
        let plan = self.plan;
        let Made::Operator(number) = plan.network.value(task.value).made else { return Vec::new() };
        let operator = &plan.network.operators[number];
        let (_, _, is_plain) = self
            .labels
            .entry(task.value)
            .or_insert_with(|| (number, plan.label_tiles(operator), reads_one_tile_each(plan, operator)));
        let known: &Known = self.graph.known(task.round);
        let coordinates = plan.tiles(task.value).coordinates(task.tile as usize);
        let steps = plan.steps(number, &coordinates, task.site, known);
        let mut all = Vec::with_capacity(steps.len());
        let mut next = 0;
        for step in steps {
            let count = match is_plain {
                true => operator.reads.len(),
                false => {
                    (0..operator.reads.len()).map(|read| plan.touched(number, read, &step, known).len()).sum()
                }
            };
            let inputs = task.inputs[next..next + count].to_vec();
            next += count;
            all.push(Unit {
                doing: Doing::Accumulate,
                task: id,
                is_first: false,
                is_last: false,
                step,
                inputs,
                then: Vec::new(),
                read_by_then: 0,
            });
        }
        if all.is_empty() {
            // Nothing counts: the tile is what nothing folds to.
            let step = vec![u64::MAX; operator.labels().len()];
            all.push(Unit {
                doing: Doing::Accumulate,
                task: id,
                is_first: false,
                is_last: false,
                step,
                inputs: Vec::new(),
                then: Vec::new(),
                read_by_then: 0,
            });
        }
        all
    }
}
