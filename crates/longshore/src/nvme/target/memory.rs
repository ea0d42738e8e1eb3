//! How much memory this process can have.

use std::fs;
use std::path::Path;

/// Bytes that programs can have without swapping: what the machine has available, or less if a control group of this process allows less.
pub(super) fn available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let of_machine = of_meminfo(&meminfo)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_group = of_groups(Path::new("/sys/fs/cgroup"), &groups);
    Some(of_group.map_or(of_machine, |bytes| bytes.min(of_machine)))
}

/// `MemAvailable` of proc(5).
fn of_meminfo(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib = value.trim().strip_suffix("kB")?.trim();
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

/// What is left of `memory.max` in the group of cgroups(7), version 2, that `/proc/self/cgroup` names, and in those above it.
fn of_groups(root: &Path, membership: &str) -> Option<u64> {
    let path = membership
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))?;
    let group = root.join(path);
    let groups = group
        .ancestors()
        .take_while(|group| group.starts_with(root));
    groups.filter_map(left_in).min()
}

fn left_in(group: &Path) -> Option<u64> {
    let number = |file: &str| {
        let text = fs::read_to_string(group.join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    // It is `max` where there is no limit.
    let limit = number("memory.max")?;
    // Caches can be given back.
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = stat
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file "));
    let cached: u64 = cached.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let used = number("memory.current").unwrap_or(0).saturating_sub(cached);
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_is_available() {
        let text = "MemTotal:       24643284 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(of_meminfo(text), Some(23_000_000 << 10));
        assert!(available().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn the_narrowest_group_counts_less_what_is_in_use() {
        let root = std::env::temp_dir().join(format!("longshore-groups-{}", std::process::id()));
        let group = root.join("a/b");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(of_groups(&root, "0::/a/b\n"), None);
        for (file, text) in [
            ("memory.max", "1000000\n"),
            ("memory.current", "300000\n"),
            ("memory.stat", "anon 200000\ninactive_file 50000\n"),
        ] {
            fs::write(root.join("a").join(file), text).unwrap();
        }
        assert_eq!(of_groups(&root, "1:name=x:/y\n0::/a/b\n"), Some(750_000));
        fs::write(group.join("memory.max"), "4096\n").unwrap();
        assert_eq!(of_groups(&root, "0::/a/b\n"), Some(4096));
        fs::remove_dir_all(&root).unwrap();
    }
}
