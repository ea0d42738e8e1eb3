//! The command line of `lb`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, Subcommand};

use crate::cli::Wire;
use crate::sandbox::Account;

/// `longshore lb`.
#[derive(Clone, Debug)]
pub enum Options {
    /// To run.
    Run(Box<Run>),
    /// To check this configuration and do nothing else.
    Check(PathBuf),
    /// To ask one that runs.
    Ask(Command),
}

/// Runs a load balancer.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// What to balance: frontends, routes, pools; see below
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Check the configuration and do nothing else
    #[arg(long)]
    pub check: bool,
    /// How to reach the wire.
    #[command(flatten)]
    pub wire: Wire,
    /// Answer `longshore stat`, `longshore ss` and `longshore lb drain` at this path
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// As whom to go on.
    #[command(flatten)]
    pub account: Account,
}

impl Args for Options {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = Command::augment_subcommands(Run::augment_args(command))
            .subcommand_required(false)
            .arg_required_else_help(false)
            .subcommand_negates_reqs(true)
            .args_conflicts_with_subcommands(true);
        // A configuration is checked without a wire.
        ["tap", "addresses"]
            .into_iter()
            .fold(command, |command, name| {
                command.mut_arg(name, |arg| {
                    arg.required(false).required_unless_present("check")
                })
            })
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
        match matches.get_one::<PathBuf>("config") {
            Some(config) if matches.get_flag("check") => Ok(Options::Check(config.clone())),
            _ => Run::from_arg_matches(matches).map(|run| Options::Run(Box::new(run))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What can be asked of a load balancer that runs.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Give a backend nothing new; what it is serving goes on
    Drain(Target),
    /// Take a backend that was drained back
    Resume(Target),
}

/// A backend of a load balancer that runs.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Where the load balancer was told to listen with --control
    pub socket: PathBuf,
    /// The pool's name
    pub pool: String,
    /// The backend's address
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
  longshore lb --config lb.toml --check
  sudo longshore lb --config lb.toml --tap ls0 --ip 10.9.0.2/24 --control /run/lb.sock &
  sudo ip addr add 10.9.0.1/24 dev ls0
  curl http://10.9.0.2/
  longshore stat /run/lb.sock
  longshore lb drain /run/lb.sock app 10.9.0.1:8081

SIGTERM lets what is under way come to its end; a second one does not.
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
    fn a_configuration_is_checked_without_a_wire_and_run_with_one() {
        Cli::command().debug_assert();
        let check = parse("longshore lb --config f --check").unwrap();
        assert!(matches!(check, Options::Check(file) if file.as_os_str() == "f"));
        let run = parse("longshore lb --config f --tap t --ip 10.0.0.2/24 --accel setup,splice");
        let Ok(Options::Run(run)) = run else {
            panic!("{run:?}")
        };
        assert!(run.wire.accel.splice && run.wire.accel.setup && !run.wire.accel.teardown);
        assert!(!run.wire.handoff.is_on());
        assert!(parse("longshore lb --config f").is_err());
        assert!(parse("longshore lb --check").is_err());
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
        assert_eq!(run.wire.handoff.to_string(), "predict,443=t4,80=fcfs");
        assert_eq!(run.wire.nic_connections, 256);
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
