//! `longshore serve`: a directory over HTTPS.

mod counters;
mod files;
mod options;
mod outgoing;
mod secrets;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use counters::ServeCounters;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::access_log::AccessLog;
use crate::attach::{Attached, Wire, attach};
use crate::background::announce as announce_line;
use crate::cli::Command;
use crate::config;
use crate::control::{self, Answer, Request};
use crate::matching::{Matcher, Rule};
use crate::min_rate::MinRate;
use crate::read_again::{directories, expect_regular};
use crate::sandbox::Files;
use crate::service::{Application, Service};
use crate::signals::Signals;
use crate::store::Store;

pub use options::{EXAMPLES, Options};

use files::FileSource;
use secrets::Secrets;
use server::{Rules, Server};

/// How often sessions are looked at for those that take too long.
const SWEEP: Duration = Duration::from_secs(1);

/// Serves until it is told to end.
///
/// # Errors
/// When something is missing to begin with, or the interface goes away.
pub fn run(options: &Options) -> Result<()> {
    let mut readiness = options.background.begin()?;
    let signals = Signals::block()?;
    let store = Store::open(&options.root).with_context(|| {
        format!(
            "the directory {} can't be served; give --root a directory that you may read",
            options.root.display()
        )
    })?;
    let secrets = Secrets::read(options)?;
    let read_again = directories(files_read_again(options))?;
    let file = options.patterns.as_deref();
    let rule = file
        .map(|file| Rule::read(file, options.match_action))
        .transpose()?;
    let mut control = options
        .control
        .as_deref()
        .map(control::Server::bind)
        .transpose()?;
    let access_log = AccessLog::open(&options.access_log)?;
    let mut attached = attach(&options.wire, &options.connections)?;
    let tls = secrets.role(attached.key_log.clone())?;

    // A NIC of our own dies with us.
    let way = match options.wire.nic.is_none() || options.plain || options.zerocopy {
        true => FileSource::InPlace,
        false => FileSource::Copied,
    };
    let offload = options.wire.offload.into();
    let matcher = rule.map(|rule| Matcher::new(rule, attached.runtime.stack(), offload));
    let rules = Rules {
        matcher,
        min_rate: min_rate(options),
    };
    let mut server = Server::new(store, tls, offload, way, rules);
    if let Some(log) = access_log {
        server.set_access_log(log);
    }
    let port = options.port.unwrap_or(if options.plain { 80 } else { 443 });
    let stack = attached.runtime.stack();
    stack.set_default_user_timeout(send_timeout(options));
    listen(&mut server, &mut attached, &options.wire, port)?;
    announce(options, &attached, port);
    let read_again: Vec<_> = read_again.iter().map(AsFd::as_fd).collect();
    options.account.enter(Files {
        read: Some(server.directory()),
        read_again: &read_again,
        remove: control.as_ref().map(control::Server::directory),
    })?;
    readiness.tell()?;
    let mut service = Service {
        signals: &signals,
        control: control.as_mut(),
        readiness: &mut readiness,
    };
    let swept = Instant::now();
    let mut serving = Serving {
        server,
        secrets,
        config: options.config.path().cloned(),
        swept,
    };
    service.run(&mut serving, &mut attached)?;

    drop(control);
    attached.runtime.shutdown(Instant::now())?;
    Ok(())
}

/// Options that are followed anew at a reload; others need a restart.
const RELOADED: [&str; 5] = ["--cert", "--key", "--psk", "--min-rate", "--send-timeout"];

/// The server, what it proves itself with, and when its sessions were looked at last.
struct Serving {
    server: Server,
    secrets: Secrets,
    /// The file of its options.
    config: Option<PathBuf>,
    swept: Instant,
}

impl Application for Serving {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> bool {
        let stack = attached.runtime.stack();
        let progress = self.server.poll(now, stack);
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.server.sweep(now, stack);
        }
        progress
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let sweep = self.server.is_busy().then(|| self.swept + SWEEP);
        let deadlines = [sweep, self.server.poll_timeout()];
        deadlines.into_iter().flatten().min()
    }

    fn answer(&mut self, _now: Instant, request: Request, attached: &mut Attached) -> Answer {
        self.server.answer(request, attached)
    }

    fn reload(&mut self, _now: Instant, attached: &mut Attached) -> Result<Vec<String>> {
        if let Some(file) = &self.config {
            expect_regular(file)?;
        }
        let (cli, mut changed) = config::read_again().map_err(|error| anyhow!("{error}"))?;
        let Command::Serve(options) = cli.command else {
            bail!("the command line is no longer that of a server");
        };
        files_read_again(&options).try_for_each(|file| expect_regular(file))?;
        self.secrets.reload(&options)?;
        self.server.set_min_rate(min_rate(&options));
        attached
            .runtime
            .stack()
            .set_default_user_timeout(send_timeout(&options));
        changed.retain(|option| !RELOADED.contains(&option.as_str()));
        Ok(changed)
    }
}

/// The files that a reload reads.
fn files_read_again(options: &Options) -> impl Iterator<Item = &PathBuf> {
    let one = [options.config.path(), options.psk.as_ref()];
    let one = one.into_iter().flatten();
    one.chain(&options.cert).chain(&options.key)
}

fn min_rate(options: &Options) -> MinRate {
    MinRate {
        rate: options.min_rate,
        window: MinRate::WINDOW,
    }
}

/// How long a client may take nothing, if there is a limit.
fn send_timeout(options: &Options) -> Option<Duration> {
    let limit = Duration::from_secs(options.send_timeout.into());
    (!limit.is_zero()).then_some(limit)
}

/// Listens on every address that was given.
fn listen(server: &mut Server, attached: &mut Attached, wire: &Wire, port: u16) -> Result<()> {
    for cidr in &wire.addresses {
        let address = SocketAddr::new(cidr.address, port);
        server
            .listen(attached.runtime.stack(), address)
            .with_context(|| format!("can't listen on {address}"))?;
    }
    Ok(())
}

/// Says where it serves, and what is missing on the Linux side to reach it.
fn announce(options: &Options, attached: &Attached, port: u16) {
    let (scheme, usual) = if options.plain {
        ("http", 80)
    } else {
        ("https", 443)
    };
    for cidr in &options.wire.addresses {
        let host = match cidr.address {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let suffix = if port == usual {
            String::new()
        } else {
            format!(":{port}")
        };
        announce_line(format_args!(
            "serving {} at {scheme}://{host}{suffix}/",
            options.root.display()
        ));
    }
    attached.announce_neighbours();
    if options.cert.is_empty() && options.psk.is_none() && !options.plain {
        announce_line(format_args!(
            "the certificate is self-signed: curl needs --insecure"
        ));
    }
}
