//! How much memory there is, and how people write amounts of it.

use std::fs;

/// Bytes as people write them: `1000000`, `512M`, `2GiB`. `None` for anything else, and for nothing.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let power = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << power).filter(|bytes| *bytes > 0)
}

/// The machine's memory, or what the control group of this process allows if that is less. `None` where
/// nobody says.
pub(crate) fn machine_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok();
    let machine = text.as_deref().and_then(total);
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|limit| limit.trim().parse().ok());
    match (machine, group) {
        (Some(machine), Some(group)) => Some(std::cmp::min::<u64>(machine, group)),
        (one, other) => one.or(other),
    }
}

fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_understood() {
        let cases = [
            ("1000", Some(1000)),
            (" 512M ", Some(512 << 20)),
            ("2GiB", Some(2 << 30)),
            ("3 kb", Some(3 << 10)),
            ("0", None),
            ("", None),
            ("M", None),
            ("-1", None),
            ("1.5G", None),
            ("99999999T", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text:?}");
        }
        assert_eq!(total("MemFree: 1 kB\nMemTotal:  100 kB\n"), Some(100 << 10));
        #[cfg(target_os = "linux")]
        assert!(machine_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
