//! What fields mean.

use std::mem::offset_of;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use l5p::{MAX_LAYERS, MAX_PARAMETERS, ProtocolId, ResourceId};
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};
use zerocopy::FromZeros;

use super::super::accel::{ListenRuleId, SpliceId, TimestampState};
use super::super::context::InnerPlace;
use super::super::error::ErrorCode;
use super::super::region::{self, RegionId};
use super::super::toe::ToeId;
use super::{CreateContext, Flow, Head, SLOT_WORDS, Slice, Toe};

/// What has one field, and is told by it.
pub(in crate::ring) trait Value: Sized {
    type Field;

    fn to_field(self) -> Self::Field;
    fn from_field(field: Self::Field) -> Self;
}

macro_rules! values {
    ($($Number:ty),*; $($Newtype:ident($Field:ty)),*) => {
        $(impl Value for $Number {
            type Field = $Number;

            #[inline]
            fn to_field(self) -> $Number {
                self
            }

            #[inline]
            fn from_field(field: $Number) -> $Number {
                field
            }
        })*
        $(impl Value for $Newtype {
            type Field = $Field;

            #[inline]
            fn to_field(self) -> $Field {
                self.0
            }

            #[inline]
            fn from_field(field: $Field) -> $Newtype {
                $Newtype(field)
            }
        })*
    };
}

values!(
    u8, u16, u32, u64;
    SeqNum(u32), ContextId(u32), ResourceId(u16), ProtocolId(u8), ListenRuleId(u16), SpliceId(u32)
);

impl Value for Option<ContextId> {
    type Field = u32;

    #[inline]
    fn to_field(self) -> u32 {
        ContextId::field(self)
    }

    #[inline]
    fn from_field(field: u32) -> Option<ContextId> {
        ContextId::named(field)
    }
}

impl Value for ToeId {
    type Field = Toe;

    #[inline]
    fn to_field(self) -> Toe {
        self.into()
    }

    #[inline]
    fn from_field(field: Toe) -> ToeId {
        field.into()
    }
}

impl Value for region::Slice {
    type Field = Slice;

    #[inline]
    fn to_field(self) -> Slice {
        self.into()
    }

    #[inline]
    fn from_field(field: Slice) -> region::Slice {
        field.into()
    }
}

/// A context of a function: one flow in one direction. The host chooses it, below its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u32);

impl ContextId {
    const NONE: u32 = u32::MAX;

    /// The context of a field, if it names one.
    #[inline]
    pub(in crate::ring) fn named(field: u32) -> Option<ContextId> {
        (field != ContextId::NONE).then_some(ContextId(field))
    }

    /// A field that names this one, or none.
    #[inline]
    pub(in crate::ring) fn field(context: Option<ContextId>) -> u32 {
        context.map_or(ContextId::NONE, |context| context.0)
    }
}

impl From<region::Slice> for Slice {
    #[inline]
    fn from(slice: region::Slice) -> Slice {
        Slice {
            offset: slice.offset,
            len: slice.len,
            region: slice.region.0,
            _0: [0; 2],
        }
    }
}

impl From<Slice> for region::Slice {
    #[inline]
    fn from(slice: Slice) -> region::Slice {
        region::Slice {
            offset: slice.offset,
            len: slice.len,
            region: RegionId(slice.region),
        }
    }
}

impl Head {
    /// One that has only flags.
    #[inline]
    pub(in crate::ring) fn flagged(flags: u8) -> Head {
        Head {
            flags,
            ..FromZeros::new_zeroed()
        }
    }
}

impl From<ToeId> for Toe {
    fn from(toe: ToeId) -> Toe {
        Toe {
            index: toe.index,
            generation: toe.generation,
        }
    }
}

impl From<Toe> for ToeId {
    fn from(toe: Toe) -> ToeId {
        ToeId {
            index: toe.index,
            generation: toe.generation,
        }
    }
}

impl From<&FlowKey> for Flow {
    fn from(flow: &FlowKey) -> Flow {
        Flow {
            src: octets(flow.src.0),
            dst: octets(flow.dst.0),
            src_port: flow.src.1,
            dst_port: flow.dst.1,
        }
    }
}

impl Flow {
    /// `None` when an IPv4 flow's address is not one.
    pub(in crate::ring) fn key(&self, v6: bool) -> Option<FlowKey> {
        Some(FlowKey {
            src: (address(self.src, v6)?, self.src_port),
            dst: (address(self.dst, v6)?, self.dst_port),
        })
    }
}

/// Where the parameters of protocols are in a `CreateContext`, with the keys.
pub(in crate::ring) const PARAMETER_WORDS: Range<usize> =
    offset_of!(CreateContext, parameters) / 8..SLOT_WORDS;
const _: () = assert!((PARAMETER_WORDS.end - PARAMETER_WORDS.start) * 8 == MAX_PARAMETERS);

/// An address as a field.
pub(in crate::ring) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The address of a field. `None` when an IPv4 address is not one.
pub(in crate::ring) fn address(octets: [u8; 16], v6: bool) -> Option<IpAddr> {
    let address = Ipv6Addr::from(octets);
    match v6 {
        true => Some(IpAddr::V6(address)),
        false => address.to_ipv4_mapped().map(IpAddr::V4),
    }
}

/// A next hop: no multicast address.
pub(in crate::ring) fn next_hop(octets: [u8; 6]) -> Option<MacAddr> {
    Some(MacAddr(octets)).filter(|hop| hop.is_unicast())
}

/// Timestamps as fields: the peer's latest, and the own value. Zeros when there are none.
pub(in crate::ring) fn timestamp_fields(timestamps: Option<TimestampState>) -> (u32, u32) {
    timestamps.map_or((0, 0), |state| (state.recent, state.value))
}

/// A place in the stream of an inner protocol as fields: its offset and its layer. Zeros for none.
pub(in crate::ring) fn inner_fields(inner: Option<InnerPlace>) -> (u32, u8) {
    inner.map_or((0, 0), |inner| (inner.offset, inner.layer))
}

/// Reads what [`inner_fields`] gave. `Err` for a layer that no context has.
pub(in crate::ring) fn inner_place(
    offset: u32,
    layer: u8,
) -> Result<Option<InnerPlace>, ErrorCode> {
    match layer {
        0 if offset == 0 => Ok(None),
        1.. if usize::from(layer) < MAX_LAYERS => Ok(Some(InnerPlace { layer, offset })),
        _ => Err(ErrorCode::BadParameters),
    }
}

/// The flags that are set.
pub(in crate::ring) fn flags<const COUNT: usize>(each: [(bool, u8); COUNT]) -> u8 {
    let set = each.iter().filter(|(is_set, _)| *is_set);
    set.fold(0, |flags, (_, flag)| flags | flag)
}
