//! Key updates (RFC 8446 §4.6.3), and what they mean for the NIC's contexts.

use l5p::tls::{ContentType, CryptoInfo, KeyUpdate};
use wire::SeqNum;

use super::session::Session;
use crate::CloseReason;
use crate::driver::Ticket;
use crate::layer5::{Outgoing, Refused};
use crate::stream::Stream;

/// Bytes of a KeyUpdate message.
const KEY_UPDATE_LEN: usize = 5;

impl Session {
    /// Whether this session can make new keys.
    pub fn can_rekey(&self) -> bool {
        self.post_handshake.is_some() && self.version() == l5p::tls::Version::Tls13
    }

    /// Sends a KeyUpdate as the last record under the old keys; the next record begins a context of its own. The former
    /// one stays until its records are acknowledged, so that they stay retransmittable. Does nothing once the end of what is sent is queued:
    /// nothing follows close_notify (RFC 8446 §6.1).
    ///
    /// # Errors
    /// No keys could be made, or no memory was left for the record: the connection must end.
    pub fn rekey_transmit(
        &mut self,
        request_peer: bool,
        out: &mut Outgoing<'_>,
    ) -> Result<(), CloseReason> {
        let Some(post_handshake) = &mut self.post_handshake else {
            return Ok(());
        };
        if out.tcp.is_fin_queued() {
            return Ok(());
        }
        let KeyUpdate { message, keys } = match post_handshake.key_update(request_peer) {
            Ok(update) => update,
            Err(error) => {
                out.counters.tls_tx_rekey_error += 1;
                return Err(CloseReason::Device(format!(
                    "no new TLS keys could be made: {error}"
                )));
            }
        };
        if self
            .write_record(ContentType::HANDSHAKE, &message, out)
            .is_err()
        {
            // The keys have moved on and the peer does not know: it could not read what followed.
            out.counters.tls_tx_rekey_error += 1;
            return Err(CloseReason::Device(
                "no memory was left for a TLS key update".into(),
            ));
        }
        self.leave_transmit(out.send.end(), out.counters);
        self.writer.rekey(keys);
        if self.asked.transmit() {
            self.begin_transmit(out);
        }
        self.peer.awaits_update = false;
        self.stats.key_updates += 1;
        out.counters.tls_tx_rekey_ok += 1;
        Ok(())
    }

    /// To be called before application data is framed. Changes the key if the peer has asked for that (RFC 8446 §4.6.3), however often, or if
    /// the key has been used for enough records (§5.5); asks for the context that the present key has had to wait for.
    ///
    /// # Errors
    /// There is no memory for the update, which no application data may go before.
    #[inline]
    pub fn prepare_keys(&mut self, out: &mut Outgoing<'_>) -> Result<(), Refused> {
        let is_due = self.peer.awaits_update || self.writer.key_update_due();
        if is_due && self.can_rekey() && self.failed.is_none() {
            let record = self.writer.record_len(KEY_UPDATE_LEN) as u64;
            if !out.driver.has_memory_for(record) {
                return Err(Refused::NoMemory);
            }
            self.failed = self.rekey_transmit(false, out).err();
        } else if self.awaits_context && self.asked.transmit() {
            self.begin_transmit(out);
        }
        Ok(())
    }

    /// Takes the peer's new keys, from the record at `next` on.
    pub(super) fn rekey_receive(&mut self, keys: CryptoInfo, next: SeqNum, out: &mut Outgoing<'_>) {
        out.counters.tls_rx_rekey_received += 1;
        self.leave_receive(out.driver, out.counters);
        let epoch = self.reader.epoch();
        self.reader.rekey(keys);
        if self.rx.epoch == Some(epoch) {
            self.replaced_keys.push_back(ReplacedKeys {
                epoch,
                context_gone: out.driver.ticket(),
                end: None,
            });
        } else {
            self.reader.forget_epoch(epoch);
        }
        if self.asked.receive() {
            self.begin_receive(next, out.driver, out.counters);
        }
        self.stats.key_updates += 1;
        out.counters.tls_rx_rekey_ok += 1;
    }

    /// Forgets the keys under which the NIC has decrypted nothing that is still to be read. Asks for a context if that had to wait for it.
    pub(super) fn forget_replaced_keys(&mut self, stream: &Stream, out: &mut Outgoing<'_>) {
        let next = self.next_record(stream);
        let waited = self.replaced_keys.len() >= MAX_REPLACED_KEYS;
        for keys in &mut self.replaced_keys {
            if keys.end.is_none() && out.driver.is_settled(&mut keys.context_gone) {
                keys.end = Some(stream.highest_end());
            }
        }
        while let Some(keys) = self.replaced_keys.front()
            && keys.end.is_some_and(|end| end.at_or_before(next))
        {
            self.reader.forget_epoch(keys.epoch);
            self.replaced_keys.pop_front();
        }
        if waited && self.asked.receive() && self.rx.context.is_none() {
            self.begin_receive(next, out.driver, out.counters);
        }
    }
}

/// Keys of received records that were replaced while a context of the NIC had them. The NIC goes on under them until it has come to the end of its context.
#[derive(Debug)]
pub(super) struct ReplacedKeys {
    epoch: u16,
    /// Settled when nothing more comes that was decrypted under them.
    context_gone: Ticket,
    /// Then: the end of what may have been.
    end: Option<SeqNum>,
}

/// Replaced keys that are kept while the NIC opens records under the present ones. Of a peer that changes its keys more often within a
/// window, records are opened in software until those are read.
pub(super) const MAX_REPLACED_KEYS: usize = 4;
