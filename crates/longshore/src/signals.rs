//! SIGINT, SIGTERM and SIGHUP as something to wait for.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The end: SIGINT, SIGTERM, or a SIGHUP because the terminal is gone.
    End,
    /// To read files again: any other SIGHUP.
    Reload,
}

/// Signals, taken from the system.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    /// The terminal that the process was started from.
    terminal: Option<File>,
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
        let terminal = File::open("/dev/tty").ok();
        Ok(Signals { fd, terminal })
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
        let reloads = number == libc::SIGHUP as u32 && !self.is_terminal_gone();
        Some(if reloads { Signal::Reload } else { Signal::End })
    }

    /// Whether there was a terminal, and is none any more.
    fn is_terminal_gone(&self) -> bool {
        self.terminal.as_ref().is_some_and(|terminal| {
            let mut fds = [PollFd::new(terminal, PollFlags::empty())];
            let at_once = Timespec::default();
            let polled = poll(&mut fds, Some(&at_once));
            polled.is_err() || fds[0].revents().contains(PollFlags::HUP)
        })
    }
}

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

    /// A signalfd's end that nothing comes to, with this terminal.
    fn with_terminal(terminal: Option<File>) -> Signals {
        let fd = File::open("/dev/null").unwrap().into();
        Signals { fd, terminal }
    }

    #[test]
    fn a_terminal_that_is_gone_is_told_from_one_that_is_there_and_from_none() {
        assert!(!with_terminal(None).is_terminal_gone());
        let (mut controller, mut terminal) = (-1, -1);
        let nothing = std::ptr::null_mut();
        // SAFETY: it fills both descriptors, which nothing else owns, and reads nothing.
        let (controller, terminal) = unsafe {
            let made = libc::openpty(
                &mut controller,
                &mut terminal,
                nothing,
                nothing.cast(),
                nothing.cast(),
            );
            assert_eq!(made, 0, "{}", io::Error::last_os_error());
            (
                OwnedFd::from_raw_fd(controller),
                OwnedFd::from_raw_fd(terminal),
            )
        };
        let signals = with_terminal(Some(terminal.into()));
        assert!(!signals.is_terminal_gone());
        drop(controller);
        assert!(signals.is_terminal_gone());
    }

    #[test]
    fn a_hangup_by_a_process_asks_for_a_reload_and_the_others_for_the_end() {
        let signals = Signals {
            terminal: None,
            ..Signals::block().unwrap()
        };
        for (number, meaning) in [
            (libc::SIGHUP, Signal::Reload),
            (libc::SIGTERM, Signal::End),
            (libc::SIGINT, Signal::End),
        ] {
            // SAFETY: a signal to this thread, which has it blocked.
            unsafe { libc::pthread_kill(libc::pthread_self(), number) };
            assert_eq!(signals.next(), Some(meaning), "{number}");
            assert_eq!(signals.next(), None);
        }
    }
}
