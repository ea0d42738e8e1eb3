//! `longshore serve`: a directory over HTTPS.

mod client;
mod counters;
mod files;
mod http1;
mod http2;
mod options;
mod outgoing;
mod respond;
mod secrets;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use counters::ServeCounters;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use host::TlsRole;

use crate::access_log::AccessLog;
use crate::attach::{Attached, Wire, attach_shards};
use crate::background::announce as announce_line;
use crate::cli::Command;
use crate::config;
use crate::control::{Answer, Request};
use crate::cores::Cores;
use crate::matching::{Matcher, Rule};
use crate::min_rate::MinRate;
use crate::read_again::{directories, expect_regular};
use crate::sandbox::Files;
use crate::service::{Application, Service};
use crate::shards::{Shard, Threads};
use crate::signals::Signals;
use crate::store::Store;
use crate::succession::{Claim, Drains, HandsOver, Shards};

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
    let store = open_store(options)?;
    let secrets = Secrets::read(options)?;
    let read_again = directories(files_read_again(options))?;
    let file = options.patterns.as_deref();
    let rule = file
        .map(|file| Rule::read(file, options.match_action))
        .transpose()?;
    let cores = options.cores.clone().unwrap_or_default();
    cores.check()?;
    let claim = Claim::of("serve", &options.wire, &cores);
    let control = options.control.as_deref();
    let mut candidate = options.take_over.begin(claim, control, &options.account)?;
    let access_log = AccessLog::open(&options.access_log)?;
    let count = options.cores.as_ref().map(Cores::count);
    readiness.set_watchdog(candidate.watchdog());
    let tickets = Arc::clone(&candidate.tickets);
    let inheritance = candidate.inheritance();
    let all = attach_shards(&options.wire, &options.connections, count, inheritance)?;
    let parts = Parts {
        options,
        tls: secrets.role(options, all[0].key_log.clone(), &tickets)?,
        rule,
        access_log: access_log.as_ref(),
        port: options.port.unwrap_or(if options.plain { 80 } else { 443 }),
    };
    let mut shards = parts.shards(&store, all)?;
    let (server, mut attached) = shards.remove(0);
    announce(options, &attached, parts.port);
    let read_again: Vec<_> = read_again.iter().map(AsFd::as_fd).collect();
    options.account.enter(Files {
        read: Some(store.directory()),
        read_again: &read_again,
        remove: candidate.control_directory(),
    })?;
    // What was given up just now, they lack too.
    let others = Threads::start("serve", shards, &cores, &attached.runtime.doorbell())?;
    cores.pin(0)?;
    let (shards, mut control) = candidate.commit(server, others, &mut attached)?;
    readiness.tell()?;
    let mut service = Service {
        signals: &signals,
        control: control.as_mut(),
        readiness: &mut readiness,
    };
    let mut serving = Serving {
        shards,
        secrets,
        config: options.config.path().cloned(),
    };
    service.run(&mut serving, &mut attached)?;

    drop(control);
    let stopped = serving.shards.others.stop();
    attached.runtime.shutdown(Instant::now())?;
    stopped
}

fn open_store(options: &Options) -> Result<Store> {
    Store::open(&options.root).with_context(|| {
        format!(
            "the directory {} can't be served; give --root a directory that you may read",
            options.root.display()
        )
    })
}

/// What the servers of all cores are made of.
struct Parts<'a> {
    options: &'a Options,
    tls: Option<TlsRole>,
    rule: Option<Rule>,
    access_log: Option<&'a AccessLog>,
    port: u16,
}

impl Parts<'_> {
    /// A server on each stack.
    fn shards(&self, store: &Store, all: Vec<Attached>) -> Result<Vec<(Sweeping, Attached)>> {
        let shards = all.into_iter().map(|mut attached| {
            let server = self.server(store.try_clone()?, &mut attached)?;
            Ok((Sweeping::new(server), attached))
        });
        shards.collect()
    }

    /// A server on a stack, which listens.
    fn server(&self, store: Store, attached: &mut Attached) -> Result<Server> {
        let options = self.options;
        // A NIC of our own dies with us.
        let way = match options.wire.nic.is_none() || options.plain || options.zerocopy {
            true => FileSource::InPlace,
            false => FileSource::Copied,
        };
        let offload = options.wire.offload.into();
        let stack = attached.runtime.stack();
        let rule = self.rule.clone();
        let rules = Rules {
            matcher: rule.map(|rule| Matcher::new(rule, stack, offload)),
            min_rate: min_rate(options),
            send_timeout: send_timeout(options),
        };
        stack.set_default_user_timeout(send_timeout(options));
        let mut server = Server::new(store, self.tls.clone(), offload, way, rules);
        if let Some(log) = self.access_log {
            server.set_access_log(log.another());
        }
        listen(&mut server, attached, &options.wire, self.port)?;
        Ok(server)
    }
}

/// Options that are followed anew at a reload; others need a restart.
const RELOADED: [&str; 5] = ["--cert", "--key", "--psk", "--min-rate", "--send-timeout"];

/// A server, and when its sessions were looked at last.
struct Sweeping {
    server: Server,
    swept: Instant,
}

impl Sweeping {
    fn new(server: Server) -> Sweeping {
        let swept = Instant::now();
        Sweeping { server, swept }
    }
}

impl Shard for Sweeping {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool> {
        let stack = attached.runtime.stack();
        let progress = self.server.poll(now, stack);
        if now.duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.server.sweep(now, stack);
        }
        Ok(progress)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let sweep = self.server.is_busy().then(|| self.swept + SWEEP);
        let deadlines = [sweep, self.server.poll_timeout()];
        deadlines.into_iter().flatten().min()
    }
}

impl Drains for Sweeping {
    fn drain(&mut self, now: Instant, attached: &mut Attached, drains: bool) {
        self.server.drain(now, attached.runtime.stack(), drains);
    }

    fn abort_all(&mut self, now: Instant, attached: &mut Attached) {
        self.server.abort_all(now, attached.runtime.stack());
    }
}

/// The servers of this thread and of others, and what they prove themselves with.
struct Serving {
    shards: Shards<Sweeping>,
    secrets: Secrets,
    /// The file of its options.
    config: Option<PathBuf>,
}

impl Application for Serving {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool> {
        self.shards.others.check()?;
        self.shards.own.poll(now, attached)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.shards.own.poll_timeout()
    }

    fn answer(&mut self, _now: Instant, request: Request, attached: &mut Attached) -> Answer {
        let answer = move |sweeping: &mut Sweeping, attached: &mut Attached| {
            sweeping.server.answer(request.clone(), attached)
        };
        self.shards.answer(attached, answer)
    }

    fn others_go_on(&mut self) -> bool {
        self.shards.others.go_on()
    }

    fn other_sockets(&self) -> u32 {
        self.shards.others.sockets()
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
        // That all can follow, before anything changes.
        self.shards.others.with_each(|_, _| ())?;
        self.secrets.reload(&options)?;
        let (min_rate, limit) = (min_rate(&options), send_timeout(&options));
        let follow = move |server: &mut Sweeping, attached: &mut Attached| {
            server.server.set_limits(min_rate, limit);
            let stack = attached.runtime.stack();
            stack.set_default_user_timeout(limit);
        };
        follow(&mut self.shards.own, attached);
        if let Err(error) = self.shards.others.with_each(follow) {
            tracing::warn!("{error:#}: it follows the reload later");
        }
        changed.retain(|option| !RELOADED.contains(&option.as_str()));
        Ok(changed)
    }

    fn hands_over(&mut self) -> Option<&mut dyn HandsOver> {
        Some(&mut self.shards)
    }

    fn stop(&mut self, _now: Instant, attached: &mut Attached) {
        self.shards.end();
        let leave = |server: &mut Sweeping, attached: &mut Attached| {
            let stack = attached.runtime.stack();
            server.server.leave(Instant::now(), stack);
        };
        leave(&mut self.shards.own, attached);
        // A thread that has ended is found at the next poll.
        let _ = self.shards.others.with_each(leave);
    }
}

/// The files that a reload reads.
fn files_read_again(options: &Options) -> impl Iterator<Item = &PathBuf> {
    let one = [options.config.path(), options.psk.as_ref()];
    let one = one.into_iter().flatten();
    one.chain(options.certificates.files())
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
    if options.certificates.is_empty() && options.psk.is_none() && !options.plain {
        announce_line(format_args!(
            "the certificate is self-signed: curl needs --insecure"
        ));
    }
}
