//! The options of `longshore nvme target`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use wire::nvme::Nqn;

use crate::attach::{Connections, Wire};
use crate::background::Background;
use crate::config::ConfigFile;
use crate::cores::Cores;
use crate::disk::Digest;
use crate::nvme::nqn;
use crate::sandbox::Account;
use crate::size;

/// What `--help` ends with.
pub const EXAMPLES: &str = "\
Examples:
  # a file of 1 GiB, and 256 MiB of memory, for a Linux host on the other end of the TAP
  truncate -s 1G disk.img
  sudo longshore nvme target --tap ls0 --ip 10.9.0.2/24 --peer-ip 10.9.0.1/24 \\
       --nqn nqn.2024-01.org.example:disk --ns disk.img --ns mem:256M --background
  sudo nvme discover -t tcp -a 10.9.0.2
  sudo nvme connect -t tcp -a 10.9.0.2 -s 4420 -n nqn.2024-01.org.example:disk --data-digest

  # two subsystems, one of them for one host only read, digests required
  sudo longshore nvme target --tap ls0 --ip 10.9.0.2/24 --nqn nqn.2024-01.org.example:a \\
       --ns /dev/vdb --ns mem:1G,nqn=nqn.2024-01.org.example:b,ro --digest both \\
       --allow nqn.2014-08.org.nvmexpress:uuid:3f0c6fb0-8f2e-4a6a-9d2c-0c6a3d0f7b11

  # on two cores, with a stack and a NIC each; a host sees one controller
  sudo longshore nvme target --tap ls0 --ip 10.9.0.2/24 --ns disk.img --cores 0,1

  # inside TLS 1.3, with a key made by `nvme gen-tls-key`
  sudo longshore nvme target --tap ls0 --ip 10.9.0.2/24 --ns disk.img --psk key.txt";

/// `longshore nvme target`.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// A namespace; repeat for more.
    ///
    /// A file, a block device or mem:SIZE, then after commas: ro (read-only), block=SIZE (of its blocks, from 512 to 64K),
    /// nqn=NAME (its subsystem, if not --nqn)
    #[arg(long = "ns", value_name = "PATH|mem:SIZE[,…]", required = true)]
    pub namespaces: Vec<NamespaceSpec>,
    /// The subsystem's name [default: one made from this machine's ID]
    #[arg(long, value_name = "NQN", value_parser = nqn::parse)]
    pub nqn: Option<Nqn>,
    /// A host that may connect, by its name; repeat for more [default: all hosts]
    #[arg(long, value_name = "HOSTNQN", value_parser = Nqn::new)]
    pub allow: Vec<Nqn>,
    /// Digests that hosts must use; others are used when a host asks for them
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Digest::None)]
    pub digest: Digest,
    /// Accept TLS 1.3 connections only, with the pre-shared keys of this file, in NVMe's interchange format: one key on a
    /// line, after the name of its host if it is not for all
    #[arg(long, value_name = "FILE")]
    pub psk: Option<PathBuf>,
    /// Derive keys as libnvme did before August 2025
    #[arg(long)]
    pub psk_compat: bool,
    /// Port to listen on
    #[arg(long, value_name = "PORT", default_value_t = crate::nvme::driver::IO_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Port for hosts that look for a discovery controller; 0: only --port answers them
    #[arg(long, value_name = "PORT", default_value_t = crate::nvme::driver::DISCOVERY_PORT)]
    pub discovery: u16,
    /// I/O queues that a host may have
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub queues: u16,
    /// Commands in flight on each queue; a power of two
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = depth)]
    pub depth: u32,
    /// Queues of all hosts, each a TCP connection [default: room for 4 hosts with all their queues, and 16 more]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    pub max_queues: Option<u16>,
    /// Controllers: one for each connection of a host to a subsystem or to discovery
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=0xffef))]
    pub max_controllers: u16,
    /// Seconds that a host may take to send data that an R2T asks for; its connection is closed then
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub r2t_time: u32,
    /// Memory for the data of commands; a host may have as much of it as is free beside that
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::between(1 << 20, 1 << 40))]
    pub data_memory: u64,
    /// The host copies the data of smaller writes; the NIC places that of others
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = size::between_u32(0, u32::MAX))]
    pub map_threshold: u32,
    /// Read and write files by threads instead of io_uring
    #[arg(long)]
    pub threads: bool,
    /// Serve on so many cores, or on these processors, as in 0,1 or 2-5: each has a thread with a stack and a NIC of its own, and
    /// queues are spread over them. Without it there is one stack, with its NIC on a thread beside it
    #[arg(long, value_name = "N|LIST", conflicts_with_all = ["nic", "pcap", "one_thread"])]
    pub cores: Option<Cores>,
    /// Answer `longshore stat` and `longshore ss` at this path
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// The file of options that are not on the command line.
    #[command(flatten)]
    pub config: ConfigFile,
    /// As whom to go on.
    #[command(flatten)]
    pub account: Account,
    /// How to reach the wire.
    #[command(flatten)]
    pub wire: Wire,
    /// What the NIC does for whole connections.
    #[command(flatten)]
    pub connections: Connections,
    /// Whether to go on in the background.
    #[command(flatten)]
    pub background: Background,
}

/// The value of `--ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceSpec {
    /// Where the blocks are.
    pub backing: Backing,
    /// Nobody writes.
    pub read_only: bool,
    /// A block has 2^`block_shift` bytes.
    pub block_shift: Option<u8>,
    /// The subsystem, if it is another one.
    pub nqn: Option<Nqn>,
}

/// Where blocks are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// In memory, so many bytes.
    Memory(u64),
    /// In a file, or on a device.
    Path(PathBuf),
}

impl std::fmt::Display for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Backing::Memory(bytes) => write!(f, "{bytes} bytes of memory"),
            Backing::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for NamespaceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<NamespaceSpec, String> {
        let mut words = text.split(',');
        let backing = match words.next().unwrap_or_default() {
            "" => return Err("give a path, or mem:SIZE as in mem:256M".to_owned()),
            word => match word.strip_prefix("mem:") {
                Some(bytes) => Backing::Memory(size::parse(bytes)?),
                None => Backing::Path(word.into()),
            },
        };
        let mut spec = NamespaceSpec {
            backing,
            read_only: false,
            block_shift: None,
            nqn: None,
        };
        for word in words {
            match word.split_once('=') {
                None if word == "ro" => spec.read_only = true,
                Some(("block", bytes)) => spec.block_shift = Some(block_shift(bytes)?),
                Some(("nqn", name)) => spec.nqn = Some(nqn::parse(name)?),
                _ => {
                    return Err(format!(
                        "`{word}` is unknown; after the path come ro, block=SIZE or nqn=NAME"
                    ));
                }
            }
        }
        Ok(spec)
    }
}

fn block_shift(text: &str) -> Result<u8, String> {
    match size::parse(text)? {
        bytes @ 512..=65536 if bytes.is_power_of_two() => Ok(bytes.ilog2() as u8),
        _ => Err("a block has 512, 1024, 2048, 4096, … or 65536 bytes".to_owned()),
    }
}

fn depth(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(depth) if depth.is_power_of_two() && (32..=4096).contains(&depth) => Ok(depth),
        _ => Err("a queue has 32, 64, 128, … or 4096 entries".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_read_with_what_is_said_of_them() {
        let spec: NamespaceSpec = "mem:256M".parse().unwrap();
        assert_eq!(spec.backing, Backing::Memory(256 << 20));
        assert_eq!(
            (spec.read_only, spec.block_shift, spec.nqn),
            (false, None, None)
        );
        let spec: NamespaceSpec = "/srv/disk.img,ro,block=4K,nqn=nqn.2024-01.org.example:b"
            .parse()
            .unwrap();
        assert_eq!(spec.backing, Backing::Path("/srv/disk.img".into()));
        assert_eq!((spec.read_only, spec.block_shift), (true, Some(12)));
        assert_eq!(spec.nqn.unwrap().as_str(), "nqn.2024-01.org.example:b");
        for wrong in [
            "",
            "mem:",
            "mem:12X",
            "disk,rw",
            "disk,block=1000",
            "disk,block=256",
            "disk,nqn=",
        ] {
            assert!(wrong.parse::<NamespaceSpec>().is_err(), "{wrong}");
        }
    }
}
