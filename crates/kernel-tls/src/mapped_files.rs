//! Files as memory. A mapping is kept for a while: making one costs as much as sending 100 KiB from it.
//!
//! What is in the memory is looked at by the kernel only, on our behalf: a page that is no longer of the file is an error of that call then, no signal.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::Stat;

use crate::fork_lock::{ForkGuard, ForkLock};

/// A file is mapped in windows of this many bytes.
pub(crate) const WINDOW: u64 = 64 << 20;
/// Mappings that are kept at the most, and how long an unused one is.
const MOST: usize = 512;
const IDLE: Duration = Duration::from_secs(2);

/// A window of a file, which the kernel reads.
#[derive(Debug)]
pub(crate) struct Window(MmapRaw);

impl Window {
    /// Address of a place in the window.
    pub(crate) fn at(&self, offset: usize) -> *const u8 {
        debug_assert!(offset < self.0.len());
        self.0.as_ptr().wrapping_add(offset)
    }
}

/// Device, inode, and which window.
type Key = (u64, u64, u64);

#[derive(Debug)]
struct Kept {
    window: Arc<Window>,
    used: Instant,
}

#[derive(Debug)]
struct Windows {
    process: u32,
    kept: BTreeMap<Key, Kept>,
}

static WINDOWS: ForkLock<Windows> = ForkLock::new(Windows {
    process: 0,
    kept: BTreeMap::new(),
});

fn lock() -> ForkGuard<'static, Windows> {
    let me = crate::process::id();
    let mut windows = WINDOWS.lock();
    if windows.process != me {
        // A parent's list may be from the middle of a change: it is not looked at.
        let own = Windows {
            process: me,
            kept: BTreeMap::new(),
        };
        std::mem::forget(std::mem::replace(&mut *windows, own));
    }
    windows
}

/// The window that holds the byte at `offset`, as far as the file goes; `None` for what can't be mapped.
pub(crate) fn window(file: BorrowedFd<'_>, stat: &Stat, offset: u64) -> Option<Arc<Window>> {
    let number = offset / WINDOW;
    let start = number * WINDOW;
    let len = (stat.st_size as u64).checked_sub(start)?.min(WINDOW) as usize;
    let key = (stat.st_dev, stat.st_ino, number);
    let now = Instant::now();
    if let Some(kept) = lock().kept.get_mut(&key)
        && kept.window.0.len() >= len
    {
        kept.used = now;
        return Some(Arc::clone(&kept.window));
    }
    let mut options = MmapOptions::new();
    let mapped = options.offset(start).len(len).map_raw_read_only(&file);
    let window = Arc::new(Window(mapped.ok()?));
    let kept = Kept {
        window: Arc::clone(&window),
        used: now,
    };
    let mut windows = lock();
    let replaced = windows.kept.insert(key, kept);
    let mut oldest = None;
    if windows.kept.len() > MOST {
        let by_age = windows.kept.iter().min_by_key(|(_, kept)| kept.used);
        let key = by_age.map(|(key, _)| *key);
        oldest = key.and_then(|key| windows.kept.remove(&key));
    }
    // Unmapping takes a while: not under the lock.
    drop(windows);
    drop((replaced, oldest));
    crate::flusher::wake();
    Some(window)
}

/// The library's thread: lets go of what was not used for a while. How long until there is more, if there is any.
pub(crate) fn let_go() -> Option<Duration> {
    let now = Instant::now();
    let mut windows = lock();
    let idle = |kept: &Kept| now.duration_since(kept.used) >= IDLE;
    let mut gone = Vec::new();
    while let Some(key) = windows
        .kept
        .iter()
        .find(|(_, kept)| idle(kept))
        .map(|(key, _)| *key)
    {
        gone.extend(windows.kept.remove(&key));
    }
    let any = !windows.kept.is_empty();
    drop(windows);
    any.then_some(IDLE)
}
