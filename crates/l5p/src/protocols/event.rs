//! What a NIC counts of a protocol.

/// Defines [`Event`] with their number.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Something that a NIC counts of each protocol, for each layer of a context.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Event {
            $($(#[$doc])* $name,)*
        }

        impl Event {
            /// How many there are.
            pub const COUNT: usize = [$(Event::$name,)*].len();
        }
    };
}

events! {
    /// Transmit contexts created.
    TxContexts,
    /// Transmit contexts destroyed.
    TxContextsEnded,
    /// Frames whose payload a transmit context has transformed.
    TxPackets,
    /// Payload bytes of these frames.
    TxBytes,
    /// Recoveries of a transmit context for a send out of sequence.
    TxRecoveries,
    /// Those of them that named a place only, read nothing, and left the context where it was.
    TxSeeks,
    /// Slices of prefixes read for recoveries.
    TxPrefixReads,
    /// Bytes of these prefixes.
    TxPrefixBytes,
    /// Bytes passed through the engine to bring it to a place.
    TxPassedBytes,
    /// Retransmissions proved equal to the first transmission.
    TxVerified,
    /// Retransmissions refused because their memory had changed.
    TxSourceChanged,
    /// Packets dropped because the context was at another place in the stream.
    TxOutOfSequence,
    /// Receive contexts created.
    RxContexts,
    /// Receive contexts that could not be created.
    RxContextsRefused,
    /// Receive contexts destroyed.
    RxContextsEnded,
    /// Buffers mapped to tags.
    RxBuffersMapped,
    /// Buffers that could not be mapped.
    RxBuffersRefused,
    /// Buffers unmapped.
    RxBuffersUnmapped,
    /// Messages whose data could not be placed: no such buffer, beyond its end, or there already.
    RxPlacementsRefused,
    /// Packets with data that were placed.
    RxPlacedPackets,
    /// Bytes placed.
    RxPlacedBytes,
    /// Packets whose payload was processed as a whole, and all of whose checks held.
    RxPackets,
    /// Payload bytes of these packets.
    RxBytes,
    /// Packets processed that came late, into a message whose header was known.
    RxLatePackets,
    /// Packets in which a check failed, or a header was not one.
    RxFailed,
    /// Packets that came while a header was missing.
    RxOutOfStep,
    /// Searches for a header begun.
    RxSearches,
    /// Questions to the host whether a message begins at a place.
    RxRequests,
    /// Headers found that the host was not asked about, or that the stream refuted before it answered.
    RxRequestsSkipped,
    /// Answers after which the offload went on.
    RxConfirmed,
    /// Answers after which the search went on.
    RxRefuted,
    /// Answers that came too late.
    RxStaleAnswers,
    /// Gaps inside a message behind which the offload went on by itself.
    RxLeaps,
    /// Searches that the missing header ended by coming late.
    RxLateHeaders,
}

/// The name of a counter, as Linux and its drivers name it where they have it, with one sentence on what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterName {
    /// What is counted.
    pub event: Event,
    /// The name.
    pub name: &'static str,
    /// One sentence, which `longshore stat --explain` shows.
    pub explanation: &'static str,
}

impl CounterName {
    /// A name for `event`.
    #[must_use]
    pub const fn new(event: Event, name: &'static str, explanation: &'static str) -> CounterName {
        CounterName {
            event,
            name,
            explanation,
        }
    }
}
