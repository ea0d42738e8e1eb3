//! Saying that a NIC was asked for and does not do the records: once, on standard error. How often is counted.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::OnceLock;

use attachment::ClientError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::counters::{Counter, counters};

/// A direction of a socket has got no NIC, because none can be reached.
pub(crate) fn unreachable(control: &Path, error: ClientError) {
    if counters().add_first(Counter::NicUnreachable) {
        say(control, &error, Counter::NicUnreachable);
    }
}

/// The NIC has refused to do a direction's records, which is counted by `counter`.
pub(crate) fn refused(control: &Path, error: Errno, counter: Counter) {
    if counters().add_first(counter) {
        say(control, &Refusal(error), counter);
    }
}

/// What a NIC's refusal means.
struct Refusal(Errno);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Errno::NODEV => f.write_str(
                "a connection does not go through it; `ip route get ADDRESS` says where it goes",
            ),
            Errno::PERM => f.write_str(
                "a socket is of another network namespace; start the program in that of the NIC's interface",
            ),
            Errno::NOSPC => f.write_str(
                "it has no room for another connection; `longshore stat` shows what it has",
            ),
            Errno::SHUTDOWN => f.write_str("it is about to end; start another `longshore nic`"),
            error => write!(f, "it refuses a connection: {error}"),
        }
    }
}

/// Device and inode of the file that standard error was when a NIC was named. A program may close it, and get a file of its own in its place.
static STANDARD_ERROR: OnceLock<Option<(u64, u64)>> = OnceLock::new();

/// What standard error is now, is where complaints go.
pub(crate) fn begin() {
    STANDARD_ERROR.get_or_init(|| file(rustix::stdio::stderr()));
}

/// `None` for a socket: what a client has for standard error is no place for words of ours.
fn file(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(fd).ok()?;
    let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    (!is_socket).then_some((stat.st_dev, stat.st_ino))
}

/// Writing a line does not wait, and raises no signal.
fn takes_a_line(fd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents() == PollFlags::OUT
}

fn say(control: &Path, reason: &dyn fmt::Display, counter: Counter) {
    let error = rustix::stdio::stderr();
    let known = STANDARD_ERROR.get().copied().flatten();
    if known.is_none() || file(error) != known || !takes_a_line(error) {
        return;
    }
    // In one write, by the kernel's own call, so that other lines stay apart from it.
    let _ = rustix::io::write(error, line(control, reason, counter).as_bytes());
}

fn line(control: &Path, reason: &dyn fmt::Display, counter: Counter) -> String {
    format!(
        "libktls: TLS records are made in software, not by the NIC at {}: {reason}. The next ones are counted only, as {}.\n",
        control.display(),
        counter.name(),
    )
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_full_pipe_and_one_without_a_reader_get_nothing() {
        let (from, to) = rustix::pipe::pipe().expect("a pipe");
        assert!(takes_a_line(to.as_fd()));
        let room = rustix::pipe::fcntl_getpipe_size(&to).expect("its size");
        rustix::io::write(&to, &vec![b'x'; room]).expect("room");
        assert!(!takes_a_line(to.as_fd()));
        let (_, to) = rustix::pipe::pipe().expect("a pipe");
        assert!(!takes_a_line(to.as_fd()));
        drop(from);
    }

    #[test]
    fn a_refusal_is_told_with_its_remedy() {
        for (error, remedy) in [
            (Errno::NODEV, "ip route get"),
            (Errno::PERM, "namespace"),
            (Errno::NOSPC, "longshore stat"),
            (Errno::SHUTDOWN, "longshore nic"),
            (Errno::INVAL, "Invalid argument"),
        ] {
            let told = line(
                Path::new("/run/nic"),
                &Refusal(error),
                Counter::TxDeviceRefused,
            );
            for part in ["/run/nic", remedy, "tx_device_refused"] {
                assert!(told.contains(part), "{told}");
            }
        }
    }
}
