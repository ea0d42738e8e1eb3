//! A device on a thread of its own.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nic::FunctionId;

use super::device::Device;
use super::doorbell::Doorbell;
use super::sleep::{readable, sleep};

/// What another thread wants done with the device.
type Errand = Box<dyn FnOnce(&mut Device) + Send>;

/// How a device's thread behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// How long to look for work before sleeping.
    pub(super) spin: Duration,
    /// Never sleep.
    pub(super) busy_poll: bool,
}

/// The handle of a device's thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct DeviceThread {
    bell: Doorbell,
    errands: Option<Sender<Errand>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl DeviceThread {
    /// Starts the thread. It rings `host` when it has published something for `function` while that
    /// slept, and when it ends.
    pub(super) fn start(
        device: Device,
        function: FunctionId,
        host: Doorbell,
        habits: Habits,
    ) -> io::Result<DeviceThread> {
        let bell = Doorbell::new()?;
        let (errands, inbox) = mpsc::channel();
        let mut worker = Worker {
            device,
            function,
            host,
            bell: bell.clone(),
            inbox,
            habits,
        };
        let thread = std::thread::Builder::new()
            .name("nic".to_owned())
            .spawn(move || {
                let result = worker.run();
                worker.host.ring();
                result
            })?;
        Ok(DeviceThread {
            bell,
            errands: Some(errands),
            thread: Some(thread),
        })
    }

    /// Wakes the device.
    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    /// Has something done with the device, and waits for it.
    ///
    /// # Errors
    /// When the thread has ended.
    pub(super) fn with<R: Send + 'static>(
        &self,
        errand: impl FnOnce(&mut Device) -> R + Send + 'static,
    ) -> io::Result<R> {
        let (answer, result) = mpsc::sync_channel(1);
        let errand: Errand = Box::new(move |device| {
            let _ = answer.send(errand(device));
        });
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the NIC's thread has ended");
        self.errands
            .as_ref()
            .and_then(|errands| errands.send(errand).ok())
            .ok_or(())
            .map_err(gone)?;
        self.bell.ring();
        result.recv().map_err(|_| gone(()))
    }

    /// Whether the thread has ended, which it does by itself only when the port failed.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread, and says how it went.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.errands = None;
        self.bell.ring();
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for DeviceThread {
    fn drop(&mut self) {
        if !std::thread::panicking()
            && let Err(error) = self.stop()
        {
            tracing::warn!(%error, "the NIC's port failed");
        }
    }
}

struct Worker {
    device: Device,
    function: FunctionId,
    host: Doorbell,
    bell: Doorbell,
    inbox: Receiver<Errand>,
    habits: Habits,
}

impl Worker {
    fn run(&mut self) -> io::Result<()> {
        let mut idle_since: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if self.run_errands() {
                return Ok(());
            }
            let moved = self.device.poll(now)?;
            let (function, host) = (self.function, &self.host);
            self.device.nic.take_wakeups(|woken, _queue| {
                if woken == function {
                    host.ring();
                }
            });
            if moved || self.habits.busy_poll {
                idle_since = None;
                continue;
            }
            let since = *idle_since.get_or_insert(now);
            if now.duration_since(since) < self.habits.spin {
                std::hint::spin_loop();
                continue;
            }
            self.sleep(now)?;
            idle_since = None;
        }
    }

    /// Does what was asked; whether to end.
    fn run_errands(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(errand) => errand(&mut self.device),
                Err(mpsc::TryRecvError::Empty) => return false,
                Err(mpsc::TryRecvError::Disconnected) => return true,
            }
        }
    }

    /// Sleeps until the host rings, the wire has a frame, or a timer is due. The order matters: what the host
    /// posts before it sees the announcement is seen by `prepare_sleep`, what it posts after rings the bell.
    fn sleep(&mut self, now: Instant) -> io::Result<()> {
        if self.device.nic.prepare_sleep() && self.device.port.prepare_sleep() {
            let deadline = self.device.poll_timeout();
            let mut fds = vec![readable(self.bell.as_fd())];
            fds.extend(self.device.port.fd().map(readable));
            sleep(&mut fds, now, deadline)?;
        }
        self.device.port.cancel_sleep();
        self.device.nic.cancel_sleep();
        self.bell.answer();
        Ok(())
    }
}
