//! A TAP device: the Linux kernel's end of an Ethernet wire whose other end is ours.
//!
//! With virtio-net's header before each frame, super-frames and unfinished checksums pass in both directions, so
//! that Linux's TCP works on up to 64 KiB at once.

mod address;
mod device;

use device::Queues;

pub use device::OpenError;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::meta::{Capabilities, LINK_HEADER_LEN, MAX_SUPER_FRAME, Meta};
use crate::parts::Whole;
use crate::share::PassOutcome;
use crate::{Fill, Port, Share, Source, Take, vnet};

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
    share: Share,
    counters: vnet::Counters,
}

#[derive(Debug)]
struct Unsent {
    len: usize,
    retry_at: Instant,
}

impl Tap {
    /// Opens the TAP device `name`, and makes it if it does not exist; one that was made thus goes away when it is
    /// closed. A name with `%d` gets the first free number, see [`name`](Self::name).
    ///
    /// # Errors
    /// See [`OpenError`]; each says what to do.
    pub fn open(name: &str, config: TapConfig) -> Result<Tap, OpenError> {
        Tap::open_queue(name, config, Queues::One)
    }

    /// Opens so many queues of a TAP device, at least one, and makes it if it does not exist. Linux sends a flow's frames to the queue by
    /// which others of the flow have come last, and new ones to any.
    ///
    /// # Errors
    /// As [`open`](Self::open), of a device that was made for several queues.
    pub fn open_queues(name: &str, config: TapConfig, count: u16) -> Result<Vec<Tap>, OpenError> {
        let first = Tap::open_queue(name, config, Queues::Several)?;
        let name = first.name.clone();
        let mut queues = vec![first];
        for _ in 1..count {
            queues.push(Tap::open_queue(&name, config, Queues::Several)?);
        }
        Ok(queues)
    }

    fn open_queue(name: &str, config: TapConfig, queues: Queues) -> Result<Tap, OpenError> {
        let (fd, name) = device::open(name, queues)?;
        Tap::set_up_queue(fd, name, config)
    }

    /// A queue that another process has opened and shares with this one, which receives nothing of it yet ([`Port::share`]).
    ///
    /// # Errors
    /// It is no queue of a TAP device, or the device is gone.
    pub fn adopt(queue: OwnedFd, config: TapConfig) -> Result<Tap, OpenError> {
        let name = device::name(&queue)?;
        let tap = Tap::set_up_queue(queue, name, config)?;
        Ok(Tap {
            share: Share::Nothing,
            ..tap
        })
    }

    fn set_up_queue(fd: OwnedFd, name: String, config: TapConfig) -> Result<Tap, OpenError> {
        device::set_header_len(&fd, vnet::HEADER_LEN, &name)?;
        device::set_offload(&fd, config.checksum || config.tso, config.tso, &name)?;
        let mtu = crate::interface::mtu(&name)
            .map_err(|error| device::io_error("ask for the MTU of", &name, error))?;
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
            share: Share::Whole,
            counters: vnet::Counters::default(),
        })
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the device up, as `ip link set NAME up` does, unless it is up.
    ///
    /// # Errors
    /// The device is down, and the process lacks CAP_NET_ADMIN.
    pub fn set_up(&self) -> io::Result<()> {
        crate::interface::set_up(&self.name)
    }

    /// Whether the device is up and has a carrier, so that Linux can send through it.
    ///
    /// # Errors
    /// The device is gone.
    pub fn is_running(&self) -> io::Result<bool> {
        Ok(crate::interface::link_state(&self.name)? == crate::LinkState::Up)
    }

    /// Lets the user with this number open the device without privileges, as `ip tuntap add … user` does.
    ///
    /// # Errors
    /// The process lacks CAP_NET_ADMIN.
    pub fn set_owner(&self, uid: u32) -> io::Result<()> {
        device::set_owner(&self.fd, uid)
    }

    /// Whether there is an interface of this name, a TAP device or another one.
    #[must_use]
    pub fn exists(name: &str) -> bool {
        crate::interface::index(name).is_ok()
    }

    /// Keeps the device when it is closed, with its addresses and routes, or lets it go away then.
    ///
    /// # Errors
    /// The process lacks CAP_NET_ADMIN.
    pub fn set_persistent(&self, persistent: bool) -> io::Result<()> {
        device::set_persistent(&self.fd, persistent)
    }

    /// The Ethernet address of Linux's side.
    ///
    /// # Errors
    /// The device is gone.
    pub fn address(&self) -> io::Result<[u8; 6]> {
        device::address(&self.fd)
    }

    /// Sets the Ethernet address of Linux's side.
    ///
    /// # Errors
    /// It is no unicast address, or the device is gone.
    pub fn set_address(&self, address: [u8; 6]) -> io::Result<()> {
        device::set_address(&self.fd, address)
    }

    /// Gives Linux's side an IP address, as `ip addr add` does. It may have it already.
    ///
    /// # Errors
    /// The process lacks CAP_NET_ADMIN, or no interface can have such an address.
    pub fn add_ip(&self, ip: IpAddr, prefix_len: u8) -> io::Result<()> {
        address::add(&self.name, ip, prefix_len)
    }

    /// Reads a frame that Linux has sent into memory of the caller's: what does not fit into `frame` goes to `beyond`. Together they should
    /// have room for any. Gives its length, and `None` when no frame is waiting.
    ///
    /// # Errors
    /// The device is gone or broken.
    pub fn read_frame(
        &mut self,
        frame: &mut [u8],
        beyond: &mut [u8],
    ) -> io::Result<Option<(usize, Meta)>> {
        let mut header = [0; vnet::HEADER_LEN];
        let len = loop {
            let parts = &mut [
                IoSliceMut::new(&mut header),
                IoSliceMut::new(frame),
                IoSliceMut::new(beyond),
            ];
            match retry_if_interrupted(|| rustix::io::readv(&self.fd, parts)) {
                Ok(len) if len >= vnet::HEADER_LEN => break len - vnet::HEADER_LEN,
                Ok(_) => self.counters.rx_errors += 1,
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(self.gone(error)),
            }
        };
        let meta = vnet::decode_header(&header);
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += len as u64;
        self.counters.rx_super_frames += u64::from(meta.gso_size != 0);
        Ok(Some((len, meta)))
    }

    /// Gives Linux a frame. It is lost when the device is down or the kernel has no memory for it.
    ///
    /// # Errors
    /// The device is gone or broken.
    pub fn write_frame(&mut self, frame: &[u8], meta: Meta) -> io::Result<()> {
        let mut header = [0; vnet::HEADER_LEN];
        vnet::encode(meta, frame, &mut header);
        let parts = [IoSlice::new(&header), IoSlice::new(frame)];
        match retry_if_interrupted(|| rustix::io::writev(&self.fd, &parts)) {
            Ok(_) => {
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += frame.len() as u64;
                self.counters.tx_super_frames += u64::from(meta.gso_size != 0);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::IO | Errno::INVAL) => {
                self.counters.tx_dropped += 1;
                Ok(())
            }
            Err(error) => Err(self.gone(error)),
        }
    }

    /// Sends what could not be sent before. `false`: it can't be now.
    fn send_unsent(&mut self, now: Instant) -> io::Result<bool> {
        let Some(Unsent { len, .. }) = self.unsent.take() else {
            return Ok(true);
        };
        let written = retry_if_interrupted(|| rustix::io::write(&self.fd, &self.outgoing[..len]));
        let sent = self.judge(written)?;
        if !sent {
            self.wait(now, len);
        }
        Ok(sent)
    }

    /// Counts a frame that was written. `false`: the kernel has no memory for it now.
    fn judge(&mut self, written: Result<usize, Errno>) -> io::Result<bool> {
        match written {
            Ok(len) => {
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += len.saturating_sub(vnet::HEADER_LEN) as u64;
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => Ok(false),
            // The device is down, the frame is not to Linux's liking, or its memory was taken away: lost, as on any wire.
            Err(Errno::IO | Errno::INVAL | Errno::FAULT) => {
                self.counters.tx_dropped += 1;
                Ok(true)
            }
            Err(error) => Err(self.gone(error)),
        }
    }

    /// The first `len` bytes of `outgoing` are to be sent first.
    fn wait(&mut self, now: Instant, len: usize) {
        self.unsent = Some(Unsent {
            len,
            retry_at: now + RETRY_INTERVAL,
        });
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
        self.transmit_parts(now, &mut Whole(fill))
    }

    fn transmit_parts(&mut self, now: Instant, source: &mut dyn Source) -> io::Result<usize> {
        if !self.send_unsent(now)? {
            return Ok(0);
        }
        let mut sent = 0;
        while sent < BATCH {
            let (header, room) = self.outgoing.split_at_mut(vnet::HEADER_LEN);
            let Some(parts) = source.next(room) else {
                break;
            };
            vnet::encode(parts.meta, &room[..parts.head], header);
            self.counters.tx_super_frames += u64::from(parts.meta.gso_size != 0);
            sent += 1;
            let front = &self.outgoing[..vnet::HEADER_LEN + parts.head];
            let written = retry_if_interrupted(|| parts.write(&self.fd, front));
            if !self.judge(written)? {
                let whole = parts.gather(&mut self.outgoing[vnet::HEADER_LEN..]);
                self.wait(now, vnet::HEADER_LEN + whole);
                break;
            }
        }
        Ok(sent)
    }

    fn receive(&mut self, _now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        let mut received = 0;
        while received < BATCH {
            let source = match &self.share {
                Share::Whole | Share::Divided(_) => &self.fd,
                Share::Passed(socket) => socket,
                Share::Nothing => break,
            };
            let len =
                match retry_if_interrupted(|| rustix::io::read(source, &mut self.incoming[..])) {
                    Err(Errno::AGAIN) => break,
                    // The process that has passed frames on is gone, and says so by another way too.
                    Ok(0) | Err(_) if matches!(self.share, Share::Passed(_)) => {
                        self.share = Share::Nothing;
                        break;
                    }
                    Ok(len) => len,
                    Err(error) => return Err(self.gone(error)),
                };
            received += 1;
            let raw = &self.incoming[..len];
            let Some((meta, frame)) = vnet::decode(raw) else {
                self.counters.rx_errors += 1;
                continue;
            };
            if let Share::Divided(passing) = &self.share {
                let passed = passing.take(frame, raw);
                self.counters.passed(passed);
                if matches!(passed, PassOutcome::On | PassOutcome::Lost) {
                    continue;
                }
            }
            self.counters.received(frame, meta);
            take(frame, meta);
        }
        Ok(received)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.unsent.as_ref().map(|unsent| unsent.retry_at)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.share {
            Share::Whole | Share::Divided(_) => Some(self.fd.as_fd()),
            Share::Passed(socket) => Some(socket.as_fd()),
            Share::Nothing => None,
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.counters.visit(visit);
    }

    fn queue(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn share(&mut self, share: Share) -> io::Result<()> {
        self.share = share;
        Ok(())
    }
}

/// The IP addresses of an interface, a TAP device or another one.
///
/// # Errors
/// What the system gives.
pub fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    crate::interface::addresses(name)
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
