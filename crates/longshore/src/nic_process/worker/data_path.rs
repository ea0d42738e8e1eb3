//! What moves frames on a core: a NIC with the functions of some hosts, and its wire.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Result;
use nic::{Nic, NicConfig, Payload, WireCapabilities};
use port::{Capabilities, Parts, Port, Source};
use wire::packet::Addresses;

use crate::attach::secret;
use crate::cores::{Cores, Pinned};
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
/// Frames that are taken from the NIC in one turn at most: hosts may send faster than a wire that loses what it has no room for, as `mem` does.
const MOST_SENT: usize = 256;

/// The NIC of a core, its hosts on rings and its wire. Linux's interfaces are beside it, on the first core.
pub struct DataPath {
    pub nic: Nic,
    pub rings: RingsHosts,
    pub wire: Wire,
    pub meter: Meter,
    /// Where its thread runs.
    pub pinned: Pinned,
    /// Of several cores: which hosts are there, for frames to go to the wire while they are not.
    addresses: Option<Addresses>,
    never_sleeps: bool,
    looked: Instant,
}

impl DataPath {
    /// Puts these together; `addresses` are those of all cores' hosts, if there are several cores.
    pub fn new(
        nic: Nic,
        rings: RingsHosts,
        wire: Wire,
        addresses: Option<Addresses>,
        never_sleeps: bool,
    ) -> DataPath {
        DataPath {
            nic,
            rings,
            wire,
            meter: Meter::start(),
            pinned: Pinned::default(),
            addresses,
            never_sleeps,
            looked: Instant::now(),
        }
    }

    /// Has its thread run on a processor, if the cores are named. Without that it runs where the process may: the command line was checked, and a
    /// processor that has gone since then is no reason to be no NIC.
    pub fn pin(&mut self, cores: &Cores, nth: usize) {
        match cores.pin(nth) {
            Ok(pinned) => self.pinned = pinned,
            Err(error) => tracing::warn!("{error:#}; core {nth} of --cores is on any"),
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

    /// Attaches the functions of hosts that have come, and detaches those of hosts that have gone.
    pub fn poll_hosts(&mut self) {
        self.rings.poll(&mut self.nic);
        if let Some(addresses) = &self.addresses {
            for (mac, is_present) in self.rings.present() {
                addresses.set_present(mac, is_present);
            }
        }
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
        let mut outgoing = Outgoing {
            nic,
            now,
            meter,
            left: MOST_SENT,
        };
        moved += wire.transmit_parts(now, &mut outgoing)?;
        moved += deliver(now, nic, hosts, meter)?;
        let (mut bytes, mut failed) = (0, None);
        meter.switch(Part::WireRead);
        moved += wire.receive(now, &mut |frame, meta| {
            meter.switch(Part::NicReceive);
            nic.handle_frame(now, frame, from_port(meta));
            bytes += frame.len();
            if bytes >= BATCH_BYTES {
                bytes = 0;
                failed = failed.take().or(deliver(now, nic, hosts, meter).err());
            }
            meter.switch(Part::WireRead);
        })?;
        failed.map_or(Ok(()), Err)?;
        moved += deliver(now, nic, hosts, meter)?;
        meter.switch(Part::Control);
        rings.wake(nic);
        Ok(moved)
    }

    /// To be called after a turn that has `moved` so many frames. Sleeps if there is nothing to do, at most until a deadline. True if a request
    /// has come: something among `asked` is readable, or a host on rings wants something.
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
    /// Frames that it still gives in this turn.
    left: usize,
}

const _: () = assert!(Payload::MAX_PIECES <= Parts::MAX_LENT);

impl Source for Outgoing<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> Option<Parts<'_>> {
        self.left = self.left.checked_sub(1)?;
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
