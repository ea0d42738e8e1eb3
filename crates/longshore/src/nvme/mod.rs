//! `longshore nvme`: NVMe/TCP on our stack, as a host and as a target; as a host also on Linux's TCP.

mod attach;
mod bench;
mod check;
mod copy;
mod discover;
mod driver;
mod identity;
mod initiator;
mod nbd;
mod nqn;
mod options;
mod pipeline;
mod target;
mod transport;

use anyhow::Result;

pub use options::Command;
pub use target::TargetCounters;

/// Does what was asked.
///
/// # Errors
/// When it can't be done: the message says why, and what can be done.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Target(options) => target::run(options),
        Command::Discover(options) => discover::run(options),
        Command::ConnectCheck(options) => check::run(options),
        Command::Read(options) => copy::read(options),
        Command::Write(options) => copy::write(options),
        Command::Bench(options) => bench::run(options),
        Command::Attach(options) => attach::run(options),
    }
}
