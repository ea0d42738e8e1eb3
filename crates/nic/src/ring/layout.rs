//! How descriptors are laid out in words; shared by both sides.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use l5p::nvme;
use l5p::tls::CryptoInfo;
use wire::FlowKey;
use zeroize::Zeroize;

/// Words of a send slot: 64 bytes of descriptor and 128 of packet headers.
pub const SLOT_WORDS: usize = 24;
/// Bytes in which a command carries the parameters of TLS.
const TLS_BYTES: usize = CryptoInfo::ENCODED_LEN;

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

/// Where the parameters of TLS are, with the keys.
pub(super) const TLS_WORDS: Range<usize> = 7..15;
/// Where the parameters of the inner, or only, NVMe/TCP engine are.
const NVME_WORD: usize = 15;
/// Words of a `CreateContext` behind the first eight.
pub(super) const CREATE_WORDS: usize = 8;

/// Writes the parameters of TLS to words 7 to 14.
pub(super) fn encode_tls(crypto: &CryptoInfo, words: &mut [u64; SLOT_WORDS]) {
    let mut bytes = crypto.to_bytes();
    for (word, chunk) in words[TLS_WORDS].iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(padded);
    }
    bytes.zeroize();
}

/// Reads the parameters of TLS from words 7 to 14.
pub(super) fn decode_tls(words: &[u64; SLOT_WORDS]) -> Option<CryptoInfo> {
    let mut bytes = [0; TLS_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(&words[TLS_WORDS]) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    let crypto = CryptoInfo::from_bytes(&bytes).ok();
    bytes.zeroize();
    crypto
}

/// Writes the parameters of NVMe/TCP to word 15.
pub(super) fn encode_nvme(nvme: &nvme::Parameters, words: &mut [u64; SLOT_WORDS]) {
    words[NVME_WORD] = u64::from_le_bytes(nvme.to_bytes());
}

/// Reads the parameters of NVMe/TCP from word 15.
pub(super) fn decode_nvme(words: &[u64; SLOT_WORDS]) -> Option<nvme::Parameters> {
    nvme::Parameters::from_bytes(&words[NVME_WORD].to_le_bytes()).ok()
}
