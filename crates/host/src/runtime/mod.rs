//! Runs a stack, its NIC and the NIC's port: on a thread each for host and device, or all on one. Or a stack alone, whose NIC is
//! another process ([`rings`]).
//!
//! ```text
//!   the caller's thread                              thread `nic`
//!   ┌───────────────────────┐   rings, shared   ┌─────────────────────┐
//!   │ application   Stack   │◀─────────────────▶│ Nic ◀──▶ Port ◀──▶ wire
//!   └──────────▲────────────┘                   └──────▲──────────────┘
//!              └───────── eventfd ◀── doorbells ──▶ eventfd
//! ```
//!
//! [`Runtime::poll`] and [`Runtime::wait`] take turns on the caller's thread:
//!
//! ```text
//! loop {
//!     let progress = runtime.poll(now)?;
//!     while let Some(event) = runtime.stack().poll_event() { … }
//!     if !progress { runtime.wait(now, deadline, &fds)?; }
//! }
//! ```
//!
//! A side that finds nothing to do spins for a short while, announces its sleep in the rings, looks once more,
//! and sleeps in `poll`. The other side rings its doorbell only when it finds that announcement, so that a busy
//! pair makes no system calls for each other, and an idle one costs nothing.

mod builder;
mod device;
mod device_thread;
mod doorbell;
mod remote;
mod sleep;
#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nic::{FunctionId, Nic};
use port::Port;
use rings::Client;

use crate::Stack;

pub use builder::{BuildError, Builder};
pub use device::Device;
pub use doorbell::Doorbell;

use device_thread::{DeviceThread, Habits};
use remote::Remote;
use sleep::{earlier, readable, sleep};

/// Where and how eagerly things run.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeConfig {
    /// The device gets a thread of its own, at the first [`Runtime::poll`]; else it runs on the caller's, in each of them.
    pub own_thread: bool,
    /// Neither side ever sleeps.
    pub busy_poll: bool,
    /// How long a side looks for work before it sleeps.
    pub spin: Duration,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        RuntimeConfig {
            own_thread: true,
            busy_poll: false,
            spin: Duration::from_micros(30),
        }
    }
}

/// A stack that runs.
pub struct Runtime {
    stack: Stack,
    device: Placement,
    bell: Doorbell,
    config: RuntimeConfig,
    idle_since: Option<Instant>,
}

enum Placement {
    Here(Box<Device>),
    /// Gets its thread at the first [`Runtime::poll`].
    Waiting(Option<(Box<Device>, FunctionId)>),
    Thread(DeviceThread),
    Elsewhere(Box<Remote>),
}

/// How long [`Runtime::shutdown`] waits for the NIC's process to send what was posted.
const FLUSH: Duration = Duration::from_millis(500);

impl Runtime {
    /// Couples a stack with the NIC that has its function, and the NIC with its port. No thread is started before the first
    /// [`poll`](Self::poll): what the caller gives up until then, all threads lack.
    ///
    /// # Errors
    /// When the system has no descriptors to give.
    pub fn start(
        stack: Stack,
        nic: Nic,
        function: FunctionId,
        port: Box<dyn Port + Send>,
        config: RuntimeConfig,
    ) -> io::Result<Runtime> {
        let device = Box::new(Device { nic, port });
        Ok(Runtime {
            stack,
            device: match config.own_thread {
                false => Placement::Here(device),
                true => Placement::Waiting(Some((device, function))),
            },
            bell: Doorbell::new()?,
            config,
            idle_since: None,
        })
    }

    /// Couples a stack with its function of a NIC in another process. When that goes, the stack waits, and goes on with the NIC that
    /// comes in its place, without what the one that has gone had done for its connections.
    ///
    /// # Errors
    /// When the system has no descriptors to give.
    pub fn attach(stack: Stack, client: Client, config: RuntimeConfig) -> io::Result<Runtime> {
        Ok(Runtime {
            stack,
            device: Placement::Elsewhere(Box::new(Remote::new(client, Instant::now()))),
            bell: Doorbell::new()?,
            config,
            idle_since: None,
        })
    }

    /// Whether the NIC is in this process, so that there is a [device](Self::with_device).
    pub fn has_device(&self) -> bool {
        !matches!(self.device, Placement::Elsewhere(_))
    }

    /// The stack, for commands and events.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// A bell that ends [`Self::wait`] from another thread.
    pub fn doorbell(&self) -> Doorbell {
        self.bell.clone()
    }

    /// Runs the stack once, and the device too when it is on this thread. Whether anything was done.
    ///
    /// # Errors
    /// When the port has failed, the system has no threads to give, or the NIC's process was started again as another one.
    pub fn poll(&mut self, now: Instant) -> io::Result<bool> {
        self.start_thread()?;
        let mut progress = self.stack.poll(now);
        match &mut self.device {
            Placement::Here(device) => progress |= device.poll(now)?,
            Placement::Waiting(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            Placement::Thread(thread) => {
                if self.stack.take_doorbell() {
                    thread.ring();
                }
                if thread.has_ended() {
                    thread.stop()?;
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            Placement::Elsewhere(remote) => {
                if self.stack.take_doorbell() {
                    remote.ring();
                }
                progress |= remote.poll(now, &mut self.stack)?;
            }
        }
        if progress {
            self.idle_since = None;
        }
        Ok(progress)
    }

    fn start_thread(&mut self) -> io::Result<()> {
        let Placement::Waiting(waiting) = &mut self.device else {
            return Ok(());
        };
        if let Some((device, function)) = waiting.take() {
            let habits = Habits {
                spin: self.config.spin,
                busy_poll: self.config.busy_poll,
            };
            let thread = DeviceThread::start(*device, function, self.bell.clone(), habits)?;
            self.device = Placement::Thread(thread);
        }
        Ok(())
    }

    /// Waits until there may be something to do: input, a timer, `deadline`, the doorbell, or one of `fds`
    /// readable. It may return for no reason. Whether it slept: if not, `fds` were not looked at.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn wait(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<bool> {
        if matches!(self.device, Placement::Waiting(_)) {
            return Ok(false);
        }
        let since = *self.idle_since.get_or_insert(now);
        if self.config.busy_poll || now.duration_since(since) < self.config.spin {
            std::hint::spin_loop();
            return Ok(false);
        }
        self.idle_since = None;
        if self.prepare_sleep() {
            let deadline = earlier(deadline, self.poll_timeout());
            let mut wanted = vec![readable(self.bell.as_fd())];
            wanted.extend(self.fd().map(readable));
            wanted.extend(fds.iter().copied().map(readable));
            sleep(&mut wanted, now, deadline)?;
        }
        self.cancel_sleep();
        Ok(true)
    }

    /// For an event loop other than [`wait`](Self::wait): announces that the caller is about to sleep until the
    /// [doorbell](Self::doorbell) or [`fd`](Self::fd) is readable, or [`poll_timeout`](Self::poll_timeout) has come. False when there is
    /// something to do already: then [`poll`](Self::poll) instead. Either way [`cancel_sleep`](Self::cancel_sleep) comes next.
    pub fn prepare_sleep(&mut self) -> bool {
        if self.config.busy_poll {
            return false;
        }
        match &mut self.device {
            Placement::Here(device) => device.port.prepare_sleep(),
            Placement::Waiting(_) => false,
            Placement::Thread(_) | Placement::Elsewhere(_) => self.stack.prepare_sleep(),
        }
    }

    /// After the sleep, or instead of it: takes the announcement back and silences the doorbell.
    pub fn cancel_sleep(&mut self) {
        match &mut self.device {
            Placement::Here(device) => device.port.cancel_sleep(),
            Placement::Waiting(_) => {}
            Placement::Thread(_) => self.stack.cancel_sleep(),
            Placement::Elsewhere(remote) => {
                self.stack.cancel_sleep();
                remote.answer();
            }
        }
        self.bell.answer();
    }

    /// When to [`poll`](Self::poll) again although nothing comes.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let device = match &self.device {
            Placement::Here(device) => device.poll_timeout(),
            Placement::Elsewhere(remote) => remote.poll_timeout(),
            Placement::Waiting(_) | Placement::Thread(_) => None,
        };
        earlier(self.stack.poll_timeout(), device)
    }

    /// What becomes readable, beside the doorbell, when there is something to do: the wire of a NIC on this thread, or the line to a NIC
    /// in another process. The latter is gone while that NIC is, and another one afterwards; [`poll`](Self::poll) and
    /// [`cancel_sleep`](Self::cancel_sleep) find that out.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.device {
            Placement::Here(device) => device.port.fd(),
            Placement::Elsewhere(remote) => remote.fd(),
            Placement::Waiting(_) | Placement::Thread(_) => None,
        }
    }

    /// Does something with the device, wherever it runs, and waits for the result: to read the NIC's
    /// counters, for one.
    ///
    /// # Errors
    /// When the device's thread has ended, or [it is another process's](Self::has_device).
    pub fn with_device<R: Send + 'static>(
        &mut self,
        errand: impl FnOnce(&mut Device) -> R + Send + 'static,
    ) -> io::Result<R> {
        match &mut self.device {
            Placement::Here(device) | Placement::Waiting(Some((device, _))) => Ok(errand(device)),
            Placement::Waiting(None) => Err(io::ErrorKind::BrokenPipe.into()),
            Placement::Thread(thread) => thread.with(errand),
            Placement::Elsewhere(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the NIC is another process",
            )),
        }
    }

    /// Whether the peers of all connections that the NIC was to finish have acknowledged all that they are to get. Until then
    /// [`shutdown`](Self::shutdown) loses what is left.
    ///
    /// # Errors
    /// When the device's thread has ended.
    pub fn has_finished_teardowns(&mut self) -> io::Result<bool> {
        if self.stack.has_pending_teardowns() {
            return Ok(false);
        }
        if let Placement::Elsewhere(remote) = &mut self.device {
            return Ok(remote.unfinished_teardowns() == 0);
        }
        let left = self.with_device(|device| device.nic.unfinished_teardowns())?;
        Ok(left == 0)
    }

    /// Ends the device's thread, when it has one, after what was posted has gone out; waits for that where the NIC is another
    /// process.
    ///
    /// # Errors
    /// What the port failed with.
    pub fn shutdown(mut self, now: Instant) -> io::Result<()> {
        self.stack.poll(now);
        if !self.has_device() {
            return self.flush(now + FLUSH);
        }
        self.with_device(move |device| device.poll(now))??;
        match &mut self.device {
            Placement::Thread(thread) => thread.stop(),
            Placement::Here(_) | Placement::Waiting(_) | Placement::Elsewhere(_) => Ok(()),
        }
    }

    /// Waits for the NIC's process to have sent what was posted: what it has not when this process ends is lost. Peers of connections that
    /// were reset just now may ask once more.
    fn flush(&mut self, deadline: Instant) -> io::Result<()> {
        loop {
            let now = Instant::now();
            self.poll(now)?;
            let waits = self.stack.has_posted() || self.stack.has_just_reset(now);
            if now >= deadline || !waits {
                return Ok(());
            }
            self.wait(now, Some(now + Duration::from_millis(1)), &[])?;
        }
    }
}
