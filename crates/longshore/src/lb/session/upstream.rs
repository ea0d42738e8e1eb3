//! The connection to a server.

use std::sync::Arc;
use std::time::Instant;

use host::SocketId;

use super::super::keys::ServerKey;
use super::super::leg::Leg;
use super::super::secured::Secured;
use super::super::server::Server;

/// The connection to a server.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) leg: Leg,
    pub(super) key: ServerKey,
    /// When the connection was begun, or taken from the idle ones.
    pub(super) began: Instant,
    /// It bears the client's name: only this session's requests may go over it.
    pub(super) is_exclusive: bool,
    /// The server's era when it began.
    pub(super) era: u32,
    /// How it is secured, if it is.
    pub(super) tls: Option<Arc<Secured>>,
}

impl Upstream {
    pub(super) fn new(now: Instant, id: SocketId, key: ServerKey, server: &Server) -> Upstream {
        Upstream {
            leg: Leg::new(id),
            key,
            began: now,
            is_exclusive: server.config.proxy.is_some(),
            era: server.era,
            tls: server.config.tls.clone(),
        }
    }
}
