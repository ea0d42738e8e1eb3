//! Segments: to the owner of their connection.

use std::time::Instant;

use nic::ring::ErrorCode;
use nic::ring::accel::Established;
use tcp::State;
use wire::SeqNum;
use wire::packet::Parsed;

use super::{ConnectionOffload, Splices};
use crate::SocketId;
use crate::driver::FrameInfo;
use crate::memory::Buffer;
use crate::socket::{Owner, Socket};
use crate::transport::Unmatched;

impl ConnectionOffload {
    /// Takes a segment. With `opening` it opens a connection that the NIC has set up.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
        opening: Option<Established>,
    ) {
        let transport = &mut self.transport;
        let counters = &mut transport.device.counters;
        counters.tcp_in_segs += 1;
        if !info.checksum_ok && !parsed.verify_checksums(&frame) {
            counters.tcp_in_errs += 1;
            return;
        }
        let flow = parsed.flow.reversed();
        let index = transport.demux.find(&flow);
        let mut found = index.and_then(|index| transport.sockets.id_at(index));
        if let (Some(id), Some(established)) = (found, opening) {
            if self.forget_former(now, id, &flow, &parsed.tcp) {
                found = None;
            } else {
                // The first packet brought the same cookie.
                self.accel.rules.give_back_repeated(established.rule);
            }
        }
        match (found, opening) {
            (Some(id), _) if self.transport.sockets.is_quasi(id) => {
                self.deliver_to_quasi(now, id, frame, parsed, info);
            }
            (Some(id), _) => self.deliver(now, id, frame, parsed, info),
            (None, Some(established)) => self.take_opening(now, established, frame, parsed, info),
            (None, None) if self.transport.link.interface.is_local(flow.src.0) => {
                self.handle_unmatched_segment(now, frame, parsed, info.segments);
            }
            (None, None) => self.transport.device.counters.ip_in_addr_errors += 1,
        }
    }

    /// Gives a segment to the owner of its connection.
    pub fn deliver(
        &mut self,
        now: Instant,
        id: SocketId,
        frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
    ) {
        let Some(socket) = self.transport.sockets.get(id) else {
            return;
        };
        if !matches!(socket.owner, Owner::Host) {
            return self.deliver_shared(now, id, frame, parsed, info);
        }
        if socket.tcp.state() == State::SynReceived && self.accel.answers_other(socket, parsed) {
            self.transport.device.counters.accel_early_segments += 1;
            return;
        }
        self.transport.deliver(now, id, frame, parsed, info);
    }

    /// The same for a connection that the NIC has, or is to have.
    fn deliver_shared(
        &mut self,
        now: Instant,
        id: SocketId,
        frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
    ) {
        if !self.host_takes(now, id, parsed) {
            // It came after its flow was handed over.
            return self.put_back(frame, &info);
        }
        let is_parked = |socket: &Socket| socket.tcp.is_parked();
        if self.transport.sockets.get(id).is_some_and(is_parked) && !self.take_let_go(now, id) {
            // All of the flow's packets are the NIC's: as if it were lost.
            self.transport.device.counters.handoff_stale += 1;
            return;
        }
        let socket = self.transport.sockets.get(id);
        if socket.is_some_and(|socket| socket.owner.splice().is_some()) {
            return self.take_spliced(now, id, frame, parsed, info);
        }
        self.transport.deliver(now, id, frame, parsed, info);
    }

    /// Takes a segment that belongs to no connection.
    fn handle_unmatched_segment(
        &mut self,
        now: Instant,
        frame: Buffer,
        parsed: &Parsed,
        segments: u16,
    ) {
        let unmatched = self
            .transport
            .handle_unmatched_segment(now, frame, parsed, segments);
        let counters = &mut self.transport.device.counters;
        match unmatched {
            Unmatched::Handled => {}
            Unmatched::RefusedAt(listener, frame) if self.accel.rules.answers_for(listener) => {
                if self.accel.may_be_early(now, parsed) {
                    counters.accel_early_segments += 1;
                } else {
                    counters.accel_bad_cookies += 1;
                    self.refuse(&frame, parsed);
                }
            }
            Unmatched::Refused(frame) | Unmatched::RefusedAt(_, frame) => {
                self.refuse(&frame, parsed);
            }
        }
    }

    /// Answers a segment of no connection by a reset.
    pub(super) fn refuse(&mut self, frame: &[u8], parsed: &Parsed) {
        let transport = &mut self.transport;
        transport.link.refuse(frame, parsed, &mut transport.device);
    }

    /// The NIC did not do what a descriptor asked for, whose first slot had this index.
    pub fn handle_refusal(&mut self, now: Instant, tcpsn: SeqNum, error: ErrorCode, index: u64) {
        if self.accel_refused(now, index, error) {
            return;
        }
        // A splice reads no memory; a packet's position may look like a splice's number.
        if error != ErrorCode::SourceFaulted && Splices::is_number(tcpsn.0) {
            self.take_splice_refusal(now, tcpsn.0, error);
        } else {
            self.transport.handle_refusal(None, tcpsn, error);
        }
    }
}
