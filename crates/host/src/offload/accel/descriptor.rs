//! What the NIC is told of a connection that it is to finish.

use std::time::Duration;

use nic::ring::accel::{Teardown, TimestampState};
use tcp::{Closing, State};
use wire::FlowKey;
use wire::ethernet::MacAddr;

use crate::SocketId;
use crate::driver::HOP_LIMIT;
use crate::socket::Sockets;
use crate::socket::quasi::{Flag, Quasi};
use crate::transport::Transport;

/// RFC 6298 §2.1: nothing was measured.
const INITIAL_RTO_US: u32 = 1_000_000;

/// The descriptor of a connection with a quasi control block, whose peer has sent `taken` bytes. `clock` is that of quasi control blocks.
pub(super) fn of_quasi(
    transport: &Transport,
    id: SocketId,
    quasi: &Quasi,
    taken: u32,
    hop: MacAddr,
    clock: u32,
) -> Teardown {
    let Sockets { quasis, .. } = &transport.sockets;
    let (flow, handshake) = (quasis.flow(quasi), quasis.handshake(quasi, clock));
    let config = &transport.config.tcp;
    let fin = u32::from(quasi.is(Flag::PeerFin));
    let peer_shift = handshake.peer_shift(config);
    let link = &transport.link;
    let path_mss = link.path_mtus.mss(transport.last_poll, flow.dst.0);
    let mss = link.interface.mss(!flow.is_ipv6());
    let mss = path_mss.map_or(mss, |path_mss| path_mss.min(mss));
    Teardown {
        ticket: id.index,
        flow,
        hop,
        hop_limit: HOP_LIMIT,
        peer_closed: fin != 0,
        snd_una: quasi.first,
        snd_nxt: quasi.first,
        rcv_nxt: quasi.start + taken + fin,
        peer_window: u32::from(quasi.window) << peer_shift,
        peer_shift,
        window: handshake.window_field(config),
        our_shift: handshake.our_shift(config),
        mss: handshake.payload_mss(mss),
        timestamps: Some(TimestampState {
            recent: quasi.recent,
            value: handshake.timestamp,
        }),
        rto_us: INITIAL_RTO_US.max(micros(config.min_rto)),
        retransmits: 0,
        time_wait_ms: millis(config.time_wait),
        fin_wait2_ms: millis(config.fin_wait_2),
    }
}

/// The descriptor of a connection with a full control block.
pub(super) fn of_full(
    config: &tcp::Config,
    id: SocketId,
    flow: FlowKey,
    hop: MacAddr,
    closing: &Closing,
) -> Teardown {
    Teardown {
        ticket: id.index,
        flow,
        hop,
        hop_limit: HOP_LIMIT,
        peer_closed: closing.state == State::CloseWait,
        snd_una: closing.snd_una,
        snd_nxt: closing.snd_nxt,
        rcv_nxt: closing.rcv_nxt,
        peer_window: closing.peer_window,
        peer_shift: closing.peer_shift,
        window: closing.window,
        our_shift: closing.our_shift,
        mss: closing.mss,
        timestamps: closing
            .timestamps
            .map(|(recent, value)| TimestampState { recent, value }),
        rto_us: micros(closing.rto),
        retransmits: 0,
        time_wait_ms: millis(config.time_wait),
        fin_wait2_ms: millis(config.fin_wait_2),
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
