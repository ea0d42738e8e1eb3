//! `longshore stat`, `ss`, `restore` and `reload`.

use anyhow::{Result, bail};

use super::options::{Reload, Restore, Ss, Stat};
use super::{Answer, Request, Service, ask, print};
use crate::metrics::{Scrape, exposition};
use crate::printing::put;

/// Shows counters, or explains them.
///
/// # Errors
/// The service does not answer, or refuses.
pub fn stat(options: &Stat) -> Result<()> {
    let Some(socket) = &options.socket else {
        put(match options.markdown {
            true => print::glossary_markdown(),
            false => print::glossary(),
        });
        return Ok(());
    };
    let Answer::Stat(groups) = ask(socket, Request::Stat)? else {
        bail!("the service gave an unexpected answer; it may be of another version");
    };
    if options.openmetrics {
        let scrape = Scrape {
            service: Service::of(socket.clone()).name,
            groups: Some(groups),
        };
        put(exposition(&[scrape])?);
        return Ok(());
    }
    let text = match (options.json, options.explain) {
        (true, _) => print::counters_json(&groups)? + "\n",
        (false, true) => print::explained(&groups, options.all),
        (false, false) => print::counters(&groups, options.all),
    };
    put(text);
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
    let text = match options.json {
        true => serde_json::to_string_pretty(&sockets)? + "\n",
        false => print::sockets(&sockets),
    };
    put(text);
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
        (1, _) => outln!("returning 1 connection to the host"),
        (count, _) => outln!("returning {count} connections to the host"),
    }
    Ok(())
}

/// Has a service read its files again.
///
/// # Errors
/// The service does not answer, or a file is wrong.
pub fn reload(options: &Reload) -> Result<()> {
    let Answer::Reloaded { restart } = ask(&options.socket, Request::Reload)? else {
        bail!("the service gave an unexpected answer; it may be of another version");
    };
    outln!("{}", reloaded(&restart));
    Ok(())
}

/// What a reload has come to, when changes of these options need a restart.
pub fn reloaded(restart: &[String]) -> String {
    match restart {
        [] => "reloaded".to_owned(),
        restart => format!(
            "reloaded; changes of these options need a restart: {}",
            restart.join(", ")
        ),
    }
}
