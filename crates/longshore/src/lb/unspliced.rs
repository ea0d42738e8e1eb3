//! Why the host relays what the NIC could have relayed.

use std::fmt;

use host::SpliceRefused;

/// The reason, of a response or of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unspliced {
    /// `splice = "never"`.
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

impl Unspliced {
    const ALL: [Unspliced; 19] = [
        Unspliced::Config,
        Unspliced::KeepAlive,
        Unspliced::Short,
        Unspliced::Chunked,
        Unspliced::Upgrade,
        Unspliced::Upload,
        Unspliced::ClientData,
        Unspliced::BackendClose,
        Unspliced::Unsupported,
        Unspliced::Closing,
        Unspliced::Unread,
        Unspliced::Unacked,
        Unspliced::Family,
        Unspliced::Mss,
        Unspliced::Timestamps,
        Unspliced::Sack,
        Unspliced::NextHop,
        Unspliced::TableFull,
        Unspliced::FlowExists,
    ];

    /// The name of its counter.
    fn counter(self) -> &'static str {
        match self {
            Unspliced::Config => "splice_refused_config",
            Unspliced::KeepAlive => "splice_refused_keep_alive",
            Unspliced::Short => "splice_refused_short",
            Unspliced::Chunked => "splice_refused_chunked",
            Unspliced::Upgrade => "splice_refused_upgrade",
            Unspliced::Upload => "splice_refused_upload",
            Unspliced::ClientData => "splice_refused_client_data",
            Unspliced::BackendClose => "splice_refused_backend_close",
            Unspliced::Unsupported => "splice_refused_unsupported",
            Unspliced::Closing => "splice_refused_closing",
            Unspliced::Unread => "splice_refused_unread",
            Unspliced::Unacked => "splice_refused_unacked",
            Unspliced::Family => "splice_refused_family",
            Unspliced::Mss => "splice_refused_mss",
            Unspliced::Timestamps => "splice_refused_timestamps",
            Unspliced::Sack => "splice_refused_sack",
            Unspliced::NextHop => "splice_refused_next_hop",
            Unspliced::TableFull => "splice_refused_table_full",
            Unspliced::FlowExists => "splice_refused_flow_exists",
        }
    }
}

impl fmt::Display for Unspliced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unspliced::Config => "the frontend has splice = \"never\"",
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

/// How often each reason was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsplicedCounters([u64; Unspliced::ALL.len()]);

impl UnsplicedCounters {
    /// Counts one.
    pub fn count(&mut self, why: Unspliced) {
        self.0[why as usize] += 1;
    }

    /// Of all reasons together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Names and values.
    pub fn iter(self) -> impl Iterator<Item = (&'static str, u64)> {
        Unspliced::ALL
            .into_iter()
            .map(move |why| (why.counter(), self.0[why as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_place_and_a_name_of_its_own() {
        for (place, why) in Unspliced::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
        }
        let mut names: Vec<_> = Unspliced::ALL.map(Unspliced::counter).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Unspliced::ALL.len());
    }
}
