//! What is said on the control socket.

use std::net::SocketAddr;
use std::time::Duration;

use host::{Holder, OffloadState, SocketInfo};
use serde::{Deserialize, Serialize};

use super::fault::FaultKind;
use crate::succession::{Claim, Estate};

/// A question, one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Request {
    /// Every counter.
    Stat,
    /// Every socket.
    Sockets,
    /// Connections that the NIC runs are to come back to the host.
    Restore {
        /// That with this peer; all of them if there is none.
        peer: Option<SocketAddr>,
    },
    /// A load balancer's backend is to get nothing new, or may again.
    Drain {
        /// Its pool.
        pool: String,
        /// Its address.
        backend: SocketAddr,
        /// Nothing new.
        drains: bool,
    },
    /// Files are to be read again.
    Reload,
    /// A function of a NIC is to fail.
    Fault {
        /// Whose: its socket or TAP interface.
        host: String,
        /// How.
        fault: FaultKind,
    },
    /// The process that asks is to take the place of this one.
    TakeOver(Claim),
    /// The connection is to be an attachment of a library's (`attachment::ATTACH_LINE`). Anybody may ask for that.
    Attach,
}

impl Request {
    /// As tracers see it.
    pub fn as_probed(&self) -> probes::ControlRequest {
        use probes::ControlRequest;
        match self {
            Request::Stat => ControlRequest::Stat,
            Request::Sockets => ControlRequest::Sockets,
            Request::Restore { .. } => ControlRequest::Restore,
            Request::Drain { .. } => ControlRequest::Drain,
            Request::Reload => ControlRequest::Reload,
            Request::Fault { .. } => ControlRequest::Fault,
            Request::TakeOver(_) => ControlRequest::TakeOver,
            Request::Attach => ControlRequest::Attach,
        }
    }
}

/// An answer, one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Stat`].
    Stat(Vec<CounterGroup>),
    /// To [`Request::Sockets`].
    Sockets(Vec<Socket>),
    /// To [`Request::Restore`]: so many connections are on their way back.
    Restored(u64),
    /// To [`Request::Attach`] (`attachment::ATTACHED_LINE`): what follows are the attachment's messages.
    Attached,
    /// To [`Request::Reload`]: it is done, but for changes of these options.
    Reloaded {
        /// As the command line has them.
        restart: Vec<String>,
    },
    /// To [`Request::Drain`] and [`Request::Fault`]: it is done.
    Done,
    /// To [`Request::TakeOver`]: what that process must have. Descriptors come with it, and what is said next is `succession`'s.
    Estate(Box<Estate>),
    /// To a line that is no request, or one that can't be granted.
    Error(String),
}

/// Counters of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterGroup {
    /// The part: `nic`, `host`, `http`, ….
    pub name: String,
    /// Names and values, in the part's own order.
    pub counters: Vec<(String, u64)>,
}

impl CounterGroup {
    /// A group.
    pub fn new<'a>(name: &str, counters: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        CounterGroup {
            name: name.to_owned(),
            counters: counters
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        }
    }
}

/// One socket or listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Socket {
    /// As `ss` writes it: `ESTAB`, `LISTEN`, ….
    pub state: String,
    /// Bytes received and not read; for a listener, connections to accept.
    pub receive_queue: u64,
    /// Bytes queued and not acknowledged; for a listener, its backlog.
    pub send_queue: u64,
    /// This side.
    pub local: String,
    /// The other side.
    pub remote: String,
    /// Who has it, when that is not the host with a full control block: `nic`, `host-quasi`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<String>,
    /// It is one side of a splice.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub spliced: bool,
    /// What it has of the stack's memory, of a connection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub skmem: Option<SocketMemory>,
    /// TCP's figures, of a connection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp: Option<TcpFigures>,
    /// The TLS session's figures, when there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tls: Option<TlsFigures>,
    /// The NVMe queue's figures, on a target.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nvme: Option<NvmeFigures>,
}

/// A connection's memory in bytes, named as `ss -m` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketMemory {
    /// Blocks that hold what was received and not read.
    pub r: u64,
    /// The receive buffer as it stands.
    pub rb: u64,
    /// Queued and not acknowledged.
    pub t: u64,
    /// What may be queued.
    pub tb: u64,
}

/// A connection's figures, named as `ss -ti` names them where it has a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TcpFigures {
    pub congestion: String,
    pub ca_state: String,
    pub timestamps: bool,
    pub sack: bool,
    pub ecn: bool,
    pub wscale: Option<(u8, u8)>,
    pub rto_us: u64,
    pub backoff: u8,
    pub rtt_us: u64,
    pub rttvar_us: u64,
    pub minrtt_us: u64,
    pub mss: u16,
    pub advmss: u16,
    pub cwnd: u32,
    pub ssthresh: Option<u32>,
    pub pacing_rate: Option<u64>,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub rcv_space: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u64,
    pub segs_in: u64,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub notsent: u32,
    pub retrans: u32,
    pub timeouts: u32,
    pub undos: u32,
    pub dsack_dups: u32,
    pub reordering_seen: bool,
}

/// A TLS session's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TlsFigures {
    pub version: String,
    pub cipher: String,
    /// `sw`, `device`, or `fallback` when the device was asked for.
    pub tx: String,
    /// As `tx`.
    pub rx: String,
    pub records_sent: u64,
    pub records_full: u64,
    pub records_partial: u64,
    pub records_none: u64,
    pub resync_requests: u64,
    pub key_updates: u32,
}

/// An NVMe queue's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NvmeFigures {
    pub controller: u16,
    /// 0: the admin queue.
    pub queue: u16,
    pub host: String,
    pub subsystem: String,
    pub depth: u32,
    pub in_flight: u32,
}

impl From<&SocketInfo> for Socket {
    fn from(info: &SocketInfo) -> Self {
        Socket {
            state: info.state.to_owned(),
            receive_queue: info.receive_queue as u64,
            send_queue: info.send_queue as u64,
            local: info.local.to_string(),
            remote: match info.id {
                Some(_) => info.remote.to_string(),
                None if info.local.is_ipv4() => "0.0.0.0:*".to_owned(),
                None => "[::]:*".to_owned(),
            },
            owner: (info.holder != Holder::Host).then(|| info.holder.to_string()),
            spliced: info.spliced.is_some(),
            skmem: info.tcp.as_ref().map(|_| SocketMemory {
                r: info.memory.received,
                rb: info.memory.receive_buffer,
                t: info.memory.queued,
                tb: info.memory.send_buffer,
            }),
            tcp: info.tcp.as_ref().map(TcpFigures::from),
            tls: info.tls.as_ref().map(TlsFigures::from),
            nvme: None,
        }
    }
}

impl From<&tcp::ConnectionInfo> for TcpFigures {
    fn from(info: &tcp::ConnectionInfo) -> Self {
        TcpFigures {
            congestion: info.congestion.to_owned(),
            ca_state: info.recovery.to_owned(),
            timestamps: info.timestamps,
            sack: info.sack,
            ecn: info.ecn,
            wscale: info.window_scale,
            rto_us: micros(info.rto),
            backoff: info.backoff,
            rtt_us: micros(info.srtt),
            rttvar_us: micros(info.rttvar),
            minrtt_us: micros(info.min_rtt),
            mss: info.snd_mss,
            advmss: info.adv_mss,
            cwnd: info.cwnd,
            ssthresh: info.ssthresh,
            pacing_rate: info.pacing_rate,
            snd_wnd: info.snd_wnd,
            rcv_wnd: info.rcv_wnd,
            rcv_space: info.rcv_space,
            bytes_sent: info.bytes_sent,
            bytes_retrans: info.bytes_retrans,
            bytes_acked: info.bytes_acked,
            bytes_received: info.bytes_received,
            segs_out: info.segs_out,
            segs_in: info.segs_in,
            unacked: info.unacked,
            sacked: info.sacked,
            lost: info.lost,
            notsent: info.not_sent,
            retrans: info.retrans,
            timeouts: info.timeouts,
            undos: info.undos,
            dsack_dups: info.dsack_dups,
            reordering_seen: info.reordering_seen,
        }
    }
}

impl From<&host::TlsInfo> for TlsFigures {
    fn from(info: &host::TlsInfo) -> Self {
        TlsFigures {
            version: info.version.to_owned(),
            cipher: info.cipher.to_owned(),
            tx: offload(info.transmit).to_owned(),
            rx: offload(info.receive).to_owned(),
            records_sent: info.records_sent,
            records_full: info.records_full,
            records_partial: info.records_partial,
            records_none: info.records_none,
            resync_requests: info.resync_requests,
            key_updates: info.key_updates,
        }
    }
}

/// A direction's state, as `ss` names it.
pub fn offload(state: OffloadState) -> &'static str {
    match state {
        OffloadState::Software => "sw",
        OffloadState::Device => "device",
        OffloadState::FellBack => "fallback",
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
