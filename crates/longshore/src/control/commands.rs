//! `longshore stat`, `ss` and `restore`.

use anyhow::{Result, bail};

use super::options::{Restore, Ss, Stat};
use super::{Answer, Request, ask, print};

/// Shows counters.
///
/// # Errors
/// The service does not answer, or refuses.
pub fn stat(options: &Stat) -> Result<()> {
    let Answer::Stat(groups) = ask(&options.socket, Request::Stat)? else {
        bail!("the service gave an unexpected answer; it may be of another version");
    };
    match options.json {
        true => println!("{}", print::counters_json(&groups)?),
        false => print!("{}", print::counters(&groups, options.all)),
    }
    Ok(())
}

/// Shows sockets.
///
/// # Errors
/// The service does not answer, or refuses.
pub fn ss(options: &Ss) -> Result<()> {
    let Answer::Sockets(sockets) = ask(&options.socket, Request::Sockets)? else {
        bail!("the service gave an unexpected answer; it may be of another version");
    };
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&sockets)?),
        false => print!("{}", print::sockets(&sockets)),
    }
    Ok(())
}

/// Returns connections to the host.
///
/// # Errors
/// The service does not answer, or refuses.
pub fn restore(options: &Restore) -> Result<()> {
    let request = Request::Restore { peer: options.peer };
    let Answer::Restored(count) = ask(&options.socket, request)? else {
        bail!("the service gave an unexpected answer; it may be of another version");
    };
    match (count, options.peer) {
        (0, Some(peer)) => bail!("the NIC runs no connection with {peer}; see longshore ss"),
        (1, _) => println!("returning 1 connection to the host"),
        (count, _) => println!("returning {count} connections to the host"),
    }
    Ok(())
}
