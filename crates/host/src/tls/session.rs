//! A TLS session: keys, and records under way.

use std::collections::VecDeque;

use l5p::Layers;
use l5p::tls::{Algorithm, CryptoInfo, HEADER_LEN, PostHandshake, Reader, Version, Writer};
use nic::ring::ContextId;
use wire::{FlowKey, SeqNum};

use super::Offload;
use super::contexts::ReceiveContext;
use super::opened::Opened;
use super::rekey::ReplacedKeys;
use crate::layer5::{Outgoing, TransmitContexts};
use crate::stream::Stream;
use crate::{CloseReason, OffloadState, SocketId, TlsInfo};

/// An established TLS session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) id: SocketId,
    /// From this host to the peer.
    pub(super) flow: FlowKey,
    pub writer: Writer,
    pub(super) reader: Reader,
    /// Makes new keys and keeps tickets; `None` when the keys were agreed on elsewhere.
    pub post_handshake: Option<PostHandshake>,
    suite: Suite,
    pub(super) asked: Offload,
    pub tx: TransmitContexts,
    /// The present keys have no context yet because too many former ones are in use.
    pub(super) awaits_context: bool,
    /// What the context that encrypts is to do with the content of records beside.
    pub(super) inside_transmit: Option<Layers>,
    pub rx: ReceiveContext,
    /// Keys that were replaced, oldest first: what the NIC has decrypted under them may be still to be read.
    pub(super) replaced_keys: VecDeque<ReplacedKeys>,
    /// Records opened in place and not yet consumed, from the stream's start on.
    pub(super) opened: Opened,
    /// The header of the record read last, and that record's length: records come in runs of one length.
    pub(super) last_header: ([u8; HEADER_LEN], usize),
    pub(super) peer: Peer,
    /// What must end the connection, told to the application once it has read what came before.
    pub(super) failed: Option<CloseReason>,
    /// The identity of the pre-shared key that the handshake used.
    pub psk_identity: Option<Box<[u8]>>,
    pub(super) stats: Stats,
}

/// The version and the AEAD.
#[derive(Clone, Copy, Debug)]
struct Suite {
    version: Version,
    algorithm: Algorithm,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    pub sent: u64,
    pub full: u64,
    pub partial: u64,
    pub none: u64,
    pub resync_requests: u64,
    pub key_updates: u32,
}

/// What both ends have agreed on.
pub(crate) struct Keys {
    pub transmit: CryptoInfo,
    pub receive: CryptoInfo,
    /// Makes new keys and keeps tickets; `None` when the keys were agreed on elsewhere.
    pub post_handshake: Option<PostHandshake>,
}

/// What the peer has said in the session.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// It has sent close_notify.
    pub has_closed: bool,
    /// An alert that was read and not acted on yet, where the keys are from elsewhere.
    pub alert: Option<u8>,
    /// It has asked for new keys, which it is owed before the next application data.
    pub awaits_update: bool,
}

impl Session {
    /// A session whose first record to send begins at the end of the send queue, and whose first record to receive at
    /// `receive_start`.
    pub fn new(
        id: SocketId,
        flow: FlowKey,
        keys: Keys,
        asked: Offload,
        receive_start: SeqNum,
        out: &mut Outgoing<'_>,
    ) -> Self {
        let Keys {
            transmit,
            receive,
            post_handshake,
        } = keys;
        let mut session = Self {
            id,
            flow,
            suite: Suite {
                version: transmit.version,
                algorithm: transmit.algorithm,
            },
            writer: Writer::new(transmit),
            reader: Reader::new(receive),
            post_handshake,
            asked: Offload::None,
            tx: TransmitContexts::default(),
            awaits_context: false,
            inside_transmit: None,
            rx: ReceiveContext::default(),
            replaced_keys: VecDeque::new(),
            opened: Opened::default(),
            last_header: ([0; HEADER_LEN], 0),
            peer: Peer::default(),
            failed: None,
            psk_identity: None,
            stats: Stats::default(),
        };
        out.counters.tls_curr_tx_sw += 1;
        out.counters.tls_curr_rx_sw += 1;
        session.set_offload(asked, receive_start, out);
        *(if session.tx.context.is_some() {
            &mut out.counters.tls_tx_device
        } else {
            &mut out.counters.tls_tx_sw
        }) += 1;
        *(if session.rx.context.is_some() {
            &mut out.counters.tls_rx_device
        } else {
            &mut out.counters.tls_rx_sw
        }) += 1;
        session
    }

    /// Makes records of at most that many content bytes from the next one on.
    pub fn limit_records(&mut self, bytes: u16) {
        self.writer
            .set_max_plaintext(usize::from(bytes.max(1)).min(self.writer.max_plaintext()));
    }

    /// Position of the next record to be opened.
    pub fn next_record(&self, stream: &Stream) -> SeqNum {
        stream.start() + self.opened.len()
    }

    /// Whether the NIC waits for an answer that more of the stream may hold.
    pub fn has_questions(&self) -> bool {
        self.rx.questions > 0
    }

    /// Whether the peer has ended the session in order.
    pub fn is_peer_closed(&self) -> bool {
        self.peer.has_closed
    }

    pub fn version(&self) -> Version {
        self.suite.version
    }

    pub fn info(&self) -> TlsInfo {
        let state = |asked: bool, context: Option<ContextId>| match (asked, context) {
            (_, Some(_)) => OffloadState::Device,
            (true, None) => OffloadState::FellBack,
            (false, None) => OffloadState::Software,
        };
        TlsInfo {
            version: match self.suite.version {
                Version::Tls12 => "TLSv1.2",
                Version::Tls13 => "TLSv1.3",
            },
            cipher: match self.suite.algorithm {
                Algorithm::Aes128Gcm => "AES-128-GCM",
                Algorithm::Aes256Gcm => "AES-256-GCM",
                Algorithm::ChaCha20Poly1305 => "CHACHA20-POLY1305",
            },
            asked: self.asked,
            transmit: state(self.asked.transmit(), self.tx.context),
            receive: state(self.asked.receive(), self.rx.context),
            records_sent: self.stats.sent,
            records_full: self.stats.full,
            records_partial: self.stats.partial,
            records_none: self.stats.none,
            resync_requests: self.stats.resync_requests,
            key_updates: self.stats.key_updates,
        }
    }
}
