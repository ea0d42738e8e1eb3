//! The process that is the NIC: one thread, or one on each core, moves frames, works while there is work and sleeps otherwise; other threads do
//! what may take long because of what tenants and hosts on rings have asked for.
//!
//! ```text
//!   first thread: signals, the link, the control process, TAP hosts      thread of another core
//!   NIC 0 ◀── hosts on rings ──▶                                          NIC 1 ◀── hosts on rings ──▶
//!     │                     ── order: channels, drain, stop, a fault ──▶    │
//!     │                     ◀─────────── told: counters, at rest ────────   │
//!   bridge 0 ═════════════════════════════ frames ═════════════════════ bridge 1
//! ```
//!
//! No thread waits for what another one does, but for a second at most, for a fault on purpose and at the end.

mod data_path;
mod other;
mod others;

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linux::LinuxFunction;

use super::attachments::{Attachments, Question};
use super::ending::Ending;
use super::hosts::{Host, Interfaces};
use super::link::{Heard, Uplink};
use super::options::Options;
use super::placement::Placement;
use super::rings_hosts::RingsHosts;
use super::state::State;
use super::{attachments, counters, faults, inherited, supervisor, wire};
use crate::cores::Cores;
use crate::sandbox::{self, Profile};
use crate::signals::Signals;
pub use data_path::DataPath;
use others::Others;

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
    let (mut worker, paths) = opened.inspect_err(|_| interfaces.undo())?;
    // From here on it listens to the link.
    inherited::outlive_parent()?;
    let limits = attachments::limits();
    // As long as there is one thread.
    sandbox::enter(Profile::Worker, Some(identity))?;
    worker.attachments.start(limits)?;
    worker.start_others(options, paths)?;
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

/// A NIC with all that it is plugged into, and those of other cores.
struct Worker {
    /// Dropped first: their threads pass frames to this one.
    others: Others,
    path: DataPath,
    hosts: Vec<Host>,
    placement: Placement,
    /// To the supervisor. Its end stays readable, so it is closed then.
    link: Option<Uplink>,
    attachments: Attachments,
    /// No control process has come yet: this NIC has no keys, and the next supervisor waits for its end.
    is_new: bool,
    /// Until which it is to end, and what tells that it may.
    ending: Option<Ending>,
}

impl Worker {
    /// Gives also what the other cores are to have.
    fn open(
        options: &Options,
        interfaces: &mut Interfaces<'_>,
        link: Uplink,
    ) -> Result<(Worker, Vec<DataPath>)> {
        let placement = Placement::of(options);
        let wires = wire::open(options, interfaces, placement.cores())?;
        let nics = wires.iter().map(|wire| DataPath::nic(wire.capabilities()));
        let mut nics = nics.collect::<Result<Vec<_>>>()?;
        let hosts = options
            .taps()
            .map(|option| Host::open(option, &mut nics[0], interfaces, options.retain));
        let hosts = hosts.collect::<Result<Vec<_>>>()?;
        let of_rings = options.rings().map(|option| option.mac);
        let of_taps = hosts.iter().map(|host| (host.function().mac(), 0));
        let of_all = of_rings.zip(placement.each()).chain(of_taps);
        let (wires, addresses) = wire::join(wires, of_all)?;
        if let Some(addresses) = &addresses {
            let taps = hosts.iter().map(|host| host.function().mac());
            taps.for_each(|mac| addresses.set_present(mac, true));
        }
        let mut paths = Vec::new();
        for (core, (nic, wire)) in nics.into_iter().zip(wires).enumerate() {
            let rings = RingsHosts::open(placement.on(core, options), options.rings().count())?;
            let addresses = addresses.clone();
            paths.push(DataPath::new(
                nic,
                rings,
                wire,
                addresses,
                options.busy_poll,
            ));
        }
        let worker = Worker {
            others: Others::default(),
            path: paths.remove(0),
            hosts,
            placement,
            link: Some(link),
            attachments: Attachments::default(),
            is_new: true,
            ending: None,
        };
        Ok((worker, paths))
    }

    /// Starts the threads of the other cores. They have the privileges that this one has now.
    fn start_others(&mut self, options: &Options, paths: Vec<DataPath>) -> Result<()> {
        let one = Cores::default();
        let cores = options.cores.as_ref().unwrap_or(&one);
        self.others = Others::start(paths, cores)?;
        self.path.pin(cores, 0);
        Ok(())
    }

    /// Says where its hosts are, if standard output is open.
    fn announce(&self, options: &Options) {
        let mut out = io::stdout().lock();
        for option in options.rings() {
            let _ = writeln!(out, "host {} at {}", option.socket.display(), option.mac);
        }
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
        loop {
            let now = Instant::now();
            if self.has_ended(now) {
                return Ok(());
            }
            let moved = self.path.turn(now, &mut self.hosts)?;
            let ending = self.ending.as_ref().map(|ending| ending.next_look(now));
            let asked = asked(&self.attachments, self.link.as_ref(), signals.as_fd());
            if self.path.rest(now, moved, &self.hosts, asked, ending) {
                // It may have slept for long: what begins now does not begin then.
                let now = Instant::now();
                if signals.received() {
                    self.begin_to_end(now, options.drain());
                }
                self.hear(now, options.drain());
                self.path.poll_hosts();
                self.answer(now, options.faults);
            }
        }
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
            Heard::Gate(channels) => self.connect(channels, false),
            Heard::Guests(channels) => self.connect(channels, true),
            Heard::End => {
                self.link = None;
                if self.is_new {
                    self.begin_to_end(now, Duration::ZERO);
                } else if self.ending.is_none() {
                    self.begin_to_end(now, patience);
                }
            }
            Heard::Asked => {
                if self.others.go_on(now) {
                    link.tell_goes_on();
                }
            }
            Heard::Serves | Heard::GoesOn | Heard::Nothing => {}
        }
    }

    /// There is a gate of virtual machines or of the others: each core gets the channels of its hosts.
    fn connect(&mut self, channels: Vec<OwnedFd>, of_guests: bool) {
        let mut dealt = self.placement.deal(channels, of_guests).into_iter();
        let own = dealt.next().unwrap_or_default();
        self.path.connect(own, of_guests);
        self.others.connect(dealt, of_guests);
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
        self.path.rings.drain();
        self.others.drain();
    }

    fn has_ended(&mut self, now: Instant) -> bool {
        let Some(ending) = &mut self.ending else {
            return false;
        };
        let is_quiet = ending.is_quiet(now, self.path.nic.counters().iter());
        let mut functions = self.hosts.iter().map(Host::function);
        let is_drained = functions.all(LinuxFunction::is_drained)
            && self.path.rings.is_drained(&self.path.nic)
            && self.others.are_at_rest();
        is_quiet && is_drained || ending.is_over(now)
    }

    /// Does what the control process asks for.
    fn answer(&mut self, now: Instant, may_fail: bool) {
        let Worker {
            path,
            hosts,
            others,
            attachments,
            ..
        } = self;
        attachments.poll(now, hosts, |question, hosts| match question {
            Question::Counters => {
                // A core that hangs is told of as one core's NIC is: there is no answer.
                let counted = others.counters(now);
                let groups = counted.map(|counted| counters::groups(hosts, path, counted));
                groups.and_then(|groups| serde_json::to_vec(&groups).ok())
            }
            Question::Fault(request) => {
                let done = faults::inject(request, may_fail, |host, fault| {
                    faults::inject_here(host, fault, hosts, &path.rings, &mut path.nic)
                        || others.inject(host, fault)
                });
                Some(done.err().unwrap_or_default().into_bytes())
            }
        });
    }
}

/// What becomes readable when a request comes, except from hosts on rings.
fn asked<'a>(
    attachments: &'a Attachments,
    link: Option<&'a Uplink>,
    signals: BorrowedFd<'a>,
) -> impl Iterator<Item = BorrowedFd<'a>> + Clone {
    let link = link.map(AsFd::as_fd);
    attachments.fd().into_iter().chain(link).chain([signals])
}

#[cfg(test)]
mod tests;
