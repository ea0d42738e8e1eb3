//! How descriptors are laid out in words; shared by both sides.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use l5p::{Layers, MAX_LAYERS, MAX_PARAMETERS};
use wire::FlowKey;
use zeroize::Zeroize;

use super::error::ErrorCode;
use super::send::InnerPlace;

/// Words of a send slot: 64 bytes of descriptor and 128 of packet headers.
pub const SLOT_WORDS: usize = 24;

/// A context of a function: one flow in one direction. The host chooses it, below its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u32);

impl ContextId {
    pub(super) const NONE: u32 = u32::MAX;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Opcode {
    Send = 1,
    Continuation = 2,
    CreateContext = 3,
    DestroyContext = 4,
    RecoverContext = 5,
    AddRrState = 6,
    DelRrState = 7,
    ResyncResponse = 8,
    InstallListener = 9,
    RemoveListener = 10,
    ListenerCredit = 11,
    Teardown = 12,
    Splice = 13,
    Unsplice = 14,
    Reinject = 15,
    ToeBegin = 16,
    ToeOffer = 17,
    ToeCancel = 18,
    ToeRestore = 19,
    ToeSend = 20,
    ToeConsumed = 21,
    ToeClose = 22,
    ToeAbort = 23,
    ToeDetach = 24,
    ToeOption = 25,
    ToeResume = 26,
    LoadResource = 27,
    UnloadResource = 28,
}

impl Opcode {
    pub(super) fn from_byte(byte: u8) -> Option<Opcode> {
        Some(match byte {
            1 => Opcode::Send,
            2 => Opcode::Continuation,
            3 => Opcode::CreateContext,
            4 => Opcode::DestroyContext,
            5 => Opcode::RecoverContext,
            6 => Opcode::AddRrState,
            7 => Opcode::DelRrState,
            8 => Opcode::ResyncResponse,
            9 => Opcode::InstallListener,
            10 => Opcode::RemoveListener,
            11 => Opcode::ListenerCredit,
            12 => Opcode::Teardown,
            13 => Opcode::Splice,
            14 => Opcode::Unsplice,
            15 => Opcode::Reinject,
            16 => Opcode::ToeBegin,
            17 => Opcode::ToeOffer,
            18 => Opcode::ToeCancel,
            19 => Opcode::ToeRestore,
            20 => Opcode::ToeSend,
            21 => Opcode::ToeConsumed,
            22 => Opcode::ToeClose,
            23 => Opcode::ToeAbort,
            24 => Opcode::ToeDetach,
            25 => Opcode::ToeOption,
            26 => Opcode::ToeResume,
            27 => Opcode::LoadResource,
            28 => Opcode::UnloadResource,
            _ => return None,
        })
    }
}

/// The first word of every send slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) header_len: u8,
    /// Slices in this slot.
    pub(super) slices: u8,
    /// Slots after this one with more of them.
    pub(super) continuations: u8,
    pub(super) mss: u16,
}

impl Head {
    pub(super) fn to_word(self) -> u64 {
        let [low, high] = self.mss.to_le_bytes();
        u64::from_le_bytes([
            self.opcode,
            self.flags,
            self.header_len,
            self.slices,
            self.continuations,
            0,
            low,
            high,
        ])
    }

    pub(super) fn from_word(word: u64) -> Head {
        let bytes = word.to_le_bytes();
        Head {
            opcode: bytes[0],
            flags: bytes[1],
            header_len: bytes[2],
            slices: bytes[3],
            continuations: bytes[4],
            mss: u16::from_le_bytes([bytes[6], bytes[7]]),
        }
    }
}

/// Two numbers in a word.
pub(super) fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The two numbers in a word.
pub(super) fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Writes a flow to words 2 to 6. True for IPv6.
pub(super) fn encode_flow(flow: &FlowKey, words: &mut [u64; SLOT_WORDS]) -> bool {
    encode_flow_at(flow, &mut words[2..7])
}

/// Writes a flow to five words; the upper half of the last one stays as it is. True for IPv6.
pub(super) fn encode_flow_at(flow: &FlowKey, words: &mut [u64]) -> bool {
    encode_address(flow.src.0, &mut words[0..2]);
    encode_address(flow.dst.0, &mut words[2..4]);
    words[4] |= u64::from(flow.src.1) | u64::from(flow.dst.1) << 16;
    flow.src.0.is_ipv6()
}

/// Writes an address to two words.
pub(super) fn encode_address(address: IpAddr, words: &mut [u64]) {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let (low, high) = octets.split_at(8);
    words[0] = u64::from_le_bytes(low.try_into().expect("8 bytes"));
    words[1] = u64::from_le_bytes(high.try_into().expect("8 bytes"));
}

/// Reads a flow from words 2 to 6. `None` when an IPv4 flow's address is not one.
pub(super) fn decode_flow(words: &[u64; SLOT_WORDS], v6: bool) -> Option<FlowKey> {
    decode_flow_at(&words[2..7], v6)
}

/// Reads a flow from five words. `None` when an IPv4 flow's address is not one.
pub(super) fn decode_flow_at(words: &[u64], v6: bool) -> Option<FlowKey> {
    Some(FlowKey {
        src: (decode_address(&words[0..2], v6)?, words[4] as u16),
        dst: (decode_address(&words[2..4], v6)?, (words[4] >> 16) as u16),
    })
}

/// Reads an address from two words. `None` when an IPv4 address is not one.
pub(super) fn decode_address(words: &[u64], v6: bool) -> Option<IpAddr> {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&words[0].to_le_bytes());
    octets[8..].copy_from_slice(&words[1].to_le_bytes());
    let address = Ipv6Addr::from(octets);
    if v6 {
        Some(IpAddr::V6(address))
    } else {
        address.to_ipv4_mapped().map(|v4: Ipv4Addr| IpAddr::V4(v4))
    }
}

/// Where the ids of protocols are in a `CreateContext`: the upper half of this word.
const IDS_WORD: usize = 6;
/// Where their parameters are, with the keys: one protocol's after the other's, the outermost's first.
pub(super) const PARAMETER_WORDS: Range<usize> = 7..SLOT_WORDS;

/// Writes protocols and their parameters.
pub(super) fn encode_layers(layers: &Layers, words: &mut [u64; SLOT_WORDS]) {
    words[IDS_WORD] |= u64::from(layers.ids_word()) << 32;
    for (word, chunk) in words[PARAMETER_WORDS]
        .iter_mut()
        .zip(layers.encoded().chunks_exact(8))
    {
        *word = u64::from_le_bytes(chunk.try_into().expect("8 bytes"));
    }
}

/// Words of a `CreateContext`, by its first eight. `None` when a protocol is not known.
pub(super) fn create_words(words: &[u64; SLOT_WORDS]) -> Option<usize> {
    let ids = (words[IDS_WORD] >> 32) as u32;
    let bytes = Layers::encoded_len(ids).ok()?;
    Some(PARAMETER_WORDS.start + bytes / 8)
}

/// Reads protocols and their parameters.
pub(super) fn decode_layers(words: &[u64; SLOT_WORDS]) -> Option<Layers> {
    let mut bytes = [0; PARAMETER_WORDS.end * 8 - PARAMETER_WORDS.start * 8];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(&words[PARAMETER_WORDS]) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    let layers = Layers::decode((words[IDS_WORD] >> 32) as u32, &bytes);
    bytes.zeroize();
    layers.ok()
}

const _: () = assert!((PARAMETER_WORDS.end - PARAMETER_WORDS.start) * 8 == MAX_PARAMETERS);

/// A place in the stream of an inner protocol as a word: its offset, and the layer in the upper half; 0 for none.
pub(super) fn encode_inner(inner: Option<InnerPlace>) -> u64 {
    inner.map_or(0, |inner| pair(inner.offset, inner.layer.into()))
}

/// Reads what [`encode_inner`] wrote. `Err` for a layer that no context has.
pub(super) fn decode_inner(word: u64) -> Result<Option<InnerPlace>, ErrorCode> {
    let (offset, layer) = unpair(word);
    match u8::try_from(layer) {
        Ok(0) if offset == 0 => Ok(None),
        Ok(layer) if layer != 0 && usize::from(layer) < MAX_LAYERS => {
            Ok(Some(InnerPlace { layer, offset }))
        }
        _ => Err(ErrorCode::BadParameters),
    }
}
