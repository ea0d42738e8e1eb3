//! What the two processes say.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use handshake::TicketKey;
use host::Dad;
use host::runtime::Builder;
use port::Ports;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tcp::TimeWaitEntry;
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};
use zeroize::Zeroize;

use crate::attach::{Wire, takes_packets_only};
use crate::cores::Cores;

/// Of all that is said here. Another one is refused.
pub const VERSION: u32 = 3;

/// What the successor says of itself, with `take_over` on the control socket. Another version may have other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Said")]
pub struct Claim {
    /// [`VERSION`].
    pub version: u32,
    /// Its command: `serve` or `lb`.
    pub service: String,
    /// The TAP interface.
    pub tap: String,
    /// Queues of it.
    pub queues: usize,
    /// It takes packets only, no super-frames, since it impairs them.
    pub packets_only: bool,
}

/// A claim as it comes: of another version, it is known as far as its version.
#[derive(Deserialize)]
struct Said {
    version: u32,
    #[serde(flatten)]
    others: serde_json::Value,
}

impl From<Said> for Claim {
    fn from(Said { version, others }: Said) -> Claim {
        let text = |name: &str| others[name].as_str().unwrap_or_default().to_owned();
        Claim {
            version,
            service: text("service"),
            tap: text("tap"),
            queues: others["queues"].as_u64().unwrap_or(0) as usize,
            packets_only: others["packets_only"].as_bool().unwrap_or(false),
        }
    }
}

impl Claim {
    /// What a service says of itself that has been given these options.
    pub fn of(service: &str, wire: &Wire, cores: &Cores) -> Claim {
        Claim {
            version: VERSION,
            service: service.to_owned(),
            tap: wire.tap.clone().unwrap_or_default(),
            queues: cores.count().into(),
            packets_only: takes_packets_only(wire),
        }
    }

    /// Whether a process that would make the claim `self` can be followed by one that makes `other`.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, other: &Claim) -> Result<()> {
        ensure!(
            self.version == other.version,
            "it hands over by version {} of the protocol, the new process takes over by version {}; stop it, and start the new one without --take-over",
            self.version,
            other.version
        );
        ensure!(
            self.service == other.service,
            "it is `longshore {}`, not `longshore {}`",
            self.service,
            other.service
        );
        ensure!(
            self.tap == other.tap,
            "its interface is {}, not {}; take over with --tap {}",
            self.tap,
            other.tap,
            self.tap
        );
        ensure!(
            self.queues == other.queues,
            "it has {} of {}, not {}; take over with as many --cores",
            queues(self.queues),
            self.tap,
            other.queues
        );
        ensure!(
            self.packets_only == other.packets_only,
            "one of the two impairs its link and the other does not"
        );
        Ok(())
    }
}

fn queues(count: usize) -> String {
    match count {
        1 => "one queue".to_owned(),
        count => format!("{count} queues"),
    }
}

/// What the successor's stacks and NICs must have of the predecessor's, so that neighbours find them, and peers what they were given.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estate {
    /// The Ethernet address.
    pub mac: [u8; 6],
    /// Of the stacks: ISNs and SYN cookies.
    pub stack_secret: [u8; 16],
    /// Of the NICs: their SYN cookies.
    pub nic_secret: [u8; 16],
    /// Whose flows are whose, of several workers.
    pub steering_secret: [u8; 16],
    /// What the clocks of ISNs and cookies count from, in nanoseconds of CLOCK_MONOTONIC.
    pub epoch: u64,
    /// How long the service manager lets the main process be silent, which it tells the first one only.
    pub watchdog: Option<Duration>,
    /// The keys of TLS's tickets, the current one first.
    pub tickets: Vec<Ticket>,
}

/// A key of tickets, as it is said.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    name: [u8; 16],
    secret: [u8; 32],
    since: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl From<TicketKey> for Ticket {
    fn from(
        TicketKey {
            name,
            secret,
            since,
        }: TicketKey,
    ) -> Ticket {
        Ticket {
            name,
            secret,
            since,
        }
    }
}

impl From<Ticket> for TicketKey {
    fn from(
        Ticket {
            name,
            secret,
            since,
        }: Ticket,
    ) -> TicketKey {
        TicketKey {
            name,
            secret,
            since,
        }
    }
}

impl Estate {
    /// That of stacks and NICs that are made of `builder`, whose clocks begin now if they have not begun before.
    pub fn of(builder: &mut Builder) -> Estate {
        let (now, monotonic) = (Instant::now(), monotonic());
        let epoch = *builder.stack.epoch.get_or_insert(now);
        builder.nic.epoch = Some(epoch);
        let age = now.saturating_duration_since(epoch);
        Estate {
            mac: builder.function.mac.0,
            stack_secret: builder.stack.secret,
            nic_secret: builder.nic.secret,
            steering_secret: builder.steering_secret,
            epoch: monotonic.saturating_sub(age.as_nanos() as u64),
            watchdog: None,
            tickets: Vec::new(),
        }
    }

    /// Has what is made of `builder` go on where the other process's stacks and NICs stop. Their addresses were looked for on the link when it was started.
    pub fn bequeath(&self, builder: &mut Builder) {
        let age = Duration::from_nanos(monotonic().saturating_sub(self.epoch));
        builder.function.mac = MacAddr(self.mac);
        builder.stack.secret = self.stack_secret;
        builder.nic.secret = self.nic_secret;
        builder.steering_secret = self.steering_secret;
        builder.stack.epoch = Instant::now().checked_sub(age);
        builder.stack.dad = Dad::Off;
    }
}

/// The clock that all processes of the machine have.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl std::fmt::Debug for Estate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Estate").finish_non_exhaustive()
    }
}

/// What is said once the estate is given, a line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The successor can serve, and listens at these ports. A socket for each queue comes with it.
    Ready { listens: Vec<u16> },
    /// The successor was told to end, and so the service is.
    Ended,
    /// The successor has the queues for itself.
    Taken,
    /// The predecessor reads its queues no more, and has these connections among others: local and remote end, of one worker.
    Flows {
        worker: usize,
        ends: Vec<(SocketAddr, SocketAddr)>,
    },
    /// The service has this to say.
    News { news: serde_json::Value },
    /// All of that was said. The predecessor opens other connections from these ports.
    Given { ports: LeftPorts },
    /// Connections in TIME-WAIT, of one worker.
    Resting { worker: usize, flows: Vec<Resting> },
    /// Its connections are over, but for those in TIME-WAIT, which were named.
    Over,
}

/// Connections that one word names at most: a line of them has less than half of the bytes that it may have.
pub const AT_ONCE: usize = 2048;

/// [`Ports`], as they are said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftPorts {
    first: u16,
    last: u16,
    except: Vec<u16>,
}

impl From<&Ports> for LeftPorts {
    fn from(ports: &Ports) -> LeftPorts {
        LeftPorts {
            first: ports.range().start as u16,
            last: (ports.range().end - 1) as u16,
            except: ports.except().to_vec(),
        }
    }
}

impl From<LeftPorts> for Ports {
    fn from(said: LeftPorts) -> Ports {
        let range = u32::from(said.first)..u32::from(said.last) + 1;
        Ports::new(range, said.except)
    }
}

/// A connection in TIME-WAIT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resting {
    local: SocketAddr,
    remote: SocketAddr,
    snd_nxt: u32,
    rcv_nxt: u32,
    rcv_wnd: u32,
    window: u16,
    timestamps: Option<(u32, u32)>,
}

impl Resting {
    /// As it is said.
    pub fn new(flow: FlowKey, entry: TimeWaitEntry) -> Resting {
        let (local, remote) = ends(flow);
        Resting {
            local,
            remote,
            snd_nxt: entry.snd_nxt.0,
            rcv_nxt: entry.rcv_nxt.0,
            rcv_wnd: entry.rcv_wnd,
            window: entry.window,
            timestamps: entry.timestamps,
        }
    }

    /// As a stack has it.
    pub fn entry(&self) -> (FlowKey, TimeWaitEntry) {
        let entry = TimeWaitEntry {
            snd_nxt: SeqNum(self.snd_nxt),
            rcv_nxt: SeqNum(self.rcv_nxt),
            rcv_wnd: self.rcv_wnd,
            window: self.window,
            timestamps: self.timestamps,
        };
        (FlowKey::new(self.local, self.remote), entry)
    }
}

/// Both ends of a flow.
pub fn ends(flow: FlowKey) -> (SocketAddr, SocketAddr) {
    (flow.src_addr(), flow.dst_addr())
}
