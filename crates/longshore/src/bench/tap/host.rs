//! Our side of a TAP: a stack, its NIC, and the device.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use host::{Cidr, Stack, StackConfig, read_cycles};
use nic::ring::FunctionConfig;
use nic::{Nic, NicConfig, WireCapabilities};
use port::{Meta, Port};
use wire::ethernet::MacAddr;

use super::namespace::{OURS, PREFIX};
use crate::meta::{from_port, to_port};
use crate::tally::tally;

/// Our MAC address on the TAP.
pub const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// A host of ours behind a TAP.
pub struct TapHost<P> {
    /// Its stack.
    pub stack: Stack,
    nic: Nic,
    port: P,
    writes: Writes,
}

tally! {
    /// Frames given to the device. Without NAPI, Linux works on a frame before the system call returns: all that its TCP does
    /// on it is in these cycles.
    pub struct Writes {
        /// Frames.
        pub frames: u64,
        /// What giving them took.
        pub cycles: u64,
    }
}

impl<P: Port> TapHost<P> {
    /// A host behind that port, with our address; the port says the MTU.
    ///
    /// # Errors
    /// When the NIC has no room for its function.
    pub fn new(now: Instant, port: P, config: StackConfig) -> anyhow::Result<Self> {
        let capabilities = port.capabilities();
        let mut nic = Nic::new(NicConfig {
            mtu: capabilities.mtu,
            wire: WireCapabilities {
                tso: capabilities.tso,
                checksum: capabilities.checksum,
            },
            ..NicConfig::new([7; 16])
        });
        let (function, device) = nic::ring::function(FunctionConfig::new(MAC));
        nic.attach(device)?;
        let stack = Stack::new(
            now,
            StackConfig {
                addresses: vec![Cidr::new(IpAddr::V4(OURS), PREFIX)],
                mtu: capabilities.mtu,
                secret: [9; 16],
                ..config
            },
            function,
        );
        Ok(Self {
            stack,
            nic,
            port,
            writes: Writes::default(),
        })
    }

    /// What becomes readable when the device has something.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.fd()
    }

    /// What was given to the device until now.
    pub fn writes(&self) -> Writes {
        self.writes
    }

    /// Takes what the device has, lets the stack work, and gives the device what there is. Answers whether anything moved.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn poll(&mut self, now: Instant) -> anyhow::Result<bool> {
        let Self {
            stack,
            nic,
            port,
            writes,
        } = self;
        let received = port.receive(now, &mut |frame, meta| {
            nic.handle_frame(now, frame, from_port(meta))
        })?;
        nic.flush(now);
        let worked = stack.poll(now);
        let mut given = None;
        let sent = port.transmit(now, &mut |buffer| {
            writes.end(given.take());
            let (len, meta) = nic.poll_transmit(now, buffer)?;
            given = Some(read_cycles());
            Some((len, to_port(meta)))
        })?;
        writes.end(given);
        Ok(received > 0 || worked || sent > 0)
    }

    /// What giving the device a frame of that many bytes takes of which Linux makes nothing: the system call, the copy,
    /// Linux's packet buffer, and that no protocol takes it. The median of some.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn unclaimed_write_cycles(&mut self, now: Instant, len: usize) -> anyhow::Result<f64> {
        const BATCHES: usize = 33;
        const FRAMES: u64 = 32;
        let mut each = Vec::with_capacity(BATCHES);
        for _ in 0..BATCHES {
            let mut writes = Writes::default();
            let mut given = None;
            self.port.transmit(now, &mut |buffer| {
                writes.end(given.take());
                if writes.frames == FRAMES {
                    return None;
                }
                let len = unclaimed(buffer, len);
                given = Some(read_cycles());
                Some((len, Meta::default()))
            })?;
            writes.end(given);
            if writes.frames > 0 {
                each.push(writes.cycles as f64 / writes.frames as f64);
            }
        }
        each.sort_by(f64::total_cmp);
        each.get(each.len() / 2)
            .copied()
            .ok_or_else(|| anyhow::anyhow!("the TAP takes no frames"))
    }
}

impl Writes {
    fn end(&mut self, given: Option<u64>) {
        if let Some(given) = given {
            self.frames += 1;
            self.cycles += read_cycles() - given;
        }
    }
}

/// A broadcast of the first EtherType that is set aside for experiments (IEEE 802).
fn unclaimed(buffer: &mut [u8], len: usize) -> usize {
    const HEADER: usize = 14;
    let len = len.clamp(60, buffer.len());
    buffer[..len].fill(0);
    buffer[..6].fill(0xff);
    buffer[6..12].copy_from_slice(&MAC.0);
    buffer[12..HEADER].copy_from_slice(&0x88b5_u16.to_be_bytes());
    len
}
