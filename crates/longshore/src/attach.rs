//! From the command line to a stack: on a TAP with port, impairments, capture, NIC and function; or on a function of a NIC in another
//! process.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use host::runtime::{Device, Runtime, RuntimeConfig};
use host::{Cidr, Holder, SocketInfo, Stack, StackConfig};
use l5p::tls::KeyLogSink;
use nic::ring::{FunctionConfig, HostFunction};
use nic::{Nic, NicConfig, ToeConfig, WireCapabilities};
use port::Port;
use port::capture::Capture;
use port::impair::{Impair, Impairment, Impairments};
use port::tap::{Tap, TapConfig};
use rings::Client;
use rustix::process::{Resource, getrlimit, setrlimit};
use wire::ethernet::MacAddr;

use crate::cli::{Line, Wire};
use crate::control::{Answer, CounterGroup, Request, Socket};

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
}

/// Opens the TAP and puts a NIC and a stack on it, or gets a function of the NIC that runs already.
///
/// # Errors
/// When something of it can't be had; the message says what to do.
pub fn attach(wire: &Wire) -> Result<Attached> {
    match (&wire.nic, &wire.tap) {
        (Some(path), _) => attach_to_nic(wire, path),
        (None, Some(tap)) => attach_to_tap(wire, tap),
        (None, None) => bail!("no way to the wire; give --tap or --nic"),
    }
}

/// A stack on a function of the NIC at `path`.
fn attach_to_nic(wire: &Wire, path: &Path) -> Result<Attached> {
    allow_more_descriptors();
    let (client, ours) = Client::connect(path, FunctionConfig::new(MacAddr::ZERO))?;
    let stack = stack(wire, client.mtu(), ours)?;
    let runtime = Runtime::attach(stack, client, runtime_config(wire))
        .context("the stack can't be started")?;
    let key_log = wire.keylog.as_deref().map(key_log_file).transpose()?;
    Ok(Attached {
        runtime,
        tap: None,
        addresses: wire.addresses.clone(),
        key_log,
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

/// A stack on a TAP of its own.
fn attach_to_tap(wire: &Wire, tap: &str) -> Result<Attached> {
    let impairment = impairment(&wire.line);
    let clean = impairment == Impairment::default();
    // A super-frame that is lost would take 45 packets with it: an impaired wire carries packets only.
    let config = TapConfig {
        tso: clean,
        checksum: clean,
    };
    let tap = Tap::open(tap, config)?;
    let name = tap.name().to_owned();
    if let Err(error) = tap.set_up() {
        tracing::warn!(%error, "{name} can't be set up; run: ip link set {name} up");
    }
    let mut sinks: Vec<KeyLogSink> = Vec::new();
    if let Some(path) = &wire.keylog {
        sinks.push(key_log_file(path)?);
    }
    let mut port: Box<dyn Port + Send> = match &wire.pcap {
        None => Box::new(tap),
        Some(path) => {
            let capture = Capture::create(tap, path, Instant::now())
                .with_context(|| format!("{} can't be written; see --pcap", path.display()))?;
            let keys = capture.handle();
            sinks.push(Arc::new(move |line| keys.add_keys(&with_line_end(line))));
            Box::new(capture)
        }
    };
    if !clean {
        port = Box::new(Impair::new(
            port,
            Impairments::both(impairment),
            wire.line.seed,
        ));
    }

    let capabilities = port.capabilities();
    let mut nic = Nic::new(NicConfig {
        mtu: capabilities.mtu,
        wire: WireCapabilities {
            tso: capabilities.tso,
            checksum: capabilities.checksum,
        },
        toe: ToeConfig {
            hard_limit: wire.nic_connections,
            ..ToeConfig::default()
        },
        ..NicConfig::new(secret()?)
    });
    let (ours, theirs) = nic::ring::function(FunctionConfig::new(mac_address(wire)));
    let function = nic.attach(theirs)?;
    let stack = stack(wire, capabilities.mtu, ours)?;
    let runtime = Runtime::start(stack, nic, function, port, runtime_config(wire))
        .context("the NIC's thread can't be started")?;
    Ok(Attached {
        runtime,
        tap: Some(name),
        addresses: wire.addresses.clone(),
        key_log: all_of(sinks),
    })
}

fn stack(wire: &Wire, mtu: u16, function: HostFunction) -> Result<Stack> {
    let config = StackConfig {
        addresses: wire.addresses.clone(),
        gateway_v4: wire.gateway,
        gateway_v6: wire.gateway6,
        mtu,
        secret: secret()?,
        accel: wire.accel,
        accel_handshakes: wire.accel_handshakes,
        handoff: wire.handoff.clone(),
        ..StackConfig::default()
    };
    Ok(Stack::new(Instant::now(), config, function))
}

fn runtime_config(wire: &Wire) -> RuntimeConfig {
    RuntimeConfig {
        own_thread: !wire.one_thread,
        busy_poll: wire.busy_poll,
        ..RuntimeConfig::default()
    }
}

impl Attached {
    /// Says how this machine reaches the stack, if that is by an interface of its own.
    pub fn announce_neighbours(&self) {
        let Some(tap) = &self.tap else { return };
        for cidr in &self.addresses {
            let peer = crate::serve::neighbour_of(cidr);
            println!("to reach it from this machine: ip addr add {peer} dev {tap}");
        }
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
            Request::Drain { .. } => Answer::Error("it is no load balancer".to_owned()),
            Request::Attach => Answer::Error("it is not `longshore nic`".to_owned()),
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

/// The same for the same TAP and address, so that a neighbour that remembers it finds a restarted longshore at
/// once; locally administered, unicast.
fn mac_address(wire: &Wire) -> MacAddr {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    wire.tap.hash(&mut hasher);
    for cidr in &wire.addresses {
        cidr.address.hash(&mut hasher);
    }
    let mut bytes = [0; 6];
    bytes.copy_from_slice(&hasher.finish().to_be_bytes()[..6]);
    bytes[0] = (bytes[0] & 0xfc) | 0x02;
    MacAddr(bytes)
}

/// Unpredictable bytes.
pub(crate) fn secret() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| anyhow!("the system gives no random bytes"))?;
    Ok(bytes)
}

fn key_log_file(path: &Path) -> Result<KeyLogSink> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("{} can't be written; see --keylog", path.display()))?;
    let file = Mutex::new(file);
    Ok(Arc::new(move |line| {
        let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _ = file.write_all(with_line_end(line).as_bytes());
    }))
}

fn with_line_end(line: &str) -> String {
    format!("{}\n", line.trim_end())
}

fn all_of(sinks: Vec<KeyLogSink>) -> Option<KeyLogSink> {
    if sinks.is_empty() {
        return None;
    }
    Some(Arc::new(move |line: &str| {
        sinks.iter().for_each(|sink| sink(line))
    }))
}
