//! Why the host relays what the NIC could have relayed.

use std::fmt;

use host::SpliceRefused;

/// The reason, of a response or of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unspliced {
    /// `splice = "never"`, `match`, or `--access-log` of a connection that goes on.
    Config,
    /// The client may send another request.
    KeepAlive,
    /// The response or the connection was too short.
    Short,
    /// The response comes in chunks.
    Chunked,
    /// The client has asked for an upgrade.
    Upgrade,
    /// The request is still under way.
    Upload,
    /// The client has sent more behind its request.
    ClientData,
    /// The backend closes the connection after the response.
    BackendClose,
    /// The NIC does not splice.
    Unsupported,
    /// A connection has ended, or one side has closed its direction.
    Closing,
    /// Data that came meanwhile went to the host.
    Unread,
    /// A peer did not acknowledge in time what it had been sent.
    Unacked,
    /// One connection is of IPv4, the other of IPv6.
    Family,
    /// The packets of one connection are too large for the other.
    Mss,
    /// Only one connection has timestamps.
    Timestamps,
    /// Only one connection has selective acknowledgments.
    Sack,
    /// The MAC address of a next hop is not known.
    NextHop,
    /// The NIC has as many splices as it has room for.
    TableFull,
    /// The NIC has one of the flows already.
    FlowExists,
}

impl fmt::Display for Unspliced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unspliced::Config => "the frontend has splice = \"never\" or match, or the next requests are to be logged",
            Unspliced::KeepAlive => {
                "the client may send another request: it did not ask for `Connection: close`"
            }
            Unspliced::Short => "too little was sent to be worth a splice",
            Unspliced::Chunked => "the response comes in chunks",
            Unspliced::Upgrade => "the backend refused the upgrade that the client asked for",
            Unspliced::Upload => "the response began before the end of the request",
            Unspliced::ClientData => "the client sent more behind its request",
            Unspliced::BackendClose => "the backend closes the connection after the response",
            Unspliced::Unsupported => "the NIC does not splice",
            Unspliced::Closing => "a connection ended or was half closed",
            Unspliced::Unread => "data came to the host meanwhile",
            Unspliced::Unacked => "a peer did not acknowledge in time what it was sent",
            Unspliced::Family => "one connection is IPv4, the other IPv6",
            Unspliced::Mss => "the two connections have different MSS",
            Unspliced::Timestamps => "only one connection has timestamps",
            Unspliced::Sack => "only one connection has SACK",
            Unspliced::NextHop => "the MAC address of a next hop is unknown",
            Unspliced::TableFull => "the NIC's table of splices is full",
            Unspliced::FlowExists => "the NIC has one of the connections already",
        })
    }
}

impl From<SpliceRefused> for Unspliced {
    fn from(why: SpliceRefused) -> Self {
        match why {
            SpliceRefused::Off
            | SpliceRefused::Unsupported
            | SpliceRefused::Secured(_)
            | SpliceRefused::Pdus(_) => Unspliced::Unsupported,
            SpliceRefused::NotFound(_)
            | SpliceRefused::Same
            | SpliceRefused::Spliced(_)
            | SpliceRefused::NotEstablished(_)
            | SpliceRefused::Changed(_)
            | SpliceRefused::TakenBack => Unspliced::Closing,
            SpliceRefused::Unread(_) => Unspliced::Unread,
            SpliceRefused::NotDrained(_) => Unspliced::Unacked,
            SpliceRefused::Family => Unspliced::Family,
            SpliceRefused::Mss(..) => Unspliced::Mss,
            SpliceRefused::Timestamps => Unspliced::Timestamps,
            SpliceRefused::Sack => Unspliced::Sack,
            SpliceRefused::NextHop(_) => Unspliced::NextHop,
            SpliceRefused::TableFull => Unspliced::TableFull,
            SpliceRefused::FlowExists => Unspliced::FlowExists,
        }
    }
}
