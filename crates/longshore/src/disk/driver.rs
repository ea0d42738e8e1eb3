//! Runs clients of disks on a stack of ours.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use host::disk::{Client, Event};

use super::{Counted, Input, Pipeline, Read, Write, copy};
use crate::attach::{Attached, Connections, Wire, attach};
use crate::get::Output;
use crate::signals::Signals;

/// How often signals are looked at when it never sleeps.
const LOOK: Duration = Duration::from_millis(50);
/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// A protocol of disks, as its client speaks it.
pub(crate) trait Remote: Client {
    /// What the protocol calls a disk.
    const NOUN: &'static str;
    /// What the names of its counters on the host begin with.
    const COUNTERS: &'static str;

    /// What can be done about a failure, if that is known.
    fn remedy(failure: &Self::Failure) -> Option<&'static str>;
}

/// A disk by its name, and how to reach it.
pub(crate) trait Named {
    /// What speaks its protocol.
    type Client: Remote;

    /// How to reach the network.
    fn wire(&self) -> &Wire;

    /// Connects, and waits until it is ready; gives its place in the driver.
    ///
    /// # Errors
    /// When it can't be reached.
    fn connect(&self, driver: &mut Driver<Self::Client>) -> Result<usize>;

    /// Connects, does something with the disk, and says goodbye.
    ///
    /// # Errors
    /// When it can't be reached, or that fails.
    fn with<R>(
        &self,
        act: impl FnOnce(&RefCell<Driver<Self::Client>>, usize) -> Result<R>,
    ) -> Result<R> {
        let mut driver = Driver::new(self.wire())?;
        let at = self.connect(&mut driver)?;
        driver.with(|driver| act(driver, at))
    }

    /// Copies it, or a part of it, to a file.
    ///
    /// # Errors
    /// When that can't be done.
    fn read(&self, how: &Read) -> Result<()> {
        let mut output = Output::to(&how.output)?;
        output.open()?;
        self.with(|driver, at| copy::read(&mut Pipeline::new(driver, at)?, how, &mut output))
    }

    /// Copies a file to it.
    ///
    /// # Errors
    /// When that can't be done.
    fn write(&self, how: &Write) -> Result<()> {
        let mut input = Input::open(how)?;
        self.with(|driver, at| copy::write(&mut Pipeline::new(driver, at)?, how, &mut input))
    }
}

/// A stack on the wire, and the connections on it.
pub(crate) struct Driver<C> {
    pub(crate) attached: Attached,
    /// In the order of their connecting.
    pub(super) connections: Vec<Connection<C>>,
    signals: Signals,
    look_at: Instant,
}

/// One connection, by the name of what it is to.
pub(super) struct Connection<C> {
    pub(super) name: String,
    pub(super) client: C,
}

impl<C: Remote> Driver<C> {
    pub(crate) fn new(wire: &Wire) -> Result<Driver<C>> {
        let signals = Signals::block()?;
        Ok(Driver {
            attached: attach(&wire.kept_alive(), &Connections::default())?,
            connections: Vec::new(),
            signals,
            look_at: Instant::now(),
        })
    }

    /// Waits until a client is ready, for so many seconds; gives its place among the connections.
    pub(crate) fn connect(&mut self, name: String, client: C, seconds: u64) -> Result<usize> {
        let at = self.connections.len();
        self.connections.push(Connection { name, client });
        let deadline = Instant::now() + Duration::from_secs(seconds.max(1));
        loop {
            let progress = self.turn()?;
            let connection = &mut self.connections[at];
            match connection.client.poll_event() {
                Some(Event::Ready) => return Ok(at),
                Some(Event::Ended(failure)) => {
                    let failure =
                        failure.map_or_else(|| anyhow!("it ended"), |it| explain::<C>(&it));
                    return Err(failure.context(format!("can't connect to {}", connection.name)));
                }
                None => {}
            }
            if Instant::now() >= deadline {
                bail!(
                    "{} has not answered for {seconds} s; is it up, and on that network?",
                    connection.name
                );
            }
            if !progress {
                self.wait(Some(deadline))?;
            }
        }
    }

    /// A connection's client.
    pub(crate) fn client(&self, at: usize) -> &C {
        &self.connections[at].client
    }

    /// What has been counted of the protocol.
    pub(super) fn counted(&mut self) -> Counted {
        Counted::of(C::COUNTERS, self.attached.runtime.stack().counters())
    }

    /// Does what there is to do. Whether that was anything.
    ///
    /// # Errors
    /// When the user has interrupted, or the stack has failed.
    pub(crate) fn turn(&mut self) -> Result<bool> {
        let now = Instant::now();
        if now >= self.look_at {
            self.look_at = now + LOOK;
            if self.signals.received() {
                bail!("interrupted");
            }
        }
        self.turn_regardless(now)
    }

    fn turn_regardless(&mut self, now: Instant) -> Result<bool> {
        let runtime = &mut self.attached.runtime;
        let mut progress = runtime.poll(now)?;
        while let Some(event) = runtime.stack().poll_event() {
            progress = true;
            for connection in &mut self.connections {
                if connection.client.handle_event(now, runtime.stack(), &event) {
                    break;
                }
            }
        }
        for connection in &mut self.connections {
            progress |= connection.client.poll(now, runtime.stack());
        }
        Ok(progress)
    }

    /// Fails when a connection that is in use has ended.
    pub(crate) fn check(&mut self, at: usize) -> Result<()> {
        let Connection { name, client } = &mut self.connections[at];
        match client.poll_event() {
            Some(Event::Ended(Some(failure))) => {
                Err(explain::<C>(&failure)).with_context(|| format!("lost {name}"))
            }
            _ => Ok(()),
        }
    }

    /// Sleeps until there is something to do.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> Result<()> {
        let now = Instant::now();
        let connections = self.connections.iter();
        let timers = connections.filter_map(|connection| connection.client.poll_timeout());
        let timeout = timers.chain(until).min();
        let fds = [self.signals.as_fd()];
        if self.attached.runtime.wait(now, timeout, &fds)? {
            self.look_at = now;
        }
        Ok(())
    }

    /// Does something with the connections; says goodbye on all of them, whatever came of it, and ends the stack.
    pub(crate) fn with<R>(self, act: impl FnOnce(&RefCell<Self>) -> Result<R>) -> Result<R> {
        let driver = RefCell::new(self);
        let done = act(&driver);
        let ended = driver.into_inner().end();
        let done = done?;
        ended.map(|()| done)
    }

    fn end(mut self) -> Result<()> {
        let until = Instant::now() + FAREWELL;
        for connection in &mut self.connections {
            connection.client.shutdown();
        }
        loop {
            let mut progress = self.turn_regardless(Instant::now())?;
            for connection in &mut self.connections {
                // What is complete waits for nothing but to be looked at.
                while connection.client.poll_completion().is_some() {
                    progress = true;
                }
            }
            let mut connections = self.connections.iter();
            if connections.all(|connection| connection.client.is_ended()) || Instant::now() >= until
            {
                break;
            }
            if !progress {
                self.wait(Some(until))?;
            }
        }
        // What closes the connections is sent.
        self.turn_regardless(Instant::now())?;
        Ok(self.attached.runtime.shutdown(Instant::now())?)
    }
}

/// A failure, with what can be done about it.
fn explain<C: Remote>(failure: &C::Failure) -> anyhow::Error {
    match C::remedy(failure) {
        Some(remedy) => anyhow!("{failure}; {remedy}"),
        None => anyhow!("{failure}"),
    }
}

/// What can be done about a connection that TCP could not make, or lost.
pub(crate) fn transport_remedy(reason: &str) -> Option<&'static str> {
    let says = |word: &str| reason.contains(word);
    if says("refused") {
        Some("is a server listening on that port?")
    } else if says("unreachable") || says("timed out") {
        Some("is it up, and on that network?")
    } else {
        None
    }
}
