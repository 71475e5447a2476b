//! Some threads for one piece of work.

use std::sync::Mutex;

use crate::pool::Pool;

/// The threads one call may use: its own, and some of a pool's.
#[derive(Clone, Copy, Debug)]
pub struct Team<'a> {
    pool: Option<&'a Pool>,
    threads: usize,
}

impl<'a> Team<'a> {
    pub(crate) fn of(pool: &'a Pool, threads: usize) -> Team<'a> {
        Team { pool: Some(pool), threads }
    }

    /// The calling thread alone.
    pub fn alone() -> Team<'static> {
        Team { pool: None, threads: 1 }
    }

    /// How many threads may take part, the calling one included.
    pub fn threads(self) -> usize {
        self.threads
    }

    /// The same team with no more than `most` threads (at least 1).
    pub fn at_most(self, most: usize) -> Team<'a> {
        Team { threads: self.threads.min(most.max(1)), ..self }
    }

    /// Calls `work` on the calling thread and at the same time on others that are free, and returns
    /// when all calls have. `work` takes what there is to do from something shared until nothing is
    /// left: how often it is called is not known beforehand. A panic in one call is passed on.
    pub fn run(self, work: &(dyn Fn() + Sync)) {
        match self.pool {
            Some(pool) if self.threads > 1 => pool.run(self.threads - 1, work),
            _ => work(),
        }
    }

    /// Calls `task` for every item and returns the results in the order of the items.
    pub fn map<I: Send, O: Send>(self, items: Vec<I>, task: impl Fn(I) -> O + Sync) -> Vec<O> {
        self.map_with(items, || (), |item, ()| task(item))
    }

    /// The same with tools that each thread makes for itself and uses again and again.
    pub fn map_with<I: Send, T, O: Send>(
        self,
        items: Vec<I>,
        tools: impl Fn() -> T + Sync,
        task: impl Fn(I, &mut T) -> O + Sync,
    ) -> Vec<O> {
        let team = self.at_most(items.len());
        if team.threads == 1 {
            let mut tools = tools();
            return items.into_iter().map(|item| task(item, &mut tools)).collect();
        }
        // Each thread takes several at once where there are many: few enough to share evenly.
        let at_once = (items.len() / (team.threads * 8)).clamp(1, 64);
        let mut results: Vec<(usize, Vec<O>)> = Vec::new();
        let count = items.len();
        let left = Mutex::new((0, items.into_iter()));
        let done = Mutex::new(&mut results);
        team.run(&|| {
            let mut tools = tools();
            loop {
                let (from, some) = {
                    let mut left = left.lock().unwrap_or_else(|e| e.into_inner());
                    let some: Vec<I> = left.1.by_ref().take(at_once).collect();
                    let from = left.0;
                    left.0 += some.len();
                    (from, some)
                };
                if some.is_empty() {
                    return;
                }
                let some: Vec<O> = some.into_iter().map(|item| task(item, &mut tools)).collect();
                done.lock().unwrap_or_else(|e| e.into_inner()).push((from, some));
            }
        });
        results.sort_unstable_by_key(|(from, _)| *from);
        let mut all = Vec::with_capacity(count);
        results.into_iter().for_each(|(_, some)| all.extend(some));
        all
    }
}
