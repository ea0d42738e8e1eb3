//! The NIC's contexts of a session.

use l5p::tls::{ResyncAnswer, Version};
use l5p::{Layers, MsgState};
use nic::ring::{ContextId, Direction};
use tcp::SendQueue;
use wire::SeqNum;

use super::Offload;
use super::rekey::MAX_REPLACED_KEYS;
use super::session::Session;
use crate::counters::Counters;
use crate::driver::{Driver, Payload, Place};
use crate::layer5::{self, Fallback, Outgoing};

/// The context of what is received.
#[derive(Debug, Default)]
pub(crate) struct ReceiveContext {
    pub context: Option<ContextId>,
    /// What that context is to do with the content of records beside.
    pub(super) inside: Option<Layers>,
    /// The epoch of the last context.
    pub(super) epoch: Option<u16>,
    /// The content that was read last ended inside of a message of the protocol that it carries.
    pub(super) inside_message: bool,
    /// The next context is to begin at a record that begins with a message: the last one began inside of a message and does not do what
    /// `inside` asks for, or the NIC has refused to do it.
    pub(super) awaits_message: bool,
    /// Questions of the NIC's that are not answered.
    pub(super) questions: u32,
}

/// Former transmit contexts of a session that wait for acknowledgments at most.
pub(super) const MAX_FORMER_CONTEXTS: usize = 4;

impl Session {
    /// Changes what the NIC does, from the next record of each direction on.
    pub fn set_offload(&mut self, asked: Offload, receive_start: SeqNum, out: &mut Outgoing<'_>) {
        self.asked = asked;
        match (asked.transmit(), self.tx.context) {
            (true, None) => self.begin_transmit(out),
            (false, Some(_)) => self.leave_transmit(out.send.end(), out.counters),
            _ => {}
        }
        match (asked.receive(), self.rx.context) {
            (true, None) => self.begin_receive(receive_start, out.driver, out.counters),
            (false, Some(_)) => self.leave_receive(out.driver, out.counters),
            _ => {}
        }
    }

    /// Asks the NIC to encrypt from the end of the send queue on. While too many former contexts wait for acknowledgments software encrypts, else
    /// a peer that acknowledges nothing and asks for new keys again and again would use up the NIC's.
    pub fn begin_transmit(&mut self, out: &mut Outgoing<'_>) {
        self.awaits_context = self.tx.former() >= MAX_FORMER_CONTEXTS;
        if self.awaits_context {
            return;
        }
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
        self.tx.context = created;
    }

    /// From the next record on, which begins with a message of the protocol inside, the context that encrypts is to do that one's part too.
    pub fn transmit_inside(&mut self, inside: Layers, out: &mut Outgoing<'_>) {
        self.inside_transmit = Some(inside);
        if self.tx.context.is_some() {
            self.leave_transmit(out.send.end(), out.counters);
            self.begin_transmit(out);
        }
    }

    /// Whether the NIC does the part of the protocol inside for what is written now.
    pub fn transforms_inside(&self) -> bool {
        self.tx.context.is_some() && self.inside_transmit.is_some()
    }

    /// Encrypts in software from `end` on. The context stays until its records are acknowledged.
    pub fn leave_transmit(&mut self, end: SeqNum, counters: &mut Counters) {
        if self.tx.leave(end) {
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
        let is_aligned = !self.rx.inside_message && !self.has_content();
        self.rx.awaits_message = self.rx.inside.is_some() && !is_aligned;
        let layers = match self.rx.inside.as_ref().filter(|_| is_aligned) {
            Some(inside) => inside.inside(&crypto),
            None => Layers::of(&crypto),
        };
        let tag = self.reader.begin_context();
        self.rx.context = driver.l5o_create(
            self.id,
            Direction::Receive,
            self.flow.reversed(),
            tcpsn,
            layers,
            Some(tag),
        );
        match self.rx.context {
            Some(_) => {
                self.rx.epoch = Some(tag.epoch);
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
        if self.version() == Version::Tls12 {
            return;
        }
        self.rx.inside = Some(inside);
        if self.rx.context.is_some() {
            self.leave_receive(out.driver, out.counters);
            self.begin_receive(next, out.driver, out.counters);
        }
    }

    /// Records carry no other protocol any more from the one at `next` on: the context that did that one's part too is given up.
    pub fn receive_nothing_inside(&mut self, next: SeqNum, out: &mut Outgoing<'_>) {
        if self.rx.inside.take().is_some() && self.rx.context.is_some() {
            self.leave_receive(out.driver, out.counters);
            self.begin_receive(next, out.driver, out.counters);
        }
    }

    /// The receive context that does the part of the protocol inside.
    pub fn context_inside(&self) -> Option<ContextId> {
        let is_used = self.rx.inside.is_some() && !self.rx.awaits_message;
        self.rx.context.filter(|_| is_used)
    }

    /// Decrypts in software from now on, but for what the NIC has decrypted already.
    pub(super) fn leave_receive(&mut self, driver: &mut Driver, counters: &mut Counters) {
        if let Some(context) = self.rx.context.take() {
            driver.l5o_destroy(context);
            // The next context is to get answers to its own questions only.
            self.rx.questions = 0;
            self.reader.forget_resync_requests();
            counters.tls_curr_rx_device -= 1;
            counters.tls_curr_rx_sw += 1;
        }
    }

    /// Hands on what the reader has found out.
    #[inline]
    pub(super) fn answer_resyncs(&mut self, driver: &mut Driver) {
        while self.rx.questions > 0
            && let Some(ResyncAnswer {
                tcpsn,
                confirmed,
                index,
                epoch,
            }) = self.reader.poll_resync_answer()
        {
            self.rx.questions -= 1;
            let Some(context) = self.rx.context else {
                continue;
            };
            let usable = confirmed && epoch == self.reader.epoch();
            let place = Place { tcpsn, inner: None };
            driver.l5o_resync_rx_resp(context, place, usable.then_some(index));
        }
    }
}

impl layer5::Session for Session {
    fn l5o_get_tx_msgstate(&self, position: SeqNum) -> Option<MsgState> {
        self.writer.message_state(position)
    }

    #[inline]
    fn acknowledged(&mut self, una: SeqNum, driver: &mut Driver) -> SeqNum {
        if self.writer.is_empty() && !self.tx.has_former() {
            return una;
        }
        let point = self.writer.release_point(una);
        self.writer.acknowledged(una);
        self.tx.acknowledged(una, driver);
        point
    }

    fn contexts(&self) -> [Option<ContextId>; 2] {
        [self.tx.context, self.rx.context]
    }

    fn transmit_contexts(&self, each: &mut dyn FnMut(ContextId)) {
        self.tx.for_each(each);
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
        self.rx.questions += 1;
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
        if self.tx.context == Some(context) {
            self.leave_transmit(end, counters);
        } else if self.rx.context == Some(context) {
            let is_lost = driver
                .contexts()
                .get(context)
                .is_none_or(|shadow| shadow.lost);
            let asked_for_more = self.context_inside().is_some();
            self.leave_receive(driver, counters);
            if asked_for_more {
                // TLS alone asks less of the NIC.
                self.rx.inside = None;
                self.rx.awaits_message = !is_lost;
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
        self.tx.dismantle(driver);
        counters.tls_curr_tx_sw -= 1;
        counters.tls_curr_rx_sw -= 1;
    }
}
