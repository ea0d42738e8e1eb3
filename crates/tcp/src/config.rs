//! What a connection's owner may choose.

use std::time::Duration;

/// Settings of a connection. Cheap to clone; a connection copies what it needs of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The MSS that we announce: bytes of TCP payload and options that fit the path's packets (RFC 6691).
    pub mss: u16,
    /// Receive buffer at the start, in bytes; it bounds the first window that we offer.
    pub rcv_buf: u32,
    /// Largest receive buffer that auto-tuning may grow to, in bytes; it fixes our window scale (RFC 7323 §2.3).
    pub rcv_buf_max: u32,
    /// Send buffer in bytes: what [`Connection::send_space`](crate::Connection::send_space) counts down from.
    pub snd_buf: u32,
    /// The congestion control algorithm.
    pub congestion: Algorithm,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: EcnMode,
    /// Initial congestion window in segments (RFC 6928: 10).
    pub initial_window: u8,
    /// Nagle's algorithm (RFC 9293 §3.7.4): hold back a short segment while data is unacknowledged.
    pub nagle: bool,
    /// How long an acknowledgement may be delayed (RFC 9293 §3.8.6.3, at most 500 ms); `None` acknowledges at once.
    pub delayed_ack: Option<Duration>,
    /// Keep-alive probes (RFC 9293 §3.8.4), off by default.
    pub keep_alive: Option<KeepAlive>,
    /// Give up when data has gone unacknowledged for so long (RFC 9293 §3.8.3), or unsent because the peer's window stayed closed (RFC 6429 §3), as
    /// Linux's `TCP_USER_TIMEOUT` has it; `None` counts retries instead, and waits for a peer that answers.
    pub user_timeout: Option<Duration>,
    /// Offer and accept timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer and accept selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Offer and accept window scaling (RFC 7323).
    pub window_scale: bool,
    /// Largest payload of one [`Transmit`](crate::Transmit), in bytes; 0 or less than the MSS means one MSS. The default
    /// leaves room for the headers in an IP packet of 65,535 bytes.
    pub tso_max: u32,
    /// Smallest retransmission timeout. RFC 6298 says 1 s; 200 ms is what Linux does.
    pub min_rto: Duration,
    /// After three timeouts of a full segment without an acknowledgment, try smaller ones: a router on the path may drop what is too large
    /// without telling (RFC 4821 §7.7, as Linux's `tcp_mtu_probing` of 1). From there on, and ten minutes after a router has told, larger ones are
    /// searched for (RFC 4821 §7.3), one at a time, whose loss is not taken for congestion. Off by default; connections that the NIC runs do without.
    pub mtu_probing: bool,
    /// What is sent leaves at a rate of cwnd / SRTT, twice in slow start and 1.2 times after it, in bursts of a millisecond, as Linux's pacing has it
    /// (RFC 9002 §7.7). The first window leaves at once (RFC 6928). Off by default: each burst is a timer.
    pub pacing: bool,
    /// Times a SYN is sent again before the connection is given up. Seven, after 1 s, 2 s and so on, last for the three minutes that
    /// RFC 9293 §3.8.3 asks for (MUST-23), and one more.
    pub syn_retries: u8,
    /// The same for a SYN-ACK, which a peer that is there asks for again.
    pub syn_ack_retries: u8,
    /// Times a segment's timeout may back off before the connection is given up (R2 of RFC 9293 §3.8.3).
    pub retries: u8,
    /// The same for an orphan: a connection that its application has let go of ([`detach`](crate::Connection::detach)). Fewer of both counts.
    pub orphan_retries: u8,
    /// How long an orphan goes on although its peer acknowledges nothing new.
    pub orphan_timeout: Duration,
    /// How long a connection rests in TIME-WAIT (2 MSL).
    pub time_wait: Duration,
    /// How long a detached connection waits in FIN-WAIT-2 for the peer's FIN.
    pub fin_wait_2: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1460,
            rcv_buf: 256 << 10,
            rcv_buf_max: 16 << 20,
            snd_buf: 16 << 20,
            congestion: Algorithm::Cubic,
            ecn: EcnMode::Accept,
            initial_window: 10,
            nagle: true,
            delayed_ack: Some(Duration::from_millis(40)),
            keep_alive: None,
            user_timeout: None,
            timestamps: true,
            sack: true,
            window_scale: true,
            tso_max: 65_400,
            min_rto: Duration::from_millis(200),
            mtu_probing: false,
            pacing: false,
            syn_retries: 7,
            syn_ack_retries: 6,
            retries: 15,
            orphan_retries: 8,
            orphan_timeout: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
            fin_wait_2: Duration::from_secs(60),
        }
    }
}

impl Config {
    /// The window shift that our SYNs offer; `None` for no window scaling (RFC 7323 §2).
    pub fn window_shift(&self) -> Option<u8> {
        self.window_scale
            .then(|| crate::options::shift_for(self.rcv_buf_max.clamp(4, 1 << 30)))
    }

    /// The window field of our SYNs and SYN-ACKs with cookies, which is never scaled (RFC 7323 §2.2).
    pub fn syn_window(&self) -> u16 {
        self.rcv_buf.min(self.rcv_buf_max).min(u32::from(u16::MAX)) as u16
    }
}

/// Congestion control algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681 and RFC 6582.
    NewReno,
    /// RFC 9438.
    Cubic,
}

/// Who may ask for explicit congestion notification (RFC 3168 §6.1.1), as Linux's `tcp_ecn` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// Neither side (0).
    Off,
    /// The peer: we agree when we are asked (2).
    #[default]
    Accept,
    /// We ask in our SYNs, too (1).
    Ask,
}

/// Keep-alive settings (RFC 9293 §3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes before the connection is given up.
    pub probes: u8,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(7200),
            interval: Duration::from_secs(75),
            probes: 9,
        }
    }
}
