//! `longshore run`: a program with the socket API of kernel TLS.

pub mod library;
mod stay;
mod summary;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

pub use summary::CountersFile;

pub const EXAMPLES: &str = "\
Examples:
  # nginx with `ssl_conf_command Options KTLS;` in its configuration sends files with sendfile
  longshore run -- nginx -g 'daemon off;'
  # its records are made by the NIC that `longshore nic --control /run/nic.sock` is, and its files are not copied
  longshore run --nic /run/nic.sock --zerocopy -- nginx -g 'daemon off;'
  longshore run -- openssl s_server -ktls -accept 4433 -cert cert.pem -key key.pem -WWW

When the program ends, it is told on the standard error what went through. The exit code is the program's.";

/// The environment variables by which the library is told of the NIC.
pub const NIC_VARIABLE: &str = "LONGSHORE_NIC";
pub const ZEROCOPY_VARIABLE: &str = "LONGSHORE_NIC_ZEROCOPY";

/// `longshore run`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// The preloaded library [default: libktls.so beside this program, or in ../lib/longshore]
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// The control socket of a NIC that is asked to do the records of connections that go through it
    #[arg(long, value_name = "SOCKET")]
    pub nic: Option<PathBuf>,
    /// Send files from their pages, without a copy: they must not change before the peer has them. Only where the NIC does the records
    #[arg(long, requires = "nic")]
    pub zerocopy: bool,
    /// Do not tell what went through
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Runs the program to its end.
pub fn run(options: &Options) -> Result<ExitCode> {
    let library = match &options.library {
        Some(path) => library::check(path)?,
        None => library::find()?,
    };
    let counters = summary::CountersFile::create().context("a file for the counters")?;
    let name = options.program[0].to_string_lossy();
    let mut command = Command::new(&options.program[0]);
    command
        .args(&options.program[1..])
        .env("LD_PRELOAD", library::preload(&library))
        .env(summary::CountersFile::VARIABLE, counters.path());
    if let Some(nic) = &options.nic {
        let nic = std::path::absolute(nic).with_context(|| format!("{}", nic.display()))?;
        crate::waiting::check_nic(&nic)?;
        command.env(NIC_VARIABLE, nic);
    }
    if options.zerocopy {
        command.env(ZEROCOPY_VARIABLE, "1");
    }
    let child = command
        .spawn()
        .with_context(|| format!("{name} can't be run"))?;
    let status = stay::until_end(child)?;
    if !options.quiet {
        let text = summary::text(&name, &counters.read()?);
        let mut stderr = std::io::stderr().lock();
        // What it told last may have no end of line.
        let begin = if stderr.is_terminal() { "\n" } else { "" };
        let _ = write!(stderr, "{begin}{text}");
    }
    Ok(stay::exit_code(status))
}
