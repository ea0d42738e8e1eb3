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
use crate::config::ConfigFile;
use crate::cores::Cores;
use crate::sandbox::Identity;

pub const EXAMPLES: &str = "\
Examples:
  # Linux's TCP behind a NIC on eth1, with an address of its own there
  sudo longshore nic --host tap:ls0,ip=10.9.0.1/24 --wire packet:eth1 \\
      --control /run/longshore.sock &
  longshore stat /run/longshore.sock

  # two interfaces of this machine that reach each other through the NIC only
  sudo longshore nic --host tap:ls0 --host tap:ls1 --wire mem --control /run/longshore.sock

  # Linux's TCP, and a server on longshore's own stack; both are reached from eth1
  sudo longshore nic --host tap:ls0,ip=10.9.0.1/24 --host rings:/run/files.sock \\
      --wire packet:eth1 --control /run/longshore.sock &
  sudo longshore serve --nic /run/files.sock --ip 10.9.0.2/24 --root /srv/files

  # on two cores, a NIC with one of the servers on each
  sudo longshore nic --host rings:/run/a.sock --host rings:/run/b.sock --cores 0,1 \\
      --wire packet:eth1 --control /run/longshore.sock

  # a lossy wire to another TAP interface, captured
  sudo longshore nic --host tap:ls0 --wire tap:ls9 --control /run/longshore.sock \\
      --loss 0.01 --pcap wire.pcapng

The NIC makes missing TAP interfaces, and removes them when it ends, unless connections go through
them. If it dies, its interfaces stay without a carrier; start it again and connections go on.
First SIGTERM or SIGINT drains (--drain), second quits.
Sockets of rings: belong to the user that started the NIC; `chown` gives one to another user.";

/// `longshore nic`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// A host of the NIC; repeat for more.
    ///
    /// tap:NAME[,ip=CIDR]... is Linux, through TAP interface NAME, as in tap:ls0,ip=10.9.0.1/24.
    /// rings:SOCKET[,mac=ADDRESS] is a longshore program that is started with --nic SOCKET.
    /// vfio-user:SOCKET[,mac=ADDRESS][,queues=N] is a virtual machine, which gets a PCI device.
    /// The last two may have core=N: the Nth of --cores, from 0 on.
    #[allow(
        rustdoc::broken_intra_doc_links,
        reason = "brackets are those of options"
    )]
    #[arg(
        long = "host",
        value_name = "HOST",
        required = true,
        verbatim_doc_comment
    )]
    pub hosts: Vec<HostOption>,
    /// What the NIC is plugged into.
    ///
    /// tap:NAME     another TAP interface
    /// packet:IFACE any interface, by a packet socket
    /// xdp:IFACE    all of any interface, by AF_XDP
    /// mem          no wire: the hosts reach each other
    #[arg(long, value_name = "WIRE", verbatim_doc_comment)]
    pub wire: WireOption,
    /// Control socket, for `longshore stat` and for programs under `longshore run --nic`
    #[arg(long, value_name = "SOCKET")]
    pub control: PathBuf,
    /// The file of options that are not on the command line.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Go on as this user once all is open [default: longshore, else an unused user id]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Whether to go on in the background.
    #[command(flatten)]
    pub background: Background,
    /// Never sleep: lower latency, for a whole core
    #[arg(long)]
    pub busy_poll: bool,
    /// Share the hosts out over so many cores, or these processors, as in 0,1 or 2-5: each has a
    /// thread with a NIC of its own. tap: hosts are on the first, each other one on the core with
    /// the fewest
    #[arg(long, value_name = "N|LIST")]
    pub cores: Option<Cores>,
    /// Time for connections to finish after SIGTERM
    #[arg(long = "drain", value_name = "SECONDS", default_value_t = 10)]
    pub drain_seconds: u32,
    /// Directory for the state of connections, which outlives the NIC; an absolute path that only
    /// you and root can write to, on a tmpfs [default: /run/longshore/NAME of the first host, or
    /// /dev/shm/longshore/NAME if /run is on a disk]
    #[arg(long, value_name = "DIR", help_heading = STATE)]
    pub state: Option<PathBuf>,
    /// Memory for sent plaintext that is not acknowledged, of connections whose TLS records the NIC
    /// makes; 65536 or more
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20, help_heading = STATE)]
    pub retain: u64,
    /// Replace the running NIC of this --state, and take over its connections, interfaces and
    /// sockets
    #[arg(long, help_heading = STATE)]
    pub take_over: bool,
    /// Write every frame on the wire to this pcapng file
    #[arg(long, value_name = "FILE", help_heading = WIRE)]
    pub pcap: Option<PathBuf>,
    /// Let `longshore fault` have functions fail, for tests of drivers
    #[arg(long, help_heading = WIRE)]
    pub faults: bool,
    /// What the wire does to frames.
    #[command(flatten, next_help_heading = WIRE)]
    pub line: Line,
    /// Be the process that moves frames
    #[arg(long, hide = true)]
    pub worker: bool,
    /// Be the process that answers at the control socket
    #[arg(long, hide = true, conflicts_with = "worker")]
    pub control_process: bool,
    /// Be the process that answers at the sockets of hosts on rings
    #[arg(long, hide = true, conflicts_with_all = ["worker", "control_process"])]
    pub gate: bool,
    /// Be the process that answers at the sockets of virtual machines
    #[arg(long, hide = true, conflicts_with_all = ["worker", "control_process", "gate"])]
    pub guest_gate: bool,
    /// Descriptors of one of these processes
    #[arg(long, hide = true, value_delimiter = ',')]
    pub inherited: Vec<RawFd>,
}

/// Headings of the help.
const STATE: &str = "State";
const WIRE: &str = "Wire, for tests";

/// A value of `--host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostOption {
    /// Linux.
    Tap(TapOption),
    /// A stack of ours in another process.
    Rings(RingsOption),
    /// A virtual machine.
    Guest(RingsOption),
}

/// An interface of Linux's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapOption {
    /// The TAP interface.
    pub tap: String,
    /// Addresses that it gets.
    pub addresses: Vec<Cidr>,
}

/// A function for a stack in another process, or for a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingsOption {
    /// Where the stack, or the VMM, connects.
    pub socket: PathBuf,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Most queues of a virtual machine's.
    pub queues: Option<u16>,
    /// The core that it is to be on.
    pub core: Option<u16>,
}

impl Options {
    /// Linux's interfaces.
    pub fn taps(&self) -> impl Iterator<Item = &TapOption> {
        self.hosts.iter().filter_map(|host| match host {
            HostOption::Tap(tap) => Some(tap),
            HostOption::Rings(_) | HostOption::Guest(_) => None,
        })
    }

    /// Functions for other processes and virtual machines.
    pub fn rings(&self) -> impl Iterator<Item = &RingsOption> {
        self.hosts.iter().filter_map(|host| match host {
            HostOption::Tap(_) => None,
            HostOption::Rings(rings) | HostOption::Guest(rings) => Some(rings),
        })
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.cores.as_ref().map_or(1, Cores::count).into()
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
            Some(HostOption::Rings(rings) | HostOption::Guest(rings)) => {
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
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut parts = rest.split(',');
        let name = parts.next().unwrap_or_default();
        match kind {
            "tap" => {
                check_name(name)?;
                let addresses = parts.map(|part| match part.strip_prefix("ip=") {
                    Some(cidr) => cidr.parse().map_err(|error| format!("{error}")),
                    None => Err(unknown_setting(part, "ip=CIDR, as in ip=10.9.0.1/24")),
                });
                Ok(HostOption::Tap(TapOption {
                    tap: name.to_owned(),
                    addresses: addresses.collect::<Result<_, String>>()?,
                }))
            }
            "rings" | "vfio-user" if name.is_empty() => Err(format!(
                "no socket; use {kind}:SOCKET, as in {kind}:/run/files.sock"
            )),
            "rings" => RingsOption::of(name, parts, false).map(HostOption::Rings),
            "vfio-user" => RingsOption::of(name, parts, true).map(HostOption::Guest),
            _ => Err(format!(
                "unknown host `{kind}`; use tap:NAME, tap:NAME,ip=CIDR, rings:SOCKET or vfio-user:SOCKET"
            )),
        }
    }
}

/// Queues of a virtual machine that does not say how many.
const GUEST_QUEUES: u16 = 4;
/// Most queues of one.
const MOST_GUEST_QUEUES: u16 = 16;

impl RingsOption {
    /// The settings behind the socket's path: each once, and `queues` for a virtual machine only.
    fn of<'a>(
        socket: &str,
        parts: impl Iterator<Item = &'a str>,
        is_guest: bool,
    ) -> Result<RingsOption, String> {
        let (mut mac, mut queues, mut core) = (None, None, None);
        for part in parts {
            let setting = part.split_once('=');
            match setting {
                Some(("mac", address)) if mac.is_none() => mac = Some(unicast(address)?),
                Some(("core", number)) if core.is_none() => core = Some(core_of(number)?),
                Some(("queues", number)) if is_guest && queues.is_none() => {
                    queues = Some(guest_queues(number)?);
                }
                _ if is_guest => {
                    let wanted = "mac=ADDRESS, queues=N or core=N once, as in queues=4";
                    return Err(unknown_setting(part, wanted));
                }
                _ => {
                    let wanted = "mac=ADDRESS or core=N once, as in mac=02:00:00:00:00:01";
                    return Err(unknown_setting(part, wanted));
                }
            }
        }
        Ok(RingsOption {
            socket: PathBuf::from(socket),
            mac: mac.unwrap_or_else(|| address_of(socket)),
            queues: is_guest.then(|| queues.unwrap_or(GUEST_QUEUES)),
            core,
        })
    }
}

fn guest_queues(text: &str) -> Result<u16, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=MOST_GUEST_QUEUES).contains(number));
    number.ok_or_else(|| format!("`{text}` queues are not possible; use 1 to {MOST_GUEST_QUEUES}"))
}

fn core_of(text: &str) -> Result<u16, String> {
    let wrong =
        |_| format!("`{text}` is no core; use 0 for the first of --cores, 1 for the second");
    text.parse().map_err(wrong)
}

fn unknown_setting(part: &str, wanted: &str) -> String {
    format!("unknown setting `{part}`; use {wanted}")
}

fn unicast(text: &str) -> Result<MacAddr, String> {
    let mac = text.parse::<MacAddr>().ok();
    let mac = mac.filter(|mac| mac.is_unicast() && *mac != MacAddr::ZERO);
    mac.ok_or_else(|| {
        format!("`{text}` is not a unicast MAC address; use one like 02:00:00:00:00:01")
    })
}

/// The same for the same socket, so that neighbours which remember it are right after a restart.
fn address_of(socket: &str) -> MacAddr {
    let mut hasher = DefaultHasher::new();
    socket.hash(&mut hasher);
    MacAddr::local(hasher.finish())
}

impl FromStr for WireOption {
    type Err = String;

    fn from_str(text: &str) -> Result<WireOption, String> {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let of: fn(String) -> WireOption = match kind {
            "mem" if name.is_empty() => return Ok(WireOption::Mem),
            "tap" => WireOption::Tap,
            "packet" => WireOption::Packet,
            "xdp" => WireOption::Xdp,
            _ => {
                return Err(format!(
                    "unknown wire `{text}`; use tap:NAME, packet:IFACE, xdp:IFACE or mem"
                ));
            }
        };
        check_name(name)?;
        Ok(of(name.to_owned()))
    }
}

/// Whether this can be an interface's name that says all of it: `%d` would give another one after each restart.
fn check_name(name: &str) -> Result<(), String> {
    /// `IFNAMSIZ`, without the zero.
    const LONGEST: usize = 15;
    let is_good = (1..=LONGEST).contains(&name.len())
        && !name.contains(['%', '/'])
        && !name.contains(char::is_whitespace);
    match is_good {
        true => Ok(()),
        false => Err(format!(
            "`{name}` can't be an interface's name; use 1 to {LONGEST} characters without `/`, `%` and spaces"
        )),
    }
}
