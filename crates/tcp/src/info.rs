//! A connection's figures, as `ss -ti` shows them.

use std::time::Duration;

use crate::State;

/// A snapshot of a connection, named as Linux's `tcp_info`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionInfo {
    /// The state.
    pub state: State,
    /// Name of the congestion control algorithm.
    pub congestion: &'static str,
    /// Where loss recovery stands: `open`, `disorder`, `recovery` or `loss`.
    pub recovery: &'static str,
    /// Bytes of payload per packet that we send.
    pub snd_mss: u16,
    /// The MSS that we announced.
    pub adv_mss: u16,
    /// Shift of the windows that the peer announces, and of ours; `None` without window scaling.
    pub window_scale: Option<(u8, u8)>,
    /// Timestamps are in use.
    pub timestamps: bool,
    /// SACK is in use.
    pub sack: bool,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow-start threshold in bytes; `None` before the first loss.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Variation of the round-trip time.
    pub rttvar: Duration,
    /// Smallest round-trip time seen of late.
    pub min_rtt: Duration,
    /// Retransmission timeout, backed off as it now is.
    pub rto: Duration,
    /// Times the timeout has backed off since the last progress.
    pub backoff: u8,
    /// Window that the peer offers, in bytes.
    pub snd_wnd: u32,
    /// Window that we offer, in bytes.
    pub rcv_wnd: u32,
    /// Receive buffer as auto-tuning has it, in bytes.
    pub rcv_space: u32,
    /// Bytes sent and not acknowledged.
    pub unacked: u32,
    /// Bytes of these that the peer has selectively acknowledged.
    pub sacked: u32,
    /// Bytes of these thought lost and not sent again yet.
    pub lost: u32,
    /// Bytes in flight (RFC 6675's pipe).
    pub in_flight: u32,
    /// Bytes queued and not sent yet.
    pub not_sent: u32,
    /// Bytes received and not consumed by the application.
    pub unread: u32,
    /// The peer's or the path's reordering has been seen.
    pub reordering_seen: bool,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes sent again.
    pub bytes_retrans: u64,
    /// Payload bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Transmits (TSO-sized) that carried data.
    pub segs_out: u64,
    /// Segments received (after LRO).
    pub segs_in: u64,
    /// Transmits that were retransmissions.
    pub retrans: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Times a reduction of the window proved wrong and was undone.
    pub undos: u32,
    /// Duplicate segments that the peer reported (DSACK).
    pub dsack_dups: u32,
}
