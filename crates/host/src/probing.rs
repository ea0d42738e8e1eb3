//! What the stack tells tracers that are attached to it ([`probes`]).

use nic::ring::ContextId;
use nic::ring::toe::RestoreReason;
use probes::{EndReason, Flow, HandoffOutcome, Opener};
use wire::{FlowKey, SeqNum};

use crate::CloseReason;

/// A connection, from this host to the peer, is established.
pub(crate) fn connection_opened(flow: impl Fn() -> FlowKey, opener: Opener) {
    probes::connection_opened(&|| {
        let flow = named(&flow());
        probes::ConnectionOpened {
            flow: flow.number,
            local: flow.local,
            remote: flow.remote,
            opener,
        }
    });
}

/// A connection has ended.
pub(crate) fn connection_closed(flow: &FlowKey, reason: impl Fn() -> EndReason) {
    probes::connection_closed(&|| {
        let flow = named(flow);
        probes::ConnectionClosed {
            flow: flow.number,
            local: flow.local,
            remote: flow.remote,
            reason: reason(),
        }
    });
}

/// A segment is sent again.
pub(crate) fn tcp_retransmit(flow: &FlowKey, seq: SeqNum, bytes: u32) {
    probes::tcp_retransmit(&|| {
        let flow = named(flow);
        probes::TcpRetransmit {
            flow: flow.number,
            local: flow.local,
            remote: flow.remote,
            seq: seq.0,
            bytes,
        }
    });
}

/// A retransmission timer has expired.
pub(crate) fn tcp_timeout(flow: &FlowKey) {
    probes::tcp_timeout(&|| {
        let flow = named(flow);
        probes::TcpTimeout {
            flow: flow.number,
            local: flow.local,
            remote: flow.remote,
        }
    });
}

/// A context is to resume elsewhere; the NIC reads so many bytes for that.
pub(crate) fn tx_recovery(context: ContextId, resume: SeqNum, bytes: u32) {
    probes::tx_recovery(&|| probes::TxRecovery {
        context: context.0,
        seq: resume.0,
        bytes,
    });
}

/// A handoff, or a connection on the NIC, has come to this.
pub(crate) fn handoff(flow: &FlowKey, outcome: HandoffOutcome) {
    probes::handoff(&|| {
        let flow = named(flow);
        probes::Handoff {
            flow: flow.number,
            local: flow.local,
            remote: flow.remote,
            outcome,
        }
    });
}

/// What a connection's return for this reason is.
pub(crate) fn returned(reason: RestoreReason) -> HandoffOutcome {
    match reason {
        RestoreReason::Asked => HandoffOutcome::Asked,
        RestoreReason::Load => HandoffOutcome::Load,
        RestoreReason::Transmit { .. } => HandoffOutcome::Transmit,
    }
}

fn named(flow: &FlowKey) -> Flow {
    Flow::new(flow.src.into(), flow.dst.into())
}

impl From<&CloseReason> for EndReason {
    fn from(reason: &CloseReason) -> EndReason {
        match reason {
            CloseReason::Graceful => EndReason::Graceful,
            CloseReason::Reset => EndReason::Reset,
            CloseReason::Refused => EndReason::Refused,
            CloseReason::TimedOut => EndReason::TimedOut,
            CloseReason::Unreachable => EndReason::Unreachable,
            CloseReason::Aborted => EndReason::Aborted,
            CloseReason::NoMemory => EndReason::NoMemory,
            CloseReason::Tls { .. }
            | CloseReason::Handshake(_)
            | CloseReason::PeerAlert(_)
            | CloseReason::Pdu(_)
            | CloseReason::PeerRefusedPdu(_)
            | CloseReason::Truncated => EndReason::Protocol,
            CloseReason::Device(_) | CloseReason::NicReset => EndReason::Nic,
            CloseReason::DuplicateAddress(_)
            | CloseReason::SourceChanged { .. }
            | CloseReason::SourceGone { .. } => EndReason::Other,
        }
    }
}
