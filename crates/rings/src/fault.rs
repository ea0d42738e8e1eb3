//! A file that shrinks while it is mapped raises SIGBUS in the thread that reads the lost pages. This
//! module turns that into a flag: the handler maps zeroes over the page and all after it (page by page, each would be a mapping of
//! its own, of which a process may have 65,530), sets the mapping's flag, and the reader goes on; the connection that sent the file is then ended by its owner.
//!
//! Zeroes in place of memory that is mapped for writing can be written; [`Region`](nic::ring::Region) lets nobody write them, so that they take no memory.
//!
//! The handler is async-signal-safe: it reads a static table of atomics, makes one `mmap` system
//! call and nothing else. A fault at any other address goes to the handler that was there before.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};

/// How many mappings can be guarded at a time.
pub const MAX_GUARDED: usize = 4096;

/// A mapping could not be guarded.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The table is full.
    #[error("{MAX_GUARDED} files are mapped; close some, or send this one by copying")]
    Full,
    /// The handler could not be installed.
    #[error("can't install the SIGBUS handler: {0}")]
    Handler(#[source] io::Error),
}

/// How many of them the hosts of one socket have together, also those that are being let go of: what others have is left to these.
#[derive(Debug)]
pub(crate) struct Share {
    most: usize,
    taken: AtomicUsize,
}

impl Share {
    pub(crate) fn new(most: usize) -> Arc<Share> {
        let taken = AtomicUsize::new(0);
        Arc::new(Share { most, taken })
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.most
    }

    fn take(self: &Arc<Self>) -> Result<Part, GuardError> {
        let part = Part(Arc::clone(self));
        match self.taken.fetch_add(1, Ordering::Relaxed) < self.most {
            true => Ok(part),
            false => Err(GuardError::Full),
        }
    }
}

/// One of a share.
#[derive(Debug)]
struct Part(Arc<Share>);

impl Drop for Part {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A guarded range of addresses, until dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    slot: usize,
    _part: Option<Part>,
}

impl Guard {
    /// Guards `[start, start + len)`, and sets `*faulted` when a page of it turns out lost. What is mapped in its place can be written if `writable`.
    /// It counts for a share, if it is of one.
    ///
    /// # Safety
    /// The whole pages of the range are a private concern of the caller, that may be mapped over, and both they and `faulted` outlive
    /// the guard.
    pub(crate) unsafe fn new(
        start: usize,
        len: usize,
        writable: bool,
        faulted: *const AtomicBool,
        share: Option<&Arc<Share>>,
    ) -> Result<Guard, GuardError> {
        install().map_err(GuardError::Handler)?;
        let part = share.map(Share::take).transpose()?;
        let mut taken = TAKEN.lock().unwrap_or_else(|e| e.into_inner());
        let slot = taken
            .iter()
            .position(|&used| !used)
            .ok_or(GuardError::Full)?;
        taken[slot] = true;
        TABLE[slot].set(start, start + len, writable, faulted.cast_mut());
        Ok(Guard { slot, _part: part })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(|e| e.into_inner());
        TABLE[self.slot].set(0, 0, false, std::ptr::null_mut());
        taken[self.slot] = false;
    }
}

static TABLE: [Slot; MAX_GUARDED] = [const { Slot::empty() }; MAX_GUARDED];
static TAKEN: Mutex<[bool; MAX_GUARDED]> = Mutex::new([false; MAX_GUARDED]);

/// One guarded range, written under [`TAKEN`]'s lock and read by the handler without one: `version`
/// is odd while it changes, and the handler believes only what it read under one even version.
struct Slot {
    version: AtomicU32,
    start: AtomicUsize,
    end: AtomicUsize,
    writable: AtomicBool,
    faulted: AtomicPtr<AtomicBool>,
}

impl Slot {
    const fn empty() -> Slot {
        Slot {
            version: AtomicU32::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            writable: AtomicBool::new(false),
            faulted: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn set(&self, start: usize, end: usize, writable: bool, faulted: *mut AtomicBool) {
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.writable.store(writable, Ordering::Relaxed);
        self.faulted.store(faulted, Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }

    /// The flag of this slot, the end of its range and whether that is written to, when `address` is in it. A slot that changes meanwhile is
    /// not the one: the thread that faults still holds its own mapping.
    fn flag_for(&self, address: usize) -> Option<(*mut AtomicBool, usize, bool)> {
        let version = self.version.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        let writable = self.writable.load(Ordering::Relaxed);
        let faulted = self.faulted.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let steady = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        (steady && start <= address && address < end && !faulted.is_null())
            .then_some((faulted, end, writable))
    }
}

/// What the handler needs besides the table, set before the handler is.
struct Installed {
    previous: libc::sigaction,
    page_bytes: usize,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();
static INSTALLING: Mutex<()> = Mutex::new(());

/// Bytes of a page. Opens no file to find out: a process that has given up privileges can't.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf only answers; every Linux has a page size.
    (unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) as usize
}

fn install() -> io::Result<()> {
    let _one_at_a_time = INSTALLING.lock().unwrap_or_else(|e| e.into_inner());
    if INSTALLED.get().is_some() {
        return Ok(());
    }
    let mut previous = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a query of the present disposition into memory of the right type.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), previous.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let installed = Installed {
        // SAFETY: the call above succeeded, so it filled the structure.
        previous: unsafe { previous.assume_init() },
        page_bytes: page_bytes(),
    };
    let _ = INSTALLED.set(installed);

    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
    // SAFETY: sigaction is a plain C structure, for which all zeroes is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: the handler is async-signal-safe and has the signature that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let Some(installed) = INSTALLED.get() else {
        return;
    };
    // SAFETY: the kernel hands a valid siginfo_t to an SA_SIGINFO handler.
    let address = unsafe { (*info).si_addr() } as usize;
    let guarded = TABLE.iter().find_map(|slot| slot.flag_for(address));
    let page = address & !(installed.page_bytes - 1);
    if let Some((faulted, end, writable)) = guarded
        && map_zeroes(
            page,
            (end - page).next_multiple_of(installed.page_bytes),
            writable,
        )
    {
        // SAFETY: the range is guarded still, since its reader is in it, and `Guard::new` asks
        // that the flag outlives the guard.
        unsafe { (*faulted).store(true, Ordering::Release) };
        return;
    }
    chain(&installed.previous, signal, info, context);
}

fn map_zeroes(page: usize, len: usize, writable: bool) -> bool {
    // SAFETY: __errno_location gives this thread's errno, which the interrupted code may look at.
    let errno = unsafe { *libc::__errno_location() };
    let protection = match writable {
        true => libc::PROT_READ | libc::PROT_WRITE,
        false => libc::PROT_READ,
    };
    // SAFETY: the pages lie in a guarded mapping, whose owner allowed it to be mapped over.
    let mapped = unsafe {
        libc::mmap(
            page as *mut libc::c_void,
            len,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    mapped != libc::MAP_FAILED
}

/// Gives a fault that is not ours to the handler that was there before; with the default disposition
/// restored, returning makes the instruction fault again and ends the process as it should.
fn chain(
    previous: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: restores the disposition that was there before ours.
            unsafe { libc::sigaction(signal, previous, std::ptr::null_mut()) };
            // SAFETY: a signal that was sent, not raised by an access, must be sent once more.
            if unsafe { (*info).si_code } <= 0 {
                // SAFETY: raise is async-signal-safe.
                unsafe { libc::raise(signal) };
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: SA_SIGINFO says that the address is a handler of this signature.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO the address is a handler of the short signature.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
