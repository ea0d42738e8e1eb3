//! What hosts ask of a NIC that sets connections up and finishes them.

use nic::ring::accel::{ListenerOptions, Teardown, TimestampState};
use wire::{FlowKey, SeqNum};

use crate::fixtures::PEER;

/// A listener that offers everything.
pub fn listener() -> ListenerOptions {
    ListenerOptions {
        mss: 1460,
        window: 65_535,
        window_scale: Some(9),
        sack: true,
        backlog: 64,
        defer: true,
        hop_limit: 64,
    }
}

/// A connection that the host has closed, with nothing of it on its way: the peer's next byte is `rcv_nxt`, our next one `snd_nxt`.
pub fn teardown(flow: FlowKey, snd_nxt: SeqNum, rcv_nxt: SeqNum) -> Teardown {
    Teardown {
        ticket: 0,
        flow,
        hop: PEER,
        hop_limit: 64,
        peer_closed: false,
        snd_una: snd_nxt,
        snd_nxt,
        rcv_nxt,
        peer_window: 65_535,
        peer_shift: 0,
        our_shift: 7,
        window: 500,
        mss: 1448,
        timestamps: Some(TimestampState {
            recent: 1,
            value: 2,
        }),
        rto_us: 200_000,
        retransmits: 0,
        time_wait_ms: 60_000,
        fin_wait2_ms: 60_000,
    }
}
