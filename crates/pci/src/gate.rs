//! The gate: a vfio-user server at a socket, for one VMM at a time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rings::guest::Line;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown};
use vfio_user::Server;

use crate::device::Device;
use crate::regions::{interrupts, regions};

/// How long the next VMM waits when one could not be served.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of stack of its thread.
const STACK: usize = 512 << 10;

/// Answers VMMs at one socket until it is dropped. A VMM waits until the one before it has gone.
#[derive(Debug)]
pub struct Gate {
    listener: Arc<OwnedFd>,
}

impl Gate {
    /// Answers at a socket that [listens](rings::Gate::listen) and does not block, for the server of [guests](rings::Server::for_guests) at the other end
    /// of the [channel](rings::Gate::channel). The thread that it starts has the privileges that the caller has now.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(listener: OwnedFd, channel: OwnedFd) -> io::Result<Gate> {
        let listener = Arc::new(listener);
        let theirs = Arc::clone(&listener);
        let thread = std::thread::Builder::new().name("pci".to_owned());
        let thread = thread.stack_size(STACK);
        thread.spawn(move || listen(&theirs, &channel))?;
        Ok(Gate { listener })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // The thread that listens wakes.
        let _ = shutdown(&self.listener, Shutdown::Both);
    }
}

fn listen(listener: &OwnedFd, channel: &OwnedFd) {
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        let _ = poll(&mut fds, None);
        if fds[0].revents().contains(PollFlags::HUP) {
            return;
        }
        // The library panics at some messages that no VMM sends: then this one's connection is closed.
        match catch_unwind(AssertUnwindSafe(|| serve(listener, channel))) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => {
                tracing::debug!("a VMM's connection is closed: {why}");
                std::thread::sleep(PAUSE);
            }
            Err(_) => {
                tracing::warn!("a VMM sent what is no vfio-user message");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Serves one VMM to its end.
fn serve(listener: &OwnedFd, channel: &OwnedFd) -> Result<(), Box<dyn std::error::Error>> {
    let line = Line::open(channel.as_fd())?;
    let mut device = Device::new(line)?;
    let vectors = device.vectors();
    let server = Server::from_owned_fd(listener.try_clone()?, true, interrupts(vectors), regions());
    tracing::debug!("a VMM has come");
    server.run(&mut device)?;
    Ok(())
}
