//! Packets of connections that the device runs, and reports about their paths.

use std::time::Instant;

use wire::{SeqNum, ipv4, ipv6};

use super::{Toe, ToeEnv};
use crate::ring::toe::ToeId;
use crate::rx_queue::{NicPacket, Taken};

impl Toe {
    /// Takes the next packet of a function's connection, by the host's number for it, to TCP. What TCP accepts of it must be on
    /// the receive ring before the next call.
    pub(crate) fn handle_packet(
        &mut self,
        env: &mut ToeEnv<'_>,
        index: u32,
        packet: &NicPacket,
    ) -> Taken {
        let nothing = Taken {
            toe: ToeId {
                index,
                generation: 0,
            },
            accepted: None,
            rcv_nxt: SeqNum(0),
            acked: (SeqNum(0), 0),
        };
        let Some(at) = self.table.by_index(env.function.id.0, index) else {
            return nothing;
        };
        let Some(entry) = self.table.get_mut(at) else {
            return nothing;
        };
        let toe = entry.toe;
        entry.load.add(env.now, u32::from(packet.segments()));
        let Some(connection) = &mut entry.connection else {
            return Taken { toe, ..nothing };
        };
        let received = connection.handle_segment(
            env.now,
            &packet.header,
            packet.payload_len(),
            packet.segments(),
        );
        entry.fin_taken |= received.fin;
        let (snd_una, flight) = (connection.snd_una(), connection.flight_limit());
        if received.data.is_some_and(|data| data.len > 0) {
            // It is reported with that.
            entry.unreported.reported_una = snd_una;
        }
        let taken = Taken {
            toe,
            accepted: received.data,
            rcv_nxt: entry.rcv_nxt(),
            acked: (snd_una, flight),
        };
        env.function.counters.toe_rx_bytes += u64::from(received.data.map_or(0, |data| data.len));
        self.settle(at);
        taken
    }

    /// The segment at `seq` of the connection at this place was too big: its path takes IP packets of `mtu` bytes only (RFC 1191,
    /// RFC 8201). False when nothing is on its way there.
    pub(crate) fn path_shrank(&mut self, now: Instant, at: u32, seq: SeqNum, mtu: u32) -> bool {
        let Some(entry) = self.table.get_mut(at) else {
            return true;
        };
        let Some(connection) = &mut entry.connection else {
            return true;
        };
        // RFC 5927 §4.1: who can't tell what is in flight has not seen it.
        let in_flight = connection.snd_una().at_or_before(seq) && seq.before(connection.snd_nxt());
        if in_flight {
            let headers = match entry.flow.src.0.is_ipv4() {
                true => ipv4::HEADER_LEN,
                false => ipv6::HEADER_LEN,
            } + TCP_HEADER;
            let mss = mtu.saturating_sub(headers as u32).min(u32::from(u16::MAX));
            connection.handle_path_mss(now, mss as u16);
            self.settle(at);
        }
        in_flight
    }

    /// Most bytes of payload and options of a packet that the wire takes.
    pub(super) fn most_payload(mtu: u16, v4: bool) -> u16 {
        let ip = if v4 {
            ipv4::HEADER_LEN
        } else {
            ipv6::HEADER_LEN
        };
        mtu.saturating_sub((ip + TCP_HEADER) as u16)
    }
}

/// Bytes of a TCP header without options.
const TCP_HEADER: usize = 20;
