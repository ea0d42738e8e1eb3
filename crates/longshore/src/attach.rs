//! From the command line to a stack: on a TAP with port, impairments, capture, NIC and function; or on a function of a NIC in another
//! process.

mod capture;
mod interface;
mod key_log;
mod memory;
mod options;
mod tcp;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use handshake::KeyLogSink;
use host::runtime::{BuildError, Builder, Device, Runtime};
use host::{Cidr, Holder, SocketInfo};
use port::Port;
use port::impair::{Impair, Impairment, Impairments};
use port::tap::TapConfig;
use rings::ConnectError;
use rustix::process::{Resource, getrlimit, setrlimit};
use wire::ethernet::MacAddr;

use crate::control::{Answer, CounterGroup, Request, Socket};
use crate::succession::Estate;
use crate::waiting;

pub(crate) use capture::create as capture;
pub use capture::has_failed as capture_has_failed;
pub use interface::add as add_addresses;
pub use memory::available as available_memory;
pub use options::{Connections, Line, Wire};

/// A stack on the wire.
pub struct Attached {
    /// Runs it.
    pub runtime: Runtime,
    /// The TAP's name, as the system has it; none with a NIC in another process.
    pub tap: Option<String>,
    /// Its addresses.
    pub addresses: Vec<Cidr>,
    /// Where the TLS secrets go, if anywhere.
    pub key_log: Option<KeyLogSink>,
    /// What a process must have that takes this one's place, if it can.
    pub estate: Option<Estate>,
}

/// What this process has of one whose place it takes.
#[derive(Debug)]
pub struct Inheritance {
    /// What stacks and NICs have to have.
    pub estate: Estate,
    /// The queues of the TAP.
    pub queues: Vec<OwnedFd>,
}

/// Opens the TAP and puts a NIC and a stack on it, or gets a function of the NIC that runs already.
///
/// # Errors
/// When something of it can't be had; the message says what to do.
pub fn attach(wire: &Wire, connections: &Connections) -> Result<Attached> {
    match (&wire.nic, &wire.tap) {
        (Some(path), _) => attach_to_nic(wire, connections, path),
        (None, Some(tap)) => {
            let mut attached = attach_to_tap(wire, connections, (tap, 1), None)?;
            Ok(attached.swap_remove(0))
        }
        (None, None) => bail!("no interface; give --tap or --nic"),
    }
}

/// The same for the shards of a service: one, or with `--cores` so many with the same addresses, each with a queue of the TAP and on one thread with
/// its NIC. An inheritance has the queues open already; then nothing is received of them yet.
///
/// # Errors
/// As [`attach`], and for several when that is no TAP.
pub fn attach_shards(
    wire: &Wire,
    connections: &Connections,
    cores: Option<u16>,
    inheritance: Option<Inheritance>,
) -> Result<Vec<Attached>> {
    let Some(tap) = &wire.tap else {
        if cores.is_some() {
            bail!("several stacks need a TAP interface; give --tap");
        }
        return Ok(vec![attach(wire, connections)?]);
    };
    let wire = Wire {
        one_thread: wire.one_thread || cores.is_some(),
        ..wire.clone()
    };
    let count = cores.unwrap_or(1);
    attach_to_tap(&wire, connections, (tap, count), inheritance)
}

/// A stack on a function of the NIC at `path`.
fn attach_to_nic(wire: &Wire, connections: &Connections, path: &Path) -> Result<Attached> {
    allow_more_descriptors();
    let builder = builder(wire, connections)?;
    let runtime = waiting::until_served(
        path,
        || builder.clone().on_nic(path),
        |error| {
            matches!(
                error,
                BuildError::Connect(ConnectError::NoSocket(_) | ConnectError::NobodyListens(_))
            )
        },
    )?;
    let key_log = wire.keylog.as_deref().map(key_log::file).transpose()?;
    Ok(Attached {
        runtime,
        tap: None,
        addresses: wire.addresses.clone(),
        key_log,
        estate: None,
    })
}

/// A file that the NIC's process may read from costs a descriptor, for as long as it is mapped: to show it to the NIC again.
fn allow_more_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of descriptors stays");
    }
}

/// A stack on a TAP of its own, or several on a queue of it each.
fn attach_to_tap(
    wire: &Wire,
    connections: &Connections,
    (tap, count): (&str, u16),
    inheritance: Option<Inheritance>,
) -> Result<Vec<Attached>> {
    let impairment = impairment(&wire.line);
    let clean = !takes_packets_only(wire);
    // A super-frame that is lost would take 45 packets with it: an impaired wire carries packets only.
    let config = TapConfig {
        tso: clean,
        checksum: clean,
    };
    let mut builder = builder(wire, connections)?;
    let taps = match inheritance {
        None => interface::open(tap, config, count, &wire.addresses, &wire.peer_addresses)?,
        Some(Inheritance { estate, queues }) => {
            estate.bequeath(&mut builder);
            interface::adopt(tap, config, queues)?
        }
    };
    let estate = Estate::of(&mut builder);
    let name = taps[0].name().to_owned();
    let mut sinks: Vec<KeyLogSink> = Vec::new();
    if let Some(path) = &wire.keylog {
        sinks.push(key_log::file(path)?);
    }
    let mut ports: Vec<Box<dyn Port + Send>> = Vec::new();
    for (seed, tap) in (0..).zip(taps) {
        let seed = wire.line.seed.wrapping_add(seed);
        let mut port: Box<dyn Port + Send> = match &wire.pcap {
            None => Box::new(tap),
            Some(path) => {
                let capture = capture::create(tap, path)?;
                let keys = capture.handle();
                sinks.push(Arc::new(move |line| {
                    keys.add_keys(&key_log::with_line_end(line))
                }));
                Box::new(capture)
            }
        };
        if !clean {
            port = Box::new(Impair::new(port, Impairments::both(impairment), seed));
        }
        ports.push(port);
    }

    let runtimes = runtimes(builder, ports)?;
    let key_log = key_log::all_of(sinks);
    let attached = runtimes.into_iter().map(|runtime| Attached {
        runtime,
        tap: Some(name.clone()),
        addresses: wire.addresses.clone(),
        key_log: key_log.clone(),
        estate: Some(estate.clone()),
    });
    Ok(attached.collect())
}

/// A stack on each port. Several share the memory, and what the NIC has for connections.
fn runtimes(mut builder: Builder, ports: Vec<Box<dyn Port + Send>>) -> Result<Vec<Runtime>> {
    if let [_] = ports[..] {
        let runtimes = ports.into_iter().map(|port| builder.clone().on_port(port));
        return Ok(runtimes.collect::<Result<_, _>>()?);
    }
    let count = ports.len() as u64;
    builder.stack.memory /= count;
    if builder.stack.memory < memory::LEAST {
        let least = (memory::LEAST * count) >> 20;
        bail!("{count} stacks need more memory; give --memory {least}M, or fewer --cores");
    }
    builder.nic.toe.hard_limit = builder.nic.toe.hard_limit.div_ceil(count as u32);
    Ok(builder.on_queues(ports)?)
}

/// Settings as the command line has them.
fn builder(wire: &Wire, connections: &Connections) -> Result<Builder> {
    let mut builder = Builder::new(wire.addresses.iter().copied())?;
    builder.function.mac = mac_address(wire);
    builder.nic.toe.hard_limit = connections.nic_connections;
    let stack = &mut builder.stack;
    stack.dad = wire.dad.into();
    stack.gateway_v4 = wire.gateway;
    stack.gateway_v6 = wire.gateway6;
    stack.memory = wire.memory.unwrap_or_else(memory::share);
    wire.tcp.apply(&mut stack.tcp);
    stack.accel = connections.accel;
    stack.accel_handshakes = connections.accel_handshakes;
    stack.handoff = connections.handoff.clone();
    builder.runtime.own_thread = !wire.one_thread;
    builder.runtime.busy_poll = wire.busy_poll;
    Ok(builder)
}

impl Attached {
    /// Says how this machine reaches the stack, where Linux's end of the TAP interface has no address for it yet.
    pub fn announce_neighbours(&self) {
        let text = self.neighbours();
        if !text.is_empty() {
            crate::background::announce(format_args!("{}", text.trim_end()));
        }
    }

    /// What [`announce_neighbours`](Self::announce_neighbours) says. A process in its sandbox can't find it out any more.
    pub fn neighbours(&self) -> String {
        let Some(tap) = &self.tap else {
            return String::new();
        };
        let lacking = interface::lacking(tap, &self.addresses).into_iter();
        lacking
            .map(|peer| {
                format!("to reach it from this machine: sudo ip addr add {peer} dev {tap}\n")
            })
            .collect()
    }

    /// The counters of every part in this process, as `ethtool -S` has them.
    ///
    /// # Errors
    /// When the NIC's thread has ended.
    pub fn counters(&mut self) -> Result<Vec<CounterGroup>> {
        let mut groups = match self.runtime.has_device() {
            true => self.runtime.with_device(device_counters)?,
            false => Vec::new(),
        };
        let host = CounterGroup::new("host", self.runtime.stack().counters());
        groups.push(host);
        Ok(groups)
    }

    /// Answers what every stack can be asked; `own` are the counters of the application on it.
    pub fn answer<I: IntoIterator<Item = CounterGroup>>(
        &mut self,
        request: Request,
        own: impl FnOnce() -> I,
    ) -> Answer {
        match request {
            Request::Stat => match self.counters() {
                Ok(mut groups) => {
                    groups.extend(own());
                    Answer::Stat(groups)
                }
                Err(error) => Answer::Error(error.to_string()),
            },
            Request::Sockets => {
                let sockets = self.runtime.stack().sockets();
                Answer::Sockets(sockets.map(|info| Socket::from(&info)).collect())
            }
            Request::Restore { peer } => Answer::Restored(self.restore(peer)),
            Request::Drain { .. } => Answer::Error("this is not a load balancer".to_owned()),
            Request::Reload => Answer::Error("there is nothing to read again".to_owned()),
            Request::TakeOver(_) => Answer::Error(
                "it does not hand over; stop it, and start the new one without --take-over"
                    .to_owned(),
            ),
            Request::Attach | Request::Fault { .. } => {
                Answer::Error("this is not `longshore nic`".to_owned())
            }
        }
    }

    /// Has connections come back that the NIC runs; answers how many.
    fn restore(&mut self, peer: Option<SocketAddr>) -> u64 {
        let stack = self.runtime.stack();
        let meant = |info: &SocketInfo| {
            info.holder == Holder::Nic && peer.is_none_or(|peer| info.remote == peer)
        };
        let ids: Vec<_> = stack
            .sockets()
            .filter(meant)
            .filter_map(|info| info.id)
            .collect();
        let now = Instant::now();
        let restored = ids
            .into_iter()
            .filter(|id| stack.restore(now, *id) == Ok(true));
        restored.count() as u64
    }
}

fn device_counters(device: &mut Device) -> Vec<CounterGroup> {
    let mut port = Vec::new();
    device
        .port
        .counters(&mut |name, value| port.push((name, value)));
    vec![
        CounterGroup::new("nic", device.nic.counters().iter()),
        CounterGroup::new("port", port),
    ]
}

/// Whether the wire carries no super-frames, since it is impaired.
pub fn takes_packets_only(wire: &Wire) -> bool {
    impairment(&wire.line) != Impairment::default()
}

/// What the command line asks of the wire.
pub(crate) fn impairment(line: &Line) -> Impairment {
    Impairment {
        loss: line.loss,
        reorder: line.reorder,
        duplicate: line.duplicate,
        corrupt: line.corrupt,
        ..Impairment::default()
    }
}

/// The same for the same TAP and address, so that a neighbour that remembers it finds a restarted longshore at once.
fn mac_address(wire: &Wire) -> MacAddr {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    wire.tap.hash(&mut hasher);
    for cidr in &wire.addresses {
        cidr.address.hash(&mut hasher);
    }
    MacAddr::local(hasher.finish())
}

/// Unpredictable bytes.
pub(crate) fn secret() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| anyhow!("the system gives no random bytes"))?;
    Ok(bytes)
}
