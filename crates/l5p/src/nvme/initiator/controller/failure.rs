//! Why a controller cannot be had, or was lost.

use std::time::Duration;

use wire::ParseError;
use wire::nvme::command::{ConnectReply, Status};
use wire::nvme::{FatalError, Nqn};

/// Why there is no controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A connection could not be made, or was lost.
    #[error("queue {queue}: {reason}")]
    Transport {
        /// The queue.
        queue: u16,
        /// What the transport says.
        reason: String,
    },
    /// The controller sent what breaks the protocol, and was told so by H2CTermReq.
    #[error("the target broke the protocol on queue {queue}: {error}")]
    Protocol {
        /// The queue.
        queue: u16,
        /// What it was told.
        error: FatalError,
    },
    /// The controller ended the connection by C2HTermReq.
    #[error("the target ended queue {queue}: {error}")]
    Terminated {
        /// The queue.
        queue: u16,
        /// What it says.
        error: FatalError,
    },
    /// The controller doesn't let this host in.
    #[error(
        "the target refuses this host, {host}; allow it there, or give the name of a host that it allows"
    )]
    HostNotAllowed {
        /// The name that was given.
        host: Box<Nqn>,
    },
    /// There is no such subsystem, or Connect had another parameter that the controller doesn't take.
    #[error("{}", invalid_parameters(*.queue, .subsystem, *.reply))]
    InvalidParameters {
        /// The queue.
        queue: u16,
        /// The subsystem that was asked for.
        subsystem: Box<Nqn>,
        /// What is wrong.
        reply: ConnectReply,
    },
    /// Connect failed otherwise.
    #[error("connect of queue {queue} failed: {status}")]
    Connect {
        /// The queue.
        queue: u16,
        /// How.
        status: Status,
    },
    /// The controller wants in-band authentication.
    #[error(
        "the target requires in-band authentication (DH-HMAC-CHAP), which longshore does not support; use a TLS PSK, or disable it there"
    )]
    AuthenticationRequired,
    /// A command of the setup failed.
    #[error("{what} failed: {status}")]
    Setup {
        /// What it was for.
        what: &'static str,
        /// How.
        status: Status,
    },
    /// The answer to a command of the setup makes no sense.
    #[error("the target's answer is malformed: {what}: {error}")]
    Answer {
        /// What it was for.
        what: &'static str,
        /// What is wrong.
        error: ParseError,
    },
    /// The controller lacks what is needed.
    #[error("the target can't be used: {0}")]
    Unfit(&'static str),
    /// CSTS.CFS is set.
    #[error("the target reports a fatal error (CSTS.CFS)")]
    ControllerFatal,
    /// It took too long.
    #[error("{what} took longer than {limit:?}")]
    TimedOut {
        /// What did.
        what: &'static str,
        /// The limit.
        limit: Duration,
    },
}

impl Failure {
    /// Whether another attempt would fail too.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Failure::Connect { status, .. } | Failure::Setup { status, .. } => status.is_final(),
            Failure::HostNotAllowed { .. }
            | Failure::InvalidParameters { .. }
            | Failure::AuthenticationRequired
            | Failure::Unfit(_) => true,
            _ => false,
        }
    }

    /// What a refusal of Connect means.
    pub(super) fn refused(
        queue: u16,
        (host, subsystem): (Nqn, Nqn),
        status: Status,
        reply: ConnectReply,
    ) -> Failure {
        if status.is(Status::CONNECT_INVALID_HOST) {
            Failure::HostNotAllowed {
                host: Box::new(host),
            }
        } else if status.is(Status::CONNECT_INVALID_PARAMETERS) {
            Failure::InvalidParameters {
                queue,
                subsystem: Box::new(subsystem),
                reply,
            }
        } else {
            Failure::Connect { queue, status }
        }
    }
}

/// Names the field of Connect (NVMe Base 2.0, Figures 380 and 381).
fn invalid_parameters(queue: u16, subsystem: &Nqn, reply: ConnectReply) -> String {
    let ConnectReply::Invalid { in_data, offset } = reply else {
        return format!("connect of queue {queue} has invalid parameters");
    };
    match (in_data, offset) {
        (true, 256..512) => {
            format!(
                "it has no subsystem {subsystem}; `longshore nvme discover` lists those that it has"
            )
        }
        (true, 512..768) => "the target refuses the host NQN; see --hostnqn".to_string(),
        (true, 16..18) => "the target refuses the controller ID".to_string(),
        (true, 0..16) => "the target refuses the host ID; see --hostid".to_string(),
        (false, 44..46) => "the target refuses a queue of this depth".to_string(),
        (false, 48..52) => "the target refuses this keep-alive time".to_string(),
        _ => format!(
            "connect of queue {queue} has an invalid parameter at byte {offset} of its {}",
            if in_data { "data" } else { "command" }
        ),
    }
}
