//! The sets of descriptors of `select`: words of bits, as many as the call's highest descriptor needs. Programs have shorter and longer ones than the C
//! library's type.

use std::ffi::{c_int, c_ulong};

use libc::fd_set;
use rustix::fs::{Mode, OFlags};

const WORD: usize = c_ulong::BITS as usize;
/// Words of the C library's type.
const USUAL: usize = libc::FD_SETSIZE / WORD;

/// The sets of a call, and what they were.
pub(crate) struct Sets {
    at: [*mut c_ulong; 3],
    /// Words of each.
    len: usize,
    before: [[c_ulong; USUAL]; 3],
    /// In their place, if they are longer: a signal handler may call `select`, but may not allocate.
    longer: [Vec<c_ulong>; 3],
}

impl Sets {
    /// # Safety
    /// Each is null, or has as many bits as the kernel reads and writes there.
    pub(crate) unsafe fn of(at: [*mut fd_set; 3], count: c_int) -> Sets {
        let mut sets = Sets {
            at: at.map(|set| set.cast()),
            len: bits(count).div_ceil(WORD),
            before: [[0; USUAL]; 3],
            longer: [const { Vec::new() }; 3],
        };
        for set in 0..sets.at.len() {
            // SAFETY: as of the caller.
            let Some(now) = (unsafe { sets.words(set) }) else {
                continue;
            };
            match sets.before[set].get_mut(..now.len()) {
                Some(before) => before.copy_from_slice(now),
                None => sets.longer[set] = now.to_vec(),
            }
        }
        sets
    }

    /// For another call.
    pub(crate) fn put_back(&self) {
        for (set, (before, longer)) in self.before.iter().zip(&self.longer).enumerate() {
            // SAFETY: as of the caller of `of`.
            if let Some(now) = unsafe { self.words(set) } {
                let before = before.get(..now.len()).unwrap_or(longer);
                now.copy_from_slice(before);
            }
        }
    }

    /// Takes descriptors off that are not readable; gives how many bits are left of so many.
    pub(crate) fn truth(&self, mut ready: c_int, is_readable: impl Fn(c_int) -> bool) -> c_int {
        // SAFETY: as of the caller of `of`.
        let readable = unsafe { self.words(0) }.unwrap_or_default();
        for (word, first) in readable.iter_mut().zip((0..).step_by(WORD)) {
            let mut left = *word;
            while left != 0 {
                let at = left.trailing_zeros();
                left &= left - 1;
                if !is_readable(first + at as c_int) {
                    *word &= !(1 << at);
                    ready -= 1;
                }
            }
        }
        ready
    }

    /// # Safety
    /// As for [`of`](Self::of); no other borrow of this set.
    unsafe fn words<'a>(&self, set: usize) -> Option<&'a mut [c_ulong]> {
        let at = self.at[set];
        // SAFETY: as of the caller.
        (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts_mut(at, self.len) })
    }
}

/// Bits that the kernel reads and writes of a set for so many descriptors: no more than its table of them has places. Programs that say how many there may
/// be (`getdtablesize`) have shorter sets.
fn bits(count: c_int) -> usize {
    match usize::try_from(count).unwrap_or(0) {
        count @ 0..=libc::FD_SETSIZE => count,
        count => count.min(places().unwrap_or(libc::FD_SETSIZE)),
    }
}

/// Places of this process's table of descriptors (proc_pid_status(5), `FDSize`).
fn places() -> Option<usize> {
    const NAME: &[u8] = b"FDSize:";
    // It is among the first lines.
    let mut text = [0; 1024];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let status = rustix::fs::open(c"/proc/thread-self/status", flags, Mode::empty()).ok()?;
    let len = rustix::io::read(&status, &mut text).ok()?;
    let mut lines = text[..len].split(|byte| *byte == b'\n');
    let places = lines.find_map(|line| line.strip_prefix(NAME))?;
    std::str::from_utf8(places).ok()?.trim().parse().ok()
}
