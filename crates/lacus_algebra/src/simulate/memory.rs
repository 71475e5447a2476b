//! What each site holds, when the order of everything is known.

use super::SiteLoad;
use crate::schedule::Schedule;
use crate::site_set::SiteSets;
use crate::task_graph::{TaskGraph, TaskId, TaskKind};
use std::collections::BTreeSet;

/// Where a tile is when a task needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// On the site.
    Here,
    /// It was, and has been put aside.
    Aside,
    /// On another site.
    Away,
}

/// No further use.
const NEVER: u32 = u32::MAX;

/// Copies of tiles on sites. Each is a row: when it is needed, and whether it is there.
pub(super) struct Memory {
    budget: u64,
    on: SiteSets,
    /// The first copy of each task's tile.
    first: Vec<u32>,
    is_load: Vec<bool>,
    /// Of each copy: when it is needed, in order; and how many of these are over.
    uses: Vec<u32>,
    use_ends: Vec<u32>,
    used: Vec<u32>,
    state: Vec<State>,
    /// What each site holds.
    held: Vec<u64>,
    /// Copies on each site by when they are needed next, only while there is a budget.
    next: Vec<BTreeSet<(u32, u32, TaskId)>>,
    sizes: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Here,
    Aside { on_disk: bool },
    HereAndOnDisk,
}

impl Memory {
    pub(super) fn new(graph: &TaskGraph, schedule: &Schedule, sites: u64, budget: Option<u64>) -> Memory {
        let mut on = SiteSets::new(graph.len(), sites);
        for (id, task) in graph.tasks().enumerate() {
            on.insert(id, u64::from(task.site));
            task.inputs.iter().for_each(|&input| on.insert(input as usize, u64::from(task.site)));
        }
        let mut first = Vec::with_capacity(graph.len());
        let mut count = 0u32;
        for id in 0..graph.len() {
            first.push(count);
            count += on.count(id);
        }
        let mut memory = Memory {
            budget: budget.unwrap_or(u64::MAX),
            on,
            first,
            is_load: graph.tasks().map(|task| task.kind == TaskKind::Load).collect(),
            uses: Vec::new(),
            use_ends: vec![0; count as usize + 1],
            used: vec![0; count as usize],
            state: vec![State::Absent; count as usize],
            held: vec![0; sites as usize],
            next: vec![BTreeSet::new(); sites as usize],
            sizes: vec![0; count as usize],
        };
        memory.count_uses(graph, schedule);
        memory
    }

    /// Reads of a tile are uses of the copy on that site; the first of another site also uses the owner's.
    fn count_uses(&mut self, graph: &TaskGraph, schedule: &Schedule) {
        for pass in 0..2 {
            let mut sent = SiteSets::new(graph.len(), self.held.len() as u64);
            for (now, &id) in schedule.order.iter().enumerate() {
                let Some(task) = graph.task(id) else { continue };
                for &input in task.inputs {
                    let owner = graph.task(input).map_or(task.site, |from| from.site);
                    let mut copies = [Some(self.copy(input, task.site as usize)), None];
                    if owner != task.site && !sent.contains(input as usize, u64::from(task.site)) {
                        sent.insert(input as usize, u64::from(task.site));
                        copies[1] = Some(self.copy(input, owner as usize));
                    }
                    for copy in copies.into_iter().flatten() {
                        if pass == 0 {
                            self.use_ends[copy] += 1;
                        } else {
                            let end = self.use_ends[copy] as usize;
                            self.uses[end] = now as u32;
                            self.use_ends[copy] += 1;
                        }
                    }
                }
            }
            if pass == 0 {
                // Starts, which the second pass moves to ends.
                let mut start = 0;
                for end in &mut self.use_ends {
                    (*end, start) = (start, start + *end);
                }
                self.uses = vec![0; start as usize];
            }
        }
    }

    fn copy(&self, id: TaskId, site: usize) -> usize {
        let row = self.on.row(id as usize);
        let (word, bit) = (site / 64, site % 64);
        let before: u32 = row[..word].iter().map(|word| word.count_ones()).sum();
        let within = (row[word] & ((1u64 << bit) - 1)).count_ones();
        (self.first[id as usize] + before + within) as usize
    }

    fn next_use(&self, copy: usize) -> u32 {
        let start = copy.checked_sub(1).map_or(0, |before| self.use_ends[before]);
        let at = start + self.used[copy];
        if at < self.use_ends[copy] { self.uses[at as usize] } else { NEVER }
    }

    /// Holds the tile that a task makes: it cannot be put aside until the task is done.
    pub(super) fn start(&mut self, id: TaskId, site: usize, now: usize, bytes: u64, load: &mut SiteLoad) {
        self.hold(id, site, now, bytes, load);
        let copy = self.copy(id, site);
        let next = self.next_use(copy);
        self.next[site].remove(&(next, copy as u32, id));
    }

    /// Makes room for a tile and holds it.
    pub(super) fn hold(&mut self, id: TaskId, site: usize, now: usize, bytes: u64, load: &mut SiteLoad) {
        let copy = self.copy(id, site);
        if matches!(self.state[copy], State::Here | State::HereAndOnDisk) {
            return;
        }
        self.sizes[copy] = bytes;
        self.held[site] += bytes;
        self.state[copy] = match self.state[copy] {
            State::Aside { on_disk: true } => State::HereAndOnDisk,
            _ => State::Here,
        };
        if self.budget != u64::MAX {
            self.make_room(site, now, copy, load);
            let next = self.next_use(copy);
            self.next[site].insert((next, copy as u32, id));
        }
        load.peak_bytes = load.peak_bytes.max(self.held[site]);
    }

    /// Puts aside what is needed last, until all fits or only what is needed now is left.
    fn make_room(&mut self, site: usize, now: usize, keep: usize, load: &mut SiteLoad) {
        while self.held[site] > self.budget {
            let Some(&(next, copy, id)) = self.next[site].last() else { return };
            if next <= now as u32 || copy as usize == keep {
                return;
            }
            self.next[site].remove(&(next, copy, id));
            let (copy, bytes) = (copy as usize, self.sizes[copy as usize]);
            self.held[site] -= bytes;
            let on_disk = !self.is_load[id as usize];
            if on_disk && self.state[copy] == State::Here {
                load.spilled_bytes += u128::from(bytes);
            }
            self.state[copy] = State::Aside { on_disk };
        }
    }

    /// A tile that a task needs now.
    pub(super) fn fetch(
        &mut self,
        id: TaskId,
        site: usize,
        now: usize,
        bytes: u64,
        load: &mut SiteLoad,
    ) -> Keeping {
        let copy = self.copy(id, site);
        let found = match self.state[copy] {
            State::Here | State::HereAndOnDisk => return Keeping::Here,
            State::Aside { .. } => {
                load.reread_bytes += u128::from(bytes);
                Keeping::Aside
            }
            State::Absent => Keeping::Away,
        };
        self.hold(id, site, now, bytes, load);
        found
    }

    /// One use of a copy is over; after the last one it is gone.
    pub(super) fn release(&mut self, id: TaskId, site: usize, bytes: u64) {
        let copy = self.copy(id, site);
        let before = self.next_use(copy);
        self.used[copy] += 1;
        let is_here = matches!(self.state[copy], State::Here | State::HereAndOnDisk);
        let after = self.next_use(copy);
        if self.budget != u64::MAX
            && is_here
            && self.next[site].remove(&(before, copy as u32, id))
            && after != NEVER
        {
            self.next[site].insert((after, copy as u32, id));
        }
        if after == NEVER {
            if is_here {
                self.held[site] -= bytes;
            }
            self.state[copy] = State::Absent;
        }
    }

    /// A task is done: what nobody reads has been written out.
    pub(super) fn settle(&mut self, id: TaskId, site: usize, bytes: u64) {
        let copy = self.copy(id, site);
        if self.next_use(copy) == NEVER && matches!(self.state[copy], State::Here | State::HereAndOnDisk) {
            self.held[site] -= bytes;
            self.state[copy] = State::Absent;
        } else if self.budget != u64::MAX {
            let next = self.next_use(copy);
            self.next[site].insert((next, copy as u32, id));
        }
    }
}
