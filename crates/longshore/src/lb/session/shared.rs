//! What all sessions share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use host::{Offload, SpliceHandle, Stack, TlsRole};

use super::super::config;
use super::super::counters::FrontendCounters;
use super::super::keys::{Roles, SessionKey};
use super::super::pool::Pool;
use super::{KeptOfAll, Opened};
use crate::access_log::AccessLog;
use crate::matching::Matcher;

/// What all sessions share.
pub struct Shared<'a> {
    /// The time.
    pub now: Instant,
    /// The host.
    pub stack: &'a mut Stack,
    /// Every pool.
    pub pools: &'a mut [Pool],
    /// The session's frontend.
    pub frontend: &'a config::Frontend,
    /// Its part in handshakes, if it has TLS, and what of TLS is the NIC's.
    pub tls: Option<(&'a TlsRole, Offload)>,
    /// What of TLS to servers is the NIC's.
    pub offload: Offload,
    /// What searches its clients' bytes.
    pub matcher: Option<&'a Arc<Matcher>>,
    /// What the frontend counts.
    pub counters: &'a mut FrontendCounters,
    /// Where requests are logged.
    pub access_log: Option<&'a mut AccessLog>,
    /// Whose each socket is.
    pub roles: &'a mut Roles,
    /// Sessions that waited for a server and may try again.
    pub woken: &'a mut VecDeque<SessionKey>,
    /// Sessions for which others have something, in memory.
    pub touched: &'a mut VecDeque<SessionKey>,
    /// Streams of HTTP/2 that have begun.
    pub opened: &'a mut VecDeque<Opened>,
    /// Splices that sessions have asked for.
    pub splices: &'a mut Vec<Option<(SpliceHandle, SessionKey)>>,
    /// What is kept of all requests to be sent again.
    pub kept: &'a KeptOfAll,
    /// The stack splices.
    pub can_splice: bool,
    /// New requests are refused for want of memory, but for those of clients that have taken a response.
    pub sheds: bool,
    /// No new requests: the process is to end.
    pub is_stopping: bool,
    /// Each client is let go with its next response: another process takes new ones.
    pub retires: bool,
}

impl Shared<'_> {
    /// The next response is a client's last one.
    pub(super) fn tells_to_close(&self) -> bool {
        self.is_stopping || self.retires
    }
}
