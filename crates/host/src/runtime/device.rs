//! A NIC and the port it is plugged into.

use std::io;
use std::time::Instant;

use nic::{FrameMeta, Nic};
use port::{Meta, Port};

use super::sleep::earlier;

/// A NIC with its port: moves frames between the two.
pub struct Device {
    /// The NIC.
    pub nic: Nic,
    /// Its wire.
    pub port: Box<dyn Port + Send>,
}

impl Device {
    /// Takes what came from the wire, and gives it what the NIC has to send. Whether anything moved.
    ///
    /// # Errors
    /// When the port is of no more use: its interface is gone.
    pub fn poll(&mut self, now: Instant) -> io::Result<bool> {
        let Device { nic, port } = self;
        let received = port.receive(now, &mut |frame, meta| {
            nic.handle_frame(now, frame, from_port(meta));
        })?;
        nic.flush(now);
        let sent = port.transmit(now, &mut |frame| {
            let (len, meta) = nic.poll_transmit(now, frame)?;
            Some((len, to_port(meta)))
        })?;
        Ok(received + sent > 0)
    }

    /// When to poll again although nothing comes.
    pub fn poll_timeout(&self) -> Option<Instant> {
        earlier(self.nic.poll_timeout(), self.port.poll_timeout())
    }
}

fn from_port(meta: Meta) -> FrameMeta {
    FrameMeta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}

fn to_port(meta: FrameMeta) -> Meta {
    Meta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}
