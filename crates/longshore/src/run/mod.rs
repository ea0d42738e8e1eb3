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
  # nginx, with `ssl_conf_command Options KTLS;` in its configuration
  longshore run -- nginx -g 'daemon off;'

  # the NIC of `longshore nic --control /run/nic.sock` makes its records, without copying files
  longshore run --nic /run/nic.sock --zerocopy -- nginx -g 'daemon off;'

  openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=localhost
  longshore run -- openssl s_server -ktls -accept 4433 -cert cert.pem -key key.pem -WWW

At the end a summary goes to standard error, and the program's exit code is passed on.";

/// The environment variables by which the library is told of the NIC.
pub const NIC_VARIABLE: &str = "LONGSHORE_NIC";
pub const ZEROCOPY_VARIABLE: &str = "LONGSHORE_NIC_ZEROCOPY";

/// Heading of the help.
const NIC: &str = "NIC";

/// `longshore run`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Library to preload [default: libktls.so beside this program, or in ../lib/longshore]
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Let the NIC with this control socket make and open the TLS records of connections through it
    #[arg(long, value_name = "SOCKET", help_heading = NIC)]
    pub nic: Option<PathBuf>,
    /// Send files from the page cache without copying them; they must not change until the peer has
    /// them
    #[arg(long, requires = "nic", help_heading = NIC)]
    pub zerocopy: bool,
    /// Print no summary at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Program to run, with its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Runs the program to its end.
pub fn run(options: &Options) -> Result<ExitCode> {
    let library = match &options.library {
        Some(path) => library::check(path)?,
        None => library::find()?,
    };
    let counters = summary::CountersFile::create()
        .context("can't make a file for the counters in the temporary directory")?;
    let name = options.program[0].to_string_lossy();
    let mut command = Command::new(&options.program[0]);
    command
        .args(&options.program[1..])
        .env("LD_PRELOAD", library::preload(&library)?)
        .env(summary::CountersFile::VARIABLE, counters.path());
    if let Some(nic) = &options.nic {
        let nic = std::path::absolute(nic).with_context(|| format!("{}", nic.display()))?;
        crate::waiting::check_nic(&nic)?;
        command.env(NIC_VARIABLE, nic);
    }
    if options.zerocopy {
        command.env(ZEROCOPY_VARIABLE, "1");
    }
    stay::adopt();
    let child = command
        .spawn()
        .with_context(|| format!("can't run {name}"))?;
    let status = stay::until_end(child)?;
    if !options.quiet {
        let goes_on = stay::goes_on();
        let text = summary::text(&name, &counters.read()?, goes_on);
        let mut stderr = std::io::stderr().lock();
        // What it told last may have no end of line.
        let begin = if stderr.is_terminal() { "\n" } else { "" };
        let _ = write!(stderr, "{begin}{text}");
    }
    Ok(stay::exit_code(status))
}
