//! Configuration files: TOML, with a table for each service. Its keys are the names of the service's options, which it takes the place of:
//! what an option means, and which values it takes, is said once, by the description of the command line.

mod error;
mod file;
pub mod line;
mod options;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, Parser};

pub use error::{ConfigError, malformed};
pub use options::{Command, FORMAT, run};

use crate::cli::Cli;
use file::File;

/// A service that a file may configure.
#[derive(Debug)]
pub struct Service {
    /// Its table.
    pub table: &'static str,
    /// Its subcommand.
    pub path: &'static [&'static str],
}

/// All of them.
pub const SERVICES: [Service; 5] = [
    Service {
        table: "nic",
        path: &["nic"],
    },
    Service {
        table: "serve",
        path: &["serve"],
    },
    Service {
        table: "lb",
        path: &["lb"],
    },
    Service {
        table: "nvme-target",
        path: &["nvme", "target"],
    },
    Service {
        table: "metrics",
        path: &["metrics"],
    },
];

/// The option `--config`, which [`command_line`] has followed when options are looked at.
#[derive(Clone, Debug, Args)]
pub struct ConfigFile {
    /// Take options from this file in TOML, from the service's table; those on the command line come first
    #[arg(id = "config", long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file, if there is one.
    pub fn path(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }
}

/// Why a command line can't be followed.
#[derive(Debug)]
pub enum Unusable {
    /// The command line itself; or help was asked for.
    Usage(clap::Error),
    /// The file that it names.
    File(ConfigError),
}

impl Display for Unusable {
    /// On one line.
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Usage(error) => out.write_str(&file::summary(error)),
            Unusable::File(error) => error.fmt(out),
        }
    }
}

impl From<ConfigError> for Unusable {
    fn from(error: ConfigError) -> Unusable {
        Unusable::File(error)
    }
}

/// What the command line asks for, and the file of its `--config`.
///
/// # Errors
/// What is wrong with either.
pub fn command_line(arguments: impl Iterator<Item = OsString>) -> Result<Cli, Unusable> {
    let (cli, arguments) = follow(arguments)?;
    let _ = ARGUMENTS.set(arguments);
    Ok(cli)
}

/// The same, and the arguments with those of the file.
fn follow(arguments: impl Iterator<Item = OsString>) -> Result<(Cli, Vec<OsString>), Unusable> {
    let given: Vec<OsString> = arguments.collect();
    let arguments = with_file(&given)?.unwrap_or(given);
    let cli = Cli::try_parse_from(&arguments).map_err(Unusable::Usage)?;
    Ok((cli, arguments))
}

/// The command line of this process with its file as that is now, and the options whose values are others than when the process began.
///
/// # Errors
/// What is wrong with the file.
pub fn read_again() -> Result<(Cli, Vec<String>), Unusable> {
    let (cli, now) = follow(std::env::args_os())?;
    Ok((cli, changed(arguments(), &now)))
}

/// The options, as a command line has them, whose values differ.
fn changed(before: &[OsString], now: &[OsString]) -> Vec<String> {
    let values = |arguments: &[OsString]| {
        let mut command = Cli::command();
        command.build();
        let matches = command.clone().try_get_matches_from(arguments).ok()?;
        let (mut command, mut matches) = (&command, &matches);
        while let Some((name, inner)) = matches.subcommand() {
            command = command.find_subcommand(name)?;
            matches = inner;
        }
        let options = command.get_arguments().filter_map(|arg| {
            let raw = matches.get_raw(arg.get_id().as_str());
            let values: Vec<OsString> = raw.into_iter().flatten().map(OsString::from).collect();
            Some((format!("--{}", arg.get_long()?), values))
        });
        Some(options.collect::<Vec<_>>())
    };
    let (before, now) = (
        values(before).unwrap_or_default(),
        values(now).unwrap_or_default(),
    );
    let pairs = before.into_iter().zip(now);
    pairs
        .filter(|(before, now)| before != now)
        .map(|(_, (name, _))| name)
        .collect()
}

static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The arguments of this process, with those that its file has.
pub fn arguments() -> &'static [OsString] {
    ARGUMENTS.get().map_or(&[], Vec::as_slice)
}

/// Puts the options of the file before those on the command line, without those that the command line has; `None` if there is no file.
fn with_file(arguments: &[OsString]) -> Result<Option<Vec<OsString>>, ConfigError> {
    let command = Cli::command().ignore_errors(true);
    let Ok(matches) = command.try_get_matches_from(arguments) else {
        return Ok(None);
    };
    let mut given = &matches;
    let mut path = Vec::new();
    while let Some((name, inner)) = given.subcommand() {
        path.push(name);
        given = inner;
    }
    let service = SERVICES.iter().find(|service| service.path == path);
    let config = given.try_get_one::<PathBuf>("config").ok().flatten();
    let (Some(service), Some(config)) = (service, config) else {
        return Ok(None);
    };
    // A process of the NIC is given what its supervisor has read.
    if is_given(given, "inherited") {
        return Ok(None);
    }
    let file = File::read(config)?;
    let of_file = file
        .settings(service)?
        .into_iter()
        .filter(|setting| !is_given(given, setting.id.as_str()))
        .flat_map(|setting| setting.arguments);
    let (command, options) = arguments.split_at(1 + path.len());
    let arguments = command.iter().cloned().chain(of_file);
    Ok(Some(arguments.chain(options.iter().cloned()).collect()))
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.try_contains_id(id).is_ok_and(|there| there)
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The text of a file.
///
/// # Errors
/// It can't be read.
pub fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
        file: path.display().to_string(),
        error,
    })
}

/// The description of a service's options.
fn description(service: &Service) -> clap::Command {
    let mut command = Cli::command();
    command.build();
    for name in service.path {
        let inner = command.find_subcommand(name).cloned();
        command = inner.unwrap_or(command);
    }
    command
}

/// What stands in the place of the program's name.
const PROGRAM: &str = "longshore";

/// What a service makes of these options alone.
fn parse<'a>(
    command: &clap::Command,
    arguments: impl IntoIterator<Item = &'a OsString>,
) -> Result<ArgMatches, clap::Error> {
    let program = std::iter::once(OsStr::new(PROGRAM));
    let arguments = arguments.into_iter().map(OsString::as_os_str);
    command
        .clone()
        .try_get_matches_from(program.chain(arguments))
}
