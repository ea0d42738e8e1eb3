//! The process that is the NIC: one thread moves frames, works while there is work and sleeps otherwise; others do what tenants and rings hosts can make
//! take long.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linux::LinuxFunction;
use nic::{Nic, NicConfig, Payload, WireCapabilities};
use port::{Parts, Port, Source};

use super::attachments::{Attachments, Question};
use super::ending::Ending;
use super::hosts::{Host, Interfaces};
use super::link::{Heard, Uplink};
use super::meter::{Meter, Part};
use super::options::Options;
use super::rings_hosts::RingsHosts;
use super::sleep::until_readable;
use super::state::State;
use super::{attachments, counters, faults, inherited, supervisor, wire};
use crate::attach::secret;
use crate::meta::{from_port, to_port};
use crate::sandbox::{self, Profile};
use crate::signals::Signals;

/// How often signals and the control process are looked at while there is work. It costs a system call.
const LOOK: Duration = Duration::from_micros(200);
/// Bytes that are taken from the wire before the hosts get them. So many stay in a core's cache.
const BATCH_BYTES: usize = 64 << 10;

/// Runs the NIC until it is told to end, or can't go on.
///
/// # Errors
/// When something is missing to begin with; the message says what to do.
pub fn run(options: &Options) -> Result<ExitCode> {
    let signals = Signals::block().context("can't block signals")?;
    let [link, pipe, lock] = inherited::take(&options.inherited)?;
    let state = State::inherited(&options.state_directory(), lock)?;
    let identity = options.identity()?;
    let output = options.background.output()?;
    let mut interfaces = Interfaces::new(&state);
    let opened = Worker::open(options, &mut interfaces, Uplink::new(link, pipe));
    let mut worker = opened.inspect_err(|_| interfaces.undo())?;
    // From here on it listens to the link.
    inherited::outlive_parent()?;
    let limits = attachments::limits();
    // As long as there is one thread.
    sandbox::enter(Profile::Worker, Some(identity))?;
    worker.attachments.start(limits)?;
    worker.announce(options);
    if let Some(output) = output {
        output.redirect().context("the output of --background")?;
    }
    match worker.work(&signals, options) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let _ = writeln!(io::stderr(), "longshore: {error:#}");
            Ok(ExitCode::from(supervisor::FAILED))
        }
    }
}

/// A NIC with all that it is plugged into.
struct Worker {
    nic: Nic,
    hosts: Vec<Host>,
    rings: RingsHosts,
    wire: Box<dyn Port + Send>,
    /// To the supervisor. Its end stays readable, so it is closed then.
    link: Option<Uplink>,
    attachments: Attachments,
    /// No control process has come yet: this NIC has no keys, and the next supervisor waits for its end.
    is_new: bool,
    /// Until which it is to end, and what tells that it may.
    ending: Option<Ending>,
    meter: Meter,
}

impl Worker {
    fn open(options: &Options, interfaces: &mut Interfaces<'_>, link: Uplink) -> Result<Worker> {
        let wire = wire::open(options, interfaces)?;
        let capabilities = wire.capabilities();
        let mut nic = Nic::new(NicConfig {
            mtu: capabilities.mtu,
            wire: WireCapabilities {
                tso: capabilities.tso,
                checksum: capabilities.checksum,
            },
            ..NicConfig::new(secret()?)
        });
        let rings = RingsHosts::open(options.rings())?;
        let hosts = options
            .taps()
            .map(|option| Host::open(option, &mut nic, interfaces, options.retain));
        Ok(Worker {
            hosts: hosts.collect::<Result<_>>()?,
            rings,
            nic,
            wire,
            link: Some(link),
            attachments: Attachments::default(),
            is_new: true,
            ending: None,
            meter: Meter::start(),
        })
    }

    /// Says where its hosts are, if anybody reads it.
    fn announce(&self, options: &Options) {
        let mut out = io::stdout().lock();
        self.rings.announce(&mut out);
        for (host, option) in self.hosts.iter().zip(options.taps()) {
            let name = host.tap().name();
            let _ = writeln!(out, "host {name} at {}", host.function().mac());
            if option.addresses.is_empty() {
                let _ = writeln!(out, "to give it an address: ip addr add ADDRESS dev {name}");
            }
        }
    }

    /// Moves frames until it is told to end.
    fn work(&mut self, signals: &Signals, options: &Options) -> Result<()> {
        self.link.iter().for_each(Uplink::tell_serves);
        let mut looked = Instant::now();
        loop {
            let now = Instant::now();
            if self.has_ended(now) {
                return Ok(());
            }
            let moved = self.turn(now)?;
            let idles = moved == 0 && !options.busy_poll;
            let slept = idles.then(|| self.sleep(now, signals.as_fd())).flatten();
            let asked = match slept {
                Some(asked) => asked,
                None if now.duration_since(looked) >= LOOK => {
                    looked = now;
                    until_readable(self.asked(signals.as_fd()), usize::MAX, now, Some(now))
                }
                None => false,
            };
            if asked {
                if signals.received() {
                    self.begin_to_end(now, options.drain());
                }
                self.hear(now, options.drain());
                self.rings.poll(&mut self.nic);
                self.answer(now, options.faults);
            }
        }
    }

    /// What becomes readable when somebody asks for something.
    fn asked<'a>(&'a self, signals: BorrowedFd<'a>) -> impl Iterator<Item = BorrowedFd<'a>> {
        let link = self.link.as_ref().map(AsFd::as_fd);
        let asked = self.attachments.fd().into_iter().chain(link);
        asked.chain(self.rings.fds()).chain([signals])
    }

    /// What the supervisor says: while this one ends, too, for what the control process and the gates are needed for then, others do when they die.
    /// Without a supervisor this process would not be started again: it ends in good order.
    fn hear(&mut self, now: Instant, patience: Duration) {
        let Some(link) = &self.link else {
            return;
        };
        match link.hear() {
            Heard::Channel(channel) => {
                self.is_new = false;
                self.attachments.connect(channel);
            }
            Heard::Gate(channels) => self.rings.connect(channels, false),
            Heard::Guests(channels) => self.rings.connect(channels, true),
            Heard::End => {
                self.link = None;
                if self.is_new {
                    self.begin_to_end(now, Duration::ZERO);
                } else if self.ending.is_none() {
                    self.begin_to_end(now, patience);
                }
            }
            Heard::Serves | Heard::Nothing => {}
        }
    }

    /// Asks libraries to make their records themselves, and lets connections come to rest. A second time, later, does not wait.
    fn begin_to_end(&mut self, now: Instant, patience: Duration) {
        let patience = match &self.ending {
            Some(ending) if ending.has_just_begun(now) => return,
            Some(_) => Duration::ZERO,
            None => patience,
        };
        self.ending = Some(Ending::new(now, patience));
        let hosts = &mut self.hosts;
        hosts
            .iter_mut()
            .for_each(|host| host.function_mut().drain());
        self.rings.drain();
    }

    fn has_ended(&mut self, now: Instant) -> bool {
        let Some(ending) = &mut self.ending else {
            return false;
        };
        let is_quiet = ending.is_quiet(now, self.nic.counters().iter());
        let mut functions = self.hosts.iter().map(Host::function);
        let is_drained =
            functions.all(LinuxFunction::is_drained) && self.rings.is_drained(&self.nic);
        is_quiet && is_drained || ending.is_over(now)
    }

    /// Moves frames, a batch of each host and of the wire. Gives their number.
    fn turn(&mut self, now: Instant) -> Result<usize> {
        let Worker {
            nic,
            hosts,
            rings,
            wire,
            meter,
            ..
        } = self;
        let mut moved = 0;
        for host in &mut *hosts {
            moved += host.take_frames(now, meter)?;
        }
        meter.switch(Part::WireWrite);
        moved += wire.transmit_parts(now, &mut Outgoing { nic, now, meter })?;
        moved += deliver(now, nic, hosts, meter)?;
        let (mut bytes, mut failed) = (0, None);
        meter.switch(Part::WireRead);
        moved += wire.receive(now, &mut |frame, meta| {
            meter.switch(Part::NicReceive);
            nic.handle_frame(now, frame, from_port(meta));
            bytes += frame.len();
            if bytes >= BATCH_BYTES {
                bytes = 0;
                failed = deliver(now, nic, hosts, meter).err();
            }
            meter.switch(Part::WireRead);
        })?;
        failed.map_or(Ok(()), Err)?;
        moved += deliver(now, nic, hosts, meter)?;
        meter.switch(Part::Control);
        rings.wake(nic);
        Ok(moved)
    }

    /// Sleeps until somebody has something, or it is time. Says whether somebody asks for something; `None` when there was work left,
    /// so that it did not sleep.
    fn sleep(&mut self, now: Instant, signals: BorrowedFd<'_>) -> Option<bool> {
        let is_idle = self.nic.prepare_sleep() && self.wire.prepare_sleep();
        let slept = is_idle.then(|| {
            self.meter.switch(Part::Asleep);
            let timers = self.hosts.iter().map(Host::poll_timeout);
            let timers = timers.chain([self.nic.poll_timeout(), self.wire.poll_timeout()]);
            let ending = self.ending.as_ref().map(|ending| ending.next_look(now));
            let deadline = timers.chain([ending]).flatten().min();
            let moving = self.hosts.iter().filter_map(Host::fd);
            let fds = self.asked(signals).chain(moving).chain(self.wire.fd());
            let asked = until_readable(fds, self.asked(signals).count(), now, deadline);
            self.meter.switch(Part::Control);
            asked
        });
        self.wire.cancel_sleep();
        self.nic.cancel_sleep();
        slept
    }

    /// Does what the control process asks for.
    fn answer(&mut self, now: Instant, may_fail: bool) {
        let Worker {
            nic,
            hosts,
            rings,
            wire,
            attachments,
            meter,
            ..
        } = self;
        attachments.poll(now, hosts, |question, hosts| match question {
            Question::Counters => {
                let groups = counters::groups(hosts, nic, wire.as_ref(), meter);
                serde_json::to_vec(&groups).unwrap_or_default()
            }
            Question::Fault(request) => {
                let done = faults::inject(request, may_fail, hosts, rings, nic);
                done.err().unwrap_or_default().into_bytes()
            }
        });
    }
}

/// What the NIC has for the wire.
struct Outgoing<'a> {
    nic: &'a mut Nic,
    now: Instant,
    meter: &'a mut Meter,
}

const _: () = assert!(Payload::MAX_PIECES <= Parts::MAX_LENT);

impl Source for Outgoing<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> Option<Parts<'_>> {
        self.meter.switch(Part::NicTransmit);
        let frame = self.nic.poll_transmit_borrowed(self.now, buffer);
        self.meter.switch(Part::WireWrite);
        let frame = frame?;
        let mut parts = Parts::new(frame.head, to_port(frame.meta));
        for piece in frame.payload.into_iter().flatten() {
            parts.lend(piece);
        }
        Some(parts)
    }
}

/// Shows the hosts what the NIC has done, and gives them what it has for them.
fn deliver(now: Instant, nic: &mut Nic, hosts: &mut [Host], meter: &mut Meter) -> Result<usize> {
    meter.switch(Part::NicReceive);
    nic.flush(now);
    let mut frames = 0;
    for host in hosts {
        frames += host.give_frames(now, meter)?;
    }
    Ok(frames)
}

#[cfg(test)]
mod tests;
