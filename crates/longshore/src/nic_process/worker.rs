//! The process that is the NIC: one thread, which works while there is work and sleeps otherwise.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nic::{Nic, NicConfig, Payload, WireCapabilities};
use port::{Parts, Port, Source};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::attachments::Attachments;
use super::hosts::{Host, Interfaces};
use super::meter::{Meter, Part};
use super::options::Options;
use super::rings_hosts::RingsHosts;
use super::sleep::until_readable;
use super::state::State;
use super::{counters, supervisor, wire};
use crate::attach::secret;
use crate::control::{self, Answer, Request};
use crate::meta::{from_port, to_port};
use crate::signals::Signals;

/// How often signals and the control socket are looked at while there is work. It costs a system call.
const LOOK: Duration = Duration::from_micros(200);
/// How long the end waits for peers to acknowledge what the NIC has made.
const DRAIN: Duration = Duration::from_secs(10);
/// Bytes that are taken from the wire before the hosts get them. So many stay in a core's cache.
const BATCH_BYTES: usize = 64 << 10;

/// Runs the NIC until it is told to end, or can't go on.
///
/// # Errors
/// When something is missing to begin with; the message says what to do.
pub fn run(options: &Options) -> Result<ExitCode> {
    let signals = Signals::block().context("signals can't be taken over")?;
    // Nobody would start it again: it ends in good order.
    set_parent_process_death_signal(Some(Signal::TERM))
        .context("the supervisor can't be watched")?;
    let directory = options.state.clone();
    let directory = directory.unwrap_or_else(|| State::default_directory(options.name()));
    let state = State::open(directory)?;
    let control = control::Server::bind(&options.control)?;
    // Programs of any user may have their connections' records made: they can name sockets of their own only.
    control.open_to_all()?;
    let mut interfaces = Interfaces::new(&state);
    let opened = Worker::open(options, &mut interfaces, control);
    let mut worker = opened.inspect_err(|_| interfaces.undo())?;
    worker.announce(options);
    let ended = worker.work(&signals, options.busy_poll);
    drop(worker);
    match ended {
        Ok(()) => {
            interfaces.remove_made();
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("longshore: {error:#}");
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
    control: control::Server,
    attachments: Attachments,
    meter: Meter,
}

impl Worker {
    fn open(
        options: &Options,
        interfaces: &mut Interfaces<'_>,
        control: control::Server,
    ) -> Result<Worker> {
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
            control,
            attachments: Attachments::default(),
            meter: Meter::start(),
        })
    }

    fn announce(&self, options: &Options) {
        self.rings.announce();
        for (host, option) in self.hosts.iter().zip(options.taps()) {
            println!("host {} at {}", host.tap().name(), host.function().mac());
            if option.addresses.is_empty() {
                println!(
                    "to give it an address: ip addr add ADDRESS dev {}",
                    host.tap().name()
                );
            }
        }
    }

    /// Moves frames until it is told to end.
    fn work(&mut self, signals: &Signals, busy_poll: bool) -> Result<()> {
        let mut looked = Instant::now();
        let mut end = None;
        loop {
            let now = Instant::now();
            if end.is_some_and(|end| end <= now || self.is_drained()) {
                return Ok(());
            }
            let moved = self.turn(now)?;
            let idles = moved == 0 && !busy_poll;
            let slept = idles
                .then(|| self.sleep(now, end, signals.as_fd()))
                .flatten();
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
                    // A second one does not wait.
                    end = Some(end.map_or(now + DRAIN, |_| now));
                    let hosts = &mut self.hosts;
                    hosts
                        .iter_mut()
                        .for_each(|host| host.function_mut().drain());
                    self.rings.drain();
                }
                self.answer();
                self.rings.poll(&mut self.nic);
                self.attachments.poll(now, &mut self.hosts);
            }
        }
    }

    /// What becomes readable when somebody asks for something.
    fn asked<'a>(&'a self, signals: BorrowedFd<'a>) -> impl Iterator<Item = BorrowedFd<'a>> {
        let asked = self.control.fds().chain(self.attachments.fds());
        asked.chain(self.rings.fds()).chain([signals])
    }

    fn is_drained(&self) -> bool {
        self.hosts.iter().all(|host| host.function().is_drained())
            && self.rings.is_drained(&self.nic)
    }

    /// Moves what there is, a batch of each. Gives the number of frames.
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

    /// Sleeps until somebody has something, or the `end` has come. Says whether somebody asks for something; `None` when there was work left,
    /// so that it did not sleep.
    fn sleep(
        &mut self,
        now: Instant,
        end: Option<Instant>,
        signals: BorrowedFd<'_>,
    ) -> Option<bool> {
        let is_idle = self.nic.prepare_sleep() && self.wire.prepare_sleep();
        let slept = is_idle.then(|| {
            self.meter.switch(Part::Asleep);
            let timers = self.hosts.iter().map(Host::poll_timeout);
            let timers = timers.chain([self.nic.poll_timeout(), self.wire.poll_timeout()]);
            let deadline = timers.chain([end]).flatten().min();
            let moving = self.hosts.iter().filter_map(Host::fd);
            let fds = self.asked(signals).chain(moving).chain(self.wire.fd());
            let asked = until_readable(fds, self.asked(signals).count(), now, deadline);
            self.meter.switch(Part::Control);
            asked
        });
        self.wire.cancel_sleep();
        self.nic.cancel_sleep();
        self.rings.answer();
        slept
    }

    /// Answers what is asked at the control socket.
    fn answer(&mut self) {
        let Worker {
            nic,
            hosts,
            wire,
            control,
            attachments,
            meter,
            ..
        } = self;
        control.poll(|request| match request {
            Request::Stat => Answer::Stat(counters::groups(hosts, nic, wire.as_ref(), meter)),
            Request::Sockets => Answer::Error("the sockets are Linux's: ask `ss -ti`".to_owned()),
            Request::Restore { .. } | Request::Drain { .. } => {
                Answer::Error("the connections are Linux's".to_owned())
            }
            Request::Attach => Answer::Attached,
        });
        for stream in control.take_attached() {
            attachments.add(stream);
        }
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
        let frame = self.nic.poll_transmit_lent(self.now, buffer);
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
