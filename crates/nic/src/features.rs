//! What a device offers, and what of it a function has.

use std::fmt;

/// Parts of the device that a function may have: descriptors of the others are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Features(u64);

impl Features {
    /// Packets alone.
    pub const NONE: Features = Features(0);
    /// Contexts of layer-5 protocols.
    pub const CONTEXTS: Features = Features(1);
    /// What contexts share.
    pub const RESOURCES: Features = Features(1 << 1);
    /// Connections that the device sets up.
    pub const LISTENERS: Features = Features(1 << 2);
    /// Connections that the device finishes.
    pub const TEARDOWNS: Features = Features(1 << 3);
    /// Connections that the device joins.
    pub const SPLICES: Features = Features(1 << 4);
    /// Connections that the device runs.
    pub const TOE: Features = Features(1 << 5);
    /// Received segments of a flow are merged into one packet (LRO).
    pub const MERGING: Features = Features(1 << 6);
    /// Received packets are hashed with a key, and spread by a table, that the host may set (RSS).
    pub const RSS: Features = Features(1 << 7);
    /// The host may say which multicast frames it receives.
    pub const FILTER: Features = Features(1 << 8);
    /// All that there are.
    pub const ALL: Features = Features((1 << 9) - 1);

    /// Each with its name.
    pub const NAMES: [(&str, Features); 9] = [
        ("contexts", Features::CONTEXTS),
        ("resources", Features::RESOURCES),
        ("listeners", Features::LISTENERS),
        ("teardowns", Features::TEARDOWNS),
        ("splices", Features::SPLICES),
        ("toe", Features::TOE),
        ("merging", Features::MERGING),
        ("rss", Features::RSS),
        ("filter", Features::FILTER),
    ];

    /// Those of these bits, known here or not.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Features {
        Features(bits)
    }

    /// As bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any of these is among them.
    #[must_use]
    pub const fn intersects(self, others: Features) -> bool {
        self.0 & others.0 != 0
    }

    /// These and those.
    #[must_use]
    pub const fn union(self, others: Features) -> Features {
        Features(self.0 | others.0)
    }

    /// Those that are among the others too.
    #[must_use]
    pub const fn intersection(self, others: Features) -> Features {
        Features(self.0 & others.0)
    }

    /// Those that are not among the others.
    #[must_use]
    pub const fn without(self, others: Features) -> Features {
        Features(self.0 & !others.0)
    }
}

impl fmt::Display for Features {
    /// The names, and the bits without a name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        let mut separator = "";
        for (name, feature) in Features::NAMES {
            if self.intersects(feature) {
                write!(f, "{separator}{name}")?;
                separator = ", ";
            }
            rest = rest.without(feature);
        }
        match rest.is_empty() {
            true => Ok(()),
            false => write!(f, "{separator}features {:#x}", rest.0),
        }
    }
}

/// What a device offers to each function, whatever its quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// What a function may ask for.
    pub features: Features,
    /// Bit `n` is set if it knows the protocol with id `n`.
    pub protocols: u64,
    /// Largest IP packet on the wire.
    pub mtu: u16,
    /// Listening rules of a function.
    pub listeners: u16,
    /// Bytes for what contexts of a function share.
    pub resource_bytes: u64,
}
