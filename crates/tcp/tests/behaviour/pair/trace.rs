//! A line for each packet.

use std::fmt::Write;

use wire::tcp::{Flags, Header};
use wire::{Ecn, SeqNum};

use super::Pair;
use crate::link::Packet;

impl Pair {
    /// A packet as tcpdump has it, and how its sender sees the path.
    pub(super) fn trace_line(&self, from: usize, packet: &Packet) -> String {
        let Header {
            seq, ack, flags, ..
        } = packet.header;
        let (header, options) = (&packet.header, &packet.header.options);
        let isns = self.isns.map(SeqNum);
        let (isn, other) = (isns[from], isns[1 - from]);
        let at = (self.now - self.start).as_nanos() as f64 / 1e9;
        let mut line = format!(
            "{at:.6} {} {flags:?} {}:{}",
            ["client", "server"][from],
            isn.distance_to(seq),
            isn.distance_to(seq + packet.len())
        );
        if flags.contains(Flags::ACK) {
            write!(line, " ack {}", other.distance_to(ack)).unwrap();
        }
        write!(line, " win {}", header.window).unwrap();
        if header.ecn != Ecn::NotEct {
            write!(line, " {:?}", header.ecn).unwrap();
        }
        if let Some(mss) = options.mss {
            write!(
                line,
                " mss {mss} scale {:?} sack {}",
                options.window_scale, options.sack_permitted
            )
            .unwrap();
        }
        if let Some(timestamps) = options.timestamps {
            write!(line, " ts {} {}", timestamps.val, timestamps.echo).unwrap();
        }
        for (left, right) in options.sack.as_slice() {
            write!(
                line,
                " sack {}:{}",
                other.distance_to(*left),
                other.distance_to(*right)
            )
            .unwrap();
        }
        let info = self.sides[from].connection.info(self.now);
        write!(line, " | {:?} cwnd {}", info.state, info.cwnd).unwrap();
        if let Some(threshold) = info.ssthresh {
            write!(line, " ssthresh {threshold}").unwrap();
        }
        write!(
            line,
            " flight {} rto {:?} {}",
            info.in_flight, info.rto, info.recovery
        )
        .unwrap();
        line
    }
}
