//! A TAP device: the Linux kernel's end of an Ethernet wire whose other end is ours.
//!
//! With virtio-net's header before each frame, super-frames and unfinished checksums pass in both directions, so
//! that Linux's TCP works on up to 64 KiB at once.

mod device;
mod vnet;

pub use device::OpenError;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::meta::{Capabilities, LINK_HEADER_LEN, MAX_SUPER_FRAME};
use crate::{Fill, Port, Take};

/// How a TAP device is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapConfig {
    /// Pass super-frames, in both directions.
    pub tso: bool,
    /// Pass frames whose checksum is not finished, in both directions. Super-frames need it.
    pub checksum: bool,
}

impl Default for TapConfig {
    /// Both.
    fn default() -> TapConfig {
        TapConfig {
            tso: true,
            checksum: true,
        }
    }
}

/// An open TAP device.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    name: String,
    capabilities: Capabilities,
    /// Header and frame that are received.
    incoming: Box<[u8]>,
    /// Header and frame that are sent.
    outgoing: Box<[u8]>,
    /// Bytes of `outgoing` that the kernel had no memory for.
    unsent: Option<Unsent>,
    counters: Counters,
}

#[derive(Debug)]
struct Unsent {
    len: usize,
    retry_at: Instant,
}

#[derive(Debug, Default)]
struct Counters {
    tx_packets: u64,
    tx_bytes: u64,
    tx_super_frames: u64,
    tx_dropped: u64,
    rx_packets: u64,
    rx_bytes: u64,
    rx_super_frames: u64,
    rx_errors: u64,
}

impl Tap {
    /// Opens the TAP device `name`, and makes it if there is none; one that was made thus goes away when it is
    /// closed. A name with `%d` gets the first free number, see [`name`](Self::name).
    ///
    /// # Errors
    /// See [`OpenError`]; each says what to do.
    pub fn open(name: &str, config: TapConfig) -> Result<Tap, OpenError> {
        let (fd, name) = device::open(name)?;
        device::set_header_len(&fd, vnet::HEADER_LEN, &name)?;
        device::set_offload(&fd, config.checksum || config.tso, config.tso, &name)?;
        let mtu = device::mtu(&name)?;
        let max_frame = if config.tso {
            MAX_SUPER_FRAME
        } else {
            usize::from(mtu) + LINK_HEADER_LEN
        };
        let capabilities = Capabilities {
            mtu,
            max_frame,
            tso: config.tso,
            checksum: config.checksum || config.tso,
        };
        Ok(Tap {
            fd,
            name,
            capabilities,
            incoming: vec![0; vnet::HEADER_LEN + MAX_RECEIVED].into(),
            outgoing: vec![0; vnet::HEADER_LEN + max_frame].into(),
            unsent: None,
            counters: Counters::default(),
        })
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the device up, as `ip link set NAME up` does.
    ///
    /// # Errors
    /// The process lacks CAP_NET_ADMIN.
    pub fn set_up(&self) -> io::Result<()> {
        device::set_up(&self.name)
    }

    /// Writes `len` bytes of `outgoing`. `false`: the kernel has no memory for them now.
    fn write(&mut self, now: Instant, len: usize) -> io::Result<bool> {
        match retry_if_interrupted(|| rustix::io::write(&self.fd, &self.outgoing[..len])) {
            Ok(_) => {
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += (len - vnet::HEADER_LEN) as u64;
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                self.unsent = Some(Unsent {
                    len,
                    retry_at: now + RETRY_INTERVAL,
                });
                Ok(false)
            }
            // The device is down, or the frame is not to Linux's liking: lost, as on any wire.
            Err(Errno::IO | Errno::INVAL) => {
                self.counters.tx_dropped += 1;
                Ok(true)
            }
            Err(error) => Err(self.gone(error)),
        }
    }

    /// The error that says that the device cannot be used any longer.
    fn gone(&self, error: Errno) -> io::Error {
        let kind = io::Error::from(error).kind();
        io::Error::new(
            kind,
            format!("TAP {} has failed or was removed: {error}", self.name),
        )
    }
}

impl Port for Tap {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn transmit(&mut self, now: Instant, fill: &mut Fill<'_>) -> io::Result<usize> {
        if let Some(Unsent { len, .. }) = self.unsent.take()
            && !self.write(now, len)?
        {
            return Ok(0);
        }
        let mut sent = 0;
        while sent < BATCH {
            let (header, frame) = self.outgoing.split_at_mut(vnet::HEADER_LEN);
            let Some((len, meta)) = fill(frame) else {
                break;
            };
            vnet::encode(meta, &frame[..len], header);
            self.counters.tx_super_frames += u64::from(meta.gso_size != 0);
            sent += 1;
            if !self.write(now, vnet::HEADER_LEN + len)? {
                break;
            }
        }
        Ok(sent)
    }

    fn receive(&mut self, _now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        let mut received = 0;
        while received < BATCH {
            let len =
                match retry_if_interrupted(|| rustix::io::read(&self.fd, &mut self.incoming[..])) {
                    Ok(len) => len,
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(self.gone(error)),
                };
            received += 1;
            let Some((meta, frame)) = vnet::decode(&self.incoming[..len]) else {
                self.counters.rx_errors += 1;
                continue;
            };
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += frame.len() as u64;
            self.counters.rx_super_frames += u64::from(meta.gso_size != 0);
            take(frame, meta);
        }
        Ok(received)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.unsent.as_ref().map(|unsent| unsent.retry_at)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let counters = &self.counters;
        visit("tx_packets", counters.tx_packets);
        visit("tx_bytes", counters.tx_bytes);
        visit("tx_super_frames", counters.tx_super_frames);
        visit("tx_dropped", counters.tx_dropped);
        visit("rx_packets", counters.rx_packets);
        visit("rx_bytes", counters.rx_bytes);
        visit("rx_super_frames", counters.rx_super_frames);
        visit("rx_errors", counters.rx_errors);
    }
}

fn retry_if_interrupted(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Frames of one call to `transmit` or `receive`.
const BATCH: usize = 64;
/// The most bytes of a frame from the kernel: more than any MTU and any super-frame.
const MAX_RECEIVED: usize = MAX_SUPER_FRAME + 64;
/// When to try again where the kernel had no memory for a frame.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
