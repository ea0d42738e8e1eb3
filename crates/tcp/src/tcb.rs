//! A connection.

use std::time::Instant;

use wire::SeqNum;
use wire::tcp::Header;

use crate::{Config, ConnectionInfo, Event, Initial, Received, State, TimeWaitEntry, Transmit};

/// One TCP connection: plain data, to be kept anywhere and moved (a TCB). See the crate's root for how to drive it.
#[derive(Clone, Debug)]
pub struct Connection {
    state: State,
}

#[allow(unused_variables)]
impl Connection {
    /// Opens actively (RFC 9293 §3.10.1): the SYN comes from `poll_transmit`.
    pub fn connect(
        now: Instant,
        config: &Config,
        src_port: u16,
        dst_port: u16,
        isn: impl Into<Initial>,
    ) -> Self {
        todo!()
    }

    /// Opens passively: answers `syn`, which came to a listening port; the SYN-ACK comes from `poll_transmit`.
    /// Payload on the SYN is not taken, the peer sends it again.
    pub fn accept(now: Instant, config: &Config, syn: &Header, isn: impl Into<Initial>) -> Self {
        todo!()
    }

    /// Takes a segment of this connection: its header, the bytes of its payload, and the packets that it came in
    /// (more than one after LRO).
    pub fn handle_segment(
        &mut self,
        now: Instant,
        segment: &Header,
        payload_len: u32,
        wire_segments: u16,
    ) -> Received {
        todo!()
    }

    /// Does what is due at `now` (see [`poll_timeout`](Self::poll_timeout)); harmless if nothing is.
    pub fn handle_timeout(&mut self, now: Instant) {
        todo!()
    }

    /// The next segment to send, if any may be sent now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        todo!()
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// When `handle_timeout` is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// The application appended `bytes` to the send queue, at `write_seq`. Returns how many were taken: all, or none if
    /// the connection can send no more ([`State::may_send`]). [`send_space`](Self::send_space) is advice, not a limit.
    pub fn queue(&mut self, now: Instant, bytes: u32) -> u32 {
        todo!()
    }

    /// The application read `bytes` of what is in order; the window may open.
    pub fn consumed(&mut self, now: Instant, bytes: u32) {
        todo!()
    }

    /// Sends a FIN after all queued data (half-close): the peer may go on sending.
    pub fn close(&mut self, now: Instant) {
        todo!()
    }

    /// Nobody will read any more: what comes from now on is answered with RST (RFC 1122 §4.2.2.13), and FIN-WAIT-2 ends
    /// in time. Call it after `close` when the application has let go of the connection.
    pub fn detach(&mut self, now: Instant) {
        todo!()
    }

    /// Ends the connection with a RST at once.
    pub fn abort(&mut self) {
        todo!()
    }

    /// Turns Nagle's algorithm on or off.
    pub fn set_nagle(&mut self, on: bool) {
        todo!()
    }

    /// While on, only full segments are sent (as `TCP_CORK` has it, for at most 200 ms).
    pub fn set_cork(&mut self, now: Instant, on: bool) {
        todo!()
    }

    /// The path takes only smaller packets than thought (ICMP "fragmentation needed" or "packet too big"): `mss` bytes of
    /// TCP payload and options. What was sent too large is sent again.
    pub fn handle_path_mss(&mut self, now: Instant, mss: u16) {
        todo!()
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Oldest position not acknowledged.
    pub fn snd_una(&self) -> SeqNum {
        todo!()
    }

    /// Next position to be sent for the first time.
    pub fn snd_nxt(&self) -> SeqNum {
        todo!()
    }

    /// Highest position sent so far; the same as `snd_nxt`, which never goes back here.
    pub fn snd_max(&self) -> SeqNum {
        todo!()
    }

    /// Position of the next byte to be queued.
    pub fn write_seq(&self) -> SeqNum {
        todo!()
    }

    /// Next position expected from the peer.
    pub fn rcv_nxt(&self) -> SeqNum {
        todo!()
    }

    /// Bytes that may be queued before the send buffer is full.
    pub fn send_space(&self) -> u32 {
        todo!()
    }

    /// Bytes received in order and not consumed.
    pub fn unread(&self) -> u32 {
        todo!()
    }

    /// What the [`TimeWait`](crate::TimeWait) table needs of a connection in TIME-WAIT, `None` in other states.
    pub fn time_wait(&self, now: Instant) -> Option<TimeWaitEntry> {
        todo!()
    }

    /// Figures for people.
    pub fn info(&self, now: Instant) -> ConnectionInfo {
        todo!()
    }
}
