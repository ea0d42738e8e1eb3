//! The options of `longshore serve`.

use std::path::PathBuf;

use clap::Args;

use crate::access_log;
use crate::attach::{Connections, Wire};
use crate::background::Background;
use crate::certificate_files::CertificateFiles;
use crate::config::ConfigFile;
use crate::cores::Cores;
use crate::matching::Action;
use crate::sandbox::Account;
use crate::succession::TakeOver;

/// What `--help` ends with.
pub const EXAMPLES: &str = "\
Examples:
  sudo longshore serve --tap ls0 --ip 10.9.0.2/24 --peer-ip 10.9.0.1/24 --root . \\
       --control /run/longshore.sock --background
  curl --insecure https://10.9.0.2/
  sudo longshore stop /run/longshore.sock

  # without root, on an interface that root has made
  sudo longshore up ls0 10.9.0.1/24
  longshore serve --tap ls0 --ip 10.9.0.2/24 --root .

  # the NIC runs connections from their fourth write on; restore returns them to the host
  sudo longshore serve --tap ls0 --ip 10.9.0.2/24 --peer-ip 10.9.0.1/24 --root . \\
       --handoff t4 --control /run/longshore.sock
  sudo longshore restore /run/longshore.sock

  # on a NIC that is a process of its own
  sudo longshore nic --host tap:ls0,ip=10.9.0.1/24 --host rings:/run/files.sock --wire mem \\
       --control /run/nic.sock --background
  sudo longshore serve --nic /run/files.sock --ip 10.9.0.2/24 --root .

  # two names; after a renewal the new files are taken without losing a connection
  sudo longshore serve --tap ls0 --ip 10.9.0.2/24 --root . --control /run/longshore.sock \\
       --cert a.pem --key a.key --cert b.pem --key b.key
  sudo longshore reload /run/longshore.sock

  # another version or other options, without an error for clients: the running process ends its
  # connections, this one takes new ones
  sudo longshore serve --tap ls0 --ip 10.9.0.2/24 --root other --control /run/longshore.sock \\
       --background --take-over

  # on two cores: clients are spread over two stacks with a NIC each
  sudo longshore serve --tap ls0 --ip 10.9.0.2/24 --root . --cores 0,1

  # no client may send what is in this file; the NIC searches, inside TLS too
  printf '%s\n' 'evil.example' '/cmd=[a-z]+;/i' >patterns
  sudo longshore serve --tap ls0 --ip 10.9.0.2/24 --root . --match patterns --match-action close

  # a lossy link, captured together with the keys to decrypt it
  longshore serve --tap ls0 --ip 10.9.0.2/24 --root . --loss 0.01 --pcap tls.pcapng";

/// `longshore serve`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Directory to serve
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// Port to listen on [default: 443, or 80 with --plain]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// What it proves itself with; without any, a certificate that it makes for itself.
    #[command(flatten)]
    pub certificates: CertificateFiles,
    /// Pre-shared keys of TLS 1.3 instead of a certificate: lines of `identity:key`, the key in hexadecimal
    #[arg(long, value_name = "FILE", help_heading = "TLS", conflicts_with_all = ["cert", "key"])]
    pub psk: Option<PathBuf>,
    /// Speak HTTP/1.1 only, also with clients that offer HTTP/2; so does a server with --match, --psk or --plain
    #[arg(long, help_heading = "TLS")]
    pub no_http2: bool,
    /// Serve HTTP without TLS
    #[arg(long, help_heading = "TLS", conflicts_with_all = ["cert", "key", "psk", "keylog"])]
    pub plain: bool,
    /// With --nic, have the NIC read files in place instead of copying them. If the NIC dies, connections in the middle of
    /// a record are reset, since the file may have changed
    #[arg(long, requires = "nic", help_heading = "Offload")]
    pub zerocopy: bool,
    /// Search what clients send for the patterns in this file, one per line: a string, or /an expression/
    #[arg(long = "match", value_name = "FILE")]
    pub patterns: Option<PathBuf>,
    /// What is done about a connection with a pattern of --match in it
    #[arg(
        long,
        value_name = "ACTION",
        requires = "patterns",
        default_value = "log"
    )]
    pub match_action: Action,
    /// Reset clients that take nothing of what waits for them for so long; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub send_timeout: u32,
    /// Reset clients that take fewer bytes a second of what waits for them, over 30 s; 0 for any rate
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub min_rate: u32,
    /// Serve on so many cores, or on these processors, as in 0,1 or 2-5: each has a thread with a stack and a NIC of its own, and
    /// clients are spread over them. Without it there is one stack, with its NIC on a thread beside it
    #[arg(long, value_name = "N|LIST", conflicts_with_all = ["nic", "pcap", "one_thread"])]
    pub cores: Option<Cores>,
    /// Socket for `longshore stat`, `ss`, `restore`, `reload` and `stop`
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Whose place it takes.
    #[command(flatten)]
    pub take_over: TakeOver,
    /// The file of options that are not on the command line.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Where requests are logged.
    #[command(flatten)]
    pub access_log: access_log::Logging,
    /// As whom to go on.
    #[command(flatten)]
    pub account: Account,
    /// How to reach the network.
    #[command(flatten)]
    pub wire: Wire,
    /// What the NIC does for whole connections.
    #[command(flatten)]
    pub connections: Connections,
    /// Whether to go on in the background.
    #[command(flatten)]
    pub background: Background,
}
