//! Segments and their headers (RFC 9293 §3.1).

use std::time::Instant;

use wire::tcp::{Flags, Header, Options, SackBlocks};
use wire::{Ecn, SeqNum};

use crate::time::Time;
use crate::timer::Timer;
use crate::{Connection, Transmit};

impl Connection {
    /// Where the peer takes a segment without payload.
    pub(crate) fn acceptable_seq(&self) -> SeqNum {
        let snd = &self.snd;
        match self.state.is_synchronized() {
            true => (snd.window).acceptable_seq(snd.una, snd.nxt, self.options.snd_shift),
            false => snd.nxt,
        }
    }

    /// Where a RST goes: behind all that was sent. More than the largest window can't have been, whatever an owner that is gone
    /// was given to send.
    pub(crate) fn reset_seq(&self) -> SeqNum {
        if self.state.is_synchronized() {
            self.snd.nxt.min(self.snd.una + self.snd.window.largest())
        } else {
            self.snd.nxt
        }
    }

    /// Brings a segment that was given out before, and is to be sent only now, up to date with what has come meanwhile: what it
    /// acknowledges, its window and its timestamps (RFC 7323 §3.2: a late one with an old TSval may be taken for an old duplicate).
    pub fn bring_up_to_date(&mut self, now: Instant, transmit: &mut Transmit) {
        if !self.state.is_synchronized() {
            return;
        }
        let Header {
            seq, flags, ecn, ..
        } = transmit.header;
        // What was missing then may have come: only an ACK of its own goes on with its blocks.
        let sack = match transmit.payload {
            0 => transmit.header.options.sack,
            _ => SackBlocks::EMPTY,
        };
        let now = self.time(now);
        let flags = flags.without(Flags::ECE);
        transmit.header = Header {
            ecn,
            ..self.header(now, seq, flags, sack)
        };
    }

    /// `start..end` of what is outstanding; the last position may be the FIN.
    pub(crate) fn data_segment(
        &mut self,
        now: Time,
        start: SeqNum,
        end: SeqNum,
        retransmit: bool,
    ) -> Transmit {
        let fin = end.after(self.snd.write_seq);
        let payload = start.distance_to(end) - u32::from(fin);
        let mut flags = Flags::ACK;
        if fin {
            flags |= Flags::FIN;
        }
        if payload > 0 && (start + payload == self.snd.write_seq) {
            flags |= Flags::PSH;
        }
        self.stats.segments_out += 1;
        self.stats.bytes_sent += u64::from(payload);
        let sack = self.sack_beside(payload);
        let mut header = self.header(now, start, flags, sack);
        if payload > 0 && !retransmit {
            self.ecn.mark(&mut header);
        }
        if self.settings.pacing {
            self.pace(now, payload);
        }
        Transmit {
            header,
            payload,
            mss: self.snd.mss,
            retransmit,
        }
    }

    /// The SACK blocks that have room in a packet of so much payload (RFC 2018 §4).
    fn sack_beside(&mut self, payload: u32) -> SackBlocks {
        /// Bytes of the option without blocks, padded, and of each block.
        const OPTION: u32 = 4;
        const BLOCK: u32 = 8;
        if !self.options.sack || !self.rcv.has_report() {
            return SackBlocks::EMPTY;
        }
        let room = u32::from(self.snd.mss).saturating_sub(payload + OPTION) / BLOCK;
        match self.max_sack_blocks().min(room as usize) {
            0 => SackBlocks::EMPTY,
            most => self.rcv.take_report(most),
        }
    }

    /// SACK blocks that fit beside the other options.
    pub(crate) fn max_sack_blocks(&self) -> usize {
        if self.options.timestamps { 3 } else { 4 }
    }

    pub(crate) fn empty_segment(&mut self, now: Time, seq: SeqNum, sack: SackBlocks) -> Transmit {
        let header = self.header(now, seq, Flags::ACK, sack);
        Transmit {
            header,
            payload: 0,
            mss: self.snd.mss,
            retransmit: false,
        }
    }

    fn header(&mut self, now: Time, seq: SeqNum, flags: Flags, sack: SackBlocks) -> Header {
        let window = self.rcv.window_field(self.options.rcv_shift);
        self.rcv.note_ack_sent(window, self.options.rcv_shift);
        self.timers.cancel(Timer::DelayedAck);
        Header {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq,
            ack: self.rcv.nxt,
            flags: flags | self.ecn.echo_flag(),
            window,
            options: Options {
                timestamps: self.options.timestamps.then(|| self.timestamps.option(now)),
                sack,
                ..Options::default()
            },
            ecn: Ecn::NotEct,
        }
    }

    /// With timestamps, if the SYNs have agreed on them (RFC 7323 §3.2).
    pub(crate) fn reset_segment(&self, now: Time, seq: SeqNum) -> Transmit {
        let has_timestamps = self.options.timestamps && self.rcv.has_started();
        let header = Header {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq,
            flags: Flags::RST,
            options: Options {
                timestamps: has_timestamps.then(|| self.timestamps.option(now)),
                ..Options::default()
            },
            ..Header::default()
        };
        Transmit {
            header,
            payload: 0,
            mss: self.snd.mss,
            retransmit: false,
        }
    }
}
