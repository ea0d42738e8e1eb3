//! Key updates (RFC 8446 §4.6.3), and what they mean for the NIC's contexts.

use l5p::tls::{ContentType, CryptoInfo, KeyUpdate};
use wire::SeqNum;

use super::session::Session;
use crate::CloseReason;
use crate::layer5::Outgoing;

impl Session {
    /// Whether this session can make new keys.
    pub fn can_rekey(&self) -> bool {
        self.post_handshake.is_some() && self.version() == l5p::tls::Version::Tls13
    }

    /// Sends a KeyUpdate as the last record under the old keys; the next record begins a context of its own. The former
    /// one stays until its records are acknowledged, so that they stay retransmittable.
    pub fn rekey_transmit(
        &mut self,
        request_peer: bool,
        out: &mut Outgoing<'_>,
    ) -> Result<(), CloseReason> {
        let Some(post_handshake) = &mut self.post_handshake else {
            return Ok(());
        };
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
        self.stats.key_updates += 1;
        out.counters.tls_tx_rekey_ok += 1;
        Ok(())
    }

    /// RFC 8446 §5.5: a key must not be used for too many records.
    #[inline]
    pub(super) fn update_worn_key(&mut self, out: &mut Outgoing<'_>) {
        if self.writer.key_update_due() && self.can_rekey() && self.failed.is_none() {
            self.failed = self.rekey_transmit(false, out).err();
        }
    }

    /// Takes the peer's new keys, from the record at `next` on.
    pub(super) fn rekey_receive(&mut self, keys: CryptoInfo, next: SeqNum, out: &mut Outgoing<'_>) {
        out.counters.tls_rx_rekey_received += 1;
        self.leave_receive(out.driver, out.counters);
        self.reader.rekey(keys);
        if self.asked.receive() {
            self.begin_receive(next, out.driver, out.counters);
        }
        self.stats.key_updates += 1;
        out.counters.tls_rx_rekey_ok += 1;
    }
}
