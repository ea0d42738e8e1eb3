//! From addresses to a stack that runs: its NIC and its wire beside it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::time::Instant;

use nic::ring::FunctionConfig;
use nic::{Nic, NicConfig, WireCapabilities};
use port::Port;
use port::tap::{Tap, TapConfig};
use rings::Client;
use wire::ethernet::MacAddr;
use wire::packet::Steering;

use super::{Runtime, RuntimeConfig};
use crate::{Cidr, Shard, Stack, StackConfig};

/// Settings of a stack, its NIC and the threads of both, and three ways to the wire.
///
/// ```no_run
/// use host::runtime::Builder;
///
/// let mut builder = Builder::new(["10.0.0.2/24".parse()?])?;
/// builder.stack.gateway_v4 = Some("10.0.0.1".parse()?);
/// let mut runtime = builder.on_tap("ls0")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    /// The stack's settings. Its MTU is the port's, whatever stands here.
    pub stack: StackConfig,
    /// The NIC's settings, where it is in this process. MTU and wire are the port's, whatever stands here.
    pub nic: NicConfig,
    /// The function's address, quotas and ring sizes. The address is made from the stack's, so that neighbours that remember
    /// it find a program that was started again; a NIC in another process gives it one instead.
    pub function: FunctionConfig,
    /// Spreads flows over the [queues](Self::on_queues) of a wire; no peer may know it.
    pub steering_secret: [u8; 16],
    /// Which threads there are, and when they sleep.
    pub runtime: RuntimeConfig,
}

/// Why there is no stack.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The system gives no random bytes for the secrets.
    #[error("the system gives no random bytes")]
    NoRandomBytes,
    /// The TAP device can't be opened.
    #[error(transparent)]
    Tap(#[from] port::tap::OpenError),
    /// The NIC in the other process gives no function.
    #[error(transparent)]
    Connect(#[from] rings::ConnectError),
    /// The function's Ethernet address is none that it can have.
    #[error(transparent)]
    Attach(#[from] nic::AttachError),
    /// The function's settings contradict each other.
    #[error(transparent)]
    Function(#[from] nic::ring::BadConfig),
    /// The system has no descriptors to give.
    #[error("the stack can't be started: {0}")]
    System(#[from] io::Error),
}

impl Builder {
    /// Settings for a stack with these addresses, and secrets drawn at random.
    ///
    /// # Errors
    /// [`BuildError::NoRandomBytes`].
    pub fn new(addresses: impl IntoIterator<Item = Cidr>) -> Result<Builder, BuildError> {
        let addresses: Vec<Cidr> = addresses.into_iter().collect();
        let function = FunctionConfig::new(mac_address(&addresses));
        Ok(Builder {
            stack: StackConfig {
                addresses,
                secret: secret()?,
                ..StackConfig::default()
            },
            nic: NicConfig::new(secret()?),
            function,
            steering_secret: secret()?,
            runtime: RuntimeConfig::default(),
        })
    }

    /// On the TAP device of this name, which is made if it does not exist, and set up.
    ///
    /// To make one needs CAP_NET_ADMIN; to open one that was made for the user (`ip tuntap add dev ls0 mode tap user $USER`, `ip link set
    /// ls0 up`) needs nothing. This machine reaches the stack once its side of the TAP has an address of that network
    /// (`ip addr add 10.0.0.1/24 dev ls0`).
    ///
    /// # Errors
    /// [`BuildError::Tap`] says what to do; else as [`on_port`](Self::on_port).
    pub fn on_tap(self, name: &str) -> Result<Runtime, BuildError> {
        let tap = Tap::open(name, TapConfig::default())?;
        if let Err(error) = tap.set_up() {
            let name = tap.name();
            tracing::warn!(%error, "{name} can't be set up; run: ip link set {name} up");
        }
        self.on_port(tap)
    }

    /// On any wire: a link in memory, an interface by AF_PACKET or AF_XDP, one with faults or a capture around it.
    ///
    /// # Errors
    /// [`BuildError::Attach`], [`BuildError::Function`], [`BuildError::System`].
    pub fn on_port(self, port: impl Port + Send + 'static) -> Result<Runtime, BuildError> {
        self.function.check()?;
        let capabilities = port.capabilities();
        let mut nic = Nic::new(NicConfig {
            mtu: capabilities.mtu,
            wire: WireCapabilities {
                tso: capabilities.tso,
                checksum: capabilities.checksum,
            },
            ..self.nic
        });
        let (ours, theirs) = nic::ring::function(self.function);
        let function = nic.attach(theirs)?;
        let config = StackConfig {
            mtu: capabilities.mtu,
            ..self.stack
        };
        let stack = Stack::new(Instant::now(), config, ours);
        let runtime = Runtime::start(stack, nic, function, Box::new(port), self.runtime)?;
        Ok(runtime)
    }

    /// On the queues of one wire: a stack with a NIC of its own for each, all with the same addresses, over which flows are spread. A runtime
    /// is one thread's, or two with [`RuntimeConfig::own_thread`]; they share nothing that a packet of one of them touches. Memory and limits
    /// are those of each.
    ///
    /// # Errors
    /// As [`on_port`](Self::on_port).
    ///
    /// # Panics
    /// Without a queue.
    pub fn on_queues<P: Port + Send + 'static>(
        self,
        queues: Vec<P>,
    ) -> Result<Vec<Runtime>, BuildError> {
        assert!(!queues.is_empty(), "a stack needs a queue");
        let workers = u16::try_from(queues.len()).expect("a device has fewer queues");
        let steering = Steering::new(&self.steering_secret, workers);
        let ports = port::fan::fan(steering, queues)?;
        let runtimes = ports.into_iter().enumerate().map(|(worker, port)| {
            let mut builder = self.clone();
            builder.stack.shard = Some(Shard { steering, worker });
            builder.on_port(port)
        });
        runtimes.collect()
    }

    /// On a function of a NIC in another process, started with `longshore nic --host rings:SOCKET`. Needs no privileges.
    ///
    /// # Errors
    /// [`BuildError::Connect`] says what to do; [`BuildError::Function`], [`BuildError::System`].
    pub fn on_nic(self, socket: &Path) -> Result<Runtime, BuildError> {
        self.function.check()?;
        let (client, ours) = Client::connect(socket, self.function)?;
        let config = StackConfig {
            mtu: client.mtu(),
            ..self.stack
        };
        let stack = Stack::new(Instant::now(), config, ours);
        Ok(Runtime::attach(stack, client, self.runtime)?)
    }
}

/// The same for the same addresses.
fn mac_address(addresses: &[Cidr]) -> MacAddr {
    let mut hasher = DefaultHasher::new();
    for cidr in addresses {
        cidr.address.hash(&mut hasher);
    }
    MacAddr::local(hasher.finish())
}

fn secret() -> Result<[u8; 16], BuildError> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| BuildError::NoRandomBytes)?;
    Ok(bytes)
}
