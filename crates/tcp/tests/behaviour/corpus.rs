//! Runs the fuzz target of this crate over its stored inputs.

#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/tcp_endpoint.rs"]
mod tcp_endpoint;

use proptest::prelude::*;

#[test]
fn stored_inputs_find_nothing() {
    replay::replay("tcp_endpoint", tcp_endpoint::run);
}

/// Settings, our initial sequence number, an active open; the peer's SYN-ACK with all options.
const HANDSHAKE: [u8; 22] = [
    0x3f,
    0,
    0xff,
    0xff,
    0xff,
    0,
    0, //
    0,
    0,
    100,
    1,
    0xff,
    0xff,
    5 | 32 | 64 | 128,
    0,
    0,
    0x05,
    0xb4,
    7,
    0,
    0,
    1,
];

proptest! {
    #![proptest_config(crate::cases(2_000))]

    /// Behind a handshake, so that most of them meet a connection.
    #[test]
    fn arbitrary_inputs_find_nothing(data in prop::collection::vec(any::<u8>(), 0..1_500), options: u8, sizes: u8) {
        let mut input = HANDSHAKE.to_vec();
        input[..2].copy_from_slice(&[options, sizes]);
        input.extend(data);
        tcp_endpoint::run(&input);
    }
}
