//! What moves frames on a core: a NIC with the functions of some hosts, and its wire.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Result;
use nic::{Nic, NicConfig, Payload, WireCapabilities};
use port::{Capabilities, Parts, Port, Source};

use crate::attach::secret;
use crate::cores::Pinned;
use crate::meta::{from_port, to_port};
use crate::nic_process::hosts::Host;
use crate::nic_process::meter::{Meter, Part};
use crate::nic_process::rings_hosts::RingsHosts;
use crate::nic_process::sleep::until_readable;
use crate::nic_process::wire::Wire;

/// How often what may be asked is looked at while there is work. It costs a system call.
const LOOK: Duration = Duration::from_micros(200);
/// Bytes that are taken from the wire before the hosts get them. So many stay in a core's cache.
const BATCH_BYTES: usize = 64 << 10;

/// All that a frame passes on its core but for Linux's interfaces, which the first core has.
pub struct DataPath {
    pub nic: Nic,
    pub rings: RingsHosts,
    pub wire: Wire,
    pub meter: Meter,
    /// Where its thread runs.
    pub pinned: Pinned,
    never_sleeps: bool,
    looked: Instant,
}

impl DataPath {
    /// One that has moved nothing yet.
    pub fn new(nic: Nic, rings: RingsHosts, wire: Wire, never_sleeps: bool) -> DataPath {
        DataPath {
            nic,
            rings,
            wire,
            meter: Meter::start(),
            pinned: Pinned::default(),
            never_sleeps,
            looked: Instant::now(),
        }
    }

    /// A NIC for such a wire.
    ///
    /// # Errors
    /// The system has no secret to give.
    pub fn nic(wire: Capabilities) -> Result<Nic> {
        Ok(Nic::new(NicConfig {
            mtu: wire.mtu,
            wire: WireCapabilities {
                tso: wire.tso,
                checksum: wire.checksum,
            },
            ..NicConfig::new(secret()?)
        }))
    }

    /// There is a gate of virtual machines or of the others, with channels of this core's hosts.
    pub fn connect(&mut self, channels: Vec<OwnedFd>, of_guests: bool) {
        let DataPath { rings, pinned, .. } = self;
        pinned.apart(|| rings.connect(channels, of_guests));
    }

    /// Moves frames, a batch of each host and of the wire. Gives their number.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn turn(&mut self, now: Instant, hosts: &mut [Host]) -> Result<usize> {
        let DataPath {
            nic,
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

    /// What follows a turn that has `moved` something or not: sleeps, at most until a deadline, if there is nothing to do. Says whether
    /// something is asked, by what becomes readable among `asked` or by a host on rings.
    pub fn rest<'a>(
        &mut self,
        now: Instant,
        moved: usize,
        hosts: &[Host],
        asked: impl Iterator<Item = BorrowedFd<'a>> + Clone,
        deadline: Option<Instant>,
    ) -> bool {
        let idles = moved == 0 && !self.never_sleeps;
        let slept = idles.then(|| self.sleep(now, hosts, asked.clone(), deadline));
        match slept.flatten() {
            Some(asked) => asked,
            None if now.duration_since(self.looked) >= LOOK => {
                self.looked = now;
                let fds = asked.map(shorter).chain(self.rings.fds());
                until_readable(fds, usize::MAX, now, Some(now))
            }
            None => false,
        }
    }

    /// `None` when there was work left, so that it did not sleep.
    fn sleep<'a>(
        &mut self,
        now: Instant,
        hosts: &[Host],
        asked: impl Iterator<Item = BorrowedFd<'a>> + Clone,
        deadline: Option<Instant>,
    ) -> Option<bool> {
        let is_idle = self.nic.prepare_sleep() && self.wire.prepare_sleep();
        let slept = is_idle.then(|| {
            self.meter.switch(Part::Asleep);
            let timers = hosts.iter().map(Host::poll_timeout);
            let timers = timers.chain([self.nic.poll_timeout(), self.wire.poll_timeout()]);
            let deadline = timers.chain([deadline]).flatten().min();
            let asked = asked.map(shorter).chain(self.rings.fds());
            let count = asked.clone().count();
            let moving = hosts.iter().filter_map(Host::fd);
            let fds = asked.chain(moving).chain(self.wire.fd());
            let asked = until_readable(fds, count, now, deadline);
            self.meter.switch(Part::Control);
            asked
        });
        self.wire.cancel_sleep();
        self.nic.cancel_sleep();
        slept
    }
}

/// The same, for a shorter time: an iterator's items have one lifetime.
fn shorter<'short, 'long: 'short>(fd: BorrowedFd<'long>) -> BorrowedFd<'short> {
    fd
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
