//! `longshore config`: judges files, and shows what is in effect.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Subcommand};
use host::Cidr;

use super::file::{File, OF_LB, Setting, name_of, options, summary};
use super::{ConfigError, SERVICES, Service, description, parse};
use crate::cores::Cores;
use crate::lb::config::Config;
use crate::printing::put;

/// What `--help` ends with.
pub const FORMAT: &str = "\
A file has a table for each service: [nic], [serve], [lb], [nvme-target] or [metrics]. Its keys are
the names of the service's options without their dashes:

  [serve]
  tap = \"ls0\"
  ip = [\"10.9.0.2/24\"]
  root = \"/srv\"
  busy-poll = true

The service takes it by --config FILE. Options on the command line come first.";

/// `longshore config`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Check a file: the first thing that is wrong, with its line and what is expected
    #[command(
        after_help = "Example:\n  longshore config check --service serve /etc/longshore/serve.toml"
    )]
    Check(Checked),
    /// Print the options in effect of a file's services; defaults are comments
    #[command(after_help = "Example:\n  longshore config show /etc/longshore/serve.toml")]
    Show(Named),
}

/// What is checked.
#[derive(Clone, Debug, Args)]
pub struct Checked {
    /// Which file.
    #[command(flatten)]
    pub named: Named,
    /// Check whether this service starts with the file and no other option; without it, each service that the file configures
    #[arg(long, value_name = "SERVICE", value_parser = PossibleValuesParser::new(SERVICES.map(|service| service.table)))]
    pub service: Option<String>,
}

/// Which file.
#[derive(Clone, Debug, Args)]
pub struct Named {
    /// Configuration in TOML
    pub file: PathBuf,
}

/// Checks or shows a file.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Check(Checked { named, service }) => {
            let file = File::read(&named.file)?;
            match SERVICES
                .iter()
                .find(|known| service.as_deref() == Some(known.table))
            {
                Some(service) => check_alone(&file, service)?,
                None => check(&file)?,
            }
            outln!("{}: OK", named.file.display());
        }
        Command::Show(named) => put(show(&File::read(&named.file)?)?),
    }
    Ok(())
}

/// Judges each service of a file as it would start.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(file: &File) -> Result<(), ConfigError> {
    for service in services(file)? {
        check_service(file, service)?;
    }
    Ok(())
}

/// The services that a file configures.
fn services(file: &File) -> Result<Vec<&'static Service>, ConfigError> {
    let tables = file.tables()?;
    let has = |name: &str| tables.contains_key(name);
    let is_there = |service: &&Service| match service.table {
        "lb" => has("lb") || OF_LB.into_iter().any(has),
        table => has(table),
    };
    let found: Vec<&Service> = SERVICES.iter().filter(is_there).collect();
    if found.is_empty() {
        let tables = SERVICES.map(|service| format!("[{}]", service.table));
        let what = format!("no service is configured; use {}", tables.join(", "));
        return Err(file.wrong_at(0, what));
    }
    Ok(found)
}

/// Judges a service that the file may have no table of: its other options are on the command line then.
fn check_service(file: &File, service: &Service) -> Result<(), ConfigError> {
    match file.tables()?.contains_key(service.table) {
        true => check_alone(file, service),
        false => Config::parse(&file.name, &file.text).map(drop),
    }
}

/// Judges a service that is given the file and nothing else.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_alone(file: &File, service: &Service) -> Result<(), ConfigError> {
    let settings = file.settings(service)?;
    let is_lb = service.table == "lb";
    let balancer = match is_lb {
        true => Some(Config::parse(&file.name, &file.text)?),
        false => None,
    };
    let tables = file.tables()?;
    let table = tables.get_key_value(service.table);
    // The file itself, which the load balancer's command line names.
    let own = is_lb.then(|| OsString::from(format!("--config={}", file.name)));
    let arguments = settings.iter().flat_map(|setting| &setting.arguments);
    let matches = parse(&description(service), own.iter().chain(arguments)).map_err(|error| {
        let what = format!("[{}]: {}", service.table, summary(&error));
        file.wrong_at(table.map_or(0, |(name, _)| name.span().start), what)
    })?;
    if let Some(config) = balancer {
        let addresses: Vec<&Cidr> = matches
            .get_many("addresses")
            .map(Iterator::collect)
            .unwrap_or_default();
        config.check_addresses(|ip| addresses.iter().any(|cidr| cidr.address == ip))?;
        config.check_tls(matches.contains_id("cert"))?;
        let cores = matches.get_one::<Cores>("cores");
        config.check_shares(cores.map_or(1, Cores::count))?;
    }
    Ok(())
}

/// The options that are in effect, as a file.
///
/// # Errors
/// As [`check`].
pub fn show(file: &File) -> Result<String, ConfigError> {
    check(file)?;
    let mut text = String::new();
    for service in services(file)? {
        let settings = file.settings(service)?;
        let command = description(service);
        let lines = options(&command).filter_map(|arg| shown(arg, &settings));
        text += &format!("[{}]\n{}\n", service.table, lines.collect::<String>());
    }
    Ok(text)
}

/// An option that the file sets, or that has a default.
fn shown(arg: &Arg, settings: &[Setting]) -> Option<String> {
    let name = name_of(arg);
    if let Some(setting) = settings.iter().find(|setting| setting.id == *arg.get_id()) {
        return Some(format!("{name} = {}\n", setting.source));
    }
    if !arg.get_action().takes_values() {
        return Some(format!("# {name} = false\n"));
    }
    let default = arg.get_default_values().first()?.to_string_lossy();
    let default = match default.parse::<f64>() {
        Ok(_) => default.into_owned(),
        Err(_) => format!("\"{default}\""),
    };
    Some(format!("# {name} = {default}\n"))
}
