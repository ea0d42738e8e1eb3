//! `longshore lb`: a load balancer of layer 7 on our stack.

mod balance;
mod balancer;
mod checker;
mod control;
pub(crate) mod counters;
mod deadlines;
mod events;
mod fault;
mod health;
mod http;
mod http2;
mod inbox;
mod keys;
mod leg;
mod parts;
mod pool;
mod proxy_protocol;
mod queue;
mod relay;
mod route;
mod secured;
mod server;
mod session;
mod sessions;
mod shard;
#[cfg(test)]
mod tests;
mod tls;
mod unspliced;

pub mod config;
pub mod options;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use handshake::Certificates;

pub use balancer::{Balancer, Means};
pub use checker::Checks;
pub use options::Options;

use crate::access_log::AccessLog;
use crate::attach::{Attached, attach_shards};
use crate::control::{Answer, Request, ask};
use crate::cores::Cores;
use crate::read_again::directories;
use crate::sandbox::Files;
use crate::service::Service;
use crate::shards::Threads;
use crate::signals::Signals;
use crate::succession::{Candidate, Claim};
use config::Config;
use options::{Command, Run, Target};
use shard::{All, Balancing};
use tls::Tls;

/// Runs a load balancer, or asks one that runs for something.
///
/// # Errors
/// When the configuration is wrong, something is missing to begin with, or the interface goes away.
pub fn run(options: &Options) -> Result<()> {
    match options {
        Options::Run(run) => balance(run),
        Options::Ask(Command::Drain(target)) => drain(target, true),
        Options::Ask(Command::Resume(target)) => drain(target, false),
    }
}

fn drain(target: &Target, drains: bool) -> Result<()> {
    let request = Request::Drain {
        pool: target.pool.clone(),
        backend: target.backend,
        drains,
    };
    match ask(&target.socket, request)? {
        Answer::Done => Ok(()),
        _ => bail!(
            "unexpected answer from {}; is it the socket of a `longshore lb`?",
            target.socket.display()
        ),
    }
}

fn balance(run: &Run) -> Result<()> {
    let cores = run.cores.clone().unwrap_or_default();
    cores.check()?;
    let mut config = read_config(run, cores.count())?;
    let certificates = (!run.certificates.is_empty())
        .then(|| run.certificates.read())
        .transpose()?;
    let read_again = config.files().chain([&run.config]);
    let read_again = directories(read_again.chain(run.certificates.files()))?;
    let mut readiness = run.background.begin()?;
    let signals = Signals::block()?;
    let claim = Claim::of("lb", &run.wire, &cores);
    let control = run.control.as_deref();
    let mut candidate = run.take_over.begin(claim, control, &run.account)?;
    readiness.set_watchdog(candidate.watchdog());
    let mut shards = start(run, &mut config, certificates.as_ref(), &mut candidate)?;
    let (own, mut attached) = shards.remove(0);
    let read_again: Vec<_> = read_again.iter().map(AsFd::as_fd).collect();
    run.account.enter(Files {
        read: None,
        read_again: &read_again,
        remove: candidate.control_directory(),
    })?;
    // What was given up just now, they lack too.
    let others = Threads::start("lb", shards, &cores, &attached.runtime.doorbell())?;
    cores.pin(0)?;
    let (shards, mut control) = candidate.commit(own, others, &mut attached)?;
    readiness.tell()?;
    let mut service = Service {
        signals: &signals,
        control: control.as_mut(),
        readiness: &mut readiness,
    };
    let mut balancing = All {
        shards,
        certificates,
        config: run.config.clone(),
    };
    service.run(&mut balancing, &mut attached)?;
    balancing.shards.end();
    drop(control);
    let stopped = balancing.shards.others.stop();
    attached.runtime.shutdown(Instant::now())?;
    stopped
}

/// The settings, as far as options do not contradict them.
fn read_config(run: &Run, cores: u16) -> Result<Config> {
    let config = Config::read(&run.config)?;
    config.check_addresses(|ip| run.wire.has(ip))?;
    config.check_tls(!run.certificates.is_empty())?;
    config.check_shares(cores)?;
    Ok(config)
}

/// A load balancer for each core on a stack of its own, of which the first makes the health checks.
fn start(
    run: &Run,
    config: &mut Config,
    certificates: Option<&Arc<Certificates>>,
    candidate: &mut Candidate,
) -> Result<Vec<(Balancing, Attached)>> {
    let access_log = AccessLog::open(&run.access_log)?;
    let count = run.cores.as_ref().map(Cores::count);
    let inheritance = candidate.inheritance();
    let stacks = attach_shards(&run.wire, &run.connections, count, inheritance)?;
    announce(config, &stacks[0]);
    let key_log = &stacks[0].key_log;
    let tickets = &candidate.tickets;
    let tls = certificates.map(|it| Tls::new(it, key_log.clone(), tickets));
    let means = Means {
        can_splice: run.connections.accel.splice,
        offload: run.wire.offload.into(),
        tls: tls.transpose()?,
        checks: Checks::Own,
    };
    if let Some(sink) = key_log {
        config.log_keys(sink)?;
    }
    start_on(config, stacks, &means, access_log.as_ref())
}

fn start_on(
    config: &Config,
    stacks: Vec<Attached>,
    means: &Means,
    access_log: Option<&AccessLog>,
) -> Result<Vec<(Balancing, Attached)>> {
    let count = stacks.len() as u16;
    let mut started = Vec::new();
    for (nth, mut attached) in (0..).zip(stacks) {
        let means = Means {
            checks: Checks::of(nth, count),
            ..means.clone()
        };
        let stack = attached.runtime.stack();
        let mut balancer = Balancer::start(Instant::now(), config.share(nth, count), stack, means)?;
        if let Some(log) = access_log {
            balancer.set_access_log(log.another());
        }
        started.push((Balancing::new(balancer, nth, count), attached));
    }
    Ok(started)
}

/// Prints where it listens, and the command that lets Linux reach it.
fn announce(config: &Config, attached: &Attached) {
    for frontend in &config.frontends {
        let listens = frontend.listen.iter().map(SocketAddr::to_string);
        let listens = listens.collect::<Vec<_>>().join(" and ");
        crate::background::announce(format_args!(
            "frontend {} listens on {listens}",
            frontend.name
        ));
    }
    attached.announce_neighbours();
}
