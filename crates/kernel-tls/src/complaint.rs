//! Saying that a NIC was asked for and does not do the records: once, on standard error. How often is counted.

use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;

use attachment::ClientError;
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

fn say(control: &Path, reason: &dyn fmt::Display, counter: Counter) {
    let error = std::io::stderr();
    // What a client has for standard error is no place for words of ours.
    let is_socket = rustix::fs::fstat(error.as_fd())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket);
    if is_socket {
        return;
    }
    let line = format!(
        "libktls: TLS records are made in software, not by the NIC at {}: {reason}. The next ones are counted only, as {}.\n",
        control.display(),
        counter.name(),
    );
    // In one write, by the kernel's own call: nobody else's line is between.
    let _ = rustix::io::write(error.as_fd(), line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_with_its_remedy() {
        for (error, remedy) in [
            (Errno::NODEV, "ip route get"),
            (Errno::PERM, "namespace"),
            (Errno::NOSPC, "longshore stat"),
            (Errno::SHUTDOWN, "longshore nic"),
            (Errno::INVAL, "Invalid argument"),
        ] {
            let told = Refusal(error).to_string();
            assert!(told.contains(remedy), "{told}");
        }
    }
}
