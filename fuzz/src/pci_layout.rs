//! Where everything is that a guest and its VMM use of a PCI function: `docs/device.md` and the protocol vfio-user in numbers.

use nic::ring::FunctionConfig;
use testkit::fixtures::HOST;
use wire::ethernet::MacAddr;

/// The neighbour's address; the guest's is [`HOST`].
pub const NEIGHBOUR: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
/// A type of Ethernet for experiments.
pub const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

/// Commands of vfio-user.
pub const DMA_MAP: u16 = 2;
pub const DMA_UNMAP: u16 = 3;
pub const SET_IRQS: u16 = 8;
pub const REGION_READ: u16 = 9;
pub const REGION_WRITE: u16 = 10;
pub const DEVICE_RESET: u16 = 13;
/// A flag of theirs.
pub const NO_REPLY: u32 = 0x10;

/// Where parts of the guest's memory are in its file, and bytes of all of it: rings, buffers, payload, and what is not mapped at first.
pub const BUFFERS: u64 = 0x10000;
pub const PAYLOAD: u64 = 0x20000;
pub const UNMAPPED: u64 = 0x30000;
pub const RAM_BYTES: u64 = 0x40000;
/// Where its file begins for the guest.
pub const RAM: u64 = 0x1_0000_0000;

/// Entries of rings.
pub const ENTRIES: u64 = 32;
pub const RECEIVE_ENTRIES: u64 = 64;
pub const LARGE_ENTRIES: u64 = 8;
pub const SMALL_BYTES: u32 = 2048;
pub const LARGE_BYTES: u32 = 8192;
pub const QUEUES: u64 = 2;
/// Where in a queue's block each ring begins, how many slots it has and how long these are.
pub const RINGS: [(u64, u64, u64); 5] = {
    let send = 384 + ENTRIES * 192;
    let receive = 2 * send + 384 + RECEIVE_ENTRIES * 64;
    let small = receive + 384 + ENTRIES * 16;
    [
        (0, ENTRIES, 192),
        (send, ENTRIES, 192),
        (2 * send, RECEIVE_ENTRIES, 64),
        (receive, ENTRIES, 16),
        (small, LARGE_ENTRIES, 16),
    ]
};
/// Names of these.
pub const SEND: usize = 0;
pub const COMMAND: usize = 1;
pub const RECEIVE: usize = 2;
pub const SMALL: usize = 3;
pub const LARGE: usize = 4;
/// Bytes of a queue's block.
pub const BLOCK: u64 = RINGS[LARGE].0 + 384 + LARGE_ENTRIES * 16;

/// Registers.
pub const CONTROL: u64 = 0x008;
pub const STATUS: u64 = 0x00c;
pub const FEATURES: u64 = 0x020;
pub const SIZES: u64 = 0x040;
pub const ADDRESSES: u64 = 0x200;
pub const DOORBELLS: u64 = 0x1000;
/// Bits of STATUS.
pub const READY: u32 = 1;
pub const LINK: u32 = 2;

/// Sizes and quotas of both functions.
pub fn config() -> FunctionConfig {
    FunctionConfig {
        send_entries: ENTRIES as u32,
        command_entries: ENTRIES as u32,
        receive_entries: RECEIVE_ENTRIES as u32,
        small_entries: ENTRIES as u32,
        large_entries: LARGE_ENTRIES as u32,
        large_bytes: LARGE_BYTES,
        contexts: 8,
        tags: 64,
        closing: 8,
        packet_memory: 1 << 16,
        splices: 8,
        toe_connections: 8,
        ..FunctionConfig::new(HOST)
    }
}

pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn longs(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A slice of the bus's address space.
pub fn slice(address: u64, len: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_ne_bytes());
    bytes[8..12].copy_from_slice(&len.to_ne_bytes());
    bytes
}

/// A `Send` of at most three slices, without a context.
pub fn send_slot(header: &[u8], slices: &[(u64, u32)]) -> [u8; 192] {
    let mut slot = [0; 192];
    slot[..4].copy_from_slice(&[1, 0, header.len() as u8, slices.len() as u8]);
    slot[8..12].fill(0xff);
    let len = slices
        .iter()
        .fold(0u32, |sum, (_, len)| sum.wrapping_add(*len));
    slot[12..16].copy_from_slice(&len.to_ne_bytes());
    for (place, (address, len)) in slot[16..64].chunks_exact_mut(16).zip(slices) {
        place.copy_from_slice(&slice(*address, *len));
    }
    slot[64..64 + header.len()].copy_from_slice(header);
    slot
}
