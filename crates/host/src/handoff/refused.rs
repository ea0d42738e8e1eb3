//! Why a connection is not handed off.

/// Why the host does not hand a connection off. It stays where it is, as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoffRefused {
    /// No socket of this id.
    #[error("there is no such socket")]
    NotFound,
    /// The function has no place for connections on the NIC.
    #[error("the NIC runs no connections for this host; give its function `toe_connections`")]
    Unsupported,
    /// The NIC has the connection, or is about to.
    #[error("the NIC has the connection already, or is about to")]
    HandedOff,
    /// The handshake is not complete, or the connection was set up by the NIC and has no full control block yet.
    #[error("the connection is not established yet")]
    Setup,
    /// A FIN is on its way, or the connection has ended.
    #[error("the connection is closing")]
    Closing,
    /// It is part of a splice.
    #[error("the connection is spliced")]
    Spliced,
    /// All places are taken.
    #[error("the NIC has no place left for connections of this host")]
    Full,
    /// More ranges came out of order than a control block in memory has room for.
    #[error("too much came out of order; wait until what is missing has come")]
    OutOfOrder,
    /// More pieces of memory are in flight than the NIC keeps of one connection.
    #[error("too many pieces of memory are in flight")]
    InFlight,
    /// There is no memory for the control block.
    #[error("there is no memory for the control block")]
    NoMemory,
    /// The next hop's address is not known.
    #[error("the next hop's address is not known")]
    NextHop,
}
