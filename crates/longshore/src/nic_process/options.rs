//! The command line of `longshore nic`.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use host::Cidr;
use wire::ethernet::MacAddr;

use super::state::State;
use crate::attach::Line;
use crate::background::Background;
use crate::sandbox::Identity;

pub const EXAMPLES: &str = "\
Examples:
  # Linux's TCP behind a NIC on eth1; the NIC has an address of its own there
  sudo longshore nic --host tap:ls0,ip=10.9.0.1/24 --wire packet:eth1 --control /run/longshore.sock &
  longshore stat /run/longshore.sock

  # two interfaces of this machine that reach each other through the NIC and nobody else
  sudo longshore nic --host tap:ls0 --host tap:ls1 --wire mem --control /run/longshore.sock

  # Linux's TCP, and a server on longshore's own stack, which a client behind eth1 and this machine's programs reach
  sudo longshore nic --host tap:ls0,ip=10.9.0.1/24 --host rings:/run/files.sock --wire packet:eth1 --control /run/longshore.sock &
  sudo longshore serve --nic /run/files.sock --ip 10.9.0.2/24 --root /srv/files

  # a lossy wire to another TAP interface, captured
  sudo longshore nic --host tap:ls0 --wire tap:ls9 --control /run/longshore.sock --loss 0.01 --pcap wire.pcapng

A TAP interface that is missing is made, and taken away when the NIC ends by SIGTERM or SIGINT and no connection goes through it. When the \
NIC dies, its interfaces stay, without a carrier; it is started again, and connections go on. Programs on rings: sockets go on too; the \
sockets are for the user who started the NIC, who may give them away by chown. They stay given away when the NIC dies or another \
version takes over, until the NIC is ended; then they go, and are made anew by the next `longshore nic`.";

/// `longshore nic`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// A host of the NIC: tap:NAME for Linux, through a TAP interface, with ip=CIDR for addresses that it is to have, as in
    /// tap:ls0,ip=10.9.0.1/24; rings:SOCKET for a program that is given --nic SOCKET, one at a time, with mac=ADDRESS if its
    /// address matters; may be given several times
    #[arg(long = "host", value_name = "HOST", required = true)]
    pub hosts: Vec<HostOption>,
    /// Where the NIC is plugged in: tap:NAME (another TAP interface), packet:IFACE (any interface, by a packet socket),
    /// xdp:IFACE (any interface, all of it, by AF_XDP), mem (nowhere: the hosts reach each other)
    #[arg(long, value_name = "WIRE")]
    pub wire: WireOption,
    /// Answer `longshore stat` at this path
    #[arg(long, value_name = "SOCKET")]
    pub control: PathBuf,
    /// Directory for what is needed again when the NIC dies, which only you and root can write to, as its whole path [default: /run/longshore/ or, where
    /// that is on a disk, /dev/shm/longshore/, and the first host's name]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Bytes of plaintext that are kept for retransmissions of connections whose records the NIC makes
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub retain: u64,
    /// Write every frame of the wire to this file, in pcapng
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// What the wire does to frames.
    #[command(flatten)]
    pub line: Line,
    /// Never sleep: less latency, and a core busy
    #[arg(long)]
    pub busy_poll: bool,
    /// How long connections may take to come to rest when the NIC is told to end
    #[arg(long = "drain", value_name = "SECONDS", default_value_t = 10)]
    pub drain_seconds: u32,
    /// Take the place of the NIC that runs with this state: its connections, interfaces and control socket
    #[arg(long)]
    pub take_over: bool,
    /// User to go on as once all is open [default: longshore, if there is one, or a number that no account has]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Whether to go on in the background.
    #[command(flatten)]
    pub background: Background,
    /// Be the process that moves frames
    #[arg(long, hide = true)]
    pub worker: bool,
    /// Be the process that answers at the control socket
    #[arg(long, hide = true, conflicts_with = "worker")]
    pub control_process: bool,
    /// Be the process that answers at the sockets of hosts on rings
    #[arg(long, hide = true, conflicts_with_all = ["worker", "control_process"])]
    pub gate: bool,
    /// Descriptors of one of these processes
    #[arg(long, hide = true, value_delimiter = ',')]
    pub inherited: Vec<RawFd>,
}

/// A value of `--host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostOption {
    /// Linux.
    Tap(TapOption),
    /// A stack of ours in another process.
    Rings(RingsOption),
}

/// An interface of Linux's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapOption {
    /// The TAP interface.
    pub tap: String,
    /// Addresses that it gets.
    pub addresses: Vec<Cidr>,
}

/// A function for a stack in another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingsOption {
    /// Where the stack connects.
    pub socket: PathBuf,
    /// Its Ethernet address.
    pub mac: MacAddr,
}

impl Options {
    /// Linux's interfaces.
    pub fn taps(&self) -> impl Iterator<Item = &TapOption> {
        self.hosts.iter().filter_map(|host| match host {
            HostOption::Tap(tap) => Some(tap),
            HostOption::Rings(_) => None,
        })
    }

    /// Functions for other processes.
    pub fn rings(&self) -> impl Iterator<Item = &RingsOption> {
        self.hosts.iter().filter_map(|host| match host {
            HostOption::Tap(_) => None,
            HostOption::Rings(rings) => Some(rings),
        })
    }

    /// How long connections may take to come to rest at the end.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds.into())
    }

    /// Where the NIC's state is.
    pub fn state_directory(&self) -> PathBuf {
        let given = self.state.clone();
        given.unwrap_or_else(|| State::default_directory(self.name()))
    }

    /// As whom the worker and the control process go on.
    ///
    /// # Errors
    /// When there is no such user.
    pub fn identity(&self) -> Result<Identity> {
        Identity::for_service(self.user.as_deref(), self.name())
    }

    /// What the NIC's state is filed under: its first host.
    pub fn name(&self) -> &str {
        match self.hosts.first() {
            Some(HostOption::Tap(tap)) => &tap.tap,
            Some(HostOption::Rings(rings)) => {
                let name = rings.socket.file_name().and_then(OsStr::to_str);
                name.unwrap_or("nic")
            }
            None => "nic",
        }
    }
}

/// The value of `--wire`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireOption {
    /// A TAP interface.
    Tap(String),
    /// Any interface, by a packet socket.
    Packet(String),
    /// Any interface, by AF_XDP.
    Xdp(String),
    /// None.
    Mem,
}

impl FromStr for HostOption {
    type Err = String;

    fn from_str(text: &str) -> Result<HostOption, Self::Err> {
        let wrong = || {
            format!(
                "{text:?} is no host: give tap:NAME, tap:NAME,ip=10.9.0.1/24, rings:SOCKET, or rings:SOCKET,mac=02:00:00:00:00:01"
            )
        };
        let mut parts = text.split(',');
        match parts.next().and_then(|first| first.split_once(':')) {
            Some(("tap", name)) if is_name(name) => {
                let addresses = parts.map(|part| {
                    let cidr = part.strip_prefix("ip=").ok_or_else(wrong)?;
                    cidr.parse()
                        .map_err(|error| format!("{cidr:?} of {text:?}: {error}"))
                });
                Ok(HostOption::Tap(TapOption {
                    tap: name.to_owned(),
                    addresses: addresses.collect::<Result<_, String>>()?,
                }))
            }
            Some(("rings", socket)) if !socket.is_empty() => {
                let given = parts.next().map(|part| {
                    let mac = part.strip_prefix("mac=").ok_or_else(wrong)?;
                    let mac = mac.parse::<MacAddr>().ok();
                    let mac = mac.filter(|mac| mac.is_unicast() && *mac != MacAddr::ZERO);
                    mac.ok_or_else(|| {
                        format!("{part:?} of {text:?} is no unicast Ethernet address")
                    })
                });
                let mac = given.transpose()?.unwrap_or_else(|| address_of(socket));
                match parts.next() {
                    Some(_) => Err(wrong()),
                    None => Ok(HostOption::Rings(RingsOption {
                        socket: PathBuf::from(socket),
                        mac,
                    })),
                }
            }
            _ => Err(wrong()),
        }
    }
}

/// The same for the same socket, so that neighbours which remember it are right after a restart; locally administered, unicast.
fn address_of(socket: &str) -> MacAddr {
    let mut hasher = DefaultHasher::new();
    socket.hash(&mut hasher);
    let [a, b, c, d, e, f, ..] = hasher.finish().to_be_bytes();
    MacAddr([(a & 0xfc) | 0x02, b, c, d, e, f])
}

impl FromStr for WireOption {
    type Err = String;

    fn from_str(text: &str) -> Result<WireOption, String> {
        let wrong =
            || format!("{text:?} is no wire: give tap:NAME, packet:IFACE, xdp:IFACE or mem");
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let name = match kind {
            "mem" if name.is_empty() => return Ok(WireOption::Mem),
            _ if is_name(name) => name.to_owned(),
            _ => return Err(wrong()),
        };
        match kind {
            "tap" => Ok(WireOption::Tap(name)),
            "packet" => Ok(WireOption::Packet(name)),
            "xdp" => Ok(WireOption::Xdp(name)),
            _ => Err(wrong()),
        }
    }
}

/// An interface's name that says all of it: `%d` would give another one after each restart.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['%', '/']) && !name.contains(char::is_whitespace)
}
