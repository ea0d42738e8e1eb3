//! A TLS session: keys, records under way, and the NIC's contexts for them.

use std::collections::VecDeque;

use l5p::tls::{
    Algorithm, CryptoInfo, HEADER_LEN, PostHandshake, Reader, ResyncAnswer, Version, Writer,
};
use l5p::{Layers, MsgState};
use nic::ring::{ContextId, Direction};
use tcp::SendQueue;
use wire::{FlowKey, SeqNum};

use super::Offload;
use super::receive::Open;
use super::rekey::{MAX_REPLACED_KEYS, ReplacedKeys};
use crate::counters::Counters;
use crate::driver::{Driver, Payload, Place};
use crate::layer5::{self, Fallback, Outgoing};
use crate::stream::Stream;
use crate::{CloseReason, OffloadState, SocketId, TlsInfo};

/// An established TLS session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) id: SocketId,
    /// From this host to the peer.
    pub(super) flow: FlowKey,
    pub(super) writer: Writer,
    pub(super) reader: Reader,
    /// Makes new keys and keeps tickets; `None` when the keys were agreed on elsewhere.
    pub(super) post_handshake: Option<PostHandshake>,
    version: Version,
    algorithm: Algorithm,
    pub(super) asked: Offload,
    /// The context that records are framed for from now on.
    pub transmit: Option<ContextId>,
    /// What that context is to do with the content of records beside.
    pub(super) inside_transmit: Option<Layers>,
    /// Contexts of earlier records, each with the position after its last one.
    pub(super) former: VecDeque<(ContextId, SeqNum)>,
    pub receive: Option<ContextId>,
    /// What that context is to do with the content of records beside.
    pub(super) inside_receive: Option<Layers>,
    /// Keys that were replaced, oldest first: what the NIC has decrypted under them may be still to be read.
    pub(super) replaced_keys: VecDeque<ReplacedKeys>,
    /// The epoch of the last receive context.
    pub(super) receive_epoch: Option<u16>,
    /// The content that was read last ended inside of a message of the protocol that it carries.
    pub(super) inside_message: bool,
    /// The next context is to begin at a record that begins with a message: the last one began inside of a message and does not do what
    /// `inside_receive` asks for, or the NIC has refused to do it.
    pub(super) awaits_message: bool,
    /// Records opened in place and not yet consumed, from the stream's start on.
    pub(super) opened: VecDeque<Open>,
    /// The header of the record read last, and that record's length: records come in runs of one length.
    pub(super) last_header: ([u8; HEADER_LEN], usize),
    /// Bytes of the stream that `opened` covers.
    pub(super) opened_len: u32,
    /// The peer has sent close_notify.
    pub(super) peer_closed: bool,
    /// An alert of the peer's that was read and not acted on yet, where the keys are from elsewhere.
    pub(super) peer_alert: Option<u8>,
    /// What must end the connection, told to the application once it has read what came before.
    pub(super) failed: Option<CloseReason>,
    /// Questions of the NIC's that are not answered.
    pub(super) questions: u32,
    /// The identity of the pre-shared key that the handshake used.
    pub psk_identity: Option<Box<[u8]>>,
    pub(super) stats: Stats,
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

impl Session {
    /// A session whose first record to send begins at the end of the send queue, and whose first record to receive at
    /// `receive_start`.
    pub fn new(
        id: SocketId,
        flow: FlowKey,
        (transmit, receive): (CryptoInfo, CryptoInfo),
        post_handshake: Option<PostHandshake>,
        asked: Offload,
        receive_start: SeqNum,
        out: &mut Outgoing<'_>,
    ) -> Self {
        let mut session = Self {
            id,
            flow,
            version: transmit.version,
            algorithm: transmit.algorithm,
            writer: Writer::new(transmit),
            reader: Reader::new(receive),
            post_handshake,
            asked: Offload::None,
            transmit: None,
            inside_transmit: None,
            former: VecDeque::new(),
            receive: None,
            inside_receive: None,
            replaced_keys: VecDeque::new(),
            receive_epoch: None,
            inside_message: false,
            awaits_message: false,
            opened: VecDeque::new(),
            last_header: ([0; HEADER_LEN], 0),
            opened_len: 0,
            peer_closed: false,
            peer_alert: None,
            failed: None,
            questions: 0,
            psk_identity: None,
            stats: Stats::default(),
        };
        out.counters.tls_curr_tx_sw += 1;
        out.counters.tls_curr_rx_sw += 1;
        session.set_offload(asked, receive_start, out);
        *(if session.transmit.is_some() {
            &mut out.counters.tls_tx_device
        } else {
            &mut out.counters.tls_tx_sw
        }) += 1;
        *(if session.receive.is_some() {
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

    /// Changes what the NIC does, from the next record of each direction on.
    pub fn set_offload(&mut self, asked: Offload, receive_start: SeqNum, out: &mut Outgoing<'_>) {
        self.asked = asked;
        match (asked.transmit(), self.transmit) {
            (true, None) => self.begin_transmit(out),
            (false, Some(_)) => self.leave_transmit(out.send.end(), out.counters),
            _ => {}
        }
        match (asked.receive(), self.receive) {
            (true, None) => self.begin_receive(receive_start, out.driver, out.counters),
            (false, Some(_)) => self.leave_receive(out.driver, out.counters),
            _ => {}
        }
    }

    /// Asks the NIC to encrypt from the end of the send queue on.
    pub fn begin_transmit(&mut self, out: &mut Outgoing<'_>) {
        let tcpsn = out.send.end();
        let crypto = self.writer.crypto_info();
        let layers = match &self.inside_transmit {
            Some(inside) => inside.inside(&crypto),
            None => Layers::of(&crypto),
        };
        let created =
            out.driver
                .l5o_create(self.id, Direction::Transmit, self.flow, tcpsn, layers, None);
        match created {
            Some(_) => {
                out.counters.tls_curr_tx_sw -= 1;
                out.counters.tls_curr_tx_device += 1;
            }
            None => out.counters.tls_context_refused += 1,
        }
        self.transmit = created;
    }

    /// From the next record on, which begins with a message of the protocol inside, the context that encrypts is to do that one's part too.
    pub fn transmit_inside(&mut self, inside: Layers, out: &mut Outgoing<'_>) {
        self.inside_transmit = Some(inside);
        if self.transmit.is_some() {
            self.leave_transmit(out.send.end(), out.counters);
            self.begin_transmit(out);
        }
    }

    /// Whether the NIC does the part of the protocol inside for what is written now.
    pub fn transforms_inside(&self) -> bool {
        self.transmit.is_some() && self.inside_transmit.is_some()
    }

    /// Encrypts in software from `end` on. The context stays until its records are acknowledged.
    pub fn leave_transmit(&mut self, end: SeqNum, counters: &mut Counters) {
        if let Some(context) = self.transmit.take() {
            self.former.push_back((context, end));
            counters.tls_curr_tx_device -= 1;
            counters.tls_curr_tx_sw += 1;
        }
    }

    /// Asks the NIC to decrypt from the record at `tcpsn` on, which is the next to be opened. Not while it may still decrypt
    /// under too many former keys.
    pub(super) fn begin_receive(
        &mut self,
        tcpsn: SeqNum,
        driver: &mut Driver,
        counters: &mut Counters,
    ) {
        if self.replaced_keys.len() >= MAX_REPLACED_KEYS {
            return;
        }
        let crypto = self.reader.crypto_info();
        let is_aligned = !self.inside_message && !self.has_content();
        self.awaits_message = self.inside_receive.is_some() && !is_aligned;
        let layers = match self.inside_receive.as_ref().filter(|_| is_aligned) {
            Some(inside) => inside.inside(&crypto),
            None => Layers::of(&crypto),
        };
        let tag = self.reader.begin_context();
        self.receive = driver.l5o_create(
            self.id,
            Direction::Receive,
            self.flow.reversed(),
            tcpsn,
            layers,
            Some(tag),
        );
        match self.receive {
            Some(_) => {
                self.receive_epoch = Some(tag.epoch);
                counters.tls_curr_rx_sw -= 1;
                counters.tls_curr_rx_device += 1;
            }
            None => counters.tls_context_refused += 1,
        }
    }

    /// Records carry another protocol from the one at `next` on, which is the next to be opened: the context that decrypts is to do that
    /// one's part too. If they do not begin with one of its messages it waits until one does. Not in TLS 1.2, whose records do not tell the NIC
    /// behind their content what they are: there it goes on with TLS alone.
    pub fn receive_inside(&mut self, inside: Layers, next: SeqNum, out: &mut Outgoing<'_>) {
        if self.version == Version::Tls12 {
            return;
        }
        self.inside_receive = Some(inside);
        if self.receive.is_some() {
            self.leave_receive(out.driver, out.counters);
            self.begin_receive(next, out.driver, out.counters);
        }
    }

    /// Records carry no other protocol any more from the one at `next` on: the context that did that one's part too is given up.
    pub fn receive_nothing_inside(&mut self, next: SeqNum, out: &mut Outgoing<'_>) {
        if self.inside_receive.take().is_some() && self.receive.is_some() {
            self.leave_receive(out.driver, out.counters);
            self.begin_receive(next, out.driver, out.counters);
        }
    }

    /// The receive context that does the part of the protocol inside.
    pub fn context_inside(&self) -> Option<ContextId> {
        let is_used = self.inside_receive.is_some() && !self.awaits_message;
        self.receive.filter(|_| is_used)
    }

    /// Decrypts in software from now on, but for what the NIC has decrypted already.
    pub(super) fn leave_receive(&mut self, driver: &mut Driver, counters: &mut Counters) {
        if let Some(context) = self.receive.take() {
            driver.l5o_destroy(context);
            self.questions = 0;
            counters.tls_curr_rx_device -= 1;
            counters.tls_curr_rx_sw += 1;
        }
    }

    /// Hands on what the reader has found out.
    #[inline]
    pub(super) fn answer_resyncs(&mut self, driver: &mut Driver) {
        while self.questions > 0
            && let Some(ResyncAnswer {
                tcpsn,
                confirmed,
                index,
                epoch,
            }) = self.reader.poll_resync_answer()
        {
            self.questions -= 1;
            let Some(context) = self.receive else {
                continue;
            };
            let usable = confirmed && epoch == self.reader.epoch();
            let place = Place { tcpsn, inner: None };
            driver.l5o_resync_rx_resp(context, place, usable.then_some(index));
        }
    }

    /// Position of the next record to be opened.
    pub fn next_record(&self, stream: &Stream) -> SeqNum {
        stream.start() + self.opened_len
    }

    /// Whether the NIC waits for an answer that more of the stream may hold.
    pub fn has_questions(&self) -> bool {
        self.questions > 0
    }

    /// Whether the peer has ended the session in order.
    pub fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    pub fn version(&self) -> Version {
        self.version
    }

    pub fn info(&self) -> TlsInfo {
        let state = |asked: bool, context: Option<ContextId>| match (asked, context) {
            (_, Some(_)) => OffloadState::Device,
            (true, None) => OffloadState::FellBack,
            (false, None) => OffloadState::Software,
        };
        TlsInfo {
            version: match self.version {
                Version::Tls12 => "TLSv1.2",
                Version::Tls13 => "TLSv1.3",
            },
            cipher: match self.algorithm {
                Algorithm::Aes128Gcm => "AES-128-GCM",
                Algorithm::Aes256Gcm => "AES-256-GCM",
                Algorithm::ChaCha20Poly1305 => "CHACHA20-POLY1305",
            },
            asked: self.asked,
            transmit: state(self.asked.transmit(), self.transmit),
            receive: state(self.asked.receive(), self.receive),
            records_sent: self.stats.sent,
            records_full: self.stats.full,
            records_partial: self.stats.partial,
            records_none: self.stats.none,
            resync_requests: self.stats.resync_requests,
            key_updates: self.stats.key_updates,
        }
    }
}

impl layer5::Session for Session {
    fn l5o_get_tx_msgstate(&self, position: SeqNum) -> Option<MsgState> {
        self.writer.message_state(position)
    }

    #[inline]
    fn acknowledged(&mut self, una: SeqNum, driver: &mut Driver) -> SeqNum {
        if self.writer.is_empty() && self.former.is_empty() {
            return una;
        }
        let point = self.writer.release_point(una);
        self.writer.acknowledged(una);
        while let Some(&(context, end)) = self.former.front()
            && end.at_or_before(una)
        {
            driver.l5o_destroy(context);
            self.former.pop_front();
        }
        point
    }

    fn contexts(&self) -> [Option<ContextId>; 2] {
        [self.transmit, self.receive]
    }

    fn transmit_contexts(&self, each: &mut dyn FnMut(ContextId)) {
        let former = self.former.iter().map(|(context, _)| *context);
        former.chain(self.transmit).for_each(each);
    }

    fn l5o_resync_rx_req(
        &mut self,
        _: ContextId,
        place: Place,
        driver: &mut Driver,
        counters: &mut Counters,
    ) {
        counters.tls_rx_device_resync += 1;
        self.stats.resync_requests += 1;
        self.questions += 1;
        self.reader.resync_request(place.tcpsn);
        self.answer_resyncs(driver);
    }

    fn context_failed(
        &mut self,
        context: ContextId,
        end: SeqNum,
        driver: &mut Driver,
        counters: &mut Counters,
    ) {
        if self.transmit == Some(context) {
            self.leave_transmit(end, counters);
        } else if self.receive == Some(context) {
            let is_lost = driver
                .contexts()
                .get(context)
                .is_none_or(|shadow| shadow.lost);
            let asked_for_more = self.context_inside().is_some();
            self.leave_receive(driver, counters);
            if asked_for_more {
                // TLS alone asks less of the NIC.
                self.inside_receive = None;
                self.awaits_message = !is_lost;
            }
        }
    }

    fn transform_in_software(
        &mut self,
        context: ContextId,
        tcpsn: SeqNum,
        send: &mut SendQueue<Payload>,
        driver: &mut Driver,
        counters: &mut Counters,
    ) -> Fallback {
        self.encrypt_in_software(context, tcpsn, send, driver, counters)
    }

    fn dismantle(&mut self, driver: &mut Driver, counters: &mut Counters) {
        self.leave_transmit(SeqNum(0), counters);
        self.leave_receive(driver, counters);
        while let Some((context, _)) = self.former.pop_front() {
            driver.l5o_destroy(context);
        }
        counters.tls_curr_tx_sw -= 1;
        counters.tls_curr_rx_sw -= 1;
    }
}
