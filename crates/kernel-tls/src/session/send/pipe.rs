//! A pipe of this thread's, for pages that go from a file into a socket without being copied, and memory for what is put between them.

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::pipe::PipeFlags;

use crate::direct;
use crate::internal::Internal;
use crate::process;
use crate::session::Permit;

/// Bytes that the pipe is asked to have room for: what an unprivileged process may have (`fs.pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;
const ARENA_BYTES: usize = 64 << 10;

/// A thread's pipe with its memory.
#[derive(Debug)]
pub(super) struct Pipe {
    process: u32,
    from: Internal,
    to: Internal,
    /// Takes what the socket does not.
    nowhere: Option<Internal>,
    /// Pages, or parts of such, that it has room for.
    room: usize,
}

/// What a thread has for this.
#[derive(Debug)]
struct Own {
    pipe: Option<Pipe>,
    arena: Option<Arena>,
    pieces: Vec<libc::iovec>,
}

thread_local! {
    static OWN: RefCell<Own> = const {
        RefCell::new(Own {
            pipe: None,
            arena: None,
            pieces: Vec::new(),
        })
    };
}

/// Lends the thread's pipe, empty, and what is needed beside it; `None` if there can't be one, if the thread ends and has given it back, or if it is lent already,
/// to what a signal has interrupted.
/// `use_it` says how many bytes it has left in there.
pub(super) fn with<R>(
    use_it: impl FnOnce(&Pipe, &mut Arena, &mut Vec<libc::iovec>) -> (R, usize),
) -> Option<R> {
    let lent = OWN.try_with(|own| {
        let own = &mut *own.try_borrow_mut().ok()?;
        // A fork shares its parent's pipes: they are the parent's.
        let pipe = own.pipe.take();
        let pipe = pipe.filter(|pipe| pipe.process == process::id());
        let pipe = pipe.map_or_else(Pipe::new, Ok).ok()?;
        if own.arena.is_none() {
            own.arena = Some(Arena::new().ok()?);
        }
        let (result, left) = use_it(&pipe, own.arena.as_mut()?, &mut own.pieces);
        own.pipe = pipe.drop_bytes(left).then_some(pipe);
        Some(result)
    });
    lent.ok().flatten()
}

impl Pipe {
    fn new() -> Result<Pipe, Errno> {
        let (from, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A smaller one takes fewer records at once.
        let _ = rustix::pipe::fcntl_setpipe_size(&to, PIPE_BYTES);
        let room = rustix::pipe::fcntl_getpipe_size(&to)? / PAGE_BYTES;
        let nowhere =
            rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        Ok(Pipe {
            process: process::id(),
            from: Internal::new(from),
            to: Internal::new(to),
            nowhere: nowhere.ok().map(Internal::new),
            room,
        })
    }

    /// Pages, or parts of such, that it has room for.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Puts the memory's pages into the pipe, as far as they are there and have room; gives how many bytes. The pieces are used up.
    pub(super) fn fill(&self, pieces: &mut [libc::iovec]) -> usize {
        let mut filled = 0;
        let mut rest = pieces;
        while !rest.is_empty() {
            // SAFETY: the kernel takes the pages behind the addresses, or answers EFAULT.
            let put = unsafe {
                direct::syscall()(
                    libc::SYS_vmsplice,
                    self.to.as_fd().as_raw_fd(),
                    rest.as_ptr(),
                    rest.len().min(libc::UIO_MAXIOV as usize),
                    libc::SPLICE_F_NONBLOCK,
                )
            };
            let Ok(mut put) = usize::try_from(put) else {
                break;
            };
            if put == 0 {
                break;
            }
            filled += put;
            while let [first, ..] = rest
                && put >= first.iov_len
            {
                put -= first.iov_len;
                rest = &mut rest[1..];
            }
            if let [first, ..] = rest {
                first.iov_base = first.iov_base.wrapping_byte_add(put);
                first.iov_len -= put;
            }
        }
        filled
    }

    /// Moves `len` bytes of framed content from the pipe into the socket, which does not wait, as far as there is room.
    ///
    /// # Errors
    /// What the socket gives, when it took nothing.
    pub(super) fn empty_into(
        &self,
        _: Permit<'_>,
        fd: BorrowedFd<'_>,
        len: usize,
    ) -> Result<usize, Errno> {
        let mut moved = 0;
        while moved < len {
            let flags = rustix::pipe::SpliceFlags::NONBLOCK;
            match rustix::pipe::splice(&self.from, None, fd, None, len - moved, flags) {
                Ok(0) => break,
                Ok(bytes) => moved += bytes,
                Err(Errno::INTR) => {}
                Err(error) if moved == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(moved)
    }

    /// Lets go of what is left in the pipe. False if that can't be.
    fn drop_bytes(&self, mut left: usize) -> bool {
        while left > 0 {
            let flags = rustix::pipe::SpliceFlags::NONBLOCK;
            let nowhere = self.nowhere.as_ref();
            match nowhere.map(|to| rustix::pipe::splice(&self.from, None, to, None, left, flags)) {
                Some(Ok(bytes @ 1..)) => left -= bytes,
                Some(Err(Errno::INTR)) => {}
                _ => return false,
            }
        }
        true
    }
}

/// Memory of which no byte is written twice while the kernel may still read it: what was given out stays as it is until the arena is at
/// its end, and then all of its pages are replaced by new ones.
#[derive(Debug)]
pub(super) struct Arena {
    start: NonNull<u8>,
    used: usize,
}

impl Arena {
    fn new() -> Result<Arena, Errno> {
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                ARENA_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        Ok(Arena {
            start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?,
            used: 0,
        })
    }

    /// Memory of this length, at most a page's, that was not given out before; `None` when all is.
    pub(super) fn take(&mut self, len: usize) -> Option<&mut [u8]> {
        debug_assert!(len <= PAGE_BYTES);
        if ARENA_BYTES - self.used < len {
            // The kernel keeps the old pages for what still refers to them.
            // SAFETY: the whole of our mapping, to which no reference exists.
            let replaced = unsafe {
                rustix::mm::madvise(
                    self.start.as_ptr().cast(),
                    ARENA_BYTES,
                    Advice::LinuxDontNeed,
                )
            };
            replaced.ok()?;
            self.used = 0;
        }
        let at = self.used;
        self.used += len;
        // SAFETY: within the mapping, and given out once between two replacements of its pages; the borrow ends before the next call.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), len) })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and without references.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), ARENA_BYTES) };
    }
}
