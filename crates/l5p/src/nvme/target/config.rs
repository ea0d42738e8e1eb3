//! What a target offers, to whom, and how much it gives.

use std::net::IpAddr;
use std::time::Duration;

use wire::nvme::command::MAX_BLOCKS;
use wire::nvme::identify::NamespaceIds;
use wire::nvme::{Digests, MIN_MAXH2CDATA, Nqn};

/// What a target offers.
#[derive(Clone, Debug)]
pub struct Config {
    /// The subsystems, each under a name of its own.
    pub subsystems: Vec<Subsystem>,
    /// Where hosts find them: what the discovery log says.
    pub portals: Vec<Portal>,
    /// The digests without which no connection is accepted. Others are used as the host asks.
    pub required_digests: Digests,
    /// What hosts may take.
    pub limits: Limits,
    /// The revision that Identify Controller gives; 8 ASCII characters count.
    pub firmware: String,
}

/// A subsystem: namespaces that some hosts may have.
#[derive(Clone, Debug)]
pub struct Subsystem {
    /// Its name.
    pub nqn: Nqn,
    /// Serial number; 20 ASCII characters count.
    pub serial: String,
    /// Model; 40 ASCII characters count.
    pub model: String,
    /// Who may connect.
    pub hosts: Hosts,
    /// The namespaces, each with an NSID of its own.
    pub namespaces: Vec<Namespace>,
}

/// Who may connect to a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Any host.
    Any,
    /// Hosts of these names.
    Only(Vec<Nqn>),
}

impl Hosts {
    /// Whether `host` may connect.
    #[must_use]
    pub fn allow(&self, host: &Nqn) -> bool {
        match self {
            Hosts::Any => true,
            Hosts::Only(hosts) => hosts.contains(host),
        }
    }
}

/// Names a store of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreId(pub u32);

/// A namespace: logical blocks on a store, without metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its identifier, from 1 to [`Namespace::MAX_NSID`].
    pub nsid: u32,
    /// Where its blocks are; byte 0 of the store is the first of block 0.
    pub store: StoreId,
    /// Size, blocks. The size in bytes fits 63 bits.
    pub blocks: u64,
    /// A block has 2^`block_shift` bytes, from 9 to 16.
    pub block_shift: u8,
    /// No host may write.
    pub read_only: bool,
    /// What was written may be lost until it is flushed.
    pub volatile_cache: bool,
    /// Deallocated blocks read as zeroes, and give room back.
    pub deallocate: bool,
    /// What identifies it, also from elsewhere. At least one of EUI-64, NGUID and UUID.
    pub ids: NamespaceIds,
}

impl Namespace {
    /// The highest NSID: what a namespace list can hold in one answer.
    pub const MAX_NSID: u32 = 1024;

    /// Whether a namespace can have this NSID: the others are invalid (Base 2.0c §3.2.1.2).
    #[must_use]
    pub fn may_have(nsid: u32) -> bool {
        (1..=Namespace::MAX_NSID).contains(&nsid)
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.blocks << self.block_shift
    }

    /// Bytes of `blocks` blocks.
    pub(super) fn len_of(&self, blocks: u32) -> u64 {
        u64::from(blocks) << self.block_shift
    }
}

/// An address on which a target accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portal {
    /// Its address.
    pub address: IpAddr,
    /// Its TCP port.
    pub port: u16,
    /// Connections are inside TLS 1.3 there.
    pub tls: bool,
}

/// How much hosts may take, all of it bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queues: admin and I/O queues of all hosts, each a TCP connection. Further Connects are refused as busy.
    pub connections: usize,
    /// Connections that are no queue yet, beside these. The oldest one is closed for one more.
    pub pending: usize,
    /// Controllers.
    pub controllers: usize,
    /// I/O queues of one controller.
    pub io_queues: u16,
    /// Entries of a queue, a power of two from 2 to 4,096.
    pub queue_entries: u32,
    /// Bytes of data in a command capsule of an I/O queue; a multiple of 16.
    pub in_capsule: u32,
    /// Bytes of data of one command; a power of two from 4,096 (MDTS).
    pub data: u32,
    /// MAXH2CDATA: bytes of data in one H2CData; a multiple of 4 from 4,096.
    pub h2c_data: u32,
    /// Bytes of data in one C2HData; a multiple of 4 from 4,096.
    pub c2h_data: u32,
    /// Bytes that one R2T asks for; a multiple of 4 from 4,096.
    pub r2t_data: u32,
    /// How long a connection may take until it is a queue.
    pub handshake: Duration,
    /// How long a host that was sent R2Ts may send no data for any.
    pub r2t: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 64,
            pending: 32,
            controllers: 32,
            io_queues: 16,
            queue_entries: 128,
            in_capsule: 8192,
            data: 1 << 20,
            h2c_data: 128 << 10,
            c2h_data: 128 << 10,
            r2t_data: 1 << 20,
            handshake: Duration::from_secs(15),
            r2t: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Places for connections: queues, and those that are none yet.
    #[must_use]
    pub fn places(&self) -> usize {
        self.connections + self.pending
    }

    /// The longest PDU that a host may send, in bytes, when both digests are on.
    #[must_use]
    pub fn max_pdu(&self) -> u32 {
        let admin = ADMIN_IN_CAPSULE;
        (72 + 4 + self.in_capsule.max(admin) + 4).max(24 + 4 + self.h2c_data + 4)
    }
}

/// Bytes of in-capsule data on admin queues, and for fabrics commands everywhere (NVMe/TCP 1.0 §3.3.1.2).
pub const ADMIN_IN_CAPSULE: u32 = 8192;

/// Why a [`Config`] makes no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Two subsystems have the same name.
    #[error("two subsystems are called {0}")]
    NameTwice(String),
    /// A subsystem has the name that discovery has.
    #[error("a subsystem cannot have the name of the discovery subsystem")]
    DiscoveryName,
    /// Two namespaces of a subsystem have the same identifier.
    #[error("subsystem {nqn} has two namespaces {nsid}")]
    NamespaceTwice {
        /// The subsystem.
        nqn: String,
        /// The identifier.
        nsid: u32,
    },
    /// A namespace cannot be as it is described.
    #[error("namespace {nsid}: {why}")]
    Namespace {
        /// Its identifier.
        nsid: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// A limit has an impossible value.
    #[error("limit {0} is out of its range")]
    Limit(&'static str),
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.limits.check()?;
        for (at, subsystem) in self.subsystems.iter().enumerate() {
            if subsystem.nqn == Nqn::DISCOVERY {
                return Err(ConfigError::DiscoveryName);
            }
            if self.subsystems[..at]
                .iter()
                .any(|other| other.nqn == subsystem.nqn)
            {
                return Err(ConfigError::NameTwice(subsystem.nqn.to_string()));
            }
            for (at, namespace) in subsystem.namespaces.iter().enumerate() {
                namespace.check()?;
                let nsid = namespace.nsid;
                if subsystem.namespaces[..at]
                    .iter()
                    .any(|other| other.nsid == nsid)
                {
                    return Err(ConfigError::NamespaceTwice {
                        nqn: subsystem.nqn.to_string(),
                        nsid,
                    });
                }
            }
        }
        Ok(())
    }
}

impl Namespace {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let bad = |why| {
            Err(ConfigError::Namespace {
                nsid: self.nsid,
                why,
            })
        };
        let ids = &self.ids;
        if !Namespace::may_have(self.nsid) {
            bad("its identifier is not one from 1 to 1024")
        } else if !(9..=16).contains(&self.block_shift) {
            bad("a block has from 512 to 65536 bytes")
        } else if self.blocks == 0 {
            bad("it has no block")
        } else if self.blocks > (1 << 62) >> self.block_shift {
            bad("it is larger than 2^62 bytes")
        } else if ids.eui64.is_none() && ids.nguid.is_none() && ids.uuid.is_none() {
            bad("nothing identifies it")
        } else {
            Ok(())
        }
    }
}

impl Limits {
    fn check(&self) -> Result<(), ConfigError> {
        let data =
            |bytes: u32| (MIN_MAXH2CDATA..=1 << 30).contains(&bytes) && bytes.is_multiple_of(4);
        let checks = [
            ("connections", (1..=1 << 16).contains(&self.connections)),
            ("pending", (1..=1 << 16).contains(&self.pending)),
            ("controllers", (1..=0xffef).contains(&self.controllers)),
            (
                "io_queues",
                self.io_queues >= 1 && self.io_queues < u16::MAX,
            ),
            (
                "queue_entries",
                self.queue_entries.is_power_of_two() && (2..=4096).contains(&self.queue_entries),
            ),
            (
                "in_capsule",
                self.in_capsule.is_multiple_of(16) && self.in_capsule <= MAX_BLOCKS,
            ),
            (
                "data",
                self.data.is_power_of_two() && (4096..=1 << 26).contains(&self.data),
            ),
            ("h2c_data", data(self.h2c_data)),
            ("c2h_data", data(self.c2h_data)),
            ("r2t_data", data(self.r2t_data)),
            ("handshake", self.handshake > Duration::ZERO),
            ("r2t", self.r2t > Duration::ZERO),
        ];
        match checks.iter().find(|(_, holds)| !holds) {
            Some((limit, _)) => Err(ConfigError::Limit(limit)),
            None => Ok(()),
        }
    }
}
