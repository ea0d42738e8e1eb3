//! The command line of `lb`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, Subcommand};

use crate::access_log::Logging;
use crate::attach::{Connections, Wire};
use crate::background::Background;
use crate::certificate_files::CertificateFiles;
use crate::cores::Cores;
use crate::sandbox::Account;
use crate::succession::TakeOver;

/// `longshore lb`.
#[derive(Clone, Debug)]
pub enum Options {
    /// To run.
    Run(Box<Run>),
    /// To ask one that runs.
    Ask(Command),
}

/// Runs a load balancer.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Configuration in TOML: frontends, routes and pools, as in the example below; and options, in the table `lb`
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Control socket, for `longshore stat`, `ss`, `lb drain`, `reload` and `stop`
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Whose place it takes.
    #[command(flatten)]
    pub take_over: TakeOver,
    /// Balance on so many cores, or on these processors, as in 0,1 or 2-5: each has a thread with a stack and a NIC of its own, and
    /// clients are spread over them. Without it there is one stack, with its NIC on a thread beside it
    #[arg(long, value_name = "N|LIST", conflicts_with_all = ["nic", "pcap", "one_thread"])]
    pub cores: Option<Cores>,
    /// Where requests are logged.
    #[command(flatten)]
    pub access_log: Logging,
    /// For frontends with `tls = true`.
    #[command(flatten)]
    pub certificates: CertificateFiles,
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

impl Args for Options {
    fn augment_args(command: clap::Command) -> clap::Command {
        Command::augment_subcommands(Run::augment_args(command))
            .subcommand_required(false)
            .arg_required_else_help(false)
            .subcommand_negates_reqs(true)
            .args_conflicts_with_subcommands(true)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        if matches.subcommand_name().is_some() {
            return Command::from_arg_matches(matches).map(Options::Ask);
        }
        Run::from_arg_matches(matches).map(|run| Options::Run(Box::new(run)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Requests to a running load balancer.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Send a backend no new requests; those under way finish
    #[command(after_help = "Example:\n  longshore lb drain /run/lb.sock app 10.9.0.1:8081")]
    Drain(Target),
    /// Send a drained backend requests again
    #[command(after_help = "Example:\n  longshore lb resume /run/lb.sock app 10.9.0.1:8081")]
    Resume(Target),
}

/// A backend of a running load balancer.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Control socket of the load balancer (its --control)
    pub socket: PathBuf,
    /// Pool, by its name in the configuration
    pub pool: String,
    /// Backend, as ADDRESS:PORT
    pub backend: SocketAddr,
}

/// The configuration of `--help`.
#[cfg(test)]
pub const EXAMPLE_FILE: &str = r#"[frontends.web]
listen = ["10.9.0.2:80"]
pool = "app"

[pools.app]
balance = "least-connections"
backends = ["10.9.0.1:8081", { address = "10.9.0.1:8082", weight = 2 }]
health = { path = "/", interval = "1s" }
"#;

/// What `--help` ends with.
pub const EXAMPLES: &str = r#"Example:
  cat >lb.toml <<'END'
  [frontends.web]
  listen = ["10.9.0.2:80"]
  pool = "app"

  [pools.app]
  balance = "least-connections"
  backends = ["10.9.0.1:8081", { address = "10.9.0.1:8082", weight = 2 }]
  health = { path = "/", interval = "1s" }
  END
  longshore config check lb.toml
  sudo longshore up ls0 10.9.0.1/24
  for port in 8081 8082; do python3 -m http.server --bind 10.9.0.1 $port & done
  longshore lb --config lb.toml --tap ls0 --ip 10.9.0.2/24 --control lb.sock --background
  curl http://10.9.0.2/
  longshore stat lb.sock
  longshore lb drain lb.sock app 10.9.0.1:8081

  # other backends and limits, without losing a connection
  sed -i 's/weight = 2/weight = 5/' lb.toml
  longshore reload lb.sock

  # another version or other options, without an error for clients: the running process ends its
  # connections, this one takes new ones
  longshore lb --config lb.toml --tap ls0 --ip 10.9.0.2/24 --control lb.sock --background \
       --take-over
  longshore stop lb.sock

  # on two cores: clients are spread over two stacks with a NIC each
  longshore lb --config lb.toml --tap ls0 --ip 10.9.0.2/24 --cores 0,1

  # HTTPS for frontends with `tls = true`
  longshore lb --config lb.toml --tap ls0 --ip 10.9.0.2/24 --cert site.pem --key site.key

First SIGTERM drains (`shutdown-time`), second quits.
docs/commands/lb.md lists every key of the configuration."#;

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::{Cli, Command as Main};

    fn parse(line: &str) -> Result<Options, clap::Error> {
        match Cli::try_parse_from(line.split(' '))?.command {
            Main::Lb(options) => Ok(options),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn a_configuration_is_run_on_a_wire() {
        Cli::command().debug_assert();
        let run = parse("longshore lb --config f --tap t --ip 10.0.0.2/24 --accel setup,splice");
        let Ok(Options::Run(run)) = run else {
            panic!("{run:?}")
        };
        assert!(
            run.connections.accel.splice
                && run.connections.accel.setup
                && !run.connections.accel.teardown
        );
        assert!(!run.connections.handoff.is_on());
        assert!(parse("longshore lb --config f").is_err());
        assert!(parse("longshore lb").is_err());
    }

    #[test]
    fn policies_of_handoff_are_read_and_wrong_ones_explained() {
        let with = |handoff: &str| {
            let wire = "--tap t --ip 10.0.0.2/24 --nic-connections 256 --handoff";
            parse(&format!("longshore lb --config f {wire} {handoff}"))
        };
        let Ok(Options::Run(run)) = with("443=t4,80=fcfs,predict") else {
            panic!("it is right")
        };
        assert_eq!(
            run.connections.handoff.to_string(),
            "predict,443=t4,80=fcfs"
        );
        assert_eq!(run.connections.nic_connections, 256);
        let error = with("443=quick").unwrap_err().to_string();
        assert!(error.contains("fcfs"), "{error}");
    }

    #[test]
    fn a_backend_is_drained_by_its_address() {
        let drain = parse("longshore lb drain s app 10.9.0.1:8081").unwrap();
        assert!(matches!(drain, Options::Ask(Command::Drain(target)) if target.pool == "app"));
        assert!(parse("longshore lb drain s app somewhere").is_err());
    }
}
