//! What is counted of a protocol: by a NIC, and by a host.

/// Defines an enum of events with their number.
macro_rules! events {
    ($(#[$about:meta])* $events:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $events {
            $($(#[$doc])* $name,)*
        }

        impl $events {
            /// How many there are.
            pub const COUNT: usize = [$($events::$name,)*].len();
        }
    };
}

events! {
    /// Something that a NIC counts of each protocol, for each layer of a context.
    Event {
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
        /// Searches that ended with a header whose number was counted, for a check to confirm.
        RxCountedHeaders,
        /// Notes of an engine's that were given to the host with packets.
        RxNotes,
        /// Bytes that an engine has made for buffers of the host's, and that were written there.
        RxResultBytes,
        /// Times that there was no buffer for such bytes.
        RxResultsLost,
        /// Resources made of bytes of the host's.
        ResourcesLoaded,
        /// Resources that could not be made.
        ResourcesRefused,
    }
}

events! {
    /// Something that a host counts of each protocol whose messages it finds and makes itself.
    HostEvent {
        /// Messages sent through a context of the NIC's.
        TxMessagesByNic,
        /// Messages sent without the NIC's help.
        TxMessagesBySoftware,
        /// Messages meant for the NIC whose check values software has made after all.
        TxMessagesTakenBack,
        /// Contexts that the NIC refused.
        ContextsRefused,
        /// Buffers mapped for the NIC to place data in.
        BuffersMapped,
        /// Buffers in which the NIC placed what the stream did not bring.
        BuffersTainted,
        /// Bytes of data that the NIC had placed.
        RxBytesPlaced,
        /// Bytes of data that the host has copied to where they belong.
        RxBytesCopied,
        /// Check values that the NIC has checked.
        RxChecksByNic,
        /// Check values that software has checked.
        RxChecksBySoftware,
        /// Questions of the NIC's whether a message begins at a place.
        RxRequests,
        /// Bytes of which the NIC has found all that there is to find, or that it has made.
        RxBytesByNic,
        /// Bytes that software has searched, or made.
        RxBytesBySoftware,
        /// What was found.
        RxFound,
        /// Messages that software did from their beginning, because the NIC had missed some of them.
        RxFallbacks,
        /// Messages whose check value was wrong.
        RxFailed,
        /// Connections that were ended because of a message that breaks the protocol.
        RxRefused,
    }
}

/// The name of a counter, as Linux and its drivers name it where they have it, with one sentence on what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterName<E = Event> {
    /// What is counted.
    pub event: E,
    /// The name.
    pub name: &'static str,
    /// One sentence, which `longshore stat --explain` shows.
    pub explanation: &'static str,
}

impl<E: Copy> CounterName<E> {
    /// A name for `event`.
    #[must_use]
    pub const fn new(event: E, name: &'static str, explanation: &'static str) -> CounterName<E> {
        CounterName {
            event,
            name,
            explanation,
        }
    }
}

/// Names of counters, one for each event: the name and the sentence are put together from parts. `@word` before an event is passed over: with it a
/// macro makes the event one that it may leave out.
macro_rules! counter_names {
    ($kind:ident: $($(@$word:ident)? $event:ident: $($part:literal)+, $($text:literal)+;)*) => {
        &[$($crate::CounterName::new($crate::$kind::$event, concat!($($part),+), concat!($($text),+)),)*]
    };
}

pub(crate) use counter_names;
