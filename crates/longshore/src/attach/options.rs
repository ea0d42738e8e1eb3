//! The options that say how longshore reaches the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use host::{Accel, Cidr, Dad, Handoff, Offload};
use nic::ToeConfig;

use super::memory;
use super::tcp::TcpOptions;

/// The interface or NIC that a stack of ours uses, its addresses, and what the NIC does for TLS and NVMe/TCP.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Interface")]
pub struct Wire {
    /// TAP interface to use; made if it does not exist
    #[arg(long, value_name = "NAME", required_unless_present = "nic")]
    pub tap: Option<String>,
    /// Use a running `longshore nic` instead of a TAP interface: the SOCKET of its `--host rings:SOCKET`
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["tap", "peer_addresses", "pcap", "loss", "reorder", "duplicate",
        "corrupt", "seed", "one_thread"])]
    pub nic: Option<PathBuf>,
    /// Address of longshore with its prefix length, as in 10.9.0.2/24 or fd09::2/64; repeat it for the other family
    #[arg(long = "ip", value_name = "CIDR", required = true)]
    pub addresses: Vec<Cidr>,
    /// What to do about IPv6 addresses in the first second, in which another host may say that it has them (RFC 4862)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Detect::Optimistic)]
    pub dad: Detect,
    /// Address that Linux gets on the TAP interface, as in 10.9.0.1/24; repeat it for the other family
    #[arg(long = "peer-ip", value_name = "CIDR", requires = "tap")]
    pub peer_addresses: Vec<Cidr>,
    /// Default gateway
    #[arg(long, value_name = "IP")]
    pub gateway: Option<Ipv4Addr>,
    /// Default gateway for IPv6
    #[arg(long, value_name = "IP6")]
    pub gateway6: Option<Ipv6Addr>,
    /// Directions of TLS, NVMe/TCP and NBD that the NIC handles; software does the rest
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Which::Both, help_heading = "Offload")]
    pub offload: Which,
    /// Impairments.
    #[command(flatten)]
    pub line: Line,
    /// Capture every frame to this file, in pcapng, together with the TLS secrets
    #[arg(long, value_name = "FILE", help_heading = "Debugging")]
    pub pcap: Option<PathBuf>,
    /// Append the TLS secrets to this file, in the format of SSLKEYLOGFILE
    #[arg(long, value_name = "FILE", help_heading = "Debugging")]
    pub keylog: Option<PathBuf>,
    /// Most memory for packets and the data of connections; between 32M and half of the machine's. Default: an eighth of the
    /// machine's, or of its control group's limit, but at least 128M and at most 1G
    #[arg(long, value_name = "SIZE", value_parser = memory::parse, help_heading = "Limits")]
    pub memory: Option<u64>,
    /// TCP.
    #[command(flatten)]
    pub tcp: TcpOptions,
    /// Poll without sleeping: lower latency, two cores busy
    #[arg(long, help_heading = "Debugging")]
    pub busy_poll: bool,
    /// Run stack and NIC on one thread instead of two
    #[arg(long, help_heading = "Debugging")]
    pub one_thread: bool,
}

impl Wire {
    /// Whether this is one of the stack's addresses.
    pub fn has(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|cidr| cidr.address == ip)
    }

    /// A wire for connections of disks: where no keep-alive was asked for, TCP asks after a minute of silence whether the peer is still there. Nothing
    /// else notices a server that has gone while reads are in flight; and whether hosts ask is theirs to choose in NVMe.
    pub fn kept_alive(&self) -> Wire {
        const SECONDS: u32 = 60;
        let mut wire = self.clone();
        wire.tcp.tcp_keep_alive.get_or_insert(SECONDS);
        wire
    }
}

/// What the NIC does for whole connections; for servers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Offload")]
pub struct Connections {
    /// Connection phases that the NIC handles: a list of setup, teardown, splice, lazy-tcb; or all, or none
    #[arg(long, value_name = "WHAT", default_value_t = Accel::NONE)]
    pub accel: Accel,
    /// Handshakes that the NIC remembers against replays of a connection's first data; each takes 8 bytes
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub accel_handshakes: u32,
    /// Established connections that the NIC runs: fcfs (first come, first served), t4 (from the fourth write on, or
    /// another number), predict (those expected to send the most), or off; per port as in 443=t4,80=fcfs
    #[arg(long, value_name = "POLICY", default_value_t = Handoff::default())]
    pub handoff: Handoff,
    /// Connections that the NIC has memory to run
    #[arg(long, value_name = "N", default_value_t = ToeConfig::default().hard_limit, conflicts_with = "nic")]
    pub nic_connections: u32,
}

impl Default for Connections {
    /// The host runs them all.
    fn default() -> Connections {
        Connections {
            accel: Accel::NONE,
            accel_handshakes: 65_536,
            handoff: Handoff::default(),
            nic_connections: ToeConfig::default().hard_limit,
        }
    }
}

/// Impairments of a link.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Impair the link")]
pub struct Line {
    /// Fraction of frames to drop in each direction, from 0 to 1
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub loss: f64,
    /// Fraction of frames to reorder in each direction
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub reorder: f64,
    /// Fraction of frames to duplicate in each direction
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub duplicate: f64,
    /// Fraction of frames to corrupt in each direction
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub corrupt: f64,
    /// Seed of the impairments: the same seed impairs the same frames
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// The value of `--dad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Detect {
    /// Ask nobody
    Off,
    /// Answer from there, but ask no neighbour
    Optimistic,
    /// Do not use them
    Wait,
}

impl From<Detect> for Dad {
    fn from(detect: Detect) -> Dad {
        match detect {
            Detect::Off => Dad::Off,
            Detect::Optimistic => Dad::Optimistic,
            Detect::Wait => Dad::Wait,
        }
    }
}

/// The value of `--offload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// All in software.
    None,
    /// The NIC encrypts and sends.
    Tx,
    /// The NIC receives and decrypts.
    Rx,
    /// Both.
    Both,
}

impl From<Which> for Offload {
    fn from(which: Which) -> Offload {
        match which {
            Which::None => Offload::None,
            Which::Tx => Offload::Tx,
            Which::Rx => Offload::Rx,
            Which::Both => Offload::Both,
        }
    }
}

fn probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("give a number from 0 to 1, as in 0.01 for 1 %".to_owned()),
    }
}
