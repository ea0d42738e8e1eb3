//! A world with storage in it: an initiator on host 0, a namespace in memory on host 1.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handshake::nvme_psk::{ConfiguredPsk, Derivation, Hash, IdentityVersion, Keys};
use handshake::{OpenSslError, PskClientConfig, PskServerConfig};
use host::nvme::PduOffload;
use host::nvme::initiator::{self, Initiator};
use host::nvme::store::{Method, Stores};
use host::nvme::target::{self, Target};
use host::runtime::Doorbell;
use host::{Event, Offload, TlsRole};
use l5p::nvme::target::{Config, Hosts, Limits, Namespace, Portal, StoreId, Subsystem};
use wire::nvme::identify::NamespaceIds;
use wire::nvme::{Digests, Nqn};

use crate::World;

/// The one namespace.
pub const NSID: u32 = 1;
/// Where the controller listens.
const PORT: u16 = 4420;
const HOST_NAME: &str = "nqn.2014-08.org.example:host";
const SUBSYSTEM: &str = "nqn.2014-08.org.example:disk";

/// What the namespace is like, and how it is reached.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// Bytes of the namespace.
    pub bytes: u64,
    /// A block has 2^`block_shift` bytes.
    pub block_shift: u8,
    /// What the controller gives.
    pub limits: Limits,
    /// Memory that it has for the data of commands, in bytes.
    pub memory: u64,
    /// What the controller's NIC does.
    pub offload: PduOffload,
    /// What it does of TLS.
    pub tls_offload: Offload,
    /// The pre-shared key of all connections, if they are inside TLS.
    pub keys: Option<SharedKey>,
}

/// A pre-shared key, known to both hosts.
#[derive(Clone, Debug)]
pub struct SharedKey {
    client: Arc<PskClientConfig>,
    server: Arc<PskServerConfig>,
}

impl SharedKey {
    /// A new key.
    ///
    /// # Errors
    /// When OpenSSL's library is not on this machine, with what to install.
    ///
    /// # Panics
    /// When the system gives no random bytes.
    pub fn new(hash: Hash) -> Result<Self, OpenSslError> {
        let key = ConfiguredPsk::generate(hash);
        let keys: Keys = format!("{HOST_NAME} {}", key.to_interchange())
            .parse()
            .expect("a key that was just made");
        let is_here = |name: &Nqn| name.as_str() == SUBSYSTEM;
        let server = keys.into_server_config(Derivation::default(), is_here, None)?;
        let psk = key
            .tls_psk(
                IdentityVersion::default(),
                &name(HOST_NAME),
                &name(SUBSYSTEM),
                Derivation::default(),
            )
            .expect("names without blanks");
        let client = PskClientConfig::new(psk, None)?;
        Ok(Self { client, server })
    }
}

/// A controller on host 1 of a world.
pub struct Storage {
    target: Target,
    address: SocketAddr,
    keys: Option<SharedKey>,
}

impl Storage {
    /// A controller with a namespace of zeroes, which listens.
    ///
    /// # Panics
    /// When the limits make no sense, or there is not so much memory.
    pub fn new(world: &mut World, config: StorageConfig) -> Self {
        let bell = Doorbell::new().expect("a file descriptor is left");
        let mut stores = Stores::new(&bell, Method::Threads);
        stores
            .add_in_memory(config.bytes, Some(config.block_shift), false)
            .expect("there is memory");
        Self::of(world, config, stores, Hosts::Any)
    }

    /// A controller with the first of these stores as its namespace, for these hosts, which listens.
    ///
    /// # Panics
    /// When the limits make no sense.
    pub fn of(world: &mut World, config: StorageConfig, stores: Stores, hosts: Hosts) -> Self {
        let store = StoreId(0);
        let info = stores.info(store);
        let address = SocketAddr::new(World::address(1, false), PORT);
        let offered = Config {
            subsystems: vec![Subsystem {
                nqn: name(SUBSYSTEM),
                serial: "1".into(),
                model: "longshore".into(),
                hosts,
                namespaces: vec![Namespace {
                    nsid: NSID,
                    store,
                    blocks: info.bytes >> info.block_shift,
                    block_shift: info.block_shift,
                    read_only: false,
                    volatile_cache: info.volatile_cache,
                    deallocate: info.deallocate,
                    ids: NamespaceIds {
                        uuid: Some([7; 16]),
                        ..NamespaceIds::default()
                    },
                }],
            }],
            portals: vec![Portal {
                address: address.ip(),
                port: PORT,
                tls: config.keys.is_some(),
            }],
            required_digests: Digests::NONE,
            limits: config.limits,
            firmware: "1".into(),
        };
        let options = target::Options {
            offload: config.offload,
            tls: config.keys.as_ref().map(|keys| Arc::clone(&keys.server)),
            tls_offload: config.tls_offload,
            memory: config.memory,
            ..target::Options::default()
        };
        let now = world.now();
        let stack = world.stack(1);
        let mut target = Target::new(now, stack, offered, options, stores).expect("good limits");
        target.listen(stack, address).expect("the port is free");
        Self {
            target,
            address,
            keys: config.keys,
        }
    }

    /// An initiator for it, on host 0, that begins to connect.
    pub fn initiator(
        &self,
        now: Instant,
        adjust: impl FnOnce(&mut initiator::Config, &mut initiator::Options),
    ) -> Initiator {
        let mut config = initiator::Config {
            // Virtual time may jump: nobody is given up for being silent.
            keep_alive: Duration::ZERO,
            command_timeout: Duration::from_secs(3600),
            setup_timeout: Duration::from_secs(3600),
            ..initiator::Config::new(name(SUBSYSTEM), name(HOST_NAME), [3; 16])
        };
        let mut options = initiator::Options {
            tls: self.keys.as_ref().map(|keys| TlsRole::PskClient {
                config: Arc::clone(&keys.client),
            }),
            ..initiator::Options::new(self.address)
        };
        adjust(&mut config, &mut options);
        Initiator::new(now, config, options)
    }

    /// The controller.
    pub fn target(&mut self) -> &mut Target {
        &mut self.target
    }

    /// The controller, to be polled by itself.
    pub fn into_target(self) -> Target {
        self.target
    }

    /// Lets the controller do what it can now. Whether that was anything.
    pub fn poll(&mut self, world: &mut World) -> bool {
        let now = world.now();
        let stack = world.stack(1);
        let mut moved = false;
        while let Some(event) = stack.poll_event() {
            moved |= self.target.handle_event(now, stack, &event);
        }
        moved | self.target.poll(now, stack)
    }

    /// When it wants to be polled again, at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.target.poll_timeout()
    }
}

/// Lets an initiator on host 0, which has no other sockets, do what it can now. Whether that was anything.
pub fn poll_initiator(world: &mut World, initiator: &mut Initiator) -> bool {
    let now = world.now();
    let stack = world.stack(0);
    let mut moved = false;
    while let Some(event) = stack.poll_event() {
        if let Event::Accepted(_) = event {
            continue;
        }

        moved |= initiator.handle_event(now, stack, &event);
    }
    moved | initiator.poll(now, stack)
}

fn name(nqn: &str) -> Nqn {
    Nqn::new(nqn).expect("a good name")
}
