//! `longshore nvme target`: namespaces for hosts.

mod memory;
mod namespaces;
mod options;
mod report;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use handshake::nvme_psk::{Derivation, Keys};
use handshake::{KeyLogSink, PskServerConfig};
use host::nvme::store::{Method, Stores};
use host::nvme::target::{self as glue, Options as GlueOptions};
use l5p::nvme::target::{Config, Limits, Portal, Subsystem};
use wire::nvme::Nqn;

use crate::attach::{Attached, attach};
use crate::control::{self, Answer, Request};
use crate::nvme::driver::nvme_offload;
use crate::sandbox::Files;
use crate::secret_file;
use crate::service::{Application, Service};
use crate::signals::Signals;

pub use options::{EXAMPLES, Target};
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
    let mut readiness = options.background.begin()?;
    let signals = Signals::block()?;
    let mut control = options
        .control
        .as_deref()
        .map(control::Server::bind)
        .transpose()?;
    let mut attached = attach(&options.wire, &options.connections)?;
    let method = match options.threads {
        true => Method::Threads,
        false => Method::Auto,
    };
    let mut stores = Stores::new(&attached.runtime.doorbell(), method);
    let subsystems = namespaces::open(options, &mut stores)?;
    let names: Vec<_> = subsystems.iter().map(|subsystem| subsystem.nqn).collect();
    let tls = keys.map(|keys| server_config(keys, options, names, attached.key_log.clone()));
    let config = config(options, subsystems);
    let announcement = announcement(options, &config, &stores) + &attached.neighbours();
    let glue_options = GlueOptions {
        offload: nvme_offload(options.wire.offload.into()),
        tls: tls.transpose()?,
        tls_offload: options.wire.offload.into(),
        memory: options.data_memory,
        map_threshold: options.map_threshold,
    };
    let now = Instant::now();
    let stack = attached.runtime.stack();
    let mut target = glue::Target::new(now, stack, config, glue_options, stores)?;
    for cidr in &options.wire.addresses {
        let discovery = Some(options.discovery).filter(|port| ![0, options.port].contains(port));
        for port in std::iter::once(options.port).chain(discovery) {
            let address = SocketAddr::new(cidr.address, port);
            target
                .listen(attached.runtime.stack(), address)
                .with_context(|| format!("can't listen on {address}"))?;
        }
    }
    options.account.enter(Files {
        read: None,
        read_again: &[],
        remove: control.as_ref().map(control::Server::directory),
    })?;
    crate::background::announce(format_args!("{}", announcement.trim_end()));
    readiness.tell()?;
    let mut service = Service {
        signals: &signals,
        control: control.as_mut(),
        readiness: &mut readiness,
    };
    let refreshed = Instant::now();
    let mut serving = Serving { target, refreshed };
    service.run(&mut serving, &mut attached)?;
    drain(&mut serving, &mut attached)?;

    drop(control);
    attached.runtime.shutdown(Instant::now())?;
    Ok(())
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

fn config(options: &Target, subsystems: Vec<Subsystem>) -> Config {
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
            ..Limits::default()
        },
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The target, and when its files were looked at last.
struct Serving {
    target: glue::Target,
    refreshed: Instant,
}

impl Application for Serving {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool> {
        let stack = attached.runtime.stack();
        let mut progress = false;
        while let Some(event) = stack.poll_event() {
            progress = true;
            self.target.handle_event(now, stack, &event);
        }
        if now.duration_since(self.refreshed) >= REFRESH {
            self.refreshed = now;
            self.target.refresh();
        }
        Ok(progress | self.target.poll(now, stack))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let refresh = self.refreshed + REFRESH;
        Some(
            self.target
                .poll_timeout()
                .map_or(refresh, |at| at.min(refresh)),
        )
    }

    fn answer(&mut self, _now: Instant, request: Request, attached: &mut Attached) -> Answer {
        report::answer(request, &mut self.target, attached)
    }
}

/// Finishes what hosts wait for, closes their connections, and makes durable what was written.
fn drain(serving: &mut Serving, attached: &mut Attached) -> Result<()> {
    serving.target.close_listeners(attached.runtime.stack());
    run_until(serving, attached, |target, _| target.is_idle())?;
    serving
        .target
        .close_all(Instant::now(), attached.runtime.stack());
    run_until(serving, attached, |target, attached| {
        target.is_idle() && attached.runtime.stack().sockets().next().is_none()
    })?;
    let synced = serving.target.sync();
    synced.context("what was written last is not all durable")
}

fn run_until(
    serving: &mut Serving,
    attached: &mut Attached,
    done: impl Fn(&glue::Target, &mut Attached) -> bool,
) -> Result<()> {
    let end = Instant::now() + DRAIN;
    loop {
        let now = Instant::now();
        let mut progress = attached.runtime.poll(now)?;
        progress |= serving.poll(now, attached)?;
        if done(&serving.target, attached) || now >= end {
            return Ok(());
        }
        if !progress {
            let deadline = serving.poll_timeout().map_or(end, |at| at.min(end));
            attached.runtime.wait(now, Some(deadline), &[])?;
        }
    }
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
