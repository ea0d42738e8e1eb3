//! What the numbers of arguments that are one of several stand for.

use crate::argument::Argument;

/// The values that an argument may have, as they are documented.
#[derive(Clone, Copy, Debug)]
pub struct CodeOf {
    /// The probe.
    pub probe: &'static str,
    /// Its argument.
    pub argument: &'static str,
    /// The values: number, name, and what it stands for.
    pub values: &'static [(u8, &'static str, &'static str)],
}

/// Defines enums of arguments. A number, once given, stays with its name: scripts know it.
macro_rules! values {
    ($(
        $(#[doc = $doc:literal])+
        $probe:ident.$argument:ident: $type:ident {
            $($number:literal $value:ident $name:literal $meaning:literal,)+
        }
    )*) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(u8)]
            pub enum $type {
                $(#[doc = $meaning] $value = $number,)+
            }

            impl $type {
                /// Every value, by number.
                pub const ALL: &[$type] = &[$($type::$value,)+];
            }

            impl Argument for $type {
                const KIND: &'static str = "u8";

                #[inline]
                fn register(&self) -> isize {
                    *self as isize
                }
            }
        )*

        /// Every argument that is one of several.
        pub const CODES: &[CodeOf] = &[$(CodeOf {
            probe: stringify!($probe),
            argument: stringify!($argument),
            values: &[$(($number, $name, $meaning),)+],
        },)*];
    };
}

values! {
    /// Who opened a connection.
    connection_opened.opener: Opener {
        1 Local "local" "this side",
        2 Peer "peer" "the peer; the host's TCP answered it",
        3 PeerByCookie "peer by cookie" "the peer; the NIC or a SYN cookie answered it",
    }

    /// Why a connection ended.
    connection_closed.reason: EndReason {
        1 Graceful "closed" "both sides closed it",
        2 Reset "reset" "the peer sent a reset",
        3 Refused "refused" "the peer does not listen there",
        4 TimedOut "timed out" "the peer did not answer in time",
        5 Unreachable "unreachable" "the network said so, or no neighbour has the address",
        6 Aborted "aborted" "this side aborted it",
        7 NoMemory "no memory" "memory had run out, and it made no progress",
        8 Protocol "protocol error" "TLS or another protocol on it failed, on either side",
        9 Nic "NIC failed" "the NIC was reset, or did what it must not",
        10 FinishedByNic "finished by the NIC" "this side closed it, and left the rest to the NIC",
        11 Other "other" "anything else",
    }

    /// What became of a handoff.
    handoff.outcome: HandoffOutcome {
        1 Accepted "accepted" "the NIC runs the connection",
        2 Refused "refused" "the NIC has refused it",
        3 Asked "returned: asked" "it is the host's again, which had asked for it",
        4 Load "returned: load" "it is the host's again: the NIC had too much to do",
        5 Transmit "returned: transmit" "it is the host's again: the NIC could not send what it had to",
        6 Closed "closed" "the connection has ended on the NIC",
        7 NicReset "NIC reset" "it is the host's again: the NIC was reset",
    }

    /// Why the NIC does not know where messages begin.
    offload_lost.reason: LossReason {
        1 HeaderMissing "header missing" "packets that hold the next header are lost or late",
        2 CheckFailed "check failed" "a message's check failed, or its header was not valid",
        3 ContentMissing "content missing" "the protocol around it gave nothing for packets that are lost or late",
    }

    /// How the NIC has found out where messages begin.
    offload_resumed.how: Resumption {
        1 LateHeader "late header" "the missing header came after all",
        2 Counted "counted" "the missing messages could be counted by their length",
        3 Confirmed "confirmed" "the host confirmed the NIC's guess",
    }

    /// What an answer did.
    resync_response.answer: ResyncAnswer {
        1 Confirmed "confirmed" "a message begins there",
        2 Refused "refused" "no message begins there: the NIC searches on",
        3 Stale "stale" "the NIC does not ask that any more",
    }

    /// Why the NIC drops a packet.
    packet_drop.reason: DropReason {
        1 RxNoFunction "rx_no_function" "it is for no function of the NIC",
        2 RxOutOfBuffer "rx_out_of_buffer" "the host had posted no buffer large enough",
        3 RxRingFull "rx_ring_full" "the receive ring was full",
        4 RxBadBuffer "rx_bad_buffer" "the host took the buffer's memory away meanwhile",
        5 RxMalformedTruncated "rx_malformed_truncated" "it ends inside a header or before a length in it",
        6 RxMalformedLength "rx_malformed_length" "two lengths in its headers contradict each other",
        7 RxMalformedOption "rx_malformed_option" "an impossible TCP option",
        8 RxMalformedValue "rx_malformed_value" "a wrong version or value in a header",
        9 RxFaultDropped "rx_fault_dropped" "on purpose, by longshore fault",
        10 RxCsumBad "rx_csum_bad" "a wrong checksum",
        11 TxDropNoContext "tx_drop_no_context" "its context does not exist, or is of another flow",
        12 AccelEgressFull "accel_egress_full" "a frame that the NIC makes or forwards, whose memory was full",
        13 AccelSynsBacklog "accel_syns_backlog" "a SYN, while too many connections wait to be accepted",
        14 AccelSpliceDropped "accel_splice_dropped" "of a splice: outside the window, or its TTL is exhausted",
        15 ToeRxQueueFull "toe_rx_queue_full" "of a connection that the NIC runs, whose queue was full",
        16 RxFiltered "rx_filtered" "a multicast frame, for a group that the host has not asked for",
    }

    /// What a client of the control socket asks for.
    control_request.request: ControlRequest {
        1 Stat "stat" "counters",
        2 Sockets "ss" "sockets",
        3 Restore "restore" "connections back from the NIC",
        4 Drain "drain" "a load balancer's backend gets nothing new, or may again",
        5 Reload "reload" "files read again",
        6 Fault "fault" "a function of a NIC is to fail",
        7 TakeOver "take over" "the service's place for another process",
        8 Attach "attach" "an attachment of a library",
    }
}
