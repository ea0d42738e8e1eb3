//! The options of `longshore nvme`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use handshake::nvme_psk::{Derivation, IdentityVersion};
use wire::nvme::{Digests, Nqn};

use super::transport::Transport;
use super::{nqn, target};
use crate::background::Background;
use crate::disk::{self, Digest, On};
use crate::size;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve files, block devices and memory as namespaces
    #[command(after_help = TARGET_EXAMPLES)]
    Target(target::Target),
    /// List the subsystems that a discovery controller knows, and their namespaces
    #[command(after_help = DISCOVER_EXAMPLES)]
    Discover(Discover),
    /// Connect to a subsystem, and show what was negotiated
    #[command(after_help = CHECK_EXAMPLES)]
    ConnectCheck(ConnectCheck),
    /// Copy a namespace, or a part of it, to a file
    #[command(after_help = READ_EXAMPLES)]
    Read(On<Disk, disk::Read>),
    /// Copy a file to a namespace
    #[command(after_help = WRITE_EXAMPLES)]
    Write(On<Disk, disk::Write>),
    /// Read or write at random places, and show throughput, latency and what the NIC did of it
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(On<Disk, disk::Bench>),
    /// Make a namespace an NBD export on a Unix socket, for qemu-img, nbdcopy, fio and the like
    #[command(after_help = ATTACH_EXAMPLES)]
    Attach(Attach),
}

const TARGET_EXAMPLES: &str = target::EXAMPLES;

const DISCOVER_EXAMPLES: &str = "\
Examples:
  sudo longshore nvme discover 10.9.0.1 --tap ls0 --ip 10.9.0.2/24
  sudo longshore nvme discover 10.9.0.1:4420 --tap ls0 --ip 10.9.0.2/24 --json";

const CHECK_EXAMPLES: &str = "\
Examples:
  sudo longshore nvme connect-check 10.9.0.1 --nqn nqn.2024-01.org.example:disk \\
       --tap ls0 --ip 10.9.0.2/24 --digest both
  sudo longshore nvme connect-check 10.9.0.1 --nqn nqn.2024-01.org.example:disk \\
       --tap ls0 --ip 10.9.0.2/24 --psk key.txt";

const READ_EXAMPLES: &str = "\
Examples:
  sudo longshore nvme read 10.9.0.1 --nqn nqn.2024-01.org.example:disk \\
       --tap ls0 --ip 10.9.0.2/24 -o disk.img
  # the second MiB, to the standard output
  sudo longshore nvme read 10.9.0.1 --nqn nqn.2024-01.org.example:disk \\
       --tap ls0 --ip 10.9.0.2/24 --offset 1M --length 1M -o - | xxd | head
  # on Linux's own TCP, with the data placed by the NIC that the route goes through
  longshore nvme read 10.9.0.1 --nqn nqn.2024-01.org.example:disk \\
       --kernel --nic /run/longshore.sock --digest both -o disk.img";

const WRITE_EXAMPLES: &str = "\
Examples:
  sudo longshore nvme write 10.9.0.1 --nqn nqn.2024-01.org.example:disk \\
       --tap ls0 --ip 10.9.0.2/24 -i disk.img --verify";

const BENCH_EXAMPLES: &str = "\
Examples:
  sudo longshore nvme bench 10.9.0.1 --nqn nqn.2024-01.org.example:disk \\
       --tap ls0 --ip 10.9.0.2/24 --digest both
  # what the namespace holds is overwritten
  sudo longshore nvme bench 10.9.0.1 --nqn nqn.2024-01.org.example:disk \\
       --tap ls0 --ip 10.9.0.2/24 --write --io-bytes 4K --depth 32 --json
  # Linux's own TCP in software, and with a NIC below it
  longshore nvme bench 10.9.0.1 --nqn nqn.2024-01.org.example:disk --kernel
  longshore nvme bench 10.9.0.1 --nqn nqn.2024-01.org.example:disk --kernel \\
       --nic /run/longshore.sock";

const ATTACH_EXAMPLES: &str = "\
Examples:
  sudo longshore nvme attach 10.9.0.1 --nqn nqn.2024-01.org.example:disk \\
       --tap ls0 --ip 10.9.0.2/24 --nbd /run/disk.sock &
  qemu-img info nbd+unix:///?socket=/run/disk.sock
  nbdcopy nbd+unix:///?socket=/run/disk.sock disk.img
  fio --name=verify --ioengine=nbd --uri=nbd+unix:///?socket=/run/disk.sock \\
      --rw=randwrite --bs=64k --size=64m --iodepth=32 --verify=crc32c";

/// How to reach a controller; the same for all commands.
#[derive(Clone, Debug, Args)]
pub struct Peer {
    /// The controller's address.
    #[arg(
        value_name = "ADDR",
        help = "The controller's address, as in 10.9.0.1, 10.9.0.1:4420 or [fd09::1]:4420"
    )]
    pub address: Address,
    /// Whose TCP carries the connections.
    #[command(flatten)]
    pub transport: Transport,
    /// Our name [default: that of /etc/nvme/hostnqn, else one made of this machine's ID]
    #[arg(long, value_name = "NQN", value_parser = nqn::parse)]
    pub hostnqn: Option<Nqn>,
    /// Our UUID [default: that of /etc/nvme/hostid, else the one in our name, else one made of it]
    #[arg(long, value_name = "UUID", value_parser = uuid)]
    pub hostid: Option<[u8; 16]>,
    /// Digests to ask for
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Digest::None)]
    pub digest: Digest,
    /// Connect under TLS 1.3 with the pre-shared key of this file, in NVMe's interchange format
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pub psk: Option<PathBuf>,
    /// Version of the PSK's identity; SPDK knows version 0 only
    #[arg(long, value_name = "N", value_parser = identity_version, default_value = "1")]
    pub psk_identity: IdentityVersion,
    /// Derive keys as libnvme did before August 2025
    #[arg(long)]
    pub psk_compat: bool,
    /// Seconds without a sign of life after which either side gives up
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub keep_alive: u64,
    /// Seconds that connecting may take
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
}

/// Which namespace to use, and how.
#[derive(Clone, Debug, Args)]
pub struct Disk {
    /// How to reach the controller.
    #[command(flatten)]
    pub peer: Peer,
    /// The subsystem; `longshore nvme discover` lists them
    #[arg(long, value_name = "NQN", value_parser = nqn::parse)]
    pub nqn: Nqn,
    /// The namespace [default: the first one]
    #[arg(long = "ns", value_name = "NSID")]
    pub namespace: Option<u32>,
    /// I/O queues, each of which is a connection
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub queues: u16,
    /// Commands in flight on each queue
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub depth: u16,
    /// The host copies the data of smaller reads; the NIC places that of others
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = size::between_u32(0, u32::MAX))]
    pub map_threshold: u32,
    /// How often a command is tried again after a lost connection or a transient error; 0: never, and no reconnect
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub retries: u8,
}

/// `longshore nvme discover`.
#[derive(Clone, Debug, Args)]
pub struct Discover {
    /// How to reach the discovery controller, at the address's port, or at 8009 or 4420.
    #[command(flatten)]
    pub peer: Peer,
    /// Don't connect to the subsystems to see their namespaces
    #[arg(long)]
    pub no_namespaces: bool,
    /// One JSON array
    #[arg(long)]
    pub json: bool,
}

/// `longshore nvme connect-check`.
#[derive(Clone, Debug, Args)]
pub struct ConnectCheck {
    /// What to connect to.
    #[command(flatten)]
    pub disk: Disk,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// `longshore nvme attach`.
#[derive(Clone, Debug, Args)]
pub struct Attach {
    /// What to attach.
    #[command(flatten)]
    pub disk: Disk,
    /// Unix socket to serve the NBD export on
    #[arg(long, value_name = "SOCKET")]
    pub nbd: PathBuf,
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
    /// Answer `longshore stat` and `longshore ss` at this path
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Whether to go on in the background.
    #[command(flatten)]
    pub background: Background,
}

impl From<Digest> for Digests {
    fn from(digest: Digest) -> Digests {
        Digests {
            header: digest.has_header(),
            data: digest.has_data(),
        }
    }
}

/// An address, with a port or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The IP address.
    pub ip: IpAddr,
    /// The port, if one was given.
    pub port: Option<u16>,
}

impl Address {
    /// The address, on `port` unless it has its own.
    pub fn with_port(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(text).parse() {
            return Ok(Address { ip, port: None });
        }
        let address: SocketAddr = text.parse().map_err(
            |_| "give an IP address, with a port or without, as in 10.9.0.1:4420 or [fd09::1]:4420",
        )?;
        Ok(Address {
            ip: address.ip(),
            port: Some(address.port()),
        })
    }
}

impl Peer {
    /// What random numbers are made of.
    pub fn seed(&self) -> u64 {
        match &self.transport {
            Transport::Ours(wire) => wire.line.seed,
            Transport::Linux { .. } => 1,
        }
    }

    /// How keys are derived.
    pub fn derivation(&self) -> Derivation {
        match self.psk_compat {
            true => Derivation::Libnvme,
            false => Derivation::Specification,
        }
    }
}

fn uuid(text: &str) -> Result<[u8; 16], String> {
    super::identity::parse_uuid(text).ok_or_else(|| {
        "a UUID has 32 hexadecimal digits, as in 3f0c6fb0-8f2e-4a6a-9d2c-0c6a3d0f7b11".to_owned()
    })
}

fn identity_version(text: &str) -> Result<IdentityVersion, String> {
    match text {
        "0" => Ok(IdentityVersion::V0),
        "1" => Ok(IdentityVersion::V1),
        _ => Err("there are versions 0 and 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        peer: Peer,
    }

    #[test]
    fn times_that_no_clock_holds_are_refused() {
        let parsed = |time: &str| {
            CommandLine::try_parse_from(["check", "10.9.0.1", "--kernel", time])
                .map(|line| (line.peer.keep_alive, line.peer.timeout))
        };
        for time in ["--timeout", "--keep-alive"] {
            for seconds in [86_401, u64::MAX] {
                assert!(parsed(&format!("{time}={seconds}")).is_err());
            }
            parsed(&format!("{time}=86400")).unwrap();
        }
        assert!(parsed("--timeout=0").is_err());
        assert_eq!(parsed("--keep-alive=0").unwrap(), (0, 20));
    }
}
