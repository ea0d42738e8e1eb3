//! The protocols that a NIC can offload, and how the rings name them.
//!
//! `protocols!` below is the one list. A protocol in it has an id, an [engine](Protocol) with its parameters as bytes of a descriptor, and
//! names for what a NIC counts of it. Code that is generic over the engine is reached from an id by a [`Visitor`].

mod event;
mod layers;
mod resource;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crate::{AnyOrder, Direction};

pub(crate) use event::counter_names;
pub use event::{CounterName, Event, HostEvent};
pub use layers::{Layers, MAX_LAYERS, MAX_PARAMETERS, UnknownLayers};
pub use resource::{MAX_RESOURCE, Resource, ResourceId};

/// Names a protocol on the rings. 0 names no protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProtocolId(pub u8);

/// A protocol that a NIC can offload: what the list has of each.
pub trait Protocol: AnyOrder<Message: Debug + Send> + Debug + Send + Sized + 'static {
    /// What both ends have agreed on for one direction, with the keys.
    type Parameters: Parameters;

    /// Its name in lower case, as `ss` shows it.
    const NAME: &'static str;

    /// The transformed bytes take the place of those on the wire, in both directions: the protocol encrypts. No two plaintexts may then be sent
    /// for one place of the stream.
    const REPLACES: bool;

    /// Bytes at the end of a message that an engine makes, or may have to make: its integrity check value.
    const CHECK_LEN: u32;

    /// Bytes of memory that a receiving engine may take for itself while it works. The NIC has so much for each function only.
    const MEMORY: usize = 0;

    /// Whether the engine may still need [that memory](Self::MEMORY). Once it does not, it never does.
    fn needs_memory(&self) -> bool {
        true
    }

    /// Names of what the NIC counts. What has no name here is not listed.
    const COUNTERS: &'static [CounterName];

    /// Names of what a host counts of its messages, likewise.
    const HOST_COUNTERS: &'static [CounterName<HostEvent>] = &[];

    /// Makes what contexts of this protocol share, of bytes of the host's, in at most `limit` bytes of memory. May take long. `None` when
    /// these are not the bytes of such a thing, or it would be larger.
    fn make_resource(_bytes: &[u8], _limit: usize) -> Option<Resource> {
        None
    }

    /// An engine for one direction. `resource` is the one that the parameters [name](Parameters::resource), and no other: `None` for
    /// parameters that need another one.
    fn create(
        parameters: &Self::Parameters,
        direction: Direction,
        resource: Option<&Resource>,
    ) -> Option<Self>;
}

/// An engine's parameters, as bytes of a descriptor.
pub trait Parameters: Sized {
    /// Bytes of the encoding: a multiple of 8.
    const ENCODED_LEN: usize;

    /// Writes the encoding into `bytes`, which has [`ENCODED_LEN`](Self::ENCODED_LEN) bytes.
    fn encode(&self, bytes: &mut [u8]);

    /// Reads what [`encode`](Self::encode) has written. `None` for what it never writes.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// Index of the first message.
    fn first_index(&self) -> u64 {
        0
    }

    /// Buffers are mapped to tags below this; 0 when nothing is placed.
    fn tags(&self) -> u16 {
        0
    }

    /// What it shares with other contexts, if it needs that.
    fn resource(&self) -> Option<ResourceId> {
        None
    }

    /// Whether bytes from the middle of a message can be made again without those before them
    /// ([`Layer5::transform_at`](crate::Layer5::transform_at)).
    fn is_seekable(&self) -> bool {
        false
    }
}

/// Parameters of a protocol in the list.
pub trait Listed: Parameters {
    /// Its id.
    const ID: ProtocolId;
}

/// Code that is generic over the engine.
pub trait Visitor {
    /// What it gives.
    type Output;

    /// Runs for the protocol with this id.
    fn visit<P: Protocol>(self, id: ProtocolId) -> Self::Output;
}

/// What the list says of a protocol, without its engine.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolInfo {
    /// Its id.
    pub id: ProtocolId,
    /// [`Protocol::NAME`].
    pub name: &'static str,
    /// [`Protocol::REPLACES`].
    pub replaces: bool,
    /// [`Protocol::CHECK_LEN`].
    pub check_len: u32,
    /// [`Parameters::ENCODED_LEN`].
    pub parameters_len: usize,
    /// [`Protocol::COUNTERS`].
    pub counters: &'static [CounterName],
    /// [`Protocol::HOST_COUNTERS`].
    pub host_counters: &'static [CounterName<HostEvent>],
}

/// Makes the list: an id and the engine of each protocol. Ids count from 1 without a gap and are never given to another protocol.
macro_rules! protocols {
    ($($(#[$condition:meta])* $id:literal => $engine:ty,)*) => {
        $($(#[$condition])* impl Listed for <$engine as Protocol>::Parameters {
            const ID: ProtocolId = ProtocolId($id);
        })*

        /// Every protocol, by ascending id from 1 on.
        pub const PROTOCOLS: &[ProtocolInfo] = &[$($(#[$condition])* ProtocolInfo {
            id: ProtocolId($id),
            name: <$engine as Protocol>::NAME,
            replaces: <$engine as Protocol>::REPLACES,
            check_len: <$engine as Protocol>::CHECK_LEN,
            parameters_len: <<$engine as Protocol>::Parameters as Parameters>::ENCODED_LEN,
            counters: <$engine as Protocol>::COUNTERS,
            host_counters: <$engine as Protocol>::HOST_COUNTERS,
        },)*];

        /// Runs `visitor` for the protocol with this id. `None` when the list has no such id.
        pub fn visit<V: Visitor>(id: ProtocolId, visitor: V) -> Option<V::Output> {
            match id.0 {
                $($(#[$condition])* $id => Some(visitor.visit::<$engine>(id)),)*
                _ => None,
            }
        }
    };
}

protocols! {
    1 => crate::tls::Engine,
    2 => crate::nvme::Engine,
    3 => crate::nbd::Engine,
    4 => crate::iscsi::Engine,
    5 => crate::pattern::Engine,
    6 => crate::http::Engine,
    // An example of the documentation: the last one, with an id that another protocol may get.
    #[cfg(feature = "toy")]
    7 => crate::toy::Engine,
}

impl ProtocolId {
    /// What the list says of it.
    #[must_use]
    pub fn info(self) -> Option<&'static ProtocolInfo> {
        PROTOCOLS.get(usize::from(self.0).checked_sub(1)?)
    }

    /// Its place in [`PROTOCOLS`]; that of the last one for an id that is not in the list.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
            .saturating_sub(1)
            .min(PROTOCOLS.len() - 1)
    }
}

const _: () = {
    let mut at = 0;
    while at < PROTOCOLS.len() {
        assert!(
            PROTOCOLS[at].id.0 as usize == at + 1,
            "ids count from 1 without a gap"
        );
        assert!(
            PROTOCOLS[at].parameters_len.is_multiple_of(8),
            "parameters are whole words"
        );
        assert!(PROTOCOLS[at].parameters_len <= MAX_PARAMETERS);
        at += 1;
    }
};
