//! The `longshore` command.

#![warn(clippy::print_stdout)]

#[macro_use]
mod printing;

mod access_log;
mod admission;
mod attach;
mod background;
mod bench;
mod certificate_files;
mod cli;
mod config;
mod control;
mod cores;
mod demo;
mod disk;
mod get;
mod guest;
mod heap;
mod http;
mod http2;
mod interfaces;
mod iscsi;
mod lb;
mod log;
mod manual;
mod matching;
mod meta;
mod metrics;
mod min_rate;
mod nbd;
mod nic_process;
mod nvme;
mod psk_file;
mod read_again;
mod report;
mod run;
mod sandbox;
mod secret_file;
mod serve;
mod service;
mod shards;
mod signals;
mod sim_handoff;
mod size;
mod store;
mod succession;
mod tally;
mod top;
mod waiting;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use cli::Command;
use config::{ConfigError, Unusable};

fn main() -> ExitCode {
    // Whatever the file is called: `longshore stop` goes by it.
    let _ = rustix::thread::set_name(c"longshore");
    let cli = match config::command_line(std::env::args_os()) {
        Ok(cli) => cli,
        Err(Unusable::Usage(error)) => error.exit(),
        Err(Unusable::File(error)) => {
            let _ = writeln!(std::io::stderr(), "longshore: {error}");
            return ExitCode::from(2);
        }
    };
    match log::start().and_then(|()| run(&cli.command)) {
        // Its message was printed when the capture ended.
        Ok(_) if attach::capture_has_failed() => ExitCode::FAILURE,
        Ok(code) => code,
        Err(error) => {
            // The chain on one line: what went wrong, then why.
            let _ = writeln!(std::io::stderr(), "longshore: {error:#}");
            match error.is::<ConfigError>() {
                true => ExitCode::from(2),
                false => ExitCode::from(1),
            }
        }
    }
}

fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Demo(options) => demo::run(options)?,
        Command::Serve(options) => serve::run(options)?,
        Command::Lb(options) => lb::run(options)?,
        Command::Get(options) => {
            if let get::Ending::Refused(_) = get::run(options)? {
                return Ok(ExitCode::from(3));
            }
        }
        Command::Stat(options) => control::stat(options)?,
        Command::Metrics(options) => metrics::run(options)?,
        Command::Ss(options) => control::ss(options)?,
        Command::Top(options) => top::run(options)?,
        Command::Restore(options) => control::restore(options)?,
        Command::Reload(options) => control::reload(options)?,
        Command::Fault(options) => control::fault::fault(options)?,
        Command::Stop(options) => control::stop(options)?,
        Command::Up(options) => interfaces::up(options)?,
        Command::Down(options) => interfaces::down(options)?,
        Command::Nvme { command } => nvme::run(command)?,
        Command::Nbd { command } => nbd::run(command)?,
        Command::Iscsi { command } => iscsi::run(command)?,
        Command::Nic(options) => return nic_process::run(options),
        Command::Guest(options) => return Ok(guest::run(options)),
        Command::Run(options) => return run::run(options),
        Command::Bench(options) => bench::run(options)?,
        Command::Man(options) => manual::man(options)?,
        Command::Completions(options) => manual::completions(options),
        Command::Config { command } => config::run(command)?,
        Command::Sim { command } => sim_handoff::run(command)?,
    }
    Ok(ExitCode::SUCCESS)
}
