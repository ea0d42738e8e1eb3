//! `longshore nvme target`: namespaces for hosts.

mod backing;
mod memory;
mod namespaces;
mod options;
mod part;
mod report;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use handshake::nvme_psk::{Derivation, Keys};
use handshake::{KeyLogSink, PskServerConfig};
use host::nvme::store::{Method, Stores};
use host::nvme::target::{self as glue, Options as GlueOptions};
use l5p::nvme::target::{Config, Limits, Portal, Subsystem, Target as Machine};
use wire::nvme::Nqn;

use crate::attach::{Attached, Wire, attach_shards};
use crate::control::{self, Answer, Request, one_of};
use crate::cores::Cores;
use crate::nvme::driver::nvme_offload;
use crate::sandbox::Files;
use crate::secret_file;
use crate::service::{Application, Service};
use crate::shards::{Shard, Threads};
use crate::signals::Signals;

pub use options::{EXAMPLES, Target};
use part::{Part, Stage};
pub use report::TargetCounters;

/// How often files are looked at whether they have grown.
const REFRESH: Duration = Duration::from_secs(1);
/// How long commands in flight are waited for at the end, and connections after that.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves until it is told to end.
///
/// # Errors
/// When something is missing to begin with, or the interface goes away.
pub fn run(options: &Target) -> Result<()> {
    let keys = options.psk.as_deref().map(read_keys).transpose()?;
    namespaces::check(options)?;
    let cores = options.cores.clone().unwrap_or_default();
    cores.check()?;
    let mut readiness = options.background.begin()?;
    let signals = Signals::block()?;
    let mut control = options
        .control
        .as_deref()
        .map(control::Server::bind)
        .transpose()?;
    let count = options.cores.as_ref().map(Cores::count);
    let all = attach_shards(&wire_kept_alive(options), &options.connections, count, None)?;
    let mut stores = Stores::new(&all[0].runtime.doorbell(), method(options));
    let subsystems = namespaces::open(options, &mut stores)?;
    let names: Vec<_> = subsystems.iter().map(|subsystem| subsystem.nqn).collect();
    let tls = keys.map(|keys| server_config(keys, options, names, all[0].key_log.clone()));
    let config = config(options, subsystems, all.len());
    let announcement = announcement(options, &config, &stores) + &all[0].neighbours();
    let glue_options = GlueOptions {
        offload: nvme_offload(options.wire.offload.into()),
        tls: tls.transpose()?,
        tls_offload: options.wire.offload.into(),
        memory: options.data_memory / all.len() as u64,
        map_threshold: options.map_threshold,
    };
    let mut parts = parts(options, config, &glue_options, stores, all)?;
    let (own, mut attached) = parts.remove(0);
    options.account.enter(Files {
        read: None,
        read_again: &[],
        remove: control.as_ref().map(control::Server::directory),
    })?;
    // What was given up just now, they lack too.
    let bell = attached.runtime.doorbell();
    let others = Threads::start("nvme target", parts, &cores, &bell)?;
    let mut serving = Serving {
        own,
        others,
        refreshed: Instant::now(),
    };
    let served = cores.pin(0).and_then(|_| {
        crate::background::announce(format_args!("{}", announcement.trim_end()));
        readiness.tell()?;
        let mut service = Service {
            signals: &signals,
            control: control.as_mut(),
            readiness: &mut readiness,
        };
        service.run(&mut serving, &mut attached)?;
        drain(&mut serving, &mut attached)
    });
    let Serving {
        own, mut others, ..
    } = serving;
    end(served, &mut others, || own.target.end())?;

    drop(control);
    attached.runtime.shutdown(Instant::now())?;
    Ok(())
}

/// How to reach the wire. Connections of which the NIC keeps the state until they have sent something can have no keep-alive.
fn wire_kept_alive(options: &Target) -> Wire {
    match options.connections.accel.lazy_tcb {
        true => options.wire.clone(),
        false => options.wire.kept_alive(),
    }
}

/// The part of each core, which listens: they are one target, with the same files and the same memory.
fn parts(
    options: &Target,
    config: Config,
    glue_options: &GlueOptions,
    stores: Stores,
    all: Vec<Attached>,
) -> Result<Vec<(Part, Attached)>> {
    let now = Instant::now();
    let machines = Machine::several(now, config, all.len())?;
    let bells: Vec<_> = all.iter().map(|it| it.runtime.doorbell()).collect();
    let others = bells[1..]
        .iter()
        .map(|bell| stores.another(bell, method(options)));
    let others: Vec<_> = others.collect();
    let stores = std::iter::once(stores).chain(others);
    let parts = machines.into_iter().zip(stores).zip(all);
    let parts = parts.map(|((machine, stores), mut attached)| {
        let stack = attached.runtime.stack();
        let mut target = glue::Target::with(now, stack, machine, glue_options.clone(), stores)?;
        target.set_bells(bells.clone());
        listen(&mut target, &mut attached, options)?;
        Ok((Part::new(target), attached))
    });
    parts.collect()
}

fn listen(target: &mut glue::Target, attached: &mut Attached, options: &Target) -> Result<()> {
    for cidr in &options.wire.addresses {
        let discovery = Some(options.discovery).filter(|port| ![0, options.port].contains(port));
        for port in std::iter::once(options.port).chain(discovery) {
            let address = SocketAddr::new(cidr.address, port);
            target
                .listen(attached.runtime.stack(), address)
                .with_context(|| format!("can't listen on {address}"))?;
        }
    }
    Ok(())
}

fn method(options: &Target) -> Method {
    match options.threads {
        true => Method::Threads,
        false => Method::Auto,
    }
}

/// The keys of hosts.
fn read_keys(path: &Path) -> Result<Keys> {
    let text = secret_file::read(path, "--psk")?;
    let keys = text.parse::<Keys>();
    keys.with_context(|| format!("{} is not a file of PSKs; see --psk", path.display()))
}

/// What connections are accepted with: the keys for these subsystems and for discovery.
fn server_config(
    keys: Keys,
    options: &Target,
    names: Vec<Nqn>,
    key_log: Option<KeyLogSink>,
) -> Result<Arc<PskServerConfig>> {
    let derivation = match options.psk_compat {
        true => Derivation::Libnvme,
        false => Derivation::Specification,
    };
    let is_here = move |name: &Nqn| *name == Nqn::DISCOVERY || names.contains(name);
    Ok(keys.into_server_config(derivation, is_here, key_log)?)
}

fn config(options: &Target, subsystems: Vec<Subsystem>, cores: usize) -> Config {
    let addresses = options.wire.addresses.iter();
    Config {
        subsystems,
        portals: addresses
            .map(|cidr| Portal {
                address: cidr.address,
                port: options.port,
                tls: options.psk.is_some(),
            })
            .collect(),
        required_digests: options.digest.into(),
        limits: Limits {
            io_queues: options.queues,
            queue_entries: options.depth,
            connections: match options.max_queues {
                Some(queues) => usize::from(queues),
                None => usize::from(options.queues + 1) * 4 + 16,
            },
            controllers: usize::from(options.max_controllers),
            r2t: Duration::from_secs(options.r2t_time.into()),
            // One on each core at least.
            pending: Limits::default().pending.max(cores),
            ..Limits::default()
        },
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The part of this thread, those of others, and when files were looked at last: one looks for all.
struct Serving {
    own: Part,
    others: Threads<Part>,
    refreshed: Instant,
}

impl Application for Serving {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool> {
        self.others.check()?;
        if now.duration_since(self.refreshed) >= REFRESH {
            self.refreshed = now;
            self.own.target.refresh();
        }
        self.own.poll(now, attached)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let refresh = self.refreshed + REFRESH;
        let own = self.own.poll_timeout();
        Some(own.map_or(refresh, |at| at.min(refresh)))
    }

    fn answer(&mut self, _now: Instant, request: Request, attached: &mut Attached) -> Answer {
        let own = report::answer(request.clone(), &mut self.own.target, attached);
        if self.others.are_none() {
            return own;
        }
        let others = self.others.with_each(move |part, attached| {
            report::answer(request.clone(), &mut part.target, attached)
        });
        match others {
            Ok(others) => one_of(std::iter::once(own).chain(others).collect()),
            Err(error) => Answer::Error(error.to_string()),
        }
    }

    fn others_go_on(&mut self) -> bool {
        self.others.go_on()
    }

    fn other_sockets(&self) -> u32 {
        self.others.sockets()
    }
}

/// Finishes what hosts wait for, and closes their connections.
fn drain(serving: &mut Serving, attached: &mut Attached) -> Result<()> {
    for stage in [Stage::Finishing, Stage::Closing] {
        serving.own.begin(stage, attached);
        // One that is late does it late, and keeps no other from its own.
        let others = &mut serving.others;
        others.tell_each(move |part, attached| part.begin(stage, attached));
        others.run_until_done(&mut serving.own, attached, DRAIN)?;
    }
    Ok(())
}

/// Ends the other threads, and makes durable what was written, whatever the target has ended with.
fn end<S: Shard>(
    served: Result<()>,
    others: &mut Threads<S>,
    end_own: impl FnOnce() -> io::Result<()>,
) -> Result<()> {
    // Stores that are dropped have done what they had begun.
    let stopped = others.stop();
    let synced = end_own().context("what was written last is not all durable");
    let ended = served.and(stopped);
    if let (Err(_), Err(error)) = (&ended, &synced) {
        tracing::error!("{error:#}");
    }
    ended.and(synced)
}

/// What is served, and how hosts reach it.
fn announcement(options: &Target, config: &Config, stores: &Stores) -> String {
    let mut text = String::new();
    for subsystem in &config.subsystems {
        text += &format!("subsystem {}\n", subsystem.nqn);
        let specs = options.namespaces.iter();
        let mut specs = specs.filter(|spec| match spec.nqn {
            Some(nqn) => nqn == subsystem.nqn,
            None => options.nqn.is_none_or(|nqn| nqn == subsystem.nqn),
        });
        for namespace in &subsystem.namespaces {
            let info = stores.info(namespace.store);
            let backing = specs.next().map(|spec| spec.backing.to_string());
            text += &format!(
                "  namespace {}: {}, {} blocks of {} bytes{}{}\n",
                namespace.nsid,
                backing.unwrap_or_default(),
                namespace.blocks,
                1u32 << namespace.block_shift,
                if info.read_only { ", read-only" } else { "" },
                if info.direct {
                    ", past the page cache"
                } else {
                    ""
                },
            );
        }
    }
    let (port, discovery) = (options.port, options.discovery);
    for cidr in &options.wire.addresses {
        text += &format!("listening on {}", SocketAddr::new(cidr.address, port));
        if ![0, port].contains(&discovery) {
            text += &format!(", for discovery on {discovery}");
        }
        text += "\n";
    }
    let first = config.subsystems.first();
    if let (Some(cidr), Some(subsystem)) = (options.wire.addresses.first(), first) {
        let tls = if options.psk.is_some() { " --tls" } else { "" };
        let (address, nqn): (IpAddr, _) = (cidr.address, subsystem.nqn);
        text += &format!("Linux:     nvme connect -t tcp -a {address} -s {port} -n {nqn}{tls}\n");
        let at = SocketAddr::new(address, port);
        let psk = match &options.psk {
            None => " --kernel".to_owned(),
            Some(path) => format!(" --psk {}", path.display()),
        };
        text += &format!("longshore: longshore nvme connect-check {at} --nqn {nqn}{psk}\n");
    }
    text
}
