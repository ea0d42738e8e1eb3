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
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};

use crate::background::{Background, announce};
use crate::config::ConfigFile;
use crate::control::{Answer, Client, Request, Service};
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
    #[arg(required = true, value_name = "[NAME=]SOCKET", value_parser = Service::parse)]
    pub services: Vec<Service>,
    /// Where scrapers connect
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9477")]
    pub listen: SocketAddr,
    /// The file of options that are not on the command line.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Whether it goes on in the background.
    #[command(flatten)]
    pub background: Background,
}

/// Asks a service for its counters. One that does not answer is told of as down.
fn scrape(service: &Service) -> Scrape {
    let answer = Client::connect(&service.socket).and_then(|mut it| it.ask(&Request::Stat));
    let groups = match answer {
        Ok(Answer::Stat(groups)) => Some(groups),
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(service = service.name, "no counters: {error:#}");
            None
        }
    };
    Scrape {
        service: service.name.clone(),
        groups,
    }
}

/// Answers scrapers until it is told to end.
///
/// # Errors
/// Two services have one name, or nothing can listen at the address.
pub fn run(options: &Options) -> Result<()> {
    Service::check_names(&options.services)?;
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
    let server = http::Server::new(move || exposition(&Service::each(&services, scrape)));
    while !signals.received() {
        let mut fds = [signals.as_fd(), listener.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        poll(&mut fds, None).context("poll")?;
        server.accept(&listener);
    }
    Ok(())
}
