//! The command line of `longshore guest`.

use std::path::PathBuf;

use clap::Args;
use host::Cidr;

use crate::attach::Line;
use crate::nic_process::WireOption;
use crate::size;

pub const EXAMPLES: &str = "\
Examples:
  # a shell in Debian's Linux, with the NIC as its eth0
  sudo longshore guest

  # one command, whose exit code is passed on; the other end of the wire answers it
  sudo longshore guest --peer 'iperf3 -s' -- sh -c 'iperf3 -c $PEER'

  # a wire that loses 1 % of all frames, captured
  sudo longshore guest --loss 0.01 --pcap wire.pcapng --peer 'iperf3 -s' -- iperf3 -c 10.77.0.2

  # a kernel of your own, as `make modules_install INSTALL_MOD_PATH=/tmp/modules` has left it
  sudo longshore guest --kernel arch/x86/boot/bzImage --modules /tmp/modules

  # a driver that you work on
  sudo longshore guest --driver drivers/linux --smp 2 -- ethtool -S eth0

The first time, a root of Debian 13 is made by mmdebstrap, in $XDG_CACHE_HOME/longshore; in
/var/cache/longshore where that is another user's, as with `sudo -E`.
The guest sees it read-only; what it writes is gone when it ends, but for what is in --share.
Its environment has NETDEV, ADDRESS and PEER: its interface, its address, and that at the other end.
Exit code: the command's; 124 after --time; 125 when there is no guest, or it died.";

/// `longshore guest`.
#[derive(Clone, Debug, Args)]
pub struct GuestOptions {
    /// Command for the guest, with its arguments; a shell on this terminal without it
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Make the root, print where it is, and boot nothing
    #[arg(long, conflicts_with = "command")]
    pub prepare: bool,
    /// Directory of this machine that the guest has at /mnt, and may write to
    #[arg(long, value_name = "DIR")]
    pub share: Option<PathBuf>,
    /// End the guest after so long
    #[arg(long, value_name = "SECONDS")]
    pub time: Option<u64>,
    /// The machine.
    #[command(flatten)]
    pub machine: Machine,
    /// Its kernel.
    #[command(flatten)]
    pub kernel: Kernel,
    /// Its NIC.
    #[command(flatten)]
    pub network: Network,
    /// What the wire does to frames.
    #[command(flatten, next_help_heading = WIRE)]
    pub line: Line,
}

/// Headings of the help.
const WIRE: &str = "Wire";

/// The machine.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Machine")]
pub struct Machine {
    /// Processors
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub smp: u16,
    /// Memory
    #[arg(long = "memory", value_name = "SIZE", default_value = "1G", value_parser = memory)]
    pub memory_bytes: u64,
    /// Use KVM, which is faster than emulation
    #[arg(long)]
    pub kvm: bool,
    /// Write the kernel's messages to this file
    #[arg(long, value_name = "FILE")]
    pub console: Option<PathBuf>,
}

/// The kernel and the driver.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Kernel")]
pub struct Kernel {
    /// Kernel to boot instead of Debian's: a bzImage, with 9P and overlayfs built in or as modules
    #[arg(long, value_name = "FILE", requires = "modules")]
    pub kernel: Option<PathBuf>,
    /// Its modules: INSTALL_MOD_PATH of `make modules_install`, or lib/modules/VERSION there
    #[arg(long, value_name = "DIR", requires = "kernel")]
    pub modules: Option<PathBuf>,
    /// Driver to load instead of the built-in one: longshore.ko, or the directory of its source
    #[arg(long, value_name = "PATH")]
    pub driver: Option<PathBuf>,
    /// Load no driver, and set no interface up; the module is /run/longshore/longshore.ko
    #[arg(long)]
    pub no_driver: bool,
}

/// The NIC and what is at the other end of its wire.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Network")]
pub struct Network {
    /// The guest's address
    #[arg(long, value_name = "CIDR", default_value = "10.77.0.3/24")]
    pub ip: Cidr,
    /// Address of the peer, a network namespace of this machine at the other end of the wire
    #[arg(long, value_name = "CIDR", default_value = "10.77.0.2/24")]
    pub peer_ip: Cidr,
    /// Shell command that runs in the peer's namespace as long as the guest does, with the guest's
    /// programs and --share
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["wire", "nic"])]
    pub peer: Option<String>,
    /// What the NIC is plugged into instead of a peer; as --wire of `longshore nic`
    #[arg(long, value_name = "WIRE", value_parser = wire)]
    pub wire: Option<String>,
    /// Functions of the NIC; the first is the interface with the address
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=8))]
    pub functions: u16,
    /// Most queues of a function [default: as many as processors, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    pub queues: Option<u16>,
    /// Use a NIC that runs: SOCKET of its `--host vfio-user:SOCKET`
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["wire", "functions", "queues", "control", "pcap", "loss", "reorder",
        "duplicate", "corrupt", "seed"])]
    pub nic: Option<PathBuf>,
    /// Control socket of the NIC, for `longshore stat`
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Write every frame on the wire to this pcapng file
    #[arg(long, value_name = "FILE", help_heading = WIRE)]
    pub pcap: Option<PathBuf>,
}

impl Network {
    /// Most queues of a function.
    pub fn queues(&self, smp: u16) -> u16 {
        self.queues.unwrap_or(smp.min(16))
    }
}

/// A value of `--wire` of `longshore nic`, as it is.
fn wire(text: &str) -> Result<String, String> {
    text.parse().map(|_: WireOption| text.to_owned())
}

fn memory(text: &str) -> Result<u64, String> {
    size::parse_between(text, 256 << 20, 1 << 40)
}
