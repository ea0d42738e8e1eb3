//! What the driver asks of Linux about sockets, by their addresses.

use attachment::Errno;
use wire::FlowKey;

/// How far a socket's connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketPhase {
    /// It has sent a SYN, or a SYN-ACK.
    Opening,
    /// Both sides know of it, and it may have data to send.
    Synchronized,
    /// It has no data to send any more: TIME-WAIT, or closed.
    Over,
}

/// A TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketAt {
    /// What tells it from all others that there were and will be (`SO_COOKIE`).
    pub cookie: u64,
    /// How far its connection is.
    pub phase: SocketPhase,
}

/// Asks Linux about sockets. No answer depends on a tenant.
pub trait Sockets: std::fmt::Debug + Send {
    /// The connection's socket between these addresses; `None` if there is no such socket.
    ///
    /// # Errors
    /// When Linux does not say.
    fn look_up(&mut self, flow: &FlowKey) -> Result<Option<SocketAt>, Errno>;

    /// Connections of sockets that are bound to the interface, with their cookies.
    ///
    /// # Errors
    /// When Linux does not say.
    fn bound(&mut self) -> Result<Vec<(FlowKey, u64)>, Errno>;

    /// Whether the socket has gone: nothing of its data can come any more. What can't be asked may be there.
    fn is_gone(&mut self, flow: &FlowKey, cookie: u64) -> bool {
        self.look_up(flow).is_ok_and(|found| {
            found.is_none_or(|socket| socket.cookie != cookie || socket.phase == SocketPhase::Over)
        })
    }
}
