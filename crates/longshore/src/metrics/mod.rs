//! `longshore metrics`: the counters of running services for Prometheus, in the text format of OpenMetrics 1.0.
//!
//! A process of its own asks the services by their control sockets: what listens for scrapers stays out of the processes that carry
//! traffic, and one port tells of all services of a machine.

mod exposition;
mod http;
mod names;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};

use crate::background::{Background, announce};
use crate::control::{Answer, Request, ask_now};
use crate::signals::Signals;

pub use exposition::{Scrape, exposition};

/// Examples of the command.
pub const EXAMPLES: &str = "\
Examples:
  sudo longshore metrics /run/longshore.sock
  sudo longshore metrics --listen '[::]:9477' nic=/run/longshore.sock web=/run/serve.sock
  curl http://127.0.0.1:9477/metrics";

/// `longshore metrics`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Control sockets of the services; the name becomes the label `service` [default name: the file's, without its extension]
    #[arg(required = true, value_name = "[NAME=]SOCKET", value_parser = parse_service)]
    pub services: Vec<Service>,
    /// Where scrapers connect
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9477")]
    pub listen: SocketAddr,
    /// Whether it goes on in the background.
    #[command(flatten)]
    pub background: Background,
}

/// A service to tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The label `service`.
    pub name: String,
    /// Its control socket.
    pub socket: PathBuf,
}

impl Service {
    /// One that is named after its socket: `serve` for `/run/serve.sock`.
    pub fn of(socket: PathBuf) -> Service {
        let stem = socket.file_stem().unwrap_or(socket.as_os_str());
        Service {
            name: stem.to_string_lossy().into_owned(),
            socket,
        }
    }

    /// Asks it for its counters. One that does not answer is told of as down.
    fn scrape(&self) -> Scrape {
        let groups = match ask_now(&self.socket, &Request::Stat) {
            Ok(Answer::Stat(groups)) => Some(groups),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(service = self.name, "no counters: {error:#}");
                None
            }
        };
        Scrape {
            service: self.name.clone(),
            groups,
        }
    }
}

fn parse_service(argument: &str) -> Result<Service, String> {
    let service = match argument.split_once('=') {
        Some((name, socket)) => Service {
            name: name.to_owned(),
            socket: socket.into(),
        },
        None => Service::of(argument.into()),
    };
    match service.name.is_empty() || service.socket.as_os_str().is_empty() {
        true => Err("give NAME=SOCKET, or the path of a control socket".to_owned()),
        false => Ok(service),
    }
}

/// Answers scrapers until it is told to end.
///
/// # Errors
/// Two services have one name, or nothing can listen at the address.
pub fn run(options: &Options) -> Result<()> {
    for (at, service) in options.services.iter().enumerate() {
        let is_taken = options.services[..at]
            .iter()
            .any(|other| other.name == service.name);
        ensure!(
            !is_taken,
            "two services have the name {0}; give one of them another: NAME={1}",
            service.name,
            service.socket.display()
        );
    }
    let mut readiness = options.background.begin()?;
    let signals = Signals::block()?;
    let listener = TcpListener::bind(options.listen).with_context(|| {
        format!(
            "can't listen at {}; give --listen another address",
            options.listen
        )
    })?;
    listener.set_nonblocking(true)?;
    announce(format_args!(
        "longshore: metrics at http://{}/metrics",
        listener.local_addr()?
    ));
    readiness.tell()?;

    let services: Arc<[Service]> = options.services.clone().into();
    let server = http::Server::new(move || {
        let scrapes: Vec<Scrape> = services.iter().map(Service::scrape).collect();
        exposition(&scrapes)
    });
    while !signals.received() {
        let mut fds = [signals.as_fd(), listener.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        poll(&mut fds, None).context("poll")?;
        server.accept(&listener);
    }
    Ok(())
}
