//! How much memory this process can still get.

use std::fs;

/// Bytes that can be had without swapping others out, or what is left of the control group's limit if that is less. `None`
/// where nobody says.
pub fn available_bytes() -> Option<u64> {
    let machine = machine(&fs::read_to_string("/proc/meminfo").ok()?);
    let group = group();
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (one, other) => one.or(other),
    }
}

/// Memory that is free or can be freed, and free swap.
fn machine(text: &str) -> Option<u64> {
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    Some(of("MemAvailable")? + of("SwapFree").unwrap_or(0))
}

/// What the control group of this process has left, cached files not counted.
fn group() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A container sees its own group as the root.
    let root = "/sys/fs/cgroup";
    let directories = [format!("{root}{}", path.trim_end_matches('/')), root.to_owned()];
    directories.iter().find_map(|directory| {
        let read = |name: &str| fs::read_to_string(format!("{directory}/{name}")).ok();
        let limit = read("memory.max")?.trim().parse().ok()?;
        Some(left(limit, read("memory.current")?.trim().parse().ok()?, &read("memory.stat")?))
    })
}

fn left(limit: u64, used: u64, stat: &str) -> u64 {
    let cached = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let files = cached("inactive_file") + cached("active_file");
    limit.saturating_sub(used.saturating_sub(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says_is_understood() {
        let text = "MemTotal:  100 kB\nMemAvailable:   64 kB\nSwapFree:  8 kB\n";
        assert_eq!(machine(text), Some(72 << 10));
        assert_eq!(machine("MemTotal: 1 kB"), None);
        let stat = "anon 10\ninactive_file 30\nactive_file 5\nactive_file_more 99\n";
        assert_eq!(left(1000, 500, stat), 535);
        assert_eq!(left(1000, 2000, stat), 0);
        #[cfg(target_os = "linux")]
        assert!(available_bytes().is_some_and(|bytes| bytes > 0));
    }
}
