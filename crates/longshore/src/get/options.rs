//! The options of `longshore get`.

use std::path::PathBuf;

use clap::Args;
use url::Url;

use crate::attach::Wire;
use crate::size;

/// What `--help` ends with.
pub const EXAMPLES: &str = "\
Examples:
  sudo longshore get https://10.9.0.1/file --tap ls0 --ip 10.9.0.2/24 --peer-ip 10.9.0.1/24 \\
       --ca cert.pem -o file
  sudo longshore get https://example.org/ --tap ls0 --ip 10.9.0.2/24 --gateway 10.9.0.1
  # compressed on the way, and at most 100 MiB when it is not any more
  sudo longshore get https://10.9.0.1/log --tap ls0 --ip 10.9.0.2/24 --ca cert.pem \\
       --compressed --max-size 100M
  # on a NIC that runs with --host rings:/run/get.sock
  sudo longshore get https://10.9.0.1/file --nic /run/get.sock --ip 10.9.0.2/24 --insecure

Exit codes: 0 the download is complete, 1 it failed, 2 the command line is wrong,
3 the server answered with a status of 300 or more.";

/// `longshore get`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// What to download, by https:// or http://
    pub url: Url,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca", help_heading = "TLS")]
    pub insecure: bool,
    /// Trust the certificates in this PEM file instead of the system's: authorities, or the server's own
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub ca: Option<PathBuf>,
    /// Pre-shared key of TLS 1.3 instead of certificates: a line of `identity:key`, the key in hexadecimal
    #[arg(long, value_name = "FILE", help_heading = "TLS", conflicts_with_all = ["ca", "insecure"])]
    pub psk: Option<PathBuf>,
    /// File to write, or `-` for the standard output [default: the name in the URL]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Ask for content compressed by zstd or gzip, and decompress it
    #[arg(long)]
    pub compressed: bool,
    /// Most bytes that compressed content may become
    #[arg(long, value_name = "SIZE", default_value = "1G", requires = "compressed", value_parser = size::parse)]
    pub max_size: u64,
    /// Most redirections to follow
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub max_redirects: u32,
    /// Give up after this many seconds without a byte from the server
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub timeout: u64,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
    /// How to reach the network.
    #[command(flatten)]
    pub wire: Wire,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn times_that_no_clock_holds_are_refused() {
        let parsed = |seconds: u64| {
            let timeout = format!("--timeout={seconds}");
            let wire = ["--tap", "ls0", "--ip", "10.9.0.2/24"];
            let line = [&["get", "http://10.9.0.1/", &timeout][..], &wire].concat();
            CommandLine::try_parse_from(line).map(|line| line.options.timeout)
        };
        assert_eq!(parsed(86_400).unwrap(), 86_400);
        assert!(parsed(86_401).is_err() && parsed(u64::MAX).is_err());
    }
}
