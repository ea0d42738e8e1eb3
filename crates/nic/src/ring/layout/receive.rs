//! Slots of the receive ring.

use super::{Layout, Named, RECV_WORDS, Reserved, Slice, Toe};

layouts! {
    /// Something that a protocol has to say of a byte.
    struct Note {
        /// byte of the packet's payload
        at: u32,
        /// by protocol
        code: u32,
        /// by code
        value: u64,
    }
}

layouts! {
    /// What every event of a connection that the device runs begins with, and all of some.
    struct ToeHead = 9 {
        opcode: u8,
        /// which event
        kind: u8,
        /// by kind
        reason: u8,
        /// by kind
        detail: u8,
        /// by kind
        flags: u8,
        _0: Reserved<3>,
        toe: Toe,
    }

    /// TCP has taken a part of the packet behind it.
    struct ToeDelivered {
        head: ToeHead,
        /// position of the first byte taken
        seq: u32,
        /// payload bytes before it
        skip: u32,
        /// bytes taken
        len: u32,
        rcv_nxt: u32,
        snd_una: u32,
        /// bytes that may be under way
        flight: u32,
    }

    /// The peer has acknowledged more.
    struct ToeAcked {
        head: ToeHead,
        snd_una: u32,
        /// bytes that may be under way
        flight: u32,
    }

    /// The peer sends no more.
    struct ToePeerFin {
        head: ToeHead,
        /// position behind the FIN
        rcv_nxt: u32,
        _0: Reserved<4>,
    }

    /// A connection has ended.
    struct ToeClosed [TIME_WAIT = 1, TIMESTAMPS = 2] {
        head: ToeHead,
        snd_nxt: u32,
        rcv_nxt: u32,
        /// receive window in bytes
        rcv_wnd: u32,
        /// receive window as in a header
        window: u32,
        /// the peer's latest timestamp
        recent: u32,
        /// own timestamp now
        value: u32,
    }

    /// A connection is the host's again.
    struct ToeRestored {
        head: ToeHead,
        /// that could not transform, or none
        context: u32,
        _0: Reserved<4>,
    }

    /// A context is not where the next segment begins.
    struct ToeRecover {
        head: ToeHead,
        context: u32,
        /// where the next segment begins
        tcpsn: u32,
        /// end of what was sent once
        sent: u32,
        _0: Reserved<4>,
    }

    /// Connections that the device runs, for all functions together.
    struct ToeRoom {
        head: ToeHead,
        /// most of them
        soft_limit: u32,
        /// those that there are
        active: u32,
    }

    /// A descriptor of the command ring was refused.
    struct ToeCommandFailed {
        head: ToeHead,
        /// of the descriptor's first slot in the command ring
        index: u64,
        context: u32,
        tcpsn: u32,
    }
}

layouts! {
    /// A received packet.
    struct Packet = 1 [CHECKSUM_OK = 1, LAYER_0 = 8, LAYER_1 = 16, LAYER_2 = 32, LAYER_3 = 64, REPLACED = 128] {
        opcode: u8,
        flags: u8,
        /// bytes of Ethernet, IP and TCP headers; 0 if it is not TCP
        header_len: u16,
        /// packets that were on the wire
        segments: u16,
        /// so many `Placed` follow
        placed: u16,
        /// receive context, or none
        context: u32,
        /// bytes of TCP payload, those that were placed included
        payload_len: u32,
        /// where it is
        buffer: Slice,
        /// hash of its flow
        hash: u32,
        /// so many notes follow
        notes: u8,
        /// what the hash covers: one of the types of `RssSettings`, or 0
        hash_type: u8,
        _0: Reserved<26>,
    }

    /// Does a message begin there?
    struct ResyncRequest = 2 {
        opcode: u8,
        _0: Reserved<7>,
        context: u32,
        /// first byte of a message of the outermost protocol
        tcpsn: u32,
        /// byte of that message's content
        offset: u32,
        /// which protocol asks
        layer: u8,
        _1: Reserved<43>,
    }

    /// A descriptor was refused.
    struct Completion = 3 {
        opcode: u8,
        error: u8,
        _0: Reserved<6>,
        context: u32,
        tcpsn: u32,
        /// of the descriptor's first slot in the send ring
        index: u64,
        _1: Reserved<40>,
    }

    /// Payload that the device wrote to a mapped buffer.
    struct Placed = 4 {
        opcode: u8,
        _0: Reserved<7>,
        tag: u16,
        _1: Reserved<2>,
        /// its first byte in the packet's payload
        at: u32,
        /// where it is
        slice: Slice,
        _2: Reserved<32>,
    }

    /// The packet behind it opens a connection.
    struct Established = 5 [WINDOW_SCALE = 1, SACK = 2] {
        opcode: u8,
        flags: u8,
        /// the peer's
        window_shift: u8,
        _0: u8,
        /// the peer's
        mss: u16,
        _1: Reserved<2>,
        rule: u16,
        _2: Reserved<2>,
        /// own timestamp now
        timestamp: u32,
        _3: Reserved<48>,
    }

    /// Room that the function still has.
    struct AccelRoom = 6 {
        opcode: u8,
        _0: Reserved<7>,
        /// teardowns
        closing: u32,
        splices: u32,
        /// bytes
        packet_memory: u64,
        _1: Reserved<40>,
    }

    /// A splice has ended.
    struct SpliceEnded = 7 {
        opcode: u8,
        reason: u8,
        _0: Reserved<6>,
        splice: u32,
        _1: Reserved<4>,
        /// from A's and B's peer
        bytes: [u64; 2],
        /// from A's and B's peer
        packets: [u64; 2],
        _2: Reserved<16>,
    }

    /// Where a leg stands: as the device leaves it, or asked by `QuerySplice`.
    struct SpliceState = 8 [LEG_B = 1, FIN_SENT = 2, FIN_RECEIVED = 4, TIMESTAMPS = 8, PROBED = 16, ECN_ECHO = 32] {
        opcode: u8,
        flags: u8,
        _0: Reserved<6>,
        splice: u32,
        /// the peer's window in bytes
        peer_window: u32,
        snd_una: u32,
        snd_nxt: u32,
        rcv_nxt: u32,
        /// own window in bytes
        own_window: u32,
        /// the peer's latest timestamp
        recent: u32,
        /// own timestamp now
        value: u32,
        /// payload bytes forwarded to the peer
        forwarded: u64,
        _1: Reserved<16>,
    }

    /// The function was reset.
    struct Reset = 10 {
        opcode: u8,
        _0: Reserved<7>,
        /// resets so far
        epoch: u32,
        _1: Reserved<52>,
    }

    /// What the innermost protocol has to say of a packet.
    struct Notes = 11 {
        opcode: u8,
        /// how many
        count: u8,
        _0: Reserved<6>,
        notes: [Note; 3],
        _1: Reserved<8>,
    }

    /// What became of a `LoadResource`.
    struct Resource = 12 {
        opcode: u8,
        /// 0 when it is there
        error: u8,
        _0: Reserved<6>,
        resource: u16,
        _1: Reserved<54>,
    }
}

/// Declares the kinds of a [`ToeHead`].
macro_rules! kinds {
    ($($name:ident = $kind:literal),*) => {
        /// Kinds of a [`ToeHead`].
        pub(in crate::ring) mod toe_kind {
            $(pub(in crate::ring) const $name: u8 = $kind;)*
        }

        /// All of them.
        pub(super) const TOE_KINDS: &[Named] = &[$(Named {
            name: stringify!($name),
            value: $kind,
        }),*];
    };
}

kinds!(
    READY = 1,
    REFUSED = 2,
    ACCEPTED = 3,
    DELIVERED = 4,
    ACKED = 5,
    PEER_FIN = 6,
    CLOSED = 7,
    RESTORED = 8,
    RECOVER = 9,
    ROOM = 10,
    COMMAND_FAILED = 11
);

macro_rules! slots {
    ($($Name:ident),*) => {
        /// All of them, and what they consist of.
        pub(super) const LAYOUTS: &[Layout] = &[Note::LAYOUT, $($Name::LAYOUT),*];

        $(impl $Name {
            /// A slot with this, and zeros behind it.
            #[inline]
            pub(in crate::ring) fn words(self) -> [u64; RECV_WORDS] {
                let words: [u64; size_of::<$Name>() / 8] = zerocopy::transmute!(self);
                let mut slot = [0; RECV_WORDS];
                slot[..words.len()].copy_from_slice(&words);
                slot
            }
        })*
    };
}

slots!(
    Packet,
    ResyncRequest,
    Completion,
    Placed,
    Established,
    AccelRoom,
    SpliceEnded,
    SpliceState,
    ToeHead,
    ToeDelivered,
    ToeAcked,
    ToePeerFin,
    ToeClosed,
    ToeRestored,
    ToeRecover,
    ToeRoom,
    ToeCommandFailed,
    Reset,
    Notes,
    Resource
);
