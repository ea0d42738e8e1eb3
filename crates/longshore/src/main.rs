//! The `longshore` command.

mod attach;
mod bench;
mod cli;
mod control;
mod demo;
mod get;
mod http;
mod lb;
mod meta;
mod nic_process;
mod nvme;
mod psk_file;
mod report;
mod run;
mod sandbox;
mod secret_file;
mod serve;
mod signals;
mod sim_handoff;
mod size;
mod store;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use tracing_subscriber::EnvFilter;

use cli::{Cli, Command};
use control::{Answer, Request};

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    match run(&cli.command) {
        Ok(code) => code,
        Err(error) => {
            // The chain on one line: what went wrong, then why.
            let _ = writeln!(std::io::stderr(), "longshore: {error:#}");
            ExitCode::from(1)
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
        Command::Stat(options) => stat(options)?,
        Command::Ss(options) => ss(options)?,
        Command::Restore(options) => restore(options)?,
        Command::Nvme { command } => nvme::run(command)?,
        Command::Nic(options) => return nic_process::run(options),
        Command::Run(options) => return run::run(options),
        Command::Bench(options) => bench::run(options)?,
        Command::Sim { command } => sim_handoff::run(command)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn stat(options: &cli::Stat) -> Result<()> {
    use control::print;
    let Some(socket) = &options.socket else {
        return Ok(show(&match options.markdown {
            true => print::glossary_markdown(),
            false => print::glossary(),
        })?);
    };
    let Answer::Stat(groups) = control::ask(socket, Request::Stat)? else {
        bail!("the server answered another question");
    };
    let text = match (options.json, options.explain) {
        (true, _) => print::counters_json(&groups)? + "\n",
        (false, true) => print::explained(&groups, options.all),
        (false, false) => print::counters(&groups, options.all),
    };
    Ok(show(&text)?)
}

/// Writes to the standard output; a reader that has seen enough, as `head` does, is no error.
fn show(text: &str) -> std::io::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn ss(options: &cli::Ss) -> Result<()> {
    let Answer::Sockets(sockets) = control::ask(&options.socket, Request::Sockets)? else {
        bail!("the server answered another question");
    };
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&sockets)?),
        false => print!("{}", control::print::sockets(&sockets)),
    }
    Ok(())
}

fn restore(options: &cli::Restore) -> Result<()> {
    let request = Request::Restore { peer: options.peer };
    let Answer::Restored(count) = control::ask(&options.socket, request)? else {
        bail!("the server answered another question");
    };
    match (count, options.peer) {
        (0, Some(peer)) => bail!("the NIC runs no connection with {peer}; see longshore ss"),
        (1, _) => println!("1 connection comes back"),
        (count, _) => println!("{count} connections come back"),
    }
    Ok(())
}

fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
}
