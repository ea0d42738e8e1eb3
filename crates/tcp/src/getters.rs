//! What a connection says of itself.

use std::time::{Duration, Instant};

use wire::SeqNum;

use crate::{Connection, State, TimeWaitEntry};

impl Connection {
    /// When `handle_timeout` is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_parked() {
            return None;
        }
        self.timers.earliest().map(|time| time.instant(self.epoch))
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Our port.
    pub fn src_port(&self) -> u16 {
        self.src_port
    }

    /// The peer's port.
    pub fn dst_port(&self) -> u16 {
        self.dst_port
    }

    /// The peer has opened it.
    pub fn is_passive(&self) -> bool {
        self.passive
    }

    /// The peer has acknowledged our SYN.
    pub fn was_established(&self) -> bool {
        self.snd.una != self.snd.iss
    }

    /// Oldest position not acknowledged.
    pub fn snd_una(&self) -> SeqNum {
        self.snd.una
    }

    /// Next position to be sent for the first time.
    pub fn snd_nxt(&self) -> SeqNum {
        self.snd.nxt
    }

    /// Position of the next byte to be queued.
    pub fn write_seq(&self) -> SeqNum {
        self.snd.write_seq
    }

    /// Next position expected from the peer.
    pub fn rcv_nxt(&self) -> SeqNum {
        self.rcv.nxt
    }

    /// The retransmission timeout (RFC 6298 §2) as if it had not backed off.
    pub fn base_rto(&self) -> Duration {
        Duration::from_nanos(self.rtt.base_rto())
    }

    /// Payload bytes per packet that we send.
    pub fn mss(&self) -> u16 {
        self.snd.mss
    }

    /// Bytes that may be under way at once, as the congestion window and the peer's window stand.
    pub fn flight_limit(&self) -> u32 {
        match self.parked {
            Some(flight) => flight.get(),
            None => self.congestion.cwnd().min(self.snd.window.bytes()),
        }
    }

    /// Bytes of data that the peer has acknowledged.
    pub fn bytes_acked(&self) -> u64 {
        self.stats.bytes_acked
    }

    /// Bytes that may be queued before the send buffer is full.
    pub fn send_space(&self) -> u32 {
        if !self.state.may_send() || self.snd.fin_queued {
            return 0;
        }
        // Before the handshake is complete our SYN is outstanding too.
        let syn = u32::from(!self.state.is_synchronized());
        let first = self.snd.una + syn;
        self.settings
            .snd_buf
            .saturating_sub(first.distance_to(self.snd.write_seq))
    }

    /// Bytes that may be received and not consumed, as auto-tuning has it now.
    pub fn receive_buffer(&self) -> u32 {
        self.rcv.buffer()
    }

    /// Bytes received in order and not consumed.
    pub fn unread(&self) -> u32 {
        self.rcv.unread()
    }

    /// What the [`TimeWait`](crate::TimeWait) table needs of a connection in TIME-WAIT, `None` in other states.
    pub fn time_wait(&self, now: Instant) -> Option<TimeWaitEntry> {
        let now = self.time(now);
        (self.state == State::TimeWait).then(|| TimeWaitEntry {
            snd_nxt: self.snd.nxt,
            rcv_nxt: self.rcv.nxt,
            rcv_wnd: self.rcv.offered(),
            window: self.rcv.window_field(self.options.rcv_shift),
            timestamps: self
                .options
                .timestamps
                .then(|| (self.timestamps.recent, self.timestamps.value(now))),
        })
    }
}
