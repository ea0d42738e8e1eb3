//! RSS as a guest has it: key and table in its memory, packets on the queue that the table says.

use wire::ethernet::MacAddr;

use super::rig::*;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 30]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 31]);

/// The feature, the commands, and the bytes of the settings, as `docs/device.md` has them.
const RSS: u64 = 0x80;
const SET_RSS: u8 = 30;
const QUERY_RSS: u8 = 31;
const BYTES: usize = 304;
/// Errors.
const BAD_LENGTH: u8 = 2;
const BAD_PARAMETERS: u8 = 3;
const BAD_MEMORY: u8 = 5;

/// Where the settings are, and where the guest has them written.
const SETTINGS: u64 = RAM + (3 << 20);
const BACK: u64 = SETTINGS + 4096;
const PACKET: u64 = SETTINGS + 8192;

/// All types of hash, the key of the verification suite, and a table that says so.
fn settings(table: impl Fn(usize) -> u16) -> [u8; BYTES] {
    let key = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    let mut bytes = [0; BYTES];
    bytes[0] = 63;
    bytes[8..48].copy_from_slice(&key);
    for (at, entry) in bytes[48..].as_chunks_mut().0.iter_mut().enumerate() {
        *entry = table(at).to_le_bytes();
    }
    bytes
}

/// A guest with two queues.
fn spread(process: &Process) -> Guest {
    let mut guest = Guest::new(process, 0);
    guest.set_sizes();
    guest.write64(QUEUES_WANTED, 2);
    guest.write64(FEATURES, RSS);
    assert_eq!(guest.enable(), READY | LINK);
    guest.post(BUFFERS, 32);
    guest.post_first(1, BUFFERS + 32 * 2048, 32);
    guest
}

/// The IPv4 packet of the verification suite: from 66.9.149.187, port 2794, to 161.142.100.80, port 1766; a datagram.
fn datagram() -> [u8; 28] {
    let mut packet = [0; 28];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17]);
    packet[12..20].copy_from_slice(&[66, 9, 149, 187, 161, 142, 100, 80]);
    packet[20..22].copy_from_slice(&2794u16.to_be_bytes());
    packet[22..24].copy_from_slice(&1766u16.to_be_bytes());
    packet[25] = 8;
    wire::ipv4::fill_checksum(&mut packet[..20]);
    packet
}

#[test]
fn packets_go_where_a_guests_table_says() {
    let process = Process::start(&[A, B]);
    let mut guest = spread(&process);
    let mut peer = Guest::enabled(&process, 1);
    peer.poke(PACKET, &datagram());
    let hash = 0x51cc_c178u32;
    for (count, queue) in [(1, 1), (1, 0), (2, 1)] {
        let hit = hash as usize % 128;
        let table = settings(|at| if at == hit { queue } else { 1 - queue });
        guest.poke(SETTINGS, &table);
        guest.command(SET_RSS, SETTINGS, BYTES as u32);
        guest.command(QUERY_RSS, BACK, BYTES as u32);
        guest.wait_until_sent();
        assert_eq!(guest.peek::<BYTES>(BACK), table);
        peer.send_typed(B, A, [8, 0], PACKET, 28);
        let packet = guest.nth(queue.into(), count);
        assert_eq!(packet[0], 1, "a packet");
        assert_eq!(packet[32..36], hash.to_le_bytes());
        assert_eq!(packet[37], 4, "addresses and ports of UDP");
    }
}

#[test]
fn wrong_settings_of_a_guest_are_refused() {
    let process = Process::start(&[A, B]);
    let mut guest = spread(&process);
    let good = settings(|_| 1);
    guest.poke(SETTINGS, &good);
    guest.command(SET_RSS, SETTINGS, BYTES as u32);
    guest.wait_until_sent();
    let mut refused = |bytes: &[u8; BYTES], address, len, error| {
        guest.poke(SETTINGS, bytes);
        for opcode in [SET_RSS, QUERY_RSS] {
            guest.command(opcode, address, len);
            guest.wait_until_sent();
            let told: Vec<_> = guest.take().iter().map(|it| (it[0], it[1])).collect();
            // Settings that can't be are as good a place as any to write to.
            if opcode == SET_RSS || error != BAD_PARAMETERS {
                assert_eq!(told, [(3, error)]);
            } else {
                assert_eq!(told, []);
                assert_eq!(guest.peek::<BYTES>(address), good);
            }
        }
    };
    let whole = BYTES as u32;
    // A queue that the function has not, though the device has: the table is one of two.
    refused(
        &settings(|at| 2 * u16::from(at == 127)),
        SETTINGS,
        whole,
        BAD_PARAMETERS,
    );
    refused(&settings(|_| u16::MAX), SETTINGS, whole, BAD_PARAMETERS);
    for len in [0, 40, whole - 1, whole + 1, u32::MAX] {
        refused(&good, SETTINGS, len, BAD_LENGTH);
    }
    for address in [0x1000, RAM - 8, RAM + RAM_BYTES - 8, u64::MAX - 8] {
        refused(&good, address, whole, BAD_MEMORY);
    }
    guest.command(QUERY_RSS, BACK, whole);
    guest.wait_until_sent();
    assert_eq!(guest.peek::<BYTES>(BACK), good);
}
