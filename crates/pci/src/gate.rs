//! The gate: a vfio-user server at a socket, for one VMM at a time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rings::guest::Line;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown};
use vfio_user::Server;

use crate::device::Device;
use crate::regions::{interrupts, regions};
use crate::shared::Shared;
use crate::threads::Threads;

/// How long the next VMM waits when one could not be served.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of stack of its thread.
const STACK: usize = 512 << 10;

/// Answers VMMs at one socket until it is dropped. A VMM waits until the one before it has gone; what it passes keeps its own socket waiting only.
#[derive(Debug)]
pub struct Gate {
    listener: Arc<OwnedFd>,
    channels: Sender<OwnedFd>,
}

/// The channel to the NIC's process, and the device that has a line by it.
#[derive(Debug)]
struct ToNic {
    channel: OwnedFd,
    device: Option<Shared>,
}

impl Gate {
    /// Answers at a socket that [listens](rings::Gate::listen) and does not block, for the server of [guests](rings::Server::for_guests) at the other end
    /// of the [channel](rings::Gate::channel). The thread that it starts has the privileges that the caller has now.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(listener: OwnedFd, channel: OwnedFd) -> io::Result<Gate> {
        let (listener, device) = (Arc::new(listener), None);
        let nic = Arc::new(Mutex::new(ToNic { channel, device }));
        let (theirs, its) = (Arc::clone(&listener), Arc::clone(&nic));
        start_thread("pci", move || listen(&theirs, &its))?;
        let (channels, next) = mpsc::channel();
        start_thread("pci-next", move || {
            next.into_iter().for_each(|it| go_on_with(it, &nic))
        })?;
        Ok(Gate { listener, channels })
    }

    /// Goes on with the NIC's next process, at the other end of this channel. A VMM that is there stays: its driver is told that the function has gone
    /// and that there is a NIC, and sets it up anew. Does not wait for that.
    pub fn connect(&self, channel: OwnedFd) {
        // The thread that takes it is there as long as this.
        let _ = self.channels.send(channel);
    }
}

fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.stack_size(STACK).spawn(run)?;
    Ok(())
}

fn go_on_with(channel: OwnedFd, nic: &Mutex<ToNic>) {
    let mut nic = lock(nic);
    nic.channel = channel;
    let Some(device) = &nic.device else {
        return;
    };
    match Line::open(nic.channel.as_fd()) {
        Ok(line) => device.lock().go_on_with(line),
        Err(error) => tracing::warn!("a guest has no line to its NIC: {error}"),
    }
}

fn lock(nic: &Mutex<ToNic>) -> MutexGuard<'_, ToNic> {
    nic.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Gate {
    fn drop(&mut self) {
        // The thread that listens wakes.
        let _ = shutdown(&self.listener, Shutdown::Both);
    }
}

fn listen(listener: &OwnedFd, nic: &Mutex<ToNic>) {
    let threads = Threads::default();
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        let _ = poll(&mut fds, None);
        if fds[0].revents().contains(PollFlags::HUP) {
            return;
        }
        // The library panics at some messages that no VMM sends: then this one's connection is closed.
        let served = catch_unwind(AssertUnwindSafe(|| serve(listener, nic, &threads)));
        // The NIC's function goes with it, outside of the lock.
        let device = lock(nic).device.take();
        drop(device);
        match served {
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
fn serve(
    listener: &OwnedFd,
    nic: &Mutex<ToNic>,
    threads: &Threads,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut device = {
        let mut nic = lock(nic);
        let line = Line::open(nic.channel.as_fd())?;
        let device = Device::new(line, threads.clone())?;
        let device = Shared::new(device, threads.clone());
        nic.device.insert(device).clone()
    };
    let vectors = device.lock().vectors();
    let server = Server::from_owned_fd(listener.try_clone()?, true, interrupts(vectors), regions());
    tracing::debug!("a VMM has come");
    server.run(&mut device)?;
    Ok(())
}
