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
mod inbox;
mod keys;
mod leg;
mod parts;
mod pool;
mod proxy_protocol;
mod queue;
mod relay;
mod route;
mod server;
mod session;
mod sessions;
#[cfg(test)]
mod tests;
mod tls;
mod unspliced;

pub mod config;
pub mod options;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use handshake::Certificates;

pub use balancer::{Balancer, Means};
pub use options::Options;

use crate::access_log::AccessLog;
use crate::attach::{Attached, attach};
use crate::cli::Command as Main;
use crate::control::{Answer, Request, Server as ControlServer, ask};
use crate::read_again::{directories, expect_regular};
use crate::sandbox::Files;
use crate::service::{Application, Ended, Service};
use crate::signals::{Signal, Signals};
use config::Config;
use options::{Command, Run, Target};
use tls::Tls;

/// How often the NIC is asked at the end whether it has finished.
const FINISHED: Duration = Duration::from_millis(10);

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
    let config = Config::read(&run.config)?;
    config.check_addresses(|ip| run.wire.has(ip))?;
    config.check_tls(!run.certificates.is_empty())?;
    let certificates = (!run.certificates.is_empty())
        .then(|| run.certificates.read())
        .transpose()?;
    let read_again = config.files().chain([&run.config]);
    let read_again = directories(read_again.chain(run.certificates.files()))?;
    let mut readiness = run.background.begin()?;
    let signals = Signals::block()?;
    let mut control = run
        .control
        .as_deref()
        .map(ControlServer::bind)
        .transpose()?;
    let access_log = AccessLog::open(&run.access_log)?;
    let mut attached = attach(&run.wire, &run.connections)?;
    announce(&config, &attached);
    let tls = certificates.as_ref();
    let tls = tls.map(|certificates| Tls::new(certificates, attached.key_log.clone()));
    let means = Means {
        can_splice: run.connections.accel.splice,
        offload: run.wire.offload.into(),
        tls: tls.transpose()?,
    };
    let stack = attached.runtime.stack();
    let mut balancer = Balancer::start(Instant::now(), config, stack, means)?;
    if let Some(log) = access_log {
        balancer.set_access_log(log);
    }
    let read_again: Vec<_> = read_again.iter().map(AsFd::as_fd).collect();
    run.account.enter(Files {
        read: None,
        read_again: &read_again,
        remove: control.as_ref().map(ControlServer::directory),
    })?;
    readiness.tell()?;
    let mut service = Service {
        signals: &signals,
        control: control.as_mut(),
        readiness: &mut readiness,
    };
    let mut balancing = Balancing {
        balancer,
        certificates,
        config: run.config.clone(),
    };
    let ended = service.run(&mut balancing, &mut attached)?;
    drop(control);
    if ended == Ended::InOrder {
        finish(&balancing.balancer, &mut attached, &signals)?;
    }
    attached.runtime.shutdown(Instant::now())?;
    Ok(())
}

/// The load balancer, what it proves itself with, and the file of its settings and options.
struct Balancing {
    balancer: Balancer,
    certificates: Option<Arc<Certificates>>,
    config: PathBuf,
}

impl Application for Balancing {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool> {
        Ok(self.balancer.poll(now, attached.runtime.stack()))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.balancer.poll_timeout()
    }

    fn answer(&mut self, now: Instant, request: Request, attached: &mut Attached) -> Answer {
        control::answer(now, &mut self.balancer, attached, request)
    }

    fn reload(&mut self, now: Instant, attached: &mut Attached) -> Result<Vec<String>> {
        if self.balancer.ends().is_some() {
            bail!("the load balancer is about to end");
        }
        expect_regular(&self.config)?;
        let (cli, mut restart) = crate::config::read_again().map_err(|error| anyhow!("{error}"))?;
        let Main::Lb(Options::Run(run)) = cli.command else {
            bail!("the command line is no longer that of a load balancer");
        };
        let config = Config::read(&self.config)?;
        config.check_addresses(|ip| run.wire.has(ip))?;
        config.check_tls(!run.certificates.is_empty())?;
        if let Some(held) = &self.certificates
            && !run.certificates.is_empty()
        {
            run.certificates
                .files()
                .try_for_each(|it| expect_regular(it))?;
            run.certificates.replace(held)?;
            restart.retain(|option| option != "--cert" && option != "--key");
        }
        let stack = attached.runtime.stack();
        restart.extend(self.balancer.reload(now, config, stack));
        Ok(restart)
    }

    fn stop(&mut self, now: Instant, attached: &mut Attached) {
        self.balancer.stop(now, attached.runtime.stack());
    }

    fn is_done(&self, now: Instant, attached: &mut Attached) -> bool {
        self.balancer.is_done(now, attached.runtime.stack())
    }
}

/// Lets the NIC send what it was given of closed connections, for as long as connections may go on after the signal, or until
/// another one.
fn finish(balancer: &Balancer, attached: &mut Attached, signals: &Signals) -> Result<()> {
    loop {
        let now = Instant::now();
        let progress = attached.runtime.poll(now)?;
        let is_late = balancer.ends().is_none_or(|ends| ends <= now);
        let is_told = signals.next() == Some(Signal::End);
        if is_late || is_told || attached.runtime.has_finished_teardowns()? {
            return Ok(());
        }
        if !progress {
            let fds = [signals.as_fd()];
            attached.runtime.wait(now, Some(now + FINISHED), &fds)?;
        }
    }
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
