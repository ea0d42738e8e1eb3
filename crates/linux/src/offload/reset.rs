//! Ending a connection whose library has lied, or has not come back: a sender is answered as if it did not exist.

use attachment::{Direction, OffloadState};
use nic::ring::{SendDescriptor, SendFlags};
use wire::checksum::Sum;
use wire::ethernet::MacAddr;
use wire::packet::{self, Parsed};
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

use super::answered::{Answered, HOP_LIMIT, macs};
use super::flow::Health;
use super::{DriverEnv, Offload};

impl Offload {
    /// Ends a connection.
    pub(super) fn reset(&mut self, index: u32, env: &mut DriverEnv<'_>) {
        let flow = self.flow(index);
        if flow.health == Health::Reset {
            return;
        }
        flow.health = Health::Reset;
        let entry = flow.entry.0;
        for direction in [Direction::Transmit, Direction::Receive] {
            flow.report(direction, OffloadState::Reset);
        }
        self.table.set_reset(entry);
        env.counters.tls_resets += 1;
        self.check_soon(index, env.now);
    }

    /// Tells Linux, which has sent this segment, that there is no such connection; and the peer.
    pub(super) fn answer_linux(&mut self, frame: &[u8], parsed: &Parsed, env: &mut DriverEnv<'_>) {
        if parsed.tcp.flags.contains(Flags::RST) {
            // It knows. So shall the peer.
            self.acknowledge_to_peer(frame, parsed, parsed.tcp.seq, env);
            return;
        }
        self.answer(|| reset_for(parsed, frame, true));
        let una = self
            .index_of(&parsed.flow)
            .map(|index| self.flow(index).una);
        self.acknowledge_to_peer(frame, parsed, una.unwrap_or(parsed.tcp.seq), env);
    }

    /// Tells the peer, which has sent this segment, that there is no such connection.
    pub(super) fn answer_peer(&mut self, frame: &[u8], parsed: &Parsed, env: &mut DriverEnv<'_>) {
        if parsed.tcp.flags.contains(Flags::RST) {
            return;
        }
        post(reset_for(parsed, frame, false), env);
    }

    /// Sends the peer of a segment of Linux's a reset at `seq`.
    fn acknowledge_to_peer(
        &self,
        frame: &[u8],
        parsed: &Parsed,
        seq: SeqNum,
        env: &mut DriverEnv<'_>,
    ) {
        let header = Header {
            src_port: parsed.flow.src.1,
            dst_port: parsed.flow.dst.1,
            seq,
            ack: parsed.tcp.ack,
            flags: Flags::RST.union(Flags::ACK),
            ..Header::default()
        };
        let (from, to) = macs(frame);
        post(emit(from, to, parsed.flow, &header, false), env);
    }
}

/// What a host without the connection answers to a segment (RFC 9293 §3.10.7.1).
fn reset_for(parsed: &Parsed, frame: &[u8], is_checked: bool) -> Answered {
    let (tcp, flow) = (&parsed.tcp, parsed.flow.reversed());
    let occupied = parsed.payload_len
        + u32::from(tcp.flags.contains(Flags::SYN))
        + u32::from(tcp.flags.contains(Flags::FIN));
    let (seq, flags) = match tcp.flags.contains(Flags::ACK) {
        true => (tcp.ack, Flags::RST),
        false => (SeqNum(0), Flags::RST.union(Flags::ACK)),
    };
    let header = Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq,
        ack: tcp.seq + occupied,
        flags,
        ..Header::default()
    };
    let (from, to) = macs(frame);
    emit(to, from, flow, &header, is_checked)
}

fn emit(from: MacAddr, to: MacAddr, flow: FlowKey, header: &Header, is_checked: bool) -> Answered {
    Answered::new(|buffer| match is_checked {
        true => {
            let nothing = Some(Sum::of(&[]));
            let emit = packet::emit_checked_tcp_headers;
            emit(buffer, [from, to], &flow, header, 0, HOP_LIMIT, nothing)
        }
        false => packet::emit_tcp_headers(buffer, from, to, &flow, header, 0, HOP_LIMIT),
    })
}

/// A frame for the wire. If there is no room it is lost, as on any wire.
fn post(answer: Answered, env: &mut DriverEnv<'_>) {
    let posted = env.rings.send().post(&SendDescriptor::Send {
        header: answer.frame(),
        mss: 0,
        context: None,
        flags: SendFlags::CHECKSUM,
        payload: &[],
    });
    if posted.is_err() {
        env.counters.tx_dropped += 1;
    }
}
