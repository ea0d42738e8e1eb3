//! What commands name in memory: control blocks, and how packets are spread.

use zerocopy::little_endian::{U16, U32, U64};

use super::Layout;

layouts! {
    /// Bytes that came out of order.
    struct ImageRange {
        /// position of the first
        start: U32,
        /// position behind the last
        end: U32,
    }
}

layouts! {
    /// How received packets are hashed and spread over queues.
    struct RssSettings {
        /// types of hash that are made: bits of `hash_type`
        types: u32,
        _0: [u8; 4],
        /// of the Toeplitz hash
        key: [u8; 40],
        /// queues, by the lowest bits of the hash
        table: [u16; 128],
    }
}

layouts! {
    /// A control block, little endian and without padding; times of 8 bytes are in ns.
    struct TcbBytes {
        /// `TCB` and the version
        version: U32,
        flags: U32,
        /// 3 ESTABLISHED, 4 FIN-WAIT-1, 5 FIN-WAIT-2, 6 CLOSE-WAIT, 7 CLOSING, 8 LAST-ACK
        state: u8,
        /// how many of `held` there are
        held_count: u8,
        /// shift of the windows that the peer announces
        peer_shift: u8,
        /// shift of the windows that the host announces
        own_shift: u8,
        src_port: U16,
        dst_port: U16,
        /// own window as in a header
        window: U16,
        mss: U16,
        /// MSS that was announced
        adv_mss: U16,
        snd_una: U32,
        snd_nxt: U32,
        /// end of the queue
        write_seq: U32,
        snd_wnd: U32,
        /// largest `snd_wnd`
        snd_wnd_max: U32,
        rcv_nxt: U32,
        /// bytes that the application has not read
        unread: U32,
        /// right edge of the window
        rcv_edge: U32,
        /// bytes of the receive buffer
        rcv_buffer: U32,
        /// position of the peer's FIN
        fin_at: U32,
        ssthresh: U32,
        cwnd: U32,
        /// the peer's latest timestamp
        recent: U32,
        /// own timestamp
        value: U32,
        /// age of the peer's
        recent_age: U64,
        srtt: U64,
        rttvar: U64,
        rto: U64,
        /// what is left of FIN-WAIT-2
        linger: U64,
        /// what is left of the timers of retransmission, tail loss probe, persist and keep-alive; 2^64 − 1: not set
        timers: [U64; 4],
        backoff: u8,
        /// retransmissions since anything was acknowledged
        tries: u8,
        /// keep-alive probes without an answer
        probes: u8,
        _0: u8,
        /// time since the last progress
        progress_age: U64,
        /// time since the peer was last heard
        heard_age: U64,
        /// ranges received out of order
        held: [ImageRange; 16],
        /// MSS of the settings
        config_mss: U16,
        /// 1 NewReno, 2 CUBIC
        congestion: u8,
        /// segments
        initial_window: u8,
        syn_retries: u8,
        retries: u8,
        keep_alive_probes: u8,
        /// retransmissions of an orphan
        orphan_retries: u8,
        rcv_buf: U32,
        rcv_buf_max: U32,
        snd_buf: U32,
        /// most payload bytes of one descriptor
        tso_max: U32,
        keep_alive_idle_ms: U32,
        keep_alive_interval_ms: U32,
        delayed_ack_ms: U32,
        user_timeout_ms: U32,
        time_wait_ms: U32,
        fin_wait2_ms: U32,
        min_rto: U64,
        /// how long an orphan may wait for its peer; 0 for 60 s and 8 retransmissions
        orphan_timeout_ms: U32,
        _1: [u8; 154],
    }
}

pub(super) const LAYOUTS: &[Layout] = &[RssSettings::LAYOUT, ImageRange::LAYOUT, TcbBytes::LAYOUT];
