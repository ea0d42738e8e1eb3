//! The states of a connection (RFC 9293 §3.3.2).

/// State of a connection. LISTEN is a [`Listener`](crate::Listener), not a connection.
///
/// ```text
///            connect            accept
///               |                  |
///               v      SYN         v
///           SynSent ----------> SynReceived --+
///               | SYN-ACK          | ACK      | close
///               +-------+  +-------+          |
///                       v  v                  |
///             FIN   Established   close       |
///         +------------+    +-----------------+
///         v                                   v
///     CloseWait                           FinWait1 -- FIN --> Closing
///         | close                             | ACK              | ACK
///         v                                   v                  v
///      LastAck                            FinWait2 -- FIN --> TimeWait
///         | ACK                                                  | 2 MSL
///         +------------------------> Closed <--------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection, or one that has ended.
    Closed,
    /// Our SYN is out, nothing came back yet.
    SynSent,
    /// The peer's SYN came, ours is out and not acknowledged.
    SynReceived,
    /// Data may flow both ways.
    Established,
    /// We closed; our FIN (perhaps still queued behind data) is not acknowledged.
    FinWait1,
    /// Our FIN is acknowledged, the peer may still send.
    FinWait2,
    /// The peer closed, we may still send.
    CloseWait,
    /// Both closed at once; our FIN is not acknowledged.
    Closing,
    /// The peer closed, then we; our FIN is not acknowledged.
    LastAck,
    /// Both closed; waits for old segments to die out.
    TimeWait,
}

impl State {
    /// The name in the form that `ss` prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECV",
            Self::Established => "ESTAB",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
        }
    }

    /// Both SYNs have been exchanged and acknowledged.
    pub fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::SynSent | Self::SynReceived)
    }

    /// The application may queue data.
    pub fn may_send(self) -> bool {
        matches!(
            self,
            Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait
        )
    }

    /// The peer may still send data that we take.
    pub fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// The state behind the peer's FIN (RFC 9293 §3.10.7.4, eighth).
    pub fn on_peer_fin(self) -> State {
        match self {
            Self::Established => Self::CloseWait,
            Self::FinWait1 => Self::Closing,
            Self::FinWait2 => Self::TimeWait,
            other => other,
        }
    }

    /// The state once our FIN is acknowledged (RFC 9293 §3.10.7.4, fifth).
    pub fn on_fin_acknowledged(self) -> State {
        match self {
            Self::FinWait1 => Self::FinWait2,
            Self::Closing => Self::TimeWait,
            Self::LastAck => Self::Closed,
            other => other,
        }
    }

    /// The application has asked to close (our FIN is queued, sent or acknowledged).
    pub fn is_closing(self) -> bool {
        matches!(
            self,
            Self::FinWait1 | Self::FinWait2 | Self::Closing | Self::LastAck | Self::TimeWait
        )
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
