//! How much memory a stack may have.

use std::fs;

use crate::size;

/// The least that a stack works with.
pub const LEAST: u64 = 32 << 20;
/// What a stack has at least, unless it is told otherwise, and at most.
const SHARE: (u64, u64) = (128 << 20, 1 << 30);

/// The value of `--memory`.
///
/// # Errors
/// What is wrong with the text, and what to give instead.
pub fn parse(text: &str) -> Result<u64, String> {
    size::parse_between(text, LEAST, (available() / 2).max(LEAST))
}

/// What a stack has unless it is told otherwise: a share of the machine's memory.
pub fn share() -> u64 {
    (available() / 8).clamp(SHARE.0, SHARE.1)
}

/// Bytes that the machine has, or this process's control group may have.
pub fn available() -> u64 {
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max");
    let limit = limit.ok().and_then(|text| text.trim().parse().ok());
    // SAFETY: it asks for two numbers.
    let [pages, page] =
        [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    let machine = u64::try_from(pages).unwrap_or(0) * u64::try_from(page).unwrap_or(0);
    machine.min(limit.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{available, parse, share};

    #[test]
    fn the_share_is_within_its_bounds_and_may_be_given() {
        assert!((128 << 20..=1 << 30).contains(&share()));
        assert!(available() > 0);
        assert_eq!(parse("64M"), Ok(64 << 20));
        assert!(parse("1M").unwrap_err().contains("32 MiB"));
    }
}
