//! SIGINT, SIGTERM and SIGHUP as something to wait for.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The end: SIGINT, SIGTERM, and SIGHUP where there is a terminal, which that tells the end of.
    End,
    /// To read files again: SIGHUP without a terminal, as services have it.
    Reload,
}

/// Signals, taken from the system.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    /// The process was started from a terminal.
    has_terminal: bool,
}

impl Signals {
    /// Takes SIGINT, SIGTERM and SIGHUP over; a SIGHUP that is ignored, as `nohup` has it, stays so. To be called before threads are started: they inherit the mask.
    pub fn block() -> io::Result<Signals> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset fills the set, which the calls after it then only read or extend.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            if !is_ignored(libc::SIGHUP) {
                libc::sigaddset(set.as_mut_ptr(), libc::SIGHUP);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was made just now and is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let has_terminal = File::open("/dev/tty").is_ok();
        Ok(Signals { fd, has_terminal })
    }

    /// Whether one has come, for those that only know an end.
    pub fn received(&self) -> bool {
        self.next().is_some()
    }

    /// The next that has come.
    pub fn next(&self) -> Option<Signal> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: reads at most the structure's size into it.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read != size as isize {
            return None;
        }
        // SAFETY: all of it was read.
        let number = unsafe { info.assume_init() }.ssi_signo;
        let reloads = number == libc::SIGHUP as u32 && !self.has_terminal;
        Some(if reloads { Signal::Reload } else { Signal::End })
    }
}

/// A signal has asked for the end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only writes the present one.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_asks_for_a_reload_where_there_is_no_terminal() {
        let mut signals = Signals::block().unwrap();
        for (number, has_terminal, meaning) in [
            (libc::SIGHUP, false, Signal::Reload),
            (libc::SIGHUP, true, Signal::End),
            (libc::SIGTERM, false, Signal::End),
            (libc::SIGINT, false, Signal::End),
        ] {
            signals.has_terminal = has_terminal;
            // SAFETY: a signal to this thread, which has it blocked.
            unsafe { libc::pthread_kill(libc::pthread_self(), number) };
            assert_eq!(signals.next(), Some(meaning), "{number}");
            assert_eq!(signals.next(), None);
        }
    }
}
