//! Slots of the send and command ring.

use super::{Form, Layout, Reserved, SendSlot};

layouts! {
    /// Registered memory that a descriptor names.
    struct Slice {
        /// bytes from the region's start
        offset: u64,
        /// bytes
        len: u32,
        /// number of the region
        region: u16,
        _0: Reserved<2>,
    }

    /// Both ends of a flow, as packets of that direction carry them.
    struct Flow {
        /// source address, an IPv4 one as `::ffff:a.b.c.d`
        src: [u8; 16],
        /// destination address
        dst: [u8; 16],
        /// source port
        src_port: u16,
        /// destination port
        dst_port: u16,
    }

    /// A connection that the device runs.
    struct Toe {
        /// its place
        index: u32,
        /// which of those that have had the place
        generation: u32,
    }

    /// What every slot begins with.
    struct Head {
        /// which descriptor
        opcode: u8,
        /// by opcode
        flags: u8,
        /// `Send`: bytes of packet headers
        header_len: u8,
        /// slices in this slot
        slices: u8,
        /// slots behind it with further slices
        continuations: u8,
        _0: u8,
        /// `Send`: payload bytes per packet on the wire, or 0
        mss: u16,
    }

    /// One connection of a `Splice`.
    struct Leg {
        /// from the host to the peer
        flow: Flow,
        /// shift of the windows that the peer announces
        peer_shift: u8,
        /// shift of the windows that the host announces
        own_shift: u8,
        /// 1 SACK, 2 timestamps, 4 ECN, 8 ECE owed
        options: u8,
        /// TTL or hop limit
        hop_limit: u8,
        /// the next hop's MAC address
        hop: [u8; 6],
        /// most payload bytes of a packet to the peer
        mss: u16,
        /// the next byte that is sent
        snd_nxt: u32,
        /// the next byte that is expected
        rcv_nxt: u32,
        /// the peer's window in bytes
        peer_window: u32,
        _0: Reserved<4>,
        /// the peer's latest timestamp
        recent: u32,
        /// the host's timestamp now
        value: u32,
    }
}

/// Options of a [`Leg`].
pub(in crate::ring) const LEG_SACK: u8 = 1;
pub(in crate::ring) const LEG_TIMESTAMPS: u8 = 2;
pub(in crate::ring) const LEG_ECN: u8 = 4;
pub(in crate::ring) const LEG_ECN_ECHO: u8 = 8;

layouts! {
    /// A packet, or a TCP segment that is cut.
    struct Send = 1 [CHECKSUM = 1, MUTABLE_SOURCE = 2] {
        head: Head,
        /// transmit context, or none
        context: u32,
        /// bytes of all slices
        payload_len: u32,
        /// the payload
        slices: [Slice; 3],
        /// Ethernet, IP and TCP headers
        header: [u8; 128],
    }

    /// Further slices of the descriptor before it.
    struct Continuation = 2 {
        head: Head,
        _0: Reserved<8>,
        /// further slices
        slices: [Slice; 11],
    }

    /// Makes a context.
    struct CreateContext = 3 [RECEIVE = 1, V6 = 2] {
        head: Head,
        /// a free id below the quota
        context: u32,
        /// first byte of the next message
        tcpsn: u32,
        flow: Flow,
        /// the outermost first, then zeros
        protocols: [u8; 4],
        /// those of each protocol, without a gap
        parameters: [u8; 136],
    }

    /// Destroys a context.
    struct DestroyContext = 4 {
        head: Head,
        context: u32,
        _0: Reserved<52>,
    }

    /// Brings a transmit context to where the next `Send` begins.
    struct RecoverContext = 5 [VERIFY_WHOLE = 1, VERIFY_FRONTIER = 2, INNER = 4, TOE = 8] {
        head: Head,
        context: u32,
        /// bytes of the message
        len: u32,
        /// number of the message
        index: u64,
        /// first byte of the message
        start: u32,
        /// where the next `Send` begins
        resume: u32,
        /// the message up to there, or further
        slices: [Slice; 8],
        /// the connection that waits
        toe: Toe,
        _0: Reserved<8>,
        /// number of the inner message
        inner_index: u64,
        /// its bytes
        inner_len: u32,
        /// which of its bytes the outer message's content begins with
        inner_offset: u32,
    }

    /// Maps a tag to a buffer.
    struct AddRrState = 6 {
        head: Head,
        context: u32,
        tag: u16,
        _0: Reserved<2>,
        /// the buffer
        slices: [Slice; 11],
    }

    /// Unmaps a tag.
    struct DelRrState = 7 {
        head: Head,
        context: u32,
        tag: u16,
        _0: Reserved<50>,
    }

    /// Answers a `ResyncRequest`.
    struct ResyncResponse = 8 [CONFIRMED = 1] {
        head: Head,
        context: u32,
        /// as asked
        tcpsn: u32,
        /// number of the message that begins there
        index: u64,
        /// as asked
        offset: u32,
        /// as asked
        layer: u8,
        _0: Reserved<35>,
    }

    /// Has the device answer SYNs.
    struct InstallListener = 9 [V6 = 1, WINDOW_SCALE = 2, SACK = 4, DEFER = 8] {
        head: Head,
        rule: u16,
        _0: Reserved<2>,
        /// connections that may wait
        backlog: u32,
        /// unspecified for all of the family
        address: [u8; 16],
        port: u16,
        /// of the SYN-ACK
        mss: u16,
        /// of the SYN-ACK
        window: u16,
        /// of the SYN-ACK
        window_shift: u8,
        /// of the SYN-ACK
        hop_limit: u8,
        _1: Reserved<24>,
    }

    /// Takes a rule away.
    struct RemoveListener = 10 {
        head: Head,
        rule: u16,
        _0: Reserved<54>,
    }

    /// Connections of a rule wait no longer.
    struct ListenerCredit = 11 {
        head: Head,
        rule: u16,
        _0: Reserved<2>,
        /// how many
        credits: u32,
        _1: Reserved<48>,
    }

    /// Hands over a connection that the application has closed.
    struct Teardown = 12 [V6 = 1, PEER_CLOSED = 2, TIMESTAMPS = 4] {
        head: Head,
        /// a refusal repeats it
        ticket: u32,
        /// bytes of all slices
        payload_len: u32,
        /// from the host to the peer
        flow: Flow,
        /// own window, as in a header
        window: u16,
        /// shift of the windows that the peer announces
        peer_shift: u8,
        /// time-outs since anything was acknowledged
        retransmits: u8,
        /// the next hop's MAC address
        hop: [u8; 6],
        /// TTL or hop limit
        hop_limit: u8,
        _0: u8,
        /// first byte of the payload
        snd_una: u32,
        /// first byte that was never sent
        snd_nxt: u32,
        /// the next byte that is expected
        rcv_nxt: u32,
        /// the peer's window in bytes
        peer_window: u32,
        /// the peer's latest timestamp
        recent: u32,
        /// the host's timestamp now
        value: u32,
        /// retransmission time-out in µs
        rto_us: u32,
        /// how long TIME-WAIT lasts
        time_wait_ms: u32,
        /// how long FIN-WAIT-2 may last
        fin_wait2_ms: u32,
        /// payload bytes per packet
        mss: u16,
        /// shift of the windows that the host announces
        own_shift: u8,
        _1: Reserved<25>,
        /// what is not acknowledged
        slices: [Slice; 4],
    }

    /// Joins two connections.
    struct Splice = 13 [A_V6 = 1, B_V6 = 2] {
        head: Head,
        /// a free number
        splice: u32,
        /// longest time without a packet, or 0
        idle_ms: u32,
        /// legs A and B
        legs: [Leg; 2],
        /// windows last announced on A and B, in bytes
        own_window: [u32; 2],
        /// most payload bytes of a packet from A's and B's peer
        own_mss: [u16; 2],
        _0: Reserved<20>,
    }

    /// Takes a splice back.
    struct Unsplice = 14 {
        head: Head,
        splice: u32,
        _0: Reserved<52>,
    }

    /// A received frame that the device takes back.
    struct Reinject = 15 {
        head: Head,
        /// payload bytes of each packet that it stands for, or 0
        gso_size: u16,
        _0: Reserved<6>,
        /// the frame
        slices: [Slice; 1],
        _1: Reserved<32>,
    }

    /// Has a flow's packets held.
    struct ToeBegin = 16 [V6 = 1] {
        head: Head,
        toe: Toe,
        /// from the host to the peer
        flow: Flow,
        _0: Reserved<12>,
    }

    /// Has the device run a connection.
    struct ToeOffer = 17 [V6 = 1] {
        head: Head,
        toe: Toe,
        /// from the host to the peer
        flow: Flow,
        _0: Reserved<4>,
        /// the next hop's MAC address
        hop: [u8; 6],
        /// TTL or hop limit
        hop_limit: u8,
        _1: u8,
        /// the control block
        slices: [Slice; 1],
    }

    /// Gives up what was begun.
    struct ToeCancel = 18 {
        head: Head,
        toe: Toe,
        _0: Reserved<48>,
    }

    /// Takes a connection back.
    struct ToeRestore = 19 {
        head: Head,
        toe: Toe,
        _0: Reserved<48>,
    }

    /// Data to send.
    struct ToeSend = 20 [MUTABLE_SOURCE = 2] {
        head: Head,
        toe: Toe,
        /// position of the first byte
        seq: u32,
        /// bytes of all slices
        bytes: u32,
        /// transmit context, or none
        context: u32,
        _0: Reserved<4>,
        /// the data
        slices: [Slice; 9],
        _1: Reserved<16>,
    }

    /// The application has read.
    struct ToeConsumed = 21 {
        head: Head,
        toe: Toe,
        /// how many bytes more
        bytes: u32,
        _0: Reserved<44>,
    }

    /// Sends FIN behind what is queued.
    struct ToeClose = 22 {
        head: Head,
        toe: Toe,
        _0: Reserved<48>,
    }

    /// Resets a connection.
    struct ToeAbort = 23 {
        head: Head,
        toe: Toe,
        _0: Reserved<48>,
    }

    /// The application reads no more.
    struct ToeDetach = 24 {
        head: Head,
        toe: Toe,
        _0: Reserved<48>,
    }

    /// Sets an option.
    struct ToeOption = 25 {
        head: Head,
        toe: Toe,
        /// 1 `TCP_NODELAY`, 2 `TCP_CORK`
        option: u32,
        /// 0 or 1
        value: u32,
        _0: Reserved<40>,
    }

    /// A context is where it was asked to be.
    struct ToeResume = 26 {
        head: Head,
        toe: Toe,
        context: u32,
        /// where it is now
        tcpsn: u32,
        /// bytes that this is good for, or 0
        len: u32,
        _0: Reserved<36>,
    }

    /// Makes what contexts of a protocol share.
    struct LoadResource = 27 {
        head: Head,
        /// a free number
        resource: u16,
        _0: Reserved<2>,
        protocol: u8,
        _1: Reserved<3>,
        /// what it is made of
        slices: [Slice; 1],
        _2: Reserved<32>,
    }

    /// Gives a resource up.
    struct UnloadResource = 28 {
        head: Head,
        resource: u16,
        _0: Reserved<54>,
    }

    /// Has the device tell where a splice stands.
    struct QuerySplice = 29 {
        head: Head,
        splice: u32,
        _0: Reserved<52>,
    }

    /// Sets how received packets are hashed and spread.
    struct SetRss = 30 {
        head: Head,
        _0: Reserved<8>,
        /// the `RssSettings`
        slices: [Slice; 1],
        _1: Reserved<32>,
    }

    /// Has the device write how they are.
    struct QueryRss = 31 {
        head: Head,
        _0: Reserved<8>,
        /// where the `RssSettings` go
        slices: [Slice; 1],
        _1: Reserved<32>,
    }

    /// Sets which multicast frames the function receives.
    struct SetFilter = 32 [ALL_MULTICAST = 1] {
        head: Head,
        /// how many groups
        count: u32,
        _0: Reserved<4>,
        /// of 6 bytes each, then zeros
        addresses: [u8; 168],
        _1: Reserved<8>,
    }
}

/// What slots consist of.
pub(super) const PARTS: [Layout; 5] = [
    Slice::LAYOUT,
    Flow::LAYOUT,
    Toe::LAYOUT,
    Head::LAYOUT,
    Leg::LAYOUT,
];

macro_rules! forms {
    ($($Name:ident),*) => {
        $(impl SendSlot for $Name {
            const OPCODE: u8 = $Name::OPCODE;
            const FORM: &'static Form = {
                static FORM: Form = Form::new($Name::LAYOUT);
                &FORM
            };
            const SLICES: usize = match $Name::LAYOUT.slices() {
                Some((_, count)) => count,
                None => 0,
            };
        })*

        /// All of them, by ascending opcode.
        pub(super) static FORMS: [&Form; [$(stringify!($Name)),*].len()] = [$($Name::FORM),*];

        const _: () = {
            let opcodes = [$($Name::OPCODE),*];
            let mut at = 0;
            while at < opcodes.len() {
                assert!(opcodes[at] as usize == at + 1);
                at += 1;
            }
            $(assert!(size_of::<$Name>() % 8 == 0 && size_of::<$Name>() <= super::SLOT_WORDS * 8);)*
        };
    };
}

forms!(
    Send,
    Continuation,
    CreateContext,
    DestroyContext,
    RecoverContext,
    AddRrState,
    DelRrState,
    ResyncResponse,
    InstallListener,
    RemoveListener,
    ListenerCredit,
    Teardown,
    Splice,
    Unsplice,
    Reinject,
    ToeBegin,
    ToeOffer,
    ToeCancel,
    ToeRestore,
    ToeSend,
    ToeConsumed,
    ToeClose,
    ToeAbort,
    ToeDetach,
    ToeOption,
    ToeResume,
    LoadResource,
    UnloadResource,
    QuerySplice,
    SetRss,
    QueryRss,
    SetFilter
);
