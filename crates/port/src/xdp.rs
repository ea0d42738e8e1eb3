//! Any network interface as a wire, by AF_XDP (the kernel's `Documentation/networking/af_xdp.rst`).
//!
//! As long as the port is open, all that comes to the interface is the port's, and Linux sees none of it. Frames are single packets
//! with finished checksums in both directions. Between a veth's ends Linux leaves checksums unfinished, of which AF_XDP does not
//! tell: `ethtool -K PEER tx off` on the other end.

mod program;
mod queue;
mod ring;
mod socket;
mod umem;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::counters::counters;
use crate::meta::{Capabilities, LINK_HEADER_LEN, Meta};
use crate::{Fill, Port, Take, interface};
use program::Program;
use queue::{Queue, Taken};

/// Why an interface cannot be a wire, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The process must not use AF_XDP.
    #[error(
        "no permission for AF_XDP on {interface}: that needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; run with sudo"
    )]
    NotPermitted {
        /// The interface.
        interface: String,
    },
    /// There is no such interface.
    #[error("there is no interface {interface}; `ip link` shows those of this network namespace")]
    NoInterface {
        /// The interface.
        interface: String,
    },
    /// Somebody else has it.
    #[error(
        "{interface} has an XDP program or socket already: stop the program that uses it, or `ip link set {interface} xdp off`"
    )]
    InUse {
        /// The interface.
        interface: String,
    },
    /// It is down.
    #[error("{interface} is down, and AF_XDP needs it up: `ip link set {interface} up`")]
    Down {
        /// The interface.
        interface: String,
    },
    /// Its packets fit in no frame.
    #[error(
        "{interface} has an MTU of {mtu}, and AF_XDP takes at most {}: `ip link set {interface} mtu {}`",
        umem::MAX_MTU,
        umem::MAX_MTU
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: u16,
    },
    /// Anything else.
    #[error("cannot {action} {interface}; a kernel without AF_XDP has packet sockets")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The interface.
        interface: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// AF_XDP sockets on all queues of an interface.
#[derive(Debug)]
pub struct Xdp {
    /// What comes on any is received; all is sent on the first, in order.
    queues: Vec<Queue>,
    /// The queue to be looked at next.
    next: usize,
    /// Readable when any of them is.
    readable: OwnedFd,
    capabilities: Capabilities,
    /// When to try to send again what the kernel did not take.
    retry_at: Option<Instant>,
    /// The interface was down when it was last looked at: nothing is sent until then.
    down_until: Option<Instant>,
    counters: Counters,
    _program: Program,
}

counters! {
    struct Counters {
        /// Frames sent.
        tx_packets,
        /// Bytes of the frames sent.
        tx_bytes,
        /// Frames lost because the interface was down.
        tx_dropped,
        /// Frames received.
        rx_packets,
        /// Bytes of the frames received.
        rx_bytes,
        /// Frames that the kernel dropped because the port was too slow or had no room.
        rx_dropped,
        /// Queues of the interface that the port serves.
        queues,
    }
}

pub(crate) const EXPLANATIONS: &[(&str, &str)] = Counters::EXPLANATIONS;

impl Xdp {
    /// Opens an interface, which must be there.
    ///
    /// # Errors
    /// See [`OpenError`]; each says what to do.
    pub fn open(name: &str) -> Result<Xdp, OpenError> {
        let failed = |action| move |error| explain(error, action, name);
        let index = interface::index(name).map_err(failed("ask for the number of"))?;
        let mtu = interface::mtu(name).map_err(failed("ask for the MTU of"))?;
        if mtu > umem::MAX_MTU {
            let interface = name.to_owned();
            return Err(OpenError::Mtu { interface, mtu });
        }
        let count = socket::queues(name);
        let queues = (0..count).map(|number| Queue::open(index, number));
        let queues: io::Result<Vec<Queue>> = queues.collect();
        let queues = queues.map_err(failed("open AF_XDP sockets on"))?;
        let sockets = queues.iter().map(Queue::fd);
        let program =
            Program::attach(index, sockets).map_err(failed("attach an XDP program to"))?;
        let readable = wait_for_any(&queues).map_err(failed("wait for"))?;
        Ok(Xdp {
            queues,
            next: 0,
            readable,
            capabilities: Capabilities {
                mtu,
                max_frame: usize::from(mtu) + LINK_HEADER_LEN,
                tso: false,
                checksum: false,
            },
            retry_at: None,
            down_until: None,
            counters: Counters::default(),
            _program: program,
        })
    }

    /// Whether the interface is down, at which it looks now and then.
    fn is_down(&mut self, now: Instant) -> io::Result<bool> {
        match (self.down_until, self.queues.first_mut()) {
            (Some(until), _) if now < until => Ok(true),
            (Some(_), Some(queue)) => {
                let taken = queue.kick()?;
                self.note(now, taken);
                Ok(taken == Taken::Down)
            }
            _ => Ok(false),
        }
    }

    /// The kernel has taken so much of what was pushed.
    fn note(&mut self, now: Instant, taken: Taken) {
        self.down_until = (taken == Taken::Down).then(|| now + DOWN_INTERVAL);
        self.retry_at = match taken {
            Taken::All => None,
            Taken::Part => Some(now + RETRY_INTERVAL),
            Taken::Down => self.down_until,
        };
    }

    /// Loses the next frames, as any wire does that is down.
    fn drop_frames(&mut self, fill: &mut Fill<'_>) -> usize {
        let mut frame = vec![0; self.capabilities.max_frame];
        let dropped = (0..BATCH)
            .take_while(|_| fill(&mut frame).is_some())
            .count();
        self.counters.tx_dropped += dropped as u64;
        dropped
    }
}

impl Port for Xdp {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn transmit(&mut self, now: Instant, fill: &mut Fill<'_>) -> io::Result<usize> {
        if self.is_down(now)? {
            return Ok(self.drop_frames(fill));
        }
        let counters = &mut self.counters;
        let Some(queue) = self.queues.first_mut() else {
            return Ok(0);
        };
        let (mut sent, mut is_full) = (0, false);
        while sent < BATCH {
            // The kernel does not tell when it has sent the frames that it has.
            is_full = !queue.has_room();
            if is_full {
                break;
            }
            let max_frame = self.capabilities.max_frame;
            let Some(len) = queue.push(max_frame, |frame| fill(frame).map(|(len, _)| len)) else {
                break;
            };
            counters.tx_packets += 1;
            counters.tx_bytes += len as u64;
            sent += 1;
        }
        let taken = match queue.kick()? {
            Taken::All if is_full => Taken::Part,
            taken => taken,
        };
        self.note(now, taken);
        Ok(sent)
    }

    fn receive(&mut self, _now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        let counters = &mut self.counters;
        let mut received = 0;
        for _ in 0..self.queues.len() {
            let at = self.next;
            self.next = (at + 1) % self.queues.len();
            let queue = &mut self.queues[at];
            received += queue.pop(BATCH - received, |frame| {
                counters.rx_packets += 1;
                counters.rx_bytes += frame.len() as u64;
                take(frame, Meta::default());
            });
            queue.refill()?;
            if received == BATCH {
                break;
            }
        }
        Ok(received)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.retry_at
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.readable.as_fd())
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let all = Counters {
            rx_dropped: self.queues.iter().map(Queue::dropped).sum(),
            queues: self.queues.len() as u64,
            ..self.counters.clone()
        };
        all.visit(visit);
    }
}

fn wait_for_any(queues: &[Queue]) -> io::Result<OwnedFd> {
    let any = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for queue in queues {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&any, queue.fd(), data, epoll::EventFlags::IN)?;
    }
    Ok(any)
}

fn explain(error: io::Error, action: &'static str, interface: &str) -> OpenError {
    let interface = interface.to_owned();
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::NotPermitted { interface },
        Some(libc::ENODEV) => OpenError::NoInterface { interface },
        Some(libc::ENETDOWN) => OpenError::Down { interface },
        Some(libc::EBUSY | libc::EEXIST) => OpenError::InUse { interface },
        _ if error.kind() == io::ErrorKind::InvalidInput => OpenError::NoInterface { interface },
        _ => OpenError::Io {
            action,
            interface,
            source: error,
        },
    }
}

/// Frames of one call to `transmit` or `receive`.
const BATCH: usize = 64;
/// When to try again what the kernel did not take.
const RETRY_INTERVAL: Duration = Duration::from_micros(100);
/// How often an interface is looked at that is down.
const DOWN_INTERVAL: Duration = Duration::from_millis(100);
