//! The gate of virtual machines, which goes on when the worker dies, and when another supervisor takes over.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

use attachment::listening::Listening;

use super::super::link::Link;
use super::Supervisor;
use super::kept::Kept;
use super::process::Process;
use super::telling::tell;

/// What messages call it.
pub(super) const NAME: &str = "guests' gate";

impl Supervisor<'_> {
    /// Has virtual machines reach the worker.
    pub(super) fn start_guests(&mut self, now: Instant) {
        let (Some(guests), Some((_, link))) = (&mut self.guests, &self.worker.running) else {
            return;
        };
        let is_new = guests.running.is_some() && !self.has_guests;
        if !self.serves || !(is_new || guests.is_due(now)) {
            return;
        }
        match self.sockets.connect_guests(guests, link, now) {
            Ok(()) => self.has_guests = true,
            Err(error) => {
                guests.end(now);
                guests.put_off(now, &error);
            }
        }
    }
}

/// What the worker goes on without.
pub(super) fn helpers<'a>(
    control: &'a mut Kept,
    gate: &'a mut Option<Kept>,
    guests: &'a mut Option<Kept>,
) -> impl Iterator<Item = &'a mut Kept> {
    [control].into_iter().chain(gate).chain(guests)
}

/// What a successor keeps a gate by: the process, its link, and the sockets at which it answers, in its order. Empty without one.
pub(super) fn descriptors<'a>(
    gate: Option<&'a Kept>,
    sockets: impl Iterator<Item = &'a Listening>,
) -> Vec<BorrowedFd<'a>> {
    let Some((process, link)) = gate.and_then(|gate| gate.running.as_ref()) else {
        return Vec::new();
    };
    let its = [process.as_fd()].into_iter().chain(link.descriptors());
    its.chain(sockets.map(Listening::as_fd)).collect()
}

/// The gate of a predecessor. It runs on if this is dropped.
#[derive(Debug)]
pub struct LeftGuests {
    process: Process,
    link: Link,
    paths: Vec<PathBuf>,
    /// It speaks with the worker as this version does.
    is_alike: bool,
}

impl LeftGuests {
    /// By its [descriptors].
    pub fn new(came: Vec<OwnedFd>, is_alike: bool) -> Option<LeftGuests> {
        let mut came = came.into_iter();
        let process = Process::adopt(came.next()?).ok()?;
        let link = Link::adopt(came.next()?, came.next()?);
        let path = |socket| {
            let address = UnixListener::from(socket).local_addr().ok()?;
            address.as_pathname().map(Path::to_owned)
        };
        let paths = came.map(path).collect::<Option<_>>()?;
        Some(LeftGuests {
            process,
            link,
            paths,
            is_alike,
        })
    }

    /// Goes on with it, if its virtual machines are this NIC's; otherwise it ends.
    pub fn keep<'a>(self, sockets: impl Iterator<Item = &'a Path>) -> Option<Kept> {
        if self.is_alike && sockets.eq(self.paths.iter().map(PathBuf::as_path)) {
            return Some(Kept::adopt(NAME, self.process, self.link));
        }
        tell(
            "virtual machines lose their devices: the NIC that ran had others, or was of another version",
        );
        self.process.kill();
        None
    }
}
