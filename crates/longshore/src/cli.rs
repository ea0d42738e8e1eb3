//! The command line.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use host::{Accel, Cidr, Handoff, Offload};
use url::Url;

use crate::sandbox::Account;
use crate::{bench, control, demo, lb, nic_process, nvme, run, sim_handoff};

/// A network card made of software, and the host stack that goes with it.
#[derive(Debug, Parser)]
#[command(name = "longshore", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  longshore demo
  longshore serve --tap ls0 --ip 10.9.0.2/24 --root /srv/files
  longshore get https://10.9.0.1/file --tap ls0 --ip 10.9.0.2/24 --insecure -o file
  longshore nvme attach 10.9.0.1 --nqn nqn.2024-01.org.example:disk --nbd /run/disk.sock \
            --tap ls0 --ip 10.9.0.2/24
  longshore lb --config lb.toml --tap ls0 --ip 10.9.0.2/24
  longshore nic --host tap:ls0,ip=10.9.0.1/24 --wire packet:eth1 --control /run/longshore.sock
  longshore run -- nginx -g 'daemon off;'
  longshore bench tls --loss 0.01 --json
  longshore sim handoff --paper --report handoff.html

RUST_LOG=debug shows what happens inside.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare plain TCP, software TLS and offloaded TLS: two hosts, two NICs and a lossy link in memory
    Demo(demo::Options),
    /// Serve a directory over HTTPS, with the records encrypted by the NIC
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Download a URL over HTTPS, with the records decrypted by the NIC
    #[command(after_help = GET_EXAMPLES)]
    Get(Get),
    /// Balance HTTP/1.1 and TCP over several backends
    #[command(after_help = lb::options::EXAMPLES)]
    Lb(lb::Options),
    /// Show the counters of a running server, as `ethtool -S` does
    #[command(after_help = "Examples:
  longshore stat /run/longshore.sock
  longshore stat /run/longshore.sock --explain
  longshore stat --explain | grep resync")]
    Stat(Stat),
    /// Show the sockets of a running server, as `ss -ti` does
    #[command(after_help = control::print::FIELDS)]
    Ss(Ss),
    /// Take connections of a running server back that the NIC runs
    #[command(after_help = "Examples:
  longshore restore /run/longshore.sock
  longshore restore /run/longshore.sock 10.9.0.1:51000")]
    Restore(Restore),
    /// NVMe/TCP: serve namespaces; discover, check, read, write and attach those of a target
    Nvme {
        /// What to do.
        #[command(subcommand)]
        command: Box<nvme::Command>,
    },
    /// Run a NIC as a process, for Linux's own TCP and for stacks of ours in other processes
    #[command(after_help = nic_process::EXAMPLES)]
    Nic(nic_process::Options),
    /// Run a program with the socket API of kernel TLS
    #[command(after_help = run::EXAMPLES)]
    Run(run::Options),
    /// Measure host cycles with and without the offloads
    Bench(bench::Options),
    /// Simulate, in virtual time
    Sim {
        /// What to simulate.
        #[command(subcommand)]
        command: sim_handoff::Command,
    },
}

const SERVE_EXAMPLES: &str = "\
Examples:
  sudo longshore serve --tap ls0 --ip 10.9.0.2/24 --ip fd09::2/64 --root . &
  sudo ip addr add 10.9.0.1/24 dev ls0
  curl --insecure https://10.9.0.2/

  # a TAP that this user may open without privileges afterwards
  sudo ip tuntap add dev ls0 mode tap vnet_hdr user $USER
  sudo ip addr add 10.9.0.1/24 dev ls0 && sudo ip link set ls0 up
  longshore serve --tap ls0 --ip 10.9.0.2/24 --root . --control $XDG_RUNTIME_DIR/longshore.sock

  # the NIC runs connections from their fourth write on; ss says which, restore takes them back
  longshore serve --tap ls0 --ip 10.9.0.2/24 --root . --handoff t4 --control $XDG_RUNTIME_DIR/longshore.sock
  longshore ss $XDG_RUNTIME_DIR/longshore.sock
  longshore restore $XDG_RUNTIME_DIR/longshore.sock

  # the NIC is a process of its own; the interface ls0 on it is Linux's
  sudo longshore nic --host tap:ls0,ip=10.9.0.1/24 --host rings:/run/files.sock --wire mem --control /run/nic.sock &
  sudo longshore serve --nic /run/files.sock --ip 10.9.0.2/24 --root . &
  curl --insecure https://10.9.0.2/

  # a lossy wire, captured together with the keys to decrypt it
  longshore serve --tap ls0 --ip 10.9.0.2/24 --root . --loss 0.01 --pcap tls.pcapng";

const GET_EXAMPLES: &str = "\
Examples:
  sudo longshore get https://10.9.0.1/file --tap ls0 --ip 10.9.0.2/24 --ca ca.pem -o file
  sudo longshore get https://example.org/ --tap ls0 --ip 10.9.0.2/24 --gateway 10.9.0.1
  # by a NIC that runs as longshore nic --host rings:/run/get.sock …
  sudo longshore get https://10.9.0.1/file --nic /run/get.sock --ip 10.9.0.2/24 --ca ca.pem -o file

Exit codes: 0 the download is whole, 1 it failed, 2 the command line is wrong, 3 the server \
answered with a status of 300 or more.";

/// How longshore is attached to the wire; the same for servers and clients.
#[derive(Clone, Debug, Args)]
pub struct Wire {
    /// TAP interface to use; it is made when there is none of this name
    #[arg(long, value_name = "NAME", required_unless_present = "nic")]
    pub tap: Option<String>,
    /// Instead of an interface and a NIC of its own, a function of a running `longshore nic`, which was given it by --host
    /// rings:SOCKET
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["tap", "nic_connections", "pcap", "loss", "reorder", "duplicate",
        "corrupt", "seed", "one_thread"])]
    pub nic: Option<PathBuf>,
    /// Our address with its prefix length, as in 10.9.0.2/24 or fd09::2/64; may be given for each family
    #[arg(long = "ip", value_name = "CIDR", required = true)]
    pub addresses: Vec<Cidr>,
    /// Router for everything that is not on the link
    #[arg(long, value_name = "IP")]
    pub gateway: Option<Ipv4Addr>,
    /// The same for IPv6
    #[arg(long, value_name = "IP6")]
    pub gateway6: Option<Ipv6Addr>,
    /// Which directions of TLS and NVMe/TCP the NIC does; the rest is done in software
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Which::Both)]
    pub offload: Which,
    /// What the NIC does for whole connections: some of setup,teardown,splice,lazy-tcb; or all, or none
    #[arg(long, value_name = "WHAT", default_value_t = Accel::NONE)]
    pub accel: Accel,
    /// Handshakes of the NIC's to remember against replays of a connection's first data, 8 bytes each
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub accel_handshakes: u32,
    /// Which established connections the NIC runs from then on: fcfs (first come, first served), t4 (at the fourth write; any
    /// number), predict (those that will send the most), off; 443=t4,80=fcfs for ports of ours
    #[arg(long, value_name = "POLICY", default_value_t = Handoff::default())]
    pub handoff: Handoff,
    /// Connections that the NIC has memory for, of those that are handed off to it
    #[arg(long, value_name = "N", default_value_t = nic::ToeConfig::default().hard_limit)]
    pub nic_connections: u32,
    /// Write every frame of the wire to this file, in pcapng, with the TLS secrets inside
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Append the TLS secrets to this file, in the format of SSLKEYLOGFILE
    #[arg(long, value_name = "FILE")]
    pub keylog: Option<PathBuf>,
    /// What the wire does to frames.
    #[command(flatten)]
    pub line: Line,
    /// Never sleep: less latency, and two cores busy
    #[arg(long)]
    pub busy_poll: bool,
    /// Run host and NIC on one thread instead of one each
    #[arg(long)]
    pub one_thread: bool,
}

/// What a wire does to frames, to see how everybody copes.
#[derive(Clone, Debug, Args)]
pub struct Line {
    /// Share of the frames to lose, in each direction, from 0 to 1
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub loss: f64,
    /// Share of the frames to put out of order, in each direction
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub reorder: f64,
    /// Share of the frames to send twice, in each direction
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub duplicate: f64,
    /// Share of the frames to damage, in each direction
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub corrupt: f64,
    /// What the losses and damages are drawn from; the same seed draws the same
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// `longshore serve`.
#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// How to reach the wire.
    #[command(flatten)]
    pub wire: Wire,
    /// Directory to serve
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// Port to listen on [default: 443, or 80 with --plain]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Certificate chain in PEM; without one, a self-signed certificate is made
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Instead of a certificate, pre-shared keys of TLS 1.3: lines of `identity:key in hexadecimal digits`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cert", "key"])]
    pub psk: Option<PathBuf>,
    /// Serve HTTP without TLS, for comparison
    #[arg(long, conflicts_with_all = ["cert", "key", "psk", "keylog"])]
    pub plain: bool,
    /// With --nic too, encrypt files from where they are instead of a copy. When the NIC dies, connections are reset that are in
    /// the middle of a record: nobody can tell whether the file has changed since
    #[arg(long, requires = "nic")]
    pub zerocopy: bool,
    /// Answer `longshore stat` and `longshore ss` at this path
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// As whom to go on.
    #[command(flatten)]
    pub account: Account,
}

/// `longshore get`.
#[derive(Clone, Debug, Args)]
pub struct Get {
    /// What to download; http:// and https:// are understood
    pub url: Url,
    /// How to reach the wire.
    #[command(flatten)]
    pub wire: Wire,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
    /// Trust the certificates of this file, in PEM, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Instead of certificates, a pre-shared key of TLS 1.3: a line of `identity:key in hexadecimal digits`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ca", "insecure"])]
    pub psk: Option<PathBuf>,
    /// Where to write; `-` is the standard output [default: the name in the URL]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Redirections to follow
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub max_redirects: u32,
    /// Seconds without a byte from the server after which to give up
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub timeout: u64,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

/// `longshore stat`.
#[derive(Clone, Debug, Args)]
pub struct Stat {
    /// Control socket of the server (its --control)
    #[arg(required_unless_present = "explain")]
    pub socket: Option<PathBuf>,
    /// Print one JSON object with all counters
    #[arg(long)]
    pub json: bool,
    /// Show zero counters too
    #[arg(short, long)]
    pub all: bool,
    /// Explain each counter; without a socket, every counter that there is
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    /// With --explain and no socket: print Markdown tables
    #[arg(long, requires = "explain", conflicts_with = "socket")]
    pub markdown: bool,
}

/// `longshore ss`.
#[derive(Clone, Debug, Args)]
pub struct Ss {
    /// Control socket of the server (its --control)
    pub socket: PathBuf,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

/// `longshore restore`.
#[derive(Clone, Debug, Args)]
pub struct Restore {
    /// Where the server was told to listen with --control
    pub socket: PathBuf,
    /// The connection with this peer only, as `ss` shows it
    #[arg(value_name = "PEER")]
    pub peer: Option<SocketAddr>,
}

/// The value of `--offload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// All in software.
    None,
    /// The NIC encrypts.
    Tx,
    /// The NIC decrypts.
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
        _ => Err("a share is a number from 0 to 1, as in 0.01 for one in a hundred".to_owned()),
    }
}
