//! `select` with sets of other sizes than the C library's.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use super::{SOON, receiver, record};

/// Words of so many descriptors.
fn words(count: i32) -> usize {
    count.unsigned_abs().div_ceil(64) as usize
}

fn put_in(set: &[AtomicU64], fd: i32) {
    set[words(fd + 1) - 1].fetch_or(1 << (fd % 64), SeqCst);
}

fn is_in(set: &[AtomicU64], fd: i32) -> bool {
    set[words(fd + 1) - 1].load(SeqCst) & 1 << (fd % 64) != 0
}

fn set_of(len: usize) -> Vec<AtomicU64> {
    std::iter::repeat_with(AtomicU64::default)
        .take(len)
        .collect()
}

fn select(count: i32, set: &[AtomicU64]) -> i32 {
    let mut time = libc::timeval {
        tv_sec: (SOON / 1000).into(),
        tv_usec: 0,
    };
    let at = set.as_ptr().cast_mut().cast();
    // SAFETY: a set of as many bits as the kernel takes for this count, and a time.
    unsafe { libc::select(count, at, null_mut(), null_mut(), &mut time) }
}

/// What is behind a set as short as its highest descriptor lets it be is left alone, also when waiting goes on.
pub fn short_set() {
    let (pair, record) = (receiver(), record());
    let count = pair.b() + 1;
    let (len, behind) = (words(count), words(count));
    let set = set_of(len + 1);
    put_in(&set, pair.b());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            set[behind].store(1, SeqCst);
            pair.put(&record[..20]);
            std::thread::sleep(Duration::from_millis(20));
            pair.put(&record[20..]);
        });
        assert_eq!(select(count, &set), 1);
    });
    assert!(is_in(&set, pair.b()));
    assert_eq!(set[behind].load(SeqCst), 1);
}

/// A count that is that of all descriptors that there may be: the kernel reads as much of a set as there are, and behind it may be nothing.
pub fn set_of_all_there_may_be() {
    const PAGE: usize = 4096;
    let (pair, record) = (receiver(), record());
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: two pages of our own, of which the second has no access; the set is at the end of the first.
    let set = unsafe {
        let pages = libc::mmap(null_mut(), 2 * PAGE, access, flags, -1, 0);
        assert_ne!(pages, libc::MAP_FAILED);
        assert_eq!(
            libc::mprotect(pages.byte_add(PAGE), PAGE, libc::PROT_NONE),
            0
        );
        let set = pages.byte_add(PAGE - size_of::<libc::fd_set>());
        std::slice::from_raw_parts(set.cast::<AtomicU64>(), 16)
    };
    put_in(set, pair.b());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pair.put(&record[..20]);
            std::thread::sleep(Duration::from_millis(20));
            pair.put(&record[20..]);
        });
        assert_eq!(select(1 << 20, set), 1);
    });
    assert!(is_in(set, pair.b()));
}

/// Descriptors that the C library's type has no bits for.
pub fn long_set() {
    const NUMBER: i32 = 1100;
    // SAFETY: a limit's place, borrowed for the calls.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(4096);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
    let (pair, other, record) = (receiver(), receiver(), record());
    // SAFETY: a new descriptor, which is ours.
    let high =
        unsafe { OwnedFd::from_raw_fd(libc::fcntl(other.b(), libc::F_DUPFD_CLOEXEC, NUMBER)) };
    let fd = high.as_raw_fd();
    assert!(fd >= NUMBER, "the limit of descriptors is too low for this");
    let set = set_of(words(fd + 1));
    put_in(&set, pair.b());
    put_in(&set, fd);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pair.put(&record[..20]);
            for part in [&record[..20], &record[20..]] {
                std::thread::sleep(Duration::from_millis(20));
                other.put(part);
            }
        });
        assert_eq!(select(fd + 1, &set), 1);
    });
    assert!(is_in(&set, fd) && !is_in(&set, pair.b()));
}
