//! What the machine has.

use lacus_threads::Pool;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long it is taken for granted what a machine has: finding out takes longer than a small program.
const GRANTED: Duration = Duration::from_secs(1);

/// What was found, and when.
struct Recent<T>(Mutex<Option<(Instant, T)>>);

impl<T: Copy> Recent<T> {
    const fn new() -> Recent<T> {
        Recent(Mutex::new(None))
    }

    /// What was found a moment ago, or is found now.
    fn get(&self, find: impl FnOnce() -> T) -> T {
        let mut recent = self.0.lock().unwrap_or_else(|e| e.into_inner());
        match *recent {
            Some((when, found)) if when.elapsed() < GRANTED => found,
            _ => recent.insert((Instant::now(), find())).1,
        }
    }
}

/// Half of the memory that this process may use: of the machine's, or of its control group's if that is less.
pub fn default_memory_bytes() -> u64 {
    static RECENT: Recent<u64> = Recent::new();
    RECENT.get(half_of_memory)
}

fn half_of_memory() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    });
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| read(path)?.trim().parse::<u64>().ok());
    // A machine that does not say has four gigabytes at least.
    let all = total.unwrap_or(4 << 30);
    group.map_or(all, |group| group.min(all)) / 2
}

/// As many workers as the process's pool has threads.
pub fn default_workers() -> usize {
    Pool::process().threads()
}
