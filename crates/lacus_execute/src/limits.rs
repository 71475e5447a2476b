//! What the machine has.

/// Half of the memory that this process may use: of the machine's, or of its control group's if that is less.
pub fn default_memory_bytes() -> u64 {
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

/// As many workers as there are cores.
pub fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
