//! A connection's figures, as `ss -ti` shows them.

use std::time::{Duration, Instant};

use crate::congestion::UNLIMITED;
use crate::recovery::Phase;
use crate::{Connection, State};

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
    /// Explicit congestion notification is in use.
    pub ecn: bool,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Bytes of payload per second that what is sent is paced at; `None` while it is not.
    pub pacing_rate: Option<u64>,
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

impl Connection {
    /// Figures for people.
    pub fn info(&self, now: Instant) -> ConnectionInfo {
        let _ = now;
        let sacked = self.board.sacked();
        let stats = &self.stats;
        let unlimited = self.congestion.ssthresh() == UNLIMITED;
        ConnectionInfo {
            state: self.state,
            congestion: self.congestion.name(),
            recovery: match self.recovery.phase {
                Phase::Open if sacked > 0 => "disorder",
                Phase::Open => "open",
                Phase::Recovery => "recovery",
                Phase::Loss | Phase::Resize => "loss",
            },
            snd_mss: self.snd.mss,
            adv_mss: self.settings.adv_mss,
            window_scale: self
                .options
                .window_scale
                .then_some((self.options.snd_shift, self.options.rcv_shift)),
            timestamps: self.options.timestamps,
            sack: self.options.sack,
            ecn: self.ecn.is_on(),
            cwnd: self.congestion.cwnd(),
            pacing_rate: self.pacing_rate(),
            ssthresh: (!unlimited).then(|| self.congestion.ssthresh()),
            srtt: Duration::from_nanos(self.rtt.smoothed().unwrap_or(0)),
            rttvar: Duration::from_nanos(self.rtt.variation()),
            min_rtt: Duration::from_nanos(self.rtt.minimum().unwrap_or(0)),
            rto: Duration::from_nanos(self.rtt.rto()),
            backoff: self.rtt.backoff.doublings(),
            snd_wnd: self.snd.window.bytes(),
            rcv_wnd: self.rcv.offered(),
            rcv_space: self.rcv.buffer(),
            unacked: self.flight(),
            sacked,
            lost: self.board.lost(),
            in_flight: self.pipe(),
            not_sent: self.snd.unsent(),
            unread: self.rcv.unread(),
            reordering_seen: self.rack.reordering_seen,
            bytes_sent: stats.bytes_sent,
            bytes_retrans: stats.bytes_resent,
            bytes_acked: stats.bytes_acked,
            bytes_received: stats.bytes_received,
            segs_out: stats.segments_out,
            segs_in: stats.segments_in,
            retrans: stats.resent,
            timeouts: stats.timeouts,
            undos: stats.undos,
            dsack_dups: stats.duplicates,
        }
    }
}
